"""The protocol of OpenAI-compatible model servers: endpoints, errors, costs, requests, responses.

API keys are read from the environment and from nowhere else.
"""

import html
import ipaddress
import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec

from rookery.errors import Failed, Outcome
from rookery.models.chat_prompts import build_message_fields
from rookery.records import Completion, Failure, Record, convert_value, decode_json, prepare_type
from rookery.settings import LOCAL, CompletionSettings, LocalEndpoint, LocalModelSettings
from rookery.typed_files import describe_unknown_key, require_regular_file

GrammarServer = Literal["none", "vllm", "sglang", "llama.cpp"]
DEFAULT_KEY_NAME = "OPENAI_API_KEY"
MODEL_ROLES = ("write", "browse", "judge", "default")
_RESERVED_FIELDS = frozenset(
    "model messages prompt n stream stream_options max_tokens max_completion_tokens temperature"
    " top_p stop seed logprobs".split()
)


class ModelEndpoint(CompletionSettings, frozen=True, forbid_unknown_fields=True):
    """Settings of one model on an OpenAI-compatible server.

    With `chat` it is asked by /chat/completions, which is also the default; with `chat` False by
    /completions, which continues a prompt as it is.
    """

    model: str
    """name of the model on the server"""
    base_url: str
    """address of the server's API, as in https://api.openai.com/v1; without a path, /v1 is added"""
    key_name: str = DEFAULT_KEY_NAME
    """environment variable that holds the API key; OPENAI_API_KEY may be unset, for servers that
    need no key"""
    seed: int | None = None
    """sampling seed sent where a call gives none; None: no seed is sent"""
    logprobs: bool | None = None
    """request log-probabilities of the tokens, which not every server gives; None: only in the
    role that writes answers"""
    grammars: GrammarServer = "none"
    """server software, which decides the field that a grammar is sent in; none: no grammars"""
    price_in: float | None = None
    """price of a million prompt tokens, in any currency"""
    price_out: float | None = None
    """price of a million completion tokens, in the same currency"""
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    """additional fields that are sent with each request: top_k, reasoning_effort, ..."""
    use_proxy: bool = False
    """take proxies and certificates from the environment (HTTPS_PROXY, SSL_CERT_FILE and so on)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model or not self.key_name:
            raise ValueError("model and key_name must not be empty")
        _check_address(self.base_url)
        if self.threads is not None or self.dtype:
            raise ValueError(
                "threads and dtype are set for models on this machine, not for servers"
            )
        for name in ("price_in", "price_out"):
            if not 0 <= (getattr(self, name) or 0) < math.inf:
                raise ValueError(f"{name} must be a number from 0 on")
        if reserved := sorted(_RESERVED_FIELDS.intersection(self.extra)):
            raise ValueError(f"extra must not hold {reserved[0]}: it has a setting of its own")

    @property
    def uses_chat(self) -> bool:
        """True if prompts are sent as messages, to /chat/completions."""
        return self.chat is not False

    @property
    def address(self) -> str:
        """Base address of the API without a trailing slash, /v1 added where it has no path."""
        address = self.base_url.rstrip("/")
        return address if urlsplit(address).path else f"{address}/v1"

    @property
    def is_remote(self) -> bool:
        """True if the server is on another machine than this one."""
        host = urlsplit(self.address).hostname or ""
        try:
            return not ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host != "localhost" and not host.endswith(".localhost")

    @property
    def name(self) -> str:
        """Name in messages: MODEL at ADDRESS."""
        return f"{self.model} at {self.address}"


def _check_address(base_url: str) -> None:
    parts = urlsplit(base_url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        # The address is not repeated, since these parts may hold a secret.
        raise ValueError("base_url must hold neither a user, a password, nor a query")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        example = "http://localhost:8000/v1"
        raise ValueError(f"base_url must be an address such as {example}: {base_url}")


def read_endpoints(path: Path) -> dict[str, ModelEndpoint | LocalEndpoint]:
    """Read the endpoint of each role from a TOML file, or from a JSON file if it ends in .json.

    It has one table per role: `[write]`, `[browse]`, `[judge]`, or `[default]` for all others. A
    table without base_url is about a model on this machine. Raises Failed (bad_endpoint), which
    names the table and the problem.
    """
    decode = msgspec.json.decode if path.suffix == ".json" else msgspec.toml.decode
    role = ""
    try:
        tables = decode(require_regular_file(path).read_bytes(), type=dict[str, dict[str, Any]])
        endpoints: dict[str, ModelEndpoint | LocalEndpoint] = {}
        for role, table in tables.items():
            if role not in MODEL_ROLES:
                named = ", ".join(f"[{each}]" for each in MODEL_ROLES)
                raise ValueError(f"no model has this role: name the table one of {named}")
            kind = _choose_endpoint_kind(table)
            if fault := describe_unknown_key(table, kind, (role,)):
                raise ValueError(fault)
            endpoints[role] = convert_value(table, kind)
        return endpoints
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): name a file with a table for each role"
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        detail = f"correct {f'[{role}]' if role else 'this'}: {error}"
        if "key `key`" in detail or "key `api_key`" in detail:
            detail += "; keys are in the environment: name the variable in key_name"
        if "key `kind`" in detail:
            detail += "; chat = false continues prompts as they are"
    raise Failed(Failure(str(path), Outcome.BAD_ENDPOINT, detail))


def _choose_endpoint_kind(table: dict[str, Any]) -> type[ModelEndpoint | LocalEndpoint]:
    """Return the kind of endpoint that a table describes: local without base_url and other keys
    of a server."""
    if str(table.get("model")).startswith(LOCAL):
        return LocalEndpoint
    is_local = "model" in table and {*table} <= {*LocalEndpoint.__struct_fields__}
    return LocalEndpoint if is_local else ModelEndpoint


def select_endpoint(
    role: str,
    endpoints: Mapping[str, ModelEndpoint | LocalEndpoint],
    model: str = "",
    base_url: str = "",
) -> ModelEndpoint | LocalEndpoint:
    """Return the endpoint of a role, or of `default`; `model` and `base_url` override its settings.

    A given `base_url` also resets `key_name` to OPENAI_API_KEY, since a key belongs to one address;
    a table about a model on this machine does not count then. Without an endpoint, both must be
    given. Raises Failed: no_model where no endpoint is known, bad_endpoint where `base_url` is no
    address.
    """
    overrides = {"model": model, "base_url": base_url, "key_name": base_url and DEFAULT_KEY_NAME}
    overrides = {name: value for name, value in overrides.items() if value}
    endpoint = endpoints.get(role) or endpoints.get("default")
    try:
        if endpoint and not (base_url and isinstance(endpoint, LocalEndpoint)):
            return msgspec.structs.replace(endpoint, **overrides)
        if model and base_url:
            return ModelEndpoint(model, base_url)
    except ValueError as error:
        raise Failed(Failure(role, Outcome.BAD_ENDPOINT, str(error))) from error
    detail = (
        "say which model and where it is served: --model NAME --base-url URL"
        f" (http://localhost:8000/v1, say), or a file with a table [{role}] or [default]"
    )
    raise Failed(Failure(role, Outcome.NO_MODEL, detail))


def get_slots_address(endpoint: ModelEndpoint) -> str:
    """Return the address at which llama.cpp's server shows its slots; empty for other servers.

    A server may be llama.cpp's if its endpoint says so or if it is asked without TLS, as those are
    on one's own machines; companies' servers are asked for completions only.
    """
    if endpoint.grammars not in ("none", "llama.cpp"):
        return ""
    if endpoint.grammars == "none" and not endpoint.address.startswith("http:"):
        return ""
    return f"{endpoint.address.removesuffix('/v1')}/props"


def read_slots(slots_reply: Any) -> int | None:
    """Return the number of slots in what `get_slots_address` showed; None where it names none."""
    slots = slots_reply.get("total_slots") if isinstance(slots_reply, dict) else None
    return slots if type(slots) is int and slots > 0 else None


def read_api_key(endpoint: ModelEndpoint) -> str:
    """Read the endpoint's API key from the environment; empty where OPENAI_API_KEY is not set.

    Raises Failed (no_key) where the endpoint names another variable that is not set, or where the
    value has characters that a header cannot carry.
    """
    name = endpoint.key_name
    key = os.environ.get(name, "").strip()
    if not key and name != DEFAULT_KEY_NAME:
        raise Failed(Failure(endpoint.name, Outcome.NO_KEY, f"set {name} in the environment"))
    if not is_sendable_key(key):
        detail = f"{name} holds characters that no key has: set it again"
        raise Failed(Failure(endpoint.name, Outcome.NO_KEY, detail))
    return key


def is_sendable_key(key: str) -> bool:
    """Return True if the key is printable ASCII without spaces, as an HTTP header needs it.

    An empty key is, too.
    """
    return all("!" <= letter <= "~" for letter in key)


@dataclass(eq=False)
class ModelRequestError(Exception):
    """One failed attempt of a request to a model server."""

    outcome: str
    advice: str
    server_text: str = ""
    """text of the server's response; may repeat the API key"""
    retryable: bool = False
    """True if another attempt may succeed"""
    billed: bool = True
    """True if the server may have charged for the request"""
    retry_after: float = 0.0
    """seconds to wait before the next attempt, as the server asks; 0 where it does not"""


