"""The lead's pages for a labelling campaign: projects, their batches and trials, payment; and
forms: list, versions, an editor that checks, and a preview before anybody labels.

A preview is the page of a task with made-up answers. It stores nothing: the file of the form and
what was filled in so far travel with each page.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.desk import accounts, crowd_entry, form_versions, projects
from rookery.desk.dashboard import (
    SERVER_FAULTS,
    apply_dashboard_change,
    list_batch_progress,
    render_dashboard_page,
)
from rookery.desk.form_parsing import TaskForm
from rookery.desk.forms import (
    FORMS,
    LabellingForm,
    LabellingItem,
    parse_form_file,
    read_packaged_form_text,
)
from rookery.desk.page_endpoints import (
    get_app_context,
    get_form_fields,
    get_last_value,
    get_person_name,
    get_posted_value,
    get_store,
    render_page,
    render_problem_page,
    require_role,
)
from rookery.desk.payment import build_payment_report, write_payment_csv
from rookery.desk.projects import ProjectSettings
from rookery.errors import Failed, Outcome
from rookery.records import Answer, Claim, Failure, Page, Question
from rookery.shell.languages import mark_text, translate_borrowed_text

DAY_SECONDS = 86_400.0
"""seconds in a day"""
SETTING_LABELS = {
    "rate": (mark_text("Rate"), mark_text("Pay for one hour or one item. 0: nothing is paid.")),
    "per": (mark_text("Paid by"), ""),
    "currency": (mark_text("Currency"), ""),
    "pay_excluded": (mark_text("Work that does not count"), ""),
    "idle_minutes": (
        mark_text("Idle minutes"),
        mark_text("Between two actions on an item at most so many minutes count as work."),
    ),
    "pass_share": (
        mark_text("Pass rule"),
        mark_text("Share of an attention check that must be right. 0.75 is GopherCite’s 3 of 4."),
    ),
    "feedback_days": (
        mark_text("Days before feedback"),
        mark_text(
            "A judgement counts in what its rater sees of their agreement with others after so "
            "many."
        ),
    ),
    "session_items": (
        mark_text("Items for each crowd worker"),
        mark_text("0: as many as there are."),
    ),
    "completion_code": (
        mark_text("Completion code"),
        mark_text(
            "The code that the crowd platform expects. Empty: each session gets a code of its own."
        ),
    ),
}
"""label and help of each project setting"""
SETTING_CHOICES = {
    "per": (("hour", mark_text("the hour")), ("item", mark_text("the item"))),
    "pay_excluded": (("true", mark_text("is paid, too")), ("false", mark_text("is not paid"))),
}
"""values and labels of the settings that have only a few"""


def build_campaign_routes() -> list[Route]:
    """Return the routes of the pages for projects and payment."""
    admit = require_role("researcher")
    return [
        Route("/board/projects", admit(show_projects_page)),
        Route("/board/projects", admit(post_project), methods=["POST"]),
        Route("/board/projects/settings", admit(post_project_settings), methods=["POST"]),
        Route("/board/projects/batch", admit(post_project_batch), methods=["POST"]),
        Route("/board/projects/admission", admit(post_admission), methods=["POST"]),
        Route("/board/projects/link", admit(post_crowd_link), methods=["POST"]),
        Route("/board/projects/{project:path}", admit(show_project_page)),
        Route("/board/pay", admit(show_payment_page)),
        Route("/board/pay.csv", admit(show_payment_csv)),
    ]


def show_projects_page(request: Request, wrong: str = "") -> Response:
    """Show the projects, and the form that makes one."""
    store = get_store(request)
    found = [
        (each, projects.list_project_batches(store, each.name))
        for each in projects.list_projects(store)
    ]
    free = projects.list_project_batches(store, "")
    return render_dashboard_page(request, "board_projects.html", wrong, found=found, free=free)


def post_project(request: Request) -> Response:
    """Make a project with the settings that hold where nothing is said."""
    store, by = get_store(request), get_person_name(request)
    name = get_posted_value(request, "name").strip()

    def make_project() -> None:
        if any(each.name == name for each in projects.list_projects(store)):
            raise Failed(
                Failure(name, Outcome.ALREADY, "there is a project of this name: open it below")
            )
        projects.save_project(store, name, ProjectSettings(), by)

    return apply_dashboard_change(
        request, show_projects_page, "/board/projects", make_project, "project"
    )


def show_project_page(request: Request) -> Response:
    """Show one project: settings, batches, trial and people."""
    return _render_project_page(request, "", request.path_params["project"])


def _render_project_page(request: Request, wrong: str, name: str, link: str = "") -> Response:
    store = get_store(request)
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
            "help": explained,
            "value": values[name],
            "choices": SETTING_CHOICES.get(name, ()),
            "text": isinstance(values[name], str),
        }
        for name, (label, explained) in SETTING_LABELS.items()
    ]


def _change_project(
    request: Request, change: Callable[[str, dict[str, tuple[str, ...]]], object], did: str
) -> Response:
    """Run a change of the posted project, and show its page."""
    posted = get_form_fields(request)
    name = get_last_value(posted, "project")

    def show_again(request: Request, wrong: str) -> Response:
        return _render_project_page(request, wrong, name)

    return apply_dashboard_change(
        request, show_again, f"/board/projects/{quote(name)}", lambda: change(name, posted), did
    )


def post_project_settings(request: Request) -> Response:
    """Change the settings of a project."""
    store, by = get_store(request), get_person_name(request)

    def save_settings(name: str, posted: dict[str, tuple[str, ...]]) -> None:
        given = {
            key: get_last_value(posted, key).strip() for key in SETTING_LABELS if key in posted
        }
        before = projects.load_project(store, name).settings
        settings = projects.parse_project_settings(given, before, strict=False)
        projects.save_project(store, name, settings, by)

    return _change_project(request, save_settings, "settings")


def post_project_batch(request: Request) -> Response:
    """Make a batch part of a project, its trial or for named people, or take it out."""
    store, by = get_store(request), get_person_name(request)

    def place_batch(name: str, posted: dict[str, tuple[str, ...]]) -> None:
        gone = get_last_value(posted, "do") == "remove"
        projects.place_batch(
            store,
            get_last_value(posted, "batch"),
            "" if gone else name,
            by,
            bool(get_last_value(posted, "trial")) and not gone,
            () if gone else posted.get("person", ()),
        )

    return _change_project(request, place_batch, "batch")


def post_admission(request: Request) -> Response:
    """Admit a person to a project, or refuse with a reason."""
    store, by = get_store(request), get_person_name(request)

    def decide_admission(name: str, posted: dict[str, tuple[str, ...]]) -> None:
        admitted = get_last_value(posted, "do") == "admit"
        person, reason = get_last_value(posted, "person"), get_last_value(posted, "reason")
        projects.decide_admission(store, name, person, admitted, reason, by)

    return _change_project(request, decide_admission, "admission")


def post_crowd_link(request: Request) -> Response:
    """Make a signed link for a crowd platform, and show it."""
    store, posted = get_store(request), get_form_fields(request)
    name, days = get_last_value(posted, "project"), get_last_value(posted, "days")
    try:
        path = crowd_entry.make_crowd_link(
            store,
            name,
            int(days) if days.isdecimal() and len(days) < 5 else 0,
            get_last_value(posted, "study").strip(),
            get_person_name(request),
        )
    except Failed as failed:
        if failed.failure.outcome in SERVER_FAULTS:
            raise
        return _render_project_page(request, translate_borrowed_text(failed.failure.detail), name)
    return _render_project_page(request, "", name, str(request.base_url).rstrip("/") + path)


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
