"""Calibration of the score below which an answer is declined, from answers labelled good or bad.

GopherCite declines below a threshold on the reward (section 2.9) and plots quality against coverage
(section 3.3). Here labelled answers determine the threshold, with a statistical guarantee. Labels
are stored in files.
"""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library.page_archive import write_whole_file
from rookery.models.openai_protocol import ModelEndpoint
from rookery.pages.search_terms import ENGLISH, find_language
from rookery.records import Episode, Failure, Question, Record, digest_of
from rookery.settings import LOCAL, LocalEndpoint

MAX_THRESHOLDS = 200
"""maximum number of thresholds that are tested, spread evenly over the labels"""
FIRST_START = 0.3
"""share of the labels at which the search starts, if that many labels can show anything"""
MAX_FIRST_START = 3
"""latest first start, as a multiple of the fewest labels that can show anything"""
START_GROWTH = 4
"""factor between the numbers of labels at consecutive starts"""


class CalibrationPoint(Record, frozen=True):
    """Coverage and quality at one threshold, on the labelled answers."""

    threshold: float
    coverage: float
    """share of the answers whose score reaches the threshold"""
    share: float
    """share of these that are good"""


class Calibration(Record, frozen=True):
    """A threshold, the guarantee that it gives, and the figures behind it."""

    threshold: float | None
    """score from which answers are given; None where no threshold can guarantee `wanted`"""
    reason: str
    """reason why there is no threshold, in one sentence; empty where there is one"""
    wanted: float
    """guaranteed minimum share of good answers among those given"""
    confidence: float
    """probability, over the choice of the labelled answers, that the guarantee holds"""
    labels: int
    """number of labelled answers"""
    coverage: float
    """share of the labelled answers that reach the threshold; 0 where there is none"""
    share: float
    """share of these that are good; 0 where there is no threshold"""
    curve: tuple[CalibrationPoint, ...]
    """coverage and quality at each tested threshold, from the highest to the lowest"""


class _Threshold(NamedTuple):
    """A threshold with the numbers of answers that reach it, and of good ones among these."""

    threshold: float
    reached: int
    good: int


def calibrate_threshold(
    scores: Sequence[float], good: Sequence[bool], target: float = 0.9, confidence: float = 0.95
) -> Calibration:
    """Find the lowest threshold that guarantees a share `target` of good answers at `confidence`.

    Each threshold is tested by the exact binomial bound (Clopper and Pearson 1934), and the
    search over thresholds is corrected as in Learn then Test (Angelopoulos and others 2021), by
    the fallback procedure (Wiens 2003), which is fixed-sequence testing with several starts: from
    each start the search goes down to lower thresholds until one fails, the risk (1 - confidence)
    is divided among the starts, and a search that reaches a further start adds that share to
    its own. A single start fails with the first few bad answers, and Bonferroni's correction
    divides the risk by every threshold: bench/decline.py compares the three.

    The guarantee holds for questions drawn as the labelled ones were, and for a score that was not
    fitted on these labels. Raises Failed (not_usable) where scores and labels cannot be used.
    """
    _require_usable(scores, good, target, confidence)
    cuts, labels = list(_list_thresholds(scores, good)), len(good)
    starts = _search_starts(labels, count_required_labels(target, confidence))
    chosen = _run_fallback_procedure(cuts, starts, target, 1 - confidence)
    curve = tuple(_to_calibration_point(cut, labels) for cut in cuts)
    if chosen is None:
        reason = _explain_failure(cuts, starts, target, confidence)
        return Calibration(None, reason, target, confidence, labels, 0.0, 0.0, curve)
    at = _to_calibration_point(chosen, labels)
    return Calibration(at.threshold, "", target, confidence, labels, at.coverage, at.share, curve)


def count_required_labels(target: float, confidence: float) -> int:
    """Return the fewest labelled answers, all of them good, that can guarantee a share `target`.

    `target` and `confidence` lie between 0 and 1, both excluded.
    """
    return math.ceil(math.log1p(-confidence) / math.log(target) - 1e-9)


def compute_lower_bound(good: int, count: int, confidence: float) -> float:
    """Return the one-sided Clopper-Pearson lower bound of the share of good answers.

    `good` of `count` answers were good; the bound holds with probability `confidence`. It is 0
    where none was good.
    """
    low, high = 0.0, good / max(count, 1)
    for _ in range(50):
        middle = (low + high) / 2
        if compute_binomial_tail(good, count, middle) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def compute_binomial_tail(good: int, count: int, share: float) -> float:
    """Return the probability of at least `good` successes in `count` trials of chance `share`."""
    if good <= 0 or good > count:
        return float(good <= 0)
    if not 0 < share < 1:
        return float(share >= 1)
    if good <= count * share:
        return 1 - compute_binomial_tail(count - good + 1, count, 1 - share)
    log_ways = math.lgamma(count + 1) - math.lgamma(good + 1) - math.lgamma(count - good + 1)
    term = math.exp(log_ways + good * math.log(share) + (count - good) * math.log1p(-share))
    odds, total = share / (1 - share), 0.0
    # The terms decrease beyond the mean, so the sum can end at the first negligible one.
    while term > total * 1e-17:
        total += term
        term *= odds * (count - good) / (good + 1)
        good += 1
    return min(total, 1.0)


