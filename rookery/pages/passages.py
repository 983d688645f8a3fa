"""Cut a page into passages: spans of a few sentences for searching and quoting."""

import bisect
import re
from collections.abc import Iterator

import msgspec
import sentencex

from rookery.pages.search_terms import find_language, join_pairs, split_terms
from rookery.records import Block, Hit, Page

CELL_BORDER = "\t"
"""what stands between two cells of a row in a page's text"""


class Passage(msgspec.Struct, frozen=True):
    """page.text[start:end], and what stands above it."""

    start: int
    end: int
    context: str
    """the headings it stands under, outermost first"""
    article: bool = True
    """False: comments, footnotes and the like, outside the article view"""


class PassageSizes(msgspec.Struct, frozen=True):
    """Limits on the size of a passage, in characters."""

    short: int = 200
    """blocks shorter than this are joined with the next ones"""
    long: int = 1600
    """passages longer than this are cut between sentences"""
    prose: int = 80
    """blocks outside the article that are shorter than this are navigation, and are left out"""


MOST_LINKED_IN_ARTICLE = 0.9
"""share of a passage of the article that is links where it is a list of links and no prose"""
MOST_LINKED_ELSEWHERE = 0.5
"""the same outside the article"""
_NOTICE = re.compile(
    r"©|\(c\) ?(?:19|20)\d\d|\bcopyright (?:by |\(c\) ?)?(?:19|20)\d\d|\ball rights reserved\b"
    r"|\balle rechte vorbehalten\b|\btous droits réservés\b|\btodos los derechos reservados\b"
    r"|\bcookie (?:banner|consent|notice|polic(?:y|ies)|preferences|settings)\b"
    r"|\b(?:we|(?:web)?site) uses? (?:\w+ ){0,3}cookies\b"
    r"|\b(?:accept|allow|reject) (?:all )?cookies\b"
    r"|\b(?:utilis\w+|utiliza\w*|verwende\w*|gebruik\w*|usa\w*) (?:\w+ ){0,3}cookies\b"
    r"|^(?:advertisement|sponsored|anzeige|publicité|publicidad)\b",
    re.IGNORECASE,
)
"""of copyright lines, cookie banners and adverts whose markup does not tell them from prose"""


def cut_passages(page: Page, sizes: PassageSizes = PassageSizes()) -> list[Passage]:
    """Return the passages of a page, in order, article first.

    Short neighbouring blocks below the same headings are joined, long ones cut between sentences.
    Hidden text and headings are in no passage, nor what nobody would quote: furniture, lists of
    links and, outside the article, short blocks and what reads like a copyright line, a cookie
    banner or an advert. A page without blocks counts as one paragraph of article.
    """
    visible_blocks = [block for block in page.blocks if not (block.hidden or block.furniture)]
    article = [block for block in visible_blocks if block.article]
    others = (block for block in visible_blocks if not block.article)
    rest = [block for block in others if _is_prose(page, block, sizes)]
    if not page.blocks and page.text.strip():
        article = [Block(0, len(page.text), "paragraph")]
    return [
        Passage(start, end, context, kind)
        for kind, blocks in ((True, article), (False, rest))
        for joined, context in _join_blocks(page, blocks, sizes)
        for start, end in _cut_span(page.text, joined, sizes)
        if _linked_share(page, start, end)
        < (MOST_LINKED_IN_ARTICLE if kind else MOST_LINKED_ELSEWHERE)
    ]


def _is_prose(page: Page, block: Block, sizes: PassageSizes) -> bool:
    """Tell whether a block outside the article may be worth quoting."""
    return (
        block.end - block.start >= sizes.prose
        and not _NOTICE.search(page.text[block.start : block.end])
        and _linked_share(page, block.start, block.end) < MOST_LINKED_ELSEWHERE
    )


def _linked_share(page: Page, start: int, end: int) -> float:
    """Return the share of the characters of text[start:end], white space left out, that are
    links."""
    first = bisect.bisect_right(page.links, start, key=lambda link: link.start)
    linked, at = 0, start
    for link in page.links[max(0, first - 1) :]:
        if link.start >= end:
            break
        linked += _count_written(page.text[max(at, link.start) : min(end, link.end)])
        at = max(at, link.end)
    return linked / max(1, _count_written(page.text[start:end]))


def _count_written(text: str) -> int:
    return len("".join(text.split()))


