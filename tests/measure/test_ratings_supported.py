"""Shares of what most raters say, by hand."""

from widths import half_width

from rookery.measure.figures import make_bars
from rookery.measure.intervals import Estimate, estimate_mean, estimate_share
from rookery.measure.ratings import (
    GOOD_SCALE,
    PLAUSIBLE_SCALE,
    SUPPORTED_SCALE,
    compute_rated_shares,
    decide_by_majority,
    make_supported_figure,
)
from rookery.records import Answer, Question, Rating


def rated(question: str, answer: str, *values: float, scale: str = GOOD_SCALE) -> list[Rating]:
    return [
        Rating(Question(question, "Why?"), Answer(answer), scale, value, f"person {number}")
        for number, value in enumerate(values)
    ]


def system(answer: Answer) -> str:
    return answer.text.split()[0]


def test_an_answer_is_what_most_say_and_a_tie_is_no() -> None:
    ratings = [*rated("1", "a", 1, 1, 0), *rated("2", "a", 1, 0), *rated("3", "a", 0.6)]
    assert decide_by_majority(ratings) == {
        ("1", Answer("a")): True,
        ("2", Answer("a")): False,
        ("3", Answer("a")): True,
    }


def test_shares_are_of_answers_and_not_of_ratings() -> None:
    ratings = [
        *rated("1", "sft one", 1, 1, 0),
        *rated("2", "sft two", 0, 0, 0, 0, 1, 0),
        *rated("1", "rl one", 1),
        *rated("1", "rl one", 0, scale=SUPPORTED_SCALE),
    ]
    supported, rl, sft = compute_rated_shares(ratings, system)
    assert (supported.system, supported.scale, supported.share) == (
        "rl",
        SUPPORTED_SCALE,
        estimate_share(0, 1),
    )
    assert (rl.system, rl.share, rl.raters) == ("rl", estimate_share(1, 1), 1)
    assert (sft.system, sft.share, sft.raters) == ("sft", estimate_share(1, 2), 4.5)


def test_samples_of_one_question_are_drawn_together() -> None:
    ratings = [
        rating
        for number in range(10)
        for sample in range(5)
        for rating in rated(str(number), f"top {sample}", number % 2)
    ]
    (top,) = compute_rated_shares(ratings, system)
    values = [float(number % 2) for number in range(10) for _ in range(5)]
    assert top.share == estimate_mean(
        values, [str(number) for number in range(10) for _ in range(5)]
    )
    assert half_width(top.share) > 2 * half_width(
        estimate_share(25, 50)
    )  # as if they were ten answers, not fifty


def test_scales_come_in_the_order_asked_and_others_are_left_out() -> None:
    ratings = [*rated("1", "a", 1), *rated("1", "a", 1, scale=PLAUSIBLE_SCALE), *rated("1", "b", 0)]
    ratings += rated("1", "a", 1, scale="fluency")
    found = [(each.scale, each.system) for each in compute_rated_shares(ratings, system)]
    assert found == [(PLAUSIBLE_SCALE, "a"), (GOOD_SCALE, "a"), (GOOD_SCALE, "b")]


def test_a_figure_has_each_share_once_with_its_interval() -> None:
    ratings = [*rated("1", "a", 1), *rated("1", "b", 0), *rated("1", "a", 1, scale=PLAUSIBLE_SCALE)]
    figure = make_supported_figure(compute_rated_shares(ratings, system), "says")
    assert ("b", "supported and plausible", 0.0, None, None, 1, 1.0) in figure.rows
    assert figure.picture.places == ("a", "b")
    plausible, good = figure.picture.lines
    assert plausible.points == ((0, 1.0),)
    assert good.points == ((0, 1.0), (1, 0.0))
    assert good.high == (None, None)


def test_bars_stand_at_their_places_where_some_are_missing() -> None:
    one, two = Estimate(1, 0, 2, 9), Estimate(5, 4, 6, 9)
    picture = make_bars({("x", "here"): one, ("x", "there"): two, ("y", "there"): one}, "height")
    assert picture.places == ("here", "there")
    x, y = picture.lines
    assert (x.points, x.low, x.high) == (((0, 1), (1, 5)), (0, 4), (2, 6))
    assert y.points == ((1, 1),)
