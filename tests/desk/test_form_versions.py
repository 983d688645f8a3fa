"""Forms that people write: read and checked, filled in, kept with every version, exported."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_forms import TONE
from stores import Clock
from working import Desk

from rookery.desk import adjudication, form_versions, labelling_queue, snapshots
from rookery.desk.form_parsing import encode_form, parse_form
from rookery.desk.form_versions import add_form, list_form_versions, list_forms, load_form
from rookery.desk.forms import (
    FORMS,
    PACKAGED_FORM_NAMES,
    GoldLabels,
    Judgement,
    LabellingItem,
    parse_form_text,
    read_packaged_form_text,
)
from rookery.desk.item_import import find_item_problems
from rookery.desk.judgement_conversion import format_justification
from rookery.desk.rater_quality import build_quality_report
from rookery.desk.snapshots import SnapshotSelection
from rookery.desk.store import Store
from rookery.errors import Failed
from rookery.records import Answer, Page, Question, digest_of

FIRST_DIGESTS = {
    "demonstrate": "c50a43b8689b103939e63345e67a8e86",
    "compare": "7d66895d8c071e9905b30ba67fb3c90a",
    "compare_short": "5fadabb9c06184dc4552aa59c7844020",
    "supported": "39bfc12b8427b6f3d87ab367db51c46d",
    "best_of_four": "ac96b82fba2cfd6f018d1c81bf85af9e",
    "criteria": "ab4e1f80eae65df6d63c68e8bc457443",
    "thumbs": "b140b5d0f20757e4c80e72095b7056cc",
    "truthful": "f49f8359256fa0bb48242577a92a8830",
    "survey": "2a3d75947dc1cba3a0d801cc05190285",
}
"""of the forms that version 0.1 had in its code, which stored judgements name"""
FORM = parse_form_text(TONE)
SKY = Page("https://example.org/sky", "The sky", "Air scatters blue light. Dust is red.")
ITEM = LabellingItem(
    "tone",
    Question("sky", "Why is the sky blue?"),
    (Answer("Air scatters blue.", (SKY.quote(0, 24),)), Answer("Nobody knows that.")),
)


def changed(old: str, new: str) -> str:
    assert old in TONE, old
    return TONE.replace(old, new)


# The files


def test_the_papers_forms_are_files_and_the_questions_that_they_were() -> None:
    # Since then the comment of one has a minimum, so that judgements on it name a new version.
    plain = parse_form_text(read_packaged_form_text("supported").replace("min_words = 7", ""))
    now = {**FORMS, "supported": plain}
    assert {name: now[name].digest for name in FIRST_DIGESTS} == FIRST_DIGESTS
    assert set(now) - set(FIRST_DIGESTS) == {"best_summary", "most_positive", "most_descriptive"}
    assert FORMS["supported"].digest != plain.digest
    for name in PACKAGED_FORM_NAMES:
        assert parse_form_text(read_packaged_form_text(name)).name == name


def test_a_copy_of_every_paper_s_form_is_a_form_under_another_name() -> None:
    for name, form in FORMS.items():
        text = read_packaged_form_text(name).replace(f'name = "{name}"', 'name = "mine"', 1)
        assert parse_form_text(text).steps == form.steps


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[questions.better]", "[questions.better", "The form: this is no TOML, "),
        (
            "minutes = 3",
            'minutes = "three"',
            "The form: `minutes` must be a whole number, and is text: the manual says",
        ),
        ("minutes = 3", "minuets = 3", "The form: the field `minuets` is unknown"),
        ("minutes = 3", "", "The form: the field `minutes` is missing"),
        ("minutes = 3", "minutes = 0", '"minutes" is 0: give 1 to 600.'),
        ('name = "tone"', 'name = "Tone"', 'the name "Tone" is to have small letters'),
        ('name = "tone"', 'name = "page"', 'the name "page" is taken'),
        ("answers = 2", "answers = 12", '"answers" is 12: give 0 to 9.'),
        ("answers = 2", "answers = 1", "a comparison is between 2 answers, and the form has 1."),
        ("answers = 2", "answers = 0", "it is asked for each answer, and the form has 0 answers."),
        (
            'decides = "better"',
            'decides = "beter"',
            '"decides" names no question "beter": name a versus or pick question.',
        ),
        ('decides = "better"', 'decides = "sure"', '"sure" cannot decide'),
        ('"marks"]', '"mark"]', 'there is no question "mark": write a table [questions.mark]'),
        ('"why_not", "marks"', '"why_not"', 'Question "marks": no step asks it'),
        ('name = "both"', 'name = "each"', 'Step "each": two steps have this name'),
        ('name = "both"', 'name = "both"\nanswer = 3', '"answer" is 3, and there are 2: give 1'),
        ('title = "Compare them"', 'title = ""', 'Step "both": its title is empty'),
        (
            'questions = ["better"',
            'questions = ["marks", "better"',
            'Question "marks": the steps "each" and "both" are on one page and both ask it about '
            "the same answer: ask it in one of them, or make minutes 5 or more.",
        ),
        ('kind = "versus"', 'kind = "verses"', 'Question "better": the value cannot be'),
        ('kind = "versus"', 'kind = "pick"\nper = "answer"', "pick is asked once for all answers"),
        (
            'levels = ["Not at all", "Somewhat", "Very"]',
            'choices = "many"',
            'there are no choices "many"',
        ),
        ('levels = ["Not at all", "Somewhat", "Very"]', "", "it needs choices, two or more."),
        ('key = "g"', 'key = "s"', 'two choices have the key "s": change one.'),
        ('key = "g"', 'key = "gg"', 'the key "gg" is no single letter or digit.'),
        ('key = "g"', "score = 2", "the score 2 is not from 0 to 1."),
        (
            'key = "g"',
            'kye = "g"',
            'Question "sure": the field `kye` is unknown (in `choices[1]`)',
        ),
        ('key = "g" },\n]', 'key = "g" },\n]\nscale = "sure"', "leave out scale, or give per"),
        ("min_words = 5", "min_words = -1", "min_words is -1: give 0 to 200."),
        ('question = "better"', 'question = "comment"', '"comment", which is no earlier question'),
        ('question = "sure"', 'question = "marks"', 'depends on "marks", whose parts are many'),
        ('question = "sure"', 'question = "friendly"', "which is asked for each answer"),
        ('is = ["guess"]', 'is = ["guesses"]', 'it can be "sure", "guess".'),
        ('is = ["better", "much_better"]', 'is = ["1"]', '"equal", "better", "much_better".'),
        (
            "shown_when = { question",
            "shown_when = { quesion",
            'Question "why_not": the field `quesion` is unknown (in `shown_when`)',
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(
    old: str, new: str, sentence: str
) -> None:
    with pytest.raises(Failed) as failed:
        parse_form_text(changed(old, new))
    assert failed.value.failure.outcome == "bad_form"
    assert sentence in failed.value.failure.detail


def test_marks_may_be_asked_again_on_another_page_or_of_another_answer() -> None:
    again = changed('questions = ["better"', 'questions = ["marks", "better"')
    assert parse_form_text(again.replace("minutes = 3", "minutes = 5"))
    one, other = ('title = "Judge each answer"', 'title = "Compare them"')
    apart = again.replace(one, f"{one}\nanswer = 1").replace(other, f"{other}\nanswer = 2")
    assert parse_form_text(apart)


@given(st.data())
def test_any_file_is_a_form_or_refused_in_one_sentence(data: st.DataObject) -> None:
    lines = TONE.splitlines()
    left = data.draw(st.lists(st.sampled_from(range(len(lines))), max_size=4))
    text = "\n".join(line for number, line in enumerate(lines) if number not in left)
    spot = data.draw(st.integers(0, len(text)))
    text = (
        text[:spot] + data.draw(st.sampled_from(["", "x", '"', "[", "1", "=", "{}"])) + text[spot:]
    )
    refused = None
    try:
        parse_form_text(text)
    except Failed as failed:
        refused = failed.failure
    if refused is not None:
        assert refused.outcome == "bad_form"
        assert refused.detail[0].isupper()
        assert refused.detail.endswith(".")


# Filling in


def posted(order: tuple[int, int] = (0, 1), **values: str) -> tuple[dict[str, object], list[str]]:
    raw = {name.replace("__", "."): [value] for name, value in values.items()}
    found = parse_form(FORM, ITEM, order, raw, whole=False)
    return found.filled, [problem.sentence for problem in found.problems]


def test_a_question_is_asked_only_where_its_condition_holds_for_the_same_answer() -> None:
    filled, problems = posted(friendly__0="0", friendly__1="2", why_not__1="never shown")
    assert problems == [
        "Not filled in yet: What is not friendly about it? (answer A).",
        "Not filled in yet: Which is better for a child?",
    ]
    assert filled == {"friendly": ["0", "2"]}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_condition_on_a_comparison_holds_whichever_answer_is_better(
    order: tuple[int, int],
) -> None:
    for point in ("-2", "-1", "1", "2"):
        filled, _ = posted(order, better=point, sure="sure")
        assert filled["sure"] == "sure"
    filled, _ = posted(order, better="0", sure="sure")
    assert "sure" not in filled


def test_a_comment_can_be_needed_in_some_cases_and_have_a_minimum() -> None:
    rest: Any = {"friendly__0": "1", "friendly__1": "1", "better": "1"}
    assert posted(**rest, sure="sure")[1] == []
    assert posted(**rest, sure="guess")[1] == ["Not filled in yet: Comment."]
    few = posted(**rest, sure="sure", comment="Both are the\nsame")
    assert few[1] == ["At least 5 words, and these are 4: Comment."]
    assert few[0]["comment"] == "Both are the\nsame"  # a draft loses nothing
    # What depends on a question that is not shown itself is not needed.
    assert posted(**rest | {"better": "0"}, sure="guess")[1] == []


def test_marked_spans_are_stored_and_read_again_in_any_order() -> None:
    spans = [
        {"answer": 0, "start": 4, "end": 12, "label": "rare"},
        {"answer": 1, "start": 0, "end": 6, "label": "foreign"},
    ]
    for order in ((0, 1), (1, 0)):
        raw = encode_form(FORM, ITEM, order, {"marks": spans})
        assert parse_form(FORM, ITEM, order, raw, whole=False).filled == {"marks": spans}
    wrong = {"marks.0.answer": ["0"], "marks.0.start": ["0"], "marks.0.end": ["3"]}
    found = parse_form(FORM, ITEM, (0, 1), wrong | {"marks.0.label": ["rude"]}, whole=False)
    assert "marks" not in found.filled
    said = [each.sentence for each in found.problems]
    assert "Not one of the choices: label of “Air”. Choose again." in said


def test_right_answers_may_name_a_question_that_is_shown_only_sometimes() -> None:
    gold = GoldLabels({"sure": "guess", "friendly": ["0", None]})
    item = LabellingItem("tone", ITEM.question, ITEM.answers, gold=gold)
    assert find_item_problems(item, {"tone": FORM}) == []


# Versions


def hand_in(store: Store, person: str, item: str, filled: dict[str, object]) -> Judgement:
    """Judges an item on the newest version of its form."""
    form = load_form(store, "tone")
    order = labelling_queue.shuffle_answers(item, person, form.answers)
    key = digest_of(f"{item} {person}")
    made = Judgement(key, item, person, "done", filled, form.digest, 1, order, False, 1.0, 90.0)
    labelling_queue.restore_judgements(store, [made])
    return made


def lay(store: Store, count: int) -> list[str]:
    items = [
        LabellingItem("tone", Question(f"q{n}", f"Why {n}?"), ITEM.answers) for n in range(count)
    ]
    labelling_queue.add_items(store, items, "first", 9)
    return [digest_of(f"first\n{each.to_json()}") for each in items]


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    desk = Desk(store, clock)
    desk.hire("ada", "bob")
    return desk


def refused(store: Store, text: str) -> tuple[str, str]:
    with pytest.raises(Failed) as failed:
        add_form(store, text, "lea")
    return failed.value.failure.outcome, failed.value.failure.detail


def test_a_changed_form_is_a_version_and_the_earlier_ones_stay(store: Store) -> None:
    first = add_form(store, TONE, "lea")
    assert add_form(store, TONE, "max").version == 1
    second = add_form(store, changed("Is it friendly?", "Is it kind?"), "max")
    assert (first.version, second.version, second.by) == (1, 2, "max")
    assert [each.text for each in list_form_versions(store, "tone")] == [second.text, TONE]
    assert load_form(store, "tone") == second.form
    assert load_form(store, "tone", first.form.digest) == first.form
    assert [form.name for form in list_forms(store)] == [*FORMS, "tone"]


def test_a_file_with_problems_or_the_name_of_a_paper_s_form_is_not_stored(store: Store) -> None:
    assert refused(store, changed("minutes = 3", ""))[0] == "bad_form"
    assert refused(store, read_packaged_form_text("thumbs"))[0] == "taken"
    assert list_form_versions(store, "tone") == []
    with pytest.raises(Failed, match="no such form"):
        load_form(store, "tone")


def test_a_version_that_waiting_items_would_not_suit_is_refused(store: Store) -> None:
    add_form(store, TONE, "lea")
    lay(store, 1)
    gold = GoldLabels({"sure": "guess"})
    known = LabellingItem("tone", Question("g", "Why?"), ITEM.answers, gold=gold)
    labelling_queue.add_items(store, [known], "first", 1)
    single = changed("answers = 2", "answers = 1").replace('kind = "versus"', 'kind = "text"')
    single = single.replace('decides = "better"', "")
    outcome, detail = refused(store, single.replace(', is = ["better", "much_better"]', ""))
    assert outcome == "in_use"
    assert "2 items have the 2 answers of the version before, and this one has 1" in detail
    outcome, detail = refused(
        store,
        changed('value = "guess"', 'value = "perhaps"').replace(
            'is = ["guess"]', 'is = ["perhaps"]'
        ),
    )
    assert outcome == "in_use"
    assert 'its gold expects "sure"' in detail


def test_the_guide_in_a_form_s_file_is_its_guide_until_people_write_their_own(
    store: Store,
) -> None:
    add_form(store, TONE, "lea")
    assert form_versions.load_guide(store, "tone").text == "# Tone\n\nJudge only how it is said.\n"
    add_form(store, changed("how it is said", "the tone"), "lea")
    assert form_versions.load_guide(store, "tone").version == 2
    form_versions.write_guide(store, "tone", "Ours.", "lea")
    add_form(store, changed("how it is said", "the words"), "lea")
    assert form_versions.load_guide(store, "tone").text == "Ours.\n"


def test_agreement_on_own_scales_compares_only_judgements_on_the_same_choices(
    desk: Desk,
) -> None:
    store = desk.store
    add_form(store, TONE, "lea")
    items = lay(store, 8)
    for number, item in enumerate(items[:5]):
        hand_in(store, "ada", item, {"friendly": [str(number % 3), "2"], "better": number % 2})
        hand_in(store, "bob", item, {"friendly": [str(number % 3), "1"], "better": number % 2})
    # A scale of other levels cannot be compared with the first.
    longer = TONE.replace('["Not at all", "Somewhat", "Very"]', '["Not", "A bit", "Much", "Very"]')
    add_form(store, longer, "lea")
    hand_in(store, "ada", items[5], {"friendly": ["3", "3"], "better": 1})
    hand_in(store, "bob", items[5], {"friendly": ["3", "0"], "better": -1})
    report = build_quality_report(store)
    found = {(each.field, each.variant): each for each in report.alphas}
    assert set(found) == {("friendly", 1), ("friendly", 2), ("better", 1)}
    assert {key: each.judgements for key, each in found.items()} == {
        ("friendly", 1): 20,
        ("friendly", 2): 4,
        ("better", 1): 12,
    }
    assert found["friendly", 1].level == "ordinal"
    assert found["friendly", 1].alpha.low is not None
    kappa = {(each.field, each.variant): each.kappa for each in report.kappas}
    assert set(kappa) == {("friendly", 1)}  # the others have fewer than ten values in common
    # 5 of 10 alike. Of 0, 1 and 2 Ada said 2, 2 and 6, and Bob 2, 7 and 1.
    expected = (2 * 2 + 2 * 7 + 6 * 1) / 100
    assert kappa["friendly", 1].value == pytest.approx((0.5 - expected) / (1 - expected))
    assert [(each.one, each.other) for each in report.kappas] == [("ada", "bob")]
    assert [(each.one, each.other) for each in report.pairs] == [("ada", "bob")]
    with store.begin_read() as connection:
        data = adjudication.load_labelling_data(connection)
        labels = list(adjudication.derive_majority_labels(data))
    assert {each.field for each in labels} == {"friendly", "better"}


def test_labels_in_another_order_or_other_words_are_not_compared(desk: Desk) -> None:
    store, text = desk.store, changed('decides = "better"', "")
    desk.hire("cem", "dan")
    add_form(store, text, "lea")
    items = lay(store, 6)
    for item in items:
        hand_in(store, "ada", item, {"friendly": ["2", "0"], "better": 1})
    # The same opinion after the scale was turned round.
    turned = text.replace(
        '["Not at all", "Somewhat", "Very"]', '["Very", "Somewhat", "Not at all"]'
    )
    add_form(store, turned, "lea")
    for item in items:
        hand_in(store, "bob", item, {"friendly": ["0", "2"], "better": 1})
    add_form(store, text.replace('"Very"]', '"Mostly"]'), "lea")
    hand_in(store, "cem", items[0], {"friendly": ["1", "0"], "better": 1})
    assert adjudication.load_disagreements(store) == []
    alphas = build_quality_report(store).alphas
    assert {(each.field, each.variant): each.judgements for each in alphas} == {
        ("friendly", 1): 12,
        ("friendly", 2): 12,
        ("friendly", 3): 2,
        ("better", 1): 13,
    }
    hand_in(store, "dan", items[0], {"friendly": ["1", "1"], "better": 1})
    [dispute] = adjudication.load_disagreements(store)
    assert (dispute.placed.id, dispute.fields) == (items[0], ("friendly",))


def test_choices_of_one_score_are_different_labels(desk: Desk, tmp_path: Path) -> None:
    scored = """choices = [
  { value = "yes", label = "Yes", score = 1 },
  { value = "very", label = "Very", score = 1 },
  { value = "no", label = "No", score = 0 },
]"""
    text = changed('levels = ["Not at all", "Somewhat", "Very"]', scored)
    text = text.replace('is = ["0"]', 'is = ["no"]').replace('decides = "better"', "")
    add_form(desk.store, text, "lea")
    items = lay(desk.store, 2)
    hand_in(desk.store, "ada", items[0], {"friendly": ["yes", "no"]})
    hand_in(desk.store, "bob", items[0], {"friendly": ["very", "no"]})
    for person in ("ada", "bob"):
        hand_in(desk.store, person, items[1], {"friendly": ["yes", "yes"]})
    [dispute] = adjudication.load_disagreements(desk.store)
    assert (dispute.placed.id, dispute.fields) == (items[0], ("friendly",))
    [alpha] = build_quality_report(desk.store).alphas
    assert alpha.level == "nominal"
    with desk.store.begin_read() as connection:
        data = adjudication.load_labelling_data(connection)
        labels = list(adjudication.derive_majority_labels(data))
    assert [(each.votes, each.tied) for each in labels] == [
        ((("yes", 1), ("very", 1)), True),
        ((("no", 2),), False),
        ((("yes", 2),), False),
        ((("yes", 2),), False),
    ]
    snapshots.freeze_snapshot(desk.store, "s", SnapshotSelection(), "lea")
    snapshots.export_snapshot(desk.store, "s", tmp_path / "out")
    ratings = (tmp_path / "out" / "ratings.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["value"] for line in ratings] == [1, 0, 1, 0, 1, 1, 1, 1]


def test_preferences_are_compared_whatever_the_points_were_called(desk: Desk) -> None:
    add_form(desk.store, TONE, "lea")
    [item] = lay(desk.store, 1)
    hand_in(desk.store, "ada", item, {"better": 1})
    levels = 'kind = "versus"\nlevels = ["A, by far", "A", "Neither", "B", "B, by far"]'
    add_form(desk.store, changed('kind = "versus"', levels), "lea")
    hand_in(desk.store, "bob", item, {"better": -1})
    [dispute] = adjudication.load_disagreements(desk.store)
    assert dispute.fields == ("better",)


def test_an_export_holds_the_forms_and_reads_each_judgement_with_its_version(
    desk: Desk, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    store = desk.store
    first = add_form(store, TONE, "lea")
    items = lay(store, 2)
    span = {"answer": 1, "start": 0, "end": 6, "label": "rare"}
    hand_in(store, "ada", items[0], {"friendly": ["0", "2"], "better": -2, "marks": [span]})
    hand_in(store, "bob", items[0], {"comment": "=1+1 is what it says"})
    add_form(store, changed('"Somewhat"', '"So so", "Rather"'), "lea")
    hand_in(store, "ada", items[1], {"friendly": ["2", "3"], "better": 1})
    snapshots.freeze_snapshot(store, "s", SnapshotSelection(), "lea")
    add_form(store, changed("Is it friendly?", "Is it kind?"), "lea")  # is no part of it
    out = tmp_path / "out"
    exported = snapshots.export_snapshot(store, "s", out, table=True)
    assert exported.files["forms.jsonl"].lines == 2
    assert exported.files["comparisons.jsonl"].lines == 2
    ratings = (out / "ratings.jsonl").read_text(encoding="utf-8").splitlines()
    assert [float(line.partition('"value":')[2].partition(",")[0]) for line in ratings] == [
        pytest.approx(one)
        for one in (0, 1, 2 / 3, 1)  # of three levels, then of four
    ]
    rows = list(csv.DictReader(io.StringIO((out / "values.csv").read_text(encoding="utf-8"))))
    told = [(row["person"], row["field"], row["answer"], row["value"]) for row in rows]
    assert told == [
        ("ada", "friendly", "1", "0"),
        ("ada", "friendly", "2", "2"),
        ("ada", "marks", "2", "rare"),
        ("ada", "better", "", "-2"),
        ("bob", "comment", "", "'=1+1 is what it says"),
        ("ada", "friendly", "1", "2"),
        ("ada", "friendly", "2", "3"),
        ("ada", "better", "", "1"),
    ]
    assert [row["value_label"] for row in rows if row["field"] == "friendly"] == [
        "Not at all",
        "Very",
        "Rather",
        "Very",
    ]
    assert rows[0]["form_version"] == first.form.digest

    with Store(fresh("sqlite")) as other:
        assert snapshots.import_snapshot(other, out).judgements == 3
        assert [each.version for each in list_form_versions(other, "tone")] == [2, 1]
        again = snapshots.export_snapshot(other, "s", tmp_path / "again")
        same = {name for name in again.files if again.files[name] == exported.files[name]}
        assert same >= exported.files.keys() - {"people.jsonl"}
        add_form(other, changed("Is it friendly?", "Is it sweet?"), "lea")
    with Store(fresh("sqlite")) as other:
        add_form(other, changed("Is it friendly?", "Is it sweet?"), "lea")
        with pytest.raises(Failed, match="another form here has this name"):
            snapshots.import_snapshot(other, out)


# Justifications


def test_a_justification_names_the_answers_as_the_person_saw_them() -> None:
    gold = GoldLabels({"better": 1}, "Answer {2} says why, and {1} does not. {3} is no mark.")
    item = LabellingItem("tone", ITEM.question, ITEM.answers, gold=gold)
    assert format_justification(FORM, item, (0, 1)).startswith("Answer B says why, and A does")
    assert format_justification(FORM, item, (1, 0)).startswith("Answer A says why, and B does")
    assert find_item_problems(item, {"tone": FORM}) == [
        "its justification has {3}, and tone takes 2 answers"
    ]
    named = LabellingItem(
        "tone", ITEM.question, ITEM.answers, gold=GoldLabels({"better": 1}, "See answer B.")
    )
    [problem] = find_item_problems(named, {"tone": FORM})
    assert problem.startswith('its justification says "answer B", but')


def test_disagreements_and_feedback_know_own_forms_and_their_versions(desk: Desk) -> None:
    store = desk.store
    desk.hire("rita", role="reviewer")
    add_form(store, TONE, "lea")
    items = lay(store, 6)
    for item in items:
        hand_in(store, "ada", item, {"friendly": ["0", "2"], "better": -2})
    add_form(store, changed('"Somewhat"', '"A bit"'), "lea")
    for number, item in enumerate(items):
        hand_in(store, "bob", item, {"friendly": ["0", "1"], "better": 1 if number else -1})
    with store.begin_read() as connection:
        data = adjudication.load_labelling_data(connection)
    disputes = adjudication.find_disagreements(data)
    assert [each.placed.id for each in disputes] == items[1:]  # much better and better are alike
    assert disputes[0].fields == ("better",)  # another scale of friendliness is not compared
    filled = {"friendly": ["0", "0"], "better": 1}
    decided = adjudication.decide_item(store, items[1], "rita", filled, "It is curt.")
    assert decided.form_version == load_form(store, "tone").digest
