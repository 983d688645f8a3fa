"""The desk as one web application: its pages put together, its people let in by their roles.

How a page is made (browser.py, board.py and cord.py do the same as tasks.py):

- A module has `routes() -> list[Route]`, and `links() -> list[Link]` where it belongs in the head
  of each page. Both are found here by the module's name in MODULES.
- A page is a plain function, run in a thread, that takes a Request and gives a Response:

      @needs("researcher")            # or "reader", "labeller", "reviewer", "admin"; None: all
      def board(request: Request) -> Response:
          desk = desk_of(request)     # Desk: store, settings, look
          person = person_of(request) # Person; always one where a role is needed
          said = sent(request)        # what a form sent: dict[str, tuple[str, ...]]; one(said, "x")
          return page(request, "board.html", counts=...)         # see rendering.py
          return see_other("/board?said=saved")                  # after every change

- Whoever changes anything does so in a POST. A Failed becomes a page with its sentence where its
  outcome is in TOLD, and otherwise one that gives nothing away.
- Tests make the whole with make_app(store, settings), and look at it with Starlette's client.

It knows nothing of what the pages say.
"""

import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rookery.judge import people
from rookery.judge.people import Person
from rookery.judge.store import Store
from rookery.judge.work import Role
from rookery.records import Failed
from rookery.serve.web.guard import Guard, Limits
from rookery.serve.web.rendering import Look, page, static_file

if TYPE_CHECKING:
    from rookery.serve.session import Settings

MODULES = ("entering", "tasks", "browser", "cord", "board")
READING = ("page_shown", "documents", "exports", "retrace", "api", "mcp_http", "reading")
"""modules of what is there only where questions are answered too"""
SECURE = "__Host-rookery"
"""the cookie of a session, where the browser keeps such: https, and mostly this very machine"""
PLAIN = "rookery"
TOLD = {"already": 409, "no_invite": 410, "no_item": 404, "gone": 409, "not_allowed": 403}
TOLD |= {"no_answer": 404, "not_rated": 400, "busy": 503}
"""outcomes whose sentence is for whoever asked, and the status of the page that says it"""
BUSY = {"store_busy": 503, "disk_full": 507}
_LOG = logging.getLogger("rookery.desk")
Page = Callable[[Request], Response]


class Desk(msgspec.Struct, frozen=True):
    """All that the pages work with."""

    store: Store
    settings: "Settings"
    """of the library in which demonstrations search"""
    look: Look


def make_app(
    store: Store, settings: "Settings", limits: Limits = Limits(), reading: bool = True
) -> Starlette:
    """The desk on a store and, with `reading`, the pages on which questions are answered. The
    store is the caller's to close."""
    modules = [
        import_module(f"{__package__}.{name}")
        for name in (*(READING if reading else ()), *MODULES)
        if find_spec(f"{__package__}.{name}")
    ]
    links = [link for module in modules for link in getattr(module, "links", list)()]
    routes = [route for module in modules for route in module.routes()]
    if not reading:
        routes.append(Route("/", _to_the_desk))
    app = Starlette(
        routes=[Route("/static/{digest}/{name}", static_file), *routes],
        middleware=[
            Middleware(GZipMiddleware, minimum_size=500, compresslevel=6),
            Middleware(Guard, limits=limits, refuse=_refuse),
        ],
        exception_handlers={HTTPException: _no_page},
        lifespan=_lifespan,
    )
    app.state.desk = Desk(store, settings, Look(tuple(links)))
    app.state.closing = []
    if reading:
        from rookery.serve.web.answering import Answering

        app.state.answering = Answering(store, settings)
    return app


async def _to_the_desk(request: Request) -> Response:
    query = request.url.query
    return RedirectResponse(f"/desk?{query}" if query else "/desk")


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    answering = getattr(app.state, "answering", None)
    if answering:
        from rookery.serve.web import documents

        documents.offer(answering)
        answering.start()
    yield
    if answering:
        await run_in_threadpool(answering.close)
    for close in app.state.closing:  # what a module opened for as long as the desk runs
        close()


def desk_of(request: Request) -> Desk:
    """The desk that was asked."""
    desk: Desk = request.app.state.desk
    return desk


def person_of(request: Request) -> Person:
    """Who asks, on a page that needs a role."""
    person: Person = request.state.person
    return person


def sent(request: Request) -> dict[str, tuple[str, ...]]:
    """What a form sent, by name; nothing where none was sent."""
    fields: dict[str, tuple[str, ...]] = request.state.sent
    return fields


def one(fields: dict[str, tuple[str, ...]], name: str) -> str:
    """The last value of that name, or nothing."""
    return fields.get(name, ("",))[-1]


def see_other(address: str) -> Response:
    """To be looked at next, after a change: going back or reloading does not repeat it."""
    return RedirectResponse(address, 303)


def needs(role: Role | None) -> Callable[[Page], Callable[..., Coroutine[Any, Any, Response]]]:
    """A page for those who may do what this role may; None: for everybody."""

    def let_in(handler: Page) -> Callable[..., Coroutine[Any, Any, Response]]:
        @wraps(handler)
        async def endpoint(request: Request) -> Response:
            request.state.sent = await _form(request)
            return await run_in_threadpool(_answered, handler, role, request)

        return endpoint

    return let_in


def _answered(handler: Page, role: Role | None, request: Request) -> Response:
    """The page, or one that says why there is none; errors are logged and given away to nobody."""
    request.state.person = None
    try:
        request.state.person = person = people.who(desk_of(request).store, session_of(request))
        if role and person is None:
            return problem(request, 401, "You are not in yet, or were away for long.")
        if role and person and not people.allowed(person, role):
            return problem(request, 403, "This page is not for your role. Ask whoever invited you.")
        return handler(request)
    except Failed as failed:
        outcome = failed.failure.outcome
        if outcome in TOLD:
            return problem(request, TOLD[outcome], failed.failure.detail)
        _LOG.error("%s: %s", request.url.path, failed)
        if outcome in BUSY:
            sentence = "The desk could not keep that just now. Go back and send it again."
            return problem(request, BUSY[outcome], sentence)
    except Exception:
        _LOG.exception("%s", request.url.path)
    return problem(request, 500, "Something went wrong here, not with you. Go back and try again.")


def session_of(request: Request) -> str:
    """The session that the browser holds, or nothing."""
    kept = request.cookies.get(SECURE, "")
    return kept or (request.cookies.get(PLAIN, "") if request.url.scheme == "http" else "")


def problem(request: Request, status: int, sentence: str) -> Response:
    """A page that says what is the matter, and leads on."""
    # It asks the store for nothing: that may be what is the matter.
    return page(request, "problem.html", status, sentence=sentence, status=status, alive=False)


async def _form(request: Request) -> dict[str, tuple[str, ...]]:
    if request.method in ("GET", "HEAD"):
        return {}
    fields: dict[str, tuple[str, ...]] = {}
    async with request.form(max_files=0, max_fields=5000) as form:
        for name, value in form.multi_items():
            if isinstance(value, str):
                # Browsers send line ends as CR LF.
                fields[name] = (*fields.get(name, ()), value.replace("\r\n", "\n"))
    return fields


async def _no_page(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentences = {404: "There is no such page.", 405: "This page takes no such thing."}
    request.state.person = None
    return problem(request, status, sentences.get(status, "That could not be read."))


def _refuse(scope: Scope, status: int, sentence: str) -> ASGIApp:
    async def refusal(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        request.state.person = None
        await problem(request, status, sentence)(scope, receive, send)

    return refusal
