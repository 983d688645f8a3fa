"""Data of a small round: the bundled pages, written in the formats of ../shared/data.

A question names the first words of a sentence and asks for its last ones, so that words find it.
Nothing that is measured on these data is a figure; they let every line of a bench run in seconds.
"""

import io
import json
import lzma
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rookery.browse.passages import sentences
from rookery.browse.places import bundled
from rookery.browse.read import read
from rookery.records import Page

SHORTEST = 10
"""words of a sentence that a question is made of"""


class Source(NamedTuple):
    """A bundled page, and what it was read from."""

    name: str
    html: bytes
    page: Page

    def paragraphs(self) -> list[str]:
        """The paragraphs of its article that hold a sentence to ask about."""
        blocks = (block for block in self.page.article() if block.kind == "paragraph")
        texts = (self.page.text[block.start : block.end] for block in blocks)
        return [text for text in texts if long_sentences(text)]


def long_sentences(text: str) -> list[str]:
    """The sentences that are long enough to ask about."""
    found = (text[start:end].strip() for start, end in sentences(Page("", "", text), 0, len(text)))
    return [sentence for sentence in found if len(sentence.split()) >= SHORTEST]


def write_data(folder: Path) -> None:
    """Write every data set that a bench reads."""
    sources = [
        Source(path.stem, html, read(html, path.as_uri(), "text/html"))
        for path in sorted(bundled().glob("*.html"))
        for html in (path.read_bytes(),)
    ]
    sources = [source for source in sources if len(source.paragraphs()) > 2]
    texts = [paragraph for source in sources for paragraph in source.paragraphs()]
    _pack(folder / "squad" / "train.json.xz", json.dumps({"data": [*map(_article, sources)]}))
    _pack(folder / "prose" / "pages.txt.xz", "\n\n".join(texts))
    _pack(folder / "boolq" / "boolq.jsonl.xz", _lines(_boolean(text) for text in texts))
    climate = folder / "climate_fever" / "climate-fever.jsonl.xz"
    _pack(climate, _lines(_claim(text) for text in texts))
    forums = folder / "stackexchange"
    _pack(forums / "beer.jsonl.xz", _lines(map(_thread, range(len(texts)), texts)))
    _pack(forums / "matheducators.jsonl.xz", "")
    for name, some in (("train", texts), ("dev", texts[:1])):
        _pack(folder / "scitldr" / f"{name}.jsonl.xz", _lines(map(_paper, some)))
    _write_cranfield(folder / "cranfield", texts)
    _write_readability(folder / "readability" / "test-pages.tar.xz", sources)


def _pack(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(text.encode(), preset=0))


def _lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _question(text: str) -> tuple[str, str]:
    """A question about the first long sentence of a text, and its answer."""
    words = long_sentences(text)[0].rstrip(".!?").split()
    return f"What ends the words {' '.join(words[:7])}?", " ".join(words[-3:])


def _article(source: Source) -> dict[str, Any]:
    """As SQuAD has it."""
    found = []
    for number, text in enumerate(source.paragraphs()):
        question, answer = _question(text)
        answers = [{"text": answer, "answer_start": text.find(answer)}]
        asked = {"id": f"{source.name}-{number}", "question": question, "answers": answers}
        found.append({"context": text, "qas": [asked]})
    return {"title": source.page.title.replace(" ", "_"), "paragraphs": found}


def _boolean(text: str) -> dict[str, Any]:
    """As BoolQ has it: the same question about every passage."""
    query = f"Passage: {text}\nQuestion: do crows bring gifts"
    return {"query": query, "choices": ["no", "yes"], "gold": int("gift" in text)}


def _claim(text: str) -> dict[str, Any]:
    """As Climate-FEVER has it: a sentence supports itself, and no other sentence of its text."""
    claim, *others = long_sentences(text)
    shown = [(claim, "SUPPORTS"), *((other, "NOT_ENOUGH_INFO") for other in others)]
    evidence = [{"article": "", "evidence": e, "evidence_label": label} for e, label in shown]
    return {"claim": claim, "evidences": evidence}


def _thread(number: int, text: str) -> dict[str, Any]:
    """As the forums have it: a question and its accepted answer."""
    answer = {"id": number, "body_html": f"<p>{text}</p>", "accepted": True}
    return {"title": _question(text)[0], "body_html": f"<p>{text}</p>", "answers": [answer]}


def _paper(text: str) -> dict[str, Any]:
    """As SciTLDR has it: an abstract and its one-sentence summary."""
    sentences = long_sentences(text)
    return {"source": sentences, "target": sentences[:1]}


def _write_cranfield(folder: Path, texts: list[str]) -> None:
    documents: list[dict[str, Any]] = [
        {"id": n, "title": t[:40], "body": t} for n, t in enumerate(texts, 1)
    ]
    _pack(folder / "cranfield-docs.jsonl.xz", _lines(documents))
    queries = (
        {"query": _question(each["body"])[0], "relevance": {str(each["id"]): 4}}
        for each in documents[::10]
    )
    (folder / "cranfield-queries.jsonl").write_text(_lines(queries), encoding="utf-8")


def _write_readability(path: Path, sources: list[Source]) -> None:
    """The expected article is the whole page."""
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:xz") as archive:
        for source in sources:
            for name in ("source.html", "expected.html"):
                member = tarfile.TarInfo(f"test-pages/{source.name}/{name}")
                member.size = len(source.html)
                archive.addfile(member, io.BytesIO(source.html))
