"""The lead's pages for a labelling campaign: projects, their batches and trials, payment; and
forms: list, versions, an editor that checks, and a preview before anybody labels.

A preview is the page of a task with made-up answers. It stores nothing: the file of the form and
what was filled in so far travel with each page.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from rookery.desk import accounts, crowd_entry, form_versions, projects
from rookery.desk.accounts import DAY_SECONDS
from rookery.desk.dashboard import list_batch_progress, make_dashboard_change, render_dashboard_page
from rookery.desk.form_parsing import TaskForm
from rookery.desk.form_versions import FormVersion
from rookery.desk.forms import (
    FORMS,
    LabellingForm,
    LabellingItem,
    parse_form_file,
    read_packaged_form_text,
)
from rookery.desk.page_endpoints import (
    PageHandler,
    explain_refusal,
    get_app_context,
    get_form_fields,
    get_last_value,
    get_person_name,
    get_posted_value,
    get_posted_values,
    get_store,
    make_public_url,
    redirect_after_post,
    render_page,
    render_problem_page,
)
from rookery.desk.payment import build_payment_report, write_payment_csv
from rookery.desk.projects import ProjectSettings
from rookery.errors import Failed, Outcome
from rookery.records import Answer, Claim, Failure, Page, Question
from rookery.shell.languages import mark_text

SETTING_LABELS = {
    "rate": mark_text("Rate"), "per": mark_text("Paid by"), "currency": mark_text("Currency"),
    "pay_excluded": mark_text("Work that does not count"),
    "idle_minutes": mark_text("Idle minutes"), "pass_share": mark_text("Pass rule"),
    "feedback_days": mark_text("Days before feedback"),
    "session_items": mark_text("Items for each crowd worker"),
    "completion_code": mark_text("Completion code"),
}  # fmt: skip
"""label of each project setting"""
SETTING_HELP = {
    "rate": mark_text("Pay for one hour or one item. 0: nothing is paid."),
    "idle_minutes": mark_text(
        "Between two actions on an item at most so many minutes count as work."
    ),
    "pass_share": mark_text(
        "Share of an attention check that must be right. 0.75 is GopherCite’s 3 of 4."
    ),
    "feedback_days": mark_text(
        "A judgement counts in what its rater sees of their agreement with others after so many."
    ),
    "session_items": mark_text("0: as many as there are."),
    "completion_code": mark_text(
        "The code that the crowd platform expects. Empty: each session gets a code of its own."
    ),
}
"""help of the settings that need some"""
SETTING_CHOICES = {
    "per": (("hour", mark_text("the hour")), ("item", mark_text("the item"))),
    "pay_excluded": (("true", mark_text("is paid, too")), ("false", mark_text("is not paid"))),
}
"""values and labels of the settings that have only a few"""


def show_projects_page(request: Request, wrong: str = "") -> Response:
    """Show the projects, and the form that makes one."""
    store = get_store(request)
    found = [
        (each, projects.list_project_batches(store, each.name))
        for each in projects.list_projects(store)
    ]
    free = projects.list_project_batches(store, "")
    return render_dashboard_page(request, "board_projects.html", wrong, found=found, free=free)


@make_dashboard_change("/board/projects", show_projects_page, "project")
def post_project(request: Request) -> None:
    """Make a project with the settings that hold where nothing is said."""
    store, name = get_store(request), get_posted_value(request, "name").strip()
    if any(each.name == name for each in projects.list_projects(store)):
        detail = mark_text("there is a project of this name: open it below")
        raise Failed(Failure(name, Outcome.ALREADY, detail))
    projects.save_project(store, name, ProjectSettings(), get_person_name(request))


def show_project_page(request: Request) -> Response:
    """Show one project: settings, batches, trial and people."""
    return _render_project_page(request)


def _render_project_page(request: Request, wrong: str = "", link: str = "") -> Response:
    store = get_store(request)
    name = request.path_params.get("project") or get_posted_value(request, "project")
    try:
        project = projects.load_project(store, name)
    except Failed as failed:
        return render_problem_page(request, 404, failed.failure.detail)
    return render_dashboard_page(
        request,
        "board_project.html",
        wrong,
        project=project,
        fields=_list_setting_fields(project.settings),
        batches=projects.list_project_batches(store, name),
        counts={each.name: each for each in list_batch_progress(store)},
        free=projects.list_project_batches(store, ""),
        results=projects.list_trial_results(store, name),
        sessions=crowd_entry.list_crowd_sessions(store, name),
        link=link,
        people=[
            one.name
            for one in accounts.list_people(store)
            if one.gone is None and one.project is None
        ],
    )


def _list_setting_fields(settings: ProjectSettings) -> list[dict[str, object]]:
    values = msgspec.to_builtins(settings)
    values["pay_excluded"] = str(settings.pay_excluded).lower()
    return [
        {
            "name": name,
            "label": label,
            "help": SETTING_HELP.get(name, ""),
            "value": values[name],
            "choices": SETTING_CHOICES.get(name, ()),
            "text": isinstance(values[name], str),
        }
        for name, label in SETTING_LABELS.items()
    ]


@make_dashboard_change("/board/projects/{project}", _render_project_page, "settings")
def post_project_settings(request: Request) -> None:
    """Change the settings of a project."""
    store, posted = get_store(request), get_form_fields(request)
    name = get_last_value(posted, "project")
    given = {key: get_last_value(posted, key).strip() for key in SETTING_LABELS if key in posted}
    before = projects.load_project(store, name).settings
    settings = projects.parse_project_settings(given, before, strict=False)
    projects.save_project(store, name, settings, get_person_name(request))


@make_dashboard_change("/board/projects/{project}", _render_project_page, "batch")
def post_project_batch(request: Request) -> None:
    """Make a batch part of a project, its trial or for named people, or take it out."""
    name, batch, do, trial = get_posted_values(request, "project", "batch", "do", "trial")
    store, by = get_store(request), get_person_name(request)
    if do == "remove":
        projects.place_batch(store, batch, "", by)
    else:
        named = get_form_fields(request).get("person", ())
        projects.place_batch(store, batch, name, by, bool(trial), named)


@make_dashboard_change("/board/projects/{project}", _render_project_page, "admission")
def post_admission(request: Request) -> None:
    """Admit a person to a project, or refuse with a reason."""
    name, person, do, reason = get_posted_values(request, "project", "person", "do", "reason")
    store, by = get_store(request), get_person_name(request)
    projects.decide_admission(store, name, person, do == "admit", reason, by)


def post_crowd_link(request: Request) -> Response:
    """Make a signed link for a crowd platform, and show it."""
    name, posted_days, study = get_posted_values(request, "project", "days", "study")
    store, by = get_store(request), get_person_name(request)
    days = int(posted_days) if posted_days.isdecimal() and len(posted_days) < 5 else 0
    try:
        path = crowd_entry.make_crowd_link(store, name, days, study.strip(), by)
    except Failed as failed:
        return _render_project_page(request, explain_refusal(failed))
    return _render_project_page(request, link=make_public_url(request, path))


def show_payment_page(request: Request) -> Response:
    """Show the hours of each rater of a project in a period, and what they are owed."""
    store, name = get_store(request), request.query_params.get("project", "")
    names = [each.name for each in projects.list_projects(store)]
    if name and name not in names:
        return render_problem_page(request, 404, "There is no such project.")
    since, until = _read_period(request)
    report = build_payment_report(store, name, since, until)
    return render_dashboard_page(
        request,
        "board_pay.html",
        report=report,
        names=names,
        since=_format_day(since),
        until=_format_day(None if until is None else until - DAY_SECONDS),
    )


def show_payment_csv(request: Request) -> Response:
    """Send the payment report as CSV."""
    since, until = _read_period(request)
    try:
        report = build_payment_report(
            get_store(request), request.query_params.get("project", ""), since, until
        )
    except Failed as failed:
        return render_problem_page(request, 404, failed.failure.detail)
    headers = {"Content-Disposition": 'attachment; filename="payment.csv"'}
    return Response(write_payment_csv(report), media_type="text/csv", headers=headers)


def _read_period(request: Request) -> tuple[float | None, float | None]:
    """Return the beginning of the day `since` and the end of the day `until`, which may be None."""
    since, until = (_parse_day(request.query_params.get(key, "")) for key in ("since", "until"))
    return since, None if until is None else until + DAY_SECONDS


def _parse_day(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _format_day(at: float | None) -> str:
    return "" if at is None else time.strftime("%Y-%m-%d", time.gmtime(at))


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


def _find_form_text(request: Request, name: str) -> tuple[str, list[FormVersion]] | None:
    """Return the file of a form, and its versions if people wrote it; None: there is none."""
    versions = form_versions.list_form_versions(get_store(request), name)
    if name not in FORMS and not versions:
        return None
    return versions[0].text if versions else read_packaged_form_text(name), versions


def show_form_versions(request: Request) -> Response:
    """Show one form: its file, and its earlier versions."""
    name = request.path_params["form"]
    if (found := _find_form_text(request, name)) is None:
        return render_problem_page(request, 404, "There is no such form.")
    text, versions = found
    form = versions[0].form if versions else FORMS[name]
    return render_dashboard_page(
        request, "board_form.html", form=form, text=text, versions=versions
    )


def show_form_editor(request: Request) -> Response:
    """Show the editor of a form's file, with the file of another form to begin with."""
    name = request.query_params.get("copy", "compare_short")
    if (found := _find_form_text(request, name)) is None:
        return render_problem_page(request, 404, "There is no such form.")
    text = found[0]
    if name in FORMS:
        text = text.replace(f'name = "{name}"', f'name = "my_{name}"', 1)
    return _render_editor(request, text=text)


