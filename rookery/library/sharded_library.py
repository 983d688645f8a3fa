"""A library of shards that are searched side by side as one index over the same pages.

Each shard first counts the words of the question; rated by the sums, the passages of all shards
have the scores that one index over them gives (`SearchIndex.search_shard`), and the vectors of all
have the statistics of all. A text that stands in two shards counts twice and is shown once.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import cycle
from math import ceil
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from random import Random
from typing import Any

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library.folder_library import (
    DocumentShard,
    FolderLibrary,
    FolderLimits,
    FolderManifest,
    convert_url_to_path,
    get_shard_number,
    resolve_roots,
)
from rookery.library.page_archive import PageArchive, translate_storage_errors, write_whole_file
from rookery.library.passage_vectors import estimate_statistics, sample_passages
from rookery.library.search_index import (
    FUSED_DEPTH,
    CandidateHit,
    QueryTerms,
    SearchIndex,
    TermCounts,
    add_term_counts,
    fuse_candidates,
    parse_query,
    translate_index_errors,
)
from rookery.library.worker_processes import (
    connect_to_ray,
    count_ray_processors,
    hold_signals,
    map_with_ray,
    prepare_worker,
)
from rookery.pages.passages import READER_FORMAT
from rookery.pages.search_terms import LANGUAGES
from rookery.records import Failure, Hit, Page, decode_json, digest_of
from rookery.settings import FileSelection

SHARD_ARCHIVE, SHARD_MANIFEST = "archive.sqlite", "manifest.sqlite"
NOTE_FILE = "shards.json"
"""in the folder of the shards"""
NOTE_FORMAT = 1

ShardProgress = Callable[[int, int, int], None]
"""hears (number of the shard, files done, files to do)"""


class ShardContents(msgspec.Struct, frozen=True):
    """The contents of a shard, as it was built."""

    pages: int
    passages: int
    languages: tuple[str, ...]
    contents: str
    """digest of the paths and texts of its files"""
    failures: tuple[Failure, ...]
    """files that could not be read"""
    skipped: tuple[Failure, ...]
    """files that were left out"""


class ShardsNote(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of shards.json: what was built, from where."""

    format: int = NOTE_FORMAT
    places: tuple[str, ...]
    """real paths of the folders and files"""
    glob: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    follow_links: bool = False
    ray: str = ""
    """address of the Ray cluster whose machines hold the shards; empty: this machine"""
    shards: tuple[ShardContents, ...] = ()
    """in order; none before all of them are built"""
    reader: str = ""
    """the READER_FORMAT in which all of them were built"""
    count: int


class ShardTask(msgspec.Struct, frozen=True):
    """One shard to build."""

    directory: str
    """of all shards"""
    number: int
    note: ShardsNote


def get_shard_folder(directory: Path, number: int) -> Path:
    """Return the path of the folder of one shard; shards are numbered from 0."""
    return directory / f"shard-{number:04}"


def build_shard(task: ShardTask, progress: ShardProgress = lambda *_: None) -> ShardContents:
    """Build one shard, or bring it up to date; an interrupted build goes on where it stopped.

    Raises what `FolderLibrary` raises, but not for a shard without files.
    """
    folder = get_shard_folder(Path(task.directory), task.number)
    note = task.note
    if not (folder / SHARD_ARCHIVE).is_file():  # lost, if it was made: all files are read again
        for file in folder.glob(f"{SHARD_MANIFEST}*"):
            file.unlink()
    roots = [*map(Path, note.places)]
    selection = FileSelection(note.glob, note.exclude, note.follow_links)

    def report_files(count: int, files: int, _: str) -> None:
        progress(task.number, count, files)

    shard = DocumentShard(task.number, note.count, folder)
    limits = FolderLimits(processes=1)
    with (
        PageArchive(folder / SHARD_ARCHIVE) as archive,
        FolderLibrary(roots, archive, folder, report_files, limits, selection, shard) as library,
        translate_index_errors(folder),
    ):
        index = SearchIndex(folder / "index")
        sizes = (library.count_pages(), len(index), tuple(index.list_languages()))
        return ShardContents(*sizes, library.contents_digest(), library.failures, library.skipped)


