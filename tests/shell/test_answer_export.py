"""Answers taken away: quotes stand verbatim, nothing runs, lists of references are read back."""

import io
import json
import re
import zipfile
from datetime import date
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from docx import Document
from docx.oxml.ns import qn
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from selectolax.lexbor import LexborHTMLParser

from rookery.answers.answer_results import AskResult
from rookery.pages.page_reader import read_page
from rookery.quotes.verification import check_quote
from rookery.records import Answer, Block, Claim, Episode, Failure, Page, Question
from rookery.shell import answer_export
from rookery.shell.answer_export import (
    EXPORT_TYPES,
    REPORT_TYPES,
    ExportedAnswer,
    ExportedReport,
    render_export,
    render_report,
)

EVIL = "</title></blockquote><script>alert(1)</script> & \\end{document} [x](javascript:1) <!-- "
TEXT = f"Crows hide acorns. {EVIL}They find 90 % of them_again_ *soon*.\n\nNext: ``x`` ~~y~~ | z."
CROWS = Page(
    'https://www.birds.example/a{b}%20c?q=1&r="<x>\\',
    f"Crows {EVIL}",
    TEXT,
    (Block(0, len(TEXT), "paragraph"),),
    fetched="2026-11-21T09:05:00+00:00",
)
FILE = Page("file:///home/somebody/secret%20place/my notes.pdf", "", "1. Rooks too.\n- And jays.")
ANSWER = Answer(
    "They hide acorns <b>a lot</b>, and find them.\n1. Rooks do.",
    (CROWS.quote(0, len(TEXT)), FILE.quote(0, len(FILE.text)), CROWS.quote(0, 18)),
    (Claim(0, 29, (0, 2)), Claim(31, 45, (0,)), Claim(46, 58, (1,))),
)


def make_export(
    answer: Answer | None = ANSWER, pages: tuple[Page | None, ...] | None = None
) -> ExportedAnswer:
    question = Question("q", "Do crows <i>hide</i> acorns & find them?")
    failures = (Failure("/home/somebody/x.pdf", "encrypted", "needs a password"),)
    stop = "end" if answer else "no_evidence"
    episode = Episode(question, "extract", (), answer, stop, failures)
    sources = pages or (CROWS, FILE, CROWS)
    quotes = answer.quotes if answer else ()
    cited = sources[: len(quotes)]
    verdicts = [check_quote(quote, page) for quote, page in zip(quotes, cited, strict=True)]
    return ExportedAnswer(episode, verdicts, cited, "2026-11-22")


def quotes_in(html: str) -> list[str]:
    return [quote.text(deep=True) for quote in LexborHTMLParser(html).css("blockquote")]


def test_the_html_file_runs_nothing_and_loads_nothing() -> None:
    tree = LexborHTMLParser(html := render_export(make_export(), "html"))
    assert not tree.css("script, iframe, img, link, object, embed, base, form, svg")
    assert "default-src 'none'" in html
    for element in tree.css("*"):
        assert not any(name.startswith("on") for name in element.attributes)
        for name in ("href", "src"):
            link = element.attributes.get(name) or "#"
            assert link.startswith(("#", "https://"))


def test_in_the_html_file_every_quote_stands_verbatim() -> None:
    html = render_export(make_export(), "html")
    assert quotes_in(html) == [quote.text for quote in ANSWER.quotes]
    said = LexborHTMLParser(html).css_first(".answer")
    assert said is not None
    assert said.text(deep=True).replace("[1][3]", "").replace("[1]", "").replace("[2]", "") == (
        ANSWER.text
    )
    assert "3 of 3 quotes verified" in html


def test_a_number_in_the_answer_leads_to_its_quote() -> None:
    tree = LexborHTMLParser(render_export(make_export(), "html"))
    links = [link.attributes["href"] for link in tree.css(".answer a")]
    assert links == ["#quote-1", "#quote-3", "#quote-1", "#quote-2"]
    assert all(tree.css_first(link or "") is not None for link in links)


@pytest.mark.parametrize("kind", [kind for kind in EXPORT_TYPES if kind != "json"])
def test_where_a_file_lies_is_not_given_away(kind: str) -> None:
    made = render_export(make_export(), kind)
    assert "somebody" not in made
    assert "secret" not in made
    assert "my notes.pdf" in made