def make_bad_response_error(advice: str, excerpt: str = "") -> ModelRequestError:
    """Make the error for a response with status 200 that is no usable completion.

    `excerpt` is the server's text.
    """
    return ModelRequestError(Outcome.MODEL_BAD_ANSWER, advice, excerpt)


def make_status_error(
    endpoint: ModelEndpoint, status: int, message: str, headers: Mapping[str, str]
) -> ModelRequestError:
    """Make the error for a response with a status other than 200; header names are lower-case.

    The status decides the outcome, the advice, and if another attempt may succeed: 408, 429 and 5xx
    are retryable, except 501, 505 and an exhausted quota. `message` is the server's error message.
    """
    if status < 400:
        message = f"HTTP {status} {headers.get('location', '')}".rstrip()
        advice = "it redirects: give the address that it redirects to as base_url"
        return ModelRequestError(Outcome.MODEL_UNREACHABLE, advice, message, billed=False)
    other = Outcome.MODEL_FAILED if status >= 500 else Outcome.MODEL_REFUSED
    outcome = _STATUS_OUTCOMES.get(status, other)
    again = status in (408, 429) or (status >= 500 and status not in (501, 505))
    again = again and "insufficient_quota" not in message
    billed = status in (408, 504)  # a proxy gave up waiting, but the model may have gone on
    advice = _advise_route(endpoint, message) or _STATUS_ADVICE[outcome].format(
        key=endpoint.key_name, remedy=_describe_other_route(endpoint)
    )
    message = f"HTTP {status}: {message}".rstrip(": ")
    return ModelRequestError(outcome, advice, message, again, billed, _parse_retry_after(headers))


