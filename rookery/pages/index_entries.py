"""Index entries: the passages of a page, prepared for a search index by whoever read the page."""

import msgspec

from rookery.pages.passages import Passage, cut_passages
from rookery.pages.search_terms import find_language, join_pairs, split_terms
from rookery.records import Hit, Page

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
            above[passage.context] = (
                split_terms(f"{page.title} {passage.context}", language) * TITLE_REPETITIONS
            )
        words = above[passage.context]
        words = words + split_terms(page.text[passage.start : passage.end], language)
        hit, pairs = msgspec.json.encode(_make_hit(page, passage)), " ".join(join_pairs(words))
        entries.append(IndexEntry(hit, " ".join(words), pairs, passage.article, language))
    return entries


def _make_hit(page: Page, passage: Passage) -> Hit:
    snippet = page.text[passage.start : passage.end][:SNIPPET_LENGTH]
    return Hit(page.url, page.title, snippet, page.digest, passage.start, passage.end)
