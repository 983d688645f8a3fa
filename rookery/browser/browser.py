"""The text browser of WebGPT (section 2, appendix A) as a generator that does no I/O.

It yields an Observation and is sent a command, or yields a request and is sent the library's reply;
at the end it returns the quotes. People, scripts, models and replays all drive this one object.

An episode is what was shown and said, and the answer at its end: rollouts, the
environment server and the adapters for other trainers all step a `BrowserEpisode`.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple
from urllib.parse import urldefrag

import msgspec

from rookery.browser.browser_commands import (
    BrowserCommand,
    BrowserTask,
    Observation,
    format_answer_prompt,
    format_prompt_foot,
    format_prompt_head,
    format_reference,
    parse_command,
)
from rookery.browser.page_view import (
    OpenedPage,
    PageView,
    PageViewCache,
    WindowText,
    build_error_page,
    contains_ngram,
    find_forbidden_ngrams,
    get_domain,
    is_subdomain,
    truncate_line,
)
from rookery.errors import Failed, Outcome
from rookery.library.page_archive import convert_nested
from rookery.pages.page_text import neutralize_text
from rookery.pages.text_folding import Span, TextFinder
from rookery.quotes.citation_syntax import CitationSyntaxError, parse_numbered
from rookery.records import (
    Completion,
    Episode,
    Failure,
    Hit,
    Library,
    Page,
    Quote,
    Record,
    Step,
    prepare_type,
)

ABBREVIATION_MARK = "━"
"""stands in `<start text>━<end text>` (WebGPT, appendix A). No dash does: pages are full of them,
and what a dash abbreviated would be quoted without anyone having meant it"""
MAX_PLACES = 1000
"""most places of a text that are looked at for one that cuts no word, which bounds the time"""
_LINK = re.compile(r"【[0-9]+†(.*?)(?:†[^†】]*)?】", re.DOTALL)
_IMAGE = re.compile(r"\[Image(?:: [^\]]*)?\]")
_RUBY_READING = re.compile(r"\([\u3040-\u30ff]+\)")
# What a window puts in the place of one character, and what it puts before or between words.
_MARK_TRANSLATION = str.maketrans("〖〗‡◆▪", "【】†♦■", "^_|·")


def find_in_page(finder: TextFinder, text: str, after: int) -> Span | None:
    """Return the next span of the page, from `after` on and then from the start, that reads `text`.

    The marks of a window, such as those of links, are taken out of `text` if need be. Case and
    typography do not count, white space does. None if there is no such span.
    """
    found = (finder.find(reading, after) for reading in read_typed_text(text))
    return next((span for span in found if span), None)


def find_quote(
    finder: TextFinder, text: str, after: int, window: WindowText | None = None
) -> Span | None:
    """Return the span that a quoted text names, from `after` on and then from the start; else None.

    White space, case and typography are ignored. Text shown in `window`, which comes first, may be
    copied with its marks or parts of them. `start━end` names everything from the one to the other.
    Where the text cuts a word, a place where it does not is preferred; else the words are made
    whole.
    """
    if span := _choose_whole(finder, _find_shown(finder, text, after, window)):
        return span
    for reading in read_typed_text(text):
        for mark in re.finditer(ABBREVIATION_MARK, reading):
            halves = reading[: mark.start()], reading[mark.end() :]
            if span := _find_abbreviated(finder, *halves, after, window):
                return span
    return None


def _choose_whole(finder: TextFinder, spans: Iterable[Span]) -> Span | None:
    """Return the first span that cuts no word, else the first with its words made whole."""
    first: Span | None = None
    for span in spans:
        whole = finder.widen_to_words(span)
        if whole == span:
            return span
        first = first or whole
    return first


def read_typed_text(text: str) -> Iterator[str]:
    """Yield the readings of a typed text: as it is, then with a window's marks taken out.

    The second is without marks of links and images, the third without those of scripts and readings
    too; what is no different is not repeated.
    """
    yield text
    words = _IMAGE.sub("", _LINK.sub(r"\1", text))
    if words != text:
        yield words
    plain = _RUBY_READING.sub("", words).translate(_MARK_TRANSLATION)
    if plain != words:
        yield plain


def _find_shown(
    finder: TextFinder, text: str, after: int, window: WindowText | None
) -> Iterator[Span]:
    """Yield where a text stands on the page: in the window as it is shown, then anywhere."""
    if window:
        yield from window.find_all(text)
    for reading in read_typed_text(text):
        for offset in dict.fromkeys((after, 0)):
            yield from islice(finder.find_all(reading, offset, spaced=False), MAX_PLACES)


def _find_abbreviated(
    finder: TextFinder, first: str, last: str, after: int, window: WindowText | None
) -> Span | None:
    for place, window_or_none in ((after, window), (0, None)):
        start = _choose_whole(finder, _find_shown(finder, first, place, window_or_none))
        if start is None:
            return None
        copied = (span for span in window.find_all(last) if span[0] >= start[1]) if window else ()
        later = (
            span
            for reading in read_typed_text(last)
            for span in finder.find_all(reading, start[1], spaced=False)
        )
        if end := _choose_whole(finder, chain(copied, later)):
            return start[0], end[1]
    return None


PASSAGES_PER_RESULT = 4
"""that are searched for, for each result: a library may show several passages of a page"""
STORE_FAILURES = (Outcome.DISK_FULL, Outcome.ARCHIVE_BUSY, Outcome.UNREADABLE_ARCHIVE)
"""for a person to see to: a session that went on would not be kept"""
ANSWERED_STOPS = ("end", Outcome.MAX_ACTIONS, Outcome.MAX_QUOTES)
"""the ways for browsing to stop that lead to an answer, where something was quoted"""


class BrowserSearch(NamedTuple):
    """Request of a session to search its library."""

    query: str
    k: int


class BrowserOpen(NamedTuple):
    """Request of a session to open a page of its library."""

    url: str


BrowserRequest = BrowserSearch | BrowserOpen
BrowserReply = Sequence[Hit] | Page | Failure
BrowserFlow = Generator[Observation | BrowserRequest, str | BrowserReply, "BrowseResult"]


class BrowseResult(Record, frozen=True):
    """The result of one browsing session: its quotes, its answer and why it stopped."""

    quotes: tuple[Quote, ...]
    stop: str
    """end, nonsense, controversial, max_actions, max_quotes, or no_quotes where an answer was
    announced and nothing had been quoted to answer from"""
    answer_text: str | None = None
    """the answer, as it was said; None where none was asked for"""
    failures: tuple[Failure, ...] = ()


def browse_library(
    task: BrowserTask, library: Library, views: PageViewCache | None = None
) -> Generator[Observation, str, BrowseResult]:
    """Run one browsing session over a library, as a generator that is sent commands.

    It yields an Observation, is sent a command, and so on; it returns a BrowseResult. If something
    was quoted, and the session was not ended as nonsense or controversial, one more Observation
    (`answering`) holds the prompt of the answering phase and is sent the answer.
    """
    flow = run_browser(task, views)
    try:
        observation = next(flow)
        while True:
            if isinstance(observation, Observation):
                observation = flow.send((yield observation))
            else:
                observation = flow.send(answer_request(library, observation))
    except StopIteration as ended:
        browsed: BrowseResult = ended.value
        return browsed


def answer_request(library: Library, request: BrowserRequest) -> BrowserReply:
    """Carry out a session's search or opening of a page on the library, and return the reply.

    An error of the library is returned as a Failure. Raises Failed only where the store of pages
    fails: disk_full, archive_busy or unreadable_archive.
    """
    what = request.query if isinstance(request, BrowserSearch) else request.url
    try:
        if isinstance(request, BrowserSearch):
            return library.search(request.query, request.k)
        return library.fetch(request.url)
    except Failed as failed:
        if failed.failure.outcome in STORE_FAILURES:
            raise
        return failed.failure
    except Exception as error:  # a library's mistake costs one page, not the session
        return Failure(what, Outcome.LIBRARY_FAILED, f"{type(error).__name__}: {error}")


def run_browser(task: BrowserTask, views: PageViewCache | None = None) -> BrowserFlow:
    """Run one browsing session without I/O, as a generator that returns a BrowseResult.

    It yields Observations, for which it is sent a command (or at the end the answer), and requests
    to search or to open a page, for which it is sent the reply of a library.
    """
    session = _BrowserState(task, PageViewCache() if views is None else views)
    if task.start:
        yield from session.open_page(task.start)
        session.history.clear()  # the empty page is not a page to go back to
    stop = ""
    actions_left = task.rules.actions
    while actions_left and not stop:
        reply = yield session.build_observation(actions_left)
        actions_left -= 1
        stop = yield from session.run_command(parse_command(_require_text(reply)))
    stop = stop or Outcome.MAX_ACTIONS
    answer = None
    if session.quotes and stop in ANSWERED_STOPS:
        answer = _require_text((yield session.build_answer_prompt(actions_left)))
    elif stop == "end":
        stop = Outcome.NO_QUOTES
    return BrowseResult(tuple(session.quotes), stop, answer, tuple(session.failures))


class BrowserPosition(NamedTuple):
    """The current page, its view, and the start of the window that is shown."""

    opened: OpenedPage
    view: PageView
    top: int
    quotable: bool = True
    found: tuple[str, int] = ("", -1)
    """what was last looked for here, and where it was"""
    scrolled: tuple[int, ...] = ()
    """the windows that were scrolled down from, so that scrolling up retraces them"""

    def move_to_anchor(self, fragment: str) -> "BrowserPosition":
        """Return the position at the element that a fragment names, else at the top of the view."""
        at = self.view.find_anchor(fragment) if fragment else None
        if at is None:
            return self._replace(top=self.view.top, scrolled=())
        return self.move_to_offset(at)

    def move_to_text(self, text: str, before: int = 0) -> tuple["BrowserPosition", Span] | None:
        """Return the position at the next occurrence of a text, with its span; None without any.

        The window begins so many characters `before` it, if it can.
        The search begins at the window or, where this text was found before, behind that place, and
        goes on from the top of the page.
        """
        sought, at = self.found
        after = at + 1 if sought == text else self.view.window_at(self.top).start
        span = find_in_page(self.opened.finder, text, after)
        return span and (self.move_to_offset(span[0], before)._replace(found=(text, span[0])), span)

    def find_quoted_span(self, text: str) -> Span | None:
        """Return the span of the page that a quoted text names; None if it is not there.

        It is looked for in the window, then from the window on, then from the top of the page.
        """
        window = self.view.get_window_text(self.top)
        return find_quote(self.opened.finder, text, self.view.window_at(self.top).start, window)

    def list_places(self, text: str) -> str:
        """Tell how often a text stands on the page, and show the first 8 places, with percent."""
        find, page, view = self.opened.finder.find_all, self.view.page, self.view
        every = (list(islice(find(r, 0, True), MAX_PLACES)) for r in read_typed_text(text))
        spans = next(filter(None, every), [])
        lines = [f"{len(spans)} on the page"]
        for start, end in spans[:8]:
            words = " ".join(page.text[max(start - 40, 0) : end + 40].split())
            lines.append(f"  {100 * (start - view.top) // max(view.bottom, 1)} %: …{words}…")
        return "\n".join(lines)

    def move_to_offset(self, at: int, before: int = 0) -> "BrowserPosition":
        """Return the position at an offset of the page, with as much shown `before` it."""
        view = self.view if self.view.shows_offset(at) else self.opened.full
        return self._replace(view=view, top=view.window_around(at, before), scrolled=())


class _BrowserState:
    """The state of one session and what each command does to it."""

    def __init__(self, task: BrowserTask, views: PageViewCache) -> None:
        self.task = task
        self.rules = task.rules
        self.views = views
        self.forbidden_ngrams = find_forbidden_ngrams(task.question, task.rules.overlap)
        self.quotes: list[Quote] = []
        self.failures: list[Failure] = []
        self.past_actions: list[str] = []
        self.note = self.effect = ""
        self.passages: dict[tuple[str, str], int] = {}
        """by address and version, where the best one that a search found starts"""
        self.quotes_text = self.actions_text = ""  # as the prompt shows them
        self.history: list[BrowserPosition] = []
        self.position = self._position_at_top(Page("", "", ""), quotable=False)

    def build_observation(self, actions_left: int) -> Observation:
        """Return the observation of the current state."""
        view, question = self.position.view, self.task.question.text
        title = self._title_with_domain(view.page.title, view.page.url)
        window = view.window_at(self.position.top)
        scrollbar = view.get_scrollbar(window)
        head = format_prompt_head(question, self.quotes_text, self.actions_text, title, scrollbar)
        return Observation(
            prompt=f"{head}{window.text}{format_prompt_foot(actions_left)}",
            question=question,
            quotes=tuple(self.quotes),
            past=tuple(self.past_actions),
            title=title,
            scrollbar=scrollbar,
            text=window.text,
            left=actions_left,
            url=view.page.url,
            digest=view.page.digest,
            start=window.start,
            end=window.end,
            note=self.note,
            effect=self.effect,
        )

    def build_answer_prompt(self, actions_left: int) -> Observation:
        """Return the observation that starts the answering phase."""
        titled = ((self._title_with_domain(quote.title, quote.url), quote) for quote in self.quotes)
        return Observation(
            prompt=format_answer_prompt(self.task.question.text, titled),
            question=self.task.question.text,
            quotes=tuple(self.quotes),
            past=tuple(self.past_actions),
            title="",
            scrollbar=(0, 0),
            text="",
            left=actions_left,
            note=self.note,
            answering=True,
        )

    def run_command(
        self, command: BrowserCommand | None
    ) -> Generator[BrowserRequest, str | BrowserReply, str]:
        """Do what a command says; the reason to stop, or nothing.

        What cannot be done leaves all as it is, as text that is no command does (WebGPT, table 1).
        """
        self.note = self.effect = ""
        match command:
            case None:
                self.note = "this is no command of the text browser"
            case ("Search", query):
                yield from self.search_web(query)
            case ("Clicked on link", number):
                yield from self.click_link(int(number))
            case ("Find in page:", text):
                self.find_in_page(text)
            case ("Quote:", text):
                return self.quote_text(text)
            case ("Scrolled down" | "Scrolled up" as way, times):
                self.scroll_page(way, int(times))
            case ("Top", _):
                self.position = self.position._replace(top=self.position.view.top, scrolled=())
                self._add_action("Top")
            case ("Back", _):
                self.go_back()
            case (_, ending):
                return "end" if ending == "Answer" else ending.lower()
        return ""

    def search_web(self, query: str) -> Generator[BrowserRequest, str | BrowserReply, None]:
        """Send the query and show the results as a page."""
        reply = yield BrowserSearch(query, PASSAGES_PER_RESULT * self.rules.results)
        self._add_action(f"Search {truncate_line(query, self.rules.title)}")
        if isinstance(reply, Failure):
            self._show_failure(reply)
        elif isinstance(reply, str | Page):
            raise TypeError("a search is answered with hits or a Failure")
        else:
            opened = self.views.open_results(query, reply, self.rules, self.forbidden_ngrams)
            self.passages |= {(h.url, h.digest): h.start for h in reversed(reply) if h.end}
            self._go_to(_open_at_top(opened, quotable=False))
            page = opened.full.page
            titles = (page.text[link.start : link.end] for link in page.links)
            listed = truncate_line("; ".join(titles), self.rules.title)
            self.effect = f"{len(page.links)} results: {listed}" if self.rules.before else ""

    def click_link(self, number: int) -> Generator[BrowserRequest, str | BrowserReply, None]:
        """Follow the link with this ID, to a place on this page or to another page."""
        link = self.position.view.get_link(number)
        if link is None:
            self.note = f"there is no link {number} on this page"
            return
        words = truncate_line(self.position.view.get_link_text(link), self.rules.title)
        self._add_action(f"Click {words} {get_domain(link.url)}".rstrip())
        url, fragment = urldefrag(link.url)
        if url == urldefrag(self.position.view.page.url).url and self.position.quotable:
            self._go_to(self.position.move_to_anchor(fragment))
        else:
            yield from self.open_page(link.url)

    def open_page(self, address: str) -> Generator[BrowserRequest, str | BrowserReply, None]:
        """Open the page at an address that was shown to the session."""
        url, fragment = urldefrag(address)
        reply = yield BrowserOpen(url)
        if isinstance(reply, Failure):
            self._show_failure(reply)
        elif not isinstance(reply, Page):
            raise TypeError("an opening is answered with a Page or a Failure")
        elif is_subdomain(get_domain(reply.url), self.rules.blocked):
            detail = f"{get_domain(reply.url)} is not to be read"
            self._show_failure(Failure(url, Outcome.BLOCKED_DOMAIN, detail))
        elif self._gives_away(reply):
            detail = "the page repeats the question or a reference answer"
            self._show_failure(Failure(url, Outcome.CENSORED, detail))
        else:
            place = self._position_at_top(reply).move_to_anchor(fragment)
            at = self.passages.get((address, reply.digest)) if self.rules.before else None
            self._go_to(place if at is None else place.move_to_offset(at, self.rules.before or 0))

    def find_in_page(self, text: str) -> None:
        """Scroll to the next occurrence of a text, beginning again at the top of the page."""
        self._add_action(f"Find in page: {truncate_line(text, self.rules.title)}")
        moved = self.position.move_to_text(text, self.rules.before or 0)
        if moved is None:
            self.note = "this text is not on the page"
        else:
            self.position = moved[0]
            self.effect = moved[0].list_places(text) if self.rules.before else ""

    def quote_text(self, text: str) -> str:
        """Add what a text names on the page to the quotes; the reason to stop, if any."""
        if not self.position.quotable:
            self.note = "only a page that was opened can be quoted: click on a link first"
            return ""
        span = self.position.find_quoted_span(text)
        if span is None:
            self.note = (
                "this text is not on the page: copy it as it stands, and in parts where the window "
                "leaves something out"
            )
            return ""
        quote = self.position.view.page.quote(*span)
        if quote in self.quotes:
            self.note = "this is quoted already"
            return ""
        if len(quote.text) > self.rules.quoted:
            self.note = f"this is longer than all quotes may be together: {self.rules.quoted}"
            return ""
        room = self.rules.quoted - sum(len(quote.text) for quote in self.quotes)
        if len(quote.text) <= room:
            self.quotes.append(quote)
            self._add_action("Quote")
            self.effect = f"quoted as [{len(self.quotes)}]"
            title = self._title_with_domain(quote.title, quote.url)
            self.quotes_text += format_reference(quote, title)
        enough = len(quote.text) >= room or len(self.quotes) == self.rules.quotes
        return Outcome.MAX_QUOTES if enough else ""

    def scroll_page(self, way: str, times: int) -> None:
        """Move by whole windows, as far as the page goes."""
        self._add_action(f"{way} {times}")
        for _ in range(times):
            place = self.position
            if way == "Scrolled down":
                below = place.view.window_below(place.top)
                scrolled = (*place.scrolled, place.top) if below != place.top else place.scrolled
                self.position = place._replace(top=below, scrolled=scrolled)
            elif place.scrolled:
                self.position = place._replace(top=place.scrolled[-1], scrolled=place.scrolled[:-1])
            else:
                self.position = place._replace(top=place.view.window_above(place.top))

    def go_back(self) -> None:
        """Go to the previous page, where it was left, in the version that was read."""
        if self.history:
            self.position = self.history.pop()
            self._add_action("Back")
        else:
            self.note = "there is no page before this one"

    def _add_action(self, action: str) -> None:
        self.past_actions.append(action)
        self.actions_text += f"{action}\n"

    def _go_to(self, place: BrowserPosition) -> None:
        self.history.append(self.position)
        self.position = place

    def _show_failure(self, failure: Failure) -> None:
        """Show an error page in place of what could not be had."""
        self.failures.append(failure)
        self._go_to(self._position_at_top(build_error_page(failure), quotable=False))

    def _position_at_top(self, page: Page, quotable: bool = True) -> BrowserPosition:
        return _open_at_top(self.views.get_opened(page, self.rules), quotable)

    def _gives_away(self, page: Page) -> bool:
        return bool(self.forbidden_ngrams) and contains_ngram(
            self.views.get_opened(page, self.rules).words, self.forbidden_ngrams
        )

    def _title_with_domain(self, title: str, url: str) -> str:
        """`<page title> (<page domain>)`; search results and files have no domain."""
        domain = get_domain(url)
        line = neutralize_text(truncate_line(title, self.rules.title))
        return f"{line} ({domain})" if domain else line


def _open_at_top(opened: OpenedPage, quotable: bool) -> BrowserPosition:
    return BrowserPosition(opened, opened.article, opened.article.top, quotable)


def _require_text(reply: str | BrowserReply) -> str:
    if not isinstance(reply, str):
        raise TypeError("an Observation is answered with a command, as a str")
    return reply


FINISHED_STOPS = (
    *(*ANSWERED_STOPS, Outcome.NO_QUOTES),
    *(Outcome.NONSENSE, Outcome.CONTROVERSIAL, Outcome.BAD_SYNTAX),
)
"""stops of episodes that came to their end; others were broken off: policy_failed where the policy
gave no completion, browser_failed where a library's answer could not be shown"""