def _join_blocks(
    page: Page, blocks: list[Block], sizes: PassageSizes
) -> Iterator[tuple[tuple[int, int], str]]:
    """Spans of neighbouring blocks, short ones joined, never across a heading or what is left out,
    such as a byline: a quote is one slice."""
    headings: list[tuple[int, str]] = []
    start = end = -1
    for block in blocks:
        if block.kind == "heading":
            if start >= 0:
                yield (start, end), _join_headings(headings)
                start = -1
            _push_heading(headings, page, block)
            continue
        if start >= 0 and (end - start >= sizes.short or page.text[end : block.start].strip()):
            yield (start, end), _join_headings(headings)
            start = -1
        start, end = (block.start if start < 0 else start), block.end
    if start >= 0:
        yield (start, end), _join_headings(headings)


def _push_heading(headings: list[tuple[int, str]], page: Page, heading: Block) -> None:
    """Close the headings that this one ends, and add it."""
    while headings and headings[-1][0] >= heading.level:
        headings.pop()
    headings.append((heading.level, page.text[heading.start : heading.end]))


def _join_headings(headings: list[tuple[int, str]]) -> str:
    return " > ".join(text for _, text in headings)


def _cut_span(text: str, span: tuple[int, int], sizes: PassageSizes) -> Iterator[tuple[int, int]]:
    start, end = span
    while end - start > sizes.long:
        stops = _sentences_in_block(text, start, start + sizes.long, by_line=False)[:-1]
        at = stops[-1][1] if stops else start + sizes.long
        yield start, at
        start = at
    if text[start:end].strip():
        yield start, end


def get_headings_above(page: Page, at: int) -> str:
    """Return the headings that text[at] stands under, outermost first, joined by ` > `; else ""."""
    open_headings: list[tuple[int, str]] = []
    for block in page.blocks:
        if block.start >= at:
            break
        if block.kind == "heading":
            _push_heading(open_headings, page, block)
    return _join_headings(open_headings)


def find_sentences(page: Page, start: int, end: int) -> list[tuple[int, int]]:
    """Return the spans of the sentences in page.text[start:end], cut off at these two offsets.

    A row of a table and a line of code count as one; no other crosses a block. Headings, captions
    and hidden text hold none. Sentences end by the rules of English in every language.
    """
    if not page.blocks:
        return _sentences_in_block(page.text, start, end, by_line=False)
    first = max(0, bisect.bisect(page.blocks, start, key=lambda block: block.start) - 1)
    spans: list[tuple[int, int]] = []
    for block in page.blocks[first:]:
        if block.start >= end:
            break
        low, high = max(start, block.start), min(end, block.end)
        if low >= high or block.kind in ("heading", "caption") or block.hidden:
            continue
        if block.kind != "cell":
            spans += _sentences_in_block(page.text, low, high, by_line=block.kind == "code")
        elif spans and page.text[spans[-1][1] : low] == CELL_BORDER:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    return spans


def _sentences_in_block(text: str, start: int, end: int, by_line: bool) -> list[tuple[int, int]]:
    piece = text[start:end]
    pieces = piece.split("\n") if by_line else sentencex.segment("en", piece.replace("\n", " "))
    spans = []
    at = start
    for sentence in pieces:
        inner = sentence.strip()
        if inner:
            low = at + len(sentence) - len(sentence.lstrip())
            spans.append((low, low + len(inner)))
        at += len(sentence) + by_line
    return spans


TITLE_REPETITIONS = 2
"""how often the words of title and headings stand before a passage's own"""
SNIPPET_LENGTH = 200
"""characters of a passage that a Hit carries"""


class IndexEntry(msgspec.Struct, frozen=True, array_like=True):
    """One passage as the index stores it."""

    hit: bytes
    """the Hit that finds it, as JSON, without a score"""
    words: str
    """its terms after those of its title and headings, separated by spaces"""
    pairs: str
    """its pairs of neighbouring terms"""
    article: bool
    """False: outside the article view, worth half"""
    language: str
    """of the page, as its words were stemmed"""


def build_index_entries(page: Page) -> list[IndexEntry]:
    """Cut a page into passages and prepare each for an index.

    This is nearly all of the work of indexing. It needs no index, so another process can do it.
    """
    above: dict[str, list[str]] = {}
    entries = []
    language = find_language(page.text)
    for passage in cut_passages(page):
        if passage.context not in above:
            terms = split_terms(f"{page.title} {passage.context}", language)
            above[passage.context] = terms * TITLE_REPETITIONS
        words = above[passage.context]
        words = words + split_terms(page.text[passage.start : passage.end], language)
        hit, pairs = msgspec.json.encode(_make_hit(page, passage)), " ".join(join_pairs(words))
        entries.append(IndexEntry(hit, " ".join(words), pairs, passage.article, language))
    return entries


def _make_hit(page: Page, passage: Passage) -> Hit:
    snippet = page.text[passage.start : passage.end][:SNIPPET_LENGTH]
    return Hit(page.url, page.title, snippet, page.digest, passage.start, passage.end)
