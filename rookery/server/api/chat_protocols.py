"""Chat protocols of others: OpenAI's Responses and Chat Completions, Anthropic's Messages.

Each has a class that writes an answer, whole or as the events of a stream. In a response, a
web_search_call is a search, an opened page or a find on a page; a message holds the answer or the
refusal. Chat completions have Perplexity's citation fields; many of their clients show no
annotations, so that citation marks are Markdown links, [[1]](url), unless the request asks for
plain marks. The text of a message is cut into blocks where the claims of the answer begin and end;
the citations of a block are those of a web search on the server, since the server finds the pages.
"""

import re
import secrets
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import chain, pairwise
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from rookery.browser.browser_commands import parse_command
from rookery.desk.store import append_event
from rookery.desk.tables import events as book
from rookery.records import Answer, prepare_type
from rookery.server.api.answer_queue import get_answer_service
from rookery.server.api.answer_sessions import AnswerOutcome, QuestionRequest
from rookery.server.api.endpoints import (
    AnthropicErrorBody,
    ApiError,
    ApiOperation,
    ApiRequest,
    ErrorBody,
    EventFrames,
    build_event_response,
    build_json_response,
    build_unknown_model_error,
    convert_exception,
    ensure_reader,
)
from rookery.server.api.questions import (
    QUESTION_LIMITS,
    AnswerMetadata,
    AskedConversation,
    CitedSource,
    CitedText,
    InputMessage,
    InputMessages,
    MessagePart,
    ProgressEvent,
    PublicUrls,
    RookeryOptions,
    build_answer_metadata,
    build_question_request,
    explain_decline,
    extract_conversation,
    insert_citation_marks,
    list_model_names,
    run_until_disconnect,
    stream_answer,
)


class AnswerUsage(NamedTuple):
    """Numbers of tokens, as OpenAI's `usage` counts them."""

    read: int
    """tokens of the user messages and of every prompt that a language model was given"""
    written: int
    """tokens that language models wrote; where none was asked, those of the answer's text"""


class FinishedAnswer(NamedTuple):
    """Everything that a protocol says of an answer, or of the reason why there is none."""

    metadata: AnswerMetadata
    usage: AnswerUsage
    refusal: str
    """the sentence to show in place of an answer; empty if there is one"""
    answer: Answer
    """without text if there is none"""


EventFrame = tuple[str, Any]
"""name of an event and its data"""


async def respond_with_answer(
    call: ApiRequest, inquiry: QuestionRequest, writer: "AnswerWriter"
) -> Response:
    """Answer a question, and respond in the protocol of the writer: whole or, if asked, in events.

    Raises ApiError where the response is whole. A client that disconnects stops the work.
    """
    if call.body.stream:
        return build_event_response(_stream_frames(call, inquiry, writer))

    async def write_response() -> None:
        async with aclosing(_write_frames(call, inquiry, writer)) as frames:
            async for _ in frames:
                pass

    await run_until_disconnect(call.request, write_response())
    return build_json_response(writer.response)


async def _stream_frames(
    call: ApiRequest, inquiry: QuestionRequest, writer: "AnswerWriter"
) -> EventFrames:
    try:
        async with aclosing(_write_frames(call, inquiry, writer)) as frames:
            async for frame in frames:
                yield frame
    except Exception as error:
        for frame in writer.write_error(convert_exception(error, call.request.url.path)):
            yield frame


async def _write_frames(
    call: ApiRequest, inquiry: QuestionRequest, writer: "AnswerWriter"
) -> AsyncGenerator[EventFrame, None]:
    for frame in writer.write_start():
        yield frame
    async with aclosing(stream_answer(call, inquiry)) as progress:
        async for each in progress:
            if isinstance(each, AnswerOutcome):
                finished = await _describe_answer(call, inquiry, each, writer.ignored)
                for frame in writer.write_answer(finished):
                    yield frame
                for frame in await run_in_threadpool(lambda: list(writer.write_end())):
                    yield frame
            else:
                for frame in writer.write_progress(each):
                    yield frame


