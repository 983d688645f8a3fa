"""Reading in reader processes: hostile and mutated files, and what the processes cost.

The pages of ../shared/data/readability are read here and by the processes, in turn. Then hostile
inputs and mutated files of each kind are read within the limits of one fetch; counted are outcomes,
seconds and the memory of the reader. Prints tables and writes bench/results/reading.json.

    python -m bench.reading [--files N] [--kinds NAME,NAME] [--mutated-only]

What became of each block of mutated files is kept in bench/scratch/reading, for each state of the
readers' code, so that a run that was stopped goes on; what ran is counted, not what was asked for.
With --mutated-only the other figures stay.
"""

import argparse
import json
import statistics
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from bench import mutated_files, report
from bench.mutated_files import make_mutant, make_pdf, make_seeds
from bench.pages import DATA, read_archive
from rookery.errors import Failed
from rookery.pages.page_reader import read_page
from rookery.pages.reader_processes import FileLimits, PageJob, ReaderPool

SECONDS = 20.0
"""Limit of one page: that of a fetch."""
THREADS = 4
"""That ask for pages at the same time, as when a site is read."""
ROUNDS = report.choose_size(5, 1)
OPENED = report.choose_size(1_000, 10)
SCALE = report.choose_size(1, 100)
"""By which hostile inputs are made smaller."""
BLOCK = 500
"""mutated files whose results are kept together"""


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


def try_page(pool: ReaderPool, job: PageJob, seconds: float = SECONDS) -> ReadOutcome:
    """Read one page, and return what came of it."""
    begun = time.perf_counter()
    try:
        pool.read_page(job, seconds)
        outcome, detail = "read", ""
    except Failed as failed:
        outcome, detail = failed.failure.outcome, failed.failure.detail
    return ReadOutcome(outcome, time.perf_counter() - begun, detail)


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


def identify_readers() -> str:
    """Return a digest of the code of the readers and of the mutants, which says what results are
    of."""
    files = sorted((report.ROOT / "rookery" / "library").glob("*.py"))
    files.append(Path(mutated_files.__file__))
    return sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]


def fuzz_kinds(seeds: Mapping[str, Sequence[PageJob]], files: int, folder: Path) -> None:
    """Read so many mutants of each kind, and keep the results of each block in a folder.

    Blocks that the folder has are not read again. All kinds' first blocks come first, so that a run
    that is stopped has read some of each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, files, BLOCK):
        for kind in seeds:
            numbers = range(start, min(files, start + BLOCK))
            kept = folder / f"{kind}-{start}.json"
            if kept.exists() and json.loads(kept.read_bytes())["files"] >= len(numbers):
                continue
            found = read_mutants(kind, seeds[kind], numbers)
            unfinished = kept.with_suffix(".part")
            unfinished.write_text(json.dumps(found), encoding="utf-8")
            unfinished.rename(kept)
            print(f"{kind}: {numbers.stop:,} of {files:,}", found["outcomes"], flush=True)


def read_mutants(kind: str, seeds: Sequence[PageJob], numbers: range) -> dict[str, Any]:
    """Return outcomes of these mutants of a kind, the longest time and the most memory.

    They are read one by one, and their time is the reader's CPU time: this may run for hours beside
    other work, when the clock tells how much of the machine was left. The clock's limit is ten
    times that of a fetch, and a file that needs more CPU time than a fetch has is an overrun.
    """
    outcomes, crashes, overruns, slowest = Counter[str](), dict[str, str](), list[str](), 0.0
    with MemoryWatch() as memory, ReaderPool(processes=1) as pool:
        pool.start()
        for number in numbers:
            before = {process: report.measure_cpu(process) for process in list_children()}
            result = try_page(pool, make_mutant(kind, number, seeds), 10 * SECONDS)
            spent = max(
                (report.measure_cpu(process) - time for process, time in before.items()),
                default=0.0,
            )
            outcomes[result.outcome] += 1
            slowest = max(slowest, spent)
            if spent > SECONDS or result.outcome == "timed_out":
                overruns.append(f"{kind} {number}")
            if result.outcome == "crashed":
                crashes[f"{kind} {number}"] = result.detail[:200]
    return {
        "files": len(numbers),
        "outcomes": outcomes,
        "crashes": crashes,
        "overruns": overruns,
        "slowest_s": slowest,
        "megabytes": memory.peak / 2**20,
    }


def merge_blocks(folder: Path, kinds: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the results of all blocks that a folder keeps, by kind; of kinds without any, none."""
    merged: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        blocks = [json.loads(path.read_bytes()) for path in folder.glob(f"{kind}-*.json")]
        if blocks:
            outcomes = sum((Counter(block["outcomes"]) for block in blocks), Counter[str]())
            merged[kind] = {
                "files": sum(block["files"] for block in blocks),
                "outcomes": dict(sorted(outcomes.items())),
                "crashes": {
                    name: said for block in blocks for name, said in block["crashes"].items()
                },
                "overruns": [name for block in blocks for name in block["overruns"]],
                "slowest_s": max(block["slowest_s"] for block in blocks),
                "megabytes": max(block["megabytes"] for block in blocks),
            }
    return merged


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
    begun, before = (
        time.perf_counter(),
        time.process_time() + sum(map(report.measure_cpu, processes)),
    )
    call(job)
    taken = time.perf_counter() - begun
    return taken, time.process_time() + sum(map(report.measure_cpu, processes)) - before


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
    parser.add_argument("--kinds", default="", help="of mutated files, divided by commas; or all")
    parser.add_argument("--mutated-only", action="store_true", help="the other figures stay")
    options = parser.parse_args()
    seeds = make_seeds()
    kinds = options.kinds.split(",") if options.kinds else list(seeds)
    if unknown := set(kinds) - set(seeds):
        parser.error(f"no kind {', '.join(sorted(unknown))}; there are {', '.join(seeds)}")
    found = report.read_results("reading") if options.mutated_only else None
    if found is None:
        report.require_data(DATA)
        pages = list(iter_readable({name: source for name, source, _ in read_archive()}))
        cost = measure_cost(pages)
        report.print_table(("seen",), {name: {"seen": value} for name, value in cost.items()})
        found = {
            "limits": {"seconds": SECONDS, "megabytes": FileLimits().memory >> 20},
            "pages": len(pages),
            "cost": cost,
            "hostile": measure_hostile_inputs(),
        }
    folder = report.SCRATCH / "reading" / identify_readers()
    fuzz_kinds({kind: seeds[kind] for kind in kinds}, options.files, folder)
    mutated = merge_blocks(folder, seeds)
    for row in mutated.values():
        for name, said in row["crashes"].items():
            print(f"crashed: {name}: {said}")
        for name in row["overruns"]:
            print(f"over its limits: {name}")
    report.write_results("reading", found | {"mutated": mutated, "mutated_date": report.get_date()})


if __name__ == "__main__":
    main()
