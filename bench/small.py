"""Data of a small round: the packaged pages in the formats of ../shared/data.

A question names the first words of a sentence and asks for its last ones, so that words find it.
Figures measured on these data mean nothing; they let every line of a benchmark run in seconds.
"""

import gzip
import io
import json
import lzma
import tarfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from bench.support import COLLECTIONS as SUPPORT_LABELS
from rookery.library.libraries import get_bundled_folder
from rookery.pages.page_reader import read_page
from rookery.pages.passages import find_sentences
from rookery.records import Page

PUBLISHED = ("article-extraction-benchmark", "trafilatura")
"""Folders of the published benchmarks of pages."""
SHORTEST = 10
"""Minimum words of a sentence that a question is made of."""


class Source(NamedTuple):
    """A packaged page, and the HTML it was read from."""

    name: str
    html: bytes
    page: Page

    def list_paragraphs(self) -> list[str]:
        """Return the paragraphs of its article that contain a long sentence."""
        blocks = (block for block in self.page.iter_article() if block.kind == "paragraph")
        texts = (self.page.text[block.start : block.end] for block in blocks)
        return [text for text in texts if find_long_sentences(text)]


def find_long_sentences(text: str) -> list[str]:
    """Return the sentences that are long enough to ask about."""
    found = (
        text[start:end].strip() for start, end in find_sentences(Page("", "", text), 0, len(text))
    )
    return [sentence for sentence in found if len(sentence.split()) >= SHORTEST]


def write_data(folder: Path) -> None:
    """Write every data set that a benchmark reads."""
    sources = [
        Source(path.stem, html, read_page(html, path.as_uri(), "text/html"))
        for path in sorted(get_bundled_folder().glob("*.html"))
        for html in (path.read_bytes(),)
    ]
    sources = [source for source in sources if len(source.list_paragraphs()) > 2]
    texts = [paragraph for source in sources for paragraph in source.list_paragraphs()]
    _write_xz(
        folder / "squad" / "train.json.xz", json.dumps({"data": [*map(_make_article, sources)]})
    )
    _write_xz(folder / "prose" / "pages.txt.xz", "\n\n".join(texts))
    _write_xz(
        folder / "boolq" / "boolq.jsonl.xz", _format_lines(_make_boolq_row(text) for text in texts)
    )
    climate = folder / "climate_fever" / "climate-fever.jsonl.xz"
    _write_xz(climate, _format_lines(_make_climate_row(text) for text in texts))
    for name, labels in SUPPORT_LABELS.items():
        rows = _make_support_rows(texts[:12], *labels)
        _write_xz(folder / "support" / f"{name}.jsonl.xz", _format_lines(rows))
    forums = folder / "stackexchange"
    _write_xz(forums / "beer.jsonl.xz", _format_lines(map(_make_thread, range(len(texts)), texts)))
    _write_xz(forums / "matheducators.jsonl.xz", "")
    for name, some in (("train", texts), ("dev", texts[:1])):
        _write_xz(folder / "scitldr" / f"{name}.jsonl.xz", _format_lines(map(_make_paper, some)))
    _write_cranfield(folder / "cranfield", texts)
    _write_readability(folder / "readability" / "test-pages.tar.xz", sources)
    _write_published(folder, sources)


def _write_xz(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(text.encode(), preset=0))


def _format_lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _make_question(text: str) -> tuple[str, str]:
    """Make a question about the first long sentence of a text, and its answer."""
    words = find_long_sentences(text)[0].rstrip(".!?").split()
    return f"What ends the words {' '.join(words[:7])}?", " ".join(words[-3:])


def _make_article(source: Source) -> dict[str, Any]:
    """Make an article in SQuAD's format."""
    found = []
    for number, text in enumerate(source.list_paragraphs()):
        question, answer = _make_question(text)
        answers = [{"text": answer, "answer_start": text.find(answer)}]
        asked = {"id": f"{source.name}-{number}", "question": question, "answers": answers}
        found.append({"context": text, "qas": [asked]})
    return {"title": source.page.title.replace(" ", "_"), "paragraphs": found}


