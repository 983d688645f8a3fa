"""A little web of the articles of a SQuAD file: one page an article, with titles of other articles
linked."""

import html
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from rookery.errors import Failed, Outcome
from rookery.library.question_files import SquadArticle
from rookery.records import Failure

SHORTEST_LINKED = 4
"""characters; a shorter title is a common word too often"""
_WORD = re.compile(r"\w+")


def write_site(articles: Sequence[SquadArticle], folder: Path) -> int:
    """Write each article as an HTML page into `folder`, and return how many files were written.

    The folder is made where needed. A file that has the page's content already is left alone and
    not counted, one with another content is replaced, and none is deleted or ever half written.
    Raises Failed (not_written).
    """
    written = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for article, page in zip(articles, render_pages(articles), strict=True):
            written += _write_if_changed(folder / article.name, page.encode("utf-8", "replace"))
    except OSError as error:
        detail = f"make room, or allow writing there, and run again ({error.strerror})"
        raise Failed(Failure(str(folder), Outcome.NOT_WRITTEN, detail)) from error
    return written


def _write_if_changed(path: Path, data: bytes) -> bool:
    """Write a file unless it has this content, and return whether it was written. A reader sees the
    old file or the new one."""
    if path.is_file() and path.read_bytes() == data:
        return False
    part = path.with_name(f".{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return True


def render_pages(articles: Sequence[SquadArticle]) -> Iterator[str]:
    """Yield each article as an HTML page that links the titles of other articles in its text.

    A page has the title and the paragraphs. Titles of fewer than SHORTEST_LINKED characters are not
    linked.
    """
    titles = _TitleLinker(articles)
    for article in articles:
        body = "\n".join(
            f"<p>{titles.link_titles(text, article)}</p>" for text in article.paragraphs
        )
        title = html.escape(article.title)
        yield (
            f'<!doctype html>\n<html><head><meta charset="utf-8"><title>{title}</title>'
            f"</head>\n<body><main><h1>{title}</h1>\n{body}\n</main></body></html>\n"
        )


class _TitleLinker:
    """Finds titles in a text in one pass over its words, however many titles there are."""

    def __init__(self, articles: Sequence[SquadArticle]) -> None:
        self._names: dict[str, str] = {}
        places: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
        for article in articles:
            first = _WORD.search(article.title)
            if first and len(article.title) >= SHORTEST_LINKED:
                self._names.setdefault(article.title, article.name)
                places[first[0]].add((len(article.title), first.start()))
        self._places = {word: sorted(found, reverse=True) for word, found in places.items()}
        """by the first word of titles: their lengths, longest first, and what stands before it"""

    def link_titles(self, text: str, article: SquadArticle) -> str:
        """Return the text as HTML, other articles' titles linked, the longest where several
        begin."""
        parts: list[str] = []
        position = free = 0
        for word in _WORD.finditer(text):
            title, start = self._longest_title_at(word, text, free)
            if title:
                free = start + len(title)
            if title and title != article.title:
                link = f'<a href="{self._names[title]}">{html.escape(title, quote=False)}</a>'
                parts += (html.escape(text[position:start], quote=False), link)
                position = free
        return "".join(parts) + html.escape(text[position:], quote=False)

    def _longest_title_at(self, word: re.Match[str], text: str, free: int) -> tuple[str, int]:
        """Return the longest title whose first word this is, and where it starts, not before
        `free`."""
        for length, before in self._places.get(word[0], ()):
            start = word.start() - before
            title = text[start : start + length] if start >= free else ""
            if title in self._names and _is_whole_words(text, start, length):
                return title, start
        return "", 0


def _is_whole_words(text: str, start: int, length: int) -> bool:
    """Return whether text[start : start + length] cuts no word at either end."""
    edges = (text[max(start - 1, 0) : start + 1], text[start + length - 1 : start + length + 1])
    return not any(len(edge) == 2 and _is_word_character(edge) for edge in edges)


def _is_word_character(edge: str) -> bool:
    return _WORD.fullmatch(edge) is not None
