"""Pairs of answers that a labeller compares, by hand, and scores that are computed once."""

from collections.abc import Sequence

from recipes.rewards import SAMPLE_PAIRS, MockLabeller, cache_scores, list_answer_pairs
from rookery.records import Answer, Question

QUESTIONS = [Question("1", "Crows"), Question("2", "Jays")]
TEXTS = [["a", "bb", "ccc", "dddd"], ["e", "e", "", "ffff"]]


def test_each_question_is_compared_once_before_any_is_a_second_time() -> None:
    """Of the second question's answers two are equal and one is empty."""
    pairs = list_answer_pairs(QUESTIONS, TEXTS)
    assert [each.number for each in pairs] == list(range(len(pairs)))
    assert [(each.question.id, *(answer.text for answer in each.answers)) for each in pairs] == [
        ("1", "a", "bb"),
        ("1", "ccc", "dddd"),
        ("1", "a", "ccc"),
        ("1", "bb", "dddd"),
        ("2", "e", "ffff"),
        ("1", "a", "dddd"),
        ("2", "e", "ffff"),
        ("1", "bb", "ccc"),
    ]


def test_all_pairs_of_four_are_compared_and_the_first_share_no_answer() -> None:
    assert len({frozenset(each) for each in SAMPLE_PAIRS}) == 6
    for at in (0, 2, 4):
        assert {*SAMPLE_PAIRS[at], *SAMPLE_PAIRS[at + 1]} == {0, 1, 2, 3}


def test_the_labeller_prefers_what_its_reward_likes_best() -> None:
    labeller = MockLabeller(lambda question, answer: float(len(answer.text)))
    first, second, *_ = labeller.compare_answers(list_answer_pairs(QUESTIONS, TEXTS))
    assert first.answers == (Answer("a"), Answer("bb"))
    assert first.weights == second.weights == (0.0, 1.0)


def test_what_was_scored_is_not_scored_again() -> None:
    calls: list[str] = []

    def score_length(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        calls.extend(answer.text for _, answer in pairs)
        return [float(len(answer.text)) for _, answer in pairs]

    score = cache_scores(score_length)
    assert score([(QUESTIONS[0], Answer(text)) for text in ("a", "bb", "a")]) == [1.0, 2.0, 1.0]
    assert score([(QUESTIONS[0], Answer("bb")), (QUESTIONS[1], Answer("bb"))]) == [2.0, 2.0]
    assert calls == ["a", "bb", "bb"]
    assert score([]) == []
