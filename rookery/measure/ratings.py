"""People's ratings: supported and plausible answers (GopherCite), and criteria (WebGLM).

For GopherCite's tables 1 and 4, shares of the answers that most raters call supported, plausible,
or both; for WebGLM's tables 2 and 8, means on each scale.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from rookery.measure.agreement import choose_majority_label
from rookery.measure.figures import Figure, make_bars
from rookery.measure.intervals import Estimate, estimate_mean, estimate_share
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
    ratings: Iterable[Rating], systems: Callable[[Answer], str], scales: Sequence[str] = SCALES
) -> list[RatedShare]:
    """Return the share of each system's answers that most raters approve, for each scale.

    Scales on which a system was not rated are left out; systems are in the order of their names.
    `systems` names an answer's system. Intervals are Wilson's; if a system has several answers to a
    question, by the bootstrap over questions. (The paper's are 90 %, by the normal approximation.)
    """
    each = group_ratings(ratings, systems, scales)
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


def make_supported_figure(
    rated: Sequence[RatedShare],
    says: str,
    name: str = "supported",
    title: str = "Supported and plausible answers",
) -> Figure:
    """Make the figure of the systems' shares on each scale, side by side.

    `says` begins the caption.
    """
    shares = {(_SCALE_NAMES.get(each.scale, each.scale), each.system): each.share for each in rated}
    return Figure(
        name,
        title,
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
    estimate = estimate_share(sum(said.values()), len(said))
    if len(set(questions)) < len(questions):
        estimate = estimate_mean([float(yes) for yes in said.values()], questions)
    return RatedShare(system, scale, estimate, len(ratings) / len(said))


LEVELS = {
    "relevancy": 4,
    "density": 4,
    "reference_truthfulness": 2,
    "toxicity": 2,
    "social_bias": 2,
    "fluency": 4,
    "correctness": 4,
    "citation_accuracy": 4,
    "objectivity": 2,
    "truthfulness": 2,
    "redundancy": 2,
}
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
    an answer that consists of a quote. Intervals are by the bootstrap over questions, since ratings
    of one question belong together.
    """
    each = group_ratings(ratings, systems, LEVELS)
    return [
        CriterionMean(system, scale, _average_ratings(system_ratings))
        for (scale, system), system_ratings in each.items()
    ]


def make_criteria_figure(
    means: Sequence[CriterionMean],
    says: str,
    name: str = "criteria",
    title: str = "What people make of answers and references",
) -> Figure:
    """Make the figure of the systems side by side for each criterion, all from 0 to 1.

    `says` begins the caption.
    """
    return Figure(
        name,
        title,
        f"{says} Intervals are the bootstrap's over questions.",
        ("system", "criterion", "mean, 0 to 1", "low", "high", "ratings", "as in the paper"),
        tuple(
            (each.system, _name_scale(each.scale), *msgspec.structs.astuple(each.mean), each.level)
            for each in means
        ),
        make_bars({(each.system, _name_scale(each.scale)): each.mean for each in means}, "mean"),
        "WebGLM, table 2",
    )


def _average_ratings(ratings: Sequence[Rating]) -> Estimate:
    return estimate_mean(
        [rating.value for rating in ratings], [rating.question.id for rating in ratings]
    )


def _name_scale(scale: str) -> str:
    less = ", less is better" if scale in LOWER_IS_BETTER_SCALES else ""
    return scale.replace("_", " ") + less
