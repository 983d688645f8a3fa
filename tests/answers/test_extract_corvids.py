"""The bundled little web, asked by words: right quotes first, silence where it must be.

The lexical ranking alone, so that the result does not depend on what else is installed.
"""

import json
from collections.abc import Iterator

import pytest

from rookery.answers.extract import answer_by_extraction
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import bundled_questions
from rookery.quotes.verification import verify_quotes
from rookery.records import Answer, Question

ASKED = bundled_questions()
QUESTIONS = [json.loads(line) for line in ASKED.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageArchive]:
    with PageArchive(tmp_path_factory.mktemp("store") / "archive.sqlite") as archive:
        yield archive


@pytest.fixture(scope="module")
def answers(archive: PageArchive, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    found = {}
    with FolderLibrary(get_bundled_folder(), archive, tmp_path_factory.mktemp("cache")) as folder:
        assert folder.failures == ()
        for question in QUESTIONS:
            answer = answer_by_extraction(Question(question["id"], question["text"]), folder).answer
            assert answer is not None
            found[question["id"]] = answer
    return found


@pytest.mark.slow
def test_most_questions_are_answered_by_the_first_quotes(answers: dict[str, Answer]) -> None:
    answerable = [q for q in QUESTIONS if q["gold"]]
    right = [
        question["id"]
        for question in answerable
        if any(
            gold in quote.text
            for quote in answers[question["id"]].quotes[:3]
            for gold in question["gold"]
        )
    ]
    assert len(answerable) == 25
    assert len(right) >= 21, sorted({q["id"] for q in answerable} - set(right))


@pytest.mark.slow
def test_what_the_site_does_not_say_is_declined(answers: dict[str, Answer]) -> None:
    silent = [q["id"] for q in QUESTIONS if not q["gold"]]
    assert len(silent) == 5
    assert all(answers[each].declined for each in silent)


def test_every_quote_verifies_against_the_archive(
    answers: dict[str, Answer], archive: PageArchive
) -> None:
    verdicts = [
        v for answer in answers.values() for v in verify_quotes(answer, archive.find_quoted)
    ]
    assert len(verdicts) > 50
    assert all(verdict.verified for verdict in verdicts)


def test_hidden_instructions_are_never_quoted(answers: dict[str, Answer]) -> None:
    said = " ".join(quote.text for answer in answers.values() for quote in answer.quotes)
    assert "are fish" not in said
