"""Where a quote stands, in words for a reader and as a link that opens its page there.

Knows nothing of terminals and web pages: it makes strings. A link is made from the page's own
characters, because browsers differ in what they fold.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from urllib.parse import quote as percent_encoded
from urllib.parse import urldefrag, urlsplit

from rookery.browse.fold import fold
from rookery.records import Block, Page, Quote

HEADING_SHOWN = 60
"""characters of a heading that a place names"""
WHOLE_TEXT = 100
"""characters up to which a link holds all of the quote, and not only its two ends"""
END_WORDS = 5
"""words at each end of a longer quote"""
END_LETTERS = 24
"""letters at each end, in a script that sets no spaces between words"""
BEFORE_WORDS = (3, 6, 12)
"""words before the quote, as many as tell it from an earlier place that begins alike"""

Span = tuple[int, int]


def place(page: Page, start: int) -> str:
    """Where text[start] of the page is: `p. 3`, `in “Nesting”` or `about 40 % down`."""
    if number := _page_number(page, start):
        return f"p. {number}"
    if heading := _heading(page, start):
        return f"in “{heading}”"
    tenths = round(10 * start / len(page.text)) if page.text else 0
    return {0: "at the top", 10: "at the end"}.get(tenths, f"about {10 * tenths} % down")


def deep_link(quote: Quote, page: Page | None = None) -> str:
    """The quote's URL, such that a browser opens the page at the quote and marks it.

    A text fragment (`#:~:text=`) on a page, `#page=3` in a PDF where the page number is known, and
    the bare URL where neither would be understood. Without `page`, a line break or tab in the
    quote counts as the border of two blocks.
    """
    if _is_pdf(quote.url, page):
        number = _page_number(page, quote.start) if page else ""
        return f"{urldefrag(quote.url).url}#page={number}" if number else quote.url
    if not _shows_text(quote.url):
        return quote.url
    directive = _directive(quote, page)
    url, mark, fragment = quote.url.partition("#")
    kept = fragment.partition(":~:")[0] if mark else ""
    return f"{url}#{kept}:~:text={directive}" if directive else quote.url


def _page_number(page: Page, start: int) -> str:
    before = [mark for mark in page.marks if mark.kind == "page" and mark.start <= start]
    return before[-1].value if before else ""


def _heading(page: Page, start: int) -> str:
    """The nearest heading before, as its reader would name it, unless it only repeats the title."""
    holder = _block_at(page, start)
    views = page.article() if holder and holder.article else page.full()
    before = [block for block in views if block.kind == "heading" and block.start <= start]
    if not before:
        return ""
    heading = " ".join(page.text[before[-1].start : before[-1].end].split())
    if fold(heading).text == fold(page.title).text.strip():
        return ""
    return heading if len(heading) <= HEADING_SHOWN else heading[: HEADING_SHOWN - 1].rstrip() + "…"


def _block_at(page: Page, start: int) -> Block | None:
    number = bisect_right(page.blocks, start, key=lambda block: block.start) - 1
    return page.blocks[number] if number >= 0 else None


def _is_pdf(url: str, page: Page | None) -> bool:
    marked = page is not None and any(mark.kind == "page" for mark in page.marks)
    return marked or urlsplit(url).path.lower().endswith(".pdf")


def _shows_text(url: str) -> bool:
    """Whether a browser shows what is at this address, and not another program."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        return not parts.path.lower().endswith(".docx")
    return parts.scheme == "file" and parts.path.lower().endswith((".html", ".htm", ".xhtml"))


def _directive(quote: Quote, page: Page | None) -> str:
    """`text`, or `first words,last words`, each whole and within one block.

    `words before-,` go first where the page begins alike in an earlier place, since a browser
    marks the first that fits.
    """
    text, spans = _pieces(quote, page)
    if not spans:
        return ""
    short = len(spans) == 1 and spans[0][1] - spans[0][0] <= WHOLE_TEXT
    ends = spans if short else _two_ends(text, spans)
    before = _words_before(page, ends[0]) if page and text is page.text else ""
    wanted = ",".join(_encoded(text[start:end]) for start, end in ends)
    return f"{_encoded(before)}-,{wanted}" if before else wanted


def _pieces(quote: Quote, page: Page | None) -> tuple[str, list[Span]]:
    """The quote's parts that lie in one block each, as spans of the text that they come with."""
    if page is None or not page.blocks or page.digest != quote.digest:
        found = re.finditer(r"[^\n\t]*[^\s][^\n\t]*", quote.text)
        return quote.text, [_trimmed(quote.text, *line.span()) for line in found]
    return page.text, list(_in_blocks(page, quote.start, quote.end))


def _in_blocks(page: Page, start: int, end: int) -> Iterator[Span]:
    for block in page.full():
        low, high = max(start, block.start), min(end, block.end)
        if low < high and not page.text[low:high].isspace():
            yield _whole_words(page.text, *_trimmed(page.text, low, high), block)


def _trimmed(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def _whole_words(text: str, start: int, end: int, block: Block) -> Span:
    """The span grown to whole words: a browser passes over a text that begins inside a word."""
    low, high = max(block.start, start - WHOLE_TEXT), min(block.end, end + WHOLE_TEXT)
    if start > low and _joined(text, start) and (head := re.search(r"\w+\Z", text[low:start])):
        start -= len(head[0])
    if end < high and _joined(text, end) and (tail := re.match(r"\w+", text[end:high])):
        end += len(tail[0])
    return start, end


def _joined(text: str, at: int) -> bool:
    return re.fullmatch(r"\w\w", text[at - 1 : at + 1]) is not None


def _two_ends(text: str, spans: list[Span]) -> list[Span]:
    first, last = _head(text, spans[0]), _tail(text, spans[-1])
    if len(spans) == 1 and first[1] > last[0]:
        return [spans[0]]
    return [first, last]


def _head(text: str, span: Span) -> Span:
    start, end = span
    words = re.match(rf"\S+(?:\s+\S+){{0,{END_WORDS - 1}}}", text[start:end])
    size = len(words[0]) if words else end - start
    return start, start + (size if size <= WHOLE_TEXT else END_LETTERS)


def _tail(text: str, span: Span) -> Span:
    start, end = span
    words = [word.start() for word in re.finditer(r"\S+", text[start:end])][-END_WORDS:]
    size = end - start - words[0]
    return end - (size if size <= WHOLE_TEXT else END_LETTERS), end


def _words_before(page: Page, span: Span) -> str:
    """Words that stand just before the span, if its text stands earlier on the page as well."""
    start, end = span
    earlier = fold(page.text[:start]).text
    wanted = page.text[start:end]
    words: list[str] = []
    for count in BEFORE_WORDS:
        if fold(" ".join([*words, wanted])).text not in earlier:
            break
        words = _text_before(page, start).split()[-count:]
    return " ".join(words)


def _text_before(page: Page, start: int) -> str:
    """What a reader of the page sees before `start`: in its block, else in the block before."""
    shown = [block for block in page.full() if block.start < start]
    for block in reversed(shown[-2:]):
        text = page.text[block.start : min(block.end, start)]
        if text.strip():
            return text
    return ""


def _encoded(text: str) -> str:
    """Percent-encoded for a text directive, where `-`, `,` and `&` have a meaning of their own."""
    line = " ".join(text.split())
    return percent_encoded(line, safe="", errors="replace").replace("-", "%2D")
