"""Measures of agreement: by hand, by their definitions, and as the reference package has them."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from random import Random

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rookery.measure.intervals import (
    AgreementEstimate,
    ConfidenceInterval,
    LabelValue,
    MeasurementLevel,
    UndefinedStatistic,
    ValueCounts,
    choose_majority_label,
    compute_cohen_kappa,
    compute_exact_agreement,
    compute_krippendorff_alpha,
    compute_pair_credit,
    count_values,
    estimate_credits,
    estimate_side_bias,
    estimate_statistic,
    jackknife_interval,
)

LEVELS: tuple[MeasurementLevel, ...] = ("nominal", "ordinal", "interval")
PEOPLE = "abcdefghij"
Table = list[dict[str, float]]


def tables(count: int, missing: float = 0.4) -> list[Table]:
    """Random tables of 2 to 6 people and 3 to 40 items on scales of 2 to 7 values."""
    random = Random(6)
    drawn_tables = []
    for _ in range(count):
        people, values = PEOPLE[: random.randint(2, 6)], random.randint(2, 7)
        points = [random.choice((k, k * k - 3.5)) for k in range(values)]
        rows = range(random.randint(3, 40))
        drawn_tables.append(
            [{p: random.choice(points) for p in people if random.random() > missing} for _ in rows]
        )
    return drawn_tables


def measure_alpha(
    table: Sequence[Mapping[str, LabelValue]], level: MeasurementLevel = "nominal"
) -> float | UndefinedStatistic:
    return compute_krippendorff_alpha([count_values(row) for row in table], level)


def reference(table: Table, level: MeasurementLevel) -> float | None:
    """As the package has it; None where it refuses, or divides nothing by nothing."""
    data = np.array([[row.get(person, np.nan) for row in table] for person in PEOPLE])
    try:
        with np.errstate(invalid="ignore"):
            found = float(krippendorff.alpha(data, level_of_measurement=level))
    except ValueError:
        return None
    return None if np.isnan(found) else found


@pytest.mark.parametrize("level", LEVELS)
def test_alpha_of_600_tables_with_gaps_is_that_of_the_reference_package(
    level: MeasurementLevel,
) -> None:
    worst, defined = 0.0, 0
    for table in tables(600):
        ours, theirs = measure_alpha(table, level), reference(table, level)
        assert isinstance(ours, UndefinedStatistic) == (theirs is None), table
        if theirs is not None and not isinstance(ours, UndefinedStatistic):
            worst, defined = max(worst, abs(ours - theirs)), defined + 1
    assert worst < 1e-12
    assert defined > 550


def test_alpha_by_hand() -> None:
    """Two people, four items, one disagreement. Coincidences: o(y,y) 4, o(n,n) 2, o(y,n) 1 twice;
    n 8, of which y 5, n 3. Observed 2/8, expected 2*5*3/(8*7): alpha = 1 - (1/4)/(15/28)."""
    table = [
        {"ada": "y", "ben": "y"},
        {"ada": "y", "ben": "y"},
        {"ada": "n", "ben": "n"},
        {"ada": "y", "ben": "n"},
        {"ada": "n"},
    ]
    assert measure_alpha(table) == pytest.approx(1 - (1 / 4) / (15 / 28), abs=1e-15)


def test_alpha_says_why_there_is_none() -> None:
    unanimous = measure_alpha([{"ada": "yes", "ben": "yes"}, {"ada": "yes", "cid": "yes"}])
    assert unanimous == UndefinedStatistic("unanimous: everybody always said yes")
    assert measure_alpha([{"ada": 1}, {"ben": 2}]) == UndefinedStatistic(
        "no item was judged by two people"
    )
    assert isinstance(measure_alpha([]), UndefinedStatistic)
    # A value that nobody could have agreed on makes no disagreement.
    assert isinstance(measure_alpha([{"ada": 1, "ben": 1}, {"ada": 2}]), UndefinedStatistic)


def test_alpha_is_one_where_all_agree_and_below_zero_where_they_do_not() -> None:
    for level in LEVELS:
        assert measure_alpha([{"a": k, "b": k} for k in range(3)], level) == 1
    opposed = measure_alpha([{"a": k % 2, "b": 1 - k % 2} for k in range(10)])
    assert isinstance(opposed, float)
    assert opposed < 0


def test_texts_have_no_order() -> None:
    with pytest.raises(ValueError, match="is no number: texts"):
        measure_alpha([{"a": "good", "b": "bad"}], "ordinal")


def brute_kappa(pairs: Sequence[tuple[int, int]]) -> Fraction | None:
    """From the definition: every answer of one beside every answer of the other."""
    met = Fraction(sum(a == b for a, b in pairs), len(pairs))
    every = list(product([a for a, _ in pairs], [b for _, b in pairs]))
    by_chance = Fraction(sum(a == b for a, b in every), len(every))
    return None if by_chance == 1 else (met - by_chance) / (1 - by_chance)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_kappa_is_what_its_definition_says(pairs: list[tuple[int, int]]) -> None:
    expected, found = brute_kappa(pairs), compute_cohen_kappa(pairs)
    if expected is None:
        assert isinstance(found, UndefinedStatistic)
    else:
        assert found == pytest.approx(float(expected), abs=1e-12)


def test_kappa_by_hand() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, by chance 0.5, kappa 0.4."""
    counts = {("y", "y"): 20, ("y", "n"): 5, ("n", "y"): 10, ("n", "n"): 15}
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    assert compute_cohen_kappa(pairs) == pytest.approx(0.4, abs=1e-15)
    assert compute_cohen_kappa([("y", "y")] * 3) == UndefinedStatistic(
        "unanimous: both always said y"
    )
    assert isinstance(compute_cohen_kappa([]), UndefinedStatistic)


