"""Leakage: hand-worked overlaps, brute force over all pairs, and the paper's columns."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.measure.text_metrics import (
    SUBSETS,
    QuestionLeak,
    average_by_overlap,
    find_leaks,
    make_text_figure,
)
from rookery.records import Question

HAMLET = Question("t1", "Who wrote the play Hamlet?", (), ("William Shakespeare",), "hamlet")
FRANCE = Question("t2", "What is the capital of France?", (), ("Paris",), "france")
TRAIN = (HAMLET, FRANCE)


def make_question(text: str, *gold: str, source: str = "") -> Question:
    return Question("q", text, (), gold, source)


def only(question: Question, likeness: float = 0.5) -> QuestionLeak:
    return find_leaks(TRAIN, [question], likeness)[0]


def test_the_same_words_are_the_same_question_whatever_is_accepted() -> None:
    assert only(make_question("who wrote   play, HAMLET", "Bacon")) == QuestionLeak("t1")
    assert only(
        make_question("Who wrote the plays Hamlet", "the william Shakespeare!")
    ) == QuestionLeak("t1", True)


def test_a_question_that_is_nearly_the_same_needs_the_same_answer() -> None:
    """Of "what is capital of France" and "of Spain": four words and three pairs are shared, of
    six and five."""
    assert only(make_question("What is the capital of Spain?", "Madrid")) == QuestionLeak()
    assert only(make_question("What is the capital of Texas?", "Paris")) == QuestionLeak("t2", True)
    assert only(make_question("What is the capital of Texas?")) == QuestionLeak("t2")


def test_the_likeness_is_shared_words_and_pairs_of_those_of_either() -> None:
    spain = make_question("What is the capital of Spain?")
    assert only(spain, 7 / 11) == QuestionLeak("t2")
    assert only(spain, 7 / 11 + 0.001) == QuestionLeak()
    assert find_leaks([make_question("Crows?")], [make_question("Crows hide")], 1 / 3) == [
        QuestionLeak("q")
    ]


def test_an_answer_alone_may_be_known() -> None:
    assert only(make_question("Where did Hemingway live?", "London", "paris")) == QuestionLeak(
        "", True
    )
    assert only(make_question("Where did Hemingway live?", "London")) == QuestionLeak()


def test_the_page_may_be_known() -> None:
    assert only(make_question("Who kills Polonius?", "Hamlet", source="hamlet")) == QuestionLeak(
        "", False, True
    )
    assert find_leaks([make_question("One?")], [make_question("Two people?")]) == [QuestionLeak()]


def test_an_answer_of_articles_alone_is_nobodys() -> None:
    assert find_leaks([make_question("One?", "The")], [make_question("Two?", "an")]) == [
        QuestionLeak()
    ]


def test_questions_without_words_are_not_the_same() -> None:
    assert find_leaks([make_question("?")], [make_question("The?!")]) == [QuestionLeak()]


def test_of_several_the_likest_is_named_and_of_equals_the_first() -> None:
    train = [
        Question("far", "Who wrote the famous play Hamlet then"),
        Question("near", "Who wrote Hamlet then"),
        Question("late", "Who wrote Hamlet then"),
    ]
    assert find_leaks(train, [make_question("Who wrote Hamlet")], 0.3)[0].question == "near"


@pytest.mark.parametrize("likeness", [0, -1, 1.01])
def test_a_likeness_is_a_share(likeness: float) -> None:
    with pytest.raises(ValueError, match="likeness"):
        find_leaks(TRAIN, [], likeness)


def parts(text: str) -> set[tuple[str, ...]]:
    found = text.split()
    return {(word,) for word in found} | set(pairwise(found))


def same_by_force(train: Sequence[Question], question: Question, likeness: float) -> str:
    words, best, most = parts(question.text), "", likeness
    for each in train:
        if each.text == question.text:
            return each.id
    for each in reversed(train):
        other_words = parts(each.text)
        shared = len(words & other_words) / len(words | other_words)
        may_differ = not each.gold or not question.gold or set(each.gold) & set(question.gold)
        if may_differ and shared >= most:
            best, most = each.id, shared
    return best


TEXTS = st.lists(st.sampled_from("who hid oak jay crow".split()), min_size=1, max_size=6)
GOLDS = st.sets(st.sampled_from(["rook", "owl"]), max_size=2).map(tuple)
ASKED = st.builds(lambda text, gold: (" ".join(text), gold), TEXTS, GOLDS)


@given(
    st.lists(ASKED, max_size=6),
    ASKED,
    st.sampled_from([0.1, 0.2, 0.3, 1 / 3, 0.4, 0.5, 0.6, 2 / 3, 0.7, 0.9, 1.0]),
)
def test_the_same_question_is_that_of_brute_force(
    train: list[tuple[str, tuple[str, ...]]],
    test: tuple[str, tuple[str, ...]],
    likeness: float,
) -> None:
    known = [Question(str(n), text, (), gold) for n, (text, gold) in enumerate(train)]
    question = Question("q", test[0], (), test[1])
    found = find_leaks(known, [question], likeness)[0]
    assert found.question == same_by_force(known, question, likeness)
    assert found.answer == any(set(each.gold) & set(question.gold) for each in known)


def test_the_columns_of_the_paper_worked_by_hand() -> None:
    leaks = [
        QuestionLeak("t", True),
        QuestionLeak("t", False),
        QuestionLeak("", True),
        QuestionLeak("", True, True),
        QuestionLeak(),
    ]
    found = average_by_overlap([1, 1, 1, 0, 0], leaks)
    assert {name: (each.value, each.count) for name, each in found.items()} == {
        "total": (pytest.approx(3 / 5), 5),
        "question overlap": (1, 2),
        "no question overlap": (pytest.approx(1 / 3), 3),
        "answer overlap": (pytest.approx(2 / 3), 3),
        "answer overlap only": (1 / 2, 2),
        "no overlap": (0, 1),
    }


def test_an_empty_column_is_left_out() -> None:
    assert average_by_overlap([1.0], [QuestionLeak()]).keys() == {
        "total",
        "no question overlap",
        "no overlap",
    }


@given(st.lists(st.builds(QuestionLeak, st.sampled_from(["", "t"]), st.booleans()), min_size=1))
def test_columns_divide_the_test(leaks: list[QuestionLeak]) -> None:
    counts = {name: sum(map(within, leaks)) for name, within in SUBSETS.items()}
    assert counts["question overlap"] + counts["no question overlap"] == counts["total"]
    assert counts["answer overlap only"] + counts["no overlap"] == counts["no question overlap"]


def test_the_figure_has_the_papers_columns_as_places() -> None:
    leaks = [QuestionLeak("t", True), QuestionLeak("", True), QuestionLeak()]
    figure = make_text_figure(
        "leakage", {"ours": average_by_overlap([1, 0, 1], leaks)}, "three questions"
    )
    assert figure.picture.places == tuple(SUBSETS)
    assert figure.rows[1][:3] == ("ours", "question overlap", 1)
