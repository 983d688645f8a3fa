"""The command `rookery browse`: a person searches, reads, quotes and answers at a prompt, and the
session is saved.

Demonstrations are JSON lines of Episodes, each with its session in a recording beside the file. An
unfinished session is stored event by event, so that no killed process and no closed terminal loses
it.
"""

import os
import re
import signal
import sqlite3
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from textwrap import dedent
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.key_binding import KeyBindings
from rich.text import Text

from rookery.answers.answer_session import EvidenceSources, FallbackLibrary
from rookery.browser.browser import BrowserReply, BrowserRequest, answer_request, build_episode
from rookery.browser.browser_commands import BrowserTask
from rookery.browser.page_view import get_domain
from rookery.errors import Failed, Outcome
from rookery.library.call_recording import CallRecording, RecordingLibrary
from rookery.library.libraries import is_url, resolve_place_path
from rookery.library.page_archive import (
    PageArchive,
    pack_records,
    translate_storage_errors,
    unpack_records,
)
from rookery.quotes.verification import verify_quotes
from rookery.records import Episode, Failure, Hit, Library, Page, Question, Record, prepare_type
from rookery.settings import Settings, get_data_folder
from rookery.shell.browser_session import (
    COMMAND_PREFIXES,
    BrowserSession,
    SessionEvent,
    parse_typed_command,
    parse_typed_question,
)
from rookery.shell.command_line import EXIT_ANSWERED, get_user_name
from rookery.shell.demonstration_commands import (
    UNCITED,
    describe_request,
    lint_answer,
    list_quotable_spans,
    run_browser_command,
    undo_last_command,
)
from rookery.shell.file_reading import read_document_file
from rookery.shell.terminal_output import (
    INDENT,
    ProgressBar,
    StreamConsole,
    format_count,
    format_quote,
    print_indented,
    sanitize_text,
    show_answer,
)

RECORDING = ".recording"
"""what the name of a recording beside a file of demonstrations ends with"""


def recording_path(out: Path) -> Path:
    """Return the default path of the recording of a file of demonstrations."""
    return out.with_name(f"{out.stem}{RECORDING}")


