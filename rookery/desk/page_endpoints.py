"""Page endpoints: sign-in and role checks, form fields, redirects and error pages.

A page is a plain function that takes a Request and returns a Response. `require_role` makes an
endpoint of it, which runs it in a thread:

    def show_progress_page(request: Request) -> Response:
        store = get_store(request)
        by = get_person_name(request)  # only where a role is required
        return render_page(request, "board.html", batch=get_posted_value(request, "batch"), by=by)

    admit = require_role("researcher")  # or "reader", "labeller", "reviewer", "admin"; None: all
    routes = [Route("/board", admit(show_progress_page))]

Every change is made in a POST and ends with `redirect_after_post`. A Failed whose outcome is in
REPORTED_STATUSES becomes a page with its message; any other error is logged and becomes a page that
gives no details away.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rookery.desk import accounts
from rookery.desk.accounts import Person
from rookery.desk.labelling_records import PersonRole
from rookery.desk.page_rendering import NavigationLink, render_page
from rookery.desk.store import Store
from rookery.errors import Failed, Outcome
from rookery.shell.languages import mark_text, translate_borrowed_text
from rookery.shell.rendering import PageAssets

if TYPE_CHECKING:
    from rookery.settings import Settings

SECURE_COOKIE = "__Host-rookery"
"""name of the session cookie over https. Browsers accept the __Host- prefix only for Secure
cookies; most treat http://localhost as secure, too"""
PLAIN_COOKIE = "rookery"
"""name of the session cookie where the browser refuses Secure cookies: plain http"""
REPORTED_STATUSES: Mapping[str, int] = {
    Outcome.DAMAGED_RECORDS: 500,
    Outcome.ALREADY: 409,
    Outcome.NO_LEASE: 409,
    Outcome.NO_INVITE: 410,
    Outcome.NO_ANSWER: 404,
    Outcome.NO_ITEM: 404,
    Outcome.NOT_ALLOWED: 403,
    Outcome.NOT_RATED: 400,
    Outcome.BUSY: 503,
}
"""HTTP status by outcome of the Failed errors whose message is shown to the person"""
BUSY_STATUSES: Mapping[str, int] = {Outcome.STORE_BUSY: 503, Outcome.DISK_FULL: 507}
"""HTTP status by outcome of the Failed errors after which sending again may succeed"""
_LOG = logging.getLogger("rookery.desk")
PageHandler = Callable[[Request], Response]
"""handler of a page, run in a thread"""


class AppContext(msgspec.Struct, frozen=True):
    """Store, settings and templates of one web application, shared by all its pages."""

    store: Store
    settings: "Settings"
    """settings of the library that demonstrations search"""
    look: PageAssets
    links: tuple[NavigationLink, ...]
    """links in the head of the pages, in their order"""
    suggest: bool = False
    """whether people who demonstrate may ask the evidence model for passages of a page"""


def get_app_context(request: Request) -> AppContext:
    """Return the store, settings and templates of the application that serves the request."""
    desk: AppContext = request.app.state.desk
    return desk


def get_store(request: Request) -> Store:
    """Return the store of the application that serves the request."""
    return get_app_context(request).store


def get_signed_in_person(request: Request) -> Person:
    """Return the signed-in person. Use only on pages that require a role."""
    person: Person = request.state.person
    return person


def get_person_name(request: Request) -> str:
    """Return the name of the signed-in person. Use only on pages that require a role."""
    return get_signed_in_person(request).name


def get_form_fields(request: Request) -> dict[str, tuple[str, ...]]:
    """Return the fields of the posted form, values by name; empty for GET and HEAD."""
    fields: dict[str, tuple[str, ...]] = request.state.sent
    return fields


def get_last_value(fields: dict[str, tuple[str, ...]], name: str) -> str:
    """Return the last value of a form field; an empty string if the form has no such field."""
    return fields.get(name, ("",))[-1]


