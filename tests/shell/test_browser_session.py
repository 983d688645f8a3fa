"""What typed lines do to a session at the prompt; taking back, merging, going on."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from itertools import pairwise
from typing import Any, NoReturn

import pytest
from desks import QUESTION, Person
from hypothesis import given, settings
from hypothesis import strategies as st
from little import Little, html
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from rookery.browser.browser import BrowserRequest, browse_library
from rookery.browser.browser_commands import BrowserRules, BrowserTask, Observation
from rookery.cli.browse_command import CommandCompleter, PromptBrowser
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.pages.text_folding import fold_text
from rookery.records import Question
from rookery.shell.browser_session import (
    BrowserSession,
    SessionEvent,
    merge_scrolls,
    parse_typed_command,
    parse_typed_question,
)

LINES = [f"<p>Line {number} of a page about crows, and nothing else.</p>" for number in range(400)]
CROWS = html("https://a.org/crows", "".join(LINES) + '<a href="/jays">Jays</a>', "Crows")
JAYS = html(
    "https://a.org/jays",
    '<p>Jays bury acorns in September. <a href="/gone">More</a></p><p>They find most again.</p>',
    "Jays",
)


@pytest.fixture
def web() -> Little:
    return Little(CROWS, JAYS)


@pytest.fixture(scope="module")
def corvids(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FolderLibrary]:
    place = tmp_path_factory.mktemp("corvids")
    with (
        PageArchive(place / "a.sqlite") as archive,
        FolderLibrary(get_bundled_folder(), archive, place) as folder,
    ):
        yield folder


def play_commands(task: BrowserTask, library: Little, commands: list[str]) -> Observation:
    """What these commands show when they are simply said: the oracle."""
    flow = browse_library(task, library)
    observation = next(flow)
    for command in commands:
        observation = flow.send(command)
    return observation


@contextmanager
def prompting(
    web: Little,
    *lines: str,
    question: Question = QUESTION,
    rules: BrowserRules = BrowserRules(),
    start: str = "",
) -> Iterator[PromptBrowser]:
    """A prompt whose next lines are typed already; Ctrl-D is behind them."""
    session = BrowserSession(BrowserTask(question, rules, start))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("".join(f"{line}\r" for line in lines) + "\x04")
        yield PromptBrowser(session, web)


def run(browser: PromptBrowser) -> None:
    """Runs it in a thread: in this one, a browser of another test may have left its event loop."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(copy_context().run, browser.run).result()


def browse(web: Little, *lines: str, **options: Any) -> BrowserSession:
    """The session of somebody who types these lines at the prompt, and then leaves."""
    with prompting(web, *lines, **options) as browser, suppress(EOFError, KeyboardInterrupt):
        run(browser)
    return browser.session


# Lines


def test_what_each_line_leads_to_is_shown(web: Little, capsys: pytest.CaptureFixture[str]) -> None:
    session = browse(
        web, "Search crows", "0", "find in page line 399", "down", "up", "back", "0", "help", "undo"
    )
    assert session.commands == [
        "Search crows", "Clicked on link 0", "Find in page: line 399", "Scrolled up 1", "Back",
    ]  # fmt: skip
    out = capsys.readouterr().out
    for seen in (
        "Nothing is open yet",
        "Search results for: crows  0–100%",
        "【0†Crows†a.org】",
        "Line 0 of a page about crows",
        "Line 399 of a page",
        "this is the end of the page",
        "Tab completes them",
        "taken back: Clicked on link 0",
    ):
        assert seen in out
    assert out.index("Line 0 of") < out.index("Line 399 of")