def _list_thresholds(scores: Sequence[float], good: Sequence[bool]) -> Iterator[_Threshold]:
    """Yield at most MAX_THRESHOLDS thresholds, highest first; equal scores count together."""
    ranked = sorted(zip(scores, good, strict=True), key=lambda pair: -pair[0])
    step, good_count = len(ranked) / MAX_THRESHOLDS, 0
    due = step
    for count, (score, label) in enumerate(ranked, 1):
        good_count += bool(label)
        last = count == len(ranked)
        if last or (count >= due and ranked[count][0] != score):
            yield _Threshold(score, count, good_count)
            due = (count // step + 1) * step


def _to_calibration_point(cut: _Threshold, labels: int) -> CalibrationPoint:
    return CalibrationPoint(cut.threshold, cut.reached / labels, cut.good / cut.reached)


def _search_starts(labels: int, fewest: int) -> list[float]:
    start = min(max(FIRST_START * labels, fewest), MAX_FIRST_START * fewest)
    starts = []
    while start <= labels:
        starts.append(start)
        start *= START_GROWTH
    return starts


def _run_fallback_procedure(
    cuts: Sequence[_Threshold], starts: Sequence[float], target: float, risk: float
) -> _Threshold | None:
    """Return the lowest threshold that the fallback procedure accepts, or None."""
    chosen, carried = None, 0.0
    waiting = list(starts)
    for cut in cuts:
        while waiting and waiting[0] <= cut.reached:
            waiting.pop(0)
            carried += risk / len(starts)
        if carried and compute_binomial_tail(cut.good, cut.reached, target) <= carried:
            chosen = cut
        else:
            carried = 0.0
    return chosen


def _explain_failure(
    cuts: Sequence[_Threshold], starts: Sequence[float], target: float, confidence: float
) -> str:
    promise = f"that {target:.4g} of what is answered is good, with confidence {confidence:.4g}"
    if not starts:
        fewest, most = count_required_labels(target, confidence), cuts[-1].reached if cuts else 0
        return f"to promise {promise}, takes {fewest} labelled answers at least; there are {most}"
    first = next(cut for cut in cuts if cut.reached >= starts[0])
    lower_bound = compute_lower_bound(first.good, first.reached, 1 - (1 - confidence) / len(starts))
    return (
        f"no threshold can promise {promise}: of the {first.reached} answers that score highest "
        f"{first.good} are good, which shows {lower_bound:.4g}; label more, or want a lower share"
    )


def _require_usable(
    scores: Sequence[float], good: Sequence[bool], target: float, confidence: float
) -> None:
    problem = ""
    if len(scores) != len(good):
        problem = f"there are {len(scores)} scores and {len(good)} labels: give one label a score"
    elif not all(map(math.isfinite, scores)):
        problem = "some scores are not finite numbers: leave these answers out"
    elif not (0 < target < 1 and 0 < confidence < 1):
        problem = "the wanted share and the confidence lie between 0 and 1, both excluded"
    if problem:
        raise Failed(Failure("calibration", Outcome.NOT_USABLE, problem))


class ScoreSource(Record, frozen=True):
    """The method, model and settings that scores come from; a threshold is valid only for these."""

    method: str
    """webgpt, gophercite or webglm"""
    model: str
    """the model that writes, by its server's name for it; or path:FOLDER, which is stored as path:.
    in the file inside that folder"""
    base_url: str = ""
    """address of the model's server; empty for a local model"""
    browser: str = ""
    """the model that browses, where it is a different one"""
    samples: int = 0
    """samples per question, of which the best was the answer; 0: the method's default"""
    worth: float = 0.0
    """0: all samples were drawn; earlier versions could draw fewer"""
    score: str = "likelihood"
    """kind of score: likelihood is the mean log-probability of a token; evidence, with a digest of
    the evidence model, its reward; of a chat model also ;--choose-by; and what chooses"""

    @property
    def name(self) -> str:
        """Name in messages: METHOD by MODEL at ADDRESS."""
        return f"{self.method} by {self.model}" + f" at {self.base_url}" * bool(self.base_url)

    @property
    def options(self) -> str:
        """Options of `rookery ask` that select this method, model and settings."""
        served = ["--base-url", self.base_url] * bool(self.base_url)
        named = ["--endpoints", "FILE"] if self.browser else ["--model", self.model, *served]
        many = ["-n", f"{self.samples}"] * bool(self.samples)
        return shlex.join(["--method", self.method, *named, *many, *self.score.split(";")[1:]])


class AnswerLabel(Record, frozen=True, array_like=True):
    """The score of one answer, and its label as good or bad."""

    question: str
    """digest of the question's text"""
    score: float
    """finite"""
    good: bool

    def __post_init__(self) -> None:
        if not math.isfinite(self.score):
            raise ValueError("a label's score is a finite number")


class CalibrationLabels(Record, frozen=True):
    """Stored labels of one source; thresholds for any share are computed from them when needed."""

    scored: ScoreSource
    """source of the scores"""
    labels: tuple[AnswerLabel, ...] = ()
    """one per question, ordered by the questions' digests"""

    def compute_calibration(self, target: float, confidence: float = 0.95) -> Calibration:
        """Find the lowest threshold that guarantees this share of good answers at this confidence.

        The threshold is None where these labels guarantee none. Raises Failed (not_usable) where
        the share or the confidence is not between 0 and 1.
        """
        scores, good = [each.score for each in self.labels], [each.good for each in self.labels]
        return calibrate_threshold(scores, good, target, confidence)


def identify_score_source(
    method: str,
    model: Callable[[str], ModelEndpoint | LocalEndpoint | str],
    samples: int | None = None,
    score: str = "likelihood",
) -> ScoreSource:
    """Return the source of the scores that answers by these settings have.

    `model("write")` and `model("browse")` return the endpoint of the model in that role, with its
    path: name if it is a local one, or the name of a script. Raises what `model` raises, and Failed
    (not_found) where a model's folder is missing.
    """
    writer = _model_name_and_address(model("write"))
    browser = _model_name_and_address(model("browse")) if method == "webgpt" else writer
    if writer[0].startswith(LOCAL) and not _local_folder(writer[0]).is_dir():
        detail = "there is no such folder: check the path behind path:"
        raise Failed(Failure(writer[0], Outcome.NOT_FOUND, detail))
    other = "" if browser == writer else " at ".join(filter(None, browser))
    return ScoreSource(method, *writer, other, samples or 0, score=score)


def _model_name_and_address(model: ModelEndpoint | LocalEndpoint | str) -> tuple[str, str]:
    if isinstance(model, ModelEndpoint):
        return model.model, model.address
    return (model if isinstance(model, str) else model.model), ""


def label_answer(question: Question, score: float, good: bool) -> AnswerLabel:
    """Make the label of an answer from the question, its score, and its judgement as good or bad.

    Raises ValueError where the score is not finite.
    """
    return AnswerLabel(digest_of(question.text), score, good)


def locate_calibration_labels(scored: ScoreSource, home: Path) -> Path:
    """Return the path of the labels: in a local model's folder, else below `home` (user data)."""
    digest = digest_of(_without_folder(scored).to_json())[:12]
    if scored.model.startswith(LOCAL):
        name = f"rookery-calibration-{_make_slug(scored.method)}-{digest}.json"
        return _local_folder(scored.model) / name
    return home / "calibrations" / f"{_make_slug(f'{scored.method}-{scored.model}')}-{digest}.json"


def _make_slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80]