async def _describe_answer(
    call: ApiRequest, inquiry: QuestionRequest, answered: AnswerOutcome, ignored: tuple[str, ...]
) -> FinishedAnswer:
    """Describe an answer, with what was read and written for it.

    The tokens of what a model wrote are its own where it tells them; all others are those of the
    tokenizer of the bundled evidence model, so that the counts compare questions, not prices.
    """
    episode, count = answered.episode, get_answer_service(call.request).count_tokens
    refusal, answer = explain_decline(episode), episode.answer or Answer("")

    def count_usage() -> AnswerUsage:
        read = count((*inquiry.earlier, inquiry.question, *(step.prompt for step in episode.steps)))
        told = sum(len(step.said.tokens) for step in episode.steps)
        untold = [step.said.text for step in episode.steps if not step.said.tokens]
        return AnswerUsage(
            read, told + count(untold if episode.steps else [refusal or answer.text])
        )

    metadata = build_answer_metadata(call, answered, ignored)
    return FinishedAnswer(metadata, await run_in_threadpool(count_usage), refusal, answer)


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


WORD_PATTERN = re.compile(r"\S+\s*|\s+")
WORDS_PER_EVENT = 8
"""number of words in one text event"""


class ResponseWriter:
    """Writes a response, or its events, and stores it if the request asks for it."""

    def __init__(
        self, call: ApiRequest, response: ResponseObject, ignored: tuple[str, ...]
    ) -> None:
        self.ignored = ignored
        self.response = response
        self._call = call
        self._urls = PublicUrls(call)
        self._open_items: dict[tuple[str, str], int] = {}
        self._page_url = ""
        self._number = -1

    def write_start(self) -> Iterator[EventFrame]:
        """Yield the events that announce the response."""
        for kind in ("response.created", "response.in_progress"):
            yield self._build_event(kind, response=self.response)

    def write_progress(self, progress: ProgressEvent) -> Iterator[EventFrame]:
        """Add the items of a progress event and yield their stream events."""
        data = progress.data
        match progress.kind:
            case "searching":
                search = SearchAction(data["query"], [data["query"]], [])
                yield from self._begin_item("search", data["query"], search)
            case "found":
                urls = [self._urls.strip_local_path(hit["url"]) for hit in data["hits"]]
                sources = [SearchSource(url) for url in urls]
                yield from self._end_item("search", data["query"], "completed", sources)
            case "opening":
                page = OpenPageAction(self._urls.strip_local_path(data["url"]))
                yield from self._begin_item("page", data["url"], page)
            case "opened":
                self._page_url = self._urls.strip_local_path(data["url"])
                yield from self._end_item("page", data["url"], "completed")
            case "failed":
                kind = "page" if ("page", data["what"]) in self._open_items else "search"
                yield from self._end_item(kind, data["what"], "failed")
            case "saying":
                # The library reports all other actions.
                command = parse_command(data["command"])
                if command and command.verb == "Find in page:":
                    action = FindInPageAction(command.argument, self._page_url)
                    yield from self._begin_item("find", command.argument, action)
                    yield from self._end_item("find", command.argument, "completed")

    def write_answer(self, finished: FinishedAnswer) -> Iterator[EventFrame]:
        """Add the message with the answer or refusal and yield its stream events."""
        read, written = finished.usage
        self.response.usage = ResponseUsage(read, written, read + written)
        self.response.rookery = finished.metadata
        for kind, what in list(self._open_items):  # fetches that never finished
            yield from self._end_item(kind, what, "failed")
        message = OutputMessage(f"msg_{secrets.token_hex(16)}", "in_progress", [])
        index = len(self.response.output)
        self.response.output.append(message)
        yield self._build_event("response.output_item.added", output_index=index, item=message)
        at = {"item_id": message.id, "output_index": index, "content_index": 0}
        if finished.refusal:
            part: OutputTextPart | RefusalPart = RefusalPart(finished.refusal)
            yield from self._emit_refusal(finished.refusal, at)
        else:
            links = (self._call.body.rookery or RookeryOptions()).writes_links(False)
            text = insert_citation_marks(finished.answer, finished.metadata.sources, links)
            part = OutputTextPart(text.text, build_citations(text, UrlCitation), [])
            yield from self._emit_text(text, at)
        yield self._build_event("response.content_part.done", **at, part=part)
        message.content, message.status = [part], "completed"
        yield self._build_event("response.output_item.done", output_index=index, item=message)

    def write_end(self) -> Iterator[EventFrame]:
        """Store the response if that was asked for, and yield the event of its completion."""
        self.response.status = "completed"
        if self.response.store:
            store_response(self._call, self.response)
        yield self._build_event("response.completed", response=self.response)

    def write_error(self, refused: ApiError) -> Iterator[EventFrame]:
        """Yield the event of a response that failed with this error."""
        self.response.status = "failed"
        self.response.error = ResponseFailure(refused.detail.code or "server_error", str(refused))
        yield self._build_event("response.failed", response=self.response)

    def _begin_item(
        self, kind: str, what: str, action: SearchAction | OpenPageAction | FindInPageAction
    ) -> Iterator[EventFrame]:
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
    ) -> Iterator[EventFrame]:
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

    def _emit_text(self, text: CitedText, at: dict[str, Any]) -> Iterator[EventFrame]:
        empty = OutputTextPart("", [], [])
        yield self._build_event("response.content_part.added", **at, part=empty)
        marks, sent, cited = build_citations(text, UrlCitation), 0, 0
        for piece in split_for_streaming(text.text):
            delta: dict[str, Any] = {**at, "delta": piece, "logprobs": []}
            yield self._build_event("response.output_text.delta", **delta)
            sent += len(piece)
            while cited < len(marks) and marks[cited].end_index <= sent:
                mark: dict[str, Any] = {**at, "annotation_index": cited, "annotation": marks[cited]}
                yield self._build_event("response.output_text.annotation.added", **mark)
                cited += 1
        yield self._build_event("response.output_text.done", **at, text=text.text, logprobs=[])

    def _emit_refusal(self, refusal: str, at: dict[str, Any]) -> Iterator[EventFrame]:
        yield self._build_event("response.content_part.added", **at, part=RefusalPart(""))
        for piece in split_for_streaming(refusal):
            yield self._build_event("response.refusal.delta", **at, delta=piece)
        yield self._build_event("response.refusal.done", **at, refusal=refusal)

    def _build_event(self, kind: str, **more: Any) -> EventFrame:
        self._number += 1
        return kind, {"type": kind, "sequence_number": self._number, **more}


