"""What the headers of an MCP message must say, in each revision of the protocol.

It knows nothing of who sends it.
"""

import base64
import re
from typing import Any

from starlette.datastructures import Headers

from rookery.serve.mcp import (
    BATCH,
    BATCHED,
    HANDSHAKE,
    INVALID,
    MISMATCH,
    VERSION_KEY,
    Refusal,
)

VERSION = "mcp-protocol-version"
ASSUMED = "2025-03-26"
"""the revision of a client that does not say which"""
_ENCODED = re.compile(r"=\?base64\?([A-Za-z0-9+/=]*)\?=")


def require_known(headers: Headers, message: Any) -> None:
    """Raises Refusal for what a revision with a handshake does not have."""
    version = headers.get(VERSION, ASSUMED)
    if version not in HANDSHAKE:
        known = ", ".join(HANDSHAKE)
        raise Refusal(INVALID, f"this MCP-Protocol-Version is not spoken here: use one of {known}")
    if isinstance(message, list):
        if version not in BATCHED:
            raise Refusal(INVALID, "this revision of the protocol takes one message at a time")
        if not 1 <= len(message) <= BATCH:
            raise Refusal(INVALID, f"a list holds from 1 to {BATCH} messages")


def require_same_said_twice(headers: Headers, message: Any) -> None:
    """Raises Refusal where the headers and a message that says its own revision differ: proxies
    go by the ones, we by the other."""
    if not isinstance(message, dict):
        raise Refusal(INVALID, "this revision of the protocol takes one message at a time")
    if "id" not in message:
        return
    said = {VERSION: own_version(message), "mcp-method": message.get("method")}
    if message.get("method") == "tools/call":
        params = message.get("params")
        said["mcp-name"] = params.get("name") if isinstance(params, dict) else None
    for header, value in said.items():
        if _plain(headers.get(header)) != value:
            raise Refusal(MISMATCH, f"the header {header} does not say what the message says")


def own_version(message: Any) -> Any:
    """The revision that a message says itself; nothing where it does not."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(VERSION_KEY, "") if isinstance(meta, dict) else ""


def _plain(value: str | None) -> str | None:
    """What a header says; what is not ASCII is sent as =?base64?...?=."""
    encoded = _ENCODED.fullmatch(value or "")
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except ValueError:
        return None
