"""/v1/answers: this server's own records of what was asked, answered and quoted.

Whatever is asked here is kept, with all that happened on the way. It knows nothing of how answers
are made.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from rookery.records import Failed
from rookery.serve.web.answering import Answering, answering_of
from rookery.serve.web.api_ask import (
    About,
    Addresses,
    about,
    declining,
    refuse_broken,
    refused,
    unless_left,
)
from rookery.serve.web.api_door import Call, Operation
from rookery.serve.web.api_errors import BROKEN, ErrorBody, Refused, late, worded
from rookery.serve.web.api_keys import be, give_back, spend
from rookery.serve.web.api_streams import Frames, json, stream
from rookery.serve.web.api_wanted import QUESTION, Samples, Sure
from rookery.serve.web.asked import Asked
from rookery.serve.web.wanted import ENDS, EXTRACT, Event, Wanted

LEADS = {"getAnswer": "answer_id", "getAnswerEvents": "answer_id"}
"""what can be asked of a record by its id"""
_LOG = logging.getLogger("rookery.api")
ALIVE = 15.0
"""seconds without an event, after which an empty one keeps a stream open"""


class AnswerRequest(Struct):
    """What is asked, and how it is to be answered."""

    question: Annotated[str, QUESTION]
    method: str = EXTRACT
    model: str = ""
    """a name that the server offers; empty: its first"""
    places: list[str] | None = None
    """names of places to look in; null: all that the server offers"""
    domains: Annotated[list[str], Meta(max_length=100)] = []
    """names of hosts to look at; with - before them, hosts to leave out"""
    decline: Sure | None = None
    """how sure an answer must be"""
    samples: Samples | None = None
    """answers that a model writes to choose among"""
    offline: bool = False
    """fetch nothing now"""
    stream: bool = False
    """tell what happens as it does"""
    wait: bool = True
    """false: give the record at once, to be asked for again"""


class AnswerClaim(Struct):
    """text[start:end] rests on these sources, counted from 1."""

    start: int
    end: int
    sources: list[int]


class AnswerRecord(Struct):
    """A question and what came of it."""

    id: str
    question: str
    state: str
    """asked, going, done or failed"""
    made: float
    """seconds since 1970"""
    ended: float | None
    text: str | None
    """the answer, or why there is none; null: not yet"""
    claims: list[AnswerClaim]
    rookery: About | None
    object: str = "answer"


class Happened(Struct):
    """An event of an answer."""

    number: int
    """from 0 on, without a gap"""
    kind: str
    data: dict[str, Any]


def operations() -> list[Operation]:
    """What is done at /v1/answers."""
    post = ("POST", "/v1/answers", "createAnswer", "Ask, and keep what comes of it", create)
    one = "/v1/answers/{answer_id}"
    return [
        Operation(*post, AnswerRecord, AnswerRequest, streams=True, later=True, leads=LEADS),
        Operation("GET", one, "getAnswer", "An answer of this key", kept, AnswerRecord),
        Operation(
            "GET", f"{one}/events", "getAnswerEvents", "What happened", events, None, streams=True
        ),
    ]


async def create(call: Call) -> Response:
    """The record, at once or when it is complete; or what happens, as it does."""
    asked: AnswerRequest = call.body
    answering = answering_of(call.request)
    wanted = Wanted(
        asked.question,
        asked.method,
        asked.model,
        None if asked.places is None else tuple(asked.places),
        asked.decline,
        asked.offline,
        asked.samples,
        tuple(asked.domains),
    )

    def ask() -> str:
        spend(call.store, call.key)
        try:
            be(call.store, call.key.person)
            return answering.ask(wanted, call.key.person)
        except Failed as trouble:
            give_back(call.store, call.key)
            raise refused(trouble) from trouble

    answer = await call.in_thread(ask)
    if asked.stream:
        return stream(_frames(call, _happening(call, answer, -1, cancels=True)))
    if not asked.wait:
        return json(await _record(call, answer), 202)
    await unless_left(call.request, _over(call, answer))
    found = await call.in_thread(lambda: _found(call, answer))
    if found.answered is None:
        await call.in_thread(lambda: give_back(call.store, call.key))
        raise Refused(500, BROKEN, "no_answer")
    try:
        refuse_broken(found.answered.episode)
    except Failed as trouble:
        await call.in_thread(lambda: give_back(call.store, call.key))
        raise refused(trouble) from trouble
    return json(_written(call, found))


async def kept(call: Call) -> Response:
    """The record as it stands."""
    return json(await _record(call, str(call.request.path_params["answer_id"])))


async def events(call: Call) -> Response:
    """What happened, and what happens."""
    answer = str(call.request.path_params["answer_id"])
    await call.in_thread(lambda: _found(call, answer))
    after = call.request.headers.get("last-event-id", "")
    number = int(after) if after.isascii() and after.isdigit() and len(after) < 10 else -1
    return stream(_frames(call, _happening(call, answer, number, cancels=False)))


async def _record(call: Call, answer: str) -> AnswerRecord:
    return _written(call, await call.in_thread(lambda: _found(call, answer)))


def _found(call: Call, answer: str) -> Asked:
    """The answer, where this key asked. Raises Refused (404)."""
    try:
        found = answering_of(call.request).find(answer)
        if found.person == call.key.person:
            return found
    except Failed as failed:
        if failed.failure.outcome != "no_answer":
            raise
    raise Refused(404, "This key asked for no such answer.", "answer_not_found", "answer_id")


def _written(call: Call, found: Asked) -> AnswerRecord:
    record = AnswerRecord(
        found.id, found.question, found.state, found.made, found.ended, None, [], None
    )
    if found.answered is not None:
        answer = found.answered.episode.answer
        claims = answer.claims if answer and not answer.declined else ()
        record.claims = [
            AnswerClaim(claim.start, claim.end, [n + 1 for n in claim.quotes]) for claim in claims
        ]
        said = declining(found.answered.episode)
        record.text = said or (answer.text if answer else "")
        record.rookery = about(call, found.answered)
    return record


async def _over(call: Call, answer: str) -> None:
    async with aclosing(_happening(call, answer, -1, cancels=True)) as happening:
        async for _ in happening:
            pass


async def _happening(
    call: Call, answer: str, after: int, cancels: bool
) -> AsyncGenerator[Event | None, None]:
    """The events after this number, until the last; None where long nothing happens. Who leaves
    early ends the work, if it `cancels`."""
    answering, over = answering_of(call.request), False
    deadline = time.monotonic() + call.limits.answering
    try:
        while not over:
            left = deadline - time.monotonic()
            if left <= 0:
                raise late()
            found = await answering.awaited(answer, after, min(ALIVE, left))
            if not found:
                yield None
            for event in found:
                yield event
                over, after = event.kind in ENDS, event.number
    finally:
        if cancels and not over:
            # Not awaited: whoever left has cancelled this task.
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, _cancel, answering, answer)


def _cancel(answering: Answering, answer: str) -> None:
    try:
        answering.cancel(answer)
    except Failed as failed:  # nobody is there to be told
        _LOG.warning("%s: %s", answer, failed)


async def _frames(call: Call, happening: AsyncGenerator[Event | None, None]) -> Frames:
    addresses = Addresses(call)
    async with aclosing(happening):
        try:
            async for event in happening:
                if event is None:
                    yield "", ""
                else:
                    shown = _shown(event, addresses)
                    yield event.kind, Happened(event.number, event.kind, shown)
        except Exception as error:
            yield "error", ErrorBody(worded(error, "/v1/answers").detail)


def _shown(event: Event, addresses: Addresses) -> dict[str, Any]:
    """What an event says, without the paths of this machine."""
    data = event.data
    if event.kind == "found":
        hits = [{**hit, "url": addresses.named(hit["url"])} for hit in data["hits"]]
        return {**data, "hits": hits}
    if event.kind in ("opening", "opened"):
        return {**data, "url": addresses.named(data["url"])}
    if event.kind == "failed":
        return {"what": addresses.named(data["what"]), "outcome": data["outcome"]}
    if event.kind == "stopped":
        return {"outcome": data["outcome"]}
    if event.kind == "quote":
        quote = {**data["quote"], "url": addresses.named(data["quote"]["url"])}
        return {"number": data["number"], "quote": quote, "outcome": data["outcome"]}
    return data
