"""The web application: routes, middleware, static files and lifespan of the desk and of the pages
that answer questions.

Each module of pages has a table of them by their paths; `build_web_app` puts them together.
`rookery.desk.page_endpoints` says how a page is written.
"""

import logging
import os
import re
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.supervisors import Multiprocess

from rookery.desk import accounts, crowd_entry
from rookery.desk.labelling_tasks import build_desk_pages
from rookery.desk.page_endpoints import (
    PLAIN_COOKIE,
    SECURE_COOKIE,
    SHORTCUTS_COOKIE,
    TEMPLATE_FOLDER,
    TEMPLATE_FUNCTIONS,
    THEME_COOKIE,
    AppContext,
    NavigationLink,
    PageHandler,
    call_page_handler,
    get_posted_value,
    get_session_token,
    get_store,
    make_routes,
    redirect_after_post,
    render_error_page,
    render_page,
    render_problem_page,
)
from rookery.desk.projects import load_project
from rookery.desk.store import Store
from rookery.errors import Failed
from rookery.library.worker_processes import end_with_parent
from rookery.server.api.answer_queue import AnswerService, WorkerSettings
from rookery.server.monitoring import (
    MULTIPROCESS_FOLDER,
    ObservabilityMiddleware,
    configure_json_logging,
)
from rookery.settings import Settings
from rookery.shell.languages import LANGUAGE_COOKIE, LANGUAGES, LanguageMiddleware, mark_text
from rookery.shell.rendering import PageAssets, serve_static_file
from rookery.shell.security import SecurityMiddleware, VisitorLimits


def build_web_app(
    store: Store,
    settings: Settings,
    limits: VisitorLimits = VisitorLimits(),
    reading: bool = True,
    at_once: int = WorkerSettings().workers,
    address: str = "",
) -> Starlette:
    """Return the application of the desk and, with `reading`, of asking, the API and MCP.

    Of questions, `at_once` are answered at the same time; links begin with `address` where there
    is one. The caller closes the store.
    """
    routes, links = _reading_pages() if reading else ([], [])
    desk_routes, desk_links = build_desk_pages()
    routes += [*make_routes(None, ACCOUNT_PAGES), *desk_routes]
    links += desk_links
    if not reading:
        routes.append(Route("/", _redirect_to_desk))
    app = Starlette(
        routes=[Route("/static/{digest}/{name}", serve_static_file), *routes],
        middleware=[
            Middleware(LanguageMiddleware),
            Middleware(GZipMiddleware, minimum_size=500, compresslevel=6),
            Middleware(SecurityMiddleware, limits=limits, refuse=_make_refusal),
        ],
        exception_handlers={HTTPException: _render_http_error, Failed: _render_http_error},
        lifespan=_run_lifespan,
    )
    app.router.redirect_slashes = False  # it would redirect to the host that the client named
    look = PageAssets(TEMPLATE_FUNCTIONS, TEMPLATE_FOLDER)
    app.state.desk = AppContext(store, settings, look, tuple(links), address.rstrip("/"))
    app.state.closing = []
    if reading:
        from rookery.server.documents import DocumentReader

        app.state.answering = AnswerService(store, settings, WorkerSettings(workers=at_once))
        app.state.documents = DocumentReader(settings, app.state.answering)
    return app


def _reading_pages() -> tuple[list[Route], list[NavigationLink]]:
    """Return the routes and head links of everything that answers questions.

    Imported here, so that a desk alone does not load the API, MCP and the evidence model.
    """
    from rookery.server.answer_pages import ANSWER_PAGES, show_linked_answer, stream_answer_page
    from rookery.server.api.routes import build_api_routes
    from rookery.server.document_pages import DOCUMENT_PAGES, post_files
    from rookery.server.mcp.protocol import build_mcp_routes
    from rookery.server.stored_pages import build_stored_page_routes

    routes = [
        *build_stored_page_routes(),
        *make_routes("reader", {**DOCUMENT_PAGES, **ANSWER_PAGES}),
        *make_routes(None, {"/shared/{link}": show_linked_answer}),
        Route("/documents", post_files, methods=["POST"]),
        Route("/answers/{answer}/events", stream_answer_page),
        *build_api_routes(),
        *build_mcp_routes(),
    ]
    links = [
        NavigationLink("/documents", "Documents", "reader"),
        NavigationLink("/", "Ask", "reader"),
        NavigationLink("/asked", "My questions", "reader"),
    ]
    return routes, links


async def _redirect_to_desk(request: Request) -> Response:
    """Redirect / to the desk, keeping the query."""
    query = request.url.query
    return RedirectResponse(f"/desk?{query}" if query else "/desk")