_STATUS_OUTCOMES = {
    **dict.fromkeys((401, 403), Outcome.MODEL_REFUSED_KEY),
    **dict.fromkeys((402, 429), Outcome.MODEL_QUOTA),
    **dict.fromkeys((404, 405, 410), Outcome.MODEL_NOT_FOUND),
    **dict.fromkeys((408, 504), Outcome.MODEL_TIMED_OUT),
}
_STATUS_ADVICE = {
    Outcome.MODEL_REFUSED_KEY: "set {key} in the environment to a key that it takes",
    Outcome.MODEL_QUOTA: "wait, ask less at once, pay for more, or use another endpoint",
    Outcome.MODEL_NOT_FOUND: (
        "check the model's name and base_url (most end in /v1); if the server {remedy}"
    ),
    Outcome.MODEL_TIMED_OUT: "ask for fewer tokens (max_tokens), or try when it has less to do",
    Outcome.MODEL_REFUSED: "shorten the prompt, or change the setting that it names",
    Outcome.MODEL_FAILED: "the fault is the server's: look into its log, or try again later",
}


def _advise_route(endpoint: ModelEndpoint, message: str) -> str:
    """Return advice if the server's text shows that it serves only the other route, else empty."""
    wrong = r"v1/chat/completions|is a chat model"
    if endpoint.uses_chat:
        wrong = r"chat.?template|not a chat model|v1/completions"
    return f"it {_describe_other_route(endpoint)}" if re.search(wrong, message, re.I) else ""


