"""Notebooks: several questions over one set of documents, on one page and in one report."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from askers import CROWS, SECONDS, ask, enter, home
from playwright.sync_api import expect
from programs import Served, served
from shelves import come_in
from visits import Opened, Visit
from windows import Site, flaws

from rookery.library.question_files import MOST_QUESTION_CHARACTERS
from rookery.pages.page_reader import read_page
from rookery.server.api import answer_queue
from rookery.server.api.answer_sessions import QuestionRequest
from rookery.shell.answer_export import REPORT_TYPES

__all__ = ["home"]
pytestmark = pytest.mark.usefixtures("home")
FACES, RAVENS = "Do crows recognise human faces?", "Can ravens plan for the future?"
LONG = "y" * (MOST_QUESTION_CHARACTERS + 1)
NOTHING = "What does a tram ticket cost in Oslo?"


@pytest.fixture(scope="module")
def notebook_site(home: Path, empty_store: Path) -> Iterator[Served]:
    place = home / "desk.sqlite"
    place.write_bytes(empty_store.read_bytes())
    with served(place, CROWS) as server:
        yield server


def until_done(visit: Visit) -> Visit:
    """Looks at the notebook again until nothing is under way."""
    until = time.monotonic() + SECONDS
    while visit.page.css_first("noscript meta[http-equiv=refresh]"):
        assert time.monotonic() < until, visit.text
        time.sleep(0.05)
        visit.get(visit.at)
    return visit


def list_questions(visit: Visit) -> list[str]:
    return [link.text() for link in visit.page.css(".notebook-row h2 a")]


@pytest.mark.slow
def test_several_questions_are_answered_on_one_page_and_saved_as_one_report(
    notebook_site: Served,
) -> None:
    visit = enter(notebook_site, "rita")
    assert visit.get("/").page.css_first('a[href="/notebook"]') is not None
    assert visit.get("/notebook").page.css_first("textarea[name=questions]") is not None
    lines = f"{FACES}\r\n\r\n  {RAVENS} \r\n{FACES}\r\n{NOTHING}"
    until_done(visit.post("/notebook", questions=lines, decline="0.85"))
    assert list_questions(visit) == [FACES, RAVENS, NOTHING]  # each once
    first, second, third = visit.page.css(".notebook-row")
    assert first.css(".quotes .tag.good")
    assert second.css(".answer-text .cited-quote")
    assert "Declined" in third.text()
    for kind, media_type in REPORT_TYPES.items():
        got = visit.client.get(f"{visit.at.partition('/notebook')[0]}/report.{kind}?title=Birds")
        assert got.status_code == 200
        assert got.headers["content-type"] == media_type
        assert got.headers["content-disposition"].endswith(f'.{kind}"')
        docx = kind == "docx"
        text = read_page(got.content, "file:///x.docx").text if docx else got.text
        for said in ("Birds", FACES.strip("?"), "Declined", "3 questions: 2 answered", "Sources"):
            assert said in text
    # A question is added to it, to the letter, and so is a follow-up.
    until_done(visit.post("/notebook", questions="Do they plan?", follows=visit.at.split("/")[2]))
    assert list_questions(visit) == [FACES, RAVENS, NOTHING, "Do they plan?"]
    assert visit.page.css_first(".notebook-row q") is None
    ask(visit, question="What do they eat?", follows=visit.at.split("/")[2])
    assert len(list_questions(visit.get(f"{visit.at}/notebook"))) == 5


@pytest.mark.slow
def test_a_notebook_of_one_answer_is_there_and_a_deleted_answer_is_not_in_it(
    notebook_site: Served,
) -> None:
    visit = ask(enter(notebook_site, "sam"), question=FACES)
    first = visit.at
    assert list_questions(visit.get(f"{first}/notebook")) == [FACES]
    until_done(visit.post("/notebook", questions=RAVENS, follows=first.split("/")[2]))
    visit.client.post(f"{first}/delete")
    assert list_questions(visit.get(visit.at)) == [RAVENS]
    assert FACES not in visit.client.get(f"{visit.at[:-9]}/report.md").text


@pytest.mark.slow
def test_a_notebook_shows_others_what_is_shared_and_no_more(notebook_site: Served) -> None:
    tess, uma = enter(notebook_site, "tess"), enter(notebook_site, "uma")
    until_done(tess.post("/notebook", questions=f"{FACES}\n{RAVENS}"))
    first, second = (str(a.attributes["href"]) for a in tess.page.css(".notebook-row h2 a"))
    assert uma.get(f"{first}/notebook").status == 404
    assert uma.get(f"{first}/report.md").status == 404
    tess.client.post(f"{second}/share", data={"team": "yes"})
    assert list_questions(uma.get(f"{second}/notebook")) == [RAVENS]
    assert uma.page.css_first("textarea") is None  # only who asked goes on with it
    assert FACES not in uma.client.get(f"{second}/report.html").text
    # What uma asks is no part of tess's notebook.
    until_done(uma.post("/notebook", questions=FACES, follows=second.split("/")[2]))
    assert list_questions(uma) == [FACES]
    assert len(list_questions(tess.get(f"{second}/notebook"))) == 2


@pytest.mark.parametrize(
    ("questions", "why"),
    [("", "ask 1 to 50 questions"), (f"x?\n{LONG}", "ask in one sentence"),
     ("\n".join(f"{n}?" for n in range(51)), "ask 1 to 50 questions")],
)  # fmt: skip
def test_all_are_asked_or_none(notebook_site: Served, questions: str, why: str) -> None:
    visit = enter(notebook_site, "vera")
    before = len(answer_queue.list_person_answers(notebook_site.store, "vera"))
    visit.post("/notebook", questions=questions)
    assert visit.status == 400
    assert why in visit.text.lower()
    assert str(visit.first("textarea").text()).strip() == questions.strip()
    assert len(answer_queue.list_person_answers(notebook_site.store, "vera")) == before


def test_where_the_queue_has_no_room_for_all_none_is_asked(opened: Opened) -> None:
    visit = come_in(opened)
    answering = visit.client.app.state.answering  # type: ignore[attr-defined]
    answering.worker_settings = answer_queue.WorkerSettings(waiting=2)
    visit.post("/notebook", questions=f"{FACES}\n{RAVENS}\n{NOTHING}")
    assert visit.status == 400
    assert "many are asking just now" in visit.text.lower()
    assert answer_queue.list_person_answers(opened.store, "rita") == []


def test_a_report_waits_until_all_is_done_and_has_what_was_cancelled(opened: Opened) -> None:
    visit = come_in(opened)  # whose server answers nothing yet
    answers = [
        answer_queue.enqueue_answers(opened.store, [(QuestionRequest(FACES), FACES)], "rita")[0]
    ]
    wanted = QuestionRequest(RAVENS, conversation=answers[0])
    answers.append(answer_queue.enqueue_answers(opened.store, [(wanted, RAVENS)], "rita")[0])
    at = f"/answers/{answers[0]}"
    assert "0 of 2 done" in visit.get(f"{at}/notebook").text
    assert visit.first("#notebook").attributes["data-poll"]
    assert visit.get(f"{at}/report.md").status == 409
    assert "2 questions are under way" in visit.text
    for each in answers:
        assert answer_queue.cancel_answer(opened.store, each)
    seen = visit.get(f"{at}/notebook")
    assert "2 questions, all done" in seen.text
    assert seen.text.count("This was cancelled.") == 2
    report = visit.client.get(f"{at}/report.md").text
    assert "2 questions: 0 answered, 2 without an answer" in report
    assert report.count("No answer: cancelled.") == 2
    assert visit.get(f"{at}/report.exe").status == 404


@pytest.mark.slow
def test_a_notebook_in_a_browser(site: Site) -> None:
    with site.window("rita", "reader") as (window, said):
        window.goto("/notebook")
        window.get_by_label("Your questions, one a line").fill(f"{FACES}\n{RAVENS}")
        window.get_by_role("button", name="Ask", exact=True).click()
        expect(window.get_by_role("status").first).to_contain_text("2 questions, all done")
        expect(window.locator(".notebook-row")).to_have_count(2)
        for width in (360, 1280):
            window.set_viewport_size({"width": width, "height": 800})
            assert flaws(window) == []
            wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            assert window.evaluate(wide)
        with window.expect_download() as download:
            window.get_by_role("button", name="Word").click()
        assert download.value.suggested_filename.endswith(".docx")
        assert FACES in read_page(download.value.path().read_bytes(), "file:///r.docx").text
        assert said == []
