"""`rookery ask`: one question to the terminal or as JSON, or a file of questions to a file."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from rookery.ask.load import asked, questions
from rookery.cite.verify import Verdict, verify
from rookery.draft.batch import Answering, answer_all, cores
from rookery.records import Answer, Episode, Question, Record
from rookery.serve.exits import ANSWERED, DECLINED, NO_EVIDENCE, UNVERIFIED
from rookery.serve.session import Meter, Session, Settings
from rookery.serve.terminal import show_answer, summary


class Answered(Record, frozen=True):
    """What `rookery ask --json` prints, and each line of `--batch`."""

    question: Question
    answer: Answer | None
    stop: str
    method: str
    counts: dict[str, int]
    """quotes and how many of them are verified, and how often each failure happened"""


def ask(settings: Settings, text: str, as_json: bool, trace: Path | None) -> int:
    """Answer one question on standard output; gives the exit code."""
    question = asked(text)
    out, err = Console(highlight=False), Console(stderr=True, highlight=False)
    with Meter(err, "reading") as meter, Session(settings, meter) as session:
        episode = session.answer(question)
        quotes = episode.answer.quotes if episode.answer else ()
        pages = [session.page(quote) for quote in quotes]
        verdicts = _verified(session, episode)
        if trace is not None:
            with trace.open("a", encoding="utf-8") as lines:
                lines.write(episode.to_json() + "\n")
    if as_json:
        sys.stdout.write(_answered(episode, verdicts).to_json() + "\n")
    else:
        show_answer(out, episode, pages, verdicts)
        err.print("\n" + summary(episode, verdicts), style="dim", markup=False)
        _explain(err, episode)
    return _exit(episode, verdicts)


def batch(settings: Settings, questions_file: Path, out: Path) -> None:
    """Answer every question of a file, on all cores, and go on where an earlier run stopped."""
    err = Console(stderr=True, highlight=False)
    wanted = list(questions(questions_file))
    with Meter(err, "reading") as meter, Session(settings, meter) as session:
        session.library()  # indexed once, here, before the workers open it
    with Meter(err, "answering") as meter:
        done = answer_all(
            wanted,
            out,
            partial(_answering, settings),
            cores(),
            lambda number: meter(number, len(wanted)),
        )
    kept = f" ({done} were there already)" if done else ""
    err.print(f"{len(wanted)} answers in {out}{kept}", markup=False)


def _answering(settings: Settings) -> Answering:
    """In a worker process: a session of its own, for as long as the process lives."""
    session = Session(settings)

    def answer(question: Question) -> str:
        episode = session.answer(question)
        return _answered(episode, _verified(session, episode)).to_json()

    return answer


def _verified(session: Session, episode: Episode) -> list[Verdict]:
    """Each quote against the archive's own copy of its page, not against what answered."""
    if episode.answer is None:
        return []
    return verify(episode.answer, lambda digest, url: session.archive.page(digest, url))


def _answered(episode: Episode, verdicts: Sequence[Verdict]) -> Answered:
    good = sum(verdict.outcome == "verified" for verdict in verdicts)
    counts = {"quotes": len(verdicts), "verified": good, **episode.counts()}
    return Answered(episode.question, episode.answer, episode.stop, episode.by, counts)


def _explain(err: Console, episode: Episode) -> None:
    """Why there is no evidence, each reason once."""
    if episode.stop == "no_evidence":
        said = dict.fromkeys(f"{f.what}: {f.detail}" for f in episode.failures)
        for sentence in list(said)[:5]:
            err.print(f"rookery: {sentence}", markup=False, soft_wrap=True)


def _exit(episode: Episode, verdicts: Sequence[Verdict]) -> int:
    if any(verdict.outcome != "verified" for verdict in verdicts):
        return UNVERIFIED
    return {"declined": DECLINED, "no_evidence": NO_EVIDENCE}.get(episode.stop, ANSWERED)