class Shard:
    """One shard that was built, opened to be searched. Threads may share it.

    Raises Failed: index_failed, and what the archive raises.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for file in ("index/meta.json", SHARD_MANIFEST, SHARD_ARCHIVE):
            if not (folder / file).is_file():
                detail = f"it has no {file}: run rookery index build again, which goes on"
                raise Failed(Failure(str(folder), Outcome.INDEX_FAILED, detail))
        with translate_index_errors(folder):
            self._index = SearchIndex(folder / "index")
        self._manifest = FolderManifest(folder / SHARD_MANIFEST)
        self._archive = PageArchive(folder / SHARD_ARCHIVE)

    def count_terms(self, terms: QueryTerms) -> TermCounts:
        """Return the word statistics of the shard for the terms of a query."""
        with translate_index_errors(self.folder):
            return self._index.count_terms(terms)

    def search(
        self, query: str, terms: QueryTerms, counts: TermCounts, k: int
    ) -> Sequence[CandidateHit]:
        """Return what may be among the k best passages, rated by the statistics of all shards."""
        with translate_index_errors(self.folder):
            return self._index.search_shard(query, terms, counts, k)

    def fetch(self, url: str) -> Page:
        """Return the page of a file of this shard.

        Raises Failed: url_not_shown, not_in_archive, or the reason why it could not be read.
        """
        row = self._manifest.find_row(convert_url_to_path(url))
        if row is None:
            detail = "it is no file of this library: open addresses that a search showed"
            raise Failed(Failure(url, Outcome.URL_NOT_SHOWN, detail))
        if row.outcome:
            raise Failed(Failure(url, row.outcome, row.detail))
        page = self._archive.find_page(row.digest, url)
        if page is None:
            detail = "the archive of its shard has lost it: build the index again"
            raise Failed(Failure(url, Outcome.NOT_IN_ARCHIVE, detail))
        return page

    def draw_pages(self, share: float) -> list[Page]:
        """Return this share of the shard's pages, drawn by chance and rounded up.

        The same contents give the same pages; those that the archive has lost are left out.
        """
        digests = sorted(set(self._manifest.list_digests()))
        drawn = Random(0).sample(digests, min(ceil(share * len(digests)), len(digests)))
        return [*filter(None, map(self._archive.find_page, drawn))]

    def close(self) -> None:
        """Close the files of the shard."""
        self._manifest.close()
        self._archive.close()


ANSWER_SECONDS = 10.0
"""for which a shard is waited for"""


class LocalShard:
    """A shard in this process, whose methods run in threads. Opening it may fail, as any call."""

    def __init__(self, folder: Path, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._shard = threads.submit(Shard, folder)

    def submit_call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Call a method of `Shard` in a thread; the future raises what it raises."""
        return self._threads.submit(lambda: getattr(self._shard.result(), method)(*arguments))

    def close(self) -> None:
        """Close the files of the shard, after waiting until it has been opened."""
        if self._shard.exception() is None:
            self._shard.result().close()


def find_shards_note(directory: Path) -> ShardsNote | None:
    """Return what shards.json in a folder says; None where there is none.

    Raises Failed (index_failed) where it cannot be read.
    """
    path = directory / NOTE_FILE
    if not path.is_file():
        return None
    try:
        return decode_json(path.read_bytes(), ShardsNote)
    except (OSError, ValueError) as error:
        detail = f"{NOTE_FILE} cannot be read: build the index again ({error})"
        raise Failed(Failure(str(directory), Outcome.INDEX_FAILED, detail)) from error


