"""Asking and reading without a browser: the pages, the stream, what readers say of an answer."""

import re
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
import pytest
from askers import CROWS, JUDGED_CROWS, LONG, SECONDS, home
from models import chat, serving, write_choices
from selectolax.lexbor import LexborHTMLParser
from starlette.concurrency import run_in_threadpool
from starlette.testclient import TestClient
from visits import Opened, Visit, open_store

import rookery
from rookery.desk import accounts, adjudication, labelling_queue, tables
from rookery.desk.accounts import PersonRole
from rookery.desk.forms import Judgement
from rookery.desk.judgement_conversion import convert_to_ratings
from rookery.desk.store import Store
from rookery.errors import Failed
from rookery.pages.page_reader import read_page
from rookery.quotes.verification import verify_quotes
from rookery.records import Answer, Episode, Question
from rookery.server.answer_pages import (
    ProgressLine,
    flag_citation,
    format_source_name,
    load_reader_rating,
    make_answer_view,
    save_answer_rating,
)
from rookery.server.api.answer_queue import find_answer
from rookery.server.api.answer_sessions import FINAL_EVENTS
from rookery.server.app import build_web_app
from rookery.server.monitoring import ObservabilityMiddleware
from rookery.settings import ModelSettings, Settings
from rookery.shell.rendering import PageAssets

HOUSE = Path(rookery.__file__).parent
SCRIPT = "<script>alert(1)</script>"
pytestmark = pytest.mark.usefixtures("home")
__all__ = ["home"]


class Reading(NamedTuple):
    """A server that answers from the corvids, for the people of one test."""

    opened: Opened
    client: TestClient
    number: int = 0

    def visit(self, name: str = "rita", role: PersonRole = "reader") -> Visit:
        client = TestClient(self.client.app, base_url="http://desk.test")
        name = f"{name} {self.number}"
        token = accounts.create_invite(self.opened.store, name, role, "ada")
        assert client.post(f"/enter/{token}").status_code == 200
        return Visit(client, name)


@pytest.fixture(scope="module")
def server(
    home: Path, empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reading]:
    opened = open_store(empty_store, tmp_path_factory.mktemp("reading"))
    app = build_web_app(opened.store, JUDGED_CROWS, opened.limits)
    with TestClient(app, base_url="http://desk.test") as client:
        yield Reading(opened, client)
    opened.store.close()


@pytest.fixture
def reading(server: Reading) -> Reading:
    """The server, with people whom no other test has."""
    return server._replace(number=len(accounts.list_people(server.opened.store)))


def answered(visit: Visit, question: str = LONG, **how: str) -> str:
    """Asks, and looks at the page again and again, as a browser without scripts does; where."""
    visit.post("/ask", question=question, **how)
    assert visit.at.startswith("/answers/"), visit.text
    until = time.monotonic() + SECONDS
    while visit.page.css_first("noscript meta[http-equiv=refresh]"):
        assert time.monotonic() < until, visit.text
        time.sleep(0.05)
        visit.get(visit.at)
    return visit.at


@pytest.mark.slow
def test_an_answer_is_read_without_a_script(reading: Reading) -> None:
    visit = reading.visit()
    answered(visit)
    quotes = visit.page.css(".answer-text .cited-quote")
    marks = visit.page.css(".answer-text .number-mark")
    assert [mark.text() for mark in marks] == ["1", "2"]
    assert "seven or eight years" in visit.first(".answer-text").text()
    assert visit.page.css(".cited-quote") == quotes, "no quote stands there twice"
    for quote in quotes:
        assert "verified" in quote.text()
        assert quote.css_first("blockquote") is not None
        shown = quote.css_first("a[href^='/pages/']")
        assert shown is not None
        assert re.search(r"start=\d+&end=\d+#quote$", shown.attributes["href"] or "")
    assert visit.first("header a[href='#meaning']").text().startswith("score ")
    assert "High is certain (0.75 or more of 1)" in visit.first("details > #meaning").text()
    assert "How Long Do Crows Live?" in visit.text
    assert "Searched “How long do crows live?”" in visit.text


@pytest.mark.slow
def test_no_page_says_where_files_lie(reading: Reading) -> None:
    visit = reading.visit()
    at = answered(visit)
    pages = [visit.get(address).html for address in (at, "/", "/asked")]
    with visit.client.stream("GET", f"{at}/events") as stream:
        pages.append(stream.read().decode())
    for page in pages:
        assert "file:" not in page
        assert str(Path(__file__).parent.parent) not in page
        assert "/corvids/" not in page


