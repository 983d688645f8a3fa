"""The viewer of stored pages: a page as it was read, with one quote marked, and the way to the live
page.

`/pages/DIGEST?start=&end=#quote` shows the stored text; of a PDF also pictures of the pages on
which the quote stands. `url` says which address is meant if several had the same text. Every run of
text that is shown is a slice of the page, so that exactly the quote is marked; nothing is marked if
the span does not fit the stored text.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.answers.answer_session import EvidenceSources
from rookery.desk.page_endpoints import (
    get_app_context,
    get_store,
    make_routes,
    render_page,
    render_problem_page,
)
from rookery.desk.store import find_pages_by_digest
from rookery.errors import Failed, Outcome
from rookery.library.libraries import is_url, resolve_place_path
from rookery.library.page_archive import translate_storage_errors, write_whole_file
from rookery.pages.page_reader import detect_type
from rookery.pages.pdf_rendering import PdfPage, PdfRenderer, PictureBox, list_pdf_pages
from rookery.pages.reader_processes import FileLimits
from rookery.pages.text_folding import locate_quote
from rookery.quotes.quote_links import describe_location, make_deep_link
from rookery.records import Block, Failure, Mark, Page, Quote
from rookery.server.documents import find_version_address, find_version_file
from rookery.settings import get_cache_folder
from rookery.shell.file_reading import read_document_file
from rookery.shell.languages import localize_value, mark_text, translate_borrowed_text
from rookery.shell.languages import translate_text as _
from rookery.shell.rendering import cut_between_words, format_host, replace_unseen_characters
from rookery.typed_files import require_regular_file

CONTEXT_CHARACTERS = 60_000
"""characters shown before and after the place in view, rounded to whole blocks"""
_RAISED_MARKS = ("sup", "sub")

_get_start, _get_end = attrgetter("start"), attrgetter("end")

Span = tuple[int, int]


class TextRun(NamedTuple):
    """A run of the page's text in one style."""

    text: str
    marked: bool = False
    """True if it belongs to the quote"""
    first: bool = False
    """True if the quote begins here: the target of the link to it"""
    raised: str = ""
    """"sup", "sub" or empty"""


class PageParagraph(NamedTuple):
    """One block of the page."""

    kind: str
    level: int
    runs: tuple[TextRun, ...]
    aside: bool
    """True if it is outside the article: navigation, a footer"""
    hidden: bool
    """True if the page hides it; then it is shown only because it is quoted"""


class PageBlockGroup(NamedTuple):
    """Blocks laid out together: rows of a table, lines of code, items of a list, or one alone."""

    kind: str
    rows: list[list[PageParagraph]]


class PageLayout(NamedTuple):
    """A part of a page, laid out for the template."""

    groups: list[PageBlockGroup]
    located: bool
    """True if the span fits the page, so that it is marked where it is shown"""
    here: bool
    """True if the marked span begins in this part"""
    before: int | None
    """offset from which the part before this one is shown; None if this is the first"""
    after: int | None
    """offset from which the part after this one is shown; None if this is the last"""


def is_span_of_page(page: Page, span: Span) -> bool:
    """Return whether the span lies in the page's text and is not only white space."""
    start, end = span
    return 0 <= start < end <= len(page.text) and not page.text[start:end].isspace()


def _recall_quote(page: Page, span: Span) -> Quote:
    """Return the quote that a link names, also one that was stored before quotes had to be whole
    words."""
    start, end = span
    return Quote(page.url, page.title, page.digest, start, end, page.text[start:end])


