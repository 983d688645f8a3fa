"""An answer as its page shows it: its text in pieces, its quotes as cards, both sides apart.

It knows nothing of how it was made, nor of who reads it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rookery.browse.places import is_url
from rookery.cite.place import deep_link, place
from rookery.cite.verify import Verdict
from rookery.draft.sides import BY as SIDES
from rookery.records import Answer, Claim, Episode, Page, Quote
from rookery.serve.terminal import WITHOUT_ANSWER, clean, reasons
from rookery.serve.web.page_shown import address
from rookery.serve.web.steps import named

AGAINST = "\nAgainst:\n"
REASONS = 8
"""failures that are told in full; the others are only counted"""


class Piece(NamedTuple):
    """A part of an answer's text, and the numbers of the quotes that it rests on."""

    text: str
    cited: tuple[int, ...]


class Card(NamedTuple):
    """A quote before its reader."""

    number: int
    quote: Quote
    source: str
    """the page's host, or the name of its file"""
    place: str
    shown: str
    """the address of the stored page, with this marked"""
    live: str
    """of the live page at the quote; empty: it has none"""
    verified: bool
    detail: str


class Side(NamedTuple):
    """What is for a claim, or against it."""

    name: str
    pieces: list[Piece]
    nothing: str
    """what is said where there is nothing"""


class Shown(NamedTuple):
    """An answer, or why there is none."""

    episode: Episode
    pieces: list[Piece]
    cards: list[Card]
    claim: str
    sides: list[Side]
    """both, where the answer has two"""
    footer: str
    """who judged the sides"""
    why: str
    """there is no answer"""
    counts: list[str]
    """how often each thing went wrong"""
    failures: list[str]


def view(
    episode: Episode, verdicts: Sequence[Verdict], page_of: Callable[[Quote], Page | None]
) -> Shown:
    """All that there is to show."""
    answer = episode.answer
    pieces = _pieces(answer.text, answer.claims) if answer else []
    cards = [card(n, verdict, page_of(verdict.quote)) for n, verdict in enumerate(verdicts, 1)]
    claim, sides, footer = "", list[Side](), ""
    if answer and episode.by == SIDES and not answer.declined and AGAINST in answer.text:
        claim, sides, footer = _two_sides(answer)
    said = dict.fromkeys(f"{named(f.what)}: {f.detail or f.outcome}" for f in episode.failures)
    return Shown(
        episode,
        pieces,
        cards,
        claim,
        sides,
        footer,
        "" if answer else WITHOUT_ANSWER.get(episode.stop, f"no answer: {episode.stop}"),
        reasons(episode.failures),
        [clean(each) for each in list(said)[:REASONS]],
    )


def card(number: int, verdict: Verdict, page: Page | None) -> Card:
    """A quote with its page, where that is to be had, and what the check says."""
    quote = verdict.quote
    return Card(
        number,
        quote,
        named(quote.url),
        place(page, quote.start) if page and page.digest == quote.digest else "",
        address(quote),
        deep_link(quote, page) if is_url(quote.url) else "",
        verdict.verified,
        verdict.detail,
    )


def _pieces(text: str, claims: Sequence[Claim], start: int = 0) -> list[Piece]:
    pieces, last = list[Piece](), start
    for claim in claims:
        numbers = tuple(number + 1 for number in claim.quotes)
        pieces.append(Piece(text[last : claim.end], numbers))
        last = max(last, claim.end)
    return [*pieces, Piece(text[last:], ())] if text[last:].strip() else pieces


def _two_sides(answer: Answer) -> tuple[str, list[Side], str]:
    """The claim, what is for and what is against it, and who judged."""
    head, _, rest = answer.text.partition("\n")
    middle = answer.text.index(AGAINST)
    against, _, footer = rest.partition(AGAINST)[2].rpartition("\n\n")
    parts = {"For": (rest.partition("For:\n")[2].partition(AGAINST)[0], range(middle))}
    parts["Against"] = against, range(middle, len(answer.text))
    sides = []
    for name, (text, where) in parts.items():
        claims = [claim for claim in answer.claims if claim.start in where]
        said = [
            Piece(answer.text[each.start : each.end], tuple(n + 1 for n in each.quotes))
            for each in claims
        ]
        sides.append(Side(name, said, "" if said else text.strip()))
    return head.removeprefix("Claim: "), sides, footer
