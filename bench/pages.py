"""Page simplification beside its peers: time, text and links, in one alternated run.

Reads ../shared/data/readability; needs the `bench` extra. Prints a table and writes
bench/results/pages.json. Time is CPU time of the process, one thread. trafilatura, which cannot be
installed beside readability-lxml, runs in a process of its own: make .venv/trafilatura/ready.
"""

import json
import re
import statistics
import subprocess
import tarfile
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from bench import report
from rookery.browse.page_reader import read_page
from rookery.browse.page_text import join_visible_text
from rookery.records import Failed, Page

DATA = report.DATA / "readability" / "test-pages.tar.xz"
URL = "http://fakehost/test/page.html"
ROUNDS = report.choose_size(3, 1)
TRAFILATURA = report.ROOT / ".venv" / "trafilatura" / "bin" / "python"
TRAFILATURA_PROGRAM = """
import json, sys, time, trafilatura
for line in sys.stdin:
    page, times = json.loads(line), []
    for _ in range(int(sys.argv[1])):
        begun = time.process_time()
        text = trafilatura.extract(page, include_comments=False) or ""
        times.append(time.process_time() - begun)
    print(json.dumps([text, min(times)]))
"""
WORD = re.compile(r"\w+")
MARKUP_LINK = re.compile(r"!?\[([^\]]*)\]\(<?[^\s)]*[^)]*\)")


class Case(NamedTuple):
    """A page of the archive with the text and links of its expected article."""

    name: str
    source: bytes
    text: str
    links: frozenset[str]


class Result(NamedTuple):
    """Text and links that an extractor found."""

    text: str
    links: frozenset[str]


Extractor = Callable[[bytes], Any]


def read_archive() -> list[tuple[str, bytes, bytes]]:
    """Return name, source and expected article of each page of the archive."""
    files: dict[str, dict[str, bytes]] = {}
    with tarfile.open(DATA) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                path = Path(member.name)
                files.setdefault(path.parent.name, {})[path.name] = content.read()
    return [
        (name, held["source.html"], held["expected.html"])
        for name, held in sorted(files.items())
        if {"source.html", "expected.html"} <= held.keys()
    ]


def read_cases() -> list[Case]:
    """Return the pages of the archive, each with the text and links of its expected article."""
    return [
        Case(name, source, *parse_expected(article)) for name, source, article in read_archive()
    ]


def parse_expected(html: bytes) -> tuple[str, frozenset[str]]:
    """Return text and links of an expected article."""
    tree = LexborHTMLParser(html)
    body = tree.body
    assert body is not None
    return body.text(separator=" "), resolve_links(a.attributes.get("href") for a in tree.css("a"))


def resolve_links(hrefs: Any) -> frozenset[str]:
    """Return the http(s) links among these, made absolute."""
    found = set()
    for href in hrefs:
        target = urljoin(URL, href.strip()) if href else ""
        if target.startswith(("http://", "https://")):
            found.add(target)
    return frozenset(found)


def list_article_links(page: Page) -> frozenset[str]:
    """Return the links within the article's blocks."""
    blocks = list(page.iter_article())
    starts = [block.start for block in blocks]
    found = set()
    for link in page.links:
        number = bisect_right(starts, link.start) - 1
        if number >= 0 and link.start <= blocks[number].end:
            found.add(link.url)
    return frozenset(found)


def simplify_page(source: bytes) -> Page:
    """Read a page and write its plain text, as a peer's output is timed."""
    page = read_page(source, URL, "text/html; charset=utf-8")
    join_visible_text(page)
    return page


def make_result(page: Page) -> Result:
    """Return the article's text and links."""
    return Result(join_visible_text(page), list_article_links(page))


def make_readability() -> tuple[Extractor, Callable[[Any], Result]]:
    """Return extractor and result function of readability-lxml with html2text."""
    import html2text
    from readability import Document

    def extract(source: bytes) -> tuple[str, str]:
        """Return the article's HTML and its text."""
        html = Document(source.decode("utf-8", "replace"), url=URL).summary(html_partial=True)
        writer = html2text.HTML2Text()
        writer.body_width = 0
        writer.ignore_emphasis = writer.ignore_images = True
        return html, writer.handle(html)

    def result(found: tuple[str, str]) -> Result:
        """Return text without link markup, and links."""
        links = resolve_links(a.attributes.get("href") for a in LexborHTMLParser(found[0]).css("a"))
        return Result(MARKUP_LINK.sub(r"\1", found[1]), links)

    return extract, result


def make_resiliparse() -> tuple[Extractor, Callable[[Any], Result]]:
    """Return extractor and result function of resiliparse."""
    from resiliparse.extract.html2text import extract_plain_text

    def extract(source: bytes) -> str:
        """Return the main content with its links as text."""
        text: str = extract_plain_text(
            source.decode("utf-8", "replace"), main_content=True, links=True, alt_texts=False
        )
        return text

    def result(text: str) -> Result:
        """Return text without addresses, and links."""
        links = resolve_links(re.findall(r"\((\S+?)\)", text))
        return Result(re.sub(r" ?\((?:https?:|/|#|\.)\S*?\)", "", text), links)

    return extract, result


def is_unseen(name: str) -> bool:
    """Return whether a page is of the third that the rules of the article were not built on."""
    return int(sha256(name.encode()).hexdigest(), 16) % 3 == 0


