"""The command `rookery calibrate`: scores on documents, and `--decline` by labelled answers."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from rookery.answers.answer_results import AskResult
from rookery.answers.answer_session import AnswerSession, EvidenceSources
from rookery.answers.library_calibration import FEWEST_PASSAGES
from rookery.errors import Failed, Outcome
from rookery.evidence.calibration import (
    AnswerLabel,
    Calibration,
    CalibrationLabels,
    ScoreSource,
    label_answer,
    locate_calibration_labels,
    store_calibration_labels,
)
from rookery.library.question_files import contains_gold_answer
from rookery.records import Answer, Failure, Question, Rating, Record
from rookery.settings import Settings, get_data_folder
from rookery.shell.command_line import EXIT_ANSWERED, EXIT_DECLINED, print_result
from rookery.shell.terminal_output import ProgressBar, StreamConsole
from rookery.typed_files import open_named_file

RATING_SCALE = "good"
"""the scale of ratings that count; from GOOD on they say yes"""
GOOD_RATING = 0.5
DEFAULT_SHARE = 0.9
"""without --decline"""
SHOWN_SHARES = (0.8, 0.9, 0.95, 0.99)
"""wanted shares that are shown beside the one that is asked for"""
SHOWN_SCORES = (0.5, 0.8, 0.95)
"""scores of the evidence model whose calibrated probabilities are shown"""
LEFT_OUT_REASONS = {
    "other_method": "are by another method",
    "no_answer": "have no answer",
    "declined": "are declined: label answers that were asked for without --decline",
    "no_score": "have no score: the model's server gave no log-probabilities with them",
    "no_gold": "are to questions without a `gold` answer: give --ratings",
    "not_rated": "are not rated on the scale good, or as many raters say no as say yes",
}
AnswerJudge = Callable[[Question, Answer], bool | None]
"""whether an answer is good; None: nobody says"""
Line = TypeVar("Line", AskResult, Rating)


class ThresholdOffer(Record, frozen=True):
    """The threshold and coverage for one wanted share of good answers."""

    wanted: float
    threshold: float | None
    coverage: float


class CalibrationReport(Record, frozen=True):
    """The output of `rookery calibrate --json`."""

    scored: ScoreSource
    stored: str
    labels: int
    """in the file, with those of earlier runs"""
    added: int
    """of this run"""
    good: float
    """share of all labels"""
    left_out: dict[str, int]
    """answers that could not be labelled, by reason"""
    calibration: Calibration
    offers: tuple[ThresholdOffer, ...]


class LibraryCalibrationReport(Record, frozen=True):
    """The output of `rookery calibrate --in PLACE --json`."""

    places: tuple[str, ...]
    questions: int
    """made from the documents, and of other fields"""
    judgements: int
    """sections that were judged for them"""
    probabilities: dict[str, float]
    """calibrated probability of some scores of the evidence model"""


def calibrate_documents(settings: Settings, json: bool) -> int:
    """Calibrate the evidence model on the documents of the settings, and print the result.

    Returns the exit code. Raises Failed where there is no evidence model (no_model), where the
    documents are too few or in several indexes (not_usable), or what opening them raises.
    """
    err = StreamConsole(stderr=True)
    with EvidenceSources(settings) as sources:
        if sources.load_evidence_judge() is None:
            detail = "there is no evidence model to calibrate: name its folder with --ranker DIR"
            raise Failed(Failure("--ranker", Outcome.NO_MODEL, detail))
        with ProgressBar(err, "calibrating") as meter:
            calibration = sources.calibrate_library(meter)
    places = ", ".join(settings.places)
    if calibration is None:
        detail = (
            f"these documents make too few questions: they need {FEWEST_PASSAGES} sections at "
            "least, in one index (files and folders, one site, or one web archive)"
        )
        raise Failed(Failure(places, Outcome.NOT_USABLE, detail))
    probabilities = {
        f"{score:g}": calibration.calibrate_probability(score) for score in SHOWN_SCORES
    }
    questions, judgements = calibration.questions, calibration.judgements
    report = LibraryCalibrationReport(settings.places, questions, judgements, probabilities)
    lines = [f"{places}: {questions:,} questions, {judgements:,} sections"]
    lines += [f"a score of {score} means {p:.0%} likely" for score, p in probabilities.items()]
    print_result(report, lines, json)
    return EXIT_ANSWERED


def calibrate_answers(settings: Settings, answers: Path, ratings: Path | None, json: bool) -> int:
    """Label saved answers, store the labels with their model, and print the threshold they give.

    An answer is good where people say so on the scale "good" or, without ratings, where one of its
    question's gold answers stands in its text (in what it says: a quote that happens to hold it
    does not count). Returns the exit code: EXIT_DECLINED where no threshold guarantees the wanted
    share. Raises Failed where a line is no answer or rating, nothing can be labelled, or the labels
    cannot be stored.
    """
    with AnswerSession(settings) as session:
        scored = session.identify_score_source()
    share = DEFAULT_SHARE if settings.decline is None else settings.decline
    judge = make_rating_judge(ratings) if ratings else judge_by_gold
    silent = "not_rated" if ratings else "no_gold"
    left_out: Counter[str] = Counter()
    lines = _read_records(answers, AskResult, "an answer as rookery ask --batch writes it")
    labels = list(_make_labels(lines, scored.method, judge, silent, left_out))
    if not labels:
        raise Failed(Failure(str(answers), Outcome.NO_LABELS, _explain_no_labels(left_out)))
    stored = store_calibration_labels(scored, labels, get_data_folder())
    calibration = stored.compute_calibration(share)
    report = CalibrationReport(
        scored,
        stored=str(locate_calibration_labels(scored, get_data_folder())),
        labels=len(stored.labels),
        added=len({each.question for each in labels}),
        good=sum(each.good for each in stored.labels) / len(stored.labels),
        left_out=dict(left_out),
        calibration=calibration,
        offers=tuple(_make_offer(stored, each) for each in sorted({*SHOWN_SHARES, share})),
    )
    if not json:
        _show_left_out(report)
    print_result(report, _format_report(report), json)
    return EXIT_DECLINED if calibration.threshold is None else EXIT_ANSWERED


def judge_by_gold(question: Question, answer: Answer) -> bool | None:
    """Return whether the answer contains a gold answer; None if the question has no gold answer."""
    right = any(contains_gold_answer(answer.text, gold) for gold in question.gold)
    return right if question.gold else None


def make_rating_judge(ratings: Path) -> AnswerJudge:
    """Return a judge by majority of the file's ratings on the scale "good".

    It gives None without ratings, or for a tie. A rating belongs to a question's id and text and an
    answer's text, and a person's last one counts. Raises Failed (no_labels) for a file without such
    ratings.
    """
    ratings_by_answer: dict[tuple[str, str, str], dict[str, bool]] = {}
    for rating in _read_records(ratings, Rating, "a rating of an answer"):
        if rating.scale == RATING_SCALE:
            people = ratings_by_answer.setdefault(
                _make_rating_key(rating.question, rating.answer), {}
            )
            people[rating.by] = rating.value >= GOOD_RATING
    if not ratings_by_answer:
        detail = f'no line of it is a rating on the scale "{RATING_SCALE}"'
        raise Failed(Failure(str(ratings), Outcome.NO_LABELS, detail))

    def judge_answer(question: Question, answer: Answer) -> bool | None:
        votes = list(ratings_by_answer.get(_make_rating_key(question, answer), {}).values())
        return None if 2 * sum(votes) == len(votes) else 2 * sum(votes) > len(votes)

    return judge_answer


def _make_rating_key(question: Question, answer: Answer) -> tuple[str, str, str]:
    return question.id, question.text, answer.text


def _make_labels(
    lines: Iterator[AskResult], method: str, judge: AnswerJudge, silent: str, left_out: Counter[str]
) -> Iterator[AnswerLabel]:
    for line in lines:
        good = judge(line.question, line.answer) if line.answer else None
        if line.method != method:
            left_out["other_method"] += 1
        elif line.answer is None:
            left_out["no_answer"] += 1
        elif line.answer.declined:
            left_out["declined"] += 1
        elif line.answer.score is None or (not line.answer.score and line.made_with is None):
            left_out["no_score"] += 1  # version 0.1 wrote 0 where nothing said how good it is
        elif good is None:
            left_out[silent] += 1
        else:
            yield label_answer(line.question, line.answer.score, good)


def _read_records(path: Path, kind: type[Line], other: str) -> Iterator[Line]:
    """Yield the records of a file, one a line; - is standard input. Raises Failed (unreadable),
    saying what a line is `other` than."""
    with open_named_file(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield kind.from_json(line)
            except ValueError as error:
                what, detail = f"{path}, line {number}", f"this is not {other} ({error})"
                raise Failed(Failure(what, Outcome.UNREADABLE, detail)) from error


def _explain_no_labels(left_out: Counter[str]) -> str:
    every = "; ".join(f"{count:,} {LEFT_OUT_REASONS[why]}" for why, count in left_out.most_common())
    return f"none of its answers can be labelled: {every or 'it is empty'}"


def _make_offer(labels: CalibrationLabels, share: float) -> ThresholdOffer:
    found = labels.compute_calibration(share)
    return ThresholdOffer(share, found.threshold, found.coverage)


def _show_left_out(report: CalibrationReport) -> None:
    err = StreamConsole(stderr=True)
    for why, count in report.left_out.items():
        err.print_note(f"{count:,} left out: they {LEFT_OUT_REASONS[why]}")


def _format_report(report: CalibrationReport) -> Iterator[str]:
    labels = f"{report.labels:,} labels ({report.added:,} of this run)"
    yield f"{report.scored.name}: {labels}, {report.good:.1%} good"
    yield _describe_promise(report.calibration)
    yield from ("", " wanted  answered  threshold", *map(_format_offer, report.offers))
    if StreamConsole().is_terminal:
        yield from ("", " answered   good", *_draw_curve(report.calibration))
    yield from ("", f"stored in {report.stored}")


def _describe_promise(calibration: Calibration) -> str:
    if calibration.threshold is None:
        return f"--decline {calibration.wanted:g} would decline every answer: {calibration.reason}"
    return (
        f"--decline {calibration.wanted:g} answers {calibration.coverage:.1%}, those with a score "
        f"of {calibration.threshold:.4g} or more; {calibration.share:.1%} of these labels are "
        f"good, which shows {calibration.wanted:g} with confidence {calibration.confidence:g}"
    )


def _format_offer(offer: ThresholdOffer) -> str:
    if offer.threshold is None:
        return f"{offer.wanted:>7g}      none"
    return f"{offer.wanted:>7g}{offer.coverage:>10.1%}{offer.threshold:>11.4g}"


def _draw_curve(calibration: Calibration) -> Iterator[str]:
    """Yield the curve at each tenth of what could be answered."""
    for tenth in range(1, 11):
        point = min(calibration.curve, key=lambda point: abs(point.coverage - tenth / 10))
        yield f"{point.coverage:>9.0%}{point.share:>7.0%}  {'━' * round(20 * point.share)}"
