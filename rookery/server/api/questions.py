"""The parts that the protocols of the API share: read a question, answer it, mark its citations.

Offsets count code points and ends are exclusive: text[start:end] is exactly a citation mark.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request

from rookery.answers.answer_results import split_remarks
from rookery.answers.both_sides import SIDES_METHOD as SIDES
from rookery.answers.methods import MODEL_METHODS
from rookery.desk.page_endpoints import make_public_url
from rookery.desk.store import Store
from rookery.errors import Failed, Outcome
from rookery.library.libraries import is_url
from rookery.quotes.verification import Verdict
from rookery.records import Answer, Episode, Quote
from rookery.server.api.answer_queue import get_answer_service
from rookery.server.api.answer_sessions import (
    EXTRACT_METHOD,
    MAX_SAMPLES,
    AnswerCancelledError,
    AnswerOutcome,
    EventKind,
    EventListener,
    QuestionRequest,
    ServerCapabilities,
)
from rookery.server.api.endpoints import (
    OUTCOME_ERRORS,
    ApiError,
    ApiKey,
    ApiRequest,
    build_timeout_error,
    build_unknown_model_error,
    convert_exception,
    is_answer_charged,
    refund_budget,
    require_budget,
    spend_budget,
)
from rookery.shell.terminal_output import NO_ANSWER_MESSAGES, format_failure_counts

QuoteUrl = Callable[[Quote], str]
"""returns the URL at which a client finds the page of a quote"""
_URL_MARKS = str.maketrans({mark: f"%{ord(mark):02X}" for mark in '()<>[]\\ "`|\t\r\n'})
"""characters that would end a Markdown link, percent-encoded"""


class CitedSource(msgspec.Struct, frozen=True):
    """A quote that an answer rests on, with everything needed to check it."""

    number: int
    """number of the source in the marks, from 1"""
    url: str
    """address of the page; for a file, of its stored copy here with the quote marked"""
    title: str
    """title of the page"""
    quote: str
    """verbatim characters [start:end] of the page's text"""
    digest: str
    """SHA-256 of that text, as 32 hexadecimal digits"""
    start: int
    """offset of the quote in the page's text, in code points"""
    end: int
    """offset of its end; exclusive"""
    verified: bool
    """True if the stored copy of the page contains the quote at this position"""


class CitationMark(msgspec.Struct, frozen=True):
    """A citation mark text[start:end] and its source."""

    start: int
    end: int
    source: CitedSource


class CitedText(msgspec.Struct, frozen=True):
    """The text of an answer with citation marks."""

    text: str
    marks: tuple[CitationMark, ...]


def list_cited_sources(verdicts: Sequence[Verdict], quote_url: QuoteUrl) -> tuple[CitedSource, ...]:
    """Return a source for each verdict, numbered from 1; `quote_url` gives the URL of its quote.

    A quote that failed its check is included, with `verified` False.
    """
    numbered = enumerate(verdicts, 1)
    return tuple(_build_source(number, verdict, quote_url) for number, verdict in numbered)


def insert_citation_marks(
    answer: Answer, sources: Sequence[CitedSource], links: bool = False
) -> CitedText:
    """Return the answer's text with a mark after each claim for each quote that supports it.

    `sources` are those of the answer's quotes, in their order. Claims that end at the same place
    have each quote marked once. With `links` a mark is [[1]](url) in place of [1], for clients that
    show no annotations.
    """
    parts, marks, copied, at = list[str](), list[CitationMark](), 0, 0
    for end, numbers in _group_claim_ends(answer):
        parts.append(answer.text[copied:end])
        at += end - copied
        copied = end
        for source in (sources[number] for number in numbers):
            mark = f"[{source.number}]"
            mark = f"[{mark}]({source.url.translate(_URL_MARKS)})" if links else mark
            marks.append(CitationMark(at, at + len(mark), source))
            parts.append(mark)
            at += len(mark)
    parts.append(answer.text[copied:])
    return CitedText("".join(parts), tuple(marks))


def _group_claim_ends(answer: Answer) -> list[tuple[int, tuple[int, ...]]]:
    """Return the ends of claims in order, each with the distinct quotes of the claims that end
    there."""
    ends: dict[int, list[tuple[int, ...]]] = {}
    for claim in answer.claims:
        if claim.quotes:
            ends.setdefault(claim.end, []).append(claim.quotes)
    return [(end, tuple(dict.fromkeys(chain(*ends[end])))) for end in sorted(ends)]


def _build_source(number: int, verdict: Verdict, quote_url: QuoteUrl) -> CitedSource:
    quote = verdict.quote
    url, title = quote_url(quote), " ".join(quote.title.split()) or "Untitled"
    span = (quote.digest, quote.start, quote.end)
    return CitedSource(number, url, title, quote.text, *span, verdict.verified)


