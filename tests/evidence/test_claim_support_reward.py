"""The reward of the evidence model. The judge looks for words, so that each case can be worked
out by hand."""

from collections.abc import Sequence

import pytest

from rookery.answers.best_of_n import choose_best_answer
from rookery.evidence.claim_support import make_evidence_reward
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.records import Answer, Claim, Page, Question


class GiftJudge:
    """Judges by the words "feeds" and "seen", and remembers what it was given."""

    def __init__(self) -> None:
        self.judged: list[tuple[str, EvidencePassage]] = []

    def __call__(self, query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        self.judged += [(query, passage) for passage in passages]
        judged = []
        for text in (passage.text for passage in passages):
            odds = 50.0 if "feeds" in text else 0.0 if "seen" in text else -50.0  # 0 is one half
            share = 0.8 if ("fed" in query) == ("feeds" in text) else 0.1
            judged.append(EvidenceJudgement(odds, (0, 1), odds, share, 0.0, 1 - share))
        return judged


WHY = Question("1", "Why do crows bring gifts?")
FED, SEEN, MOSS = (
    Page("a", "Gifts", "A person feeds them."),
    Page("b", "Gifts", "It was seen."),
    Page("c", "Nests", "They use moss."),
)


def quoting(text: str, *cited: tuple[int, ...]) -> Answer:
    """Claims are the sentences, in their order; a claim cites pages by number."""
    quotes = [page.quote(0, len(page.text)) for page in (FED, SEEN, MOSS)]
    claims, at = [], 0
    for sentence, numbers in zip(text.split(" | "), cited, strict=False):
        claims.append(Claim(at, at + len(sentence), numbers))
        at += len(sentence) + 1
    return Answer(text.replace(" | ", " "), tuple(quotes), tuple(claims))


def test_the_reward_is_the_mean_support_times_the_best_quote_that_answers() -> None:
    reward = make_evidence_reward(GiftJudge())
    assert reward(WHY, quoting("They are fed.", (0,))) == pytest.approx(0.8)
    assert reward(WHY, quoting("They are fed.", (1,))) == pytest.approx(0.1 * 0.5)
    two = quoting("They are fed. | People saw it.", (0,), (1,))
    assert reward(WHY, two) == pytest.approx(0.8)
    mixed = quoting("They are fed. | People saw it.", (0,), (0,))
    assert reward(WHY, mixed) == pytest.approx((0.8 + 0.1) / 2)
    assert reward(WHY, quoting("They nest.", (2,))) == pytest.approx(0.0)


def test_of_several_quotes_of_a_claim_the_best_or_all_together_count() -> None:
    judge = GiftJudge()
    assert make_evidence_reward(judge)(WHY, quoting("They are fed.", (1, 0))) == pytest.approx(0.8)
    texts = [passage.text for claim, passage in judge.judged if claim == "They are fed."]
    assert texts == ["It was seen.", "A person feeds them.", "It was seen.\nA person feeds them."]


def test_what_cites_nothing_counts_nothing_and_an_answer_without_citations_least() -> None:
    reward = make_evidence_reward(GiftJudge())
    assert reward(WHY, quoting("They are fed.")) == reward(WHY, quoting("They are fed.", ())) == 0
    half = quoting("They are fed. | People saw it.", (0,))
    assert reward(WHY, half) == pytest.approx(0.4)
    answers = [quoting("They are fed."), half, quoting("They are fed.", (0,))]
    assert choose_best_answer(WHY, answers, reward).number == 2


def test_what_samples_share_is_judged_once() -> None:
    judge = GiftJudge()
    reward = make_evidence_reward(judge)
    first = reward(WHY, quoting("They are fed.", (0,)))
    count = len(judge.judged)
    assert reward(WHY, quoting("They are fed.", (0,))) == first
    assert len(judge.judged) == count
    reward(WHY, quoting("They like it.", (0,)))
    assert len(judge.judged) == count + 1
