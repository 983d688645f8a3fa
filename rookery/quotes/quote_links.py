"""Location of a quote on its page: a label for readers, and a link that opens the page there.

Links use text fragments (`#:~:text=`), made from the page's own characters, because browsers differ
in what they fold when they search for the text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby
from urllib.parse import quote as percent_encoded
from urllib.parse import urldefrag, urlsplit

from rookery.pages.file_selection import DOCUMENT_READERS, PICTURE_ENDINGS, READER_OF_ENDING
from rookery.pages.passages import find_label
from rookery.pages.text_folding import fold_text
from rookery.records import Block, Page, Quote

MAX_HEADING_CHARACTERS = 60
"""most characters of a heading in a label"""
MAX_COLUMN_CHARACTERS = 120
"""most characters of the names of columns in a label"""
MAX_WHOLE_CHARACTERS = 100
"""most characters of a quote that a link holds entire, and not only its two ends"""
END_WORDS = 5
"""words at each end of a longer quote"""
END_LETTERS = 24
"""letters at each end, in a script that sets no spaces between words"""
PREFIX_WORDS = (3, 6, 12)
"""numbers of words before the quote that are tried to tell it from an earlier place that begins
alike"""

_NOTATION = re.compile(r"[\^_√]")
_ITEM_NUMBER = re.compile(r"[0-9A-Za-z]{1,8}\. ")

Span = tuple[int, int]


def describe_location(page: Page, start: int) -> str:
    """Return a label for the place of text[start] on the page.

    The page, slide, sheet, chapter or message, else the heading above, else the depth: `p. 3`,
    `slide 3`, `sheet “2024”`, `in “Nesting”`, `about 40 % down`. In a table the names of its
    columns follow: `in “Corvids”, columns: Bird | Years`. Text that a program has read in a picture
    is marked: `p. 3, read by OCR`, and so is what a mail quotes: `at the end, quoted: Tom wrote`,
    or, where it does not say of whom, `at the end, quoted by Ada`.
    """
    block = _find_block(page, start)
    columns = find_column_names(page, start) if block and block.kind == "cell" else ()
    names = shorten_line(" | ".join(columns), MAX_COLUMN_CHARACTERS)
    place = _describe_place(page, start)
    place += f", columns: {names}" if names else ""
    marks = [mark for mark in page.marks if mark.start <= start < mark.end]
    place += "".join(f", {mark.value}" for mark in marks if mark.kind == "quoted")
    return place + ", read by OCR" * any(mark.kind == "ocr" for mark in marks)


def find_column_names(page: Page, at: int) -> tuple[str, ...]:
    """Return the names of the columns of a row, which are a heading in files of values."""
    if label := find_label(page, at):
        names = label.split(" | ")
        return tuple(names[f"\n{names[0]}\n" in page.text :])  # a title over the names is none
    above = [block for block in page.blocks if block.kind == "heading" and block.start < at]
    heading = page.text[above[-1].start : above[-1].end] if above else ""
    return tuple(heading.split("\t")) if "\t" in heading else ()


_PARTS = {
    "page": "p. {}",
    "slide": "slide {}",
    "message": "message {}",
    "sheet": "sheet “{}”",
    "chapter": "chapter “{}”",
    "time": "at {}",
}
"""kinds of marks over the parts of a document, and how their values are shown"""


def _describe_place(page: Page, start: int) -> str:
    before = [mark for mark in page.marks if mark.kind in _PARTS and mark.start <= start]
    if before and (before[-1].kind == "page" or start < before[-1].end):
        return _PARTS[before[-1].kind].format(shorten_line(before[-1].value))
    if heading := _find_heading(page, start):
        return f"in “{heading}”"
    tenths = round(10 * start / len(page.text)) if page.text else 0
    return {0: "at the top", 10: "at the end"}.get(tenths, f"about {10 * tenths} % down")


def make_deep_link(quote: Quote, page: Page | None = None) -> str:
    """Return the quote's URL with a fragment that makes a browser open the page at the quote.

    A text fragment (`#:~:text=`) for a page, `#page=3` for a PDF whose page number is known, and
    the bare URL where a browser would understand neither. Without `page`, a line break or tab in
    the quote counts as the border of two blocks.
    """
    if is_pdf(quote.url, page):
        marks = [mark for mark in page.marks if mark.kind == "page"] if page else []
        before = [mark.value for mark in marks if mark.start <= quote.start]
        return f"{urldefrag(quote.url).url}#page={before[-1]}" if before else quote.url
    if not _shows_text(quote.url):
        return quote.url
    directive = _make_directive(quote, page)
    url, mark, fragment = quote.url.partition("#")
    fragment_before = fragment.partition(":~:")[0] if mark else ""
    return f"{url}#{fragment_before}:~:text={directive}" if directive else quote.url


def _find_heading(page: Page, start: int) -> str:
    """Return the nearest heading before `start` in the reader's view, unless it only repeats the
    title or names columns."""
    holder = _find_block(page, start)
    views = page.iter_article() if holder and holder.article else page.iter_shown()
    before = [block for block in views if block.kind == "heading" and block.start <= start]
    if not before:
        return ""
    # Wikis have a link to edit a section in its heading.
    heading = page.text[before[-1].start : before[-1].end].removesuffix("[edit]")
    repeats = fold_text(" ".join(heading.split())).text == fold_text(page.title).text.strip()
    return "" if repeats or "\t" in heading else shorten_line(heading)


def shorten_line(text: str, most: int = MAX_HEADING_CHARACTERS) -> str:
    """Return the text on one line; a long one is cut to `most` characters, an ellipsis included."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _find_block(page: Page, start: int) -> Block | None:
    number = bisect_right(page.blocks, start, key=lambda block: block.start) - 1
    return page.blocks[number] if number >= 0 else None


