"""The text browser of WebGPT (section 2, appendix A) as a generator that does no I/O.

It yields an Observation and is sent a command, or yields a Request and is sent its Reply; in the
end it returns what was quoted. A person, a script, a model and a replay all drive this one object.
It knows neither libraries nor models.
"""

from collections.abc import Generator, Sequence
from typing import NamedTuple
from urllib.parse import urldefrag

from rookery.browse.commands import Command, parse
from rookery.browse.observation import Observation, answer_prompt, next_action, reference, summary
from rookery.browse.pages import cut, error_page, results_page
from rookery.browse.quoting import WindowText, find, find_quote
from rookery.browse.rules import Task
from rookery.browse.view import neutral
from rookery.browse.views import Opened, Views, forbidden
from rookery.browse.window import View, domain_of, is_below
from rookery.records import Failed, Failure, Hit, Library, Page, Quote, Record

__all__ = ["Browsed", "Opening", "Searching", "Views", "answered", "browse", "browsing"]

PASSAGES = 4
"""that are searched for, for each result: a library may show several passages of a page"""
STORE_FAILURES = ("disk_full", "archive_busy", "unreadable_archive")
"""for a person to see to: a session that went on would not be kept"""
ANSWERED = ("end", "max_actions", "max_quotes")
"""the ways for browsing to stop that lead to an answer, where something was quoted"""


class Searching(NamedTuple):
    """A session asks for a search."""

    query: str
    k: int


class Opening(NamedTuple):
    """A session asks for a page."""

    url: str


Request = Searching | Opening
Reply = Sequence[Hit] | Page | Failure
Flow = Generator[Observation | Request, str | Reply, "Browsed"]


class Browsed(Record, frozen=True):
    """What came of one session."""

    quotes: tuple[Quote, ...]
    stop: str
    """end, nonsense, controversial, max_actions, max_quotes, or no_quotes where an answer was
    announced and nothing had been quoted to answer from"""
    said: str | None = None
    """the answer, as it was said; None where none was asked for"""
    failures: tuple[Failure, ...] = ()


def browse(
    task: Task, library: Library, views: Views | None = None
) -> Generator[Observation, str, Browsed]:
    """One session over a library: yields Observations, is sent commands, returns what came of it.

    After the last command, if there are quotes, one more Observation (`answering`) holds the
    prompt of the answering phase and is sent the answer.
    """
    flow = browsing(task, views)
    try:
        shown = next(flow)
        while True:
            if isinstance(shown, Observation):
                shown = flow.send((yield shown))
            else:
                shown = flow.send(answered(library, shown))
    except StopIteration as ended:
        browsed: Browsed = ended.value
        return browsed


def answered(library: Library, request: Request) -> Reply:
    """What the library says to a request; what it raises becomes a Failure.

    Raises Failed only where the store that everything is kept in fails.
    """
    what = request.query if isinstance(request, Searching) else request.url
    try:
        if isinstance(request, Searching):
            return library.search(request.query, request.k)
        return library.fetch(request.url)
    except Failed as failed:
        if failed.failure.outcome in STORE_FAILURES:
            raise
        return failed.failure
    except Exception as error:  # a library's mistake costs one page, not the session
        return Failure(what, "library_failed", f"{type(error).__name__}: {error}")


def browsing(task: Task, views: Views | None = None) -> Flow:
    """One session that is given what it asks for: the sans-I/O core of `browse`."""
    session = _Session(task, Views() if views is None else views)
    if task.start:
        yield from session.open(task.start)
        session.history.clear()  # the empty page is not a page to go back to
    stop = ""
    left = task.rules.actions
    while left and not stop:
        said = yield session.observation(left)
        left -= 1
        stop = yield from session.obey(parse(_words(said)))
    stop = stop or "max_actions"
    answer = None
    if session.quotes and stop in ANSWERED:
        answer = _words((yield session.answering(left)))
    elif stop == "end":
        stop = "no_quotes"
    return Browsed(tuple(session.quotes), stop, answer, tuple(session.failures))


class _Place(NamedTuple):
    """Where a session is: a page, one of its views, and the window's start."""

    opened: Opened
    view: View
    title: str
    top: int
    scrolled: tuple[int, ...] = ()
    """the windows that were scrolled down from, so that scrolling up retraces them"""
    quotable: bool = True
    found: tuple[str, int] = ("", -1)
    """what was last looked for here, and where it was"""