class ShardedLibrary:
    """The shards in `directory`, as `build_sharded_index` wrote them.

    Pages that are opened are stored in `archive`, too. A shard that is dead, or that does not
    answer in `seconds`, is left out of a search, and `failures` say so until it answers again; only
    where none answers, `search` raises. What changed since the shards were built is not seen.
    Raises Failed: index_failed where they are not complete.
    """

    def __init__(
        self, directory: Path, archive: PageArchive, seconds: float = ANSWER_SECONDS
    ) -> None:
        self.index_folder = directory
        note = find_shards_note(directory)
        if note is None or note.format != NOTE_FORMAT or len(note.shards) != note.count:
            detail = f"its index is not complete: run rookery index build ... --out {directory}"
            raise Failed(Failure(str(directory), Outcome.INDEX_FAILED, detail))
        self._note = note
        self._archive = archive
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(2 * note.count, "shard")
        self._shards = self._open_shards()
        self._absent: dict[int, Failure] = {}
        languages = {language for shard in note.shards for language in shard.languages}
        self._languages = [language for language in LANGUAGES if language in languages]
        # A folder that cannot be listed is a failure of every shard.
        self._unread = (*dict.fromkeys(each for shard in note.shards for each in shard.failures),)

    def _open_shards(self) -> "Sequence[LocalShard | RayShard]":
        numbers = range(self._note.count)
        folders = [get_shard_folder(self.index_folder, number) for number in numbers]
        if not self._note.ray:
            return [LocalShard(folder, self._threads) for folder in folders]
        return open_ray_shards(self._note.ray, folders)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The shards that did not answer when they were last asked, and the unreadable files."""
        return (*(failure for _, failure in sorted(self._absent.items())), *self._unread)

    @property
    def skipped(self) -> tuple[Failure, ...]:
        """The files that were left out."""
        return tuple(each for shard in self._note.shards for each in shard.skipped)

    def count_pages(self) -> int:
        """Return the number of files that were read when the shards were built, copies included."""
        return sum(shard.pages for shard in self._note.shards)

    def contents_digest(self) -> str:
        """Return a digest of the texts of all files and of their paths below the folders."""
        return digest_of("\n".join(shard.contents for shard in self._note.shards))

    def draw_pages(self, count: int) -> list[Page]:
        """Return about `count` pages drawn by chance, at most one more for each shard.

        All are returned where there are not so many. The same contents give the same pages. Raises
        Failed (shard_failed) where a shard does not answer.
        """
        filled = [number for number, shard in enumerate(self._note.shards) if shard.pages]
        sampled: dict[int, list[Page]] = self._ask(filled, "draw_pages", count / self.count_pages())
        if self._absent:
            raise Failed(next(iter(self._absent.values())))
        pages = [page for some in sampled.values() for page in some]
        Random(0).shuffle(pages)
        return pages

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the k best passages of all shards that answer, best first.

        Empty for k below 1 and for a query without words. Raises Failed (search_failed) where none
        answers.
        """
        terms = parse_query(query, self._languages)
        if k < 1 or not terms.words:
            return []
        filled = [number for number, shard in enumerate(self._note.shards) if shard.passages]
        counts: dict[int, TermCounts] = self._ask(filled, "count_terms", terms)
        if not counts:
            detail = "; ".join(failure.detail for failure in self._absent.values())
            detail = f"no shard could be searched: {detail}"
            raise Failed(Failure(query, Outcome.SEARCH_FAILED, detail))
        total = add_term_counts([*counts.values()])
        depth = max(k, FUSED_DEPTH)
        candidates: dict[int, Sequence[CandidateHit]] = self._ask(
            list(counts), "search", query, terms, total, depth
        )
        distinct = _drop_copies([each for some in candidates.values() for each in some])
        return fuse_candidates(distinct, k)

    def fetch(self, url: str) -> Page:
        """Return the page of the file at this `file://` address, and store it in the archive.

        Raises Failed: url_not_shown for what is no file of the library, shard_failed where its
        shard does not answer, or the reason why the file could not be read.
        """
        path = convert_url_to_path(url)
        if not path:
            detail = "it is no file of this library: open addresses that a search showed"
            raise Failed(Failure(url, Outcome.URL_NOT_SHOWN, detail))
        number = get_shard_number(path, self._note.count)
        try:
            page: Page = self._shards[number].submit_call("fetch", url).result(self._seconds)
        except Failed as failed:
            if failed.failure.what == url:
                raise
            raise Failed(self._describe_absence(number, failed)) from failed
        except Exception as error:
            raise Failed(self._describe_absence(number, error)) from error
        self._archive.store_page(page)
        return page

    def close(self) -> None:
        """Close all shards, and end the actors of a Ray cluster; the archive stays open."""
        for shard in self._shards:
            shard.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, numbers: Sequence[int], method: str, *arguments: Any) -> dict[int, Any]:
        """Ask shards side by side; return what each answered, and note those that did not."""
        calls = {number: self._shards[number].submit_call(method, *arguments) for number in numbers}
        wait(calls.values(), self._seconds)
        results = {}
        for number, future in calls.items():
            try:
                results[number] = future.result(0)
                self._absent.pop(number, None)
            except Exception as error:
                future.cancel()
                self._absent[number] = self._describe_absence(number, error)
        return results

    def _describe_absence(self, number: int, error: Exception) -> Failure:
        shard = self._note.shards[number]
        why = f"it did not answer within {self._seconds:g} s"
        if not isinstance(error, TimeoutError):
            why = error.failure.detail if isinstance(error, Failed) else f"{error}".split("\n")[0]
        detail = (
            f"shard {number + 1} of {self._note.count} is missing, so that {shard.passages:,} "
            f"passages of {shard.pages:,} files were not searched: {why or type(error).__name__}"
        )
        return Failure(str(self.index_folder), Outcome.SHARD_FAILED, detail)