@given(st.text(min_size=1, max_size=60), st.text(max_size=30))
def test_any_text_is_exported_as_it_is(text: str, title: str) -> None:
    page = Page("https://x.example/", title, f"{text}!")
    answer = Answer(text, (page.quote(0, len(page.text)),), (Claim(0, len(text), (0,)),))
    episode = Episode(Question("q", f"Is {text}?"), "extract", (), answer)
    made = ExportedAnswer(episode, [check_quote(answer.quotes[0], page)], [page], "2026-11-22")
    assert quotes_in(answer_export.export_html(made)) == [page.text.replace("\0", "\ufffd")]
    assert not LexborHTMLParser(answer_export.export_html(made)).css("script")
    assert json.loads(answer_export.export_csl(made))[0]["type"] == "webpage"
    assert len(entries(answer_export.export_bibtex(made))) == 1


def rendered(markdown: str) -> str:
    """What a reader of Markdown sees of the text and of the quotes, without white space."""
    html = (
        MarkdownIt("commonmark").enable("table").render(re.sub(r"^    ", "", markdown, flags=re.M))
    )
    tree = LexborHTMLParser(html)
    assert tree.body is not None
    assert not tree.css("script, em > b, del, table, code, ol, ul, hr")
    return "".join(tree.body.text(deep=True).split())


def test_markdown_is_read_as_the_very_words() -> None:
    made = render_export(make_export(), "md")
    seen = rendered(made)
    for quote in ANSWER.quotes:
        assert "".join(quote.text.split()) in seen
    assert "hideacorns<b>alot</b>" in seen
    assert [note[2:-1] for note in re.findall(r"\[\^\d\](?!:)", made)] == ["1", "3", "1", "2"]
    assert re.findall(r"^\[\^(\d)\]:", made, re.M) == ["1", "2", "3"]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs"]), max_size=50))
def test_markdown_leaves_any_text_as_it_is(text: str) -> None:
    page = Page("https://x.example/", "T", f"x{text}")
    answer = Answer("So.", (page.quote(0, len(page.text)),))
    episode = Episode(Question("q", "Why?"), "extract", (), answer)
    made = ExportedAnswer(episode, [check_quote(answer.quotes[0], page)], [page], "2026-11-22")
    assert "".join(page.text.split()) in rendered(answer_export.export_markdown(made))


def entries(text: str) -> list[dict[str, str]]:
    """A small reader of BibTeX: entries, and fields in balanced braces."""
    rows, at = [], 0
    while (start := text.find("@", at)) >= 0:
        head = re.compile(r"@(\w+)\{([^,\s{}]+),\n").match(text, start)
        assert head is not None, text[start : start + 40]
        fields, at = {"type": head[1], "key": head[2]}, head.end()
        while field := re.compile(r"  (\w+) = \{").match(text, at):
            depth, end = 1, field.end()
            while depth:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            fields[field[1]] = text[field.end() : end - 1]
            assert text[end : end + 2] == ",\n"
            at = end + 2
        assert text[at : at + 2] == "}\n"
        rows.append(fields)
    return rows


def untex(text: str) -> str:
    for mark, tex in {**answer_export._TEX_ESCAPES}.items():
        text = text.replace(tex, f"\0{ord(mark)}\0")
    return re.sub("\0(\\d+)\0", lambda code: chr(int(code[1])), text)


def test_bibtex_is_read_back() -> None:
    first, second = entries(render_export(make_export(), "bib"))
    assert first["type"] == "online"
    assert first["urldate"] == "2026-11-21"
    assert untex(first["title"].removeprefix("{").removesuffix("}")) == " ".join(
        CROWS.title.split()
    )
    assert first["url"] == "https://www.birds.example/a%7Bb%7D%20c?q=1&r=%22%3Cx%3E%5C"
    assert first["key"] != second["key"]
    assert second["type"] == "misc"
    assert second["howpublished"] == "my notes.pdf"
    assert "url" not in second


def test_csl_is_json_with_every_page_once() -> None:
    first, second = json.loads(render_export(make_export(), "csl.json"))
    assert first["title"] == " ".join(CROWS.title.split())
    assert date(*first["accessed"]["date-parts"][0]) == date(2026, 11, 21)
    assert first["URL"].startswith("https://www.birds.example/")
    assert second["type"] == "document"
    assert "URL" not in second
    assert "accessed" not in second
    assert first["id"] != second["id"]