def lay_out_page(page: Page, span: Span | None, at: int) -> PageLayout:
    """Return the part of the page around offset `at`, with the span marked if it fits.

    It fits if it lies in the text and all its words are in blocks; a wrong mark is worse than none.
    """
    blocks = page.blocks or (Block(0, len(page.text), "paragraph"),)
    marked = (
        span if span and is_span_of_page(page, span) and _covers_span(page, blocks, span) else None
    )
    low = min(bisect_right(blocks, at - CONTEXT_CHARACTERS, key=_get_end), len(blocks) - 1)
    high = max(low + 1, bisect_left(blocks, at + CONTEXT_CHARACTERS, key=_get_start))
    if marked and blocks[low].start <= marked[0] < blocks[min(high, len(blocks)) - 1].end:
        high = max(high, bisect_left(blocks, marked[1], key=_get_start))
    raised = [mark for mark in page.marks if mark.kind in _RAISED_MARKS]
    part = blocks[low:high]
    begins = max(marked[0], _find_touched_blocks(blocks, marked)[0].start) if marked else -1
    first, last = part[0].start, part[-1].end
    return PageLayout(
        _group_blocks(page, part, marked, raised, begins),
        marked is not None,
        first <= begins < last,
        max(0, first - CONTEXT_CHARACTERS) if low > 0 else None,
        min(len(page.text), last + CONTEXT_CHARACTERS) if high < len(blocks) else None,
    )


def _covers_span(page: Page, blocks: Sequence[Block], span: Span) -> bool:
    """Return whether all words of the span are in blocks, so that all can be marked."""
    done = span[0]
    for block in _find_touched_blocks(blocks, span):
        if block.start > done and not page.text[done : block.start].isspace():
            return False
        done = max(done, block.end)
    return done >= span[1] or page.text[done : span[1]].isspace()


def _find_touched_blocks(blocks: Sequence[Block], span: Span) -> Sequence[Block]:
    """Return the blocks that overlap the span."""
    low = bisect_right(blocks, span[0], key=_get_end)
    return blocks[low : bisect_left(blocks, span[1], key=_get_start)]


def _group_blocks(
    page: Page, blocks: Sequence[Block], span: Span | None, raised: Sequence[Mark], begins: int
) -> list[PageBlockGroup]:
    groups: list[PageBlockGroup] = []
    before: Block | None = None
    for block in blocks:
        quoted = span is not None and block.start < span[1] and span[0] < block.end
        if block.hidden and not quoted:
            continue
        runs = tuple(_split_runs(page, block, span if quoted else None, raised, begins))
        one = PageParagraph(block.kind, block.level, runs, not block.article, block.hidden)
        gap = page.text[before.end : block.start] if before is not None else ""
        same_row = "\t" in gap and "\n" not in gap
        gap = gap.rpartition("\n")[2]  # before it are empty cells at the end of the row above
        empty = PageParagraph("cell", 0, (), one.aside, False)
        if one.kind == "heading" and any("\t" in run.text for run in runs):
            one = one._replace(kind="cell")  # the names of the columns of a file of values
        if groups and one.kind == groups[-1].kind and one.kind in ("cell", "code", "item"):
            if one.kind == "cell" and same_row:
                groups[-1].rows[-1] += [*[empty] * (gap.count("\t") - 1), *_split_cells(one)]
            elif one.kind == "cell":
                groups[-1].rows.append([*[empty] * gap.count("\t"), *_split_cells(one)])
            else:
                groups[-1].rows.append([one])
        else:
            lead = [empty] * gap.count("\t") if one.kind == "cell" else []
            cells = _split_cells(one) if one.kind == "cell" else [one]
            groups.append(PageBlockGroup(one.kind, [[*lead, *cells]]))
        before = block
    return groups


def _split_cells(row: PageParagraph) -> list[PageParagraph]:
    """Return the cells of a block, which is a whole row in files of values."""
    cells: list[list[TextRun]] = [[]]
    for run in row.runs:
        head, *others = run.text.split("\t")
        cells[-1].append(run._replace(text=head))
        cells += [[run._replace(text=each, first=False)] for each in others]
    return [row._replace(runs=tuple(cell)) for cell in cells]


def _split_runs(
    page: Page, block: Block, span: Span | None, raised: Sequence[Mark], begins: int
) -> Iterator[TextRun]:
    """Yield the block's text, cut where the span or raised text begins or ends."""
    low, high = span or (block.end, block.end)
    first = bisect_left(raised, block.start, key=lambda mark: mark.start)
    marks = raised[first : bisect_left(raised, block.end, key=lambda mark: mark.start)]
    places = {block.start, block.end, low, high}
    places |= {place for mark in marks for place in (mark.start, mark.end)}
    cuts = sorted(place for place in places if block.start <= place <= block.end)
    for start, end in pairwise(cuts):
        kind = next((mark.kind for mark in marks if mark.start <= start < mark.end), "")
        yield TextRun(
            replace_unseen_characters(page.text[start:end]),
            low <= start < high,
            start == begins,
            kind,
        )


