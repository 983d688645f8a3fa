"""What references are worth, by hand; and where questions, references and answers come from."""

import json
from pathlib import Path

import pytest
from asking import write_triples

from rookery.answers.webglm import answer_with_webglm, render_references
from rookery.errors import Failed
from rookery.learn.retrieval_data import (
    ReferenceSamplingSettings,
    ReferenceScorer,
    RetrievalBatches,
    RetrievalSources,
    RetrievalTriple,
    ScoredReferences,
    load_scored_references,
    sample_references,
)
from rookery.models.recorded_policies import ScriptedPolicy
from rookery.records import Answer, Claim, Completion, Episode, Hit, Library, Page, Question, Step

CROWS = "Crows hide nuts, and crows find nuts again in the snow."


@pytest.mark.parametrize(
    ("answers", "worth"),
    [
        (["Crows hide nuts"], 1.0),
        (["Ravens hide nuts"], 2 / 3),
        (["The crows hide in the nuts."], 1.0),  # hide, crows, nuts; "the" and "in" do not count
        (["nuts nuts nuts"], 2 / 3),  # the reference has it twice
        (["owls"], 0.0),
        (["owls", "snow owls", "owls again"], 1 / 2),
        (["What?"], 0.0),  # nothing but a word that usually does not count
        (["in the"], 1.0),
        ([], 0.0),
    ],
)
def test_worth_is_the_share_of_the_answers_words_that_the_reference_holds(
    answers: list[str], worth: float
) -> None:
    assert ReferenceScorer().compute_precision(answers, CROWS) == pytest.approx(worth)


def test_a_longer_reference_is_worth_no_less() -> None:
    """It is the answer's precision, not the reference's."""
    weighing = ReferenceScorer()
    assert weighing.compute_precision(["hide nuts"], CROWS + " Owls do not." * 9) == 1.0
    assert weighing.compute_precision(["hide nuts and eggs"], "hide") == pytest.approx(1 / 3)


def read(path: Path, **more: object) -> list[ScoredReferences]:
    return load_scored_references(RetrievalSources(triples=(str(path),), **more))[0]  # type: ignore[arg-type]


def test_triples_are_read_as_webglm_qa_has_them(tmp_path: Path) -> None:
    line = {"question": "Who hides nuts?", "answer": "Crows hide nuts", "references": [CROWS, "x"]}
    path = tmp_path / "triples.jsonl"
    path.write_text(json.dumps({**line, "more": 1}) + "\n\n" + json.dumps(line) + "\n")
    [found] = read(path)  # the second says nothing new
    assert found == ("Who hides nuts?", ("Crows hide nuts",), (CROWS, "x"), (1.0, 0.0))


def test_references_may_be_cut_into_sentences(tmp_path: Path) -> None:
    reference = "Crows hide nuts. Ravens hide eggs."
    path = write_triples(
        tmp_path / "t.jsonl", [RetrievalTriple("Who?", (reference, "Owls."), "ravens hide")]
    )
    [found] = read(path, cut="sentences")
    assert found.references == ("Crows hide nuts.", "Ravens hide eggs.", "Owls.")
    assert found.worths == (0.5, 1.0, 0.0)


def test_what_is_cited_may_count_instead_of_words(tmp_path: Path) -> None:
    known = RetrievalTriple("Who?", (CROWS, "Owls."), "Crows hide nuts", (1,))
    unknown = RetrievalTriple("What?", (CROWS, "Owls."), "Crows hide nuts")
    path = write_triples(tmp_path / "t.jsonl", [known, unknown])
    found, left_out = load_scored_references(RetrievalSources(triples=(str(path),), worth="cited"))
    assert [each.worths for each in found] == [(0.0, 1.0)]
    assert left_out == "1 questions of which nobody knows what their answer cites"
    with pytest.raises(ValueError, match="whole"):
        RetrievalSources(worth="cited", cut="sentences")


