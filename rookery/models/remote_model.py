"""Client of models on OpenAI-compatible servers: concurrent requests, retries, time-outs, streams.

The `openai` library sends the requests, in a thread with an event loop of its own.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import ssl
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import aclosing, asynccontextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, Self, TypedDict, TypeVar, Unpack
from urllib.parse import urlsplit

import msgspec

from rookery.browser.browser import replace_surrogates
from rookery.errors import Failed, Outcome
from rookery.models.chat_prompts import render_chat_prompt
from rookery.models.openai_protocol import (
    OPTIONAL_FIELDS,
    CompletionRequest,
    CompletionResponse,
    ModelEndpoint,
    ModelRequestError,
    ResponseReader,
    SpendingBudget,
    SpendingTotal,
    build_request_body,
    compute_cost,
    count_settled_characters,
    cut_at_stop_string,
    estimate_maximum_usage,
    extract_error_message,
    find_request_remedy,
    get_slots_address,
    is_sendable_key,
    make_bad_response_error,
    make_status_error,
    read_slots,
)
from rookery.records import Completion, Failure

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_CONNECT_SECONDS = 10.0
_SLOTS_SECONDS = 5.0
"""time-out of the question how many slots a server has"""
_ERROR_BYTES = 16 * 1024
REASONING_TOKENS = 4096
"""tokens beside those of an answer that a chat model may think in"""
_KEPT_HEADERS = frozenset(
    "host connection content-type content-length accept user-agent x-stainless-raw-response".split()
)
T = TypeVar("T")


class ModelConnection:
    """An HTTP client of one server, with a thread that runs its event loop.

    The thread ends with `close`, or when the ModelConnection is garbage-collected.
    """

    def __init__(self, endpoint: ModelEndpoint, key: str, most_bytes: int) -> None:
        self._endpoint = endpoint
        self._most_bytes = most_bytes
        self._client = _create_client(endpoint, key)
        self._loop = loop = asyncio.new_event_loop()
        self._turn = threading.Lock()
        self._open = True
        self._thread = threading.Thread(
            target=_run_loop,
            args=(loop, self._client),
            name=f"model: {endpoint.model}",
            daemon=True,
        )
        self._thread.start()
        self._end = weakref.finalize(self, loop.call_soon_threadsafe, loop.stop)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine in the thread. Raises RuntimeError after `close`."""
        with self._turn:
            if self._open:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise RuntimeError("this model was closed")

    def wait(self, future: Future[T]) -> T:
        """Wait for the result of `start`, or raise its error; cancel it if the wait is interrupted.

        Raises Failed (model_broke_off) where `close` cancelled it.
        """
        try:
            return future.result()
        except CancelledError:
            detail = "the model was closed before it had answered: ask again"
            raise Failed(Failure(self._endpoint.name, Outcome.MODEL_BROKE_OFF, detail)) from None
        finally:
            future.cancel()  # has an effect only where the wait was interrupted

    def close(self) -> None:
        """Cancel the requests under way and end the thread."""
        with self._turn:
            self._open = False
        self._end()
        self._thread.join()

    async def fetch_json(self, url: str, seconds: float) -> Any:
        """Fetch a JSON document of the server; None where there is none, or not in time."""
        with suppress(Exception):
            async with asyncio.timeout(seconds):
                return await self._client.get(url, cast_to=object)
        return None

    async def post_request(self, fields: dict[str, Any], feed: Callable[[bytes], bool]) -> None:
        """Send a request body and pass received bytes to `feed` until they end or it returns True.

        Raises ModelRequestError.
        """
        bytes_left, begun = self._most_bytes, False
        # The fields replace the parameters that the library requires.
        chat = self._endpoint.uses_chat
        api: Any = self._client.chat.completions if chat else self._client.completions
        required: dict[str, Any] = {"messages": []} if chat else {"prompt": ""}
        sent = api.with_streaming_response.create(model="", extra_body=fields, **required)
        try:
            async with sent as response, aclosing(response.iter_bytes()) as data:
                begun = True
                async for chunk in data:
                    bytes_left -= len(chunk)
                    if bytes_left < 0:
                        detail = f"the response has more than {self._most_bytes} bytes"
                        raise make_bad_response_error(f"{detail}: ask for less")
                    if feed(chunk):
                        return
        except ModelRequestError:
            raise
        except Exception as error:
            raise _convert_library_error(error, begun) from None


