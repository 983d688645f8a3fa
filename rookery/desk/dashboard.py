"""The lead's dashboard: progress and quality of the labelling, exclusions, snapshots, people,
guides and the audit log."""

import io
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from sqlalchemy import case, func, select
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.desk import accounts, form_versions, labelling_queue, rater_quality, snapshots
from rookery.desk.accounts import ROLES, Person, PersonRole
from rookery.desk.form_versions import list_forms, load_form
from rookery.desk.forms import (
    FLAG_REASONS,
    SKIP_REASONS,
    FormField,
    Judgement,
    LabellingForm,
    LabellingItem,
)
from rookery.desk.page_endpoints import (
    NavigationLink,
    get_app_context,
    get_form_fields,
    get_last_value,
    get_person_name,
    get_posted_value,
    get_signed_in_person,
    get_store,
    redirect_after_post,
    render_page,
    render_problem_page,
    require_role,
)
from rookery.desk.snapshots import SnapshotContents, SnapshotSelection
from rookery.desk.store import Store
from rookery.desk.tables import items, judgements, slots
from rookery.desk.tables import snapshots as kept
from rookery.errors import Failed, Outcome
from rookery.records import Failure
from rookery.shell.languages import (
    localize_value,
    mark_text,
    translate_borrowed_text,
    translate_plural,
)
from rookery.shell.languages import translate_text as _

ShowDashboardPage = Callable[[Request, str], Response]
"""a function that renders a dashboard page again, with a sentence that says what is wrong"""
DASHBOARD_TABS = (
    ("/board", mark_text("Progress")),
    ("/board/quality", mark_text("Quality")),
    ("/board/returned", mark_text("Flagged")),
    ("/board/excluded", mark_text("Excluded")),
    ("/board/snapshots", mark_text("Snapshots")),
    ("/board/projects", mark_text("Projects")),
    ("/board/pay", mark_text("Pay")),
    ("/board/people", mark_text("People")),
    ("/board/forms", mark_text("Forms")),
    ("/board/guides", mark_text("Guides")),
    ("/board/book", mark_text("Log")),
)
"""path and label of each tab of the dashboard"""
CHANGE_NOTICES = {
    "retired": mark_text("Retired. It is handed out no more; what was made of it stays."),
    "excluded": mark_text("Excluded. The judgements stay, and do not count."),
    "lifted": mark_text("Lifted. The judgements count again."),
    "frozen": mark_text("Frozen. It can be downloaded, the same bytes each time."),
    "role": mark_text("The role is changed."),
    "out": mark_text("Shut out. What they did stays."),
    "form": mark_text(
        "That is the newest version now. Judgements keep the version they were given on."
    ),
    "project": mark_text("Made. Open it to set it up."),
    "settings": mark_text("The settings are saved."),
    "batch": mark_text("Saved. It holds from the next task on."),
    "admission": mark_text("Saved. It holds from their next task on."),
    "reply": mark_text("Answered. They see it in their history."),
    "guide": mark_text("That is the newest version now. The earlier ones are kept."),
}
"""notice shown after a change, by the value of `?did=`"""
SERVER_FAULTS = frozenset(
    {Outcome.STORE_BUSY, Outcome.DISK_FULL, Outcome.STORE_FAILS, Outcome.NO_STORE}
)
"""outcomes of failures of the server, which no change of the form would repair"""


def render_dashboard_page(
    request: Request, template: str, wrong: str = "", **values: Any
) -> Response:
    """Render a page of the dashboard; with `wrong`, the reason of a refusal, with status 422."""
    did = CHANGE_NOTICES.get(request.query_params.get("did", ""), "")
    status = 422 if wrong else 200
    values |= {"wrong": wrong, "tabs": DASHBOARD_TABS, "said": did, "wide": True}
    return render_page(request, template, status, **values)


def apply_dashboard_change(
    request: Request,
    show: ShowDashboardPage,
    then: str,
    change: Callable[[], object],
    did: str = "",
) -> Response:
    """Run a change, then redirect to the page `then`; if it raises Failed, show the reason.

    `show` renders the page with the reason; `did` names the notice after the redirect. Failures of
    the server itself are raised again.
    """
    try:
        change()
    except Failed as failed:
        if failed.failure.outcome in SERVER_FAULTS:
            raise
        return show(request, translate_borrowed_text(failed.failure.detail))
    return redirect_after_post(f"{then}?did={did}")


