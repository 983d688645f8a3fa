"""Support of claims: windows, several passages, and how their judgements combine. The judge looks
for marks in the text, so that each case can be worked out by hand."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.evidence.claim_support import (
    MAX_PART_CHARACTERS,
    MAX_WINDOW_CHARACTERS,
    ClaimSupport,
    cut_windows,
    judge_claim_support,
    repeats_passage,
)
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage

FILLER = "Nothing is said about it in this sentence of the page. "


class MarkJudge:
    """Supports by the numbers after + in a passage, refutes by those after -; both add up."""

    def __init__(self) -> None:
        self.read: list[tuple[str, EvidencePassage]] = []

    def __call__(self, claim: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        self.read += [(claim, each) for each in passages]
        judged = []
        for passage in passages:
            words = passage.text.split()
            supports = min(1.0, sum(float(word) for word in words if word.startswith("+")))
            refutes = min(1.0, sum(-float(word) for word in words if word.startswith("-")))
            rest = max(0.0, 1 - supports - refutes)
            judged.append(EvidenceJudgement(0, (0, 1), 0, supports, refutes, rest))
        return judged


def judge_texts(*texts: str, claim: str = "They do.") -> ClaimSupport:
    return judge_claim_support(claim, [EvidencePassage(each) for each in texts], MarkJudge())


def test_the_outcome_is_that_of_the_larger_half() -> None:
    assert judge_texts("+.5").outcome == "supports"
    assert judge_texts("-.5").outcome == "refutes"
    assert judge_texts("+.4 -.3").outcome == "neither"
    assert judge_texts("+.4 -.3").neither == pytest.approx(0.3)


def test_the_best_of_each_passage_and_of_all_together_counts() -> None:
    assert judge_texts("+.7", "nothing").supports == pytest.approx(0.7)
    assert judge_texts("+.3", "+.4").supports == pytest.approx(0.7)  # read together
    # One supports and another refutes: the two are weighed against each other.
    both = judge_texts("+.9", "-.9")
    assert both == ClaimSupport(0.5, 0.5, 0.0)
    assert judge_texts("+.9", "-.6").supports == pytest.approx(0.6)


def test_what_is_read_together_has_all_headings() -> None:
    judge = MarkJudge()
    passages = [EvidencePassage("a", "One"), EvidencePassage("b", "Two"), EvidencePassage(" ")]
    judge_claim_support("They do.", passages, judge)
    assert [passage for _, passage in judge.read] == [
        *passages[:2],
        EvidencePassage("a\nb", "One Two"),
    ]


def test_a_long_passage_is_judged_wherever_it_speaks() -> None:
    long = FILLER * 40 + "It is +.8 so. " + FILLER * 40 + "It is -.1 not. " + FILLER * 40
    found = judge_texts(long)
    assert (found.supports, found.refutes) == pytest.approx((0.8, 0.1))


def test_a_long_claim_is_supported_as_far_as_its_least_supported_part() -> None:
    parts = [f"Number {n} is said at length, in a sentence of some words. " for n in range(20)]

    def judge(claim: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        assert len(claim) <= MAX_PART_CHARACTERS
        s, r = (0.1, 0.8) if "Number 13 " in claim else (0.9, 0.0)
        return [EvidenceJudgement(0, (0, 1), 0, s, r, 1 - s - r) for _ in passages]

    found = judge_claim_support("".join(parts), [EvidencePassage("x")], judge)
    assert (found.supports, found.refutes, found.neither) == pytest.approx((0.1, 0.8, 0.1))


def test_a_quote_supports_itself_and_nothing_supports_nothing() -> None:
    def refuse(claim: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        raise AssertionError("there is nothing to judge")

    quote = EvidencePassage("Rooks nest\nin elms.", "Rooks")
    assert judge_claim_support("Rooks nest in  elms.", [quote], refuse) == ClaimSupport(1, 0, 0)
    assert judge_claim_support("Rooks nest.", [], refuse) == ClaimSupport(0, 0, 1)
    assert judge_claim_support("Rooks nest.", [EvidencePassage(" ")], refuse).outcome == "neither"
    assert judge_claim_support(" ", [EvidencePassage("")], refuse).outcome == "neither"
    # What holds the claim's words may deny them.
    assert not repeats_passage("Rooks nest", [EvidencePassage("It is false that Rooks nest")])


@given(
    st.lists(st.integers(1, 60).map(lambda n: "Word " * n + "ends."), min_size=1),
    st.integers(20, 200),
)
def test_windows_are_short_enough_and_hold_every_sentence(
    sentences: list[str], longest: int
) -> None:
    text = " ".join(sentences)
    windows = cut_windows(text, longest)
    assert all(len(window) <= longest and window in text for window in windows)
    for sentence in sentences:
        assert len(sentence) > longest or any(sentence in window for window in windows)


def test_neighbouring_sentences_share_a_window() -> None:
    text = "".join(f"Sentence number {n} is here. " for n in range(100))
    windows = cut_windows(text, MAX_WINDOW_CHARACTERS)
    for n in range(99):
        pair = f"number {n} is here. Sentence number {n + 1} "
        assert any(pair in window for window in windows)