def split_for_streaming(text: str | None) -> Iterator[str]:
    """Yield a text in pieces of up to WORDS_PER_EVENT words, which concatenate to the text."""
    words = WORD_PATTERN.findall(text or "")
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


class StoredItem(Struct):
    """The part of an output item that a follow-up needs."""

    content: list[MessagePart] = []


class StoredResponse(Struct):
    """The part of a stored response that a follow-up needs."""

    rookery: SearchedQuestion
    output: list[StoredItem] = []


async def create_response(call: ApiRequest) -> Response:
    """Answer a question with quotes.

    Responds with the response object or with its events.

    The response is stored if the request asks for it.
    """
    body: ResponsesRequest = call.body
    conversation = extract_question(body)
    if body.previous_response_id:
        before = await _load_response(call, body.previous_response_id, "previous_response_id")
        stored = msgspec.json.decode(before, type=prepare_type(StoredResponse))
        parts = chain.from_iterable(item.content for item in stored.output)
        conversation = conversation._replace(
            earlier=(stored.rookery.searched, *conversation.earlier),
            replies=("".join(part.text or "" for part in parts), *conversation.replies),
        )
    inquiry = apply_tools(build_question_request(call, conversation), body.tools or ())
    tools = [*enumerate(body.tools or ())]
    passed = [f"tools[{n}]" for n, tool in tools if not _is_web_search(tool)]
    response = ResponseObject(
        *(f"resp_{secrets.token_hex(16)}", int(call.store.clock()), "in_progress", body.model, []),
        tools=tuple(tool for _, tool in tools if _is_web_search(tool)),
        instructions=body.instructions,
        metadata=body.metadata or {},
        store=bool(body.store),
        rookery=None,
        previous_response_id=body.previous_response_id,
    )
    writer = ResponseWriter(call, response, (*conversation.ignored, *passed))
    return await respond_with_answer(call, inquiry, writer)


