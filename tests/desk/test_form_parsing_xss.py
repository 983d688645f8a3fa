"""Scripts in all that people and pages can write: nothing runs, and nothing even tries to."""

import html
import re

import pytest
from visits import FORMS_HERE, Opened, Visit
from windows import Site

from rookery.desk import accounts, form_versions
from rookery.desk.forms import FORMS, GoldLabels, LabellingItem
from rookery.records import Answer, Claim, Page, Question
from rookery.shell.rendering import render_guide_html

PAYLOADS = (
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    '"><svg onload=window.pwned=1>',
    "' autofocus onfocus=window.pwned=1 x='",
    "</textarea><script>window.pwned = 1</script>",
    "</template><script>window.pwned = 1</script>",
    "<a href='javascript:window.pwned=1'>here</a>",
    "[here](javascript:window.pwned=1) ![x](x onerror=window.pwned=1)",
    "<div id='x' data-poll='/leave' data-every='1' onclick='window.pwned=1'>x</div>",
    "<form action='https://evil.test'><button>x</button></form>",
    "<base href='https://evil.test/'><style>*{display:none}</style>",
    "{{ 7 * 191 }} {% raw %} ${7*191}",
    "\u202egnp.exe\u2066\u0000\r\n\ud800",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<math><mtext></p><style><img src=x onerror=window.pwned=1>",
)
ALL = "\n".join(PAYLOADS)
URL = "javascript:window.pwned=1//https://evil.test/"


def hostile(form: str, number: int = 0) -> LabellingItem:
    """An item of nothing but payloads."""
    text = ALL.replace("\ud800", "")
    page = Page(URL, text, text)
    quotes = (page.quote(0, len(text)), page.quote_whole_words(1, 9))
    answer = Answer(text, quotes, (Claim(0, 30, (0,)), Claim(35, len(text), (0, 1))))
    question = Question(f"{number}", text, (page,), gold=(text,))
    return LabellingItem(form, question, (answer,) * FORMS[form].answers)


def everything(visit: Visit) -> str:
    """The HTML of all pages that show what people and pages wrote."""
    seen = ""
    for form in FORMS_HERE:
        visit.begin(form)
        for number in range(len(FORMS[form].steps)):
            seen += visit.get(f"/tasks/{visit.task}?page={number}").html
        seen += visit.get(f"/guides/{form}").html
    return seen


@pytest.mark.slow
def test_payloads_are_text_and_nothing_else(opened: Opened) -> None:
    opened.lay(*(hostile(form) for form in FORMS_HERE))
    for form in FORMS_HERE:
        form_versions.write_guide(opened.store, form, ALL.replace("\ud800", ""), "ada")
    seen = everything(opened.visit())
    scripts = re.findall("<script[^>]*>", seen)
    assert all('src="/static/' in tag for tag in scripts)
    assert not re.findall(r"<(img|iframe|svg onload|base|style|math)\b", seen)
    assert "7 * 191" in html.unescape(seen)
    assert "1337" not in seen
    assert not re.findall(r'href="(?!/|https?:|#)', seen)
    assert "evil.test'>" not in seen


def test_a_guide_is_markdown_without_html_and_with_links_to_the_web_only() -> None:
    made = str(render_guide_html(f"# Title\n\n**bold** [web](https://x.example/a) {ALL}"))
    assert "<h1>Title</h1>" in made
    assert "<strong>bold</strong>" in made
    assert 'href="https://x.example/a"' in made
    assert made.count("<a href=") == 1
    assert not re.findall(r"<(?!/?(h1|p|strong|a|em)\b)", made)


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
def test_nothing_runs_and_the_browser_refuses_nothing(site: Site, scripts: bool) -> None:
    opened, batch = site.opened, f"hostile {scripts}"
    opened.lay(*(hostile(form) for form in FORMS_HERE), batch=batch)
    check = hostile("supported", 1)
    gold = GoldLabels({"preferred": 0}, ALL.replace("\ud800", ""))
    check = LabellingItem(check.form, check.question, check.answers, gold=gold)
    opened.lay(check, batch="check" + batch, prelude=True)
    for form in FORMS_HERE:
        form_versions.write_guide(opened.store, form, ALL.replace("\ud800", ""), "ada")
    name = PAYLOADS[1][:60] + str(scripts)
    with site.window(name, java_script_enabled=scripts) as seen:
        page = seen.page
        for form in FORMS_HERE:
            page.goto("/desk")
            page.locator(f"form:has(input[value={form}]) button").click()
            page.wait_for_url("**/tasks/**")
            address = page.url.partition("?")[0]
            for number in range(len(FORMS[form].steps)):
                page.goto(f"{address}?page={number}")
                for box in page.locator("textarea:visible").all()[:2]:
                    box.fill(PAYLOADS[4])
                if page.get_by_role("button", name="Save", exact=True).count():
                    page.get_by_role("button", name="Save", exact=True).click()
                    page.wait_for_url("**said=saved*")
                assert page.evaluate("window.pwned") is None
        page.goto("/history")
        assert page.evaluate("window.pwned") is None
        assert [line for line in seen.said if "favicon" not in line] == []
    accounts.shut_out_person(opened.store, name, "ada")
