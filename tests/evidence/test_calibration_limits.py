"""Declining: the exact binomial bound, the search over thresholds, and promises that are kept."""

import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest
from growth import AT_MOST, growth_of
from hypothesis import given
from hypothesis import strategies as st

from rookery.errors import Failed
from rookery.evidence.calibration import (
    MAX_THRESHOLDS,
    Calibration,
    calibrate_threshold,
    compute_binomial_tail,
    compute_lower_bound,
    count_required_labels,
)

LABELS = st.lists(st.tuples(st.integers(0, 30).map(lambda n: n / 7), st.booleans()), max_size=120)


def accepts_score(calibration: Calibration, score: float) -> bool:
    return calibration.threshold is not None and score >= calibration.threshold


def tail(good: int, count: int, share: Fraction) -> Fraction:
    """The same probability without rounding."""
    chances = (
        math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(good, count + 1)
    )
    return sum(chances, Fraction(0))


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 50))
def test_the_binomial_tail_is_that_of_exact_fractions(good: int, count: int, share: int) -> None:
    exact = tail(good, count, Fraction(share, 50))
    assert compute_binomial_tail(good, count, share / 50) == pytest.approx(
        float(exact), rel=1e-11, abs=1e-15
    )


@pytest.mark.parametrize(
    ("good", "count", "share"), [(90_211, 100_000, 0.9), (503, 1000, 0.48), (9_990, 10_000, 0.999)]
)
def test_the_binomial_tail_of_many_labels_is_exact_too(good: int, count: int, share: float) -> None:
    """In steps of logarithms added one by one, without the gamma function."""
    log = count * math.log1p(-share)
    total = 0.0
    for k in range(count + 1):
        if k >= good:
            total += math.exp(log)
        log += math.log((count - k) / (k + 1)) + math.log(share / (1 - share)) if k < count else 0
    assert compute_binomial_tail(good, count, share) == pytest.approx(total, rel=1e-6)


def test_the_bound_of_clopper_and_pearson() -> None:
    """All good: the share whose n-th power is the risk. One good: the same from the other side."""
    assert compute_lower_bound(29, 29, 0.95) == pytest.approx(0.05 ** (1 / 29))
    assert compute_lower_bound(1, 40, 0.95) == pytest.approx(1 - 0.95 ** (1 / 40))
    assert compute_lower_bound(0, 40, 0.95) == compute_lower_bound(0, 0, 0.95) == 0
    assert compute_lower_bound(81, 263, 0.975) == pytest.approx(0.2527, abs=5e-5)


@given(st.integers(1, 400), st.data(), st.sampled_from([0.5, 0.8, 0.95, 0.999]))
def test_the_bound_is_where_the_tail_is_the_risk(
    count: int, data: st.DataObject, confidence: float
) -> None:
    good = data.draw(st.integers(1, count))
    bound = compute_lower_bound(good, count, confidence)
    assert 0 < bound <= good / count
    assert compute_binomial_tail(good, count, bound) == pytest.approx(1 - confidence, rel=1e-6)


LOST = [place % 6 > 0 for place in range(90)]
"""75 good ones of 90: the search that starts at 87 labels ends there"""


def falling(good: Sequence[bool]) -> Calibration:
    """Calibrated on labels in the order of their scores, the highest first."""
    return calibrate_threshold([-float(place) for place in range(len(good))], good)


def test_29_good_answers_are_the_fewest_that_promise_nine_tenths() -> None:
    assert count_required_labels(0.9, 0.95) == 29
    assert 0.9**29 <= 0.05 < 0.9**28
    few = falling([True] * 28)
    assert few.threshold is None
    assert "takes 29 labelled answers at least; there are 28" in few.reason
    enough = falling([True] * 29)
    assert (enough.threshold, enough.coverage, enough.share) == (-28.0, 1.0, 1.0)


def test_the_lowest_threshold_that_passes_is_found() -> None:
    """Of 100 labels the search starts at 30. 40 of 40 pass; 40 of 41 have the chance 0.074."""
    found = falling([True] * 40 + [False] * 60)
    assert (found.threshold, found.coverage, found.share) == (-39.0, 0.4, 1.0)
    assert compute_binomial_tail(40, 41, 0.9) > 0.05


def test_a_second_start_finds_what_the_first_has_lost() -> None:
    """Of 1,000 labels the search starts at 87 and at 348, with half of the risk each."""
    assert falling(LOST + [True] * 500 + [False] * 410).coverage == 0.62
    assert compute_binomial_tail(75, 90, 0.9) > 0.05
    assert compute_binomial_tail(575, 620, 0.9) <= 0.025 < compute_binomial_tail(575, 625, 0.9)


def test_a_search_that_reaches_the_second_start_has_the_whole_risk() -> None:
    """325 of 350 have a chance between half of the risk and all of it."""
    assert falling([True] * 325 + [False] * 675).coverage == 0.35
    assert falling(LOST + [True] * 250 + [False] * 660).threshold is None
    assert (
        0.025 < compute_binomial_tail(325, 350, 0.9) <= 0.05 < compute_binomial_tail(325, 355, 0.9)
    )


@pytest.mark.parametrize("count", [29, 100, 1000])
def test_all_good_and_all_bad(count: int) -> None:
    every = falling([True] * count)
    assert (every.threshold, every.coverage, every.share) == (1.0 - count, 1.0, 1.0)
    none = falling([False] * count)
    assert (none.threshold, none.coverage, none.share) == (None, 0.0, 0.0)
    assert "no threshold can promise that 0.9 of what is answered is good" in none.reason
    assert "0 are good, which shows 0; label more" in none.reason