def test_a_decline_says_what_was_looked_at_and_shows_the_closest_quotes(
    reading: Reading,
) -> None:
    visit = reading.visit()
    answered(visit, "What is the capital of Peru?", decline="0.85")
    assert "No passage reached 0.85; the closest are below." in visit.text
    assert visit.page.css(".quotes .evidence")
    assert visit.page.css_first(".answer-text") is None
    assert visit.page.css("details.trail[open] .step")
    assert "Was it right to decline?" in visit.text


@pytest.mark.slow
def test_both_sides_stand_beside_each_other(reading: Reading) -> None:
    visit = reading.visit()
    answered(visit, "Do crows live for a hundred years?", method="sides")
    sides = {each.css("h2")[0].text(): each for each in visit.page.css(".side")}
    assert list(sides) == ["For", "Against"]
    assert all(side.css("button.cite") for side in sides.values())
    assert "Judged by the evidence model" in visit.text


def test_both_sides_are_offered_where_something_can_judge_them(
    reading: Reading, empty_store: Path, tmp_path: Path
) -> None:
    assert reading.visit().get("/").page.css("input[name=method][value=sides]")
    opened = open_store(empty_store, tmp_path)
    with TestClient(build_web_app(opened.store, CROWS), base_url="http://desk.test") as client:
        visit = Reading(opened, client).visit()
        assert not visit.get("/").page.css("input[name=method][value=sides]")
        visit.post("/ask", question="Do crows remember faces?", method="sides")
        assert (visit.status, "There is no method of this name" in visit.text) == (400, True)
    opened.store.close()


def test_a_question_that_cannot_be_answered_says_why(reading: Reading) -> None:
    visit = reading.visit()
    answered(visit, "What do ravens eat?", method="sides")
    assert "assumes no claim" in visit.text
    assert visit.page.css_first("form.rate") is None


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"question": " "}, "The question is empty"),
        ({"question": "why " * 9000}, "has 35,999 characters"),
        ({"question": LONG, "method": "oracle"}, "There is no method of this name"),
        ({"question": LONG, "decline": "much"}, "Give a number from 0 to 1"),
        ({"question": LONG, "place": "the moon"}, "There is no place of this name"),
    ],
)
def test_what_cannot_be_asked_is_a_sentence_beside_the_question(
    reading: Reading, fields: dict[str, str], sentence: str
) -> None:
    visit = reading.visit().post("/ask", **fields)
    assert visit.status == 400
    assert sentence in visit.text
    kept = visit.first("textarea[name=question]").text()
    assert " ".join(kept.split()) == " ".join(fields["question"].split())
    assert "Nothing yet" in visit.get("/asked").text


@pytest.mark.slow
def test_the_history_is_ones_own_and_is_searched(reading: Reading) -> None:
    rita, omar = reading.visit("rita"), reading.visit("omar")
    mine = answered(rita, LONG)
    answered(rita, "Do crows remember faces?", method="sides")
    answered(omar, "How clever are ravens?")
    rows = [each.text() for each in rita.get("/asked").page.css(".asked-rows li .row")]
    assert ["For and against" in row for row in rows] == [True, False]
    assert ["Quotes · " in row for row in rows] == [False, True]
    found = rita.get("/asked?words=crows+LIVE").page.css(".asked-rows a.asked")
    assert [each.attributes["href"] for each in found] == [mine]
    assert "None of your questions" in rita.get("/asked?words=ravens").text
    rita.post(f"{mine}/share", team="yes")
    assert "seven or eight" in omar.get(mine).text
    assert f"asked by {rita.name}" in omar.text
    assert omar.post(f"{mine}/cancel").status == 403


def test_readers_read_and_others_work_at_the_desk_too(reading: Reading) -> None:
    reader, labeller = reading.visit("rita"), reading.visit("lena", "labeller")
    assert reader.get("/desk").status == 403
    assert reader.get("/history").status == 403
    heads = {
        (visit.name[:4], at): [a.text() for a in visit.get(at).page.css("header nav a")]
        for visit, at in ((reader, "/"), (labeller, "/"), (labeller, "/desk"))
    }
    assert "Desk" not in heads["rita", "/"]
    assert heads["rita", "/"][0] == heads["lena", "/"][0] == heads["lena", "/desk"][0] == "Ask"
    assert heads["lena", "/"][-1] == "Desk"
    assert heads["lena", "/desk"][:4] == ["Ask", "My questions", "Documents", "Tasks"]


