"""An own object with `search` and `fetch` is a place: given to functions, or named to commands."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import rookery
from rookery.library.own_library import load_own_library
from rookery.pages.page_reader import read_page

NOTES = {
    "note:1": "# Ferry\n\nThe last ferry leaves the island at 21:40 on weekdays.",
    "note:2": "# Bakery\n\nThe bakery opens at six.",
}
MODULE = """import json
from tests_own_notes import Notes

TEXTS = {"a": 1}
notes = Notes()


def make_notes():
    return Notes()


def fail():
    raise ValueError("no connection")


class Broken(Notes):
    def search(self, query, k):
        return query.nothing


class Unread(Notes):
    def search(self, query, k):
        return json.loads("{")


class Untyped(Notes):
    def fetch(self, url):
        return "a text"
"""


class Notes(rookery.Library):
    """Notes by their words."""

    closed = False

    def search(self, query: str, k: int) -> Sequence[rookery.Hit]:
        words = set(query.lower().split())
        count_by_url = {url: len(words & set(NOTES[url].lower().split())) for url in NOTES}
        best = sorted(NOTES, key=lambda url: -count_by_url[url])
        return [rookery.Hit(url, url) for url in best if count_by_url[url]][:k]

    def fetch(self, url: str) -> rookery.Page:
        return read_page(NOTES[url].encode(), url, "text/markdown")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "tests_own_notes", sys.modules[__name__])
    place = tmp_path / "own_notes.py"
    place.write_text(MODULE)
    yield place
    sys.modules.pop("own_notes", None)


def test_an_own_library_is_asked_and_its_quotes_are_verified_from_the_archive() -> None:
    library = Notes()
    question = "When does the last ferry leave the island?"
    answer = rookery.ask(question, library)
    assert [quote.text for quote in answer.quotes] == [
        "The last ferry leaves the island at 21:40 on weekdays."
    ]
    assert all(rookery.verify(answer))
    [episode] = rookery.ask_many([question], library)
    assert episode.answer is not None
    assert episode.answer.quotes == answer.quotes
    assert not library.closed


def test_it_is_searched_beside_other_places() -> None:
    library = rookery.open_library("rookery:corvids", Notes())
    assert {hit.url for hit in library.search("ferry", 5)} >= {"note:1"}
    assert any("corvids" in hit.url or "/" in hit.url for hit in library.search("crow", 5))
    library.close()


def test_what_is_neither_a_path_nor_a_library_is_refused() -> None:
    with pytest.raises(TypeError, match="must be paths or objects with search and fetch, not 5"):
        rookery.ask("When does the ferry leave?", 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["Notes", "notes", "make_notes"])
def test_a_class_an_object_or_a_function_is_named(name: str, module: Path) -> None:
    assert load_own_library(f"python:own_notes.{name}").search("ferry", 3)
    assert rookery.ask("When does the last ferry leave?", f"python:own_notes.{name}").quotes


@pytest.mark.parametrize(
    ("name", "outcome", "words"),
    [
        ("own_notes.TEXTS", "not_usable", "a dict has no search(query, k) and fetch(url)"),
        ("own_notes.nothing", "not_found", "own_notes.py has no nothing"),
        ("own_notes.fail", "not_usable", "ValueError: no connection (*/own_notes.py, line 13)"),
        ("no_such_module.Notes", "not_found", "no module no_such_module in "),
        ("own_notes", "not_found", "write python:module.name"),
        (
            "missing_import.x",
            "not_usable",
            "No module named 'nowhere' (*/missing_import.py, line 1)",
        ),
        ("misspelt.x", "not_usable", "SyntaxError: * (*/misspelt.py, line 2)"),
    ],
)
def test_a_mistake_is_told_with_its_place(
    name: str, outcome: str, words: str, module: Path
) -> None:
    module.with_name("missing_import.py").write_text("import nowhere\n")
    module.with_name("misspelt.py").write_text("\ndef (\n")
    with pytest.raises(rookery.Failed) as raised:
        load_own_library(f"python:{name}")
    assert raised.value.failure.outcome == outcome
    rest = raised.value.failure.detail
    for part in words.split("*"):
        assert part in rest
        rest = rest.partition(part)[2]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Broken", "AttributeError: 'str' object has no attribute 'nothing'"),
        ("Unread", "double quotes: line 1 column 2 (char 1) ("),
        ("Untyped", "Untyped.fetch gave a str, and not a rookery.Page"),
    ],
)
def test_what_it_raises_names_file_and_line(name: str, words: str, module: Path) -> None:
    [episode] = rookery.ask_many(["When does the last ferry leave?"], f"python:own_notes.{name}")
    assert episode.answer is None or episode.answer.declined
    [failure, *_] = [each for each in episode.failures if each.outcome == "library_failed"]
    assert words in failure.detail
    line = {"Broken": 18, "Unread": 23}.get(name)
    assert line is None or f"own_notes.py, line {line})" in failure.detail
