"""The text browser's screen: whatever a page holds, every line fits and commands no terminal."""

import asyncio
import re
import time
from itertools import groupby

import pytest
from desks import Person
from hypothesis import example, given, settings
from hypothesis import strategies as st
from little import Little, html
from prompt_toolkit.application import create_app_session
from prompt_toolkit.application.current import set_app
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import DummyInput
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.utils import get_cwidth

from rookery.browse.browser import answer_request
from rookery.browse.page_text import neutralize_text
from rookery.records import Block, Link, Page, Question
from rookery.serve.browser_session import BrowserSession
from rookery.serve.cli.browse_command import TerminalBrowser, elide_text, wrap_words
from rookery.serve.demonstration_commands import WORD
from rookery.serve.terminal_text import TerminalText

ODD = (
    "שלום עולם ‮abc‬ مرحبا e\u0301\u0323 \u200b\u00ad日本語の文。次。 👩‍👩‍👧 "
    "\x1b[31m\x9b2J \x07\t| 【1†x】 [Image: a]"
)
TEXTS = st.one_of(
    st.text(max_size=400),
    st.lists(st.sampled_from([*ODD.split(" "), "crow", "x" * 50, "\n", "\n\n", " "])).map(" ".join),
)


class Paper(DummyOutput):
    """A terminal of a size that is given."""

    def __init__(self, columns: int, rows: int) -> None:
        self.size = Size(rows=rows, columns=columns)

    def get_size(self) -> Size:
        return self.size


