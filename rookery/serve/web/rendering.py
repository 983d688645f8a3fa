"""Templates, the functions they call, and static files.

All text is escaped. HTML is made from text only in `render_guide_html`, from Markdown with raw HTML
turned off.
"""

import gzip
import hashlib
import mimetypes
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.filters import do_filesizeformat
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rookery.judge.accounts import Person, has_role
from rookery.judge.forms import FieldChoice
from rookery.judge.labelling_records import PersonRole
from rookery.judge.stop_switch import has_live_run
from rookery.serve.web.languages import (
    DEFAULT_LANGUAGE,
    LANGUAGES,
    format_number,
    get_language,
    localize_value,
    mark_text,
    translate_borrowed_text,
    translate_plural,
    translate_text,
)

WEB_FOLDER = Path(__file__).parent
SHORTCUTS_COOKIE = "keys"
"""Name of the cookie that is "off" for people who turned single-key shortcuts off."""
READER_PREFIXES = ("/ask", "/answers", "/notebook", "/pages", "/documents")
"""Path prefixes of the pages for readers; all other pages belong to the desk."""
NOTICES = {
    "noted": mark_text("Noted. Thank you."),
    "cancelled": mark_text("Cancelled."),
    "in": mark_text("Welcome. You are signed in."),
    "out": mark_text("You are signed out."),
    "done": mark_text("Handed in. Thank you."),
    "extra": mark_text(
        "Handed in. The time for this task had run out and somebody else has taken it up, so yours "
        "is kept as an additional judgement."
    ),
    "again": mark_text(
        "This was handed in already, and the first is what is kept. If that is not what you meant, "
        "correct it in your history."
    ),
    "skipped": mark_text("Skipped. You will not be given this task again."),
    "flagged": mark_text("Flagged. Thank you: somebody will look at it."),
    "corrected": mark_text("Corrected. The earlier version is kept beside it."),
    "decided": mark_text("Decided. What the raters handed in stays beside it."),
    "saved": mark_text("Saved. You can go on whenever you like."),
    "nothing": mark_text("There is nothing more to do for you just now. Look in again later."),
    "late": mark_text(
        "The time for this task has run out and others have taken it up. Thank you all the same."
    ),
    "keys": mark_text("Saved for this browser."),
    "shared": mark_text("Set. Who may read this answer is said below the question."),
    "linked": mark_text("Set. The link stands below the question: whoever has it can read this."),
    "withdrawn": mark_text("The link is withdrawn, and never works again."),
    "deleted": mark_text("Deleted for good."),
}
"""Notice at the top of a page about what was just done, by the value of `?said=`."""
MONTHS = (
    mark_text("January"),
    mark_text("February"),
    mark_text("March"),
    mark_text("April"),
    mark_text("May"),
    mark_text("June"),
    mark_text("July"),
    mark_text("August"),
    mark_text("September"),
    mark_text("October"),
    mark_text("November"),
    mark_text("December"),
)


class NavigationLink(msgspec.Struct, frozen=True):
    """A link in the head of each page, shown to people with this role or a higher one."""

    address: str
    label: str
    role: PersonRole = "labeller"
    crowd: bool = False
    """True: it is also shown to people who came by a project's crowd link."""


class PageAssets:
    """Templates and static files, loaded once. The address of a file holds its digest, so that
    browsers may cache it forever."""

    def __init__(self, links: tuple[NavigationLink, ...] = ()) -> None:
        self.links = links
        self.files = {path.name: _StaticFile(path) for path in (WEB_FOLDER / "static").iterdir()}
        self.templates = Environment(
            loader=FileSystemLoader(WEB_FOLDER / "templates"),
            autoescape=True,
            extensions=["jinja2.ext.i18n"],
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals.update(
            static=self.get_static_address,
            host=format_host,
            ago=format_age,
            short=shorten_choice_labels,
            pairs=pair_choice_labels,
            numbers=number_quote_choices,
        )
        self.templates.filters["translated"] = translate_borrowed_text
        self.templates.filters["number"] = format_number
        self.templates.filters["file_size"] = format_file_size
        self.templates.install_gettext_callables(  # type: ignore[attr-defined]
            translate_text, translate_plural, newstyle=True
        )
        self._guides: dict[str, Markup] = {}
        self.script_texts = tuple(
            sorted({text for file in self.files.values() for text in _find_script_texts(file.body)})
        )
        """Texts that the scripts show."""

    def get_static_address(self, name: str) -> str:
        """Return the path at which the static file of this name is served."""
        return f"/static/{self.files[name].digest}/{name}"

    def translate_script_texts(self) -> dict[str, str]:
        """Return the texts of the scripts in the language of the request; in English, none."""
        if get_language() == DEFAULT_LANGUAGE:
            return {}
        return {text: translate_text(text) for text in self.script_texts}

    def render_guide(self, text: str) -> Markup:
        """Return a Markdown guide as HTML, from a cache if it was rendered before."""
        if text not in self._guides:
            self._guides[text] = render_guide_html(text)
        return self._guides[text]


class _StaticFile:
    """A static file in memory, plain and gzipped, with its digest and media type."""

    def __init__(self, path: Path) -> None:
        self.body = path.read_bytes()
        self.packed = gzip.compress(self.body, 9, mtime=0)
        self.digest = hashlib.sha256(self.body).hexdigest()[:16]
        self.type = mimetypes.guess_type(path.name)[0] or "text/plain"


def _find_script_texts(body: bytes) -> list[str]:
    """Return the texts that a script translates: _("..."), each in one string."""
    return [literal.decode() for literal in re.findall(rb'\b_\("([^"\\]+)"', body)]


async def serve_static_file(request: Request) -> Response:
    """Serve a static file, gzipped if the browser accepts that. Raises HTTPException (404)."""
    look: PageAssets = request.app.state.desk.look
    name, digest = request.path_params["name"], request.path_params["digest"]
    file = look.files.get(name)
    if file is None or digest != file.digest:
        raise HTTPException(404)
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.packed, headers=headers, media_type=file.type)
    return Response(file.body, headers=headers, media_type=file.type)


