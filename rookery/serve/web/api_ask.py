"""A question of a program, answered in a thread while the loop hears what happens.

Whoever no longer listens stops the work. It knows nothing of conventions.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.requests import Request

from rookery.browse.places import is_url
from rookery.records import Episode, Failed, Quote
from rookery.serve.terminal import WITHOUT_ANSWER, reasons
from rookery.serve.web.answering import Answering, answering_of
from rookery.serve.web.api_cited import Source, sources
from rookery.serve.web.api_door import Call
from rookery.serve.web.api_errors import BROKEN, TOLD, Refused, late, no_model, worded
from rookery.serve.web.api_keys import give_back, spend
from rookery.serve.web.libraries import Gone
from rookery.serve.web.wanted import (
    Answered,
    Kind,
    Wanted,
)

Worked = TypeVar("Worked")
LEFT = "Nobody waits for the answer."
BAD = ("bad_question", "bad_decline", "bad_samples", "unknown_method", "unknown_place")
PARAMS = {"unknown_method": "method", "unknown_place": "places"}


class Heard(NamedTuple):
    """Something that happened on the way to an answer."""

    kind: Kind
    data: dict[str, Any]


class About(msgspec.Struct, frozen=True):
    """What this server knows of an answer, beside what the convention has a place for."""

    method: str
    stop: str
    """end, or why there is no answer"""
    declined: bool
    score: float | None
    """how likely the answer is to be good, as far as its method says"""
    verified: int
    """quotes that the stored copies of their pages hold, word for word"""
    sources: tuple[Source, ...]
    """the quotes that the answer rests on; of one that was declined, the nearest that were found"""
    failures: dict[str, int]
    """how often something could not be searched or opened, by the reason"""
    ignored: tuple[str, ...]
    """fields of the request that mean nothing here"""


async def told(call: Call, wanted: Wanted) -> AsyncGenerator[Heard | Answered, None]:
    """What happens while the question is answered, and the answer as the last.

    Raises Refused where there is none. Who closes this early ends the work.
    """
    loop, heard, gone = asyncio.get_running_loop(), asyncio.Queue[Heard | None](), threading.Event()

    def hear(kind: Kind, data: dict[str, Any]) -> None:
        if not gone.is_set():
            loop.call_soon_threadsafe(heard.put_nowait, Heard(kind, data))

    work = asyncio.create_task(_worked(call, wanted, hear, gone))

    def over(done: asyncio.Task[Answered]) -> None:
        done.cancelled() or done.exception()  # looked at, though nobody may wait for it
        heard.put_nowait(None)

    work.add_done_callback(over)
    deadline = time.monotonic() + call.limits.answering
    try:
        while (
            each := await asyncio.wait_for(heard.get(), deadline - time.monotonic())
        ) is not None:
            yield each
        yield await work
    except TimeoutError:
        raise late() from None
    finally:
        gone.set()


async def _worked(call: Call, wanted: Wanted, hear: Any, gone: threading.Event) -> Answered:
    answering = answering_of(call.request)
    return await call.at_length(partial(_paid, call, answering, wanted, hear, gone))


def _paid(
    call: Call, answering: Answering, wanted: Wanted, hear: Any, gone: threading.Event
) -> Answered:
    """The answer, out of the key's budget; what comes to nothing costs nothing. Raises Refused."""
    if gone.is_set():
        raise Refused(499, LEFT, "gone")
    spend(call.store, call.key)
    try:
        answered = answering.now(wanted, hear, gone.is_set)
        refuse_broken(answered.episode)
    except Gone:
        raise Refused(499, LEFT, "gone") from None
    except Failed as trouble:
        give_back(call.store, call.key)
        raise refused(trouble) from trouble
    except BaseException:
        give_back(call.store, call.key)
        raise
    return answered


def refused(trouble: Failed) -> Refused:
    """What a program is told of a question that cannot be answered."""
    failure = trouble.failure
    if failure.outcome in BAD:
        unknown = failure.outcome.startswith("unknown")
        param = PARAMS.get(failure.outcome, failure.what)
        return Refused(
            404 if unknown else 400, f"{param}: {failure.detail}.", failure.outcome, param
        )
    if failure.outcome == "unknown_model":
        return no_model(failure.what)
    return worded(trouble, "an answer")


def refuse_broken(episode: Episode) -> None:
    """Raises Failed where no model could be asked: that is no answer, and no decline."""
    if episode.stop == "policy_failed" and episode.failures:
        why = (failure for failure in episode.failures if failure.outcome in TOLD)
        raise Failed(next(why, episode.failures[-1]))


async def waited(call: Call, wanted: Wanted) -> tuple[list[Heard], Answered]:
    """All that happened, and the answer. Raises Refused; who goes away ends the work."""
    async with aclosing(told(call, wanted)) as telling:
        return await unless_left(call.request, _collected(telling))


async def unless_left(request: Request, work: Coroutine[Any, Any, Worked]) -> Worked:
    """What comes of it, unless whoever asked goes away before. Raises Refused then."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise Refused(499, LEFT, "gone")
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _collected(telling: AsyncIterator[Heard | Answered]) -> tuple[list[Heard], Answered]:
    heard: list[Heard] = []
    async for each in telling:
        if isinstance(each, Answered):
            return heard, each
        heard.append(each)
    raise Refused(500, BROKEN)


async def _left(request: Request) -> None:
    """Until whoever asked is gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def about(call: Call, answered: Answered, ignored: tuple[str, ...] = ()) -> About:
    """What is known of an answer."""
    episode, answer = answered.episode, answered.episode.answer
    return About(
        episode.by,
        episode.stop,
        answer is None or answer.declined,
        answer.score if answer else None,
        sum(verdict.verified for verdict in answered.verdicts),
        sources(answered.verdicts, Addresses(call).of),
        episode.counts(),
        (*call.ignored, *ignored),
    )


def declining(episode: Episode) -> str:
    """What is said in place of an answer; empty: there is one."""
    if episode.answer is not None:
        return episode.answer.text if episode.answer.declined else ""
    words = WITHOUT_ANSWER.get(episode.stop, "no answer")
    counted = ", ".join(reasons(episode.failures))
    sentence = f"{words[0].upper()}{words[1:]}"
    return f"{sentence} ({counted})." if counted else f"{sentence}."


class Addresses:
    """Where a program finds pages: on the web or, of files here, on this server; no paths."""

    def __init__(self, call: Call) -> None:
        self._base = str(call.request.base_url).rstrip("/")

    def of(self, quote: Quote) -> str:
        """Where the page of a quote is; of a file, the stored page with the quote marked."""
        span = f"?start={quote.start}&end={quote.end}#quote"
        return self.stored(quote.url, quote.digest, span)

    def stored(self, url: str, digest: str, span: str = "") -> str:
        """Where the page at a URL is, of which this version is stored."""
        return url if is_url(url) else f"{self._base}/pages/{digest}{span}"

    def named(self, url: str) -> str:
        """The same where only the URL is known: of a file, its name alone."""
        here = url.lower().startswith(("file:", "/"))
        return f"file:///{url.rpartition('/')[2]}" if here else url
