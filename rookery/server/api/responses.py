"""/v1/responses: OpenAI's Responses, as records and events, with stored responses.

In `output`, a web_search_call is a search, an opened page or a find on a page; a message holds the
answer or the refusal.
"""

import re
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from itertools import chain
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import select
from starlette.responses import Response as HttpResponse

from rookery.browser.browser_commands import parse_command
from rookery.desk.store import append_event
from rookery.desk.tables import events as book
from rookery.records import prepare_type
from rookery.server.api.answer_sessions import AnswerOutcome, QuestionRequest
from rookery.server.api.endpoints import (
    ApiError,
    ApiOperation,
    ApiRequest,
    EventFrames,
    build_event_response,
    build_json_response,
    convert_exception,
    ensure_reader,
)
from rookery.server.api.questions import (
    QUESTION_LIMITS,
    AnswerMetadata,
    AskedConversation,
    CitationStyle,
    CitedText,
    InputMessages,
    ProgressEvent,
    PublicUrls,
    RookeryOptions,
    build_answer_metadata,
    build_question_request,
    collect_answer,
    count_usage,
    explain_decline,
    extract_conversation,
    insert_citation_marks,
    stream_answer,
)

ItemStatus = Literal["in_progress", "searching", "completed", "failed"]


class SearchFilters(Struct):
    """Restrictions on a search."""

    allowed_domains: list[str] | None = None
    """hosts that may be searched, with their subdomains"""


class WebSearchTool(Struct):
    """A tool offered by the request. Only web_search has an effect."""

    type: str
    """web_search, or another kind of tool, which has no effect"""
    filters: SearchFilters | None = None
    external_web_access: bool | None = None
    """False: use stored pages only"""


class SearchSource(Struct, tag="url"):
    """A page found by a search."""

    url: str
    """address of the page; of a file, its name"""


class SearchAction(Struct, tag="search"):
    """The action of a search."""

    query: str
    """the query"""
    queries: list[str]
    """the queries of the search: one"""
    sources: list[SearchSource]
    """the pages that were found"""


class OpenPageAction(Struct, tag="open_page"):
    """The action of opening a page."""

    url: str
    """address of the page; of a file, its name"""


class FindInPageAction(Struct, tag="find_in_page"):
    """The action of finding a text on the open page."""

    pattern: str
    """the text that was looked for"""
    url: str
    """address of the open page; of a file, its name"""


class WebSearchCall(Struct, tag="web_search_call"):
    """One action on the way to an answer."""

    id: str
    """id of the item"""
    action: SearchAction | OpenPageAction | FindInPageAction
    """the search, the page that was opened, or the text that was looked for"""
    status: ItemStatus
    """state of the action"""


class PageCitation(Struct):
    """A citation: text[start_index:end_index] is the mark that cites the page."""

    start_index: int
    """offset of the mark in the text, in code points"""
    end_index: int
    """offset of its end; exclusive"""
    title: str
    """title of the page"""
    url: str
    """address of the page; for a file, of its stored copy here with the quote marked"""
    cited_text: str
    """the verbatim quote"""


class UrlCitation(PageCitation, tag="url_citation"):
    """A citation, as an annotation of the text."""


AnyCitation = TypeVar("AnyCitation", bound=PageCitation)


class OutputTextPart(Struct, tag="output_text"):
    """The text of the answer with its citations."""

    text: str
    """the answer with its citation marks"""
    annotations: list[UrlCitation]
    """the citations, in the order of their marks"""
    logprobs: list[Any]
    """always empty"""


class RefusalPart(Struct, tag="refusal"):
    """The reason why there is no answer."""

    refusal: str
    """the reason in one sentence"""


class OutputMessage(Struct, tag="message"):
    """The message with the answer or the refusal."""

    id: str
    """id of the item"""
    status: Literal["in_progress", "completed"]
    """state of the message"""
    content: list[OutputTextPart | RefusalPart]
    """the answer or the refusal: one part"""
    role: Literal["assistant"] = "assistant"


OutputItem = WebSearchCall | OutputMessage


