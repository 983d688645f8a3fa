"""A recording as a web of its own: all that was searched and opened once, without the network.

It answers every session alike, so that episodes in it can be replayed byte for byte.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library.call_recording import CallRecording, find_first_answer
from rookery.library.search_index import InMemoryLibrary
from rookery.records import Failure, Hit, Library, Page, digest_of


class FrozenWeb(Library):
    """A library of what the sessions of a recording were given. No page and no call is added.

    A search that a session made gives the results that the first one got; any other searches the
    recorded pages. A page is given in its first version.
    Threads may share one. Raises Failed: not_found, not_a_recording, or as `CallRecording` does.
    """

    def __init__(self, path: Path) -> None:
        _require_recording(path)
        self._recording = CallRecording(path)
        pages: dict[str, Page] = {}
        for page in self._recording.archive.iter_pages():
            pages.setdefault(page.url, page)
        if not pages:
            self.close()
            detail = "it has no pages: name the recording of sessions that opened some"
            raise Failed(Failure(str(path), Outcome.NOT_A_RECORDING, detail))
        self._pages = InMemoryLibrary(pages.values())
        versions = sorted((page.url, page.digest) for page in pages.values())
        calls = self._recording.select_rows("kind, what, k, answer from calls order by number")
        self._digest = digest_of(repr((versions, calls)))

    @property
    def skipped(self) -> Sequence[Failure]:
        """Nothing: a recording is read whole."""
        return ()

    def contents_digest(self) -> str:
        """Return a digest of all pages and of what was asked."""
        return self._digest

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the results of the recorded search, or of a search in the recorded pages."""
        recorded = find_first_answer(self._recording, "search", query, k)
        if recorded is not None and recorded.failure is None:
            return recorded.hits
        return self._pages.search(query, k)

    def fetch(self, url: str) -> Page:
        """Return the recorded page. Raises Failed (not_recorded) where no session opened it, or the
        recorded failure."""
        recorded = find_first_answer(self._recording, "fetch", url, 0)
        if recorded is None:
            try:
                return self._pages.fetch(url)
            except Failed as failed:
                detail = "no recorded session opened this address"
                raise Failed(Failure(url, Outcome.NOT_RECORDED, detail)) from failed
        if recorded.failure is not None:
            raise Failed(recorded.failure)
        page = self._recording.archive.load_version(recorded.version)
        return msgspec.structs.replace(page, fetched=recorded.fetched)

    def close(self) -> None:
        """Close the recording."""
        self._recording.close()


def _require_recording(path: Path) -> None:
    """Raise Failed where there is no file, or none in which calls are recorded.

    A CallRecording would make a new file there, and tables in a file of something else.
    """
    what = str(path)
    if not path.exists():
        raise Failed(Failure(what, Outcome.NOT_FOUND, "there is no such file: check the path"))
    advice = "name a file that rookery serve env --record, or rollouts, wrote"
    if path.is_dir():
        detail = f"it is a folder and no recording: {advice}, or serve the folder with --in"
        raise Failed(Failure(what, Outcome.NOT_A_RECORDING, detail))
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            found = file.execute("select name from sqlite_master where type = 'table'").fetchall()
    except sqlite3.Error:
        found = []
    if not {("sessions",), ("calls",), ("versions",)} <= set(found):
        raise Failed(Failure(what, Outcome.NOT_A_RECORDING, f"it is no recording: {advice}"))