def _describe_other_route(endpoint: ModelEndpoint) -> str:
    if endpoint.uses_chat:
        return "does not answer /chat/completions: set chat = false, or --no-chat"
    return "does not answer /completions: set chat = true, or --chat"


def _parse_retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that a `Retry-After` header asks for, as a number or a date; else 0."""
    delay_text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", delay_text):
        return float(delay_text)
    try:
        until = parsedate_to_datetime(delay_text)
    except ValueError:
        return 0.0
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max((until - datetime.now(UTC)).total_seconds(), 0.0)


def extract_error_message(body: bytes) -> str:
    """Extract the message of an error response: from JSON its error message, from HTML its text.

    JSON without a field error, message or detail is returned whole.
    """
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        text = re.sub(r"<[^<>]*>", " ", body.decode("utf-8", "replace"))
        return " ".join(html.unescape(text).split())
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(name):
            value = value[name]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_TEMPLATE_TOKENS = 256
"""tokens that a server's chat template may add to a prompt, at most"""


class SpendingCap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Maximum spending on model requests; None: no limit."""

    tokens: int | None = None
    """maximum tokens of prompts and completions together"""
    money: float | None = None
    """maximum cost, in the currency of the endpoints' prices"""

    def __post_init__(self) -> None:
        if (self.tokens or 0) < 0 or (self.money or 0) < 0:
            raise ValueError("SpendingCap.tokens and .money must be at least 0")


class TokenUsage(msgspec.Struct, frozen=True):
    """Tokens of one request, as servers report them."""

    prompt: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(name="prompt_tokens")
    """tokens of the prompt"""
    completion: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(name="completion_tokens")
    """tokens of all completions, reasoning included"""


class SpendingTotal(Record, frozen=True):
    """Sum of what requests used. Where a server did not report it, the maximum is counted."""

    requests: int = 0
    """number of requests"""
    prompt: int = 0
    """prompt tokens"""
    said: int = 0
    """completion tokens, reasoning included"""
    money: float = 0.0
    """cost of the requests to endpoints that have prices"""

    def add_total(self, other: "SpendingTotal") -> "SpendingTotal":
        """Return the sum of two totals."""
        requests, money = self.requests + other.requests, self.money + other.money
        return SpendingTotal(requests, self.prompt + other.prompt, self.said + other.said, money)


def estimate_maximum_usage(prompt: str, n: int, endpoint: ModelEndpoint) -> TokenUsage:
    """Return an upper bound of a request's tokens: one per byte of the prompt, n full completions.

    No tokenizer makes more tokens of a text than it has bytes; its chat template is allowed for.
    """
    size = len(prompt.encode("utf-8", "surrogatepass"))
    return TokenUsage(size + _TEMPLATE_TOKENS, n * endpoint.token_limit)


def compute_cost(usage: TokenUsage, endpoint: ModelEndpoint | LocalModelSettings) -> SpendingTotal:
    """Return the total of one request: its tokens, and their cost at the endpoint's prices.

    A price that is not set counts as 0.
    """
    prices = (endpoint.price_in or 0.0) * usage.prompt + (
        endpoint.price_out or 0.0
    ) * usage.completion
    return SpendingTotal(1, usage.prompt, usage.completion, prices / 1e6)


