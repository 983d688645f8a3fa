"""Reading in reader processes: hostile and mutated files, and what the processes cost.

Hostile inputs and mutated files of each kind are read within the limits of one fetch; counted are
outcomes, seconds and the memory of the reader. Then the pages of ../shared/data/readability are
read here and by the processes, in turn. Prints tables and writes bench/results/reading.json.

    python -m bench.reading [--files N]
"""

import argparse
import io
import json
import random
import statistics
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from bench import report
from bench.pages import DATA, read_archive
from rookery.browse.libraries import get_bundled_folder
from rookery.browse.page_reader import read_page
from rookery.browse.reader_processes import FileLimits, PageJob, ReaderPool
from rookery.records import Failed

SECONDS = 20.0
"""Limit of one page: that of a fetch."""
THREADS = 4
"""That ask for pages at the same time, as when a site is read."""
ROUNDS = report.choose_size(5, 1)
OPENED = report.choose_size(1_000, 10)
SCALE = report.choose_size(1, 100)
"""By which hostile inputs are made smaller."""
WORDS = "crow raven rook jay magpie tool nest food cache twig".split()


class ReadOutcome(NamedTuple):
    """What came of reading one page."""

    outcome: str
    """`read`, or the outcome of the failure"""
    seconds: float
    detail: str


class MemoryWatch:
    """Samples the largest memory of any process that this one has started, in bytes."""

    def __init__(self) -> None:
        self.peak = 0
        self._stopped = Event()
        self._thread = Thread(target=self._sample)

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stopped.wait(0.02):
            for number in list_children():
                self.peak = max(self.peak, read_peak_memory(number))


def list_children() -> list[int]:
    """Return the processes that this one has started; none where the system does not tell."""
    found: list[int] = []
    for file in Path("/proc/self/task").glob("*/children"):
        try:
            found += map(int, file.read_text(encoding="ascii").split())
        except OSError:  # a thread has ended meanwhile
            continue
    return found


def read_peak_memory(process: int) -> int:
    """Return the most bytes of memory that a reader held so far; 0 if it has ended or not begun."""
    place = Path(f"/proc/{process}")
    try:
        if b"serve_jobs" not in (place / "cmdline").read_bytes():
            return 0  # it still has the memory of the process that starts it
        status = (place / "status").read_text(encoding="utf-8")
    except OSError:
        return 0
    sizes = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(next(sizes, "0"))


def try_page(pool: ReaderPool, job: PageJob) -> ReadOutcome:
    """Read one page, and return what came of it."""
    begun = time.perf_counter()
    try:
        pool.read_page(job, SECONDS)
        outcome, detail = "read", ""
    except Failed as failed:
        outcome, detail = failed.failure.outcome, failed.failure.detail
    return ReadOutcome(outcome, time.perf_counter() - begun, detail)


def make_pdf(content: bytes, filters: bytes = b"") -> bytes:
    """Return a PDF of one page with this content stream, encoded as `filters` say."""
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d/Filter[%s]>>stream\n%s\nendstream" % (len(content), filters, content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    out, places = b"%PDF-1.4\n", list[int]()
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    trailer = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return out + head + table + trailer % (len(objects) + 1, len(out))


def make_docx(body: str) -> bytes:
    """Return a Word document with this XML as its body."""
    schemas = "http://schemas.openxmlformats.org"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{schemas}/package/2006/content-types"><Default '
        f'Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" '
        f'ContentType="{main}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{schemas}/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{schemas}/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{schemas}/wordprocessingml/2006/main">'
        f"<w:body>{body}</w:body></w:document>",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


