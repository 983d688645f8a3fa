"""Citation recall and precision (ALCE, section 3.3): whether what is cited says what is said.

It knows nothing of what entails what: that is a function passed in. The one that comes with it
counts shared words, and takes a sentence and its negation for the same.
"""

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import NamedTuple

import msgspec

from rookery.browse.passages import sentences
from rookery.browse.words import QUESTION_WORDS
from rookery.cite.correct import CorrectSettings
from rookery.cite.overlap import rouge_n, words
from rookery.measure.figure import Figure, bars
from rookery.measure.interval import Estimate, mean
from rookery.records import Answer, Page, Quote, Record

Entails = Callable[[str, str], float]
"""how surely, from 0 to 1, a premise entails a claim"""
ENOUGH = 0.5
"""from when on it does"""
LEAST = CorrectSettings().threshold
"""share of a claim's words that a premise holds"""


class Statement(NamedTuple):
    """Something that an answer says, and the texts that it cites for it."""

    text: str
    cited: tuple[str, ...]


class Judged(NamedTuple):
    """What is to be said of one statement."""

    recalled: bool
    """all that it cites entails it"""
    precise: tuple[bool, ...]
    """of each text that it cites, whether it is needed or would do alone"""


class Citations(Record, frozen=True):
    """The citations of one answer."""

    recall: float
    """share of its statements that what they cite entails"""
    precision: float
    """share of its citations that are of use; 0 where it cites nothing"""
    statements: int
    citations: int

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0 where either is 0."""
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both else 0.0


class Cited(Record, frozen=True):
    """The citations of one system's answers, means over those that state something."""

    recall: Estimate
    precision: Estimate
    f1: Estimate


def by_words(premise: str, claim: str) -> float:
    """1 where the premise holds 57 % of the claim's words, as WebGLM matches claims with quotes
    (sections 3.1 and 3.2.3), else 0. Words such as "the" do not count."""
    said = _content(claim)
    return float(bool(said) and rouge_n(said, _content(premise)).precision >= LEAST)


def statements(answer: Answer) -> list[Statement]:
    """The answer's claims, and its sentences that no claim is a part of, in their order.

    A text that is cited is a quote below the title of its page. A declined answer states nothing.
    """
    if answer.declined:
        return []
    spans: dict[tuple[int, int], tuple[int, ...]] = {}
    for claim in answer.claims:
        spans[claim.start, claim.end] = (*spans.get((claim.start, claim.end), ()), *claim.quotes)
    for start, end in sentences(Page("", "", answer.text), 0, len(answer.text)):
        if not any(claim.start < end and start < claim.end for claim in answer.claims):
            spans[start, end] = ()
    return [
        Statement(text, tuple(_shown(answer.quotes[number]) for number in dict.fromkeys(numbers)))
        for (start, end), numbers in sorted(spans.items())
        if (text := answer.text[start:end].strip())
    ]


def judged(statement: Statement, entails: Entails = by_words) -> Judged:
    """Whether what is cited entails the statement, and which of it is of use.

    A citation is of use where all together entail the statement, unless it does not do so alone
    and the others do without it (ALCE, section 3.3).
    """
    cited = statement.cited

    def enough(*premises: str) -> bool:
        return bool(premises) and entails("\n".join(premises), statement.text) >= ENOUGH

    if not enough(*cited):
        return Judged(False, (False,) * len(cited))
    if len(cited) == 1:
        return Judged(True, (True,))
    return Judged(
        True,
        tuple(
            enough(text) or not enough(*cited[:at], *cited[at + 1 :])
            for at, text in enumerate(cited)
        ),
    )


def of_answer(answer: Answer, entails: Entails = by_words) -> Citations | None:
    """The citations of one answer; None where it states nothing, which ALCE leaves out."""
    found = [judged(statement, entails) for statement in statements(answer)]
    if not found:
        return None
    precise = [each for one in found for each in one.precise]
    recall = fmean(one.recalled for one in found)
    return Citations(recall, fmean(precise) if precise else 0.0, len(found), len(precise))


def cited(answers: Iterable[Answer], entails: Entails = by_words) -> Cited:
    """The means over a system's answers; f1 is the mean of the answers' own. Intervals are the
    bootstrap's over answers. Raises ValueError where none of them states anything."""
    found = [each for answer in answers if (each := of_answer(answer, entails)) is not None]
    return Cited(
        mean([each.recall for each in found]),
        mean([each.precision for each in found]),
        mean([each.f1 for each in found]),
    )


def citations_figure(
    systems: Mapping[str, Cited],
    says: str,
    name: str = "citations",
    title: str = "Citation recall and precision",
) -> Figure:
    """Each system's three means side by side. `says` names the entailment."""
    shares: dict[tuple[str, str], Estimate] = {}
    for measure in ("recall", "precision", "f1"):
        shares |= {(measure, system): getattr(of, measure) for system, of in systems.items()}
    return Figure(
        name,
        title,
        f"{says} Intervals are the bootstrap's over answers.",
        ("system", "measure", "mean", "low", "high", "answers"),
        tuple(
            (system, measure, *msgspec.structs.astuple(of))
            for (measure, system), of in shares.items()
        ),
        bars(shares, "mean of the answers"),
        "ALCE, section 3.3",
    )


def _shown(quote: Quote) -> str:
    return f"{quote.title}\n{quote.text}"


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in QUESTION_WORDS]
