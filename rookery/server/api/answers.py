"""/v1/answers: this server's own protocol, with stored answers, claims and quotes.

Every question asked here is stored together with its progress events.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from rookery.errors import Failed, Outcome
from rookery.records import Failure, prepare_type
from rookery.server.api.answer_queue import (
    AnswerService,
    StoredAnswer,
    find_answer,
    follow_answer,
    get_answer_service,
)
from rookery.server.api.answer_sessions import FINAL_EVENTS, AnswerEvent, QuestionRequest
from rookery.server.api.endpoints import (
    INTERNAL_ERROR_MESSAGE,
    OUTCOME_ERRORS,
    ApiError,
    ApiOperation,
    ApiRequest,
    ErrorBody,
    EventFrames,
    build_event_response,
    build_json_response,
    build_timeout_error,
    convert_exception,
    ensure_reader,
    refund_budget,
    spend_budget,
)
from rookery.server.api.questions import (
    BAD_REQUEST_OUTCOMES,
    QUESTION_LIMITS,
    AnswerMetadata,
    Probability,
    PublicUrls,
    SampleCount,
    build_answer_metadata,
    convert_question_failure,
    convert_question_failures,
    explain_decline,
    raise_on_model_failure,
    run_until_disconnect,
)

_LOG = logging.getLogger("rookery.api")
KEEPALIVE_SECONDS = 15.0
"""seconds without an event after which an empty one keeps a stream open"""


class AnswerRequest(Struct):
    """A question and the options with which to answer it."""

    question: Annotated[str, QUESTION_LIMITS]
    """the question"""
    method: str = ""
    """method that answers; empty: webglm if the server has a model on a server, else extract"""
    model: str = ""
    """name of a model that the server offers; empty: the first one"""
    places: list[str] | None = None
    """names of places to search; null: the default places of the server"""
    domains: Annotated[list[str], Meta(max_length=100)] = []
    """hosts to search, or, with a leading -, hosts to leave out"""
    decline: Probability | None = None
    """probability of being right below which the answer is declined"""
    samples: SampleCount | None = None
    """number of answers that a model samples to choose among"""
    offline: bool = False
    """use stored pages only"""
    follows: str = ""
    """id of an answer of this key that the question follows up: "And ravens?" is then searched with
    what it leans on"""
    stream: bool = False
    """respond with progress events as they happen"""
    wait: bool = True
    """respond when the answer is complete; false: respond at once, to be polled"""


class AnswerClaim(Struct):
    """The claim text[start:end] and the sources that it rests on, counted from 1."""

    start: int
    """offset of the claim in the text, in code points"""
    end: int
    """offset of its end; exclusive"""
    sources: list[int]
    """numbers of the sources"""
    doubtful: list[int]
    """those of them that a model cites and that do not seem to support the claim"""


class AnswerRecord(Struct):
    """A question and its answer, finished or not."""

    id: str
    """id of the answer"""
    question: str
    """the question as it was asked"""
    searched: str
    """the question as it was searched: a follow-up with what it leans on"""
    state: str
    """one of asked, going, done and failed"""
    made: float
    """seconds since 1970"""
    ended: float | None
    """seconds since 1970; null while it is unfinished"""
    text: str | None
    """the answer, or the reason why there is none; null while it is unfinished"""
    claims: list[AnswerClaim]
    """claims of the answer"""
    rookery: AnswerMetadata | None
    object: str = "answer"
    """always `answer`"""


class ApiAnswerEvent(Struct):
    """A progress event of an answer."""

    number: int
    """position among the answer's events, from 0 without gaps"""
    kind: str
    data: dict[str, Any]


async def create_answer(call: ApiRequest) -> Response:
    """Ask a question and store its answer.

    Responds with the record, complete or pending, or with events.

    Spends one answer of the key's budget, which is given back if the question is refused, and at
    the end unless `is_answer_charged`. A client that disconnects cancels the answer unless it asked
    not to wait.
    """
    body: AnswerRequest = call.body
    answering = get_answer_service(call.request)
    inquiry = msgspec.convert(body, prepare_type(QuestionRequest), from_attributes=True)

    def enqueue_question() -> str:
        nonlocal inquiry
        if body.follows:
            before = _find_own_answer(call, body.follows, "follows")
            inquiry = follow_answer(inquiry, before)
        spend_budget(call.store, call.key)
        try:
            ensure_reader(call.store, call.key.person)
            token = "" if call.key.budget is None else call.key.token
            return answering.enqueue_question(inquiry, call.key.person, token)
        except BaseException as error:
            refund_budget(call.store, call.key)
            if isinstance(error, Failed):
                raise convert_question_failure(error) from error
            raise

    answer = await run_in_threadpool(enqueue_question)
    if body.stream:
        return build_event_response(
            _encode_events(call, _follow_events(call, answer, -1, cancels=True, sends=True))
        )
    if not body.wait:
        return build_json_response(await _load_record(call, answer), 202)
    await run_until_disconnect(call.request, _wait_until_done(call, answer))
    stored = await run_in_threadpool(_find_own_answer, call, answer)
    if stored.answered is None:
        raise await run_in_threadpool(_build_missing_error, call, answer)
    with convert_question_failures():
        raise_on_model_failure(stored.answered.episode)
    return build_json_response(_build_record(call, stored))


async def get_answer(call: ApiRequest) -> Response:
    """Get an answer of this key.

    Responds with the record as it is now.

    Raises ApiError (404) for an answer that this key did not ask for.
    """
    return build_json_response(await _load_record(call, str(call.request.path_params["answer_id"])))


