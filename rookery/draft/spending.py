"""What may be spent on models, and what has been, by however many of them and their threads.

It knows nothing of requests but what they cost.
"""

import threading
from functools import reduce
from typing import NamedTuple

import msgspec

from rookery.draft.endpoint import Endpoint
from rookery.records import Failed, Failure, Record

_TEMPLATE = 256
"""tokens that a server may put around a prompt"""


class Cap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most that may be spent; None: no limit."""

    tokens: int | None = None
    """of prompts and completions together"""
    money: float | None = None
    """in the currency of the endpoints' prices"""

    def __post_init__(self) -> None:
        if (self.tokens or 0) < 0 or (self.money or 0) < 0:
            raise ValueError("Cap.tokens and .money must be at least 0")


class Usage(NamedTuple):
    """Tokens of one request."""

    prompt: int
    said: int
    """those of all its completions, thoughts included"""


class Spent(Record, frozen=True):
    """What requests have taken so far. Where a server did not say, it is what they may have."""

    requests: int = 0
    prompt: int = 0
    """tokens"""
    said: int = 0
    """tokens"""
    money: float = 0.0
    """of the endpoints that have prices"""

    def plus(self, other: "Spent") -> "Spent":
        """The two together."""
        requests, money = self.requests + other.requests, self.money + other.money
        return Spent(requests, self.prompt + other.prompt, self.said + other.said, money)


def most(prompt: str, n: int, endpoint: Endpoint) -> Usage:
    """The tokens that n completions can take at most: none of a prompt is less than a byte."""
    size = len(prompt.encode("utf-8", "surrogatepass"))
    return Usage(size + _TEMPLATE, n * endpoint.max_tokens)


def cost(usage: Usage, endpoint: Endpoint) -> Spent:
    """What one request takes with this usage."""
    prices = (endpoint.price_in or 0.0) * usage.prompt + (endpoint.price_out or 0.0) * usage.said
    return Spent(1, usage.prompt, usage.said, prices / 1e6)


class Spending:
    """What has been spent of a cap. Models and threads may share one.

    A request reserves the most that it can take before it is sent, and settles for what it took,
    so that the cap holds however many are under way.
    """

    def __init__(self, cap: Cap = Cap()) -> None:
        self.cap = cap
        self._turn = threading.Lock()
        self._spent = Spent()
        self._reserved: list[Spent] = []

    @property
    def spent(self) -> Spent:
        """So far."""
        return self._spent

    def reserve(self, most: Spent, what: str) -> bool:
        """Sets this aside; False while requests under way may yet leave enough for it.

        Raises Failed (spending_cap) where too much has been spent already.
        """
        with self._turn:
            if excess := self._excess(self._spent.plus(most)):
                raise Failed(Failure(what, "spending_cap", excess))
            if self._excess(reduce(Spent.plus, self._reserved, self._spent.plus(most))):
                return False
            self._reserved.append(most)
            return True

    def settle(self, most: Spent, taken: Spent) -> None:
        """Counts what was taken, in place of what was set aside."""
        with self._turn:
            self._reserved.remove(most)
            self._spent = self._spent.plus(taken)

    def _excess(self, total: Spent) -> str:
        """What is wrong with a total, if anything."""
        tokens, money = total.prompt + total.said, total.money
        cap, spent = self.cap, self._spent
        if cap.tokens is not None and tokens > cap.tokens:
            numbers = f"{spent.prompt + spent.said} of {cap.tokens} tokens"
            up_to = f"{tokens - spent.prompt - spent.said} more"
        elif cap.money is not None and money > cap.money:
            numbers = f"{spent.money:.6g} of {cap.money:.6g}"
            up_to = f"{money - spent.money:.6g} more"
        else:
            return ""
        return f"{numbers} are spent, and this may take {up_to}: raise the cap, or lower max_tokens"