def check_role_rank(store: Store, lead: Person, name: str, role: str) -> None:
    """Raise Failed (not_allowed) if `lead` may not give a person this role.

    The role must exist, and neither it nor the person's present role may be above the lead's own.
    """
    had = [one.role for one in accounts.list_people(store) if one.name == name]
    if role not in ROLES:
        raise Failed(Failure(role, Outcome.NOT_ALLOWED, "choose one of the roles"))
    if any(ROLES.index(one) > ROLES.index(lead.role) for one in (role, *had)):
        detail = mark_text("this is for somebody of that role or above: ask an admin")
        raise Failed(Failure(name, Outcome.NOT_ALLOWED, detail))


ZIP_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
"""modification time of each file in a zip: the earliest possible, so that equal files give equal
zips"""

COMPARISON_LABELS = {
    -2: mark_text("answer 1 much better"),
    -1: mark_text("answer 1 better"),
    0: mark_text("equally good"),
    1: mark_text("answer 2 better"),
    2: mark_text("answer 2 much better"),
}
"""label of each value of a two-answer comparison"""


class BatchProgress(NamedTuple):
    """Progress of a batch, counted in slots: one for each person who is to judge an item."""

    name: str
    forms: list[str]
    items: int
    """number of items"""
    retired: int
    """number of items that are handed out no more"""
    done: int
    """slots whose judgement was handed in"""
    in_hand: int
    """slots that somebody works on now"""
    waiting: int
    """slots that nobody has taken"""

    @property
    def places(self) -> int:
        """Slots that are filled or can still be filled."""
        return self.done + self.in_hand + self.waiting


class ReturnedItem(NamedTuple):
    """An item that somebody flagged or skipped, with those judgements, newest first."""

    id: str
    batch: str
    item: LabellingItem
    retired: str | None
    """reason for which the item was retired; None if it was not"""
    judgements: list[Judgement]

    @property
    def flags(self) -> int:
        """Number of these judgements that flag the item."""
        return sum(one.kind == "flagged" for one in self.judgements)


class SnapshotRow(NamedTuple):
    """A snapshot in the list: its name, author, time, digest, selection and counts."""

    name: str
    by: str
    at: float
    digest: str
    wanted: SnapshotSelection
    items: int
    judgements: int


def list_batch_progress(store: Store) -> list[BatchProgress]:
    """Return the progress of each batch, newest first."""
    now = store.clock()
    leased = slots.c.person.is_not(None) & (slots.c.until >= now)
    still = ~slots.c.done & ~slots.c.retired
    per_item = (
        select(
            slots.c.item,
            func.sum(case((slots.c.done, 1), else_=0)).label("done"),
            func.sum(case((still & leased, 1), else_=0)).label("held"),
            func.sum(case((still, 1), else_=0)).label("still"),
        )
        .group_by(slots.c.item)
        .subquery()
    )
    query = (
        select(
            items.c.batch,
            func.count(),
            func.count(items.c.retired),
            func.sum(per_item.c.done),
            func.sum(per_item.c.held),
            func.sum(per_item.c.still - per_item.c.held),
        )
        .join(per_item, per_item.c.item == items.c.id)
        .group_by(items.c.batch)
        .order_by(func.max(items.c.number).desc())
    )
    with store.begin_read() as connection:
        pairs = connection.execute(select(items.c.batch, items.c.form).distinct()).all()
        forms = {batch: sorted(form for one, form in pairs if one == batch) for batch, _ in pairs}
        return [BatchProgress(row[0], forms[row[0]], *row[1:]) for row in connection.execute(query)]