def _convert_library_error(error: Exception, begun: bool) -> ModelRequestError:
    """Return the error of a request that failed before or, if `begun`, within the response."""
    cause = error.__cause__ or error
    if isinstance(cause, ModelRequestError):  # some versions of the library wrap a hook's error
        return cause
    message = f"{type(cause).__name__}: {cause}"
    if begun:
        advice = "the answer broke off: ask again, and look into the server's log"
        return ModelRequestError(Outcome.MODEL_BROKE_OFF, advice, message, retryable=True)
    advice = "see whether it runs, and whether base_url leads to it"
    billed = not type(cause).__name__.startswith("Connect")
    return ModelRequestError(
        Outcome.MODEL_UNREACHABLE, advice, message, retryable=True, billed=billed
    )


def _run_loop(loop: asyncio.AbstractEventLoop, client: AsyncOpenAI) -> None:
    """Run the event loop until it is stopped, then cancel its tasks and close the client.

    `asyncio.Runner` would also wait for threads that look up addresses.
    """

    async def close_client() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await client.close()
        await loop.shutdown_asyncgens()

    loop.run_forever()
    loop.run_until_complete(close_client())
    loop.close()


def _create_client(endpoint: ModelEndpoint, key: str) -> AsyncOpenAI:
    """Create the library's client; nothing from the environment is sent to the server.

    Raises Failed: no_key, no_openai where the library is missing, bad_endpoint.
    """
    if not is_sendable_key(key):
        detail = "the key holds characters that no key has"
        raise Failed(Failure(endpoint.name, Outcome.NO_KEY, detail))
    try:
        import openai
    except ImportError as error:
        detail = 'the client library is missing: pip install "rookery[models]"'
        raise Failed(Failure(endpoint.name, Outcome.NO_OPENAI, detail)) from error

    async def strip_foreign_headers(request: Any) -> None:
        # The library adds headers of its own, and others that environment variables name
        # (OPENAI_ORG_ID, OPENAI_PROJECT_ID, OPENAI_CUSTOM_HEADERS): they may hold secrets.
        for name in [name for name in request.headers if name.lower() not in _KEPT_HEADERS]:
            del request.headers[name]
        request.headers["Accept-Encoding"] = "identity"
        if key:
            request.headers["Authorization"] = f"Bearer {key}"

    async def raise_for_status(response: Any) -> None:
        if response.status_code >= 300:
            raise await _read_error_response(endpoint, response)

    # Reading the system's certificates takes 60 ms, and plain http needs none of them.
    plain = endpoint.address.startswith("http:") and not endpoint.use_proxy
    try:
        return openai.AsyncOpenAI(
            api_key="none",
            base_url=endpoint.address,
            timeout=openai.Timeout(None, connect=_CONNECT_SECONDS),
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False,
                trust_env=endpoint.use_proxy,
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True,
                event_hooks={"request": [strip_foreign_headers], "response": [raise_for_status]},
            ),
        )
    except Exception as error:
        detail = f"base_url cannot be used: {error}"
        raise Failed(Failure(endpoint.name, Outcome.BAD_ENDPOINT, detail)) from error


async def _read_error_response(endpoint: ModelEndpoint, response: Any) -> ModelRequestError:
    """Make the error for a response with a status from 300 on; only its beginning is read."""
    body = b""
    with suppress(Exception):  # the status counts, even where the body breaks off
        async with aclosing(response.aiter_bytes()) as data:
            async for chunk in data:
                body += chunk
                if len(body) > _ERROR_BYTES:
                    break
    headers = {name.lower(): value for name, value in response.headers.items()}
    return make_status_error(
        endpoint, response.status_code, extract_error_message(body[:_ERROR_BYTES]), headers
    )


