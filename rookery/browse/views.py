"""Pages prepared for reading, and kept so that many sessions share the work.

It knows nothing of what a session does with them.
"""

import re
from functools import cached_property

from rookery.browse.find import Finder
from rookery.browse.fold import fold
from rookery.browse.rules import Rules
from rookery.browse.window import View
from rookery.records import Page, Question

KEPT_PAGES = 512
_WORD = re.compile(r"\w+")


class Opened:
    """One version of one page in its two views, with what finds and censors."""

    def __init__(self, page: Page, rules: Rules) -> None:
        self.page = page
        self.full = View(page, rules.window, rules.blocked, full=True)
        readable = any(page.article())
        self.article = View(page, rules.window, rules.blocked) if readable else self.full
        self._overlap = rules.overlap

    @cached_property
    def finder(self) -> Finder:
        """Finds what the page shows in either view."""
        hidden = [(block.start, block.end) for block in self.page.blocks if block.hidden]
        return Finder(self.page.text, hidden)

    @cached_property
    def grams(self) -> frozenset[str]:
        """All runs of as many words as a page may not share with the question."""
        return grams(f"{self.page.title}\n{self.page.text}", self._overlap)


class Views:
    """Opened pages, found again by address and version. Give one to the sessions of one thread."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, int, int, tuple[str, ...]], Opened] = {}

    def of(self, page: Page, rules: Rules) -> Opened:
        """This page, prepared under these rules, now or before."""
        key = (page.url, page.digest, rules.window, rules.overlap, rules.blocked)
        opened = self._kept.get(key)
        if opened is None or (opened.page is not page and opened.page != page):
            if len(self._kept) >= KEPT_PAGES:
                del self._kept[next(iter(self._kept))]
            opened = self._kept[key] = Opened(page, rules)
        return opened


def grams(text: str, size: int) -> frozenset[str]:
    """All runs of `size` words, case and typography folded (WebGPT, appendix A: 10-grams)."""
    if not size:
        return frozenset()
    words = _WORD.findall(fold(text).text)
    return frozenset(" ".join(words[at : at + size]) for at in range(len(words) - size + 1))


def forbidden(question: Question, size: int) -> frozenset[str]:
    """The runs of words that would give away the question or one of its reference answers."""
    texts = (question.text, *question.gold)
    return frozenset().union(*(grams(text, size) for text in texts))
