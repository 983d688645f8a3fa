"""An answer as a judge sees it: its text in pieces, its citations, its sentences.

Offsets count characters of the answer's text. Who wrote it is not known here.
"""

from collections.abc import Sequence
from typing import NamedTuple

from rookery.browse.passages import sentences
from rookery.judge.fields import Form
from rookery.judge.filling import called
from rookery.judge.work import Item
from rookery.records import Answer, Block, Page, Quote


class Piece(NamedTuple):
    """A run of the answer's text, and the quotes that are cited after it, from 0."""

    start: int
    text: str
    cited: tuple[int, ...] = ()
    claimed: bool = False
    """whether it is all of a claim"""


class Shown(NamedTuple):
    """One answer in the place where it is shown."""

    place: int
    """among the answers as they are shown, from 0"""
    letter: str
    """what it is called; nothing, where it is the only one"""
    answer: Answer
    pieces: tuple[Piece, ...]

    @property
    def cited(self) -> frozenset[int]:
        """The quotes that some claim rests on."""
        return frozenset(number for claim in self.answer.claims for number in claim.quotes)

    @property
    def uncited(self) -> list[Quote]:
        """The quotes that no claim rests on."""
        return [quote for n, quote in enumerate(self.answer.quotes) if n not in self.cited]

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """Its evidence."""
        return self.answer.quotes


def shown_answers(form: Form, item: Item, order: Sequence[int]) -> tuple[Shown, ...]:
    """The item's answers in the order in which this person sees them."""
    return tuple(
        Shown(
            place,
            called(form, place) if len(order) > 1 else "",
            item.answers[number],
            pieces(item.answers[number]),
        )
        for place, number in enumerate(order)
    )


# A browser reads these otherwise; what it reads in their place is as long.
_READ = str.maketrans({"\r": "\n", "\0": "\ufffd"})


def pieces(answer: Answer) -> tuple[Piece, ...]:
    """The whole text, cut where claims begin and end; a claim's quotes are cited at its end.

    Claims that overlap are cut at their ends only.
    """
    out: list[Piece] = []
    done, text = 0, answer.text.translate(_READ)
    for claim in sorted(answer.claims, key=lambda claim: (claim.end, claim.start)):
        if done < claim.start:
            out.append(Piece(done, text[done : claim.start]))
        begin = max(done, claim.start)
        whole = begin == claim.start and begin < claim.end
        out.append(Piece(begin, text[begin : claim.end], claim.quotes, whole))
        done = max(done, claim.end)
    if done < len(text) or not out:
        out.append(Piece(done, text[done:]))
    return tuple(out)


def sentences_of(text: str) -> list[tuple[int, int]]:
    """Where the sentences are; one that ends with its line ends there."""
    lines, at = [], 0
    for line in text.split("\n"):
        if line.strip():
            lines.append(Block(at, at + len(line), "paragraph"))
        at += len(line) + 1
    return [
        (span[0], span[1]) for span in sentences(Page("", "", text, tuple(lines)), 0, len(text))
    ]
