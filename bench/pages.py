"""Page simplification beside its peers: time, text and links, in one alternated run.

Reads ../shared/data/readability; needs the `bench` extra. Prints a table and writes
bench/results/pages.json. Time is the process's own CPU time, one thread.
"""

import re
import statistics
import tarfile
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from bench import report
from rookery.browse.read import plain, read
from rookery.records import Failed, Page

DATA = report.DATA / "readability" / "test-pages.tar.xz"
URL = "http://fakehost/test/page.html"
ROUNDS = report.sized(3, 1)
WORD = re.compile(r"\w+")
MARKUP_LINK = re.compile(r"!?\[([^\]]*)\]\(<?[^\s)]*[^)]*\)")


class Case(NamedTuple):
    name: str
    source: bytes
    text: str
    links: frozenset[str]


class Result(NamedTuple):
    text: str
    links: frozenset[str]


Extractor = Callable[[bytes], Any]


def archived() -> list[tuple[str, bytes, bytes]]:
    """Each page of the archive: its name, its source, its expected article."""
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


def cases() -> list[Case]:
    """The pages of the archive, each with the text and links of its expected article."""
    return [Case(name, source, *expected(article)) for name, source, article in archived()]


def expected(html: bytes) -> tuple[str, frozenset[str]]:
    tree = LexborHTMLParser(html)
    body = tree.body
    assert body is not None
    return body.text(separator=" "), absolute(a.attributes.get("href") for a in tree.css("a"))


def absolute(hrefs: Any) -> frozenset[str]:
    """Those that a reader could open, made absolute."""
    found = set()
    for href in hrefs:
        target = urljoin(URL, href.strip()) if href else ""
        if target.startswith(("http://", "https://")):
            found.add(target)
    return frozenset(found)


def links_in_article(page: Page) -> frozenset[str]:
    blocks = list(page.article())
    starts = [block.start for block in blocks]
    found = set()
    for link in page.links:
        number = bisect_right(starts, link.start) - 1
        if number >= 0 and link.start <= blocks[number].end:
            found.add(link.url)
    return frozenset(found)


def ours(source: bytes) -> Page:
    page = read(source, URL, "text/html; charset=utf-8")
    plain(page)
    return page


def ours_result(page: Page) -> Result:
    return Result(plain(page), links_in_article(page))


def readability_lxml() -> tuple[Extractor, Callable[[Any], Result]]:
    import html2text
    from readability import Document

    def extract(source: bytes) -> tuple[str, str]:
        html = Document(source.decode("utf-8", "replace"), url=URL).summary(html_partial=True)
        writer = html2text.HTML2Text()
        writer.body_width = 0
        writer.ignore_emphasis = writer.ignore_images = True
        return html, writer.handle(html)

    def result(found: tuple[str, str]) -> Result:
        links = absolute(a.attributes.get("href") for a in LexborHTMLParser(found[0]).css("a"))
        return Result(MARKUP_LINK.sub(r"\1", found[1]), links)

    return extract, result


def resiliparse() -> tuple[Extractor, Callable[[Any], Result]]:
    from resiliparse.extract.html2text import extract_plain_text

    def extract(source: bytes) -> str:
        text: str = extract_plain_text(
            source.decode("utf-8", "replace"), main_content=True, links=True, alt_texts=False
        )
        return text

    def result(text: str) -> Result:
        links = absolute(re.findall(r"\((\S+?)\)", text))
        return Result(re.sub(r" ?\((?:https?:|/|#|\.)\S*?\)", "", text), links)

    return extract, result


def shingles(text: str, size: int) -> Counter[tuple[str, ...]]:
    words = WORD.findall(text)
    return Counter(tuple(words[n : n + size]) for n in range(max(1, len(words) - size + 1)))


def overlap(gold: str, found: str, size: int) -> tuple[float, float, float]:
    """(shared, only found, only gold), as shares of all shingles of the page."""
    wanted, got = shingles(gold, size), shingles(found, size)
    parts = ((wanted & got).total(), (got - wanted).total(), (wanted - got).total())
    return tuple(part / (sum(parts) or 1) for part in parts)  # type: ignore[return-value]


def f1(parts: Sequence[tuple[float, float, float]]) -> float:
    shared, extra, missing = (sum(column) for column in zip(*parts, strict=True))
    return float(2 * shared / (2 * shared + extra + missing))


def measure(pages: list[Case]) -> dict[str, dict[str, float]]:
    """Every extractor on every page, page by page in turn, so that all share the machine's mood."""
    systems: dict[str, tuple[Extractor, Callable[[Any], Result]]] = {
        "rookery": (ours, ours_result),
        "readability-lxml + html2text": readability_lxml(),
        "resiliparse main content": resiliparse(),
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
    return {name: row(pages, times[name], results[name]) for name in systems}


def row(pages: list[Case], times: list[float], results: list[Result]) -> dict[str, float]:
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
        "f1": f1([overlap(case.text, result.text, 4) for case, result in pairs]),
        "token_f1": f1([overlap(case.text, result.text, 1) for case, result in pairs]),
        "link_recall": shared / gold,
        "link_precision": shared / max(got, 1),
    }


def hostile() -> dict[str, float]:
    """Seconds for pages that are meant to hurt. Each must keep its text."""
    deep, long = report.sized((50_000, 1), (500, 100))
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
        page = read(source, URL, "text/html; charset=utf-8")
        plain(page)
        seconds[name] = time.process_time() - begun
        assert re.search("the text survives|text|link|cell", page.text), name
    return seconds


def main() -> None:
    report.require(DATA)
    report.require_peers("readability", "html2text", "resiliparse")
    pages = cases()
    table = measure(pages)
    unfriendly = hostile()
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
    report.write("pages", found)


if __name__ == "__main__":
    main()
