"""`rookery browse` in a real terminal, as a stranger meets it and as it may end."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import pytest
from commands import CORVIDS, Run, article
from stage import Said, Stage, Visit
from tmux import Terminal, terminal

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
]
QUESTION = "Why do crows bring gifts to people?"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short name: a socket's may not be long."""
    with TemporaryDirectory(prefix="rookery") as name:
        yield Path(name)


def searched(window: Terminal) -> None:
    """Searches for gifts and opens the article about them."""
    window.sees("100 actions left ›")
    window.enters("search why crows bring gifts")
    screen = window.sees("Search results for: why crows bring gifts", "99 actions left ›")
    [link] = [line for line in screen.splitlines() if "†Why crows bring gifts | Tidings" in line]
    window.enters(link.strip()[1])
    window.sees("Somebody feeds the crows", "98 actions left ›")


def quoted(window: Terminal) -> None:
    """Quotes a sentence of the article, which is completed."""
    window.types("quote: somebody")
    window.presses("Tab")
    window.sees("Quote: Somebody feeds the crows")
    window.presses("Enter")
    window.sees("[1] Somebody feeds", "97 actions left ›")


def restored(place: Path) -> bool:
    """Whether the terminal is as it was before."""
    return (place / "before").read_text() == (place / "after").read_text()


def test_pages_are_found_read_and_quoted(place: Path) -> None:
    command = ("browse", *CORVIDS, "--question", QUESTION)
    with terminal(place, *command, columns=60, rows=90, more={"NO_COLOR": "1"}) as it:
        searched(it)
        quoted(it)
        it.enters("answer")
        it.sees("EXIT 0", "[1] Somebody feeds")
        assert restored(place)


def test_a_request_to_end_leaves_the_terminal_as_it_was(place: Path) -> None:
    with terminal(place, "browse", *CORVIDS, "--question", QUESTION, rows=50) as it:
        searched(it)
        os.kill(it.process(), signal.SIGTERM)
        assert "Traceback" not in it.sees("EXIT 143", "what was finished is kept")
        assert restored(place)


def test_slow_pages_are_given_up_and_missing_ones_are_told(place: Path, web: Stage) -> None:
    late = Event()

    def slow(visit: Visit) -> Said:
        late.wait(20)
        return Said(article("Late", "This came too late."))

    links = '<a href="slow.html">slow</a> <a href="gone.html">gone</a> <a href="jays.html">jays</a>'
    web.routes["/birds/start.html"] = Said(article("Start", "Many birds.", links))
    web.routes["/birds/slow.html"] = slow
    start = f"{web.base}/birds/start.html"
    engine = ("--engine", f"searxng:{web.base}", "--allow-private", "--question", QUESTION)
    try:
        with terminal(place, "browse", start, *engine) as it:
            it.sees("Many birds.", "【0†slow】", "100 actions left")
            it.enters("0")
            it.sees("Opening", "slow.html", "Ctrl-C: give up")
            it.presses("C-c")
            it.sees("given up", "100 actions left")
            late.set()  # what comes now is not waited for any more
            it.enters("1")
            it.sees("This could not be opened", "404")
            it.enters("back")
            it.sees("98 actions left")
            it.enters("2")
            it.sees("Jays bury acorns")
            it.enters("search crows")
            it.sees("Search results for: crows", "96 actions left")
            it.presses("C-c")
            assert "Traceback" not in it.sees("EXIT 0")
    finally:
        late.set()  # the server waits for it


def test_no_escape_sequence_of_a_page_reaches_the_terminal(place: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e"
    (place / "page.txt").write_text(f"Title {evil}\n\nJays bury {evil} acorns in September.\n")
    with terminal(place, "browse", place / "page.txt", "--question", QUESTION) as it:
        it.listens(place / "raw")
        it.sees("acorns in September.", "100 actions left")
        it.types("quote: acorns")
        it.presses("Tab")  # completes no sentence that nobody can type
        it.enters(" in September.")
        it.sees("[1] acorns in September.", "99 actions left")
        assert it.asks("pane_title") != "owned"
    raw = (place / "raw").read_bytes()
    assert b"owned" in raw
    assert b"]0;owned" in raw  # as plain text, without what would make it a command
    for command in (b"\x1b]", b"\x07", "\x9b".encode(), "\u202e".encode()):
        assert command not in raw


def test_without_a_terminal_it_prints_and_says_what_it_needs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("Jays bury acorns.\n")
    assert run("browse", tmp_path / "page.txt").out == "Jays bury acorns.\n"
    for options in (("--question", QUESTION), CORVIDS):
        code, out, err = run("browse", tmp_path / "page.txt", "--plain", *options)
        assert (code, out) == (2, "")
        assert "are for the text browser in a terminal" in err


def test_what_cannot_begin_is_a_sentence(place: Path) -> None:
    with terminal(place, "browse", "no/such/page.html", rows=10, columns=160) as it:
        assert "Traceback" not in it.sees("EXIT 2", "there is no such file or folder")
