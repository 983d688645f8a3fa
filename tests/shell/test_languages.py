"""The pages in two languages: whole catalogs, and the language of a request."""

import io
import json
import runpy
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from boards import hire, pay, train, work
from selectolax.lexbor import LexborHTMLParser
from visits import FORMS_HERE, Opened, item

from rookery.quotes.verification import Verdict
from rookery.records import Answer, Claim, Episode, Failure, Page, Question
from rookery.server.answer_pages import get_export_language
from rookery.shell import languages
from rookery.shell.answer_export import ExportedAnswer, ExportedReport, render_report
from rookery.shell.languages import (
    DAY_FORMS,
    DEFAULT_LANGUAGE,
    LANGUAGES,
    NUMBER_MARKS,
    choose_language,
    format_number,
    localize_value,
    translate_borrowed_text,
)
from rookery.shell.rendering import format_age, format_file_size

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "rookery"
CATALOGS = ROOT / ".ci/catalogs.py"
PLANTED = """<p>{{ _("A text that nobody has translated.") }}</p>
<p>{{ _("%(num)s days at least", num=3) }}</p>"""
PLANTED_MESSAGE = """
msgid "%(num)s days at least"
msgstr "mindestens %(count)s Tage"

msgctxt "elsewhere"
msgid "the crow said %(what)s, which no module of ours says"
msgstr "die Krähe sagte %(what)s, was keines unserer Module sagt"
"""


@pytest.fixture
def german() -> Iterator[None]:
    before = languages._current.set("de")
    yield
    languages._current.reset(before)


def test_each_language_has_its_numbers_and_days() -> None:
    others = LANGUAGES.keys() - {DEFAULT_LANGUAGE}
    assert NUMBER_MARKS.keys() == DAY_FORMS.keys() == others


@pytest.mark.slow
def test_every_text_of_the_pages_is_translated() -> None:
    problems = runpy.run_path(str(CATALOGS))["list_catalog_problems"](PACKAGE)
    assert not problems, "run make catalogs, and translate: " + "; ".join(problems[:9])


def test_each_language_has_a_catalog() -> None:
    found = {path.parents[1].name for path in PACKAGE.glob("shell/locale/*/LC_MESSAGES/rookery.mo")}
    assert {"en", *found} == set(LANGUAGES)


@pytest.mark.slow
def test_a_new_text_and_a_bad_translation_are_noticed(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE / "shell/locale", tmp_path / "shell/locale")
    (tmp_path / "shell/templates").mkdir()
    (tmp_path / "shell/templates/new.html").write_text(PLANTED)
    catalog = tmp_path / "shell/locale/de/LC_MESSAGES/rookery.po"
    catalog.write_text(catalog.read_text() + PLANTED_MESSAGE)
    problems = runpy.run_path(str(CATALOGS))["list_catalog_problems"](tmp_path)
    assert "de: not translated: 'A text that nobody has translated.'" in problems
    assert "de: other placeholders or tags: '%(num)s days at least'" in problems
    assert "de: in no page any more: 'Sign in'" in problems
    unsaid = "the crow said %(what)s, which no module of ours says"
    assert f"de: in no page any more: {unsaid!r}" in problems
    assert "de: in no page any more: 'the PDF needs a password'" not in problems
    assert "de: rookery.mo was not compiled from rookery.po: run make catalogs" in problems


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
    assert "Begin a task: judge the answers to a question" in visit.get("/desk").text
    visit.client.cookies.set("language", "de")
    assert "Was zu tun ist" in visit.get("/desk").text
    assert "Noch nicht abgegeben." in visit.begin("supported").send({}).text
    assert "Noch nicht ausgefüllt: " in visit.text
    assert "Not filled in" not in visit.text
    left = visit.post(f"/tasks/{visit.task}/leave", do="skip", reason="too_long")
    assert left.status in (200, 409)


