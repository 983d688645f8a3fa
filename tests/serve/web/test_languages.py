"""The pages in two languages: whole catalogs, and the language of a request."""

import ast
import json
import re
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from boards import hire, pay, train, work
from visits import FORMS_HERE, Opened, item

from rookery.serve.web import languages
from rookery.serve.web.borrowed_texts import SENTENCES, translate_borrowed_text
from rookery.serve.web.languages import LANGUAGES, choose_language
from rookery.serve.web.rendering import format_age

ROOT = Path(__file__).parents[3]
WEB = ROOT / "rookery/serve/web"
CATALOGS = ROOT / ".ci/catalogs.py"
PLANTED = """<p>{{ _("A text that nobody has translated.") }}</p>
<p>{{ _("%(num)s days at least", num=3) }}</p>"""
PLANTED_MESSAGE = """
msgid "%(num)s days at least"
msgstr "mindestens %(count)s Tage"
"""


@pytest.fixture
def german() -> Iterator[None]:
    before = languages._current.set("de")
    yield
    languages._current.reset(before)


def test_every_text_of_the_pages_is_translated() -> None:
    problems = runpy.run_path(str(CATALOGS))["list_catalog_problems"](WEB)
    assert not problems, "run make catalogs, and translate: " + "; ".join(problems[:9])


def test_each_language_has_a_catalog() -> None:
    found = {path.parents[1].name for path in WEB.glob("locale/*/LC_MESSAGES/rookery.mo")}
    assert {"en", *found} == set(LANGUAGES)


def test_a_new_text_and_a_bad_translation_are_noticed(tmp_path: Path) -> None:
    shutil.copytree(WEB / "locale", tmp_path / "locale")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/new.html").write_text(PLANTED)
    catalog = tmp_path / "locale/de/LC_MESSAGES/rookery.po"
    catalog.write_text(catalog.read_text() + PLANTED_MESSAGE)
    problems = runpy.run_path(str(CATALOGS))["list_catalog_problems"](tmp_path)
    assert "de: not translated: 'A text that nobody has translated.'" in problems
    assert "de: other placeholders or tags: '%(num)s days at least'" in problems
    assert "de: in no page any more: 'Sign in'" in problems
    assert "de: rookery.mo was not compiled from rookery.po: run make catalogs" in problems


