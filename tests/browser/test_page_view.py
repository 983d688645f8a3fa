"""Windows over whole pages: nothing is lost, nothing is shown twice, every way leads back."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.browser.browser import read_typed_text
from rookery.browser.page_view import PageView, get_domain, is_subdomain
from rookery.library.libraries import get_bundled_folder
from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text, neutralize_text
from rookery.records import Block, Link, Mark, Page

FILES = sorted(path for path in get_bundled_folder().rglob("*.*html") if path.is_file())


def view(path: Path, size: int, full: bool = False) -> PageView:
    return PageView(read_page(path.read_bytes(), path.as_uri()), size, (), full)


def windows(view: PageView) -> list[str]:
    tops = [view.top]
    while (below := view.window_below(tops[-1])) != tops[-1]:
        tops.append(below)
    return [view.window_at(top).text for top in tops]


def tight(text: str) -> str:
    """Words alone: what a window puts in is taken out, and so are white space and bars."""
    *_, words = read_typed_text(text)
    return re.sub(r"[\s|^_·]", "", words)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize(("size", "full"), [(300, False), (2000, True)])
def test_scrolling_down_shows_each_word_once(path: Path, size: int, full: bool) -> None:
    seen = view(path, size, full)
    shown = windows(seen)
    assert tight("\n".join(shown)) == tight(neutralize_text(join_visible_text(seen.page, full)))
    assert all(text.strip() for text in shown)


@pytest.mark.parametrize("path", FILES[:12], ids=lambda path: path.name)
def test_scrolling_up_from_anywhere_comes_to_the_top_and_skips_nothing(path: Path) -> None:
    seen = view(path, 400)
    for place in range(seen.top, seen.bottom, 311):
        top = seen.window_around(place)
        assert top <= place
        for _ in range(200):
            above = seen.window_above(top)
            if above == top:
                break
            assert above < top <= seen.window_at(seen.window_at(above).end).start
            top = above
        assert top == seen.top


@given(st.text("ab \n", min_size=1, max_size=1500), st.integers(100, 300))
def test_a_long_block_is_cut_between_words_and_nothing_is_lost(text: str, size: int) -> None:
    page = Page("https://a.org/", "A", text, (Block(0, len(text), "paragraph"),))
    shown = windows(PageView(page, size, ()))
    assert "".join("".join(shown).split()) == "".join(text.split())
    assert all(len(part) <= size for part in shown)


@pytest.mark.parametrize(
    ("text", "size", "cuts"),
    [
        ("one two three four", 10, [0, 8, 18]),  # whole words, white space with the word before it
        ("one two  three", 9, [0, 9, 14]),
        ("oneword two", 7, [0, 7, 11]),  # a word that ends at the limit is not cut
        ("a" * 450, 300, [0, 300, 450]),  # one longer than LONGEST_WORD is cut at the limit
        ("b " + "a" * 250, 100, [0, 2, 102, 202, 252]),
        ("b " + "a" * 150 + " c", 140, [0, 2, 142, 154]),
    ],
)
def test_a_long_block_is_cut_here(text: str, size: int, cuts: list[int]) -> None:
    view = PageView(Page("https://a.org", "A", text, (Block(0, len(text), "paragraph"),)), size, ())
    found = [0]
    while found[-1] < len(text):
        found.append(view.window_at(found[-1]).end)
    assert found == cuts


def test_a_place_before_the_first_block_and_in_it_is_shown_from_its_start() -> None:
    text = "  " + "word " * 80
    view = PageView(Page("https://a.org", "A", text, (Block(2, len(text), "paragraph"),)), 100, ())
    assert [view.window_around(place) for place in (0, 2, 40)] == [0, 2, 2]
    assert view.window_around(200) == 172  # a quarter of a window above, where a word begins


def test_a_window_does_not_begin_with_a_combining_mark() -> None:
    text = "e\u0301" * 400
    page = Page("https://a.org/", "A", text, (Block(0, len(text), "paragraph"),))
    shown = windows(PageView(page, 101, ()))
    assert len(shown) > 1
    assert all(part.startswith("e") for part in shown)
    assert "".join(shown) == text


def test_a_link_over_several_blocks_is_marked_in_each_of_them() -> None:
    blocks = (Block(0, 3, "paragraph"), Block(5, 8, "paragraph"))
    page = Page("https://a.org/", "A", "one\n\ntwo", blocks, (Link(1, 7, "https://b.org/"),))
    assert PageView(page, 100, ()).window_at(0).text == "o【0†ne†b.org】\n\n【0†tw†b.org】o"


def test_links_within_links_and_marks_out_of_place_break_no_marker() -> None:
    links = (
        Link(0, 9, "https://b.org/"),
        Link(2, 5, "https://c.org/"),
        Link(9, 9, "https://d.org/"),
    )
    marks = (
        Mark(1, 3, "sup"),
        Mark(4, 4, "image", "x】y"),
        Mark(9, 9, "image"),
        Mark(8, 20, "ruby"),
    )
    page = Page("https://a.org/", "A", "some text", (Block(0, 9, "paragraph"),), links, marks)
    shown = PageView(page, 100, ()).window_at(0).text
    assert shown == "【0†s^ome [Image: x〗y] text†b.org】 【2†[Image]†d.org】"


def test_the_domain_is_the_host_that_is_asked() -> None:
    assert [
        get_domain(url)
        for url in (
            "https://WWW.A.org:8080/x", "http://reddit.com@b.org/", "https://[::1]:80/", "file:///a",
            "https://a.org?x", "https://a.org#x", "", "nothing",
        )
    ] == ["www.a.org", "b.org", "[::1]", "", "a.org", "a.org", "", ""]  # fmt: skip


def test_a_blocked_domain_blocks_what_is_below_it_and_nothing_else() -> None:
    names = ("reddit.com",)
    for domain in ("reddit.com", "old.reddit.com", "reddit.com."):
        assert is_subdomain(domain, names)
    for domain in ("notreddit.com", "reddit.com.evil.org", "reddit.org", ""):
        assert not is_subdomain(domain, names)
    assert is_subdomain("old.reddit.com", (".reddit.com.",))
    for nothing in ("", ".", ".."):
        for domain in ("reddit.com", "a", ""):
            assert not is_subdomain(domain, (nothing,)), "it would block everything"
