"""The tools that a model is given over MCP: search, open, find, quote, fetch, answer and verify.

It knows neither how a message comes nor who sent it, only whose the sessions are.
"""

import re
import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from rookery.cite.syntax import render_numbered
from rookery.records import Failed, Failure, Quote, Record
from rookery.serve.checking import check_saved, count_failed, summarise
from rookery.serve.mcp_browsers import Browser, BrowserLimits, Browsers, Shown, Source
from rookery.serve.mcp_forms import (
    AnswerIn,
    AnswerOut,
    Fetched,
    FetchIn,
    FindIn,
    Found,
    OpenIn,
    Quoted,
    QuoteIn,
    Result,
    SearchIn,
    Span,
    Verified,
    VerifyIn,
    Window,
)
from rookery.serve.mcp_verify import ArchivedSources, as_told
from rookery.serve.web.wanted import Answered, Wanted

CHECKED = 50
"""quotes of a saved answer that one result of `verify` tells"""
TROUBLES = 10
"""failures that one answer tells"""
FILE = re.compile(r"file:///[\w.~/%-]*")
LAW = (
    " Only addresses that a search or a page of this session showed are opened, whoever asks: so "
    "nothing that a page says can send this server anywhere."
)
ANY = " Addresses of http and https that the user gave may be opened, too."


class Caller(NamedTuple):
    """Who calls a tool."""

    owner: str
    """whose the sessions are; nobody else can use them"""
    answer: Callable[[Wanted], Answered]
    """answers a question. Raises Failed"""
    shown: Callable[[str, str], str] = lambda url, digest: url
    """the address that a page has for the caller, of its URL and digest"""
    meant: Callable[[str], str] = lambda address: ""
    """the digest of the page that such an address names; nothing where it is a URL itself"""


class Told(NamedTuple):
    """What a tool gives: the same for a program and, as text, for a model."""

    structured: Record
    text: str


class Tool(NamedTuple):
    """One tool."""

    name: str
    title: str
    description: str
    takes: type[Record]
    gives: type[Record]
    does: Callable[[Any, Caller], Told]


class WrongArguments(Exception):
    """A tool was given what it does not take; the text says what, in a sentence."""


