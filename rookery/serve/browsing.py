"""`rookery browse` in a terminal: a person searches, reads, quotes and answers, and it is kept.

It brings together what the files beside it know: the library, the desk, the screen, the disk.
"""

import getpass
import os
import signal
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from prompt_toolkit.utils import is_dumb_terminal

from rookery.browse.archive import Archive
from rookery.browse.places import engine_named, is_url, path_of
from rookery.browse.rules import Task
from rookery.browse.web import Web
from rookery.cite.verify import verify
from rookery.records import Episode, Failed, Failure, Hit, Library, Page, Question
from rookery.serve import demonstrations
from rookery.serve.beside import Beside
from rookery.serve.desk import Desk
from rookery.serve.exits import ANSWERED
from rookery.serve.files import read_file
from rookery.serve.keyboard import run
from rookery.serve.session import Meter, Session, Settings, data_home
from rookery.serve.sitting import Sitting
from rookery.serve.terminal import StreamConsole, clean, show_answer
from rookery.serve.typed import question_of
from rookery.serve.unfinished import SUFFIX, Begun, Unfinished, unfinished


class _Work(NamedTuple):
    """A sitting, and where it is kept until it is finished: None until anything is to be kept."""

    begun: Begun
    sitting: Sitting
    journal: Unfinished | None = None


def browse(
    place: str, settings: Settings, question: str, out: Path | None, recording: Path | None
) -> int:
    """Opens the text browser at a page, a file, or nowhere; gives the exit code.

    A folder as the place is searched, like those of the settings. `out` is the file that a
    demonstration is added to, `recording` keeps what it was given; both are in the data folder
    where they are not named. Raises Failed, ValueError or OSError where it cannot begin; what was
    done later stays on disk.
    """
    if not sys.stdin.isatty() or is_dumb_terminal():
        raise ValueError("the text browser needs a terminal; --plain prints a page anywhere")
    out = (out or data_home() / "demonstrations.jsonl").expanduser().absolute()
    recording = (recording or demonstrations.recording_beside(out)).expanduser().absolute()
    demonstrations.check(out)
    work = _resumed(out) or _new(place, settings, question, out)
    with ExitStack() as stack:
        with Meter(StreamConsole(stderr=True), "reading") as meter:
            session = stack.enter_context(Session(work.begun.settings, meter))
            library = _library(session, work.sitting)
        number = _sit(work, library, recording)
    if number:
        signal.raise_signal(number)
    return ANSWERED


def _sit(work: _Work, library: Library, recording: Path) -> int:
    """Lets the person work until they leave, and says what has become of it. The number of the
    signal that ended it, or 0."""
    begun, sitting, journal = work
    saved: list[Episode] = []
    out = Path(begun.out)

    def save(sitting: Sitting) -> None:
        saved.append(demonstrations.save(sitting, _person(), begun.name, out, recording))

    if journal is None:
        journal = Unfinished(_folder() / f"{begun.name.rpartition('/')[2]}{SUFFIX}")
        journal.keep(begun)
    try:
        desk = Desk(sitting, journal.keep, save)
        number = run(desk, library)
        if desk.left in ("saved", "dropped"):
            journal.delete()
    finally:
        journal.close()
    for episode in saved:
        _show(episode, sitting, out, recording)
    if desk.left == "kept":
        _say(f"kept; to go on, start `rookery browse` again{_with(out)}")
    return number


def _show(episode: Episode, sitting: Sitting, out: Path, recording: Path) -> None:
    if answer := episode.answer:
        verdicts = verify(answer, lambda quote: sitting.page(quote.digest, quote.url))
        pages = [sitting.page(quote.digest, quote.url) for quote in answer.quotes]
        show_answer(StreamConsole(), episode, pages, verdicts)
    _say(f"saved in {out}, recorded in {recording}")


