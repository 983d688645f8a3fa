"""Questions with a chat model's scripted replies: all that is shown is as it was stored."""

from collections.abc import Iterator

import pytest

from bench.played import (
    CODE,
    FOLDER,
    METHODS,
    PlayedQuestion,
    answer_played,
    describe_shown,
    list_cited,
    load_played,
    replay_judge,
    take_marks_off,
)
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive

PLAYED = [(method, each) for method in METHODS for each in load_played(method)]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, FolderLibrary]]:
    folder = tmp_path_factory.mktemp("played")
    with PageArchive(folder / "archive") as archive:
        places = sorted({each.place for _, each in PLAYED})
        opened = {
            place: FolderLibrary([FOLDER / place], archive, folder / "cache") for place in places
        }
        yield opened
        for library in opened.values():
            library.close()


@pytest.mark.parametrize(
    ("method", "played"), PLAYED, ids=[f"{method}-{each.id}" for method, each in PLAYED]
)
def test_what_is_shown_is_as_it_was(
    method: str, played: PlayedQuestion, libraries: dict[str, FolderLibrary]
) -> None:
    library = libraries[played.place]
    episode = answer_played(method, played, library, replay_judge(played)).episode
    answer, reply = episode.answer, played.get_written()
    assert describe_shown(episode) == played.shown
    assert answer is not None
    for quote in answer.quotes:
        assert library.fetch(quote.url).text[quote.start : quote.end] == quote.text
    if played.style == "careful" and not answer.declined:
        text, marks = take_marks_off(reply)
        assert answer.text == text
        assert [claim.end for claim in answer.claims] == [end for end, _ in marks]
        assert list_cited(episode) == [numbers for _, numbers in marks] == played.cited
        assert CODE.findall(answer.text) == CODE.findall(reply)
    elif reply.startswith("NOT FOUND"):
        declined = answer.text.partition("\n\nSearched for: ")[0]
        assert (answer.declined, f"NOT FOUND: {declined}") == (True, reply)


@pytest.mark.parametrize("method", ["webglm", "webgpt"])
def test_the_replies_are_of_the_styles_that_they_are_said_to_be(method: str) -> None:
    played = load_played(method)
    assert len({each.id for each in played}) == len(played)
    careful = [each for each in played if each.style == "careful"]
    assert 4 * len(careful) == 3 * len(played)
    assert sum(len(each.cited) for each in careful) > len(careful)
    assert sum("```" in each.replies[-1] for each in careful) > 2


def test_claims_with_quotes_are_careful_and_sloppy() -> None:
    played = load_played("gophercite")
    assert [each.style for each in played].count("careful") == 7
    assert sum(not each.cited for each in played) == 3
    sloppy = [reply for each in played if each.style == "sloppy" for reply in each.replies]
    for form in ("```json", "Sure! Here", "…", "“Bells", '}\n{"claim"', "[{", "None.", " | "):
        assert any(form in reply for reply in sloppy), form


def test_browsing_is_by_tools_or_by_nearly_written_commands() -> None:
    replies = {
        style: [
            reply for each in load_played("webgpt") if each.style == style for reply in each.replies
        ]
        for style in ("careful", "sloppy")
    }
    assert any('quote {"lines"' in reply for reply in replies["careful"])
    for near in ("**Search ", "Clicked on link [0]", "End: Answer.", " … sandals", "```\nSearch"):
        assert any(near in reply for reply in replies["sloppy"]), near
