"""`rookery cite verify`: every quote of saved answers, ours or another tool's, checked again."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urldefrag, urlsplit

import msgspec
from rich.console import Console

from rookery.browse.places import is_url
from rookery.cite.foreign import Claimed, answers, quoted_strings, standing
from rookery.cite.verify import Verdict, verify
from rookery.records import Answer, Failed, Page, Quote, Record
from rookery.serve.exits import ANSWERED, UNVERIFIED, USAGE
from rookery.serve.session import Session, Settings, read_file
from rookery.serve.terminal import show_claimed, show_verdict

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

    def __init__(self, folder: Path | None) -> None:
        self._pages: list[Page] = []
        self.unread: list[Failed] = []
        files = sorted(folder.rglob("*")) if folder and folder.is_dir() else [folder] * bool(folder)
        for file in files:
            if file is not None and not file.is_dir():
                self._read(file)

    def _read(self, file: Path) -> None:
        try:
            self._pages.append(read_file(file))
        except Failed as failed:
            self.unread.append(failed)

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


def check(file: Path, pages: Path | None, fetch: bool, as_json: bool, settings: Settings) -> int:
    """Check the quotes of a file on standard output; gives the exit code.

    Raises ValueError for a file that holds no answers of a known form.
    """
    data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    documents = Documents(pages)
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    for failed in documents.unread:
        err.print(f"rookery: not read: {failed}", style="dim", markup=False, soft_wrap=True)
    with Session(settings) as session:
        ours = answers(data, file.name)
        if ours:
            verdicts = _ours(ours, documents, session)
            failed = [verdict for verdict in verdicts if not verdict.verified]
            return _report(verdicts, len(failed), out, err, as_json, show_verdict)
        claimed = quoted_strings(data, file.name)
        if not claimed:
            err.print(f"rookery: {file} quotes nothing that names a source", markup=False)
            return USAGE
        stands = [_stands(each, _source(each, documents, session, fetch)) for each in claimed]
        return _report(stands, _failed(stands), out, err, as_json, _show_standing)


def _ours(found: Sequence[Answer], documents: Documents, session: Session) -> list[Verdict]:
    def stored(digest: str, url: str) -> Page | None:
        archived = session.archive.page(digest, url) or session.archive.page(digest)
        return archived or documents.version(digest, url) or session.archive.latest(url)

    return [verdict for answer in found for verdict in verify(answer, stored)]


def _source(
    claimed: Claimed, documents: Documents, session: Session, fetch: bool
) -> Page | Failed | None:
    """The page that the string is said to be from; the reason where it could not be had."""
    address = urldefrag(claimed.url).url
    page = documents.named(address, claimed.title) or session.archive.latest(address)
    if page is None and fetch and is_url(address):
        try:
            page = session.fetcher().page(address)
        except Failed as failed:
            return failed
        session.archive.keep(page, asked=address)
    return page


def _stands(claimed: Claimed, page: Page | Failed | None) -> Standing:
    if claimed.problem:
        return Standing(claimed, "broken_citation", claimed.problem)
    if not claimed.quoted:
        return Standing(claimed, "not_quoted", "a citation without quoted words: nothing to check")
    if not claimed.url and not claimed.title:
        return Standing(claimed, "page_missing", NOTHING_NAMED)
    if isinstance(page, Failed):
        return Standing(claimed, "page_missing", str(page))
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
    as_json: bool,
    show: Callable[[Console, Checked], None],
) -> int:
    for each in checked:
        if as_json:
            out.file.write(msgspec.json.encode(each).decode() + "\n")
        else:
            show(out, each)
    good = sum(each.outcome == "verified" for each in checked)
    err.print(f"{good} of {len(checked)} quotes verified", style="dim")
    return UNVERIFIED if failed else ANSWERED
