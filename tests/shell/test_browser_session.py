"""What typed lines do to a session at the prompt; taking back, merging, going on, saving."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
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
from rookery.browser.rollout import replay_episode
from rookery.cli import browse_command
from rookery.cli.browse_command import (
    CommandCompleter,
    PromptBrowser,
    SessionStart,
    UnfinishedSession,
    list_unfinished,
)
from rookery.errors import Failed
from rookery.library.call_recording import CallRecording
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.pages.text_folding import fold_text
from rookery.quotes.citation_syntax import parse_numbered
from rookery.records import Episode, Failure, Question
from rookery.settings import Settings
from rookery.shell.browser_session import (
    BrowserSession,
    SessionEvent,
    merge_scrolls,
    parse_typed_command,
    parse_typed_question,
)

EPISODE = Episode(QUESTION, "me", (), None, "end")
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
    save: Callable[[BrowserSession], Episode] = lambda session: EPISODE,
) -> Iterator[PromptBrowser]:
    """A prompt whose next lines are typed already; Ctrl-D is behind them."""
    session = BrowserSession(BrowserTask(question, rules, start))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("".join(f"{line}\r" for line in lines) + "\x04")
        yield PromptBrowser(session, web, lambda event: None, save)


def run(browser: PromptBrowser) -> None:
    """Runs it in a thread: in this one, a browser of another test may have left its event loop."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(copy_context().run, browser.run).result()


def browse(web: Little, *lines: str, **options: Any) -> BrowserSession:
    """The session of somebody who types these lines at the prompt, and then leaves or has saved."""
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


def test_an_answer_is_asked_for_and_checked_before_it_is_saved(
    web: Little, capsys: pytest.CaptureFixture[str]
) -> None:
    saved: list[str] = []

    def save(session: BrowserSession) -> Episode:
        saved.append(session.draft)
        return EPISODE

    to_the_start = "\x01\x0b"
    lines = ("They do [2].", f"{to_the_start}They do.", "")  # who insists is believed
    with prompting(web, *QUOTED, *lines, start=JAYS.url, save=save) as browser:
        run(browser)
    assert (saved, browser.saved) == (["They do."], EPISODE)
    out = capsys.readouterr().out
    assert "cites [2], but there are 1 quotes" in out
    assert "no quote is cited" in out


