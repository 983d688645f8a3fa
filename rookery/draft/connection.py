"""The openai client in a thread of its own: requests under way, all of them with an end in time.

It knows headers, bytes and seconds. What is asked and answered is no concern of it.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from rookery.draft.endpoint import Endpoint, sendable
from rookery.draft.trouble import Trouble, bad_answer, refusal, words
from rookery.records import Failed, Failure

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_CONNECT_SECONDS = 10.0
_REFUSAL_BYTES = 16 * 1024
_SENT = frozenset(
    "host connection content-type content-length accept user-agent x-stainless-raw-response".split()
)
T = TypeVar("T")


class Connection:
    """A server, and the thread in which what is asked of it is under way.

    The thread ends with `close`, or when nobody holds the Connection any more.
    """

    def __init__(self, endpoint: Endpoint, key: str, most_bytes: int) -> None:
        self._endpoint = endpoint
        self._most_bytes = most_bytes
        self._client = client = _client(endpoint, key)
        self._loop = loop = asyncio.new_event_loop()
        self._turn = threading.Lock()
        self._open = True
        self._thread = threading.Thread(
            target=_run, args=(loop,), name=f"model: {endpoint.model}", daemon=True
        )
        self._thread.start()
        self._end = weakref.finalize(
            self, lambda: asyncio.run_coroutine_threadsafe(_end(client), loop)
        )

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins the work in the thread. Raises RuntimeError after `close`."""
        with self._turn:
            if self._open:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise RuntimeError("this model was closed")

    def wait(self, future: Future[T]) -> T:
        """What became of the work. Raises Failed (model_broke_off) where `close` ended it."""
        try:
            return future.result()
        except CancelledError:
            detail = "it was closed before the answer was there: ask again"
            raise Failed(Failure(self._endpoint.name, "model_broke_off", detail)) from None
        finally:
            future.cancel()  # where the wait was interrupted, nobody wants it any more

    def close(self) -> None:
        """Ends whatever is under way, and the thread."""
        with self._turn:
            self._open = False
        self._end()
        self._thread.join()

    async def post(self, fields: dict[str, Any], hear: Callable[[bytes], bool]) -> None:
        """Sends the fields, and gives `hear` what comes back until it is all, or `hear` says so.

        Raises Trouble.
        """
        left = self._most_bytes
        async with AsyncExitStack() as stack:
            with self._worded():
                response = await stack.enter_async_context(self._asked(dict(fields)))
                data = await stack.enter_async_context(aclosing(response.iter_bytes()))
            while True:
                with self._worded(begun=True):
                    chunk = await anext(data, b"")
                left -= len(chunk)
                if left < 0:
                    raise bad_answer(f"the answer has more than {self._most_bytes} bytes: ask less")
                if not chunk or hear(chunk):
                    return

    def _asked(self, fields: dict[str, Any]) -> Any:
        """The library wants some of the fields by name, and passes on the rest."""
        model = fields.pop("model")
        if self._endpoint.kind == "chat":
            messages = fields.pop("messages")
            return self._client.chat.completions.with_streaming_response.create(
                model=model, messages=messages, extra_body=fields
            )
        prompt = fields.pop("prompt")
        return self._client.completions.with_streaming_response.create(
            model=model, prompt=prompt, extra_body=fields
        )

    @contextmanager
    def _worded(self, begun: bool = False) -> Iterator[None]:
        """Turns what the library raises into Trouble."""
        try:
            yield
        except Trouble:
            raise
        except Exception as error:
            cause = error.__cause__ or error
            if isinstance(cause, Trouble):  # one version of the library wraps it, the other not
                raise cause from None
            said = f"{type(cause).__name__}: {cause}"
            if begun:
                advice = "the answer broke off: ask again, and look into the server's log"
                raise Trouble("model_broke_off", advice, said, again=True) from None
            advice = "see whether it runs, and whether base_url leads to it"
            billed = not type(cause).__name__.startswith("Connect")
            raise Trouble("model_unreachable", advice, said, again=True, billed=billed) from None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


async def _end(client: AsyncOpenAI) -> None:
    """Ends whatever is under way in this loop, and the loop."""
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await client.close()
    await loop.shutdown_asyncgens()
    loop.call_soon(loop.stop)


def _client(endpoint: Endpoint, key: str) -> AsyncOpenAI:
    """The library's client, which sends what is given here and nothing from the environment."""
    if not sendable(key):
        raise Failed(Failure(endpoint.name, "no_key", "the key holds characters that no key has"))
    try:
        import openai
    except ImportError as error:
        detail = 'the client library is missing: pip install "rookery[models]"'
        raise Failed(Failure(endpoint.name, "no_openai", detail)) from error

    async def only_ours(request: Any) -> None:
        # The library adds an organisation, a project and any headers that the environment names.
        for name in [name for name in request.headers if name.lower() not in _SENT]:
            del request.headers[name]
        request.headers["Accept-Encoding"] = "identity"
        if key:
            request.headers["Authorization"] = f"Bearer {key}"

    async def refused(response: Any) -> None:
        if response.status_code >= 300:
            raise await _refusal(endpoint, response)

    # Reading all certificates takes 60 ms. Where nothing is encrypted, none need be trusted.
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
                event_hooks={"request": [only_ours], "response": [refused]},
            ),
        )
    except Exception as error:
        detail = f"base_url is no address that can be asked: {error}"
        raise Failed(Failure(endpoint.name, "bad_endpoint", detail)) from error


async def _refusal(endpoint: Endpoint, response: Any) -> Trouble:
    """What a status other than 200 says, of which the beginning is read."""
    body = b""
    with suppress(Exception):  # it is a refusal, even where its words break off
        async with aclosing(response.aiter_bytes()) as data:
            async for chunk in data:
                body += chunk
                if len(body) > _REFUSAL_BYTES:
                    break
    headers = {name.lower(): value for name, value in response.headers.items()}
    return refusal(endpoint, response.status_code, words(body[:_REFUSAL_BYTES]), headers)
