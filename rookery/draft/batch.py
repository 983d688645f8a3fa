"""Batch answering: many questions into a file of JSON lines, in parallel, resumable.

`map_in_workers` also does what else is done for each of many things, such as rollouts.
"""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from io import FileIO
from itertools import islice
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from rookery.browse.worker_processes import hold_signals, prepare_worker
from rookery.records import Question, prepare_type

T = TypeVar("T")
R = TypeVar("R")
JsonLineAnswerer = Callable[[Question], str]
"""answers a question as one line of JSON, without the line break"""
_QUEUED_PER_WORKER = 16
"""questions per worker that are submitted ahead of the next line to be written"""
MAX_RESTARTS = 3
"""times in a row that workers which died are replaced"""
WORKER_DIED = (
    "worker processes died again and again, perhaps for lack of memory; what was answered is kept: "
    "run the same command again, with fewer --workers"
)
_worker_function: list[Callable[[Any], Any]] = []
"""the function of a worker process, set once when it starts"""


def answer_all(
    questions: Sequence[Question],
    out: Path,
    make: Callable[[], JsonLineAnswerer],
    workers: int,
    progress: Callable[[int], None] = lambda done: None,
    threads: bool = False,
    ray: str = "",
) -> int:
    """Append one line per question to `out`, in order; return how many it had already.

    `make` returns the function that answers. It must be picklable and is called once in each of
    `workers` processes; with `threads` it is called once and its function shared by threads, which
    suits answers that wait for a server; with `ray` the workers are on the machines of the cluster
    at that address. `progress` gets the number of lines done. A killed run may
    leave a truncated last line, which the next run removes. Raises ValueError where `out` has the
    answers to other questions, and OSError where it cannot be written or a worker died.
    """
    done = resume_output(out, questions)
    progress(done)
    each = map_in_workers(questions[done:], make, workers, threads, ray)
    with closing(each), out.open("ab", buffering=0) as lines:
        for number, line in enumerate(each, done + 1):
            with _name_file_in_errors(out):
                _write_whole(lines, line.encode() + b"\n")
            progress(number)
    return done


def _write_whole(lines: FileIO, data: bytes) -> None:
    """Write all of the data: a full disk first accepts a part, and raises at the next attempt."""
    while data:
        data = data[lines.write(data) :]


