"""Measures of agreement: by hand, by their definitions, and as the reference package has them."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import comb
from random import Random

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.judge.agreement import (
    Interval,
    Level,
    Measured,
    Undefined,
    alpha_of,
    bootstrap,
    cohen_kappa,
    half_credit,
    interval_of,
    jackknife,
    krippendorff_alpha,
    majority,
    measured,
    same,
    side_bias,
    unit,
    wilson,
)

LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
PEOPLE = "abcdefghij"
Table = list[dict[str, float]]


def tables(count: int, missing: float = 0.4) -> list[Table]:
    """Random tables of 2 to 6 people and 3 to 40 items on scales of 2 to 7 values."""
    random = Random(6)
    found = []
    for _ in range(count):
        people, values = PEOPLE[: random.randint(2, 6)], random.randint(2, 7)
        points = [random.choice((k, k * k - 3.5)) for k in range(values)]
        rows = range(random.randint(3, 40))
        found.append(
            [{p: random.choice(points) for p in people if random.random() > missing} for _ in rows]
        )
    return found


def reference(table: Table, level: Level) -> float | None:
    """As the package has it; None where it refuses, or divides nothing by nothing."""
    data = np.array([[row.get(person, np.nan) for row in table] for person in PEOPLE])
    try:
        with np.errstate(invalid="ignore"):
            found = float(krippendorff.alpha(data, level_of_measurement=level))
    except ValueError:
        return None
    return None if np.isnan(found) else found


@pytest.mark.parametrize("level", LEVELS)
def test_alpha_of_600_tables_with_gaps_is_that_of_the_reference_package(level: Level) -> None:
    worst, defined = 0.0, 0
    for table in tables(600):
        ours, theirs = krippendorff_alpha(table, level), reference(table, level)
        assert isinstance(ours, Undefined) == (theirs is None), table
        if theirs is not None and not isinstance(ours, Undefined):
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
    assert krippendorff_alpha(table) == pytest.approx(1 - (1 / 4) / (15 / 28), abs=1e-15)


def test_alpha_says_why_there_is_none() -> None:
    unanimous = krippendorff_alpha([{"ada": "yes", "ben": "yes"}, {"ada": "yes", "cid": "yes"}])
    assert unanimous == Undefined("unanimous: everybody always said yes")
    assert krippendorff_alpha([{"ada": 1}, {"ben": 2}]) == Undefined(
        "no item was judged by two people"
    )
    assert isinstance(krippendorff_alpha([]), Undefined)
    # A value that nobody could have agreed on makes no disagreement.
    assert isinstance(krippendorff_alpha([{"ada": 1, "ben": 1}, {"ada": 2}]), Undefined)


def test_alpha_is_one_where_all_agree_and_below_zero_where_they_do_not() -> None:
    for level in LEVELS:
        assert krippendorff_alpha([{"a": k, "b": k} for k in range(3)], level) == 1
    opposed = krippendorff_alpha([{"a": k % 2, "b": 1 - k % 2} for k in range(10)])
    assert isinstance(opposed, float)
    assert opposed < 0


def test_texts_have_no_order() -> None:
    with pytest.raises(ValueError, match="is no number: texts"):
        krippendorff_alpha([{"a": "good", "b": "bad"}], "ordinal")


def brute_kappa(pairs: Sequence[tuple[int, int]]) -> Fraction | None:
    """From the definition: every answer of one beside every answer of the other."""
    met = Fraction(sum(a == b for a, b in pairs), len(pairs))
    every = list(product([a for a, _ in pairs], [b for _, b in pairs]))
    by_chance = Fraction(sum(a == b for a, b in every), len(every))
    return None if by_chance == 1 else (met - by_chance) / (1 - by_chance)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_kappa_is_what_its_definition_says(pairs: list[tuple[int, int]]) -> None:
    expected, found = brute_kappa(pairs), cohen_kappa(pairs)
    if expected is None:
        assert isinstance(found, Undefined)
    else:
        assert found == pytest.approx(float(expected), abs=1e-12)


def test_kappa_by_hand() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, by chance 0.5, kappa 0.4."""
    counts = {("y", "y"): 20, ("y", "n"): 5, ("n", "y"): 10, ("n", "n"): 15}
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    assert cohen_kappa(pairs) == pytest.approx(0.4, abs=1e-15)
    assert cohen_kappa([("y", "y")] * 3) == Undefined("unanimous: both always said y")
    assert isinstance(cohen_kappa([]), Undefined)


def test_half_credit_by_hand() -> None:
    """Better and much better agree; a tie with a preference is half; opposites are nothing."""
    pairs = [(2, 1), (0, 0), (0, -1), (-2, 0), (1, -1), (-1, -2)]
    assert half_credit(pairs) == (1 + 1 + 0.5 + 0.5 + 0 + 1) / 6
    assert half_credit([(-2, 2)]) == 0
    assert isinstance(half_credit([]), Undefined)


def test_the_same_choice_of_four_by_hand() -> None:
    assert same([(0, 0), (1, 2), (3, 3), (2, 0)]) == 0.5
    assert isinstance(same([]), Undefined)


