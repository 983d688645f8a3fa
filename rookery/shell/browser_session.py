"""A person's session at the text browser: commands, replies, undo, and the events that are stored.

`pending_request` is what the library must answer next; `accept_reply` takes the answer. Sessions of
any kind that a process keeps open are `LiveSessions`.
"""

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Generic, TypeVar

import msgspec

from rookery.browser.browser import (
    BrowseResult,
    BrowserOpen,
    BrowserReply,
    BrowserRequest,
    BrowserSearch,
    browse_library,
    run_browser,
)
from rookery.browser.browser_commands import BrowserTask, Observation, parse_command
from rookery.browser.page_view import PageView, PageViewCache
from rookery.errors import Failed
from rookery.library.question_files import parse_question
from rookery.records import (
    Completion,
    Failure,
    Hit,
    Library,
    Page,
    Question,
    Record,
    Step,
    digest_of,
)

MAX_SCROLL_STEPS = 3
"""times that one command scrolls at most"""
_SINGLE_SCROLLS = ("Scrolled down 1", "Scrolled up 1")


class CommandEvent(Record, frozen=True, tag="Said"):
    """A command."""

    command: str


class UndoEvent(Record, frozen=True, tag="Undone"):
    """The last command was taken back, or what it opened was not waited for."""


class ReplyEvent(Record, frozen=True, tag="Replied"):
    """The library's reply to a request: hits, a page or a failure."""

    hits: tuple[Hit, ...] | None = None
    page: Page | None = None
    failure: Failure | None = None


class DraftEvent(Record, frozen=True, tag="Drafted"):
    """The answer as far as it is written."""

    text: str


class SuggestionsEvent(Record, frozen=True, tag="Suggested"):
    """Passages of a page were suggested, as versions before 0.3 did; it changes nothing."""

    url: str
    digest: str
    passages: tuple[object, ...]


SessionEvent = CommandEvent | UndoEvent | ReplyEvent | DraftEvent | SuggestionsEvent
"""all that is needed to come to the same session again, without the library"""


