"""A stored page with one quote marked in it, beside the way to the live page.

`/pages/DIGEST?start=&end=#quote` is the page as it was read; of a PDF also the pictures of the
pages that the quote stands on. `url` says at which address, where several had the same text. What
does not fit the stored text is not marked. It knows nothing of answers.
"""

import threading
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.browse.locate import locate
from rookery.browse.pages import cut
from rookery.browse.places import is_url, path_of
from rookery.cite.place import deep_link, place
from rookery.judge.kept_pages import pages_of
from rookery.records import Failed, Failure, Page, Quote
from rookery.serve.files import read_file
from rookery.serve.kept_pdfs import keep_pdf, pdf_of
from rookery.serve.pdf_pages import Box, Drawing, Sheet, sheets
from rookery.serve.session import Session, cache_home
from rookery.serve.web.app import desk_of, needs, problem
from rookery.serve.web.page_text import Span, fits, lay_out, visible
from rookery.serve.web.rendering import host, page

LONGEST = 12
"""digits of a number in an address"""
PICTURES = 4
"""pages of a PDF that are shown as pictures, at most"""
TITLE = 300
OTHER = (
    "The page as a picture cannot be shown: its letters are not those of the text that was read."
)


class Picture(NamedTuple):
    """A page of a PDF, with what is marked on it."""

    number: int
    address: str
    width: int
    height: int
    boxes: tuple[Box, ...]


class Standing(NamedTuple):
    """What became of the live page since."""

    kind: str
    """good, warn or bad"""
    sentence: str
    address: str = ""
    """of the version of today, where the quote is marked in it"""


def routes() -> list[Route]:
    """Stored pages and their pictures."""
    pages = Pages()
    let_in = needs("reader")
    at = "/pages/{digest}"
    return [
        Route(at, let_in(pages.look)),
        Route(at, let_in(pages.look_again), methods=["POST"]),
        Route(f"{at}/images/{{number}}", let_in(pages.image)),
    ]


def address(quote: Quote) -> str:
    """Where a quote is shown in its page."""
    return _address(quote.digest, quote.url, (quote.start, quote.end)) + "#quote"


