"""Notebooks: several questions over one set of documents, their answers on one page, one report.

A notebook shows a conversation, the list of answers that follow-up questions make too: its
questions are asked to the letter, each by itself. `/answers/ID/notebook` is the page, ID that of
any of its answers, `/answers/ID/report.FORMAT` the report.
"""

import time
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rookery.desk.page_endpoints import (
    PageHandler,
    get_form_fields,
    get_last_value,
    get_person_name,
    redirect_after_post,
    render_page,
    render_problem_page,
)
from rookery.errors import Failed, Outcome
from rookery.records import Episode, Failure, Question
from rookery.server.answer_pages import (
    FORM_OUTCOMES,
    AnswerView,
    explain_stop,
    find_context,
    find_requested_answer,
    get_export_language,
    list_option_fields,
    list_readable_answers,
    make_answer_view,
    make_download_headers,
    parse_question_form,
    prepare_export,
    render_ask_page,
)
from rookery.server.api.answer_queue import StoredAnswer, get_answer_service
from rookery.server.api.answer_sessions import (
    DOCUMENTS_PLACE,
    QuestionRequest,
    parse_requested_question,
)
from rookery.shell.answer_export import REPORT_TYPES, ExportedAnswer, ExportedReport, render_report
from rookery.shell.languages import mark_text, translate_plural
from rookery.shell.languages import translate_text as _

MAX_QUESTIONS = 50
"""maximum number of questions that are asked at once"""
MAX_TITLE_CHARACTERS = 200
"""maximum characters of a report's title"""


class NotebookRow(NamedTuple):
    """A question of a notebook, with its answer as it is shown."""

    number: int
    found: StoredAnswer
    shown: AnswerView | None
    """None: it is under way, or there is no answer"""
    why: str
    """reason why there is no answer; empty if there is one, or none yet"""


def show_new_notebook(request: Request) -> Response:
    """Show the form for several questions, one a line."""
    return render_ask_page(request, QuestionRequest(""), several=True)


def post_questions(request: Request) -> Response:
    """Enqueue each line of the form as a question of one conversation, and show its notebook.

    All are refused, with the form and the reason, where one could not be asked.
    """
    fields, answering = get_form_fields(request), get_answer_service(request)
    text = get_last_value(fields, "questions")
    lines = list(dict.fromkeys(line.strip() for line in text.split("\n") if line.strip()))
    inquiry = find_context(request, parse_question_form(request))
    try:
        if not 1 <= len(lines) <= MAX_QUESTIONS:
            detail = _("ask 1 to %(most)s questions, each on a line of its own", most=MAX_QUESTIONS)
            raise Failed(Failure("questions", Outcome.BAD_QUESTION, detail))
        requests = [msgspec.structs.replace(inquiry, question=line, follows="") for line in lines]
        for each in requests:
            parse_requested_question(each)
        first = ""
        for each in requests:
            conversation = each.conversation or first
            one = msgspec.structs.replace(each, conversation=conversation)
            answer = answering.enqueue_question(one, get_person_name(request))
            first = first or answer
    except Failed as failed:
        if failed.failure.outcome not in FORM_OUTCOMES:
            raise
        form_state = msgspec.structs.replace(inquiry, question=text)
        return render_ask_page(request, form_state, failed.failure.detail, 400, several=True)
    return redirect_after_post(f"/answers/{first}/notebook")


def show_notebook(request: Request) -> Response:
    """Show the answers of a conversation with their quotes, as far as they are there."""
    stored = find_requested_answer(request)
    answers = enumerate(list_readable_answers(request, stored), 1)
    rows = [_make_row(request, number, each) for number, each in answers]
    return render_page(
        request,
        "notebook.html",
        found=stored,
        rows=rows,
        title=_suggest_title(request, [row.found for row in rows]),
        options=list_option_fields(stored),
        mine=stored.person == get_person_name(request),
        going=sum(not row.found.over for row in rows),
        kinds=(("html", mark_text("Web page")), ("md", "Markdown"), ("docx", "Word")),
    )


def download_report(request: Request) -> Response:
    """Return a conversation's answers as one file; 409 while some are under way."""
    kind = request.path_params["kind"]
    if kind not in REPORT_TYPES:
        return render_problem_page(request, 404, "There is no such page.")
    answers = list_readable_answers(request, find_requested_answer(request))
    if going := sum(not each.over for each in answers):
        why = translate_plural(
            "Not ready: one question is under way. Save the report when all are done.",
            "Not ready: %(num)s questions are under way. Save the report when all are done.",
            going,
            num=going,
        )
        return render_problem_page(request, 409, why)
    title = " ".join(request.query_params.get("title", "").split())[:MAX_TITLE_CHARACTERS]
    title = title or _suggest_title(request, answers)
    report = ExportedReport(
        title,
        [_export_stored_answer(request, each) for each in answers],
        time.strftime("%Y-%m-%d", time.gmtime()),
        get_export_language(),
    )
    headers = make_download_headers(f"{title}.{kind}", f"report-{answers[0].id}.{kind}")
    body = render_report(report, kind)
    return Response(body, headers=headers, media_type=REPORT_TYPES[kind])


def _make_row(request: Request, number: int, stored: StoredAnswer) -> NotebookRow:
    answering = get_answer_service(request)
    if stored.answered is None:
        return NotebookRow(number, stored, None, _explain_missing(request, stored))
    outcome = stored.answered
    shown = make_answer_view(outcome.episode, outcome.verdicts, answering.find_page)
    return NotebookRow(number, stored, shown, shown.why)


def _explain_missing(request: Request, stored: StoredAnswer) -> str:
    """Return the reason why there is no answer; empty while it is under way."""
    if not stored.over:
        return ""
    outcome, detail = explain_stop(get_answer_service(request).read_events(stored.id))
    return "cancelled" if outcome == "cancelled" else detail or outcome


def _export_stored_answer(request: Request, stored: StoredAnswer) -> ExportedAnswer:
    told = prepare_export(request, stored)
    if told is not None:
        return told
    day = time.strftime("%Y-%m-%d", time.gmtime(stored.ended or stored.made))
    stop = _explain_missing(request, stored)
    question, method = Question(stored.id, stored.question), stored.wanted.method
    episode = Episode(question, method, stop=stop)
    return ExportedAnswer(episode, (), (), day, language=get_export_language())


def _suggest_title(request: Request, answers: list[StoredAnswer]) -> str:
    """Return a title that says how many questions were asked over which documents."""
    default = get_answer_service(request).capabilities.default_places
    places = dict.fromkeys(
        place for each in answers for place in (each.wanted.places or default) if place
    )
    many = translate_plural("%(num)s question", "%(num)s questions", len(answers), num=len(answers))
    if not places:
        return many
    return _(
        "%(questions)s over %(places)s",
        questions=many,
        places=", ".join(place.removeprefix(f"{DOCUMENTS_PLACE}/") for place in places),
    )


NOTEBOOK_PAGES: Mapping[str, PageHandler] = {
    "/notebook": show_new_notebook,
    "POST /notebook": post_questions,
    "/answers/{answer}/notebook": show_notebook,
    "/answers/{answer}/report.{kind}": download_report,
}
"""pages of notebooks and their reports, for readers"""