PAGES = [
    Page("https://a.example", "A", "Crows hide nuts.\nThey find them again."),
    Page("https://b.example", "B", "Ravens steal 【eggs】."),
    Page("https://c.example", "C", "Snow is white."),
]


def episode(text: str, prompt: str = "", **more: object) -> Episode:
    quotes = (PAGES[0].quote(0, len(PAGES[0].text)), PAGES[1].quote(0, len(PAGES[1].text)))
    answer = Answer(text, quotes, (Claim(0, len(text), (1,)),), **more)  # type: ignore[arg-type]
    steps = (Step(prompt, Completion(text)),) if prompt else ()
    return Episode(Question("1", "Who steals?"), "webglm", steps, answer)


def test_an_answers_quotes_are_its_references(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    no_answer = Episode(Question("2", "Why?"), "webglm")
    lines = [episode("Ravens steal eggs"), episode("Ravens", declined=True), no_answer]
    path.write_text("".join(each.to_json() + "\n" for each in lines), "utf-8")
    found, left_out = load_scored_references(RetrievalSources(episodes=(str(path),)))
    [each] = found
    assert each.references == ("Crows hide nuts. They find them again.", "Ravens steal 〖eggs〗.")
    assert each.worths == (0.0, 1.0)
    assert left_out == "2 questions without an answer"
    [each], _ = load_scored_references(RetrievalSources(episodes=(str(path),), worth="cited"))
    assert each.worths == (0.0, 1.0)


class Shelf(Library):
    """Finds all pages, whatever is searched."""

    def search(self, query: str, k: int) -> list[Hit]:
        return [Hit(p.url, p.title, "", p.digest, 0, len(p.text), 0.5) for p in PAGES]

    def fetch(self, url: str) -> Page:
        return next(page for page in PAGES if page.url == url)


def test_what_a_webglm_prompt_shows_and_nobody_cites_is_a_reference_too(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(json.dumps("Ravens steal 〖eggs〗 [1]."))
    made = answer_with_webglm(
        Question("1", "Who steals?"), Shelf(), ScriptedPolicy(tmp_path / "script")
    )
    assert made.answer is not None
    assert len(made.answer.quotes) == 1
    path = tmp_path / "episodes.jsonl"
    path.write_text(made.to_json() + "\n", "utf-8")
    [each], _ = load_scored_references(RetrievalSources(episodes=(str(path),), worth="cited"))
    shown = render_references(tuple(page.quote(0, len(page.text)) for page in PAGES)).splitlines()
    assert sorted(each.references) == sorted(line.split(": ", 1)[1] for line in shown)
    assert dict(zip(each.references, each.worths, strict=True))["Ravens steal 〖eggs〗."] == 1.0
    assert sum(each.worths) == 1.0


def write_squad(path: Path) -> Path:
    asked = [
        {"id": "1", "question": "Who hides nuts?", "answers": [{"text": "Crows"}]},
        {"id": "2", "question": "Who flies?", "answers": [], "is_impossible": True},
    ]
    paragraphs = [{"context": CROWS, "qas": asked}, {"context": "Owls.", "qas": []}]
    path.write_text(json.dumps({"data": [{"title": "Birds", "paragraphs": paragraphs}]}))
    return path


def test_a_squad_question_has_its_articles_paragraphs(tmp_path: Path) -> None:
    path = str(write_squad(tmp_path / "squad.json"))
    [each], left_out = load_scored_references(RetrievalSources(squad=(path,)))
    assert each == ("Who hides nuts?", ("Crows",), (CROWS, "Owls."), (1.0, 0.0))
    assert left_out == "1 questions without an answer"
    [each], _ = load_scored_references(RetrievalSources(squad=(path,), worth="cited"))
    assert each.worths == (1.0, 0.0)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (None, "not_found"),
        ("", "nothing_chosen"),
        ("{}\n", "bad_line"),
        ('{"question": "Why?", "references": ["a"], "answer": "b", "cited": [1]}\n', "bad_line"),
        ('{"question": "Why?", "references": [], "answer": "So"}\n', "nothing_chosen"),
        (
            '{"question": "Why?", "references": ["so", "so so"], "answer": "so"}\n',
            "nothing_to_learn",
        ),
    ],
)
def test_files_that_teach_nothing_are_told_in_a_sentence(
    tmp_path: Path, text: str | None, outcome: str
) -> None:
    path = tmp_path / "t.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(Failed) as caught:
        read(path)
    assert caught.value.failure.outcome == outcome
    assert str(path) in caught.value.failure.what
    assert caught.value.failure.detail


