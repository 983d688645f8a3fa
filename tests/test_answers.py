"""The bundled little web, asked: right quotes first, wrong ones outvoted, silence where it must be.

The lexical ranking alone, so that the result does not depend on what else is installed.
"""

import json
from collections.abc import Iterator

import pytest

from rookery.ask.load import bundled_questions
from rookery.browse.archive import Archive
from rookery.browse.folder import Folder
from rookery.browse.places import bundled
from rookery.cite.verify import verify
from rookery.draft.extract import extract
from rookery.records import Answer, Question

ASKED = bundled_questions()
QUESTIONS = [json.loads(line) for line in ASKED.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    with Archive(tmp_path_factory.mktemp("store") / "archive.sqlite") as archive:
        yield archive


@pytest.fixture(scope="module")
def answers(archive: Archive, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    found = {}
    with Folder(bundled(), archive, tmp_path_factory.mktemp("cache")) as folder:
        assert folder.failures == ()
        for question in QUESTIONS:
            answer = extract(Question(question["id"], question["text"]), folder).answer
            assert answer is not None
            found[question["id"]] = answer
    return found


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


def test_what_the_site_does_not_say_is_declined(answers: dict[str, Answer]) -> None:
    silent = [q["id"] for q in QUESTIONS if not q["gold"]]
    assert len(silent) == 5
    assert all(answers[each].declined for each in silent)


def test_the_forum_is_outvoted(answers: dict[str, Answer]) -> None:
    firsts = [answer.quotes[0].url for answer in answers.values() if answer.quotes]
    assert not any("forum" in url for url in firsts)


def test_every_quote_verifies_against_the_archive(
    answers: dict[str, Answer], archive: Archive
) -> None:
    verdicts = [v for answer in answers.values() for v in verify(answer, archive.find_quoted)]
    assert len(verdicts) > 50
    assert all(verdict.verified for verdict in verdicts)


def test_hidden_instructions_are_never_quoted(answers: dict[str, Answer]) -> None:
    said = " ".join(quote.text for answer in answers.values() for quote in answer.quotes)
    assert "are fish" not in said
