"""A whole demonstration through plain forms; tabs that are behind; hostile pages; slow ones."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from commands import surroundings
from demonstrating import QUESTION, Desk, Seen, client, desk, did, person_at, write_pages
from desks import Person
from little import Little, html
from stage import Said, Stage, Visit, stage

from rookery.browser.browser_commands import BrowserRules
from rookery.desk import accounts, judgement_conversion, labelling_queue, store
from rookery.desk.demonstration_pages import find_last_quoted_paragraph
from rookery.desk.demonstration_sessions import DemonstrationKey, DemonstrationStore
from rookery.desk.forms import LabellingItem
from rookery.records import Answer, Block, Hit, Link, Page, Question
from rookery.settings import Settings
from rookery.shell import demonstration_commands


@pytest.fixture
def desk_pages(
    empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Desk]:
    for name, value in surroundings(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("rookery.desk.demonstration_pages.COMMAND_WAIT", 100.0)
    with desk(empty_store, tmp_path) as there:
        yield there


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(places=(str(write_pages(tmp_path_factory.mktemp("web") / "pages")),))


def deeds(desk: Desk, place: DemonstrationKey) -> list[str]:
    """What was done, in a word or two each."""
    with desk.store.begin_read() as connection:
        bodies = map(msgspec.json.decode, store.read_events(connection, place.stream))
        return [body.get("command") or body["type"] for body in bodies]


@pytest.mark.slow
def test_a_demonstration_is_made_without_a_script(desk_pages: Desk, pages: Settings) -> None:
    item = desk_pages.item()
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, f"/demonstrate/{item}")
        assert QUESTION.text in seen.words
        seen.presses("Search", search="crows gifts")
        assert "Crows" in seen.one("button.result").text()
        seen.presses("Crows")
        assert "A gift needs a giver" in seen.words
        assert seen.one("table tr td span[data-start]").text() == "Bird"
        seen.presses("Quote these sentences")
        assert seen.path == f"/demonstrate/{item}"
        assert seen.one("aside blockquote").text() == "Crows and gifts"
        seen.presses("Quote what is typed", quote="a giver who means something")
        seen.presses("Find", find="walnut")
        assert seen.one("mark.found").text() == "walnut"
        seen.presses("Next")
        seen.presses("Down").presses("Up").presses("Top")
        seen.sends(seen.one("label.leads ~ button.leads-to, button.leads-to"))
        assert "Jays bury acorns in September" in seen.words
        seen.presses("Back").presses("Undo")
        seen.presses("Write the answer")
        assert seen.one("h1").text() == QUESTION.text
        seen.presses("Save", answer="They mean something [2].\n\nPerhaps.")
        assert seen.one("textarea#answer").text() == "They mean something [2].\n\nPerhaps."
        assert "Not cited yet: [1]" in seen.words
        seen.presses("Hand it in", answer="They mean something [3].")
        assert (seen.status, seen.note()) == (422, "The answer cites [3], but there are 2 quotes.")
        seen.presses("Hand it in", answer="They mean something.")
        assert "no quote is cited" in seen.note().lower()
        seen.presses("Hand it in", answer="They mean something [2].", comment="easy")
        assert "Handed in" in seen.words
        (judgement,) = labelling_queue.list_judgements(desk_pages.store, "Ada", 5)
        episode = judgement_conversion.convert_to_episode(
            labelling_queue.load_item(desk_pages.store, item), judgement
        )
        assert episode is not None
        assert episode.answer is not None
        assert episode.answer.text == "They mean something."
        assert judgement.filled["comment"] == "easy"
        assert [step.said.text for step in episode.steps] == [
            "Search crows gifts", "Clicked on link 0", "Quote: Crows and gifts",
            "Quote: a giver who means something", "Find in page: walnut", "Find in page: walnut",
            "Scrolled down 1", "Scrolled up 1", "Top", "Clicked on link 0", "End: Answer",
            "They mean something [2].",
        ]  # fmt: skip
        seen = Seen(browser, f"/demonstrate/{item}")
        assert seen.path == f"/trace/{judgement.id}"
        assert "They mean something" in seen.words
        for number in range(1, len(episode.steps) + 1):
            assert Seen(browser, f"/trace/{judgement.id}/{number}").status == 200
        assert Seen(browser, f"/trace/{judgement.id}/99").status == 404
        step = Seen(browser, f"/trace/{judgement.id}/4")
        assert step.one("mark.quoted").text() == "Crows and gifts"
        person_at(browser, desk_pages, "Ben")
        assert Seen(browser, f"/trace/{judgement.id}").status == 404
        person_at(browser, desk_pages, "Cleo")
        assert Seen(browser, f"/trace/{judgement.id}").status == 200


def test_a_question_of_ones_own_becomes_a_task(desk_pages: Desk, pages: Settings) -> None:
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, "/demonstrate")
        seen.presses("Begin", q="  ")
        assert seen.status == 422
        seen.presses("Begin", q="Do jays <b>eat</b> acorns?")
        assert seen.one("h1").text() == "Do jays <b>eat</b> acorns?"
        seen.presses("The question makes no sense")
        assert "makes no sense" in seen.words
        seen.presses("Back to reading").presses("It should not be answered")
        seen.presses("Hand it in", comment="")
        (judgement,) = labelling_queue.list_judgements(desk_pages.store, "Ada", 5)
        assert judgement.filled["episode"]["stop"] == "controversial"
        seen = Seen(browser, "/demonstrate").presses("Begin", q="Do jays <b>eat</b> acorns?")
        assert "You asked this before" in seen.words


def test_a_tab_that_is_behind_does_nothing_and_is_told(desk_pages: Desk, pages: Settings) -> None:
    item = desk_pages.item()
    place = desk_pages.place(item)
    with client(desk_pages, pages) as browser:
        one, two = (Seen(browser, f"/demonstrate/{item}") for _ in range(2))
        one.presses("Search", search="crows")
        two.presses("Search", search="jays")
        assert two.status == 409
        assert "gone on in another" in two.note()
        assert "Search results for: crows" in two.words
        assert deeds(desk_pages, place) == ["Search crows", "Replied"]
        two.presses("Crows")
        assert deeds(desk_pages, place)[2:] == ["Clicked on link 0", "Given"]


@pytest.mark.slow
def test_a_double_click_and_a_page_that_comes_back_are_done_once(
    desk_pages: Desk, pages: Settings
) -> None:
    item = desk_pages.item()
    place = desk_pages.place(item)
    with client(desk_pages, pages) as browser:
        first = Seen(browser, f"/demonstrate/{item}").presses("Search", search="crows")
        again = first.form(first.one("button.result"))
        first.presses("Crows")
        twice = first.take(browser.post(again[0], data=again[1]))
        assert (twice.status, twice.note()) == (200, "")
        assert deeds(desk_pages, place) == ["Search crows", "Replied", "Clicked on link 0", "Given"]
        twice.presses("Quote what is typed", quote="A gift needs a giver")
        twice.presses("Write the answer")
        handed = twice.form(twice.one("button[name=hand_in]"))
        handed[1]["answer"] = "It does [1]."
        for _ in range(2):
            twice.take(browser.post(handed[0], data=handed[1]))
            assert "handed in" in twice.words.lower()
        assert len(labelling_queue.list_judgements(desk_pages.store, "Ada", 5)) == 1
        twice.take(browser.post(again[0], data=again[1]))
        assert twice.status == 409


def test_what_is_not_ones_own_is_not_shown(desk_pages: Desk, pages: Settings) -> None:
    item = desk_pages.item()
    with client(desk_pages, pages, "Ben") as browser:
        assert Seen(browser, f"/demonstrate/{item}").status == 404
        assert (
            browser.post(f"/demonstrate/{item}", data={"seen": "0", "command": "Top"}).status_code
            == 404
        )
        assert Seen(browser, "/demonstrate/nothing").status == 404
        assert Seen(browser, "/trace/nothing").status == 404


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"seen": "x", "command": "Top"},
        {"seen": "-1", "command": "Top"},
        {"seen": "99999999999999999999", "command": "Top"},
        {"seen": "0", "command": ""},
        {"seen": "0", "span": "1-2"},
        {"seen": "0", "span": "-"},
        {"seen": "0", "span": "١-٢"},
        {"seen": "0", "from": "x", "to": "y"},
        {"seen": "0", "quote": "\x00"},
        {"seen": "0", "search": "   "},
        {"seen": "0", "undo": "yes"},
        {"seen": "0", "hand_in": "yes", "answer": "x"},
        {"seen": "0", "command": "End: Answer"},
    ],
)
def test_what_makes_no_sense_is_a_sentence(
    desk_pages: Desk, pages: Settings, fields: dict[str, str]
) -> None:
    item = desk_pages.item()
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, f"/demonstrate/{item}")
        seen.take(browser.post(f"/demonstrate/{item}", data=fields))
        assert seen.status in (409, 422)
        assert seen.note().endswith((".", "?"))
        assert deeds(desk_pages, desk_pages.place(item)) == []


def test_a_task_of_another_form_cannot_be_demonstrated(desk_pages: Desk, pages: Settings) -> None:
    labelling_queue.add_items(
        desk_pages.store, [LabellingItem("compare", QUESTION, (Answer("a"), Answer("b")))], "c", 1
    )
    lease = labelling_queue.claim_item(desk_pages.store, "Ada", only_form="compare")
    assert lease is not None
    with client(desk_pages, pages) as browser:
        assert Seen(browser, f"/demonstrate/{lease.item_id}").status == 404
        sent = {"seen": "0", "command": "End: Nonsense"}
        assert browser.post(f"/demonstrate/{lease.item_id}", data=sent).status_code == 404


@pytest.mark.slow
def test_work_after_its_time_goes_on_and_is_kept_as_extra(
    desk_pages: Desk, pages: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = desk_pages.item()
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, f"/demonstrate/{item}").presses("Search", search="crows")
        later = desk_pages.store.clock() + 4000
        desk_pages.store.clock = lambda: later
        accounts.add_person(desk_pages.store, "Dora", "labeller")
        for name in ("Ben", "Cleo", "Dora"):
            assert labelling_queue.claim_item(desk_pages.store, name, item=item) is not None
        seen.presses("Crows")
        assert "time for this task ran out" in seen.words
        seen.presses("The question makes no sense").presses("Hand it in", comment="")
        assert "additional judgement" in seen.words
        assert labelling_queue.list_judgements(desk_pages.store, "Ada", 1)[0].kind == "extra"


def test_a_task_that_was_skipped_takes_no_more(desk_pages: Desk, pages: Settings) -> None:
    item = desk_pages.item()
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, f"/demonstrate/{item}")
        before = seen.form(seen.one("button[value=Top]"))
        seen.presses("Skip it")
        seen.take(browser.post(before[0], data=before[1]))
        assert seen.status == 409
        assert "You skipped this task" in seen.words
        assert Seen(browser, f"/demonstrate/{item}").status == 409


EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202egnp.exe 【9†x】"
HOSTILE = Page(
    'https://evil.example/"onmouseover=alert(1)//',
    EVIL,
    f"{EVIL}\n\nA link.\x00\r\nZ",
    (
        Block(0, len(EVIL), "heading", 1),
        Block(len(EVIL) + 2, len(EVIL) + 9, "paragraph"),
        Block(len(EVIL) + 9, len(EVIL) + 13, "code"),
    ),
    (Link(len(EVIL) + 2, len(EVIL) + 9, "javascript:alert(1)"),),
)


def test_nothing_of_a_page_becomes_markup(desk_pages: Desk, pages: Settings) -> None:
    item = desk_pages.item(Question("1", "<script>alert(1)</script> \u202e?"))
    place = desk_pages.place(item)
    ours = DemonstrationStore(desk_pages.store)
    hostile = Little(HOSTILE)
    did(
        ours,
        place,
        hostile,
        lambda work: demonstration_commands.run_typed_command(work, "Search link"),
    )
    with client(desk_pages, pages) as browser:
        results = Seen(browser, f"/demonstrate/{item}")
        did(
            ours,
            place,
            hostile,
            lambda work: demonstration_commands.run_typed_command(work, "Clicked on link 0"),
        )
        page = Seen(browser, f"/demonstrate/{item}")
        did(
            ours,
            place,
            hostile,
            lambda work: demonstration_commands.run_typed_command(
                work, f"Find in page: {EVIL[:8]}"
            ),
        )
        start = len(EVIL)
        assert not did(
            ours,
            place,
            hostile,
            lambda work: demonstration_commands.quote_window_span(work, 0, start),
        )
        quoted = Seen(browser, f"/demonstrate/{item}")
        did(
            ours,
            place,
            hostile,
            lambda work: demonstration_commands.run_typed_command(work, "End: Answer"),
        )
        did(
            ours,
            place,
            hostile,
            lambda work: demonstration_commands.save_draft_answer(work, f"{EVIL} [1]"),
        )
        answer = Seen(browser, f"/demonstrate/{item}")
        answer.presses("Hand it in", comment=EVIL)
        (judgement,) = labelling_queue.list_judgements(desk_pages.store, "Ada", 1)
        traced = [Seen(browser, f"/trace/{judgement.id}{n}") for n in ("", "/1", "/2", "/3", "/4")]
        for seen in (results, page, quoted, answer, *traced):
            assert seen.status in (200,)
            assert "<script>alert" not in seen.html
            assert not seen.tree.css("main img, main [onerror], main [onmouseover]")
            assert not seen.tree.css("a[href^=javascript]")
        for seen in (results, page, quoted):
            window = seen.one("#window")
            assert "\u202e" not in window.text()
            assert "\u202e" not in seen.one("title").text()


def test_every_character_of_a_window_stands_where_it_says(
    desk_pages: Desk, pages: Settings
) -> None:
    item = desk_pages.item(start=HOSTILE.url)
    place = desk_pages.place(item)
    did(DemonstrationStore(desk_pages.store), place, Little(HOSTILE), lambda work: "")
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, f"/demonstrate/{item}")
    spans = [
        (int(each.attributes["data-start"] or ""), each.text())
        for each in seen.tree.css("[data-window] [data-start]")
    ]
    assert "".join(words for _, words in spans)
    for start, words in spans:
        of_page = HOSTILE.text[start : start + len(words)]
        assert len(of_page) == len(words)
        same = [a == b for a, b in zip(of_page, words, strict=True) if a.isalnum() and a.isascii()]
        assert all(same)


# Slow and absent pages


@pytest.fixture
def slow() -> Iterator[tuple[Stage, threading.Event]]:
    """A search engine that answers when it is allowed to."""
    allowed = threading.Event()
    with stage() as web:

        def waits(visit: Visit) -> Said:
            allowed.wait(20)
            found = [{"url": f"{web.base}/a", "title": "A", "content": ""}]
            return Said(msgspec.json.encode({"results": found}).decode(), "application/json")

        web.routes["/search"] = waits
        web.routes["/a"] = Said("<title>A</title><p>A page.</p>")
        yield web, allowed
        allowed.set()


@pytest.mark.slow
def test_a_slow_page_keeps_nobody_else_waiting(
    desk_pages: Desk, slow: tuple[Stage, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rookery.desk.demonstration_pages.COMMAND_WAIT", 0.05)
    there, allowed = slow
    settings = Settings(engine=f"searxng:{there.base}", private=True)
    item = desk_pages.item()
    with client(desk_pages, settings) as browser:
        seen = Seen(browser, f"/demonstrate/{item}").presses("Search", search="a")
        assert "Searching for a" in seen.words
        assert Seen(browser, f"/demonstrate/{item}").words == seen.words
        assert Seen(browser, "/demonstrate").status == 200
        left = Seen(browser, f"/demonstrate/{item}").presses("Cancel")
        assert "Nothing is open yet" in left.words
        left.presses("Search", search="b")
        allowed.set()
        monkeypatch.setattr("rookery.desk.demonstration_pages.COMMAND_WAIT", 100.0)
        seen = Seen(browser, f"/demonstrate/{item}")
        assert "Search results for: b" in seen.words
        assert deeds(desk_pages, desk_pages.place(item)) == [
            "Search a",
            "Undone",
            "Search b",
            "Replied",
        ]
        seen.presses("A")
        assert "A page." in seen.words


def test_what_was_being_opened_when_a_process_died_is_opened_by_the_next(
    desk_pages: Desk, pages: Settings
) -> None:
    item = desk_pages.item()
    place = desk_pages.place(item)
    DemonstrationStore(desk_pages.store).change_session(
        place, 0, lambda work: demonstration_commands.run_typed_command(work, "Search crows")
    )
    with client(desk_pages, pages) as browser:
        assert "Search results for: crows" in Seen(browser, f"/demonstrate/{item}").words


def test_a_page_that_cannot_be_had_is_an_error_page_and_back_leads_on(
    desk_pages: Desk, pages: Settings
) -> None:
    item = desk_pages.item()
    place = desk_pages.place(item)
    gone = Little(html("https://a.org/x", '<a href="/gone">More</a>'))
    ours = DemonstrationStore(desk_pages.store)
    did(
        ours,
        place,
        gone,
        lambda work: demonstration_commands.run_typed_command(work, "Search more"),
    )
    did(
        ours,
        place,
        gone,
        lambda work: demonstration_commands.run_typed_command(work, "Clicked on link 0"),
    )
    did(
        ours,
        place,
        gone,
        lambda work: demonstration_commands.run_typed_command(work, "Clicked on link 0"),
    )
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, f"/demonstrate/{item}")
        assert "there is no such page" in seen.one(".window .notice").text()
        assert "More" in seen.presses("Back").words


@pytest.mark.slow
def test_the_end_of_the_actions_leads_to_the_answer(desk_pages: Desk, pages: Settings) -> None:
    item = desk_pages.item(rules=BrowserRules(actions=3))
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, f"/demonstrate/{item}").presses("Search", search="crows")
        seen.presses("Crows").presses("Quote these sentences")
        assert "Your answer" in seen.words
        seen.presses("Hand it in", answer="Crows [1].")
        assert "Handed in" in seen.words


@pytest.mark.slow
def test_a_hit_with_a_hostile_address_is_text(desk_pages: Desk, pages: Settings) -> None:
    item = desk_pages.item()
    place = desk_pages.place(item)

    class Evil(Little):
        def search(self, query: str, k: int) -> list[Hit]:
            return [Hit('javascript:alert("1")', EVIL, EVIL), Hit("https://x\u202e.org/", "", EVIL)]

    did(
        DemonstrationStore(desk_pages.store),
        place,
        Evil(),
        lambda work: demonstration_commands.run_typed_command(work, "Search x"),
    )
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, f"/demonstrate/{item}")
        assert not seen.tree.css("main a[href^=java], main script, main img")
        assert "\u202e" not in seen.one("#window").text()


def test_a_draft_is_kept_for_a_script_and_a_tab_that_is_behind_is_refused(
    desk_pages: Desk, pages: Settings
) -> None:
    item = desk_pages.item()
    with client(desk_pages, pages) as browser:
        seen = Seen(browser, f"/demonstrate/{item}").presses("Search", search="crows")
        seen.presses("Crows").presses("Quote these sentences").presses("Write the answer")
        number = int(seen.form(seen.one("button[name=save]"))[1]["seen"])
        address = f"/demonstrate/{item}/draft"
        first = browser.post(address, data={"seen": str(number), "answer": "Crows [2]"})
        assert first.json()["seen"] == number + 1
        assert first.json()["lints"][0]["bars"]
        stale = browser.post(address, data={"seen": str(number), "answer": "Jays"})
        assert stale.status_code == 409
        assert "another one" in stale.json()["sentence"]
        assert Seen(browser, f"/demonstrate/{item}").one("#answer").text() == "Crows [2]"


def test_the_last_quote_of_the_page_that_is_open_is_gone_to() -> None:
    words = [f"Line {number} is about rooks and nothing else." for number in range(400)]
    rooks = html("https://a.org/rooks", "".join(f"<p>{line}</p>" for line in words), "Rooks")
    jays = html("https://a.org/jays", "<p>Jays bury acorns.</p><p>They come back.</p>", "Jays")
    person = Person(Little(rooks, jays))
    person.types("Search rooks", "Clicked on link 0", "Scrolled down 1")
    window = person.sitting.observation
    assert find_last_quoted_paragraph(person.sitting) == window.start > 0
    places = map(rooks.text.index, words)
    number, there = [one for one in enumerate(places) if window.start < one[1] < window.end][3]
    person.types(f"Quote: {words[number]}")
    assert person.note == ""
    assert find_last_quoted_paragraph(person.sitting) == there
    person.types("Search jays", "Clicked on link 0", "Quote: They come back.")
    assert find_last_quoted_paragraph(person.sitting) == jays.text.index("They come")
    person.types("Back", "Back")
    assert person.sitting.observation.url == rooks.url
    assert find_last_quoted_paragraph(person.sitting) == there
    person.types("Top")
    assert person.sitting.observation.end <= there
    assert find_last_quoted_paragraph(person.sitting) == person.sitting.observation.start