class _Session:
    """The state of one session and what each command does to it."""

    def __init__(self, task: Task, views: Views) -> None:
        self.task = task
        self.rules = task.rules
        self.views = views
        self.secret = forbidden(task.question, task.rules.overlap)
        self.quotes: list[Quote] = []
        self.failures: list[Failure] = []
        self.past: list[str] = []
        self.note = ""
        self.quoted = self.acted = ""  # as the prompt shows them
        self.history: list[_Place] = []
        self.place = self._placed(Page("", "", ""), quotable=False)

    def observation(self, left: int) -> Observation:
        """What is shown now."""
        view, title, question = self.place.view, self.place.title, self.task.question.text
        window = view.window(self.place.top)
        scrollbar = view.scrollbar(window)
        head = summary(question, self.quoted, self.acted, title, scrollbar)
        return Observation(
            prompt=f"{head}{window.text}{next_action(left)}",
            question=question,
            quotes=tuple(self.quotes),
            past=tuple(self.past),
            title=title,
            scrollbar=scrollbar,
            text=window.text,
            left=left,
            url=view.page.url,
            digest=view.page.digest,
            start=window.start,
            end=window.end,
            note=self.note,
        )

    def answering(self, left: int) -> Observation:
        """What the answering phase begins with."""
        titled = ((self._titled(quote.title, quote.url), quote) for quote in self.quotes)
        return Observation(
            prompt=answer_prompt(self.task.question.text, titled),
            question=self.task.question.text,
            quotes=tuple(self.quotes),
            past=tuple(self.past),
            title="",
            scrollbar=(0, 0),
            text="",
            left=left,
            note=self.note,
            answering=True,
        )

    def obey(self, command: Command | None) -> Generator[Request, str | Reply, str]:
        """Does what a command says; the reason to stop, or nothing.

        What cannot be done leaves all as it is, as text that is no command does (WebGPT, table 1).
        """
        self.note = ""
        match command:
            case None:
                self.note = "this is no command of the text browser"
            case ("Search", query):
                yield from self.search(query)
            case ("Clicked on link", number):
                yield from self.click(int(number))
            case ("Find in page:", text):
                self.find(text)
            case ("Quote:", text):
                return self.quote(text)
            case ("Scrolled down" | "Scrolled up" as way, times):
                self.scroll(way, int(times))
            case ("Top", _):
                self.place = self.place._replace(top=self.place.view.top, scrolled=())
                self._did("Top")
            case ("Back", _):
                self.back()
            case (_, ending):
                return "end" if ending == "Answer" else ending.lower()
        return ""

    def search(self, query: str) -> Generator[Request, str | Reply, None]:
        """Sends the query and shows the results as a page."""
        reply = yield Searching(query, PASSAGES * self.rules.results)
        self._did(f"Search {cut(query, self.rules.title)}")
        if isinstance(reply, Failure):
            self._fail(reply)
        elif isinstance(reply, str | Page):
            raise TypeError("a search is answered with hits or a Failure")
        else:
            page = results_page(query, reply, self.rules, self.secret)
            self._go(self._placed(page, quotable=False))

    def click(self, number: int) -> Generator[Request, str | Reply, None]:
        """Follows the link with this ID, to a place on this page or to another page."""
        link = self.place.view.link(number)
        if link is None:
            self.note = f"there is no link {number} on this page"
            return
        words = cut(self.place.view.words(link), self.rules.title)
        self._did(f"Click {words} {domain_of(link.url)}".rstrip())
        url, fragment = urldefrag(link.url)
        if url == urldefrag(self.place.view.page.url).url and self.place.quotable:
            self._go(self._at_anchor(self.place._replace(scrolled=()), fragment))
        else:
            yield from self.open(link.url)

    def open(self, address: str) -> Generator[Request, str | Reply, None]:
        """Opens the page at an address that was shown to the session."""
        url, fragment = urldefrag(address)
        reply = yield Opening(url)
        if isinstance(reply, Failure):
            self._fail(reply)
        elif not isinstance(reply, Page):
            raise TypeError("an opening is answered with a Page or a Failure")
        elif is_below(domain_of(reply.url), self.rules.blocked):
            self._fail(Failure(url, "blocked_domain", f"{domain_of(reply.url)} is not to be read"))
        elif self._gives_away(reply):
            detail = "the page repeats the question or a reference answer"
            self._fail(Failure(url, "censored", detail))
        else:
            self._go(self._at_anchor(self._placed(reply), fragment))

    def find(self, text: str) -> None:
        """Scrolls to the next occurrence of a text, beginning again at the top of the page."""
        self._did(f"Find in page: {cut(text, self.rules.title)}")
        place = self.place
        sought, at = place.found
        after = at + 1 if sought == text else place.view.window(place.top).start
        span = find(place.opened.finder, text, after)
        if span is None:
            self.note = "this text is not on the page"
            return
        view = place.view if place.view.shows(span[0]) else place.opened.full
        top = view.around(span[0])
        self.place = place._replace(view=view, top=top, scrolled=(), found=(text, span[0]))

    def quote(self, text: str) -> str:
        """Adds what a text names on the page to the quotes; the reason to stop, if any."""
        place, page = self.place, self.place.view.page
        if not place.quotable:
            self.note = "only a page that was opened can be quoted: click on a link first"
            return ""
        window = WindowText(page, list(place.view.parts(place.top)))
        span = find_quote(place.opened.finder, text, place.view.window(place.top).start, window)
        if span is None:
            self.note = (
                "this text is not on the page: copy it as it stands, and in parts where the window "
                "leaves something out"
            )
            return ""
        quote = page.quote(*span)
        if quote in self.quotes:
            self.note = "this is quoted already"
            return ""
        if len(quote.text) > self.rules.quoted:
            self.note = f"this is longer than all quotes may be together: {self.rules.quoted}"
            return ""
        room = self.rules.quoted - sum(len(quote.text) for quote in self.quotes)
        if len(quote.text) <= room:
            self.quotes.append(quote)
            self._did("Quote")
            self.quoted += reference(quote, self._titled(quote.title, quote.url))
        enough = len(quote.text) >= room or len(self.quotes) == self.rules.quotes
        return "max_quotes" if enough else ""

    def scroll(self, way: str, times: int) -> None:
        """Moves by whole windows, as far as the page goes."""
        self._did(f"{way} {times}")
        for _ in range(times):
            place = self.place
            if way == "Scrolled down":
                below = place.view.below(place.top)
                scrolled = (*place.scrolled, place.top) if below != place.top else place.scrolled
                self.place = place._replace(top=below, scrolled=scrolled)
            elif place.scrolled:
                self.place = place._replace(top=place.scrolled[-1], scrolled=place.scrolled[:-1])
            else:
                self.place = place._replace(top=place.view.above(place.top))

    def back(self) -> None:
        """Goes to the previous page, where it was left, in the version that was read."""
        if self.history:
            self.place = self.history.pop()
            self._did("Back")
        else:
            self.note = "there is no page before this one"

    def _did(self, action: str) -> None:
        self.past.append(action)
        self.acted += f"{action}\n"

    def _go(self, place: _Place) -> None:
        self.history.append(self.place)
        self.place = place

    def _fail(self, failure: Failure) -> None:
        """Shows an error page in place of what could not be had."""
        self.failures.append(failure)
        self._go(self._placed(error_page(failure), quotable=False))

    def _placed(self, page: Page, quotable: bool = True) -> _Place:
        opened = self.views.of(page, self.rules)
        title = self._titled(page.title, page.url)
        return _Place(opened, opened.article, title, opened.article.top, (), quotable)

    def _at_anchor(self, place: _Place, fragment: str) -> _Place:
        at = place.view.anchor(fragment) if fragment else None
        if at is None:
            return place._replace(top=place.view.top)
        view = place.view if place.view.shows(at) else place.opened.full
        return place._replace(view=view, top=view.around(at))

    def _gives_away(self, page: Page) -> bool:
        return bool(self.secret) and not self.secret.isdisjoint(
            self.views.of(page, self.rules).grams
        )

    def _titled(self, title: str, url: str) -> str:
        """`<page title> (<page domain>)`; search results and files have no domain."""
        domain = domain_of(url)
        line = neutral(cut(title, self.rules.title))
        return f"{line} ({domain})" if domain else line


def _words(said: str | Reply) -> str:
    if not isinstance(said, str):
        raise TypeError("an Observation is answered with a command, as a str")
    return said