def test_json_is_what_the_command_line_says() -> None:
    made: Any = AskResult.from_json(render_export(make_export(), "json"))
    assert made.answer == ANSWER
    assert made.counts == {"quotes": 3, "verified": 3, "encrypted": 1}


def test_a_page_of_another_version_says_nothing_of_when_it_was_read() -> None:
    other = Page(CROWS.url, "New", "Other words.", fetched="2027-01-01T00:00:00+00:00")
    made = make_export(pages=(other, None, None))
    assert "urldate" not in render_export(made, "bib")
    assert render_export(made, "html").count("NOT VERIFIED") == 3


@pytest.mark.parametrize("kind", list(EXPORT_TYPES))
def test_no_answer_can_be_taken_away_too(kind: str) -> None:
    made = render_export(make_export(None), kind)
    if kind in ("html", "md"):
        assert "No evidence" in made
    assert "None" not in made


def test_a_declined_answer_says_so() -> None:
    declined = Answer("I do not know.", (CROWS.quote(0, 18),), declined=True, score=0.2)
    assert "Declined" in render_export(make_export(declined), "html")
    assert "Declined" in render_export(make_export(declined), "md")


# Reports

DECLINED = Answer("I do not know.", (CROWS.quote(0, 18),), declined=True, score=0.2)


def report_of(*answers: ExportedAnswer) -> ExportedReport:
    return ExportedReport("Crows & <rooks>", answers, "2026-11-23")


def read_docx_text(data: bytes) -> str:
    """What our own reader finds in a Word file, without white space."""
    return "".join(read_page(data, "file:///report.docx").text.split())


def whole_report() -> ExportedReport:
    follow_up = make_export()._replace(asked="And <i>rooks</i>?")
    return report_of(make_export(), make_export(DECLINED, (CROWS,)), make_export(None), follow_up)


@pytest.mark.parametrize("kind", list(REPORT_TYPES))
def test_a_report_has_every_question_quote_verdict_and_source(kind: str) -> None:
    made = render_report(whole_report(), kind)
    if kind == "docx":
        seen = read_docx_text(made)
    elif kind == "html":
        tree = LexborHTMLParser(made.decode())
        assert tree.body is not None
        seen = "".join(tree.body.text(deep=True).split())
    else:
        seen = re.sub(r"\s|>", "", made.decode()).replace("\\", "")
    for said in (
        "Crows & <rooks>", "4 questions: 2 answered, 1 declined, 1 without an answer",
        "7 of 7 quotes verified", "the words stand on the stored page",
        "1. Do crows <i>hide</i> acorns & find them?",
        "Declined. The closest passages are below", "No evidence", "4. And <i>rooks</i>?",
        "Searched as “Do crows <i>hide</i>", "Answered by Rookery on 2026-11-22, method extract",
        "read on 2026-11-21", f"version {CROWS.digest} · quotes 1, 3, 4, 5, 7",
        f"version {FILE.digest} · quotes 2, 6", "my notes.pdf",
    ):  # fmt: skip
        wanted = re.sub(r"\s|>", "", said) if kind == "md" else "".join(said.split())
        assert wanted in seen.replace("SearchedasDo", "Searchedas“Do"), said
    for quote in ANSWER.quotes:
        words = re.sub(r"[\s>\\]" if kind == "md" else r"\s", "", quote.text)
        assert seen.count(words) >= 2
    assert "somebody" not in seen
    assert "https://www.birds.example/a%7Bb%7D" in made.decode("utf-8", "replace") or kind == "docx"


def test_in_a_report_each_number_leads_to_its_own_quote() -> None:
    tree = LexborHTMLParser(render_report(whole_report(), "html").decode())
    links = [link.attributes["href"] for link in tree.css(".answer a")]
    first = ["#quote-1", "#quote-3", "#quote-1", "#quote-2"]
    assert links == [*first, "#quote-5", "#quote-7", "#quote-5", "#quote-6"]
    quotes = [ANSWER.quotes[n] for n in (0, 1, 2)]
    wanted = [*quotes, DECLINED.quotes[0], *quotes]
    for number, quote in enumerate(wanted, 1):
        found = tree.css_first(f"#quote-{number}")
        assert found is not None
        assert found.text(deep=True) == quote.text
    assert not tree.css("script, iframe, img, link, object, embed, base, form, svg")
    markdown = render_report(whole_report(), "md").decode()
    assert re.findall(r"^\[\^(\d)\]:", markdown, re.M) == list("1234567")