def check_demonstration_file(out: Path) -> None:
    """Make sure that demonstrations can be added to this file, which need not be there yet.

    A file that is there is opened for appending, and only its first line is read. Raises ValueError
    or OSError.
    """
    if out.is_dir():
        raise ValueError(f"{out} is a folder: name a file for --out")
    if not out.exists():
        folder = next(parent for parent in out.parents if parent.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise ValueError(f"{folder} cannot be written to: name another --out")
        return
    with out.open("ab"):
        pass
    if out.is_file():  # and no device or pipe
        with out.open("rb") as lines:
            first = lines.readline()
        if first.endswith(b"\n") and not _is_episode(first):
            raise ValueError(f"{out} holds something else than demonstrations: name another --out")


def save_demonstration(
    sitting: BrowserSession, by: str, name: str, out: Path, recording: Path
) -> Episode:
    """Add what was done to the file, as one line, and all it was given to the recording.

    Every prompt is what the commands, scrolling merged, show when they are said once more. Raises
    Failed, and then the file is as it was.
    """
    with CallRecording(recording) as recorder:
        recorder.begin_session(name, sitting.task.to_json().encode())
        steps, browsed = sitting.replay_session(partial(RecordingLibrary, recorder, session=name))
    episode = build_episode(sitting.task, by, steps, browsed, name)
    try:
        _append_line(out, episode.to_json().encode() + b"\n")
    except OSError as error:
        advice = (
            f"{out} cannot be written ({error.strerror}): make room or allow it, and save again"
        )
        raise Failed(Failure(str(out), Outcome.UNWRITABLE, advice)) from error
    return episode


def has_demonstration(out: Path, name: str) -> bool:
    """Return True if a complete line of the file names this session; False if there is no file."""
    if not out.is_file():
        return False
    with out.open("rb") as lines:
        whole = (line for line in lines if line.endswith(b"\n") and _is_episode(line))
        return any(Episode.from_json(line).session == name for line in whole)


def _append_line(out: Path, line: bytes) -> None:
    """The whole line, or nothing of it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.is_file():
        _truncate_last_line(out)
    with out.open("ab", buffering=0) as file:
        size = file.tell()
        try:
            while line:
                line = line[file.write(line) :]
            os.fsync(file.fileno())
        except OSError:
            if out.is_file():
                file.truncate(size)
            raise


def _truncate_last_line(out: Path) -> None:
    """Remove a last line that a killed process has left unfinished."""
    whole, last = 0, b""
    with out.open("rb+") as lines:
        for last in lines:
            whole += len(last)
        if last.endswith(b"\n") or not last:
            return
        if _is_episode(last):
            lines.write(b"\n")
        else:
            lines.truncate(whole - len(last))


def _is_episode(line: bytes) -> bool:
    try:
        Episode.from_json(line)
    except (msgspec.MsgspecError, ValueError):
        return False
    return True


SESSION_SUFFIX = ".sitting"


class SessionStart(Record, frozen=True, tag="Begun"):
    """The task and settings that a session began with."""

    name: str
    """of its session in the recording"""
    task: BrowserTask
    settings: Settings
    out: str
    """the file of demonstrations that it is for"""


_row = msgspec.msgpack.Decoder(prepare_type(SessionStart | SessionEvent))


class UnfinishedSession:
    """One session in the SQLite file `path`, which this process alone holds until it is closed.

    An event is there for good when `append_event` returns. Every method raises `Failed`: disk_full,
    archive_busy (another process goes on with this session) or unreadable_archive.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: list[bytes] = []
        with translate_storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            with translate_storage_errors(path):
                # Held by the system for as long as the process lives, and no longer.
                self._file.execute("pragma locking_mode = exclusive")
                self._file.execute("begin exclusive")
                self._file.execute(
                    "create table if not exists kept (number integer primary key, body blob)"
                )
                self._file.execute("commit")
        except Failed:
            self._file.close()
            raise

    def append_event(self, deed: SessionStart | SessionEvent) -> None:
        """Add the start of the session, first of all, or an event.

        What could not be added before is added first, in order.
        """
        self._waiting.append(pack_records(deed))
        with translate_storage_errors(self._path):
            while self._waiting:
                self._file.execute("insert into kept (body) values (?)", (self._waiting[0],))
                del self._waiting[0]

    def read(self) -> tuple[SessionStart, list[SessionEvent]]:
        """Return the start of the session and its events."""
        with translate_storage_errors(self._path):
            rows = self._file.execute("select body from kept order by number").fetchall()
        try:
            begun, *deeds = (unpack_records(body, _row) for (body,) in rows)
            if not isinstance(begun, SessionStart):
                raise ValueError("it has no beginning")
        except (ValueError, zlib.error, msgspec.MsgspecError) as error:
            detail = f"it is no unfinished session of this version: delete it ({error})"
            raise Failed(Failure(str(self._path), Outcome.UNREADABLE_ARCHIVE, detail)) from error
        return begun, [deed for deed in deeds if not isinstance(deed, SessionStart)]

    def delete(self) -> None:
        """Close the session and delete its file: it is finished or dropped."""
        self.close()
        self._path.unlink(missing_ok=True)
        # Of a process that was killed; SQLite leaves it where nothing was written since.
        self._path.with_name(f"{self._path.name}-journal").unlink(missing_ok=True)

    def close(self) -> None:
        """Let other processes go on with it."""
        self._file.close()


def list_unfinished(folder: Path) -> Iterator[UnfinishedSession]:
    """Yield the unfinished sessions in a folder that no living process holds, latest first.

    Each is open, and locked by this process, until it is closed. One that cannot be opened is
    skipped.
    """
    for path in sorted(folder.glob(f"*{SESSION_SUFFIX}"), reverse=True):
        with suppress(Failed):
            yield UnfinishedSession(path)


HELP_TEXT = dedent(
    """\
    Commands, in upper or lower case; Tab completes them

    Search <query>             Scrolled down <1, 2, 3>
    Clicked on link <number>   Scrolled up <1, 2, 3>
    Find in page: <text>       Top
    Quote: <text>              Back
    End: Answer                End: <Nonsense, Controversial>

    Links stand in the text as 【number†words†site】. A long quote may be typed as its beginning and
    its end with ━ between them. After "Quote: " Tab lists the sentences, after "Clicked" the links.

    For short

    12       open link 12
    down     Scrolled down 1
    up       Scrolled up 1
    answer   End: Answer
    quotes   show all quotes in full
    undo     take the last command back
    help     show this

    Ctrl-C or Ctrl-D leaves; what you did is kept, to go on later."""
)
QUICK_WORDS = {"down": "Scrolled down 1", "up": "Scrolled up 1", "answer": "End: Answer"}
"""one word for a command that people often give"""
_WELCOME = "Nothing is open yet. Search <query> looks for pages; help shows all commands."
_NO_COMMAND = "this is no command: Tab completes one, help shows them all"
_LINK = re.compile(r"【([0-9]+)†([^†】]*)[^】]*】")


class _OpenSession(NamedTuple):
    """A session, and where it is kept until it is finished: None until anything is to be kept."""

    begun: SessionStart
    session: BrowserSession
    journal: UnfinishedSession | None = None


def run_browse_command(
    place: str, settings: Settings, question: str, out: Path | None, recording: Path | None
) -> int:
    """Open the text browser at a page, a file, or nowhere; return the exit code.

    A folder as the place is searched, like those of the settings. `out` is the file that a
    demonstration is added to, `recording` keeps what it was given; both are in the data folder
    where they are not named. Raises Failed, ValueError or OSError where it cannot begin; what was
    done later stays on disk.
    """
    if not sys.stdin.isatty():
        raise ValueError("the text browser needs a terminal; --plain prints a page anywhere")
    out = (out or get_data_folder() / "demonstrations.jsonl").expanduser().absolute()
    recording = (recording or recording_path(out)).expanduser().absolute()
    check_demonstration_file(out)
    work = _resume_session(out) or _start_session(place, settings, question, out)
    with ExitStack() as stack:
        with ProgressBar(StreamConsole(stderr=True), "reading") as meter:
            sources = stack.enter_context(EvidenceSources(work.begun.settings, meter))
            library = _open_library(sources, work.session)
        # Ctrl-C leaves the session, or what it waits for, and not the whole command.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            _run_session(work, library, recording)
        finally:
            signal.signal(signal.SIGINT, before)
    return EXIT_ANSWERED


def _run_session(work: _OpenSession, library: Library, recording: Path) -> None:
    """Let the person work until they save the session or leave, and say what has become of it."""
    begun, session, journal = work
    out = Path(begun.out)
    if journal is None:
        name = begun.name.rpartition("/")[2]
        journal = UnfinishedSession(_get_journal_folder() / f"{name}{SESSION_SUFFIX}")
        journal.append_event(begun)

    def save_session(session: BrowserSession) -> Episode:
        person = get_user_name("person")
        return save_demonstration(session, person, begun.name, out, recording)

    browser = PromptBrowser(session, library, journal.append_event, save_session)
    try:
        with suppress(KeyboardInterrupt, EOFError):
            browser.run()
        if browser.saved:
            journal.delete()
            _show_saved(browser.saved, session)
            _print_message(f"saved in {out}, recorded in {recording}")
        elif session.last_command or session.draft:
            _print_message(f"kept; to go on, start `rookery browse` again{_format_out_option(out)}")
        else:
            journal.delete()
            _print_message("left; there was nothing to keep")
    finally:
        journal.close()


def _show_saved(episode: Episode, session: BrowserSession) -> None:
    if answer := episode.answer:
        verdicts = verify_quotes(answer, lambda quote: session.find_page(quote.digest, quote.url))
        pages = [session.find_page(quote.digest, quote.url) for quote in answer.quotes]
        show_answer(StreamConsole(), episode, pages, verdicts)


def _start_session(place: str, settings: Settings, question: str, out: Path) -> _OpenSession:
    """Return a session that begins at the place, under a name of its own."""
    places, start = settings.places, place
    if place and not is_url(place):
        path = resolve_place_path(place)
        if not path.exists():
            detail = "there is no such file or folder: check the path"
            raise Failed(Failure(place, Outcome.NOT_FOUND, detail))
        places += (place,) if path.is_dir() else ()
        start = "" if path.is_dir() else path.resolve().as_uri()
    about = parse_typed_question(question) if question else Question("", "")
    name = f"{get_user_name('person')}/{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"
    task = BrowserTask(about, start=start)
    settings = msgspec.structs.replace(settings, places=places)
    return _OpenSession(SessionStart(name, task, settings, str(out)), BrowserSession(task))


def _resume_session(out: Path) -> _OpenSession | None:
    """Return an unfinished session for this file, if the person continues it."""
    for journal in list_unfinished(_get_journal_folder()):
        work = _restore_session(journal)
        if work is None or work.begun.out != str(out):
            journal.close()
        elif not (work.session.last_command or work.session.draft):
            journal.delete()
        elif has_demonstration(out, work.begun.name):
            journal.delete()  # its process was killed between saving it and forgetting it
        else:
            choice = _ask_choice(work.session)
            if choice == "g":
                return work
            if choice == "d":
                journal.delete()
                continue
            journal.close()
            return None
    return None


def _restore_session(journal: UnfinishedSession) -> _OpenSession | None:
    try:
        begun, events = journal.read()
    except Failed:
        return None  # of another version, perhaps, and not ours to delete
    session = BrowserSession(begun.task)
    for event in events:
        session.replay_event(event)
    return _OpenSession(begun, session, journal)


def _ask_choice(session: BrowserSession) -> str:
    """Ask about an unfinished session: g (go on), d (drop it) or l (later)."""
    question = sanitize_text(session.task.question.text) or "without a question"
    size, quotes = len(session.commands), len(session.observation.quotes)
    _print_message(
        f"unfinished: {question} ({format_count(size, 'command')}, {format_count(quotes, 'quote')})"
    )
    while True:
        sys.stderr.write("g: go on with it, d: drop it, l: leave it for later [g] ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        choice = line.strip().lower()[:1] or ("g" if line else "l")
        if choice in "gdl":
            return choice


class _NearbyFiles(Library):
    """The files in the folder of one file, and below: what its links can lead to."""

    def __init__(self, start: str, archive: PageArchive) -> None:
        self._folder = _path_from_url(start).parent
        self._archive = archive

    def search(self, query: str, k: int) -> list[Hit]:
        return []

    def fetch(self, url: str) -> Page:
        if not (url.startswith("file:") and _path_from_url(url).is_relative_to(self._folder)):
            detail = "neither the library nor the folder of the first page holds it"
            raise Failed(Failure(url, Outcome.URL_NOT_SHOWN, detail))
        page = read_document_file(_path_from_url(url))
        self._archive.store_page(page)
        return page


def _open_library(sources: EvidenceSources, session: BrowserSession) -> Library:
    """Open the library to search, together with the page that the person named and its links."""
    start = session.task.start
    library = sources.open_library_for_question(start, session.list_shown_urls())
    if not start or is_url(start):
        return library
    return FallbackLibrary(library, _NearbyFiles(start, sources.archive))


def _path_from_url(url: str) -> Path:
    return Path(unquote(urlsplit(url).path)).resolve()


def _get_journal_folder() -> Path:
    """Return the folder of unfinished sessions."""
    return get_data_folder() / "unfinished"


def _format_out_option(out: Path) -> str:
    named = out != get_data_folder() / "demonstrations.jsonl"
    return f" with --out {out}" if named else ""


def _print_message(sentence: str) -> None:
    sys.stderr.write(f"rookery: {sanitize_text(sentence)}\n")


class CommandCompleter(Completer):
    """Completes commands; the numbers of links and sentences to quote where one is begun."""

    def __init__(self, session: BrowserSession) -> None:
        self.session = session

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterator[Completion]:
        """Yield what the text before the cursor may become."""
        typed = document.text_before_cursor.casefold()
        for line, label in self._list_lines(typed):
            if line.casefold().startswith(typed):
                yield Completion(line, -len(typed), display_meta=sanitize_text(label))

    def _list_lines(self, typed: str) -> Iterator[tuple[str, str]]:
        """Yield possible lines, and what is said beside them."""
        yield from ((prefix, "") for prefix in COMMAND_PREFIXES)
        if typed.startswith("clicked") or typed.isdigit():
            before = "" if typed.isdigit() else "Clicked on link "
            for number, words in _LINK.findall(self.session.observation.text):
                yield f"{before}{number}", " ".join(words.split())
        view = self.session.find_shown_view()
        if typed.startswith("quote") and view is not None:
            for span in list_quotable_spans(self.session):
                sentence = sanitize_text(" ".join(view.page.quote_whole_words(*span).text.split()))
                if "\N{REPLACEMENT CHARACTER}" not in sentence:  # which nobody can type
                    yield f"Quote: {sentence}", ""


class PromptBrowser:
    """A session at a plain prompt: shows what each command leads to, and reads the next."""

    def __init__(
        self,
        session: BrowserSession,
        library: Library,
        keep_event: Callable[[SessionEvent], None],
        save: Callable[[BrowserSession], Episode],
    ) -> None:
        self.saved: Episode | None = None
        """what was saved at the end"""
        self.session, self._library = session, library
        self._keep_event, self._save = keep_event, save
        session.on_event = self._store_event
        self._console = StreamConsole()
        self._shown = BrowserSession(BrowserTask(Question("", ""))).observation
        self._uncited = ""
        self._storage_error = ""
        completer = CommandCompleter(session)
        self._prompt = PromptSession[str](completer=completer, complete_while_typing=False)
        keys = KeyBindings()
        keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
        self._questions = PromptSession[str]()
        self._editor = PromptSession[str](key_bindings=keys)
        self._editor.default_buffer.on_text_changed += self._keep_words

    def run(self) -> None:
        """Read commands until the demonstration is saved.

        Raises EOFError or KeyboardInterrupt where the person leaves.
        """
        session = self.session
        if not (session.task.question.text or session.last_command):
            self._read_question("Question (Enter alone: just reading): ")
        if not (session.last_command or session.pending_request):
            self._print_note(_WELCOME)
        while not self.saved:
            self._wait_for_replies()
            self._show_changes()
            if not session.ending:
                self._read_command()
            elif not session.task.question.text:
                self._read_question("Which question is this about? (Enter alone: read on) ")
            elif session.observation.answering:
                self._read_answer()
            else:
                self._confirm_end()

    def _wait_for_replies(self) -> None:
        """Have the library answer what the session asks for; Ctrl-C gives it up."""
        while (request := self.session.pending_request) is not None:
            doing, what = map(sanitize_text, describe_request(request))
            try:
                with self._console.status(Text(f"{doing} {what} (Ctrl-C: give up)")):
                    reply = self._ask_library(request)
            except KeyboardInterrupt:
                self.session.undo()
                self._print_note("given up")
            else:
                self.session.accept_reply(reply)

    def _ask_library(self, request: BrowserRequest) -> BrowserReply:
        """Ask in a thread, which goes on unheard where it is given up. Raises Failed."""
        replies = SimpleQueue[BrowserReply | Failed]()

        def ask() -> None:
            try:
                replies.put(answer_request(self._library, request))
            except Failed as failed:
                replies.put(failed)

        threading.Thread(target=ask, daemon=True).start()
        reply = replies.get()
        if isinstance(reply, Failed):
            raise reply
        return reply

    def _show_changes(self) -> None:
        """Print what the last command changed: the window, quotes, and what it could not do."""
        before, observation = self._shown, self.session.observation
        if observation == before:
            return
        self._shown = observation
        if observation.answering:
            self._show_quotes()
        elif (observation.title, observation.text) != (before.title, before.text):
            percent = f"{observation.scrollbar[0]}–{observation.scrollbar[1]}%"
            self._console.print(Text(f"\n{sanitize_text(observation.title)}  {percent}", "bold"))
            text = Text(sanitize_text(observation.text or "This page shows no text."))
            text.highlight_regex(_LINK.pattern, "cyan")
            self._console.print(text)
        elif len(observation.quotes) > len(before.quotes):
            self._show_quotes(len(before.quotes))
        self._print_note(observation.note)

    def _show_quotes(self, first: int = 0) -> None:
        """Print the quotes from a number on, each above its source."""
        for number, quote in enumerate(self.session.observation.quotes[first:], first + 1):
            page = self.session.find_page(quote.digest, quote.url)
            mark = Text(f"[{number}] ", "bold cyan")
            print_indented(self._console, mark, Text(format_quote(quote, page)))
            source = f"{quote.title} {get_domain(quote.url)}".strip()
            print_indented(self._console, Text(INDENT), Text(sanitize_text(source), "italic"))

    def _print_note(self, sentence: str) -> None:
        if sentence:
            self._console.print(Text(sanitize_text(sentence), "magenta"))

    def _read_command(self) -> None:
        self._print_note(self._storage_error)
        line = self._prompt.prompt(f"{self.session.observation.left} actions left › ").strip()
        match line.casefold():
            case "":
                pass
            case "help" | "?":
                self._console.print(Text(HELP_TEXT))
            case "quotes":
                self._show_quotes()
            case "undo":
                self._undo_command()
            case word:
                command = parse_typed_command(QUICK_WORDS.get(word, line))
                self._print_note(
                    run_browser_command(self.session, command) if command else _NO_COMMAND
                )

    def _undo_command(self) -> None:
        last = self.session.last_command
        self._print_note(undo_last_command(self.session) or f"taken back: {last}")

    def _read_question(self, prompt: str) -> None:
        """Read the question, until there is one or, with Enter alone, there is to be none."""
        while line := self._questions.prompt(prompt).strip():
            try:
                question = parse_typed_question(line)
            except ValueError as error:
                self._print_note(str(error))
                continue
            if self.session.change_question(question):
                return
            self._print_note("pages that you read hold this very question: use other words")
        if self.session.ending:
            self._print_note("nothing is saved without a question")
            self._undo_command()

    def _read_answer(self) -> None:
        """Read the answer and save it; one that cites nothing only when it is given twice."""
        prompt = "Your answer, citing [1], [2]; Alt-Enter: new line, empty: read on\n"
        editor = self._editor
        try:
            text = editor.prompt(prompt, default=self.session.draft).strip()
        finally:
            self.session.save_draft(editor.default_buffer.text.strip())
        if not text:
            self._undo_command()
            return
        for lint in lint_answer(self.session, text):
            uncited = lint.sentence == UNCITED and self._uncited != text
            if lint.bars or uncited:
                self._uncited = text
                self._print_note(lint.sentence + "; or Enter saves it as it is" * uncited)
                return
        self._save_demonstration()

    def _confirm_end(self) -> None:
        if self._questions.prompt(
            "Enter saves this end without an answer, undo reads on: "
        ).strip():
            self._undo_command()
        else:
            self._save_demonstration()

    def _save_demonstration(self) -> None:
        try:
            self.saved = self._save(self.session)
        except Failed as failed:
            self._print_note(f"not saved: {failed.failure.detail or failed.failure.outcome}")

    def _store_event(self, event: SessionEvent) -> None:
        self._storage_error = ""
        try:
            self._keep_event(event)
        except Failed as failed:
            why = failed.failure.detail or failed.failure.outcome
            self._storage_error = f"what you do is not kept on disk: {why}"

    def _keep_words(self, buffer: Buffer) -> None:
        """Keep the draft with each word, so that no closed window loses more than one."""
        if self.session.observation.answering and buffer.document.char_before_cursor.isspace():
            self.session.save_draft(buffer.text)