MAX_NUMBER_DIGITS = 12
"""maximum digits of a number in an address"""
MAX_PICTURES = 4
"""maximum pages of a PDF that are shown as pictures"""
MAX_TITLE_CHARACTERS = 300
"""maximum characters shown of a title or quote"""
PICTURE_MISMATCH = mark_text(
    "The page as a picture cannot be shown: its letters are not those of the text that was read."
)
"""message where the PDF's letters differ from the stored text, so that no box can be drawn"""


class PagePicture(NamedTuple):
    """A page of a PDF as a picture, with boxes around the quote."""

    number: int
    """page number, from 1"""
    address: str
    width: int
    height: int
    boxes: tuple[PictureBox, ...]
    """boxes around the quote, in pixels of the picture"""


class LivePageStatus(NamedTuple):
    """Result of comparing a stored page with the live page."""

    kind: str
    """`good`, `warn` or `bad`"""
    sentence: str
    address: str = ""
    """path of today's version with the quote marked; empty if there is none"""


def build_stored_page_routes() -> list[Route]:
    """Return the routes of stored pages and their pictures."""
    pages, at = StoredPageViewer(), "/pages/{digest}"
    return make_routes(
        "reader",
        {
            at: pages.show_page,
            f"POST {at}": pages.post_comparison,
            f"{at}/images/{{number}}": pages.show_image,
        },
    )


def make_quote_address(quote: Quote) -> str:
    """Return the path that shows a quote in its stored page."""
    return _make_page_address(quote.digest, quote.url, (quote.start, quote.end)) + "#quote"


