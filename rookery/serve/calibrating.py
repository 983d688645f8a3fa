"""`rookery calibrate`: saved answers and what is known of them become a threshold for --decline."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TypeVar

import msgspec

from rookery.draft.calibrated import Label, Labelled, Scored, draw, keep, label, place, scored_by
from rookery.draft.decline import Calibration
from rookery.draft.target import holds
from rookery.records import Answer, Failed, Failure, Question, Rating, Record
from rookery.serve.asking import Answered
from rookery.serve.exits import ANSWERED, DECLINED
from rookery.serve.session import Session, Settings, data_home
from rookery.serve.terminal import StreamConsole, as_json, clean

SCALE = "good"
"""the scale of ratings that count; from GOOD on they say yes"""
GOOD = 0.5
WANTED = 0.9
"""without --decline"""
SHARES = (0.8, 0.9, 0.95, 0.99)
"""wanted shares that are shown beside the one that is asked for"""
WORDED = {
    "other_method": "are by another method",
    "no_answer": "have no answer",
    "declined": "are declined: label answers that were asked for without --decline",
    "no_score": "have no score: the model's server gave no log-probabilities with them",
    "no_gold": "are to questions without a `gold` answer: give --ratings",
    "not_rated": "are not rated on the scale good, or as many raters say no as say yes",
}
Judge = Callable[[Question, Answer], bool | None]
"""whether an answer is good; None: nobody says"""
Line = TypeVar("Line", Answered, Rating)


class Offer(Record, frozen=True):
    """What can be had for one wanted share."""

    wanted: float
    threshold: float | None
    coverage: float


class Report(Record, frozen=True):
    """What `rookery calibrate --json` prints."""

    scored: Scored
    stored: str
    picture: str
    labels: int
    """in the file, with those of earlier runs"""
    added: int
    """of this run"""
    good: float
    """share of all labels"""
    left_out: dict[str, int]
    """answers that could not be labelled, by reason"""
    calibration: Calibration
    offers: tuple[Offer, ...]


def calibrate_answers(settings: Settings, answers: Path, ratings: Path | None, json: bool) -> int:
    """Label saved answers, keep the labels with their model, and tell what they promise.

    An answer is good where people say so on the scale "good" or, without ratings, where one of its
    question's gold answers stands in its text (in what it says: a quote that happens to hold it
    does not count). Gives the exit code: DECLINED where what is wanted cannot be promised. Raises
    Failed where an answer or rating is none, nothing can be labelled, or it cannot be stored.
    """
    with Session(settings) as session:
        by, model = settings.models, session.models().endpoint
        scored = scored_by(settings.method, model, by.samples, by.worth)
    wanted = WANTED if settings.decline is None else settings.decline
    judge, silent = (rated(ratings), "not_rated") if ratings else (told, "no_gold")
    left_out: Counter[str] = Counter()
    lines = _read(answers, Answered, "an answer as rookery ask --batch writes it")
    labels = list(_labels(lines, scored.method, judge, silent, left_out))
    if not labels:
        raise Failed(Failure(str(answers), "no_labels", _nothing(left_out)))
    kept = keep(scored, labels, data_home())
    calibration = kept.calibration(wanted)
    report = Report(
        scored,
        stored=str(place(scored, data_home())),
        picture=str(draw(scored, calibration, data_home())),
        labels=len(kept.labels),
        added=len({each.question for each in labels}),
        good=sum(each.good for each in kept.labels) / len(kept.labels),
        left_out=dict(left_out),
        calibration=calibration,
        offers=tuple(_offer(kept, share) for share in sorted({*SHARES, wanted})),
    )
    if json:
        sys.stdout.write(as_json(report) + "\n")
    else:
        _show(report)
    return DECLINED if calibration.threshold is None else ANSWERED


def told(question: Question, answer: Answer) -> bool | None:
    """Whether the answer says one of the question's gold answers; None where it brings none."""
    return any(holds(answer.text, gold) for gold in question.gold) if question.gold else None


