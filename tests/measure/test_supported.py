"""Shares of what most raters say, by hand."""

from rookery.judge.meaning import GOOD, PLAUSIBLE, SUPPORTED
from rookery.measure.figure import bars
from rookery.measure.interval import Estimate, mean, share
from rookery.measure.supported import rated_shares, supported_figure, verdicts
from rookery.records import Answer, Question, Rating


def rated(question: str, answer: str, *values: float, scale: str = GOOD) -> list[Rating]:
    return [
        Rating(Question(question, "Why?"), Answer(answer), scale, value, f"person {number}")
        for number, value in enumerate(values)
    ]


def system(answer: Answer) -> str:
    return answer.text.split()[0]


def test_an_answer_is_what_most_say_and_a_tie_is_no() -> None:
    ratings = [*rated("1", "a", 1, 1, 0), *rated("2", "a", 1, 0), *rated("3", "a", 0.6)]
    assert verdicts(ratings) == {
        ("1", Answer("a")): True,
        ("2", Answer("a")): False,
        ("3", Answer("a")): True,
    }


def test_shares_are_of_answers_and_not_of_ratings() -> None:
    ratings = [
        *rated("1", "sft one", 1, 1, 0),
        *rated("2", "sft two", 0, 0, 0, 0, 1, 0),
        *rated("1", "rl one", 1),
        *rated("1", "rl one", 0, scale=SUPPORTED),
    ]
    supported, rl, sft = rated_shares(ratings, system)
    assert (supported.system, supported.scale, supported.share) == ("rl", SUPPORTED, share(0, 1))
    assert (rl.system, rl.share, rl.raters) == ("rl", share(1, 1), 1)
    assert (sft.system, sft.share, sft.raters) == ("sft", share(1, 2), 4.5)


def test_samples_of_one_question_are_drawn_together() -> None:
    ratings = [
        rating
        for number in range(10)
        for sample in range(5)
        for rating in rated(str(number), f"top {sample}", number % 2)
    ]
    (top,) = rated_shares(ratings, system)
    values = [float(number % 2) for number in range(10) for _ in range(5)]
    assert top.share == mean(values, [str(number) for number in range(10) for _ in range(5)])
    assert top.share.half > 2 * share(25, 50).half  # as if they were ten answers, not fifty


def test_scales_come_in_the_order_asked_and_others_are_left_out() -> None:
    ratings = [*rated("1", "a", 1), *rated("1", "a", 1, scale=PLAUSIBLE), *rated("1", "b", 0)]
    ratings += rated("1", "a", 1, scale="fluency")
    found = [(each.scale, each.system) for each in rated_shares(ratings, system)]
    assert found == [(PLAUSIBLE, "a"), (GOOD, "a"), (GOOD, "b")]


def test_a_figure_has_each_share_once_with_its_interval() -> None:
    ratings = [*rated("1", "a", 1), *rated("1", "b", 0), *rated("1", "a", 1, scale=PLAUSIBLE)]
    figure = supported_figure(rated_shares(ratings, system), "says")
    both = share(0, 1)
    assert ("b", "supported and plausible", 0.0, both.low, both.high, 1, 1.0) in figure.rows
    assert figure.picture.places == ("a", "b")
    plausible, good = figure.picture.lines
    assert plausible.points == ((0, 1.0),)
    assert good.points == ((0, 1.0), (1, 0.0))
    assert good.high == (1.0, both.high)


def test_bars_stand_at_their_places_where_some_are_missing() -> None:
    one, two = Estimate(1, 0, 2, 9), Estimate(5, 4, 6, 9)
    picture = bars({("x", "here"): one, ("x", "there"): two, ("y", "there"): one}, "height")
    assert picture.places == ("here", "there")
    x, y = picture.lines
    assert (x.points, x.low, x.high) == (((0, 1), (1, 5)), (0, 4), (2, 6))
    assert y.points == ((1, 1),)