def extract_question(body: ResponsesRequest) -> AskedConversation:
    """Return the question of a request with its context. Raises ApiError (400)."""
    passed = ("instructions",) if body.instructions else ()
    if isinstance(body.input, str):
        return AskedConversation(body.input, (), passed)
    found = extract_conversation(body.input, "input", body.model)
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


async def get_response(call: ApiRequest) -> Response:
    """Get a stored response.

    Raises ApiError (404) unless it is stored for this key.
    """
    identity = str(call.request.path_params["response_id"])
    body = await _load_response(call, identity, "response_id")
    return Response(body, media_type="application/json")


async def _load_response(call: ApiRequest, identity: str, param: str) -> str:
    """Return a response stored for this key, as JSON. Raises ApiError (404)."""

    def load_body() -> str | None:
        its = (book.c.stream == f"response:{identity}") & (book.c.person == call.key.person)
        with call.store.begin_read() as connection:
            body: str | None = connection.scalar(select(book.c.body).where(its))
            return body

    body = await run_in_threadpool(load_body)
    if body is None:
        message = 'There is no such response: only those asked with "store": true are kept.'
        raise ApiError(404, message, "response_not_found", param)
    return body


class StreamOptions(Struct):
    """Options of a stream."""

    include_usage: bool | None = None
    """True: end with a chunk that has no choices and the `usage` of the request"""


class ChatRequest(Struct):
    """A chat completion request. The last user message is the question; a question that leans on
    earlier user messages ("And ravens?") is searched with what it leans on."""

    model: str
    """name of a model of /v1/models: a method and, where it needs one, its language model"""
    messages: InputMessages
    """the conversation, oldest message first"""
    stream: bool | None = None
    """True: respond with chunks"""
    stream_options: StreamOptions | None = None
    search_domain_filter: list[str] | None = None
    """hosts to search, or, with a leading -, hosts to leave out"""
    rookery: RookeryOptions | None = None


class ChatAnnotation(Struct):
    """An annotation of the message text."""

    url_citation: PageCitation
    type: Literal["url_citation"] = "url_citation"


class ChatMessage(Struct):
    """The assistant message, or the delta of one chunk."""

    role: Literal["assistant"] | None = None
    """role of the author; null in every chunk but the first"""
    content: str | None = None
    """the answer with its citation marks"""
    refusal: str | None = None
    """the reason why there is no answer"""
    annotations: list[ChatAnnotation] | None = None
    """the citations, in the order of their marks"""


class ChatChoice(Struct):
    """The only choice of a completion."""

    message: ChatMessage
    index: int = 0
    """always 0"""
    finish_reason: Literal["stop"] = "stop"
    logprobs: None = None


class ChatSearchResult(Struct):
    """A source in Perplexity's form; the n-th one is what [n] cites."""

    title: str
    """title of the page"""
    url: str
    """address of the page; for a file, of its stored copy here with the quote marked"""
    snippet: str
    """the verbatim quote"""
    date: None = None
    last_updated: None = None
    source: Literal["web", "attachment"] = "web"
    """kind of the source"""


class ChatUsage(Struct):
    """Number of tokens that were read and written, by this server's own count."""

    prompt_tokens: int
    """tokens of the user messages and of every prompt that a language model was given"""
    completion_tokens: int
    """tokens that models wrote; where none was asked, those of the answer"""
    total_tokens: int
    """sum of both"""


