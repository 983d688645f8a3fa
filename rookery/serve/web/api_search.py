"""/search as Perplexity has it, and /retrieve as Search-R1's training asks it: pages, no answers.

It knows nothing of how a library searches.
"""

import secrets
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from rookery.browse.places import is_url
from rookery.records import Failed, Hit, Library, Page
from rookery.serve.web.answering import Answering, answering_of
from rookery.serve.web.api_ask import Addresses, refused
from rookery.serve.web.api_door import Call, Operation
from rookery.serve.web.api_streams import json
from rookery.serve.web.wanted import Wanted

Query = Annotated[str, Meta(min_length=1, max_length=2_000)]


class SearchRequest(Struct):
    """What is searched for."""

    query: Query | Annotated[list[Query], Meta(min_length=1, max_length=5)]
    max_results: Annotated[int, Meta(ge=1, le=20)] = 10
    search_domain_filter: Annotated[list[str], Meta(max_length=20)] | None = None
    """names of hosts to look at; with - before them, hosts to leave out"""


class FoundPage(Struct):
    """A page that was found."""

    title: str
    url: str
    snippet: str
    date: None = None
    last_updated: str | None = None
    """when the page was read"""


class SearchResponse(Struct):
    """Pages, the best first."""

    id: str
    results: list[FoundPage]


class RetrieveRequest(Struct):
    """What is looked for, all at once."""

    queries: Annotated[list[Query], Meta(min_length=1, max_length=64)]
    topk: Annotated[int, Meta(ge=1, le=100)] | None = None
    return_scores: bool = False


class Document(Struct):
    """A passage."""

    id: str
    contents: str
    """the title in quotation marks, and below it the passage"""
    title: str
    url: str
    text: str


class Scored(Struct):
    """A passage and how well it fits."""

    document: Document
    score: float


class RetrieveResponse(Struct):
    """For each query its passages, the best first."""

    result: list[list[Any]]
    """{document, score}; where no scores were asked for, the documents alone"""


TOPK = 3
"""passages for a query that does not say, as in Search-R1"""


def operations() -> list[Operation]:
    """What is done at /search and /retrieve."""
    return [
        Operation(
            "POST", "/search", "search", "Search for pages", search, SearchResponse, SearchRequest
        ),
        Operation(
            "POST",
            "/retrieve",
            "retrieve",
            "Passages for many queries at once",
            retrieve,
            RetrieveResponse,
            RetrieveRequest,
            plain=True,
        ),
    ]


async def search(call: Call) -> Response:
    """Pages for one query, or for a few."""
    asked: SearchRequest = call.body
    answering, addresses = answering_of(call.request), Addresses(call)
    queries = [asked.query] if isinstance(asked.query, str) else asked.query

    def work() -> list[FoundPage]:
        with _library(answering, asked.search_domain_filter or ()) as library:
            hits = [hit for query in queries for hit in library.search(query, asked.max_results)]
        best = {hit.url: hit for hit in reversed(hits)}  # of each page its first passage
        pages = [hit for hit in hits if best.pop(hit.url, None) is not None]
        return [_found(hit, addresses) for hit in pages[: asked.max_results]]

    results = await call.meanwhile(_told(work))
    return json(SearchResponse(f"search_{secrets.token_hex(16)}", results))


async def retrieve(call: Call) -> Response:
    """Passages for each query."""
    asked: RetrieveRequest = call.body
    answering, addresses = answering_of(call.request), Addresses(call)

    def work() -> list[list[Scored]]:
        with _library(answering, ()) as library:
            opened: dict[str, Page | None] = {}
            return [
                [_scored(hit, library, opened, addresses) for hit in library.search(query, k)]
                for query in asked.queries
            ]

    k = asked.topk or TOPK
    found = await call.meanwhile(_told(work))
    if asked.return_scores:
        return json(RetrieveResponse([[*one] for one in found]))
    return json(RetrieveResponse([[each.document for each in one] for one in found]))


def _told(work: Any) -> Any:
    """The work, whose failures are worded for programs."""

    def done() -> Any:
        try:
            return work()
        except Failed as trouble:
            raise refused(trouble) from trouble

    return done


def _library(answering: Answering, domains: Sequence[str]) -> Any:
    return answering.holdings(Wanted("", domains=tuple(domains)))


def _found(hit: Hit, addresses: Addresses) -> FoundPage:
    return FoundPage(_titled(hit), _address(hit, addresses), hit.snippet)


def _scored(
    hit: Hit, library: Library, opened: dict[str, Page | None], addresses: Addresses
) -> Scored:
    text = _passage(hit, library, opened)
    title = _titled(hit)
    name = f"{hit.digest}:{hit.start}-{hit.end}" if hit.digest else hit.url
    document = Document(name, f'"{title}"\n{text}', title, _address(hit, addresses), text)
    return Scored(document, hit.score)


def _passage(hit: Hit, library: Library, opened: dict[str, Page | None]) -> str:
    """The whole passage where the library has read it; otherwise what the search shows of it."""
    if not hit.digest:
        return hit.snippet
    if hit.url not in opened:
        try:
            opened[hit.url] = library.fetch(hit.url)
        except Failed:
            opened[hit.url] = None
    page = opened[hit.url]
    same = page is not None and page.digest == hit.digest and hit.end > hit.start
    return page.text[hit.start : hit.end] if page and same else hit.snippet


def _titled(hit: Hit) -> str:
    return " ".join(hit.title.split()) or "Untitled"


def _address(hit: Hit, addresses: Addresses) -> str:
    if hit.digest and not is_url(hit.url):
        return addresses.stored(hit.url, hit.digest, f"?start={hit.start}&end={hit.end}#quote")
    return addresses.named(hit.url)