class ResponseFailure(Struct):
    """The reason why a response that had begun failed."""

    code: str
    """code of the error"""
    message: str
    """one sentence that says what to do next"""


class InputTokenDetails(Struct, frozen=True):
    """Parts of the tokens that were read."""

    cached_tokens: int = 0
    """always 0"""


class OutputTokenDetails(Struct, frozen=True):
    """Parts of the tokens that were written."""

    reasoning_tokens: int = 0
    """always 0"""


class ResponseUsage(Struct):
    """Number of tokens that were read and written, by this server's own count."""

    input_tokens: int
    """tokens of the user messages and of every prompt that a language model was given"""
    output_tokens: int
    """tokens that models wrote; where none was asked, those of the answer"""
    total_tokens: int
    """sum of both"""
    input_tokens_details: InputTokenDetails = InputTokenDetails()
    output_tokens_details: OutputTokenDetails = OutputTokenDetails()


class ResponseObject(Struct):
    """A response."""

    id: str
    """id of the response"""
    created_at: int
    """seconds since 1970"""
    status: Literal["in_progress", "completed", "failed"]
    """state of the response"""
    model: str
    """name of the model that was asked for"""
    output: list[OutputItem]
    """searches and opened pages, and the message as the last item"""
    tools: tuple[WebSearchTool, ...]
    """the web search tools of the request"""
    instructions: str | None
    """the instructions of the request, which have no effect"""
    metadata: dict[str, str]
    """the metadata of the request"""
    store: bool
    """True if the response is stored, to be read at /v1/responses/ID"""
    rookery: AnswerMetadata | None
    error: ResponseFailure | None = None
    incomplete_details: None = None
    object: Literal["response"] = "response"
    parallel_tool_calls: bool = False
    """always false"""
    tool_choice: Literal["auto"] = "auto"
    temperature: None = None
    top_p: None = None
    previous_response_id: str | None = None
    """id of the stored response that the request named"""
    usage: ResponseUsage | None = None


EventObject = dict[str, Any]
WORD_PATTERN = re.compile(r"\S+\s*|\s+")
WORDS_PER_EVENT = 8
"""number of words in one text event"""


