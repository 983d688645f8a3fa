"""Export an answer as one HTML file, Markdown or JSON, and its pages as a list of references;
several answers as one report in HTML, Markdown or DOCX.

Quotes are written as they stand on their pages. The files run and load nothing, and name local
files by name only; JSON has the records themselves. A report numbers its quotes throughout and ends
with its sources.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from rookery.answers.answer_results import make_ask_result, split_remarks
from rookery.errors import Outcome
from rookery.library.libraries import is_url
from rookery.quotes.answer_types import split_answering_words
from rookery.quotes.quote_links import describe_location, make_deep_link
from rookery.quotes.verification import UNCHECKED_OUTCOMES, ClaimedVerdict, TextVerdict, Verdict
from rookery.records import Answer, Episode, Page, Quote
from rookery.shell.terminal_output import (
    describe_missing_answer,
    format_failure_counts,
    is_declined_by_model,
    to_terminal_json,
)
from rookery.text_escaping import escape_markdown, percent_encode_url, sanitize_text

if TYPE_CHECKING:
    from rookery.shell.docx_writer import DocxWriter

_TEX_ESCAPES = {
    **{mark: f"\\{mark}" for mark in "%#&_$"},
    "\\": "\\textbackslash{}",
    # Escaped with a backslash they would still count as brackets.
    "{": "\\textbraceleft{}",
    "}": "\\textbraceright{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
}
EXPORT_TYPES = {
    "html": "text/html",
    "md": "text/markdown",
    "json": "application/json",
    "bib": "application/x-bibtex",
    "csl.json": "application/vnd.citationstyles.csl+json",
}
"""what an answer can be exported as, and what a file of that is called on the web"""
REPORT_TYPES = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}
"""what a report can be saved as, and what a file of that is called on the web"""


class ExportLanguage(NamedTuple):
    """The language of the fixed words of an export; questions, answers and quotes stay."""

    code: str = "en"
    """as in HTML's `lang`"""
    translate: Callable[[str], str] = str
    """from an English sentence, its numbers and days filled in, to that language"""


ENGLISH = ExportLanguage()


class ExportedAnswer(NamedTuple):
    """An answer and all that is known of its evidence."""

    episode: Episode
    verdicts: Sequence[Verdict]
    """on each quote, in order"""
    pages: Sequence[Page | None]
    """of each quote; None: it is not to be had"""
    day: str
    """when it was answered: YYYY-MM-DD; empty: nobody knows"""
    asked: str = ""
    """the question as it was asked, where it was searched in other words; else empty"""
    language: ExportLanguage = ENGLISH
    notes: Sequence[ClaimedVerdict | TextVerdict] = ()
    """on its text, and on quotations that are typed in it"""


class ExportedReport(NamedTuple):
    """Several questions with their answers, as one report."""

    title: str
    answers: Sequence[ExportedAnswer]
    day: str
    """when the report was made: YYYY-MM-DD"""
    language: ExportLanguage = ENGLISH
    """that of its own words, and of its answers"""


class CitedPage(NamedTuple):
    """A page that is cited."""

    key: str
    title: str
    url: str
    """empty: it is a file"""
    holder: str
    """the host, or the file's name"""
    day: str
    """when it was read: YYYY-MM-DD; empty: nobody knows"""
    digest: str


def render_export(exported: ExportedAnswer, kind: str) -> str:
    """Return the answer as a file of this kind, one of EXPORT_TYPES.

    Raises KeyError for another kind.
    """
    make = {
        "html": export_html,
        "md": export_markdown,
        "json": export_json,
        "bib": export_bibtex,
        "csl.json": export_csl,
    }
    return make[kind](exported)


def export_json(exported: ExportedAnswer) -> str:
    """Return the answer as one line of JSON of the form that `rookery ask --json` prints.

    Failures, but for remarks on its citations, are only counted in it, and it does not say what the
    answer was made with. Control characters are escaped.
    """
    answered = make_ask_result(exported.episode, exported.verdicts)
    noted = [each for each in answered.failures if each.outcome == Outcome.CITATION_NOTED]
    return to_terminal_json(msgspec.structs.replace(answered, failures=tuple(noted))) + "\n"