def make_hostile_inputs() -> dict[str, PageJob]:
    """Return inputs that are made to take time or memory, by name."""
    paths = b"0 0 m 1 1 l S\n" * (5_000_000 // SCALE)
    bomb = make_pdf(zlib.compress(zlib.compress(paths, 9), 9), b"/FlateDecode/FlateDecode")
    count = 60_000 // SCALE
    names = b" ".join(b"a%d" % number for number in range(count))
    signs = b" ".join(b'a%d=">"' % number for number in range(count))
    deep = 50_000 // SCALE
    row = b"<tr><td>crow<td>raven"
    html = {
        "60,000 attributes in one tag": b"<p " + names + b">text",
        "60,000 attributes with > in their values": b"<p " + signs + b">text",
        "a tag named like a comment": "<a<!--><a ><n>‹!".encode(),
        "divs nested 50,000 deep": b"<div>" * deep + b"text" + b"</div>" * deep,
        "tables nested 50,000 deep": b"<table><tr><td>" * deep + b"text",
        "300,000 rows": b"<table>" + row * (300_000 // SCALE),
    }
    links = b"[a](" * (450_000 // SCALE)
    return {
        "PDF of 2 kB, 5 million operators": PageJob(bomb, "https://a.org/a.pdf"),
        "Markdown, [a]( 450,000 times": PageJob(links, "https://a.org/a.md", "text/markdown"),
        **{name: PageJob(data, "https://a.org/a", "text/html") for name, data in html.items()},
    }


def measure_hostile_inputs() -> dict[str, dict[str, Any]]:
    """Return outcome, seconds and megabytes of each hostile input."""
    found: dict[str, dict[str, Any]] = {}
    for name, job in make_hostile_inputs().items():
        with MemoryWatch() as memory, ReaderPool(processes=1) as pool:
            result = try_page(pool, job)
        found[name] = {
            "bytes": len(job.data),
            "outcome": result.outcome,
            "seconds": result.seconds,
            "megabytes": memory.peak / 2**20,
        }
        print(f"{name}: {result.outcome}, {result.seconds:.2f} s, {memory.peak >> 20} MB")
    return found


MARKDOWN = """---
title: Crows
---
# Crows\n\nA *crow* makes **tools** of [twigs](twigs.md "Twigs") and `wire`.\n
1. first\n2. second\n   - inner\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n
```python\nprint("crow")\n```\n\n<div hidden>raw &amp; hidden</div>\n\n![picture](a.png)\n
"""
RST = """Crows\n=====\n\nA crow makes *tools*.\n\n.. note:: Ravens\n   too.\n\n::\n\n    literal\n
Rooks\n-----\n\n.. code-block:: python\n   :linenos:\n\n   print("rook")\n
+---+---+\n| a | b |\n+---+---+\n
"""


def make_seeds() -> dict[str, list[PageJob]]:
    """Return the files of each kind that mutants are made of."""
    table = "name,size,food\n" + "".join(
        f'{word},{n},"a, ""b""\nc"\n' for n, word in enumerate(WORDS)
    )
    data = json.dumps([{"name": word, "sizes": [1, 2.5, None, {"a": "é"}]} for word in WORDS])
    shown = " T* ".join(f"({word} makes tools) Tj" for word in WORDS)
    stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode()
    runs = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>{word}</w:t></w:r></w:p>'
        f"<w:tbl><w:tr><w:tc><w:p><w:r><w:t>{word}</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
        for word in WORDS
    )
    seeds = {
        "pdf": [make_pdf(stream), make_pdf(zlib.compress(stream), b"/FlateDecode")],
        "docx": [make_docx(runs)],
        "md": [MARKDOWN.encode() * 3],
        "csv": [table.encode()],
        "json": [data.encode(), "\n".join(data.split("}, ")).encode()],
        "rst": [RST.encode() * 3],
    }
    html = [path.read_bytes() for path in sorted(get_bundled_folder().glob("*.html"))[:10]]
    return {"html": [PageJob(page, "https://a.org/a", "text/html") for page in html]} | {
        kind: [PageJob(file, f"https://a.org/a.{kind}") for file in files]
        for kind, files in seeds.items()
    }


TOKENS = (
    b"<", b">", b"<!--", b"-->", b'"', b"'", b"=", b"/", b"&", b"&#xD800;", b"\0", b"\xff\xfe",
    b"<table>", b"</p>", b"<svg>", b"<textarea ", b"<template>", b"<select>", b"[", b"](", b"`",
    b"|", b"*", b"_", b"\n\n", b"\r", b"{", b"}", b"\\", b"obj", b"<<", b">>", b"stream",
    b"/Kids", b" 0 R", b"9999999999", b"-1", b"<w:p>", b"<w:tbl>", b"w:val", b"::", b"===",
)  # fmt: skip


def mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return `data` after one to eight changes: bytes set, pieces removed, repeated or put in."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(changed) + 1)
        size = chance.choice((1, 2, 8, 64, 512))
        piece = bytes(changed[at : at + size])
        match chance.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del changed[at : at + size]
            case 2:
                changed[at:at] = piece * chance.choice((1, 2, 20, 200))
            case 3:
                to = chance.randrange(len(changed) + 1)
                changed[to:to] = piece
            case _:
                changed[at:at] = chance.choice(TOKENS) * chance.choice((1, 1, 1, 3, 300))
    return bytes(changed)


def make_mutant(kind: str, number: int, seeds: Sequence[PageJob]) -> PageJob:
    """Return a mutated file, the same for the same kind and number."""
    chance = random.Random(f"{kind} {number}")
    seed = chance.choice(seeds)
    if kind == "docx" and chance.random() < 0.6:
        data = mutate_archive(seed.data, chance)
    else:
        data = mutate_bytes(seed.data, chance)
    return PageJob(data, seed.url, seed.content_type)


def mutate_archive(data: bytes, chance: random.Random) -> bytes:
    """Return a document with one of its parts mutated, in a whole archive."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as whole, zipfile.ZipFile(packed, "w") as archive:
        chosen = chance.choice(whole.namelist())
        for name in whole.namelist():
            part = whole.read(name)
            archive.writestr(name, mutate_bytes(part, chance) if name == chosen else part)
    return packed.getvalue()


def fuzz_kind(kind: str, seeds: Sequence[PageJob], files: int) -> dict[str, Any]:
    """Return outcomes of the mutants of a kind, the longest time and the most memory."""
    outcomes, crashes, slowest = Counter[str](), Counter[str](), 0.0
    with (
        MemoryWatch() as memory,
        ReaderPool() as pool,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        for start in range(0, files, 1_000):
            numbers = range(start, min(files, start + 1_000))
            jobs = (make_mutant(kind, number, seeds) for number in numbers)
            for result in threads.map(partial(try_page, pool), jobs):
                outcomes[result.outcome] += 1
                slowest = max(slowest, result.seconds)
                if result.outcome == "crashed":
                    crashes[result.detail[:100]] += 1
            print(f"{kind}: {numbers.stop:,} of {files:,}", dict(outcomes), flush=True)
    return {
        "files": files,
        "outcomes": dict(sorted(outcomes.items())),
        "crashes": dict(crashes.most_common(10)),
        "slowest_s": slowest,
        "megabytes": memory.peak / 2**20,
    }


def measure_cost(pages: Sequence[PageJob]) -> dict[str, float]:
    """Time reading here and by a warm process, page by page in turn, and many pages at once.

    CPU time is that of both processes; it tells more than the clock where other programs run.
    """
    seconds = {name: list[float]() for name in ("here", "here CPU", "process", "process CPU")}
    with ReaderPool(processes=1) as pool:
        for job in pages:
            pool.read_page(job)
            rounds = [
                (*time_call(read_here, job), *time_call(pool.read_page, job)) for _ in range(ROUNDS)
            ]
            for taken, one in zip(seconds.values(), zip(*rounds, strict=True), strict=True):
                taken.append(min(one))
    many = [pages[number % len(pages)] for number in range(OPENED)]
    begun = time.perf_counter()
    for job in many:
        read_here(job)
    one_by_one = time.perf_counter() - begun
    begun = time.perf_counter()
    with ReaderPool() as pool, ThreadPoolExecutor(THREADS) as threads:
        for _ in threads.map(pool.read_page, many):
            pass
    return {
        **{f"{name} ms": 1e3 * statistics.median(taken) for name, taken in seconds.items()},
        "ratio": compute_median_ratio(seconds["process"], seconds["here"]),
        "ratio CPU": compute_median_ratio(seconds["process CPU"], seconds["here CPU"]),
        "opened": OPENED,
        "opened here s": one_by_one,
        "opened by processes s": time.perf_counter() - begun,
    }


def compute_median_ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """Return the median of the ratios, page by page."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def read_here(job: PageJob) -> None:
    """Read a page in this process."""
    read_page(job.data, job.url, job.content_type)


def time_call(call: Callable[[PageJob], object], job: PageJob) -> tuple[float, float]:
    """Return the seconds that a call takes by the clock, and of all processes' CPU time."""
    processes = list_children()
    begun, before = time.perf_counter(), time.process_time() + sum(map(read_cpu_time, processes))
    call(job)
    taken = time.perf_counter() - begun
    return taken, time.process_time() + sum(map(read_cpu_time, processes)) - before


def read_cpu_time(process: int) -> float:
    """Return the CPU seconds of a process so far; 0 where the system does not tell."""
    try:
        spent = Path(f"/proc/{process}/schedstat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(spent.split()[0]) / 1e9


def iter_readable(sources: Mapping[str, bytes]) -> Iterator[PageJob]:
    """Yield the pages that are read and not refused."""
    for name, source in sources.items():
        job = PageJob(source, f"https://{name}.example/", "text/html; charset=utf-8")
        try:
            read_here(job)
        except Failed:
            continue
        yield job


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--files", type=int, default=report.choose_size(10_000, 20))
    files = parser.parse_args().files
    report.require_data(DATA)
    pages = list(iter_readable({name: source for name, source, _ in read_archive()}))
    cost = measure_cost(pages)
    report.print_table(("seen",), {name: {"seen": value} for name, value in cost.items()})
    found = {
        "limits": {"seconds": SECONDS, "megabytes": FileLimits().memory >> 20},
        "pages": len(pages),
        "cost": cost,
        "hostile": measure_hostile_inputs(),
        "mutated": {kind: fuzz_kind(kind, seeds, files) for kind, seeds in make_seeds().items()},
    }
    report.write_results("reading", found)


if __name__ == "__main__":
    main()