class ResponseBuilder:
    """Builds one response from progress events and yields the stream events for each."""

    def __init__(
        self,
        call: ApiRequest,
        response: ResponseObject,
        look: CitationStyle,
        ignored: tuple[str, ...],
    ) -> None:
        self.response = response
        self._call = call
        self._look = look
        self._ignored = ignored
        self._urls = PublicUrls(call)
        self._open_items: dict[tuple[str, str], int] = {}
        self._page_url = ""
        self._number = -1

    def emit_start(self) -> Iterator[EventObject]:
        """Yield the events that announce the response."""
        for kind in ("response.created", "response.in_progress"):
            yield self._build_event(kind, response=self.response)

    def emit_progress(self, each: ProgressEvent | AnswerOutcome) -> Iterator[EventObject]:
        """Add what a progress event or the outcome says to the response; yield stream events."""
        return (
            self._emit_answer(each) if isinstance(each, AnswerOutcome) else self._emit_event(each)
        )

    def _emit_event(self, each: ProgressEvent) -> Iterator[EventObject]:
        """Add the items of a progress event and yield their stream events."""
        data = each.data
        if each.kind == "searching":
            search = SearchAction(data["query"], [data["query"]], [])
            yield from self._begin_item("search", data["query"], search)
        elif each.kind == "found":
            urls = [SearchSource(self._urls.strip_local_path(hit["url"])) for hit in data["hits"]]
            yield from self._end_item("search", data["query"], "completed", urls)
        elif each.kind == "opening":
            page = OpenPageAction(self._urls.strip_local_path(data["url"]))
            yield from self._begin_item("page", data["url"], page)
        elif each.kind == "opened":
            self._page_url = self._urls.strip_local_path(data["url"])
            yield from self._end_item("page", data["url"], "completed")
        elif each.kind == "failed":
            kind = "page" if ("page", data["what"]) in self._open_items else "search"
            yield from self._end_item(kind, data["what"], "failed")
        elif each.kind == "saying":
            yield from self._emit_command(data["command"])

    def _emit_answer(self, answered: AnswerOutcome) -> Iterator[EventObject]:
        """Add the message with the answer or refusal and yield its stream events."""
        self.response.rookery = metadata = build_answer_metadata(
            self._call, answered, self._ignored
        )
        for kind, what in list(self._open_items):  # fetches that never finished
            yield from self._end_item(kind, what, "failed")
        refusal, answer = explain_decline(answered.episode), answered.episode.answer
        message = OutputMessage(f"msg_{secrets.token_hex(16)}", "in_progress", [])
        index = len(self.response.output)
        self.response.output.append(message)
        yield self._build_event("response.output_item.added", output_index=index, item=message)
        at = {"item_id": message.id, "output_index": index, "content_index": 0}
        if refusal or answer is None:
            part: OutputTextPart | RefusalPart = RefusalPart(refusal)
            yield from self._emit_refusal(refusal, at)
        else:
            text = insert_citation_marks(answer, metadata.sources, self._look)
            part = OutputTextPart(text.text, build_citations(text, UrlCitation), [])
            yield from self._emit_text(text, at)
        yield self._build_event("response.content_part.done", **at, part=part)
        message.content, message.status = [part], "completed"
        yield self._build_event("response.output_item.done", output_index=index, item=message)

    def emit_completed(self) -> EventObject:
        """Return the event of the completed response."""
        return self._build_event("response.completed", response=self.response)

    def emit_failed(self, refused: ApiError) -> EventObject:
        """Return the event of a response that failed with this error."""
        self.response.status = "failed"
        self.response.error = ResponseFailure(refused.detail.code or "server_error", str(refused))
        return self._build_event("response.failed", response=self.response)

    async def complete_response(self, inquiry: QuestionRequest, answered: AnswerOutcome) -> None:
        """Add the usage to a response that has its answer, and store it if that was asked for."""
        usage = await count_usage(self._call, inquiry, answered)
        self.response.usage = ResponseUsage(usage.read, usage.written, sum(usage))
        self.response.status = "completed"
        if self.response.store:
            await self._call.run_in_thread(lambda: store_response(self._call, self.response))

    def _begin_item(
        self, kind: str, what: str, action: SearchAction | OpenPageAction | FindInPageAction
    ) -> Iterator[EventObject]:
        index, item = (
            len(self.response.output),
            WebSearchCall(f"ws_{secrets.token_hex(16)}", action, "in_progress"),
        )
        self.response.output.append(item)
        self._open_items[kind, what] = index
        yield self._build_event("response.output_item.added", output_index=index, item=item)
        for state in ("in_progress", "searching"):
            name = f"response.web_search_call.{state}"
            yield self._build_event(name, output_index=index, item_id=item.id)

    def _end_item(
        self,
        kind: str,
        what: str,
        status: Literal["completed", "failed"],
        sources: list[SearchSource] | None = None,
    ) -> Iterator[EventObject]:
        index = self._open_items.pop((kind, what), -1)
        item = self.response.output[index] if index >= 0 else None
        if not isinstance(item, WebSearchCall):
            return
        item.status = status
        if sources and isinstance(item.action, SearchAction):
            item.action.sources = sources
        if status == "completed":
            name = "response.web_search_call.completed"
            yield self._build_event(name, output_index=index, item_id=item.id)
        yield self._build_event("response.output_item.done", output_index=index, item=item)

    def _emit_command(self, text: str) -> Iterator[EventObject]:
        """Add a find action for a model's command; the library reports all other actions."""
        command = parse_command(text)
        if command and command.verb == "Find in page:":
            yield from self._begin_item(
                "find", command.argument, FindInPageAction(command.argument, self._page_url)
            )
            yield from self._end_item("find", command.argument, "completed")

    def _emit_text(self, text: CitedText, at: EventObject) -> Iterator[EventObject]:
        empty = OutputTextPart("", [], [])
        yield self._build_event("response.content_part.added", **at, part=empty)
        marks, sent, cited = build_citations(text, UrlCitation), 0, 0
        for piece in split_for_streaming(text.text):
            delta: EventObject = {**at, "delta": piece, "logprobs": []}
            yield self._build_event("response.output_text.delta", **delta)
            sent += len(piece)
            while cited < len(marks) and marks[cited].end_index <= sent:
                mark: EventObject = {**at, "annotation_index": cited, "annotation": marks[cited]}
                yield self._build_event("response.output_text.annotation.added", **mark)
                cited += 1
        yield self._build_event("response.output_text.done", **at, text=text.text, logprobs=[])

    def _emit_refusal(self, refusal: str, at: EventObject) -> Iterator[EventObject]:
        yield self._build_event("response.content_part.added", **at, part=RefusalPart(""))
        for piece in split_for_streaming(refusal):
            yield self._build_event("response.refusal.delta", **at, delta=piece)
        yield self._build_event("response.refusal.done", **at, refusal=refusal)

    def _build_event(self, kind: str, **more: Any) -> EventObject:
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **more}


