"""Saved answers checked for a program: each quote, ours or another tool's, and what came of it.

It is given what looks pages up, and opens none itself.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import urldefrag

from rookery.cite.foreign import Claimed, answers, quoted_strings, standing
from rookery.cite.verify import Verdict, verify
from rookery.records import Page, Record

SHOWN = 300
"""characters of each quote that are told"""


class Checked(Record, frozen=True):
    """One quote of a saved answer."""

    text: str
    url: str
    title: str
    outcome: str
    """verified, or why not: not_found, page_missing, digest_differs, text_differs, out_of_range,
    broken_citation; not_quoted for a sentence that quotes nothing"""
    detail: str


class Pages(NamedTuple):
    """What finds stored pages."""

    version: Callable[[str, str], Page | None]
    """by digest and address; else another version at that address"""
    latest: Callable[[str], Page | None]
    """by address"""


def checked(data: bytes, pages: Pages) -> list[Checked]:
    """What came of each quote. Raises ValueError for what is no answer of a known form."""
    ours = answers(data, "the answer")
    if ours:
        verdicts = [verdict for answer in ours for verdict in verify(answer, pages.version)]
        return [_of_ours(verdict) for verdict in verdicts]
    claimed = quoted_strings(data, "the answer")
    if not claimed:
        raise ValueError("it quotes nothing that names a source: put the link beside the quote")
    return [_of_others(each, pages) for each in _told_once(claimed, pages)]


def _of_ours(verdict: Verdict) -> Checked:
    quote = verdict.quote
    return Checked(_cut(quote.text), quote.url, quote.title, verdict.outcome, verdict.detail)


def _told_once(claimed: Sequence[Claimed], pages: Pages) -> list[Claimed]:
    """Of a string with several sources, one in which it stands, or the first."""
    chosen: dict[tuple[str, str], Claimed] = {}
    for each in claimed:
        before = chosen.setdefault((each.where, each.text), each)
        if _outcome(each, pages)[0] == "verified" != _outcome(before, pages)[0]:
            chosen[each.where, each.text] = each
    return list(chosen.values())


def _of_others(claimed: Claimed, pages: Pages) -> Checked:
    return Checked(_cut(claimed.text), claimed.url, claimed.title, *_outcome(claimed, pages))


def _outcome(claimed: Claimed, pages: Pages) -> tuple[str, str]:
    if claimed.problem:
        return "broken_citation", claimed.problem
    if not claimed.quoted:
        return "not_quoted", "a citation without quoted words: nothing to check"
    page = pages.latest(urldefrag(claimed.url).url) if claimed.url else None
    if page is None:
        return "page_missing", "its source is not stored here: open it, then verify again"
    if not standing(claimed, page):
        return "not_found", "these words do not stand in the source"
    return "verified", ""


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
