"""One run of the command line: the store, the network, the library, the ranker, and their end."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

import msgspec
from platformdirs import user_cache_path, user_data_path
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column

from rookery.browse.archive import Archive
from rookery.browse.fetch import Fetcher
from rookery.browse.folder import Folder
from rookery.browse.folder import Progress as Reading
from rookery.browse.places import bundled, is_url, open_library, path_of
from rookery.browse.rules import Rules
from rookery.browse.selection import Selection, SkippedFiles, count_skipped
from rookery.browse.site import Site, SiteLimits
from rookery.browse.warc import Warc
from rookery.cite.rank import Observer, Similarity
from rookery.draft.calibrated import least_score, scored_by, threshold_for
from rookery.draft.decline import Calibration
from rookery.draft.extract import ExtractSettings, extract
from rookery.draft.gophercite import GopherCiteSettings, gophercite
from rookery.draft.remote import Model
from rookery.draft.sides import BY as SIDES
from rookery.draft.sides import SidesSettings, both_sides
from rookery.draft.webglm import WebglmSettings, webglm
from rookery.draft.webgpt import WebgptSettings, webgpt
from rookery.draft.write import Choosing, failed
from rookery.records import Episode, Failed, Failure, Library, Page, Question, Quote
from rookery.serve.exits import MISTAKES
from rookery.serve.files import read_file, read_input
from rookery.serve.models import Kept, Models, ModelSettings
from rookery.serve.terminal import clean

ARCHIVE = "archive.sqlite"
LATE = 1.0
"""seconds after which work that is still going on shows a progress bar"""


@runtime_checkable
class Closing(Protocol):
    """A library that holds files open."""

    def close(self) -> None: ...


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the command line said; enough to open the same session in another process."""

    places: tuple[str, ...] = ()
    engine: str = "wikipedia"
    offline: bool = False
    private: bool = False
    proxy: bool = False
    decline: float | None = None
    method: str = "extract"
    models: ModelSettings = ModelSettings()
    ranker: str = ""
    """a folder with the encoder of the dense ranker; empty: the one that is installed"""
    quotes: int | None = None
    """that an answer has at most; None: as many as the method gives"""
    selection: Selection = Selection()
    """which files of the folders are read"""

    def about(self) -> str:
        """All that an answer by a model depends on, but the question and the model."""
        here = Settings(
            self.places,
            self.engine,
            method=self.method,
            ranker=self.ranker,
            quotes=self.quotes,
            selection=self.selection,
        )
        return msgspec.json.encode(here).decode()


def data_home() -> Path:
    """Where the archive is: what was opened, to be kept."""
    return Path(user_data_path("rookery"))


def cache_home() -> Path:
    """Where indexes and vectors are: they can be deleted and are made again."""
    return Path(user_cache_path("rookery"))


