"""Support of a claim by the passages that it cites, judged by the evidence model.

It is GopherCite's question of whether the evidence supports the claim (section 2.1), with the
passages read together, as ALCE does for citation recall (Gao et al. 2023, section 3.3), and each
alone.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Literal

from rookery.evidence.evidence_model import (
    EvidenceJudge,
    EvidenceJudgement,
    EvidencePassage,
    convert_to_probability,
)
from rookery.pages.passages import find_sentences
from rookery.records import Answer, Page, Question, Quote, Record, Reward

SUPPORT_THRESHOLD = 0.5
"""probability from which a claim counts as supported, or else as refuted"""
MAX_WINDOW_CHARACTERS = 560
"""characters of evidence that are judged at once: beside the longest claim and heading that the
model reads, its 256 tokens leave room for 125, of about four and a half characters in English"""
MAX_PART_CHARACTERS = 240
"""characters of a claim that are judged at once; the model reads 64 tokens of it"""

SupportOutcome = Literal["supports", "refutes", "neither"]


class ClaimSupport(Record, frozen=True):
    """Probabilities that passages support a claim, refute it or do neither; they sum to 1."""

    supports: float
    refutes: float
    neither: float

    @property
    def outcome(self) -> SupportOutcome:
        """The relation whose probability reaches SUPPORT_THRESHOLD, else neither."""
        if self.supports >= SUPPORT_THRESHOLD:
            return "supports"
        return "refutes" if self.refutes >= SUPPORT_THRESHOLD else "neither"


class ClaimVerdict(Record, frozen=True):
    """Judgement of one claim of an answer by the verified quotes that it cites."""

    claim: str
    outcome: Literal["quoted", "supports", "refutes", "neither", "uncited", "unverified"]
    """quoted: it is one of its quotes, and no model is needed; uncited: it cites nothing;
    unverified: none of what it cites is verified or stored"""
    support: ClaimSupport | None = None
    """None where nothing could be judged"""
    detail: str = ""

    @property
    def supported(self) -> bool:
        """True if what the claim cites supports it."""
        return self.outcome in ("quoted", "supports")


def judge_claim_support(
    claim: str, passages: Sequence[EvidencePassage], judge: EvidenceJudge
) -> ClaimSupport:
    """Judge whether passages support a claim, refute it or do neither (GopherCite, section 2.1).

    Each passage is read alone and, where there are several, all are read as one text (ALCE, section
    3.3). What is longer than the model reads is cut into overlapping windows of neighbouring
    sentences. `supports` is the largest probability of any window, and `refutes` likewise, since
    what stands in one place need not stand in another; where evidence for and against a claim
    add up to more than 1, both are divided by their sum. A long claim is judged in parts: it is
    supported as far as its least supported part, and refuted as far as its most refuted one.

    A claim that is one of the passages word for word is supported without asking the judge.
    Without a passage that says anything, the outcome is neither.
    """
    if repeats_passage(claim, passages):
        return ClaimSupport(1.0, 0.0, 0.0)
    read = [each for each in passages if each.text.strip()]
    if not read or not claim.strip():
        return ClaimSupport(0.0, 0.0, 1.0)
    if len(read) > 1:
        headings = " ".join(dict.fromkeys(each.heading for each in read))
        read.append(EvidencePassage("\n".join(each.text for each in read), headings.strip()))
    windows = [
        EvidencePassage(window, each.heading)
        for each in read
        for window in cut_windows(each.text, MAX_WINDOW_CHARACTERS)
    ]
    parts = [_judge_part(part, windows, judge) for part in cut_windows(claim, MAX_PART_CHARACTERS)]
    supports = min(part.supports for part in parts)
    refutes = max(part.refutes for part in parts)
    return ClaimSupport(supports, refutes, max(0.0, 1 - supports - refutes))


def _judge_part(
    part: str, windows: Sequence[EvidencePassage], judge: EvidenceJudge
) -> ClaimSupport:
    judged = judge(part, windows)
    supports = max(each.supports for each in judged)
    refutes = max(each.refutes for each in judged)
    both = max(1.0, supports + refutes)
    supports, refutes = supports / both, refutes / both
    return ClaimSupport(supports, refutes, max(0.0, 1 - supports - refutes))


def repeats_passage(claim: str, passages: Sequence[EvidencePassage]) -> bool:
    """Return True if a claim is one of the passages, white space evened out."""
    said = claim.split()
    return bool(said) and any(each.text.split() == said for each in passages)


def cut_windows(text: str, longest: int) -> list[str]:
    """Cut a text into windows of neighbouring sentences, of at most `longest` characters.

    Each begins in the middle of the one before, so that neighbours are read together somewhere. A
    sentence that is too long is cut.
    """
    if len(text) <= longest:
        return [text]
    pieces = [
        (low, min(low + longest, end))
        for start, end in find_sentences(Page("", "", text), 0, len(text))
        for low in range(start, end, longest)
    ]
    windows: list[str] = []
    first = last = 0
    while first < len(pieces):
        while last + 1 < len(pieces) and pieces[last + 1][1] - pieces[first][0] <= longest:
            last += 1
        windows.append(text[pieces[first][0] : pieces[last][1]])
        if last + 1 == len(pieces):
            break
        first = max(first + 1, (first + last + 1) // 2)
        last = max(first, last)
    return windows


def make_evidence_reward(judge: EvidenceJudge) -> Reward:
    """Return the reward 0 to 1 of an answer: how far its quotes support it and answer the question.

    It is the mean over the answer's claims of the probability that the quotes which a claim cites
    support it (`judge_claim_support`), times the probability that the best of all quotes cited
    answers the question. A claim without a quote counts 0, and so does a sentence that no claim
    touches, so that an answer without citations has the reward 0. What was judged before is not
    judged again: samples often cite the same passages.
    """
    judgements: dict[tuple[str, EvidencePassage], EvidenceJudgement] = {}

    def judge_once(query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        fresh = [passage for passage in passages if (query, passage) not in judgements]
        for passage, judgement in zip(fresh, judge(query, fresh) if fresh else (), strict=True):
            judgements[query, passage] = judgement
        return [judgements[query, passage] for passage in passages]

    def compute_reward(question: Question, answer: Answer) -> float:
        cited = sorted({number for claim in answer.claims for number in claim.quotes})
        if not cited:
            return 0.0
        quotes = [_make_evidence_passage(answer.quotes[number]) for number in cited]
        answers = max(each.answers for each in judge_once(question.text, quotes))
        supported = [0.0 for _ in _list_uncited_sentences(answer)]
        for claim in answer.claims:
            passages = [_make_evidence_passage(answer.quotes[number]) for number in claim.quotes]
            claim_text = answer.text[claim.start : claim.end].strip()
            supported.append(judge_claim_support(claim_text, passages, judge_once).supports)
        return fmean(supported) * convert_to_probability(answers)

    return compute_reward


def _make_evidence_passage(quote: Quote) -> EvidencePassage:
    return EvidencePassage(quote.text, quote.title)


def _list_uncited_sentences(answer: Answer) -> Iterator[str]:
    """Yield the sentences of an answer that no claim touches."""
    for start, end in find_sentences(Page("", "", answer.text), 0, len(answer.text)):
        if not any(claim.start < end and start < claim.end for claim in answer.claims):
            yield answer.text[start:end]