def test_what_does_nothing_is_told_and_not_stored(
    web: Little, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {
        "99": "no link 99",
        "Back": "no page before",
        "Quote: Owls": "not on the page",
        "End: Answer": "quote something first",
        "Dance": "this is no command",
        "Scrolled down 4": "this is no command",
        "undo": "nothing to undo",
    }
    session = browse(web, *refused, start=JAYS.url)
    assert (session.commands, session.observation.left) == ([], 100)
    out = capsys.readouterr().out
    assert all(said in out for said in refused.values())
    assert out.count("Jays bury acorns") == 1  # a window is shown again only where it changed


def test_quotes_are_shown_when_they_are_made_and_when_they_are_asked_for(
    web: Little, capsys: pytest.CaptureFixture[str]
) -> None:
    browse(web, "Quote: Jays bury acorns", "quotes", "Quote: Jays bury acorns", start=JAYS.url)
    out = capsys.readouterr().out
    assert out.count("[1] Jays bury acorns\n    Jays a.org\n") == 2
    assert "this is quoted already" in out


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("Search crows", "Search crows"),
        ("search  crows ", "Search crows"),
        ("7", "Clicked on link 7"),
        ("007", "Clicked on link 7"),
        ("find in page crows", "Find in page: crows"),
        ("quote: the end━the start", "Quote: the end━the start"),
        ("scrolled down 3", "Scrolled down 3"),
        ("top", "Top"),
        ("BACK", "Back"),
        ("end: answer", "End: Answer"),
        ("End: controversial", "End: Controversial"),
        ("Scrolled down 4", None),
        ("Search", None),
        ("searching crows", None),
        ("Top of the page", None),
        ("hello", None),
        ("12345678901", None),
    ],
)
def test_a_typed_line_is_the_command_that_it_means(line: str, command: str | None) -> None:
    assert parse_typed_command(line) == command


def completed(session: BrowserSession, line: str) -> list[str]:
    found = CommandCompleter(session).get_completions(Document(line), CompleteEvent())
    return [line[: len(line) + completion.start_position] + completion.text for completion in found]


def test_commands_links_and_sentences_are_completed(web: Little) -> None:
    session = browse(web, start=JAYS.url)
    for line, lines in {
        "sc": ["Scrolled down ", "Scrolled up "],
        "End: N": ["End: Nonsense"],
        "clicked": ["Clicked on link ", "Clicked on link 0"],
        "0": ["0"],
        "quote: j": ["Quote: Jays bury acorns in September."],
        "x": [],
    }.items():
        assert completed(session, line) == lines
    assert completed(browse(web), "quote") == ["Quote: "]


def test_a_question_is_named_by_its_words() -> None:
    one, same, other = map(
        parse_typed_question, ("Why do crows?", " Why  do\ncrows? ", "Why do jays?")
    )
    assert one == same
    assert one.id != other.id


# Taking back

COMMANDS = st.sampled_from(
    ["Search crows", "Search jays", "Search owls", "0", "1", "Find in page: line 7", "Top", "Back",
     "Scrolled down 1", "Scrolled down 1", "Scrolled up 1", "Scrolled down 3",
     "Quote: Jays bury acorns", "Quote: Line 3 of a page about crows", "undo", "undo"]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(COMMANDS, max_size=20))
def test_what_is_taken_back_was_never_said(typed: list[str]) -> None:
    """After any commands and takings back, the screen is that of the commands that are left."""
    person = Person(Little(CROWS, JAYS))
    person.types(*typed)
    task = person.sitting.task
    assert person.sitting.observation == play_commands(
        task, Little(CROWS, JAYS), person.sitting.commands
    )


def test_taking_back_asks_nobody_and_saying_again_asks_only_for_what_failed(web: Little) -> None:
    person = Person(web, start=JAYS.url)
    person.types("0", "Back", "0")
    assert web.asked == [JAYS.url, "https://a.org/gone", "https://a.org/gone"]
    person.types(*["undo"] * 3)
    assert person.sitting.commands == []
    assert len(web.asked) == 3
    web.pages["https://a.org/gone"] = CROWS
    person.types("0")
    assert len(web.asked) == 4
    assert person.sitting.observation.title.startswith("Crows")
    person.types("undo")
    person.types("0")
    assert len(web.asked) == 4


