"""`rookery cite verify`: every quote of saved answers, ours or another tool's, checked again."""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urldefrag, urlsplit

from rich.console import Console

from rookery.browse.places import is_url
from rookery.cite.foreign import Claimed, answers, quoted_strings, standing
from rookery.cite.verify import Verdict, verify
from rookery.records import Answer, Failed, Failure, Page, Quote, Record
from rookery.serve.exits import ANSWERED, UNVERIFIED, USAGE
from rookery.serve.files import documents, read_files
from rookery.serve.session import Session, Settings
from rookery.serve.terminal import as_json, show_claimed, show_failures, show_verdict

LARGEST = 100_000_000
"""bytes of a file of saved answers"""
NOTHING_NAMED = "no source is named beside it"


class Standing(Record, frozen=True):
    """Whether a string that another tool quoted stands in the source that it names."""

    claimed: Claimed
    outcome: str
    """verified, not_found (the source does not say it), page_missing, broken_citation, or
    not_quoted (a sentence in the tool's own words)"""
    detail: str = ""
    quotes: tuple[Quote, ...] = ()


Checked = TypeVar("Checked", Verdict, Standing)


class Documents:
    """The pages of a folder of documents, by digest, address, file name and title."""

    def __init__(self, place: Path | None) -> None:
        read = list(read_files(documents(place))) if place else []
        self.unread = [got for got in read if isinstance(got, Failure)]
        pages = [got for got in read if isinstance(got, Page)]
        self._pages = sorted(pages, key=lambda page: page.url)

    def version(self, digest: str, url: str) -> Page | None:
        """The page with this text, else another version of the page at this address."""
        same = [page for page in self._pages if page.digest == digest]
        return next(iter(same), None) or self.named(url, "")

    def named(self, url: str, title: str) -> Page | None:
        """The page at this address, in a file of this name, or with this title."""
        file = unquote(urlsplit(url).path).rpartition("/")[2]
        for page in self._pages:
            name = unquote(page.url).rpartition("/")[2]
            if (
                page.url == url
                or (file and file == name)
                or (title and title in (page.title, name))
            ):
                return page
        return None


def check(file: Path, pages: Path | None, fetch: bool, json: bool, settings: Settings) -> int:
    """Check the quotes of a file on standard output; gives the exit code.

    Raises ValueError for a file that holds no answers of a known form.
    """
    data = _content(file)
    given = Documents(pages)
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    show_failures(err, given.unread)
    with Session(settings) as session:
        ours = answers(data, file.name)
        if ours:
            verdicts = _ours(ours, given, session)
            bad = sum(not verdict.verified for verdict in verdicts)
            return _report(verdicts, bad, out, err, json, show_verdict)
        claimed = quoted_strings(data, file.name)
        if not claimed:
            err.print(f"rookery: {file} quotes nothing that names a source", markup=False)
            return USAGE
        stands = [_stands(each, _source(each, given, session, fetch)) for each in claimed]
        return _report(stands, _failed(stands), out, err, json, _show_standing)


def _content(file: Path) -> bytes:
    with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as saved:
        data = saved.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"{file} has more than {LARGEST:,} bytes: split it")
    return data


def _ours(found: Sequence[Answer], given: Documents, session: Session) -> list[Verdict]:
    def stored(digest: str, url: str) -> Page | None:
        archived = session.archive.page(digest, url) or session.archive.page(digest)
        return archived or given.version(digest, url) or session.archive.latest(url)

    return [verdict for answer in found for verdict in verify(answer, stored)]


def _source(
    claimed: Claimed, given: Documents, session: Session, fetch: bool
) -> Page | Failure | None:
    """The page that the string is said to be from; the reason where it could not be had."""
    address = urldefrag(claimed.url).url
    page = given.named(address, claimed.title) or session.archive.latest(address)
    if page is None and fetch and is_url(address):
        try:
            return session.opened(address)
        except Failed as failed:
            return failed.failure
    return page


def _stands(claimed: Claimed, page: Page | Failure | None) -> Standing:
    if claimed.problem:
        return Standing(claimed, "broken_citation", claimed.problem)
    if not claimed.quoted:
        return Standing(claimed, "not_quoted", "a citation without quoted words: nothing to check")
    if not claimed.url and not claimed.title:
        return Standing(claimed, "page_missing", NOTHING_NAMED)
    if isinstance(page, Failure):
        return Standing(claimed, "page_missing", f"{page.outcome}: {page.detail}")
    if page is None:
        detail = "the source is not stored: name a folder with --pages, or open it with --fetch"
        return Standing(claimed, "page_missing", detail)
    quotes = standing(claimed, page)
    if not quotes:
        return Standing(claimed, "not_found", "these words do not stand in the source")
    return Standing(claimed, "verified", quotes=quotes)


def _failed(stands: Sequence[Standing]) -> int:
    """How many strings stand in none of the sources that are named for them."""
    outcomes: dict[tuple[str, str], set[str]] = {}
    for each in stands:
        outcomes.setdefault((each.claimed.where, each.claimed.text), set()).add(each.outcome)
    return sum(not found & {"verified", "not_quoted"} for found in outcomes.values())


def _show_standing(console: Console, standing: Standing) -> None:
    show_claimed(console, standing.claimed, standing.outcome, standing.detail)


def _report(
    checked: Sequence[Checked],
    failed: int,
    out: Console,
    err: Console,
    json: bool,
    show: Callable[[Console, Checked], None],
) -> int:
    for each in checked:
        if json:
            sys.stdout.write(as_json(each) + "\n")
        else:
            show(out, each)
    good = sum(each.outcome == "verified" for each in checked)
    err.print(f"{good} of {len(checked)} quotes verified", style="dim")
    return UNVERIFIED if failed else ANSWERED
