"""`rookery browse` in a real terminal, as a stranger meets it and as it may end."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import pytest
from commands import CORVIDS, Run, article
from stage import Said, Stage, Visit
from tmux import PATIENCE, Terminal, terminal

from rookery.browser.rollout import replay_episode
from rookery.cli.browse_command import UnfinishedSession
from rookery.errors import Failed
from rookery.library.call_recording import CallRecording
from rookery.records import Episode

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


def test_a_demonstration_from_the_question_to_the_saved_answer(place: Path) -> None:
    out = place / "mine.jsonl"
    command = ("browse", *CORVIDS, "--out", out)
    with terminal(place, *command, columns=60, rows=90, more={"NO_COLOR": "1"}) as it:
        it.sees("Question (Enter alone: just reading):")
        it.enters(QUESTION)
        searched(it)
        quoted(it)
        it.enters("answer")
        it.sees("Your answer, citing [1], [2]")
        it.enters("They learn that it pays [2].")
        it.sees("cites [2], but there are 1 quotes")
        it.presses("BSpace", "BSpace", "BSpace", "BSpace")
        it.enters("[1].")
        it.sees("EXIT 0", "They learn that it pays", "verified", "saved in")
        assert restored(place)
    episode = Episode.from_json(out.read_text("utf-8"))
    assert episode.question.text == QUESTION
    said = [step.said.text for step in episode.steps]
    assert said[0] == "Search why crows bring gifts"
    assert said[2].startswith("Quote: ")
    assert said[3:] == ["End: Answer", "They learn that it pays [1]."]
    with CallRecording(place / "mine.recording") as recording:
        assert replay_episode(episode, recording) == episode
    assert not list((place / "data" / "rookery" / "unfinished").iterdir())


def read_session_file(folder: Path) -> str:
    """What a file of a session under way holds; it is copied, since its process has locked it."""
    copy = folder.with_suffix(".copy")
    shutil.copy(folder, copy)
    try:
        unfinished = UnfinishedSession(copy)
        try:
            return str(unfinished.read())
        finally:
            unfinished.close()
    except Failed:  # copied in the middle of a change
        return ""
    finally:
        copy.unlink()


@pytest.mark.slow
def test_nothing_is_lost_when_the_process_is_killed_or_the_window_is_closed(place: Path) -> None:
    command = ("browse", *CORVIDS, "--question", QUESTION, "--out", place / "mine.jsonl")
    with terminal(place, *command, rows=50) as it:
        searched(it)
        quoted(it)
        os.kill(it.process(), signal.SIGKILL)
        it.sees("EXIT 137")
    with terminal(place, *command, rows=50) as it:
        it.sees(f"unfinished: {QUESTION} (3 commands, 1 quote)", "[g]")
        it.presses("Enter")
        it.sees("Somebody feeds the crows", "97 actions left")
        it.enters("answer")
        it.sees("Your answer", "[1] Somebody feeds")
        [kept] = (place / "data" / "rookery" / "unfinished").glob("*.sitting")
        it.types("Because it")
        until = time.monotonic() + PATIENCE
        while "Because" not in read_session_file(kept):  # what is written is kept word by word
            assert time.monotonic() < until
            time.sleep(0.05)
    with terminal(place, *command, rows=50) as it:
        it.sees("(4 commands, 1 quote)")
        it.presses("Enter")
        it.sees("Your answer", "Because")
        it.presses("C-c")
        it.sees("EXIT 0", "kept; to go on")
        assert restored(place)
    with terminal(place, *command, rows=50) as it:
        it.sees("unfinished")
        it.enters("d")
        it.sees("100 actions left", "Nothing is open yet")
        it.presses("C-d")
        it.sees("EXIT 0", "nothing to keep")
    assert not list((place / "data" / "rookery" / "unfinished").iterdir())


def test_a_request_to_end_leaves_the_terminal_as_it_was(place: Path) -> None:
    with terminal(place, "browse", *CORVIDS, "--question", QUESTION, rows=50) as it:
        searched(it)
        os.kill(it.process(), signal.SIGTERM)
        assert "Traceback" not in it.sees("EXIT 143", "what was finished is kept")
        assert restored(place)
    [kept] = (place / "data" / "rookery" / "unfinished").iterdir()
    assert kept.suffix == ".sitting"


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
            assert "Traceback" not in it.sees("EXIT 0", "kept; to go on")
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
    for options in (("--question", QUESTION), CORVIDS, ("--out", "x.jsonl")):
        code, out, err = run("browse", tmp_path / "page.txt", "--plain", *options)
        assert (code, out) == (2, "")
        assert "are for the text browser in a terminal" in err


def test_what_cannot_begin_is_a_sentence(place: Path) -> None:
    (place / "letter.txt").write_text("Dear reader,\n")
    for arguments, said in {
        ("no/such/page.html",): "there is no such file or folder",
        ("--out", place / "letter.txt"): "something else than demonstrations",
    }.items():
        with terminal(place, "browse", *arguments, rows=10, columns=160) as it:
            assert "Traceback" not in it.sees("EXIT 2", said)