def test_what_is_given_up_was_never_asked_for(
    web: Little, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(browser: PromptBrowser, request: BrowserRequest) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(PromptBrowser, "_ask_library", interrupt)
    session = browse(web, "Search crows", "Search jays", start=JAYS.url)
    assert capsys.readouterr().out.count("given up") == 3
    assert (session.commands, session.task.start, web.asked) == ([], "", [])


def test_a_first_page_that_is_not_waited_for_leaves_an_empty_desk(web: Little) -> None:
    sitting = BrowserSession(BrowserTask(QUESTION, start=CROWS.url))
    assert sitting.pending_request is not None
    assert sitting.observation.text == ""
    assert sitting.undo()
    assert sitting.task.start == ""
    assert BrowserSession(sitting.task).pending_request is None


# Merging


@given(st.lists(st.sampled_from(["Scrolled down 1", "Scrolled up 1", "Top"]), max_size=30))
@settings(max_examples=60, deadline=None)
def test_scrolling_is_merged_to_at_most_three_and_leads_to_the_same_window(
    commands: list[str],
) -> None:
    task, fewer = BrowserTask(QUESTION, start=CROWS.url), merge_scrolls(commands)
    one, other = (play_commands(task, Little(CROWS, JAYS), each) for each in (commands, fewer))
    assert (one.text, one.scrollbar) == (other.text, other.scrollbar)
    steps = [command.rpartition(" ")[2] for command in fewer if command != "Top"]
    assert sum(map(int, steps)) == sum(command != "Top" for command in commands)
    assert set(steps) <= {"1", "2", "3"}
    # No two that follow each other could have been one.
    assert merge_scrolls(fewer) == fewer
    for first, second in pairwise(fewer):
        assert first == "Top" or first[:-1] != second[:-1] or first.endswith("3")


def test_five_steps_are_two_commands_and_each_can_be_taken_back(web: Little) -> None:
    person = Person(web, start=CROWS.url)
    person.types(*["Scrolled down 1"] * 5)
    assert person.sitting.commands == ["Scrolled down 3", "Scrolled down 2"]
    assert person.sitting.observation.left == 98
    person.types("undo")
    assert person.sitting.commands == ["Scrolled down 3", "Scrolled down 1"]
    person.types("Scrolled down 2", "Scrolled down 2")  # as they were typed, so they are kept
    assert person.sitting.commands[2:] == ["Scrolled down 2", "Scrolled down 2"]


# Quoting


def letters(text: str) -> str:
    """The letters and digits of a text, folded."""
    return "".join(letter for letter in fold_text(text).text if letter.isalnum())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in get_bundled_folder().glob("*.htm*")))
def test_what_is_completed_is_what_is_quoted(corvids: FolderLibrary, name: str) -> None:
    person = Person(corvids, start=(get_bundled_folder() / name).as_uri())
    for line in completed(person.sitting, "quote: ")[1:]:
        person.types(line)
        [quote] = person.sitting.observation.quotes
        assert letters(quote.text) == letters(line.removeprefix("Quote: "))
        person.types("undo")


# Ends


QUOTED = ("Quote: Jays bury acorns", "End: Answer")


def test_an_end_shows_what_was_quoted_and_leaves(
    web: Little, capsys: pytest.CaptureFixture[str]
) -> None:
    with prompting(web, *QUOTED, "Top", start=JAYS.url) as browser:
        run(browser)  # which raises nothing: nobody has to leave
    assert browser.session.commands == list(QUOTED)
    assert capsys.readouterr().out.count("[1] Jays bury acorns\n    Jays a.org\n") == 2
    with prompting(web, "End: Nonsense") as browser:
        run(browser)
    assert browser.session.commands == ["End: Nonsense"]


@settings(max_examples=30, deadline=None)
@given(st.lists(COMMANDS, max_size=12))
def test_what_was_done_is_done_again_from_its_events_without_the_library(typed: list[str]) -> None:
    deeds: list[SessionEvent] = []
    person = Person(Little(CROWS, JAYS), keep=deeds.append)
    person.types(*typed)
    person.sitting.save_draft("They bury")
    again = BrowserSession(BrowserTask(QUESTION))
    for deed in deeds:
        again.replay_event(deed)
    assert (again.observation, again.commands) == (
        person.sitting.observation,
        person.sitting.commands,
    )
    assert (again.draft, again.pending_request) == (person.sitting.draft, None)
    assert again.replay_session() == person.sitting.replay_session()


def test_browsing_ends_by_itself_when_the_actions_or_the_quotes_are_used_up(web: Little) -> None:
    quote = "Quote: Jays bury acorns"
    two = browse(web, quote, "Find in page: they", rules=BrowserRules(actions=2), start=JAYS.url)
    assert two.observation.answering
    full = browse(
        web, quote, "Quote: They find most again.", rules=BrowserRules(quoted=30), start=JAYS.url
    )
    assert full.observation.answering
    assert len(full.observation.quotes) == 1
    nothing = browse(web, "Find in page: they", rules=BrowserRules(actions=1), start=JAYS.url)
    assert nothing.browse_result is not None