class ChatCompletion(Struct):
    """A chat completion."""

    id: str
    """id of the completion"""
    created: int
    """seconds since 1970"""
    model: str
    """name of the model that was asked for"""
    choices: list[ChatChoice]
    """the only choice"""
    citations: list[str]
    """the URL that each [n] cites"""
    search_results: list[ChatSearchResult]
    """the sources, with their quotes"""
    rookery: AnswerMetadata
    object: Literal["chat.completion"] = "chat.completion"
    usage: ChatUsage | None = None


class ChatModel(Struct):
    """A name that the field `model` accepts."""

    id: str
    """name of the model"""
    created: int = 0
    """always 0"""
    object: Literal["model"] = "model"
    owned_by: str = "rookery"
    """always `rookery`"""


class ChatModelList(Struct):
    """The names that the field `model` accepts."""

    data: list[ChatModel]
    """the models"""
    object: Literal["list"] = "list"


async def list_chat_models(call: ApiRequest) -> Response:
    """List the models."""
    names = list_model_names(get_answer_service(call.request).capabilities)
    return build_json_response(ChatModelList([ChatModel(name) for name in names]))


async def get_chat_model(call: ApiRequest) -> Response:
    """Get one model.

    Raises ApiError (404).
    """
    name = str(call.request.path_params["model"])
    if name not in list_model_names(get_answer_service(call.request).capabilities):
        raise build_unknown_model_error(name)
    return build_json_response(ChatModel(name))


async def create_chat_completion(call: ApiRequest) -> Response:
    """Answer the last message of a conversation with quotes.

    Responds with the completion, whole or as chunks.
    """
    conversation = extract_conversation(call.body.messages, "messages", call.body.model)
    inquiry = build_question_request(call, conversation, call.body.search_domain_filter or ())
    return await respond_with_answer(call, inquiry, ChatWriter(call, conversation.ignored))


class ChatWriter:
    """Writes a chat completion, or its chunks."""

    def __init__(self, call: ApiRequest, ignored: tuple[str, ...]) -> None:
        self.ignored = ignored
        self.response: ChatCompletion | None = None
        self._body: ChatRequest = call.body
        identity, now = f"chatcmpl-{secrets.token_hex(16)}", int(call.store.clock())
        self._head: dict[str, Any] = {"id": identity, "created": now, "model": call.body.model}

    def write_start(self) -> Iterator[EventFrame]:
        """Yield the chunk with the role."""
        yield self._build_chunk(ChatMessage("assistant", ""))

    def write_progress(self, progress: ProgressEvent) -> Iterable[EventFrame]:
        """Yield nothing: chunks hold no progress."""
        return ()

    def write_answer(self, finished: FinishedAnswer) -> Iterator[EventFrame]:
        """Yield chunks with the words of the answer; the first and the last carry the citations.

        A refusal is written in its place where there is none. Sets `response`, the whole of it.
        """
        metadata, usage = finished.metadata, ChatUsage(*finished.usage, sum(finished.usage))
        sources = () if metadata.declined else metadata.sources
        results = [ChatSearchResult(source.title, source.url, source.quote) for source in sources]
        cited: dict[str, Any] = {
            "citations": [source.url for source in sources],
            "search_results": results,
        }
        message = self._build_message(finished)
        self.response = ChatCompletion(
            **self._head, choices=[ChatChoice(message)], **cited, rookery=metadata, usage=usage
        )
        deltas = [ChatMessage(refusal=piece) for piece in split_for_streaming(message.refusal)]
        deltas += [ChatMessage(content=piece) for piece in split_for_streaming(message.content)]
        for number, delta in enumerate(deltas):
            yield self._build_chunk(delta, **({} if number else cited))
        last = ChatMessage(annotations=message.annotations)
        yield self._build_chunk(last, "stop", **cited, rookery=metadata)
        if self._body.stream_options and self._body.stream_options.include_usage:
            empty = {"object": "chat.completion.chunk", "choices": list[Any]()}
            yield "", {**self._head, **empty, "usage": usage}

    def write_end(self) -> Iterator[EventFrame]:
        """Yield the mark of the end."""
        yield "", "[DONE]"

    def write_error(self, refused: ApiError) -> Iterator[EventFrame]:
        """Yield the error."""
        yield "", ErrorBody(refused.detail)

    def _build_message(self, finished: FinishedAnswer) -> ChatMessage:
        if finished.refusal:
            return ChatMessage("assistant", refusal=finished.refusal, annotations=[])
        links = (self._body.rookery or RookeryOptions()).writes_links(True)
        text = insert_citation_marks(finished.answer, finished.metadata.sources, links)
        annotations = [ChatAnnotation(each) for each in build_citations(text, PageCitation)]
        return ChatMessage("assistant", text.text, annotations=annotations)

    def _build_chunk(
        self, message: ChatMessage, reason: str | None = None, **more: Any
    ) -> EventFrame:
        fields = msgspec.structs.asdict(message).items()
        delta = {name: value for name, value in fields if value is not None}
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return "", {**self._head, "object": "chat.completion.chunk", "choices": [choice], **more}


