"""Saved answers checked for a program: each quote, ours or another tool's, and what came of it."""

from collections.abc import Callable, Iterator
from urllib.parse import urldefrag

import msgspec

from rookery.browse.archive import Archive
from rookery.cite.quotations import Claimed
from rookery.cite.verify import ClaimedVerdict, Verdict
from rookery.records import Page, Quote, Record
from rookery.serve.checking import AnyVerdict

SHOWN = 300
"""characters of each quote that are told"""


class Checked(Record, frozen=True):
    """One quote of a saved answer, or a part of its text that no quote holds."""

    text: str
    url: str
    title: str
    outcome: str
    """verified, or why not: not_found, elided, too_short, page_missing, wrong_source,
    digest_differs, text_differs, out_of_range, broken_citation, claim_differs; not_quoted and
    not_judged for what quotes nothing"""
    detail: str
    left_out: tuple[str, ...] = ()
    """of an elided quotation: what the page has between its pieces"""
    accepted: bool = False
    """an elided quotation that may pass"""


class ArchivedSources:
    """The pages of an archive, by the addresses that they have for one caller.

    `meant(address)` gives the digest of the page that an address of this server names; nothing
    where it is a URL itself.
    """

    def __init__(self, archive: Archive, meant: Callable[[str], str]) -> None:
        self._archive = archive
        self._meant = meant

    def version(self, quote: Quote) -> Page | None:
        """The version that a quote names, read from its address; else the nearest to it."""
        digest = self._meant(quote.url)
        nearest = self._archive.find_quoted(quote)
        if digest and nearest and digest == quote.digest:
            return msgspec.structs.replace(nearest, url=quote.url)
        return nearest or self.latest(quote.url)

    def latest(self, url: str) -> Page | None:
        """The newest version at an address; one version's own address has no other."""
        digest = self._meant(url)
        return self._archive.page(digest) if digest else self._archive.latest(url)

    def named(self, claimed: Claimed) -> Iterator[Page]:
        """The versions of the source that another tool names, newest first."""
        address = urldefrag(claimed.url).url
        if digest := self._meant(address):
            yield from filter(None, [self._archive.page(digest)])
        elif address:
            yield from self._archive.versions_at(address)

    def missing(self, claimed: Claimed) -> str:
        """Why there is no version of the source, and what to do."""
        return "its source is not stored here: open it, then verify again"


def as_told(verdict: AnyVerdict) -> Checked:
    """A verdict as a program is told of it."""
    if isinstance(verdict, Verdict):
        quote = verdict.quote
        return Checked(_cut(quote.text), quote.url, quote.title, verdict.outcome, verdict.detail)
    if isinstance(verdict, ClaimedVerdict):
        claimed, gaps = verdict.claimed, tuple(map(_cut, verdict.left_out))
        said = _cut(claimed.text), claimed.url, claimed.title, verdict.outcome, verdict.detail
        return Checked(*said, gaps, verdict.accepted)
    return Checked(_cut(verdict.text), "", "", verdict.outcome, verdict.detail)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