def is_pdf(url: str, page: Page | None) -> bool:
    """Return True if a page with this URL was a PDF, by its name or its marks."""
    path = urlsplit(url).path.lower()
    marked = page is not None and any(mark.kind == "page" for mark in page.marks)
    return path.endswith(".pdf") or (marked and not path.endswith(PICTURE_ENDINGS))


def _shows_text(url: str) -> bool:
    """Return True if a browser itself shows the content of this address, and no other program."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        reader = READER_OF_ENDING.get(parts.path.rpartition(".")[2].lower(), "")
        return reader not in DOCUMENT_READERS
    return parts.scheme == "file" and parts.path.lower().endswith((".html", ".htm", ".xhtml"))


def _make_directive(quote: Quote, page: Page | None) -> str:
    """Return the text directive of a quote: `text`, or `first words,last words`.

    Each part is whole words within one block. `words before-,` go first where the page begins alike
    in an earlier place, since a browser marks the first match.
    """
    text, spans = _split_by_block(quote, page)
    if not spans:
        return ""
    ends = _choose_ends(text, spans)
    before = _find_prefix(page, ends[0]) if page and text is page.text else ""
    directive = ",".join(_encode_directive(text[start:end]) for start, end in ends)
    return f"{_encode_directive(before)}-,{directive}" if before else directive


def _split_by_block(quote: Quote, page: Page | None) -> tuple[str, list[Span]]:
    """Return the quote's parts that lie in one block each, as spans of the text returned with
    them."""
    if page is None or not page.blocks or page.digest != quote.digest:
        found = re.finditer(r"[^\n\t]*[^\s][^\n\t]*", quote.text)
        return quote.text, [_trim_span(quote.text, *line.span()) for line in found]
    return page.text, list(_cut_into_blocks(page, quote.start, quote.end))


def _cut_into_blocks(page: Page, start: int, end: int) -> Iterator[Span]:
    for block in page.iter_shown():
        low, high = max(start, block.start), min(end, block.end)
        number = _ITEM_NUMBER.match(page.text, low, high) if block.kind == "item" else None
        if number and low == block.start and number.end() < high:
            low = number.end()  # a browser shows it, and does not find it
        if low < high and not page.text[low:high].isspace():
            yield _grow_to_words(page.text, *_trim_span(page.text, low, high), block)


def _trim_span(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def _grow_to_words(text: str, start: int, end: int, block: Block) -> Span:
    """Return the span grown to whole words: browsers ignore a text that begins inside a word."""
    head = text[max(block.start, start - MAX_WHOLE_CHARACTERS) : start]
    tail = text[end : min(block.end, end + MAX_WHOLE_CHARACTERS)]
    if head and _is_inside_word(text, start):
        start -= len(head) - len(re.sub(r"\w+\Z", "", head))
    if tail and _is_inside_word(text, end):
        end += len(tail) - len(re.sub(r"\A\w+", "", tail))
    return start, end


def _is_inside_word(text: str, at: int) -> bool:
    return re.fullmatch(r"\w\w", text[at - 1 : at + 1]) is not None


def _choose_ends(text: str, spans: list[Span]) -> list[Span]:
    first, last = _find_plain_runs(text, spans[0])[0], _find_plain_runs(text, spans[-1])[-1]
    if first == last and first[1] - first[0] <= MAX_WHOLE_CHARACTERS:
        return [first]
    head, tail = _take_head(text, first), _take_tail(text, last)
    if len(spans) == 1 and head[1] > tail[0]:
        return [spans[0]]
    return [head, tail]


def _find_plain_runs(text: str, span: Span) -> list[Span]:
    """Return the runs of words without signs that the reader of the page has put in, such as the
    `^` of a power, which no browser finds; the whole span where there is no such word."""
    words = [word.span() for word in re.compile(r"\S+").finditer(text, *span)]
    groups = groupby(words, lambda word: not _NOTATION.search(text, *word))
    runs = [list(group) for is_plain, group in groups if is_plain]
    return [(run[0][0], run[-1][1]) for run in runs] or [span]


def _take_head(text: str, span: Span) -> Span:
    start, end = span
    words = re.match(rf"\S+(?:\s+\S+){{0,{END_WORDS - 1}}}", text[start:end])
    size = len(words[0]) if words else end - start
    return start, start + (size if size <= MAX_WHOLE_CHARACTERS else END_LETTERS)


def _take_tail(text: str, span: Span) -> Span:
    start, end = span
    words = [word.start() for word in re.finditer(r"\S+", text[start:end])][-END_WORDS:]
    size = end - start - words[0]
    return end - (size if size <= MAX_WHOLE_CHARACTERS else END_LETTERS), end


def _find_prefix(page: Page, span: Span) -> str:
    """Return words just before the span, if its text stands earlier on the page as well, else
    nothing."""
    start, end = span
    earlier = fold_text(page.text[:start]).text
    quoted = page.text[start:end]
    words: list[str] = []
    for count in PREFIX_WORDS:
        if fold_text(" ".join([*words, quoted])).text not in earlier:
            break
        words = _find_text_before(page, start).split()[-count:]
    return " ".join(words)


def _find_text_before(page: Page, start: int) -> str:
    """Return the text that a reader sees before `start`: in its block, else in the block before."""
    shown = [block for block in page.iter_shown() if block.start < start]
    for block in reversed(shown[-2:]):
        text = page.text[block.start : min(block.end, start)]
        if text.strip():
            return text
    return ""


def _encode_directive(text: str) -> str:
    """Percent-encode text for a text directive, in which `-`, `,` and `&` have a meaning of their
    own."""
    line = " ".join(text.split())
    return percent_encoded(line, safe="", errors="replace").replace("-", "%2D")
