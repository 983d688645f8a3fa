"""What a model's server is sent and what comes back: requests, answers, streams, thoughts.

It knows the fields and turns them into Completions. It opens no connection.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from rookery.draft.endpoint import Endpoint
from rookery.draft.spending import Usage
from rookery.draft.trouble import Trouble, bad_answer, refusal, words
from rookery.records import Completion

T = TypeVar("T")

STOPS = ("end", "length", "content_filter", "refusal", "unknown")
"""why a completion stops: it is at its end (or at a stop string), has all the tokens that it may
have, was cut by a filter, is the model's refusal, or the server did not say"""
_STOPS = {
    "stop": "end",
    "eos": "end",
    "eos_token": "end",
    "stop_sequence": "end",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
_BROKEN = ("abort", "cancelled", "error", "insufficient_system_resource")


class Asked(NamedTuple):
    """What one request asks."""

    prompt: str
    n: int = 1
    seed: int | None = None
    grammar: str = ""
    stream: bool = False


SPARED = ("stream_options", "logprobs")
"""fields that some servers refuse, and that can be done without"""


def body(endpoint: Endpoint, asked: Asked, remedies: frozenset[str]) -> dict[str, Any]:
    """The fields of a request. `remedies` are those that the server was found to need."""
    fields: dict[str, Any] = {"model": endpoint.model, "max_tokens": endpoint.max_tokens}
    if endpoint.kind == "chat":
        fields["messages"] = [{"role": "user", "content": asked.prompt}]
    else:
        fields["prompt"] = asked.prompt
    if asked.n > 1:
        fields["n"] = asked.n
    seed = endpoint.seed if asked.seed is None else asked.seed
    if seed is not None:
        fields["seed"] = seed % 2**31  # some servers keep no more bits than that
    if endpoint.temperature is not None:
        fields["temperature"] = endpoint.temperature
    if endpoint.stop:
        fields["stop"] = list(endpoint.stop)
    if endpoint.logprobs:
        fields["logprobs"] = True if endpoint.kind == "chat" else 1
    if asked.stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    if "max_completion_tokens" in remedies:
        fields["max_completion_tokens"] = fields.pop("max_tokens")
    for name in remedies.intersection(SPARED):
        fields.pop(name, None)
    return fields | _grammar(endpoint, asked.grammar) | endpoint.extra


def remedy(trouble: Trouble, fields: dict[str, Any]) -> str:
    """What to do otherwise after a server refused these fields, if its words tell."""
    if trouble.outcome == "model_refused":
        if "max_completion_tokens" in trouble.said and "max_tokens" in fields:
            return "max_completion_tokens"
        for name in SPARED:
            if name in trouble.said and name in fields:
                return name
    return ""


def _grammar(endpoint: Endpoint, grammar: str) -> dict[str, Any]:
    """The field in which this server takes a grammar in llguidance's dialect of Lark."""
    if not grammar:
        return {}
    if endpoint.grammars == "vllm":
        return {"structured_outputs": {"grammar": grammar}}
    if endpoint.grammars == "sglang":
        return {"ebnf": grammar}
    if endpoint.grammars == "llama.cpp":
        marked = grammar.startswith("%llguidance")  # anything else is read as GBNF there
        return {"grammar": grammar if marked else f"%llguidance {{}}\n{grammar}"}
    raise ValueError("set Endpoint.grammars to the server that is to take a grammar")


class _Message(msgspec.Struct, frozen=True):
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    reasoning: Any = None
    reasoning_content: Any = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message | None = None
    delta: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Any = None
    token_ids: Any = None

    @property
    def said(self) -> _Message:
        """What it says, in whichever field."""
        return self.message or self.delta or _Message(self.text)


class _Reply(msgspec.Struct, frozen=True):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


_reply = msgspec.json.Decoder(_Reply)


def _decoded(data: bytes | bytearray, endpoint: Endpoint) -> _Reply:
    """A whole answer, or one event of a stream. Raises Trouble."""
    try:
        reply = _reply.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise bad_answer(
            f"it answers what is no answer of a model ({error}): see whether base_url ends in /v1",
            words(bytes(data[:2000])),
        ) from None
    if reply.error:
        code = reply.error.get("code") if isinstance(reply.error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        raise refusal(endpoint, status, words(msgspec.json.encode(reply.error)), {})
    return reply


class Heard(NamedTuple):
    """What came of a request."""

    completions: list[Completion]
    usage: Usage | None
    choices: int = 1
    """that the server gave; those that say nothing are no completions"""


class Whole:
    """An answer that comes in one piece."""

    spoke = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._data = bytearray()

    def hear(self, data: bytes) -> bool:
        """Takes what has come; whether that was all."""
        self._data += data
        return False

    def end(self) -> Heard:
        """What it was, now that all has come. Raises Trouble."""
        reply = _decoded(self._data, self._endpoint)
        if not reply.choices:
            raise bad_answer(
                "its answer has no choices: see its log", words(bytes(self._data[:2000]))
            )
        good, bad = [], []
        for choice in reply.choices:
            try:
                good.append(_completion(choice))
            except Trouble as trouble:
                bad.append(trouble)
        if not good:
            raise bad[0]
        return Heard(good, _usage(reply.usage), len(reply.choices))


class Streamed:
    """An answer that comes in pieces; `say` is given each piece of text, thoughts left out."""

    def __init__(self, endpoint: Endpoint, say: Callable[[str], None]) -> None:
        self.spoke = False
        """whether anything has been said"""
        self._endpoint = endpoint
        self._say = say
        self._heard = False
        self._whole: Whole | None = None
        self._line = b""
        self._event: list[bytes] = []
        self._choices: list[_Choice] = []
        self._usage: Any = None
        self._done = False
        self._held = ""
        self._given: list[str] = []

    def hear(self, data: bytes) -> bool:
        """Takes what has come; whether that was all. Raises Trouble."""
        if not self._heard and data.lstrip()[:1] == b"{":
            self._whole = Whole(self._endpoint)  # it does not stream
        self._heard = self._heard or bool(data.strip())
        if self._whole:
            return self._whole.hear(data)
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            self._hear_line(line.rstrip(b"\r"))
        return self._done

    def end(self) -> Heard:
        """What was said in all. Raises Trouble where it has no end."""
        if self._whole:
            heard = self._whole.end()
        else:
            with suppress(Trouble):  # a part of an event is none
                self._hear_line(self._line)
                self._hear_line(b"")
            heard = Heard([_completion(self._joined())], _usage(self._usage))
        text, given = heard.completions[0].text, "".join(self._given)
        if not text.startswith(given):
            raise bad_answer("it streams its thoughts as text: start it with its reasoning parser")
        if text != given:
            self._say(text[len(given) :])
        return heard

    def _hear_line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._event.append(line[5:].removeprefix(b" "))
        elif not line and self._event:
            data, self._event = b"\n".join(self._event), []
            if data.strip() == b"[DONE]":
                self._done = True
            elif data.strip():
                self._hear_event(_decoded(data, self._endpoint))

    def _hear_event(self, reply: _Reply) -> None:
        self._usage = reply.usage or self._usage
        for choice in (reply.choices or [])[:1]:
            self._choices.append(choice)
            if text := _text(choice.said):
                self._hear_text(text)

    def _hear_text(self, text: str) -> None:
        """Says it, unless it may be part of a thought."""
        if not self._given:
            self._held += text
            text = _begun(self._held)
        if text:
            self.spoke = True
            self._given.append(text)
            self._say(text)

    def _joined(self) -> _Choice:
        """All choices as one. Raises Trouble where neither the last nor the server said it ends."""
        reasons = [choice.finish_reason for choice in self._choices if choice.finish_reason]
        if not reasons and not (self._done and self._choices):
            advice = "the answer broke off: ask again, and look into the server's log"
            raise Trouble("model_broke_off", advice, again=True)
        said = [choice.said for choice in self._choices]
        message = _Message(
            _join(_text(each) for each in said),
            _join(each.refusal for each in said),
            any(each.reasoning or each.reasoning_content for each in said),
        )
        tokens = [_tokens(choice) for choice in self._choices]
        return _Choice(
            message,
            finish_reason=next(iter(reasons), None),
            logprobs={"token_logprobs": [score for _, scores in tokens for score in scores]},
            token_ids=[number for numbers, _ in tokens for number in numbers],
        )


def _join(parts: Iterable[str | None]) -> str | None:
    """All in one; None where there is none."""
    there = [part for part in parts if part is not None]
    return "".join(there) if there else None


def _completion(choice: _Choice) -> Completion:
    """What a choice says. Raises Trouble where it is nothing, or has no end."""
    message, reason = choice.said, choice.finish_reason or ""
    if reason in _BROKEN:
        advice = "the server gave up in the middle of the answer: ask again, and see its log"
        raise Trouble("model_broke_off", advice, reason, again=True)
    stop, written = _STOPS.get(reason, "unknown"), _text(message)
    if message.refusal and not written:
        return Completion(message.refusal, stop="refusal")
    text = spoken(written or "")
    thought = message.reasoning or message.reasoning_content or text != (written or "")
    if not text and stop in ("end", "unknown") and (thought or written is None):
        did = "only thought" if thought else "said nothing at all"
        raise bad_answer(f"it {did}: allow more tokens, or see the server's log", reason)
    if thought:  # the tokens are those of the thoughts as well
        return Completion(text, stop=stop)
    tokens, logprobs = _tokens(choice)
    return Completion(text, tokens, logprobs, stop)


def _text(message: _Message) -> str | None:
    if isinstance(message.content, list):
        texts = (part.get("text") for part in message.content if part.get("type") == "text")
        return _join(text for text in texts if isinstance(text, str))
    return message.content


class _Token(msgspec.Struct, frozen=True):
    logprob: float


class _Logprobs(msgspec.Struct, frozen=True):
    content: list[_Token] | None = None
    token_logprobs: list[float] | None = None


def _tokens(choice: _Choice) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The ids and log-probabilities of a choice's tokens, where the server gives them rightly."""
    numbers: list[int] = _converted(choice.token_ids, list[int]) or []
    scores = _converted(choice.logprobs, _Logprobs) or _Logprobs()
    logprobs = [token.logprob for token in scores.content or ()] or scores.token_logprobs or []
    same = not logprobs or len(numbers) == len(logprobs)
    return tuple(numbers if same else ()), tuple(logprobs)


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)]
    completion_tokens: Annotated[int, msgspec.Meta(ge=0)]


def _usage(found: Any) -> Usage | None:
    usage = _converted(found, _Usage)
    return Usage(usage.prompt_tokens, usage.completion_tokens) if usage else None


def _converted(found: Any, kind: type[T]) -> T | None:
    """What a server added to its answer, which counts even where this makes no sense."""
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError:
        return None


def spoken(text: str) -> str:
    """The text without the thoughts that it begins with.

    They are `<think>...</think>`; or, where the opening tag is part of the prompt's template, all
    before a `</think>` at the end of a line.
    """
    thoughts, closed, rest = text.partition(_CLOSE)
    if text.lstrip().startswith(_OPEN):
        return rest.lstrip()
    if closed and _OPEN not in thoughts and re.match(r"[ \t]*(\n|\Z)", rest):
        return rest.lstrip()
    return text


_OPEN, _CLOSE = "<think>", "</think>"


def _begun(held: str) -> str:
    """What is spoken of a text that goes on; empty while all of it may be thoughts."""
    start = held.lstrip()[: len(_OPEN)]
    return spoken(held) if start == _OPEN else "" if _OPEN.startswith(start) else held