def test_what_cannot_be_saved_is_told_and_can_be_saved_again(
    web: Little, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = [Failed(Failure("d.jsonl", "unwritable", "make room and save again"))]

    def save(session: BrowserSession) -> Episode:
        if faults:
            raise faults.pop()
        return EPISODE

    with prompting(web, *QUOTED, "They do [1].", "", start=JAYS.url, save=save) as browser:
        run(browser)
    assert "not saved: make room and save again" in capsys.readouterr().out


def test_writing_can_be_left_for_more_reading_and_nothing_written_is_lost(web: Little) -> None:
    session = browse(web, *QUOTED, "They bury \x03", start=JAYS.url)
    assert (session.ending, session.draft) == (True, "They bury")
    session = browse(web, *QUOTED, "", start=JAYS.url)
    assert (session.ending, session.commands) == (False, ["Quote: Jays bury acorns"])
    session = browse(web, *QUOTED, "One.\x1b\rTwo [1].", start=JAYS.url)
    assert session.draft == "One.\nTwo [1]."


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


def test_an_end_without_an_answer_is_saved_only_when_it_is_meant(web: Little) -> None:
    with prompting(web, "End: Nonsense", "undo", "End: Controversial", "") as browser:
        run(browser)
    assert browser.saved
    assert browser.session.commands == ["End: Controversial"]


@pytest.mark.slow
def test_just_reading_asks_for_the_question_at_the_end(
    web: Little, capsys: pytest.CaptureFixture[str]
) -> None:
    session = browse(web, "", *QUOTED, "", question=Question("", ""), start=JAYS.url)
    assert session.commands == ["Quote: Jays bury acorns"]
    assert "nothing is saved without a question" in capsys.readouterr().out
    session = browse(
        web, "", *QUOTED, "x" * 20_000, "\x01\x0b  What do   jays bury? ",
        question=Question("", ""), start=JAYS.url,
    )  # fmt: skip
    assert "20,000 characters" in capsys.readouterr().out
    assert session.observation.answering
    assert session.task.question.text == "What do jays bury?"
    steps, _ = session.replay_session(lambda library: library)
    assert all("What do jays bury?" in step.prompt for step in steps)


def test_a_question_that_would_hide_what_was_read_is_not_taken(
    web: Little, capsys: pytest.CaptureFixture[str]
) -> None:
    spoiler = "Line 3 of a page about crows, and nothing else. Line 4"
    lines = ("", "Quote: Line 3 of a page", "End: Answer", spoiler)
    session = browse(web, *lines, question=Question("", ""), start=CROWS.url)
    assert "use other words" in capsys.readouterr().out
    assert (session.task.question.text, session.observation.answering) == ("", True)


def test_a_question_that_would_have_led_elsewhere_is_not_taken() -> None:
    secret = "the crows that lived on the hill were counted by nine people in one night"
    first = html("https://a.org/1", f"<p>So {secret}.</p><p>Nothing else.</p>", "One")
    second = html("https://a.org/2", "<p>The crows were counted, too.</p>", "Two")
    person = Person(Little(first, second), Question("", ""))
    person.types("Search counted", "0", "Find in page: else", "Quote: nothing else")
    before = person.sitting.observation
    # It hides the first result: link 0 is another one.
    assert not person.sitting.change_question(parse_typed_question(secret))
    assert person.sitting.observation == before


# Files


BEGUN = SessionStart("me/1", BrowserTask(QUESTION), Settings(("docs",)), "/out.jsonl")


@settings(max_examples=30, deadline=None)
@given(st.lists(COMMANDS, max_size=12))
def test_what_was_done_is_done_again_from_disk_without_the_library(typed: list[str]) -> None:
    with TemporaryDirectory() as place:
        journal = UnfinishedSession(Path(place) / "1.sitting")
        journal.append_event(BEGUN)
        person = Person(Little(CROWS, JAYS), keep=journal.append_event)
        person.types(*typed)
        person.sitting.save_draft("They \ud800 bury")
        journal.close()
        [found] = list_unfinished(Path(place))
        begun, deeds = found.read()
        again = BrowserSession(begun.task)
        for deed in deeds:
            again.replay_event(deed)
        found.delete()
        assert list(Path(place).iterdir()) == []
    assert begun == BEGUN
    assert (again.observation, again.commands) == (
        person.sitting.observation,
        person.sitting.commands,
    )
    assert (again.draft, again.pending_request) == (person.sitting.draft, None)
    assert again.replay_session(lambda library: library) == person.sitting.replay_session(
        lambda library: library
    )


def test_a_sitting_that_somebody_is_at_is_not_offered(tmp_path: Path) -> None:
    mine = UnfinishedSession(tmp_path / "2.sitting")
    mine.append_event(BEGUN)
    earlier = UnfinishedSession(tmp_path / "1.sitting")
    earlier.append_event(BEGUN)
    earlier.close()
    (tmp_path / "3.sitting").write_bytes(b"This is a letter. " * 100)
    [found] = list_unfinished(tmp_path)
    assert found.read() == (BEGUN, [])
    found.close()
    mine.close()
    both = list(list_unfinished(tmp_path))
    assert len(both) == 2
    for journal in both:
        journal.close()


def test_what_a_full_disk_does_not_take_is_told_and_added_later(
    web: Little, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = UnfinishedSession(tmp_path / "1.sitting")
    journal.append_event(BEGUN)
    used = journal._file.execute("pragma page_count").fetchone()[0]
    limits = iter([used] * 4)  # for two commands and what they are given

    def keep(event: SessionEvent) -> None:
        journal._file.execute(f"pragma max_page_count = {next(limits, 1_000_000)}")
        journal.append_event(event)

    session = BrowserSession(BEGUN.task)
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("Search crows\r0\rScrolled down 1\r\x04")
        with suppress(EOFError):
            PromptBrowser(session, web, keep, lambda session: EPISODE).run()
    assert capsys.readouterr().out.count("not kept on disk: the disk is full") == 1
    _, deeds = journal.read()
    journal.close()
    again = BrowserSession(BEGUN.task)
    for deed in deeds:
        again.replay_event(deed)
    assert again.observation == session.observation


def demonstrated(web: Little, out: Path, name: str = "me/1") -> Episode:
    """A demonstration with a failure, a taking back and merged scrolling in it, saved."""

    person = Person(web, start=JAYS.url)
    person.types("0", "Back", "Search crows", "0", *["Scrolled down 1"] * 4, "Search owls")
    person.types("undo", "Quote: Line 3 of a page", "End: Answer")
    person.sitting.save_draft("A page has lines [1].")
    return browse_command.save_demonstration(
        person.sitting, "me", name, out, out.with_suffix(".recording")
    )


def test_a_demonstration_is_saved_with_the_prompts_of_its_merged_commands(
    web: Little, tmp_path: Path
) -> None:
    out = tmp_path / "sub" / "d.jsonl"
    episode = demonstrated(web, out)
    assert [step.said.text for step in episode.steps] == [
        "Clicked on link 0", "Back", "Search crows", "Clicked on link 0", "Scrolled down 3",
        "Scrolled down 1", "Quote: Line 3 of a page", "End: Answer", "A page has lines [1].",
    ]  # fmt: skip
    flow = browse_library(BrowserTask(QUESTION, start=JAYS.url), Little(CROWS, JAYS))
    prompts = [next(flow).prompt]
    for step in episode.steps[:-1]:
        prompts.append(flow.send(step.said.text).prompt)
    assert [step.prompt for step in episode.steps] == prompts
    assert episode.answer is not None
    assert episode.answer == parse_numbered("A page has lines [1].", episode.answer.quotes)
    assert (episode.by, episode.stop, episode.session) == ("me", "end", "me/1")
    assert episode.count_failures() == {"http_404": 1}
    assert Episode.from_json(out.read_text("utf-8")) == episode
    with CallRecording(out.with_suffix(".recording")) as recording:
        assert replay_episode(episode, recording) == episode
    assert browse_command.has_demonstration(out, "me/1")
    for other in ("me/2", "me/", "me", "e/1", "Line 3", ""):
        assert not browse_command.has_demonstration(out, other), other
    whole = out.read_bytes()
    out.write_bytes(whole + b'{"me/3": 1}\n' + whole.replace(b"me/1", b"me/4").rstrip(b"\n"))
    assert not browse_command.has_demonstration(out, "me/3"), "it is no demonstration"
    assert not browse_command.has_demonstration(out, "me/4"), "its line is not whole"


def test_demonstrations_are_added_and_what_a_kill_left_of_a_line_is_removed(
    web: Little, tmp_path: Path
) -> None:
    out = tmp_path / "d.jsonl"
    first = demonstrated(web, out)
    whole = out.read_bytes()
    out.write_bytes(whole + whole[: len(whole) // 2])
    browse_command.check_demonstration_file(out)
    demonstrated(web, out, "me/2")
    lines = out.read_text("utf-8").splitlines()
    assert [Episode.from_json(line).session for line in lines] == ["me/1", "me/2"]
    assert Episode.from_json(lines[0]) == first
    out.write_bytes(whole.rstrip(b"\n"))  # an editor may have taken the last line break
    demonstrated(web, out, "me/3")
    assert len(out.read_text("utf-8").splitlines()) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_takes_nothing_and_the_next_file_all(web: Little, tmp_path: Path) -> None:
    person = Person(web, start=JAYS.url)
    person.types(*QUOTED)
    person.sitting.save_draft("They do [1].")
    save = partial(browse_command.save_demonstration, person.sitting, "me", "me/1")
    with pytest.raises(Failed, match=r"No space left on device.*save again"):
        save(Path("/dev/full"), tmp_path / "r")
    save(tmp_path / "d.jsonl", tmp_path / "r")
    with CallRecording(tmp_path / "r") as recording:
        episode = Episode.from_json((tmp_path / "d.jsonl").read_text("utf-8"))
        assert replay_episode(episode, recording) == episode


@pytest.mark.parametrize("content", ["This is a letter.\n", '{"id": "1", "text": "Why?"}\n'])
def test_a_file_that_holds_something_else_is_left_alone(tmp_path: Path, content: str) -> None:
    out = tmp_path / "letter.txt"
    out.write_text(content)
    with pytest.raises(ValueError, match="something else than demonstrations"):
        browse_command.check_demonstration_file(out)
    assert out.read_text() == content
    with pytest.raises(ValueError, match="is a folder"):
        browse_command.check_demonstration_file(tmp_path)
    with pytest.raises(ValueError, match="cannot be written to"):
        browse_command.check_demonstration_file(out / "d.jsonl")
    browse_command.check_demonstration_file(tmp_path / "new" / "d.jsonl")
    assert list(tmp_path.iterdir()) == [out]