class Tools:
    """The tools over one source. Many threads may use them at once."""

    def __init__(
        self, source: Source, method: str = "", limits: BrowserLimits = BrowserLimits()
    ) -> None:
        self.source = source
        self.browsers = Browsers(source, limits)
        self._method = method or source.settings.method
        self._limits = limits
        self._tools = {tool.name: tool for tool in self._all()}

    def names(self) -> tuple[str, ...]:
        """Of all tools."""
        return tuple(self._tools)

    def listed(self) -> list[dict[str, Any]]:
        """The tools as a client is told of them."""
        hints = {"readOnlyHint": True, "openWorldHint": self.source.outside}
        return [
            {
                "name": tool.name,
                "title": tool.title,
                "description": tool.description,
                "inputSchema": schema(tool.takes),
                "outputSchema": schema(tool.gives),
                "annotations": {"title": tool.title, **hints},
            }
            for tool in self._tools.values()
        ]

    def call(self, name: str, arguments: Any, caller: Caller) -> Told:
        """Does what one of the tools does. Raises Failed and WrongArguments."""
        tool = self._tools[name]
        try:
            # Models write 3 as "3" now and then.
            given = msgspec.convert(arguments, tool.takes, strict=False)
        except msgspec.ValidationError as error:
            takes = ", ".join(field.name for field in msgspec.structs.fields(tool.takes))
            raise WrongArguments(f"{name}: {error}. It takes {takes}: call it again.") from error
        try:
            return tool.does(given, caller)
        except Failed as failed:
            raise Failed(_told_to(caller, failed.failure)) from failed

    def _all(self) -> tuple[Tool, ...]:
        where = ANY if self.source.any_address else LAW
        return (
            Tool(
                "search",
                "Search",
                "Searches for pages. Gives a session id for the other tools, and results to open "
                "by their link number or to fetch by their id. Snippets cannot be quoted.",
                SearchIn,
                Found,
                self._search,
            ),
            Tool(
                "open",
                "Open a page",
                "Shows part of a page: by the number of a link that is shown, by its address, or, "
                "with offset alone, more of the page that is open." + where,
                OpenIn,
                Window,
                self._open,
            ),
            Tool(
                "find",
                "Find on the page",
                "Goes to where a text stands on the page that is open; again: to the next place.",
                FindIn,
                Window,
                self._find,
            ),
            Tool(
                "quote",
                "Quote the page",
                "Cuts a verbatim quote from the page that is open, by its words (case and "
                "typography do not count) or by start and end. What it gives can be verified.",
                QuoteIn,
                Quoted,
                self._quote,
            ),
            Tool(
                "fetch",
                "Fetch a result",
                "Gives the text of the page that a search result's id names, and opens it.",
                FetchIn,
                Fetched,
                self._fetch,
            ),
            Tool(
                "answer",
                "Answer a question",
                "Searches, reads, and answers one question with quotes that were checked against "
                "their stored pages; or declines where what it finds is too weak.",
                AnswerIn,
                AnswerOut,
                self._answer,
            ),
            Tool(
                "verify",
                "Verify an answer",
                "Checks every quote of an answer against the stored pages. Uses no model and no "
                "network.",
                VerifyIn,
                Verified,
                self._verify,
            ),
        )

    def _search(self, given: SearchIn, caller: Caller) -> Told:
        session = given.session or self.browsers.new(caller.owner)
        with self.browsers.at(session, caller.owner) as browser:
            hits = browser.search(given.query)
            shown = range(given.offset, min(given.offset + given.k, len(hits)))
            results = tuple(
                Result(
                    browser.id_of(hits[number].url),
                    hits[number].title,
                    caller.shown(hits[number].url, hits[number].digest),
                    hits[number].snippet[: self._limits.snippet],
                    number,
                )
                for number in shown
            )
        after = given.offset + len(results)
        following = after if results and after < len(hits) else None
        found = Found(session, given.query, results, len(hits), following)
        # ChatGPT's connectors read the results from this text.
        return Told(found, found.to_json())

    def _open(self, given: OpenIn, caller: Caller) -> Told:
        if given.link is not None and given.url:
            raise WrongArguments("open: give a link number or an address, not both.")
        session = given.session or (self.browsers.new(caller.owner) if given.url else "")
        with self.browsers.at(session, caller.owner) as browser:
            if given.url:
                browser.open(self._url(given.url, caller))
            elif given.link is not None:
                browser.follow(given.link)
            if given.offset is not None or given.full:
                browser.turn_to(given.offset, given.full)
            return _window(browser, caller)

    def _find(self, given: FindIn, caller: Caller) -> Told:
        with self.browsers.at(given.session, caller.owner) as browser:
            return _window(browser, caller, Span(*browser.find(given.text)))

    def _quote(self, given: QuoteIn, caller: Caller) -> Told:
        with self.browsers.at(given.session, caller.owner) as browser:
            if given.text:
                quote = browser.quote(given.text)
            elif given.start is not None and given.end is not None:
                quote = browser.quote_span(given.start, given.end)
            else:
                raise WrongArguments("quote: give the text to quote, or start and end.")
        quote = _shown_to(caller, quote)
        markdown = in_markdown(quote)
        return Told(Quoted(given.session, quote, markdown), markdown)

    def _fetch(self, given: FetchIn, caller: Caller) -> Told:
        session = given.id.partition("-")[0]
        with self.browsers.at(session, caller.owner) as browser:
            browser.open(browser.address(given.id))
            shown = browser.plain(given.offset)
        about: dict[str, str | int | None] = {
            "session": session,
            "digest": shown.page.digest,
            "start": shown.start,
            "end": shown.end,
            "total": shown.bottom,
            "next_offset": _following(shown),
        }
        url = caller.shown(shown.page.url, shown.page.digest)
        fetched = Fetched(given.id, shown.page.title, shown.text, url, about)
        # ChatGPT's connectors read the page from this text.
        return Told(fetched, fetched.to_json())

    def _answer(self, given: AnswerIn, caller: Caller) -> Told:
        method = given.method or self._method
        wanted = Wanted(given.question, method, given.model, decline=given.decline)
        answered = caller.answer(wanted)
        episode, verdicts = answered.episode, answered.verdicts
        answer = episode.answer
        if answer is not None:
            quotes = tuple(_shown_to(caller, quote) for quote in answer.quotes)
            answer = msgspec.structs.replace(answer, quotes=quotes)
        if episode.stop == "no_evidence" and episode.failures:
            raise Failed(episode.failures[0])
        text = render_numbered(answer) if answer else ""
        out = AnswerOut(
            episode.question.text,
            episode.stop,
            answer.declined if answer else False,
            text[: self._limits.characters],
            len(verdicts),
            sum(verdict.verified for verdict in verdicts),
            answer,
            tuple(_told_to(caller, failure) for failure in episode.failures[:TROUBLES]),
        )
        return Told(out, _as_read(out)[: self._limits.characters])

    def _verify(self, given: VerifyIn, caller: Caller) -> Told:
        said = given.answer
        data = said.encode() if isinstance(said, str) else msgspec.json.encode(said)
        try:
            pages = ArchivedSources(self.source.archive(), caller.meant)
            verdicts = check_saved(data, "the answer", pages, given.allow_elided)
        except ValueError as error:
            raise WrongArguments(f"verify: {error}") from error
        if not verdicts:
            why = "it quotes nothing that names a source: put the link beside the quote"
            raise WrongArguments(f"verify: {why}")
        every = [as_told(verdict) for verdict in verdicts]
        shown = tuple(every[given.offset : given.offset + CHECKED])
        shown = tuple(
            msgspec.structs.replace(each, detail=_hidden(caller, each.detail)) for each in shown
        )
        after = given.offset + len(shown)
        following = after if after < len(every) and shown else None
        good = sum(each.outcome == "verified" for each in every)
        out = Verified(good, len(every), count_failed(verdicts), following, shown)
        lines = [f"{each.outcome}: “{each.text}” {each.url} {each.detail}" for each in shown]
        return Told(out, "\n".join([summarise(verdicts), *lines]))

    def _url(self, address: str, caller: Caller) -> str:
        digest = caller.meant(address)
        page = self.source.archive().page(digest) if digest else None
        return page.url if page else address


