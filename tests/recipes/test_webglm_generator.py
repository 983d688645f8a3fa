"""The generator of the WebGLM recipe: its marks, floors and scores, on answers made by hand."""

import pytest

from recipes.findings import list_findings
from recipes.webglm_generator import (
    FIRST_REFERENCE,
    GENERATOR,
    JUDGED_REFERENCE,
    RANDOM_REFERENCE,
    START,
    TF_IDF_REFERENCE,
    TOLD_REFERENCE,
    GeneratedAnswers,
    cite_by_words,
    list_generator_effects,
    list_generator_notes,
    make_generator_figure,
    make_generator_tables,
)
from rookery.evidence.evidence_model import BUNDLED_MODEL, load_evidence_model
from rookery.learn.imitation_learning import ImitationResult
from rookery.records import Answer, Claim, Episode, Page, Question

REFERENCES = [
    "The mill of Belmont was painted red in 1901.",
    "The bridge of Belmont was built in 1874 by masons.",
    "Ducks breed beside the bridge.",
]
QUESTION = Question("a", "When was the bridge of Belmont built?", gold=("1874",))


def test_a_sentence_without_a_number_cites_what_holds_most_of_its_words() -> None:
    said = "The bridge was built by masons. Ducks swim in deep water. It was red [1]."
    cited = "The bridge was built by masons [2]. Ducks swim in deep water. It was red [1]."
    assert cite_by_words(said, REFERENCES, 0.57) == cited
    assert cite_by_words("Masons of the bridge", REFERENCES, 0.57) == "Masons of the bridge [2]"
    assert cite_by_words(said, [], 0.57) == said


def answer(text: str, reference: int) -> Episode:
    quote = Page("", "", REFERENCES[reference]).quote(0, len(REFERENCES[reference]))
    said = Answer(text, (quote,), (Claim(0, len(text), (0,)),))
    return Episode(QUESTION, "webglm", answer=said)


@pytest.mark.slow
def test_an_answer_is_upheld_where_what_it_cites_supports_it() -> None:
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    none = Episode(QUESTION, "webglm", stop="bad_syntax")
    episodes = [answer("The bridge of Belmont was built in 1874.", 1), none]
    before = [answer("The bridge of Belmont was not built in 1874.", 1), none]
    learnt = ImitationResult("", 1, 0, "", 1, False, 0, {}, {})
    seen = GeneratedAnswers(
        [answer("It was built in 1874.", 1), none],
        {START: before, GENERATOR: episodes},
        [REFERENCES] * 2,
        learnt,
    )
    right, upheld = make_generator_tables(seen, judge)
    assert right.scores[START] == right.scores[GENERATOR] == (1.0, 0.0)
    assert upheld.scores[GENERATOR] == (1.0, 0.0)
    assert upheld.scores[START] == (0.0, 0.0)
    for table in (right, upheld):
        assert table.scores[RANDOM_REFERENCE] == (1 / 3, 1 / 3)
        assert table.scores[FIRST_REFERENCE] == (0.0, 0.0)
        for name in (TF_IDF_REFERENCE, JUDGED_REFERENCE, TOLD_REFERENCE):
            assert table.scores[name] == (1.0, 1.0)
    rows = {row[:2]: row[2] for row in make_generator_figure(seen, judge).rows}
    assert rows[GENERATOR, "recall"] == 1
    assert rows[START, "recall"] == 0
    first, second = list_generator_notes(seen)
    assert "Of 2 answers" in first
    assert "1 survive the filters, bad syntax 1" in first
    assert second.endswith(f"{START} 1 of 2, {GENERATOR} 1 of 2")
    assert len([*list_findings(list_generator_effects(), [[right, upheld]])]) == 2