def test_equal_scores_stand_or_fall_together() -> None:
    same = calibrate_threshold([0.5] * 300, [place % 20 > 0 for place in range(300)])
    assert (same.threshold, same.coverage, same.share) == (0.5, 1.0, 0.95)
    assert len(same.curve) == 1
    graded = calibrate_threshold(
        [3.0] * 100 + [2.0] * 100 + [1.0] * 100, [True] * 199 + [False] * 101
    )
    assert (graded.threshold, graded.coverage) == (2.0, 2 / 3)


def test_what_is_accepted_reaches_the_threshold() -> None:
    found = falling([True] * 40 + [False] * 60)
    assert [accepts_score(found, score) for score in (-39.0, -39.5, 0.0, math.nan)] == [
        True,
        False,
        True,
        False,
    ]
    assert not accepts_score(falling([False] * 100), math.inf)


@given(LABELS, st.sampled_from([0.5, 0.8, 0.9]), st.sampled_from([0.5, 0.95]))
def test_a_calibration_says_what_its_labels_show(
    labels: list[tuple[float, bool]], wanted: float, confidence: float
) -> None:
    scores, good = [score for score, _ in labels], [label for _, label in labels]
    found = calibrate_threshold(scores, good, wanted, confidence)
    assert Calibration.from_json(found.to_json()) == found
    assert (found.threshold is None) == bool(found.reason)
    assert len(found.curve) <= MAX_THRESHOLDS
    assert [point.threshold for point in found.curve] == sorted({*scores}, reverse=True)
    for point in found.curve:
        above = [label for score, label in labels if score >= point.threshold]
        assert point.coverage == pytest.approx(len(above) / len(labels))
        assert point.share == pytest.approx(sum(above) / len(above))
    if found.threshold is not None:
        above = [label for score, label in labels if accepts_score(found, score)]
        assert (found.coverage, found.share) == (
            len(above) / len(labels),
            sum(above) / len(above),
        )
        assert compute_lower_bound(sum(above), len(above), confidence) >= wanted - 1e-9


@given(LABELS, st.randoms())
def test_neither_order_nor_scale_of_the_labels_matters(
    labels: list[tuple[float, bool]], random: Random
) -> None:
    mixed = random.sample(labels, len(labels))
    one = calibrate_threshold([score for score, _ in labels], [label for _, label in labels], 0.6)
    other = calibrate_threshold([math.exp(s) for s, _ in mixed], [label for _, label in mixed], 0.6)
    assert (one.coverage, one.share, one.reason) == (other.coverage, other.share, other.reason)


@pytest.mark.parametrize(
    ("scores", "good", "wanted", "confidence", "detail"),
    [
        ([0.1], [], 0.9, 0.95, "there are 1 scores and 0 labels"),
        ([math.nan], [True], 0.9, 0.95, "not finite"),
        ([-math.inf], [True], 0.9, 0.95, "not finite"),
        ([0.1], [True], 1.0, 0.95, "between 0 and 1"),
        ([0.1], [True], 0.9, 0.0, "between 0 and 1"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(
    scores: list[float], good: list[bool], wanted: float, confidence: float, detail: str
) -> None:
    with pytest.raises(Failed, match=detail):
        calibrate_threshold(scores, good, wanted, confidence)


def test_many_labels_take_no_time() -> None:
    random = Random(1)
    scores = [random.random() for _ in range(100_000)]
    good = [random.random() < 0.6 + 0.4 * score for score in scores]
    assert growth_of(lambda size: calibrate_threshold(scores[:size], good[:size]), 12_500) < AT_MOST
    found = calibrate_threshold(scores, good)
    assert len(found.curve) == MAX_THRESHOLDS
    assert found.coverage == pytest.approx(0.49, abs=0.03)  # 0.6 + 0.2 (2 - coverage) = 0.9 at 0.5


# A promise is broken where the share that is truly good is below the wanted one.

RUNS = 300


def broken(grades: Sequence[float], labels: int) -> tuple[float, float]:
    """Over many calibrations on answers of these grades, each as likely, how often the promise is
    broken, and the mean coverage. A grade is the probability that its answers are good."""
    random, failures, coverage = Random(labels), 0, 0.0
    for _ in range(RUNS):
        sample = random.choices(range(len(grades)), k=labels)
        good = [random.random() < grades[score] for score in sample]
        threshold = calibrate_threshold(sample, good, 0.8, 0.9)
        accepted = [grade for score, grade in enumerate(grades) if accepts_score(threshold, score)]
        failures += bool(accepted) and sum(accepted) / len(accepted) < 0.8
        coverage += len(accepted) / len(grades)
    return failures / RUNS, coverage / RUNS


@pytest.mark.parametrize("labels", [60, 300])
@pytest.mark.parametrize(
    ("grades", "least"),
    [
        ([0.799] * 50, 0.0),
        ([0.79, 0.8], 0.0),
        ([place / 50 for place in range(50)], 0.05),
        ([0.2] * 10 + [0.95] * 10, 0.3),
        ([0.99, 0.3, 0.99], 0.0),
    ],
)
def test_promises_are_broken_no_more_often_than_stated(
    grades: list[float], least: float, labels: int
) -> None:
    """One in ten, and three standard errors of 300 runs."""
    failures, coverage = broken(grades, labels)
    assert failures <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / RUNS)
    assert coverage >= least