async def stream_stored_events(call: ApiRequest) -> Response:
    """Stream the events of an answer.

    These are past and coming events after Last-Event-ID.

    Raises ApiError (404) for an answer that this key did not ask for.
    """
    answer = str(call.request.path_params["answer_id"])
    await run_in_threadpool(_find_own_answer, call, answer)
    after = call.request.headers.get("last-event-id", "")
    number = int(after) if after.isascii() and after.isdigit() and len(after) < 10 else -1
    return build_event_response(
        _encode_events(call, _follow_events(call, answer, number, cancels=False))
    )


async def _load_record(call: ApiRequest, answer: str) -> AnswerRecord:
    def load_record() -> AnswerRecord:
        found = _find_own_answer(call, answer)
        record = _build_record(call, found)
        if found.over and found.answered is None:
            record.text = _build_missing_error(call, answer).detail.message
        return record

    return await run_in_threadpool(load_record)


def _build_missing_error(call: ApiRequest, answer: str) -> ApiError:
    """Return the API error of a question that ended without an answer, by its last event."""
    last = get_answer_service(call.request).read_events(answer)[-1].data
    failure = Failure("the question", last["outcome"], last["detail"])
    if failure.outcome in (*BAD_REQUEST_OUTCOMES, *OUTCOME_ERRORS):
        return convert_question_failure(Failed(failure))
    return ApiError(500, INTERNAL_ERROR_MESSAGE, "no_answer")


def _find_own_answer(call: ApiRequest, answer: str, param: str = "answer_id") -> StoredAnswer:
    """Return an answer that this key asked for. Raises ApiError (404)."""
    try:
        found = find_answer(call.store, answer)
        if found.person == call.key.person:
            return found
    except Failed as failed:
        if failed.failure.outcome != Outcome.NO_ANSWER:
            raise
    raise ApiError(404, "This key asked for no such answer.", "answer_not_found", param)


def _build_record(call: ApiRequest, stored: StoredAnswer) -> AnswerRecord:
    record = AnswerRecord(
        *(stored.id, stored.question, stored.searched, stored.state, stored.made, stored.ended),
        *(None, [], None),
    )
    if stored.answered is not None:
        answer = stored.answered.episode.answer
        claims = answer.claims if answer and not answer.declined else ()
        record.claims = [
            AnswerClaim(c.start, c.end, [n + 1 for n in c.quotes], [n + 1 for n in c.doubtful])
            for c in claims
        ]
        refusal = explain_decline(stored.answered.episode)
        record.text = refusal or (answer.text if answer else "")
        record.rookery = build_answer_metadata(call, stored.answered)
    return record


async def _wait_until_done(call: ApiRequest, answer: str) -> None:
    async with aclosing(_follow_events(call, answer, -1, cancels=True)) as happening:
        async for _ in happening:
            pass


async def _follow_events(
    call: ApiRequest, answer: str, after: int, cancels: bool, sends: bool = False
) -> AsyncGenerator[AnswerEvent | None, None]:
    """Yield the events after number `after` until the last; None after each quiet ALIVE seconds.

    If `cancels`, closing the generator early cancels the answer, which stays charged if `sends`,
    the client is sent the events, and one of them had text. Raises ApiError on a timeout, after
    which a cancelled answer is not charged.
    """
    answering, over, text_sent = get_answer_service(call.request), False, False
    deadline = time.monotonic() + call.context.limits.answering
    try:
        while not over:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                text_sent = False  # it is the server that gives up
                raise build_timeout_error()
            progress = await answering.wait_for_events(
                answer, after, min(KEEPALIVE_SECONDS, remaining)
            )
            if not progress:
                yield None
            for event in progress:
                yield event
                over, after = event.kind in FINAL_EVENTS, event.number
                text_sent = text_sent or (sends and event.kind == "writing")
    finally:
        if cancels and not over:
            # Not awaited: this task is being cancelled, because the client left.
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, _cancel_answer, answering, answer, text_sent)


def _cancel_answer(answering: AnswerService, answer: str, text_sent: bool) -> None:
    try:
        answering.cancel_answer(answer, text_sent)
    except Failed as failed:  # the client has left: only the log can tell
        _LOG.warning("%s: %s", answer, failed)


async def _encode_events(
    call: ApiRequest, happening: AsyncGenerator[AnswerEvent | None, None]
) -> EventFrames:
    addresses = PublicUrls(call)
    async with aclosing(happening):
        try:
            async for event in happening:
                if event is None:
                    yield "", ""
                else:
                    data = _hide_paths(event.data, addresses)
                    yield event.kind, ApiAnswerEvent(event.number, event.kind, data)
        except Exception as error:
            yield "error", ErrorBody(convert_exception(error, "/v1/answers").detail)


def _hide_paths(data: Any, addresses: PublicUrls) -> Any:
    """Return an event's data without local paths, and without details, which may name some."""
    if isinstance(data, list):
        return [_hide_paths(each, addresses) for each in data]
    if not isinstance(data, dict):
        return data
    return {
        name: addresses.strip_local_path(value)
        if name in ("url", "what")
        else _hide_paths(value, addresses)
        for name, value in data.items()
        if name != "detail"
    }


_ONE_ANSWER = "/v1/answers/{answer_id}"
ANSWER_OPERATIONS = (
    ApiOperation(
        *("POST", "/v1/answers", "createAnswer", create_answer, AnswerRecord, AnswerRequest),
        streams=True,
        record_parameter="answer_id",
    ),
    ApiOperation("GET", _ONE_ANSWER, "getAnswer", get_answer, AnswerRecord),
    ApiOperation(
        *("GET", f"{_ONE_ANSWER}/events", "getAnswerEvents", stream_stored_events, None),
        streams=True,
    ),
)
"""the operations at /v1/answers"""
