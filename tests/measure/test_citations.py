"""ALCE's citation recall and precision: worked by hand, and by their words for all subsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.measure.citations import (
    Citations,
    Judged,
    Statement,
    by_words,
    citations_figure,
    cited,
    judged,
    of_answer,
    statements,
)
from rookery.measure.interval import mean
from rookery.records import Answer, Claim, Page


def letters(premise: str, claim: str) -> float:
    """A premise entails a claim of no other letters than its own."""
    return float(set(claim) <= set(premise))


@pytest.mark.parametrize(
    ("text", "sources", "expected"),
    [
        ("ab", ("abc",), Judged(True, (True,))),
        ("ab", ("a",), Judged(False, (False,))),
        ("ab", (), Judged(False, ())),
        # Both are needed.
        ("ab", ("a", "b"), Judged(True, (True, True))),
        # The second says nothing to it, and the first does without it.
        ("ab", ("ab", "c"), Judged(True, (True, False))),
        # Each would do alone.
        ("ab", ("ab", "abc"), Judged(True, (True, True))),
        # The first does alone; the others say half and are not needed.
        ("ab", ("ab", "a", "b"), Judged(True, (True, False, False))),
        # Nothing entails all of it, so that no citation is of use.
        ("abc", ("a", "b"), Judged(False, (False, False))),
        # Two say the same half: neither is needed, nor would do alone.
        ("ab", ("a", "a", "b"), Judged(True, (False, False, True))),
    ],
)
def test_statements_by_hand(text: str, sources: tuple[str, ...], expected: Judged) -> None:
    assert judged(Statement(text, sources), letters) == expected


@given(
    st.frozensets(st.sampled_from("abcd"), min_size=1),
    st.lists(st.frozensets(st.sampled_from("abcdx")), max_size=4),
)
def test_citations_are_judged_as_defined(
    claim: frozenset[str], sources: list[frozenset[str]]
) -> None:
    found = judged(Statement("".join(sorted(claim)), tuple(map("".join, sources))), letters)
    everything = frozenset().union(*sources)
    recalled = bool(sources) and claim <= everything
    assert found.recalled == recalled
    for number, source in enumerate(sources):
        rest = frozenset().union(*(s for n, s in enumerate(sources) if n != number))
        irrelevant = not claim <= source and claim <= rest
        assert found.precise[number] == (recalled and not irrelevant)


PAGE = Page("https://example.org/", "Crows", "ab cd Crows hold grudges for years. They eat eggs.")
AB, CD = PAGE.quote(0, 2), PAGE.quote(3, 5)
GRUDGES = PAGE.quote(6, 35)


def test_claims_are_statements_and_so_are_sentences_that_cite_nothing() -> None:
    text = "Crows hold grudges. They eat eggs. They fly, and they sing."
    claims = (Claim(0, 19, (0, 0)), Claim(0, 19, (1,)), Claim(35, 44, ()))
    answer = Answer(text, (GRUDGES, AB), claims)
    assert statements(answer) == [
        Statement("Crows hold grudges.", (f"Crows\n{GRUDGES.text}", "Crows\nab")),
        Statement("They eat eggs.", ()),
        Statement("They fly,", ()),
    ]


def test_an_answer_by_hand() -> None:
    # The first statement needs one of two citations, the second has a wrong one, the third none.
    answer = Answer(
        "ab. cde. d.", (AB, CD), (Claim(0, 2, (0, 1)), Claim(4, 7, (1,)), Claim(9, 10, ()))
    )

    def entails(premise: str, claim: str) -> float:
        return letters(premise.replace("Crows", ""), claim)

    found = of_answer(answer, entails)
    assert found == Citations(1 / 3, 1 / 3, 3, 3)
    assert found.f1 == pytest.approx(1 / 3)


def test_an_answer_that_cites_nothing_has_neither_recall_nor_precision() -> None:
    found = of_answer(Answer("Crows fly."))
    assert found == Citations(0.0, 0.0, 1, 0)
    assert found is not None
    assert found.f1 == 0


def test_what_states_nothing_does_not_count() -> None:
    declined = Answer("Crows hold grudges.", (GRUDGES,), (Claim(0, 19, (0,)),), declined=True)
    assert of_answer(declined) is None
    assert of_answer(Answer(" ")) is None
    good = Answer("Crows hold grudges.", (GRUDGES,), (Claim(0, 19, (0,)),))
    bad = Answer("Crows hold grudges. Ravens do not.", (GRUDGES,), (Claim(0, 19, (0,)),))
    found = cited([declined, good, bad])
    assert found.recall == mean([1.0, 0.5])
    assert found.precision == mean([1.0, 1.0])
    assert found.f1.value == pytest.approx((1 + 2 / 3) / 2)
    with pytest.raises(ValueError):
        cited([declined])


def test_words_are_enough_from_57_percent_on_and_the_small_ones_do_not_count() -> None:
    assert by_words("crows hold the grudges of years", "Do crows hold a grudge, for years?") == 1
    assert by_words("crows hold", "crows hold grudges, years") == 0
    assert by_words("crows hold grudges", "crows hold grudges, years") == 1
    assert by_words("anything", "the") == 0
    # Shared words are no entailment: whoever needs more passes another function.
    assert by_words("crows never hold grudges", "crows hold grudges") == 1


def test_a_figure_has_three_means_a_system() -> None:
    good = Answer("Crows hold grudges.", (GRUDGES,), (Claim(0, 19, (0,)),))
    figure = citations_figure({"a": cited([good]), "b": cited([Answer("Crows fly.")])}, "says")
    assert figure.rows == (
        ("a", "recall", 1.0, 1.0, 1.0, 1),
        ("b", "recall", 0.0, 0.0, 0.0, 1),
        ("a", "precision", 1.0, 1.0, 1.0, 1),
        ("b", "precision", 0.0, 0.0, 0.0, 1),
        ("a", "f1", 1.0, 1.0, 1.0, 1),
        ("b", "f1", 0.0, 0.0, 0.0, 1),
    )
    assert [line.name for line in figure.picture.lines] == ["recall", "precision", "f1"]