def split_for_streaming(text: str) -> Iterator[str]:
    """Yield a text in pieces of up to WORDS_PER_EVENT words, which concatenate to the text."""
    words = WORD_PATTERN.findall(text)
    for at in range(0, len(words), WORDS_PER_EVENT):
        yield "".join(words[at : at + WORDS_PER_EVENT])


def build_citations(text: CitedText, kind: type[AnyCitation]) -> list[AnyCitation]:
    """Return one citation for each mark."""
    return [
        kind(mark.start, mark.end, mark.source.title, mark.source.url, mark.source.quote)
        for mark in text.marks
    ]


class ResponsesRequest(Struct):
    """A response request. The last user message is the question; a question that leans on earlier
    user messages ("And ravens?") is searched with what it leans on."""

    model: str
    """name of a model of /v1/models: a method and, where it needs one, its language model"""
    input: Annotated[str, QUESTION_LIMITS] | InputMessages
    """the question, or a conversation, oldest message first"""
    instructions: str | None = None
    """has no effect"""
    previous_response_id: str | None = None
    """id of a stored response whose question this one may lean on"""
    tools: list[WebSearchTool] | None = None
    """web search tools, which may restrict the search; others have no effect"""
    stream: bool | None = None
    """True: respond with events"""
    store: bool | None = None
    """True: store the response, to be read at /v1/responses/ID"""
    metadata: Annotated[dict[str, str], Meta(max_length=16)] | None = None
    """values of the client's own, which the response repeats"""
    rookery: RookeryOptions | None = None


class SearchedQuestion(Struct):
    """The part of `AnswerMetadata` that a follow-up needs."""

    searched: str = ""


class StoredResponse(Struct):
    """The part of a stored response that a follow-up needs."""

    rookery: SearchedQuestion


async def create_response(call: ApiRequest) -> HttpResponse:
    """Answer a question with quotes.

    Responds with the response object or with its events.

    The response is stored if the request asks for it.
    """
    body: ResponsesRequest = call.body
    question, earlier, passed = extract_question(body)
    if body.previous_response_id:
        before = await _load_response(call, body.previous_response_id, "previous_response_id")
        standing = msgspec.json.decode(before, type=prepare_type(StoredResponse)).rookery.searched
        earlier = (standing, *earlier)
    options = body.rookery or RookeryOptions()
    inquiry = build_question_request(call, question, body.model, options, earlier)
    inquiry = apply_tools(inquiry, body.tools or ())
    tools = [*enumerate(body.tools or ())]
    passed += tuple(f"tools[{n}]" for n, tool in tools if not _is_web_search(tool))
    response = ResponseObject(
        f"resp_{secrets.token_hex(16)}",
        int(call.store.clock()),
        "in_progress",
        body.model,
        output=[],
        tools=tuple(tool for _, tool in tools if _is_web_search(tool)),
        instructions=body.instructions,
        metadata=body.metadata or {},
        store=bool(body.store),
        rookery=None,
        previous_response_id=body.previous_response_id,
    )
    writing = ResponseBuilder(call, response, options.choose_style(links=False), passed)
    if body.stream:
        return build_event_response(_stream_events(call, inquiry, writing))
    progress, answered = await collect_answer(call, inquiry)
    for each in progress:
        deque(writing.emit_progress(each), maxlen=0)  # only streams need the events
    deque(writing.emit_progress(answered), maxlen=0)
    await writing.complete_response(inquiry, answered)
    return build_json_response(response)


