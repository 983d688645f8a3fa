"""Stack Exchange's questions as threads: words without markup, and worded refusals."""

import json
import lzma
from pathlib import Path

import pytest

from recipes.vote_comparisons import ForumPost, ForumThread, read_forum_threads
from rookery.errors import Failed

ASKED = {
    "site": "beer.stackexchange.com",
    "id": "5",
    "title": "How warm?",
    "tags": "<serving>",
    "answers": [
        {
            "id": "6",
            "score": -2,
            "created": "2014-01-21",
            "body_html": "<p>Cool &amp; <b>dark</b>.</p><ul><li>Not <a>cold</a></li></ul>",
        },
        {"id": "7", "score": 3, "created": "2014-01-22", "body_html": ""},
    ],
}


def test_posts_are_read_without_markup(tmp_path: Path) -> None:
    place = tmp_path / "beer.jsonl.xz"
    with lzma.open(place, "wt") as file:
        file.write(json.dumps(ASKED) + "\n")
    [found] = read_forum_threads(place)
    first, second = found.answers
    assert first.text.split() == ["Cool", "&", "dark.", "Not", "cold"]
    assert (first.votes, first.posted) == (-2, "2014-01-21")
    assert second == ForumPost("", 3, "2014-01-22")
    asked = ForumThread("beer.stackexchange.com/5", "How warm?", found.answers, ASKED["site"])  # type: ignore[arg-type]
    assert found == asked


def test_a_line_that_is_no_question_is_named(tmp_path: Path) -> None:
    place = tmp_path / "beer.jsonl"
    wrong = {**ASKED, "answers": [{"score": 1, "created": "yesterday", "body_html": "x"}]}
    for bad in ("{}", json.dumps(wrong), "["):
        place.write_text(f"{json.dumps(ASKED)}\n{bad}\n")
        with pytest.raises(Failed) as failed:
            list(read_forum_threads(place))
        assert failed.value.failure.outcome == "bad_line"
        assert failed.value.failure.what.endswith("line 2")


@pytest.mark.parametrize("data", [None, b"no archive"])
def test_a_file_that_cannot_be_read_is_not_found(tmp_path: Path, data: bytes | None) -> None:
    place = tmp_path / "beer.jsonl.xz"
    if data is not None:
        place.write_bytes(data)
    with pytest.raises(Failed) as failed:
        list(read_forum_threads(place))
    assert failed.value.failure.outcome == "not_found"
