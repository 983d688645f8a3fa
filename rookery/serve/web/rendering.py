"""From values to pages: the templates, what they may call, the files that go with them.

All text is escaped, always. HTML is made from text in one place, `guide_html`, from Markdown in
which HTML has no meaning. It knows nothing of people's work.
"""

import gzip
import hashlib
import mimetypes
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rookery.judge.cord import any_alive
from rookery.judge.fields import Choice
from rookery.judge.people import Person, allowed
from rookery.judge.work import Role

HERE = Path(__file__).parent
KEYS = "keys"
"""the cookie that says "off" where somebody wants no single-key shortcuts"""
READING = ("/ask", "/answers", "/pages", "/documents")
"""how the addresses begin that are for readers; the others are the desk's"""
SAID = {
    "noted": "Noted. Thank you.",
    "cancelled": "Cancelled.",
    "in": "Welcome. You are in.",
    "out": "You have left the desk.",
    "done": "Handed in. Thank you.",
    "extra": "Handed in. The time for this task had run out and somebody else has taken it up, so "
    "yours is kept as an additional judgement.",
    "again": "This was handed in already; it is kept once.",
    "skipped": "Skipped. You will not be given this task again.",
    "flagged": "Flagged. Thank you: somebody will look at it.",
    "corrected": "Corrected. The earlier version is kept beside it.",
    "saved": "Saved. You can go on whenever you like.",
    "nothing": "There is nothing more to do for you just now. Look in again later.",
    "late": "The time for this task has run out and others have taken it up. Thank you all the "
    "same.",
    "keys": "Kept on this browser.",
}
"""what a page may say at its top about what was done just before, by `?said=`"""


class Link(msgspec.Struct, frozen=True):
    """A way in the head of each page."""

    address: str
    label: str
    role: Role = "labeller"


class Look:
    """Templates and static files, read once. A file's address holds its digest, so that browsers
    keep it for good."""

    def __init__(self, links: tuple[Link, ...] = ()) -> None:
        self.links = links
        self.files = {path.name: _Static(path) for path in (HERE / "static").iterdir()}
        self.templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals.update(
            static=self.address, host=host, ago=ago, short=short, numbers=numbers
        )
        self._guides: dict[str, Markup] = {}

    def address(self, name: str) -> str:
        """Where a static file is."""
        return f"/static/{self.files[name].digest}/{name}"

    def guide(self, text: str) -> Markup:
        """A guide as HTML, made once."""
        if text not in self._guides:
            self._guides[text] = guide_html(text)
        return self._guides[text]


class _Static:
    def __init__(self, path: Path) -> None:
        self.body = path.read_bytes()
        self.packed = gzip.compress(self.body, 9, mtime=0)
        self.digest = hashlib.sha256(self.body).hexdigest()[:16]
        self.type = mimetypes.guess_type(path.name)[0] or "text/plain"


async def static_file(request: Request) -> Response:
    """A style, a script or a picture of ours."""
    look: Look = request.app.state.desk.look
    name, digest = request.path_params["name"], request.path_params["digest"]
    file = look.files.get(name)
    if file is None or digest != file.digest:
        raise HTTPException(404)
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.packed, headers=headers, media_type=file.type)
    return Response(file.body, headers=headers, media_type=file.type)


def page(request: Request, template: str, status_code: int = 200, **values: Any) -> Response:
    """A template filled in. Each is given also: request, person, links, keys, nonce, said, and
    whether a training run is alive."""
    look: Look = request.app.state.desk.look
    person = request.state.person
    common: Mapping[str, Any] = {
        "request": request,
        "person": person,
        "links": ways(look.links, person, request.url.path),
        "keys": request.cookies.get(KEYS) != "off",
        "nonce": request.state.nonce,
        "alive": False,
        "said": SAID.get(request.query_params.get("said", ""), ""),
    }
    if person and "alive" not in values:
        values["alive"] = any_alive(request.app.state.desk.store)
    html = look.templates.get_template(template).render({**common, **values})
    return HTMLResponse(html.encode("utf-8", "replace"), status_code)


def ways(links: Sequence[Link], person: Person | None, path: str) -> list[Link]:
    """The links in the head of the page at this path: those of its half of the pages, be it
    reading or the desk, and one to the other half."""
    first = sorted(links, key=lambda link: link.address not in ("/", "/asked"))
    open_ones = [link for link in first if person and allowed(person, link.role)]
    here = [link for link in open_ones if _is_reading(link.address) == _is_reading(path)]
    if len(here) == len(open_ones):
        return here
    if _is_reading(path):
        return [*here, Link("/desk", "Desk")]
    return [Link("/", "Ask"), *here]


def _is_reading(path: str) -> bool:
    return path == "/" or path.startswith(READING)


def guide_html(text: str) -> Markup:
    """Markdown as HTML: headings, lists, tables, emphasis and links to the web; no raw HTML."""
    reader = MarkdownIt("commonmark", {"html": False, "typographer": True}).enable("table")
    reader.disable("image")
    reader.validateLink = lambda url: urlsplit(url).scheme in ("http", "https")  # type: ignore[method-assign]
    return Markup(reader.render(text))


def short(options: Sequence[Choice]) -> list[tuple[str, str]]:
    """Values and labels with what all labels end with, or explain after a colon, left out."""
    heads = [choice.label.partition(":")[0].split() for choice in options]
    same = len({head[-1] for head in heads}) == 1 and all(len(head) > 1 for head in heads)
    return [
        (choice.value, " ".join(head[:-1] if same else head))
        for choice, head in zip(options, heads, strict=True)
    ]


def numbers(count: int) -> list[tuple[str, str]]:
    """The values of so many quotes, and what they are called."""
    return [(str(number), str(number + 1)) for number in range(count)]


def host(url: str) -> str:
    """Whose page it is, for people; empty for files."""
    parts = urlsplit(url)
    return (parts.hostname or "").removeprefix("www.") if parts.scheme.startswith("http") else ""


def ago(at: float, now: float | None = None) -> str:
    """A time in seconds since 1970, as people say it."""
    passed = (time.time() if now is None else now) - at
    if passed < 90:
        return "just now"
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if passed >= size and passed < size * 60:
            count = int(passed // size)
            return f"{count} {name}{'s' * (count > 1)} ago"
    return time.strftime("%-d %B %Y", time.gmtime(at))