@asynccontextmanager
async def _run_lifespan(app: Starlette) -> AsyncIterator[None]:
    """Start the answer workers with the application; at its end stop them and close libraries."""
    answering = getattr(app.state, "answering", None)
    if answering:
        from rookery.server import documents

        await run_in_threadpool(documents.recover_documents)
        documents.register_documents(answering)
        answering.start()
        app.state.documents.start()
    yield
    if answering:
        await run_in_threadpool(app.state.documents.close)
        await run_in_threadpool(answering.close)
    for close in app.state.closing:  # libraries that pages opened on first use
        close()


def _render_http_error(request: Request, error: Exception) -> Response:
    """Render the error page for an HTTPException of Starlette, such as 404, or for a Failed."""
    if not isinstance(error, HTTPException):
        return render_error_page(request, error)
    sentences = {
        404: mark_text("There is no such page."),
        405: mark_text("This page does not accept that request."),
    }
    sentence = sentences.get(error.status_code, mark_text("The request could not be read."))
    show = partial(render_problem_page, status=error.status_code, sentence=sentence)
    return call_page_handler(show, None, False, request)


def _make_refusal(scope: Scope, status: int, sentence: str) -> ASGIApp:
    """Return an ASGI application that sends the error page with this status and sentence."""

    async def send_refusal(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        request.state.person = None
        await render_problem_page(request, status, sentence)(scope, receive, send)

    return send_refusal


SECURE_PROBE_COOKIE = "__Host-tried"
"""name of a cookie without content, set to see whether the browser accepts Secure cookies here"""
COOKIE_FLAGS: dict[str, Any] = {"httponly": True, "samesite": "lax"}
"""of every cookie: scripts and other sites' forms have none of them"""
YEAR_SECONDS = 365 * 86_400
"""seconds in a year"""


def show_invite_page(request: Request) -> Response:
    """Show the page behind an invite link, without using the invite up.

    It sets a Secure cookie without content: if that comes back, the session cookie can be Secure,
    too. Raises Failed (no_invite).
    """
    invited = accounts.find_invited_person(get_store(request), request.path_params["token"])
    places = []
    if hasattr(request.app.state, "answering") and not _is_rater(invited):
        from rookery.server.documents import list_searched_places

        places = list_searched_places(request.app.state.answering.capabilities)
    return _probe_secure_cookies(render_page(request, "enter.html", places=places))


def _is_rater(person: accounts.Person) -> bool:
    return person.role in ("labeller", "reviewer")


def _probe_secure_cookies(answer: Response) -> Response:
    answer.set_cookie(SECURE_PROBE_COOKIE, "yes", max_age=600, secure=True, **COOKIE_FLAGS)
    return answer


def post_invite_acceptance(request: Request) -> Response:
    """Accept an invite: use it up, end the browser's earlier session, and begin a new one.

    Sets the new session's cookie, which is Secure over https or where a Secure cookie came back.
    Raises Failed (no_invite).
    """
    store, token = get_store(request), request.path_params["token"]
    person = accounts.find_invited_person(store, token)
    session = accounts.redeem_invite(store, token)
    return _let_in(request, session, f"{'/desk' if _is_rater(person) else '/'}?said=in")


def show_crowd_entry(request: Request) -> Response:
    """Show the page behind a crowd platform's link, without creating anything.

    Raises Failed (no_invite).
    """
    store, project = get_store(request), request.path_params["project"]
    arrival = crowd_entry.check_crowd_link(store, project, request.query_params)
    most = load_project(store, arrival.project).settings.session_items
    page = render_page(request, "enter_crowd.html", arrival=arrival, most=most)
    return _probe_secure_cookies(page)


def post_crowd_entry(request: Request) -> Response:
    """Let somebody in who comes by a crowd platform's link. Raises Failed (no_invite)."""
    store, project = get_store(request), request.path_params["project"]
    arrival = crowd_entry.check_crowd_link(store, project, request.query_params)
    return _let_in(request, crowd_entry.enter_by_crowd_link(store, arrival), "/desk?said=in")


def _let_in(request: Request, session: str, address: str) -> Response:
    """End the browser's earlier session, set the cookie of the new one, and redirect."""
    accounts.end_session(get_store(request), get_session_token(request))
    answer = redirect_after_post(address)
    strict = request.url.scheme == "https" or SECURE_PROBE_COOKIE in request.cookies
    name, seconds = SECURE_COOKIE if strict else PLAIN_COOKIE, int(accounts.SESSION_MAX_SECONDS)
    answer.set_cookie(name, session, max_age=seconds, secure=strict, **COOKIE_FLAGS)
    return answer


def post_sign_out(request: Request) -> Response:
    """End the session in the store, and delete its cookies and the site's browser storage."""
    accounts.end_session(get_store(request), get_session_token(request))
    answer = redirect_after_post("/?said=out")
    answer.delete_cookie(SECURE_COOKIE, secure=True, **COOKIE_FLAGS)
    answer.delete_cookie(PLAIN_COOKIE, **COOKIE_FLAGS)
    answer.headers["Clear-Site-Data"] = '"storage"'
    return answer


PREFERENCES: Mapping[str, tuple[str, Collection[str]]] = {
    "/language": (LANGUAGE_COOKIE, LANGUAGES),
    "/theme": (THEME_COOKIE, ("light", "dark", "")),
    "/keys": (SHORTCUTS_COOKIE, ("on", "off")),
}
"""cookie and values of each preference, by the path that its form is posted to; the theme "" is
that of the system, and keys are single-key shortcuts (WCAG 2.1.4)"""


def post_preference(request: Request) -> Response:
    """Keep a preference in a cookie of this browser, and go back to the page where it was set."""
    path, page = request.url.path, get_posted_value(request, "there")
    # Only paths of this site: browsers read a second slash, or a backslash, as another host.
    local = re.fullmatch(r"/(?![/\\])[^\\\x00-\x20]*", page)
    answer = redirect_after_post(page if local else "/")
    (cookie, values), chosen = PREFERENCES[path], get_posted_value(request, path[1:])
    if chosen in values:
        answer.set_cookie(cookie, chosen, max_age=YEAR_SECONDS, **COOKIE_FLAGS)
    return answer


ACCOUNT_PAGES: Mapping[str, PageHandler] = {
    "/enter/{token}": show_invite_page,
    "POST /enter/{token}": post_invite_acceptance,
    "/enter/crowd/{project:path}": show_crowd_entry,
    "POST /enter/crowd/{project:path}": post_crowd_entry,
    "POST /leave": post_sign_out,
    **{f"POST {path}": post_preference for path in PREFERENCES},
}
"""pages for signing in and out and for preferences, for everybody"""


SHUTDOWN_SECONDS = 10
"""seconds that a request under way may take once the server is stopped"""
RESTART_SECONDS = 1.0
"""seconds before a worker that cannot begin is replaced"""


class ServerOptions(msgspec.Struct, frozen=True):
    """Host, port and limits of the server."""

    reading: bool = True
    """whether questions are answered, too"""
    workers: int = 1
    """processes"""
    at_once: int = WorkerSettings().workers
    """questions that each process answers at the same time"""
    behind_proxy: bool = False
    """whether all comes through a proxy, whose word is taken"""
    log: bool = False
    """a line of JSON for each request, on standard error"""
    address: str = ""
    """how people reach the server, with which links begin; empty: the address of the connection"""


def run_server(place: str, settings: Settings, listener: socket.socket, how: ServerOptions) -> None:
    """Run the server, in one process or several, until it is told to end.

    Then requests under way may finish within SHUTDOWN_SECONDS, and unfinished answers return to the
    queue. Of several worker processes, one that dies is replaced.
    """
    if how.log:
        configure_json_logging()
    if how.workers == 1:
        make_app = partial(build_worker_app, place, settings, how)
        uvicorn.Server(_make_config(make_app, how)).run([listener])
        return
    with tempfile.TemporaryDirectory(prefix="rookery-") as folder:
        os.environ[MULTIPROCESS_FOLDER] = folder  # of the workers, which are new processes
        make_app = partial(_build_supervised_app, place, settings, how)
        Multiprocess(_make_config(make_app, how), [listener]).run()


def _make_config(make_app: Any, how: ServerOptions) -> uvicorn.Config:
    logs: dict[str, Any] = {"log_config": None} if how.log else {}
    return uvicorn.Config(
        make_app,
        factory=True,
        workers=how.workers,
        log_level="warning",
        access_log=False,  # addresses hold the tokens of invites
        server_header=False,
        ws="none",  # rookery serve env alone has WebSockets
        proxy_headers=False,  # these are read by ObservabilityMiddleware, or by nobody
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_worker_healthcheck=60,  # one that still loads modules does not answer
        **logs,
    )


def build_worker_app(place: str, settings: Settings, how: ServerOptions) -> ASGIApp:
    """Return the application of one process, with a store, logging and metrics of its own.

    `place` is the store's, a file or an address. Raises Failed as the store does.
    """
    store = Store(place)
    more = (how.reading, how.at_once, how.address)
    app = build_web_app(store, settings, VisitorLimits(), *more)
    app.state.closing.append(store.close)
    return ObservabilityMiddleware(app, how.behind_proxy)


def _build_supervised_app(place: str, settings: Settings, how: ServerOptions) -> ASGIApp:
    end_with_parent()
    if how.log:
        configure_json_logging()
    try:
        return build_worker_app(place, settings, how)
    except Failed as failed:  # it is replaced, until what is the matter is over
        logging.getLogger("rookery.running").error("%s", failed)
        time.sleep(RESTART_SECONDS)
        raise SystemExit(1) from None
