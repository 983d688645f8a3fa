"""Citation numbers set right by what the cited words share with the quotes (WebGLM, section 3.2.2).

For answers whose writer gets the words of its sources right and their numbers wrong. Knows nothing
of meaning: a claim that denies its quote shares its words, and keeps it.
"""

import re
from collections.abc import Sequence

import msgspec

from rookery.browse.words import QUESTION_WORDS
from rookery.cite.overlap import rouge_n, words
from rookery.cite.syntax import NUMBER, NUMBERED_MARK, parse_numbered
from rookery.records import Answer, Claim, Page, Quote

NUMBER_OR_ESCAPED = re.compile(rf"(?<!\\)(?:\\\\)*\\(?:{NUMBERED_MARK})|{NUMBER}")


class CorrectSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What makes a quote one that a claim rests on."""

    threshold: float = 0.57
    """least share of the claim's words that the quote holds (WebGLM, section 3.2.3)"""


def correct(answer: Answer, settings: CorrectSettings = CorrectSettings()) -> Answer:
    """The same text and quotes, each claim citing every quote that matches it and no other.

    A claim matches a quote by ROUGE-1 precision, as in WebGLM's section 3.1: the F1 that its
    section 3.2.3 names cannot reach 0.57 where a quote is two and a half times as long as the
    claim. Words such as "the" and "is" are left out of both, as in WebGLM's published code. What
    the claim cited before has no say. A claim that nothing matches is a claim no more. Correcting
    twice changes nothing more.
    """
    sources = [_content(quote.text) for quote in answer.quotes]
    claims = tuple(
        msgspec.structs.replace(claim, quotes=numbers)
        for claim in answer.claims
        if (numbers := _matching(answer.text[claim.start : claim.end], sources, settings.threshold))
    )
    return msgspec.structs.replace(answer, claims=claims)


def parse_correcting(
    text: str, quotes: Sequence[Quote], settings: CorrectSettings = CorrectSettings()
) -> Answer:
    """What `parse_numbered` would read, corrected: numbers that no quote has do no harm.

    Raises BadSyntax where an opened claim is not cited.
    """
    # Which number stands where has no say, only that one does: every one is read as [1].
    marked = NUMBER_OR_ESCAPED.sub(lambda found: found[0] if found[0][0] == "\\" else "[1]", text)
    read = parse_numbered(marked, [Page("", "", "anything").quote(0, 8)])
    claims = tuple(Claim(claim.start, claim.end, ()) for claim in read.claims)
    return correct(Answer(read.text, tuple(quotes), claims), settings)


def _matching(claim: str, sources: list[list[str]], threshold: float) -> tuple[int, ...]:
    said = _content(claim)
    shares = [rouge_n(said, source).precision for source in sources] if said else []
    return tuple(number for number, share in enumerate(shares) if share >= threshold)


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in QUESTION_WORDS]