MESSAGES_PATH = "/v1/messages"
UNUSED_FIELDS = ("max_tokens", "system", "stop_sequences", "metadata")
"""fields of the protocol that have no effect here: quotes are never cut, and no prompt is taken"""


class MessageTool(Struct):
    """A tool offered by the request: web search on the server; others are refused."""

    type: Annotated[str, Meta(extra_json_schema={"pattern": "^web_search"})] = "custom"
    """web_search with or without a date; other kinds are refused"""
    allowed_domains: list[str] | None = None
    """hosts to search"""
    blocked_domains: list[str] | None = None
    """hosts to leave out"""


# The schema says what is refused; the server says it in a sentence.
MessageTools = list[Annotated[MessageTool, Meta(extra_json_schema={"required": ["type"]})]]


class MessagesRequest(Struct):
    """A request for a message. The last user message is the question; a question that leans on
    earlier user messages ("And ravens?") is searched with what it leans on."""

    model: str
    """name of a model of /v1/models: a method and, where it needs one, its language model"""
    max_tokens: Annotated[int, Meta(ge=1)]
    """has no effect: an answer is as long as its claims"""
    messages: InputMessages
    """the conversation, oldest message first; documents in it are refused"""
    stream: bool | None = None
    """True: respond with events"""
    tools: MessageTools | None = None
    """web search tools, which may restrict the search"""
    system: str | list[MessagePart] | None = None
    """has no effect"""
    stop_sequences: list[str] | None = None
    """has no effect"""
    metadata: dict[str, Any] | None = None
    """has no effect"""
    rookery: RookeryOptions | None = None


class WebSearchCitation(Struct, tag="web_search_result_location"):
    """A citation of a page that the server found."""

    url: str
    """address of the page; for a file, of its stored copy here with the quote marked"""
    title: str
    """title of the page"""
    cited_text: str
    """the verbatim quote"""
    encrypted_index: str
    """digest of the page's text, and start and end of the quote in it"""


class MessageTextBlock(Struct, tag="text"):
    """A part of the answer and the quotes that it rests on."""

    text: str
    """a part of the answer, without citation marks"""
    citations: list[WebSearchCitation] | None = None
    """the quotes; null if there are none"""


class MessageStopDetails(Struct, tag="refusal"):
    """The reason why there is no answer."""

    explanation: str
    """the reason in one sentence"""
    category: None = None


class MessageUsage(Struct):
    """Number of tokens that were read and written, by this server's own count."""

    input_tokens: int = 0
    """tokens of the user messages and of every prompt that a language model was given"""
    output_tokens: int = 0
    """tokens that models wrote; where none was asked, those of the answer"""


class MessageResponse(Struct, tag_field="type", tag="message"):
    """A message."""

    id: str
    """id of the message"""
    model: str
    """name of the model that was asked for"""
    content: list[MessageTextBlock] = []
    """the answer, or the reason why there is none; the texts of the blocks concatenate to it"""
    stop_reason: Literal["end_turn", "refusal"] | None = None
    """refusal: the answer was declined, or there is none; null while the message is unfinished"""
    stop_details: MessageStopDetails | None = None
    usage: MessageUsage = msgspec.field(default_factory=MessageUsage)
    rookery: AnswerMetadata | None = None
    role: Literal["assistant"] = "assistant"
    stop_sequence: None = None