class BrowserEpisode:
    """One episode under way: it waits for a command (`observation`), for a library's reply, or has
    ended (`result`).

    `begin_browsing`, `accept_completion` and `accept_reply` return the request that the library is
    to answer next, or None where there is an observation or the episode has ended. What the browser
    itself raises ends the episode (browser_failed): no page ends the others. Share `views` between
    episodes to render pages once.
    """

    def __init__(
        self, task: BrowserTask, by: str, views: PageViewCache | None = None, session: str = ""
    ) -> None:
        self.task = task
        self.steps: list[Step] = []
        """the steps so far"""
        self.observation: Observation | None = None
        """the state that waits for a command, or for the answer; None while a library is asked, and
        at the end"""
        self.result: Episode | None = None
        """the episode, once it has ended"""
        self.browsed = BrowseResult((), "")
        """the quotes and the stop, once it has ended"""
        self._by = by
        self._session = session
        self._flow = run_browser(task, views)

    def begin_browsing(self) -> BrowserRequest | None:
        """Begin the episode."""
        return self._advance_browser(None)

    @property
    def prompt(self) -> str:
        """The prompt that waits for a command, or for the answer; empty after the end."""
        return self.observation.prompt if self.observation else ""

    def accept_text(self, text: str) -> BrowserRequest | None:
        """Take a command or the answer as it was typed. Raises ValueError where none is awaited."""
        return self.accept_completion(Completion(replace_surrogates(text)))

    def accept_completion(self, completion: Completion) -> BrowserRequest | None:
        """Take a command, or in the answering phase the answer.

        Raises ValueError where none is awaited.
        """
        if self.observation is None:
            why = "the library is being asked: no command is awaited"
            raise ValueError("the episode has ended: begin another" if self.result else why)
        self.steps.append(Step(self.observation.prompt, completion))
        return self._advance_browser(completion.text)

    def accept_reply(self, reply: BrowserReply) -> BrowserRequest | None:
        """Take the library's reply to the last request."""
        return self._advance_browser(reply)

    def answer_from(self, library: Library, request: BrowserRequest | None) -> None:
        """Have a library answer a request, and those that follow from it; nothing for None.

        Raises Failed as `answer_request` does.
        """
        while request is not None:
            request = self.accept_reply(answer_request(library, request))

    def break_off(self, failure: Failure) -> Episode:
        """End the episode without an answer; the stop is the failure's outcome."""
        browsed = BrowseResult((), failure.outcome)
        if self.observation is not None:
            try:
                self._flow.send("End: Nonsense")
            except StopIteration as ended:
                browsed = ended.value
        self._flow.close()
        failures = (*browsed.failures, failure)
        return self._finish(BrowseResult(browsed.quotes, failure.outcome, None, failures))

    def _advance_browser(self, sent: str | BrowserReply | None) -> BrowserRequest | None:
        self.observation = None
        try:
            try:
                observation = next(self._flow) if sent is None else self._flow.send(sent)
            except StopIteration as ended:
                self._finish(ended.value)
                return None
        except Exception as error:  # what one page holds must not end the other episodes
            detail = f"{type(error).__name__}: {error}"
            self.break_off(Failure(self.task.question.id, Outcome.BROWSER_FAILED, detail))
            return None
        if isinstance(observation, Observation):
            self.observation = observation
            return None
        return observation

    def _finish(self, browsed: BrowseResult) -> Episode:
        self.observation = None
        self.browsed = browsed
        self.result = build_episode(self.task, self._by, self.steps, browsed, self._session)
        return self.result


def build_episode(
    task: BrowserTask, by: str, steps: Sequence[Step], browsed: BrowseResult, session: str = ""
) -> Episode:
    """Build the episode of an ended session, with its answer parsed from `[1][2]` citations.

    An answer that cites what was not quoted is left out: the stop is bad_syntax and the last
    failure gives the reason.
    """
    answer, stop, failures = None, browsed.stop, browsed.failures
    if browsed.answer_text is not None:
        try:
            answer = parse_numbered(browsed.answer_text, browsed.quotes)
        except CitationSyntaxError as error:
            stop = "bad_syntax"
            failures = (*failures, Failure(by, stop, str(error)))
    ended = Episode(task.question, by, tuple(steps), answer, stop, failures, session)
    return ensure_encodable(ended)


_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def ensure_encodable(episode: Episode) -> Episode:
    """Return the episode with lone surrogates replaced, which pages and errors may contain."""
    try:
        episode.to_json()
    except UnicodeEncodeError:
        plain = convert_nested(msgspec.to_builtins(episode), str, replace_surrogates)
        return msgspec.convert(plain, prepare_type(Episode))
    return episode
