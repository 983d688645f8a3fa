"""The Python entry: `import rookery` and what it offers, as docs/python.md documents it."""

import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import rookery
from rookery import Failed, Failure, Hit, Library, Page, Question
from rookery.library.search_index import SearchIndex

HOUSE = Path(rookery.__file__).parent
DOCS = Path(__file__).parent.parent / "docs"
GIFTS = "Why do crows bring gifts to people?"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_the_manual_documents_every_public_name_and_no_other() -> None:
    manual = (DOCS / "python.md").read_text(encoding="utf-8")
    documented = re.findall(r"^#+ `rookery\.(\w+)", manual, re.MULTILINE)
    assert sorted(documented) == sorted(rookery.__all__)
    assert all(hasattr(rookery, name) for name in rookery.__all__)


@pytest.mark.slow
def test_an_answer_has_verified_quotes_of_the_place(home: Path) -> None:
    answer = rookery.ask(GIFTS, "rookery:corvids")
    assert not answer.declined
    assert answer.score is not None
    assert answer.score > 0.5
    assert answer.quotes
    assert all(quote.url.startswith("file://") for quote in answer.quotes)
    assert all(rookery.verify(answer))


@pytest.mark.slow
def test_a_forged_quote_is_not_verified(home: Path) -> None:
    answer = rookery.ask(GIFTS, "rookery:corvids")
    forged = rookery.Quote.from_json(
        answer.quotes[0].to_json().replace(answer.quotes[0].text[:4], "Cats")
    )
    verdicts = rookery.verify(rookery.Answer(answer.text, (forged, *answer.quotes[1:])))
    assert not verdicts[0]
    assert all(verdicts[1:])


@pytest.mark.slow
def test_many_questions_give_an_episode_each_in_order(home: Path) -> None:
    questions: list[str | Question] = [
        GIFTS,
        Question("mine", "How many seeds does a nutcracker hide each autumn?"),
    ]
    episodes = list(rookery.ask_many(questions, "rookery:corvids"))
    assert [episode.question.id for episode in episodes] == ["1", "mine"]
    assert all(episode.answer and all(rookery.verify(episode.answer)) for episode in episodes)


def test_a_folder_is_read_with_progress(home: Path) -> None:
    (home / "notes").mkdir()
    (home / "notes" / "rooks.md").write_text("# Rooks\n\nRooks nest in tall elms near farms.\n")
    seen = []
    answer = rookery.ask(
        "Where do rooks nest?",
        home / "notes",
        progress=lambda done, total, name: seen.append((done, total)),
    )
    assert "tall elms" in answer.quotes[0].text
    assert seen[-1] == (1, 1)


@pytest.mark.slow
def test_nothing_is_written_to_the_terminal(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rookery.ask(GIFTS, "rookery:corvids")
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_an_unknown_method_and_a_missing_folder_are_told_in_words(home: Path) -> None:
    with pytest.raises(Failed, match="no such method: use one of extract"):
        rookery.ask(GIFTS, "rookery:corvids", method="guess")
    with pytest.raises(Failed, match="nowhere"):
        rookery.ask(GIFTS, str(home / "nowhere"))
    with pytest.raises(ValueError, match="the question is empty"):
        rookery.ask("  ", "rookery:corvids")
    with pytest.raises(Failed, match="needs a language model"):
        rookery.ask(GIFTS, "rookery:corvids", method="webglm")


@pytest.mark.slow
def test_a_library_is_searched_browsed_and_closed(home: Path) -> None:
    library = rookery.open_library("rookery:corvids")
    assert library.failures == ()
    hits = library.search("gifts", 3)
    assert len(hits) == 3
    assert library.fetch(hits[0].url).url == hits[0].url
    session = rookery.browse(GIFTS, library, max_actions=5)
    assert "Search" in next(session).text or session
    library.close()


def test_a_library_needs_search_and_fetch_only() -> None:
    class OnePage(Library):
        def search(self, query: str, k: int) -> list[Hit]:
            return []

        def fetch(self, url: str) -> Page:
            raise Failed(Failure(url, "not_found"))

    library = OnePage()
    assert library.failures == ()
    library.close()


@pytest.mark.slow
def test_extract_loads_neither_the_model_client_nor_the_command_line(home: Path) -> None:
    code = (
        "import sys, rookery\n"
        f"rookery.ask({GIFTS!r}, 'rookery:corvids')\n"
        "print(*sorted(m for m in sys.modules if m.startswith('rookery.') or '.' not in m))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert loaded.isdisjoint({"openai", "typer", "rich", "prompt_toolkit", "starlette", "torch"})
    own = {name for name in loaded if name.startswith("rookery.")}
    assert not {name for name in own if "remote_model" in name or "model_pool" in name}
    assert not {name for name in own if ".server." in name or ".cli" in name}
    assert len(own) < 70, sorted(own)


def test_the_front_doors_functions_stand_in_no_packages_place() -> None:
    code = (
        "import rookery.pages.page_reader as page_reader\n"
        "import rookery.browser.browser as browser\n"
        "import rookery\n"
        "assert page_reader.read_page and browser.run_browser\n"
        "assert callable(rookery.ask) and callable(rookery.browse)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("asked", ["Who wrote Hamlet?", "How long is the Danube?"])
def test_the_bundled_model_is_not_certain_of_what_the_documents_do_not_say(asked: str) -> None:
    answer = rookery.ask(asked, "rookery:corvids")
    assert answer.declined or answer.certain is False
    assert rookery.ask(asked, "rookery:corvids", settings=rookery.Settings(decline=0.5)).declined


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_the_bundled_model_quotes_the_blocks_that_answer() -> None:
    answer = rookery.ask(GIFTS, "rookery:corvids")
    assert "learned that a particular person feeds them" in " ".join(answer.quotes[0].text.split())
    assert answer.score is not None
    assert answer.score > 0.8


@pytest.mark.slow
def test_a_question_reaches_the_index_in_eight_calls(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, passed = SearchIndex.search, list[list[str]]()

    def note_frames(index: SearchIndex, query: str, k: int) -> list[Hit]:
        frames = traceback.extract_stack()
        passed.append([each.name for each in frames if str(HOUSE) in each.filename])
        return search(index, query, k)

    monkeypatch.setattr(SearchIndex, "search", note_frames)
    rookery.ask("Why do crows bring gifts?", "rookery:corvids")
    assert passed
    assert passed[0][0] == "ask"
    assert len(passed[0]) < 8, passed  # the index's own function is the last
