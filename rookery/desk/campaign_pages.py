"""The lead's pages for a labelling campaign: projects, their batches and trials, and payment."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.desk import accounts, crowd_entry, projects
from rookery.desk.dashboard import (
    SERVER_FAULTS,
    apply_dashboard_change,
    list_batch_progress,
    render_dashboard_page,
)
from rookery.desk.page_endpoints import (
    get_form_fields,
    get_last_value,
    get_person_name,
    get_posted_value,
    get_store,
    render_problem_page,
    require_role,
)
from rookery.desk.payment import build_payment_report, write_payment_csv
from rookery.desk.projects import ProjectSettings
from rookery.errors import Failed, Outcome
from rookery.records import Failure
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
