"""Many questions answered into one file, a line each, in order, and resumed where it stopped.

It knows nothing of how a question is answered: that is a function, passed in by name so that
every process can make its own.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

import msgspec

from rookery.records import Question

Answering = Callable[[Question], str]
"""a question to its line of JSON, without the line break"""
_AHEAD = 16
"""questions a process that are under way or wait to be written"""
_answering: list[Answering] = []
"""of a worker process: set once, when it starts"""


def answer_all(
    questions: Sequence[Question],
    out: Path,
    make: Callable[[], Answering],
    processes: int,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Writes one line a question to `out`; gives how many were there already.

    `make` is called once in each process and must be picklable. A line is written whole or, after
    a kill, cut off; the next run removes a cut line and goes on behind it. Raises ValueError where
    `out` holds the answers to other questions.
    """
    done = resume(out, questions)
    progress(done)
    with out.open("ab") as lines:
        for number, line in enumerate(_lines(questions[done:], make, processes), done + 1):
            lines.write(line.encode() + b"\n")
            lines.flush()
            progress(number)
    return done


def resume(out: Path, questions: Sequence[Question]) -> int:
    """How many of these questions `out` answers already; a line cut off at its end is removed."""
    if not out.exists():
        return 0
    whole = done = 0
    with out.open("rb+") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            if done == len(questions) or _identity(line) != questions[done].id:
                raise ValueError(
                    f"{out}, line {done + 1} does not answer the question of that line: "
                    "name another --out, or delete this one"
                )
            whole += len(line)
            done += 1
        lines.truncate(whole)
    return done


class _Named(msgspec.Struct):
    id: str


class _Answered(msgspec.Struct):
    question: _Named


def _identity(line: bytes) -> str:
    try:
        return msgspec.json.decode(line, type=_Answered).question.id
    except msgspec.MsgspecError:
        return ""


def _lines(
    questions: Sequence[Question], make: Callable[[], Answering], processes: int
) -> Iterator[str]:
    if processes < 2 or len(questions) < 2:
        answering = make()
        yield from (answering(question) for question in questions)
        return
    with ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_start, initargs=(make,)
    ) as pool:
        waiting = iter(questions)
        under_way = [pool.submit(_answer, q) for q in islice(waiting, processes * _AHEAD)]
        try:
            while under_way:
                yield under_way.pop(0).result()
                under_way += [pool.submit(_answer, q) for q in islice(waiting, 1)]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _start(make: Callable[[], Answering]) -> None:
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