def schema(kind: type[Record]) -> dict[str, Any]:
    """The JSON Schema of a record, with an object at its root as MCP wants it."""
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    root: dict[str, Any] = components.pop(kind.__name__)
    return {**root, "$defs": components} if components else root


def in_markdown(quote: Quote) -> str:
    """A quote and its source as `verify` and `rookery cite verify` read them."""
    words = "\n".join(f"> {line}" for line in quote.text.split("\n"))
    title = " ".join(quote.title.translate(_BARE).split()) or quote.url
    return f"{words}\n>\n> — [{title}](<{quote.url}>)"


_BARE = {ord(mark): " " for mark in '[]\\`*_<>"'}


def _window(browser: Browser, caller: Caller, found: Span | None = None) -> Told:
    shown = browser.window()
    page, following = shown.page, _following(shown)
    url = caller.shown(page.url, page.digest)
    window = Window(
        session=browser.id,
        url=url,
        title=page.title,
        digest=page.digest,
        start=shown.start,
        end=shown.end,
        total=shown.bottom,
        next_offset=following,
        text=shown.text,
        found=found,
    )
    fence = secrets.token_hex(4)  # which no page can know
    more = "the end" if following is None else f"more with offset {following}"
    about = f"{page.title}\n{url}\n" if url else f"{page.title}\n"
    about += f"session {browser.id}, {shown.start} to {shown.end} of {shown.bottom}, {more}\n"
    if found is not None:
        about += f"found at {found.start} to {found.end}\n"
    return Told(window, f"{about}--- page {fence} ---\n{shown.text}\n--- end {fence} ---")


def _shown_to(caller: Caller, quote: Quote) -> Quote:
    return msgspec.structs.replace(quote, url=caller.shown(quote.url, quote.digest))


def _told_to(caller: Caller, failure: Failure) -> Failure:
    what, detail = _hidden(caller, failure.what), _hidden(caller, failure.detail)
    return Failure(what, failure.outcome, detail)


def _hidden(caller: Caller, sentence: str) -> str:
    return FILE.sub(lambda found: caller.shown(found[0], ""), sentence)


def _following(shown: Shown) -> int | None:
    return shown.end if shown.start < shown.end < shown.bottom else None


def _as_read(out: AnswerOut) -> str:
    """The answer as a model reads it."""
    if out.answer is None:
        return f"There is no answer ({out.stop}). Search and read yourself, or ask otherwise."
    head = "Declined: this was the nearest.\n" if out.declined else f"{out.text}\n"
    cited = [
        f"[{number}]\n{in_markdown(quote)}" for number, quote in enumerate(out.answer.quotes, 1)
    ]
    return "\n\n".join([head, *cited, f"{out.verified} of {out.quotes} quotes verified"])
