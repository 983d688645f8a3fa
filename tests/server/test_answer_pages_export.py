"""Answers taken away and gone through step by step, at their addresses."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from playwright.sync_api import expect
from selectolax.lexbor import LexborHTMLParser
from shelves import come_in, keep, own_home
from visits import Opened, Visit
from windows import Site, flaws

from rookery.quotes.verification import check_quote
from rookery.records import Answer, Block, Claim, Completion, Episode, Failure, Page, Question, Step
from rookery.server.api import answer_queue
from rookery.server.api.answer_sessions import AnswerOutcome, QuestionRequest
from rookery.shell.answer_export import EXPORT_TYPES

EVIL = '"><script>alert(1)</script>\u202e'
PAGE = Page(
    f"https://birds.example/{EVIL}",
    f"Crows {EVIL}",
    f"Crows hide acorns. {EVIL} They find them.",
    (Block(0, 65, "paragraph"),),
    fetched="2026-11-21T09:05:00+00:00",
)
ANSWER = Answer("They hide acorns.", (PAGE.quote_whole_words(0, 60),), (Claim(0, 17, (0,)),))
STEPS = (
    Step(f"Question {EVIL}", Completion("Search: crows", (1, 2, 3))),
    Step("What was found", Completion(f"Quote: {EVIL}")),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder and a cache of the test's own."""
    yield from own_home(tmp_path, monkeypatch)


@pytest.fixture
def reader(opened: Opened) -> Visit:
    """Somebody who may only read."""
    keep(PAGE)
    return come_in(opened)


def answered(opened: Opened, steps: tuple[Step, ...] = STEPS) -> str:
    """An answer that was given; its id."""
    question = Question("q", f"Do crows hide {EVIL}?")
    failures = (Failure("/home/somebody/x.pdf", "encrypted", "needs a password"),)
    episode = Episode(question, "webgpt", steps, ANSWER, "end", failures)
    key = begun(opened)
    lease = answer_queue.lease_answer(opened.store, key, 60)
    assert lease is not None
    verdicts = tuple(check_quote(quote, PAGE) for quote in ANSWER.quotes)
    last = [("searching", {"query": f"crows {EVIL}"}), ("answered", {})]
    assert answer_queue.complete_answer(opened.store, lease, AnswerOutcome(episode, verdicts), last)  # type: ignore[arg-type]
    return key


def begun(opened: Opened) -> str:
    """A question that waits."""
    return answer_queue.enqueue_answers(
        opened.store, [(QuestionRequest("Do crows?"), f"Do crows hide {EVIL}?")], "rita"
    )[0]


@pytest.mark.parametrize("kind", list(EXPORT_TYPES))
def test_an_answer_is_taken_away_as_a_file(reader: Visit, opened: Opened, kind: str) -> None:
    key = answered(opened)
    got = reader.client.get(f"/answers/{key}.{kind}")
    assert got.status_code == 200
    assert got.headers["content-type"] == f"{EXPORT_TYPES[kind]}; charset=utf-8"
    named, plain = got.headers["content-disposition"].removeprefix("attachment; ").split("; ")
    assert plain == f'filename="answer-{key}.{kind}"'
    assert unquote(named.removeprefix("filename*=UTF-8''")).startswith("Do crows hide")
    assert named.endswith(f".{kind}")
    if kind == "html":
        [quote] = LexborHTMLParser(got.text).css("blockquote")
        assert quote.text(deep=True) == ANSWER.quotes[0].text
        assert "1 of 1 quote verified" in got.text
    if kind.endswith("json"):
        json.loads(got.text)
    if kind in ("bib", "csl.json"):
        assert "\u202e" not in got.text
    if kind == "bib":
        assert "urldate = {2026-11-21}" in got.text