class Pages:
    """The stored pages of one desk, as this process serves them."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._session: Session | None = None
        self._drawing = Drawing()

    def look(self, request: Request) -> Response:
        """A page as it was read."""
        return self._shown(request, None)

    def look_again(self, request: Request) -> Response:
        """The same, with what has become of the live page."""
        stored = self._stored(request)
        span = _span(request)
        if stored is None:
            return self._shown(request, None)
        quote = stored.quote(*span) if span and fits(stored, span) else None
        return self._shown(request, self._compared(request, stored, quote))

    def image(self, request: Request) -> Response:
        """One page of a PDF as a picture."""
        stored = self._stored(request)
        number = _number(request.path_params["number"])
        sheet = next((s for s in sheets(stored) if s.number == number), None) if stored else None
        if stored is None or sheet is None:
            return problem(request, 404, "There is no such picture.")
        try:
            drawn = self._drawing.picture(pdf_of(stored, cache_home()), stored, sheet)
        except Failed as failed:
            return problem(request, 404, f"There is no picture: {failed.failure.detail}.")
        if not drawn.located:
            return problem(request, 404, OTHER)
        kept = {"Cache-Control": "private, max-age=3600"}
        return Response(drawn.png, headers=kept, media_type="image/png")

    def _shown(self, request: Request, standing: Standing | None) -> Response:
        stored, span = self._stored(request), _span(request)
        if stored is None:
            return problem(request, 404, "No copy of this page is kept here: open the live one.")
        at = _number(request.query_params.get("at", ""))
        laid = lay_out(stored, span, span[0] if at < 0 and span else max(at, 0))
        asked = "start" in request.query_params or "end" in request.query_params
        quote = stored.quote(*span) if span and laid.located else None
        pictures, no_picture = self._pictures(stored, span) if quote and span else ([], "")
        return page(
            request,
            "page_shown.html",
            title=visible(cut(stored.title, TITLE)) or "Untitled page",
            where=visible(_whose(stored)),
            fetched=_moment(stored.fetched),
            live=deep_link(quote, stored) if quote and is_url(stored.url) else _live(stored),
            kind=_kind(stored),
            place=place(stored, quote.start) if quote else "",
            quote=visible(cut(quote.text, TITLE)) if quote else "",
            lost=asked and quote is None,
            laid=laid,
            again=_address(stored.digest, stored.url, span),
            pictures=pictures,
            no_picture=no_picture,
            standing=standing,
        )

    def _pictures(self, stored: Page, span: Span) -> tuple[list[Picture], str]:
        """The pages of the PDF that the quote stands on, or why they are not shown."""
        found = [s for s in sheets(stored) if s.start < span[1] and span[0] < s.end]
        if not found:
            return [], ""
        try:
            pdf = pdf_of(stored, cache_home())
            drawn = [self._picture(stored, pdf, sheet, span) for sheet in found[:PICTURES]]
        except Failed as failed:
            return [], f"The page as a picture cannot be shown: {failed.failure.detail}."
        if None in drawn:
            return [], OTHER
        return [picture for picture in drawn if picture], ""

    def _picture(self, stored: Page, pdf: bytes, sheet: Sheet, span: Span) -> Picture | None:
        drawn = self._drawing.boxes(pdf, stored, sheet, span)
        if not drawn.located:
            return None
        base, _, query = _address(stored.digest, stored.url, None).partition("?")
        image = f"{base}/images/{sheet.number}{'?' if query else ''}{query}"
        return Picture(sheet.number, image, drawn.width, drawn.height, drawn.boxes)

    def _compared(self, request: Request, stored: Page, quote: Quote | None) -> Standing:
        """The page fetched now, against the one that is stored."""
        settings = desk_of(request).settings
        if is_url(stored.url) and settings.offline:
            return Standing("warn", "This desk does not go to the web: it cannot look.")
        what = _kind(stored)
        try:
            now = self._now(request, stored)
        except Failed as failed:
            detail = failed.failure.detail or failed.failure.outcome
            return Standing("bad", f"The {what} could not be read: {visible(cut(detail, 300))}.")
        if now.digest == stored.digest:
            return Standing("good", f"The {what} still has the very same text.")
        if quote is None:
            return Standing("warn", f"The {what} has changed since.")
        there = locate(now, quote.text, after=quote.start)
        if there is None:
            return Standing("bad", f"The {what} has changed, and the quote stands there no more.")
        exact = "" if there.text == quote.text else ", but for case, white space or typography"
        sentence = f"The {what} has changed since; the quote still stands there{exact}."
        kept = is_url(now.url)  # of a file only what was read first is kept
        return Standing("warn", sentence, address(there) if kept else "")

    def _now(self, request: Request, stored: Page) -> Page:
        if not is_url(stored.url):
            if urlsplit(stored.url).scheme != "file":
                detail = "it came from no address"
                raise Failed(Failure(stored.url, "not_found", detail))
            return read_file(path_of(stored.url))
        session = self._open(request)
        now = session.opened(stored.url)
        if now.digest == stored.digest and sheets(stored):
            keep_pdf(stored, session.fetcher().get(now.url).data, cache_home())
        return now

    def _stored(self, request: Request) -> Page | None:
        """The page that the address names, from the archive or from what the desk has kept."""
        digest, url = request.path_params["digest"], request.query_params.get("url", "")
        archive = self._open(request).archive
        kept = (archive.page(digest, url) if url else None) or archive.page(digest)
        if kept is None:
            at_desk = pages_of(desk_of(request).store, digest)
            kept = next((one for one in at_desk if one.url == url), next(iter(at_desk), None))
        return kept

    def _open(self, request: Request) -> Session:
        with self._turn:
            if self._session is None:
                self._session = session = Session(desk_of(request).settings)
                request.app.state.closing.append(lambda: session.__exit__())
            return self._session


def _address(digest: str, url: str, span: Span | None) -> str:
    fields: dict[str, Any] = {"url": url} if is_url(url) else {}  # no paths of this machine
    if span:
        fields |= {"start": span[0], "end": span[1]}
    query = urlencode(fields, errors="replace")
    return f"/pages/{digest}{'?' if query else ''}{query}"


def _span(request: Request) -> Span | None:
    """The span that the address names, whether it fits or not; None where it names none."""
    given = request.query_params
    start, end = _number(given.get("start", "")), _number(given.get("end", ""))
    return (start, end) if 0 <= start < end else None


def _number(text: str) -> int:
    """A number in an address; -1 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST else -1


def _whose(stored: Page) -> str:
    """Whose page it is; of a file its name only, since its folder is nobody's business."""
    parts = urlsplit(stored.url)
    return host(stored.url) or unquote(parts.path).rpartition("/")[2]


def _kind(stored: Page) -> str:
    return "live page" if is_url(stored.url) else "file"


def _live(stored: Page) -> str:
    return stored.url if is_url(stored.url) else ""


def _moment(fetched: str) -> str:
    """2026-11-21T14:03:05+00:00 as people read it."""
    day, _, time = fetched.partition("T")
    return f"{day}, {time[:5]} UTC" if time else day