def test_half_credit_by_hand() -> None:
    """Better and much better agree; a tie with a preference is half; opposites are nothing."""
    pairs = [(2, 1), (0, 0), (0, -1), (-2, 0), (1, -1), (-1, -2)]
    assert [compute_pair_credit(*pair) for pair in pairs] == [1, 1, 0.5, 0.5, 0, 1]


def test_credits_of_an_item_belong_together() -> None:
    found = estimate_credits([[1.0, 1.0, 0.0], [1.0], [0.5], [1.0], [0.0]])
    assert (found.value, found.items) == (4.5 / 7, 5)
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < 4.5 / 7 < found.high < 1
    assert estimate_credits([[1.0, 1.0]] * 4).low is None
    assert isinstance(estimate_credits([]).value, UndefinedStatistic)


def test_the_same_choice_of_four_by_hand() -> None:
    assert compute_exact_agreement([(0, 0), (1, 2), (3, 3), (2, 0)]) == 0.5
    assert isinstance(compute_exact_agreement([]), UndefinedStatistic)


def test_a_majority_tie_is_the_label_that_stands_first() -> None:
    yes_or_no = (False, True)
    assert choose_majority_label([True, False], yes_or_no) is False
    assert choose_majority_label([True, True, False, False], yes_or_no) is False
    assert choose_majority_label([True, True, False], yes_or_no) is True
    assert choose_majority_label([2, 1, 1, 2, 0], (0, 1, 2)) == 1
    for votes in ([], ["maybe"]):
        with pytest.raises(ValueError, match="votes"):
            choose_majority_label(votes, ("no", "yes"))


def test_side_bias_by_hand() -> None:
    """8 of 10: the exact interval is 0.444 to 0.975; 2 * (1 + 10 + 45) / 1024 by a fair coin."""
    side = estimate_side_bias(8, 10)
    assert side is not None
    assert (side.first, side.judged, side.share) == (8, 10, 0.8)
    assert [side.low, side.high] == pytest.approx([0.44390, 0.97479], abs=1e-5)
    assert side.chance == pytest.approx(112 / 1024)
    assert estimate_side_bias(0, 0) is None


@given(st.integers(1, 60), st.data())
def test_the_chance_of_a_side_is_the_binomial_test(judged: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, judged))
    side = estimate_side_bias(first, judged)
    assert side is not None
    middle = judged / 2
    farther = [k for k in range(judged + 1) if abs(k - middle) >= abs(first - middle)]
    assert side.chance == pytest.approx(sum(math.comb(judged, k) for k in farther) / 2**judged)
    assert 0 <= side.low <= side.share + 1e-15
    assert side.share - 1e-15 <= side.high <= 1


