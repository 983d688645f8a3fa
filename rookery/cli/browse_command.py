"""The command `rookery browse`: a person searches, reads and quotes at a prompt."""

import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import unquote, urlsplit

import msgspec
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from rich.text import Text

from rookery.answers.answer_session import EvidenceSources, FallbackLibrary
from rookery.browser.browser import BrowserReply, BrowserRequest, answer_request
from rookery.browser.browser_commands import BrowserTask
from rookery.browser.page_view import get_domain
from rookery.errors import Failed, Outcome
from rookery.library.folder_library import resolve_roots
from rookery.library.libraries import is_url, resolve_place_path
from rookery.library.page_archive import PageArchive
from rookery.records import Failure, Hit, Library, Page, Question
from rookery.settings import Settings
from rookery.shell.browser_session import (
    COMMAND_PREFIXES,
    BrowserSession,
    parse_typed_command,
    parse_typed_question,
)
from rookery.shell.command_line import EXIT_ANSWERED
from rookery.shell.demonstration_commands import (
    describe_request,
    list_quotable_spans,
    run_browser_command,
    undo_last_command,
)
from rookery.shell.file_reading import read_document_file
from rookery.shell.terminal_output import (
    INDENT,
    ProgressBar,
    StreamConsole,
    format_quote,
    print_indented,
)
from rookery.text_escaping import sanitize_text

QUICK_WORDS = {"down": "Scrolled down 1", "up": "Scrolled up 1", "answer": "End: Answer"}
"""one word for a command that people often give"""
_WELCOME = "Nothing is open yet. Search <query> looks for pages; help shows all commands."
_NO_COMMAND = "this is no command: Tab completes one, help shows them all"
_LINK = re.compile(r"【([0-9]+)†([^†】]*)[^】]*】")


def run_browse_command(place: str, settings: Settings, question: str) -> int:
    """Open the text browser at a page, a file, or nowhere; return the exit code.

    A folder as the place is searched, like those of the settings. Pages that would give the
    question away are hidden, as from a model. Raises Failed or ValueError where it cannot begin.
    """
    if not sys.stdin.isatty():
        raise ValueError("the text browser needs a terminal; --plain prints a page anywhere")
    places, start = settings.places, place
    if place and not is_url(place):
        path = resolve_place_path(place)
        if not path.exists():
            resolve_roots([path])  # raises the sentence for it
        places += (place,) if path.is_dir() else ()
        start = "" if path.is_dir() else path.resolve().as_uri()
    about = parse_typed_question(question) if question else Question("", "")
    session = BrowserSession(BrowserTask(about, start=start))
    with ExitStack() as stack:
        with ProgressBar(StreamConsole(stderr=True), "reading") as meter:
            settings = msgspec.structs.replace(settings, places=places)
            sources = stack.enter_context(EvidenceSources(settings, meter))
            browser = PromptBrowser(session, _open_library(sources, session))
        # Ctrl-C leaves the session, or what it waits for, and not the whole command.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with suppress(KeyboardInterrupt, EOFError):
                browser.run()
        finally:
            signal.signal(signal.SIGINT, before)
    return EXIT_ANSWERED


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

    def __init__(self, session: BrowserSession, library: Library) -> None:
        self.session, self._library = session, library
        self._console = StreamConsole()
        self._shown = BrowserSession(BrowserTask(Question("", ""))).observation
        completer = CommandCompleter(session)
        self._prompt = PromptSession[str](completer=completer, complete_while_typing=False)

    def run(self) -> None:
        """Read commands until one ends the browsing, and show what was quoted.

        Raises EOFError or KeyboardInterrupt where the person leaves.
        """
        if not self.session.pending_request:
            self._print_note(_WELCOME)
        while True:
            self._wait_for_replies()
            if self.session.ending:
                self._show_quotes()
                return
            self._show_changes()
            self._read_command()

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
        if (observation.title, observation.text) != (before.title, before.text):
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
        line = self._prompt.prompt(f"{self.session.observation.left} actions left › ").strip()
        match line.casefold():
            case "":
                pass
            case "help" | "?":
                help_page = Path(__file__).with_name("browse_help.txt").read_text("utf-8")
                self._console.print(Text(help_page.rstrip()))
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
