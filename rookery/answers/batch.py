"""Batch answering: many questions into a file of JSON lines, in parallel, resumable."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from io import FileIO
from pathlib import Path

import msgspec

from rookery.library.worker_processes import map_in_workers
from rookery.records import Question, prepare_type

JsonLineAnswerer = Callable[[Question], str]
"""answers a question as one line of JSON, without the line break"""


def answer_all(
    questions: Sequence[Question],
    out: Path,
    make: Callable[[], JsonLineAnswerer],
    workers: int,
    progress: Callable[[int], None] = lambda count: None,
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
    answered = resume_output(out, questions)
    progress(answered)
    each = map_in_workers(questions[answered:], make, workers, threads, ray)
    with closing(each), out.open("ab", buffering=0) as lines:
        for number, line in enumerate(each, answered + 1):
            with _name_file_in_errors(out):
                _write_whole(lines, line.encode() + b"\n")
            progress(number)
    return answered


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
    whole = answered = 0
    with out.open("rb+") as lines:
        for line in lines:
            if not line.endswith(b"\n") and _LINE_START.startswith(line[: len(_LINE_START)]):
                break
            if answered == len(questions) or not _answers_question(line, questions[answered]):
                raise ValueError(
                    f"{out}, line {answered + 1} does not answer the question of that line as it "
                    "is now: name another --out, or delete this one (rookery ask --force does)"
                )
            whole += len(line)
            answered += 1
        lines.truncate(whole)
    return answered


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
