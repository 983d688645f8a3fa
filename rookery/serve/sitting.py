"""What a person does at the text browser, command by command, and how any of it is taken back.

It knows neither terminals nor files. What it wants from a library it says, and is told.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import groupby

import msgspec

from rookery.browse.browser import (
    Browsed,
    Opening,
    Reply,
    Request,
    Searching,
    Views,
    browse,
    browsing,
)
from rookery.browse.observation import Observation
from rookery.browse.rules import Task
from rookery.records import Completion, Failed, Failure, Hit, Library, Page, Question, Record, Step

MERGED = 3
"""times that one command scrolls at most"""
_BY_ONE = ("Scrolled down 1", "Scrolled up 1")


class Said(Record, frozen=True, tag=True):
    """A command."""

    command: str


class Undone(Record, frozen=True, tag=True):
    """The last command was taken back, or what it opened was not waited for."""


class Replied(Record, frozen=True, tag=True):
    """What the library gave when it was last asked: one of the three."""

    hits: tuple[Hit, ...] | None = None
    page: Page | None = None
    failure: Failure | None = None


class Asked(Record, frozen=True, tag=True):
    """The question was given, or changed."""

    question: Question


class Drafted(Record, frozen=True, tag=True):
    """The answer as far as it is written."""

    text: str


Deed = Said | Undone | Replied | Asked | Drafted
"""all that is needed to come to the same sitting again, without the library"""


class Sitting:
    """One person's session: what was said so far, and what it shows.

    `keep` hears every deed, in order; the same deeds `done` again in another process lead to the
    same sitting. Scrolling step by step is shown, counted and stored as the fewest commands that
    do the same (WebGPT, appendix C.1).
    """

    def __init__(
        self,
        task: Task,
        keep: Callable[[Deed], None] = lambda deed: None,
        views: Views | None = None,
    ) -> None:
        self.task = task
        self.keep = keep
        self.draft = ""
        """the answer as far as it is written"""
        self._views = views or Views()
        self._typed: list[str] = []
        self._replies: list[tuple[Request, Reply]] = []
        self._unused: list[tuple[Request, Reply]] = []
        self._again()

    @property
    def commands(self) -> list[str]:
        """What was said, as it is stored."""
        return merged(self._typed)

    @property
    def last(self) -> str:
        """What was said last; empty at the beginning."""
        return self._typed[-1] if self._typed else ""

    @property
    def quotable(self) -> bool:
        """Whether a page is shown and not results, an error or nothing."""
        url = self.shown.url
        return any(isinstance(reply, Page) and reply.url == url for _, reply in self._replies)

    def addresses(self) -> Iterator[str]:
        """What the library showed so far."""
        for _, reply in self._replies:
            if isinstance(reply, Page):
                yield from (link.url for link in reply.links)
            elif not isinstance(reply, Failure):
                yield from (hit.url for hit in reply)

    def page(self, digest: str, url: str) -> Page | None:
        """The version of a page that was read."""
        pages = (reply for _, reply in self._replies if isinstance(reply, Page))
        return next((page for page in pages if (page.digest, page.url) == (digest, url)), None)

    def say(self, command: str) -> None:
        """Does what a command says. Not to be called while something is wanted, nor at the end."""
        before = self.commands
        self._typed.append(command)
        self.keep(Said(command))
        if self.commands == [*before, command]:
            self._send(command)
        else:
            self._again()

    def reply(self, reply: Reply) -> None:
        """Takes what was wanted."""
        assert self.wanted is not None
        self._replies.append((self.wanted, reply))
        self.keep(_kept(reply))
        self._send(reply)

    def undo(self) -> bool:
        """Takes the last command back, as if it had never been said; False where there is none.

        Nothing is asked again, except what had failed.
        """
        if self._typed:
            self._typed.pop()
        elif self.wanted is not None:
            self.task = msgspec.structs.replace(self.task, start="")
        else:
            return False
        self.keep(Undone())
        self._again()
        failed = {id(asked) for asked in self._unused if isinstance(asked[1], Failure)}
        self._unused = [asked for asked in self._unused if id(asked) not in failed]
        self._replies = [asked for asked in self._replies if id(asked) not in failed]
        return True

    def ask(self, question: Question) -> bool:
        """Gives the sitting another question. False, and nothing changes, where the rules would
        then hide something that was read."""
        former, seen = self.task, (self.shown.past, self.shown.quotes, self.wanted)
        self.task = msgspec.structs.replace(former, question=question)
        self._again()
        if (self.shown.past, self.shown.quotes, self.wanted) != seen:
            self.task = former
            self._again()
            return False
        self.keep(Asked(question))
        return True

    def write(self, text: str) -> None:
        """Remembers the answer as far as it is written."""
        if text != self.draft:
            self.draft = text
            self.keep(Drafted(text))

    def done(self, deed: Deed) -> None:
        """Does again what another process did."""
        match deed:
            case Said(command):
                self.say(command)
            case Undone():
                self.undo()
            case Replied():
                self.reply(_given(deed))
            case Asked(question):
                self.ask(question)
            case Drafted(text):
                self.write(text)

    def rerun(self, wrap: Callable[[Library], Library]) -> tuple[list[Step], Browsed]:
        """The whole sitting once more, over a library of what it was given, with the answer.

        `wrap` may record that library. Browsing that has not ended ends with `End: Answer`.
        """
        walk = self.walk(wrap)
        steps: list[Step] = []
        try:
            while True:
                shown, said = next(walk)
                steps.append(Step(shown.prompt, Completion(said)))
        except StopIteration as ended:
            browsed: Browsed = ended.value
            return steps, browsed

    def walk(
        self, wrap: Callable[[Library], Library] = lambda library: library
    ) -> Generator[tuple[Observation, str], None, Browsed]:
        """The same step by step: what was shown, and what was said to it."""
        flow = browse(self.task, wrap(_Given(self._replies)), self._views)
        left = iter(self.commands)
        try:
            shown = next(flow)
            while True:
                said = self.draft if shown.answering else next(left, "End: Answer")
                yield shown, said
                shown = flow.send(said)
        except StopIteration as ended:
            browsed: Browsed = ended.value
            return browsed

    def _again(self) -> None:
        """Everything from the beginning, with what was given before."""
        empty = next(browsing(msgspec.structs.replace(self.task, start=""), self._views))
        assert isinstance(empty, Observation)  # without a page to begin with, nothing is wanted
        self.shown = empty
        self._flow = browsing(self.task, self._views)
        self.browsed: Browsed | None = None
        self.wanted: Request | None = None
        self._unused = list(self._replies)
        self._take(next(self._flow))
        for command in self.commands:
            if self.wanted is not None:
                return  # another question has led to where nobody was: `ask` notices
            self._send(command)

    def _send(self, said: str | Reply) -> None:
        self.wanted = None
        try:
            self._take(self._flow.send(said))
        except StopIteration as ended:
            self.browsed = ended.value

    def _take(self, got: Observation | Request) -> None:
        if isinstance(got, Observation):
            self.shown = got
            return
        for number, (request, reply) in enumerate(self._unused):
            if request == got:
                del self._unused[number]
                self._send(reply)
                return
        self.wanted = got


class _Given:
    """A library that gives what was given, in the same order."""

    def __init__(self, replies: Iterable[tuple[Request, Reply]]) -> None:
        self._replies = list(replies)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        reply = self._next(Searching(query, k))
        assert not isinstance(reply, Page)
        return reply

    def fetch(self, url: str) -> Page:
        reply = self._next(Opening(url))
        assert isinstance(reply, Page)
        return reply

    def _next(self, wanted: Request) -> Sequence[Hit] | Page:
        number = [request for request, _ in self._replies].index(wanted)
        _, reply = self._replies.pop(number)
        if isinstance(reply, Failure):
            raise Failed(reply)
        return reply


def merged(commands: Sequence[str]) -> list[str]:
    """The same commands with scrolling by one, repeated, as scrolling by up to three."""
    out: list[str] = []
    for command, run in groupby(commands):
        times = len(list(run))
        if command in _BY_ONE:
            way = command[:-1]
            out += [f"{way}{MERGED}"] * (times // MERGED)
            out += [f"{way}{times % MERGED}"] * (times % MERGED > 0)
        else:
            out += [command] * times
    return out


def _kept(reply: Reply) -> Replied:
    if isinstance(reply, Failure):
        return Replied(failure=reply)
    return Replied(page=reply) if isinstance(reply, Page) else Replied(hits=tuple(reply))


def _given(replied: Replied) -> Reply:
    reply = replied.failure or replied.page
    return (replied.hits or ()) if reply is None else reply
