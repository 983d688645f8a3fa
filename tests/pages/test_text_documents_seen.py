"""Subtitles, data and Markdown as their reader sees them."""

import pytest

from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
from rookery.records import Page

SRT = """\ufeff1
00:00:01,000 --> 00:00:04,200
{\\an8}The bell was cast

2
00:00:04,200 --> 00:00:07,900  X1:1 X2:2
<i>behind the inn.</i> So &amp; so
it cracked in a < b

3
00:01:07,900 --> 00:01:11,000
- Why?
- Who knows.
"""


def read(text: str, name: str) -> Page:
    return read_page(text.encode(), f"file:///{name}")


def test_cues_are_joined_into_sentences_under_their_times() -> None:
    page = read(SRT, "bell.srt")
    assert [page.text[block.start : block.end] for block in page.iter_article()] == [
        "The bell was cast behind the inn. So & so it cracked in a < b", "- Why?", "- Who knows.",
    ]  # fmt: skip
    times = [(page.text[mark.start : mark.end], mark.value) for mark in page.marks]
    assert times[0] == ("The bell was cast", "00:00:01")
    assert times[-1] == ("- Who knows.", "00:01:07")
    assert read(SRT.replace("\n", "\r\n"), "bell.srt").text == page.text


def test_remarks_of_subtitles_are_hidden_and_lines_that_roll_are_said_once() -> None:
    vtt = (
        "WEBVTT\nKind: captions\n\nNOTE for the editor\n\nSTYLE\n::cue { color: red }\n\n"
        "a\n00:01.000 --> 00:02.000 align:start\n<v Ann>it<00:01.500><c> was dug</c>\n\n"
        "00:02.000 --> 00:03.000\nit was dug\nby two<00:02.500><c> brothers</c>\n"
    )
    page = read(vtt, "well.vtt")
    assert join_visible_text(page) == "it was dug by two brothers"
    assert "for the editor" in page.text
    twice = "WEBVTT\n\n00:01.000 --> 00:02.000\nHey you\n\n00:02.000 --> 00:03.000\nHey you\n"
    assert join_visible_text(read(twice, "song.vtt")) == "Hey you Hey you"


def test_cues_that_are_never_shown_are_hidden() -> None:
    vtt = (
        "WEBVTT\n\nNOTE see 00:03.000 --> 00:04.000\nA remark\n\n00:05.000 --> 00:05.000\nNothing"
        "\n\n00:05.000 --> 00:05.0001\nSomething\n"
    )
    assert join_visible_text(read(vtt, "well.vtt")) == "Something"


def test_colors_of_a_log_are_no_text() -> None:
    log = "2026-03-01 10:00:00 INFO The \x1b[31mwell\x1b[0m is dry\n"
    assert read(log, "well.log").text == "2026-03-01 10:00:00 INFO The well is dry\n"


def test_cues_of_scripts_without_spaces_are_joined_without() -> None:
    srt = "1\n00:00:01,000 --> 00:00:02,000\n茶馆在\n河边。\n"
    assert join_visible_text(read(srt, "tea.srt")) == "茶馆在河边。"


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a"])
def test_strings_of_data_are_shown_as_they_are_read(name: str) -> None:
    source = (
        r'{"k": "B\u00e4ckerei \ud83d\ude00\nsays \"so\" in C:\\new\t.", "j\u00fc": [1, "\ud83d"]}'
    )
    seen = join_visible_text(read(source, name))
    assert '{"k": "Bäckerei \U0001f600\nsays "so" in C:\\new' in seen
    assert '"jü": [1, "\ufffd"]' in seen


def test_data_with_errors_are_kept() -> None:
    source = '{"a": "\\u12", "b": "\\q",\n "c": "\\u00e4",}'
    assert read(source, "a.json").text == source.replace("\\u00e4", "ä")


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("It costs ~~500~~ 300 crowns.", "It costs 300 crowns."),
        ("See[^1].\n\n[^1]: Sunday\n", "See[^1].\n\n[^1]: Sunday"),
        ("See [it].\n\n[it]: /a 'T'\n\n<!-- for sale -->\n", "See it."),
        ("---\nNothing is for sale.\n\n---\n\nSo it is.", "Nothing is for sale.\n\nSo it is."),
        ("---\n# ours\ntitle: T\n---\n\nSo it is.", "So it is."),
        ('+++\ntitle = "T"\n+++\n\nSo it is.', "So it is."),
    ],
)
def test_markdown_is_read_as_it_renders(source: str, seen: str) -> None:
    assert join_visible_text(read(source, "a.md")) == seen


@pytest.mark.parametrize(
    "html",
    [
        '<span style="text-decoration: line-through">500</span>',
        '<span style="text-decoration-line:underline line-through">500</span>',
        '<b class="old">500</b>',
        "<del>500</del>",
        "<s>500</s>",
        "<strike>500</strike>",
    ],
)
def test_what_is_struck_out_is_hidden(html: str) -> None:
    style = "<style>.old{text-decoration:2px line-through red}</style>"
    page = read(f"<!doctype html>{style}<p>It costs {html} <ins>300</ins> crowns.", "a.html")
    assert join_visible_text(page, full=True) == "It costs 300 crowns."
    assert "500" in page.text


@pytest.mark.parametrize(
    "style",
    [
        ".old{text-decoration:underline}",
        ".old:hover{text-decoration:line-through}",
        ".old{text-decoration:line-through} b.old{text-decoration:none}",
    ],
)
def test_what_is_not_struck_out_is_shown(style: str) -> None:
    page = read(f"<!doctype html><style>{style}</style><p>It costs <b class=old>500</b>.", "a.html")
    assert join_visible_text(page) == "It costs 500."
