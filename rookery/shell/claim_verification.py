"""Support of the claims of saved answers by what they cite, for `rookery cite verify --support`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from rookery.answers.both_sides import SIDES_METHOD
from rookery.errors import Failed, Outcome
from rookery.evidence.claim_support import (
    MAX_WINDOW_CHARACTERS,
    ClaimVerdict,
    cut_windows,
    judge_claim_support,
    repeats_passage,
)
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidenceJudge,
    EvidencePassage,
    is_evidence_model,
    load_evidence_model,
)
from rookery.measure.citations import compute_word_share, list_statements
from rookery.quotes.saved_answers import SavedAnswer, SourcePages, parse_saved_answers
from rookery.quotes.verification import AnyVerdict, ClaimedVerdict, Verdict
from rookery.records import Failure, Page
from rookery.settings import WORDS

MAX_PAGE_WINDOWS = 8
"""windows of a page that are judged for a sentence that cites it without quoting it: those that
share the most words with the sentence"""
QUOTING_METHODS = ("extract", SIDES_METHOD)
"""methods whose text beside their claims is fixed words, which say nothing"""


def make_claim_judge(ranker: str) -> EvidenceJudge:
    """Return the judge of claims of the evidence model in a folder; empty: of the bundled one.

    The model is loaded when the first claim is judged, since claims that are quotes need none. The
    judge then raises Failed: no_model, bad_model.
    """

    @cache
    def load_judge() -> EvidenceJudge:
        if ranker == WORDS:
            detail = (
                "shared words do not tell support from refutation: name the folder of an evidence "
                "model with --ranker"
            )
            raise Failed(Failure(ranker, Outcome.NO_MODEL, detail))
        if not ranker and not is_evidence_model(BUNDLED_MODEL):
            detail = (
                "no evidence model comes with this installation: name the folder of one with "
                "--ranker"
            )
            raise Failed(Failure("support", Outcome.NO_MODEL, detail))
        return load_evidence_model(Path(ranker or BUNDLED_MODEL)).judge_passages

    return lambda claim, passages: load_judge()(claim, passages)


def judge_saved_claims(
    data: bytes, name: str, verdicts: Sequence[AnyVerdict], pages: SourcePages, judge: EvidenceJudge
) -> list[ClaimVerdict]:
    """Judge the claims of saved answers by what they cite; `verdicts` is what the quotes got.

    A quote that failed supports nothing. Of other tools' answers, the sentences that cite a source
    without quoting it are judged by the parts of the stored source that share most words with them.
    Raises ValueError as `check_saved_answers` does, and what the judge raises.
    """
    saved_answers = parse_saved_answers(data, name)
    if saved_answers is not None:
        failed = {
            EvidencePassage(each.quote.text, each.quote.title)
            for each in verdicts
            if isinstance(each, Verdict) and not each.verified
        }
        return [verdict for saved in saved_answers for verdict in _judge_ours(saved, failed, judge)]
    claimed: dict[tuple[str, str], list[ClaimedVerdict]] = {}
    for each in verdicts:
        if isinstance(each, ClaimedVerdict) and each.outcome in ("verified", "not_quoted"):
            claimed.setdefault((each.claimed.where, each.claimed.text), []).append(each)
    return [_judge_other(text, cited, pages, judge) for (_, text), cited in claimed.items()]


def _judge_ours(
    saved: SavedAnswer, failed: set[EvidencePassage], judge: EvidenceJudge
) -> Iterable[ClaimVerdict]:
    for claim, cited in list_statements(saved.answer) if saved.answer else ():
        verified = [each for each in cited if each not in failed]
        if cited and not verified:
            yield ClaimVerdict(claim, "unverified", detail="none of its quotes is verified")
        elif cited:
            yield _judge_by(claim, verified, judge)
        elif saved.method not in QUOTING_METHODS and any(map(str.isalnum, claim)):
            yield ClaimVerdict(claim, "uncited", detail="it cites nothing")


def _judge_other(
    claim: str, cited: Sequence[ClaimedVerdict], pages: SourcePages, judge: EvidenceJudge
) -> ClaimVerdict:
    if any(each.verified for each in cited):
        return _judge_by(claim, [EvidencePassage(claim)], judge)
    sources = [next(iter(pages.find_named(each.claimed)), None) for each in cited]
    read = [part for page in sources if page for part in _find_nearest_parts(claim, page)]
    if not read:
        detail = pages.explain_missing(cited[0].claimed)
        return ClaimVerdict(claim, "unverified", detail=detail)
    return _judge_by(claim, read, judge)


def _find_nearest_parts(claim: str, page: Page) -> list[EvidencePassage]:
    parts = [
        EvidencePassage(window, page.title)
        for window in cut_windows(page.text, MAX_WINDOW_CHARACTERS)
    ]
    return sorted(parts, key=lambda part: -compute_word_share([part], claim))[:MAX_PAGE_WINDOWS]


def _judge_by(
    claim: str, passages: Sequence[EvidencePassage], judge: EvidenceJudge
) -> ClaimVerdict:
    found = judge_claim_support(claim, passages, judge)
    if repeats_passage(claim, passages):
        return ClaimVerdict(claim, "quoted", found, "it is one of its quotes")
    return ClaimVerdict(claim, found.outcome, found)


def summarize_claims(verdicts: Sequence[ClaimVerdict]) -> str:
    """Return one line: how many claims are supported, and why the others are not."""
    counts: Counter[str] = Counter(each.outcome for each in verdicts)
    if not verdicts:
        return "no claim to judge"
    parts = [f"{sum(each.supported for each in verdicts)} of {len(verdicts)} claims supported"]
    for outcome, wording in (
        ("quoted", "quoted word for word, which needs no model"),
        ("refutes", "refuted"),
        ("neither", "neither supported nor refuted"),
        ("uncited", "without a citation"),
        ("unverified", "without a verified source"),
    ):
        if counts[outcome]:
            parts.append(f"{counts[outcome]} {wording}")
    return "; ".join(parts)
