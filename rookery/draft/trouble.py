"""What goes wrong with a model behind a server, and what to do about it, in words.

It knows status codes and the words of servers. It sends nothing.
"""

import html
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from rookery.draft.endpoint import Endpoint

OUTCOMES = (
    "no_model",  # none was named, or no role of a file has one
    "no_key",
    "bad_endpoint",  # a setting that is wrong in itself
    "no_openai",  # the client library is not installed
    "model_unreachable",
    "model_timed_out",
    "model_refused_key",
    "model_not_found",  # the model, or the route to it
    "model_quota",
    "model_refused",  # the request: too long, a field that the server does not know
    "model_failed",  # a fault of the server
    "model_bad_answer",
    "model_broke_off",  # the answer has no end
    "spending_cap",
)
"""how a call of a remote model fails; of a recorded one, not_recorded and what an Archive raises"""


class Trouble(Exception):
    """One try that came to nothing."""

    def __init__(
        self,
        outcome: str,
        advice: str,
        said: str = "",
        again: bool = False,
        billed: bool = True,
        after: float = 0.0,
    ) -> None:
        super().__init__(advice)
        self.outcome = outcome
        self.advice = advice
        self.said = said
        """the server's own words, the key not taken out"""
        self.again = again
        """whether another try may help"""
        self.billed = billed
        """whether it may have been paid for"""
        self.after = after
        """seconds before which the server wants no other try"""


def bad_answer(advice: str, said: str = "") -> Trouble:
    """What is not an answer, though the server takes it for one."""
    return Trouble("model_bad_answer", advice, said)


def refusal(endpoint: Endpoint, status: int, said: str, headers: Mapping[str, str]) -> Trouble:
    """What a status other than 200 means; `headers` have names in lower case."""
    if status < 400:
        said = f"HTTP {status} {headers.get('location', '')}".rstrip()
        advice = "it sends on: give where that leads as base_url"
        return Trouble("model_unreachable", advice, said, billed=False)
    outcome = _OUTCOMES.get(status, "model_failed" if status >= 500 else "model_refused")
    again = status in (408, 429) or (status >= 500 and status not in (501, 505))
    again = again and "insufficient_quota" not in said
    billed = status in (408, 504)  # somebody in between did not wait for the model
    advice = _hint(endpoint, said) or _ADVICE[outcome].format(
        key=endpoint.key_name, kind=endpoint.kind, other=_OTHER[endpoint.kind]
    )
    said = f"HTTP {status}: {said}".rstrip(": ")
    return Trouble(outcome, advice, said, again, billed, _after(headers))


_OUTCOMES = {
    401: "model_refused_key",
    402: "model_quota",
    403: "model_refused_key",
    404: "model_not_found",
    405: "model_not_found",
    408: "model_timed_out",
    410: "model_not_found",
    429: "model_quota",
    504: "model_timed_out",
}
_OTHER = {"chat": "completions", "completions": "chat"}
_ADVICE = {
    "model_refused_key": "set {key} in the environment to a key that it takes",
    "model_quota": "wait, ask less at once, pay for more, or use another endpoint",
    "model_not_found": (
        "check the model's name and base_url (most end in /v1);"
        " if the server answers no {kind}, set kind to {other}"
    ),
    "model_timed_out": "ask for fewer tokens (max_tokens), or try when it has less to do",
    "model_refused": "shorten the prompt, or change the setting that it names",
    "model_failed": "the fault is the server's: look into its log, or try again later",
}


def _hint(endpoint: Endpoint, said: str) -> str:
    """What to do where the server's words show that it has only the other kind."""
    wrong = {
        "chat": r"chat.?template|not a chat model|v1/completions",
        "completions": r"v1/chat/completions|is a chat model",
    }
    if re.search(wrong[endpoint.kind], said, re.I):
        return f"it does not answer {endpoint.kind}: set kind to {_OTHER[endpoint.kind]}"
    return ""


def _after(headers: Mapping[str, str]) -> float:
    """The seconds that `Retry-After` asks for, as a number or as a date; 0 where it does not."""
    asked = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", asked):
        return float(asked)
    try:
        until = parsedate_to_datetime(asked)
    except ValueError:
        return 0.0
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max((until - datetime.now(UTC)).total_seconds(), 0.0)


def words(body: bytes) -> str:
    """What a refusal says to a person: the message of a JSON error, the text of an HTML page."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        text = re.sub(r"<[^<>]*>", " ", body.decode("utf-8", "replace"))
        return " ".join(html.unescape(text).split())
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()
