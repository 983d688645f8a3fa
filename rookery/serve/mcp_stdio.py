"""MCP over standard input and output: a message a line, and nothing else on standard output.

It knows nothing of what the messages mean, except which ask for work and which call it off.
"""

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

import msgspec

from rookery.records import digest_of
from rookery.serve.mcp import (
    BATCH,
    BATCHED,
    BROKEN,
    CANCELLED,
    INVALID,
    Json,
    Protocol,
    Refusal,
    decoded,
    error,
    id_of,
)
from rookery.serve.mcp_browsers import Source
from rookery.serve.mcp_tools import Caller, Tools
from rookery.serve.session import Settings
from rookery.serve.web.libraries import Gone, Readings
from rookery.serve.web.wanted import Answered, Kind, Wanted, offers, question_of, settings_for

OWNER = "standard input"
Send = Callable[[bytes], None]


class LineLimits(msgspec.Struct, frozen=True):
    """How much a client may send."""

    line: int = 4_000_000
    """bytes of one message"""
    at_once: int = 8
    """calls that are worked on at the same time"""
    waiting: int = 256
    """calls that may wait; more are refused"""


def serve_stdio(settings: Settings, any_address: bool = False) -> None:
    """Answers on standard output what stands on standard input, until that ends."""
    send = _only_ours()
    source, answers = Source(settings, any_address), Answers(settings)
    connection = Connection(Protocol(Tools(source)), answers, send)
    connection.run(lines(sys.stdin.buffer, connection.limits.line))
    answers.close()
    source.close()


def _only_ours() -> Send:
    """Writes to standard output; whatever else is printed goes to standard error from now on."""
    out = os.dup(1)
    os.dup2(2, 1)

    def send(data: bytes) -> None:
        left = memoryview(data)
        with suppress(BrokenPipeError):  # who does not read on will close our input, too
            while left:
                left = left[os.write(out, left) :]

    return send


def lines(stream: BinaryIO, longest: int) -> Iterator[bytes | None]:
    """The lines that hold anything; None for each that is too long."""
    while line := stream.readline(longest):
        if len(line) < longest or line.endswith(b"\n"):
            if line.strip():
                yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(longest)
        yield None


class Answers:
    """Answers questions as the command line says, where there is no store to keep them in."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._offers = offers(settings)
        self._readings = Readings()

    def __call__(self, gone: Callable[[], bool], wanted: Wanted) -> Answered:
        """The answer. Raises Failed, and Gone as soon as `gone` says so."""
        settings = settings_for(self._settings, self._offers, wanted)
        question = question_of(wanted, "")
        question = msgspec.structs.replace(question, id=digest_of(question.text))

        def hear(kind: Kind, data: dict[str, Any]) -> None:
            if gone():
                raise Gone

        with self._readings.using(settings) as reading:
            return reading.read(question, hear)

    def close(self) -> None:
        """Lets go of libraries and models."""
        self._readings.close()


class Connection:
    """One client. Calls are worked on side by side, all else at once."""

    def __init__(
        self,
        protocol: Protocol,
        answer: Callable[[Callable[[], bool], Wanted], Answered],
        send: Send,
        limits: LineLimits = LineLimits(),
    ) -> None:
        self.limits = limits
        self._protocol = protocol
        self._answer = answer
        self._send_bytes = send
        self._version = ""
        self._turn, self._writing = threading.Lock(), threading.Lock()
        self._called_off: dict[str | int, threading.Event] = {}
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue(limits.waiting)

    def run(self, received: Iterator[bytes | None]) -> None:
        """Until nothing more is received and everything is answered."""
        # Who is stopped must not wait for them.
        hands = [
            threading.Thread(target=self._hand, daemon=True) for _ in range(self.limits.at_once)
        ]
        for hand in hands:
            hand.start()
        for line in received:
            self._take(line)
        for _ in hands:
            self._work.put(None)
        for hand in hands:
            hand.join()

    def _take(self, line: bytes | None) -> None:
        try:
            if line is None:
                raise Refusal(INVALID, f"a message has at most {self.limits.line:,} bytes")
            message = decoded(line)
            if isinstance(message, list):
                self._require_batch(message)
        except Refusal as refusal:
            self._send(error(refusal))
            return
        if isinstance(message, list):
            self._enqueue(partial(self._reply_to_all, message), None)
        elif _asks_for_work(message):
            off = threading.Event()
            with self._turn:  # from now on it can be called off
                self._called_off[message["id"]] = off
            self._enqueue(partial(self._reply_to, message, off), message["id"])
        else:
            self._at_once(message)

    def _at_once(self, message: Any) -> None:
        """What takes no time: all but calls."""
        if isinstance(message, dict) and message.get("method") == CANCELLED:
            params = message.get("params")
            identity = params.get("requestId") if isinstance(params, dict) else None
            with self._turn:
                if isinstance(identity, str | int) and identity in self._called_off:
                    self._called_off[identity].set()
        reply = self._protocol.reply(message, Caller(OWNER, partial(self._answer, lambda: False)))
        if reply is not None:
            if "protocolVersion" in reply.get("result", {}):
                self._version = reply["result"]["protocolVersion"]
            self._send(reply)

    def _require_batch(self, messages: list[Any]) -> None:
        if self._version not in BATCHED:
            raise Refusal(INVALID, "this revision of the protocol takes one message at a time")
        if not 1 <= len(messages) <= BATCH:
            raise Refusal(INVALID, f"a list holds from 1 to {BATCH} messages")

    def _enqueue(self, work: Callable[[], None], identity: str | int | None) -> None:
        try:
            self._work.put_nowait(work)
        except queue.Full:
            sentence = "too much is asked at once: wait for some answers, then ask again"
            self._send(error(Refusal(BROKEN, sentence), identity))

    def _hand(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _reply_to(self, message: Json, off: threading.Event) -> None:
        caller = Caller(OWNER, partial(self._answer, off.is_set))
        reply = None
        with suppress(Gone):
            reply = None if off.is_set() else self._protocol.reply(message, caller)
        with self._turn:  # the client may use the id again once it has the answer
            if self._called_off.get(message["id"]) is off:
                del self._called_off[message["id"]]
        if reply is not None and not off.is_set():
            self._send(reply)

    def _reply_to_all(self, messages: list[Any]) -> None:
        caller = Caller(OWNER, partial(self._answer, lambda: False))
        replies = [self._protocol.reply(message, caller) for message in messages]
        if said := [reply for reply in replies if reply is not None]:
            self._send(said)

    def _send(self, reply: Json | list[Json]) -> None:
        data = msgspec.json.encode(reply) + b"\n"
        with self._writing:
            self._send_bytes(data)


def _asks_for_work(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and message.get("method") == "tools/call"
        and id_of(message) is not None
    )
