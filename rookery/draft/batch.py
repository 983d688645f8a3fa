"""Many questions answered into one file, a line each, in order, and resumed where it stopped.

How a question is answered is a function, passed in by name so that every process can make its own.
"""

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

Answering = Callable[[Question], str]
"""a question to its line of JSON, without the line break"""
_AHEAD = 16
"""questions a process that are under way or wait to be written"""
WORKER_DIED = (
    "a process that answers ended, perhaps for want of memory; what was answered is kept: "
    "run the same command again"
)
_answering: list[Answering] = []
"""of a worker process: set once, when it starts"""


def answer_all(
    questions: Sequence[Question],
    out: Path,
    make: Callable[[], Answering],
    workers: int,
    progress: Callable[[int], None] = lambda done: None,
    threads: bool = False,
) -> int:
    """Writes one line a question to `out`; gives how many were there already.

    `make` is called once in each of so many processes, and must be picklable; or once for all
    `threads`, which suit an answering that waits for others. A line is written whole or, after
    a kill, cut off; the next run removes a cut line and goes on behind it. Raises ValueError where
    `out` holds the answers to other questions, and OSError where it cannot be written or a process
    died.
    """
    done = resume(out, questions)
    progress(done)
    each = answer_each(questions[done:], make, workers, threads)
    with closing(each), out.open("ab", buffering=0) as lines:
        for number, line in enumerate(each, done + 1):
            with _naming(out):
                _write(lines, line.encode() + b"\n")
            progress(number)
    return done


def _write(lines: FileIO, data: bytes) -> None:
    """All of it: a disk that fills takes a part first, and says so at the next attempt."""
    while data:
        data = data[lines.write(data) :]


@contextmanager
def _naming(out: Path) -> Iterator[None]:
    """The system does not say which file it could not write."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(out)) from error


def resume(out: Path, questions: Sequence[Question]) -> int:
    """Count the questions that `out` answers already, and remove a line cut off at its end.

    A line answers a question that is the same in all its fields: text, pages and gold answers,
    and not only the id. Raises ValueError where a line answers another.
    """
    if not out.is_file():
        return 0  # nothing yet, or a device or pipe, which cannot be resumed
    whole = done = 0
    with out.open("rb+") as lines:
        for line in lines:
            if not line.endswith(b"\n") and _BEGINNING.startswith(line[: len(_BEGINNING)]):
                break
            if done == len(questions) or not _answers(line, questions[done]):
                raise ValueError(
                    f"{out}, line {done + 1} does not answer the question of that line as it is "
                    "now: name another --out, or delete this one (rookery ask --force does)"
                )
            whole += len(line)
            done += 1
        lines.truncate(whole)
    return done


_BEGINNING = b'{"question":'
"""of every line that is written; a last line that begins otherwise was not cut off, but is other
people's text and is left alone"""


class _Answered(msgspec.Struct):
    question: Question


def _answers(line: bytes, question: Question) -> bool:
    try:
        return msgspec.json.decode(line, type=_Answered).question == question
    except (msgspec.MsgspecError, ValueError):
        return False


def answer_each(
    questions: Sequence[Question],
    make: Callable[[], Answering],
    workers: int,
    threads: bool = False,
) -> Generator[str, None, None]:
    """The line of each question in order, made as `answer_all` says. Closing it ends the work."""
    if workers < 2 or len(questions) < 2:
        answering = make()
        yield from (answering(question) for question in questions)
        return
    started = _StartedProcesses()
    pool: Executor = ThreadPoolExecutor(workers) if threads else _processes(make, workers, started)
    answer = make() if threads else _answer
    waiting = iter(questions)
    under_way = [pool.submit(answer, q) for q in islice(waiting, workers * _AHEAD)]
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
            worker.kill()  # it may be waiting for a slow server, and nobody for its answer
        for worker in started.processes:
            worker.join()
        raise


class _StartedProcesses(SpawnContext):
    """Start processes anew, and keep them, so that a pool's own can be ended and no others."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[SpawnProcess] = []

    # A class in SpawnContext, which a pool calls like this method.
    def Process(self, *given: Any, **named: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802
        """Make a process and keep it."""
        self.processes.append(SpawnProcess(*given, **named))
        return self.processes[-1]


def _processes(
    make: Callable[[], Answering], processes: int, started: _StartedProcesses
) -> Executor:
    return ProcessPoolExecutor(processes, started, initializer=_start, initargs=(make,))


def _start(make: Callable[[], Answering]) -> None:
    # Ctrl-C reaches every process of a terminal; the parent answers it and ends its workers.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    Thread(target=_leave_with_parent, daemon=True).start()
    _answering[:] = [make()]


def _leave_with_parent() -> None:
    """A killed parent cannot tell its workers to stop, and they would wait for work for ever."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _answer(question: Question) -> str:
    return _answering[0](question)


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
