"""/v1/responses: OpenAI's Responses, with searches and pages as web_search_call items.

An annotation's [start_index:end_index] is the mark in the text, in code points, the end exclusive.
A decline is a refusal. It knows nothing of how answers are made.
"""

import secrets
from collections import deque
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from sqlalchemy import select
from starlette.responses import Response as Sent

from rookery.judge import events
from rookery.judge.tables import events as book
from rookery.serve.web.api_ask import told, waited
from rookery.serve.web.api_door import Call, Operation
from rookery.serve.web.api_errors import Refused, worded
from rookery.serve.web.api_keys import be
from rookery.serve.web.api_response_items import Given, Response, WebSearchTool
from rookery.serve.web.api_response_stream import Writing
from rookery.serve.web.api_streams import Frames, json, stream
from rookery.serve.web.api_wanted import QUESTION, Options, Turns, last_asked, wanted_by
from rookery.serve.web.wanted import Wanted


class ResponsesRequest(Struct):
    """What is asked. The last message of a user is the question; those before are left out."""

    model: str
    input: Annotated[str, QUESTION] | Turns
    instructions: str | None = None
    tools: list[WebSearchTool] | None = None
    stream: bool | None = None
    store: bool | None = None
    """only true keeps the response, to be had at /v1/responses/ID"""
    metadata: Annotated[dict[str, str], Meta(max_length=16)] | None = None
    rookery: Options | None = None


def operations() -> list[Operation]:
    """What is done at /v1/responses."""
    return [
        Operation(
            "POST",
            "/v1/responses",
            "createResponse",
            "Answer a question with quotes",
            create,
            Response,
            ResponsesRequest,
            streams=True,
        ),
        Operation(
            "GET",
            "/v1/responses/{response_id}",
            "getResponse",
            "A response that was kept",
            kept,
            Response,
        ),
    ]


async def create(call: Call) -> Sent:
    """The response, or its events as they happen."""
    asked: ResponsesRequest = call.body
    question, passed = question_in(asked)
    options = asked.rookery or Options()
    wanted = wanted_by(call, question, asked.model, options)
    wanted = with_tools(wanted, asked.tools or ())
    given = Given(
        f"resp_{secrets.token_hex(16)}",
        int(call.store.clock()),
        asked.model,
        tuple(asked.tools or ()),
        asked.instructions,
        asked.metadata or {},
        bool(asked.store),
        options.look(links=False),
    )
    writing = Writing(call, given, passed)
    if asked.stream:
        return stream(_streamed(call, wanted, writing))
    heard, answered = await waited(call, wanted)
    for each in heard:
        deque(writing.told(each), maxlen=0)  # its events are for streams
    deque(writing.told(answered), maxlen=0)
    response = writing.response("completed")
    if asked.store:
        await call.in_thread(lambda: keep(call, response))
    return json(response)


async def _streamed(call: Call, wanted: Wanted, writing: Writing) -> Frames:
    for event in writing.begun():
        yield event["type"], event
    try:
        async with aclosing(told(call, wanted)) as telling:
            async for each in telling:
                for event in writing.told(each):
                    yield event["type"], event
        if writing.given.store:
            await call.in_thread(lambda: keep(call, writing.response("completed")))
        last = writing.ended()
    except Exception as error:
        last = writing.failed(worded(error, "/v1/responses"))
    yield last["type"], last


def question_in(asked: ResponsesRequest) -> tuple[str, tuple[str, ...]]:
    """The last thing that a user said, and what is left out besides. Raises Refused (400)."""
    passed = ["instructions"] if asked.instructions else []
    if isinstance(asked.input, str):
        return asked.input, tuple(passed)
    question, more = last_asked(asked.input, "input")
    return question, (*passed, *more)


def with_tools(wanted: Wanted, tools: Any) -> Wanted:
    """What the tools of a request say of where to look."""
    for tool in tools:
        if tool.type.startswith("web_search"):
            domains = tuple(tool.filters.allowed_domains or ()) if tool.filters else ()
            offline = wanted.offline or tool.external_web_access is False
            wanted = msgspec.structs.replace(wanted, offline=offline, domains=domains)
    return wanted


def keep(call: Call, response: Response) -> None:
    """Keeps a response for the key that asked. Raises Failed as the store does."""
    be(call.store, call.key.person)
    with call.store.writing() as connection:
        body = msgspec.json.encode(response).decode()
        name, now = f"response:{response.id}", call.store.clock()
        events.append(connection, name, call.key.person, body, now)


async def kept(call: Call) -> Sent:
    """A response that was kept for this key."""
    identity = str(call.request.path_params["response_id"])

    def found() -> str | None:
        its = (book.c.stream == f"response:{identity}") & (book.c.person == call.key.person)
        with call.store.reading() as connection:
            body: str | None = connection.scalar(select(book.c.body).where(its))
            return body

    body = await call.in_thread(found)
    if body is None:
        message = 'There is no such response: only those asked with "store": true are kept.'
        raise Refused(404, message, "response_not_found", "response_id")
    return Sent(body, media_type="application/json")