def test_the_chance_of_a_side_is_quick_and_finite_for_many_judgements() -> None:
    side = estimate_side_bias(10_400, 20_000)
    assert side is not None
    assert 0 < side.chance < 1e-6


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = [0.0, 0.5, 0.5, 1.0, 1.0, 1.0, 0.0, 0.0]
    interval = jackknife_interval(values, mean)
    assert isinstance(interval, ConfidenceInterval)
    half = 2.364624 * np.std(values, ddof=1) / np.sqrt(len(values))  # Student's t of 7
    assert list(interval) == pytest.approx([0.5 - half, 0.5 + half])


def test_the_jackknife_of_kappa_is_near_its_asymptotic_error() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no, eight times: kappa 0.4. The error is that of
    Fleiss, Cohen and Everitt (1969)."""
    shares = np.array([[0.4, 0.1], [0.2, 0.3]])
    ones, others, kappa, chance = shares.sum(1), shares.sum(0), 0.4, 0.5
    met = sum(shares[i, i] * (1 - (ones[i] + others[i]) * (1 - kappa)) ** 2 for i in range(2))
    missed = (1 - kappa) ** 2 * sum(
        shares[i, 1 - i] * (others[i] + ones[1 - i]) ** 2 for i in range(2)
    )
    variance = met + missed - (kappa - chance * (1 - kappa)) ** 2
    error = np.sqrt(variance / 400) / (1 - chance)
    counts = {("y", "y"): 160, ("y", "n"): 40, ("n", "y"): 80, ("n", "n"): 120}
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    interval = jackknife_interval(pairs, compute_cohen_kappa)
    assert isinstance(interval, ConfidenceInterval)
    assert (interval.high - interval.low) / 2 == pytest.approx(1.965927 * error, rel=0.01)


def test_the_jackknife_says_where_a_number_rests_on_one_item() -> None:
    pairs = [("y", "y")] * 4 + [("n", "n")]
    assert jackknife_interval(pairs, compute_cohen_kappa) == UndefinedStatistic(
        "it rests on one item"
    )
    assert jackknife_interval(pairs[1:], compute_cohen_kappa) == UndefinedStatistic(
        "fewer than 5 items say nothing of others"
    )


def test_of_many_kinds_of_items_parts_are_left_out() -> None:
    """The mean of 1 to 500: its standard error is that of single values."""
    values = [float(at * 7919 % 500) for at in range(500)]
    interval = jackknife_interval(values, mean, least=-math.inf)
    assert isinstance(interval, ConfidenceInterval)
    half = stats.t.ppf(0.975, 99) * np.std(values, ddof=1) / math.sqrt(500)
    assert interval.low == pytest.approx(249.5 - half, abs=0.3 * half)


def test_the_jackknife_of_alpha_holds_the_truth_about_as_often_as_it_says() -> None:
    """Three raters who are right four times in five, of 40 items; the truth is from 40,000."""
    random, values = Random(3), (1, 2, 3)

    def judge(count: int) -> list[ValueCounts]:
        return [
            count_values({p: t if random.random() < 0.8 else random.choice(values) for p in "abc"})
            for t in random.choices(values, k=count)
        ]

    truth = compute_krippendorff_alpha(judge(40_000))
    assert isinstance(truth, float)
    held = 0
    for _ in range(200):
        found = jackknife_interval(judge(40), compute_krippendorff_alpha)
        held += isinstance(found, ConfidenceInterval) and found.low <= truth <= found.high
    assert held >= 182


def test_what_is_measured_survives_json_with_its_reason() -> None:
    some = estimate_statistic([0.0, 1.0, 1.0, 0.0, 0.5], mean, jackknife_interval)
    none = estimate_statistic([{"a": 1}], measure_alpha)
    assert some.value == 0.5
    assert some.low is not None
    assert some.high is not None
    assert some.low < 0.5 < some.high
    assert isinstance(none.value, UndefinedStatistic)
    for each in (some, none):
        assert AgreementEstimate.from_json(each.to_json()) == each