MODEL_PREFIX = "rookery-"
"""prefix of the model names"""
TEXT_PART_TYPES = ("text", "input_text", "output_text")
"""types of the message parts that are read"""
Probability = Annotated[float, Meta(ge=0, le=1)]
SampleCount = Annotated[int, Meta(ge=1, le=MAX_SAMPLES)]


class RookeryOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of this server: the field "rookery" of a request."""

    places: tuple[str, ...] | None = None
    """names of places to search; null: the default places of the server"""
    decline: Probability | None = None
    """probability, from 0 to 1, of being right below which the answer is declined"""
    samples: SampleCount | None = None
    """number of answers that a model samples to choose among"""
    links: bool | None = None
    """write [[1]](url) in the text instead of [1]"""

    def writes_links(self, usual: bool) -> bool:
        """Return whether marks are links; `usual` counts where the request leaves it open."""
        return usual if self.links is None else self.links


class MessagePart(msgspec.Struct):
    """A part of a message. Only text is read."""

    type: str
    """kind of the part; text, input_text and output_text are read"""
    text: str | None = None
    """text of the part"""


class InputMessage(msgspec.Struct):
    """A message of a conversation, or another item, which is ignored."""

    role: str | None = None
    """user, assistant, whose messages help a language model to understand the question, or
    another, whose messages are not read"""
    content: str | list[MessagePart] | None = None
    """a text, or parts of which the texts are read"""


QUESTION_LIMITS = Meta(min_length=1, max_length=2_000, pattern=r"\S")
_USER_MESSAGE_SCHEMA = msgspec.json.decode(
    Path(__file__).with_name("user_message.json").read_bytes()
)
InputMessages = Annotated[
    list[InputMessage], Meta(min_length=1, extra_json_schema={"contains": _USER_MESSAGE_SCHEMA})
]
"""a list with at least one user message"""


def list_model_names(offered: ServerCapabilities) -> list[str]:
    """List the model names of the API: a method and, where needed, its model."""
    by = [f"{MODEL_PREFIX}{method}/{model}" for method in MODEL_METHODS for model in offered.models]
    both = [f"{MODEL_PREFIX}{SIDES}", *(f"{MODEL_PREFIX}{SIDES}/{each}" for each in offered.models)]
    return [f"{MODEL_PREFIX}{EXTRACT_METHOD}", *(both if SIDES in offered.methods else ()), *by]


def build_question_request(
    call: ApiRequest, conversation: "AskedConversation", domains: Sequence[str] = ()
) -> QuestionRequest:
    """Build the request for a conversation and the hosts to search, by the model of the body.

    Raises ApiError: 404, and 429 if the key's budget is spent.
    """
    require_budget(call.key)
    model, options = call.body.model, call.body.rookery or RookeryOptions()
    offered = get_answer_service(call.request).capabilities
    if model not in list_model_names(offered):
        raise build_unknown_model_error(model)
    method, _, name = model.removeprefix(MODEL_PREFIX).partition("/")
    return QuestionRequest(
        conversation.question,
        method,
        name,
        options.places,
        options.decline,
        samples=options.samples,
        domains=tuple(domains),
        earlier=conversation.earlier,
        replies=conversation.replies,
    )


class AskedConversation(NamedTuple):
    """The question of a list of messages, with its context."""

    question: str
    """text of the last message of a user"""
    earlier: tuple[str, ...]
    """texts of the earlier messages of users, oldest first"""
    ignored: tuple[str, ...]
    """names of the parts of the request that are not read"""
    replies: tuple[str, ...] = ()
    """what assistants said after each of the earlier messages"""


MAX_EARLIER = 20
"""maximum number of earlier questions that give a question its context"""


def extract_conversation(
    turns: Sequence[InputMessage], field: str, model: str
) -> AskedConversation:
    """Return the last user message of `field` as the question and earlier ones as its context.

    What assistants said between them is read where `model` names a language model, which may be
    shown it to understand the question: it is no evidence. Other messages are not read. Raises
    ApiError (400) if no user message has content, or the last one no text.
    """
    at = [n for n, turn in enumerate(turns) if turn.role == "user" and turn.content]
    if not at:
        sentence = f"{field}: none is of a user with text in it, so nothing is asked."
        raise ApiError(400, sentence, "no_question", field)
    last, read = f"{field}[{at[-1]}]", set(at[-1 - MAX_EARLIER :])
    passed, texts = list[str](), list[tuple[str, list[str]]]()
    for number, turn in enumerate(turns):
        inside = texts and number < at[-1] and "/" in model
        if number not in read and not (inside and turn.role == "assistant" and turn.content):
            passed.append(f"{field}[{number}]")
            continue
        content = turn.content or ""
        parts = [MessagePart("text", content)] if isinstance(content, str) else content
        readable = [part.type in TEXT_PART_TYPES for part in parts]
        passed += [f"{field}[{number}].content[{n}]" for n, text in enumerate(readable) if not text]
        text = "\n".join(part.text or "" for part in parts if part.type in TEXT_PART_TYPES)
        if number in read:
            texts.append((text, []))
        else:
            texts[-1][1].append(text)
    question = texts.pop()[0]
    if not question.strip():
        sentence = f"{last}: the last message of a user has no text in it, so nothing is asked."
        raise ApiError(400, sentence, "no_question", field)
    texts = [each for each in texts if each[0].strip()]
    earlier, replies = (text for text, _ in texts), ("\n".join(each) for _, each in texts)
    return AskedConversation(question, tuple(earlier), tuple(passed), tuple(replies))


Worked = TypeVar("Worked")
CLIENT_GONE = "Nobody waits for the answer."
BAD_REQUEST_OUTCOMES = "bad_question bad_decline bad_samples unknown_method unknown_place".split()
"""outcomes that are the client's mistakes"""
OUTCOME_FIELDS: Mapping[str, str] = {
    Outcome.UNKNOWN_METHOD: "method",
    Outcome.UNKNOWN_PLACE: "places",
}
"""field of the request that such an outcome is about"""


