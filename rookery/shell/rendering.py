"""Rendering of pages: templates, the functions and texts that they take, and static files.

All text is escaped. HTML is made from text only in `render_guide_html`, from Markdown with raw HTML
turned off.
"""

import gzip
import hashlib
import mimetypes
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.filters import do_filesizeformat
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rookery.pages.page_text import neutralize_text
from rookery.quotes.answer_types import split_answering_words
from rookery.shell.languages import (
    DEFAULT_LANGUAGE,
    format_number,
    get_language,
    localize_value,
    mark_text,
    translate_borrowed_text,
    translate_plural,
    translate_text,
)

WEB_FOLDER = Path(__file__).parent
MONTHS = (
    mark_text("January"), mark_text("February"), mark_text("March"), mark_text("April"),
    mark_text("May"), mark_text("June"), mark_text("July"), mark_text("August"),
    mark_text("September"), mark_text("October"), mark_text("November"), mark_text("December"),
)  # fmt: skip


class PageAssets:
    """Templates and static files, loaded once.

    The address of a file holds its digest, so that browsers may cache it forever. Templates may
    call `functions` besides those of this module, and stand in the folder `templates` here and in
    `folders`.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]], *folders: Path) -> None:
        self.files = {path.name: _StaticFile(path) for path in (WEB_FOLDER / "static").iterdir()}
        self.templates = Environment(
            loader=FileSystemLoader([WEB_FOLDER / "templates", *folders]),
            autoescape=True,
            extensions=["jinja2.ext.i18n"],
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals.update(
            static=self.get_static_address, host=format_host, ago=format_age, **functions
        )
        self.templates.filters["translated"] = translate_borrowed_text
        self.templates.filters["number"] = format_number
        self.templates.filters["file_size"] = format_file_size
        self.templates.filters["marked"] = mark_answering_words
        self.templates.install_gettext_callables(  # type: ignore[attr-defined]
            translate_text, translate_plural, newstyle=True
        )
        self._guides: dict[str, Markup] = {}
        self.script_texts = tuple(
            sorted({text for file in self.files.values() for text in _find_script_texts(file.body)})
        )
        """Texts that the scripts show."""

    def get_static_address(self, name: str) -> str:
        """Return the path at which the static file of this name is served.

        Raises KeyError if there is none.
        """
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


def mark_answering_words(text: str, question: str) -> Markup:
    """Return a quote as HTML with the words marked that the question asks for."""
    mark = Markup('<mark class="claimed">%s</mark>')
    pieces = split_answering_words(text, question)
    return Markup().join(mark % piece if answers else piece for piece, answers in pieces)


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


def render_guide_html(text: str) -> Markup:
    """Render Markdown as HTML, without raw HTML and images, and with http(s) links only."""
    reader = MarkdownIt("commonmark", {"html": False, "typographer": True}).enable("table")
    reader.disable("image")
    reader.validateLink = lambda url: urlsplit(url).scheme in ("http", "https")  # type: ignore[method-assign]
    return Markup(reader.render(text))


def cut_between_words(text: str, longest: int) -> str:
    """Return a text on one line, cut between words if it has more characters than `longest`."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    return line[: max(line.rfind(" ", 0, longest), longest // 2)].rstrip() + "…"


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

    From 60 days on it is the date, in UTC. A time that is still to come is "just now".
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


# Browsers turn a carriage return into a line feed and drop NUL: both would change the marked text.
_REPLACED_CHARACTERS = str.maketrans({"\x00": "\ufffd", "\r": " "})


def replace_unseen_characters(text: str) -> str:
    """Return the text with unseen characters replaced, at the same length.

    Invisible and direction-changing characters become dots, NUL U+FFFD and carriage return a space.
    """
    if text.isascii():
        return text.translate(_REPLACED_CHARACTERS)
    safe = neutralize_text(text)
    # `neutralize_text` also replaces 【】†♦■, which matter only to models: readers see the page's
    # own.
    if safe != text:
        text = "".join(put if put == "·" else own for own, put in zip(text, safe, strict=True))
    return text.translate(_REPLACED_CHARACTERS)
