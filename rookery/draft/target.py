"""Where on which page the accepted answer to a question stands, found by one who knows both.

It knows nothing of how anybody else would find it.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from rookery.browse.fold import fold
from rookery.browse.locate import locate, occurrences
from rookery.browse.passages import sentences
from rookery.browse.words import question_terms, terms
from rookery.records import Failed, Library, Page, Question

HITS = 20
"""of a search, among which the page must be"""


class Target(NamedTuple):
    """page.text[start:end] says the answer."""

    page: Page
    start: int
    end: int
    answer: str


def holds(text: str, gold: str) -> bool:
    """Whether an accepted answer stands in a text, cutting no word; typography does not count."""
    wanted = fold(gold).text.strip(" .,;:!?\"'")
    pattern = rf"(?<!\w){re.escape(wanted)}(?!\w)"
    return bool(wanted) and re.search(pattern, fold(text).text) is not None


def looked_up(question: Question, library: Library, paragraph: str = "") -> Target | None:
    """The place that answers a question, on the page that its `source` names: by its address, or
    by the end of it, such as the name of a file.

    None where there is no accepted answer, where no search finds the page or it cannot be opened,
    and where the answer is not there. Raises Failed where a search cannot be made.
    """
    if not question.gold or not question.source:
        return None
    name = unquote(question.source).rpartition("/")[2]
    title = re.sub(r"[_-]", " ", name.rpartition(".")[0] or name)
    for query in (f"{title} {question.text}", title, question.text, question.gold[0]):
        for hit in library.search(query, HITS):
            if question.source == hit.url or _path(hit.url).endswith(f"/{question.source}"):
                return _opened(question, library, hit.url, paragraph)
    return None


def _opened(question: Question, library: Library, url: str, paragraph: str) -> Target | None:
    try:
        return target(question, library.fetch(url), paragraph)
    except Failed:
        return None  # one page that cannot be had is one demonstration less


def _path(url: str) -> str:
    return unquote(urlsplit(url).path)


def target(question: Question, page: Page, paragraph: str = "") -> Target | None:
    """The sentences of a page that hold an accepted answer; those that share most with the
    question, within `paragraph` where the page has it."""
    around = locate(page, paragraph)
    low, high = (around.start, around.end) if around else (0, len(page.text))
    asked = set(question_terms(question.text))
    best, most = None, -1
    for gold in question.gold:
        for start, end in occurrences(page, gold):
            if low <= start and end <= high and holds(page.text[max(0, start - 1) : end + 1], gold):
                first, last = _sentence(page, start, end)
                shared = len(asked & set(terms(page.text[first:last])))
                if shared > most:
                    best, most = Target(page, first, last, gold), shared
    return best


def _sentence(page: Page, start: int, end: int) -> tuple[int, int]:
    """From the beginning of the sentence that text[start:end] begins in to the end of its last."""
    low, high = start, end
    for block in page.blocks:
        if block.start < end and start < block.end:
            for first, last in sentences(page, block.start, block.end):
                if first < end and start < last:
                    low, high = min(low, first), max(high, last)
    return low, high
