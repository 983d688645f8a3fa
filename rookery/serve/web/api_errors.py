"""What a program is told when its request comes to nothing: a status and one sentence, in JSON.

The shape is OpenAI's, `{"error": {message, type, param, code}}`, which Perplexity shares; that of
/retrieve is Search-R1's, `{"detail": ...}`. Nothing of this machine is told: no stack, no path, no
key, and no words of a model's server. It knows nothing of what was asked.
"""

import logging
import re
from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from rookery.records import Failed, Failure

_LOG = logging.getLogger("rookery.api")
RETRIEVE = "/retrieve"
BROKEN = "Something went wrong here, not with you. Try again later."
_AT = re.compile(r" - at `\$\.?([^`]*)`$")
_MISSING = re.compile(r"missing required field `([^`]+)`")


class ErrorDetail(msgspec.Struct, frozen=True):
    """What went wrong."""

    message: str
    """one sentence that says what to do next"""
    type: str
    param: str | None = None
    """the field that it is about"""
    code: str | None = None


class ErrorBody(msgspec.Struct, frozen=True):
    """An error in the shape of the OpenAI API."""

    error: ErrorDetail


class PlainError(msgspec.Struct, frozen=True):
    """An error in the shape of Search-R1's server."""

    detail: str


class Refused(Exception):
    """A request that is not answered, and what its sender is told."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        after: int = 0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = ErrorDetail(message, _type(status, code), param, code)
        self.after = after
        """seconds before which another try is of no use; 0: nothing is known"""

    def response(self, path: str) -> Response:
        """What is sent, in the shape of the convention that this address belongs to."""
        plain = path == RETRIEVE
        body = PlainError(self.detail.message) if plain else ErrorBody(self.detail)
        return Response(msgspec.json.encode(body), self.status, self._headers(), "application/json")

    def _headers(self) -> dict[str, str]:
        headers = {}
        if self.after:
            headers["Retry-After"] = str(self.after)
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.detail.code in FINAL or self.status in (501, 507):
            headers["x-should-retry"] = "false"  # which OpenAI's clients go by
        return headers


FINAL = ("insufficient_quota",)
"""codes after which another try is of no use, though the status says otherwise"""


def _type(status: int, code: str | None) -> str:
    if code in FINAL:
        return str(code)
    return {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        429: "rate_limit_error",
    }.get(status, "invalid_request_error" if status < 500 else "server_error")


def wrong_type(error: msgspec.ValidationError, status: int = 400) -> Refused:
    """A field that is not what it must be, named."""
    said = str(error)
    found = _AT.search(said)
    parent, missing = found[1] if found else "", _MISSING.search(said)
    param = ".".join(part for part in (parent, missing[1] if missing else "") if part)
    sentence = _AT.sub("", said)
    where = f"{param}: " if param else ""
    return Refused(status, f"{where}{sentence}.", "invalid_type", param or None)


TOLD: Mapping[str, tuple[int, str]] = {
    "store_busy": (503, "Others are writing just now. Send it again in a moment."),
    "disk_full": (507, "The server has no room to keep this. Tell whoever runs it."),
    "store_fails": (503, "The server cannot reach its store. Tell whoever runs it."),
    "model_unreachable": (502, "The model's server cannot be reached. Try again later."),
    "model_timed_out": (504, "The model did not answer in time. Try again later."),
    "model_refused_key": (502, "The model's server refuses this server's key."),
    "model_not_found": (502, "The model's server does not know the model."),
    "model_quota": (503, "The model's server wants no more requests now. Try again later."),
    "model_refused": (502, "The model's server refused what it was asked."),
    "model_failed": (502, "The model's server failed. Try again later."),
    "model_bad_answer": (502, "The model's server gave no answer that can be read."),
    "model_broke_off": (502, "The model broke off in mid-answer. Try again."),
    "spending_cap": (503, "What models may cost on this server is spent."),
    "not_recorded": (404, "This was not asked before, so it cannot be answered offline."),
    "timed_out": (504, "That took longer than this server allows. Ask for less, or try again."),
    "busy": (503, "Too many questions are being answered. Send it again in a moment."),
    "no_calibration": (400, "Nothing is known of this model by which it could decline so."),
}
"""by outcome: the status, and what is said in place of the detail, which may name this machine"""
AGAIN = 2
"""seconds, where nothing better is known"""
_RETRIED = ("store_busy", "busy", "model_quota", "model_unreachable")


def failed(failure: Failure) -> Refused:
    """What a program is told of a failure of ours."""
    status, message = TOLD.get(failure.outcome, (500, BROKEN))
    code = failure.outcome if failure.outcome in TOLD else None
    return Refused(status, message, code, after=AGAIN if failure.outcome in _RETRIED else 0)


def worded(error: Exception, where: str) -> Refused:
    """What a program is told of an error; what it is not told goes to the log."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Failed):
        _LOG.warning("%s: %s", where, error)
        return failed(error.failure)
    _LOG.error("%s", where, exc_info=error)
    return Refused(500, BROKEN)


def late() -> Refused:
    """An answer that is not there in time."""
    return Refused(*TOLD["timed_out"], "timed_out")


def no_model(name: str) -> Refused:
    """A model that is not offered."""
    message = f"There is no model {name[:80]!r} here: GET /v1/models says which there are."
    return Refused(404, message, "model_not_found", "model")