async def _stream_events(
    call: ApiRequest, inquiry: QuestionRequest, writing: ResponseBuilder
) -> EventFrames:
    for event in writing.emit_start():
        yield event["type"], event
    try:
        async with aclosing(stream_answer(call, inquiry)) as telling:
            async for each in telling:
                for event in writing.emit_progress(each):
                    yield event["type"], event
                if isinstance(each, AnswerOutcome):
                    await writing.complete_response(inquiry, each)
        last = writing.emit_completed()
    except Exception as error:
        last = writing.emit_failed(convert_exception(error, "/v1/responses"))
    yield last["type"], last


def extract_question(body: ResponsesRequest) -> AskedConversation:
    """Return the question of a request with its context. Raises ApiError (400)."""
    passed = ("instructions",) if body.instructions else ()
    if isinstance(body.input, str):
        return AskedConversation(body.input, (), passed)
    found = extract_conversation(body.input, "input")
    return found._replace(ignored=(*passed, *found.ignored))


def _is_web_search(tool: WebSearchTool) -> bool:
    return tool.type.startswith("web_search")


def apply_tools(inquiry: QuestionRequest, tools: Sequence[WebSearchTool]) -> QuestionRequest:
    """Return the question with the restrictions of the request's web search tools.

    The domains are those that any such tool names; one without domains lifts no restriction. One
    without web access is enough to be offline.
    """
    searches = [tool for tool in tools if _is_web_search(tool)]
    named = chain.from_iterable(
        tool.filters.allowed_domains or () for tool in searches if tool.filters
    )
    domains = tuple(dict.fromkeys((*inquiry.domains, *named)))
    offline = inquiry.offline or any(tool.external_web_access is False for tool in searches)
    return msgspec.structs.replace(inquiry, offline=offline, domains=domains)


def store_response(call: ApiRequest, response: ResponseObject) -> None:
    """Store a response for the key that asked. Raises Failed as the store does."""
    ensure_reader(call.store, call.key.person)
    with call.store.begin_write() as connection:
        body = msgspec.json.encode(response).decode()
        name, now = f"response:{response.id}", call.store.clock()
        append_event(connection, name, call.key.person, body, now)


async def get_response(call: ApiRequest) -> HttpResponse:
    """Get a stored response.

    Raises ApiError (404) unless it is stored for this key.
    """
    identity = str(call.request.path_params["response_id"])
    body = await _load_response(call, identity, "response_id")
    return HttpResponse(body, media_type="application/json")


async def _load_response(call: ApiRequest, identity: str, param: str) -> str:
    """Return a response stored for this key, as JSON. Raises ApiError (404)."""

    def load_body() -> str | None:
        its = (book.c.stream == f"response:{identity}") & (book.c.person == call.key.person)
        with call.store.begin_read() as connection:
            body: str | None = connection.scalar(select(book.c.body).where(its))
            return body

    body = await call.run_in_thread(load_body)
    if body is None:
        message = 'There is no such response: only those asked with "store": true are kept.'
        raise ApiError(404, message, "response_not_found", param)
    return body


RESPONSE_OPERATIONS = (
    ApiOperation(
        *("POST", "/v1/responses", "createResponse", create_response),
        *(ResponseObject, ResponsesRequest),
        streams=True,
    ),
    ApiOperation("GET", "/v1/responses/{response_id}", "getResponse", get_response, ResponseObject),
)
"""the operations at /v1/responses"""