def list_returned_items(store: Store, most: int) -> list[ReturnedItem]:
    """Return the items of the newest `most` flags and skips, newest first."""
    query = (
        select(items, judgements.c.body.label("said"))
        .join(judgements, judgements.c.item == items.c.id)
        .where(judgements.c.kind.in_(("flagged", "skipped")))
        .order_by(judgements.c.number.desc())
        .limit(most)
    )
    returned: dict[str, ReturnedItem] = {}
    with store.begin_read() as connection:
        for row in connection.execute(query):
            new = ReturnedItem(row.id, row.batch, LabellingItem.from_json(row.body), row.why, [])
            returned.setdefault(row.id, new).judgements.append(Judgement.from_json(row.said))
    return list(returned.values())


def describe_filled_fields(form: LabellingForm, filled: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (label, value in words) of each field that somebody filled in.

    Answers are numbered from 1 in the order of the item. Of a skip or flag only the reason is
    returned.
    """
    fields = {field.name: field for field in form.fields}
    values = {name: value for name, value in filled.items() if value not in (None, "", [])}
    # A skip or a flag, whose reason is not a field of the form.
    if "reason" in values and "reason" not in fields:
        return [(_("Why"), describe_return_reason(filled))]
    return [
        (fields[name].label, _describe_value(fields[name], value))
        for name, value in values.items()
        if name in fields
    ]


def describe_return_reason(filled: Mapping[str, Any]) -> str:
    """Return the reason for which somebody skipped or flagged an item, in words."""
    said = str(filled.get("reason") or _("no reason given"))
    return {
        choice.value: translate_borrowed_text(choice.label)
        for choice in (*FLAG_REASONS, *SKIP_REASONS)
    }.get(said, said)


def _describe_value(field: FormField, value: Any) -> str:
    if field.kind in ("claims", "spans"):
        return translate_plural("%(num)s marked", "%(num)s marked", len(value), num=len(value))
    if isinstance(value, list):
        return "; ".join(
            _("not said") if one is None else _describe_value(field, one) for one in value
        )
    if field.kind == "versus":
        return _(COMPARISON_LABELS.get(value, str(value)))
    if field.kind == "pick" and isinstance(value, int):
        return _("answer %(number)s", number=value + 1)
    labels = {choice.value: choice.label for choice in field.choices}
    return labels.get(value, str(value)) if isinstance(value, str) else str(value)


def list_snapshot_rows(store: Store) -> list[SnapshotRow]:
    """Return a row for each snapshot, newest first."""
    with store.begin_read() as connection:
        rows = connection.execute(select(kept).order_by(kept.c.at.desc(), kept.c.name)).all()
    found = []
    for row in rows:
        frozen = SnapshotContents.from_json(row.body)
        counts = len(frozen.items), len(frozen.judgements)
        found.append(SnapshotRow(row.name, row.by, row.at, row.digest, frozen.wanted, *counts))
    return found


def zip_snapshot(store: Store, name: str, by: str) -> bytes:
    """Return the files of a snapshot as a zip, byte for byte the same each time.

    Raises Failed as `export_snapshot` does.
    """
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(packed, "w") as pack:
        snapshots.export_snapshot(store, name, Path(place), by)
        for file in sorted(Path(place).iterdir()):
            about = zipfile.ZipInfo(file.name, ZIP_TIMESTAMP)
            about.compress_type = zipfile.ZIP_DEFLATED
            pack.writestr(about, file.read_bytes())
    return packed.getvalue()


DAY_SECONDS = 86_400.0
"""seconds in a day"""
LOG_PERIODS = {"7": mark_text("a week"), "30": mark_text("a month"), "": mark_text("all")}
"""periods of the audit log that can be chosen: number of days (empty: all), and label"""
MAX_LOG_LINES = 1_000
"""maximum number of log lines on one page; the newest are shown"""


def build_people_routes() -> list[Route]:
    """Return the routes of the pages on people, guides and the audit log."""
    admit = require_role("researcher")
    return [
        Route("/board/people", admit(show_people_page)),
        Route("/board/people/invite", admit(post_invite), methods=["POST"]),
        Route("/board/people/role", admit(post_role), methods=["POST"]),
        Route("/board/people/out", admit(post_shut_out), methods=["POST"]),
        Route("/board/guides", admit(show_guide_editor_list)),
        Route("/board/guides/{form}", admit(show_guide_editor)),
        Route("/board/guides/{form}", admit(post_guide), methods=["POST"]),
        Route("/board/book", admit(show_audit_log)),
    ]


def show_people_page(
    request: Request, wrong: str = "", link: str = "", invited: str = ""
) -> Response:
    """Show everyone who has an account, and the form that invites somebody."""
    me, roles = get_signed_in_person(request), get_args(PersonRole)
    return render_dashboard_page(
        request,
        "board_people.html",
        wrong,
        people=accounts.list_people(get_store(request)),
        roles=roles[: roles.index(me.role) + 1],
        link=link,
        invited=invited,
    )


def post_invite(request: Request) -> Response:
    """Create an invite link that works once, and show it this one time."""
    store, me, fields = (
        get_store(request),
        get_signed_in_person(request),
        get_form_fields(request),
    )
    name, role = get_last_value(fields, "name").strip(), get_last_value(fields, "role")
    try:
        check_role_rank(store, me, name, role)
        token = accounts.create_invite(store, name, cast("PersonRole", role), me.name)
    except Failed as failed:
        return show_people_page(request, failed.failure.detail)
    return show_people_page(
        request, link=str(request.url_for("invited", token=token)), invited=name
    )


def post_role(request: Request) -> Response:
    """Change the role of a person, if neither the old nor the new role is above one's own."""
    store, me, fields = (
        get_store(request),
        get_signed_in_person(request),
        get_form_fields(request),
    )
    name, role = get_last_value(fields, "name"), get_last_value(fields, "role")

    def set_person_role() -> None:
        check_role_rank(store, me, name, role)
        accounts.set_role(store, name, cast("PersonRole", role), me.name)

    return apply_dashboard_change(
        request, show_people_page, "/board/people", set_person_role, "role"
    )


def post_shut_out(request: Request) -> Response:
    """Shut a person out: end their sessions and links. What they did stays.

    Nobody can shut out themselves or a person of a higher role.
    """
    store, me, name = (
        get_store(request),
        get_signed_in_person(request),
        get_posted_value(request, "name"),
    )

    def shut_person_out() -> None:
        if name == me.name:
            raise Failed(Failure(name, Outcome.NOT_ALLOWED, "ask somebody else to shut you out"))
        check_role_rank(store, me, name, "labeller")
        accounts.shut_out_person(store, name, me.name)

    return apply_dashboard_change(
        request, show_people_page, "/board/people", shut_person_out, "out"
    )


def show_guide_editor_list(request: Request) -> Response:
    """Show the list of guides, the newest version for each form."""
    store = get_store(request)
    found = [(form, form_versions.load_guide(store, form.name)) for form in list_forms(store)]
    return render_dashboard_page(request, "board_guides.html", found=found)


def show_guide_editor(request: Request, wrong: str = "") -> Response:
    """Show the guide of one form: an editor, the present text, and earlier versions."""
    store, name = get_store(request), request.path_params["form"]
    form = next((each for each in list_forms(store) if each.name == name), None)
    if form is None:
        return render_problem_page(request, 404, "There is no such form.")
    versions = form_versions.list_guide_versions(store, name)
    look = get_app_context(request).look
    return render_dashboard_page(
        request,
        "board_guide.html",
        wrong,
        form=form,
        versions=versions,
        now=look.render_guide(versions[0].text),
        text=get_posted_value(request, "text") or versions[0].text,
    )


def post_guide(request: Request) -> Response:
    """Save a text as the newest version of a form's guide."""
    name, text = request.path_params["form"], get_posted_value(request, "text")
    store, by = get_store(request), get_person_name(request)
    change = partial(form_versions.write_guide, store, name, text, by)
    return apply_dashboard_change(
        request, show_guide_editor, f"/board/guides/{name}", change, "guide"
    )


def show_audit_log(request: Request) -> Response:
    """Show the audit log (who did what, and when), and whether its hash chain is intact.

    The newest MAX_LOG_LINES lines of the chosen period, without one of the last week.
    """
    store, days = get_store(request), request.query_params.get("days", "7")
    days = days if days in LOG_PERIODS else "7"
    since = store.clock() - float(days) * DAY_SECONDS if days else 0.0
    lines = accounts.list_audit_entries(store, since)
    return render_dashboard_page(
        request,
        "board_book.html",
        lines=lines[: -MAX_LOG_LINES - 1 : -1],
        count=len(lines),
        spans=LOG_PERIODS,
        days=days,
        whole=accounts.verify_audit_chain(store),
        when=lambda at: localize_value(time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))),
    )