def list_cited_pages(*answers: ExportedAnswer) -> dict[CitedPage, list[int]]:
    """Return each version of each cited page with the numbers of its quotes, in order of citation.

    Quotes are counted from 1 through all answers.
    """
    cited_pages: dict[tuple[str, str], CitedPage] = {}
    numbers: dict[CitedPage, list[int]] = {}
    quotes = [quote for exported in answers for quote in _list_quotes(exported)]
    pages = [page for exported in answers for page in exported.pages]
    for number, (quote, page) in enumerate(zip(quotes, pages, strict=True), 1):
        version = quote.url, quote.digest
        if version not in cited_pages:
            cited_page = page if page and page.digest == quote.digest else None
            cited_pages[version] = _build_cited_page(quote, cited_page, len(cited_pages) + 1)
        numbers.setdefault(cited_pages[version], []).append(number)
    return numbers


def _build_cited_page(quote: Quote, page: Page | None, number: int) -> CitedPage:
    parts = urlsplit(quote.url)
    web = is_url(quote.url)
    holder = (parts.hostname or "").removeprefix("www.") if web else ""
    holder = holder or unquote(parts.path).rpartition("/")[2]
    name = re.sub("[^a-z0-9]", "", holder.lower()) or "page"
    title = " ".join(sanitize_text(quote.title).split()) or sanitize_text(holder)
    day = (page.fetched if page else "")[:10]
    date = day if re.fullmatch(r"\d{4}-\d\d-\d\d", day, re.ASCII) else ""
    url = percent_encode_url(quote.url) if web else ""
    return CitedPage(f"{name}{number}", title, url, sanitize_text(holder), date, quote.digest)


def _list_quotes(exported: ExportedAnswer) -> Sequence[Quote]:
    return exported.episode.answer.quotes if exported.episode.answer else ()


def _link_to_quote(quote: Quote, page: Page | None) -> str:
    """Return the address of the live page at the quote; empty if it is not on the web."""
    return percent_encode_url(make_deep_link(quote, page)) if is_url(quote.url) else ""


def _format_headline(exported: ExportedAnswer) -> str:
    answer, say = exported.episode.answer, exported.language.translate
    if answer is None:
        why = say(describe_missing_answer(exported.episode))
        return f"{why[0].upper()}{why[1:]}."
    if is_declined_by_model(exported.episode):
        return say("Declined: the model found no answer. The closest passages are below.")
    if answer.declined:
        return say("Declined. The closest passages are below.")
    if answer.citations == "unchecked":
        return say("Unchecked: the model cites nothing that it was shown. It was shown:")
    possible = [say("A possible answer, to be checked.")] * (answer.stored_certain is False)
    failures = [
        f"{say('NOT VERIFIED')}: “{sanitize_text(each.text)}”: {say(each.detail)}."
        for each in exported.notes
        if each.outcome not in ("verified", *UNCHECKED_OUTCOMES)
    ]
    return " ".join([*possible, say(_count_verified(exported.verdicts)), *failures])


def _count_verified(verdicts: Sequence[Verdict]) -> str:
    good, count = sum(verdict.verified for verdict in verdicts), len(verdicts)
    return f"{good} of 1 quote verified." if count == 1 else f"{good} of {count} quotes verified."


def _format_summary(exported: ExportedAnswer) -> str:
    on = f" on {exported.day}" if exported.day else ""
    method = sanitize_text(exported.episode.by)
    return exported.language.translate(f"Answered by Rookery{on}, method {method}")


def _get_answer_text(exported: ExportedAnswer) -> Answer | None:
    """Return the answer; of a declined one, which is a sentence of ours, in the language."""
    answer = exported.episode.answer
    if answer is None or not answer.declined or answer.claims:
        return answer
    return msgspec.structs.replace(answer, text=exported.language.translate(answer.text))


def _format_question(exported: ExportedAnswer) -> str:
    return " ".join(sanitize_text(exported.asked or exported.episode.question.text).split())


def _format_searched(exported: ExportedAnswer) -> str:
    """Return the question as it was searched; empty where that is how it was asked."""
    return " ".join(sanitize_text(exported.episode.question.text).split()) if exported.asked else ""


