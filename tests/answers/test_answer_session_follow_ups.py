"""Follow-up questions: which lean on the question before, and which stay as they are."""

import pytest

from rookery.answers.answer_session import join_questions, rewrite_by_model

FACES = "Do crows recognise human faces?"


@pytest.mark.parametrize(
    "question",
    [
        "For how long do they remember?",
        "What about ravens?",
        "And what do ravens eat in the winter months?",
        "since when",
        "Which study showed that?",
        "Who else does?",
        "Dürfen sie das?",
    ],
)
def test_a_question_that_leans_on_the_one_before_is_searched_with_it(question: str) -> None:
    assert join_questions([FACES, question]) == f"{question} {FACES}"


@pytest.mark.parametrize(
    "question",
    [
        "How do crows protect their nests from the hawks of the neighbourhood?",
        "Do crows hide seeds from others before they eat them?",
        "I made a branch by mistake. How do I delete it?",
        "What do ravens eat?",
        " how many semitones in a major third",
    ],
)
def test_a_question_that_stands_alone_stays_to_the_letter(question: str) -> None:
    assert join_questions([FACES, question]) == question


def test_each_question_of_a_conversation_leans_on_the_one_before() -> None:
    talk = ["How do I create a new branch?", "How do I rename it?", "And delete it?"]
    assert join_questions(talk) == " ".join(reversed(talk))
    assert join_questions([*talk, FACES, "Why?"]) == f"Why? {FACES}"
    assert join_questions(["Why?"]) == "Why?"
    assert join_questions(["", "Why?"]) == "Why?"


def test_a_very_long_question_is_not_added() -> None:
    assert join_questions(["Do crows sing? " * 100, "And ravens?"]) == "And ravens?"


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        (
            " How long do crows remember a face?\n\nLast question: x",
            "How long do crows remember a face?",
        ),
        ('"How long do crows remember?"', "How long do crows remember?"),
        ("", None),
        (" \n", None),
        ("They remember it for years, as was shown in Seattle. " * 9, None),
    ],
)
def test_a_model_rewrites_unless_what_it_writes_is_no_question(
    written: str, taken: str | None
) -> None:
    prompts = list[str]()

    def complete(prompt: str) -> str:
        prompts.append(prompt)
        return written

    assert rewrite_by_model("For how long?", [FACES], complete) == taken
    assert prompts[0].endswith(f"\n♦User\nQuestion: {FACES}\n\nLast question: For how long?")