MAX_LIST_ROWS = 100
"""maximum number of judgements or items in a list; the newest are shown"""


def build_dashboard_routes() -> list[Route]:
    """Return the routes of all dashboard pages."""
    admit = require_role("researcher")
    return [
        Route("/board", admit(show_progress_page)),
        Route("/board/retire", admit(post_retirement), methods=["POST"]),
        Route("/board/quality", admit(show_quality_page)),
        Route("/board/returned", admit(show_returned_page)),
        Route("/board/reply", admit(post_flag_reply), methods=["POST"]),
        Route("/board/excluded", admit(show_exclusions_page)),
        Route("/board/exclude", admit(post_exclusion), methods=["POST"]),
        Route("/board/exclude-failed", admit(post_failed_check_exclusions), methods=["POST"]),
        Route("/board/lift", admit(post_lifted_exclusion), methods=["POST"]),
        Route("/board/person/{name:path}", admit(show_rater_work)),
        Route("/board/snapshots", admit(show_snapshots_page)),
        Route("/board/snapshots", admit(post_snapshot), methods=["POST"]),
        Route("/board/snapshots/download", admit(post_snapshot_download), methods=["POST"]),
        *build_people_routes(),
    ]


def list_dashboard_links() -> list[NavigationLink]:
    """Return the dashboard's link in the head of each page, shown to researchers."""
    return [NavigationLink("/board", "Board", "researcher")]