class Session:
    """The parts of Rookery that a command uses, opened when first needed and closed at the end."""

    def __init__(self, settings: Settings, progress: Reading | None = None) -> None:
        self.settings = settings
        self._open = ExitStack()
        self._progress = progress
        self.archive = self._open.enter_context(Archive(data_home() / ARCHIVE))
        self._fetcher: Fetcher | None = None
        self._library: Library | None = None
        self._skipped: tuple[Failure, ...] = ()
        self._counted: tuple[SkippedFiles, ...] | None = None
        self._similarity: Similarity | None = None
        self._similarity_tried = False
        self._models: Models | None = None
        self._calibration: Calibration | None = None
        self.heard: Callable[[str], None] = lambda said: None
        """is told each command that a model gives the text browser"""
        self.watch: Callable[[Library], Library] = lambda library: library
        """makes the library that a method asks of the one that is open"""
        self.observe: Observer = lambda ranked: None
        """is told the passages as a method ranks them"""
        self.tell: Callable[[str], None] | None = None
        """is told what a model writes, as far as it has come"""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._library, Closing):
            self._library.close()
        self._open.close()

    def open_library(self) -> Library:
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
                s.selection,
            )
            self._skipped = tuple(getattr(self._library, "failures", ()))
        return self._library

    def refresh_library(self) -> Folder | Site | Warc:
        """The library of the one place, read and crawled anew where it changed. Raises Failed."""
        place = self.settings.places[0]
        if not is_url(place):
            library = self.open_library()  # files are looked at whenever they are opened
            assert isinstance(library, Folder | Warc)
            return library
        began = time.time()
        limits = SiteLimits(fresh_seconds=0)
        site = Site(place, self.archive, self.fetcher(), cache_home(), limits, self._progress)
        if site.crawled < began:
            raise Failed(site.failures[-1])
        self._library = site
        return site

    def count_skipped(self) -> tuple[SkippedFiles, ...]:
        """The files of the folders that are left out, by reason; none before they are opened.

        What is not read of the bundled pages is left unsaid: it is nobody's document.
        """
        if self._library is not None and self._counted is None:
            skipped, ours = getattr(self._library, "skipped", ()), str(bundled())
            self._counted = count_skipped(one for one in skipped if not one.what.startswith(ours))
        return self._counted or ()

    def fetcher(self) -> Fetcher:
        """The network, opened at the first use: reading a folder needs none."""
        if self._fetcher is None:
            s = self.settings
            self._fetcher = self._open.enter_context(
                Fetcher(allow_private=s.private, use_proxy=s.proxy)
            )
        return self._fetcher

    def opened(self, address: str) -> Page:
        """The page at an address, fetched now and kept. Raises Failed."""
        page = self.fetcher().page(address)
        self.archive.keep(page, asked=address)
        return page

    def answer(self, question: Question) -> Episode:
        """The answer from the library, with all that could not be read for it.

        A library that cannot be opened is no evidence. Raises Failed where it is misnamed, and
        where a model is and cannot be asked.
        """
        try:
            episode = self._answered(question)
        except Failed as failed:
            if failed.failure.outcome in MISTAKES:
                raise
            method, why = self.settings.method, (failed.failure,)
            return Episode(question, method, stop="no_evidence", failures=why)
        failures = tuple(dict.fromkeys((*episode.failures, *self._skipped)))
        return msgspec.structs.replace(episode, failures=failures)

    def _answered(self, question: Question) -> Episode:
        s = self.settings
        if s.method == "extract":
            quoting = ExtractSettings()
            if s.decline is not None:
                quoting = msgspec.structs.replace(quoting, decline=s.decline)
            if s.quotes is not None:
                quoting = msgspec.structs.replace(quoting, quotes=s.quotes)
            library = self.watch(self.open_library())
            return extract(question, library, self._ranker(), quoting, self.observe)
        if not s.models:
            return self._sides(question, self.watch(self.open_library()))
        about, write = s.about(), partial(self._written, question)
        return self.models().answer(question, about, self.open_library, write)

    def _written(self, question: Question, kept: Kept) -> Episode:
        """The answer of a model, by the method that the settings name."""
        models, library, most = kept.model, self.watch(kept.library), self.settings.quotes
        if self.settings.method == "webgpt":
            choosing, browser, writer = self._choosing(1), models("browse"), models("write")
            browsing = WebgptSettings(Rules(quotes=most or 0))
            return webgpt(question, library, browser, writer, choosing, browsing, self.heard)
        if self.settings.method == SIDES:
            return self._sides(question, library, models("write"))
        if self.settings.method == "gophercite":
            return self._quoting(question, library, models("write"))
        reading = WebglmSettings() if most is None else WebglmSettings(references=most)
        choosing = self._choosing(1)
        return webglm(
            question, library, models("write"), self._ranker(), choosing, reading, self.observe
        )

    def _sides(self, question: Question, library: Library, model: Model | None = None) -> Episode:
        most = self.settings.quotes
        sides = SidesSettings() if most is None else SidesSettings(quotes=most)
        return both_sides(question, library, self._ranker(), model, sides, self.observe)

    def _quoting(self, question: Question, library: Library, model: Model) -> Episode:
        """GopherCite's answer, of a model that is held to quotes where it can be."""
        choosing, ranker = self._choosing(8), self._ranker()
        try:
            hold, unheld = self.models().holding(model)
        except Failed as error:
            return failed(question, "gophercite", error)
        quoting = GopherCiteSettings(quotes=self.settings.quotes or 0)
        episode = gophercite(
            question, library, model, ranker, choosing, quoting, hold, self.observe
        )
        failures = (*episode.failures, *filter(None, [unheld]))
        return msgspec.structs.replace(episode, failures=failures)

    def _choosing(self, samples: int) -> Choosing:
        """So many samples, where the settings do not say how many."""
        models, found = self.settings.models, self.calibration()
        decline = None if found is None else least_score(found)
        return Choosing(models.samples or samples, worth=models.worth, decline=decline)

    def calibration(self) -> Calibration | None:
        """What --decline promises of a model's answers, or why it cannot. Raises Failed."""
        s, by = self.settings, self.settings.models
        if self._calibration is None and s.decline is not None and s.method != "extract":
            scored = scored_by(s.method, self.models().endpoint, by.samples, by.worth)
            self._calibration = threshold_for(scored, s.decline, data_home())
        return self._calibration

    def models(self) -> Models:
        """The models that the settings name."""
        if self._models is None:
            s, store = self.settings, data_home() / ARCHIVE
            self._models = self._open.enter_context(Models(s.models, store, s.offline, self.tell))
        return self._models

    def page(self, quote: Quote) -> Page | None:
        """The version of the page that this quote was cut from, from the archive."""
        return self.archive.page(quote.digest, quote.url) or self.archive.page(quote.digest)

    def _ranker(self) -> Similarity | None:
        if not self._similarity_tried:
            from rookery.cite.dense import load

            folder = Path(self.settings.ranker) if self.settings.ranker else None
            dense = load(cache_home() / "vectors.sqlite", folder)
            self._similarity = dense.similarities if dense else None
            self._similarity_tried = True
        return self._similarity


def open_page(place: str, settings: Settings) -> Page:
    """The page of a file, an address or standard input (-), read now. An address is kept."""
    if place == "-":
        return read_input()
    if not is_url(place):
        return read_file(path_of(place))
    with Session(settings) as session:
        return session.opened(place)


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
            if time.monotonic() - self._since < LATE or not self._console.is_interactive:
                return
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(table_column=Column(min_width=9, no_wrap=True)),
                TextColumn(
                    "{task.fields[now]}", table_column=Column(no_wrap=True, overflow="ellipsis")
                ),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task(self._what, total=total, now="")
            self._bar.start()
        assert self._task is not None
        shown = escape(clean(now.rpartition("/")[2]))
        self._bar.update(self._task, completed=done, total=total or None, now=shown)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
