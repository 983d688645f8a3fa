"""Answers in a terminal: what the eye gets, which is never what is stored."""

import io
import os
import pty
import re
import subprocess
import sys
import termios

import msgspec
import pytest
from rich.console import Console
from rich.progress import BarColumn, TextColumn

from rookery.pages.page_reader import read_page
from rookery.quotes.quote_links import describe_location
from rookery.quotes.verification import verify_quotes
from rookery.records import Answer, Claim, Episode, Failure, Page, Question, Quote
from rookery.shell.terminal_output import (
    UNWRAPPED_COLUMNS,
    NarrowProgress,
    format_quote,
    print_wrapped,
    show_answer,
    show_failures,
    summarize_answer,
    to_terminal_json,
)
from rookery.text_escaping import replace_control_characters, sanitize_text

HTML = """<!doctype html><title>Crows in numbers</title><article><h1>Numbers</h1>
<p>A raven has 1.2 × 10<sup>9</sup> neurons and breathes CO<sub>2</sub> out.<sup>[3]</sup></p>
<p>On the 19<sup>th</sup> day m<sup>2</sup> were counted. The rain went on and on all day.</p>
<table><tr><th>Bird</th><th>Weight</th></tr><tr><td>Jay</td><td>170 g</td></tr></table>
<pre>jay\t=\tGarrulus</pre></article>"""
URL = "https://example.org/a/rather/long/address/of/a/page/about/crows/in/numbers.html"


def page() -> Page:
    return read_page(HTML.encode(), URL)


def cut(start: str, end: str) -> Quote:
    """The quote from the first of these strings to the end of the second."""
    whole = page()
    at = whole.text.index(start)
    return whole.quote(at, whole.text.index(end, at) + len(end))


@pytest.mark.parametrize(
    ("start", "end", "seen"),
    [
        ("A raven", "out.[3]", "A raven has 1.2 × 10^9 neurons and breathes CO_2 out.[3]"),
        ("On the", "counted.", "On the 19th day m^2 were counted."),
        ("neurons", "out.", "neurons and breathes CO_2 out."),
        ("Jay", "170 g", "Jay | 170 g"),
        ("Jay\t", "170", "Jay | 170"),
        ("jay\t", "Garrulus", "jay\t=\tGarrulus"),
    ],
)
def test_a_view_shows_what_its_page_shows(start: str, end: str, seen: str) -> None:
    quote = cut(start, end)
    assert format_quote(quote, page()) == seen
    assert format_quote(quote, None) == quote.text
    assert format_quote(quote, Page(URL, "", "another version")) == quote.text


def test_what_is_unseen_or_commands_the_terminal_is_not_shown() -> None:
    assert sanitize_text("a\x1b[31mb\u202ec\u200bd\xade\x9bf") == "a\ufffd[31mbcde\ufffdf"
    assert sanitize_text("می\u200cخواهم 👩\u200d👧") == "می\u200cخواهم 👩\u200d👧"
    assert replace_control_characters("a\x1bb\u202ec\td\n") == "a\ufffdb\u202ec\td\n"


def test_json_commands_no_terminal_and_reads_back_the_same() -> None:
    quote = Quote(URL, "a\x1bb\x7fc\x9bd", "0", 0, 3, "é\x85\n”")
    line = to_terminal_json(quote)
    assert not re.search("[\x00-\x1f\x7f-\x9f]", line)
    assert Quote.from_json(line) == quote


def episode(*quotes: Quote, declined: bool = False) -> Episode:
    """An answer of one claim a quote, as the extractive method writes it."""
    answer_text, claims = "", []
    for number, quote in enumerate(quotes):
        start = len(answer_text) + bool(answer_text)
        answer_text += " " * bool(answer_text) + " ".join(quote.text.split())
        claims.append(Claim(start, len(answer_text), (number,)))
    answer = Answer(answer_text, quotes, tuple(claims), score=0.75)
    if declined:
        answer = Answer("Nothing answers this.", quotes, declined=True, score=0.1)
    stop = "declined" if declined else "end"
    return Episode(Question("1", "How many neurons does a raven have?"), "x", (), answer, stop)


def render_episode(episode: Episode, width: int, terminal: bool = False) -> str:
    assert episode.answer is not None
    verdicts = verify_quotes(episode.answer, lambda quote: page())
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, highlight=False)
    show_answer(console, episode, [page()] * len(verdicts), verdicts)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


NEURONS, TABLE = cut("A raven", "out."), cut("Jay", "170 g")


def test_an_answer_its_quotes_and_their_sources() -> None:
    assert render_episode(episode(NEURONS, TABLE), 100).splitlines() == [
        "A raven has 1.2 × 10^9 neurons and breathes CO_2 out.[1] Jay | 170 g[2]",
        "",
        f"[1] Crows in numbers · {describe_location(page(), NEURONS.start)} · verified",
        f"    {URL}#:~:text=A%20raven%20has%201.2%20%C3%97,out.",
        "",
        f"[2] Crows in numbers · {describe_location(page(), TABLE.start)} · verified",
        f"    {URL}#:~:text=Jay,170%20g",
    ]


