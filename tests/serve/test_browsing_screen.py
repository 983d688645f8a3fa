"""The text browser's screen: whatever a page holds, every line fits and commands no terminal."""

import re
import time

import pytest
from desks import Person
from hypothesis import example, given, settings
from hypothesis import strategies as st
from little import Little, html
from prompt_toolkit.utils import get_cwidth

from rookery.browse.browser import answered
from rookery.browse.view import neutral
from rookery.records import Block, Link, Page, Question
from rookery.serve.keyboard import word_wrapped
from rookery.serve.screen import Line, elided, fitted, frame
from rookery.serve.shown import Shown
from rookery.serve.sitting import Sitting

ODD = (
    "שלום עולם ‮abc‬ مرحبا e\u0301\u0323 \u200b\u00ad日本語の文。次。 👩‍👩‍👧 "
    "\x1b[31m\x9b2J \x07\t| 【1†x】 [Image: a]"
)
TEXTS = st.one_of(
    st.text(max_size=400),
    st.lists(st.sampled_from([*ODD.split(" "), "crow", "x" * 50, "\n", "\n\n", " "])).map(" ".join),
)


def text(line: Line) -> str:
    return "".join(part for _, part in line)


def words(text: str) -> Page:
    """A page with a link in it, of one paragraph a line."""
    blocks, at = [], 0
    for line in text.split("\n"):
        if line.strip():
            blocks.append(Block(at, at + len(line), "paragraph"))
        at += len(line) + 1
    links = (Link(0, max(len(text) // 3, 1), "https://b.org/"),) if blocks else ()
    return Page("https://a.org/x", text[:60] * 200, text, tuple(blocks), links)


@settings(max_examples=80, deadline=None)
@given(TEXTS, TEXTS, st.integers(24, 130), st.integers(6, 50), st.sampled_from("qv?la~"))
@example(ODD, ODD * 20, 60, 24, "q")
def test_every_screen_fits_whatever_is_on_the_page(
    content: str, question: str, columns: int, rows: int, key: str
) -> None:
    page = words(content)
    asked = Question("1", question or "?")
    person = Person(Little(page), asked, start=page.url)
    person.types(f"Quote: {content[:20]}")
    person.desk.leave() if key == "l" else person.presses(key, "enter", "down")
    person.desk.trouble = question
    screen = frame(person.desk, columns, rows, "Search " * 9, 1.0)
    assert len(screen.above) + screen.typed + len(screen.below) <= max(rows, screen.typed + 7)
    for line in (*screen.above, *screen.below):
        assert get_cwidth(text(line)) <= columns
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text(line))


KEYS = st.sampled_from(
    [*"/sfnq\" bguav?xk", "up", "down", "left", "right", "enter", "escape", "pageup", "pagedown",
     "home", "end", "backspace"]
)  # fmt: skip
LINES = st.sampled_from(
    ["Search crow", "0", "1", "Find in page: crow", "Quote: crow", "Back", "Scrolled down 2",
     "End: Answer", "End: Nonsense", "Why?", ""]
)  # fmt: skip
DEEDS = st.one_of(
    st.tuples(st.just("press"), KEYS),
    st.tuples(st.just("type"), LINES),
    st.tuples(
        st.sampled_from(["leave", "finish", "resize"]), st.sampled_from(["", "Yes [1].", "[2]"])
    ),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(DEEDS, max_size=25), st.booleans())
def test_whatever_is_pressed_and_typed_there_is_a_screen_and_the_commands_lead_to_it(
    deeds: list[tuple[str, str]], asked: bool
) -> None:
    line = '<p>A <a href="/b">crow</a> and a jay, %d. They saw a <a href="/c">crow</a>.</p>'
    page = html("https://a.org/a", "".join(line % n for n in range(60)), "Crows")
    pages = (page, html("https://a.org/b", "<p>One crow.</p>", "A crow"))
    person = Person(Little(*pages), Question("1", "Why?" if asked else ""))
    for number, (deed, what) in enumerate(deeds):
        if deed == "press":
            person.presses(what)
        elif deed == "type":
            person.types(what)
        elif deed == "leave":
            person.desk.leave()
        elif deed == "finish":
            person.desk.finish(what)
        size = (30 + 7 * number, 8 + number) if deed == "resize" else (80, 24)
        screen = frame(person.desk, *size, "", 0.0)
        assert len(screen.above) + screen.typed + len(screen.below) == size[1]
        if person.desk.left:
            break
    again = Sitting(person.sitting.task)
    for command in person.sitting.commands:
        again.say(command)
        while again.wanted is not None:
            again.reply(answered(person.holdings, again.wanted))
    assert again.shown == person.sitting.shown


@given(TEXTS, st.integers(2, 100))
def test_rows_hold_every_word_in_its_place_and_break_no_letter(content: str, columns: int) -> None:
    shown = Shown(neutral(content))
    for word in shown.words:
        assert word.start == word.end or shown.plain[word.start : word.end].split()
    rows = shown.rows(columns)
    assert "".join(w.text for row in rows for w in row) == "".join(w.text for w in shown.words)
    for row in rows:
        line = "".join(word.gap + word.text for word in row)
        assert get_cwidth(line) <= columns
        if row and row[0].text and not get_cwidth(row[0].text[0]):
            assert any(word.text.startswith(row[0].text) for word in shown.words)


def test_links_are_numbered_and_images_told_apart() -> None:
    shown = Shown("See 【12†git-add\n(1)†git.org】, 【3†[Image: a crow]】 and【4†x】.")
    assert shown.plain == "See git-add\n(1),  andx."
    assert shown.links == {12: "git-add (1)", 3: "[Image: a crow]", 4: "x"}
    assert [(word.text, word.style) for word in shown.words if word.style] == [
        ("[12]", "number"), ("git-add", "link"), ("(1)", "link"), ("(git.org)", "domain"),
        ("[3]", "number"), ("[Image: a crow]", "image"), ("[4]", "number"), ("x", "link"),
    ]  # fmt: skip
    [first, second, *_] = shown.rows(16)
    assert "".join(word.gap + word.text for word in first) == "See [12]git-add"
    assert "".join(word.gap + word.text for word in second) == "(1) (git.org),"


def test_lines_of_code_keep_their_places_and_blank_lines_are_one() -> None:
    rows = Shown("if crow:\n    caw()   # loud\n\n\n\n\tdone").rows(40)
    lines = ["".join(word.gap + word.text for word in row) for row in rows]
    assert lines == ["if crow:", "    caw()   # loud", "", "    done"]


def test_what_was_found_and_what_was_quoted_can_be_seen() -> None:
    page = html("https://a.org/x", "<p>Jays bury acorns. Acorns keep.</p>")
    person = Person(Little(page), start=page.url)
    person.types("Quote: jays  BURY acorns.", "Find in page: acorns")
    screen = frame(person.desk, 60, 20, "", 0.0)
    styles = {part: style for line in screen.above for style, part in line}
    assert "quoted" in styles["Jays"]
    assert {"found", "quoted"} <= set(re.findall(r"class:(\w+)", styles["acorns."]))
    assert "quoted" not in styles["Acorns"]
    assert "found" in styles["Acorns"]
    assert "[1] “Jays bury acorns.” A page (a.org)" in [text(line) for line in screen.above]


def test_a_number_tells_where_it_leads_before_enter() -> None:
    page = html("https://a.org/x", '<p>Many <a href="/y">blue  <b>jays</b></a>.</p>')
    person = Person(Little(page), start=page.url)
    for typed, said in {"0": "link 0: blue jays", "5": "link 5 is not in sight", "0x": ""}.items():
        assert text(frame(person.desk, 60, 20, typed, 0.0).below[0]) == said


def test_what_is_awaited_turns_and_a_size_that_changes_keeps_the_place() -> None:
    page = html("https://a.org/x", "".join(f"<p>Line {n} of a page.</p>" for n in range(80)))
    person = Person(Little(page), start=page.url)
    frame(person.desk, 60, 20, "", 0.0)
    person.presses(" ")
    first = text(frame(person.desk, 60, 20, "", 0.0).above[4])
    assert first.startswith(" Line 6")
    for size in ((100, 40), (30, 12), (60, 20)):
        assert first in [text(line) for line in frame(person.desk, *size, "", 0.0).above]
    person.desk.enter("Search crows")
    turning = {text(frame(person.desk, 60, 20, "", at / 10).below[0]) for at in range(5)}
    assert len(turning) == 5
    assert all(line.endswith(" searching for crows") for line in turning)


def test_who_thinks_of_leaving_still_sees_what_is_to_be_left() -> None:
    page = html("https://a.org/x", "<p>Jays bury acorns.</p>")
    person = Person(Little(page), Question("", ""), start=page.url)
    person.types("", "Quote: jays", "End: Answer")
    for typed in ("ask", "answer"):
        assert person.desk.mode == typed
        before = frame(person.desk, 60, 20, "", 0.0)
        assert "    Jays" in [text(line) for line in before.above]
        person.desk.leave()
        after = frame(person.desk, 60, 20, "", 0.0)
        assert (after.above, after.typed) == (before.above, before.typed)
        assert text(after.below[0]).startswith("Leave?")
        person.presses("escape")
        person.types("Why?")


def test_a_page_of_a_million_characters_and_a_title_of_ten_thousand_are_shown_at_once() -> None:
    paragraph = "Crows remember faces for years, and tell their young about them. " * 20
    page = html("https://a.org/x", f"<p>{paragraph}</p>" * 800, "A title " * 1250)
    assert len(page.text) > 1_000_000
    person = Person(Little(page), start=page.url)
    person.types("Find in page: their young")
    began = time.monotonic()
    for _ in range(20):
        person.presses(" ")
        screen = frame(person.desk, 100, 30, "", 0.0)
    assert (time.monotonic() - began) / 20 < 0.2
    assert all(get_cwidth(text(line)) <= 100 for line in screen.above)
    person.presses(*"uuuu")
    assert person.sitting.commands[0] == "Find in page: their young"


def test_a_page_without_text_says_so() -> None:
    page = Page("https://a.org/x", "Empty", "")
    person = Person(Little(page), start=page.url)
    lines = [text(line) for line in frame(person.desk, 60, 20, "", 0.0).above]
    assert " This page shows no text." in lines
    person.presses("q")
    assert person.desk.note == "there are no words to quote here"


@given(st.text(max_size=200), st.integers(5, 60))
def test_a_line_that_is_cut_fits_and_says_so(content: str, columns: int) -> None:
    for cut in (fitted(content, columns), elided(content, columns)):
        assert get_cwidth(cut) <= columns


def test_a_long_quote_shows_its_beginning_and_its_end() -> None:
    assert elided("one two three four five six seven", 20) == "one two … six seven"
    assert elided("short enough", 20) == "short enough"
    assert fitted("one two three four", 10) == "one two t…"


@given(st.lists(st.sampled_from(["a", "bc", "e\u0301", "日", " "])), st.integers(4, 20))
def test_an_answer_is_wrapped_between_words_and_every_character_has_its_place(
    parts: list[str], columns: int
) -> None:
    line = "".join(parts)
    shown, places = word_wrapped(line, columns)
    assert len(places) == len(line) + 1
    assert places == sorted(places)
    for letter, place in zip(line, places, strict=False):
        assert letter == " " or shown[place] == letter
    rows, column = [""], 0
    for letter in shown:  # as a terminal breaks rows
        if column + get_cwidth(letter) > columns:
            rows.append("")
            column = 0
        rows[-1] += letter
        column += get_cwidth(letter)
    if all(get_cwidth(word) <= columns for word in line.split()):
        assert " ".join(rows).split() == line.split()


@pytest.mark.parametrize("columns", [60, 100])
def test_the_most_needed_keys_are_named_at_every_width(columns: int) -> None:
    person = Person(Little())
    hints = text(frame(person.desk, columns, 24, "", 0.0).below[-1])
    for needed in ("? help", "/ search", "link", "q quote", "a answer"):
        assert needed in hints
