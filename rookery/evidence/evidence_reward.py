"""Reward of an answer by the evidence model: supported and plausible (GopherCite, section 2.1)."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from rookery.evidence.claim_support import judge_claim_support
from rookery.evidence.evidence_model import (
    EvidenceJudge,
    EvidenceJudgement,
    EvidencePassage,
    convert_to_probability,
)
from rookery.pages.passages import find_sentences
from rookery.records import Answer, Page, Question, Quote, Reward


def make_evidence_reward(judge: EvidenceJudge) -> Reward:
    """Return the reward 0 to 1 of an answer: how far its quotes support it and answer the question.

    It is the mean over the answer's claims of the probability that the quotes which a claim cites
    support it (`judge_claim_support`), times the probability that the best of all quotes cited
    answers the question. A claim without a quote counts 0, and so does a sentence that no claim
    touches, so that an answer without citations has the reward 0. What was judged before is not
    judged again: samples often cite the same passages.
    """
    known: dict[tuple[str, EvidencePassage], EvidenceJudgement] = {}

    def judge_once(query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        fresh = [passage for passage in passages if (query, passage) not in known]
        for passage, judgement in zip(fresh, judge(query, fresh) if fresh else (), strict=True):
            known[query, passage] = judgement
        return [known[query, passage] for passage in passages]

    def compute_reward(question: Question, answer: Answer) -> float:
        cited = sorted({number for claim in answer.claims for number in claim.quotes})
        if not cited:
            return 0.0
        quotes = [_make_evidence_passage(answer.quotes[number]) for number in cited]
        answers = max(each.answers for each in judge_once(question.text, quotes))
        supported = [0.0 for _ in _list_uncited_sentences(answer)]
        for claim in answer.claims:
            passages = [_make_evidence_passage(answer.quotes[number]) for number in claim.quotes]
            said = answer.text[claim.start : claim.end].strip()
            supported.append(judge_claim_support(said, passages, judge_once).supports)
        return fmean(supported) * convert_to_probability(answers)

    return compute_reward


def _make_evidence_passage(quote: Quote) -> EvidencePassage:
    return EvidencePassage(quote.text, quote.title)


def _list_uncited_sentences(answer: Answer) -> Iterator[str]:
    """Yield the sentences of an answer that no claim touches."""
    for start, end in find_sentences(Page("", "", answer.text), 0, len(answer.text)):
        if not any(claim.start < end and start < claim.end for claim in answer.claims):
            yield answer.text[start:end]
