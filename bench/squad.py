"""The squad set as a little web: a folder of pages, one an article, and questions about them.

Reads ../shared/data/squad/train.json.xz. The pages go through the real reader into a real Folder;
a question's gold span is where its paragraph stands in the page that the reader made.
"""

import os
import random
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from bench import report
from rookery.ask.squad import read_squad, write_site
from rookery.browse.archive import Archive
from rookery.browse.folder import Folder
from rookery.browse.passages import sentences
from rookery.cite import dense
from rookery.draft.gather import gather
from rookery.records import Library, Page

DATA = report.DATA / "squad" / "train.json.xz"
ARCHIVE = report.SCRATCH / "data" / "rookery" / "archive.sqlite"
CACHE = report.SCRATCH / "cache" / "rookery"
VECTORS = report.SCRATCH / "vectors.sqlite"


class Asked(NamedTuple):
    """A question, its accepted answers, and the number of the paragraph it was written about."""

    text: str
    answers: tuple[str, ...]
    article: int
    paragraph: int


class Squad:
    """The articles and all questions about them, in the order of the file."""

    def __init__(self) -> None:
        read = read_squad(DATA)
        self.articles = read.articles
        self.questions = [
            Asked(question.text, question.gold, *read.places[question.id])
            for question in read.questions
        ]

    def sample(self, seed: int, count: int) -> list[Asked]:
        """`count` questions, drawn without replacement."""
        return random.Random(seed).sample(self.questions, count)

    @cached_property
    def folder(self) -> Path:
        """The folder of pages, written where they are not there yet."""
        folder = report.SCRATCH / "web"
        write_site(self.articles, folder)
        for other in set(folder.iterdir()) - {folder / article.name for article in self.articles}:
            other.unlink()  # an earlier version named some pages otherwise
        return folder

    def url(self, article: int) -> str:
        """The address of this article's page in the folder library."""
        return (self.folder.resolve() / self.articles[article].name).as_uri()

    def open_library(self, archive: Path = ARCHIVE, cache: Path = CACHE) -> Folder:
        """The folder, indexed."""
        return Folder(self.folder, Archive(archive), cache)


class Gold:
    """The span of each paragraph in the page that the reader made, found when first asked for."""

    def __init__(self, squad: Squad, library: Folder) -> None:
        self._squad = squad
        self._library = library
        self._spans: dict[int, list[tuple[int, int]]] = {}

    def span(self, asked: Asked) -> tuple[int, int]:
        """(start, end) of the question's paragraph in its page."""
        if asked.article not in self._spans:
            page = self._library.fetch(self._squad.url(asked.article))
            paragraphs = self._squad.articles[asked.article].paragraphs
            self._spans[asked.article] = list(_spans(page, paragraphs))
        return self._spans[asked.article][asked.paragraph]

    def is_hit(self, asked: Asked, url: str, start: int, end: int) -> bool:
        """Whether a passage is the gold paragraph: it shares more than half of the one or the
        other (short paragraphs are joined with the next, long ones are cut)."""
        if url != self._squad.url(asked.article):
            return False
        low, high = self.span(asked)
        shared = min(end, high) - max(start, low)
        return 2 * shared > min(end - start, high - low)


def _spans(page: Page, paragraphs: Sequence[str]) -> Iterator[tuple[int, int]]:
    at = 0
    for paragraph in paragraphs:
        words = re.compile(r"\s+".join(map(re.escape, paragraph.split())))
        found = words.search(page.text, at)
        if found is None:
            raise ValueError(f"{page.url} has lost a paragraph: {paragraph[:60]!r}")
        yield found.span()
        at = found.end()


def fill(library: Library, questions: Sequence[str]) -> None:
    """Make the vectors of all sentences that these questions find, in as many processes as there
    are cores: minutes the first time, and kept."""
    wanted: dict[str, None] = {}
    for question in questions:
        for page, hit in gather(question, library).found:
            spans = sentences(page, hit.start, hit.end)
            wanted |= dict.fromkeys(page.text[start:end] for start, end in spans)
    texts = list(wanted)
    parts = [texts[at : at + 512] for at in range(0, len(texts), 512)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for done, _ in enumerate(pool.map(_embed, parts), 1):
            if done % 20 == 0 or done == len(parts):
                print(f"vectors: {done} of {len(parts)} parts", file=sys.stderr, flush=True)


def _embed(texts: Sequence[str]) -> None:
    ranker = _ranker()
    assert ranker is not None
    ranker.similarities("", texts)


@cache
def _ranker() -> dense.Dense | None:
    """One a process: to load it takes as long as twenty sentences."""
    return dense.load(VECTORS)