def show_progress_page(request: Request, wrong: str = "") -> Response:
    """Show the progress of each batch."""
    return render_dashboard_page(
        request, "board.html", wrong, batches=list_batch_progress(get_store(request))
    )


def post_retirement(request: Request) -> Response:
    """Retire a batch or one item: it is handed out no more."""
    fields, store = get_form_fields(request), get_store(request)
    batch, item, why = (
        get_last_value(fields, "batch"),
        get_last_value(fields, "item"),
        get_last_value(fields, "reason").strip(),
    )

    def retire_items() -> None:
        if not why or not (batch or item):
            raise Failed(Failure("retire", Outcome.NO_REASON, "say why: others will ask"))
        labelling_queue.retire_items(store, why, [item] if item else None, None if item else batch)

    show, then = (show_returned_page, "/board/returned") if item else (show_progress_page, "/board")
    return apply_dashboard_change(request, show, then, retire_items, "retired")


def show_quality_page(request: Request) -> Response:
    """Show rater agreement and each rater's quality, for one batch or for all."""
    store, batch = get_store(request), request.query_params.get("batch", "")
    names = [each.name for each in list_batch_progress(store)]
    if batch and batch not in names:
        return render_problem_page(request, 404, "There is no such batch.")
    board = rater_quality.build_quality_report(store, batch or None)
    return render_dashboard_page(request, "board_quality.html", board=board, names=names)


def show_returned_page(request: Request, wrong: str = "") -> Response:
    """Show the items that people flagged or skipped, with their reasons."""
    returned = list_returned_items(get_store(request), MAX_LIST_ROWS)
    flagged = [
        judgement.id
        for each in returned
        for judgement in each.judgements
        if judgement.kind == "flagged"
    ]
    return render_dashboard_page(
        request,
        "board_returned.html",
        wrong,
        found=returned,
        words=describe_return_reason,
        replies=rater_quality.load_flag_outcomes(get_store(request), flagged),
    )


def post_flag_reply(request: Request) -> Response:
    """Answer somebody who flagged an item; they see it beside the item in their history."""
    store, by = get_store(request), get_person_name(request)
    judgement, reason = get_posted_value(request, "judgement"), get_posted_value(request, "reason")
    change = partial(rater_quality.reply_to_flag, store, judgement, reason, by)
    return apply_dashboard_change(request, show_returned_page, "/board/returned", change, "reply")