def test_the_desk_alone_leads_from_the_first_page_to_the_tasks(opened: Opened) -> None:
    app = build_web_app(opened.store, Settings(), reading=False)
    client = TestClient(app, base_url="http://desk.test")
    token = accounts.create_invite(opened.store, "lena", "labeller", "ada")
    entered = client.post(f"/enter/{token}")
    assert entered.url.path == "/desk"
    assert "You are signed in" in entered.text
    assert LexborHTMLParser(entered.text).css("header nav a")[0].text() == "Tasks"
    assert client.post("/ask", data={"question": LONG}).status_code == 404
    assert client.get("/answers/x").status_code == 404


def read_progress(stream: str) -> list[ProgressLine]:
    return [
        ProgressLine.from_json(line[6:])
        for line in stream.splitlines()
        if line.startswith("data: ")
    ]


@pytest.mark.slow
def test_the_stream_tells_all_and_goes_on_where_it_broke_off(reading: Reading) -> None:
    visit = reading.visit()
    at = visit.post("/ask", question=LONG).at
    answer = visit.client.get(f"{at}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = read_progress(answer.text)
    assert [line.number for line in lines] == list(range(len(lines)))
    assert lines[-1].kind == "answered"
    assert sum(line.kind in FINAL_EVENTS for line in lines) == 1
    rest = visit.client.get(f"{at}/events", headers={"last-event-id": "4"})
    assert read_progress(rest.text) == lines[5:]
    assert read_progress(visit.client.get(f"{at}/events?after=4").text) == lines[5:]
    assert read_progress(visit.client.get(f"{at}/events?after=-9").text) == lines
    assert visit.client.get("/answers/none/events").status_code == 404
    assert reading.client.get(f"{at}/events").status_code == 401


def test_a_page_that_comes_again_shows_one_line_for_each_page(reading: Reading) -> None:
    visit = reading.visit()
    answered(visit)
    keys = [step.attributes["data-key"] for step in visit.page.css(".step")]
    assert len(keys) == len(set(keys)) > 5
    assert not visit.page.css(".step.opening, .step.searching")


def rated_by(reading: Reading, visit: Visit) -> list[tuple[adjudication.PlacedItem, Judgement]]:
    """What the desk counts of what somebody said."""
    with reading.opened.store.begin_read() as connection:
        found = adjudication.load_labelling_data(connection, ["reading"]).iterate_counted()
        return [(placed, each) for placed, each in found if each.by == visit.name]


def test_thumbs_become_one_rating_of_this_answer(reading: Reading) -> None:
    visit = reading.visit()
    at = answered(visit)
    kept = "A judgement is kept with the question and its quotes, for whoever runs the desk."
    assert kept in visit.first("form.verdict").text()
    visit.post(f"{at}/rate", thumbs="up")
    assert "Noted" in visit.text
    assert visit.first("button[value=up]").attributes["aria-pressed"] == "true"
    visit.post(f"{at}/rate", thumbs="up")
    visit.post(f"{at}/rate", thumbs="down", comment=f" too short {SCRIPT} ")
    assert visit.first("button[value=down]").attributes["aria-pressed"] == "true"
    assert visit.first("input[name=comment]").attributes["value"] == f"too short {SCRIPT}"
    ((placed, judgement),) = rated_by(reading, visit)
    ((rating),) = convert_to_ratings(placed.item, judgement)
    assert (rating.scale, rating.value, rating.by) == ("thumbs", 0.0, visit.name)
    assert rating.question.text == LONG
    assert (placed.item.source, placed.item.writers) == ("reading", ("extract",))
    assert "seven or eight years" in rating.answer.text
    assert len(labelling_queue.list_judgements(reading.opened.store, visit.name, 9)) == 1
    visit.post(f"{at}/share", team="yes")
    other = reading.visit("omar")
    other.post(f"{at}/rate", thumbs="up")
    ((same, _),) = rated_by(reading, other)
    assert same == placed


def test_the_history_calls_a_possible_answer_possible(reading: Reading) -> None:
    visit, store = reading.visit(), reading.opened.store
    stored = find_answer(store, answered(visit).removeprefix("/answers/"))
    assert "quote" in visit.get("/asked").first(".tag.good").text()
    assert stored.answered is not None
    episode = stored.answered.episode
    assert episode.answer is not None
    possible = msgspec.structs.replace(episode.answer, stored_certain=False)
    lower = msgspec.structs.replace(episode, answer=possible).to_json()
    with store.begin_write() as connection:
        its = tables.answers.c.id == stored.id
        connection.execute(tables.answers.update().where(its).values(episode=lower))
    assert [each.text() for each in visit.get("/asked").page.css(".tag")] == ["possible"]


def test_nobody_is_handed_out_what_readers_rated(reading: Reading) -> None:
    visit = reading.visit()
    visit.post(f"{answered(visit)}/rate", thumbs="up")
    assert "Nothing to do just now" in reading.visit("lena", "labeller").get("/desk").text


def test_what_has_no_answer_cannot_be_rated(reading: Reading) -> None:
    visit, store = reading.visit(), reading.opened.store
    stored = find_answer(store, answered(visit).removeprefix("/answers/"))
    unfinished = stored._replace(answered=None)
    for rate in (
        lambda: save_answer_rating(store, unfinished, visit.name, "up", ""),
        lambda: load_reader_rating(store, unfinished, visit.name),
        lambda: flag_citation(store, unfinished, visit.name, 1, ""),
    ):
        with pytest.raises(Failed, match="not_rated"):
            rate()


def test_a_wrong_citation_is_a_flag_that_says_which(reading: Reading) -> None:
    visit, store = reading.visit(), reading.opened.store
    at = answered(visit)
    visit.post(f"{at}/wrong", quote="2", words="about others")
    assert visit.status == 200
    flags = [
        each
        for each in labelling_queue.list_judgements(store, visit.name, 9)
        if each.kind == "flagged"
    ]
    assert [each.filled for each in flags] == [{"reason": "citation 2 is wrong: about others"}]
    for words in ("about others", "about others", "and they are ravens"):  # from another tab, say
        visit.post(f"{at}/wrong", quote="2", words=words)
    flags = labelling_queue.list_judgements(store, visit.name, 9)
    assert {(each.kind, each.filled["reason"]) for each in flags} == {
        ("flagged", "citation 2 is wrong: about others"),
        ("flagged", "citation 2 is wrong: and they are ravens"),
    }
    assert len(flags) == 2
    assert "You reported this as wrong" in visit.first("#c2").text()
    assert "You said that this is wrong" not in visit.first("#c1").text()
    assert not visit.page.css("#c2 form")
    visit.post(f"{at}/rate", thumbs="up")
    assert visit.first("button[value=up]").attributes["aria-pressed"] == "true"


@pytest.mark.parametrize("quote", ["0", "4", "-1", "x", "", "9" * 50])
def test_a_citation_that_is_none_cannot_be_wrong(reading: Reading, quote: str) -> None:
    visit = reading.visit()
    at = answered(visit)
    assert visit.post(f"{at}/wrong", quote=quote).status == 400
    assert visit.post(f"{at}/rate", thumbs=quote).status == 400
    assert labelling_queue.list_judgements(reading.opened.store, visit.name, 9) == []


@pytest.mark.slow
def test_what_is_asked_is_shown_as_text(reading: Reading) -> None:
    visit = reading.visit()
    at = answered(visit, f"{SCRIPT} crows \u202e \x00 live & <b>?")
    for address in (at, "/", "/asked", f"/?question={SCRIPT}", f"/asked?words={SCRIPT}"):
        assert SCRIPT not in visit.get(address).html
    assert visit.get("/answers/none").status == 404


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("file:///home/ada/crows/on%20ages.html", "on ages.html"),
        ("/home/ada/crows/broken.pdf", "broken.pdf"),
        ("https://www.birds.example/secret/age?key=1", "birds.example"),
        ("crow-7b at http://10.0.0.7:8000/v1", "crow-7b"),
        ("", ""),
    ],
)
def test_what_failed_is_named_without_where_it_lies(what: str, name: str) -> None:
    assert format_source_name(what) == name


