"""Models behind any server that speaks as OpenAI's does, as policies.

It knows tries, waits and budgets. What a request looks like, and how it is sent, is not its work.
"""

import asyncio
import math
import random
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from queue import SimpleQueue
from typing import Any, Literal, NoReturn, Protocol, Self, TypeVar

import msgspec

from rookery.draft.connection import Connection
from rookery.draft.endpoint import Endpoint
from rookery.draft.rollout import Act, Turn, writable
from rookery.draft.spending import Spending, Spent, cost, most
from rookery.draft.stops import certain, cut
from rookery.draft.trouble import Trouble
from rookery.draft.wire import Asked, Heard, Streamed, Whole, body, remedy
from rookery.records import Completion, Failed, Failure

Allow = Callable[[Sequence[int]], Iterable[int]] | None
Seed = int | None
T = TypeVar("T")
_SAID = 300
"""characters of a server's words that a sentence repeats"""


class Model(Protocol):
    """A Policy that takes seeds and grammars, and can be heard while it speaks."""

    name: str

    def complete(
        self, prompt: str, n: int = 1, allow: Allow = None, seed: Seed = None, grammar: str = ""
    ) -> Sequence[Completion]:
        """n completions of one prompt."""

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """One completion, piece by piece; it is returned as well, when it is whole."""


class RemoteLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much is asked of a server at a time, how long it may take, how often it is tried."""

    at_once: int = 16
    """requests under way"""
    seconds: float = 300.0
    """for one try, from asking to the last word"""
    deadline: float = 900.0
    """seconds for all tries of one request and the waits between them"""
    tries: int = 5
    wait: float = 1.0
    """seconds before the second try, doubled before each further one; half of it is by chance"""
    longest_wait: float = 60.0
    """seconds; a server that asks for more (Retry-After) is not asked again"""
    bytes: int = 16 * 2**20
    """of one answer"""

    def __post_init__(self) -> None:
        if self.at_once < 1 or self.tries < 1 or self.bytes < 1:
            raise ValueError("RemoteLimits.at_once, .tries and .bytes must be at least 1")
        if self.seconds <= 0 or self.deadline <= 0 or self.wait < 0 or self.longest_wait < 0:
            raise ValueError("RemoteLimits: seconds must be more than 0, waits at least 0")


class Remote:
    """The model of an endpoint. Threads may share one.

    What a server refuses for a time (429, 5xx), and a connection that fails, is tried again; every
    method that asks raises Failed with one of `trouble.OUTCOMES`, and never shows the key. `close`
    ends its thread and whatever is under way. Raises Failed: no_openai where the client library is
    missing, bad_endpoint.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        key: str = "",
        limits: RemoteLimits = RemoteLimits(),
        spending: Spending | None = None,
    ) -> None:
        self.name = endpoint.model
        self._endpoint = endpoint
        self._key = key
        self._limits = limits
        self._spending = spending or Spending()
        if self._spending.cap.money is not None and None in (endpoint.price_in, endpoint.price_out):
            detail = "a cap on money needs to know what it costs: set price_in and price_out"
            raise Failed(Failure(endpoint.name, "bad_endpoint", detail))
        self._slots = asyncio.Semaphore(limits.at_once)
        self._remedies: frozenset[str] = frozenset()
        self._chance = random.Random()
        self._connection = Connection(endpoint, key, limits.bytes)

    def complete(
        self, prompt: str, n: int = 1, allow: Allow = None, seed: Seed = None, grammar: str = ""
    ) -> list[Completion]:
        """n completions of one prompt, in one request where the server can, or else in several.

        `grammar`, in llguidance's dialect of Lark, is passed on for the server to keep to; some do
        not (see `probe_grammar`). Raises ValueError for `allow`: a server's tokens are its own.
        """
        if allow is not None:
            raise ValueError("a remote model cannot be told its tokens: give it a grammar instead")
        if n < 1:
            raise ValueError("n must be at least 1")
        asked = Asked(writable(prompt), n, seed, grammar)
        return self._connection.wait(self._connection.start(self._completions(asked)))

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """The pieces of one completion as they come; it is returned too, when it is whole.

        One that breaks off raises Failed, whatever has been given. Closing the iterator ends the
        request. Thoughts are left out.
        """
        pieces: SimpleQueue[str | None] = SimpleQueue()
        asked = Asked(writable(prompt), seed=seed, stream=True)
        heard = self._connection.start(
            self._insist(asked, lambda: Streamed(self._endpoint, pieces.put))
        )
        heard.add_done_callback(lambda _: pieces.put(None))
        try:
            text, given = "", 0
            while (piece := pieces.get()) is not None:
                text += piece
                start, given = given, certain(text, self._endpoint.stop)
                if start < given:
                    yield text[start:given]
            said = cut(self._connection.wait(heard).completions[0], self._endpoint.stop)
            if said.text[given:]:
                yield said.text[given:]
            return said
        finally:
            heard.cancel()

    def close(self) -> None:
        """Ends what is under way (model_broke_off); it cannot be asked after this."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def _completions(self, asked: Asked) -> list[Completion]:
        first: Heard | None = None
        if asked.n > 1 and "single" not in self._remedies:
            try:
                first = await self._insist(asked, self._whole)
            except Failed as failed:
                if failed.failure.outcome != "model_refused":
                    raise
        got = first.completions if first else []
        seed = self._endpoint.seed if asked.seed is None else asked.seed
        rest = [
            asked._replace(n=1, seed=None if seed is None else seed + number)
            for number in range(len(got), asked.n)
        ]
        more = await _together(self._insist(one, self._whole) for one in rest)
        if asked.n > 1 and (first is None or first.choices == 1):
            self._remedies |= {"single"}
        every = [*got, *(heard.completions[0] for heard in more)][: asked.n]
        return [cut(said, self._endpoint.stop) for said in every]

    def _whole(self) -> Whole:
        return Whole(self._endpoint)

    async def _insist(self, asked: Asked, listen: Callable[[], Whole | Streamed]) -> Heard:
        """Tries until it is answered. Raises Failed."""
        clock = asyncio.get_running_loop().time
        async with self._slots:
            until, number = clock() + self._limits.deadline, 1
            while True:
                listener, fields = listen(), body(self._endpoint, asked, self._remedies)
                try:
                    return await self._try(asked, fields, listener, until - clock())
                except Trouble as trouble:
                    if found := remedy(trouble, fields):
                        self._remedies |= {found}
                        continue
                    wait = self._wait(trouble, number)
                    hopeless = listener.spoke or not trouble.again
                    if hopeless or number >= self._limits.tries or clock() + wait >= until:
                        self._fail(trouble, number)
                await asyncio.sleep(wait)
                number += 1

    async def _try(
        self, asked: Asked, fields: dict[str, Any], listener: Whole | Streamed, seconds: float
    ) -> Heard:
        """Asks once. What may have been billed is counted in full where the server does not say."""
        seconds = min(self._limits.seconds, seconds)
        highest = cost(most(asked.prompt, asked.n, self._endpoint), self._endpoint)
        while not self._spending.reserve(highest, self._endpoint.name):
            await asyncio.sleep(0.02)
        taken = highest
        try:
            async with asyncio.timeout(seconds):
                await self._connection.post(fields, listener.hear)
            heard = listener.end()
            if heard.usage:
                taken = cost(heard.usage, self._endpoint)
            return heard
        except TimeoutError:
            advice = f"no whole answer after {seconds:g} seconds: allow more, or ask for less"
            raise Trouble("model_timed_out", advice, again=True) from None
        except Trouble as trouble:
            taken = highest if trouble.billed else Spent()
            raise
        finally:
            self._spending.settle(highest, taken)

    def _wait(self, trouble: Trouble, number: int) -> float:
        """Seconds before the next try; for ever where the server asks for too many."""
        longest = self._limits.longest_wait
        wait = self._limits.wait * 2.0 ** (number - 1) * (0.5 + self._chance.random() / 2)
        return min(wait, longest) + trouble.after if trouble.after <= longest else math.inf

    def _fail(self, trouble: Trouble, number: int) -> NoReturn:
        said = trouble.said.replace(self._key, "***") if self._key else trouble.said
        parts = [
            f"{trouble.advice} ({number} tries)" if number > 1 else trouble.advice,
            f"it wants no other try for {trouble.after:.0f} seconds" if trouble.after else "",
            f"it says: {said[:_SAID]}" if said else "",
        ]
        detail = "; ".join(filter(None, parts))
        raise Failed(Failure(self._endpoint.name, trouble.outcome, detail)) from None


async def _together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What comes of all of it; where one fails, the others are ended."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def together(model: Model, at_once: int = 16) -> Act:
    """A policy for `rollouts`: at most so many turns at once in threads, each with its seed.

    What was said before another turn failed is kept for when it is asked again, and so is a
    failure, for when its turn is asked alone: the model has tried often enough.
    """
    kept: dict[Turn, Completion] = {}
    failed: dict[Turn, Exception] = {}

    def say(turn: Turn) -> None:
        try:
            kept[turn] = model.complete(turn.observation.prompt, seed=turn.seed)[0]
        except Exception as error:
            failed[turn] = error

    def act(turns: Sequence[Turn]) -> list[Completion]:
        _in_threads(
            say, [turn for turn in turns if turn not in kept and turn not in failed], at_once
        )
        for turn in turns:
            if turn in failed:
                raise failed.pop(turn) if len(turns) == 1 else failed[turn]
        return [kept.pop(turn) for turn in turns]

    return act


def _in_threads(say: Callable[[Turn], None], turns: Sequence[Turn], at_once: int) -> None:
    """Lets each turn be said. The threads are daemons, so that none holds up the end of a run."""
    waiting = SimpleQueue[Turn | None]()
    threads = [
        threading.Thread(target=_say_all, args=(say, waiting), name="model: turns", daemon=True)
        for _ in turns[:at_once]
    ]
    for turn in turns:
        waiting.put(turn)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _say_all(say: Callable[[Turn], None], waiting: "SimpleQueue[Turn | None]") -> None:
    while (turn := waiting.get()) is not None:
        say(turn)


PROBE = "rookery-probe-7"
PROBE_GRAMMAR = f"""start: PROBED
PROBED: PART & /(?s:.{{{len(PROBE)}}})/
PART: %regex {{"substring_chars": "{PROBE}"}}
"""
"""needs all of the dialect that quotes need, and allows one string"""


def probe_grammar(model: Model) -> Literal["obeyed", "ignored", "refused"]:
    """Whether a server keeps to a grammar: several take one and write what they like.

    refused: it answers that it cannot. Raises Failed for all that has nothing to do with grammars,
    and ValueError where the endpoint does not say which server it is.
    """
    try:
        said = model.complete("What is the weather like today?", grammar=PROBE_GRAMMAR)
    except Failed as failed:
        if failed.failure.outcome == "model_refused":
            return "refused"
        raise
    return "obeyed" if said[0].text == PROBE else "ignored"
