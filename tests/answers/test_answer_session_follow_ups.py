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


def test_a_model_is_shown_the_answers_too_and_less_of_older_ones() -> None:
    prompts = list[str]()

    def complete(prompt: str) -> str:
        prompts.append(prompt)
        return "How long does a raven sleep?"

    earlier = [f"Question {n}?" for n in range(20)]
    replies = ["", "old", *(f"{n} " + "♦ and words. " * 900 for n in range(18))]
    assert rewrite_by_model("And the second one?", earlier, complete, replies)
    assert 8000 < len(prompts[0]) < 10_000
    *_, before, last = prompts[0].split("\n\nQuestion: ")
    assert before.startswith("Question 18?\nAnswer: 16 ◆ and")
    assert last.startswith("Question 19?\nAnswer: 17 ◆ and")
    assert 3900 < len(last) < 4100
    assert 1950 < len(before) < 2100
    assert "Question 0?" not in prompts[0]
    rewrite_by_model("And the second one?", earlier[:2], complete, ["Ravens and rooks."])
    assert "\nQuestion: Question 0?\n\nQuestion: Question 1?\nAnswer: Ravens" in prompts[-1]
