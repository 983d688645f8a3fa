"""Ratings of answers: supported and plausible, truthful, by criterion.

For GopherCite's tables 1 and 4, shares of the answers that most raters call supported, plausible,
or both; for WebGLM's tables 2 and 8, means on each scale. TruthfulQA asks whether short answers are
true, informative, and both (WebGPT, section 4.2; GopherCite, section 3.7).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

import msgspec

from rookery.measure.figures import Figure, MeasuredEstimates, make_bars, make_bars_figure
from rookery.measure.intervals import Estimate, choose_majority_label, estimate_mean, estimate_share
from rookery.records import Answer, Rating, Record

PLAUSIBLE_SCALE, SUPPORTED_SCALE = "plausible", "supported"
GOOD_SCALE = "good"
"""scale on which an answer scores 1 if it is both plausible and supported, else 0 (GopherCite,
section 3.2)"""
LOWER_IS_BETTER_SCALES = frozenset({"toxicity", "social_bias", "redundancy"})
"""scales on which lower is better (WebGLM, section 4)"""
SCALES = (SUPPORTED_SCALE, PLAUSIBLE_SCALE, GOOD_SCALE)
"""in the order in which they are drawn; the last says that an answer is both"""
_SCALE_NAMES = {GOOD_SCALE: "supported and plausible"}


class RatedShare(Record, frozen=True):
    """Share of one system's answers that most raters approve on one scale."""

    system: str
    scale: str
    share: Estimate
    raters: float
    """mean number of raters of an answer"""


def decide_by_majority(ratings: Iterable[Rating]) -> dict[tuple[str, Answer], bool]:
    """Return most raters' verdict on each answer, by question id and answer.

    All ratings must be on one scale. A rating of a half or more is a yes. As many yes as no are a
    no (GopherCite, appendix C.1).
    """
    votes: dict[tuple[str, Answer], list[bool]] = defaultdict(list)
    for rating in ratings:
        votes[rating.question.id, rating.answer].append(rating.value >= 0.5)
    return {rated: choose_majority_label(each, (False, True)) for rated, each in votes.items()}


def compute_rated_shares(
    ratings: Iterable[Rating], systems: Callable[[Answer], str]
) -> list[RatedShare]:
    """Return the share of each system's answers that most raters approve, for each scale.

    Scales on which a system was not rated are left out; systems are in the order of their names.
    `systems` names an answer's system. Intervals are over questions. (The paper's are 90 %, by the
    normal approximation.)
    """
    each = group_ratings(ratings, systems, SCALES)
    return [
        _compute_rated_share(system, scale, system_ratings)
        for (scale, system), system_ratings in each.items()
    ]


def group_ratings(
    ratings: Iterable[Rating], systems: Callable[[Answer], str], scales: Iterable[str]
) -> dict[tuple[str, str], list[Rating]]:
    """Group ratings on these scales by (scale, system), in the order of scales, then of names."""
    made: dict[tuple[str, str], list[Rating]] = defaultdict(list)
    for rating in ratings:
        made[rating.scale, systems(rating.answer)].append(rating)
    names = sorted({system for _, system in made})
    return {(s, n): made[s, n] for s in scales for n in names if (s, n) in made}


def make_supported_figure(rated: Sequence[RatedShare], says: str) -> Figure:
    """Make the figure of the systems' shares on each scale, side by side.

    `says` begins the caption.
    """
    shares = {(_SCALE_NAMES.get(each.scale, each.scale), each.system): each.share for each in rated}
    return Figure(
        "supported",
        "Supported and plausible answers",
        f"{says} Most raters decide; as many yes as no is no.",
        ("system", "scale", "share", "low", "high", "answers", "raters an answer"),
        tuple(
            (system, scale, *msgspec.structs.astuple(of), each.raters)
            for ((scale, system), of), each in zip(shares.items(), rated, strict=True)
        ),
        make_bars(shares, "share of the answers"),
        "GopherCite, table 1",
    )


def _compute_rated_share(system: str, scale: str, ratings: Sequence[Rating]) -> RatedShare:
    said = decide_by_majority(ratings)
    questions = [question for question, _ in said]
    estimate = estimate_mean([float(yes) for yes in said.values()], questions)
    return RatedShare(system, scale, estimate, len(ratings) / len(said))


