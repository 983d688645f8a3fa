"""Forms: what they ask, and what must be filled in."""

import msgspec
import pytest
from formed import item

from rookery.desk.form_parsing import get_answer_label, list_form_inputs, parse_form
from rookery.desk.forms import FLAG_REASONS, FORMS, SKIP_REASONS, LabellingForm

COMPARE = FORMS["compare"]
MISSING = "Not filled in yet"
EVERY = [pytest.param(form, id=name) for name, form in FORMS.items()]


def missing(form: LabellingForm, raw: dict[str, str], whole: bool) -> list[str]:
    of = item(form.name)
    listed = {name: [value] for name, value in raw.items()}
    found = parse_form(form, of, range(len(of.answers)), listed, whole)
    assert all(problem.sentence.startswith(MISSING) for problem in found.problems), found.problems
    return [problem.field for problem in found.problems]


def test_the_forms_of_the_papers_are_there() -> None:
    assert list(FORMS) == [
        "demonstrate",
        "compare",
        "compare_short",
        "supported",
        "best_of_four",
        "best_summary",
        "most_positive",
        "most_descriptive",
        "criteria",
        "thumbs",
        "truthful",
        "survey",
    ]


@pytest.mark.parametrize("form", EVERY)
def test_a_form_can_be_told_apart_and_filled_in(form: LabellingForm) -> None:
    names = [field.name for field in form.fields]
    assert len(names) == len(set(names))
    assert len({step.name for step in form.steps}) == len(form.steps)
    assert not form.decides or form.decides in names
    for field in form.fields:
        assert field.name.isidentifier()
        assert field.label
        for choices in (field.choices, field.support, field.relevance):
            values, keys = ([getattr(one, part) for one in choices] for part in ("value", "key"))
            assert len(set(values)) == len(values)
            assert len(set(filter(None, keys))) == len(list(filter(None, keys)))
        if field.kind == "choice":
            assert len(field.choices) >= 2
        if field.kind == "pick":  # what names a tie can be no number of an answer
            assert not any(choice.value.isdigit() for choice in field.choices)
        for score in [one.score for one in field.choices if one.score is not None]:
            assert 0 <= score <= 1


def test_the_version_of_a_form_changes_with_a_single_word_of_it() -> None:
    other = msgspec.structs.replace(COMPARE, title="Compare two answers.")
    assert COMPARE.digest == LabellingForm.from_json(COMPARE.to_json()).digest != other.digest
    assert len({form.digest for form in FORMS.values()}) == len(FORMS)


def test_the_comparison_has_seven_steps_and_asks_of_both_answers_in_turn() -> None:
    asked = [
        (
            step.answer,
            sorted({each.field.name for each in list_form_inputs(step, item("compare"), (1, 0))}),
        )
        for step in COMPARE.steps
    ]
    assert asked == [
        (None, []),
        (0, []),
        (0, []),  # the answer that is shown first is the item's second: it has no references
        (0, ["claims"]),
        (1, ["claims", "trust"]),
        (None, ["coherence", "irrelevant", "unsupported", "useful_strong", "useful_weak"]),
        (None, ["comment", "overall"]),
    ]


def test_the_criteria_are_webglm_s_eleven_with_their_levels() -> None:
    asked = {
        field.name: (field.per, [one.score for one in field.choices])
        for field in FORMS["criteria"].fields
    }
    four, two, known = [0, 1 / 3, 2 / 3, 1], [0, 1], [0, 1, None]
    assert asked == {
        "relevancy": ("quote", four),
        "density": ("quote", four),
        "reference_truthfulness": ("quote", known),
        "toxicity": ("quote", two),
        "social_bias": ("quote", two),
        "fluency": ("answer", four),
        "correctness": ("answer", four),
        "citation_accuracy": ("answer", four),
        "objectivity": ("answer", two),
        "truthfulness": ("answer", known),
        "redundancy": ("answer", two),
    }


