"""The Python entry: `import rookery` and what it offers, as docs/python.md documents it."""

import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rookery
from rookery import (
    Answer,
    Claim,
    Failed,
    Failure,
    Hit,
    Library,
    ModelSettings,
    Page,
    Question,
    Quote,
    Settings,
)
from rookery.library.search_index import SearchIndex
from rookery.settings import FileSelection, describe_in_python

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


def test_an_opened_library_is_closed_by_with(home: Path) -> None:
    (home / "notes").mkdir()
    (home / "notes" / "rooks.md").write_text("# Rooks\n\nRooks nest in tall elms near farms.\n")
    with rookery.open_library(home / "notes", settings=Settings(ranker="words")) as library:
        assert len(library.search("rooks", 3)) == 1
        page = library.fetch((home / "notes" / "rooks.md").as_uri())
    assert "tall elms" in page.text
    with pytest.raises(Exception, match="closed"):
        library.fetch((home / "notes" / "rooks.md").as_uri())


def test_dir_lists_the_public_names() -> None:
    assert dir(rookery) == sorted(rookery.__all__)


WRONG_TYPES: dict[str, Callable[[Any], object]] = {
    "question": lambda wrong: rookery.ask(wrong, "rookery:corvids"),
    "places": lambda wrong: rookery.ask(GIFTS, wrong),
    "method": lambda wrong: rookery.ask(GIFTS, "rookery:corvids", method=wrong),
    "settings": lambda wrong: rookery.ask(GIFTS, "rookery:corvids", settings=wrong),
    "progress": lambda wrong: rookery.ask(GIFTS, "rookery:corvids", progress=wrong),
    "policy": lambda wrong: rookery.ask(GIFTS, "rookery:corvids", policy=wrong),
    "reward": lambda wrong: rookery.ask(GIFTS, "rookery:corvids", reward=wrong),
    "questions": lambda wrong: next(rookery.ask_many(wrong, "rookery:corvids")),
    "library": lambda wrong: next(rookery.browse(GIFTS, wrong)),
    "max_actions": lambda wrong: next(rookery.browse(GIFTS, OnePage(), max_actions=wrong)),
    "answer": lambda wrong: rookery.verify(wrong),
    "find_page": lambda wrong: rookery.verify(Answer("a"), wrong),
    "line": lambda wrong: Answer.from_json(wrong),
    "quotes": lambda wrong: Settings(quotes=wrong),
    "offline": lambda wrong: Settings(offline=wrong),
    "models": lambda wrong: Settings(models=wrong),
    "samples": lambda wrong: ModelSettings(samples=wrong),
    "glob": lambda wrong: FileSelection(glob=wrong),
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_a_wrong_type_is_a_type_error_that_names_the_argument(name: str, home: Path) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be "):
        WRONG_TYPES[name](3.5)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Settings("notes"), "places"),  # type: ignore[arg-type]
        (lambda: Settings(quotes=True), "quotes"),
        (lambda: Settings(quotes="2"), "quotes"),  # type: ignore[arg-type]
        (lambda: rookery.open_library(progress=1), "progress"),  # type: ignore[arg-type]
        (lambda: next(rookery.ask_many(GIFTS, "rookery:corvids")), "questions"),
    ],
)
def test_what_is_nearly_right_is_named_too(make: Callable[[], object], name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be "):
        make()


def test_a_list_takes_the_place_of_a_tuple() -> None:
    settings = Settings(["notes"])  # type: ignore[arg-type]
    assert settings == Settings(("notes",))
    assert hash(settings) == hash(Settings(("notes",)))


def test_settings_have_the_ranges_of_the_command_line() -> None:
    options = msgspec.toml.decode((HOUSE / "shell" / "settings_options.toml").read_bytes())
    outside = [
        (name, bounds[end] + step)
        for name, bounds in options.items()
        for end, step in (("min", -1), ("max", 1))
        if end in bounds
    ]
    assert len(outside) > 10
    for name, value in outside:
        owner = Settings if name in Settings.__struct_fields__ else ModelSettings
        with pytest.raises(ValueError, match=f"^{name} must "):
            owner(**{name: value})


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("allow it (--allow-private)", "allow it (Settings(private=True))"),
        ("use --model, or --ranker DIR", "use ModelSettings.model, or Settings(ranker=DIR)"),
        ("allow more (--max-tokens)", "allow more (ModelSettings.max_tokens)"),
        ("set --no-chat", "set ModelSettings(chat=False)"),
        ("use -n NUMBER", "use ModelSettings(samples=NUMBER)"),
        ("name a folder with --in", "name a folder with Settings.places"),
        ("links: --follow-links reads it", "links: FileSelection(follow_links=True) reads it"),
        # Commands of the terminal, options of others and names of files stay.
        ("run rookery ask --in DIR; or --offline", "run rookery ask --in DIR; or {offline}"),
        ("start vLLM with --structured-outputs", "start vLLM with --structured-outputs"),
        ("my--model was read", "my--model was read"),
    ],
)
def test_messages_name_settings_in_python(detail: str, expected: str) -> None:
    told = describe_in_python(Failure("what --in means", "x", detail))
    assert told.detail == expected.replace("{offline}", "Settings(offline=True)")
    assert told.what == "what --in means"


