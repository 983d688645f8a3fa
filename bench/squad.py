"""The squad set as a little web: a folder of pages, one an article, and questions about them.

Reads ../shared/data/squad/train.json.xz. The pages go through the real reader into a real Folder;
a question's gold span is where its paragraph stands in the page that the reader made.
"""

import html
import json
import lzma
import os
import random
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from rookery.browse.archive import Archive
from rookery.browse.folder import Folder
from rookery.browse.passages import sentences
from rookery.cite import dense
from rookery.draft.gather import gather
from rookery.records import Library, Page

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "squad" / "train.json.xz"
SCRATCH = ROOT / "bench" / "scratch"
"""kept from run to run: pages, index, archive and vectors; it can be deleted at any time"""
ARCHIVE = SCRATCH / "data" / "rookery" / "archive.sqlite"
CACHE = SCRATCH / "cache" / "rookery"
VECTORS = SCRATCH / "vectors.sqlite"


class Asked(NamedTuple):
    """A question, its accepted answers, and the number of the paragraph it was written about."""

    text: str
    answers: tuple[str, ...]
    article: int
    paragraph: int


class Article(NamedTuple):
    title: str
    paragraphs: tuple[str, ...]

    @property
    def name(self) -> str:
        return re.sub(r"[^\w-]", "_", self.title) + ".html"


class Squad:
    """The articles and all questions about them, in the order of the file."""

    def __init__(self) -> None:
        with lzma.open(DATA) as file:
            read = json.load(file)["data"]
        self.articles = [
            Article(
                article["title"].replace("_", " "),
                tuple(paragraph["context"] for paragraph in article["paragraphs"]),
            )
            for article in read
        ]
        self.questions = [
            Asked(qa["question"], tuple({a["text"] for a in qa["answers"]}), number, at)
            for number, article in enumerate(read)
            for at, paragraph in enumerate(article["paragraphs"])
            for qa in paragraph["qas"]
        ]

    def sample(self, seed: int, count: int) -> list[Asked]:
        """`count` questions, drawn without replacement."""
        return random.Random(seed).sample(self.questions, count)

    @cached_property
    def folder(self) -> Path:
        """The folder of pages, written where it is not there yet."""
        folder = SCRATCH / "web"
        if not (folder / self.articles[-1].name).exists():
            folder.mkdir(parents=True, exist_ok=True)
            for article, page in zip(self.articles, _pages(self.articles), strict=True):
                (folder / article.name).write_text(page, encoding="utf-8")
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


def _pages(articles: Sequence[Article]) -> Iterator[str]:
    """Each article as HTML: a heading, and a paragraph each, titles of others linked."""
    names = {article.title: article.name for article in articles if len(article.title) > 3}
    longest_first = sorted(names, key=len, reverse=True)
    titles = re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")
    for article in articles:
        body = "\n".join(
            f"<p>{_linked(paragraph, titles, names, article.title)}</p>"
            for paragraph in article.paragraphs
        )
        title = html.escape(article.title)
        yield (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"</head>\n<body><main><h1>{title}</h1>\n{body}\n</main></body></html>\n"
        )


def _linked(paragraph: str, titles: re.Pattern[str], names: dict[str, str], own: str) -> str:
    parts = []
    at = 0
    for found in titles.finditer(paragraph):
        if found[0] != own:
            parts += [html.escape(paragraph[at : found.start()], quote=False)]
            parts += [f'<a href="{names[found[0]]}">{html.escape(found[0], quote=False)}</a>']
            at = found.end()
    return "".join(parts) + html.escape(paragraph[at:], quote=False)


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
