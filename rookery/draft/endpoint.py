"""Where a model is served and how it is asked there, role by role.

It knows nothing of requests and answers. Keys are in the environment and nowhere else.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from rookery.draft.config import misspelt
from rookery.records import Failed, Failure

Kind = Literal["chat", "completions"]
Grammars = Literal["none", "vllm", "sglang", "llama.cpp"]
KEY = "OPENAI_API_KEY"
ROLES = ("write", "browse", "judge", "default")
_OURS = frozenset(
    "model messages prompt n stream stream_options max_tokens max_completion_tokens temperature"
    " stop seed logprobs".split()
)


class Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model behind a server that speaks as OpenAI's does, and how it is asked there."""

    model: str
    base_url: str
    """where the server's API is, as in https://api.openai.com/v1; without a path, /v1 is meant"""
    kind: Kind = "chat"
    """chat: /chat/completions, the prompt is a user's message. completions: /completions, the
    prompt is continued as it is"""
    key_name: str = KEY
    """the environment variable that holds the key; the usual one may be missing, for servers that
    want none"""
    temperature: float | None = None
    """None: as the server sees fit"""
    max_tokens: int = 1024
    """of one completion, thoughts included"""
    stop: tuple[str, ...] = ()
    """strings before which a completion ends"""
    seed: int | None = None
    logprobs: bool | None = None
    """asks for the log-probability of each token, which not every server gives; None: in the role
    that writes answers, and in no other"""
    grammars: Grammars = "none"
    """which server it is, for the field that carries a grammar"""
    price_in: float | None = None
    """of a million tokens of prompt, in any currency"""
    price_out: float | None = None
    """of a million tokens of completion"""
    extra: dict[str, Any] = {}
    """fields that are sent with each request as they are: top_p, reasoning_effort, ..."""
    use_proxy: bool = False
    """takes proxies and certificates from the environment (HTTPS_PROXY, SSL_CERT_FILE and so on)"""

    def __post_init__(self) -> None:
        if not self.model or not self.key_name:
            raise ValueError("model and key_name must not be empty")
        _check_address(self.base_url)
        if self.max_tokens < 1:
            raise ValueError("max_tokens must be at least 1")
        for name in ("temperature", "price_in", "price_out"):
            if not 0 <= (getattr(self, name) or 0) < math.inf:
                raise ValueError(f"{name} must be a number from 0 on")
        if ours := sorted(_OURS.intersection(self.extra)):
            raise ValueError(f"extra must not hold {ours[0]}: it is set by other means")

    @property
    def address(self) -> str:
        """The base address, without a slash at its end."""
        address = self.base_url.rstrip("/")
        return address if urlsplit(address).path else f"{address}/v1"

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.model} at {self.address}"


def _check_address(base_url: str) -> None:
    parts = urlsplit(base_url)
    if "@" in parts.netloc or parts.query or parts.fragment:
        # Not shown: what stands there may be a secret.
        raise ValueError("base_url must hold neither a user, a password, nor a query")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(
            f"base_url must be an address such as http://localhost:8000/v1: {base_url}"
        )


def read_endpoints(path: Path) -> dict[str, Endpoint]:
    """The endpoint of each role, from a file with one TOML table (or, in a file *.json, one object)
    for each: `[write]`, `[browse]`, `[judge]`, or `[default]` for all others.

    Raises Failed (bad_endpoint), naming what is wrong and where.
    """
    decode = msgspec.json.decode if path.suffix == ".json" else msgspec.toml.decode
    role = ""
    try:
        tables = decode(path.read_bytes(), type=dict[str, dict[str, Any]])
        endpoints = {}
        for role, table in tables.items():
            if role not in ROLES:
                named = ", ".join(f"[{each}]" for each in ROLES)
                raise ValueError(f"no model has this role: name the table one of {named}")
            if fault := misspelt(table, Endpoint, (role,)):
                raise ValueError(fault)
            endpoints[role] = msgspec.convert(table, Endpoint)
        return endpoints
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): name a file with a table for each role"
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        detail = f"correct {f'[{role}]' if role else 'this'}: {error}"
        if "key `key`" in detail or "key `api_key`" in detail:
            detail += "; keys are in the environment: name the variable in key_name"
    raise Failed(Failure(str(path), "bad_endpoint", detail))


def endpoint_for(
    role: str, endpoints: Mapping[str, Endpoint], model: str = "", base_url: str = ""
) -> Endpoint:
    """The role's endpoint, or else the one of `default`; what is given by hand goes before.

    A key is for one address: with `base_url`, it is the one in OPENAI_API_KEY again. Raises
    Failed: no_model where there is none, bad_endpoint where what is given is no address.
    """
    given = {"model": model, "base_url": base_url, "key_name": base_url and KEY}
    given = {name: value for name, value in given.items() if value}
    found = endpoints.get(role) or endpoints.get("default")
    try:
        if found:
            return msgspec.structs.replace(found, **given)
        if model and base_url:
            return Endpoint(model, base_url)
    except ValueError as error:
        raise Failed(Failure(role, "bad_endpoint", str(error))) from error
    detail = (
        "say which model and where it is served: --model NAME --base-url URL"
        f" (http://localhost:8000/v1, say), or a file with a table [{role}] or [default]"
    )
    raise Failed(Failure(role, "no_model", detail))


def key_of(endpoint: Endpoint) -> str:
    """The key from the environment; empty where the usual variable is not set.

    Raises Failed (no_key) where the endpoint names another variable and it is not set, or where
    what it holds cannot be a key.
    """
    name = endpoint.key_name
    key = os.environ.get(name, "").strip()
    if not key and name != KEY:
        raise Failed(Failure(endpoint.name, "no_key", f"set {name} in the environment"))
    if not sendable(key):
        detail = f"{name} holds characters that no key has: set it again"
        raise Failed(Failure(endpoint.name, "no_key", detail))
    return key


def sendable(key: str) -> bool:
    """Whether a header can carry the key."""
    return all("!" <= letter <= "~" for letter in key)
