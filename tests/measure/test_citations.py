"""ALCE's citation recall and precision: worked by hand, and by their words for all subsets."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.measure.citations import (
    AnswerCitationScores,
    CitedStatement,
    StatementVerdict,
    SystemCitationScores,
    average_citation_scores,
    entails_by_words,
    judge_statement,
    list_statements,
    make_citations_figure,
    make_support_entailment,
    score_answer_citations,
)
from rookery.measure.intervals import estimate_mean
from rookery.records import Answer, Claim, Page


def score_system(answers: Sequence[Answer]) -> SystemCitationScores:
    return average_citation_scores(
        score_answer_citations(each, entails_by_words) for each in answers
    )


def letters(premises: Sequence[EvidencePassage], claim: str) -> float:
    """Premises entail a claim of no other letters than their own; headings do not count."""
    return float(set(claim) <= {letter for each in premises for letter in each.text})


def passages(*texts: str) -> tuple[EvidencePassage, ...]:
    return tuple(EvidencePassage(each) for each in texts)


@pytest.mark.parametrize(
    ("text", "sources", "expected"),
    [
        ("ab", ("abc",), StatementVerdict(True, (True,))),
        ("ab", ("a",), StatementVerdict(False, (False,))),
        ("ab", (), StatementVerdict(False, ())),
        # Both are needed.
        ("ab", ("a", "b"), StatementVerdict(True, (True, True))),
        # The second says nothing to it, and the first does without it.
        ("ab", ("ab", "c"), StatementVerdict(True, (True, False))),
        # Each would do alone.
        ("ab", ("ab", "abc"), StatementVerdict(True, (True, True))),
        # The first does alone; the others say half and are not needed.
        ("ab", ("ab", "a", "b"), StatementVerdict(True, (True, False, False))),
        # Nothing entails all of it, so that no citation is of use.
        ("abc", ("a", "b"), StatementVerdict(False, (False, False))),
        # Two say the same half: neither is needed, nor would do alone.
        ("ab", ("a", "a", "b"), StatementVerdict(True, (False, False, True))),
    ],
)
def test_statements_by_hand(
    text: str, sources: tuple[str, ...], expected: StatementVerdict
) -> None:
    assert judge_statement(CitedStatement(text, passages(*sources)), letters) == expected


@given(
    st.frozensets(st.sampled_from("abcd"), min_size=1),
    st.lists(st.frozensets(st.sampled_from("abcdx")), max_size=4),
)
def test_citations_are_judged_as_defined(
    claim: frozenset[str], sources: list[frozenset[str]]
) -> None:
    found = judge_statement(
        CitedStatement("".join(sorted(claim)), passages(*map("".join, sources))), letters
    )
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
    assert list_statements(answer) == [
        CitedStatement(
            "Crows hold grudges.",
            (EvidencePassage(GRUDGES.text, "Crows"), EvidencePassage("ab", "Crows")),
        ),
        CitedStatement("They eat eggs.", ()),
        CitedStatement("They fly,", ()),
    ]


def test_an_answer_by_hand() -> None:
    # The first statement needs one of two citations, the second has a wrong one, the third none.
    answer = Answer(
        "ab. cde. d.", (AB, CD), (Claim(0, 2, (0, 1)), Claim(4, 7, (1,)), Claim(9, 10, ()))
    )
    found = score_answer_citations(answer, letters)
    assert found == AnswerCitationScores(1 / 3, 1 / 3, 3, 3)
    assert found.f1 == pytest.approx(1 / 3)


def test_an_answer_that_cites_nothing_has_neither_recall_nor_precision() -> None:
    found = score_answer_citations(Answer("Crows fly."), entails_by_words)
    assert found == AnswerCitationScores(0.0, 0.0, 1, 0)
    assert found is not None
    assert found.f1 == 0


def test_what_states_nothing_does_not_count() -> None:
    declined = Answer("Crows hold grudges.", (GRUDGES,), (Claim(0, 19, (0,)),), declined=True)
    assert score_answer_citations(declined, entails_by_words) is None
    assert score_answer_citations(Answer(" "), entails_by_words) is None
    good = Answer("Crows hold grudges.", (GRUDGES,), (Claim(0, 19, (0,)),))
    bad = Answer("Crows hold grudges. Ravens do not.", (GRUDGES,), (Claim(0, 19, (0,)),))
    found = score_system([declined, good, bad])
    assert found.recall == estimate_mean([1.0, 0.5])
    assert found.precision == estimate_mean([1.0, 1.0])
    assert found.f1.value == pytest.approx((1 + 2 / 3) / 2)
    with pytest.raises(ValueError):
        score_system([declined])


def test_words_are_enough_from_57_percent_on_and_the_small_ones_do_not_count() -> None:
    def share(premise: str, claim: str) -> float:
        return entails_by_words(passages(premise), claim)

    assert share("crows hold the grudges of years", "Do crows hold a grudge, for years?") == 1
    assert share("crows hold", "crows hold grudges, years") == 0
    assert share("crows hold grudges", "crows hold grudges, years") == 1
    assert share("anything", "the") == 0
    # The title counts. Shared words are no entailment: whoever needs more passes another function.
    assert entails_by_words([EvidencePassage("never grudges", "Crows hold")], "crows hold grudges")


def test_the_evidence_model_judges_what_is_cited_together() -> None:
    def judge(claim: str, read: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        held = [float(set(claim.split()) <= set(each.text.split())) for each in read]
        return [EvidenceJudgement(0, (0, 1), 0, each, 0, 1 - each) for each in held]

    entails = make_support_entailment(judge)
    assert judge_statement(CitedStatement("a b", passages("a x", "b x")), entails).recalled
    found = judge_statement(CitedStatement("a b", passages("a b x", "c")), entails)
    assert found == StatementVerdict(True, (True, False))
    assert not judge_statement(CitedStatement("a b", passages("a x")), entails).recalled


def test_a_figure_has_three_means_a_system() -> None:
    good = Answer("Crows hold grudges.", (GRUDGES,), (Claim(0, 19, (0,)),))
    figure = make_citations_figure(
        {
            "a": score_system([good]),
            "b": score_system([Answer("Crows fly.")]),
        },
        "says",
    )
    assert figure.rows == (
        ("a", "recall", 1.0, None, None, 1),
        ("b", "recall", 0.0, None, None, 1),
        ("a", "precision", 1.0, None, None, 1),
        ("b", "precision", 0.0, None, None, 1),
        ("a", "f1", 1.0, None, None, 1),
        ("b", "f1", 0.0, None, None, 1),
    )
    assert [line.name for line in figure.picture.lines] == ["recall", "precision", "f1"]
