"""Several libraries as one: order, duplicates, failures, and who fetches."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.errors import Failed
from rookery.library.libraries import CombinedLibrary, open_places
from rookery.library.page_archive import PageArchive
from rookery.records import Failure, Hit, Library, Page


class Shelf(Library):
    """A library of known results; it fails where it has none to give."""

    def __init__(self, name: str, urls: Sequence[str] | None) -> None:
        self.name = name
        self.urls = urls

    @property
    def failures(self) -> Sequence[Failure]:
        return (Failure(self.name, "skipped"),) if self.urls and "odd" in self.urls else ()

    def search(self, query: str, k: int) -> list[Hit]:
        if self.urls is None:
            raise Failed(Failure(query, "search_quota", f"{self.name} is tired"))
        return [Hit(url, self.name) for url in self.urls[:k]]

    def fetch(self, url: str) -> Page:
        if url not in (self.urls or ()):
            raise Failed(Failure(url, "url_not_shown"))
        if url == "gone":
            raise Failed(Failure(url, "http_404"))
        return Page(url, self.name, f"{url} of {self.name}")


def test_results_are_taken_in_turn() -> None:
    both = CombinedLibrary(
        [Shelf("A", ["a1", "a2", "a3"]), Shelf("B", ["b1"]), Shelf("C", ["c1", "c2"])]
    )
    assert [hit.url for hit in both.search("q", 10)] == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert [hit.url for hit in both.search("q", 2)] == ["a1", "b1"]


def test_a_page_shown_by_two_comes_once_from_the_one_that_ranks_it_higher() -> None:
    both = CombinedLibrary([Shelf("A", ["a", "x"]), Shelf("B", ["x", "b"])])
    assert [(hit.url, hit.title) for hit in both.search("q", 9)] == [
        ("a", "A"),
        ("x", "B"),
        ("b", "B"),
    ]
    assert both.fetch("x").title == "B"
    assert both.fetch("a").title == "A"


def test_two_passages_of_one_page_from_one_library_both_stay() -> None:
    both = CombinedLibrary([Shelf("A", ["a", "a"]), Shelf("B", ["a", "b"])])
    assert [(hit.url, hit.title) for hit in both.search("q", 9)] == [
        ("a", "A"),
        ("a", "A"),
        ("b", "B"),
    ]


def test_a_text_that_two_libraries_have_comes_once() -> None:
    class Copies(Shelf):
        def search(self, query: str, k: int) -> list[Hit]:
            return [Hit(hit.url, "", digest=hit.url[-1]) for hit in super().search(query, k)]

    both = CombinedLibrary([Copies("A", ["a1", "a2"]), Copies("B", ["b1", "b3"])])
    assert [hit.url for hit in both.search("q", 9)] == ["a1", "a2", "b3"]


def test_a_failed_library_is_recorded_and_the_others_answer() -> None:
    both = CombinedLibrary([Shelf("A", None), Shelf("B", ["b", "odd"])])
    assert [hit.url for hit in both.search("q", 9)] == ["b", "odd"]
    assert [(failure.what, failure.outcome) for failure in both.failures] == [
        ("q", "search_quota"),
        ("B", "skipped"),
    ]


def test_finding_nothing_is_no_failure_and_failing_everywhere_is() -> None:
    assert CombinedLibrary([Shelf("A", []), Shelf("B", [])]).search("q", 5) == []
    with pytest.raises(Failed) as caught:
        CombinedLibrary([Shelf("A", None), Shelf("B", None)]).search("q", 5)
    assert caught.value.failure.outcome == "search_failed"
    assert "A is tired" in caught.value.failure.detail
    assert "B is tired" in caught.value.failure.detail
    with pytest.raises(Failed, match="search_quota"):
        CombinedLibrary([Shelf("A", None)]).search("q", 5)


def test_an_address_that_no_search_showed_is_asked_of_each() -> None:
    both = CombinedLibrary([Shelf("A", ["a"]), Shelf("B", ["b", "gone"])])
    assert both.fetch("b").title == "B"
    with pytest.raises(Failed, match="url_not_shown"):
        both.fetch("c")
    with pytest.raises(Failed, match="http_404"):
        both.fetch("gone")


def test_closing_it_closes_what_can_be_closed() -> None:
    closed = []

    class Closing(Shelf):
        def close(self) -> None:
            closed.append(self.name)

    CombinedLibrary([Closing("A", []), Shelf("B", []), Closing("C", [])]).close()
    assert closed == ["A", "C"]


def test_no_library_at_all_is_wrong_use() -> None:
    with pytest.raises(ValueError, match="at least one"):
        CombinedLibrary([])


def refuse_network() -> NoReturn:
    raise AssertionError("nothing is fetched")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux's list of open files")
def test_what_was_opened_before_a_place_that_cannot_be_is_closed(tmp_path: Path) -> None:
    (tmp_path / "crows.txt").write_text("Crows use tools.")
    places = [str(tmp_path / "crows.txt"), str(tmp_path / "missing.warc")]
    with PageArchive(tmp_path / "archive.sqlite") as archive:
        with pytest.raises(Failed, match="not_found") as caught:  # which keeps what was opened
            open_places(places, archive, refuse_network, tmp_path / "cache")
        opened = {os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()}
        assert not [place for place in opened if place.startswith(str(tmp_path / "cache"))]
    assert caught.value.failure.what == places[1]


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), min_size=1, max_size=4))
def test_every_page_appears_once_and_no_later_than_its_fair_turn(lists: list[list[str]]) -> None:
    shelves = [Shelf(str(number), urls) for number, urls in enumerate(lists)]
    urls = [hit.url for hit in CombinedLibrary(shelves).search("q", 100)]
    assert sorted(urls) == sorted({url for each in lists for url in each})
    for each in lists:
        for rank, url in enumerate(each):
            assert urls.index(url) < (rank + 1) * len(lists)
