"""The squad set as a small web: a folder of pages, one per article, and questions about them.

Reads ../shared/data/squad/train.json.xz. The pages go through the real reader into a real Folder; a
question's gold span is the place of its paragraph in the page that the reader made.
"""

import random
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from bench import report
from recipes.squad_site import write_site
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import read_squad
from rookery.records import Page

DATA = report.DATA / "squad" / "train.json.xz"
ARCHIVE = report.SCRATCH / "data" / "rookery" / "archive.sqlite"
CACHE = report.SCRATCH / "cache" / "rookery"


class SquadQuestion(NamedTuple):
    """A question, its accepted answers, and the numbers of its article and paragraph."""

    text: str
    answers: tuple[str, ...]
    article: int
    paragraph: int


class Squad:
    """The articles and every question about them, in file order."""

    def __init__(self) -> None:
        read = read_squad(DATA)
        self.articles = read.articles
        self.questions = [
            SquadQuestion(question.text, question.gold, *read.places[question.id])
            for question in read.questions
        ]

    def sample(self, seed: int, count: int) -> list[SquadQuestion]:
        """Draw `count` questions without replacement."""
        return random.Random(seed).sample(self.questions, count)

    @cached_property
    def folder(self) -> Path:
        """Folder of the pages, written if they are not there yet."""
        folder = report.SCRATCH / "web"
        write_site(self.articles, folder)
        for other in set(folder.iterdir()) - {folder / article.name for article in self.articles}:
            other.unlink()  # an earlier version named some pages otherwise
        return folder

    def make_url(self, article: int) -> str:
        """Return the URL of this article's page in the folder library."""
        return (self.folder.resolve() / self.articles[article].name).as_uri()

    def open_library(self, archive: Path = ARCHIVE, cache: Path = CACHE) -> FolderLibrary:
        """Open the folder as a library, indexed."""
        return FolderLibrary(self.folder, PageArchive(archive), cache)


class GoldSpans:
    """Spans of the paragraphs in the pages that the reader made, located when first asked for."""

    def __init__(self, squad: Squad, library: FolderLibrary) -> None:
        self._squad = squad
        self._library = library
        self._spans: dict[int, list[tuple[int, int]]] = {}

    def find_span(self, asked: SquadQuestion) -> tuple[int, int]:
        """Return (start, end) of the question's paragraph in its page."""
        if asked.article not in self._spans:
            page = self._library.fetch(self._squad.make_url(asked.article))
            paragraphs = self._squad.articles[asked.article].paragraphs
            self._spans[asked.article] = list(_find_spans(page, paragraphs))
        return self._spans[asked.article][asked.paragraph]

    def is_hit(self, asked: SquadQuestion, url: str, start: int, end: int) -> bool:
        """Return True if a passage is the gold paragraph: it shares more than half of the shorter
        of the two (short paragraphs are joined with the next, long ones are cut)."""
        if url != self._squad.make_url(asked.article):
            return False
        low, high = self.find_span(asked)
        shared = min(end, high) - max(start, low)
        return 2 * shared > min(end - start, high - low)


def _find_spans(page: Page, paragraphs: Sequence[str]) -> Iterator[tuple[int, int]]:
    at = 0
    for paragraph in paragraphs:
        words = re.compile(r"\s+".join(map(re.escape, paragraph.split())))
        found = words.search(page.text, at)
        if found is None:
            raise ValueError(f"{page.url} has lost a paragraph: {paragraph[:60]!r}")
        yield found.span()
        at = found.end()