@pytest.mark.slow
def test_a_model_that_fails_is_told_and_names_no_path(opened: Opened, tmp_path: Path) -> None:
    script = tmp_path / "said.jsonl"
    script.write_text("")
    models = ModelSettings(f"script:{script}")
    settings = msgspec.structs.replace(CROWS, models=models)
    with TestClient(build_web_app(opened.store, settings), base_url="http://desk.test") as client:
        visit = Reading(opened, client).visit()
        assert [o.text() for o in visit.get("/").page.css("#model option")][-1] == "said"
        answered(visit, LONG, method="webglm", model="said")
        assert "the model could not be asked" in visit.text.lower()
        assert str(tmp_path) not in visit.html


@pytest.mark.slow
def test_an_answer_is_private_until_it_is_shared_and_gone_once_deleted(reading: Reading) -> None:
    rita, ben, stranger = reading.visit("rita"), reading.visit("ben"), Visit(
        TestClient(reading.client.app, base_url="http://desk.test"), "nobody"
    )  # fmt: skip
    at = answered(rita)
    pages = ("", ".html", ".json", "/trace", "/events")
    assert "private" in rita.get(at).text
    for page in pages:
        assert ben.get(f"{at}{page}").status == 404
        assert stranger.get(f"{at}{page}").status == 401
    for act in ("rate", "wrong", "cancel", "share", "delete"):
        assert ben.post(f"{at}/{act}", thumbs="up", quote="1", team="yes").status == 404
    rita.post(f"{at}/share", team="yes")
    assert "shared with the team" in rita.text
    assert "seven or eight years" in ben.get(at).text
    assert "asked by rita" in ben.text
    assert ben.page.css_first("#share") is None
    assert ben.post(f"{at}/share", link="yes").status == 403
    assert ben.post(f"{at}/delete").status == 403
    ben.post(f"{at}/rate", thumbs="up", comment="so it is")
    rita.post(f"{at}/share", link="yes")  # and with the team no more
    link = rita.first("#link").attributes["value"] or ""
    assert link.startswith("http://desk.test/shared/")
    assert len(link.rpartition("/")[2]) >= 32
    assert ben.get(at).status == 404
    seen = stranger.get(link.removeprefix("http://desk.test"))
    assert "seven or eight years" in seen.text
    assert "rita" not in seen.text
    assert "A model wrote" not in seen.text
    assert seen.page.css("main form, main button, main a[href^='/']") == []
    rita.post(f"{at}/share")
    assert stranger.get(link.removeprefix("http://desk.test")).status == 404
    rita.post(f"{at}/share", link="yes")
    assert rita.first("#link").attributes["value"] != link  # the former never works again
    new = (rita.first("#link").attributes["value"] or "").removeprefix("http://desk.test")
    rita.post(f"{at}/delete")
    assert rita.at.startswith("/asked")
    assert "Deleted for good" in rita.text
    for page in pages:
        assert rita.get(f"{at}{page}").status == 404
    assert stranger.get(new).status == 404
    name = at.rpartition("/")[2]
    with reading.opened.store.begin_read() as connection:
        for table in tables.metadata.sorted_tables:
            for row in connection.execute(table.select()).mappings():
                assert name not in str(dict(row)), table.name
                assert "so it is" not in str(dict(row)), table.name


