"""/v1/chat/completions: OpenAI's Chat Completions, with Perplexity's citation fields.

Many clients show no annotations, so citation marks are Markdown links, [[1]](url), unless the
request asks for plain marks.
"""

import secrets
from contextlib import aclosing
from typing import Any, Literal

import msgspec
from msgspec import Struct
from starlette.responses import Response

from rookery.server.api.answer_queue import get_answer_service
from rookery.server.api.answer_sessions import AnswerOutcome, QuestionRequest
from rookery.server.api.endpoints import (
    ApiOperation,
    ApiRequest,
    ErrorBody,
    EventFrames,
    build_event_response,
    build_json_response,
    build_unknown_model_error,
    convert_exception,
)
from rookery.server.api.questions import (
    AnswerMetadata,
    InputMessages,
    RookeryOptions,
    build_answer_metadata,
    build_question_request,
    collect_answer,
    count_usage,
    explain_decline,
    extract_conversation,
    insert_citation_marks,
    list_model_names,
    stream_answer,
)
from rookery.server.api.responses import (
    PageCitation,
    build_citations,
    split_for_streaming,
)


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
    body: ChatRequest = call.body
    options = body.rookery or RookeryOptions()
    question, earlier, passed = extract_conversation(body.messages, "messages")
    domains = tuple(body.search_domain_filter or ())
    inquiry = build_question_request(call, question, body.model, options, earlier, domains)
    identity, now = f"chatcmpl-{secrets.token_hex(16)}", int(call.store.clock())
    head: dict[str, Any] = {"id": identity, "created": now, "model": body.model}
    if body.stream:
        return build_event_response(_stream_chunks(call, inquiry, head, passed))
    _, answered = await collect_answer(call, inquiry)
    metadata = build_answer_metadata(call, answered, passed)
    choice = ChatChoice(_build_message(answered, metadata, options))
    return build_json_response(
        ChatCompletion(
            **head,
            choices=[choice],
            **_list_citations(metadata),
            rookery=metadata,
            usage=await _count_chat_usage(call, inquiry, answered),
        )
    )


async def _count_chat_usage(
    call: ApiRequest, inquiry: QuestionRequest, answered: AnswerOutcome
) -> ChatUsage:
    usage = await count_usage(call, inquiry, answered)
    return ChatUsage(usage.read, usage.written, usage.read + usage.written)


_USAGE_CHUNK = {"object": "chat.completion.chunk", "choices": list[Any]()}


async def _stream_chunks(
    call: ApiRequest, inquiry: QuestionRequest, head: dict[str, Any], passed: tuple[str, ...]
) -> EventFrames:
    yield "", _build_chunk(head, ChatMessage("assistant", ""))
    try:
        async with aclosing(stream_answer(call, inquiry)) as telling:
            async for each in telling:
                if isinstance(each, AnswerOutcome):
                    metadata = build_answer_metadata(call, each, passed)
                    message = _build_message(each, metadata, call.body.rookery or RookeryOptions())
                    for chunk in _build_chunks(head, message, metadata):
                        yield "", chunk
                    if call.body.stream_options and call.body.stream_options.include_usage:
                        usage = await _count_chat_usage(call, inquiry, each)
                        yield "", {**head, **_USAGE_CHUNK, "usage": usage}
    except Exception as error:
        yield "", ErrorBody(convert_exception(error, "/v1/chat/completions").detail)
        return
    yield "", "[DONE]"


def _build_chunks(
    head: dict[str, Any], message: ChatMessage, metadata: AnswerMetadata
) -> list[dict[str, Any]]:
    """Split a message into chunks; the first and the last carry the citations."""
    citations = _list_citations(metadata)
    deltas = [ChatMessage(refusal=piece) for piece in split_for_streaming(message.refusal or "")]
    deltas += [ChatMessage(content=piece) for piece in split_for_streaming(message.content or "")]
    chunks = [_build_chunk(head, delta) for delta in deltas]
    if chunks:
        chunks[0] |= citations
    last = _build_chunk(head, ChatMessage(annotations=message.annotations), "stop")
    return [*chunks, {**last, **citations, "rookery": metadata}]


def _build_chunk(
    head: dict[str, Any], message: ChatMessage, reason: str | None = None
) -> dict[str, Any]:
    delta = {
        name: value for name, value in msgspec.structs.asdict(message).items() if value is not None
    }
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {**head, "object": "chat.completion.chunk", "choices": [choice]}


def _build_message(
    answered: AnswerOutcome, metadata: AnswerMetadata, options: RookeryOptions
) -> ChatMessage:
    refusal, answer = explain_decline(answered.episode), answered.episode.answer
    if refusal or answer is None:
        return ChatMessage("assistant", refusal=refusal, annotations=[])
    text = insert_citation_marks(answer, metadata.sources, options.choose_style(links=True))
    annotations = [ChatAnnotation(each) for each in build_citations(text, PageCitation)]
    return ChatMessage("assistant", text.text, annotations=annotations)


def _list_citations(metadata: AnswerMetadata) -> dict[str, Any]:
    """Return Perplexity's fields `citations` and `search_results`."""
    sources = () if metadata.declined else metadata.sources
    results = [ChatSearchResult(source.title, source.url, source.quote) for source in sources]
    return {"citations": [source.url for source in sources], "search_results": results}


CHAT_OPERATIONS = (
    ApiOperation(
        *("POST", "/v1/chat/completions", "createChatCompletion", create_chat_completion),
        *(ChatCompletion, ChatRequest),
        streams=True,
    ),
    ApiOperation("GET", "/v1/models", "listModels", list_chat_models, ChatModelList),
    ApiOperation("GET", "/v1/models/{model:path}", "getModel", get_chat_model, ChatModel),
)
"""the operations at /v1/chat/completions and /v1/models"""
