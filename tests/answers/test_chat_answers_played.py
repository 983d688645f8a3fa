"""Forty questions with a chat model's scripted replies: all that is shown is as it was stored."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.played import (
    CODE,
    FOLDER,
    PlayedQuestion,
    answer_played,
    describe_shown,
    list_cited,
    load_played,
    replay_judge,
)
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive

PLAYED = load_played()
MARKS = re.compile(r" ?(?:\[\d+\])+")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, FolderLibrary]]:
    folder = tmp_path_factory.mktemp("played")
    with PageArchive(folder / "archive") as archive:
        places = sorted({each.place for each in PLAYED})
        opened = {
            place: FolderLibrary([FOLDER / place], archive, folder / "cache") for place in places
        }
        yield opened
        for library in opened.values():
            library.close()


def take_marks_off(reply: str) -> tuple[str, list[tuple[int, list[int]]]]:
    """The text of a careful reply without its marks, and where they stood: not in code."""
    hidden = CODE.sub(lambda code: "x" * len(code[0]), reply)
    text, position, marks = "", 0, list[tuple[int, list[int]]]()
    for mark in MARKS.finditer(hidden):
        text += reply[position : mark.start()]
        position = mark.end()
        marks.append((len(text), [int(number) for number in re.findall(r"\d+", mark[0])]))
    return text + reply[position:], marks


@pytest.mark.parametrize("played", PLAYED, ids=[each.id for each in PLAYED])
def test_what_is_shown_is_as_it_was(
    played: PlayedQuestion, libraries: dict[str, FolderLibrary], tmp_path: Path
) -> None:
    episode = answer_played(played, libraries[played.place], replay_judge(played), tmp_path)
    answer, reply = episode.answer, played.replies[-1]
    assert describe_shown(episode) == played.shown
    assert answer is not None
    for quote in answer.quotes:
        assert libraries[played.place].fetch(quote.url).text[quote.start : quote.end] == quote.text
    if played.style == "careful" and not reply.startswith("NOT FOUND"):
        text, marks = take_marks_off(reply)
        assert answer.text == text
        assert [claim.end for claim in answer.claims] == [end for end, _ in marks]
        assert list_cited(episode) == [numbers for _, numbers in marks] == played.cited
        assert CODE.findall(answer.text) == CODE.findall(reply)
    elif played.style == "careful":
        declined = answer.text.partition("\n\nSearched for: ")[0]
        assert (answer.declined, f"NOT FOUND: {declined}") == (True, reply)


def test_the_replies_are_of_the_styles_and_kinds_that_they_are_said_to_be() -> None:
    assert [each.style for each in PLAYED].count("careful") == 30
    assert len({each.id for each in PLAYED}) == 40
    assert sum(len(each.cited) for each in PLAYED if each.style == "careful") > 50
    assert sum("```" in each.replies[-1] for each in PLAYED) > 3