@contextmanager
def _name_file_in_errors(out: Path) -> Iterator[None]:
    """Add the file's name to an OSError: the system leaves it out where a write fails."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(out)) from error


def resume_output(out: Path, questions: Sequence[Question]) -> int:
    """Count the questions that `out` answers already, and remove a truncated last line.

    A line answers a question if all fields of both are equal: text, pages and gold answers, not
    only the id. Raises ValueError where a line answers another question.
    """
    if not out.is_file():
        return 0  # nothing yet, or a device or pipe, which cannot be resumed
    whole = done = 0
    with out.open("rb+") as lines:
        for line in lines:
            if not line.endswith(b"\n") and _LINE_START.startswith(line[: len(_LINE_START)]):
                break
            if done == len(questions) or not _answers_question(line, questions[done]):
                raise ValueError(
                    f"{out}, line {done + 1} does not answer the question of that line as it is "
                    "now: name another --out, or delete this one (rookery ask --force does)"
                )
            whole += len(line)
            done += 1
        lines.truncate(whole)
    return done


_LINE_START = b'{"question":'
"""beginning of every line that is written; a last line that begins otherwise is somebody else's
text and is not removed"""


class _AnswerLine(msgspec.Struct):
    question: Question


def _answers_question(line: bytes, question: Question) -> bool:
    try:
        return msgspec.json.decode(line, type=prepare_type(_AnswerLine)).question == question
    except (msgspec.MsgspecError, ValueError):
        return False


def map_in_workers(
    items: Sequence[T],
    make: Callable[[], Callable[[T], R]],
    workers: int,
    threads: bool = False,
    ray: str = "",
) -> Generator[R, None, None]:
    """Yield what a function returns for each item, such as a question, in the order of the items.

    `make` returns the function. It must be picklable and is called once in each of
    `workers` processes; with `threads` it is called once and its function shared by threads. With
    fewer than two workers or items, everything runs in the calling thread. With `ray` the
    workers are on the machines of the cluster at that address. Where a process dies, all are
    started anew, and what was under way is done again; nothing that was done is. Closing the
    generator kills the processes. Raises ChildProcessError where processes die again and again, and
    what `make` and the function raise.
    """
    if ray:
        from rookery.draft.ray_batch import map_with_ray

        yield from map_with_ray(items, make, workers, ray)
        return
    if workers < 2 or len(items) < 2:
        function = make()
        yield from (function(item) for item in items)
        return
    started, most = _TrackedContext(), workers * _QUEUED_PER_WORKER

    def start_pool() -> Executor:
        if threads:
            return ThreadPoolExecutor(workers)
        with hold_signals():
            return ProcessPoolExecutor(workers, started, _start_worker, (make,))

    function = make() if threads else _call_in_worker
    pool, waiting, restarts = start_pool(), iter(items), 0
    under_way: list[tuple[T, Future[R] | None]] = []
    try:
        while True:
            under_way += [(item, None) for item in islice(waiting, most - len(under_way))]
            if not under_way:
                break
            try:
                with nullcontext() if threads else hold_signals():
                    submitted = [
                        (each, at or pool.submit(function, each)) for each, at in under_way
                    ]
                under_way = [*submitted]
                result = submitted[0][1].result()
            except BrokenProcessPool as error:
                if (restarts := restarts + 1) > MAX_RESTARTS:
                    raise ChildProcessError(WORKER_DIED) from error
                started.kill_processes()  # what the others are doing is done again, too
                pool = start_pool()
                under_way = [(each, at if _is_finished(at) else None) for each, at in under_way]
            else:
                restarts = 0
                del under_way[0]
                yield result
        pool.shutdown()
    except BaseException:
        started.kill_processes()  # they may wait long for a slow server: it is not wanted
        # The thread that feeds processes is waited for, or it may close a pipe which Python 3.11
        # writes to when it exits; threads may wait for a slow server themselves.
        pool.shutdown(wait=not threads, cancel_futures=True)
        raise


def _is_finished(future: Future[Any] | None) -> bool:
    """Return whether there is a result, or an error that is not the death of a process."""
    if future is None or not future.done():
        return False
    return not isinstance(future.exception(), BrokenProcessPool)


def choose_worker_count(workers: int, ray: str) -> int:
    """Return the number of workers; 0: one for each processor of this machine, or of the cluster.

    Raises what `connect_to_ray` raises.
    """
    if workers or not ray:
        return workers or count_cores()
    from rookery.draft.ray_batch import count_ray_processors

    return count_ray_processors(ray)


class _TrackedContext(SpawnContext):
    """A spawn context that keeps its processes, so that a pool's own ones can be killed."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[SpawnProcess] = []

    # SpawnContext has a class of this name, which a pool calls as it will call this method.
    def Process(self, *given: Any, **named: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """Create a process and keep it."""
        self.processes.append(SpawnProcess(*given, **named))
        return self.processes[-1]

    def kill_processes(self) -> None:
        """Kill those that were started, and wait until they have ended."""
        begun = [process for process in self.processes if process.pid is not None]
        for process in begun:
            process.kill()
        for process in begun:
            process.join()


def _start_worker(make: Callable[[], Callable[[Any], Any]]) -> None:
    prepare_worker()
    _worker_function[:] = [make_function(make)]


def make_function(make: Callable[[], Callable[[T], R]]) -> Callable[[T], R]:
    """Return what `make` returns or, where it raises, a function that raises the same.

    A worker that raises as it starts is only known to have died.
    """
    try:
        return make()
    except Exception as error:
        return partial(_raise_error, error)


def _raise_error(error: Exception, item: object) -> NoReturn:
    raise error


def _call_in_worker(item: Any) -> Any:
    return _worker_function[0](item)


def count_cores() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