def show_exclusions_page(request: Request, wrong: str = "") -> Response:
    """Show the exclusions and the counts of judgements left out by reason."""
    store = get_store(request)
    board = rater_quality.build_quality_report(store, rounds=1)
    rows = rater_quality.list_exclusions(store)
    lifted = {row.lifts: row for row in rows if row.lifts is not None}
    values = {
        "board": board,
        "lifted": lifted,
        "names": [each.name for each in list_batch_progress(store)],
    }
    return render_dashboard_page(request, "board_excluded.html", wrong, **values)


def post_exclusion(request: Request) -> Response:
    """Exclude all judgements of a person (in one batch or in all), or one judgement."""
    what: Literal["person", "judgement"] = (
        "judgement" if get_posted_value(request, "judgement") else "person"
    )
    which, reason = get_posted_value(request, what), get_posted_value(request, "reason")
    store, by = get_store(request), get_person_name(request)
    batch = get_posted_value(request, "batch")
    change = partial(rater_quality.exclude_judgements, store, what, which, reason, by, batch)
    return apply_dashboard_change(
        request, show_exclusions_page, "/board/excluded", change, "excluded"
    )


def post_failed_check_exclusions(request: Request) -> Response:
    """Exclude everybody from each batch whose attention check they failed.

    Exclusions that somebody lifted are not repeated.
    """
    store, by = get_store(request), get_person_name(request)
    change = partial(rater_quality.exclude_failed_raters, store, by)
    return apply_dashboard_change(
        request, show_exclusions_page, "/board/excluded", change, "excluded"
    )


def post_lifted_exclusion(request: Request) -> Response:
    """Lift an exclusion: its judgements count again."""
    number, reason = get_posted_value(request, "number"), get_posted_value(request, "reason")
    change = partial(
        rater_quality.lift_exclusion,
        get_store(request),
        int(number) if number.isdecimal() else -1,
        reason,
        get_person_name(request),
    )
    return apply_dashboard_change(
        request, show_exclusions_page, "/board/excluded", change, "lifted"
    )


def show_rater_work(request: Request) -> Response:
    """Show the newest judgements of one person, each with a form that excludes it."""
    store, name = get_store(request), request.path_params["name"]
    judged = []
    for each in labelling_queue.list_judgements(store, name, MAX_LIST_ROWS):
        item = labelling_queue.load_item(store, each.item)
        form = load_form(store, item.form, each.form_version)
        judged.append((each, item, describe_filled_fields(form, each.filled)))
    return render_dashboard_page(request, "board_work.html", name=name, judged=judged)


def show_snapshots_page(request: Request, wrong: str = "") -> Response:
    """Show the snapshots, and the form that makes one."""
    store = get_store(request)
    values = {"batches": list_batch_progress(store), "forms": list_forms(store)}
    return render_dashboard_page(
        request, "board_snapshots.html", wrong, found=list_snapshot_rows(store), **values
    )


def post_snapshot(request: Request) -> Response:
    """Make a snapshot, under a name, of the judgements of the chosen batches and forms."""
    fields, name = get_form_fields(request), get_posted_value(request, "name")
    selection = SnapshotSelection(fields.get("batch", ()), fields.get("form", ()))
    store, by = get_store(request), get_person_name(request)
    change = partial(snapshots.freeze_snapshot, store, name, selection, by)
    return apply_dashboard_change(
        request, show_snapshots_page, "/board/snapshots", change, "frozen"
    )


def post_snapshot_download(request: Request) -> Response:
    """Send the files of a snapshot as a zip."""
    name = get_posted_value(request, "name")
    try:
        packed = zip_snapshot(get_store(request), name, get_person_name(request))
    except Failed as failed:
        return show_snapshots_page(request, failed.failure.detail)
    plain = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name)
    headers = {
        "Content-Disposition": f'attachment; filename="{plain.strip("-") or "snapshot"}.zip"'
    }
    return Response(packed, media_type="application/zip", headers=headers)