class StoredPageViewer:
    """The viewer of stored pages, as one process serves it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: EvidenceSources | None = None
        self._drawing = PdfRenderer()

    def post_comparison(self, request: Request) -> Response:
        """Fetch the live page, and show the stored one with what has changed."""
        stored = self._find_stored_page(request)
        span = _parse_span(request)
        if stored is None:
            return self.show_page(request)
        quote = _recall_quote(stored, span) if span and is_span_of_page(stored, span) else None
        return self.show_page(request, self._compare_with_live_page(request, stored, quote))

    def show_image(self, request: Request) -> Response:
        """Send one page of a PDF as a PNG; 404 if its letters are not those of the stored text."""
        stored = self._find_stored_page(request)
        number = _parse_number(request.path_params["number"])
        sheets = list_pdf_pages(stored) if stored else ()
        sheet = next((each for each in sheets if each.number == number), None)
        if stored is None or sheet is None:
            return render_problem_page(request, 404, "There is no such picture.")
        try:
            picture = self._drawing.draw_picture(
                read_pdf_file(stored, get_cache_folder()), stored, sheet
            )
        except Failed as failed:
            reason = translate_borrowed_text(failed.failure.detail)
            why = _("There is no picture: %(reason)s.", reason=reason)
            return render_problem_page(request, 404, why)
        if not picture.located:
            return render_problem_page(request, 404, PICTURE_MISMATCH)
        headers = {"Cache-Control": "private, max-age=3600"}
        return Response(picture.png, headers=headers, media_type="image/png")

    def show_page(self, request: Request, standing: LivePageStatus | None = None) -> Response:
        """Show a stored page with the quote marked and, if it was compared, how the live page is.

        404 if none is stored.
        """
        stored, span = self._find_stored_page(request), _parse_span(request)
        if stored is None:
            return render_problem_page(
                request, 404, "No copy of this page is kept here: open the live one."
            )
        at = _parse_number(request.query_params.get("at", ""))
        laid = lay_out_page(stored, span, span[0] if at < 0 and span else max(at, 0))
        has_span = "start" in request.query_params or "end" in request.query_params
        quote = _recall_quote(stored, span) if span and laid.located else None
        live = is_url(stored.url)  # else a file, which may have been fetched from the web
        address = stored.url if live else find_version_address(stored.url, stored.digest)
        pictures, no_picture = self._draw_pictures(stored, span) if quote and span else ([], "")
        return render_page(
            request,
            "page_shown.html",
            title=_shorten_line(stored.title) or _("Untitled page"),
            where=replace_unseen_characters(format_host(address) or _name_source(stored)),
            fetched=_format_fetch_time(stored.fetched),
            live=make_deep_link(quote, stored) if quote and is_url(stored.url) else address,
            kind=_name_kind(stored),
            place=describe_location(stored, quote.start) if quote else "",
            quote=_shorten_line(quote.text) if quote else "",
            lost=has_span and quote is None,
            laid=laid,
            again=_make_page_address(stored.digest, stored.url, span),
            pictures=pictures,
            no_picture=no_picture,
            standing=standing,
        )

    def _draw_pictures(self, stored: Page, span: Span) -> tuple[list[PagePicture], str]:
        """Return pictures of the PDF pages on which the span stands; or none, and the reason."""
        sheets = [s for s in list_pdf_pages(stored) if s.start < span[1] and span[0] < s.end]
        if not sheets:
            return [], ""
        try:
            pdf = read_pdf_file(stored, get_cache_folder())
            pictures = [self._draw_picture(stored, pdf, s, span) for s in sheets[:MAX_PICTURES]]
        except Failed as failed:
            reason = translate_borrowed_text(failed.failure.detail)
            return [], _("The page as a picture cannot be shown: %(reason)s.", reason=reason)
        if None in pictures:
            return [], _(PICTURE_MISMATCH)
        return [picture for picture in pictures if picture], ""

    def _draw_picture(
        self, stored: Page, pdf: bytes, sheet: PdfPage, span: Span
    ) -> PagePicture | None:
        """Return one PDF page as a picture; None if its letters differ from the stored text."""
        drawn = self._drawing.find_boxes(pdf, stored, sheet, span)
        if not drawn.located:
            return None
        base, _, query = _make_page_address(stored.digest, stored.url, None).partition("?")
        image = f"{base}/images/{sheet.number}{'?' if query else ''}{query}"
        return PagePicture(sheet.number, image, drawn.width, drawn.height, drawn.boxes)

    def _compare_with_live_page(
        self, request: Request, stored: Page, quote: Quote | None
    ) -> LivePageStatus:
        """Fetch the page now, and say how it differs from the stored one."""
        settings = get_app_context(request).settings
        if is_url(stored.url) and settings.offline:
            return LivePageStatus("warn", _("This desk does not go to the web: it cannot look."))
        what = _(_name_kind(stored))
        try:
            now = self._read_live_page(request, stored)
        except Failed as failed:
            detail = translate_borrowed_text(failed.failure.detail or failed.failure.outcome)
            why = _shorten_line(detail)
            sentence = _("The %(what)s could not be read: %(reason)s.", what=what, reason=why)
            return LivePageStatus("bad", sentence)
        if now.digest == stored.digest:
            return LivePageStatus(
                "good", _("The %(what)s still has the very same text.", what=what)
            )
        if quote is None:
            return LivePageStatus("warn", _("The %(what)s has changed since.", what=what))
        match = locate_quote(now, quote.text, after=quote.start)
        if match is None:
            return LivePageStatus(
                "bad", _("The %(what)s has changed, and the quote stands there no more.", what=what)
            )
        sentence = (
            _("The %(what)s has changed since; the quote still stands there.", what=what)
            if match.text == quote.text
            else _(
                "The %(what)s has changed since; the quote still stands there, but for case, white "
                "space or typography.",
                what=what,
            )
        )
        is_stored = is_url(now.url)  # a changed file is not stored
        return LivePageStatus("warn", sentence, make_quote_address(match) if is_stored else "")

    def _read_live_page(self, request: Request, stored: Page) -> Page:
        """Read the page from its source as it is now. Raises Failed."""
        if not is_url(stored.url):
            if urlsplit(stored.url).scheme != "file":
                detail = mark_text("it came from no address")
                raise Failed(Failure(stored.url, Outcome.NOT_FOUND, detail))
            return read_document_file(resolve_place_path(stored.url))
        sources = self._get_session(request)
        now = sources.fetch_page(stored.url)
        if now.digest == stored.digest and list_pdf_pages(stored):
            keep_pdf(
                stored, sources.open_fetcher().fetch_response(now.url).data, get_cache_folder()
            )
        return now

    def _find_stored_page(self, request: Request) -> Page | None:
        """Return the page that the address names, from the archive or from the desk's store; None
        if there is none."""
        digest, url = request.path_params["digest"], request.query_params.get("url", "")
        archive = self._get_session(request).archive
        kept = (archive.find_page(digest, url) if url else None) or archive.find_page(digest)
        if kept is None:
            at_desk = find_pages_by_digest(get_store(request), digest)
            kept = next((one for one in at_desk if one.url == url), next(iter(at_desk), None))
        return kept

    def _get_session(self, request: Request) -> EvidenceSources:
        with self._lock:
            if self._sources is None:
                self._sources = sources = EvidenceSources(get_app_context(request).settings)
                request.app.state.closing.append(sources.close)
            return self._sources


def _shorten_line(text: str) -> str:
    return replace_unseen_characters(cut_between_words(text, MAX_TITLE_CHARACTERS))


def _make_page_address(digest: str, url: str, span: Span | None) -> str:
    # A file's URL is left out: it would show a path of this machine.
    fields: dict[str, Any] = {"url": url} if is_url(url) else {}
    if span:
        fields |= {"start": span[0], "end": span[1]}
    query = urlencode(fields, errors="replace")
    return f"/pages/{digest}{'?' if query else ''}{query}"


def _parse_span(request: Request) -> Span | None:
    """Return the span in the address, whether it fits the page or not; None if there is none."""
    given = request.query_params
    start, end = _parse_number(given.get("start", "")), _parse_number(given.get("end", ""))
    return (start, end) if 0 <= start < end else None


def _parse_number(text: str) -> int:
    """Return a number in an address; -1 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_DIGITS else -1


