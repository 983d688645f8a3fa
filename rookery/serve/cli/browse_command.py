"""The command `rookery browse`: a person searches, reads, quotes and answers in a terminal, and the
session is saved.

`TerminalBrowser` is the text browser's screen, for any size, and its keyboard.
"""

import asyncio
import os
import re
import signal
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.containers import (
    ConditionalContainer,
    DynamicContainer,
    Float,
    FloatContainer,
    HSplit,
    Window,
)
from prompt_toolkit.layout.controls import BufferControl, UIContent, UIControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import get_cwidth, is_dumb_terminal

from rookery.browse.browser import BrowserRequest, answer_request
from rookery.browse.browser_commands import BrowserTask
from rookery.browse.libraries import is_url, resolve_place_path
from rookery.browse.page_archive import PageArchive
from rookery.browse.page_text import neutralize_text
from rookery.browse.page_view import get_domain
from rookery.browse.text_search import Span
from rookery.cite.verification import verify_quotes
from rookery.records import Episode, Failed, Failure, Hit, Library, Page, Question
from rookery.serve import demonstration_files
from rookery.serve.answer_session import EvidenceSources, FallbackLibrary
from rookery.serve.browser_keys import BrowserControls
from rookery.serve.browser_session import (
    COMMAND_PREFIXES,
    LINK_NUMBER,
    BrowserSession,
    parse_typed_question,
    remove_doubled_prefix,
)
from rookery.serve.cli.progress_display import ProgressBar
from rookery.serve.command_line import get_user_name
from rookery.serve.demonstration_commands import Highlight, describe_request
from rookery.serve.demonstration_files import (
    SESSION_SUFFIX,
    SessionStart,
    UnfinishedSession,
    list_unfinished,
)
from rookery.serve.exit_codes import EXIT_ANSWERED
from rookery.serve.file_reading import read_document_file
from rookery.serve.settings import Settings, get_data_folder
from rookery.serve.terminal_output import StreamConsole, sanitize_text, show_answer
from rookery.serve.terminal_text import TerminalPane, TerminalText, wrap_line


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
    if not sys.stdin.isatty() or is_dumb_terminal():
        raise ValueError("the text browser needs a terminal; --plain prints a page anywhere")
    out = (out or get_data_folder() / "demonstrations.jsonl").expanduser().absolute()
    recording = (recording or demonstration_files.recording_path(out)).expanduser().absolute()
    demonstration_files.check_demonstration_file(out)
    work = _resume_session(out) or _start_session(place, settings, question, out)
    with ExitStack() as stack:
        with ProgressBar(StreamConsole(stderr=True), "reading") as meter:
            sources = stack.enter_context(EvidenceSources(work.begun.settings, meter))
            library = _open_library(sources, work.session)
        number = _run_session(work, library, recording)
    if number:
        signal.raise_signal(number)
    return EXIT_ANSWERED


def _run_session(work: _OpenSession, library: Library, recording: Path) -> int:
    """Let the person work until they leave, and say what has become of it. The number of the
    signal that ended it, or 0."""
    begun, sitting, journal = work
    saved: list[Episode] = []
    out = Path(begun.out)

    def save_demonstration(sitting: BrowserSession) -> None:
        saved.append(
            demonstration_files.save_demonstration(
                sitting, get_user_name("person"), begun.name, out, recording
            )
        )

    if journal is None:
        journal = UnfinishedSession(
            _get_journal_folder() / f"{begun.name.rpartition('/')[2]}{SESSION_SUFFIX}"
        )
        journal.append_event(begun)
    try:
        desk = BrowserControls(sitting, journal.append_event, save_demonstration)
        number = run_terminal_browser(desk, library)
        if desk.left in ("saved", "dropped"):
            journal.delete()
    finally:
        journal.close()
    for episode in saved:
        _show_saved(episode, sitting, out, recording)
    if desk.left == "kept":
        _print_message(f"kept; to go on, start `rookery browse` again{_format_out_option(out)}")
    return number


