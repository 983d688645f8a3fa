"""/v1/messages: Anthropic's Messages, with citations.

The text is cut into blocks where the claims of the answer begin and end. The citations of a block
are those of a web search on the server, since the server finds the pages.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from itertools import chain, pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from rookery.records import Answer
from rookery.server.api.answer_sessions import AnswerOutcome, QuestionRequest
from rookery.server.api.endpoints import (
    AnthropicErrorBody,
    ApiError,
    ApiOperation,
    ApiRequest,
    EventFrames,
    build_event_response,
    build_json_response,
    convert_exception,
)
from rookery.server.api.questions import (
    AnswerMetadata,
    CitedSource,
    InputMessage,
    InputMessages,
    MessagePart,
    RookeryOptions,
    build_answer_metadata,
    build_question_request,
    collect_answer,
    count_usage,
    explain_decline,
    extract_conversation,
    stream_answer,
)
from rookery.server.api.responses import split_for_streaming

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


async def create_message(call: ApiRequest) -> Response:
    """Answer the last message of a conversation in blocks with citations.

    Responds with the message, whole or as events.

    Raises ApiError (400) for tools other than web search and for documents in the messages.
    """
    body: MessagesRequest = call.body
    _refuse_documents(body.messages)
    options = body.rookery or RookeryOptions()
    question, earlier, passed = extract_conversation(body.messages, "messages")
    passed += tuple(name for name in UNUSED_FIELDS if getattr(body, name) is not None)
    passed += tuple(f"rookery.{name}" for name in ("links", "footer") if getattr(options, name))
    domains = _list_domains(body.tools or ())
    inquiry = build_question_request(call, question, body.model, options, earlier, domains)
    message = MessageResponse(f"msg_{secrets.token_hex(16)}", body.model)
    if body.stream:
        return build_event_response(_stream_events(call, inquiry, message, passed))
    _, answered = await collect_answer(call, inquiry)
    await _complete_message(message, call, inquiry, answered, passed)
    return build_json_response(message)


def _refuse_documents(turns: Sequence[InputMessage]) -> None:
    for number, turn in enumerate(turns):
        parts = turn.content if isinstance(turn.content, list) else []
        for n, part in enumerate(parts):
            if turn.role == "user" and part.type in ("document", "search_result"):
                raise ApiError(
                    400,
                    f"messages[{number}].content[{n}]: documents in a request are not searched. "
                    "Start the server on them, or drop them in the reading room.",
                    "unsupported_content",
                    "messages",
                )


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


async def _complete_message(
    message: MessageResponse,
    call: ApiRequest,
    inquiry: QuestionRequest,
    answered: AnswerOutcome,
    passed: tuple[str, ...],
) -> None:
    """Add the answer, or the reason why there is none, to a message."""
    message.rookery = build_answer_metadata(call, answered, passed)
    message.usage = MessageUsage(*await count_usage(call, inquiry, answered))
    refusal, answer = explain_decline(answered.episode), answered.episode.answer
    if refusal or answer is None:
        message.content = [MessageTextBlock(refusal)]
        message.stop_reason, message.stop_details = "refusal", MessageStopDetails(refusal)
    else:
        message.content = split_into_cited_blocks(answer, message.rookery.sources)
        message.stop_reason = "end_turn"


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


async def _stream_events(
    call: ApiRequest, inquiry: QuestionRequest, message: MessageResponse, passed: tuple[str, ...]
) -> EventFrames:
    yield "message_start", {"type": "message_start", "message": message}
    try:
        async with aclosing(stream_answer(call, inquiry)) as telling:
            async for each in telling:
                if isinstance(each, AnswerOutcome):
                    await _complete_message(message, call, inquiry, each, passed)
                    for event in _list_block_events(message):
                        yield event["type"], event
                elif each.kind != "writing":  # which comes with every token
                    yield "ping", {"type": "ping"}
    except Exception as error:
        refused = convert_exception(error, MESSAGES_PATH)
        yield "error", refused.build_body(AnthropicErrorBody)


def _list_block_events(message: MessageResponse) -> Iterator[dict[str, Any]]:
    """Yield the events of a complete message after its start."""
    for index, block in enumerate(message.content):
        pieces = split_for_streaming(block.text)
        deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": text} for text in pieces]
        deltas += [{"type": "citations_delta", "citation": c} for c in block.citations or ()]
        empty = MessageTextBlock("", [] if block.citations else None)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    names = ("stop_reason", "stop_sequence", "stop_details")
    ending = {name: getattr(message, name) for name in names}
    ends = {"type": "message_delta", "delta": ending, "usage": message.usage}
    yield {**ends, "rookery": message.rookery}
    yield {"type": "message_stop"}


MESSAGE_OPERATIONS = (
    ApiOperation(
        *("POST", MESSAGES_PATH, "createMessage", create_message),
        *(MessageResponse, MessagesRequest),
        streams=True,
        error_type=AnthropicErrorBody,
    ),
)
"""the operation at /v1/messages"""
