"""/v1/chat/completions: OpenAI's Chat Completions, with Perplexity's citations beside them.

As many programs show no annotations, marks are links of their own, [[1]](url), unless the request
says otherwise. It knows nothing of how answers are made.
"""

import secrets
from contextlib import aclosing
from typing import Any, Literal

import msgspec
from msgspec import Struct
from starlette.responses import Response

from rookery.serve.web.answering import answering_of
from rookery.serve.web.api_ask import About, about, declining, told, waited
from rookery.serve.web.api_cited import Cited, cited
from rookery.serve.web.api_door import Call, Operation
from rookery.serve.web.api_errors import ErrorBody, no_model, worded
from rookery.serve.web.api_response_stream import pieces
from rookery.serve.web.api_streams import Frames, json, stream
from rookery.serve.web.api_wanted import Options, Turns, last_asked, models, wanted_by
from rookery.serve.web.wanted import Answered, Wanted


class ChatRequest(Struct):
    """What is asked. The last message of a user is the question; those before are left out."""

    model: str
    messages: Turns
    stream: bool | None = None
    search_domain_filter: list[str] | None = None
    """names of hosts to look at; with - before them, hosts to leave out"""
    rookery: Options | None = None


class ChatCitation(Struct):
    """content[start_index:end_index] is the mark that cites this page."""

    start_index: int
    end_index: int
    """exclusive"""
    title: str
    url: str
    cited_text: str
    """the quote, word for word"""


class Annotation(Struct):
    """What an index of the text stands for."""

    url_citation: ChatCitation
    type: Literal["url_citation"] = "url_citation"


class Said(Struct):
    """The message that answers, or what is added to it."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    annotations: list[Annotation] | None = None


class Choice(Struct):
    """The one answer."""

    message: Said
    index: int = 0
    finish_reason: Literal["stop"] = "stop"
    logprobs: None = None


class SearchResult(Struct):
    """A source as Perplexity lists it; the nth is what [n] cites."""

    title: str
    url: str
    snippet: str
    """the quote, word for word"""
    date: None = None
    last_updated: None = None
    source: Literal["web", "attachment"] = "web"


class Completion(Struct):
    """An answer."""

    id: str
    created: int
    model: str
    choices: list[Choice]
    citations: list[str]
    """the address that each [n] cites"""
    search_results: list[SearchResult]
    rookery: About
    object: Literal["chat.completion"] = "chat.completion"
    usage: None = None


class Model(Struct):
    """What can be named as a model."""

    id: str
    created: int = 0
    object: Literal["model"] = "model"
    owned_by: str = "rookery"


class ModelList(Struct):
    """All that can be named as a model."""

    data: list[Model]
    object: Literal["list"] = "list"


def operations() -> list[Operation]:
    """What is done at /v1/chat/completions and /v1/models."""
    return [
        Operation(
            "POST",
            "/v1/chat/completions",
            "createChatCompletion",
            "Answer the last message of a conversation with quotes",
            create,
            Completion,
            ChatRequest,
            streams=True,
        ),
        Operation("GET", "/v1/models", "listModels", "What can be asked", listed, ModelList),
        Operation("GET", "/v1/models/{model:path}", "getModel", "One of these", one, Model),
    ]


async def listed(call: Call) -> Response:
    """All models."""
    names = models(answering_of(call.request).offers)
    return json(ModelList([Model(name) for name in names]))


async def one(call: Call) -> Response:
    """The model of this name."""
    name = str(call.request.path_params["model"])
    if name not in models(answering_of(call.request).offers):
        raise no_model(name)
    return json(Model(name))


async def create(call: Call) -> Response:
    """The completion, or its chunks."""
    asked: ChatRequest = call.body
    options = asked.rookery or Options()
    question, passed = last_asked(asked.messages, "messages")
    domains = tuple(asked.search_domain_filter or ())
    wanted = wanted_by(call, question, asked.model, options)
    wanted = msgspec.structs.replace(wanted, domains=domains)
    head: dict[str, Any] = {
        "id": f"chatcmpl-{secrets.token_hex(16)}",
        "created": int(call.store.clock()),
    }
    head |= {"model": asked.model}
    if asked.stream:
        return stream(_streamed(call, wanted, head, passed))
    _, answered = await waited(call, wanted)
    known = about(call, answered, passed)
    choice = Choice(_said(answered, known, options))
    return json(Completion(**head, choices=[choice], **_beside(known), rookery=known))


async def _streamed(
    call: Call, wanted: Wanted, head: dict[str, Any], passed: tuple[str, ...]
) -> Frames:
    yield "", _chunk(head, Said("assistant", ""))
    try:
        async with aclosing(told(call, wanted)) as telling:
            async for each in telling:
                if isinstance(each, Answered):
                    known = about(call, each, passed)
                    said = _said(each, known, call.body.rookery or Options())
                    for chunk in _chunks(head, said, known):
                        yield "", chunk
    except Exception as error:
        yield "", ErrorBody(worded(error, "/v1/chat/completions").detail)
        return
    yield "", "[DONE]"


def _chunks(head: dict[str, Any], said: Said, known: About) -> list[dict[str, Any]]:
    """The text in pieces; with the first and the last, what it cites."""
    beside = _beside(known)
    chunks = [_chunk(head, Said(refusal=piece)) for piece in pieces(said.refusal or "")]
    chunks += [_chunk(head, Said(content=piece)) for piece in pieces(said.content or "")]
    if chunks:
        chunks[0] |= beside
    last = _chunk(head, Said(annotations=said.annotations), "stop")
    return [*chunks, {**last, **beside, "rookery": known}]


def _chunk(head: dict[str, Any], said: Said, reason: str | None = None) -> dict[str, Any]:
    delta = {
        name: value for name, value in msgspec.structs.asdict(said).items() if value is not None
    }
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {**head, "object": "chat.completion.chunk", "choices": [choice]}


def _said(answered: Answered, known: About, options: Options) -> Said:
    refusal, answer = declining(answered.episode), answered.episode.answer
    if refusal or answer is None:
        return Said("assistant", refusal=refusal, annotations=[])
    text = cited(answer, known.sources, options.look(links=True))
    return Said("assistant", text.text, annotations=_annotations(text))


def _annotations(text: Cited) -> list[Annotation]:
    return [
        Annotation(
            ChatCitation(
                mark.start, mark.end, mark.source.title, mark.source.url, mark.source.quote
            )
        )
        for mark in text.marks
    ]


def _beside(known: About) -> dict[str, Any]:
    """What Perplexity lists beside the answer."""
    sources = () if known.declined else known.sources
    results = [SearchResult(source.title, source.url, source.quote) for source in sources]
    return {"citations": [source.url for source in sources], "search_results": results}