class SpendingBudget:
    """Spending under a cap; models and threads may share one.

    A request reserves its maximum cost before it is sent and is charged its real cost afterwards,
    so that the cap holds for any number of concurrent requests.
    """

    def __init__(self, cap: SpendingCap = SpendingCap()) -> None:
        self.cap = cap
        self._turn = threading.Lock()
        self._spent = SpendingTotal()
        self._reserved: list[SpendingTotal] = []

    @property
    def spent(self) -> SpendingTotal:
        """Total of the requests that were settled, without reservations."""
        return self._spent

    def reserve_spending(self, most: SpendingTotal, what: str) -> bool:
        """Reserve a request's maximum; return False while other reservations leave too little.

        Nothing is reserved then, and the request may ask again. Raises Failed (spending_cap, about
        `what`) where the total already spent leaves too little.
        """
        with self._turn:
            if excess := self._describe_excess(self._spent.add_total(most)):
                raise Failed(Failure(what, Outcome.SPENDING_CAP, excess))
            total = reduce(SpendingTotal.add_total, self._reserved, self._spent.add_total(most))
            if self._describe_excess(total):
                return False
            self._reserved.append(most)
            return True

    def settle_reservation(self, most: SpendingTotal, spent: SpendingTotal) -> None:
        """Remove a reservation, and add what the request really took to the total spent."""
        with self._turn:
            self._reserved.remove(most)
            self._spent = self._spent.add_total(spent)

    def _describe_excess(self, total: SpendingTotal) -> str:
        """Return a sentence if a total exceeds the cap; empty if it does not."""
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


T = TypeVar("T")

_FINISH_REASONS = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence"), "end"),
    **dict.fromkeys(("length", "max_tokens"), "length"),
    "content_filter": "content_filter",
}
_ABORT_REASONS = ("abort", "cancelled", "error", "insufficient_system_resource")


class CompletionRequest(NamedTuple):
    """One request for completions of a prompt."""

    prompt: str
    n: int = 1
    """completions of the prompt"""
    seed: int | None = None
    """None: the endpoint's"""
    grammar: str = ""
    """in llguidance's dialect of Lark; empty: none"""
    stream: bool = False
    """True: the server sends the completion in pieces"""


OPTIONAL_FIELDS = ("stream_options", "logprobs", "tools", "response_format")
"""optional fields of a request that some servers refuse, and that are then left out"""


def build_request_body(
    endpoint: ModelEndpoint, request: CompletionRequest, remedies: frozenset[str]
) -> dict[str, Any]:
    """Build the JSON fields of a request.

    `remedies` are changes that this server was found to need, as `find_request_remedy` names them.
    Raises ValueError for a grammar where the endpoint does not say which server it is.
    """
    fields: dict[str, Any] = {"model": endpoint.model, "max_tokens": endpoint.token_limit}
    if endpoint.uses_chat:
        fields |= build_message_fields(request.prompt)
    else:
        fields["prompt"] = request.prompt
    if request.n > 1:
        fields["n"] = request.n
    seed = endpoint.seed if request.seed is None else request.seed
    if seed is not None:
        fields["seed"] = seed % 2**31  # some servers keep no more bits than that
    if endpoint.temperature is not None:
        fields["temperature"] = endpoint.temperature
    if endpoint.top_p is not None:
        fields["top_p"] = endpoint.top_p
    if endpoint.stop:
        fields["stop"] = list(endpoint.stop)
    if endpoint.logprobs:
        fields["logprobs"] = True if endpoint.uses_chat else 1
    if request.stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    if "max_completion_tokens" in remedies:
        fields["max_completion_tokens"] = fields.pop("max_tokens")
    for name in remedies.intersection(OPTIONAL_FIELDS):
        fields.pop(name, None)
    return fields | _build_grammar_field(endpoint, request.grammar) | endpoint.extra


def find_request_remedy(error: ModelRequestError, fields: dict[str, Any]) -> str:
    """Return the name of a field to change or leave out after a refused request; empty if unknown.

    It is max_completion_tokens (send it in place of max_tokens) or an optional field to leave out.
    The server's error text must name the field, and the request must have had it.
    """
    if error.outcome == Outcome.MODEL_REFUSED:
        if "max_completion_tokens" in error.server_text and "max_tokens" in fields:
            return "max_completion_tokens"
        for name in OPTIONAL_FIELDS:
            if name in error.server_text and name in fields:
                return name
    return ""