class BrowserSession:
    """One person's session: what was said so far, and what it shows.

    `on_event` hears every event, in order; the same events given to `replay_event` in another
    process lead to the same session. Scrolling step by step is shown, counted and stored as the
    fewest commands that do the same (WebGPT, appendix C.1).
    """

    def __init__(self, task: BrowserTask) -> None:
        self.task = task
        self.on_event: Callable[[SessionEvent], None] = lambda event: None
        self.draft = ""
        """the answer as far as it is written"""
        self.views = PageViewCache()
        self._typed_commands: list[str] = []
        self._replies: list[tuple[BrowserRequest, BrowserReply]] = []
        self._unused_replies: list[tuple[BrowserRequest, BrowserReply]] = []
        self._replay_commands()

    @property
    def commands(self) -> list[str]:
        """The commands so far as they are stored, with repeated scrolling merged."""
        return merge_scrolls(self._typed_commands)

    @property
    def last_command(self) -> str:
        """The last command; empty at the beginning."""
        return self._typed_commands[-1] if self._typed_commands else ""

    @property
    def last_find(self) -> str:
        """The last `Find in page` command; empty if there is none."""
        return next((said for said in reversed(self.commands) if said.startswith(FIND_PREFIX)), "")

    @property
    def ending(self) -> bool:
        """True if browsing is over, so that an answer, or an end without one, can be saved."""
        return self.observation.answering or self.browse_result is not None

    @property
    def pages(self) -> list[Page]:
        """The pages that were opened, in order; also those whose command was undone.

        A page that was opened twice stands there twice.
        """
        return [reply for _, reply in self._replies if isinstance(reply, Page)]

    def find_shown_view(self, observation: Observation | None = None) -> PageView | None:
        """Return the view of the page (article or full) that an observation shows, else None.

        Without `observation`, the present one counts. None for search results, errors and the empty
        start, which cannot be quoted.
        """
        observation = observation or self.observation
        if page := self.find_page(observation.digest, observation.url):
            opened = self.views.get_opened(page, self.task.rules)
            for view in (opened.article, opened.full):
                if view.window_at(observation.start).text == observation.text:
                    return view
        return None

    def list_shown_urls(self) -> Iterator[str]:
        """Yield the addresses of all results and of all links on opened pages so far.

        Addresses are repeated, and those of undone commands are among them.
        """
        for _, reply in self._replies:
            if isinstance(reply, Page):
                yield from (link.url for link in reply.links)
            elif not isinstance(reply, Failure):
                yield from (hit.url for hit in reply)

    def find_page(self, digest: str, url: str) -> Page | None:
        """Return the opened page with this digest and address; None if it was not opened.

        Pages whose command was undone count as opened.
        """
        found = (page for page in self.pages if (page.digest, page.url) == (digest, url))
        return next(found, None)

    def run_command(self, command: str) -> str:
        """Run a command and report its event; return an empty string, or why it did nothing.

        A command that did nothing is dropped as if it had never been given. Not to be called while
        `pending_request` is set, nor at the end.
        """
        before = self.observation.past
        self._say_command(command)
        if self.pending_request is None and not self.ending and self.observation.past == before:
            note = self.observation.note or "this did nothing"
            self._typed_commands.pop()
            self._replay_commands()
            return note
        self.on_event(CommandEvent(command))
        return ""

    def _say_command(self, command: str) -> None:
        before = self.commands
        self._typed_commands.append(command)
        if self.commands == [*before, command]:
            self._advance_browser(command)
        else:
            self._replay_commands()

    def accept_reply(self, reply: BrowserReply) -> None:
        """Go on with the library's reply to `pending_request`, and report its event.

        There must be a pending request.
        """
        assert self.pending_request is not None
        self._replies.append((self.pending_request, reply))
        self.on_event(_make_reply_event(reply))
        self._advance_browser(reply)

    def undo(self) -> bool:
        """Undo the last command, as if it had never been given; False where there is none.

        Without commands the pending opening of the start page is given up. Earlier replies are used
        again, except failures, which are asked for again.
        """
        if self._typed_commands:
            self._typed_commands.pop()
        elif self.pending_request is not None:
            self.task = msgspec.structs.replace(self.task, start="")
        else:
            return False
        self.on_event(UndoEvent())
        self._replay_commands()
        failed = {id(reply) for reply in self._unused_replies if isinstance(reply[1], Failure)}
        self._unused_replies = [reply for reply in self._unused_replies if id(reply) not in failed]
        self._replies = [reply for reply in self._replies if id(reply) not in failed]
        return True

    def save_draft(self, text: str) -> None:
        """Keep the answer as far as it is written, and report the event if it has changed."""
        if text != self.draft:
            self.draft = text
            self.on_event(DraftEvent(text))

    def replay_event(self, event: SessionEvent) -> None:
        """Apply a stored event, to come to the session that another process had.

        `on_event` hears all of these but commands: set it when the replay is over.
        """
        match event:
            case CommandEvent(command):  # one that did nothing may have been stored, and undone
                self._say_command(command)
            case UndoEvent():
                self.undo()
            case ReplyEvent():
                self.accept_reply(_get_reply(event))
            case DraftEvent(text):
                self.save_draft(text)

    def replay_session(self) -> tuple[list[Step], BrowseResult]:
        """Replay the session over a library of its own replies; return its steps and result.

        The draft is the answer. Browsing that has not ended ends with `End: Answer`.
        """
        walk = self.replay_steps()
        steps: list[Step] = []
        try:
            while True:
                observation, command = next(walk)
                steps.append(Step(observation.prompt, Completion(command)))
        except StopIteration as ended:
            browsed: BrowseResult = ended.value
            return steps, browsed

    def replay_steps(self) -> Generator[tuple[Observation, str], None, BrowseResult]:
        """Replay the session; yield each observation with the command or answer given to it.

        The library is one of the session's own replies. Returns the result.
        """
        flow = browse_library(self.task, _ReplayLibrary(self._replies), self.views)
        commands = iter(self.commands)
        try:
            observation = next(flow)
            while True:
                command = self.draft if observation.answering else next(commands, "End: Answer")
                yield observation, command
                observation = flow.send(command)
        except StopIteration as ended:
            browsed: BrowseResult = ended.value
            return browsed

    def _replay_commands(self) -> None:
        """Repeat all commands from the beginning, with the replies of before."""
        empty = next(run_browser(msgspec.structs.replace(self.task, start=""), self.views))
        assert isinstance(empty, Observation)  # without a page to begin with, nothing is wanted
        self.observation = empty
        self._flow = run_browser(self.task, self.views)
        self.browse_result: BrowseResult | None = None
        self.pending_request: BrowserRequest | None = None
        self._unused_replies = list(self._replies)
        self._handle_output(next(self._flow))
        for command in self.commands:
            self._advance_browser(command)

    def _advance_browser(self, reply: str | BrowserReply) -> None:
        self.pending_request = None
        try:
            self._handle_output(self._flow.send(reply))
        except StopIteration as ended:
            self.browse_result = ended.value

    def _handle_output(self, got: Observation | BrowserRequest) -> None:
        if isinstance(got, Observation):
            self.observation = got
            return
        for number, (request, reply) in enumerate(self._unused_replies):
            if request == got:
                del self._unused_replies[number]
                self._advance_browser(reply)
                return
        self.pending_request = got


