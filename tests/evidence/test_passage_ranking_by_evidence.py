"""Ranking by the evidence model. The judge is a function, so that each case can be worked out."""

from collections.abc import Callable, Sequence

import pytest

from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.evidence.passage_ranking import (
    LONG_QUERY_WORDS,
    MAX_JUDGED_PASSAGES,
    rank_by_evidence,
)
from rookery.pages.page_reader import read_page
from rookery.records import Hit, Page


class Judge:
    """Judges a passage's text by a function, and remembers what it was given."""

    def __init__(self, answers: Callable[[str], float] = lambda text: 0.0) -> None:
        self.answers = answers
        self.judged: list[tuple[str, EvidencePassage]] = []

    def __call__(self, query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        self.judged += [(query, passage) for passage in passages]
        odds = [self.answers(each.text) for each in passages]
        return [EvidenceJudgement(each, (0, 1), each, 0.0, 0.0, 1.0) for each in odds]


def make_passages(*texts: str) -> list[tuple[Page, Hit]]:
    """Passages of a page each, in the order of the search."""
    pages = [Page(f"u{number}", f"Page {number}", text) for number, text in enumerate(texts)]
    return [
        (page, Hit(page.url, page.title, "", page.digest, 0, len(page.text), 1 - number / 100))
        for number, page in enumerate(pages)
    ]


def test_passages_are_in_the_order_of_the_judge_with_their_probabilities() -> None:
    judge = Judge(lambda text: float(text.split()[-1]))
    passages = make_passages("a rook nests at -1", "a crow nests at 2", "a jay nests at 0")
    ranked = rank_by_evidence("Who nests?", passages, judge)
    assert [each.page.url for each in ranked] == ["u1", "u2", "u0"]
    assert [each.score for each in ranked] == pytest.approx([0.8808, 0.5, 0.2689], abs=1e-4)
    assert all(each.sentences == () for each in ranked)
    assert [passage.heading for _, passage in judge.judged] == ["Page 0", "Page 1", "Page 2"]
    assert rank_by_evidence("Who nests?", [], judge) == []


def test_a_passage_is_judged_below_its_title_and_headings() -> None:
    html = "<title>Rooks</title><h1>Nests</h1><h2>Trees</h2><p>Rooks nest in elms.</p>"
    page = read_page(html.encode(), "https://a.org/x", "text/html")
    start = page.text.index("Rooks nest")
    hit = Hit(page.url, page.title, "", page.digest, start, len(page.text), 1.0)
    judge = Judge()
    rank_by_evidence("Where?", [(page, hit)], judge)
    [(_, passage)] = judge.judged
    assert passage == EvidencePassage("Rooks nest in elms.", "Rooks Nests > Trees")


def test_the_best_of_the_search_are_judged_and_repetitions_dropped() -> None:
    judge = Judge()
    many = make_passages(*(f"passage number {number} says {number}" for number in range(30)))
    ranked = rank_by_evidence("What?", many[::-1], judge)
    assert len(judge.judged) == len(ranked) == MAX_JUDGED_PASSAGES
    assert [each.page.url for each in ranked] == [f"u{number}" for number in range(20)]
    twice = make_passages(
        "rooks nest in tall elms", "rooks nest in tall elms", "jays hide acorns in moss"
    )
    assert [each.page.url for each in rank_by_evidence("Who?", twice, judge)] == ["u0", "u2"]


def test_ranks_are_fused_for_long_queries_only() -> None:
    # By the search: a b c d; by the judge: d c b a, or d a b c.
    passages = make_passages("a is here 1", "b is here 2", "c is here 3", "d is here 4")
    judge = Judge(lambda text: 10.0 if text[0] == "d" else -float(text.split()[-1]))
    question = " ".join(["word"] * LONG_QUERY_WORDS)

    def order(query: str) -> str:
        return "".join(each.page.text[0] for each in rank_by_evidence(query, passages, judge))

    assert order(question) == "dabc"
    # a: 1/61 + 1/62 is more than d: 1/64 + 1/61.
    assert order(f"{question} word") == "adbc"