def _make_boolq_row(text: str) -> dict[str, Any]:
    """Make a row in BoolQ's format; the question is the same for every passage."""
    query = f"Passage: {text}\nQuestion: do crows bring gifts"
    return {"query": query, "choices": ["no", "yes"], "gold": int("gift" in text)}


def _make_climate_row(text: str) -> dict[str, Any]:
    """Make a row in Climate-FEVER's format: a sentence supports itself, and the others of its text
    say nothing."""
    claim, *others = find_long_sentences(text)
    shown = [(claim, "SUPPORTS"), *((other, "NOT_ENOUGH_INFO") for other in others)]
    evidence = [{"article": "", "evidence": e, "evidence_label": label} for e, label in shown]
    return {"claim": claim, "evidences": evidence}


def _make_support_rows(texts: list[str], good: str, bad: str) -> Iterable[dict[str, Any]]:
    """Make pairs of a sentence with its own text, which supports it, and with the one before it."""
    for before, text in pairwise(texts):
        claim = find_long_sentences(text)[0]
        yield {"claim": claim, "evidence": [text], "label": good}
        yield {"claim": claim, "evidence": [before], "label": bad}


def _make_thread(number: int, text: str) -> dict[str, Any]:
    """Make a forum thread: a question and its accepted answer."""
    answer = {"id": number, "body_html": f"<p>{text}</p>", "accepted": True}
    return {"title": _make_question(text)[0], "body_html": f"<p>{text}</p>", "answers": [answer]}


def _make_paper(text: str) -> dict[str, Any]:
    """Make a row in SciTLDR's format: an abstract and its one-sentence summary."""
    sentences = find_long_sentences(text)
    return {"source": sentences, "target": sentences[:1]}


def _write_cranfield(folder: Path, texts: list[str]) -> None:
    documents: list[dict[str, Any]] = [
        {"id": n, "title": t[:40], "body": t} for n, t in enumerate(texts, 1)
    ]
    _write_xz(folder / "cranfield-docs.jsonl.xz", _format_lines(documents))
    queries = (
        {"query": _make_question(each["body"])[0], "relevance": {str(each["id"]): 4}}
        for each in documents[::10]
    )
    (folder / "cranfield-queries.jsonl").write_text(_format_lines(queries), encoding="utf-8")


def _write_readability(path: Path, sources: list[Source]) -> None:
    """Write the pages as an archive whose expected article is the whole page."""
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:xz") as archive:
        for source in sources:
            for name in ("source.html", "expected.html"):
                member = tarfile.TarInfo(f"test-pages/{source.name}/{name}")
                member.size = len(source.html)
                archive.addfile(member, io.BytesIO(source.html))


def _write_published(folder: Path, sources: list[Source]) -> None:
    """Write the pages in the formats of both published benchmarks."""
    bodies, strings = (folder / name for name in PUBLISHED)
    (bodies / "html").mkdir(parents=True)
    for part in ("cache", "eval"):
        (strings / "tests" / part).mkdir(parents=True)
    truth, wanted = {}, {}
    for source in sources:
        paragraphs = source.list_paragraphs()
        (bodies / "html" / f"{source.name}.html.gz").write_bytes(gzip.compress(source.html))
        (strings / "tests" / "eval" / f"{source.name}.html").write_bytes(source.html)
        truth[source.name] = {"articleBody": "\n".join(paragraphs)}
        wanted[source.name] = {
            "file": f"{source.name}.html",
            "with": paragraphs[:1],
            "without": ["<p>"],
        }
    (bodies / "ground-truth.json").write_text(json.dumps(truth))
    (strings / "tests" / "evaldata.json").write_text(json.dumps(wanted))