def _format_remarks(exported: ExportedAnswer) -> str:
    """Return what is remarked on the citations, as one text; empty if that is nothing."""
    say, remarks = exported.language.translate, split_remarks(exported.episode)[1]
    return "; ".join(sanitize_text(say(each)) for each in remarks)


def _format_failures(exported: ExportedAnswer) -> str:
    say = exported.language.translate
    failures = split_remarks(exported.episode)[0].failures
    counted = format_failure_counts(failures, say)
    counts = ", ".join(counted)
    return f"{say('What could not be had on the way')}: {counts}" if counts else ""


def _format_check(verdict: Verdict, language: ExportLanguage) -> str:
    if verdict.verified:
        return language.translate("verified")
    said = language.translate(verdict.detail)
    return f"{language.translate('NOT VERIFIED')}: {sanitize_text(said)}"


def _list_evidence(exported: ExportedAnswer) -> Iterator[tuple[Quote, Page | None, str, str]]:
    """Yield each quote with its page, and in words what the check said and its source."""
    say = exported.language.translate
    for quote, page, verdict in zip(
        _list_quotes(exported), exported.pages, exported.verdicts, strict=True
    ):
        source = _build_cited_page(quote, page, 0)
        cited_page = page if page and page.digest == quote.digest else None
        at = say(describe_location(cited_page, quote.start)) if cited_page else ""
        read = say(f"read on {source.day}") if source.day else ""
        words = [part for part in (source.holder, sanitize_text(at), read) if part]
        yield quote, cited_page, _format_check(verdict, exported.language), " · ".join(words)


# HTML


