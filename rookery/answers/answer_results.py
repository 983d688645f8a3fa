"""Saved answers: the records that `rookery ask --json` and `--batch` write, and batches."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from io import FileIO
from pathlib import Path

import msgspec

from rookery.errors import Outcome
from rookery.library.worker_processes import map_in_workers
from rookery.pages.file_selection import SkippedGroup
from rookery.quotes.verification import Verdict
from rookery.records import Answer, Episode, Failure, Question, Record, decode_json
from rookery.settings import Settings


class SearchMade(Record, frozen=True):
    """One query that a library was sent."""

    query: str
    found: int
    """results"""
    failure: str = ""
    """why the search could not be made; empty where it could"""


class PassageFound(Record, frozen=True):
    """One passage, as it was ranked; or a search result, where a model chose by itself."""

    rank: int
    """1 is the best"""
    score: float
    sentence: float | None
    """score of its best sentence; None where sentences were not scored"""
    url: str
    title: str
    digest: str
    start: int
    end: int
    heading: str
    """the headings that it stands under"""
    text: str
    """its first characters"""
    quotes: tuple[int, ...]
    """numbers of the answer's quotes that stand in it, counted from 1"""


class PassageReport(Record, frozen=True):
    """The part of an answer that `--passages` adds."""

    libraries: tuple[str, ...]
    searches: tuple[SearchMade, ...]
    found: tuple[PassageFound, ...]
    """best first; near-duplicates are shown once"""
    score: float | None
    """of the answer"""
    threshold: float | None
    """below which it is declined; None: none is"""
    reason: str
    """why the answer was chosen, or why there is none"""


class AnswerProvenance(Record, frozen=True, omit_defaults=True):
    """The settings, models and documents that an answer was made with, kept in files of answers."""

    version: str
    """of Rookery"""
    settings: Settings
    """with whole paths, and without what does not change an answer: caps on spending"""
    documents: str = ""
    """digest of the documents; empty for the web, of which that cannot be known"""
    model: str = ""
    """digest of the sizes and times of the files of a model on this machine"""
    ranker: str = ""
    """the same of the encoder that ranks; "installed" for the one that is found by itself"""


class AskResult(Record, frozen=True, omit_defaults=True):
    """The output of `rookery ask --json`, and each line of `--batch`."""

    question: Question
    answer: Answer | None
    stop: str
    method: str
    counts: dict[str, int]
    """quotes and how many of them are verified, and how often each failure happened"""
    made_with: AnswerProvenance | None = None
    """None in files that version 0.1 wrote"""
    passages: PassageReport | None = None
    """what was searched and found, with --passages"""
    skipped: tuple[SkippedGroup, ...] = ()
    """files of the folders that were left out, by reason"""
    failures: tuple[Failure, ...] = ()
    """what could not be searched or opened, and why, where no answer could be given"""


def make_ask_result(
    episode: Episode, verdicts: Sequence[Verdict], made_with: AnswerProvenance | None = None
) -> AskResult:
    """Return an episode as a line of saved answers, with the counts of its quotes and failures.

    `verdicts` are those of the answer's quotes; none for an episode without an answer.
    """
    good = sum(verdict.verified for verdict in verdicts)
    counts = {"quotes": len(verdicts), "verified": good, **episode.count_failures()}
    answered = (episode.question, episode.answer, episode.stop, episode.by)
    return AskResult(*answered, counts, made_with, failures=select_told_failures(episode))


def select_told_failures(episode: Episode) -> tuple[Failure, ...]:
    """Return the failures that are told in full: all where the episode's stop is not `end`.

    Of an episode that answers, those of shards that were not searched, since the answer may stand
    there, and what is remarked on its citations.
    """
    if episode.stop != "end":
        return episode.failures
    told = Outcome.SHARD_FAILED, Outcome.CITATION_NOTED
    return tuple(failure for failure in episode.failures if failure.outcome in told)


def split_remarks(episode: Episode) -> tuple[Episode, list[str]]:
    """Return the episode without what is remarked on its citations, and these remarks."""
    noted = Outcome.CITATION_NOTED
    rest = tuple(failure for failure in episode.failures if failure.outcome != noted)
    remarks = [failure.detail for failure in episode.failures if failure.outcome == noted]
    return msgspec.structs.replace(episode, failures=rest), list(dict.fromkeys(remarks))


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
            _write_whole(lines, line.encode() + b"\n")
            progress(number)
    return answered


def _write_whole(lines: FileIO, data: bytes) -> None:
    """Write all of the data: a full disk first accepts a part, and raises at the next attempt."""
    try:
        while data:
            data = data[lines.write(data) :]
    except OSError as error:  # the system leaves the file's name out where a write fails
        raise OSError(error.errno, error.strerror, lines.name) from error


@contextmanager
def lock_output(out: Path | None) -> Iterator[None]:
    """Hold a file of answers, made where there is none, against other batches.

    One that is still empty at the end is removed. The system takes the lock from a process that
    dies. None, a device and a pipe are not locked.
    Raises ValueError where another process holds the file, and OSError where it cannot be written.
    """
    if out is None or (out.exists() and not out.is_file()):
        yield
        return
    with out.open("ab") as file:
        try:
            import fcntl  # which Windows does not have

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sentence = f"{out}: another batch writes it: wait until it has finished"
            raise ValueError(f"{sentence}, or name another --out") from None
        except (ImportError, OSError):
            pass  # nor has every network file system locks
        try:
            yield
        finally:
            if out.exists() and not out.stat().st_size:
                out.unlink()


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
            start = line.rstrip(b"\0")[: len(_LINE_START)]  # zeros: the power was lost
            if not line.endswith(b"\n") and _LINE_START.startswith(start):
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
        return decode_json(line, _AnswerLine).question == question
    except ValueError:
        return False