def test_a_text_that_is_its_own_title_is_named_by_its_file() -> None:
    quote = msgspec.structs.replace(
        NEURONS, title=NEURONS.text, url="file:///home/ada/a%20note.txt"
    )
    assert "[1] a note.txt · " in render_episode(episode(quote), 100)


@pytest.mark.parametrize("width", range(24, 100, 5))
def test_at_any_width_links_are_whole_and_marks_stand_behind_a_word(width: int) -> None:
    lines = render_episode(episode(NEURONS, TABLE), width).splitlines()
    links = [line for line in lines if "https:" in line]
    assert all(f"    {URL}#:~:text=" in line for line in links)
    assert len(links) == 2
    assert all(len(line) <= width for line in lines if line not in links)
    answer = lines[: lines.index("")]
    assert not any(re.match(r"\s*\[\d\]", line) for line in answer)
    assert not any(line.endswith(" ") for line in lines)


def test_the_words_asked_for_are_marked_and_only_on_a_terminal() -> None:
    coloured = render_episode(episode(NEURONS), 100, terminal=True)
    marked = re.findall(r"\x1b\[1;33m([^\x1b]+)\x1b\[0m", coloured)
    assert marked == ["1.2", "10^9", "CO_2"]
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == render_episode(episode(NEURONS), 100)


def test_a_quote_that_does_not_verify_is_named_beside_it() -> None:
    forged = Quote(
        **{name: getattr(NEURONS, name) for name in NEURONS.__struct_fields__} | {"start": 0}
    )
    assert "NOT VERIFIED: the page has" in " ".join(render_episode(episode(forged), 100).split())


def test_a_decline_shows_the_closest_quotes_without_numbers() -> None:
    said = render_episode(episode(NEURONS, declined=True), 100)
    assert said.startswith("Nothing answers this.\n\nThe closest that was found:\n")
    assert "\n  – “A raven has" in said
    assert "[1]" not in said


def test_where_a_model_says_that_there_is_no_answer_its_score_was_not_too_low() -> None:
    declined = Answer("No page answers this.", (NEURONS,), declined=True)
    said = render_episode(Episode(Question("1", "?"), "gophercite", (), declined, "declined"), 100)
    begun = "No page answers this.\n\nThe model found no answer in what it was shown. The nearest"
    assert said.startswith(begun)
    assert "weak" not in said


def test_a_possible_answer_is_said_to_be_one() -> None:
    possible = episode(NEURONS)
    assert possible.answer is not None
    answer = msgspec.structs.replace(possible.answer, stored_certain=False)
    possible = msgspec.structs.replace(possible, answer=answer)
    said = render_episode(possible, 100)
    assert said.startswith("A possible answer, to be checked:\nA raven has")
    verdicts = verify_quotes(answer, lambda quote: page())
    assert summarize_answer(possible, verdicts).startswith("possible · 1 of 1 quote verified")


PRICES = """<table><tr><th>Item</th><th>Member price</th><th>Stock</th></tr>
<tr><td>Plywood</td><td>4.20</td><td>31</td></tr>
<tr><td>Acrylic, clear</td><td>8.40</td><td>14</td></tr></table>"""


@pytest.mark.parametrize(
    ("begin", "end", "lines", "marked"),
    [
        (
            "Acrylic",
            "14",
            ["Item            Member price  Stock", "Acrylic, clear  8.40          14[1]"],
            "8.40",
        ),
        (
            "Item",
            "14",
            [
                "Item            Member price  Stock",
                "Plywood         4.20          31",
                "Acrylic, clear  8.40          14[1]",
            ],
            "8.40",
        ),
    ],
)
def test_rows_stand_under_their_columns_with_the_cell_that_answers_marked(
    begin: str, end: str, lines: list[str], marked: str
) -> None:
    shop = read_page(PRICES.encode(), "https://shop.example/")
    at = shop.text.index(begin)
    quote = shop.quote(at, shop.text.index(end, at) + len(end))
    answer = Answer(quote.text, (quote,), (Claim(0, len(quote.text), (0,)),))
    question = Question("1", "What is the member price of clear acrylic?")
    told = Episode(question, "extract", answer=answer)
    for width in (60, 20):
        console = Console(file=io.StringIO(), width=width, force_terminal=True, highlight=False)
        show_answer(console, told, [shop], verify_quotes(answer, lambda quote: shop))
        assert isinstance(console.file, io.StringIO)
        shown = console.file.getvalue()
        plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
        if width == 60:
            assert plain.splitlines()[: len(lines)] == lines
            assert f"\x1b[1;33m{marked}\x1b[0m" in shown
        else:
            assert "Acrylic, clear |" in plain


