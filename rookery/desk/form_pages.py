"""The dashboard's pages of labelling forms: list, versions, an editor that checks, and a preview
before anybody labels.

A preview is the page of a task with made-up answers. It stores nothing: the file of the form and
what was filled in so far travel with each page.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.desk import form_versions
from rookery.desk.dashboard import apply_dashboard_change, render_dashboard_page
from rookery.desk.forms import FORMS, LabellingForm, parse_form_file, read_packaged_form_text
from rookery.desk.labelling_form import TaskForm
from rookery.desk.labelling_records import LabellingItem
from rookery.desk.page_endpoints import (
    get_app_context,
    get_form_fields,
    get_last_value,
    get_person_name,
    get_posted_value,
    get_store,
    render_problem_page,
    require_role,
)
from rookery.desk.page_rendering import render_page
from rookery.errors import Failed
from rookery.records import Answer, Claim, Page, Question
from rookery.shell.languages import translate_borrowed_text

_AGES = Page(
    "https://birds.example/age",
    "How old crows get",
    "Most wild crows live for seven or eight years. A few reach fifteen. Ravens live longer.",
)
_TOOLS = Page(
    "https://tools.example/hooks",
    "Hooks and sticks",
    "New Caledonian crows bend twigs into hooks. They keep the best ones.",
)
SAMPLE_ANSWERS = (
    Answer(
        "Most crows live for seven or eight years. A few reach fifteen.",
        (_AGES.quote(0, 46), _AGES.quote(47, 67)),
        (Claim(0, 41, (0,)), Claim(42, 62, (1,))),
    ),
    Answer(
        "Crows are clever: they bend hooks. So they live for a long time.",
        (_TOOLS.quote(0, 43),),
        (Claim(0, 34, (0,)),),
    ),
    Answer("About seven years."),
    Answer("It depends on the winter, and on what people leave lying about."),
)
"""answers of a preview, used again where a form has more"""


def build_form_routes() -> list[Route]:
    """Return the routes of the pages of forms."""
    admit = require_role("researcher")
    return [
        Route("/board/forms", admit(show_form_list)),
        Route("/board/forms/edit", admit(show_form_editor)),
        Route("/board/forms/edit", admit(post_form), methods=["POST"]),
        Route("/board/forms/preview", admit(post_form_preview), methods=["POST"]),
        Route("/board/forms/{form}", admit(show_form_versions)),
    ]


def make_sample_item(form: LabellingForm) -> LabellingItem:
    """Return a made-up item that suits a form."""
    answers = tuple(SAMPLE_ANSWERS[number % len(SAMPLE_ANSWERS)] for number in range(form.answers))
    question = Question("preview", "How old do crows get?", gold=("Seven or eight years.",))
    return LabellingItem(form.name, question, answers)


def show_form_list(request: Request) -> Response:
    """Show the list of forms: those of Rookery, and those that were added."""
    store = get_store(request)
    found = [
        (form, form_versions.list_form_versions(store, form.name))
        for form in form_versions.list_forms(store)
    ]
    return render_dashboard_page(request, "board_forms.html", found=found)


def show_form_versions(request: Request) -> Response:
    """Show one form: its file, and its earlier versions."""
    store, name = get_store(request), request.path_params["form"]
    versions = form_versions.list_form_versions(store, name)
    if name not in FORMS and not versions:
        return render_problem_page(request, 404, "There is no such form.")
    return render_dashboard_page(
        request,
        "board_form.html",
        form=versions[0].form if versions else FORMS[name],
        text=versions[0].text if versions else read_packaged_form_text(name),
        versions=versions,
    )


def show_form_editor(request: Request) -> Response:
    """Show the editor of a form's file, with the file of another form to begin with."""
    store, name = get_store(request), request.query_params.get("copy", "compare_short")
    versions = form_versions.list_form_versions(store, name)
    if name not in FORMS and not versions:
        return render_problem_page(request, 404, "There is no such form.")
    text = versions[0].text if versions else read_packaged_form_text(name)
    if name in FORMS:
        text = text.replace(f'name = "{name}"', f'name = "my_{name}"', 1)
    return _render_editor(request, text)


def post_form(request: Request) -> Response:
    """Check the file of a form and show what is wrong, or store it as a new version."""
    text = get_posted_value(request, "form.text")
    try:
        form = form_versions.parse_own_form(text).form
    except Failed as failed:
        return _render_editor(request, text, wrong=translate_borrowed_text(failed.failure.detail))
    if get_posted_value(request, "do") != "save":
        return _render_editor(request, text, form)
    store, by = get_store(request), get_person_name(request)
    return apply_dashboard_change(
        request,
        lambda request, wrong: _render_editor(request, text, wrong=wrong),
        f"/board/forms/{form.name}",
        lambda: form_versions.add_form(store, text, by),
        "form",
    )


def _render_editor(
    request: Request, text: str, form: LabellingForm | None = None, wrong: str = ""
) -> Response:
    """Show the editor; with the form that the text was found to be, or with what is wrong."""
    return render_dashboard_page(request, "board_form_edit.html", wrong, text=text, checked=form)


def post_form_preview(request: Request) -> Response:
    """Show one page of a form as a rater would see it, with what was filled in so far."""
    posted = get_form_fields(request)
    text, do = get_last_value(posted, "form.text"), get_last_value(posted, "do")
    try:
        form, guide = parse_form_file(text)
    except Failed as failed:
        return _render_editor(request, text, wrong=translate_borrowed_text(failed.failure.detail))
    whole = get_last_value(posted, "form.whole") == "yes"
    sheet = _make_preview(form, whole, _read_kept(get_last_value(posted, "form.kept")))
    number = sheet.clamp_page(get_last_value(posted, "page"))
    if "page" in posted:
        raw = sheet.merge_posted(sheet.pages[number], posted)
        if form.auto or (do == "on" and number == len(sheet.pages) - 1):  # as in a task
            do = "submit"
        sheet = _make_preview(form, whole, raw, check=do == "submit")
    stored: Mapping[str, Any] | None = None
    if do == "submit":
        stored = None if sheet.problems else sheet.filled
        number = min(map(sheet.find_page, sheet.problems), default=number)
    else:
        turned = {"on": number + 1, "back": max(0, number - 1)}.get(do)
        number = sheet.clamp_page(do if turned is None else str(turned))
    look = get_app_context(request).look
    return render_page(
        request,
        "task.html",
        sheet=sheet,
        number=number,
        warnings=(),
        guide=look.render_guide(guide),
        examples="",
        guide_version="preview",
        preview={
            "text": text,
            "kept": msgspec.json.encode(sheet.raw).decode(),
            "stored": None
            if stored is None
            else msgspec.json.format(msgspec.json.encode(stored), indent=2).decode(),
            "whole": whole,
        },
    )


def _make_preview(
    form: LabellingForm, whole: bool, raw: Mapping[str, list[str]], check: bool = False
) -> TaskForm:
    item = make_sample_item(form)
    return TaskForm(form, item, tuple(range(form.answers)), whole, raw, check)


def _read_kept(text: str) -> dict[str, list[str]]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, list[str]])
    except msgspec.MsgspecError:
        return {}