@pytest.mark.slow
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
        ("at the end, quoted: On 3 May, Tom wrote", "ganz unten, zitiert: On 3 May, Tom wrote"),
        (
            "Not filled in yet: support of “Crows live long.”.",
            "Noch nicht ausgefüllt: Stützung von “Crows live long.”.",
        ),
        ("a sentence that nobody knows, 100 %", "a sentence that nobody knows, 100 %"),
        ("No passage reached 0.8; the closest are below.", "Keine Passage erreichte 0,8"),
        ("The newer passage did not reach 0.8; the closest are below.", "neuere Passage erreichte"),
        ("20,000,001 bytes; at most 20,000,000 are read", "20.000.001 Bytes; höchstens 20.000.000"),
        ("read on 2026-11-21", "gelesen am 21.11.2026"),
        (
            "redirected to https://a.example/: the server answered 404: there is no such page",
            "weitergeleitet zu https://a.example/: der Server antwortete 404: eine solche Seite",
        ),
        (
            "the server answered 503: it is overloaded; try again later (after: 120)",
            "ist überlastet; versuchen Sie es später noch einmal (nach: 120)",
        ),
        (
            "Nothing against it was found in 3 pages, and 1 of 2 searches failed; that is no "
            "proof.",
            "Nichts wurde dagegen in 3 Seiten, und 1 von 2 Suchen scheiterten gefunden",
        ),
        (
            "verified against the version of 2026-11-21; the page now differs and still has these "
            "words",
            "an der Fassung vom 21.11.2026 geprüft; die Seite ist jetzt anders und hat diese Worte "
            "noch",
        ),
        # What only looks like a sentence of ours stays as it is.
        ("many declined", "many declined"),
        ("quote unquote", "quote unquote"),
    ],
)
def test_sentences_of_other_rooms_are_translated(text: str, translated: str) -> None:
    assert translated in translate_borrowed_text(text)


@pytest.mark.usefixtures("german")
def test_ages_in_german() -> None:
    assert format_age(0, 100) == "vor 1 Minute"
    assert format_age(0, 7300) == "vor 2 Stunden"
    assert format_age(0, 5.2e6) == "1. Januar 1970"


@pytest.mark.usefixtures("german")
def test_numbers_and_days_in_german() -> None:
    assert format_number(1234567) == "1.234.567"
    assert format_number(-0.125, "+.2f") == "−0,12"
    assert format_number(0.5, ".0%") == "50\N{NO-BREAK SPACE}%"
    assert format_file_size(1_250_000) == "1,2 MB"
    assert localize_value("2026-11-21, 14:03 UTC") == "21.11.2026, 14:03 UTC"
    assert localize_value("127.0.0.1") == "127.0.0.1"


def test_numbers_in_english_are_as_python_writes_them() -> None:
    assert format_number(1234.5, ",.1f") == "1,234.5"
    assert format_number(0.5, ".0%") == "50%"
    assert localize_value("2026-11-21") == "2026-11-21"


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize("kind", ["html", "md", "docx"])
def test_reports_have_german_words_around_what_was_said(kind: str) -> None:
    """Questions, answers and quotes stay as they are; what declines is a sentence of ours."""
    language = get_export_language()
    page = Page("https://a.example/", "Rooks", "Rooks nest in colonies.", fetched="2026-11-21")
    quote = page.quote(0, 23)
    failed = (Failure("https://b.example/", "timed_out", ""),)
    given = (
        Answer("Rooks nest in colonies.", (quote,), (Claim(0, 23, (0,)),)),
        Answer("No passage reached 0.8; the closest are below.", declined=True),
        None,
    )
    answers = []
    for answer in given:
        stop = "end" if answer else "no_evidence"
        episode = Episode(Question("1", "Where?"), "extract", (), answer, stop, failed)
        known = bool(answer and answer.quotes)
        checks, pages = [Verdict(quote, "verified")] * known, [page] * known
        answers.append(ExportedAnswer(episode, checks, pages, "2026-11-22", "Why?", language))
    report = render_report(ExportedReport("Rooks", answers, "2026-11-23", language), kind)
    if kind == "docx":
        with zipfile.ZipFile(io.BytesIO(report)) as archive:
            report = archive.read("word/document.xml")
    text = " ".join(LexborHTMLParser(report.decode().replace("\\", "")).text().split())
    for words in (
        "Bericht von Rookery, 23.11.2026",
        "3 Fragen: 1 beantwortet, 1 abgelehnt, 1 ohne Antwort. 1 von 1 Zitat geprüft.",
        "heißt, dass",
        "Beantwortet von Rookery am 22.11.2026, Verfahren extract",
        "Rooks nest in colonies.",
        "gelesen am 21.11.2026",
        "Keine Passage erreichte 0,8; die nächsten stehen unten.",
        "Gesucht als",
        "Quellen",
        f"Fassung {quote.digest}",
        "Zitat 1",
    ):
        assert words in text, words
    for words in ("verified", "Sources", "Report", "Answered", "answered", "read on", "version"):
        assert words not in text, words
    assert kind != "html" or b'<html lang="de">' in report
    assert kind == "md" or "1 Zeit abgelaufen" in text
