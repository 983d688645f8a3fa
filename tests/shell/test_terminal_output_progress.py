"""What a model writes, seen while it writes: its own words, and never what it says pages say."""

import shutil
import threading
from pathlib import Path

import pytest
from commands import CORVIDS, GIFTS, Run
from hypothesis import given
from hypothesis import strategies as st
from models import DONE, SSE, Asking, chat, chunk, event, serving, streamed, write_choices
from tmux import terminal

from rookery.shell.terminal_output import remove_quotes

NEEDS_TMUX = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
WORDS = "because they have learned that a particular person feeds them"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("They learned it [1][12]. So [3", "They learned it . So "),
        ("%<They learned it.>%(Crows)%[Crows learn.]% Yes.", "They learned it. Yes."),
        ("%<They learned it.>%(Crows)%[Crows", "They learned it."),
        ("%<They learned it.>%(Cro", "They learned it."),
        ("%<It.>%(A \\) b)%[one \\]% two]%%(C)%[three", "It."),
        ("I look.\nQuote: Crows learn", "I look.\nQuote"),
        ("Search why crows learn", "Search why crows learn"),
    ],
)
def test_what_a_model_says_that_pages_say_is_not_shown(text: str, shown: str) -> None:
    assert remove_quotes(text) == shown


@given(st.text("%<>()[]\\ab", max_size=30), st.text("]\\%ab", max_size=12))
def test_at_no_moment_is_a_part_of_a_quote_shown(before: str, quoted: str) -> None:
    written = f"%<claim>%(title)%[SECRET{quoted}"
    for end in range(len(written)):
        assert "S" not in remove_quotes(written[:end])
    assert "SECRET" not in remove_quotes(f"Yes. {written}]% {before}")


@pytest.mark.slow
@pytest.mark.program
@NEEDS_TMUX
def test_an_answer_is_seen_while_it_is_written_and_then_in_its_place(tmp_path: Path) -> None:
    go_on = threading.Event()

    def slowly(asking: Asking) -> None:
        assert asking.fields["stream"]
        for text in ("They bring gifts ", WORDS):
            asking.send((SSE if "bring" in text else b"") + chunk(event(text)))
        assert go_on.wait(120)
        asking.send(chunk(event(" [1].", "stop")) + chunk(DONE) + b"0\r\n\r\n")

    with serving(write_choices(chat("crow gifts")), slowly) as server:
        model = ("--method", "webglm", "--model", "tiny", "--base-url", server.base_url)
        with terminal(tmp_path, "ask", GIFTS, *CORVIDS, *model) as seen:
            screen = seen.sees("writing", WORDS)
            assert "verified" not in screen
            go_on.set()
            screen = seen.sees("EXIT 0", "1 of 1 quote verified")
    assert "writing" not in screen
    assert screen.count("They bring gifts") == 1


@pytest.mark.program
@NEEDS_TMUX
def test_commands_stay_on_the_screen_and_what_they_quote_does_not(tmp_path: Path) -> None:
    quote = f"Crows most likely bring gifts to people {WORDS}"
    commands = ["Search why crows bring gifts", f"Quote: {quote[:-5]} nobody", "End: No quotes"]
    with serving(*[streamed(event(text, "stop"), DONE) for text in commands]) as server:
        model = ("--method", "webgpt", "--model", "tiny", "--base-url", server.base_url)
        with terminal(tmp_path, "ask", GIFTS, *CORVIDS, *model) as seen:
            screen = seen.sees("› Search why crows bring gifts", "› Quote", "EXIT 6")
    assert "nobody" not in screen


@pytest.mark.slow
def test_where_nobody_watches_nothing_is_streamed(run: Run) -> None:
    with serving(write_choices(chat(f"They bring them {WORDS} [1]."))) as server:
        model = ("--method", "webglm", "--model", "tiny", "--base-url", server.base_url)
        assert run("ask", GIFTS, *CORVIDS, *model).code == 0
        assert not server.asked[0].fields.get("stream")