def test_answers_are_called_by_letters_or_numbers() -> None:
    assert [get_answer_label(COMPARE, place) for place in range(2)] == ["A", "B"]
    assert [get_answer_label(FORMS["best_of_four"], place) for place in range(4)] == list("1234")


def test_whoever_gets_an_item_can_flag_or_skip_it() -> None:
    assert [one.value for one in FLAG_REASONS] == ["senseless", "should_not"]
    assert {"cannot_judge", "broken"} < {one.value for one in SKIP_REASONS}


# What must be filled in


def test_most_comparisons_need_three_ratings_and_one_in_ten_needs_all() -> None:
    always = ["unsupported", "coherence", "overall"]
    assert missing(COMPARE, {}, whole=False) == always
    # Of the references of the first answer, it cites one; the second has none.
    assert missing(COMPARE, {}, whole=True) == [
        "trust.0.0",
        "claims.answer.0",
        "claims.answer.1",
        "unsupported",
        "irrelevant",
        "useful_strong",
        "useful_weak",
        "coherence",
        "overall",
    ]
    assert missing(COMPARE, dict.fromkeys(always, "1"), whole=False) == []


def test_in_a_whole_comparison_a_claim_needs_both_its_parts() -> None:
    claim = {"claims.0.answer": "1", "claims.0.start": "0", "claims.0.end": "6"}
    said = missing(COMPARE, {**claim, "claims.0.support": "none"}, whole=True)
    assert [name for name in said if name.startswith("claims")] == [
        "claims.0.relevance",
        "claims.answer.0",
    ]


def test_a_whole_comparison_names_the_answer_whose_claims_are_missing() -> None:
    claim = {"answer": "0", "start": "0", "end": "6", "support": "weak", "relevance": "core"}
    raw = {f"claims.0.{part}": [value] for part, value in claim.items()}
    found = parse_form(COMPARE, item("compare"), (1, 0), raw, whole=True)
    assert [each.sentence for each in found.problems if each.field == "claims.answer.1"] == [
        "Not filled in yet: the claims of answer B."
    ]


def test_a_whole_comparison_that_is_filled_in_lacks_nothing() -> None:
    ratings = ("unsupported", "irrelevant", "useful_strong", "useful_weak", "coherence", "overall")
    raw = dict.fromkeys(ratings, "1")
    raw["trust.0.0"] = "trustworthy"
    for number in range(2):
        claim = {"answer": str(number), "start": "0", "end": "3"}
        said = {"support": "strong", "relevance": "core"}
        raw |= {f"claims.{number}.{part}": value for part, value in {**claim, **said}.items()}
    assert missing(COMPARE, raw, whole=True) == []


@pytest.mark.parametrize(
    ("form", "needed"),
    [
        ("demonstrate", 0),
        ("compare_short", 3),
        ("supported", 5),
        ("best_of_four", 1),
        ("best_summary", 1),
        ("most_positive", 1),
        ("most_descriptive", 1),
        ("criteria", 2 * 5 + 6),
        ("thumbs", 1),
        ("truthful", 2),
        ("survey", 5 + 3),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_what_must_be_filled_in(form: str, needed: int, whole: bool) -> None:
    assert len(missing(FORMS[form], {}, whole)) == needed


def test_a_sentence_says_what_is_missing_and_where() -> None:
    found = parse_form(
        FORMS["supported"], item("supported"), (1, 0), {"plausible.0": ["yes"]}, False
    )
    assert [each.sentence for each in found.problems] == [
        "Not filled in yet: Plausible answer? (answer B).",
        "Not filled in yet: Supported by the evidence? (answer A).",
        "Not filled in yet: Supported by the evidence? (answer B).",
        "Not filled in yet: Preferred.",
    ]
    found = parse_form(FORMS["criteria"], item("criteria"), (0,), {}, False)
    assert found.problems[1].sentence == "Not filled in yet: Relevancy (reference 2)."