class Screen:
    """What a terminal of this size shows: rows of characters, each with its styles."""

    def __init__(
        self, person: Person, columns: int, rows: int, typed: str = "", ticks: int = 0
    ) -> None:
        paper = Paper(columns, rows)
        with create_app_session(input=DummyInput(), output=paper):
            browser = TerminalBrowser(person.desk, person.holdings)
        browser.line_buffer.text = typed
        browser.ticks = ticks

        async def draw() -> None:
            with set_app(browser.app):
                browser.app.layout.focus(browser.get_input_window())
                browser.app.renderer.render(browser.app, browser.app.layout)

        asyncio.run(draw())
        drawn = browser.app.renderer.last_rendered_screen
        assert drawn is not None
        assert drawn.width <= columns
        self.cells = [[drawn.data_buffer[y][x] for x in range(columns)] for y in range(rows)]
        self.lines = ["".join(cell.char for cell in row).rstrip() for row in self.cells]

    def styles(self, words: str) -> str:
        """The styles of the first letter of these words, where they are seen first."""
        row = next(number for number, line in enumerate(self.lines) if words in line)
        return self.cells[row][self.lines[row].index(words)].style


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
    person.desk.ask_to_leave() if key == "l" else person.presses(key, "enter", "down")
    person.desk.trouble = question
    lines = Screen(person, columns, rows, "Search " * 9).lines
    assert not any(re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", x) for x in lines)
    assert "Window too small" not in "".join(lines)


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
            person.desk.ask_to_leave()
        elif deed == "finish":
            person.desk.finish_demonstration(what)
        size = (30 + 7 * number, 8 + number) if deed == "resize" else (80, 24)
        assert "actions left" in Screen(person, max(size[0], 80), size[1]).lines[0]
        if person.desk.left:
            break
    again = BrowserSession(person.sitting.task)
    for command in person.sitting.commands:
        again.run_command(command)
        while again.pending_request is not None:
            again.accept_reply(answer_request(person.holdings, again.pending_request))
    assert again.observation == person.sitting.observation


@given(TEXTS, st.integers(2, 100))
def test_rows_hold_every_word_in_its_place_and_break_no_letter(content: str, columns: int) -> None:
    shown = TerminalText(neutralize_text(content))
    assert len(shown.text) == len(shown.styles) == len(shown.places)
    assert shown.places == sorted(shown.places)
    rows = [shown.text[slice(*row)] for row in shown.wrap_rows(columns)]
    assert "".join("".join(rows).split()) == "".join(shown.text.split())
    for row in rows:
        assert get_cwidth(row) <= columns
        if row and not get_cwidth(row[0]):
            assert any(word.startswith(row[0]) for word in WORD.findall(shown.text))


def test_links_are_numbered_and_images_told_apart() -> None:
    shown = TerminalText("See 【12†git-add\n(1)†git.org】, 【3†[Image: a crow]】 and【4†x】.")
    assert shown.text == "See [12]git-add\n(1) (git.org), [3][Image: a crow] and[4]x."
    assert shown.links == {12: "git-add (1)", 3: "[Image: a crow]", 4: "x"}
    styled = groupby(zip(shown.styles, shown.text, strict=True), lambda letter: letter[0])
    runs = [(style, "".join(letter for _, letter in run)) for style, run in styled if style]
    assert runs == [
        ("number", "[12]"), ("link", "git-add\n(1)"), ("domain", "(git.org)"),
        ("number", "[3]"), ("image", "[Image: a crow]"), ("number", "[4]"), ("link", "x"),
    ]  # fmt: skip
    [first, second, *_] = shown.wrap_rows(16)
    assert shown.text[slice(*first)] == "See [12]git-add"
    assert shown.text[slice(*second)] == "(1) (git.org),"


def test_lines_of_code_keep_their_places_and_blank_lines_are_one() -> None:
    shown = TerminalText("if crow:\n    caw()   # loud\n\n\n\n\tdone")
    lines = [shown.text[slice(*row)] for row in shown.wrap_rows(40)]
    assert lines == ["if crow:", "    caw()   # loud", "", "    done"]


def test_what_was_found_and_what_was_quoted_can_be_seen() -> None:
    page = html("https://a.org/x", "<p>Jays bury acorns. Acorns keep.</p>")
    person = Person(Little(page), start=page.url)
    person.types("Quote: jays  BURY acorns.", "Find in page: acorns")
    screen = Screen(person, 60, 20)
    assert "quoted" in screen.styles("Jays")
    assert {"found", "quoted"} <= set(re.findall(r"class:(\w+)", screen.styles("acorns.")))
    assert "quoted" not in screen.styles("Acorns")
    assert "found" in screen.styles("Acorns")
    assert "[1] “Jays bury acorns.” A page (a.org)" in screen.lines


def test_what_was_found_among_results_can_be_seen() -> None:
    person = Person(Little(html("https://a.org/x", "<p>Jays bury acorns.</p>", "Jays and acorns")))
    person.types("Search jays", "Find in page: acorns")
    assert "found" in Screen(person, 60, 20).styles("acorns")


def test_a_number_tells_where_it_leads_before_enter() -> None:
    page = html("https://a.org/x", '<p>Many <a href="/y">blue  <b>jays</b></a>.</p>')
    person = Person(Little(page), start=page.url)
    for typed, said in {"0": "link 0: blue jays", "5": "link 5 is not in sight", "0x": ""}.items():
        assert Screen(person, 60, 20, typed).lines[-2] == said


def test_what_is_awaited_turns_and_a_size_that_changes_keeps_the_place() -> None:
    page = html("https://a.org/x", "".join(f"<p>Line {n} of a page.</p>" for n in range(80)))
    person = Person(Little(page), start=page.url)
    Screen(person, 60, 20)
    person.presses(" ")
    first = Screen(person, 60, 20).lines[4]
    assert first.startswith(" Line 6")
    for size in ((100, 40), (30, 12), (60, 20)):
        assert first in Screen(person, *size).lines
    person.desk.enter_line("Search crows")
    turning = {Screen(person, 60, 20, ticks=at).lines[-2] for at in range(5)}
    assert len(turning) == 5
    assert all(line.endswith(" searching for crows") for line in turning)


def test_who_thinks_of_leaving_still_sees_what_is_to_be_left() -> None:
    page = html("https://a.org/x", "<p>Jays bury acorns.</p>")
    person = Person(Little(page), Question("", ""), start=page.url)
    person.types("", "Quote: jays", "End: Answer")
    for typed in ("ask", "answer"):
        assert person.desk.mode == typed
        before = Screen(person, 60, 20).lines
        assert "Jays" in before
        person.desk.ask_to_leave()
        after = Screen(person, 60, 20).lines
        # Only the note, the keys and the mark before what is typed are others.
        assert [line for line in after[:-2] if line != "›"] == [
            line for line in before[:-2] if line != "Question:"
        ]
        assert after[-2].startswith("Leave?")
        person.presses("escape")
        person.types("Why?")


def show_screens(paragraphs: int, title: str) -> float:
    """This thread's processor seconds for twenty screens of a page with so many paragraphs."""
    paragraph = "Crows remember faces for years, and tell their young about them. " * 20
    content = "".join(f"<p>{number}. {paragraph}</p>" for number in range(paragraphs))
    page = html("https://a.org/x", content, title)
    assert len(page.text) > 1250 * paragraphs
    person = Person(Little(page), start=page.url)
    person.types("Find in page: their young")
    began = time.thread_time()  # threads of earlier tests may still be at work
    for _ in range(20):
        person.presses(" ")
        Screen(person, 100, 30)
    taken = time.thread_time() - began
    person.presses(*"uuuu")
    assert person.sitting.commands[0] == "Find in page: their young"
    return taken


def test_a_page_of_a_million_characters_is_shown_as_fast_as_a_short_one() -> None:
    short, long = (8, "A title"), (800, "A title " * 1250)
    # What is collected as garbage meanwhile is not theirs alone: the quicker of three counts.
    assert min(show_screens(*long) for _ in range(3)) < 3 * min(
        show_screens(*short) for _ in range(3)
    )


def test_a_page_without_text_says_so() -> None:
    page = Page("https://a.org/x", "Empty", "")
    person = Person(Little(page), start=page.url)
    assert " This page shows no text." in Screen(person, 60, 20).lines
    person.presses("q")
    assert person.desk.note == "there are no words to quote here"


@given(st.text(max_size=200), st.integers(5, 60))
def test_a_line_that_is_cut_fits(content: str, columns: int) -> None:
    assert get_cwidth(elide_text(content, columns)) <= columns


def test_a_long_quote_shows_its_beginning_and_its_end() -> None:
    assert elide_text("one two three four five six seven", 20) == "one two … six seven"
    assert elide_text("short enough", 20) == "short enough"


@given(st.lists(st.sampled_from(["a", "bc", "e\u0301", "日", " "])), st.integers(4, 20))
def test_an_answer_is_wrapped_between_words_and_every_character_has_its_place(
    parts: list[str], columns: int
) -> None:
    line = "".join(parts)
    shown, places = wrap_words(line, columns)
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
    hints = Screen(person, columns, 24).lines[-1]
    for needed in ("? help", "/ search", "link", "q quote", "a answer"):
        assert needed in hints