def get_posted_value(request: Request, name: str) -> str:
    """Return the last value of a field of the posted form; an empty string if it has none."""
    return get_last_value(get_form_fields(request), name)


def redirect_after_post(address: str) -> Response:
    """Return a redirect (303) after a change, so that reloading does not repeat it."""
    return RedirectResponse(address, 303)


def require_role(
    role: PersonRole | None, crowd: bool = False
) -> Callable[[PageHandler], Callable[..., Coroutine[Any, Any, Response]]]:
    """Return a decorator that makes an endpoint of a page handler, for people with a role.

    People with the role or a higher one are admitted; None admits everybody, signed in or not. With
    `crowd`, so are people who came by a project's crowd link. The endpoint reads the form, runs the
    handler in a thread and turns errors into pages.
    """

    def wrap_handler(handler: PageHandler) -> Callable[..., Coroutine[Any, Any, Response]]:
        """Wrap the handler in an asynchronous endpoint."""

        @wraps(handler)
        async def handle_request(request: Request) -> Response:
            """Read the form, then run the handler in a thread."""
            request.state.sent = await _read_form_fields(request)
            return await run_in_threadpool(_call_handler, handler, role, crowd, request)

        return handle_request

    return wrap_handler


def _call_handler(
    handler: PageHandler, role: PersonRole | None, crowd: bool, request: Request
) -> Response:
    """Return the handler's page, or an error page; log unexpected errors without showing them."""
    request.state.person = None
    try:
        request.state.person = person = accounts.find_session_person(
            get_app_context(request).store, get_session_token(request)
        )
        if role and person is None:
            return render_problem_page(
                request, 401, "You are not signed in, or your session has ended."
            )
        welcome = crowd and person is not None and person.project is not None
        if role and person and not (welcome or accounts.has_role(person, role)):
            return render_problem_page(
                request, 403, "This page is not for your role. Ask whoever invited you."
            )
        return handler(request)
    except Failed as failed:
        outcome = failed.failure.outcome
        if outcome in REPORTED_STATUSES:
            detail = translate_borrowed_text(failed.failure.detail)
            sentence = f"{detail[:1].upper()}{detail[1:]}{'' if detail.endswith('.') else '.'}"
            return render_problem_page(request, REPORTED_STATUSES[outcome], sentence)
        _LOG.error("%s: %s", request.url.path, failed)
        if outcome in BUSY_STATUSES:
            sentence = mark_text("That could not be saved just now. Go back and send it again.")
            return render_problem_page(request, BUSY_STATUSES[outcome], sentence)
    except Exception:
        _LOG.exception("%s", request.url.path)
    return render_problem_page(request, 500, "The server made an error. Go back and try again.")


def get_session_token(request: Request) -> str:
    """Return the session token of the request's cookie; an empty string if there is none."""
    kept = request.cookies.get(SECURE_COOKIE, "")
    return kept or (request.cookies.get(PLAIN_COOKIE, "") if request.url.scheme == "http" else "")


def render_problem_page(request: Request, status: int, sentence: str) -> Response:
    """Render an error page with this HTTP status and sentence, which is translated if known."""
    # Without `alive`, which reads the store: the store may be what failed.
    return render_page(
        request,
        "problem.html",
        status,
        sentence=translate_borrowed_text(sentence),
        status=status,
        alive=False,
    )


async def _read_form_fields(request: Request) -> dict[str, tuple[str, ...]]:
    """Read the text fields of a posted form, with line ends as LF; files are ignored."""
    if request.method in ("GET", "HEAD"):
        return {}
    fields: dict[str, tuple[str, ...]] = {}
    async with request.form(max_files=0, max_fields=5000) as form:
        for name, value in form.multi_items():
            if isinstance(value, str):
                # Browsers send line ends as CR LF; offsets count characters of the stored text.
                fields[name] = (*fields.get(name, ()), value.replace("\r\n", "\n"))
    return fields
