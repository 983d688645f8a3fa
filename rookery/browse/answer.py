"""What one HTTP answer says before anyone reads its body: an error, a redirect, a header.

It knows neither policy nor pages, and asks for nothing itself.
"""

from urllib.parse import quote, urljoin

import httpcore

from rookery.browse.network import KEPT, Target
from rookery.browse.outcomes import FetchError

REDIRECTS = frozenset({301, 302, 303, 307, 308})

HTTPCORE_ERRORS = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
)


def named(error: Exception, host: str, answer: httpcore.Response | None = None) -> FetchError:
    """What httpcore raised, before or within the body of an answer, as one of our outcomes."""
    if isinstance(error, httpcore.LocalProtocolError):
        raise ValueError("a header that was given holds what HTTP forbids, such as a line break")
    if isinstance(error, httpcore.TimeoutException):
        return FetchError("timed_out", f"{host} was too slow; raise Limits.seconds or try later")
    if isinstance(error, httpcore.ConnectError | httpcore.ProxyError):
        return FetchError("refused", f"no connection to {host}: {error}; try again later")
    if getattr(error.args[0] if error.args else None, "error_status_hint", 0) == 431:
        return FetchError("too_large", f"the headers that {host} sends are beyond all measure")
    if isinstance(error, httpcore.NetworkError) or _ended(error, answer):
        return FetchError("truncated", f"{host} ended its answer early ({error}); try again")
    return FetchError("malformed", f"{host} does not speak proper HTTP: {error}")


def _ended(error: Exception, answer: httpcore.Response | None) -> bool:
    if answer is None:  # httpcore says in its own words that nothing came, and else cites h11
        return bool(error.args) and isinstance(error.args[0], str)
    return bool(answer.extensions["network_stream"].get_extra_info("ended"))


def redirection(answer: httpcore.Response, here: Target) -> str | None:
    """Where an answer sends its reader; bytes that are not ASCII stay what they are, escaped."""
    locations = [value for name, value in answer.headers if name.lower() == b"location"]
    if answer.status not in REDIRECTS or not locations:
        return None
    try:
        return urljoin(here.url, quote(locations[0].strip(), safe=KEPT + "#"))
    except ValueError as error:
        raise FetchError("invalid_url", f"it redirects to no address: {error}") from None


def check_status(answer: httpcore.Response) -> None:
    """Nothing for an answer whose body is what was asked for; else FetchError (http_<status>)."""
    if 200 <= answer.status < 300 and answer.status != 206:
        return
    later = header(answer, b"retry-after")[:40]
    advice = ADVICE.get(answer.status, "")
    detail = f"the server answered {answer.status}{advice}"
    raise FetchError(f"http_{answer.status}", detail + (f" (after: {later})" if later else ""))


ADVICE = {
    401: ": it wants a login or a key",
    403: ": it refuses this program or this address",
    404: ": there is no such page",
    410: ": the page is gone for good",
    429: ": too many requests; wait before the next",
    503: ": it is overloaded; try again later",
}


def header(answer: httpcore.Response, name: bytes) -> str:
    """The header of this name (in lower case), repeated ones joined; empty where there is none."""
    values = [value for key, value in answer.headers if key.lower() == name]
    return ", ".join(value.decode("latin-1") for value in values)