class TokenCountRequest(Struct):
    """A conversation of which the tokens are counted, before it is sent as a message."""

    model: str
    """name of a model of /v1/models: a method and, where it needs one, its language model"""
    messages: InputMessages
    """the conversation, oldest message first; what its other messages say is not read"""


class TokenCount(Struct):
    """The number of tokens of a conversation, by this server's own count."""

    input_tokens: int
    """tokens of the user messages; the prompts of a language model come on top of it"""


async def count_message_tokens(call: ApiRequest) -> Response:
    """Count the tokens of the user messages of a conversation, by this server's own count.

    Raises ApiError: 400 for documents in the messages, 404 for an unknown model.
    """
    body, answering = call.body, get_answer_service(call.request)
    if body.model not in list_model_names(answering.capabilities):
        raise build_unknown_model_error(body.model)
    _refuse_documents(body.messages)
    conversation = extract_conversation(body.messages, "messages", body.model)
    texts = (*conversation.earlier, conversation.question)
    return build_json_response(TokenCount(await run_in_threadpool(answering.count_tokens, texts)))


async def create_message(call: ApiRequest) -> Response:
    """Answer the last message of a conversation in blocks with citations.

    Responds with the message, whole or as events.

    Raises ApiError (400) for tools other than web search and for documents in the messages.
    """
    body: MessagesRequest = call.body
    _refuse_documents(body.messages)
    options = body.rookery or RookeryOptions()
    conversation = extract_conversation(body.messages, "messages", body.model)
    passed = [name for name in UNUSED_FIELDS if getattr(body, name) is not None]
    passed += ["rookery.links"] * bool(options.links)
    inquiry = build_question_request(call, conversation, _list_domains(body.tools or ()))
    return await respond_with_answer(
        call, inquiry, MessageWriter(body.model, (*conversation.ignored, *passed))
    )


def _refuse_documents(turns: Sequence[InputMessage]) -> None:
    for number, turn in enumerate(turns):
        parts = turn.content if isinstance(turn.content, list) else []
        for n, part in enumerate(parts):
            if turn.role == "user" and part.type in ("document", "search_result"):
                message = (
                    f"messages[{number}].content[{n}]: documents in a request are not searched. "
                    "Start the server on them, or drop them in the reading room."
                )
                raise ApiError(400, message, "unsupported_content", "messages")


def _list_domains(tools: Sequence[MessageTool]) -> tuple[str, ...]:
    """Return the hosts to search and, with a leading -, to leave out. Raises ApiError (400)."""
    domains = list[str]()
    for number, tool in enumerate(tools):
        if not tool.type.startswith("web_search"):
            message = f"tools[{number}]: no tool but web_search is used here. Leave it out."
            raise ApiError(400, message, "unsupported_tool", "tools")
        domains += tool.allowed_domains or ()
        domains += [f"-{host}" for host in tool.blocked_domains or ()]
    return tuple(domains)


