"""Logs of a server: one line of JSON each, with the id of the request that it belongs to.

What could be a secret is taken out: tokens and keys, passwords in addresses, what an address asks
for after its question mark, the values of a statement. It knows nothing of what is logged.
"""

import logging
import re
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

import msgspec

REQUEST: ContextVar[str] = ContextVar("REQUEST", default="")
"""the id of the request under way"""
REQUESTS = "rookery.requests"
"""the logger of requests that are over"""
CUT = "[...]"
_SECRETS = (
    (re.compile(r"(/enter/)[^\s/?\"']+"), rf"\1{CUT}"),
    (re.compile(r"\brk-[\w-]{8,}"), CUT),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+"), rf"\1 {CUT}"),
    (re.compile(r"(?i)\b(cookie|authorization)(['\"]?\s*[:=]\s*).*"), rf"\1\2{CUT}"),
    (re.compile(r"(\w://[^\s/:@]*):[^\s/@]+@"), rf"\1:{CUT}@"),
    (re.compile(r"(\w://[^\s?\"']+\?)[^\s\"')]+"), rf"\1{CUT}"),
    (re.compile(r"\[parameters: .*"), f"[parameters: {CUT}]"),
    (re.compile(r"(?s)(DETAIL: ).*"), rf"\1{CUT}"),  # PostgreSQL repeats values in it
)


class JsonLines(logging.Formatter):
    """A record as one line of JSON; `extra={"request": ...}` gives its fields themselves."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"at": at, "level": record.levelname.lower()}
        line |= {"id": REQUEST.get()} if REQUEST.get() else {}
        request = getattr(record, "request", None)
        if request is None:
            line |= {"logger": record.name, "message": without_secrets(record.getMessage())}
        else:
            line |= request
        if record.exc_info:
            line["trace"] = without_secrets(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


def without_secrets(said: str) -> str:
    """The same without what could be a secret."""
    for pattern, instead in _SECRETS:
        said = pattern.sub(instead, said)
    return said


def log_as_json() -> None:
    """From now on this process logs so, on standard error; of others than requests, warnings and
    worse."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(REQUESTS).setLevel(logging.INFO)