def test_a_word_file_has_styles_and_its_links_lead_somewhere() -> None:
    document = Document(io.BytesIO(render_report(whole_report(), "docx")))
    assert (document.core_properties.title, document.core_properties.author) == (
        "Crows & <rooks>",
        "Rookery",
    )
    styles = [each.style.name for each in document.paragraphs if each.style]
    assert styles[:5] == ["Title", "Note", "Note", "Heading 1", "Answer"]
    assert set(styles[5:]) == {"Heading 1", "Note", "Answer", "Source", "Quote", "Normal"}
    bookmarks = [each.get(qn("w:name")) for each in document.element.iter(qn("w:bookmarkStart"))]
    assert bookmarks == [f"quote_{number}" for number in range(1, 8)]
    links = [link for each in document.paragraphs for link in each.hyperlinks]
    assert len(links) > 8
    for link in links:
        assert link.runs[0].style.name == "Hyperlink"
        assert link.fragment in bookmarks or link.address.startswith("https://")


@pytest.mark.slow
@given(st.text(min_size=1, max_size=60), st.text(max_size=30))
def test_any_text_stands_in_a_word_file(text: str, title: str) -> None:
    page = Page("https://x.example/", title, f"{text}!")
    answer = Answer(text, (page.quote(0, len(page.text)),), (Claim(0, len(text), (0,)),))
    episode = Episode(Question("q", f"Is {text}?"), "extract", (), answer)
    made = ExportedAnswer(episode, [check_quote(answer.quotes[0], page)], [page], "2026-11-22")
    file = render_report(report_of(made), "docx")
    assert file == render_report(report_of(made), "docx")
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        for name in archive.namelist():
            if name.endswith((".xml", ".rels")):
                ElementTree.fromstring(archive.read(name))


def test_the_words_that_answer_are_marked_in_quotes_and_in_no_model_s_text() -> None:
    page = Page("https://a.example/", "", "It was founded in 1988 & moved.")
    quote = page.quote(0, len(page.text))
    answer = Answer(quote.text, (quote,), (Claim(0, len(quote.text), (0,)),))
    made = make_export(answer, (page,))
    asked = msgspec.structs.replace(made.episode, question=Question("1", "When was it founded?"))
    for by, marked in (("extract", ["1988"]), ("webglm", [])):
        told = made._replace(episode=msgspec.structs.replace(asked, by=by))
        found = LexborHTMLParser(render_export(told, "html")).css(".answer mark")
        assert [each.text() for each in found] == marked
        assert ("in **1988** " in render_export(told, "md")) == bool(marked)
        report = render_report(ExportedReport("Clubs", [told], "2026-11-22"), "docx")
        [paragraph] = [
            each
            for each in Document(io.BytesIO(report)).paragraphs
            if each.style and each.style.name == "Answer"
        ]
        assert [run.text for run in paragraph.runs if run.bold] == marked
        assert paragraph.text.startswith(quote.text)


@pytest.mark.parametrize("kind", ["html", "md"])
def test_doubt_and_remarks_are_exported_and_what_is_unchecked_is_called_so(kind: str) -> None:
    doubted = Answer("They do.", (CROWS.quote(0, 18),), (Claim(0, 8, (0,), (0,)),))
    remark = Failure("webglm", "citation_noted", "this sentence cites nothing: Rooks sing.")
    made = make_export(doubted)
    episode = msgspec.structs.replace(made.episode, by="webglm", failures=(remark,))
    text = render_export(made._replace(episode=episode), kind)
    assert ("[1?]" if kind == "html" else "[^1]?") in text
    assert remark.detail in text
    assert "could not be had" not in text
    assert remark.detail in render_export(made._replace(episode=episode), "json")
    unchecked = Answer("They do.", doubted.quotes, citations="unchecked")
    text = render_export(make_export(unchecked), kind)
    assert "Unchecked: the model cites nothing that it was shown." in text
    assert "quotes verified" not in text
