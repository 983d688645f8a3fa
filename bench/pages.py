"""Page simplification beside its peers: time, text and links, in one alternated run.

Reads ../shared/data/readability; needs the `bench` extra. Prints a table and writes
bench/results/pages.json. Time is CPU time of the process, one thread. trafilatura, which cannot be
installed beside readability-lxml, runs in a process of its own: make .venv/trafilatura/ready.

With `--benchmark FOLDER` (repeatable) it first measures a published benchmark, which needs neither
the data nor the extra: a clone of github.com/scrapinghub/article-extraction-benchmark, or of
github.com/adbar/trafilatura. The figures of a benchmark that is not given are kept.
"""

import argparse
import gzip
import json
import re
import statistics
import subprocess
import sys
import tarfile
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from bench import report
from rookery.errors import Failed
from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
from rookery.records import Page

DATA = report.DATA / "readability" / "test-pages.tar.xz"
URL = "http://fakehost/test/page.html"
ROUNDS = report.choose_size(3, 1)
TRAFILATURA = report.ROOT / ".venv" / "trafilatura" / "bin" / "python"
TRAFILATURA_PROGRAM = """
import json, sys, time, trafilatura
for line in sys.stdin:
    page, times = json.loads(line).encode("latin-1"), []
    for _ in range(int(sys.argv[1])):
        begun = time.process_time()
        text = trafilatura.extract(page, include_comments=False) or ""
        times.append(time.process_time() - begun)
    print(json.dumps([text, min(times)]), flush=True)
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
Overlap = tuple[float, float, float]
"""What is shared, only found, and only expected."""


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


def simplify_page(source: bytes, content_type: str = "text/html; charset=utf-8") -> Page:
    """Read a page and write its plain text, as a peer's output is timed."""
    page = read_page(source, URL, content_type)
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


