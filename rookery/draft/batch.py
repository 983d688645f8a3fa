"""Batch answering: many questions into a file of JSON lines, in parallel, resumable."""

import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from io import FileIO
from itertools import islice
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec

from rookery.records import Question

JsonLineAnswerer = Callable[[Question], str]
"""answers a question as one line of JSON, without the line break"""
_QUEUED_PER_WORKER = 16
"""questions per worker that are submitted ahead of the next line to be written"""
WORKER_DIED = (
    "a worker process died, perhaps for lack of memory; what was answered is kept: "
    "run the same command again"
)
_worker_answerer: list[JsonLineAnswerer] = []
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
    each = answer_each(questions[done:], make, workers, threads, ray)
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
        return msgspec.json.decode(line, type=_AnswerLine).question == question
    except (msgspec.MsgspecError, ValueError):
        return False


def answer_each(
    questions: Sequence[Question],
    make: Callable[[], JsonLineAnswerer],
    workers: int,
    threads: bool = False,
    ray: str = "",
) -> Generator[str, None, None]:
    """Yield the line of JSON that answers each question, in the order of the questions.

    `make` returns the function that answers. It must be picklable and is called once in each of
    `workers` processes; with `threads` it is called once and its function shared by threads. With
    fewer than two workers or questions, everything runs in the calling thread. With `ray` the
    workers are on the machines of the cluster at that address. Closing the
    generator kills the processes. Raises ChildProcessError where a worker process died, and
    whatever the function raises.
    """
    if ray:
        from rookery.draft.ray_batch import answer_with_ray

        yield from answer_with_ray(questions, make, workers, ray)
        return
    if workers < 2 or len(questions) < 2:
        answering = make()
        yield from (answering(question) for question in questions)
        return
    started = _TrackedContext()
    pool: Executor = (
        ThreadPoolExecutor(workers)
        if threads
        else ProcessPoolExecutor(workers, started, initializer=_start_worker, initargs=(make,))
    )
    answer = make() if threads else _answer_in_worker
    waiting = iter(questions)
    under_way = [pool.submit(answer, q) for q in islice(waiting, workers * _QUEUED_PER_WORKER)]
    try:
        while under_way:
            yield under_way.pop(0).result()
            under_way += [pool.submit(answer, q) for q in islice(waiting, 1)]
        pool.shutdown()
    except BrokenProcessPool as error:
        raise ChildProcessError(WORKER_DIED) from error
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in started.processes:
            worker.kill()  # it may wait long for a slow server, and its answer is not wanted
        for worker in started.processes:
            worker.join()
        raise


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


def _start_worker(make: Callable[[], JsonLineAnswerer]) -> None:
    # Ctrl-C reaches every process of a terminal; the parent handles it and ends its workers.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_exit_with_parent, daemon=True).start()
    _worker_answerer[:] = [make()]


def _exit_with_parent() -> None:
    """Exit when the parent process ends: a killed parent cannot stop its waiting workers."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _answer_in_worker(question: Question) -> str:
    return _worker_answerer[0](question)


def count_cores() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