def test_a_majority_tie_is_the_label_that_stands_first() -> None:
    yes_or_no = (False, True)
    assert majority([True, False], yes_or_no) is False
    assert majority([True, True, False, False], yes_or_no) is False
    assert majority([True, True, False], yes_or_no) is True
    assert majority([2, 1, 1, 2, 0], (0, 1, 2)) == 1
    for votes in ([], ["maybe"]):
        with pytest.raises(ValueError, match="votes"):
            majority(votes, ("no", "yes"))


def test_side_bias_by_hand() -> None:
    """8 of 10: Wilson's interval 0.490 to 0.943; 2 * (1 + 10 + 45) / 1024 by a fair coin."""
    side = side_bias(8, 10)
    assert side is not None
    assert (side.first, side.judged, side.share) == (8, 10, 0.8)
    assert [side.low, side.high] == pytest.approx([0.49016, 0.94331], abs=1e-5)
    assert side.chance == pytest.approx(112 / 1024)
    assert side_bias(0, 0) is None


@given(st.integers(1, 60), st.data())
def test_the_chance_of_a_side_is_the_binomial_test(judged: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, judged))
    side = side_bias(first, judged)
    assert side is not None
    middle = judged / 2
    farther = [k for k in range(judged + 1) if abs(k - middle) >= abs(first - middle)]
    assert side.chance == pytest.approx(sum(comb(judged, k) for k in farther) / 2**judged)
    assert 0 <= side.low <= side.share + 1e-15
    assert side.share - 1e-15 <= side.high <= 1


def test_the_chance_of_a_side_is_quick_and_finite_for_many_judgements() -> None:
    side = side_bias(10_400, 20_000)
    assert side is not None
    assert 0 < side.chance < 1e-6


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def test_a_bootstrap_interval_is_near_that_of_the_normal_distribution() -> None:
    values = [float(k % 2) for k in range(400)]  # a mean of 0.5 with a standard error of 0.025
    interval = bootstrap(values, mean)
    assert isinstance(interval, Interval)
    assert list(interval) == pytest.approx([0.451, 0.549], abs=0.01)
    assert interval == bootstrap(values, mean)
    assert interval != bootstrap(values, mean, seed=1)


def test_a_bootstrap_interval_holds_the_number_about_as_often_as_it_says() -> None:
    """200 samples of 60 items from shares of 0.7: 95% of the intervals are to hold it."""
    random, held = Random(1), 0
    for _ in range(200):
        interval = bootstrap([float(random.random() < 0.7) for _ in range(60)], mean, 200)
        assert isinstance(interval, Interval)
        held += interval.low <= 0.7 <= interval.high
    assert 180 <= held <= 198


def test_a_bootstrap_draws_items_and_leaves_out_draws_without_a_number() -> None:
    rows = [{"a": 0, "b": 0}, {"a": 1, "b": 1}, {"a": 0, "b": 1}]
    interval = bootstrap([unit(row) for row in rows], alpha_of, 300)
    assert isinstance(interval, Interval)
    assert interval.high == 1
    assert isinstance(bootstrap([1.0], mean), Undefined)
    assert isinstance(bootstrap([1, 2], lambda drawn: Undefined("never")), Undefined)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = [0.0, 0.5, 0.5, 1.0, 1.0, 1.0, 0.0, 0.0]
    interval = jackknife(values, mean)
    assert isinstance(interval, Interval)
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    assert list(interval) == pytest.approx([0.5 - 1.959964 * error, 0.5 + 1.959964 * error])


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
    interval = jackknife(pairs, cohen_kappa)
    assert isinstance(interval, Interval)
    assert (interval.high - interval.low) / 2 == pytest.approx(1.959964 * error, rel=0.01)


def test_the_jackknife_says_where_a_number_rests_on_one_item() -> None:
    assert jackknife([("y", "y"), ("n", "n")], cohen_kappa) == Undefined("it rests on one item")
    assert jackknife([("y", "y")] * 3, same) == Interval(1, 1)


def test_of_many_items_the_jackknife_says_what_the_bootstrap_says() -> None:
    random = Random(4)
    units = [unit({p: random.choice((1, 1, 2, 3)) for p in "abc"}) for _ in range(1500)]
    units += [unit(dict.fromkeys("abc", random.choice((1, 2, 3)))) for _ in range(500)]
    drawn, told = bootstrap(units, alpha_of, 500), interval_of(units, alpha_of)
    assert isinstance(drawn, Interval)
    assert isinstance(told, Interval)
    assert told == jackknife(units, alpha_of)
    assert list(told) == pytest.approx(list(drawn), abs=0.1 * (drawn.high - drawn.low))
    assert interval_of(units[:300], alpha_of, 50) == bootstrap(units[:300], alpha_of, 50)


def test_what_is_measured_survives_json_with_its_reason() -> None:
    some = measured([0.0, 1.0, 1.0, 0.0], mean, bootstrap)
    none = measured([{"a": 1}], krippendorff_alpha)
    assert some.value == 0.5
    assert some.low is not None
    assert some.high is not None
    assert some.low < 0.5 < some.high
    assert isinstance(none.value, Undefined)
    for each in (some, none):
        assert Measured.from_json(each.to_json()) == each


def test_wilson_at_the_ends_stays_between_nothing_and_all() -> None:
    assert wilson(0, 5)[0] == 0
    assert wilson(5, 5)[1] == 1
    assert 0.4 < wilson(0, 5)[1] < 0.5
