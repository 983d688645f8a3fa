"""One run of the command line: the store, the network, the library, the ranker, and their end."""

import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

import msgspec
from platformdirs import user_cache_path, user_data_path
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from rookery.browse.archive import Archive
from rookery.browse.fetch import Fetcher
from rookery.browse.places import is_url, open_library
from rookery.browse.read import read
from rookery.cite.rank import Similarity
from rookery.draft.extract import ExtractSettings, extract
from rookery.records import Episode, Failed, Failure, Library, Page, Question, Quote
from rookery.serve.terminal import clean

LATE = 1.0
"""seconds after which work that is still going on shows a progress bar"""


@runtime_checkable
class Closing(Protocol):
    """A library that holds files open."""

    def close(self) -> None: ...


class Settings(msgspec.Struct, frozen=True):
    """What the command line said; enough to open the same session in another process."""

    places: tuple[str, ...] = ()
    engine: str = "wikipedia"
    offline: bool = False
    private: bool = False
    proxy: bool = False
    decline: float | None = None


def data_home() -> Path:
    """Where the archive is: what was opened, to be kept."""
    return Path(user_data_path("rookery"))


def cache_home() -> Path:
    """Where indexes and vectors are: they can be deleted and are made again."""
    return Path(user_cache_path("rookery"))


class Session:
    """The parts of Rookery that a command uses, opened when first needed and closed at the end."""

    def __init__(self, settings: Settings, progress: "Meter | None" = None) -> None:
        self.settings = settings
        self._open = ExitStack()
        self._progress = progress
        self.archive = self._open.enter_context(Archive(data_home() / "archive.sqlite"))
        self._fetcher: Fetcher | None = None
        self._library: Library | None = None
        self._similarity: Similarity | None = None
        self._similarity_tried = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(self._library, Closing):
            self._library.close()
        self._open.close()

    def library(self) -> Library:
        """What the settings name, opened (and indexed) at the first use."""
        if self._library is None:
            s = self.settings
            self._library = open_library(
                s.places,
                self.archive,
                self.fetcher,
                cache_home(),
                s.engine,
                s.offline,
                self._progress,
            )
        return self._library

    def fetcher(self) -> Fetcher:
        """The network, opened at the first use: reading a folder needs none."""
        if self._fetcher is None:
            s = self.settings
            self._fetcher = self._open.enter_context(
                Fetcher(allow_private=s.private, use_proxy=s.proxy)
            )
        return self._fetcher

    def answer(self, question: Question) -> Episode:
        """The extractive answer from the library, with all that could not be read for it."""
        settings = ExtractSettings()
        if self.settings.decline is not None:
            settings = msgspec.structs.replace(settings, decline=self.settings.decline)
        return extract(question, self.library(), self._ranker(), settings)

    def page(self, quote: Quote) -> Page | None:
        """The version of the page that this quote was cut from, from the archive."""
        return self.archive.page(quote.digest, quote.url) or self.archive.page(quote.digest)

    def _ranker(self) -> Similarity | None:
        if not self._similarity_tried:
            from rookery.cite.dense import load

            dense = load(cache_home() / "vectors.sqlite")
            self._similarity = dense.similarities if dense else None
            self._similarity_tried = True
        return self._similarity


def open_page(place: str, settings: Settings) -> Page:
    """The page of a file or address, read now. An address is kept in the archive."""
    if not is_url(place):
        return read_file(Path(place).expanduser())
    with Session(settings) as session:
        page = session.fetcher().page(place)
        session.archive.keep(page, asked=place)
        return page


def read_file(path: Path) -> Page:
    """The page of a file. Raises Failed where there is none or it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Failed(
            Failure(str(path), "unreadable_file", f"{error.strerror}: check the path")
        ) from error
    return read(data, path.resolve().as_uri())


class Meter:
    """A progress bar on standard error that appears only when work takes longer than a second."""

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what
        self._since = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, done: int, total: int, now: str = "") -> None:
        """`done` of `total` are ready; `now` is what is being worked on."""
        if self._bar is None:
            if time.monotonic() - self._since < LATE or not self._console.is_terminal:
                return
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[now]}"),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task(self._what, total=total, now="")
            self._bar.start()
        assert self._task is not None
        shown = clean(now)[-40:]
        self._bar.update(self._task, completed=done, total=total or None, now=shown)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
