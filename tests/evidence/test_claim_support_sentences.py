"""Sentences of a model: what is cleaned off, what a quote supports, and what is taken out."""

from collections.abc import Sequence

import pytest

from rookery.evidence.claim_support import (
    AnswerSource,
    cite_sentences,
    is_supported,
    list_written_sentences,
    locate_answers,
)
from rookery.evidence.evidence_model import EvidenceJudgement, EvidencePassage
from rookery.records import Page, Quote

FORT = (
    "On March 25, Confederate General John B. Gordon's desperate attack on Fort Stedman failed. "
    "The city was not taken. It fell in April."
)
LAST = "It is a nod to some birds, and a nod for others."
GENERAL = "What general commanded the attack on Fort Stedman?"


def quote(text: str = FORT) -> Quote:
    return Page("https://a.org/siege", "Siege of Petersburg", text).quote(0, len(text))


def source(answer: str = "John B. Gordon") -> AnswerSource:
    return AnswerSource(quote(), FORT[: FORT.index(" The city")], answer)


def judge_by(supported: str = "", answer: str = "") -> object:
    """A judge that supports one claim, and finds an answer wherever it stands."""

    def judge(query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        found = []
        for each in passages:
            at = max(0, each.text.find(answer))
            end = at + len(answer) if answer in each.text else len(each.text)
            odds = 2.0 if answer in each.text else -2.0
            supports = 0.9 if query == supported else 0.1
            found.append(EvidenceJudgement(odds, (at, end), 0.0, supports, 0.0, 1 - supports))
        return found

    return judge


@pytest.mark.parametrize(
    ("written", "sentences"),
    [
        ("Crows do [1]. They fly[2][3].", ["Crows do.", "They fly."]),
        ("- Crows do.\n- They fly.\n", ["Crows do.", "They fly."]),
        ("For these reasons:\n1. Crows do.\n2) They fly", ["Crows do.", "They fly."]),
        ("According to the text, crows do.", ["Crows do."]),
        ('The answer to this question is: "Crows do."', ["Crows do."]),
        ("The answer to this question is:", []),
        ("Why do crows? Crows do.", ["Crows do."]),
        ("Crows do things. Crows do things. Crows do.", ["Crows do things."]),
        ("It is a nod to birds, and it is a nod to cats.", []),
        ("It is a nod to some birds, and a nod for others.", [LAST]),
        ("", []),
    ],
)
def test_what_is_no_part_of_an_answer_is_cleaned_off(written: str, sentences: list[str]) -> None:
    assert list_written_sentences(written) == sentences


def test_a_sentence_that_a_limit_cut_off_is_dropped_and_one_that_ended_gets_its_stop() -> None:
    assert list_written_sentences("Crows do. They fly over the", finished=False) == ["Crows do."]
    assert list_written_sentences("Crows do. They fly over it") == [
        "Crows do.",
        "They fly over it.",
    ]


@pytest.mark.parametrize(
    ("sentence", "supported"),
    [
        # Word for word, whatever the judge says; typography does not count.
        ("The city was not taken.", True),
        ("The city was taken.", False),
        # The answer that was found in words of the question.
        ("John B. Gordon commanded the attack on Fort Stedman.", True),
        ("General John B. Gordon commanded the desperate attack on Fort Stedman.", False),
        ("John B. Gordon commanded.", False),
        ("General Lee commanded the attack on Fort Stedman.", False),
    ],
)
def test_word_for_word_or_the_answer_in_words_of_the_question(
    sentence: str, supported: bool
) -> None:
    assert is_supported(sentence, source(), GENERAL, judge_by()) is supported  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sentence", "supported"),
    [
        ("Gordon's attack in March failed.", True),
        ("The attack on Petersburg failed.", True),  # a name of the title
        ("Gordon's attack of 1865 failed.", False),
        ("In March Grant's attack failed.", False),
        ("The attack in March never failed.", False),
    ],
)
def test_numbers_names_and_negations_must_stand_in_the_quote_even_where_a_judge_agrees(
    sentence: str, supported: bool
) -> None:
    judge = judge_by(supported=sentence)
    assert is_supported(sentence, source(), GENERAL, judge) is supported  # type: ignore[arg-type]


def test_without_a_judge_shared_words_decide() -> None:
    """WebGLM, section 3.2.3: at least .57 of the words. Of 5 here, 3 are shared, then 2."""
    assert is_supported("A desperate attack simply failed wholly.", source(), GENERAL)
    assert not is_supported("A desperate plan simply failed wholly.", source(), GENERAL)


def test_what_nothing_supports_is_taken_out_and_the_rest_is_cited() -> None:
    nests = "A crow builds its nest of twigs. It lines the nest with moss."
    sources = [source(), AnswerSource(quote(nests), nests, nests)]
    text = "The city was not taken. Crows read novels. It lines the nest with moss."
    cited = cite_sentences(text, sources, "What happened?", judge_by())  # type: ignore[arg-type]
    assert cited.removed == ("Crows read novels.",)
    assert cited.answer.text == "The city was not taken. It lines the nest with moss."
    assert [
        (cited.answer.text[claim.start : claim.end], claim.quotes) for claim in cited.answer.claims
    ] == [("The city was not taken.", (0,)), ("It lines the nest with moss.", (1,))]
    nothing = cite_sentences("Crows read novels.", sources, "What?", judge_by())  # type: ignore[arg-type]
    assert (nothing.answer.text, nothing.answer.claims) == ("", ())


def test_a_sentence_that_only_repeats_the_question_is_taken_out() -> None:
    for question, kept in (
        ("When was the city not taken?", ""),
        ("Was the city not taken?", "The city was not taken."),
    ):
        cited = cite_sentences("The city was not taken.", [source()], question, judge_by())  # type: ignore[arg-type]
        assert cited.answer.text == kept
        assert cited.removed == (() if kept else ("The city was not taken.",))


def test_an_answer_is_located_with_its_sentence() -> None:
    [found] = locate_answers(GENERAL, [quote()], judge_by(answer="John B. Gordon"))  # type: ignore[arg-type]
    assert (found.answer, found.text) == ("John B. Gordon", FORT[: FORT.index(" The city")])
    both = "The city was not taken. It fell in April."
    [wide] = locate_answers("When did it fall?", [quote()], _answer_over(both))  # type: ignore[arg-type]
    assert (wide.text, wide.answer) == (both, "It fell in April.")
    assert locate_answers(GENERAL, [quote()]) == [AnswerSource(quote(), FORT, FORT)]


def _answer_over(span: str) -> object:
    """A judge whose span covers several sentences, of which the one with April answers best."""

    def judge(query: str, passages: Sequence[EvidencePassage]) -> list[EvidenceJudgement]:
        return [
            EvidenceJudgement(
                3.0 if each.text.startswith("It fell") else 0.0,
                (max(0, each.text.find(span)), len(each.text)),
                0.0,
                0.0,
                0.0,
                1.0,
            )
            for each in passages
        ]

    return judge