AllowedTokens = Callable[[Sequence[int]], Iterable[int]] | None
Seed = int | None
Reply = TypeVar("Reply")
_MAX_SERVER_TEXT = 300
"""characters of a server's error text that a failure repeats"""


class SampleOptions(TypedDict, total=False):
    """Options of a completion that not every policy takes."""

    seed: Seed
    """sampling seed; None: the model's own"""
    grammar: str
    """in llguidance's dialect of Lark, constrains the text; empty: none"""


class LanguageModel(Protocol):
    """A Policy that also takes sampling seeds and grammars, and streams completions."""

    name: str

    def complete(
        self, prompt: str, n: int = 1, allow: AllowedTokens = None, **options: Unpack[SampleOptions]
    ) -> Sequence[Completion]:
        """Return n completions of one prompt. Raises Failed where the model gives none.

        `allow` maps the tokens so far to the ids that may follow.
        """

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """Yield the pieces of one completion as they come; the generator returns it whole."""


class RemoteLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of requests to a model server: concurrency, time-outs, retries, response size."""

    at_once: int = 16
    """maximum number of concurrent requests; fewer where the server shows fewer slots"""
    seconds: float = 300.0
    """time-out of one attempt, from sending to the last byte"""
    deadline: float = 900.0
    """seconds for all attempts of one request and the waits between them"""
    tries: int = 5
    """maximum number of attempts"""
    wait: float = 1.0
    """seconds before the second attempt, doubled before each further one; up to half of it is taken
    off at random"""
    longest_wait: float = 60.0
    """maximum seconds between attempts; a server that asks for more (Retry-After) is given up"""
    bytes: int = 16 * 2**20
    """maximum size of one response"""

    def __post_init__(self) -> None:
        if self.at_once < 1 or self.tries < 1 or self.bytes < 1:
            raise ValueError("RemoteLimits.at_once, .tries and .bytes must be at least 1")
        if self.seconds <= 0 or self.deadline <= 0 or self.wait < 0 or self.longest_wait < 0:
            raise ValueError("RemoteLimits: seconds must be more than 0, waits at least 0")


class ServerSlots:
    """Requests that one server is sent at once, by all models on it, each in its own event loop.

    Nothing is sent before `limit_requests`; those that wait have their turn in the order of asking.
    """

    def __init__(self) -> None:
        self.limit = 0
        """maximum number of concurrent requests; 0: not known yet"""
        self._busy = 0
        self._turn = threading.Lock()
        self._waiting: deque[Future[None]] = deque()

    def limit_requests(self, most: int) -> None:
        """Send at most so many requests at once; of several limits the smallest holds."""
        with self._turn:
            self.limit = min(most, self.limit or most)
            self._admit_waiting()

    @asynccontextmanager
    async def hold_slot(self) -> AsyncIterator[None]:
        """Wait for a free slot, and hold it within the block."""
        mine: Future[None] = Future()
        with self._turn:
            self._waiting.append(mine)
            self._admit_waiting()
        try:
            await asyncio.wrap_future(mine)
            yield
        finally:
            if not mine.cancel():  # it was admitted, perhaps while its wait was cancelled
                with self._turn:
                    self._busy -= 1
                    self._admit_waiting()

    def _admit_waiting(self) -> None:
        while self._waiting and self._busy < self.limit:
            if (first := self._waiting.popleft()).set_running_or_notify_cancel():
                self._busy += 1
                first.set_result(None)


class SlotTable:
    """The slots of servers, by host and port. Models that get one table share them."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._known: dict[str, ServerSlots] = {}

    def get_slots(self, endpoint: ModelEndpoint) -> ServerSlots:
        """Return the slots of an endpoint's server."""
        with self._turn:
            server = urlsplit(endpoint.address).netloc.lower()
            return self._known.setdefault(server, ServerSlots())