def measure_trafilatura(pages: list[Case]) -> dict[str, float]:
    """Return the figures of trafilatura in its own environment, without links."""
    lines = "\n".join(json.dumps(case.source.decode("utf-8", "replace")) for case in pages)
    command = [str(TRAFILATURA), "-c", TRAFILATURA_PROGRAM, str(ROUNDS)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    results = [Result(text, frozenset()) for text, _ in found]
    return summarize_extractor(pages, [seconds for _, seconds in found], results)


def count_shingles(text: str, size: int) -> Counter[tuple[str, ...]]:
    """Count runs of `size` words."""
    words = WORD.findall(text)
    return Counter(tuple(words[n : n + size]) for n in range(max(1, len(words) - size + 1)))


def compute_overlap(gold: str, found: str, size: int) -> tuple[float, float, float]:
    """Return the shingles shared, only found and only in gold, as shares of all."""
    wanted, got = count_shingles(gold, size), count_shingles(found, size)
    parts = ((wanted & got).total(), (got - wanted).total(), (wanted - got).total())
    return tuple(part / (sum(parts) or 1) for part in parts)  # type: ignore[return-value]


def compute_f1(parts: Sequence[tuple[float, float, float]]) -> float:
    """Compute F1 of summed overlaps."""
    shared, extra, missing = (sum(column) for column in zip(*parts, strict=True))
    return float(2 * shared / (2 * shared + extra + missing))


def measure_extractors(pages: list[Case]) -> dict[str, dict[str, float]]:
    """Time every extractor on every page, page by page in turn, so that load on the machine affects
    all alike."""
    systems: dict[str, tuple[Extractor, Callable[[Any], Result]]] = {
        "rookery": (simplify_page, make_result),
        "readability-lxml + html2text": make_readability(),
        "resiliparse main content": make_resiliparse(),
    }
    times: dict[str, list[float]] = {name: [] for name in systems}
    results: dict[str, list[Result]] = {name: [] for name in systems}
    for case in pages:
        for name, (extract, result) in systems.items():
            taken = []
            for _ in range(ROUNDS):
                begun = time.process_time()
                try:
                    found = extract(case.source)
                except Failed:
                    found = None
                taken.append(time.process_time() - begun)
            times[name].append(min(taken))
            results[name].append(result(found) if found is not None else Result("", frozenset()))
    table = {name: summarize_extractor(pages, times[name], results[name]) for name in systems}
    if TRAFILATURA.exists() and not report.SMALL:
        table["trafilatura"] = measure_trafilatura(pages)
    return table


def summarize_extractor(
    pages: list[Case], times: list[float], results: list[Result]
) -> dict[str, float]:
    """Return time, text and link figures of one extractor."""
    shared = gold = got = 0
    for case, result in zip(pages, results, strict=True):
        shared += len(case.links & result.links)
        gold += len(case.links)
        got += len(result.links)
    pairs = list(zip(pages, results, strict=True))
    return {
        "median_ms": statistics.median(times) * 1e3,
        "p95_ms": sorted(times)[int(len(times) * 0.95)] * 1e3,
        "pages_per_second": len(times) / sum(times),
        "f1": compute_f1([compute_overlap(case.text, result.text, 4) for case, result in pairs]),
        "f1_unseen": compute_f1(
            [
                compute_overlap(case.text, result.text, 4)
                for case, result in pairs
                if is_unseen(case.name)
            ]
        ),
        "nothing_kept": sum(
            compute_overlap(case.text, result.text, 4)[0] == 0 for case, result in pairs
        ),
        "token_f1": compute_f1(
            [compute_overlap(case.text, result.text, 1) for case, result in pairs]
        ),
        "link_recall": shared / gold,
        "link_precision": shared / max(got, 1),
    }


def time_hostile_pages() -> dict[str, float]:
    """Measure seconds for pages that are built to be slow; each must keep its text."""
    deep, long = report.choose_size((50_000, 1), (500, 100))
    row = b"<tr>" + b"<td>cell</td>" * 10 + b"</tr>"
    made = {
        "depth 50,000": b"<div>" * deep + b"the text survives" + b"</div>" * deep,
        "3 MB of <": b"<p>text</p>" + b"<" * (3_000_000 // long),
        "200,000 links": b"".join(b'<a href="/%d">link</a> ' % n for n in range(200_000 // long)),
        "100,000 cells": b"<table>" + row * (10_000 // long) + b"</table>",
    }
    seconds: dict[str, float] = {}
    for name, source in made.items():
        begun = time.process_time()
        page = read_page(source, URL, "text/html; charset=utf-8")
        join_visible_text(page)
        seconds[name] = time.process_time() - begun
        assert re.search("the text survives|text|link|cell", page.text), name
    return seconds


def main() -> None:
    """Run the benchmark."""
    report.require_data(DATA)
    report.require_peers("readability", "html2text", "resiliparse")
    pages = read_cases()
    table = measure_extractors(pages)
    unfriendly = time_hostile_pages()
    names = list(next(iter(table.values())))
    print(f"{len(pages)} pages", *names, sep=" | ")
    for name, values in table.items():
        print(name, *(f"{values[key]:.3f}" for key in names), sep=" | ")
    own, peer = table["rookery"], table["readability-lxml + html2text"]
    print(
        f"time against readability-lxml + html2text: 1/{peer['median_ms'] / own['median_ms']:.1f}"
    )
    for name, taken in unfriendly.items():
        print(f"{name}: {taken:.2f} s")
    found = {"pages": len(pages), "systems": table, "hostile_seconds": unfriendly}
    report.write_results("pages", found)


if __name__ == "__main__":
    main()