class MessageWriter:
    """Writes a message, or its events."""

    def __init__(self, model: str, ignored: tuple[str, ...]) -> None:
        self.ignored = ignored
        self.response = MessageResponse(f"msg_{secrets.token_hex(16)}", model)

    def write_start(self) -> Iterator[EventFrame]:
        """Yield the event of the empty message."""
        yield _build_message_event("message_start", message=self.response)

    def write_progress(self, progress: ProgressEvent) -> Iterator[EventFrame]:
        """Yield a sign of life."""
        if progress.kind != "writing":  # which comes with every token
            yield _build_message_event("ping")

    def write_answer(self, finished: FinishedAnswer) -> Iterator[EventFrame]:
        """Yield the events of the answer's blocks, or of the reason why there is none."""
        message, refusal = self.response, finished.refusal
        message.rookery, message.usage = finished.metadata, MessageUsage(*finished.usage)
        if refusal:
            message.content = [MessageTextBlock(refusal)]
            message.stop_reason, message.stop_details = "refusal", MessageStopDetails(refusal)
        else:
            message.content = split_into_cited_blocks(finished.answer, finished.metadata.sources)
            message.stop_reason = "end_turn"
        for index, block in enumerate(message.content):
            pieces = split_for_streaming(block.text)
            deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": text} for text in pieces]
            deltas += [{"type": "citations_delta", "citation": c} for c in block.citations or ()]
            empty = MessageTextBlock("", [] if block.citations else None)
            yield _build_message_event("content_block_start", index=index, content_block=empty)
            for delta in deltas:
                yield _build_message_event("content_block_delta", index=index, delta=delta)
            yield _build_message_event("content_block_stop", index=index)

    def write_end(self) -> Iterator[EventFrame]:
        """Yield the events of how the message ended."""
        message = self.response
        names = ("stop_reason", "stop_sequence", "stop_details")
        ending = {name: getattr(message, name) for name in names}
        yield _build_message_event(
            "message_delta", delta=ending, usage=message.usage, rookery=message.rookery
        )
        yield _build_message_event("message_stop")

    def write_error(self, refused: ApiError) -> Iterator[EventFrame]:
        """Yield the error."""
        yield "error", refused.build_body(AnthropicErrorBody)


def _build_message_event(kind: str, **fields: Any) -> EventFrame:
    return kind, {"type": kind, **fields}


def split_into_cited_blocks(
    answer: Answer, sources: Sequence[CitedSource]
) -> list[MessageTextBlock]:
    """Split an answer where its claims begin and end, each block with the quotes of its claims.

    The texts of the blocks concatenate to the answer's. Space between claims ends a block.
    """
    claims = [claim for claim in answer.claims if claim.quotes]
    cuts = {0, len(answer.text), *(at for claim in claims for at in (claim.start, claim.end))}
    blocks = list[MessageTextBlock]()
    for start, end in pairwise(sorted(cuts)):
        over = (claim.quotes for claim in claims if claim.start <= start and end <= claim.end)
        cited = [_build_citation(sources[n]) for n in dict.fromkeys(chain.from_iterable(over))]
        text = answer.text[start:end]
        if blocks and not cited and text.isspace():
            blocks[-1].text += text
        else:
            blocks.append(MessageTextBlock(text, cited or None))
    return blocks


def _build_citation(source: CitedSource) -> WebSearchCitation:
    at = f"{source.digest}:{source.start}-{source.end}"
    return WebSearchCitation(source.url, source.title, source.quote, at)


AnswerWriter = ResponseWriter | ChatWriter | MessageWriter
CHAT_OPERATIONS = (
    ApiOperation(
        *("POST", "/v1/responses", "createResponse", create_response),
        *(ResponseObject, ResponsesRequest),
        streams=True,
    ),
    ApiOperation("GET", "/v1/responses/{response_id}", "getResponse", get_response, ResponseObject),
    ApiOperation(
        *("POST", "/v1/chat/completions", "createChatCompletion", create_chat_completion),
        *(ChatCompletion, ChatRequest),
        streams=True,
    ),
    ApiOperation("GET", "/v1/models", "listModels", list_chat_models, ChatModelList),
    ApiOperation("GET", "/v1/models/{model:path}", "getModel", get_chat_model, ChatModel),
    ApiOperation(
        *("POST", MESSAGES_PATH, "createMessage", create_message),
        *(MessageResponse, MessagesRequest),
        streams=True,
        error_type=AnthropicErrorBody,
    ),
    ApiOperation(
        *("POST", f"{MESSAGES_PATH}/count_tokens", "countMessageTokens", count_message_tokens),
        *(TokenCount, TokenCountRequest),
        error_type=AnthropicErrorBody,
    ),
)
"""the operations of the three protocols, and the list of models"""