@contextmanager
def open_trafilatura() -> Iterator[Callable[[bytes], tuple[str, float]]]:
    """Start trafilatura in its own environment; yield a function that returns a page's text and the
    CPU seconds of the fastest round."""
    command = [str(TRAFILATURA), "-c", TRAFILATURA_PROGRAM, str(ROUNDS)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as process:
        lines, answers = process.stdin, process.stdout
        assert lines is not None
        assert answers is not None

        def extract(source: bytes) -> tuple[str, float]:
            # JSON has no bytes: every byte is the character of that number.
            lines.write(json.dumps(source.decode("latin-1")) + "\n")
            text, seconds = json.loads(answers.readline())
            return text, seconds

        yield extract


def measure_trafilatura(pages: list[Case]) -> dict[str, float]:
    """Return the figures of trafilatura, without links."""
    with open_trafilatura() as extract:
        found = [extract(case.source) for case in pages]
    results = [Result(text, frozenset()) for text, _ in found]
    figures = summarize_extractor(pages, [seconds for _, seconds in found], results)
    return {name: value for name, value in figures.items() if not name.startswith("link")}


def count_shingles(text: str, size: int) -> Counter[tuple[str, ...]]:
    """Count runs of `size` words."""
    words = WORD.findall(text)
    runs = (tuple(words[n : n + size]) for n in range(max(1, len(words) - size + 1)))
    return Counter(filter(None, runs))


def compute_overlap(gold: str, found: str, size: int) -> Overlap:
    """Return the shingles shared, only found and only in gold, as shares of all."""
    wanted, got = count_shingles(gold, size), count_shingles(found, size)
    parts = ((wanted & got).total(), (got - wanted).total(), (wanted - got).total())
    return tuple(part / (sum(parts) or 1) for part in parts)  # type: ignore[return-value]


def compute_f1(parts: Sequence[Overlap]) -> float:
    """Compute F1 of summed overlaps."""
    shared, extra, missing = (sum(column) for column in zip(*parts, strict=True))
    return float(2 * shared / (2 * shared + extra + missing))


def time_rounds(extract: Extractor, source: bytes) -> tuple[Any, float]:
    """Return what an extractor finds, None if it fails, and the CPU seconds of a round."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        try:
            found = extract(source)
        except Failed:
            found = None
        taken.append(time.process_time() - begun)
    return found, min(taken)


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
            found, seconds = time_rounds(extract, case.source)
            times[name].append(seconds)
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


class PublishedBenchmark(NamedTuple):
    """Pages of others with what they expect of each, compared as they do it."""

    name: str
    content_type: str
    pages: list[tuple[bytes, Any]]
    compare: Callable[[Any, str], Overlap]
    """Compare what is expected with a text."""
    summarize: Callable[[Sequence[Overlap]], tuple[float, float]]
    """Compute precision and recall of all pages."""


def read_benchmark(folder: Path) -> PublishedBenchmark:
    """Read a benchmark; the files of the folder tell which."""
    if (truth := folder / "ground-truth.json").exists():
        bodies = {
            folder / "html" / f"{name}.html.gz": entry["articleBody"]
            for name, entry in json.loads(truth.read_bytes()).items()
        }
        return PublishedBenchmark(
            "article-extraction-benchmark",
            "text/html; charset=utf-8",
            [(gzip.decompress(path.read_bytes()), body) for path, body in bodies.items()],
            lambda body, text: compute_overlap(body, text, 4),
            average_pages,
        )
    if (truth := folder / "tests" / "evaldata.json").exists():
        # A file that lies in both folders is taken from `cache`.
        places = [truth.parent / "eval", truth.parent / "cache"]
        sources = {path.name: path for place in places for path in place.iterdir()}
        return PublishedBenchmark(
            "trafilatura's evaluation",
            "text/html",
            [
                (sources[entry["file"]].read_bytes(), entry)
                for entry in json.loads(truth.read_bytes()).values()
            ],
            compare_strings,
            divide_sums,
        )
    sys.exit(f"{folder} has neither ground-truth.json nor tests/evaldata.json")


def compare_strings(entry: Mapping[str, Any], text: str) -> Overlap:
    """Count the wanted strings in a text, the unwanted ones, and the wanted ones that it lacks."""
    text = " ".join(text.split())
    wanted, unwanted = (
        sum(" ".join(string.split()) in text for string in entry[key])
        for key in ("with", "without")
    )
    return wanted, unwanted, len(entry["with"]) - wanted


def average_pages(parts: Sequence[Overlap]) -> tuple[float, float]:
    """Compute the means of the pages' precision and recall, each of the pages that have one."""
    return (
        statistics.mean(shared / (shared + extra) for shared, extra, _ in parts if shared + extra),
        statistics.mean(shared / (shared + lost) for shared, _, lost in parts if shared + lost),
    )


def divide_sums(parts: Sequence[Overlap]) -> tuple[float, float]:
    """Compute precision and recall of all pages' counts together."""
    shared, extra, missing = (sum(column) for column in zip(*parts, strict=True))
    return shared / (shared + extra), shared / (shared + missing)


def measure_benchmark(benchmark: PublishedBenchmark) -> dict[str, Any]:
    """Measure rookery, and trafilatura if it is there, page by page in turn."""

    def extract_by_rookery(source: bytes) -> tuple[str, float]:
        page, seconds = time_rounds(
            lambda source: simplify_page(source, benchmark.content_type), source
        )
        return join_visible_text(page) if page is not None else "", seconds

    with ExitStack() as stack:
        systems: dict[str, Callable[[bytes], tuple[str, float]]] = {"rookery": extract_by_rookery}
        if TRAFILATURA.exists() and not report.SMALL:
            systems["trafilatura"] = stack.enter_context(open_trafilatura())
        else:
            print("without trafilatura: make .venv/trafilatura/ready")
        found = [
            {name: extract(source) for name, extract in systems.items()}
            for source, _ in benchmark.pages
        ]
    table = {}
    for name in systems:
        parts = [
            benchmark.compare(expected, texts[name][0])
            for (_, expected), texts in zip(benchmark.pages, found, strict=True)
        ]
        precision, recall = benchmark.summarize(parts)
        table[name] = {
            "f1": 2 * precision * recall / (precision + recall),
            "precision": precision,
            "recall": recall,
            "nothing_kept": sum(shared == 0 for shared, _, _ in parts),
            "median_ms": statistics.median(texts[name][1] for texts in found) * 1e3,
        }
    return {"date": report.get_date(), "pages": len(found), "systems": table}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--benchmark", type=Path, action="append", default=[], metavar="FOLDER")
    folders = parser.parse_args().benchmark
    before = report.read_results("pages") or {}
    benchmarks = dict(before.get("benchmarks", {}))
    for folder in folders:
        benchmark = read_benchmark(folder)
        benchmarks[benchmark.name] = figures = measure_benchmark(benchmark)
        print(f"{benchmark.name}, {figures['pages']} pages")
        report.print_table(list(figures["systems"]["rookery"]), figures["systems"])
    if folders:
        report.write_results("pages", before | {"benchmarks": benchmarks})
    report.require_data(DATA)
    report.require_peers("readability", "html2text", "resiliparse")
    pages = read_cases()
    table = measure_extractors(pages)
    unfriendly = time_hostile_pages()
    print(f"{len(pages)} pages")
    report.print_table(list(table["rookery"]), table)
    own, peer = table["rookery"], table["readability-lxml + html2text"]
    print(
        f"time against readability-lxml + html2text: 1/{peer['median_ms'] / own['median_ms']:.1f}"
    )
    for name, taken in unfriendly.items():
        print(f"{name}: {taken:.2f} s")
    found = {"pages": len(pages), "systems": table, "hostile_seconds": unfriendly}
    report.write_results("pages", found | {"benchmarks": benchmarks})


if __name__ == "__main__":
    main()
