"""Sittings from events: the same in every process; what is pointed at is what is quoted."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import msgspec
import pytest
from demonstrating import Desk, desk, did, fetched, state
from event_chains import verify_event_chain
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from little import Little, html

from rookery.browser.browser import find_quote
from rookery.browser.browser_commands import BrowserRules
from rookery.browser.page_view import PageView, PageViewCache, WindowText
from rookery.desk import demonstration_sessions, judgement_conversion
from rookery.desk.demonstration_sessions import (
    DemonstrationStore,
    StaleSessionError,
    make_storable_reply,
)
from rookery.desk.store import append_event
from rookery.records import Block, Episode, Page
from rookery.shell import demonstration_commands
from rookery.shell.browser_session import FIND_PREFIX, BrowserSession
from rookery.shell.demonstration_commands import UnquotableSpanError, find_quote_command, trim_span

BODY = (
    "<h2>Gifts</h2><p>Crows bring gifts.   They \n play with “sticks”. Crows bring gifts.</p>"
    '<p>Some <a href="/jays">bury <b>acorns</b></a> 🐦‍⬛ in cafe\u0301s.</p>'
    "<table><tr><td>one</td><td>two</td></tr><tr><td>three</td><td>four</td></tr></table>"
    "<p hidden>Nobody sees this.</p><p>x<sup>2</sup> is <img alt='a crow' src='a.png'> here.</p>"
)
LINES = "".join(f"<p>Line {number} about crows.</p>" for number in range(200))
CROWS = html("https://a.org/crows", BODY + LINES, "Crows")
JAYS = html("https://b.org/jays", '<p>Jays bury acorns. <a href="/gone">More</a></p>', "Jays")


@pytest.fixture
def opened_desk(empty_store: Path, tmp_path: Path) -> Iterator[Desk]:
    with desk(empty_store, tmp_path) as made:
        yield made


@pytest.fixture
def web() -> Little:
    return Little(CROWS, JAYS)


COMMANDS = [
    "Search crows", "Search jays", "Clicked on link 0", "Clicked on link 1", "Back", "Top",
    "Scrolled down 1", "Scrolled down 1", "Scrolled up 1", "Find in page: line 150",
    "Find in page: no such words", "Quote: Jays bury acorns.", "Quote: Line 150 about crows.",
    "Quote: 7", "End: Answer", "Nothing of the kind",
]  # fmt: skip


def acted(random: Random, work: BrowserSession) -> str:
    """Something that a person might do."""
    what = random.randrange(10)
    if what < 6:
        return demonstration_commands.run_typed_command(work, random.choice(COMMANDS))
    if what < 7:
        return demonstration_commands.undo_last_command(work)
    if what < 8:
        return demonstration_commands.save_draft_answer(work, f"Crows {random.random()} [1].")
    observation = work.observation
    start, end = sorted(random.randrange(observation.start, observation.end + 1) for _ in range(2))
    return demonstration_commands.quote_window_span(work, start, end)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_another_process_comes_to_the_same_sitting_at_every_moment(
    seed: int, opened_desk: Desk, web: Little
) -> None:
    random = Random(seed)
    place = opened_desk.place(opened_desk.item(rules=BrowserRules(actions=40)))
    ours = DemonstrationStore(opened_desk.store)
    for _ in range(25):
        did(ours, place, web, lambda work: acted(random, work))
        with (
            ours.open_session(place) as mine,
            DemonstrationStore(opened_desk.store).open_session(place) as theirs,
        ):
            assert state(mine) == state(theirs)
    assert verify_event_chain(opened_desk.store, place.stream)


def test_a_process_that_was_overtaken_catches_up_and_changes_nothing(
    opened_desk: Desk, web: Little
) -> None:
    place = opened_desk.place(opened_desk.item())
    one, two = DemonstrationStore(opened_desk.store), DemonstrationStore(opened_desk.store, most=1)
    did(
        one, place, web, lambda work: demonstration_commands.run_typed_command(work, "Search crows")
    )
    with two.open_session(place) as work:
        assert work.event_count == 2
    did(
        one,
        place,
        web,
        lambda work: demonstration_commands.run_typed_command(work, "Clicked on link 0"),
    )
    with pytest.raises(StaleSessionError):
        two.change_session(
            place, 2, lambda work: demonstration_commands.run_typed_command(work, "Search jays")
        )
    with one.open_session(place) as mine, two.open_session(place) as theirs:
        assert state(mine) == state(theirs)
        assert mine.browser_session.commands == ["Search crows", "Clicked on link 0"]


def test_what_an_older_version_suggested_changes_nothing(opened_desk: Desk, web: Little) -> None:
    place, ours = opened_desk.place(opened_desk.item()), DemonstrationStore(opened_desk.store)
    for command in ("Search crows", "Clicked on link 0"):
        did(ours, place, web, partial(demonstration_commands.run_typed_command, line=command))
    stored = {"type": "Suggested", "url": "https://a.org/crows", "digest": "", "passages": []}
    with opened_desk.store.begin_write() as connection:
        body = msgspec.json.encode(stored).decode()
        append_event(connection, place.stream, "Ada", body, 0.0)
    quoting = "Quote: Crows bring gifts."
    for sessions in (ours, DemonstrationStore(opened_desk.store)):
        did(sessions, place, web, partial(demonstration_commands.run_typed_command, line=quoting))
        with sessions.open_session(place) as work:
            assert [quote.text for quote in work.browser_session.observation.quotes]
    assert verify_event_chain(opened_desk.store, place.stream)


def test_what_cannot_be_kept_is_not_shown(
    opened_desk: Desk, web: Little, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = opened_desk.place(opened_desk.item())
    ours = DemonstrationStore(opened_desk.store)
    did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.run_typed_command(work, "Search crows"),
    )
    with ours.open_session(place) as work:
        before = state(work)

    def fails(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(demonstration_sessions, "append_event", fails)
    with pytest.raises(Exception, match="disk_full"):
        ours.change_session(
            place,
            2,
            lambda work: demonstration_commands.run_typed_command(work, "Clicked on link 0"),
        )
    monkeypatch.undo()
    with ours.open_session(place) as work:
        assert state(work) == before


def test_what_did_nothing_leaves_no_event(opened_desk: Desk, web: Little) -> None:
    place = opened_desk.place(opened_desk.item())
    ours = DemonstrationStore(opened_desk.store)
    for line, said in {
        "99": "no link 99",
        "Back": "no page before",
        "Quote: Owls": "only a page that was opened",
        "End: Answer": "quote something first",
        "Dance": "this is no command",
    }.items():
        run = partial(demonstration_commands.run_typed_command, line=line)
        assert said in did(ours, place, web, run)
    with ours.open_session(place) as work:
        assert (work.event_count, work.browser_session.observation.left) == (0, 100)


def test_a_page_that_no_file_holds_is_told_and_not_lost(opened_desk: Desk) -> None:
    page = Page("https://a.org/x", "Odd", "odd \ud800 text", (Block(0, 10, "paragraph"),))
    place = opened_desk.place(opened_desk.item(start=page.url))
    ours = DemonstrationStore(opened_desk.store)
    assert make_storable_reply(page.url, JAYS) == JAYS
    fetched(ours, place, Little(page))
    with ours.open_session(place) as work:
        assert "cannot be kept" in work.browser_session.observation.text


def test_imitation_reads_a_demonstration_as_it_was_handed_in(
    opened_desk: Desk, tmp_path: Path, web: Little
) -> None:
    from rookery.learn.training_data import read_episodes  # it loads torch

    place = opened_desk.place(opened_desk.item(start=JAYS.url))
    ours = DemonstrationStore(opened_desk.store)
    fetched(ours, place, web)
    for line in ("Quote: Jays bury acorns.", "Scrolled up 1", "End: Answer"):
        did(ours, place, web, lambda work: demonstration_commands.run_typed_command(work, line))  # noqa: B023
    did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.save_draft_answer(work, "They bury acorns [1]."),
    )
    with ours.open_session(place) as work:
        filled = judgement_conversion.add_episode(
            {"comment": "none"},
            demonstration_commands.make_demonstration_episode(work.browser_session, "Ada"),
        )
    kept = msgspec.convert(msgspec.json.decode(msgspec.json.encode(filled["episode"])), Episode)
    (tmp_path / "episodes.jsonl").write_text(kept.to_json() + "\n")
    (read,) = read_episodes([tmp_path / "episodes.jsonl"])
    assert [step.said.text for step in read.steps] == [
        "Quote: Jays bury acorns.",
        "End: Answer",
        "They bury acorns [1].",
    ]
    assert all("♦Next action" in step.prompt for step in read.steps[:-1])


# Pointing


def view_of(page: Page) -> PageView:
    return PageViewCache().get_opened(page, BrowserRules()).article


@pytest.mark.slow
@given(
    st.lists(
        st.text(
            "ab .\n\té́🐦‍⬛【†】^_|·“”—\u200b\u00ad\u0301가\u1100\u1161", min_size=1, max_size=24
        ),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_a_span_is_named_exactly_or_not_at_all(lines: list[str], data: st.DataObject) -> None:
    text, blocks = "", list[Block]()
    for line in lines:
        if words := line.strip():
            text += "\n\n" if text else ""
            hidden = data.draw(st.booleans()) and bool(blocks)
            end = len(text) + len(words)
            blocks.append(Block(len(text), end, "paragraph", 0, not hidden, hidden))
            text += words
    page = Page("https://a.org/x", "X", text, tuple(blocks))
    opened = PageViewCache().get_opened(page, BrowserRules())
    window = opened.article.window_at(opened.article.top)
    parts = list(opened.article.iter_parts(window.start))
    places = st.integers(window.start, window.end)
    start, end = sorted(data.draw(st.tuples(places, places)))
    try:
        span = trim_span(page, window, start, end)
    except UnquotableSpanError:
        assert not text[start:end].strip(" \n\t\u200b\u00ad\u200d") or not window.text.strip()
        return
    try:
        command = find_quote_command(page, opened.finder, window, parts, span)
    except UnquotableSpanError:
        return
    words = command.removeprefix("Quote: ")
    quoted_span = find_quote(opened.finder, words, window.start, WindowText(page, parts))
    assert quoted_span == opened.finder.widen_to_words(span)
    seen = "".join(text[part.start : part.end] for part in parts)
    inside = "".join(text[slice(*span)].split())
    assert inside in "".join(seen.split())


@pytest.mark.parametrize(
    ("words", "quoted"),
    [
        (" play with ", "play with"),
        ("“sticks”. Crows", "“sticks”. Crows"),
        ("🐦‍⬛ in cafe", "🐦‍⬛ in cafe\u0301"),
        ("\u0301s.", "e\u0301s."),
        ("one\ttwo\nthree", "one\ttwo\nthree"),
    ],
)
def test_what_is_quoted_is_cut_from_the_page_in_whole_characters(words: str, quoted: str) -> None:
    start = CROWS.text.index(words)
    view = view_of(CROWS)
    span = trim_span(CROWS, view.window_at(view.top), start, start + len(words))
    assert CROWS.text[slice(*span)] == quoted


def test_of_the_same_words_twice_only_the_first_can_be_named(
    opened_desk: Desk, web: Little
) -> None:
    second = CROWS.text.rindex("Crows bring gifts.")
    place = opened_desk.place(opened_desk.item(start=CROWS.url))
    ours = DemonstrationStore(opened_desk.store)
    fetched(ours, place, web)
    note = did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.quote_window_span(work, second, second + 18),
    )
    assert "the same words stand further up" in note
    assert not did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.quote_window_span(work, second - 2, second + 18),
    )
    with ours.open_session(place) as work:
        assert work.browser_session.observation.quotes == (CROWS.quote(second - 2, second + 18),)
        assert [
            span for span, _ in demonstration_commands.list_highlights(work.browser_session)
        ] == [(second - 2, second + 18)]


def test_a_quote_never_holds_what_the_window_left_out() -> None:
    text = "Crows play.\n\nBuy a hat!\n\nJays do not."
    blocks = (
        Block(0, 11, "paragraph"),
        Block(13, 23, "paragraph", article=False),
        Block(25, 37, "paragraph"),
    )
    page = Page("https://a.org/x", "X", text, blocks)
    opened = PageViewCache().get_opened(page, BrowserRules())
    window = opened.article.window_at(0)
    with pytest.raises(UnquotableSpanError, match="more between these words than it shows"):
        find_quote_command(page, opened.finder, window, list(opened.article.iter_parts(0)), (6, 29))
    whole = opened.full.window_at(0)
    command = find_quote_command(
        page, opened.finder, whole, list(opened.full.iter_parts(0)), (6, 29)
    )
    assert command == "Quote: play.\n\nBuy a hat!\n\nJays"


def test_a_long_quote_is_said_by_its_beginning_and_its_end(opened_desk: Desk, web: Little) -> None:
    line = CROWS.text.index("Line 0 about")
    place = opened_desk.place(opened_desk.item(start=CROWS.url))
    ours = DemonstrationStore(opened_desk.store)
    fetched(ours, place, web)
    assert not did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.quote_window_span(work, line, line + 600),
    )
    with ours.open_session(place) as work:
        said = work.browser_session.commands[-1]
        assert (
            work.browser_session.observation.quotes[-1].text
            == CROWS.quote_whole_words(line, line + 600).text.strip()
        )
    assert "━" in said
    assert len(said) < 140


def test_a_quote_beyond_the_room_is_told_and_ends_nothing(opened_desk: Desk, web: Little) -> None:
    line = CROWS.text.index("Line 0 about")
    place = opened_desk.place(opened_desk.item(start=CROWS.url, rules=BrowserRules(quoted=50)))
    ours = DemonstrationStore(opened_desk.store)
    fetched(ours, place, web)
    note = did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.quote_window_span(work, line, line + 300),
    )
    assert "room for 50 more characters" in note
    with ours.open_session(place) as work:
        assert not work.browser_session.ending


def test_what_is_found_is_marked_where_it_stands(opened_desk: Desk, web: Little) -> None:
    place = opened_desk.place(opened_desk.item(start=CROWS.url))
    ours = DemonstrationStore(opened_desk.store)
    fetched(ours, place, web)
    did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.run_typed_command(work, f"{FIND_PREFIX}line 150"),
    )
    with ours.open_session(place) as work:
        marked = [
            CROWS.text[slice(*span)]
            for span, name in demonstration_commands.list_highlights(work.browser_session)
        ]
    assert marked == ["Line 150"]


def test_what_is_said_of_an_answer_never_fails(opened_desk: Desk) -> None:
    web = Little(JAYS)
    place = opened_desk.place(opened_desk.item(start=JAYS.url))
    ours = DemonstrationStore(opened_desk.store)
    fetched(ours, place, web)
    did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.run_typed_command(work, "Quote: Jays bury acorns."),
    )
    did(
        ours, place, web, lambda work: demonstration_commands.run_typed_command(work, "End: Answer")
    )

    @example("")
    @given(st.text("ab [1]2%<\\.\n", max_size=40) | st.text(max_size=40))
    def holds(text: str) -> None:
        with ours.open_session(place) as work:
            found = demonstration_commands.lint_answer(work.browser_session, text)
        assert text.strip() or found[0].bars

    holds()


def test_an_answer_is_looked_at_before_it_is_handed_in(opened_desk: Desk) -> None:
    web = Little(JAYS)
    place = opened_desk.place(opened_desk.item(start=JAYS.url))
    ours = DemonstrationStore(opened_desk.store)
    fetched(ours, place, web)
    did(
        ours,
        place,
        web,
        lambda work: demonstration_commands.run_typed_command(work, "Quote: Jays bury acorns."),
    )
    did(
        ours, place, web, lambda work: demonstration_commands.run_typed_command(work, "Quote: More")
    )
    did(
        ours, place, web, lambda work: demonstration_commands.run_typed_command(work, "End: Answer")
    )
    with ours.open_session(place) as work:
        said = {
            text: [
                lint.sentence
                for lint in demonstration_commands.lint_answer(work.browser_session, text)
            ]
            for text in ("Yes [3].", "Yes.", "Yes [1].\n\nAnd no.", "Yes [1][2].")
        }
    assert said == {
        "Yes [3].": ["the answer cites [3], but there are 2 quotes"],
        "Yes.": [demonstration_commands.UNCITED],
        "Yes [1].\n\nAnd no.": ["not cited yet: [2]", "1 paragraph without a citation"],
        "Yes [1][2].": [],
    }


def test_the_parts_of_a_window_are_its_text() -> None:
    for page in (CROWS, JAYS):
        view = view_of(page)
        top = view.top
        while True:
            parts = list(view.iter_parts(top))
            assert "".join(part.text for part in parts).rstrip() == view.window_at(top).text
            for part in parts:
                if part.start < part.end:
                    assert part.text == page.text[part.start : part.end]
            if (below := view.window_below(top)) == top:
                break
            top = below


def test_of_many_who_go_on_from_the_same_place_one_does(opened_desk: Desk) -> None:
    place = opened_desk.place(opened_desk.item())
    tabs = [DemonstrationStore(opened_desk.store) for _ in range(8)]

    def goes_on(number: int, tab: int) -> int:
        try:
            tabs[tab].change_session(
                place,
                number,
                lambda work: demonstration_commands.save_draft_answer(work, f"{number} {tab}"),
            )
        except StaleSessionError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as together:
        for number in range(10):
            assert sum(together.map(partial(goes_on, number), range(8))) == 1
    assert verify_event_chain(opened_desk.store, place.stream)