class _ReplayLibrary(Library):
    """A library that gives what was given, in the same order."""

    def __init__(self, replies: Iterable[tuple[BrowserRequest, BrowserReply]]) -> None:
        self._replies = list(replies)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        reply = self._take_reply(BrowserSearch(query, k))
        assert not isinstance(reply, Page)
        return reply

    def fetch(self, url: str) -> Page:
        reply = self._take_reply(BrowserOpen(url))
        assert isinstance(reply, Page)
        return reply

    def _take_reply(self, request: BrowserRequest) -> Sequence[Hit] | Page:
        number = [each for each, _ in self._replies].index(request)
        _, reply = self._replies.pop(number)
        if isinstance(reply, Failure):
            raise Failed(reply)
        return reply


def merge_scrolls(commands: Sequence[str]) -> list[str]:
    """Merge repeated scrolling by one into scrolling by up to three."""
    out: list[str] = []
    for command, run in groupby(commands):
        times = len(list(run))
        if command in _SINGLE_SCROLLS:
            way = command[:-1]
            out += [f"{way}{MAX_SCROLL_STEPS}"] * (times // MAX_SCROLL_STEPS)
            out += [f"{way}{times % MAX_SCROLL_STEPS}"] * (times % MAX_SCROLL_STEPS > 0)
        else:
            out += [command] * times
    return out


def _make_reply_event(reply: BrowserReply) -> ReplyEvent:
    if isinstance(reply, Failure):
        return ReplyEvent(failure=reply)
    return ReplyEvent(page=reply) if isinstance(reply, Page) else ReplyEvent(hits=tuple(reply))


def _get_reply(replied: ReplyEvent) -> BrowserReply:
    reply = replied.failure or replied.page
    return (replied.hits or ()) if reply is None else reply


SEARCH_PREFIX = "Search "
FIND_PREFIX = "Find in page: "
COMMAND_PREFIXES = (
    SEARCH_PREFIX, "Clicked on link ", FIND_PREFIX, "Quote: ", "Scrolled down ", "Scrolled up ",
    "Top", "Back", "End: Answer", "End: Nonsense", "End: Controversial",
)  # fmt: skip
"""how each command of WebGPT's table 1 begins"""
_LINK_NUMBER = re.compile(r"[0-9]{1,9}")


def parse_typed_command(line: str) -> str | None:
    """Return the command that a typed line means, as it is stored; None where it means none.

    A number clicks on that link; upper and lower case and a missing colon are corrected.
    """
    line = line.strip()
    if _LINK_NUMBER.fullmatch(line):
        return f"Clicked on link {int(line)}"
    tries = [line]
    for verb in COMMAND_PREFIXES:
        word = verb.strip().rstrip(":")
        rest = line[len(word) :]
        if line[: len(word)].casefold() == word.casefold() and rest[:1] in ("", " ", ":"):
            tries.append(verb + rest.lstrip(" :"))
    return next((str(command) for command in map(parse_command, tries) if command), None)


def parse_typed_question(text: str) -> Question:
    """Return the typed question; its id is made from its words.

    Raises ValueError if it is empty or has more than MOST_QUESTION_CHARACTERS.
    """
    question = parse_question(text)
    return msgspec.structs.replace(question, id=digest_of(question.text)[:12])


Session = TypeVar("Session")


class LiveSessions(Generic[Session]):
    """The sessions that are open in one process, each the owner's of a key. Thread-safe.

    Beyond `most`, the least recently used one is closed, and any after `idle` seconds without use.
    """

    def __init__(self, most: int, idle: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._idle = idle
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[tuple[str, str], tuple[Session, float]] = OrderedDict()

    def add_session(self, owner: str, id: str, session: Session) -> None:
        """Keep a session, in place of a former one of this owner and id.

        Beyond `most`, the least recently used session is dropped.
        """
        with self._lock:
            self._sessions.pop((owner, id), None)
            self._sessions[owner, id] = session, self._clock()
            if len(self._sessions) > self._most:
                self._sessions.popitem(last=False)

    def find_session(self, owner: str, id: str) -> Session | None:
        """Return an owner's session, which counts as used now; None if it is not open."""
        with self._lock:
            self._close_idle()
            session, _ = self._sessions.get((owner, id), (None, 0.0))
            if session is not None:
                self._sessions[owner, id] = session, self._clock()
                self._sessions.move_to_end((owner, id))
            return session

    def close_session(self, owner: str, id: str) -> None:
        """Forget a session; nothing happens if it is not open."""
        with self._lock:
            self._sessions.pop((owner, id), None)

    def count_sessions(self) -> int:
        """Close the sessions that are idle for too long, and return the number of open ones."""
        with self._lock:
            self._close_idle()
            return len(self._sessions)

    def _close_idle(self) -> None:
        late = self._clock() - self._idle
        while self._sessions and next(iter(self._sessions.values()))[1] < late:
            self._sessions.popitem(last=False)
