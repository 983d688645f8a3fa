"""Follow-up questions: what the rule makes of them, and what it leaves alone."""

import pytest

from rookery.ask.follow_up_questions import (
    rewrite_by_model,
    rewrite_conversation,
    rewrite_follow_up,
)

FACES = "Do crows recognise human faces?"
BRANCH = "How do I create a branch on Linux?"


@pytest.mark.parametrize(
    ("question", "before", "standing"),
    [
        ("For how long do they remember?", FACES, "For how long do crows remember?"),
        ("What about ravens?", FACES, "Do ravens recognise human faces?"),
        ("And ravens?", FACES, "Do ravens recognise human faces?"),
        ("Why?", FACES, "Why do crows recognise human faces?"),
        ("since when", FACES, "Since when do crows recognise human faces?"),
        ("Is that proven?", FACES, f"Is that proven? ({FACES})"),
        ("Who else does?", FACES, f"Who else does? ({FACES})"),
        ("Where do they put their eggs?", FACES, "Where do crows put their eggs?"),
        ("When did she die?", "Who was Betty the crow?", "When did Betty die?"),
        ("Where?", "Who saw it? (Do crows sing?)", "Where do crows sing?"),
        ("How do I rename it?", BRANCH, "How do I rename the branch?"),
        ("And delete it?", BRANCH, "How do I delete the branch?"),
        ("And on Windows?", BRANCH, "How do I create a branch on Windows?"),
        (
            "What are its limits?",
            "What is a shallow clone?",
            "What are the shallow clone's limits?",
        ),
        (
            "How does it find them again?",
            "How many seeds does Clark's nutcracker hide?",
            "How does Clark's nutcracker find seeds again?",
        ),
        ("How many?", "Who wrote the manual", "How many? (Who wrote the manual)"),
    ],
)
def test_a_question_that_leans_on_the_one_before_names_what_it_is_about(
    question: str, before: str, standing: str
) -> None:
    assert rewrite_follow_up(question, before) == standing
    assert rewrite_follow_up(standing, before) == standing


@pytest.mark.parametrize(
    "question",
    [
        "How do crows protect their nests?",
        "Do crows hide seeds before they eat them?",
        "Is it safe to rebase a branch that others use?",
        "What does it mean when git says that the HEAD is detached?",
        "How should a town get rid of the waste it inherits?",
        "I made a branch by mistake. How do I delete it?",
        "how many semitones in a major third",
        "lyrics in italics",
        "Which option of git log shows the files of each commit?",
        "And how long do crows live?",
        "What is the difference between the old logo and the new one?",
    ],
)
def test_a_question_that_stands_alone_stays_to_the_letter(question: str) -> None:
    assert rewrite_follow_up(question, FACES) == question
    assert rewrite_follow_up(f" {question}", BRANCH) == f" {question}"


def test_nothing_is_taken_from_no_question_or_from_a_very_long_one() -> None:
    assert rewrite_follow_up("And ravens?", "") == "And ravens?"
    assert rewrite_follow_up("And ravens?", "Do crows sing? " * 100) == "And ravens?"
    assert rewrite_follow_up("", FACES) == ""
    assert rewrite_follow_up("?!", "?") == "?!"


def test_each_question_of_a_conversation_leans_on_the_one_before() -> None:
    talk = ["How do I create a new branch?", "How do I rename it?", "And delete it?"]
    assert rewrite_conversation(talk) == "How do I delete the new branch?"
    assert rewrite_conversation([*talk, FACES, "Why?"]) == "Why do crows recognise human faces?"
    assert rewrite_conversation(["Is it?", "Why?"]) == "Why is it?"


def test_the_context_in_brackets_does_not_grow_with_the_conversation() -> None:
    talk = [FACES, "Is that proven?", "Is that true?", "Is that new?"]
    assert rewrite_conversation(talk) == f"Is that new? ({FACES})"


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        (
            " How long do crows remember a face?\n\nQuestion: x",
            "How long do crows remember a face?",
        ),
        ('"How long do crows remember?"', "How long do crows remember?"),
        ("", None),
        (" \n", None),
        ("They remember it for years, as was shown in Seattle. " * 5, None),
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
    assert prompts[0].endswith(f"Question: {FACES}\nQuestion: For how long?\nRewritten:")