def _render_editor(
    request: Request, wrong: str = "", form: LabellingForm | None = None, text: str = ""
) -> Response:
    """Show the editor; with the form that the posted text was found to be, or what is wrong."""
    text = text or get_posted_value(request, "form.text")
    return render_dashboard_page(request, "board_form_edit.html", wrong, text=text, checked=form)


def post_form(request: Request) -> Response:
    """Check the file of a form and show what is wrong, or store it as a new version."""
    text, do = get_posted_values(request, "form.text", "do")
    try:
        form = form_versions.parse_own_form(text).form
        if do != "save":
            return _render_editor(request, form=form)
        form_versions.add_form(get_store(request), text, get_person_name(request))
    except Failed as failed:
        return _render_editor(request, explain_refusal(failed))
    return redirect_after_post(f"/board/forms/{form.name}?said=form")


def post_form_preview(request: Request) -> Response:
    """Show one page of a form as a rater would see it, with what was filled in so far."""
    posted = get_form_fields(request)
    text, do, whole_form, earlier = get_posted_values(
        request, "form.text", "do", "form.whole", "form.kept"
    )
    try:
        form, guide = parse_form_file(text)
    except Failed as failed:
        return _render_editor(request, explain_refusal(failed))
    whole = whole_form == "yes"
    sheet = _make_preview(form, whole, _read_kept(earlier))
    number = sheet.clamp_page(get_last_value(posted, "page"))
    if "page" in posted:
        raw = sheet.merge_posted(sheet.pages[number], posted)
        if form.auto or (do == "on" and number == len(sheet.pages) - 1):  # as in a task
            do = "submit"
        sheet = _make_preview(form, whole, raw, check=do == "submit")
    stored = None
    if do == "submit" and not sheet.problems:
        stored = msgspec.json.format(msgspec.json.encode(sheet.filled), indent=2).decode()
    number = sheet.turn_page(number, do)
    values = {"text": text, "stored": stored, "whole": whole}
    return render_page(
        request,
        "task.html",
        sheet=sheet,
        number=number,
        warnings=(),
        guide=get_app_context(request).look.render_guide(guide),
        examples="",
        guide_version="preview",
        preview={**values, "kept": msgspec.json.encode(sheet.raw).decode()},
    )


def _make_preview(
    form: LabellingForm, whole: bool, raw: Mapping[str, list[str]], check: bool = False
) -> TaskForm:
    return TaskForm(form, make_sample_item(form), tuple(range(form.answers)), whole, raw, check)


def _read_kept(text: str) -> dict[str, list[str]]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, list[str]])
    except msgspec.MsgspecError:
        return {}


CAMPAIGN_PAGES: Mapping[str, PageHandler] = {
    "/board/forms": show_form_list,
    "/board/forms/edit": show_form_editor,
    "POST /board/forms/edit": post_form,
    "POST /board/forms/preview": post_form_preview,
    "/board/forms/{form}": show_form_versions,
    "/board/projects": show_projects_page,
    "POST /board/projects": post_project,
    "POST /board/projects/settings": post_project_settings,
    "POST /board/projects/batch": post_project_batch,
    "POST /board/projects/admission": post_admission,
    "POST /board/projects/link": post_crowd_link,
    "/board/projects/{project:path}": show_project_page,
    "/board/pay": show_payment_page,
    "/board/pay.csv": show_payment_csv,
}
"""pages of forms, projects and payment, for researchers"""
