"""Follow-up questions: which lean on the question before, and which stay as they are."""

import pytest

from rookery.answers.follow_ups import join_questions, rewrite_by_model

FACES = "Do crows recognise human faces?"


LIGHTHOUSE = "When was the lighthouse of Skarvoy built?"


@pytest.mark.parametrize(
    ("earlier", "question", "joined"),
    [
        # What points back is followed by what the question before is about, without what it asks.
        (LIGHTHOUSE, "How tall is it?", "How tall is it? (the lighthouse of Skarvoy)"),
        (
            "Who keeps the lighthouse of Skarvoy?",
            "Is it red?",
            "Is it red? (the lighthouse of Skarvoy)",
        ),
        (
            "How many cars does the ferry Havkatt carry?",
            "When does it leave on Sundays?",
            "When does it leave on Sundays? (the ferry Havkatt)",
        ),
        ("How do I create a new branch?", "And delete it?", "And delete it? (a new branch)"),
        ("What does git rerere do?", "How is it enabled?", "How is it enabled? (git rerere)"),
        (FACES, "Who else does?", "Who else does? (crows recognise human faces)"),
        (
            FACES,
            "Which study showed that?",
            "Which study showed that? (crows recognise human faces)",
        ),
        # So is one that begins with "and".
        (
            "What is the fee of the choir?",
            "And when must the money be paid?",
            "And when must the money be paid? (the fee of the choir)",
        ),
        # A fragment takes the place of what it varies: subject, time, or what is asked.
        ("How much does a common raven weigh?", "And the jay?", "How much does the jay weigh?"),
        ("What does the ride on bus 7 cost?", "What about the boat?", "What does the boat cost?"),
        ("Who built the church?", "And the bridge?", "Who built the bridge?"),
        ("How do I remove files?", "What about directories?", "How do I remove directories?"),
        ("When is the mill open in summer?", "And in winter?", "When is the mill open in winter?"),
        ("Do jays find acorns?", "Even after a year?", "Do jays find acorns after a year?"),
        (FACES, "since when", "Since when do crows recognise human faces?"),
        (FACES, "Why?", "Why do crows recognise human faces?"),
        ("Where do rooks nest?", "Why?", "Why do rooks nest?"),
        # Where that is not seen, or not English, the question before follows whole.
        ("Who conducts the choir?", "Since when?", "Since when? Who conducts the choir?"),
        (FACES, "Why not?", f"Why not? {FACES}"),
        (FACES, "Dürfen sie das?", f"Dürfen sie das? {FACES}"),
        ("Was frisst der Rabe?", "Und die Elster?", "Und die Elster? Was frisst der Rabe?"),
        ("Tell me about ravens.", "Do they talk?", "Do they talk? Tell me about ravens."),
    ],
)
def test_a_question_gets_what_it_needs_of_the_one_before(
    earlier: str, question: str, joined: str
) -> None:
    assert join_questions([earlier, question]) == joined


@pytest.mark.parametrize(
    "question",
    [
        "How do crows protect their nests from the hawks of the neighbourhood?",
        "Do crows hide seeds from others before they eat them?",
        "I made a branch by mistake. How do I delete it?",
        "What do ravens eat?",
        "How many ravens are there in London?",
        "What is allopreening?",
        " how many semitones in a major third",
    ],
)
def test_a_question_that_stands_alone_stays_to_the_letter(question: str) -> None:
    assert join_questions([FACES, question]) == question


def test_the_third_question_gets_nothing_of_what_the_second_asks() -> None:
    assert join_questions([LIGHTHOUSE, "Who built it?", "How tall is it?"]) == (
        "How tall is it? (the lighthouse of Skarvoy)"
    )
    weights = ["How much does a common raven weigh?", "And an American crow?", "And the jay?"]
    assert join_questions(weights) == "How much does the jay weigh?"
    assert join_questions([*weights, "Where does it sleep?"]) == "Where does it sleep? (the jay)"
    ferry = ["What does the ferry carry?", "When does it leave on Sundays?", "And on Mondays?"]
    assert join_questions(ferry) == "When does it leave on Mondays? (the ferry)"
    assert join_questions([*ferry, FACES, "Why?"]) == "Why do crows recognise human faces?"
    mirror = ["Can magpies recognise themselves?", "Has this been repeated?", "And jackdaws?"]
    assert join_questions(mirror) == (
        "And jackdaws? Has this been repeated? (magpies recognise themselves)"
    )


def test_a_conversation_may_begin_with_anything() -> None:
    assert join_questions([]) == ""
    for question in ("Why?", "How tall is it?", "And?", "", "?"):
        assert join_questions([question]) == question
        assert join_questions(["", question]) == question
    assert join_questions(["?", "Why?"]) == "Why? ?"


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