def _show_saved(episode: Episode, sitting: BrowserSession, out: Path, recording: Path) -> None:
    if answer := episode.answer:
        verdicts = verify_quotes(answer, lambda quote: sitting.find_page(quote.digest, quote.url))
        pages = [sitting.find_page(quote.digest, quote.url) for quote in answer.quotes]
        show_answer(StreamConsole(), episode, pages, verdicts)
    _print_message(f"saved in {out}, recorded in {recording}")


def _start_session(place: str, settings: Settings, question: str, out: Path) -> _OpenSession:
    """Return a session that begins at the place, under a name of its own."""
    places, start = settings.places, place
    if place and not is_url(place):
        path = resolve_place_path(place)
        if not path.exists():
            detail = "there is no such file or folder: check the path"
            raise Failed(Failure(place, "not_found", detail))
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
        elif demonstration_files.has_demonstration(out, work.begun.name):
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
        begun, deeds = journal.read()
    except Failed:
        return None  # of another version, perhaps, and not ours to delete
    sitting = BrowserSession(begun.task)
    for deed in deeds:
        sitting.replay_event(deed)
    return _OpenSession(begun, sitting, journal)


def _ask_choice(sitting: BrowserSession) -> str:
    """Ask about an unfinished session: g (go on), d (drop it) or l (later)."""
    question = sanitize_text(sitting.task.question.text) or "without a question"
    size, quotes = len(sitting.commands), len(sitting.observation.quotes)
    _print_message(
        f"unfinished: {question} ({_format_count(size, 'command')}, "
        f"{_format_count(quotes, 'quote')})"
    )
    while True:
        sys.stderr.write("g: go on with it, d: drop it, l: leave it for later [g] ")
        sys.stderr.flush()
        said = sys.stdin.readline()
        choice = said.strip().lower()[:1] or ("g" if said else "l")
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
            raise Failed(Failure(url, "url_not_shown", detail))
        page = read_document_file(_path_from_url(url))
        self._archive.store_page(page)
        return page


def _open_library(sources: EvidenceSources, sitting: BrowserSession) -> Library:
    """Open the library to search, together with the page that the person named and its links."""
    start = sitting.task.start
    library = sources.open_library_for_question(start, sitting.list_shown_urls())
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


def _format_count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _print_message(sentence: str) -> None:
    sys.stderr.write(f"rookery: {sanitize_text(sentence)}\n")


MAX_TEXT_COLUMNS = 100
"""columns of text: longer lines are hard to read"""
SCREEN_STYLES = {
    "question": "bold",
    "quiet": "dim",
    "title": "bold",
    "number": "bold ansicyan",
    "link": "underline",
    "domain": "dim",
    "quoted": "italic ansigreen",
    "found": "bold reverse",
    "marked": "reverse",
    "trouble": "bold ansired",
    "note": "bold ansimagenta",
    "key": "bold",
}
COMMAND_COMPLETER = WordCompleter(list(COMMAND_PREFIXES), ignore_case=True, sentence=True)
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SCROLLBAR_COLUMNS = 10
_MAX_INPUT_ROWS = 4
"""rows, at most, for a command that is typed"""
_MAX_NOTE_ROWS = 3
_NO_QUESTION = "No question yet: just reading"
_WELCOME = dedent(
    """\
    Nothing is open yet.

    /  begins a search. Type what you look for, then Enter.
    The number of a link, then Enter, opens it.
    q  quotes what supports an answer, a  begins to answer.
    ?  shows all keys and commands."""
)
_HINTS = {
    "browse": (
        "?:help", "/:search", "12⏎:link", "space:down", "q:quote", "a:answer", "b:up", "⌫:back",
        "f:find", "u:undo", "v:quotes", "^C:leave",
    ),
    "waiting": ("Esc:leave off",),
    "mark": ("⏎:from here", "↓↑:sentence", "→←:word", "Esc:leave off"),
    "fixed": ("⏎:quote it", "↓↑:sentence", "→←:word", "Esc:other beginning"),
    "help": ("↓↑:scroll", "Esc:close"),
    "quotes": ("↓↑:scroll", "Esc:close"),
    "begin": ("⏎:go on", "^C:leave"),
    "ask": ("⏎:answer it", "Esc:read on", "^C:leave"),
    "answer": ("^S:save", "PgUp PgDn:quotes", "Esc:read on", "^C:leave"),
    "end": ("⏎:save", "Esc:read on", "^C:leave"),
    "leave": ("k:keep, to go on later", "d:drop", "Esc:stay"),
}  # fmt: skip
_STATE_PROMPTS = {
    "begin": "What do you want to find out? Enter alone: just reading.",
    "leave": "Leave? What you did can be kept, to go on later.",
    "ask": "Which question do these quotes answer?",
    "mark": "Where does the quote begin?",
    "fixed": "Where does it end?",
}