def _drop_copies(candidates: Sequence[CandidateHit]) -> list[CandidateHit]:
    """Drop copies: a text that two files have is shown once."""
    shown: dict[str, str] = {}
    for url, digest in {(each.hit.url, each.hit.digest) for each in candidates}:
        shown[digest] = min(url, shown.get(digest, url), key=lambda one: (one.count("/"), one))
    return [each for each in candidates if shown[each.hit.digest] == each.hit.url]


def _share_vectors(directory: Path, count: int) -> None:
    """Compute the vectors of all shards with statistics of all their passages, where one has none
    or others, or where they have grown by half."""
    folders = [get_shard_folder(directory, number) for number in range(count)]
    indexes = [SearchIndex(folder / "index", part=True) for folder in folders]
    passages, former = sum(map(len, indexes)), [each.vector_statistics for each in indexes]
    names = {None if each is None else each.encode() for each in former}
    if len(names) == 1 and former[0] is not None and not former[0].is_outgrown(passages):
        return
    sample = [each for index in indexes for each in index.sample_passages()]
    statistics = estimate_statistics(sample_passages(sample), passages)
    for index in indexes:
        index.renew_vectors(statistics)


def build_sharded_index(
    places: Sequence[Path],
    count: int,
    directory: Path,
    workers: int,
    selection: FileSelection = FileSelection(),
    ray: str = "",
    progress: ShardProgress = lambda *_: None,
) -> ShardsNote:
    """Build `count` shards of the files below `places` in `directory`, or bring them up to date.

    `workers` processes of this machine build at the same time, or the machines of the Ray cluster
    at the address `ray`, which must see the same folders. An interrupted build goes on where it
    stopped. Raises Failed: not_found; index_failed where the folder holds another number of shards
    or of other places; empty_library; worker_died.
    """
    roots = tuple(map(os.fsdecode, resolve_roots(places)))
    selected = msgspec.structs.asdict(selection)
    note = ShardsNote(places=roots, **selected, ray=ray, count=count)
    former = find_shards_note(directory)
    if former and msgspec.structs.replace(former, shards=(), reader="", ray=ray) != note:
        detail = (
            f"it holds {former.count} shards of {', '.join(former.places)}: name the same places, "
            "patterns and number of shards, or another folder"
        )
        raise Failed(Failure(str(directory), Outcome.INDEX_FAILED, detail))
    with translate_storage_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        if former is None:
            write_shards_note(directory, note)
    tasks = [ShardTask(str(directory), number, note) for number in range(count)]
    if ray:
        built = build_shards_with_ray(ray, tasks, progress)
    else:
        built = _build_in_processes(tasks, workers, progress)
    if not any(shard.pages for shard in built):
        detail = "no file could be read: name other places or patterns"
        raise Failed(Failure(", ".join(roots), Outcome.EMPTY_LIBRARY, detail))
    with translate_index_errors(directory):
        _share_vectors(directory, count)
    whole = msgspec.structs.replace(note, shards=tuple(built), reader=READER_FORMAT)
    with translate_storage_errors(directory):
        write_shards_note(directory, whole)
    return whole


