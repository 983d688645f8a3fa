"""What the tools of the MCP server take and give. Their schemas are made from these records.

It knows nothing of what the tools do.
"""

from typing import Annotated, Any

from msgspec import Meta

from rookery.records import Answer, Failure, Quote, Record
from rookery.serve.mcp_verify import Checked

_SESSION = "The id that search gave."
Share = Annotated[float, Meta(ge=0, le=1)]


class SearchIn(Record, frozen=True):
    """What to search for."""

    query: Annotated[str, Meta(min_length=1, max_length=2000, description="Words, or a question.")]
    k: Annotated[int, Meta(ge=1, le=20, description="Results at most.")] = 10
    session: Annotated[str, Meta(description="A session to go on in; none: a new one.")] = ""
    offset: Annotated[int, Meta(ge=0, description="Results to leave out, to page on.")] = 0


class Result(Record, frozen=True):
    """One result. Its snippet is for choosing what to open and can never be quoted."""

    id: Annotated[str, Meta(description="For fetch.")]
    title: str
    url: str
    snippet: str
    link: Annotated[int, Meta(description="For open, as long as these results are shown.")]


class Found(Record, frozen=True):
    """What a search found."""

    session: str
    query: str
    results: tuple[Result, ...]
    total: int
    next_offset: int | None


class OpenIn(Record, frozen=True):
    """What to open: a link, an address, or more of what is open."""

    session: Annotated[str, Meta(description=f"{_SESSION} None: a new one, for an address.")] = ""
    link: Annotated[
        int | None, Meta(description="The n of a link 【n†words】 or result that is shown now.")
    ] = None
    url: Annotated[
        str, Meta(max_length=8000, description="An address; the tool says which may be opened.")
    ] = ""
    offset: Annotated[
        int | None, Meta(description="Where to read on: an offset into the page's text.")
    ] = None
    full: Annotated[
        bool, Meta(description="All of the page, with navigation, not only its article.")
    ] = False


class Span(Record, frozen=True):
    """text[start:end] of the page."""

    start: int
    end: int


class Window(Record, frozen=True):
    """Part of a page. Links stand in the text as 【n†words†domain】."""

    session: str
    url: str
    title: str
    digest: Annotated[str, Meta(description="Names this version of the page.")]
    start: int
    end: int
    total: Annotated[int, Meta(description="Where what is shown of the page ends.")]
    next_offset: int | None
    text: str
    found: Annotated[Span | None, Meta(description="What find found.")] = None


class FindIn(Record, frozen=True):
    """What to find on the page that is open."""

    session: Annotated[str, Meta(description=_SESSION)]
    text: Annotated[
        str,
        Meta(min_length=1, max_length=2000, description="Words as they stand; again: the next."),
    ]


class QuoteIn(Record, frozen=True):
    """What to quote of the page that is open: a text, or start and end."""

    session: Annotated[str, Meta(description=_SESSION)]
    text: Annotated[
        str,
        Meta(max_length=20_000, description="The words, or first words━last words for a long one."),
    ] = ""
    start: Annotated[int | None, Meta(description="Or: an offset into the page's text.")] = None
    end: Annotated[int | None, Meta(description="The offset behind the last character.")] = None


class Quoted(Record, frozen=True):
    """A verbatim quote, cut from the stored page by the server."""

    session: str
    quote: Quote
    markdown: Annotated[str, Meta(description="To copy into an answer; rookery checks it so.")]


class FetchIn(Record, frozen=True):
    """What to fetch."""

    id: Annotated[str, Meta(min_length=1, max_length=200, description="The id of a result.")]
    offset: Annotated[int, Meta(ge=0, description="Where to read on.")] = 0


class Fetched(Record, frozen=True):
    """A page's own text, as far as one result holds it."""

    id: str
    title: str
    text: str
    url: str
    metadata: Annotated[
        dict[str, str | int | None],
        Meta(description="session, digest, start, end, total and next_offset."),
    ]


class AnswerIn(Record, frozen=True):
    """What to answer, and how."""

    question: Annotated[str, Meta(min_length=1, max_length=5000, description="One question.")]
    method: Annotated[str, Meta(description="One that the server offers; none: its own.")] = ""
    model: Annotated[str, Meta(description="One that the server offers; none: its first.")] = ""
    decline: Annotated[
        Share | None, Meta(description="From 0 to 1: how sure an answer must be to be given.")
    ] = None


class AnswerOut(Record, frozen=True):
    """An answer whose every quote was checked against its stored page, or why there is none."""

    question: str
    stop: Annotated[str, Meta(description="end, or why it ended without an answer.")]
    declined: Annotated[bool, Meta(description="What was found is too weak to answer from.")]
    text: Annotated[str, Meta(description="With [n] for the n-th quote.")]
    quotes: int
    verified: int
    answer: Annotated[Answer | None, Meta(description="For verify and rookery cite verify.")]
    failures: tuple[Failure, ...]


class VerifyIn(Record, frozen=True):
    """A saved answer."""

    answer: Annotated[
        str | dict[str, Any],
        Meta(
            description="JSON of Rookery, OpenAI, Anthropic, Gemini or Perplexity, or Markdown "
            "that quotes words in quotation marks beside a link to their source."
        ),
    ]
    offset: Annotated[int, Meta(ge=0, description="Quotes to leave out, to page on.")] = 0
    allow_elided: Annotated[
        bool,
        Meta(description="Accept quotations with an ellipsis where what is left out is harmless."),
    ] = False


class Verified(Record, frozen=True):
    """Which quotes stand in the stored pages that they name."""

    verified: int
    total: int
    failed: int
    next_offset: int | None
    checked: tuple[Checked, ...]