class _DrawnText(UIControl):
    """Lines that are drawn for the width and height that they are given."""

    def __init__(
        self,
        draw: Callable[[int, int], list[StyleAndTextTuples]],
        measure: Callable[[int], int] | None = None,
    ) -> None:
        self._draw, self._measure = draw, measure

    def preferred_height(self, width: int, *_: Any) -> int | None:
        """Return the rows that it fills at a width; None if it takes what there is."""
        return self._measure(width) if self._measure else None

    def create_content(self, width: int, height: int) -> UIContent:
        """Return the lines."""
        lines = self._draw(width, height)
        return UIContent(lambda number: lines[number], len(lines), show_cursor=False)


def draw_pane(
    pane: TerminalPane, highlights: Iterable[Highlight], columns: int, height: int
) -> list[StyleAndTextTuples]:
    """Resize a pane and return its visible rows, with what is highlighted in them."""
    pane.resize_pane(max(columns, 2), height)
    styles, places = pane.window.styles, pane.window.places

    def get_style(at: int) -> str:
        over = (name for (start, end), name in highlights if start <= places[at] < end)
        return " ".join(f"class:{name}" for name in (styles[at], *over) if name)

    def style_row(row: Span) -> StyleAndTextTuples:
        runs = ((style, list(run)) for style, run in groupby(range(*row), get_style))
        return [(style, pane.window.text[run[0] : run[-1] + 1]) for style, run in runs]

    return [style_row(row) for row in pane.rows[pane.top :][: pane.height]]


def wrap_text(text: str, columns: int) -> list[str]:
    """Wrap a text without links into rows of at most `columns` columns."""
    window = TerminalText(neutralize_text(text))
    return [window.text[slice(*row)] for row in window.wrap_rows(max(columns, 2))]


