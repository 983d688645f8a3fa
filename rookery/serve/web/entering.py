"""In by an invite link, out again, and what somebody wants of this browser.

Looking at an invite uses nothing up; entering does. It knows nothing of work.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.judge import people
from rookery.serve.web.app import PLAIN, SECURE, desk_of, needs, one, see_other, sent, session_of
from rookery.serve.web.rendering import KEYS, page

TRIED = "__Host-tried"
"""a cookie of the strict kind that says nothing"""
YEAR = 365 * 86_400


def routes() -> list[Route]:
    """The ways in and out."""
    return [
        Route("/enter/{token}", invited),
        Route("/enter/{token}", enter, methods=["POST"]),
        Route("/leave", leave, methods=["POST"]),
        Route("/keys", keys, methods=["POST"]),
    ]


@needs(None)
def invited(request: Request) -> Response:
    """The page behind an invite link. Whether the browser keeps the strict kind of cookie is seen
    from one that says nothing."""
    answer = page(request, "enter.html")
    answer.set_cookie(TRIED, "yes", max_age=600, secure=True, httponly=True, samesite="lax")
    return answer


@needs(None)
def enter(request: Request) -> Response:
    """Uses the invite up, ends the session that the browser had, and begins a new one."""
    store = desk_of(request).store
    session = people.enter(store, request.path_params["token"])
    people.leave(store, session_of(request))
    answer = see_other("/?said=in")
    strict = request.url.scheme == "https" or TRIED in request.cookies
    answer.set_cookie(
        SECURE if strict else PLAIN,
        session,
        max_age=int(people.ABSOLUTE),
        secure=strict,
        httponly=True,
        samesite="lax",
    )
    return answer


@needs(None)
def leave(request: Request) -> Response:
    """Ends the session, here and in the store."""
    people.leave(desk_of(request).store, session_of(request))
    answer = see_other("/?said=out")
    answer.delete_cookie(SECURE, secure=True, httponly=True, samesite="lax")
    answer.delete_cookie(PLAIN, httponly=True, samesite="lax")
    answer.headers["Clear-Site-Data"] = '"storage"'
    return answer


@needs(None)
def keys(request: Request) -> Response:
    """Single-key shortcuts on or off, on this browser (WCAG 2.1.4)."""
    answer = see_other("/?said=keys")
    value = "off" if one(sent(request), "keys") == "off" else "on"
    answer.set_cookie(KEYS, value, max_age=YEAR, httponly=True, samesite="lax")
    return answer
