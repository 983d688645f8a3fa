"""MCP over standard input and output: one message per line, nothing else on standard output."""

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
from rookery.serve.api.answer_sessions import (
    AnswerCancelledError,
    AnswerOutcome,
    EventKind,
    QuestionRequest,
    SharedSessionPool,
    list_capabilities,
    parse_requested_question,
    resolve_settings,
)
from rookery.serve.mcp.browser_sessions import McpLibrary
from rookery.serve.mcp.protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    JsonObject,
    McpError,
    McpProtocol,
    build_error_reply,
    check_batch,
    decode_message,
    is_call,
    read_agreed_version,
    read_cancelled_id,
    read_request_id,
)
from rookery.serve.mcp.tools import McpTools, ToolCaller
from rookery.serve.settings import Settings

STDIO_OWNER = "standard input"
SendBytes = Callable[[bytes], None]


class StdioLimits(msgspec.Struct, frozen=True):
    """Limits on the messages and calls of one client."""

    line: int = 4_000_000
    """Maximum bytes of one message."""
    at_once: int = 8
    """Number of calls that run at the same time."""
    waiting: int = 256
    """Maximum number of calls that wait; further ones are refused."""


def serve_stdio(settings: Settings, any_address: bool = False) -> None:
    """Serve MCP on standard input and output until standard input ends."""
    send = _claim_stdout()
    source, answers = McpLibrary(settings, any_address), StdioAnswerer(settings)
    connection = StdioConnection(McpProtocol(McpTools(source)), answers, send)
    connection.run(read_stdio_lines(sys.stdin.buffer, connection.limits.line))
    answers.close()
    source.close()


def _claim_stdout() -> SendBytes:
    """Return a function that writes to standard output; redirect all other output to stderr."""
    out = os.dup(1)
    os.dup2(2, 1)

    def send_bytes(data: bytes) -> None:
        left = memoryview(data)
        with suppress(BrokenPipeError):  # a client that stops reading also closes our input
            while left:
                left = left[os.write(out, left) :]

    return send_bytes


def read_stdio_lines(stream: BinaryIO, longest: int) -> Iterator[bytes | None]:
    """Yield the non-empty lines of a stream; None for each line longer than `longest` bytes."""
    while line := stream.readline(longest):
        if len(line) < longest or line.endswith(b"\n"):
            if line.strip():
                yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(longest)
        yield None


class StdioAnswerer:
    """Answers questions with the command line's settings, without a store."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._capabilities = list_capabilities(settings)
        self._sessions = SharedSessionPool()

    def __call__(self, gone: Callable[[], bool], wanted: QuestionRequest) -> AnswerOutcome:
        """Answer a question. Raises Failed, and AnswerCancelledError once `gone()` is true."""
        settings = resolve_settings(self._settings, self._capabilities, wanted)
        question = parse_requested_question(wanted, "")
        question = msgspec.structs.replace(question, id=digest_of(question.text))

        def check_cancelled(kind: EventKind, data: dict[str, Any]) -> None:
            if gone():
                raise AnswerCancelledError

        with self._sessions.use_session(settings) as reading:
            return reading.answer_question(question, check_cancelled)

    def close(self) -> None:
        """Close libraries and models."""
        self._sessions.close()


class StdioConnection:
    """One client. Tool calls run on worker threads; other messages are answered at once."""

    def __init__(
        self,
        protocol: McpProtocol,
        answer: Callable[[Callable[[], bool], QuestionRequest], AnswerOutcome],
        send: SendBytes,
        limits: StdioLimits = StdioLimits(),
    ) -> None:
        self.limits = limits
        self._protocol = protocol
        self._answer = answer
        self._send_bytes = send
        self._version = ""
        self._lock, self._write_lock = threading.Lock(), threading.Lock()
        self._cancellations: dict[str | int, threading.Event] = {}
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(limits.waiting)

    def run(self, received: Iterator[bytes | None]) -> None:
        """Handle messages until `received` ends and every call has been answered."""
        # Daemon threads: an interrupted process must not wait for calls.
        hands = [
            threading.Thread(target=self._run_worker, daemon=True)
            for _ in range(self.limits.at_once)
        ]
        for hand in hands:
            hand.start()
        for line in received:
            self._handle_line(line)
        for _ in hands:
            self._queue.put(None)
        for hand in hands:
            hand.join()

    def _handle_line(self, line: bytes | None) -> None:
        try:
            if line is None:
                raise McpError(INVALID_REQUEST, f"a message has at most {self.limits.line:,} bytes")
            message = decode_message(line)
            check_batch(message, self._version)
        except McpError as refusal:
            self._send(build_error_reply(refusal))
            return
        identity = read_request_id(message)
        if not is_call(message):
            self._reply_immediately(message)
        elif self._queue.full():  # and stays so until a call ends: nobody else adds to it
            sentence = "too much is asked at once: wait for some answers, then ask again"
            self._send(build_error_reply(McpError(INTERNAL_ERROR, sentence), identity))
        else:
            cancelled = threading.Event()
            if identity is not None:  # a list has none
                with self._lock:
                    self._cancellations[identity] = cancelled
            self._queue.put(partial(self._reply_to, message, cancelled))

    def _reply_immediately(self, message: Any) -> None:
        """Answer a message that is not a tool call, and apply cancellations."""
        identity = read_cancelled_id(message)
        with self._lock:
            if identity is not None and identity in self._cancellations:
                self._cancellations[identity].set()
        caller = ToolCaller(STDIO_OWNER, partial(self._answer, lambda: False))
        reply = self._protocol.answer_message(message, caller)
        self._version = read_agreed_version(reply) or self._version
        if reply is not None:
            self._send(reply)

    def _run_worker(self) -> None:
        while (work := self._queue.get()) is not None:
            work()

    def _reply_to(self, message: Any, cancelled: threading.Event) -> None:
        caller = ToolCaller(STDIO_OWNER, partial(self._answer, cancelled.is_set))
        reply = None if cancelled.is_set() else self._protocol.answer_message(message, caller)
        identity = read_request_id(message)
        with self._lock:  # the client may reuse the id once it has the answer
            if identity is not None and self._cancellations.get(identity) is cancelled:
                del self._cancellations[identity]
        if reply is not None and not cancelled.is_set():
            self._send(reply)

    def _send(self, reply: JsonObject | list[JsonObject]) -> None:
        data = msgspec.json.encode(reply) + b"\n"
        with self._write_lock:
            self._send_bytes(data)