def _new(place: str, settings: Settings, question: str, out: Path) -> _Work:
    """A sitting that begins at the place, under a name of its own."""
    places, start = settings.places, place
    if place and not is_url(place):
        path = path_of(place)
        if not path.exists():
            detail = "there is no such file or folder: check the path"
            raise Failed(Failure(place, "not_found", detail))
        places += (place,) if path.is_dir() else ()
        start = "" if path.is_dir() else path.resolve().as_uri()
    about = question_of(question) if question else Question("", "")
    name = f"{_person()}/{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"
    task = Task(about, start=start)
    settings = msgspec.structs.replace(settings, places=places)
    return _Work(Begun(name, task, settings, str(out)), Sitting(task))


def _resumed(out: Path) -> _Work | None:
    """An unfinished sitting for this file, if there is one and the person goes on with it."""
    for journal in unfinished(_folder()):
        work = _again(journal)
        if work is None or work.begun.out != str(out):
            journal.close()
        elif not (work.sitting.last or work.sitting.draft):
            journal.delete()
        elif demonstrations.holds(out, work.begun.name):
            journal.delete()  # its process was killed between saving it and forgetting it
        else:
            choice = _choice(work.sitting)
            if choice == "g":
                return work
            if choice == "d":
                journal.delete()
                continue
            journal.close()
            return None
    return None


def _again(journal: Unfinished) -> _Work | None:
    try:
        begun, deeds = journal.read()
    except Failed:
        return None  # of another version, perhaps, and not ours to delete
    sitting = Sitting(begun.task)
    for deed in deeds:
        sitting.done(deed)
    return _Work(begun, sitting, journal)


def _choice(sitting: Sitting) -> str:
    """What is to become of an unfinished sitting: g (go on), d (drop it) or l (later)."""
    question = clean(sitting.task.question.text) or "without a question"
    size, quotes = len(sitting.commands), len(sitting.shown.quotes)
    _say(f"unfinished: {question} ({_count(size, 'command')}, {_count(quotes, 'quote')})")
    while True:
        sys.stderr.write("g: go on with it, d: drop it, l: leave it for later [g] ")
        sys.stderr.flush()
        said = sys.stdin.readline()
        choice = said.strip().lower()[:1] or ("g" if said else "l")
        if choice in "gdl":
            return choice


class _Nearby:
    """The files in the folder of one file, and below: what its links can lead to."""

    def __init__(self, start: str, archive: Archive) -> None:
        self._folder = _path(start).parent
        self._archive = archive

    def search(self, query: str, k: int) -> list[Hit]:
        return []

    def fetch(self, url: str) -> Page:
        if not (url.startswith("file:") and _path(url).is_relative_to(self._folder)):
            detail = "neither the library nor the folder of the first page holds it"
            raise Failed(Failure(url, "url_not_shown", detail))
        page = read_file(_path(url))
        self._archive.keep(page)
        return page


def _library(session: Session, sitting: Sitting) -> Library:
    """What is searched, and beside it the page that the person named, with what it leads to."""
    library, start = session.open_library(), sitting.task.start
    web = library if isinstance(library, Web) else None
    if web is None and is_url(start):
        engine = engine_named(session.settings.engine)
        web = Web(engine, session.archive, session.fetcher())
    if web is not None:
        for url in filter(is_url, (start, *sitting.addresses())):
            web.allow(url)
    nearby = _Nearby(start, session.archive) if start and not is_url(start) else None
    beside = nearby or web
    return library if beside in (None, library) else Beside(library, beside)


def _path(url: str) -> Path:
    return Path(unquote(urlsplit(url).path)).resolve()


def _folder() -> Path:
    """Where unfinished sittings are kept."""
    return data_home() / "unfinished"


def _person() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "person"


def _with(out: Path) -> str:
    named = out != data_home() / "demonstrations.jsonl"
    return f" with --out {out}" if named else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _say(sentence: str) -> None:
    sys.stderr.write(f"rookery: {clean(sentence)}\n")
