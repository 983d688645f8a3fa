"""Citation recall and precision (ALCE, section 3.3), with any entailment function.

Two come with it. That of the evidence model reads the claim and what it cites; the other counts
shared words, and so takes a sentence and its negation for the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import msgspec

from rookery.evidence.claim_support import SUPPORT_THRESHOLD, judge_claim_support
from rookery.evidence.evidence_model import EvidenceJudge, EvidencePassage
from rookery.measure.figures import Figure, make_bars
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.pages.passages import find_sentences
from rookery.quotes.repair import CorrectionSettings, list_content_words
from rookery.quotes.word_overlap import compute_rouge_n
from rookery.records import Answer, Page, Record

EntailmentFunction = Callable[[Sequence[EvidencePassage], str], float]
"""(premises, claim) -> how surely the premises together entail the claim, 0 to 1; they do from
SUPPORT_THRESHOLD on"""
MIN_WORD_SHARE = CorrectionSettings().threshold
"""least share of a claim's words that a premise must hold"""


class CitedStatement(NamedTuple):
    """Statement of an answer, and the passages that it cites."""

    text: str
    cited: tuple[EvidencePassage, ...]


class StatementVerdict(NamedTuple):
    """Judgement of one statement and its citations."""

    recalled: bool
    """True if all that it cites together entails it"""
    precise: tuple[bool, ...]
    """for each passage that it cites, True if it is needed or would do alone"""


class AnswerCitationScores(Record, frozen=True):
    """Citation scores of one answer."""

    recall: float
    """share of its statements that what they cite entails"""
    precision: float
    """share of its citations that are of use; 0 if it cites nothing"""
    statements: int
    citations: int

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision; 0 if both are 0."""
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both else 0.0


class SystemCitationScores(Record, frozen=True):
    """Citation scores of one system: means over its answers that state something."""

    recall: Estimate
    precision: Estimate
    f1: Estimate


def make_support_entailment(judge: EvidenceJudge) -> EntailmentFunction:
    """Return an entailment function that gives the `supports` of `judge_claim_support`.

    It raises what the judge raises.
    """
    return lambda premises, claim: judge_claim_support(claim, premises, judge).supports


def entails_by_words(premises: Sequence[EvidencePassage], claim: str) -> float:
    """Return 1 if the premises hold at least 57 % of the claim's words, else 0.

    WebGLM matches claims with quotes so (sections 3.1 and 3.2.3).
    """
    return float(compute_word_share(premises, claim) >= MIN_WORD_SHARE)


def compute_word_share(premises: Sequence[EvidencePassage], claim: str) -> float:
    """Return the share of the claim's words that the premises hold; 0 for a claim without words.

    Words such as "the" do not count.
    """
    read = "\n".join(f"{each.heading}\n{each.text}" for each in premises)
    return compute_rouge_n(list_content_words(claim), list_content_words(read)).precision


def list_statements(answer: Answer) -> list[CitedStatement]:
    """Return the answer's claims, and its sentences outside of any claim, in order.

    A cited passage is a quote under the title of its page. A declined answer states nothing.
    """
    if answer.declined:
        return []
    spans: dict[tuple[int, int], tuple[int, ...]] = {}
    for claim in answer.claims:
        spans[claim.start, claim.end] = (*spans.get((claim.start, claim.end), ()), *claim.quotes)
    for start, end in find_sentences(Page("", "", answer.text), 0, len(answer.text)):
        if not any(claim.start < end and start < claim.end for claim in answer.claims):
            spans[start, end] = ()
    passages = [EvidencePassage(quote.text, quote.title) for quote in answer.quotes]
    return [
        CitedStatement(text, tuple(passages[number] for number in dict.fromkeys(numbers)))
        for (start, end), numbers in sorted(spans.items())
        if (text := answer.text[start:end].strip())
    ]


def judge_statement(statement: CitedStatement, entails: EntailmentFunction) -> StatementVerdict:
    """Judge whether what a statement cites entails it, and which of its citations are of use.

    A citation is of use if all together entail the statement, unless it does not do so alone and
    the others do without it (ALCE, section 3.3). A statement that cites nothing is not recalled.
    """
    cited = statement.cited

    def is_entailed(*premises: EvidencePassage) -> bool:
        """Return True if these premises together entail the statement."""
        return bool(premises) and entails(premises, statement.text) >= SUPPORT_THRESHOLD

    if not is_entailed(*cited):
        return StatementVerdict(False, (False,) * len(cited))
    if len(cited) == 1:
        return StatementVerdict(True, (True,))
    return StatementVerdict(
        True,
        tuple(
            is_entailed(passage) or not is_entailed(*cited[:at], *cited[at + 1 :])
            for at, passage in enumerate(cited)
        ),
    )


def score_answer_citations(
    answer: Answer, entails: EntailmentFunction
) -> AnswerCitationScores | None:
    """Return the citation recall and precision of one answer; None if it states nothing.

    ALCE leaves such answers out.
    """
    judgements = [judge_statement(statement, entails) for statement in list_statements(answer)]
    if not judgements:
        return None
    precise = [each for one in judgements for each in one.precise]
    recall = fmean(one.recalled for one in judgements)
    return AnswerCitationScores(
        recall, fmean(precise) if precise else 0.0, len(judgements), len(precise)
    )


def average_citation_scores(scores: Iterable[AnswerCitationScores | None]) -> SystemCitationScores:
    """Return the mean of the scores of a system's answers; None stands for one that states nothing.

    Raises ValueError if none states anything.
    """
    defined = [each for each in scores if each is not None]
    return SystemCitationScores(
        estimate_mean([each.recall for each in defined]),
        estimate_mean([each.precision for each in defined]),
        estimate_mean([each.f1 for each in defined]),
    )


def make_citations_figure(
    systems: Mapping[str, SystemCitationScores],
    says: str,
    name: str = "citations",
    title: str = "Citation recall and precision",
) -> Figure:
    """Make the figure of the systems' citation scores.

    `says` begins the caption, and names the entailment function.
    """
    shares: dict[tuple[str, str], Estimate] = {}
    for measure in ("recall", "precision", "f1"):
        shares |= {(measure, system): getattr(of, measure) for system, of in systems.items()}
    return Figure(
        name,
        title,
        f"{says} Intervals are over answers.",
        ("system", "measure", "mean", "low", "high", "answers"),
        tuple(
            (system, measure, *msgspec.structs.astuple(of))
            for (measure, system), of in shares.items()
        ),
        make_bars(shares, "mean of the answers"),
        "ALCE, section 3.3",
    )