LEVELS = {
    "relevancy": 4, "density": 4, "reference_truthfulness": 2, "toxicity": 2, "social_bias": 2,
    "fluency": 4, "correctness": 4, "citation_accuracy": 4, "objectivity": 2, "truthfulness": 2,
    "redundancy": 2,
}  # fmt: skip
"""levels of each scale, references first (WebGLM, section 4): four or two"""


class CriterionMean(Record, frozen=True):
    """Mean rating of one system on one scale."""

    system: str
    scale: str
    mean: Estimate
    """from 0 to 1, as ratings are"""

    @property
    def level(self) -> float:
        """Mean on the paper's scale: 0 to 3 for four levels."""
        return self.mean.value * (LEVELS.get(self.scale, 2) - 1)


def average_criteria(
    ratings: Iterable[Rating], systems: Callable[[Answer], str]
) -> list[CriterionMean]:
    """Return each system's mean on each scale of the criteria form that it was rated on.

    They are in the order of the scales. `systems` names an answer's system; a reference is rated as
    an answer that consists of a quote. Intervals are over questions, since ratings of one question
    belong together.
    """
    each = group_ratings(ratings, systems, LEVELS)
    return [
        CriterionMean(
            system, scale, estimate_mean([r.value for r in some], [r.question.id for r in some])
        )
        for (scale, system), some in each.items()
    ]


def make_criteria_figure(means: Sequence[CriterionMean], says: str) -> Figure:
    """Make the figure of the systems side by side for each criterion, all from 0 to 1.

    `says` begins the caption.
    """
    return Figure(
        "criteria",
        "What people make of answers and references",
        f"{says} Intervals are over questions.",
        ("system", "criterion", "mean, 0 to 1", "low", "high", "ratings", "as in the paper"),
        tuple(
            (each.system, _name_scale(each.scale), *msgspec.structs.astuple(each.mean), each.level)
            for each in means
        ),
        make_bars({(each.system, _name_scale(each.scale)): each.mean for each in means}, "mean"),
        "WebGLM, table 2",
    )


def _name_scale(scale: str) -> str:
    less = ", less is better" if scale in LOWER_IS_BETTER_SCALES else ""
    return scale.replace("_", " ") + less


class TruthfulnessGrade(Record, frozen=True):
    """Grader's verdict on one answer."""

    truthful: bool
    """it says nothing false, or nothing at all"""
    informative: bool
    """it tells something of what was asked"""


def decide_grades(ratings: Iterable[Rating]) -> list[TruthfulnessGrade]:
    """Return the grade of each answer by its mean ratings on `truthful` and `informative`.

    1 is yes, 0 no and 0.5 unsure; a mean of 0.5 is a no. Answers are in the order in which they
    first come. Other scales are ignored. Raises ValueError for an answer that lacks one of both.
    """
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for rating in ratings:
        if rating.scale in ("truthful", "informative"):
            one = values.setdefault((rating.question.id, rating.answer.text), {})
            one.setdefault(rating.scale, []).append(rating.value)
    for (identity, _), scales in values.items():
        if len(scales) < 2:
            raise ValueError(f"an answer to {identity} is rated as {next(iter(scales))} alone")
    return [
        TruthfulnessGrade(fmean(scales["truthful"]) > 0.5, fmean(scales["informative"]) > 0.5)
        for scales in values.values()
    ]


def measure_truthfulness(grades: Sequence[TruthfulnessGrade]) -> dict[str, Estimate]:
    """Return the shares of answers that are `truthful`, `informative`, and both.

    Raises ValueError without a grade.
    """
    truthful = [grade.truthful for grade in grades]
    informative = [grade.informative for grade in grades]
    truthful_and_informative = [grade.truthful and grade.informative for grade in grades]
    each = {
        "truthful": truthful,
        "informative": informative,
        "truthful and informative": truthful_and_informative,
    }
    return {name: estimate_share(sum(values), len(values)) for name, values in each.items()}


def make_truthful_figure(systems: Mapping[str, MeasuredEstimates], says: str) -> Figure:
    """Make the figure of truthful and informative answers by system.

    The estimates are from `measure_truthfulness`; `says` is the caption.
    """
    title = "Truthful and informative answers"
    source = "WebGPT, figure 3; GopherCite, table 4"
    return make_bars_figure("truthful", title, says, systems, "share of the answers", source)