def test_sentences_of_other_rooms_are_those_that_they_say() -> None:
    said = "\n".join(
        node.value
        for path in sorted((ROOT / "rookery").rglob("*.py"))
        if path.name != "borrowed_texts.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    for sentence in SENTENCES:
        for part in re.split(r"%\(\w+\)s", sentence):
            words = part.replace("%%", "%").strip(" ().:“”")
            # A sentence may be put together of two: each half is looked for.
            assert all(half in said for half in words.split(". On other")), sentence


@pytest.mark.parametrize(
    ("kept", "accepted", "chosen"),
    [
        ("", "", "en"),
        ("", "de", "de"),
        ("", "de-AT,de;q=0.9,en;q=0.8", "de"),
        ("", "fr, en;q=0.5, de;q=0.7", "de"),
        ("", "en-US,en;q=0.9,de;q=0.8", "en"),
        ("", "fr,*;q=0.1", "en"),
        ("", "de;q=0", "en"),
        ("de", "en", "de"),
        ("en", "de", "en"),
        ("../../etc", "de", "de"),
        ("", "de;q=nan, en;q=0.1", "en"),
        ("", "de;q=1e9, \x00ÿ;;;q=,=,-, de_DE", "en"),
        ("", ",".join(["de-" + "x" * 9000] * 9), "en"),
        ("", "*;q=" * 100_000, "en"),
    ],
)
def test_the_cookie_decides_then_the_browser(kept: str, accepted: str, chosen: str) -> None:
    assert choose_language(kept, accepted) == chosen


def test_a_page_says_its_language_and_keeps_a_choice(opened: Opened) -> None:
    client = opened.client()
    page = client.get("/guides", headers={"accept-language": "de-DE,de;q=0.9"})
    assert '<html lang="de">' in page.text
    assert "Sie sind nicht angemeldet, oder Ihre Sitzung ist beendet." in page.text
    assert page.headers["content-language"] == "de"
    assert {"Accept-Language", "Cookie"} <= set(page.headers["vary"].split(", "))
    assert '<html lang="en">' in client.get("/guides").text

    back = client.post(
        "/language",
        data={"language": "de", "there": "/guides?version=1"},
        follow_redirects=False,
    )
    assert (back.status_code, back.headers["location"]) == (303, "/guides?version=1")
    assert '<html lang="de">' in client.get("/guides", headers={"accept-language": "en"}).text
    client.post("/language", data={"language": "en", "there": "/guides"})
    assert '<html lang="en">' in client.get("/guides", headers={"accept-language": "de"}).text


@pytest.mark.parametrize(
    "there", ["https://evil.example/", "//evil.example", "/\\evil.example", "/a\r\nb: c", ""]
)
def test_the_choice_leads_to_no_other_site(opened: Opened, there: str) -> None:
    form = {"language": "xx", "there": there}
    answer = opened.client().post("/language", data=form, follow_redirects=False)
    assert answer.headers["location"] == "/"
    assert "set-cookie" not in answer.headers


def test_a_task_is_done_in_german(opened: Opened) -> None:
    opened.lay(item("supported"))
    visit = opened.visit()
    visit.client.cookies.set("language", "de")
    assert "Was zu tun ist" in visit.get("/desk").text
    assert "Noch nicht abgegeben." in visit.begin("supported").send({}).text
    assert "Noch nicht ausgefüllt: " in visit.text
    assert "Not filled in" not in visit.text
    left = visit.post(f"/tasks/{visit.task}/leave", do="skip", reason="too_long")
    assert left.status in (200, 409)


def test_every_form_and_board_page_is_shown_in_german(opened: Opened) -> None:
    hire(opened)
    work(opened)
    train(opened)
    pay(opened)
    opened.lay(*(item(form) for form in FORMS_HERE), batch="forms")
    visit = opened.visit("lea", "admin")
    visit.client.cookies.set("language", "de")
    tabs = ("", "/quality", "/returned", "/excluded", "/snapshots", "/projects", "/pay")
    more = ("/people", "/forms", "/forms/edit", "/forms/supported", "/guides", "/book")
    for address in (*(f"/board{each}" for each in (*tabs, *more)), "/cord", "/disagreements"):
        assert visit.get(address).status == 200, (address, visit.text)
        assert visit.first("html").attributes["lang"] == "de"
    for form in FORMS_HERE:
        assert visit.begin(form).status == 200, (form, visit.text)
        assert visit.first("form#task")


def test_scripts_find_their_texts_in_the_page(opened: Opened) -> None:
    visit = opened.visit()
    assert 'id="texts"' not in visit.get("/desk").html
    visit.client.cookies.set("language", "de")
    texts = json.loads(visit.get("/desk").first("script#texts").text())
    assert texts["Saved"] == "Gespeichert"
    assert len(texts) > 15
    assert all(german and german != english for english, german in texts.items())


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("score high", "Wertung hoch"),
        ("p. 3, read by OCR", "S. 3, mit Texterkennung gelesen"),
        (
            "Not filled in yet: support of “Crows live long.”.",
            "Noch nicht ausgefüllt: Stützung von “Crows live long.”.",
        ),
        ("a sentence that nobody knows, 100 %", "a sentence that nobody knows, 100 %"),
    ],
)
def test_sentences_of_other_rooms_are_translated(text: str, translated: str) -> None:
    assert translate_borrowed_text(text) == translated


@pytest.mark.usefixtures("german")
def test_ages_in_german() -> None:
    assert format_age(0, 100) == "vor 1 Minute"
    assert format_age(0, 7300) == "vor 2 Stunden"
    assert format_age(0, 5.2e6) == "1. Januar 1970"