class ProgressEvent(NamedTuple):
    """A progress event on the way to an answer."""

    kind: EventKind
    data: dict[str, Any]


class AnswerMetadata(msgspec.Struct, frozen=True):
    """Details of an answer for which the protocol has no field of its own."""

    method: str
    """method that answered, with its model if it has one"""
    stop: str
    """"end", or the reason why there is no answer"""
    declined: bool
    """True if there is no answer, or none that is good enough"""
    score: float | None
    """probability or reward of the answer, if its method gives one"""
    verified: int
    """number of quotes that the stored copies of their pages contain verbatim"""
    sources: tuple[CitedSource, ...]
    """the quotes that the answer rests on; if declined, the nearest ones found"""
    failures: dict[str, int]
    """number of failed searches and fetches by reason"""
    ignored: tuple[str, ...]
    """fields of the request that have no effect here"""
    searched: str
    """the question as it was searched: a follow-up with what it leans on"""
    calibrated: bool = False
    """the score is a probability that was calibrated on the documents that were asked"""
    unchecked: bool = False
    """a model wrote the text and cites nothing; the sources are what it was shown"""
    remarks: tuple[str, ...] = ()
    """what is remarked on the citations of the answer"""
    certain: bool = True
    """False: a possible answer, whose quotes are likely enough to be looked at and no more"""


async def stream_answer(
    call: ApiRequest, inquiry: QuestionRequest
) -> AsyncGenerator[ProgressEvent | AnswerOutcome, None]:
    """Yield progress events while a question is answered, and the outcome last.

    Raises ApiError if it cannot be answered in time or at all. Closing the generator early stops
    the work.
    """
    progress = asyncio.Queue[ProgressEvent | None]()
    loop, disconnected = asyncio.get_running_loop(), threading.Event()

    def on_event(kind: EventKind, data: dict[str, Any]) -> None:
        if not disconnected.is_set():
            loop.call_soon_threadsafe(progress.put_nowait, ProgressEvent(kind, data))

    answer = partial(_answer_within_budget, call, inquiry, on_event, disconnected)
    work = asyncio.create_task(call.run_limited(call.context.answers, answer))

    def on_done(task: asyncio.Task[AnswerOutcome]) -> None:
        task.cancelled() or task.exception()  # retrieved, so that asyncio does not warn
        progress.put_nowait(None)

    work.add_done_callback(on_done)
    deadline = time.monotonic() + call.context.limits.answering
    try:
        while (
            each := await asyncio.wait_for(progress.get(), deadline - time.monotonic())
        ) is not None:
            yield each
        yield await work
    except TimeoutError:
        raise build_timeout_error() from None
    finally:
        disconnected.set()


def _answer_within_budget(
    call: ApiRequest, inquiry: QuestionRequest, hear: EventListener, disconnected: threading.Event
) -> AnswerOutcome:
    """Answer a question and charge the key's budget. Raises ApiError."""
    if disconnected.is_set():
        raise ApiError(499, CLIENT_GONE, "gone")
    answering = get_answer_service(call.request)
    work = partial(answering.answer_now, inquiry, hear, disconnected.is_set)
    try:
        with convert_question_failures():
            answered = charge_answer(call.store, call.key, work, disconnected.is_set)
            raise_on_model_failure(answered.episode)
    except AnswerCancelledError:
        raise ApiError(499, CLIENT_GONE, "gone") from None
    return answered