def _name_source(stored: Page) -> str:
    """Return the host of a page, or the name of a file without its private folder."""
    parts = urlsplit(stored.url)
    return format_host(stored.url) or unquote(parts.path).rpartition("/")[2]


def _name_kind(stored: Page) -> str:
    """Return "live page" or "file", for messages."""
    return mark_text("live page") if is_url(stored.url) else mark_text("file")


def _format_fetch_time(fetched: str) -> str:
    """Return a fetch time for people: 2026-11-21T14:03:05+00:00 as "2026-11-21, 14:03 UTC"."""
    day, _, time = fetched.partition("T")
    return localize_value(f"{day}, {time[:5]} UTC" if time else day)


PDF_FOLDER = "pdfs"
FILE_GONE = mark_text("the file is no longer where it was read from")
FILE_REPLACED = mark_text("the file has been replaced by another since it was read")
ONLY_TEXT_KEPT = mark_text(
    "only its text was kept; ask whether the live page has changed, to fetch the file"
)


def read_pdf_file(page: Page, cache: Path) -> bytes:
    """Return the PDF file that a page was read from.

    A file of the web is that which `keep_pdf` kept. Raises Failed (no_pdf) with the reason for a
    reader.
    """
    parts = urlsplit(page.url)
    if parts.scheme == "file":
        place = find_version_file(page.url, page.digest) or Path(unquote(parts.path))
        missing = FILE_GONE
    else:
        place = _get_pdf_path(page.digest, cache)
        missing = ONLY_TEXT_KEPT
    try:
        with require_regular_file(place).open("rb") as file:
            data = file.read(FileLimits().largest + 1)
    except (OSError, ValueError) as error:
        raise _make_no_pdf_error(missing) from error
    if len(data) > FileLimits().largest or detect_type(data, "", "") != "pdf":
        raise _make_no_pdf_error(FILE_REPLACED)
    return data


def keep_pdf(page: Page, data: bytes, cache: Path) -> None:
    """Keep the PDF file of a web page in the cache folder, by digest. Raises Failed (disk_full)."""
    place = _get_pdf_path(page.digest, cache)
    with translate_storage_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole_file(place, [data])


def _get_pdf_path(digest: str, cache: Path) -> Path:
    if not digest.isalnum():
        raise _make_no_pdf_error("it has no name to be kept under")
    return cache / PDF_FOLDER / f"{digest}.pdf"


def _make_no_pdf_error(detail: str) -> Failed:
    return Failed(Failure("the PDF", Outcome.NO_PDF, detail))