def rated(ratings: Path) -> Judge:
    """Whether more people say that an answer is good than that it is not; None without ratings of
    it, and where it is a tie. A rating belongs to a question's id and text and an answer's text,
    and replaces the same person's earlier one."""
    said: dict[tuple[str, str, str], dict[str, bool]] = {}
    for rating in _read(ratings, Rating, "a rating of an answer"):
        if rating.scale == SCALE:
            people = said.setdefault(_key(rating.question, rating.answer), {})
            people[rating.by] = rating.value >= GOOD
    if not said:
        detail = f'no line of it is a rating on the scale "{SCALE}"'
        raise Failed(Failure(str(ratings), "no_labels", detail))

    def judge(question: Question, answer: Answer) -> bool | None:
        votes = list(said.get(_key(question, answer), {}).values())
        return None if 2 * sum(votes) == len(votes) else 2 * sum(votes) > len(votes)

    return judge


def _key(question: Question, answer: Answer) -> tuple[str, str, str]:
    return question.id, question.text, answer.text


def _labels(
    lines: Iterator[Answered], method: str, judge: Judge, silent: str, left_out: Counter[str]
) -> Iterator[Label]:
    for line in lines:
        good = judge(line.question, line.answer) if line.answer else None
        if line.method != method:
            left_out["other_method"] += 1
        elif line.answer is None:
            left_out["no_answer"] += 1
        elif line.answer.declined:
            left_out["declined"] += 1
        elif not line.answer.score:
            left_out["no_score"] += 1
        elif good is None:
            left_out[silent] += 1
        else:
            yield label(line.question, line.answer.score, good)


def _read(path: Path, kind: type[Line], other: str) -> Iterator[Line]:
    """The records of a file, one a line; - is standard input. Raises Failed (unreadable), saying
    what a line is `other` than."""
    with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield kind.from_json(line)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                what, detail = f"{path}, line {number}", f"this is not {other} ({error})"
                raise Failed(Failure(what, "unreadable", detail)) from error


def _nothing(left_out: Counter[str]) -> str:
    every = "; ".join(f"{count:,} {WORDED[why]}" for why, count in left_out.most_common())
    return f"none of its answers can be labelled: {every or 'it is empty'}"


def _offer(kept: Labelled, wanted: float) -> Offer:
    found = kept.calibration(wanted)
    return Offer(wanted, found.threshold, found.coverage)


def _show(report: Report) -> None:
    out, err = StreamConsole(), StreamConsole(stderr=True)
    for why, count in report.left_out.items():
        err.print(
            f"{count:,} left out: they {WORDED[why]}", style="dim", markup=False, soft_wrap=True
        )
    lines = [
        f"{clean(report.scored.name)}: {report.labels:,} labels ({report.added:,} of this run), "
        f"{report.good:.1%} good",
        _promise(report.calibration),
        "",
        " wanted  answered  threshold",
        *map(_row, report.offers),
    ]
    if out.is_terminal:
        lines += ["", " answered   good", *_bars(report.calibration)]
    lines += ["", f"stored in {report.stored}", f"drawn in  {report.picture}"]
    out.print("\n".join(lines), markup=False, soft_wrap=True)


def _promise(found: Calibration) -> str:
    if found.threshold is None:
        return f"--decline {found.wanted:g} would decline every answer: {found.reason}"
    return (
        f"--decline {found.wanted:g} answers {found.coverage:.1%}, those with a score of "
        f"{found.threshold:.4g} or more; {found.share:.1%} of these labels are good, which shows "
        f"{found.wanted:g} with confidence {found.confidence:g}"
    )


def _row(offer: Offer) -> str:
    if offer.threshold is None:
        return f"{offer.wanted:>7g}      none"
    return f"{offer.wanted:>7g}{offer.coverage:>10.1%}{offer.threshold:>11.4g}"


def _bars(found: Calibration) -> Iterator[str]:
    """The curve at each tenth of what could be answered."""
    for tenth in range(1, 11):
        point = min(found.curve, key=lambda point: abs(point.coverage - tenth / 10))
        yield f"{point.coverage:>9.0%}{point.share:>7.0%}  {'━' * round(20 * point.share)}"
