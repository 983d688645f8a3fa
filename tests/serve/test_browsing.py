"""What keys and typed lines do to a sitting; taking back, merging, going on, saving."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from desks import QUESTION, Person
from hypothesis import given, settings
from hypothesis import strategies as st
from little import Little, html
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from rookery.browse.browser import browse_library
from rookery.browse.browser_commands import BrowserRules, BrowserTask, Observation
from rookery.browse.call_recording import CallRecording
from rookery.browse.folder_library import FolderLibrary
from rookery.browse.libraries import get_bundled_folder
from rookery.browse.page_archive import PageArchive
from rookery.browse.text_folding import fold_text
from rookery.cite.syntax import parse_numbered
from rookery.draft.rollout import replay_episode
from rookery.records import Episode, Question
from rookery.serve import demonstration_files
from rookery.serve.browser_session import (
    BrowserSession,
    merge_scrolls,
    parse_typed_command,
    parse_typed_question,
    remove_doubled_prefix,
)
from rookery.serve.cli.browse_command import COMMAND_COMPLETER
from rookery.serve.demonstration_files import SessionStart, UnfinishedSession, list_unfinished
from rookery.serve.settings import Settings

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


def shown(task: BrowserTask, library: Little, commands: list[str]) -> Observation:
    """What these commands show when they are simply said: the oracle."""
    flow = browse_library(task, library)
    observation = next(flow)
    for command in commands:
        observation = flow.send(command)
    return observation


# Keys and lines


def test_every_shortcut_is_an_ordinary_command(web: Little) -> None:
    person = Person(web)
    person.presses("/")
    assert person.desk.prefill == "Search "
    person.types("Search crows", "0")
    person.presses("f")
    assert person.desk.prefill == "Find in page: "
    person.types("Find in page: line 399")
    person.presses("n", "g", "left", "backspace", "u")
    assert person.sitting.commands == [
        "Search crows", "Clicked on link 0", "Find in page: line 399", "Find in page: line 399",
        "Top", "Back",
    ]  # fmt: skip


def test_scrolling_moves_what_is_seen_before_it_moves_the_window(web: Little) -> None:
    person = Person(web, start=CROWS.url)
    person.desk.pane.resize_pane(80, 10)
    rows = len(person.desk.pane.rows)
    presses = 0
    while not person.sitting.commands:
        assert presses < rows
        person.presses(" ")
        presses += 1
    assert presses > 3
    assert person.sitting.commands == ["Scrolled down 1"]
    assert person.desk.pane.top == 0
    person.presses("b")
    assert person.sitting.commands == ["Scrolled down 1", "Scrolled up 1"]
    assert person.desk.pane.count_rows_below() == 0  # who reads backwards goes on at the end
    person.presses(*["pageup"] * rows)
    assert person.desk.note == "this is the top of the page"
    assert len(person.sitting.commands) == 2


def test_going_back_goes_to_where_one_was(web: Little) -> None:
    person = Person(web, start=CROWS.url)
    person.desk.pane.resize_pane(80, 10)
    person.presses(*["down"] * 5, *"u")
    person.types("Search jays", "Back")
    assert person.desk.pane.top == 5
    person.types("Search jays")
    person.presses("u")
    assert person.desk.pane.top == 5
    person.types("Search jays", "Back", "Scrolled down 1", "Top")
    assert person.desk.pane.top == 0


def test_what_does_nothing_is_told_and_not_stored(web: Little) -> None:
    person = Person(web, start=JAYS.url)
    for line, said in {
        "99": "no link 99",
        "Back": "no page before",
        "Quote: Owls": "not on the page",
        "End: Answer": "quote something first",
        "Dance": "this is no command",
        "Scrolled down 4": "this is no command",
    }.items():
        assert not person.desk.enter_line(line)  # it stays in the line, to be mended
        assert said in person.desk.note
    person.presses("left", "n", " ", "a")
    assert (person.sitting.commands, person.sitting.observation.left) == ([], 100)


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


def test_commands_are_completed_and_a_command_behind_its_shortcut_is_not_doubled() -> None:
    for line, commands in {
        "sc": ["Scrolled down ", "Scrolled up "],
        "End: N": ["End: Nonsense"],
        "x": [],
    }.items():
        found = COMMAND_COMPLETER.get_completions(Document(line), CompleteEvent())
        assert [completion.text for completion in found] == commands
    assert remove_doubled_prefix("Search earch crows") == "Search crows"
    assert remove_doubled_prefix("Find in page: ind in page: crows") == "Find in page: crows"
    assert remove_doubled_prefix("Search earching") == "Search earching"


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
     "Quote: Jays bury acorns", "Quote: Line 3 of a page about crows", "u", "u"]
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(COMMANDS, max_size=20))
def test_what_is_taken_back_was_never_said(typed: list[str]) -> None:
    """After any commands and takings back, the screen is that of the commands that are left."""
    person = Person(Little(CROWS, JAYS))
    for line in typed:
        person.presses("u") if line == "u" else person.types(line)
    task = person.sitting.task
    assert person.sitting.observation == shown(task, Little(CROWS, JAYS), person.sitting.commands)


def test_taking_back_asks_nobody_and_saying_again_asks_only_for_what_failed(web: Little) -> None:
    person = Person(web, start=JAYS.url)
    person.types("0", "Back", "0")
    assert web.asked == [JAYS.url, "https://a.org/gone", "https://a.org/gone"]
    person.presses("u", "u", "u")
    assert person.sitting.commands == []
    assert len(web.asked) == 3
    web.pages["https://a.org/gone"] = CROWS
    person.types("0")
    assert len(web.asked) == 4
    assert person.sitting.observation.title.startswith("Crows")
    person.presses("u")
    person.types("0")
    assert len(web.asked) == 4


def test_there_is_nothing_before_the_beginning(web: Little) -> None:
    person = Person(web)
    person.presses("u")
    assert person.desk.note == "there is nothing to take back"


def test_what_is_not_waited_for_was_never_asked_for(web: Little) -> None:
    person = Person(web)
    person.types("Search crows")
    person.desk.enter_line("0")
    errand = person.desk.errand
    assert person.desk.pending_request is not None
    person.desk.press_key("s")  # swallowed: nothing can be typed into a page that is not there
    person.desk.press_key("escape")
    assert person.desk.pending_request is None
    person.desk.accept_reply(errand, CROWS)
    assert person.sitting.observation.title == "Search results for: crows"
    assert person.sitting.commands == ["Search crows"]


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
    one, other = (shown(task, Little(CROWS, JAYS), each) for each in (commands, fewer))
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
    person.presses("u")
    assert person.sitting.commands == ["Scrolled down 3", "Scrolled down 1"]
    person.types("Scrolled down 2", "Scrolled down 2")  # as they were typed, so they are kept
    assert person.sitting.commands[2:] == ["Scrolled down 2", "Scrolled down 2"]


# Quoting


def letters(text: str) -> str:
    """The letters and digits of a text, folded."""
    return "".join(letter for letter in fold_text(text).text if letter.isalnum())


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(sorted(path.name for path in get_bundled_folder().glob("*.htm*"))),
    st.lists(st.sampled_from(["up", "down", "left", "right"]), max_size=6),
    st.lists(st.sampled_from(["up", "down", "left", "right"]), max_size=8),
    st.integers(0, 3),
)
def test_what_is_marked_is_what_is_quoted(
    corvids: FolderLibrary, name: str, begin: list[str], end: list[str], down: int
) -> None:
    person = Person(corvids, start=(get_bundled_folder() / name).as_uri())
    person.types(*["Scrolled down 1"] * down)
    before = list(person.sitting.commands)  # a short page is refused to scroll
    person.presses('"', *begin, "enter", *end)
    marking = person.desk.marking
    assert marking is not None
    words = marking.text
    person.presses("enter")
    if person.sitting.observation.quotes:
        [quote] = person.sitting.observation.quotes
        assert letters(quote.text) == letters(words)
        assert person.sitting.commands[-1].startswith("Quote: ")
        assert len(person.sitting.commands[-1]) <= max(len(words), 200) + len("Quote: ")
    else:
        assert "quote them in parts" in person.desk.note
        assert person.sitting.commands == before


def test_marking_moves_by_sentences_and_words(web: Little) -> None:
    person = Person(web, start=JAYS.url)
    person.presses("q", "right")
    marking = person.desk.marking
    assert marking is not None
    assert marking.text == "bury"
    person.presses("enter", "right", "down")
    assert marking.text == "bury acorns in September."
    person.presses("down", "down", "left")
    assert marking.text == "bury acorns in September. More\n\nThey find most"
    person.presses("up", "up")
    assert marking.text == "bury acorns in September."
    person.presses("escape", "left")
    assert marking.text == "Jays"
    person.presses("escape")
    assert (person.desk.mode, person.sitting.commands) == ("browse", [])


def test_a_long_quote_is_abbreviated_where_that_names_the_same_words(web: Little) -> None:
    person = Person(web, start=CROWS.url)
    person.presses("q", "enter", *["down"] * 8, "enter")
    [command] = person.sitting.commands
    [quote] = person.sitting.observation.quotes
    # "of a page about crows, and nothing else." ends every line: the first end is another one.
    assert "━" not in command
    assert quote.text.startswith("Line 0 of")
    assert quote.text.endswith("Line 8 of a page about crows, and nothing else.")
    story = "".join(
        f"<p>The {n}th crow of the {n + 50} that came had a name.</p>" for n in range(9)
    )
    person = Person(Little(html("https://a.org/s", story)), start="https://a.org/s")
    person.presses("q", "enter", *["down"] * 5, "enter")
    start, end = (f"{n}th crow of the {n + 50} that came had a name." for n in (0, 5))
    assert person.sitting.commands == [f"Quote: The {start}━{end}"]
    assert person.sitting.observation.quotes[0].text.endswith("of the 55 that came had a name.")


def test_what_does_not_fit_among_the_quotes_any_more_ends_nothing(web: Little) -> None:
    person = Person(web, rules=BrowserRules(quoted=60), start=JAYS.url)
    person.presses("q", "enter", "enter", "q", "enter", "down", "down", "enter")
    assert person.sitting.commands == ["Quote: Jays bury acorns in September."]
    assert person.desk.note.startswith("there is room for 30 more characters")
    person.presses("q", "down", "down", "enter", "enter")
    assert person.sitting.commands[1:] == ["Quote: They find most again."]
    person.presses("q", "enter", "enter")
    assert person.desk.note == "this is quoted already"


def test_results_cannot_be_quoted(web: Little) -> None:
    person = Person(web)
    person.types("Search crows")
    person.presses("q")
    assert person.desk.mode == "browse"
    assert "only a page that was opened" in person.desk.note


# Ends


def test_an_answer_is_asked_for_and_checked_before_it_is_saved(web: Little) -> None:
    saved: list[BrowserSession] = []
    person = Person(web, start=JAYS.url, save=saved.append)
    person.types("Quote: Jays bury acorns", "End: Answer")
    assert person.desk.mode == "answer"
    for text, said in {
        "": "there is no answer yet",
        "They do [2].": "cites [2], but there are 1 quotes",
        "They do.": "no quote is cited",
    }.items():
        person.desk.finish_demonstration(text)
        assert said in person.desk.note
        assert (saved, person.desk.left) == ([], "")
    person.desk.finish_demonstration("They do.")  # who insists is believed
    assert (saved, person.desk.left) == ([person.sitting], "saved")
    assert person.sitting.draft == "They do."


def test_writing_can_be_left_for_more_reading_and_nothing_written_is_lost(web: Little) -> None:
    person = Person(web, start=JAYS.url)
    person.types("Quote: Jays bury acorns")
    person.presses("a")
    person.sitting.save_draft("They bury")
    person.presses("escape")
    assert (person.desk.mode, person.sitting.commands) == ("browse", ["Quote: Jays bury acorns"])
    person.presses("a")
    assert (person.desk.mode, person.sitting.draft) == ("answer", "They bury")


def test_browsing_ends_by_itself_when_the_actions_or_the_quotes_are_used_up(web: Little) -> None:
    person = Person(web, rules=BrowserRules(actions=2), start=JAYS.url)
    person.types("Quote: Jays bury acorns", "Find in page: they")
    assert person.desk.mode == "answer"
    person.presses("escape")
    assert (person.desk.mode, person.sitting.observation.left) == ("browse", 1)
    full = Person(web, rules=BrowserRules(quoted=30), start=JAYS.url)
    full.types("Quote: Jays bury acorns", "Quote: They find most again.")
    assert full.desk.mode == "answer"
    assert len(full.sitting.observation.quotes) == 1
    nothing = Person(web, rules=BrowserRules(actions=1), start=JAYS.url)
    nothing.types("Find in page: they")
    assert nothing.desk.mode == "end"


def test_an_end_without_an_answer_is_saved_only_when_it_is_meant(web: Little) -> None:
    saved: list[BrowserSession] = []
    person = Person(web, save=saved.append)
    person.types("End: Nonsense")
    assert (person.desk.mode, saved) == ("end", [])
    person.presses("escape")
    assert (person.desk.mode, person.sitting.commands) == ("browse", [])
    person.types("End: Controversial")
    person.presses("enter")
    assert len(saved) == 1


def test_just_reading_asks_for_the_question_at_the_end(web: Little) -> None:
    person = Person(web, Question("", ""), start=JAYS.url)
    assert person.desk.mode == "ask"
    person.types("")
    assert person.desk.mode == "browse"
    assert person.sitting.observation.title.startswith("Jays")
    person.types("Quote: Jays bury acorns", "End: Answer")
    assert person.desk.mode == "ask"
    person.types("")
    assert "nothing is saved without a question" in person.desk.note
    person.types("x" * 20_000)
    assert "20,000 characters" in person.desk.note
    person.types("  What do   jays bury? ")
    assert person.desk.mode == "answer"
    assert person.sitting.task.question.text == "What do jays bury?"
    steps, _ = person.sitting.replay_session(lambda library: library)
    assert all("What do jays bury?" in step.prompt for step in steps)


def test_a_question_that_would_hide_what_was_read_is_not_taken(web: Little) -> None:
    spoiler = "Line 3 of a page about crows, and nothing else. Line 4"
    person = Person(web, Question("", ""), start=CROWS.url)
    person.types("", "Quote: Line 3 of a page", "End: Answer")
    before = person.sitting.observation
    person.types(spoiler)
    assert "use other words" in person.desk.note
    assert (person.desk.mode, person.sitting.observation) == ("ask", before)


def test_a_question_that_would_have_led_elsewhere_is_not_taken() -> None:
    secret = "the crows that lived on the hill were counted by nine people in one night"
    first = html("https://a.org/1", f"<p>So {secret}.</p><p>Nothing else.</p>", "One")
    second = html("https://a.org/2", "<p>The crows were counted, too.</p>", "Two")
    person = Person(Little(first, second), Question("", ""))
    person.types("", "Search counted", "0", "Find in page: else", "Quote: nothing else")
    before = person.sitting.observation
    person.types("End: Answer", secret)  # which hides the first result: link 0 is another one
    assert "use other words" in person.desk.note
    person.presses("escape")
    assert person.sitting.observation == before


def test_leaving_asks_only_where_something_was_done(web: Little) -> None:
    person = Person(web)
    person.desk.ask_to_leave()
    assert person.desk.left == "dropped"
    for key, left in {"k": "kept", "d": "dropped", "escape": ""}.items():
        person = Person(web)
        person.types("Search crows")
        person.desk.ask_to_leave()
        assert (person.desk.mode, person.desk.left) == ("leave", "")
        person.presses("x", key)
        assert person.desk.left == left
    assert person.desk.mode == "browse"
    person.desk.ask_to_leave()
    person.desk.ask_to_leave()  # Ctrl-C twice
    assert person.desk.left == "kept"


# Files


BEGUN = SessionStart("me/1", BrowserTask(QUESTION), Settings(("docs",)), "/out.jsonl")


@settings(max_examples=30, deadline=None)
@given(st.lists(COMMANDS, max_size=12))
def test_what_was_done_is_done_again_from_disk_without_the_library(typed: list[str]) -> None:
    with TemporaryDirectory() as place:
        journal = UnfinishedSession(Path(place) / "1.sitting")
        journal.append_event(BEGUN)
        person = Person(Little(CROWS, JAYS), keep=journal.append_event)
        for line in typed:
            person.presses("u") if line == "u" else person.types(line)
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
    web: Little, tmp_path: Path
) -> None:
    journal = UnfinishedSession(tmp_path / "1.sitting")
    journal.append_event(BEGUN)
    person = Person(web, keep=journal.append_event)
    used = journal._file.execute("pragma page_count").fetchone()[0]
    journal._file.execute(f"pragma max_page_count = {used}")
    person.types("Search crows", "0")
    assert "not kept on disk: the disk is full" in person.desk.trouble
    assert person.sitting.observation.title.startswith("Crows")
    journal._file.execute("pragma max_page_count = 1000000")
    person.types("Scrolled down 1")
    assert person.desk.trouble == ""
    _, deeds = journal.read()
    journal.close()
    again = BrowserSession(BEGUN.task)
    for deed in deeds:
        again.replay_event(deed)
    assert again.observation == person.sitting.observation


def demonstrated(web: Little, out: Path, name: str = "me/1") -> Episode:
    """A demonstration with a failure, a taking back and merged scrolling in it, saved."""

    def save(sitting: BrowserSession) -> None:
        saved.append(
            demonstration_files.save_demonstration(
                sitting, "me", name, out, out.with_suffix(".recording")
            )
        )

    saved: list[Episode] = []
    person = Person(web, start=JAYS.url, save=save)
    person.types("0", "Back", "Search crows", "0", *["Scrolled down 1"] * 4, "Search owls")
    person.presses("u")
    person.types("Quote: Line 3 of a page", "End: Answer")
    person.desk.finish_demonstration("A page has lines [1].")
    assert person.desk.note == ""
    return saved[0]


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
    assert demonstration_files.has_demonstration(out, "me/1")
    assert not demonstration_files.has_demonstration(out, "me/2")


def test_demonstrations_are_added_and_what_a_kill_left_of_a_line_is_removed(
    web: Little, tmp_path: Path
) -> None:
    out = tmp_path / "d.jsonl"
    first = demonstrated(web, out)
    whole = out.read_bytes()
    out.write_bytes(whole + whole[: len(whole) // 2])
    demonstration_files.check_demonstration_file(out)
    demonstrated(web, out, "me/2")
    lines = out.read_text("utf-8").splitlines()
    assert [Episode.from_json(line).session for line in lines] == ["me/1", "me/2"]
    assert Episode.from_json(lines[0]) == first
    out.write_bytes(whole.rstrip(b"\n"))  # an editor may have taken the last line break
    demonstrated(web, out, "me/3")
    assert len(out.read_text("utf-8").splitlines()) == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_keeps_the_answer_in_the_editor(web: Little, tmp_path: Path) -> None:
    def save(sitting: BrowserSession) -> None:
        demonstration_files.save_demonstration(sitting, "me", "me/1", outs.pop(), tmp_path / "r")

    outs = [tmp_path / "d.jsonl", Path("/dev/full")]
    person = Person(web, start=JAYS.url, save=save)
    person.types("Quote: Jays bury acorns", "End: Answer")
    person.desk.finish_demonstration("They do [1].")
    assert "No space left on device" in person.desk.note
    assert "save again" in person.desk.note
    assert (person.desk.mode, person.desk.left) == ("answer", "")
    person.desk.finish_demonstration("They do [1].")
    assert person.desk.left == "saved"
    with CallRecording(tmp_path / "r") as recording:
        episode = Episode.from_json((tmp_path / "d.jsonl").read_text("utf-8"))
        assert replay_episode(episode, recording) == episode


@pytest.mark.parametrize("content", ["This is a letter.\n", '{"id": "1", "text": "Why?"}\n'])
def test_a_file_that_holds_something_else_is_left_alone(tmp_path: Path, content: str) -> None:
    out = tmp_path / "letter.txt"
    out.write_text(content)
    with pytest.raises(ValueError, match="something else than demonstrations"):
        demonstration_files.check_demonstration_file(out)
    assert out.read_text() == content
    with pytest.raises(ValueError, match="is a folder"):
        demonstration_files.check_demonstration_file(tmp_path)
    with pytest.raises(ValueError, match="cannot be written to"):
        demonstration_files.check_demonstration_file(out / "d.jsonl")
    demonstration_files.check_demonstration_file(tmp_path / "new" / "d.jsonl")
    assert list(tmp_path.iterdir()) == [out]