@pytest.mark.parametrize("kind", list(EXPORT_TYPES))
def test_what_is_not_there_cannot_be_taken_away(reader: Visit, opened: Opened, kind: str) -> None:
    assert reader.get(f"/answers/nothing.{kind}").status == 404
    waiting, failed = begun(opened), begun(opened)
    assert reader.get(f"/answers/{waiting}.{kind}").status == 409
    assert "look at it again in a while" in reader.text
    assert answer_queue.cancel_answer(opened.store, failed)
    assert reader.get(f"/answers/{failed}.{kind}").status == 409
    assert "failed or was cancelled" in reader.text
    assert "in a while" not in reader.text
    assert opened.client().get(f"/answers/{answered(opened)}.{kind}").status_code == 401


def test_a_trace_lists_its_steps_and_what_failed(reader: Visit, opened: Opened) -> None:
    key = answered(opened)
    seen = reader.get(f"/answers/{key}/trace")
    assert seen.status == 200
    assert "2 steps" in seen.text
    assert "Search: crows" in seen.text
    assert "needs a password" in seen.text
    assert "somebody" not in seen.html
    assert [a.attributes["href"] for a in seen.page.css(".steps a")] == [
        f"/answers/{key}/trace/1",
        f"/answers/{key}/trace/2",
    ]


def test_each_step_says_what_was_shown_and_what_was_said(reader: Visit, opened: Opened) -> None:
    key = answered(opened)
    seen = reader.get(f"/answers/{key}/trace/1")
    assert seen.first(".claim").text() == "Search: crows"
    assert "Question" in seen.first(".prompt-shown").text()
    assert "3 tokens" in seen.text
    assert seen.first("a[rel=next]").attributes["href"] == f"/answers/{key}/trace/2"
    assert "alert(1)" in reader.get(f"/answers/{key}/trace/2").first(".claim").text()


@pytest.mark.parametrize("number", ["0", "3", "-1", "x", "٣", "9" * 50])
def test_a_step_that_was_not_made_is_not_shown(reader: Visit, opened: Opened, number: str) -> None:
    assert reader.get(f"/answers/{answered(opened)}/trace/{number}").status == 404


def test_a_trace_of_no_steps_and_of_what_goes_on_is_shown(reader: Visit, opened: Opened) -> None:
    assert reader.get(f"/answers/{answered(opened, ())}/trace").status == 200
    assert "Steps of the model" not in reader.text
    assert reader.get(f"/answers/{begun(opened)}/trace").status == 200
    assert "still going on" in reader.text
    assert reader.get("/answers/nothing/trace").status == 404


def test_nothing_of_a_hostile_answer_runs(reader: Visit, opened: Opened) -> None:
    key = answered(opened)
    for address in ("trace", "trace/1", "trace/2"):
        page = reader.get(f"/answers/{key}/{address}").page
        assert all("nonce" in script.attributes for script in page.css("script"))
        assert "\u202e" not in (page.html or "")


@pytest.mark.slow
def test_traces_and_files_are_readable_in_a_browser(site: Site, tmp_path: Path) -> None:
    keep(PAGE)
    with site.window("rita", "reader") as (window, said):
        key = answered(site.opened)
        for width in (360, 768, 1280):
            window.set_viewport_size({"width": width, "height": 800})
            for address in ("trace", "trace/1"):
                window.goto(f"/answers/{key}/{address}")
                assert flaws(window) == []
                wide = "document.documentElement.scrollWidth <= innerWidth"
                assert window.evaluate(wide)
        window.goto(f"/answers/{key}/trace")
        window.keyboard.press("j")
        window.wait_for_url("**/trace/1")
        assert said == []
        got = window.request.get(f"/answers/{key}.html")
        file = tmp_path / "answer.html"
        file.write_bytes(got.body())
        window.goto(file.as_uri())
        window.locator(".answer a").click()
        expect(window.locator("blockquote")).to_have_text(PAGE.quote_whole_words(0, 60).text)
        expect(window.locator("blockquote")).to_be_in_viewport()
        assert flaws(window) == []
        assert said == []
