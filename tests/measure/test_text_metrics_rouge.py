"""ROUGE of a corpus: equal to the reference package, hand-worked averages, and its figure."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score import rouge_scorer

from rookery.measure.text_metrics import (
    AVERAGED_KINDS,
    compute_best_rouge,
    compute_rouge,
    estimate_corpus_rouge,
    make_text_figure,
)
from rookery.quotes.word_overlap import WordOverlap

THEIRS = {"R-1": "rouge1", "R-2": "rouge2", "R-L": "rougeL", "R-Lsum": "rougeLsum"}
PLAIN = "crow crows rook jay of the flies seeds caching hidden".split()
LINES = st.lists(
    st.lists(st.sampled_from(PLAIN), max_size=6).map(" ".join), min_size=1, max_size=4
).map("\n".join)
ENGLISH = st.text("aeimnorst TE.,'-019\n", max_size=80)
CROWS = "Crows remember faces.\nThey were studied for years, reportedly."
STUDY = "A study reported it:\ncrows remember the face of whoever studies them."


class Porter:
    """The tokens of rouge-score with the stems of Porter's own paper."""

    def __init__(self) -> None:
        porter = import_module("nltk.stem.porter").PorterStemmer
        self._stemmer = porter(porter.ORIGINAL_ALGORITHM)

    def tokenize(self, text: str) -> list[str]:
        found = rouge_scorer.tokenizers.tokenize.tokenize(text, None)
        return [self._stemmer.stem(word) if len(word) > 3 else word for word in found]


def assert_equal(actual: dict[str, WordOverlap], expected: dict[str, Any]) -> None:
    for kind, name in THEIRS.items():
        assert actual[kind].precision == pytest.approx(expected[name].precision, abs=1e-12)
        assert actual[kind].recall == pytest.approx(expected[name].recall, abs=1e-12)
        assert actual[kind].f1 == pytest.approx(expected[name].fmeasure, abs=1e-12)


@given(LINES | ENGLISH, LINES | ENGLISH)
def test_each_kind_is_that_of_the_reference_package(said: str, reference: str) -> None:
    scorer = rouge_scorer.RougeScorer(list(THEIRS.values()))
    assert_equal(compute_rouge(said, reference), scorer.score(reference, said))


@given(LINES | st.just(CROWS), LINES | st.just(STUDY))
def test_with_stems_each_kind_is_that_of_the_reference_package(said: str, reference: str) -> None:
    scorer = rouge_scorer.RougeScorer(list(THEIRS.values()), tokenizer=Porter())
    assert_equal(compute_rouge(said, reference, stem=True), scorer.score(reference, said))


def test_where_both_stem_alike_its_own_stemmer_gives_the_same() -> None:
    scorer = rouge_scorer.RougeScorer(list(THEIRS.values()), use_stemmer=True)
    assert_equal(compute_rouge(CROWS, STUDY, stem=True), scorer.score(STUDY, CROWS))
    assert compute_rouge(CROWS, STUDY, stem=True)["R-1"].f1 > compute_rouge(CROWS, STUDY)["R-1"].f1


@given(LINES, st.lists(LINES, min_size=1, max_size=4))
def test_of_several_references_the_one_that_suits_best_counts(said: str, golds: list[str]) -> None:
    scorer = rouge_scorer.RougeScorer(list(THEIRS.values()))
    assert_equal(compute_best_rouge(said, golds), scorer.score_multi(golds, said))


@settings(max_examples=20)
@given(st.lists(st.tuples(LINES, LINES), min_size=1, max_size=6))
def test_the_figures_of_a_corpus_are_the_means_of_its_pairs(pairs: list[tuple[str, str]]) -> None:
    scorer = rouge_scorer.RougeScorer(list(THEIRS.values()))
    theirs = [scorer.score(reference, said) for said, reference in pairs]
    ours = estimate_corpus_rouge([said for said, _ in pairs], [reference for _, reference in pairs])
    for kind, name in THEIRS.items():
        expected = np.mean([each[name].fmeasure for each in theirs])
        assert ours[kind].value == pytest.approx(expected, abs=1e-12)
        assert ours[kind].count == len(pairs)
        assert (ours[kind].low is None) == (ours[kind].high is None)