@pytest.mark.slow
def test_a_private_address_is_allowed_by_the_setting_that_the_error_names(home: Path) -> None:
    site = "http://127.0.0.1:9/birds/"
    with pytest.raises(Failed, match=re.escape("(Settings(private=True))")) as refused:
        rookery.ask(GIFTS, site)
    assert "--" not in str(refused.value)
    [episode] = rookery.ask_many([GIFTS], site)
    assert "Settings(private=True)" in episode.failures[0].detail
    with pytest.raises(Failed, match="Settings") as refused, rookery.open_library(site) as library:
        library.search("gifts", 1)
    with pytest.raises(Failed) as refused:
        rookery.ask(GIFTS, site, settings=Settings(private=True))
    assert "private" not in str(refused.value)


def test_json_errors_are_value_errors_that_name_the_record() -> None:
    for line in ('{"text": 3}', '{"text": "a", "txt": 1}', "{", b"\xff", "[" * 100_000):
        with pytest.raises(ValueError, match=r"^it is no Answer in JSON: ") as refused:
            Answer.from_json(line)
        assert not isinstance(refused.value, msgspec.MsgspecError)


ROOKS = Page("https://birds.example/rooks", "Rooks [1]", "Rooks nest *high*. Jays do not.")
TWO_CLAIMS = Answer(
    "Rooks nest *high*. Jays do not, perhaps.",
    (ROOKS.quote(0, 18), Quote("file:///tmp/a.md", "A\x1b", "d" * 32, 0, 4, "Jays\ndo")),
    (Claim(0, 18, (0,)), Claim(19, 40, (0, 1), (1,))),
)


def test_print_shows_an_answer_with_numbers_and_sources() -> None:
    assert str(TWO_CLAIMS) == (
        "Rooks nest *high*.[1] Jays do not, perhaps.[1][2?]\n\n"
        "[1] “Rooks nest *high*.” · Rooks [1] · https://birds.example/rooks\n\n"
        "[2] “Jays do” · A\ufffd · file:///tmp/a.md · not checked: rookery.verify does it"
    )
    possible = msgspec.structs.replace(TWO_CLAIMS, stored_certain=False)
    assert str(possible).startswith("A possible answer, to be checked:\n\nRooks nest")
    unchecked = msgspec.structs.replace(TWO_CLAIMS, citations="unchecked")
    assert str(unchecked).startswith("Unchecked: ")


def test_markdown_reads_as_the_same_characters() -> None:
    assert TWO_CLAIMS.to_markdown() == (
        "Rooks nest \\*high\\*.[1] Jays do not, perhaps.[1][2?]\n\n"
        "[1] “Rooks nest \\*high\\*.” · Rooks \\[1\\] · <https://birds.example/rooks>\n\n"
        "[2] “Jays do” · A\ufffd · file:///tmp/a.md · not checked: rookery.verify does it\n"
    )
    cunning = Quote("https://x.example/> <script>", "t", "d" * 32, 0, 1, "x")
    assert Answer("x", (cunning,)).to_markdown().count("<") == 1


@pytest.mark.slow
def test_a_row_is_printed_with_its_columns(home: Path, tmp_path: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text("name,price,year\nHoney,5 pounds,2024\nWax,3 pounds,2025\n")
    [episode] = rookery.ask_many(["What is the price of wax?"], prices)
    answer = rookery.ask("What is the price of wax?", prices)
    for printed in (str(answer), str(episode.answer)):
        assert "“Wax 3 pounds 2025”" in printed
        assert "columns: name | price | year · file:" in printed
    copy = Answer.from_json(answer.to_json())
    assert "columns" not in str(copy)
    assert copy == answer


def test_a_quote_made_by_hand_is_a_claim_until_it_is_verified(home: Path) -> None:
    by_hand = Quote(ROOKS.url, ROOKS.title, ROOKS.digest, 0, 18, "Rooks nest *high*.")
    assert by_hand == ROOKS.quote(0, 18)
    assert "claims" in (Quote.__doc__ or "")
    [verdict] = rookery.verify(Answer("a", (by_hand,)))
    assert not verdict
    assert "stored" in verdict.detail
    [verdict] = rookery.verify(Answer("a", (by_hand,)), lambda quote: ROOKS)
    assert verdict
    forged = msgspec.structs.replace(by_hand, text="Rooks nest *lows*.")
    [verdict] = rookery.verify(Answer("a", (forged,)), lambda quote: ROOKS)
    assert not verdict


class OnePage(Library):
    """A library of nothing."""

    def search(self, query: str, k: int) -> list[Hit]:
        return []

    def fetch(self, url: str) -> Page:
        raise Failed(Failure(url, "not_found"))


def test_a_library_needs_search_and_fetch_only() -> None:
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
    assert len(own) < 71, sorted(own)


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