class RemoteModel:
    """A language model on an OpenAI-compatible server. Threads may share one.

    Models that are given one table of slots never send a server more at once than it shows slots.

    Temporary refusals (429, 5xx) and failed connections are retried. `complete` and `stream` raise
    Failed, and never show the key: model_unreachable, model_timed_out, model_refused_key,
    model_not_found (the model, or the route to it), model_quota, model_refused (the request: too
    long, a field that the server does not know), model_failed (a fault of the server),
    model_bad_answer, model_broke_off (the answer has no end), spending_cap. The constructor raises
    Failed: no_openai where the client library is missing, no_key, bad_endpoint.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        key: str = "",
        limits: RemoteLimits = RemoteLimits(),
        spending: SpendingBudget | None = None,
        slots: SlotTable | None = None,
    ) -> None:
        self.name = endpoint.model
        self._endpoint = endpoint
        self._key = key
        self._limits = limits
        self._spending = spending or SpendingBudget()
        if self._spending.cap.money is not None and None in (endpoint.price_in, endpoint.price_out):
            detail = "a cap on money needs to know what it costs: set price_in and price_out"
            raise Failed(Failure(endpoint.name, Outcome.BAD_ENDPOINT, detail))
        self._slots = (slots or SlotTable()).get_slots(endpoint)
        self._slots_turn = asyncio.Lock()
        self._has_asked_for_slots = False
        self._remedies: frozenset[str] = frozenset()
        self._chance = random.Random()
        self._connection = ModelConnection(endpoint, key, limits.bytes)

    def complete(
        self, prompt: str, n: int = 1, allow: AllowedTokens = None, **options: Unpack[SampleOptions]
    ) -> list[Completion]:
        """Return n completions of one prompt, by one request if the server can, else by several.

        `grammar`, in llguidance's dialect of Lark, is sent to the server; some servers ignore it
        (see `probe_grammar`). Raises ValueError for `allow`, since a server's tokens cannot be
        constrained from here, and for n below 1.
        """
        if allow is not None:
            raise ValueError("a remote model cannot be told its tokens: give it a grammar instead")
        if n < 1:
            raise ValueError("n must be at least 1")
        request = CompletionRequest(replace_surrogates(prompt), n, **options)
        return self._connection.wait(self._connection.start(self._request_completions(request)))

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """Yield the pieces of one completion as they come; the generator returns it whole.

        The request is sent when the first piece is asked for. Reasoning is left out. A stream that
        breaks off raises Failed even after some pieces. Closing the generator cancels the request.
        """
        pieces: SimpleQueue[str | None] = SimpleQueue()
        request = CompletionRequest(replace_surrogates(prompt), seed=seed, stream=True)
        pending = self._connection.start(self._request_with_retries(request, pieces.put))
        pending.add_done_callback(lambda _: pieces.put(None))
        try:
            text, yielded = "", 0
            while (piece := pieces.get()) is not None:
                text += piece
                start, yielded = yielded, count_settled_characters(text, self._endpoint.stop)
                if start < yielded:
                    yield text[start:yielded]
            whole = self._connection.wait(pending).completions[0]
            completion = cut_at_stop_string(whole, self._endpoint.stop)
            if completion.text[yielded:]:
                yield completion.text[yielded:]
            return completion
        finally:
            pending.cancel()

    def count_slots(self) -> int:
        """Return the number of requests that the server is sent at once.

        It is that of llama.cpp's slots where its server shows them, and the limit otherwise.
        """
        self._connection.wait(self._connection.start(self._open_slots()))
        return self._slots.limit

    def close(self) -> None:
        """Cancel the requests under way and close the connection; the model is not used afterwards.

        Cancelled requests raise Failed (model_broke_off).
        """
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def refused_fields(self) -> frozenset[str]:
        """Fields that the server refused, and that it is not sent any more."""
        return self._remedies.intersection(OPTIONAL_FIELDS)

    async def _open_slots(self) -> ServerSlots:
        """Return the slots of the server, whose number this model asks for once."""
        async with self._slots_turn:
            if not self._has_asked_for_slots:
                slots = None
                if url := get_slots_address(self._endpoint):
                    slots = await self._connection.fetch_json(url, _SLOTS_SECONDS)
                most = self._limits.at_once
                self._slots.limit_requests(min(read_slots(slots) or most, most))
                self._has_asked_for_slots = True
            return self._slots

    async def _request_completions(self, request: CompletionRequest) -> list[Completion]:
        first: CompletionResponse | None = None
        if request.n > 1 and "single" not in self._remedies:
            try:
                first = await self._request_with_retries(request)
            except Failed as failed:
                if failed.failure.outcome != Outcome.MODEL_REFUSED:
                    raise
        got = first.completions if first else []
        seed = self._endpoint.seed if request.seed is None else request.seed
        rest = [
            request._replace(n=1, seed=None if seed is None else seed + number)
            for number in range(len(got), request.n)
        ]
        more = await _gather_all(map(self._request_with_retries, rest))
        if request.n > 1 and (first is None or first.choices == 1):
            self._remedies |= {"single"}
        every = [*got, *(response.completions[0] for response in more)][: request.n]
        return [cut_at_stop_string(completion, self._endpoint.stop) for completion in every]

    async def _request_with_retries(
        self, request: CompletionRequest, emit: Callable[[str], None] | None = None
    ) -> CompletionResponse:
        """Send a request until it is answered, as the limits allow. Raises Failed."""
        clock = asyncio.get_running_loop().time
        slots = await self._open_slots()
        async with slots.hold_slot():
            until, number = clock() + self._limits.deadline, 1
            while True:
                listener = ResponseReader(self._endpoint, emit)
                fields = build_request_body(self._endpoint, request, self._remedies)
                try:
                    response = await self._request_once(request, fields, listener, until - clock())
                    if not self._allow_reasoning(response):
                        return response
                    continue
                except ModelRequestError as error:
                    if remedy := find_request_remedy(error, fields):
                        self._remedies |= {remedy}
                        continue
                    wait = self._retry_delay(error, number)
                    hopeless = bool(listener.emitted) or not error.retryable
                    if hopeless or number >= self._limits.tries or clock() + wait >= until:
                        self._raise_failure(error, number)
                await asyncio.sleep(wait)
                number += 1

    def _allow_reasoning(self, response: CompletionResponse) -> bool:
        """Raise the limit on tokens, once, where a chat model's thoughts alone have reached it.

        Returns True if the request is worth sending again. A limit that was set is left.
        """
        thought = all(not each.text and each.stop == "length" for each in response.completions)
        if not thought or not self._endpoint.uses_chat or self._endpoint.max_tokens:
            return False
        most = self._endpoint.token_limit + REASONING_TOKENS
        self._endpoint = msgspec.structs.replace(self._endpoint, max_tokens=most)
        return True

    async def _request_once(
        self,
        request: CompletionRequest,
        fields: dict[str, Any],
        listener: ResponseReader,
        seconds: float,
    ) -> CompletionResponse:
        """Send a request once. Raises ModelRequestError.

        Where the server does not report the usage of what it may have billed, the maximum counts.
        """
        seconds = min(self._limits.seconds, seconds)
        usage = estimate_maximum_usage(request.prompt, request.n, self._endpoint)
        highest = compute_cost(usage, self._endpoint)
        while not self._spending.reserve_spending(highest, self._endpoint.name):
            await asyncio.sleep(0.02)
        spent = highest
        try:
            async with asyncio.timeout(seconds):
                await self._connection.post_request(fields, listener.feed_data)
            response = listener.finish()
            if response.usage:
                spent = compute_cost(response.usage, self._endpoint)
            return response
        except TimeoutError:
            advice = f"no whole answer after {seconds:g} seconds: allow more, or ask for less"
            raise ModelRequestError(Outcome.MODEL_TIMED_OUT, advice, retryable=True) from None
        except ModelRequestError as error:
            spent = highest if error.billed else SpendingTotal()
            raise
        finally:
            self._spending.settle_reservation(highest, spent)

    def _retry_delay(self, error: ModelRequestError, number: int) -> float:
        """Return the seconds before the next attempt; infinite where the server asks for too many.

        Exponential backoff with jitter, on top of what the server asks for.
        """
        longest = self._limits.longest_wait
        wait = self._limits.wait * 2.0 ** (number - 1) * (0.5 + self._chance.random() / 2)
        return min(wait, longest) + error.retry_after if error.retry_after <= longest else math.inf

    def _raise_failure(self, error: ModelRequestError, number: int) -> NoReturn:
        said = error.server_text.replace(self._key, "***") if self._key else error.server_text
        parts = [
            f"{error.advice} ({number} tries)" if number > 1 else error.advice,
            f"it asks to wait {error.retry_after:.0f} seconds" if error.retry_after else "",
            f"it says: {said[:_MAX_SERVER_TEXT]}" if said else "",
        ]
        detail = "; ".join(filter(None, parts))
        raise Failed(Failure(self._endpoint.name, error.outcome, detail)) from None


async def _gather_all(work: Iterable[Coroutine[Any, Any, Reply]]) -> list[Reply]:
    """Run coroutines concurrently and return their results; if one fails, cancel the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