def test_the_average_is_of_the_first_three_kinds() -> None:
    """ "the crow sat" of "the crow sat down there": 3 of 3 and 5 words, 2 of 2 and 4 pairs."""
    ours = estimate_corpus_rouge(["the crow sat"], ["the crow sat down there"])
    assert [ours[kind].value for kind in AVERAGED_KINDS] == pytest.approx([3 / 4, 2 / 3, 3 / 4])
    assert ours["R-AVG"].value == pytest.approx((3 / 4 + 2 / 3 + 3 / 4) / 3)


def test_the_average_of_the_papers_table_is_taken_so() -> None:
    """Lead-3 on CNN/Daily Mail: R-1, R-2, R-L and R-AVG (Ziegler, table 4)."""
    assert np.mean([40.379, 17.658, 36.618]) == pytest.approx(31.552, abs=1e-3)


def test_a_reference_may_stand_alone_or_in_a_list() -> None:
    assert estimate_corpus_rouge(["a crow"], ["a rook"]) == estimate_corpus_rouge(
        ["a crow"], [["a rook"]]
    )


def test_a_better_reference_raises_the_score() -> None:
    alone = estimate_corpus_rouge(["a crow sat"], [["no bird at all"]])
    both = estimate_corpus_rouge(["a crow sat"], [["no bird at all", "the crow sat"]])
    assert alone["R-1"].value == 0
    assert both["R-1"].value == pytest.approx(2 / 3)


def test_a_summary_shares_everything_with_itself_and_nothing_with_none() -> None:
    text = "the crow sat\nthe crow flew"
    for kind, whole in compute_rouge(text, text).items():
        assert whole == WordOverlap(1.0, 1.0)
        for said, reference in (("", text), (text, ""), ("", ""), ("\n", " \n")):
            assert compute_rouge(said, reference)[kind] == WordOverlap(0, 0)


def test_the_order_of_sentences_matters_to_rouge_l_alone() -> None:
    said, turned = "the crow sat\na jay flew", "a jay flew\nthe crow sat"
    assert compute_rouge(said, turned)["R-Lsum"] == WordOverlap(1.0, 1.0)
    assert compute_rouge(said, turned)["R-L"] == WordOverlap(1 / 2, 1 / 2)


def test_a_word_counts_in_one_sentence_only_where_it_was_said_once() -> None:
    assert compute_rouge("the crow", "the crow\nthe crow")["R-Lsum"] == WordOverlap(1.0, 1 / 2)


@pytest.mark.parametrize(("said", "references"), [([], []), (["a crow"], [[]])])
def test_without_texts_or_references_there_is_nothing_to_say(
    said: list[str], references: list[list[str]]
) -> None:
    with pytest.raises(ValueError, match="there is no"):
        estimate_corpus_rouge(said, references)


def test_the_figure_has_every_system_and_kind() -> None:
    texts = ["the crow sat", "a jay flew"]
    golds = ["the crow sat down", "jays fly"]
    systems = {
        "lead": estimate_corpus_rouge(texts, golds),
        "gold": estimate_corpus_rouge(golds, golds),
    }
    figure = make_text_figure("rouge", systems, "two texts")
    assert [row[:2] for row in figure.rows] == [(s, k) for s in systems for k in systems[s]]
    assert [row[2] for row in figure.rows[5:]] == [1.0] * 5
    assert figure.picture.places == ("R-1", "R-2", "R-L", "R-Lsum", "R-AVG")
    lead = figure.picture.lines[0]
    assert lead.points[0] == (0.0, systems["lead"]["R-1"].value)
    assert lead.low[0] == systems["lead"]["R-1"].low