def _local_folder(model: str) -> Path:
    return Path(model.removeprefix(LOCAL)).expanduser()


def load_calibration_labels(scored: ScoreSource, home: Path) -> CalibrationLabels | None:
    """Load the stored labels of a source; return None where there are none.

    Raises Failed (bad_calibration) where the file is damaged or belongs to another source.
    """
    path = locate_calibration_labels(scored, home)
    problem = "it holds labels of other answers"
    try:
        labels = CalibrationLabels.from_json(path.read_bytes())
        if labels.scored == _without_folder(scored):
            return labels
    except FileNotFoundError:
        return None
    except OSError as error:
        problem = f"it cannot be read ({error.strerror})"
    except ValueError as error:
        problem = f"it is damaged ({error})"
    detail = f"{problem}: move it away and run `rookery calibrate` again"
    raise Failed(Failure(str(path), Outcome.BAD_CALIBRATION, detail))


def _without_folder(scored: ScoreSource) -> ScoreSource:
    """Return the source as it is stored, without a local folder's path: folders may be moved."""
    local = scored.model.startswith(LOCAL)
    return msgspec.structs.replace(scored, model=f"{LOCAL}.") if local else scored


def store_calibration_labels(
    scored: ScoreSource, labels: Iterable[AnswerLabel], home: Path
) -> CalibrationLabels:
    """Add labels to those stored, replacing earlier labels of the same questions; return them all.

    Decide on their number beforehand: adding labels until a guarantee is reached runs its risk each
    time. Raises Failed (bad_calibration, unwritable), and then the file is unchanged.
    """
    before = load_calibration_labels(scored, home) or CalibrationLabels(_without_folder(scored))
    by_question = {each.question: each for each in (*before.labels, *labels)}
    now = CalibrationLabels(before.scored, tuple(by_question[each] for each in sorted(by_question)))
    replace_file(locate_calibration_labels(scored, home), now.to_json() + "\n")
    return now