def test_a_page_reaches_the_store_through_ten_functions(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer, passed = list[str](), list[list[str]]()

    def list_functions() -> list[str]:
        frames = traceback.extract_stack()
        return [each.name for each in frames if str(HOUSE) in each.filename]

    async def note_outer(handle: Callable[..., Any], *arguments: Any) -> Any:
        outer[:] = list_functions()
        return await run_in_threadpool(handle, *arguments)

    def note_functions(begin: Callable[[Store], Any]) -> Callable[[Store], Any]:
        def begin_noted(store: Store) -> Any:
            if "call_page_handler" in (functions := list_functions()):  # no worker's thread
                passed.append([*outer, *functions])
            return begin(store)

        return begin_noted

    monkeypatch.setattr("rookery.desk.page_endpoints.run_in_threadpool", note_outer)
    for begin in (Store.begin_read, Store.begin_write):
        monkeypatch.setattr(Store, begin.__name__, note_functions(begin))
    token = accounts.create_invite(reading.opened.store, f"deep {reading.number}", "reader", "ada")
    app = ObservabilityMiddleware(build_web_app(reading.opened.store, JUDGED_CROWS))
    with TestClient(app, base_url="http://desk.test", follow_redirects=False) as client:
        client.post(f"/enter/{token}")
        passed.clear()
        at = client.post("/ask", data={"question": LONG}).headers["location"]
        assert client.get(at).status_code == 200
    handlers = {functions[outer.index("handle_request") + 2] for functions in passed}
    assert {"submit_question", "show_answer_page"} <= handlers
    assert passed[-1][:2] == ["__call__", "_handle_http"]
    assert max(map(len, passed)) <= 10, str(max(passed, key=len))


NOTES = """# Rooks

## Nests

Rooks nest in tall elms near open farm land. They return to the same trees each spring.
"""
DOUBTED = "Rooks nest in tall elms [1]. Cheese is made on distant moons [1]. It cites more [7]."


def says(*texts: str) -> list[bytes]:
    return [write_choices(chat(text)) for text in texts]


FOUNDED = {
    "prices.md": "# Prices\n\n| Item | Member price | Stock |\n|---|---|---|\n"
    "| Plywood board | 4.20 | 31 |\n| Clear acrylic board | 8.40 | 14 |\n",
    "minutes_2024.txt": "The annual fee for grown members is 45 euros, as the board decided last\n"
    "week in the clubhouse, and children pay nothing at all.\n",
    "minutes_2025.txt": "The annual fee for grown members is 60 euros now, as prices rose.\n",
}


@pytest.mark.slow
def test_tables_wrapped_lines_and_differing_sources_are_shown_on_every_page(
    opened: Opened, tmp_path: Path
) -> None:
    for name, text in FOUNDED.items():
        (tmp_path / name).write_text(text)
    app = build_web_app(opened.store, Settings((str(tmp_path),)))
    with TestClient(app, base_url="http://desk.test") as client:
        visit = Reading(opened, client).visit()
        at = answered(visit, "What is the member price of a clear acrylic board?")
        for path in (at, f"{at}/notebook"):
            visit.get(path)
            for place in (".answer-text", ".evidence blockquote"):
                table = visit.first(f"{place} .quoted-table")
                assert [each.text() for each in table.css("th")] == [
                    "Item",
                    "Member price",
                    "Stock",
                ]
                assert [each.text() for each in table.css("mark")] == ["8.40"]
        at = answered(visit, "How much is the annual fee for grown members?")
        visit.post(f"{at}/share", link="yes")
        link = urlsplit(visit.get(at).first("#link").attributes["value"] or "").path
        for path in (at, f"{at}/notebook", link):
            visit.get(path)
            quoted = [each.text() for each in visit.page.css(".evidence blockquote")][-2:]
            assert quoted[0].startswith("The annual fee for grown members is 60 euros now")
            assert "decided last week in the clubhouse" in quoted[1]
            assert "answer differently; the newer one" in visit.first(".remarks").text()
            assert "decided last week" in visit.first(".answer-text").text()


@pytest.mark.slow
def test_doubt_and_remarks_on_a_models_citations_stand_on_every_page(
    opened: Opened, tmp_path: Path
) -> None:
    (tmp_path / "rooks.md").write_text(NOTES)
    with serving(*says("rook nests", DOUBTED)) as server:
        models = ModelSettings("tiny", server.base_url)
        settings = Settings((str(tmp_path / "rooks.md"),), models=models)
        app = build_web_app(opened.store, settings)
        with TestClient(app, base_url="http://desk.test") as client:
            visit = Reading(opened, client).visit()
            chosen = visit.get("/").first("input[name=method][checked]")
            assert chosen.attributes["value"] == "webglm"
            at = answered(visit, "Where do rooks nest?")
            marks = [each.text() for each in visit.page.css(".answer-text .cite")]
            assert marks == ["1", "1?"]
            doubtful = visit.page.css(".answer-text .cite")[1].attributes
            assert doubtful["aria-label"] == "Quote 1, doubtful"
            assert "does not seem to say" in (doubtful["title"] or "")
            remarks = visit.first(".remarks").text()
            assert "it cites [7]" in remarks
            assert "a source with ?" in remarks
            assert visit.page.css_first(".failures") is None
            visit.get(f"{at}/notebook")
            assert [each.text() for each in visit.page.css(".answer-text sup")] == ["[1]", "[1?]"]
            assert "it cites [7]" in visit.first(".remarks").text()
            visit.post(f"{at}/share", link="yes")
            visit.get(urlsplit(visit.first("#link").attributes["value"] or "").path)
            assert [each.text() for each in visit.page.css(".answer-text sup")] == ["[1]", "[1?]"]
            assert "A model wrote this answer." in visit.text
            for kind in ("html", "md"):
                saved = visit.get(f"{at}.{kind}").html
                assert "]?" in saved or "[1?]" in saved
                assert "a source with ?" in saved


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "what", "strong"),
    [
        ("They nest somewhere or other.", "What the model was shown", "Unchecked: the model"),
        (
            "NOT FOUND: the references do not say it.",
            "What the model was shown",
            "The model found no",
        ),
    ],
)
def test_what_a_model_was_shown_is_not_called_evidence(
    opened: Opened, tmp_path: Path, reply: str, what: str, strong: str
) -> None:
    (tmp_path / "rooks.md").write_text(NOTES)
    with serving(*says("rook nests", reply)) as server:
        models = ModelSettings("tiny", server.base_url)
        settings = Settings((str(tmp_path / "rooks.md"),), models=models)
        app = build_web_app(opened.store, settings)
        with TestClient(app, base_url="http://desk.test") as client:
            visit = Reading(opened, client).visit()
            at = answered(visit, "Where do rooks nest?")
            assert what in visit.text
            assert strong in visit.text
            assert "Evidence" not in visit.text
            assert visit.page.css_first(".cite") is None
            assert visit.first(".cited-quote blockquote").text().startswith("Rooks nest in tall")
            assert strong in visit.get(f"{at}/notebook").text