ProbeResult = Literal["obeyed", "ignored", "refused"]
"""what a server does with a field of a request"""
PROBE_TEXT = "rookery-probe-7"
PROBE_GRAMMAR = f"""start: PROBED
PROBED: PART & /(?s:.{{{len(PROBE_TEXT)}}})/
PART: %regex {{"substring_chars": "{PROBE_TEXT}"}}
"""
"""uses every part of the Lark dialect that grammars of quotes use, and allows one string only"""


def probe_chat_fields(model: RemoteModel) -> dict[str, ProbeResult]:
    """Send one request with a tool and one with a form of the reply; return what became of each.

    Each is obeyed, ignored or refused, as `probe_grammar` says. Raises Failed for other failures.
    """
    word = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    tool = {"name": "note", "description": "Note a word.", "parameters": word}
    prompts = {
        "tools": render_chat_prompt("You note words.", ["Note the word: ready"], [tool]),
        "response_format": render_chat_prompt("You greet.", ["Say hello."], reply_form=word),
    }
    results = dict[str, ProbeResult]()
    for name, prompt in prompts.items():
        try:
            [completion] = model.complete(prompt)
        except Failed as failed:
            if failed.failure.outcome != Outcome.MODEL_REFUSED:
                raise
            results[name] = "refused"
            continue
        obeyed = completion.stop == "tool_calls" and completion.text.startswith("note ")
        if name == "response_format":
            obeyed = bool(re.fullmatch(r'\{\s*"word"\s*:\s*"[^"]*"\s*\}', completion.text.strip()))
        refused = name in model.refused_fields
        results[name] = "refused" if refused else "obeyed" if obeyed else "ignored"
    return results


def probe_grammar(model: LanguageModel) -> ProbeResult:
    """Send one request with a grammar and return what the server did with it.

    obeyed: the completion fits it. ignored: it does not, as with several servers that accept any
    grammar. refused: the server answers that it cannot. Raises Failed for any other failure, and
    ValueError where the endpoint does not say which server it is.
    """
    try:
        completions = model.complete("What is the weather like today?", grammar=PROBE_GRAMMAR)
    except Failed as failed:
        if failed.failure.outcome == Outcome.MODEL_REFUSED:
            return "refused"
        raise
    return "obeyed" if completions[0].text == PROBE_TEXT else "ignored"
