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

from rookery.browse.call_recording import CallRecording
from rookery.draft.rollout import replay_episode
from rookery.records import Episode, Failed
from rookery.serve.demonstration_files import UnfinishedSession

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
    window.sees("? help")
    window.types("s")
    window.sees("› Search")
    window.types("why crows bring gifts")
    window.presses("Enter")
    screen = window.sees("Search results for: why crows bring gifts")
    [link] = [line for line in screen.splitlines() if "Why crows bring gifts | Tidings" in line]
    window.types(link.strip()[1])
    window.sees(": Why crows bring gifts | Tidings")
    window.presses("Enter")
    window.sees("last: Clicked on link", "Somebody feeds the crows")


def quoted(window: Terminal) -> None:
    """Quotes the first sentence of the article."""
    window.types("q")
    window.sees("Where does the quote begin?")
    window.presses("Down", "Down", "Down", "Down", "Enter")
    window.sees("Where does it end?")
    window.presses("Enter")
    window.sees("[1] “")


def restored(window: Terminal, place: Path) -> bool:
    """Whether the terminal is as it was before."""
    same = (place / "before").read_text() == (place / "after").read_text()
    return same and (window.asks("alternate_on"), window.asks("cursor_flag")) == ("0", "1")


def test_a_demonstration_from_the_question_to_the_saved_answer(place: Path) -> None:
    out = place / "mine.jsonl"
    command = ("browse", *CORVIDS, "--out", out)
    with terminal(place, *command, columns=60, rows=24, more={"NO_COLOR": "1"}) as it:
        it.sees("What do you want to find out?")
        it.types(QUESTION)
        it.presses("Enter")
        searched(it)
        quoted(it)
        it.types("a")
        it.sees("your answer; cite with [1], [2]")
        it.types("They learn that it pays [2].")
        it.presses("C-s")
        it.sees("cites [2], but there are 1 quotes")
        it.presses("BSpace", "BSpace", "BSpace", "BSpace")
        it.types("[1].")
        it.presses("C-s")
        it.sees("EXIT 0", "They learn that it pays", "verified", "saved in")
        assert restored(it, place)
    episode = Episode.from_json(out.read_text("utf-8"))
    assert episode.question.text == QUESTION
    said = [step.said.text for step in episode.steps]
    assert said[0] == "Search why crows bring gifts"
    assert said[2].startswith("Quote: ")
    assert said[3:] == ["End: Answer", "They learn that it pays [1]."]
    with CallRecording(place / "mine.recording") as recording:
        assert replay_episode(episode, recording) == episode
    assert not list((place / "data" / "rookery" / "unfinished").iterdir())


def told(kept: Path) -> str:
    """What a file of a session under way holds; it is copied, since its process has locked it."""
    copy = kept.with_suffix(".copy")
    shutil.copy(kept, copy)
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
    with terminal(place, *command) as it:
        searched(it)
        quoted(it)
        os.kill(it.process(), signal.SIGKILL)
        it.sees("EXIT 137")
    with terminal(place, *command) as it:
        it.sees(f"unfinished: {QUESTION} (3 commands, 1 quote)", "[g]")
        it.presses("Enter")
        it.sees("[1] “", "Somebody feeds the crows", "97 actions left")
        it.types("a")
        it.sees("your answer")
        [kept] = (place / "data" / "rookery" / "unfinished").glob("*.sitting")
        it.types("Because")
        until = time.monotonic() + PATIENCE
        while "Because" not in told(kept):  # what is written is kept every half second
            assert time.monotonic() < until
            time.sleep(0.05)
    with terminal(place, *command) as it:
        it.sees("(4 commands, 1 quote)")
        it.presses("Enter")
        it.sees("your answer", "Because")
        it.presses("C-c")
        it.sees("Leave?", "k keep, to go on later")
        it.types("k")
        it.sees("EXIT 0", "kept; to go on")
        assert restored(it, place)
    with terminal(place, *command) as it:
        it.sees("unfinished")
        it.types("d")
        it.presses("Enter")
        it.sees("100 actions left", "Nothing is open yet")
        it.presses("C-c")
        it.sees("EXIT 0")
    assert not list((place / "data" / "rookery" / "unfinished").iterdir())


def test_a_request_to_end_leaves_the_terminal_as_it_was(place: Path) -> None:
    with terminal(place, "browse", *CORVIDS, "--question", QUESTION) as it:
        searched(it)
        os.kill(it.process(), signal.SIGTERM)
        it.sees("EXIT 143", "what was finished is kept")
        assert restored(it, place)
    [kept] = (place / "data" / "rookery" / "unfinished").iterdir()
    assert kept.suffix == ".sitting"


def test_slow_and_missing_pages_leave_the_keys_alive(place: Path, web: Stage) -> None:
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
            it.sees("Many birds.", "[0]slow")
            for leave_off in ("Escape", "C-c"):
                it.types("0")
                it.presses("Enter")
                it.sees("opening", "slow.html", "Esc leave off")
                it.presses(leave_off)
                it.sees("left off", "100 actions left", "Many birds.")
            late.set()  # what comes now is not waited for any more
            it.types("1")
            it.presses("Enter")
            it.sees("Error", "This could not be opened", "404")
            it.presses("BSpace")
            it.sees("Many birds.")
            it.types("2")
            it.presses("Enter")
            it.sees("Jays bury acorns")
            it.types("/crows")
            it.presses("Enter")
            it.sees("Search results for: crows")
            it.presses("C-c")
            it.types("d")
            it.sees("EXIT 0")
    finally:
        late.set()  # the server waits for it


def test_typing_pasting_completing_and_resizing(place: Path) -> None:
    with terminal(place, "browse", *CORVIDS, "--question", QUESTION) as it:
        it.sees("? help")
        it.types("seals")
        it.sees("› Search eals")
        it.presses("Escape")
        it.misses("Search")
        it.presses("Tab")
        it.sees("Clicked on link", "Find in page:", "End: Controversial")
        it.presses("Escape")
        it.misses("Controversial")
        it.types("search crows that use tools")  # s has begun the command already
        it.sees("› Search crows that use tools")
        it.presses("Enter")
        wide = it.sees("Search results for: crows that use tools", "[0]")
        it.resize(60, 24)
        it.sees("99 left")
        narrow = it.screen()
        assert max(map(len, narrow.splitlines())) <= 60
        assert narrow.split() != wide.split()
        it.resize(100, 30)
        it.sees("99 actions left")
        it.types("?")
        it.sees("While choosing a quote")
        it.presses("Escape", "BSpace")
        it.sees("Nothing is open yet.")


def test_no_escape_sequence_of_a_page_reaches_the_terminal(place: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e"
    (place / "page.txt").write_text(f"Title {evil}\n\nJays bury {evil} acorns in September.\n")
    with terminal(place, "browse", place / "page.txt", "--question", QUESTION) as it:
        it.listens(place / "raw")
        it.sees("acorns in September.")
        it.types("q")
        it.presses("Down", "Right", "Right", "Right", "Enter", "Down", "Enter")
        it.sees("[1] “acorns in September.”")
        assert it.asks("pane_title") != "owned"
    raw = (place / "raw").read_bytes()
    assert b"owned" in raw
    assert b"]0;owned" in raw  # as plain text, without what would make it a command
    for command in (b"\x1b]", b"\x07", "\x9b".encode(), b"\x1b[31m", "\u202e".encode()):
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