def render_page(request: Request, template: str, status_code: int = 200, **values: Any) -> Response:
    """Render a template as a response.

    Besides `values` it receives request, person, links, keys (whether shortcuts are on), nonce (of
    the content security policy), said (the notice), alive (whether a training run is alive),
    language and languages (codes and names), and texts (of the scripts, translated).
    """
    look: PageAssets = request.app.state.desk.look
    person = request.state.person
    common: Mapping[str, Any] = {
        "request": request,
        "person": person,
        "links": select_navigation_links(look.links, person, request.url.path),
        "keys": request.cookies.get(SHORTCUTS_COOKIE) != "off",
        "nonce": request.state.nonce,
        "alive": False,
        "language": get_language(),
        "languages": LANGUAGES,
        "texts": look.translate_script_texts(),
        "said": NOTICES.get(request.query_params.get("said", ""), ""),
    }
    if person and person.project is None and "alive" not in values:
        values["alive"] = has_live_run(request.app.state.desk.store)
    html = look.templates.get_template(template).render({**common, **values})
    return HTMLResponse(html.encode("utf-8", "replace"), status_code)


def select_navigation_links(
    links: Sequence[NavigationLink], person: Person | None, path: str
) -> list[NavigationLink]:
    """Return the head links that the person may use on the page at this path.

    These are the links of its half of the site (reader pages or desk) and, if the person may use
    anything of the other half, one link to that.
    """
    if person and person.project is not None:
        return [link for link in links if link.crowd]
    first = sorted(links, key=lambda link: link.address not in ("/", "/asked"))
    open_ones = [link for link in first if person and has_role(person, link.role)]
    here = [link for link in open_ones if _is_reader_path(link.address) == _is_reader_path(path)]
    if len(here) == len(open_ones):
        return here
    if _is_reader_path(path):
        return [*here, NavigationLink("/desk", "Desk")]
    return [NavigationLink("/", "Ask"), *here]


def _is_reader_path(path: str) -> bool:
    """Return whether the page at this path is one for readers."""
    return path == "/" or path.startswith(READER_PREFIXES)


def render_guide_html(text: str) -> Markup:
    """Render Markdown as HTML, without raw HTML and images, and with http(s) links only."""
    reader = MarkdownIt("commonmark", {"html": False, "typographer": True}).enable("table")
    reader.disable("image")
    reader.validateLink = lambda url: urlsplit(url).scheme in ("http", "https")  # type: ignore[method-assign]
    return Markup(reader.render(text))


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


def pair_choice_labels(options: Sequence[FieldChoice]) -> list[tuple[str, str]]:
    """Return (value, label) of each choice."""
    return [(choice.value, choice.label) for choice in options]


def number_quote_choices(count: int) -> list[tuple[str, str]]:
    """Return (value, label) for choosing among `count` quotes: values from 0, labels from 1."""
    return [(str(number), str(number + 1)) for number in range(count)]


def format_host(url: str) -> str:
    """Return the host of an http(s) URL without "www."; an empty string for other URLs."""
    parts = urlsplit(url)
    return (parts.hostname or "").removeprefix("www.") if parts.scheme.startswith("http") else ""


def format_file_size(size: int) -> str:
    """Return a number of bytes in words, such as "1.2 kB", in the language of the request."""
    number, _, unit = do_filesizeformat(size).partition(" ")
    return f"{localize_value(number)} {unit}"


def format_age(at: float, now: float | None = None) -> str:
    """Return a time (Unix seconds) in words, relative to now: "just now" or "3 hours ago".

    A time more than 60 days ago is given as a date.
    """
    passed = (time.time() if now is None else now) - at
    days, hours, minutes = (int(passed // size) for size in (86400, 3600, 60))
    if passed < 90:
        return translate_text("just now")
    if days >= 60:
        day = time.gmtime(at)
        month = translate_text(MONTHS[day.tm_mon - 1])
        return translate_text(
            "%(day)s %(month)s %(year)s", day=day.tm_mday, month=month, year=day.tm_year
        )
    if days:
        return translate_plural("%(num)s day ago", "%(num)s days ago", days, num=days)
    if hours:
        return translate_plural("%(num)s hour ago", "%(num)s hours ago", hours, num=hours)
    return translate_plural("%(num)s minute ago", "%(num)s minutes ago", minutes, num=minutes)
