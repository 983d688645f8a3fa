"""Views of a page, a window at a time (WebGPT, appendix A): links numbered, scripts marked.

Everything is computed from the window's start, so that no step takes longer on a longer page. All
places are offsets into the page's text. Pages of search results and errors are built here, too.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar
from unicodedata import combining
from urllib.parse import unquote

import msgspec

from rookery.browser.browser_commands import BrowserRules
from rookery.pages.page_text import join_separator, neutralize_text
from rookery.pages.text_folding import Span, TextFinder, fold_text
from rookery.records import Block, Failure, Hit, Link, Page, Question

LONGEST_WORD = 200
"""characters: a longer word is cut at the end of a window"""
KEPT_WINDOWS = 256
"""of one page, so that they are not drawn again"""
SCRIPTS = {"sup": "^", "sub": "_"}
_HOST = re.compile(r"https?://(?:[^/?#]*@)?(\[[^\]/]*\]|[^/?#:]*)", re.IGNORECASE)
_get_start = attrgetter("start")
_get_end = attrgetter("end")
T = TypeVar("T")
Inserted = tuple[int, int, str]
"""a place, the order among what is put in there, and what is put in"""


class ViewWindow(NamedTuple):
    """The rendered text of a window, and the span text[start:end] of the page that it shows."""

    text: str
    start: int
    end: int


class BlockPiece(NamedTuple):
    """The part of one block that a window shows; marks without width up to `stop` belong to it."""

    block: Block
    start: int
    end: int
    stop: int


class WindowPart(NamedTuple):
    """A part of a window's text and the span text[start:end] of the page that it shows; an empty
    span for inserted text."""

    text: str
    start: int
    end: int
    block: Block


class WindowText:
    """The text of a window with its marks of links, images and scripts, and what is under it."""

    def __init__(self, page: Page, parts: Sequence[WindowPart]) -> None:
        self._page = page
        self._parts = parts
        self._finder = TextFinder("".join(part.text for part in parts))

    def find_all(self, text: str) -> Iterator[Span]:
        """Yield the spans of the page that the window shows as `text`, marks included.

        White space, case and typography do not count. Left out is text that consists of marks
        alone, and text within which the window leaves out something of the page.
        """
        for low, high in self._finder.find_all(text, 0, spaced=False):
            if span := self._to_page_span(low, high):
                yield span

    def _to_page_span(self, low: int, high: int) -> Span | None:
        covered: list[Span] = []
        at = 0
        for part in self._parts:
            first, last = max(low - at, 0), min(high - at, len(part.text))
            if first < last and part.start < part.end:
                covered.append((part.start + first, part.start + last))
            at += len(part.text)
        text = self._page.text
        shows = [(start, words) for start, end in covered if (words := text[start:end]).strip()]
        if not shows:
            return None
        (first, begun), (last, ending) = shows[0], shows[-1]
        start, end = first + len(begun) - len(begun.lstrip()), last + len(ending.rstrip())
        letters_before = sum(_count_letters(words) for _, words in shows)
        return (start, end) if _count_letters(text[start:end]) == letters_before else None


def _count_letters(text: str) -> int:
    """Return the number of characters that are no white space."""
    return sum(map(len, text.split()))


class PageView:
    """The article view of a page, or with `full` all that it shows; `blocked` domains unlinked."""

    def __init__(self, page: Page, size: int, blocked: tuple[str, ...], full: bool = False) -> None:
        self.page = page
        self.full = full
        self.domain = get_domain(page.url)
        self._size = size
        self._blocked = blocked
        self._windows: dict[int, ViewWindow] = {}
        self._texts: dict[int, WindowText] = {}

    @cached_property
    def top(self) -> int:
        """Start of the first shown block, an offset into the page's text; 0 if none is shown."""
        return next((block.start for block in self.page.blocks if self._shows_block(block)), 0)

    @cached_property
    def bottom(self) -> int:
        """End of the last shown block, an offset into the page's text; 0 if none is shown."""
        backwards = reversed(self.page.blocks)
        return next((block.end for block in backwards if self._shows_block(block)), 0)

    def window_at(self, top: int) -> ViewWindow:
        """Return the window that starts at `top` or, if nothing is shown there, next after it.

        It is empty where nothing follows.
        """
        return _remember_place(self._windows, top, self._render_window)

    def get_window_text(self, top: int) -> WindowText:
        """Return the text of the window at `top`, with what of the page is under it."""
        return _remember_place(
            self._texts, top, lambda top: WindowText(self.page, list(self.iter_parts(top)))
        )

    def window_below(self, top: int) -> int:
        """Return the start of the window below the one at `top`; `top` itself at the bottom."""
        following = self.window_at(top).end
        return following if following < self.bottom else top

    def window_above(self, top: int) -> int:
        """Return the start of the window above the one at `top`; `top` itself at the top."""
        at = self._find_window_before(top)
        # A paragraph that is cut here may not have begun in the window above: then go less far.
        while (following := self.window_at(self.window_at(at).end).start) < top:
            at = following
        return at

    def window_around(self, place: int, before: int = 0) -> int:
        """Return the start of a window that shows the offset `place`.

        It is the start of the block there or, deep inside a long block, a quarter of a window
        above; the same of what stands so many characters `before` it, where the window then holds
        both.
        """
        above = self.window_around(max(place - before, self.top)) if before else place
        if above < place < self.window_at(above).end:
            return above
        number = bisect_right(self.page.blocks, place, key=_get_start) - 1
        start = self.page.blocks[number].start if number >= 0 else 0
        if place - start <= self._size // 2:
            return start
        return self._find_cut(start, place - self._size // 4, place)

    def shows_offset(self, place: int) -> bool:
        """Return whether this view shows the block at an offset."""
        number = bisect_right(self.page.blocks, place, key=_get_start) - 1
        return number >= 0 and self._shows_block(self.page.blocks[number])

    def get_link(self, number: int) -> Link | None:
        """Return the link of this index on the page; None if it is hidden or its domain blocked."""
        links = self.page.links
        if number >= len(links) or is_subdomain(get_domain(links[number].url), self._blocked):
            return None
        return links[number] if self.shows_offset(links[number].start) else None

    def find_anchor(self, name: str) -> int | None:
        """Return the offset of the element that a URL's fragment names; None if there is none."""
        names = (name, unquote(name))
        marks = (mark for mark in self.page.marks if mark.kind == "anchor" and mark.value in names)
        return next((mark.start for mark in marks), None)

    def get_scrollbar(self, window: ViewWindow) -> tuple[int, int]:
        """Return where the window begins and ends in the view, in percent, rounded outwards."""
        size = max(self.bottom - self.top, 1)
        start, end = (min(max(place - self.top, 0), size) for place in (window.start, window.end))
        return 100 * start // size, -(-100 * end // size)

    def get_link_text(self, link: Link) -> str:
        """Return the words of a link, or the text that stands for its image."""
        text = neutralize_text(" ".join(self.page.text[link.start : link.end].split()))
        if text:
            return text
        marks = self.page.marks
        for number in range(bisect_left(marks, link.start, key=_get_start), len(marks)):
            if marks[number].start > link.start:
                break
            if marks[number].kind == "image":
                return _format_image(marks[number].value)
        return ""

    def _shows_block(self, block: Block) -> bool:
        return not block.hidden and (self.full or block.article)

    def _find_window_before(self, top: int) -> int:
        """Return the start of the whole blocks that together fill a window up to `top`; a longer
        block is cut."""
        room = self._size
        number = bisect_left(self.page.blocks, top, key=_get_start)
        while number > 0 and room > 0:
            number -= 1
            block = self.page.blocks[number]
            if not self._shows_block(block):
                continue
            end = min(block.end, top)
            if end - block.start > room:
                cut = self._find_cut(block.start, end - room, end)
                return top if room < self._size / 2 else cut
            room -= end - block.start
            top = block.start
        return top

    def iter_parts(self, top: int) -> Iterator[WindowPart]:
        """Yield the window at `top` in parts: text of the page, and what is put between it.

        Joined, they are the window's text, up to the last white space.
        """
        return self._cut_into_parts(list(self._iter_pieces(top)))

    def _cut_into_parts(self, pieces: list[BlockPiece]) -> Iterator[WindowPart]:
        if not pieces:
            return
        first = pieces[0].start
        text = neutralize_text(self.page.text[first : pieces[-1].end])
        for piece, gap, marks in self._mark_pieces(pieces):
            if gap:
                yield WindowPart(gap, piece.start, piece.start, piece.block)
            for start, end, mark in _split_at_marks(marks, piece):
                if start < end:
                    yield WindowPart(text[start - first : end - first], start, end, piece.block)
                if mark:
                    yield WindowPart(mark, end, end, piece.block)

    def _render_window(self, top: int) -> ViewWindow:
        pieces = list(self._iter_pieces(top))
        if not pieces:
            return ViewWindow("", top, top)
        text = "".join(part.text for part in self._cut_into_parts(pieces))
        return ViewWindow(text.rstrip(), pieces[0].start, pieces[-1].end)

    def _mark_pieces(
        self, pieces: list[BlockPiece]
    ) -> Iterator[tuple[BlockPiece, str, list[Inserted]]]:
        """Yield each piece with what stands before it and what is put into it."""
        start = pieces[0].start
        link = self._first_link(start)
        mark = bisect_left(self.page.marks, start, key=_get_start)
        before: Block | None = None
        for piece in pieces:
            gap = ""
            if before is not None:
                between = self.page.text[before.end : piece.block.start]
                gap = join_separator(between, before, piece.block)
            before = piece.block
            marks: list[Inserted] = []
            link = self._add_links(marks, piece, link)
            mark = self._add_marks(marks, piece, mark)
            yield piece, gap, marks

    def _iter_pieces(self, top: int) -> Iterator[BlockPiece]:
        """Whole blocks from `top` on, as many as a window holds; one that is longer is cut."""
        blocks, room = self.page.blocks, self._size
        for number in range(bisect_right(blocks, top, key=_get_end), len(blocks)):
            block = blocks[number]
            if not self._shows_block(block):
                continue
            start = max(block.start, top)
            if block.end - start > room:
                if room >= self._size / 2:
                    cut = self._find_cut(start, start + room, block.end)
                    yield BlockPiece(block, start, cut, cut)
                return
            room -= block.end - start
            last = number + 1 == len(blocks)
            stop = len(self.page.text) + 1 if last else blocks[number + 1].start
            yield BlockPiece(block, start, block.end, stop)

    def _find_cut(self, start: int, place: int, end: int) -> int:
        """Return the start of a word at or before `place` and after `start`; else `place`, between
        whole characters."""
        text = self.page.text
        for at in range(place, max(place - LONGEST_WORD, start), -1):
            if text[at - 1].isspace() and not text[at : at + 1].isspace():
                return at
        while start + 1 < place < end and combining(text[place]):
            place -= 1
        return place

    def _first_link(self, start: int) -> int:
        """Return the first link at or after a place, or the one that reaches beyond it."""
        links = self.page.links
        number = bisect_left(links, start, key=_get_start)
        return number - 1 if number and links[number - 1].end > start else number

    def _add_links(self, marks: list[Inserted], piece: BlockPiece, number: int) -> int:
        """Marks the links of a piece that may be followed, none within another, from the one of
        this number on; the number to go on from in the next piece."""
        links = self.page.links
        position = piece.start
        while number < len(links) and links[number].start < piece.stop:
            start, end = max(links[number].start, piece.start), links[number].end
            domain = get_domain(links[number].url)
            if start >= position and not is_subdomain(domain, self._blocked):
                ending = "】" if domain == self.domain else f"†{domain}】"
                if end > start and piece.end > start:
                    marks.append((start, 2, f"【{number}†"))
                    marks.append((min(end, piece.end), 0, ending))
                elif end == start and (image := self.get_link_text(links[number])):
                    linked = f"【{number}†{image}{ending}"
                    marks.append((start, 1, self._pad_image(linked, start, piece)))
            if end > piece.stop:
                break
            position = max(position, end)
            number += 1
        return number

    def _add_marks(self, marks: list[Inserted], piece: BlockPiece, number: int) -> int:
        """Marks the images and the raised, lowered and annotated letters of a piece, likewise."""
        page_marks = self.page.marks
        linked = {place for place, order, _ in marks if order == 1}
        while number < len(page_marks) and page_marks[number].start < piece.stop:
            start, end, kind, value = msgspec.structs.astuple(page_marks[number])
            if kind == "image" and start not in linked:
                marks.append((start, 3, self._pad_image(_format_image(value), start, piece)))
            elif kind in SCRIPTS and end > start:
                marks.append((start, 4, SCRIPTS[kind]))
            elif kind == "ruby" and end <= piece.end:
                marks.append((end, -1, f"({neutralize_text(value)})"))
            number += 1
        return number

    def _pad_image(self, image: str, place: int, piece: BlockPiece) -> str:
        """Return the text of an image with white space between it and the words beside it."""
        around = self.page.text[place - 1 : place], self.page.text[place : place + 1]
        before = piece.start < place <= piece.end and not around[0].isspace()
        after = place < piece.end and not around[1].isspace()
        return f"{' ' * before}{image}{' ' * after}"


def _remember_place(cache: dict[int, T], place: int, make: Callable[[int], T]) -> T:
    """Return what the cache has for a place, or what is made of it now and kept from then on."""
    if place not in cache:
        if len(cache) >= KEPT_WINDOWS:
            cache.clear()
        cache[place] = make(place)
    return cache[place]


def _split_at_marks(marks: list[Inserted], piece: BlockPiece) -> Iterator[tuple[int, int, str]]:
    """Yield a piece cut where something is put in: from where to where, and what is put in
    there."""
    done = piece.start
    for place, _, mark in sorted(marks):
        at = max(min(place, piece.end), done)
        yield done, at, mark
        done = at
    yield done, piece.end, ""


def _format_image(words: str) -> str:
    """Return the text that stands for an image (WebGPT, appendix A)."""
    words = neutralize_text(" ".join(words.split()))
    return f"[Image: {words}]" if words else "[Image]"


def get_domain(url: str) -> str:
    """Return the host that an address names; empty for a file and for no address."""
    host = _HOST.match(url)
    return host[1].lower() if host else ""


def is_subdomain(domain: str, names: tuple[str, ...]) -> bool:
    """Return whether a domain is one of these or below one: old.reddit.com is below reddit.com.

    Dots around a name do not count, and nothing is below an empty one.
    """
    domain, plain = f".{domain.rstrip('.')}", (name.strip(".") for name in names)
    return any(domain.endswith(f".{name}") for name in plain if name)


KEPT_PAGES = 512
KEPT_RESULTS = 2048
KEPT_HITS = 1 << 14
_WORD = re.compile(r"\w+")


class OpenedPage:
    """One version of one page in its two views, with its text finder and its words."""

    def __init__(self, page: Page, rules: BrowserRules) -> None:
        self.page = page
        self.full = PageView(page, rules.window, rules.blocked, full=True)
        readable = any(page.iter_article())
        self.article = PageView(page, rules.window, rules.blocked) if readable else self.full

    @cached_property
    def finder(self) -> TextFinder:
        """Text finder over everything that the page shows in either view."""
        hidden = [(block.start, block.end) for block in self.page.blocks if block.hidden]
        return TextFinder(self.page.text, hidden)

    @cached_property
    def words(self) -> str:
        """The words of the page's title and text, for `contains_ngram`."""
        return fold_words(f"{self.page.title}\n{self.page.text}")


class PageViewCache:
    """Opened pages, found again by address and version, and pages of search results, found again by
    what was searched for: episodes of one question often ask the same.

    Give one to the sessions of one thread.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, int, tuple[str, ...]], OpenedPage] = {}
        self._results: dict[Any, tuple[Sequence[Hit], OpenedPage]] = {}
        self.fold_hit = lru_cache(KEPT_HITS)(lambda *texts: fold_words("\n".join(texts)))
        """the words of a result's title and snippet, for `contains_ngram`"""

    def get_opened(self, page: Page, rules: BrowserRules) -> OpenedPage:
        """Return the views of this page under these rules, from the cache or made now.

        Of more than KEPT_PAGES, those used last are kept. Pages without an address, such as the
        empty first one, are not kept.
        """
        if not page.url:
            return OpenedPage(page, rules)
        key = (page.url, page.digest, rules.window, rules.blocked)
        opened = self._kept.pop(key, None)
        if opened is None or (opened.page is not page and opened.page != page):
            opened = OpenedPage(page, rules)
        self._kept[key] = opened
        if len(self._kept) > KEPT_PAGES:
            del self._kept[next(iter(self._kept))]
        return opened

    def open_results(
        self, query: str, hits: Sequence[Hit], rules: BrowserRules, secret: frozenset[str]
    ) -> OpenedPage:
        """Return the page of `build_results_page`, from the cache or made now.

        Of more than KEPT_RESULTS, those made last are kept.
        """
        key = (query, secret, rules.window, rules.blocked, rules.results, rules.title)
        cached_key, opened = self._results.get(key, (None, None))
        if opened is None or (cached_key is not hits and cached_key != hits):
            page = build_results_page(query, hits, rules, secret, self)
            opened = OpenedPage(page, rules)
            self._results[key] = hits, opened
            if len(self._results) > KEPT_RESULTS:
                del self._results[next(iter(self._results))]
        return opened


def fold_words(text: str) -> str:
    """Return the words of a text, case and typography folded, with a space around each."""
    return f" {' '.join(_WORD.findall(fold_text(text).text))} "


def contains_ngram(words: str, ngrams: Iterable[str]) -> bool:
    """Return True if words, as `fold_words` gives them, contain one of these runs of words.

    To search for the few runs of a question is much less work than to list all of a page.
    """
    return any(f" {ngram} " in words for ngram in ngrams)


def find_ngrams(text: str, size: int) -> frozenset[str]:
    """Return every run of `size` words, case and typography folded; none where `size` is 0.

    WebGPT, appendix A, takes 10 words.
    """
    if not size:
        return frozenset()
    words = _WORD.findall(fold_text(text).text)
    return frozenset(" ".join(words[at : at + size]) for at in range(len(words) - size + 1))


def find_forbidden_ngrams(question: Question, size: int) -> frozenset[str]:
    """Return every run of `size` words of the question and of its reference answers.

    A page that has one of them would give the answer away (WebGPT, appendix A).
    """
    texts = (question.text, *question.gold)
    return frozenset().union(*(find_ngrams(text, size) for text in texts))


SHOWN_SNIPPET_LENGTH = 400
"""characters of a result that are shown"""


def build_results_page(
    query: str,
    hits: Sequence[Hit],
    rules: BrowserRules,
    secret: frozenset[str],
    views: PageViewCache,
) -> Page:
    """Return a page of search results: each address once, as a link, with a snippet below it.

    It has `rules.results` results at most. Those of blocked domains, and those that hold one of the
    runs of words `secret`, are left out (WebGPT, appendix A).
    """
    chosen: dict[str, Hit] = {}
    for hit in hits:
        given_away = secret and contains_ngram(views.fold_hit(hit.title, hit.snippet), secret)
        if not given_away and not is_subdomain(get_domain(hit.url), rules.blocked):
            chosen.setdefault(hit.url, hit)
    return _lay_out_hits(query, list(chosen.values())[: rules.results], rules.title)


def build_error_page(failure: Failure) -> Page:
    """Return the page that is shown in place of one that could not be had."""
    detail = truncate_line(failure.detail or failure.outcome, SHOWN_SNIPPET_LENGTH)
    text = f"This could not be opened: {detail} ({failure.outcome})"
    return Page(failure.what, "Error", text, (Block(0, len(text), "paragraph"),))


def truncate_line(text: str, longest: int) -> str:
    """Return a text on one line of at most `longest` characters; one that is cut ends in `…`."""
    line = " ".join(text[: 4 * longest].split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _lay_out_hits(query: str, hits: Iterable[Hit], longest: int) -> Page:
    text = ""
    blocks: list[Block] = []
    links: list[Link] = []
    for hit in hits:
        title = truncate_line(hit.title, longest) or hit.url
        lines = [title, truncate_line(hit.snippet, SHOWN_SNIPPET_LENGTH)]
        for number, line in enumerate(filter(None, lines)):
            text += "" if not text else "\n" if number else "\n\n"
            blocks.append(Block(len(text), len(text) + len(line), "paragraph"))
            if not number:
                links.append(Link(len(text), len(text) + len(line), hit.url))
            text += line
    if not text:
        text = "No results."
        blocks.append(Block(0, len(text), "paragraph"))
    title = f"Search results for: {truncate_line(query, longest)}"
    return Page("", title, text, tuple(blocks), tuple(links))
