"""Page endpoints: sign-in and role checks, form fields, redirects, error pages, and pages rendered
for the person who asks: navigation by role, notices, choices of forms.

A page is a plain function that takes a Request and returns a Response. `require_role` makes an
endpoint of it, which runs it in a thread:

    def show_progress_page(request: Request) -> Response:
        store = get_store(request)
        by = get_person_name(request)  # only where a role is required
        return render_page(request, "board.html", batch=get_posted_value(request, "batch"), by=by)

    routes = make_routes("researcher", {"/board": show_progress_page})  # None: for everybody

Every change is made in a POST and ends with `redirect_after_post`. A Failed whose outcome is in
REPORTED_STATUSES becomes a page with its message; any other error is logged and becomes a page that
gives no details away.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from rookery.desk import accounts
from rookery.desk.accounts import Person, PersonRole, has_role
from rookery.desk.forms import FieldChoice
from rookery.desk.stop_switch import list_training_runs
from rookery.desk.store import RETRY_SECONDS, Store
from rookery.errors import Failed, Outcome
from rookery.shell.languages import LANGUAGES, get_language, mark_text, translate_borrowed_text
from rookery.shell.rendering import PageAssets
from rookery.shell.security import is_loopback
from rookery.typed_files import read_text_table

if TYPE_CHECKING:
    from rookery.settings import Settings

THEME_COOKIE = "theme"
"""name of the cookie that is "light" or "dark" for people who chose one"""
SHORTCUTS_COOKIE = "keys"
"""name of the cookie that is "off" for people who turned single-key shortcuts off"""
READER_PREFIXES = ("/ask", "/answers", "/notebook", "/pages", "/documents")
"""path prefixes of the pages for readers; all other pages belong to the desk"""
NOTICES = read_text_table(Path(__file__).with_name("notices.txt"))
"""notice at the top of a page about what was just done, by the value of `?said=`"""


class NavigationLink(msgspec.Struct, frozen=True):
    """A link in the head of each page, shown to people with this role or a higher one."""

    address: str
    label: str
    role: PersonRole = "labeller"
    crowd: bool = False
    """True: it is also shown to people who came by a project's crowd link"""


def render_page(request: Request, template: str, status_code: int = 200, **values: Any) -> Response:
    """Render a template as a response.

    Besides `values` it receives request, person, links, keys (whether shortcuts are on), theme (the
    one that was chosen), nonce (of the content security policy), said (the notice), trained and
    alive (whether there is a training run, and one that is alive), alone (whether the server is
    this person's only, on this machine), language and languages (codes and names), and texts (of
    the scripts, translated).
    """
    desk, person = get_app_context(request), request.state.person
    common: Mapping[str, Any] = {
        "request": request,
        "person": person,
        "links": select_navigation_links(desk.links, person, request.url.path),
        "theme": request.cookies.get(THEME_COOKIE, ""),
        "keys": request.cookies.get(SHORTCUTS_COOKIE) != "off",
        "nonce": request.state.nonce,
        "trained": False,
        "alive": False,
        "alone": False,
        "language": get_language(),
        "languages": LANGUAGES,
        "texts": desk.look.translate_script_texts(),
        "said": NOTICES.get(request.query_params.get("said", ""), ""),
    }
    if person and person.project is None:
        with suppress(*[Failed] * (status_code >= 400)):  # the store may be what failed
            runs, now = list_training_runs(desk.store), desk.store.clock()
            values["trained"], values["alive"] = bool(runs), any(one.is_alive(now) for one in runs)
            local = is_on_this_machine(request)
            values["alone"] = local and accounts.is_only_person(desk.store, person)
    html = desk.look.templates.get_template(template).render({**common, **values})
    return HTMLResponse(html.encode("utf-8", "replace"), status_code)


def select_navigation_links(
    links: Sequence[NavigationLink], person: Person | None, path: str
) -> list[NavigationLink]:
    """Return the head links that the person may use on the page at this path.

    A page for readers has the links of those, and one link to the desk; a page of the desk has all.
    """
    if person and person.project is not None:
        return [link for link in links if link.crowd]
    first = sorted(links, key=lambda link: link.address not in ("/", "/asked"))
    open_ones = [link for link in first if person and has_role(person, link.role)]
    if not _is_reader_path(path):
        return open_ones
    readers = [link for link in open_ones if _is_reader_path(link.address)]
    return readers + [NavigationLink("/desk", "Desk")] * (len(readers) < len(open_ones))


def _is_reader_path(path: str) -> bool:
    """Return whether the page at this path is one for readers."""
    return path == "/" or path.startswith(READER_PREFIXES)


def shorten_choice_labels(options: Sequence[FieldChoice]) -> list[tuple[str, str]]:
    """Return (value, short label) of each choice.

    The label is cut before its colon, and loses its last word if all labels share it.
    """
    heads = [choice.label.partition(":")[0].split() for choice in options]
    same = len({head[-1] for head in heads}) == 1 and all(len(head) > 1 for head in heads)
    return [
        (choice.value, " ".join(head[:-1] if same else head))
        for choice, head in zip(options, heads, strict=True)
    ]


TEMPLATE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "short": shorten_choice_labels,
    "pairs": lambda options: [(choice.value, choice.label) for choice in options],
    # Of quotes: values count from 0, labels from 1.
    "numbers": lambda count: [(str(number), str(number + 1)) for number in range(count)],
}
"""functions that the templates of forms call"""
TEMPLATE_FOLDER = Path(__file__).parent / "templates"
"""folder of the templates that only the desk has"""


