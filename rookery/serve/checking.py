"""`rookery cite verify`: every quote of saved answers, ours or another tool's, checked again.

`check_saved` is what MCP's tool `verify` does, too.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import unquote, urldefrag, urlsplit

import msgspec

from rookery.browse.places import is_url, path_of
from rookery.cite.foreign import Claimed, SavedAnswer, quoted_strings, saved_answers
from rookery.cite.verify import (
    ClaimedVerdict,
    TextVerdict,
    Verdict,
    check_claimed,
    find_unjudged_sentences,
    verify,
)
from rookery.draft.extract import find_altered_extract
from rookery.draft.sides import BY as SIDES
from rookery.draft.sides import find_altered_sides
from rookery.records import Failed, Failure, Page, Quote
from rookery.serve.exits import ANSWERED, NO_EVIDENCE, UNVERIFIED
from rookery.serve.files import documents, read_file, read_files
from rookery.serve.session import Session, Settings
from rookery.serve.terminal import StreamConsole, as_json, show_checked, show_failures

LARGEST = 100_000_000
"""bytes of a file of saved answers"""

UNCHECKED = ("not_quoted", "not_judged")
"""outcomes of what holds no quote"""
AnyVerdict = Verdict | ClaimedVerdict | TextVerdict


class SourcePages(Protocol):
    """The stored pages that saved answers are checked against."""

    def version(self, quote: Quote) -> Page | None:
        """The version that comes nearest to what a quote names, as of `Archive.find_quoted`; else
        another version at its address."""

    def latest(self, url: str) -> Page | None:
        """The newest version at an address."""

    def named(self, claimed: Claimed) -> Iterable[Page]:
        """The versions of the source that another tool names, newest first."""

    def missing(self, claimed: Claimed) -> str:
        """Why there is no version of the source, and what to do."""


def check_saved(
    data: bytes, name: str, pages: SourcePages, allow_elided: bool = False
) -> list[AnyVerdict]:
    """The verdicts on saved answers, in their order; empty where they quote nothing.

    Raises ValueError for data of no known form.
    """
    ours = saved_answers(data, name)
    if ours is not None:
        return [verdict for saved in ours for verdict in _check_ours(saved, pages)]
    claimed = quoted_strings(data, name)
    return _told_of_others([_check_other(each, pages, allow_elided) for each in claimed])


def _check_other(claimed: Claimed, pages: SourcePages, allow_elided: bool) -> ClaimedVerdict:
    verdict = check_claimed(claimed, pages.named(claimed), allow_elided)
    if verdict.outcome == "page_missing" and (claimed.url or claimed.title):
        return msgspec.structs.replace(verdict, detail=pages.missing(claimed))
    return verdict


def _check_ours(saved: SavedAnswer, pages: SourcePages) -> Iterator[AnyVerdict]:
    if saved.answer is None:
        return
    yield from verify(saved.answer, pages.version, pages.latest)
    if saved.method == "extract":
        yield from find_altered_extract(saved.answer)
    elif saved.method == SIDES:
        yield from find_altered_sides(saved.answer)
    else:
        yield from find_unjudged_sentences(saved.answer)


def _told_of_others(verdicts: Sequence[ClaimedVerdict]) -> list[AnyVerdict]:
    """Of a string with several sources that one of them lacks, whether another has it."""
    standing = {_place(each) for each in verdicts if each.verified}
    also = "; they stand in another source that is cited with it"
    return [
        msgspec.structs.replace(each, detail=each.detail + also)
        if each.outcome == "not_found" and _place(each) in standing
        else each
        for each in verdicts
    ]


def _place(verdict: ClaimedVerdict) -> tuple[str, str]:
    return verdict.claimed.where, verdict.claimed.text


def count_failed(verdicts: Sequence[AnyVerdict]) -> int:
    """How many quotes and texts failed; a string with several sources where all of them do."""
    together: dict[object, list[bool]] = {}
    for number, each in enumerate(verdicts):
        place = _place(each) if isinstance(each, ClaimedVerdict) else number
        held = _holds(each) or each.outcome in UNCHECKED
        together.setdefault(place, []).append(held)
    return sum(not any(held) for held in together.values())


def _holds(verdict: AnyVerdict) -> bool:
    accepted = isinstance(verdict, ClaimedVerdict) and verdict.accepted
    return verdict.outcome == "verified" or accepted


def summarise(verdicts: Sequence[AnyVerdict]) -> str:
    """One line: how many quotes are verified, and what was not judged."""
    outcomes: Counter[str] = Counter(each.outcome for each in verdicts)
    quotes = len(verdicts) - sum(outcomes[each] for each in (*UNCHECKED, "claim_differs"))
    parts = [f"{outcomes['verified']} of {quotes} quotes verified"]
    if not quotes and not outcomes["claim_differs"]:
        parts = ["nothing was checked: no words are quoted beside a source"]
    if outcomes["elided"]:
        accepted = sum(_holds(each) for each in verdicts) - outcomes["verified"]
        parts.append(f"{outcomes['elided']} elided, {accepted} of them accepted")
    if outcomes["claim_differs"]:
        parts.append("the answer's text is not what its method writes")
    if unjudged := outcomes["not_judged"]:
        were = "was" if unjudged == 1 else "were"
        said = f"{_counted(unjudged, 'sentence')} written by a model {were} not judged"
        parts.append(f"{said}: only their quotes are checked")
    if cited := outcomes["not_quoted"]:
        parts.append(f"{_counted(cited, 'citation')} without quoted words not judged")
    return "; ".join(parts)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


class Documents:
    """The pages of a folder of documents, by address, digest and title."""

    def __init__(self, place: Path | None) -> None:
        read = list(read_files(documents(place))) if place else []
        self.unread = [got for got in read if isinstance(got, Failure)]
        pages = [got for got in read if isinstance(got, Page)]
        self._pages = sorted(pages, key=lambda page: page.url)
        self._by_url = {page.url: page for page in self._pages}
        self._by_name: dict[str, list[Page]] = {}
        for page in self._pages:
            self._by_name.setdefault(_path(page.url)[-1], []).append(page)

    def exactly_at(self, url: str) -> Page | None:
        """The file at this address."""
        return self._by_url.get(url)

    def at_address(self, url: str) -> list[Page]:
        """The file at this address, else the files whose path ends most like that of the address.

        What was saved from an address is at least named like it. Several files come so close where
        they have the same name in different folders.
        """
        if exact := self.exactly_at(url):
            return [exact]
        named = self._by_name.get(_path(url)[-1], [])
        close = [(_common_tail(page.url, url), page) for page in named]
        most = max((length for length, _ in close), default=0)
        return [page for length, page in close if length == most > 0]

    def with_digest(self, digest: str) -> Page | None:
        """A page with this text."""
        return next((page for page in self._pages if page.digest == digest), None)

    def titled(self, title: str) -> list[Page]:
        """The pages with this title or in a file of this name."""
        return [page for page in self._pages if title in (page.title, _path(page.url)[-1])]


def _common_tail(url: str, other: str) -> int:
    """How many parts of two paths are the same, from the end on."""
    pairs = zip(reversed(_path(url)), reversed(_path(other)), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] != "/", pairs))


def _path(url: str) -> tuple[str, ...]:
    path = urlsplit(url).path if "://" in url else url
    return PurePosixPath(unquote(path)).parts or ("",)


def _is_copy_served_here(quote: Quote) -> bool:
    """Whether the address is that of the stored copy at a Rookery server on this machine, which
    names a version by its digest and no other source."""
    address = urlsplit(quote.url)
    on_this_machine = address.hostname in ("localhost", "127.0.0.1", "::1")
    return on_this_machine and address.path == f"/pages/{quote.digest}"


class CheckedSources:
    """The pages of given documents, of the archive, and, where asked for, as they are now."""

    def __init__(self, given: Documents, session: Session, fetch: bool, folder: Path) -> None:
        self._given = given
        self._session = session
        self._fetch = fetch
        self._folder = folder
        self._now: dict[str, Page | Failure] = {}

    @property
    def unread(self) -> list[Failure]:
        """Why sources could not be opened as they are now."""
        return [got for got in self._now.values() if isinstance(got, Failure)]

    def version(self, quote: Quote) -> Page | None:
        """The version that a quote names, read from its address; else the nearest to it."""
        now = self._opened(quote.url)
        archived = self._session.archive.find_quoted(quote)
        if archived is not None and (archived.url == quote.url or _is_copy_served_here(quote)):
            return msgspec.structs.replace(archived, url=quote.url)
        here = [*([now] if now else []), *self._given.at_address(quote.url)]
        for page in here:
            if page.digest == quote.digest:
                return msgspec.structs.replace(page, url=quote.url)
        elsewhere = archived or self._given.with_digest(quote.digest)
        return elsewhere or next(iter(here), None) or self._session.archive.latest(quote.url)

    def latest(self, url: str) -> Page | None:
        """The page at an address as it is now where that is asked for, else as it is in the
        documents, else as it was stored last."""
        here = self._opened(url) or self._given.exactly_at(url)
        return here or self._session.archive.latest(url)

    def named(self, claimed: Claimed) -> Iterator[Page]:
        """The versions of the source that another tool names, newest first."""
        if not claimed.url:
            yield from self._given.titled(claimed.title)
            return
        address = self._address(claimed.url)
        if now := self._opened(address):
            yield now
        yield from self._given.at_address(address)
        yield from self._session.archive.versions_at(address)

    def missing(self, claimed: Claimed) -> str:
        """Why there is no version of the source, and what to do."""
        failure = self._now.get(self._address(claimed.url)) if claimed.url else None
        if isinstance(failure, Failure):
            return f"{failure.outcome}: {failure.detail}"
        return "the source is not stored: name a folder with --pages, or open it with --fetch"

    def _address(self, url: str) -> str:
        """The address that a source is stored under. A path is read from the answer's folder."""
        if is_url(url):
            return urldefrag(url).url
        local = url.lower().startswith("file:")
        path = path_of(urldefrag(url).url) if local else Path(unquote(urldefrag(url).url))
        return (self._folder / path).resolve().as_uri()

    def _opened(self, url: str) -> Page | None:
        """The page as it is now, opened once; None where that was not asked for, or fails."""
        if not self._fetch:
            return None
        if url not in self._now:
            try:
                opened = self._session.opened(url) if is_url(url) else read_file(path_of(url))
                self._now[url] = opened
            except Failed as failed:
                self._now[url] = failed.failure
        now = self._now[url]
        return now if isinstance(now, Page) else None


def check(
    file: Path, pages: Path | None, fetch: bool, json: bool, settings: Settings, elided: bool
) -> int:
    """Check the quotes of a file on standard output; gives the exit code.

    Raises ValueError for a file that holds no answers of a known form.
    """
    data = _content(file)
    given = Documents(pages)
    out, err = StreamConsole(), StreamConsole(stderr=True)
    show_failures(err, given.unread)
    with Session(settings) as session:
        sources = CheckedSources(given, session, fetch, file.absolute().parent)
        verdicts = check_saved(data, file.name, sources, elided)
        show_failures(err, sources.unread)
    for each in verdicts:
        if json:
            sys.stdout.write(as_json(each) + "\n")
        else:
            show_checked(out, each)
    err.print(summarise(verdicts), style="dim", markup=False, soft_wrap=True)
    if count_failed(verdicts):
        return UNVERIFIED
    return ANSWERED if any(map(_holds, verdicts)) else NO_EVIDENCE


def _content(file: Path) -> bytes:
    with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as saved:
        data = saved.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"{file} has more than {LARGEST:,} bytes: split it")
    return data