def elide_text(text: str, columns: int) -> str:
    """Return the beginning and the end of a text, in whole words, where not all of it fits on one
    line."""
    line = sanitize_text(" ".join(text.split()))
    if get_cwidth(line) <= columns:
        return line
    if columns < 8:
        return _take_row(line, columns)
    front = _take_row(line, (columns - 3) * 3 // 5)
    back = _take_row(line[::-1], columns - 3 - get_cwidth(front))[::-1]
    return f"{front} … {back}"


def _take_row(line: str, columns: int) -> str:
    start, end = next(wrap_line(line, columns))
    return line[start:end]


def _format_scrollbar(start: int, end: int) -> str:
    first = min(start * _SCROLLBAR_COLUMNS // 100, _SCROLLBAR_COLUMNS - 1)
    last = max(-(-end * _SCROLLBAR_COLUMNS // 100), first + 1)
    bar = "░" * first + "█" * (last - first) + "░" * (_SCROLLBAR_COLUMNS - last)
    return f"{bar} {start:2}–{end}%"


def _get_state(desk: BrowserControls) -> str:
    """Return the mode, told apart as hints and questions are."""
    if desk.pending_request is not None:
        return "waiting"
    if desk.mode == "ask" and not desk.sitting.ending:
        return "begin"
    return (
        "fixed" if desk.mode == "mark" and desk.marking and desk.marking.start_fixed else desk.mode
    )


def _justify_line(left: StyleAndTextTuples, right: str, columns: int) -> StyleAndTextTuples:
    used = sum(get_cwidth(part[1]) for part in left) + get_cwidth(right)
    return [*left, ("", " " * (columns - used)), ("class:quiet", right)]


def _draw_hints(state: str, columns: int) -> StyleAndTextTuples:
    """Return the keys of this moment, as many as fit."""
    line: StyleAndTextTuples = []
    left = columns + 2
    for hint in _HINTS[state]:
        key, _, word = hint.partition(":")
        width = get_cwidth(f"{key} {word}  ")
        if width <= left:
            line += [("class:key", key), ("class:quiet", f" {word}  ")]
            left -= width
    return line


def get_prompt(desk: BrowserControls) -> str:
    """Return the text in front of what is typed."""
    return "Question: " if desk.mode == "ask" else "› "


def _show_lines(
    draw: Callable[[int], list[StyleAndTextTuples]], height: Dimension | None = None
) -> Window:
    """Return a window as high as the lines that are drawn for its width."""
    lines = _DrawnText(lambda columns, _: draw(columns), lambda columns: len(draw(columns)))
    return Window(lines, height=height, dont_extend_height=True)


TICK_SECONDS = 0.1
"""seconds between two pictures of what is awaited"""
TICKS_PER_DRAFT = 5
"""ticks after which what is written of an answer is kept on disk"""
ESCAPE_SECONDS = 0.05
"""seconds after which an escape is the key itself, and not the beginning of another one"""
_SPECIAL_KEYS = (
    "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "enter", "backspace",
)  # fmt: skip


def run_terminal_browser(desk: BrowserControls, library: Library) -> int:
    """Let a person work at the desk until it is left; the number of the signal that ended it,
    or 0. Whatever happens, the terminal is as it was before."""
    with _restore_handler(signal.SIGTERM):
        return TerminalBrowser(desk, library).run()


class TerminalBrowser:
    """The screen, the typed line and the answer's editor."""

    def __init__(self, desk: BrowserControls, library: Library) -> None:
        self._controller = desk
        self._library = library
        self._sent_request = 0
        self._erasing = False
        self._answering = False
        self.ticks = 0
        """of the clock; they turn the sign of a pending request"""
        self.line_buffer = Buffer(
            completer=COMMAND_COMPLETER,
            complete_while_typing=False,
            multiline=False,
            accept_handler=lambda buffer: not desk.enter_line(buffer.text),
            on_text_changed=self._clean_typed_line,
        )
        self._answer_buffer = Buffer(multiline=True)
        self._line_window = Window(
            BufferControl(self.line_buffer),
            height=Dimension(min=1, max=_MAX_INPUT_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=lambda number, wrapped: "" if wrapped else get_prompt(desk),
        )
        self._editor_window = Window(
            BufferControl(self._answer_buffer, input_processors=[_WordWrap()]),
            height=lambda: Dimension(min=max(self._count_rows() // 4, 1)),
            wrap_lines=True,
        )
        self.app: Application[int] = Application(
            Layout(self._build_layout(), self.get_input_window()),
            style=Style.from_dict(SCREEN_STYLES),
            key_bindings=self._build_key_bindings(),
            full_screen=True,
        )
        self.app.ttimeoutlen = ESCAPE_SECONDS
        self.app.key_processor.after_key_press += lambda _: self._apply_changes()

    def run(self) -> int:
        """Until the desk is left, or a signal comes."""
        try:
            return self.app.run(self._start_tasks, set_exception_handler=False)
        except EOFError:  # the terminal is gone
            self._controller.left = self._controller.left or "kept"
            return 0

    # The screen

    def _build_layout(self) -> FloatContainer:
        desk = self._controller
        reading = Condition(lambda: desk.view == "page")
        overlay = _DrawnText(
            lambda columns, rows: draw_pane(desk.overlay, (), columns, rows),
            lambda columns: len(desk.overlay.window.wrap_rows(columns)),
        )
        over = Window(overlay, dont_extend_height=Condition(lambda: desk.view == "answer"))
        page = Window(_DrawnText(self._draw_page))
        screen = HSplit(
            [
                _show_lines(self._draw_head),
                ConditionalContainer(page, reading, alternative_content=over),
                _show_lines(self._draw_rest),
                ConditionalContainer(_show_lines(self._draw_quotes), reading),
                DynamicContainer(self.get_input_window),
                _show_lines(self._draw_foot, Dimension(min=2)),
            ]
        )
        menu = CompletionsMenu(max_height=12, scroll_offset=1)
        return FloatContainer(screen, [Float(menu, xcursor=True, ycursor=True)])

    def get_input_window(self) -> Window:
        """Return the window that is typed in: the editor, or the line of commands."""
        return self._editor_window if self._controller.view == "answer" else self._line_window

    def _count_rows(self) -> int:
        return self.app.output.get_size().rows

    def _draw_head(self, columns: int) -> list[StyleAndTextTuples]:
        """Return the question with the budget, the title with the scrollbar, and a rule."""
        shown, task = self._controller.sitting.observation, self._controller.sitting.task
        budget = f"{shown.left} actions left" if columns >= 80 else f"{shown.left} left"
        rows = wrap_text(task.question.text or _NO_QUESTION, columns - len(budget) - 2) or [""]
        most = max(self._count_rows() // 10, 1)
        if len(rows) > most:
            rows[most - 1 :] = [elide_text(" ".join(rows[most - 1 :]), columns - len(budget) - 2)]
        lines: list[StyleAndTextTuples] = [[("class:question", row)] for row in rows]
        lines[0] = _justify_line(lines[0], budget, columns)
        if self._controller.view == "page":
            bar = _format_scrollbar(*shown.scrollbar) if shown.text else ""
            title = elide_text(shown.title or "A text browser", columns - len(bar) - 2)
            lines.append(_justify_line([("class:title", title)], bar, columns))
        return [*lines, [("class:quiet", "─" * columns)]]

    def _draw_page(self, columns: int, rows: int) -> list[StyleAndTextTuples]:
        """Return the visible rows of the page, or what is to be said where there is none."""
        shown, pane = self._controller.sitting.observation, self._controller.pane
        lines = draw_pane(
            pane, self._controller.list_highlights(), min(columns - 2, MAX_TEXT_COLUMNS), rows
        )
        if not shown.text:
            text = "This page shows no text." if shown.title else _WELCOME
            lines = [[("", row)] for row in wrap_text(text, pane.columns)]
        return [[("", " "), *line] for line in lines]

    def _draw_rest(self, columns: int) -> list[StyleAndTextTuples]:
        """Return a rule that says how much of the text is below its visible rows."""
        desk = self._controller
        more = (desk.pane if desk.view == "page" else desk.overlay).count_rows_below()
        words = f"{more} more line{'s' * (more > 1)} ↓ " if more else ""
        if desk.view == "page" and not more and desk.sitting.observation.text:
            ended = desk.sitting.observation.scrollbar[1] == 100
            words = "end of the page " if ended else "space reads on "
        elif desk.view == "answer":
            words += "your answer; cite with [1], [2] "
        return [[("class:quiet", f" {words}─".rjust(columns, "─") if words else "─" * columns)]]

    def _draw_quotes(self, columns: int) -> list[StyleAndTextTuples]:
        """Return the quotes so far, the latest last, a line each."""
        quotes = self._controller.sitting.observation.quotes
        most = max(self._count_rows() // 5, 1)
        hidden = len(quotes) - most + 1 if len(quotes) > most else 0
        lines: list[StyleAndTextTuples] = []
        if hidden:
            lines = [[("class:quiet", f"and {hidden} before: v shows all")]]
        for number, quote in enumerate(quotes[hidden:], hidden + 1):
            mark, domain = f"[{number}] ", get_domain(quote.url)
            source = sanitize_text(f" {quote.title} ({domain})" if domain else f" {quote.title}")
            room = columns - len(mark) - 2 - min(get_cwidth(source), columns // 3)
            words = f"“{elide_text(quote.text, room)}”"
            source = elide_text(source, columns - get_cwidth(mark + words) - 1)
            lines.append(
                [("class:number", mark), ("class:quoted", words), ("class:quiet", f" {source}")]
            )
        return lines

    def _draw_foot(self, columns: int) -> list[StyleAndTextTuples]:
        """Return the current note, what is not kept on disk, and the keys of this moment."""
        desk, typed = self._controller, self.line_buffer.text
        wanted, state = desk.pending_request, _get_state(desk)
        style, text = "class:note", desk.note
        if wanted is not None:
            doing, what = describe_request(wanted)
            text = f"{_SPINNER[self.ticks % len(_SPINNER)]} {doing.lower()} {what}"
        elif not text and state in _STATE_PROMPTS:
            marked = f" ({len(desk.marking.text)} characters)" if desk.marking else ""
            text = _STATE_PROMPTS[state] + marked
        elif not text and desk.mode == "browse" and LINK_NUMBER.fullmatch(typed):
            said = desk.pane.window.links.get(int(typed))
            text = f"link {int(typed)}" + (" is not in sight" if said is None else f": {said}")
        elif not text and desk.mode == "browse" and desk.sitting.last_command:
            style, text = "class:quiet", elide_text(f"last: {desk.sitting.last_command}", columns)
        rows = wrap_text(text[:500], columns)[:_MAX_NOTE_ROWS] or [""]
        notes: list[StyleAndTextTuples] = [[(style, row)] for row in rows]
        troubles = wrap_text(desk.trouble, columns)[:_MAX_NOTE_ROWS]
        notes += [[("class:trouble", row)] for row in troubles]
        return [*notes, _draw_hints(state, columns)]

    # What follows from a key

    def _start_tasks(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._exit_with_error)
        with suppress(NotImplementedError):  # where there are no such signals
            loop.add_signal_handler(signal.SIGTERM, self._exit_app, signal.SIGTERM)
        self.app.create_background_task(self._run_clock())
        self._apply_changes()

    def _apply_changes(self) -> None:
        """Do what the desk asks for."""
        desk = self._controller
        if desk.prefill is not None:
            self.line_buffer.document = Document(desk.prefill)
            desk.prefill = None
        if desk.view == "answer" and not self._answering:
            self._answer_buffer.document = Document(desk.sitting.draft)
        self._answering = desk.view == "answer"
        self.app.layout.focus(self.get_input_window())
        if desk.pending_request is not None and desk.errand != self._sent_request:
            self._sent_request = desk.errand
            self._send_request(desk.errand, desk.pending_request)
        if desk.left:
            self._exit_app(0)
        self.app.invalidate()

    def _send_request(self, errand: int, request: BrowserRequest) -> None:
        """Ask the library in a thread that is not waited for at the end."""
        loop = asyncio.get_running_loop()

        def ask_library() -> None:
            reply = answer_request(self._library, request)
            with suppress(RuntimeError):  # nobody is there any more
                loop.call_soon_threadsafe(deliver_reply, reply)

        def deliver_reply(reply: Any) -> None:
            self._controller.accept_reply(errand, reply)
            self._apply_changes()

        threading.Thread(target=ask_library, name=f"errand {errand}", daemon=True).start()

    async def _run_clock(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.ticks += 1
            if self._controller.sitting.pending_request is not None:
                self.app.invalidate()
            if self.ticks % TICKS_PER_DRAFT == 0:
                self._save_draft()

    def _save_draft(self) -> None:
        if self._answering:
            self._controller.sitting.save_draft(self._answer_buffer.text)

    def _exit_app(self, number: int) -> None:
        self._save_draft()
        with suppress(Exception):  # it is being ended already
            self.app.exit(result=number)

    def _exit_with_error(self, _: object, context: dict[str, Any]) -> None:
        error = context.get("exception") or RuntimeError(context["message"])
        with suppress(Exception):  # it is being ended already
            self.app.exit(exception=error)

    def _clean_typed_line(self, buffer: Buffer) -> None:
        """Pasted text becomes one clean line."""
        text = remove_doubled_prefix(re.sub(r"[\n\t]", " ", sanitize_text(buffer.text)))
        if text != buffer.text:
            buffer.document = Document(text)

    # Keys

    def _build_key_bindings(self) -> KeyBindings:
        desk, bindings = self._controller, KeyBindings()
        typing = Condition(
            lambda: desk.mode == "ask" or (desk.mode == "browse" and self._has_typed_text())
        )
        answering = Condition(lambda: desk.mode == "answer")
        pressing = ~typing & ~answering
        choosing = Condition(lambda: self.line_buffer.complete_state is not None)
        add = bindings.add
        for key in _SPECIAL_KEYS:
            add(key, filter=pressing)(self._make_key_handler(key))
        for key in ("up", "down", "pageup", "pagedown"):
            add(key, filter=typing & ~choosing)(self._make_key_handler(key))
        for key in ("pageup", "pagedown"):
            add(key, filter=answering)(lambda event, key=key: desk.turn_overlay(key))
        add(Keys.Any, filter=pressing)(self._handle_letter)
        add("backspace", filter=typing)(self._handle_backspace)
        add("escape", eager=True)(self._handle_escape)
        add("c-c")(self._handle_leave)
        add("<sigint>")(self._handle_leave)
        add("c-d", filter=pressing)(self._handle_leave)
        add("c-l")(lambda event: event.app.renderer.clear())
        add("c-z")(lambda event: event.app.suspend_to_background())
        add("c-s", filter=answering)(
            lambda event: desk.finish_demonstration(self._answer_buffer.text)
        )
        add("tab", filter=typing | pressing)(self._complete_command)
        add("tab", filter=answering)(lambda event: None)
        return bindings

    def _has_typed_text(self) -> bool:
        return bool(self.line_buffer.text)

    def _make_key_handler(self, key: str) -> Callable[[KeyPressEvent], None]:
        def handle_key(event: KeyPressEvent) -> None:
            # Who erases a line does not mean to go back with the last stroke.
            if not (key == "backspace" and self._erasing):
                self._erasing = False
                self._controller.press_key(key)

        return handle_key

    def _handle_letter(self, event: KeyPressEvent) -> None:
        self._erasing = False
        begins = not self._controller.press_key(event.data) and self._controller.mode == "browse"
        if begins and event.data.isprintable():
            self.line_buffer.insert_text(event.data)

    def _handle_backspace(self, event: KeyPressEvent) -> None:
        self._erasing = True
        self.line_buffer.delete_before_cursor()

    def _handle_escape(self, event: KeyPressEvent) -> None:
        self._save_draft()
        if not (self._controller.mode == "browse" and self._has_typed_text()):
            self._controller.press_key("escape")
        self.line_buffer.reset()

    def _handle_leave(self, event: KeyPressEvent) -> None:
        self._save_draft()
        self.line_buffer.reset()
        self._controller.ask_to_leave()

    def _complete_command(self, event: KeyPressEvent) -> None:
        if self._controller.mode == "browse" and not self._controller.sitting.pending_request:
            if self.line_buffer.complete_state:
                self.line_buffer.complete_next()
            else:
                self.line_buffer.start_completion(insert_common_part=True)


@contextmanager
def _restore_handler(number: signal.Signals) -> Iterator[None]:
    """Restore the previous handler of a signal afterwards."""
    before = signal.getsignal(number)
    try:
        yield
    finally:
        signal.signal(number, before)


class _WordWrap(Processor):
    """Fills the end of a row with spaces where the next word does not fit there."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        text = "".join(fragment[1] for fragment in transformation_input.fragments)
        shown, places = wrap_words(text, transformation_input.width)
        return Transformation(
            [("", shown)],
            source_to_display=lambda at: places[min(at, len(places) - 1)],
            display_to_source=lambda at: max(bisect_right(places, at) - 1, 0),
        )


def wrap_words(text: str, columns: int) -> tuple[str, list[int]]:
    """Return the text on one line, padded so that rows of `columns` columns break between words,
    and the place in it of each character of `text` and of its end."""
    shown = ""
    places: list[int] = []
    starts = [start for start, _ in wrap_line(text, columns, re.compile(r"\S+"))]
    for start, following in zip(starts, [*starts[1:], len(text)], strict=True):
        row, last = text[start:following], following == len(text)
        row = row if last else row.rstrip()
        places += range(len(shown), len(shown) + len(row))
        shown += row if last else row + " " * (columns - get_cwidth(row))
        places += [len(shown) - 1] * (following - start - len(row))
    return shown, [*places, len(shown)]