def test_bad_squad_files_and_no_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[]")
    for sources, outcome in [
        (RetrievalSources(squad=(str(tmp_path / "bad.json"),)), "bad_squad"),
        (RetrievalSources(squad=(str(tmp_path / "none.json"),)), "not_found"),
        (RetrievalSources(), "nothing_chosen"),
    ]:
        with pytest.raises(Failed) as caught:
            load_scored_references(sources)
        assert caught.value.failure.outcome == outcome


def weighed(number: int) -> ScoredReferences:
    """Of nine references one holds the answer."""
    texts = [f"b{other} c{number}" for other in range(9)]
    texts[number % 5] = f"a{number} b{number % 5}"
    worths = tuple(float(other == number % 5) for other in range(9))
    return ScoredReferences(f"q{number}", (f"a{number}",), tuple(texts), worths)


WEIGHED = [weighed(number) for number in range(10)]


def test_each_epoch_deals_every_question_once_and_draws_anew() -> None:
    dealt = RetrievalBatches(WEIGHED, ReferenceSamplingSettings(questions=4, references=3), seed=0)
    assert dealt.steps_an_epoch == 3
    epochs = [[lesson for step in steps for lesson in dealt.sample_batch(step)] for steps in
              (range(3), range(3, 6))]  # fmt: skip
    for lessons in epochs:
        assert sorted(lesson.question for lesson in lessons) == [f"q{n}" for n in range(10)]
        for lesson in lessons:
            assert len(set(lesson.references)) == 3
            assert lesson.worths == [1.0, 0.0, 0.0]
            assert lesson.references[0].startswith(f"a{lesson.question[1:]} ")
    assert [each.question for each in epochs[0]] != [each.question for each in epochs[1]]
    first, second = ({each.question: each for each in lessons} for lessons in epochs)
    assert any(first[name].references != second[name].references for name in first)
    again = RetrievalBatches(WEIGHED, ReferenceSamplingSettings(questions=4, references=3), seed=0)
    assert again.sample_batch(4) == dealt.sample_batch(4)


def test_references_of_other_questions_are_weighed_too() -> None:
    other = ScoredReferences("other", ("x",), ("a0 x", "y"), (1.0, 0.0))
    dealt = RetrievalBatches(
        [WEIGHED[0], other], ReferenceSamplingSettings(questions=2, references=2, others=9), seed=0
    )
    lessons = {lesson.question: lesson for lesson in dealt.sample_batch(0)}
    worths = dict(zip(lessons["q0"].references, lessons["q0"].worths, strict=True))
    assert len(worths) == 4
    assert worths["a0 x"] == 1.0  # it happens to hold the answer
    assert worths["y"] == 0.0
    assert lessons["other"].worths[2:] == [0.0, 0.0]


def test_alike_references_are_drawn_where_they_are_wanted() -> None:
    texts = ("hit", *(f"crows fly {n}" for n in range(6)), *(f"owls {n}" for n in range(60)))
    each = ScoredReferences("crows fly", ("hit",), texts, (1.0, *[0.0] * 66))
    for seed in range(20):
        chosen = sample_references(each, 3, "alike", str(seed)).references
        assert all(text.startswith("crows") for text in chosen[1:])
    everyone = {
        text
        for seed in range(99)
        for text in sample_references(each, 9, "any", str(seed)).references
    }
    assert len(everyone) > 60