def export_html(exported: ExportedAnswer) -> str:
    """Return the answer, its quotes and the check of each as one HTML file.

    The file needs no network and no scripts.
    """
    title, heading = escape(_format_question(exported)), exported.language.translate("Quotes")
    parts = [
        _HTML_HEAD.replace("LANGUAGE", exported.language.code).replace("TITLE", title),
        f'{_soft_html(_format_summary(exported))}\n<h1 dir="auto">{title}</h1>',
        *_list_html_parts(exported, _format_headline(exported), f"<h2>{escape(heading)}</h2>\n"),
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _list_html_parts(
    exported: ExportedAnswer, line: str, heading: str = "", before: int = 0
) -> Iterator[str]:
    """Yield what stands below the question: how it was searched, the answer, a line about it, the
    quotes under a heading, and what could not be had. `before` is the number of earlier quotes."""
    if searched := escape(_format_searched(exported)):
        words = escape(exported.language.translate("Searched as"))
        yield f'<p class="soft">{words} <q dir="auto">{searched}</q></p>'
    if answer := _get_answer_text(exported):
        yield f'<p class="answer" dir="auto">{_answer_html(exported, answer, before)}</p>'
    yield _soft_html(line)
    if remarks := _format_remarks(exported):
        yield _soft_html(remarks)
    if _list_quotes(exported):
        yield heading + _quotes_html(exported, before)
    if failures := _format_failures(exported):
        yield _soft_html(failures)


def _soft_html(text: str) -> str:
    return f'<p class="soft">{escape(text)}</p>'


def _quotes_html(exported: ExportedAnswer, before: int = 0) -> str:
    """Return the quotes as a list; `before` is the number of quotes of earlier answers."""
    evidence = enumerate(_list_evidence(exported), before + 1)
    quotes = "\n".join(_quote_html(exported.language, number, *each) for number, each in evidence)
    return f'<ol start="{before + 1}" style="counter-reset: n {before}">\n{quotes}\n</ol>'


def _answer_html(exported: ExportedAnswer, answer: Answer, before: int = 0) -> str:
    return "".join(
        "".join(
            f"<mark>{_escape_html(part)}</mark>" if answers else _escape_html(part)
            for part, answers in _split_answering_words(exported, text)
        )
        + "".join(f'<a class="n" href="#quote-{n}">[{n}{mark}]</a>' for n, mark in numbers)
        for text, numbers in answer.split_at_claims(before)
    )


def _split_answering_words(exported: ExportedAnswer, text: str) -> list[tuple[str, bool]]:
    """Cut a part of an answer into pieces, and tell of each whether it is what a quote answers."""
    episode, answer = exported.episode, exported.episode.answer
    is_quoted = episode.by == "extract" and answer is not None and not answer.declined
    return split_answering_words(text, episode.question.text if is_quoted else "")


def _quote_html(
    language: ExportLanguage, number: int, quote: Quote, page: Page | None, check: str, source: str
) -> str:
    title, link = escape(_get_title(quote, language)), _link_to_quote(quote, page)
    words = escape(language.translate("the live page"))
    live = f'<a href="{escape(link)}" rel="noreferrer noopener">{words}</a> · ' if link else ""
    where = f"characters {quote.start}–{quote.end} of the version {quote.digest}"
    return (
        f'<li><details open><summary><bdi>{title}</bdi> <span class="soft"><bdi>{escape(source)}'
        f"</bdi> · {escape(check)}</span></summary>\n"
        f'<blockquote id="quote-{number}" dir="auto">{_escape_html(quote.text)}</blockquote>\n'
        f'<p class="soft">{live}{escape(language.translate(where))}</p></details></li>'
    )


def _get_title(quote: Quote, language: ExportLanguage) -> str:
    return " ".join(sanitize_text(quote.title).split()) or language.translate("Untitled page")


def _escape_html(text: str) -> str:
    """Text as HTML that is read as these very characters."""
    return escape(text).replace("\0", "\ufffd").replace("\r", "&#13;")


_HTML_HEAD = (Path(__file__).with_suffix(".html").read_text("utf-8").rstrip()).replace(
    "STYLE", Path(__file__).with_suffix(".css").read_text("utf-8")
)


# Markdown


def export_markdown(exported: ExportedAnswer) -> str:
    """Return the answer as Markdown; each quote is a footnote that says whether it is verified."""
    parts = [f"# {escape_markdown(_format_question(exported))}", *_list_markdown_parts(exported)]
    return "\n\n".join(parts) + "\n"


def _list_markdown_parts(exported: ExportedAnswer, before: int = 0) -> list[str]:
    """Return the paragraphs below the question; `before` is the number of earlier quotes."""
    answer, searched = _get_answer_text(exported), _format_searched(exported)
    words = exported.language.translate("Searched as")
    parts = [f"*{words} “{escape_markdown(searched)}”*"] if searched else []
    if answer:
        parts.append(
            "".join(
                "".join(
                    f"**{escape_markdown(part)}**" if answers else escape_markdown(part)
                    for part, answers in _split_answering_words(exported, text)
                )
                + "".join(f"[^{number}]{mark}" for number, mark in numbers)
                for text, numbers in answer.split_at_claims(before)
            )
        )
    lines = filter(None, (_format_headline(exported), _format_remarks(exported)))
    parts += [f"*{escape_markdown(each)}*" for each in lines]
    evidence = enumerate(_list_evidence(exported), before + 1)
    parts += [_format_footnote(exported.language, number, *each) for number, each in evidence]
    return [*parts, f"*{escape_markdown(_format_summary(exported))}.*"]


def _format_footnote(
    language: ExportLanguage, number: int, quote: Quote, page: Page | None, check: str, source: str
) -> str:
    link = _link_to_quote(quote, page)
    title = escape_markdown(_get_title(quote, language))
    head = f"[{title}](<{link}>)" if link else title
    lines = [line for line in re.split(r"\s*\n\s*", escape_markdown(quote.text)) if line.strip()]
    said = "\\\n".join(f"    > {line.strip()}" for line in lines)  # lines stay lines
    return f"[^{number}]: {head} · {escape_markdown(source)} · {escape_markdown(check)}\n\n{said}"


# Reports of several answers


def render_report(report: ExportedReport, kind: str) -> bytes:
    """Return the report as a file of this kind, one of REPORT_TYPES."""
    if kind == "docx":
        return _render_report_docx(report)
    make = {"html": _render_report_html, "md": _render_report_markdown}
    return make[kind](report).encode("utf-8", "replace")


def _number_answers(report: ExportedReport) -> Iterator[tuple[int, ExportedAnswer, int]]:
    """Yield each answer with its number from 1, and the number of quotes before it."""
    before = 0
    for number, told in enumerate(report.answers, 1):
        yield number, told, before
        before += len(_list_quotes(told))


def summarize_report(report: ExportedReport) -> str:
    """Return one line: how many questions were answered, declined or failed, and the quotes."""
    say = report.language.translate
    answers = [exported.episode.answer for exported in report.answers]
    declined = sum(answer is not None and answer.declined for answer in answers)
    nothing = answers.count(None)
    verdicts = [verdict for exported in report.answers for verdict in exported.verdicts]
    questions = say(f"{len(answers)} question{'s' * (len(answers) != 1)}")
    parts = [say(f"{len(answers) - declined - nothing} answered")]
    parts += [say(f"{declined} declined")] * bool(declined)
    parts += [say(f"{nothing} without an answer")] * bool(nothing)
    return f"{questions}: {', '.join(parts)}. {say(_count_verified(verdicts))}"


_VERIFIED_MEANING = (
    "Verified means that the words stand on the stored page, letter by letter. Whether the page is "
    "right, or answers the question, is for you to judge."
)


def _head_report(report: ExportedReport) -> str:
    return report.language.translate(f"Report by Rookery, {report.day}")


def _describe_source(
    source: CitedPage, numbers: Sequence[int], language: ExportLanguage = ENGLISH
) -> str:
    say = language.translate
    read = say(f"read on {source.day}") if source.day else ""
    quotes = say(f"quote{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}")
    version = f"{say('version')} {source.digest}"
    return " · ".join(part for part in (source.holder, read, version, quotes) if part)


def _render_report_html(report: ExportedReport) -> str:
    title, language = escape(sanitize_text(report.title)), report.language
    say = language.translate
    contents = [
        f'<li><a href="#answer-{n}" dir="auto">{escape(_format_question(exported))}</a></li>'
        for n, exported, _ in _number_answers(report)
    ]
    sources = [
        f"<li>{_format_source_html(source)} "
        f'<span class="soft">{escape(_describe_source(source, numbers, language))}</span></li>'
        for source, numbers in list_cited_pages(*report.answers).items()
    ]
    parts = [
        _HTML_HEAD.replace("LANGUAGE", language.code).replace("TITLE", title),
        f'{_soft_html(_head_report(report))}\n<h1 dir="auto">{title}</h1>',
        _soft_html(f"{summarize_report(report)} {say(_VERIFIED_MEANING)}"),
        f'<ol class="plain">\n{"".join(contents)}\n</ol>',
        *(_format_section_html(*each) for each in _number_answers(report)),
        f'<h2>{say("Sources")}</h2>\n<ol class="plain">\n{"".join(sources)}\n</ol>' * bool(sources),
        "</main>\n</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _format_source_html(source: CitedPage) -> str:
    title = f"<bdi>{escape(source.title)}</bdi>"
    link = f'<a href="{escape(source.url)}" rel="noreferrer noopener">{title}</a>'
    return link if source.url else title


def _format_section_html(number: int, exported: ExportedAnswer, before: int) -> str:
    head = f"{number}. {escape(_format_question(exported))}"
    line = f"{_format_headline(exported)} {_format_summary(exported)}."
    parts = [
        f'<section id="answer-{number}"><h2 dir="auto">{head}</h2>',
        *_list_html_parts(exported, line, before=before),
        "</section>",
    ]
    return "\n".join(parts)


def _render_report_markdown(report: ExportedReport) -> str:
    title, say = " ".join(sanitize_text(report.title).split()), report.language.translate
    parts = [
        f"# {escape_markdown(title)}",
        f"*{_head_report(report)}. {escape_markdown(summarize_report(report))} "
        f"{say(_VERIFIED_MEANING)}*",
    ]
    for number, exported, before in _number_answers(report):
        parts.append(f"## {number}. {escape_markdown(_format_question(exported))}")
        parts += _list_markdown_parts(exported, before)
    sources = list_cited_pages(*report.answers)
    parts += [f"## {say('Sources')}"] * bool(sources)
    parts += [
        f"{number}. {_format_source_markdown(source)} · "
        f"{escape_markdown(_describe_source(source, quotes, report.language))}"
        for number, (source, quotes) in enumerate(sources.items(), 1)
    ]
    return "\n\n".join(parts) + "\n"


def _format_source_markdown(source: CitedPage) -> str:
    title = escape_markdown(source.title)
    return f"[{title}](<{source.url}>)" if source.url else title


def _render_report_docx(report: ExportedReport) -> bytes:
    from rookery.shell.docx_writer import DocxRun, DocxWriter  # which loads lxml

    title, say = " ".join(sanitize_text(report.title).split()), report.language.translate
    document = DocxWriter()
    document.add_paragraph(title, "Title")
    document.add_paragraph(_head_report(report), "Note")
    document.add_paragraph(f"{summarize_report(report)} {say(_VERIFIED_MEANING)}", "Note")
    for number, exported, before in _number_answers(report):
        document.add_paragraph(f"{number}. {_format_question(exported)}", "Heading 1")
        _add_answer_to_docx(document, exported, before)
    sources = list_cited_pages(*report.answers)
    if sources:
        document.add_paragraph(say("Sources"), "Heading 1")
    for number, (source, quotes) in enumerate(sources.items(), 1):
        named = DocxRun(source.title, link=source.url)
        rest = f" · {_describe_source(source, quotes, report.language)}"
        document.add_paragraph([DocxRun(f"{number}. "), named, DocxRun(rest)])
    return document.build_file(title, report.day)


def _add_answer_to_docx(document: "DocxWriter", exported: ExportedAnswer, before: int) -> None:
    from rookery.shell.docx_writer import DocxRun

    if searched := _format_searched(exported):
        words = exported.language.translate("Searched as")
        document.add_paragraph(f"{words} “{searched}”", "Note")
    if answer := _get_answer_text(exported):
        runs = []
        for text, numbers in answer.split_at_claims(before):
            parts = _split_answering_words(exported, text)
            runs += [DocxRun(part, bold=answers) for part, answers in parts]
            runs += [DocxRun(f"[{n}{mark}]", anchor=f"quote_{n}") for n, mark in numbers]
        document.add_paragraph(runs, "Normal" if answer.declined else "Answer")
    document.add_paragraph(f"{_format_headline(exported)} {_format_summary(exported)}.", "Note")
    if remarks := _format_remarks(exported):
        document.add_paragraph(remarks, "Note")
    evidence = enumerate(_list_evidence(exported), before + 1)
    for number, (quote, page, check, source) in evidence:
        named = DocxRun(_get_title(quote, exported.language), link=_link_to_quote(quote, page))
        runs = [DocxRun(f"[{number}] "), named, DocxRun(f" · {source} · {check}")]
        document.add_paragraph(runs, "Source", f"quote_{number}")
        document.add_paragraph(quote.text, "Quote")
    if failures := _format_failures(exported):
        document.add_paragraph(failures, "Note")


# Lists of references


def export_bibtex(exported: ExportedAnswer) -> str:
    """Return the cited pages as a BibTeX file, one entry a version; empty if none is cited."""
    return "\n".join(_format_bibtex_entry(source) for source in list_cited_pages(exported))


def _format_bibtex_entry(source: CitedPage) -> str:
    fields = {
        "title": f"{{{_escape_tex(source.title)}}}",
        "organization" if source.url else "howpublished": _escape_tex(source.holder),
        "url": source.url,
        "urldate": source.day,
        "note": f"Version sha256:{_escape_tex(source.digest)}",
    }
    lines = [f"  {name} = {{{value}}},\n" for name, value in fields.items() if value]
    return f"@{'online' if source.url else 'misc'}{{{source.key},\n{''.join(lines)}}}\n"


def _escape_tex(text: str) -> str:
    return "".join(_TEX_ESCAPES.get(letter, letter) for letter in text)


def export_csl(exported: ExportedAnswer) -> str:
    """Return the cited pages as CSL-JSON, the JSON of the Citation Style Language.

    It is one line with a list, which is empty if no page is cited.
    """
    items = [_build_csl_item(source) for source in list_cited_pages(exported)]
    return msgspec.json.encode(items).decode() + "\n"


def _build_csl_item(source: CitedPage) -> dict[str, Any]:
    item: dict[str, Any] = {
        "id": source.key,
        "type": "webpage" if source.url else "document",
        "title": source.title,
        "container-title": source.holder,
        "note": f"Version sha256:{source.digest}",
    }
    if source.url:
        item["URL"] = source.url
    if source.day:
        item["accessed"] = {"date-parts": [[int(part) for part in source.day.split("-")]]}
    return item