def _build_in_processes(
    tasks: Sequence[ShardTask], workers: int, progress: ShardProgress
) -> list[ShardContents]:
    if workers == 1:
        return [build_shard(task, progress) for task in tasks]
    context = get_context("spawn")
    with hold_signals():
        reports: Queue[_Report] = context.Queue()
    shares = [tasks[number::workers] for number in range(min(workers, len(tasks)))]
    processes = [
        context.Process(target=_build_share, args=(share, reports), daemon=True) for share in shares
    ]
    built: dict[int, ShardContents] = {}
    try:
        with hold_signals():
            for process in processes:
                process.start()
        while len(built) < len(tasks):
            try:
                number, report = reports.get(timeout=0.2)
            except Empty:
                if any(process.exitcode for process in processes):
                    detail = "a process that built shards died: run it again, and it goes on"
                    raise Failed(Failure(tasks[0].directory, Outcome.WORKER_DIED, detail)) from None
                continue
            if isinstance(report, Failure):
                raise Failed(report)
            if isinstance(report, ShardContents):
                built[number] = report
            else:
                progress(number, *report)
    finally:
        for process in processes:
            if process.pid is not None:  # it was started
                process.kill()
                process.join()
    return [built[task.number] for task in tasks]


_Report = tuple[int, ShardContents | Failure | tuple[int, int]]
"""number of a shard, and what was built, why not, or (files done, files to do)"""


def _build_share(share: Sequence[ShardTask], reports: "Queue[_Report]") -> None:
    """Build some of the shards, in a process of their own."""
    prepare_worker()
    for task in share:
        try:
            built = build_shard(
                task, lambda number, count, files: reports.put((number, (count, files)))
            )
        except Failed as failed:
            reports.put((task.number, failed.failure))
            return
        reports.put((task.number, built))


def write_shards_note(directory: Path, note: ShardsNote) -> None:
    """Write shards.json, whole or not at all, into a folder that exists. Raises OSError."""
    write_whole_file(directory / NOTE_FILE, [msgspec.json.format(msgspec.json.encode(note))])


OPENING_SECONDS = 60.0
"""for which actors are waited for when a library is opened"""


class RayShard:
    """A shard that an actor holds. Its future raises RayActorError once the actor is dead."""

    def __init__(self, ray: Any, folder: Path, node: str) -> None:
        self._ray = ray
        # soft=True would let a busy cluster put every shard on one machine.
        place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        # Several calls at once, as threads share a shard on this machine.
        actor = ray.remote(Shard).options(num_cpus=0, max_concurrency=4, scheduling_strategy=place)
        self._actor = actor.remote(folder)

    def submit_call(self, method: str, *arguments: Any) -> "Future[Any]":
        """Call a method of `Shard` in the actor; the future raises what it raises."""
        future: Future[Any] = getattr(self._actor, method).remote(*arguments).future()
        return future

    def check_ready(self) -> Any:
        """Return the reference of what is done once the actor has opened its shard."""
        return self._actor.__ray_ready__.remote()

    def close(self) -> None:
        """End the actor."""
        self._ray.kill(self._actor)


def open_ray_shards(address: str, folders: Sequence[Path]) -> list[RayShard]:
    """Start an actor for each folder of a shard, spread over the machines of the cluster.

    Waits until they have opened their shards, OPENING_SECONDS at most. Raises what `connect_to_ray`
    raises.
    """
    ray = connect_to_ray(address)
    nodes = cycle(sorted(node["NodeID"] for node in ray.nodes() if node["Alive"]))
    shards = [RayShard(ray, folder, node) for folder, node in zip(folders, nodes, strict=False)]
    # The first question must not miss a shard whose process has only begun.
    ready = [shard.check_ready() for shard in shards]
    ray.wait(ready, num_returns=len(ready), timeout=OPENING_SECONDS)
    return shards


def build_shards_with_ray(
    address: str, tasks: Sequence[ShardTask], progress: ShardProgress
) -> list[ShardContents]:
    """Build shards on the machines of a cluster; progress hears of whole shards.

    A task whose machine dies is begun again elsewhere, and goes on where it stopped. Raises what
    `connect_to_ray` and `build_shard` raise, and Failed: worker_died.
    """
    built: list[ShardContents] = []
    results = map_with_ray(tasks, lambda: build_shard, count_ray_processors(address), address)
    try:
        for task, contents in zip(tasks, results, strict=True):
            built.append(contents)
            progress(task.number, contents.pages, contents.pages)
    except ChildProcessError as error:
        detail = f"run it again, and it goes on where it stopped ({error})"
        raise Failed(Failure(tasks[0].directory, Outcome.WORKER_DIED, detail)) from error
    return built