def replace_file(path: Path, text: str) -> None:
    """Replace a file atomically: readers see the old or the new text, and errors keep the old.

    Its folder is made where it does not exist. Raises Failed (unwritable).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole_file(path, [text.encode()])
    except OSError as error:
        detail = (
            f"it cannot be written ({error.strerror}) and is unchanged: "
            "make room or allow writing, and run the same command again"
        )
        raise Failed(Failure(str(path), Outcome.UNWRITABLE, detail)) from error


def find_decline_threshold(
    scored: ScoreSource, target: float, home: Path, confidence: float = 0.95
) -> Calibration:
    """Compute the calibration of a source for a wanted share of good answers.

    Where no threshold guarantees it, the calibration gives the reason and `get_minimum_score`
    declines every answer. Raises Failed: no_calibration where no labels are stored, with the
    commands that make them; bad_calibration; not_usable where the share is not between 0 and 1.
    """
    labels = load_calibration_labels(scored, home)
    if labels is not None:
        return labels.compute_calibration(target, confidence)
    detail = (
        "there are no labelled answers yet to find a threshold from: run "
        f"rookery ask --batch QUESTIONS.jsonl --out ANSWERS.jsonl {scored.options} (and --in and "
        "--ranker, if you use them), of questions with a `gold` answer or answers that people then "
        f"rate; after it, rookery calibrate ANSWERS.jsonl {scored.options}"
    )
    raise Failed(Failure(scored.name, Outcome.NO_CALIBRATION, detail))


def get_minimum_score(calibration: Calibration) -> float:
    """Return the score below which an answer is declined; infinite where there is no threshold."""
    return math.inf if calibration.threshold is None else calibration.threshold


HIGH_SCORE = 0.75
"""score from which an answer is called high, and is certain"""
MIDDLE_SCORE = 0.5
"""score from which an answer is called middle, and below which it is called low"""
MEASURED = {"high": (14, 16), "middle": (19, 27), "low": (16, 56)}
"""right first quotes, and answers, by grade, of the test questions of `python -m bench
documentation` (bench/results/test/documentation.jsonl), possible answers among them"""


def grade_score(score: float) -> str:
    """Return high, middle or low for a score from 0 to 1."""
    return "high" if score >= HIGH_SCORE else "middle" if score >= MIDDLE_SCORE else "low"


def word_score(episode: Episode) -> str:
    """Return the score of an episode's answer in words; empty where it has none.

    It is "about 80 % likely" where it was calibrated, "score high" and so on for other answers by
    `extract` in English, on which its model was measured, and the number for methods whose scores
    are no probabilities.
    """
    answer = episode.answer
    if answer is None or answer.score is None:
        return ""
    if answer.calibrated:
        return f"about {_round_percent(answer.score)} % likely"
    if episode.by != "extract":
        return f"score {answer.score:.2f}"
    return f"score {grade_score(answer.score)}" if _is_english(episode) else "score not measured"


def explain_score(episode: Episode) -> str:
    """Return a sentence on the meaning of the score; empty where no sentence is known."""
    answer = episode.answer
    if answer is None or answer.score is None or episode.by != "extract":
        return ""
    if answer.calibrated:
        return CALIBRATED_SCORE
    if not _is_english(episode):
        return FOREIGN_SCORE
    grade = grade_score(answer.score)
    right, answers = MEASURED[grade]
    return (
        f"A {grade} score, not calibrated on these documents. On other documentation, {right} of "
        f"{answers} first quotes with such a score by the evidence model were right."
    )


CALIBRATED_SCORE = (
    "The probability that the first quote answers, calibrated on questions made from these "
    "documents."
)
FOREIGN_SCORE = (
    "Scores were measured on English only: whether this one holds in this language is not known."
)


def _is_english(episode: Episode) -> bool:
    """Return False if a question is in other letters, or it and its answer in another language.

    Questions alone are too short to tell: "do" and "a" are words of several languages.
    """
    question, answer = episode.question.text, episode.answer
    letters = [letter for letter in question if letter.isalpha()]
    latin = sum(letter < "\u0250" for letter in letters)
    language = find_language(question)
    return 2 * latin >= len(letters) and (
        language == ENGLISH or answer is None or find_language(answer.text) != language
    )


def _round_percent(score: float) -> int:
    """Round to steps of five, and to neither certainty."""
    return min(95, max(5, 5 * round(20 * score)))