@pytest.mark.slow
def test_a_chat_model_is_shown_the_answer_that_a_follow_up_points_into(
    opened: Opened, tmp_path: Path
) -> None:
    (tmp_path / "rooks.md").write_text(NOTES)
    standing = "Do rooks return to tall elms each spring?"
    replies = says("rook nests", DOUBTED, standing, "rook elms", "They do [1].")
    with serving(*replies) as server:
        models = ModelSettings("tiny", server.base_url)
        settings = Settings((str(tmp_path / "rooks.md"),), models=models)
        app = build_web_app(opened.store, settings)
        with TestClient(app, base_url="http://desk.test") as client:
            visit = Reading(opened, client).visit()
            at = answered(visit, "Where do rooks nest?")
            answered(visit, "Do they return to the first one?", follows=at.split("/")[-1])
            assert standing in visit.first(".searched-as").text()
        system, user = server.asked[2].fields["messages"]
    assert system["role"] == "system"
    assert "Question: Where do rooks nest?\nAnswer: Rooks nest in tall elms." in user["content"]
    assert user["content"].endswith("Last question: Do they return to the first one?")


@pytest.mark.parametrize(
    ("title", "head", "told"),
    [
        ("fees.csv", "fees.csv", "about 50 % down, columns: plot | paid"),
        ("Fees", "Fees", "fees.csv · about 50 % down, columns: plot | paid"),
        ("1\tyes", "fees.csv", "about 50 % down, columns: plot | paid"),  # as the quote itself
    ],
)
def test_a_file_is_named_once_where_it_or_its_quote_is_the_title(
    title: str, head: str, told: str
) -> None:
    read = read_page(b"plot,paid\n1,yes\n4,yes\n", "file:///fees.csv", "text/csv")
    page = msgspec.structs.replace(read, title=title)
    answer = Answer("Yes.", (page.quote(10, 15),))
    episode = Episode(Question("1", "?"), "webglm", (), answer)
    verdicts = verify_quotes(answer, lambda quote: page)
    [card] = make_answer_view(episode, verdicts, lambda quote: page).cards
    parts: Any = PageAssets({}).templates.get_template("reading_parts.html").module
    shown = LexborHTMLParser(parts.card(card, None, None, "q"))
    assert [each.text() for each in shown.css("figcaption > .title, .host")] == [head, told]


@pytest.mark.parametrize(
    ("method", "score", "head"),
    [
        ("gophercite", None, "What the model was shown"),
        ("gophercite", 0.2, "The closest quotes"),
        ("extract", 0.2, "The closest quotes"),
    ],
)
def test_what_stands_above_the_quotes_of_a_decline(
    method: str, score: float | None, head: str
) -> None:
    answer = Answer("No page answers this.", declined=True, score=score)
    episode = Episode(Question("1", "?"), method, (), answer, "declined")
    view = make_answer_view(episode, (), lambda quote: None)
    parts: Any = PageAssets({}).templates.get_template("reading_parts.html").module
    assert parts.quotes_head(view) == head
