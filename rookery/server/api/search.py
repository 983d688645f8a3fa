"""/search in Perplexity's form and /retrieve in Search-R1's: pages and passages without answers."""

import secrets
from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from rookery.errors import Failed
from rookery.library.libraries import is_url
from rookery.records import Hit, Library, Page
from rookery.server.api.answer_queue import get_answer_service
from rookery.server.api.answer_sessions import QuestionRequest
from rookery.server.api.endpoints import ApiOperation, ApiRequest, PlainError, build_json_response
from rookery.server.api.questions import PublicUrls, convert_question_failures

SearchQuery = Annotated[str, Meta(min_length=1, max_length=2_000)]


class SearchRequest(Struct):
    """A search for pages."""

    query: SearchQuery | Annotated[list[SearchQuery], Meta(min_length=1, max_length=5)]
    """a query, or up to five"""
    max_results: Annotated[int, Meta(ge=1, le=20)] = 10
    """maximum number of pages"""
    search_domain_filter: Annotated[list[str], Meta(max_length=20)] | None = None
    """hosts to search, or, with a leading -, hosts to leave out"""


class SearchResultPage(Struct):
    """A page that a search found."""

    title: str
    """title of the page"""
    url: str
    """address of the page; for a file, of its stored copy here with the passage marked"""
    snippet: str
    """words of the passage that was found"""
    date: None = None
    last_updated: None = None


class SearchResponse(Struct):
    """Pages, best first."""

    id: str
    """id of the search"""
    results: list[SearchResultPage]
    """the pages, best first"""


class RetrieveRequest(Struct):
    """A batch of queries for passages."""

    queries: Annotated[list[SearchQuery], Meta(min_length=1, max_length=64)]
    """the queries"""
    topk: Annotated[int, Meta(ge=1, le=100)] | None = None
    """maximum number of passages for each query; null: 3"""
    return_scores: bool = False
    """True: respond with {document, score} in place of documents"""


class PassageDocument(Struct):
    """A passage."""

    id: str
    """digest of the page's text with start and end of the passage in it, or the page's address"""
    contents: str
    """the title in quotation marks, a line break and the passage"""
    title: str
    """title of the page"""
    url: str
    """address of the page; for a file, of its stored copy here with the passage marked"""
    text: str
    """the passage"""


class ScoredPassage(Struct):
    """A passage and its score."""

    document: PassageDocument
    score: float
    """score of the passage; higher is better"""


class RetrieveResponse(Struct):
    """The passages of each query, best first."""

    result: list[list[Any]]
    """for each query, {document, score}, or the documents alone if no scores were requested"""


DEFAULT_TOPK = 3
"""default number of passages for a query, as in Search-R1"""


async def search_pages(call: ApiRequest) -> Response:
    """Search for pages.

    Takes one or several queries.
    """
    body: SearchRequest = call.body
    answering, addresses = get_answer_service(call.request), PublicUrls(call)
    inquiry = QuestionRequest("", domains=tuple(body.search_domain_filter or ()))
    queries = [body.query] if isinstance(body.query, str) else body.query

    def run_queries() -> list[SearchResultPage]:
        with convert_question_failures(), answering.open_library(inquiry) as library:
            hits = [hit for query in queries for hit in library.search(query, body.max_results)]
        best = {hit.url: hit for hit in reversed(hits)}  # the best passage of each page
        pages = [hit for hit in hits if best.pop(hit.url, None) is not None]
        return [
            SearchResultPage(_clean_title(hit), _link_hit(hit, addresses), hit.snippet)
            for hit in pages[: body.max_results]
        ]

    results = await call.run_limited(call.context.searches, run_queries)
    return build_json_response(SearchResponse(f"search_{secrets.token_hex(16)}", results))


async def retrieve_passages(call: ApiRequest) -> Response:
    """Search for passages with many queries at once."""
    body: RetrieveRequest = call.body
    answering, addresses = get_answer_service(call.request), PublicUrls(call)

    def run_queries() -> list[list[ScoredPassage]]:
        with convert_question_failures(), answering.open_library(QuestionRequest("")) as library:
            opened: dict[str, Page | None] = {}
            results = [library.search(query, k) for query in body.queries]
            build = partial(_build_scored_passage, library, opened, addresses)
            return [[build(hit) for hit in hits] for hits in results]

    k = body.topk or DEFAULT_TOPK
    results: list[list[Any]] = [*await call.run_limited(call.context.searches, run_queries)]
    if not body.return_scores:
        results = [[each.document for each in passages] for passages in results]
    return build_json_response(RetrieveResponse(results))


def _build_scored_passage(
    library: Library, opened: dict[str, Page | None], addresses: PublicUrls, hit: Hit
) -> ScoredPassage:
    text = _read_passage(hit, library, opened)
    title = _clean_title(hit)
    name = f"{hit.digest}:{hit.start}-{hit.end}" if hit.digest else hit.url
    document = PassageDocument(name, f'"{title}"\n{text}', title, _link_hit(hit, addresses), text)
    return ScoredPassage(document, hit.score)


def _read_passage(hit: Hit, library: Library, opened: dict[str, Page | None]) -> str:
    """Return the whole passage if the library has the page; otherwise the search snippet."""
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


def _clean_title(hit: Hit) -> str:
    return " ".join(hit.title.split()) or "Untitled"


def _link_hit(hit: Hit, addresses: PublicUrls) -> str:
    if hit.digest and not is_url(hit.url):
        return addresses.link_stored_page(
            hit.url, hit.digest, f"?start={hit.start}&end={hit.end}#quote"
        )
    return addresses.strip_local_path(hit.url)


SEARCH_OPERATIONS = (
    ApiOperation("POST", "/search", "search", search_pages, SearchResponse, SearchRequest),
    ApiOperation(
        *("POST", "/retrieve", "retrieve", retrieve_passages, RetrieveResponse, RetrieveRequest),
        error_type=PlainError,
    ),
)
"""the operations at /search and /retrieve"""
