"""Parts of pages named by a digest: found again whatever the markup, and only where they stand."""

import hashlib
import re
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recipes.page_spans import SpanName, find_spans, name_span

TEXT = "Rooks nest early.\nThey don't wait (in March) for leaves; rooks nest early. Jays wait: 3."


def find(text: str, *parts: str) -> list[str | None]:
    places = find_spans(text, [name_span(part) for part in parts])
    return [text[slice(*place)] if place else None for place in places]


def test_the_name_of_a_part_is_its_words_and_the_digest_of_their_letters() -> None:
    digest = hashlib.sha256(b"theydontwait").hexdigest()[:16]
    assert name_span("They don't wait") == SpanName(4, digest)
    with pytest.raises(ValueError, match="holds no word"):
        name_span(" ... ")


def test_parts_are_found_whatever_their_case_punctuation_and_white_space() -> None:
    assert find(TEXT, "THEY don\u2019t  wait \u2014 in\nmarch", "jays wait 3") == [
        "They don't wait (in March)",
        "Jays wait: 3.",
    ]
    assert find("An o\ufb03ce in \uff32\uff4f\uff4d\uff45", "office in Rome") == [
        "o\ufb03ce in \uff32\uff4f\uff4d\uff45"
    ]


def test_of_a_part_that_stands_twice_the_first_place_is_found() -> None:
    assert find_spans(TEXT, [name_span("rooks nest early")] * 2) == [(0, 17)] * 2


@pytest.mark.parametrize(
    "part",
    ["rooks nest late", "Rooks nest", "rooks nest earlythey", "early They don't wait in March 3"],
)
def test_what_does_not_stand_there_is_not_found(part: str) -> None:
    found = find(TEXT, part)
    assert found == (["Rooks nest"] if part == "Rooks nest" else [None])
    assert find("", part) == [None]


WORDS = st.lists(
    st.sampled_from(["rook", "Jay", "3", "\u00c4ste", "o\ufb03ce", "\u4e2d\u6587", "e-mail"]),
    min_size=1,
)


@given(WORDS, st.data())
@example(["e-mail"] * 3, None)
def test_every_run_of_words_is_found_where_it_first_stands(
    words: list[str], data: st.DataObject | None
) -> None:
    text = ", ".join(words)
    first = data.draw(st.integers(0, len(words) - 1)) if data else 1
    last = data.draw(st.integers(first, len(words) - 1)) if data else 2
    run = words[first : last + 1]
    [place] = find_spans(text, [name_span(" ".join(run))])
    assert place is not None
    assert re.findall(r"[^\W_]+", text[slice(*place)]) == re.findall(r"[^\W_]+", " ".join(run))
    assert place[0] <= text.index(", ".join(run))


def test_a_long_page_is_read_once_for_each_length() -> None:
    text = " ".join(f"word{number}" for number in range(20_000))
    parts = [
        " ".join(f"word{n}" for n in range(start, start + 40)) for start in range(0, 19_000, 190)
    ]
    before = process_time()
    assert find(text, *parts) == parts
    assert process_time() - before < 1
