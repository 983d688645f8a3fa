"""SQuAD files, 1.1 and 2.0, as questions and as a little web: one page an article, titles linked.

It knows nothing of how pages are served, read or searched, nor of how questions are answered.
"""

import html
import lzma
import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import msgspec

from rookery.ask.load import asked
from rookery.records import Failed, Failure, Question, Record

LONGEST_NAME = 60
"""characters of a title that its page's file name keeps"""
SHORTEST_LINKED = 4
"""characters; a shorter title is a common word too often"""
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[\w-]+\.html")


class Article(Record, frozen=True):
    """One article, and the name of its page within the site."""

    name: str
    title: str
    paragraphs: tuple[str, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot name a page: use letters, digits, _ and .html")


class Squad(msgspec.Struct, frozen=True):
    """What a SQuAD file holds, in its order."""

    articles: tuple[Article, ...]
    questions: tuple[Question, ...]
    """`gold` has each accepted answer once, and none where the file says that there is none;
    `source` is the name of the article's page"""
    places: dict[str, tuple[int, int]]
    """of each question, by its id: the numbers of its article and of its paragraph there"""

    def paragraph(self, question: Question) -> str:
        """The paragraph that this question was written about."""
        article, paragraph = self.places[question.id]
        return self.articles[article].paragraphs[paragraph]


class _Answer(msgspec.Struct):
    text: str


class _Asked(msgspec.Struct):
    id: str | int
    question: str
    answers: list[_Answer] = []
    is_impossible: bool = False


class _Paragraph(msgspec.Struct):
    context: str
    qas: list[_Asked]


class _Article(msgspec.Struct):
    title: str
    paragraphs: list[_Paragraph]


class _File(msgspec.Struct):
    data: list[_Article]


def read_squad(path: Path) -> Squad:
    """The articles and questions of a SQuAD file; one whose name ends in `.xz` is unpacked.

    An id that was used before is given a number, as in `56be-2`. Raises ValueError naming the
    place that is not as in a SQuAD file, and OSError where the file cannot be read.
    """
    read = _decoded(path)
    articles = [
        Article(name, title, tuple(paragraph.context for paragraph in article.paragraphs))
        for article, (name, title) in zip(read, _named(read), strict=True)
    ]
    questions: list[Question] = []
    places: dict[str, tuple[int, int]] = {}
    times: Counter[str] = Counter()
    for number, article in enumerate(read):
        for at, paragraph in enumerate(article.paragraphs):
            for nth, each in enumerate(paragraph.qas):
                identity = _unused(str(each.id), times, lambda id: id in places)
                place = f"{path}: $.data[{number}].paragraphs[{at}].qas[{nth}]"
                questions.append(_question(each, identity, articles[number].name, place))
                places[identity] = (number, at)
    return Squad(tuple(articles), tuple(questions), places)


def _decoded(path: Path) -> list[_Article]:
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            data = file.read().removeprefix(b"\xef\xbb\xbf")
        return msgspec.json.decode(data, type=_File).data
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a SQuAD file ({error})") from error
    except (lzma.LZMAError, EOFError) as error:
        raise ValueError(f"{path}: cannot be unpacked: fetch it again ({error})") from error


def _question(each: _Asked, identity: str, source: str, place: str) -> Question:
    try:
        question = asked(each.question, identity)
    except ValueError as error:
        raise ValueError(f"{place}: not a question ({error})") from error
    accepted = [] if each.is_impossible else [answer.text.strip() for answer in each.answers]
    gold = tuple(dict.fromkeys(filter(None, accepted)))
    return msgspec.structs.replace(question, gold=gold, source=source)


def _named(articles: Sequence[_Article]) -> Iterator[tuple[str, str]]:
    """The name of each article's page, no two alike even where upper and lower case are, and its
    title in words."""
    taken: set[str] = set()
    times: Counter[str] = Counter()
    for number, article in enumerate(articles, 1):
        title = " ".join(unquote(article.title).replace("_", " ").split()) or f"Article {number}"
        plain = re.sub(r"[^\w-]", "_", unicodedata.normalize("NFC", title))[:LONGEST_NAME]
        name = _unused(plain, times, lambda name: _folded(name) in taken, "_")
        taken.add(_folded(name))
        yield f"{name}.html", title


def _folded(name: str) -> str:
    """Equal for names that some file system takes for one."""
    return unicodedata.normalize("NFKC", name).casefold()


def _unused(name: str, times: Counter[str], is_used: Callable[[str], bool], mark: str = "-") -> str:
    """The name itself, or with the next number behind it that makes it one of its own."""
    found = name
    while is_used(found):
        times[name] += 1
        found = f"{name}{mark}{times[name] + 1}"
    return found


def write_site(articles: Sequence[Article], folder: Path) -> int:
    """Writes each article as a page into `folder`, made where needed; gives how many it wrote.

    Every page is written whole or not at all, and one that is there already is not touched.
    Nothing is ever deleted. Raises Failed (not_written).
    """
    written = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for article, page in zip(articles, pages(articles), strict=True):
            written += _put(folder / article.name, page.encode("utf-8", "replace"))
    except OSError as error:
        detail = f"make room, or allow writing there, and run again ({error.strerror})"
        raise Failed(Failure(str(folder), "not_written", detail)) from error
    return written


def _put(path: Path, data: bytes) -> bool:
    """Whether the file had to be written. A reader sees the old one or the new one."""
    if path.is_file() and path.read_bytes() == data:
        return False
    part = path.with_name(f".{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return True


def pages(articles: Sequence[Article]) -> Iterator[str]:
    """Each article as HTML: its title, its paragraphs, and a link wherever another's title is."""
    titles = _Titles(articles)
    for article in articles:
        body = "\n".join(f"<p>{titles.linked(text, article)}</p>" for text in article.paragraphs)
        title = html.escape(article.title)
        yield (
            f'<!doctype html>\n<html><head><meta charset="utf-8"><title>{title}</title>'
            f"</head>\n<body><main><h1>{title}</h1>\n{body}\n</main></body></html>\n"
        )


class _Titles:
    """Finds titles in a text in one pass over its words, however many titles there are."""

    def __init__(self, articles: Sequence[Article]) -> None:
        self._names: dict[str, str] = {}
        places: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
        for article in articles:
            first = _WORD.search(article.title)
            if first and len(article.title) >= SHORTEST_LINKED:
                self._names.setdefault(article.title, article.name)
                places[first[0]].add((len(article.title), first.start()))
        self._places = {word: sorted(found, reverse=True) for word, found in places.items()}
        """by the first word of titles: their lengths, longest first, and what stands before it"""

    def linked(self, text: str, article: Article) -> str:
        """The text as HTML, other articles' titles linked, the longest where several begin."""
        parts: list[str] = []
        done = free = 0
        for word in _WORD.finditer(text):
            title, start = self._at(word, text, free)
            if title:
                free = start + len(title)
            if title and title != article.title:
                link = f'<a href="{self._names[title]}">{html.escape(title, quote=False)}</a>'
                parts += (html.escape(text[done:start], quote=False), link)
                done = free
        return "".join(parts) + html.escape(text[done:], quote=False)

    def _at(self, word: re.Match[str], text: str, free: int) -> tuple[str, int]:
        """The longest title whose first word this is, and where it starts, not before `free`."""
        for length, before in self._places.get(word[0], ()):
            start = word.start() - before
            title = text[start : start + length] if start >= free else ""
            if title in self._names and _stands(text, start, length):
                return title, start
        return "", 0


def _stands(text: str, start: int, length: int) -> bool:
    """Whether text[start : start + length] cuts no word at either end."""
    edges = (text[max(start - 1, 0) : start + 1], text[start + length - 1 : start + length + 1])
    return not any(len(edge) == 2 and _is_word(edge) for edge in edges)


def _is_word(edge: str) -> bool:
    return _WORD.fullmatch(edge) is not None