def _build_grammar_field(endpoint: ModelEndpoint, grammar: str) -> dict[str, Any]:
    """Return the field in which this server takes a grammar in llguidance's dialect of Lark."""
    if not grammar:
        return {}
    if endpoint.grammars == "vllm":
        return {"structured_outputs": {"grammar": grammar}}
    if endpoint.grammars == "sglang":
        return {"ebnf": grammar}
    if endpoint.grammars == "llama.cpp":
        marked = grammar.startswith("%llguidance")  # anything else is read as GBNF there
        return {"grammar": grammar if marked else f"%llguidance {{}}\n{grammar}"}
    raise ValueError("set ModelEndpoint.grammars to the software of the server that gets a grammar")


class _FunctionCall(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: Any = ""


class _ToolCall(msgspec.Struct, frozen=True):
    function: _FunctionCall = _FunctionCall()
    index: int = 0


class _Message(msgspec.Struct, frozen=True):
    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message | None = None
    delta: _Message | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Any = None
    token_ids: Any = None

    @property
    def message_part(self) -> _Message:
        """The message of a whole response or the delta of a streamed one, or the bare text."""
        return self.message or self.delta or _Message(self.text)


class _Response(msgspec.Struct, frozen=True):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


def _decode_response(data: bytes | bytearray, endpoint: ModelEndpoint) -> _Response:
    """Decode a whole response or one event of a stream. Raises ModelRequestError."""
    try:
        reply = decode_json(data, _Response)
    except ValueError as error:
        advice = f"its response is not that of a model ({error}): check that base_url ends in /v1"
        excerpt = extract_error_message(bytes(data[:2000]))
        raise make_bad_response_error(advice, excerpt) from None
    if reply.error:
        code = reply.error.get("code") if isinstance(reply.error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        message = extract_error_message(msgspec.json.encode(reply.error))
        raise make_status_error(endpoint, status, message, {})
    return reply


class CompletionResponse(NamedTuple):
    """The completions of one response, and its token usage."""

    completions: list[Completion]
    usage: TokenUsage | None
    """None where the server reports none"""
    choices: int = 1
    """number of choices in the response; empty choices are not among the completions"""


class ResponseReader:
    """Reader of a response: one JSON object, or server-sent events where its text is streamed.

    `emit` is called with each piece of streamed text, reasoning left out; None: the response is not
    streamed. A server that answers with one JSON object instead of a stream is read as well.
    """

    def __init__(self, endpoint: ModelEndpoint, emit: Callable[[str], None] | None = None) -> None:
        self.emitted: list[str] = []
        """pieces of text that were passed to `emit`"""
        self._endpoint = endpoint
        self._emit = emit
        self._is_object = None if emit else True
        """None: not known yet"""
        self._data = bytearray()
        """of an object all bytes, of a stream those of an unfinished line"""
        self._event: list[bytes | bytearray] = []
        self._choices: list[_Choice] = []
        self._usage: Any = None
        self._done = False
        self._pending = ""

    def feed_data(self, data: bytes) -> bool:
        """Add received bytes, and pass the text of complete stream events to `emit`.

        Text that may be the beginning of reasoning is held back. Returns True once a stream says
        [DONE]. Raises ModelRequestError where the data are no response of a model, or are an error.
        """
        if self._is_object is None and data.strip():
            self._is_object = data.lstrip()[:1] == b"{"
        self._data += data
        if not self._is_object:
            *lines, self._data = self._data.split(b"\n")
            for line in lines:
                self._parse_line(line.rstrip(b"\r"))
        return self._done

    def finish(self) -> CompletionResponse:
        """Return the completions after the last byte; pass the rest of a streamed text to `emit`.

        Raises ModelRequestError where no choice is usable, where a stream broke off, or where text
        that was already passed on turns out to be reasoning.
        """
        if self._is_object:
            response = self._parse_object()
        else:
            with suppress(ModelRequestError):  # an event that was cut off is ignored
                self._parse_line(self._data)
                self._parse_line(b"")
            completion = _to_completion(self._join_choices())
            response = CompletionResponse([completion], _convert_or_none(self._usage, TokenUsage))
        text, emitted_text = response.completions[0].text, "".join(self.emitted)
        if not text.startswith(emitted_text):
            advice = "it streams its reasoning as text: start it with a reasoning parser"
            raise make_bad_response_error(advice)
        if self._emit and text != emitted_text:
            self._emit(text[len(emitted_text) :])
        return response

    def _parse_object(self) -> CompletionResponse:
        reply = _decode_response(self._data, self._endpoint)
        if not reply.choices:
            excerpt = extract_error_message(bytes(self._data[:2000]))
            raise make_bad_response_error(
                "its response has no choices: see the server's log", excerpt
            )
        good, bad = [], []
        for choice in reply.choices:
            try:
                good.append(_to_completion(choice))
            except ModelRequestError as error:
                bad.append(error)
        if not good:
            raise bad[0]
        usage = _convert_or_none(reply.usage, TokenUsage)
        return CompletionResponse(good, usage, len(reply.choices))

    def _parse_line(self, line: bytes | bytearray) -> None:
        if line.startswith(b"data:"):
            self._event.append(line[5:].removeprefix(b" "))
        elif not line and self._event:
            data, self._event = b"\n".join(self._event), []
            if data.strip() == b"[DONE]":
                self._done = True
            elif data.strip():
                reply = _decode_response(data, self._endpoint)
                self._usage = reply.usage or self._usage
                for choice in (reply.choices or [])[:1]:
                    self._choices.append(choice)
                    self._emit_text(_get_text(choice.message_part) or "")

    def _emit_text(self, text: str) -> None:
        """Pass text on, or hold it back while it may be the beginning of reasoning."""
        if not self.emitted:
            self._pending += text
            text = _strip_partial_reasoning(self._pending)
        if text and self._emit:
            self.emitted.append(text)
            self._emit(text)

    def _join_choices(self) -> _Choice:
        """Join the choices of all events. Raises ModelRequestError where nothing marks the end."""
        reasons = [choice.finish_reason for choice in self._choices if choice.finish_reason]
        if not reasons and not (self._done and self._choices):
            advice = "the answer broke off: ask again, and look into the server's log"
            raise ModelRequestError(Outcome.MODEL_BROKE_OFF, advice, retryable=True)
        parts = [choice.message_part for choice in self._choices]
        message = _Message(
            _join_strings(_get_text(each) for each in parts),
            _join_strings(each.refusal for each in parts),
            any(each.reasoning or each.reasoning_content for each in parts),
            tool_calls=_join_calls(call for each in parts for call in each.tool_calls or ()),
        )
        tokens = [_get_tokens(choice) for choice in self._choices]
        return _Choice(
            message,
            finish_reason=next(iter(reasons), None),
            logprobs={"token_logprobs": [score for _, scores in tokens for score in scores]},
            token_ids=[number for numbers, _ in tokens for number in numbers],
        )


def _join_strings(parts: Iterable[str | None]) -> str | None:
    """Join the strings that are not None; return None where there is none."""
    there = [part for part in parts if part is not None]
    return "".join(there) if there else None


def _join_calls(pieces: Iterable[_ToolCall]) -> list[_ToolCall]:
    """Join the pieces of streamed tool calls, by their index."""
    names, arguments = dict[int, str](), dict[int, str]()
    for piece in pieces:
        names[piece.index] = names.get(piece.index, "") + (piece.function.name or "")
        arguments[piece.index] = arguments.get(piece.index, "") + _get_arguments(piece)
    return [_ToolCall(_FunctionCall(name, arguments[at]), at) for at, name in names.items()]


def _get_arguments(call: _ToolCall) -> str:
    """Return the arguments of a call as JSON; some servers send the object itself."""
    arguments = call.function.arguments or ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _to_completion(choice: _Choice) -> Completion:
    """Convert a choice; a call of a tool becomes a line of text, `name {"argument": ...}`.

    Raises ModelRequestError where the choice is empty or the server broke it off.
    """
    message, reason = choice.message_part, choice.finish_reason or ""
    if reason in _ABORT_REASONS:
        advice = "the server gave up in the middle of the answer: ask again, and see its log"
        raise ModelRequestError(Outcome.MODEL_BROKE_OFF, advice, reason, retryable=True)
    stop, written = _FINISH_REASONS.get(reason, "unknown"), _get_text(message)
    if message.refusal and not written:
        return Completion(message.refusal, stop="refusal")
    text = strip_reasoning(written or "")
    if calls := [each for each in message.tool_calls or () if each.function.name]:
        lines = [f"{call.function.name} {_get_arguments(call) or '{}'}" for call in calls]
        return Completion("\n".join([*filter(None, [text]), *lines]), stop="tool_calls")
    thought = message.reasoning or message.reasoning_content or text != (written or "")
    if not text and stop in ("end", "unknown") and (thought or written is None):
        did = "gave only its reasoning" if thought else "gave no text at all"
        advice = f"it {did}: allow more tokens, or see the server's log"
        raise make_bad_response_error(advice, reason)
    if thought:  # the tokens and log-probabilities include those of the reasoning
        return Completion(text, stop=stop)
    tokens, logprobs = _get_tokens(choice)
    return Completion(text, tokens, logprobs, stop)


def _get_text(message: _Message) -> str | None:
    if isinstance(message.content, list):
        texts = (part.get("text") for part in message.content if part.get("type") == "text")
        return _join_strings(text for text in texts if isinstance(text, str))
    return message.content


class _Token(msgspec.Struct, frozen=True):
    logprob: float


class _Logprobs(msgspec.Struct, frozen=True):
    content: list[_Token] | None = None
    token_logprobs: list[float] | None = None


def _get_tokens(choice: _Choice) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the ids and log-probabilities of a choice's tokens; empty where they are not given.

    The ids are left out where their number differs from that of the log-probabilities.
    """
    numbers: list[int] = _convert_or_none(choice.token_ids, list[int]) or []
    scores = _convert_or_none(choice.logprobs, _Logprobs) or _Logprobs()
    logprobs = [token.logprob for token in scores.content or ()] or scores.token_logprobs or []
    same = not logprobs or len(numbers) == len(logprobs)
    return tuple(numbers if same else ()), tuple(logprobs)


def _convert_or_none(value: Any, kind: type[T]) -> T | None:
    """Convert an optional part of a response; None where it is malformed, which is no error."""
    try:
        return msgspec.convert(value, prepare_type(kind))
    except msgspec.ValidationError:
        return None


def strip_reasoning(text: str) -> str:
    """Remove the reasoning at the beginning of a completion's text.

    That is `<think>...</think>`, or everything before a `</think>` at the end of a line where the
    opening tag is part of the prompt's template. Reasoning that is not closed leaves an empty text.
    """
    thoughts, closed, rest = text.partition(_THINK_CLOSE)
    if text.lstrip().startswith(_THINK_OPEN):
        return rest.lstrip()
    if closed and _THINK_OPEN not in thoughts and re.match(r"[ \t]*(\n|\Z)", rest):
        return rest.lstrip()
    return text


_THINK_OPEN, _THINK_CLOSE = "<think>", "</think>"


def _strip_partial_reasoning(text: str) -> str:
    """Strip the reasoning of an unfinished text; return empty while all of it may be reasoning."""
    start = text.lstrip()[: len(_THINK_OPEN)]
    if start == _THINK_OPEN:
        return strip_reasoning(text)
    return "" if _THINK_OPEN.startswith(start) else text


def cut_at_stop_string(completion: Completion, stops: Sequence[str]) -> Completion:
    """Cut a completion before the first stop string in it; return it unchanged where there is none.

    A cut completion has no tokens and log-probabilities: those given cover more than its text. Its
    stop is "end".
    """
    at = _find_first_stop(completion.text, stops)
    return completion if at < 0 else Completion(completion.text[:at])


def count_settled_characters(text: str, stops: Sequence[str]) -> int:
    """Count the leading characters of a streamed text that no later stop string can remove."""
    at = _find_first_stop(text, stops)
    if at >= 0:
        return at
    sizes = (size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
    return len(text) - max(sizes, default=0)


def _find_first_stop(text: str, stops: Sequence[str]) -> int:
    return min((at for stop in stops if (at := text.find(stop)) >= 0), default=-1)
