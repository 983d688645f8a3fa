"""`rookery ask`: one question to the terminal or as JSON, or a file of questions to a file."""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console

from rookery.ask.load import asked, questions
from rookery.cite.verify import Verdict, verify
from rookery.draft.batch import Answering, answer_all, cores
from rookery.records import Answer, Episode, Question, Record
from rookery.serve.exits import ANSWERED, DECLINED, NO_ANSWER, NO_EVIDENCE, UNVERIFIED
from rookery.serve.live import Live
from rookery.serve.session import Meter, Session, Settings
from rookery.serve.terminal import StreamConsole, as_json, show_answer, show_failures, summary


class Answered(Record, frozen=True):
    """What `rookery ask --json` prints, and each line of `--batch`."""

    question: Question
    answer: Answer | None
    stop: str
    method: str
    counts: dict[str, int]
    """quotes and how many of them are verified, and how often each failure happened"""


def ask(settings: Settings, text: str, json: bool, trace: Path | None) -> int:
    """Answer one question on standard output; gives the exit code."""
    question = asked(text)
    out, err = StreamConsole(), StreamConsole(stderr=True)
    with Meter(err, "reading") as meter, Session(settings, meter) as session:
        _warn(session, err)
        with _waiting(err, session):
            episode = session.answer(question)
        quotes = episode.answer.quotes if episode.answer else ()
        pages = [session.page(quote) for quote in quotes]
        verdicts = _verified(session, episode)
    if json:
        sys.stdout.write(as_json(_answered(episode, verdicts)) + "\n")
    else:
        show_answer(out, episode, pages, verdicts)
        err.print("\n" + summary(episode, verdicts), style="dim", markup=False)
        if episode.stop != "end":
            show_failures(err, episode.failures)
    if trace is not None:
        with trace.open("a", encoding="utf-8") as lines:
            lines.write(episode.to_json() + "\n")
    return _exit(episode, verdicts)


def _warn(session: Session, err: Console) -> None:
    """Where --decline cannot keep its promise by any threshold. Raises Failed without labels."""
    found = session.calibration()
    if found is not None and found.threshold is None:
        err.print(f"every answer will be declined: {found.reason}", markup=False, soft_wrap=True)


def _waiting(err: Console, session: Session) -> AbstractContextManager[object]:
    """Something that moves while the web is searched or a model writes; folders and sites have a
    bar of their own."""
    settings = session.settings
    near, by_model = settings.places or settings.offline, bool(settings.models)
    if not err.is_interactive or (near and not by_model):
        return nullcontext()
    live = Live(err, "thinking" if near else "searching the web")
    if by_model:
        session.heard, session.tell = live.heard, live.written
    return live


def batch(settings: Settings, questions_file: Path, out: Path) -> int:
    """Answer every question of a file, on all cores, and go on where an earlier run stopped.

    Gives the exit code: whether there was evidence for any, and every quote verified.
    """
    err = StreamConsole(stderr=True)
    wanted = list(questions(questions_file))
    with Meter(err, "reading") as meter, Session(settings, meter) as session:
        _warn(session, err)
        session.open_library()  # indexed once, here, before any worker opens it
        done = _answer_all(settings, session, wanted, out, err)
    stops, failed = _tally(out)
    said = ", ".join(f"{stops[stop]} {WORDED.get(stop, stop)}" for stop in sorted(stops))
    kept = f"; {done} were there already" if done else ""
    err.print(
        f"{len(wanted)} questions: {said or 'nothing to do'}{kept}", style="dim", markup=False
    )
    if failed:
        err.print(f"rookery: {failed} quotes NOT VERIFIED", markup=False)
        return UNVERIFIED
    return NO_EVIDENCE if wanted and stops["no_evidence"] == len(wanted) else ANSWERED


def _answer_all(
    settings: Settings, session: Session, wanted: Sequence[Question], out: Path, err: Console
) -> int:
    """By processes of their own, or, where models are waited for, by threads of one session."""
    with Meter(err, "answering") as meter:

        def progress(done: int) -> None:
            meter(done, len(wanted))

        if not settings.models:
            return answer_all(wanted, out, partial(_answering, settings), cores(), progress)
        at_once = session.models().at_once
        return answer_all(wanted, out, lambda: partial(_line, session), at_once, progress, True)


WORDED = {"end": "answered", "no_evidence": "without evidence"}


class _Line(msgspec.Struct):
    stop: str
    counts: dict[str, int]


def _tally(out: Path) -> tuple[Counter[str], int]:
    """How the answers of a file ended, and how many of their quotes did not verify."""
    stops: Counter[str] = Counter()
    failed = 0
    if not out.is_file():
        return stops, failed  # a device or a pipe: what went there is gone
    with out.open("rb") as lines:
        for line in lines:
            answered = msgspec.json.decode(line, type=_Line)
            stops[answered.stop] += 1
            failed += answered.counts["quotes"] - answered.counts["verified"]
    return stops, failed


def _answering(settings: Settings) -> Answering:
    """In a worker process: a session of its own, for as long as the process lives."""
    return partial(_line, Session(settings))


def _line(session: Session, question: Question) -> str:
    episode = session.answer(question)
    return _answered(episode, _verified(session, episode)).to_json()


def _verified(session: Session, episode: Episode) -> list[Verdict]:
    """Each quote against the archive's own copy of its page, not against what answered."""
    if episode.answer is None:
        return []
    return verify(episode.answer, session.archive.find_quoted)


def _answered(episode: Episode, verdicts: Sequence[Verdict]) -> Answered:
    good = sum(verdict.verified for verdict in verdicts)
    counts = {"quotes": len(verdicts), "verified": good, **episode.counts()}
    return Answered(episode.question, episode.answer, episode.stop, episode.by, counts)


def _exit(episode: Episode, verdicts: Sequence[Verdict]) -> int:
    if any(not verdict.verified for verdict in verdicts):
        return UNVERIFIED
    if episode.stop == "no_evidence":
        return NO_EVIDENCE
    if episode.answer is None:
        return NO_ANSWER
    return DECLINED if episode.answer.declined else ANSWERED