SECURE_COOKIE = "__Host-rookery"
"""name of the session cookie over https. Browsers accept the __Host- prefix only for Secure
cookies; most treat http://localhost as secure, too"""
PLAIN_COOKIE = "rookery"
"""name of the session cookie where the browser refuses Secure cookies: plain http"""
REPORTED_STATUSES: Mapping[str, int] = {
    Outcome.DAMAGED_RECORDS: 500,
    **dict.fromkeys((Outcome.ALREADY, Outcome.NO_LEASE, Outcome.RELEASED), 409),
    Outcome.NO_INVITE: 410,
    **dict.fromkeys((Outcome.NO_ANSWER, Outcome.NO_ITEM, Outcome.NO_RUN, Outcome.NO_PULL), 404),
    **dict.fromkeys((Outcome.NOT_ALLOWED, Outcome.NO_PERSON), 403),
    Outcome.NOT_RATED: 400,
    Outcome.BUSY: 503,
}
"""HTTP status by outcome of the Failed errors whose message is shown to the person"""
NOT_SAVED = mark_text("That could not be saved just now. Go back and send it again.")
SERVER_ERROR = mark_text("The server made an error. Go back and try again.")
NO_DATABASE = mark_text("The database does not answer. Try again, or tell who runs this server.")
SERVER_FAULTS: Mapping[str, tuple[int, str]] = {
    Outcome.STORE_BUSY: (503, NOT_SAVED),
    Outcome.DISK_FULL: (507, NOT_SAVED),
    Outcome.STORE_FAILS: (503, NO_DATABASE),
    Outcome.ARCHIVE_BUSY: (503, NO_DATABASE),
    Outcome.UNREADABLE_ARCHIVE: (503, NO_DATABASE),
}
"""HTTP status and sentence by outcome of the Failed errors after which trying again may succeed"""
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
    address: str = ""
    """how people reach this server, without a slash at its end; empty if nobody said"""


def get_app_context(request: Request) -> AppContext:
    """Return the store, settings and templates of the application that serves the request."""
    desk: AppContext = request.app.state.desk
    return desk


def get_store(request: Request) -> Store:
    """Return the store of the application that serves the request."""
    return get_app_context(request).store


def make_public_url(request: Request, path: str) -> str:
    """Return the URL of a path of this server, for links that are sent elsewhere.

    It begins with the address that the server was given, else with the one that the connection came
    in at (behind a proxy: what that calls it), and never with the Host header, which any client can
    make up.
    """
    scheme, (host, port) = request.scope["scheme"], request.scope["server"]
    host = f"[{host}]" if ":" in host else host
    at = host if port in (None, {"http": 80, "https": 443}[scheme]) else f"{host}:{port}"
    return (get_app_context(request).address or f"{scheme}://{at}") + path


def is_on_this_machine(request: Request) -> bool:
    """Return whether both the client and the host asked for are this very machine."""
    host = request.client.host if request.client else ""
    return is_loopback(host) and is_loopback(request.url.hostname or "")


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


def get_posted_values(request: Request, *names: str) -> list[str]:
    """Return the last values of these fields of the posted form, as `get_posted_value` does."""
    return [get_posted_value(request, name) for name in names]


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
            return await run_in_threadpool(call_page_handler, handler, role, crowd, request)

        return handle_request

    return wrap_handler


def call_page_handler(
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
    except Exception as error:
        return render_error_page(request, error)


def render_error_page(request: Request, error: Exception) -> Response:
    """Render the page of an error: of a Failed by its outcome, else without details, which are
    logged."""
    if not hasattr(request.state, "person"):
        request.state.person = None
    outcome = error.failure.outcome if isinstance(error, Failed) else ""
    if isinstance(error, Failed) and outcome in REPORTED_STATUSES:
        detail = translate_borrowed_text(error.failure.detail)
        sentence = f"{detail[:1].upper()}{detail[1:]}{'' if detail.endswith('.') else '.'}"
        return render_problem_page(request, REPORTED_STATUSES[outcome], sentence)
    _LOG.error("%s: %s", request.url.path, error, exc_info=None if outcome else error)
    return render_problem_page(request, *SERVER_FAULTS.get(outcome, (500, SERVER_ERROR)))


def explain_refusal(failed: Failed) -> str:
    """Return why a change was refused, in the reader's language.

    Raises the failure again if it is one of the server, which no other value would repair.
    """
    if failed.failure.outcome in SERVER_FAULTS:
        raise failed
    return translate_borrowed_text(failed.failure.detail)


def make_routes(
    role: PersonRole | None, pages: Mapping[str, PageHandler], crowd: bool = False
) -> list[Route]:
    """Return a route for each page, whose key is a path, or "POST" and a path.

    Role and crowd are those of `require_role`.
    """
    admit = require_role(role, crowd)
    return [
        Route(key.removeprefix("POST "), admit(page), methods=["POST"] if " " in key else None)
        for key, page in pages.items()
    ]


def get_session_token(request: Request) -> str:
    """Return the session token of the request's cookie; an empty string if there is none."""
    kept = request.cookies.get(SECURE_COOKIE, "")
    return kept or (request.cookies.get(PLAIN_COOKIE, "") if request.url.scheme == "http" else "")


def render_problem_page(request: Request, status: int, sentence: str) -> Response:
    """Render an error page with this HTTP status and sentence, which is translated if known."""
    said = translate_borrowed_text(sentence)
    values = {"sentence": said, "status": status, "here": is_on_this_machine(request)}
    page = render_page(request, "problem.html", status, **values)
    if status == 503:
        page.headers["Retry-After"] = str(RETRY_SECONDS)
    return page


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