def test_what_is_remarked_on_quotes_stands_between_the_answer_and_its_sources() -> None:
    remark = Failure("extract", "citation_noted", "the first two quotes answer differently")
    noted = msgspec.structs.replace(episode(NEURONS, TABLE), failures=(remark,))
    assert render_episode(noted, 100).splitlines()[1:4] == [
        "",
        "Note: the first two quotes answer differently",
        "",
    ]
    verdicts = verify_quotes(noted.answer, lambda quote: page())  # type: ignore[arg-type]
    assert "remark" not in summarize_answer(noted, verdicts)


def test_the_counts_read_well() -> None:
    asked = episode(NEURONS)
    assert asked.answer is not None
    verdicts = verify_quotes(asked.answer, lambda quote: page())
    assert summarize_answer(asked, verdicts) == "1 of 1 quote verified · score 0.75 · method x"
    failures = (*(Failure(f"f{n}", "timed_out") for n in range(6)), Failure("g", "robots"))
    nothing = Episode(asked.question, "x", stop="no_evidence", failures=failures)
    assert (
        summarize_answer(nothing, []) == "no evidence · method x · not read: 6 timed out, 1 robots"
    )
    files = tuple(Failure(f"/home/ada/{name}.pdf", "malformed") for name in "abcde")
    unread = msgspec.structs.replace(nothing, failures=(*files[:3], Failure("q", "search_failed")))
    assert summarize_answer(unread, []).endswith("not read: a.pdf, b.pdf, c.pdf, 1 search failed")
    unread = msgspec.structs.replace(nothing, failures=files)
    assert summarize_answer(unread, []).endswith(": a.pdf, b.pdf, c.pdf, and 2 other files")
    usual = msgspec.structs.replace(nothing, by="extract", failures=())
    assert summarize_answer(usual, []) == "no evidence"  # the method that nobody chose is not named
    console = Console(file=io.StringIO(), width=80)
    show_failures(console, failures)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines()[4:] == [
        "rookery: f4: timed_out",
        "rookery: and 2 more",
    ]


def test_lines_are_broken_between_words_and_addresses_stay_whole() -> None:
    console = Console(file=io.StringIO(), width=24, force_terminal=True)
    text = f"    not read: [b]two[/b] pages at {URL} and :cat: more"
    print_wrapped(console, text)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "    not read: [b]two[/b]",
        "    pages at",
        f"    {URL}",
        "    and :cat: more",
    ]
    piped = Console(file=io.StringIO(), width=UNWRAPPED_COLUMNS)
    print_wrapped(piped, text)
    assert isinstance(piped.file, io.StringIO)
    assert piped.file.getvalue() == f"{text}\n"


def test_a_bar_leaves_room_for_the_sign_of_ctrl_c() -> None:
    console = Console(file=io.StringIO(), width=40, force_terminal=True)
    bar = NarrowProgress(TextColumn("{task.description}"), BarColumn(), console=console)
    bar.add_task("reading a file with a long name", total=2)
    lines = console.render_lines(bar.get_renderable(), pad=False)
    assert [sum(segment.cell_length for segment in line) for line in lines] == [38]


COLOURS = """
import os
from rookery.shell.terminal_output import StreamConsole
for name, value in [("", ""), ("NO_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "40")]:
    before = dict(os.environ)
    os.environ.update({name: value} if name else {})
    console = StreamConsole()
    console.print(f"{name}:{console.width}", style="red")
    os.environ.clear()
    os.environ.update(before)
"""


@pytest.mark.slow
def test_colour_and_width_are_as_the_environment_says() -> None:
    """On a terminal, which a pseudo-terminal is; and in a pipe."""
    bare = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE")
    env = {name: value for name, value in os.environ.items() if name not in bare}
    program = [sys.executable, "-c", COLOURS]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 90))
    subprocess.run(program, stdin=theirs, stdout=theirs, env=env | {"TERM": "xterm"}, check=True)
    shown = os.read(ours, 4096).decode().splitlines()
    assert shown == [
        "\x1b[31m:90\x1b[0m",
        "NO_COLOR:90",
        "TERM:80",
        "\x1b[31mCOLUMNS:40\x1b[0m",
    ]
    piped = subprocess.run(program, stdout=subprocess.PIPE, env=env, check=True).stdout.decode()
    assert "\x1b" not in piped
    assert piped.startswith(":1000000\n")
    program = [*program[:2], "import os; os.environ['FORCE_COLOR'] = '1'" + COLOURS]
    forced = subprocess.run(program, stdout=subprocess.PIPE, env=env, check=True).stdout.decode()
    assert forced.startswith("\x1b[")
    assert "\nNO_COLOR:1000000\n" in forced
