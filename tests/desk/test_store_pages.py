"""Pages that are kept: once each, as they were."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rookery.desk.store import Store, find_pages_by_digest, load_stored_page, store_page
from rookery.errors import Failed
from rookery.records import Block, Link, Page

CROWS = Page(
    "https://birds.example/crows",
    "Crows",
    "Crows bring gifts. \U0001f426 “Why?”\x00\n",
    (Block(0, 18, "paragraph"),),
    (Link(0, 5, "https://birds.example/"),),
    fetched="2026-01-02T03:04:05Z",
)
LATER = Page(CROWS.url, CROWS.title, CROWS.text, fetched="2026-05-01T00:00:00Z")


def test_a_page_is_kept_once_and_comes_back_as_it_was(store: Store) -> None:
    with store.begin_write() as connection:
        keys = [store_page(connection, one) for one in (CROWS, CROWS, LATER)]
    assert keys[0] == keys[1] != keys[2]
    assert (load_stored_page(store, keys[0]), load_stored_page(store, keys[2])) == (CROWS, LATER)
    with pytest.raises(Failed, match="no_page"):
        load_stored_page(store, "nothing")


def test_pages_are_found_by_their_text(store: Store) -> None:
    other = Page("https://birds.example/jays", "Jays", "Jays hide acorns.")
    with store.begin_write() as connection:
        for one in (CROWS, LATER, other):
            store_page(connection, one)
    found = find_pages_by_digest(store, CROWS.digest)
    assert sorted(one.fetched for one in found) == [CROWS.fetched, LATER.fetched]
    assert find_pages_by_digest(store, other.digest) == [other]
    assert find_pages_by_digest(store, "nothing") == []


def test_two_who_keep_a_page_at_once_keep_it_once(store: Store) -> None:
    def put_page() -> str:
        with store.begin_write() as connection:
            return store_page(connection, CROWS)

    with ThreadPoolExecutor(1) as other:
        with store.begin_write() as connection:
            ours = store_page(connection, CROWS)
            theirs = other.submit(put_page)
            time.sleep(0.2)  # the other comes to where it must wait
        assert theirs.result() == ours
    assert len(find_pages_by_digest(store, CROWS.digest)) == 1