def charge_answer(
    store: Store, key: ApiKey, work: Callable[[], AnswerOutcome], disconnected: Callable[[], bool]
) -> AnswerOutcome:
    """Return the answer that `work` makes, charged to a key's budget if `is_answer_charged`.

    Raises ApiError (429) if the budget is spent, AnswerCancelledError if the client is
    `disconnected` at the end, and what `work` raises.
    """
    spend_budget(store, key)
    episode = None
    try:
        answered = work()
        if disconnected():
            raise AnswerCancelledError
        episode = answered.episode
    finally:
        if not is_answer_charged(episode):  # nothing is sent before the whole answer
            refund_budget(store, key)
    return answered


def convert_question_failure(failed: Failed) -> ApiError:
    """Convert a failure to answer into the API error that the client gets."""
    failure = failed.failure
    if failure.outcome in BAD_REQUEST_OUTCOMES:
        unknown = failure.outcome.startswith("unknown")
        param = OUTCOME_FIELDS.get(failure.outcome, failure.what)
        return ApiError(
            404 if unknown else 400, f"{param}: {failure.detail}.", failure.outcome, param
        )
    if failure.outcome == Outcome.UNKNOWN_MODEL:
        return build_unknown_model_error(failure.what)
    return convert_exception(failed, "an answer")


@contextmanager
def convert_question_failures() -> Iterator[None]:
    """Convert a failure to answer within the block into the API error that the client gets."""
    try:
        yield
    except Failed as trouble:
        raise convert_question_failure(trouble) from trouble


def raise_on_model_failure(episode: Episode) -> None:
    """Raise Failed if the episode ended because the model could not be called.

    That is neither an answer nor a decline.
    """
    if episode.stop == Outcome.POLICY_FAILED and episode.failures:
        why = (failure for failure in episode.failures if failure.outcome in OUTCOME_ERRORS)
        raise Failed(next(why, episode.failures[-1]))


async def run_until_disconnect(request: Request, work: Coroutine[Any, Any, Worked]) -> Worked:
    """Return the coroutine's result; cancel it and raise ApiError (499) on disconnect."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ApiError(499, CLIENT_GONE, "gone")
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _wait_for_disconnect(request: Request) -> None:
    """Wait until the client disconnects."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def build_answer_metadata(
    call: ApiRequest, answered: AnswerOutcome, ignored: tuple[str, ...] = ()
) -> AnswerMetadata:
    """Build the details that accompany an answer; `ignored` adds to the ignored fields."""
    episode, answer = answered.episode, answered.episode.answer
    return AnswerMetadata(
        episode.by,
        episode.stop,
        answer is None or answer.declined,
        answer.score if answer else None,
        sum(verdict.verified for verdict in answered.verdicts),
        list_cited_sources(answered.verdicts, PublicUrls(call).link_quote),
        episode.count_failures(),
        (*call.ignored, *ignored),
        episode.question.text,
        answer.calibrated if answer else False,
        answer is not None and answer.citations == "unchecked",
        tuple(split_remarks(episode)[1]),
        answer is None or answer.stored_certain is not False,
    )


def explain_decline(episode: Episode) -> str:
    """Return the sentence to show in place of an answer; empty if there is one, not declined.

    Of a declined answer it is that answer's own text.
    """
    if episode.answer is not None:
        return episode.answer.text if episode.answer.declined else ""
    words = NO_ANSWER_MESSAGES.get(episode.stop, "no answer")
    counted = ", ".join(format_failure_counts(episode.failures))
    sentence = f"{words[0].upper()}{words[1:]}"
    return f"{sentence} ({counted})." if counted else f"{sentence}."


class PublicUrls:
    """Page URLs for API clients: web URLs as they are, local files as addresses of this server."""

    def __init__(self, call: ApiRequest) -> None:
        self._base = make_public_url(call.request, "")

    def link_quote(self, quote: Quote) -> str:
        """Return the URL of a quote's page; for a local file, of its stored copy on this server.

        The quote is marked in that copy.
        """
        span = f"?start={quote.start}&end={quote.end}#quote"
        return self.link_stored_page(quote.url, quote.digest, span)

    def link_stored_page(self, url: str, digest: str, span: str = "") -> str:
        """Return the URL of a page; for a local file, of its stored version here, plus `span`."""
        return url if is_url(url) else f"{self._base}/pages/{digest}{span}"

    def strip_local_path(self, url: str) -> str:
        """Return the URL, reduced to the file name if it is a local path."""
        here = url.lower().startswith(("file:", "/"))
        return f"file:///{url.rpartition('/')[2]}" if here else url
