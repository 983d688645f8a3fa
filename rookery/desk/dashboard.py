"""The lead's dashboard: progress and quality of the labelling, exclusions, snapshots, people,
guides and the audit log."""

import io
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args
from urllib.parse import quote

from sqlalchemy import Row, case, func, select
from starlette.requests import Request
from starlette.responses import Response

from rookery.desk import accounts, form_versions, labelling_queue, rater_quality, snapshots
from rookery.desk.accounts import DAY_SECONDS, ROLES, Person, PersonRole
from rookery.desk.form_versions import list_forms, load_form
from rookery.desk.forms import (
    FLAG_REASONS,
    SKIP_REASONS,
    FormField,
    Judgement,
    LabellingForm,
    LabellingItem,
)
from rookery.desk.judgement_conversion import get_value_label
from rookery.desk.page_endpoints import (
    PageHandler,
    explain_refusal,
    get_app_context,
    get_form_fields,
    get_person_name,
    get_posted_value,
    get_posted_values,
    get_signed_in_person,
    get_store,
    make_public_url,
    redirect_after_post,
    render_page,
    render_problem_page,
)
from rookery.desk.snapshots import SnapshotContents, SnapshotSelection
from rookery.desk.store import Store
from rookery.desk.tables import OPEN, items, judgements, slots
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
    ("/board", mark_text("Progress")), ("/board/quality", mark_text("Quality")),
    ("/board/returned", mark_text("Flagged")), ("/board/excluded", mark_text("Excluded")),
    ("/board/snapshots", mark_text("Snapshots")), ("/board/projects", mark_text("Projects")),
    ("/board/pay", mark_text("Pay")), ("/board/people", mark_text("People")),
    ("/board/forms", mark_text("Forms")), ("/board/guides", mark_text("Guides")),
    ("/board/book", mark_text("Log")),
)  # fmt: skip
"""path and label of each tab of the dashboard"""


def render_dashboard_page(
    request: Request, template: str, wrong: str = "", **values: Any
) -> Response:
    """Render a page of the dashboard; with `wrong`, the reason of a refusal, with status 422."""
    values |= {"wrong": wrong, "tabs": DASHBOARD_TABS, "wide": True}
    return render_page(request, template, 422 if wrong else 200, **values)


def make_dashboard_change(
    then: str, show: ShowDashboardPage, did: str = ""
) -> Callable[[Callable[[Request], object]], PageHandler]:
    """Return a decorator that makes a page of a change: it redirects to the page `then`.

    `then` may name values of the path or of the form in braces, and a change may return another
    address. If it raises Failed, `show` renders a page with the reason; failures of the server
    itself are raised again. `did` names the notice after the redirect.
    """

    def wrap_change(change: Callable[[Request], object]) -> PageHandler:
        """Wrap the change in a page."""

        @wraps(change)
        def run_change(request: Request) -> Response:
            """Run the change, then redirect or show why it was refused."""
            try:
                address = change(request) or then
            except Failed as failed:
                return show(request, explain_refusal(failed))
            posted = {name: values[-1] for name, values in get_form_fields(request).items()}
            names = {name: quote(value) for name, value in (posted | request.path_params).items()}
            return redirect_after_post(f"{str(address).format_map(names)}?said={did}")

        return run_change

    return wrap_change


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


def list_batch_progress(store: Store) -> list[BatchProgress]:
    """Return the progress of each batch, newest first."""
    now = store.clock()
    leased = slots.c.person.is_not(None) & (slots.c.until >= now)
    counts = {"done": slots.c.done, "held": OPEN & leased, "still": OPEN}
    sums = (func.sum(case((where, 1), else_=0)).label(name) for name, where in counts.items())
    per_item = select(slots.c.item, *sums).group_by(slots.c.item).subquery()
    places = (per_item.c.done, per_item.c.held, per_item.c.still - per_item.c.held)
    sizes = (func.count(), func.count(items.c.retired), *map(func.sum, places))
    query = select(items.c.batch, *sizes)
    query = query.join(per_item, per_item.c.item == items.c.id)
    query = query.group_by(items.c.batch).order_by(func.max(items.c.number).desc())
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
        return _(get_value_label(field, value))
    if field.kind == "pick" and isinstance(value, int):
        return _("answer %(number)s", number=value + 1)
    return get_value_label(field, value) or str(value)


def list_snapshot_rows(store: Store) -> list[tuple[Row[Any], SnapshotContents]]:
    """Return the row (name, by, at, digest) and the contents of each snapshot, newest first."""
    with store.begin_read() as connection:
        rows = connection.execute(select(kept).order_by(kept.c.at.desc(), kept.c.name)).all()
    return [(row, SnapshotContents.from_json(row.body)) for row in rows]


def zip_snapshot(store: Store, name: str, by: str) -> bytes:
    """Return the files of a snapshot as a zip, byte for byte the same each time.

    It is entered in the audit log as exported `by` this person. Raises Failed as `export_snapshot`
    does.
    """
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(packed, "w") as pack:
        snapshots.export_snapshot(store, name, Path(place), by)
        for file in sorted(Path(place).iterdir()):
            about = zipfile.ZipInfo(file.name, ZIP_TIMESTAMP)
            about.compress_type = zipfile.ZIP_DEFLATED
            pack.writestr(about, file.read_bytes())
    return packed.getvalue()


LOG_PERIODS = {"7": mark_text("a week"), "30": mark_text("a month"), "": mark_text("all")}
"""periods of the audit log that can be chosen: number of days (empty: all), and label"""
MAX_LOG_LINES = 1_000
"""maximum number of log lines on one page; the newest are shown"""


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
    store, me = get_store(request), get_signed_in_person(request)
    name, role = get_posted_value(request, "name").strip(), get_posted_value(request, "role")
    try:
        check_role_rank(store, me, name, role)
        token = accounts.create_invite(store, name, cast("PersonRole", role), me.name)
    except Failed as failed:
        return show_people_page(request, explain_refusal(failed))
    link = make_public_url(request, f"/enter/{token}")
    return show_people_page(request, link=link, invited=name)


@make_dashboard_change("/board/people", show_people_page, "role")
def post_role(request: Request) -> None:
    """Change the role of a person, if neither the old nor the new role is above one's own."""
    store, me = get_store(request), get_signed_in_person(request)
    name, role = get_posted_values(request, "name", "role")
    check_role_rank(store, me, name, role)
    accounts.set_role(store, name, cast("PersonRole", role), me.name)


@make_dashboard_change("/board/people", show_people_page, "shut_out")
def post_shut_out(request: Request) -> None:
    """Shut a person out: end their sessions and links. What they did stays.

    Nobody can shut out themselves or a person of a higher role.
    """
    store, me = get_store(request), get_signed_in_person(request)
    name = get_posted_value(request, "name")
    if name == me.name:
        raise Failed(Failure(name, Outcome.NOT_ALLOWED, "ask somebody else to shut you out"))
    check_role_rank(store, me, name, "labeller")
    accounts.shut_out_person(store, name, me.name)


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
    return render_dashboard_page(
        request,
        "board_guide.html",
        wrong,
        form=form,
        versions=versions,
        now=get_app_context(request).look.render_guide(versions[0].text),
        text=get_posted_value(request, "text") or versions[0].text,
    )


@make_dashboard_change("/board/guides/{form}", show_guide_editor, "guide")
def post_guide(request: Request) -> None:
    """Save a text as the newest version of a form's guide."""
    name, text = request.path_params["form"], get_posted_value(request, "text")
    form_versions.write_guide(get_store(request), name, text, get_person_name(request))


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


def show_progress_page(request: Request, wrong: str = "") -> Response:
    """Show the progress of each batch."""
    return render_dashboard_page(
        request, "board.html", wrong, batches=list_batch_progress(get_store(request))
    )


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


def _show_retirable(request: Request, wrong: str) -> Response:
    show = show_returned_page if get_posted_value(request, "item") else show_progress_page
    return show(request, wrong)


@make_dashboard_change("/board", _show_retirable, "retired")
def post_retirement(request: Request) -> str | None:
    """Retire a batch or one item: it is handed out no more."""
    batch, item, reason = get_posted_values(request, "batch", "item", "reason")
    if not reason.strip() or not (batch or item):
        raise Failed(Failure("retire", Outcome.NO_REASON, "say why: others will ask"))
    some, of_batch = ([item], None) if item else (None, batch)
    labelling_queue.retire_items(get_store(request), reason.strip(), some, of_batch)
    return "/board/returned" if item else None


@make_dashboard_change("/board/returned", show_returned_page, "reply")
def post_flag_reply(request: Request) -> None:
    """Answer somebody who flagged an item; they see it beside the item in their history."""
    judgement, reason = get_posted_values(request, "judgement", "reason")
    rater_quality.reply_to_flag(get_store(request), judgement, reason, get_person_name(request))


def show_exclusions_page(request: Request, wrong: str = "") -> Response:
    """Show the exclusions and the counts of judgements left out by reason."""
    store = get_store(request)
    board = rater_quality.build_quality_report(store)
    rows = rater_quality.list_exclusions(store)
    lifted = {row.lifts: row for row in rows if row.lifts is not None}
    values = {"lifted": lifted, "names": [each.name for each in list_batch_progress(store)]}
    return render_dashboard_page(request, "board_excluded.html", wrong, board=board, **values)


@make_dashboard_change("/board/excluded", show_exclusions_page, "excluded")
def post_exclusion(request: Request) -> None:
    """Exclude all judgements of a person (in one batch or in all), or one judgement."""
    what: Literal["person", "judgement"] = (
        "judgement" if get_posted_value(request, "judgement") else "person"
    )
    which, reason, batch = get_posted_values(request, what, "reason", "batch")
    store, by = get_store(request), get_person_name(request)
    rater_quality.exclude_judgements(store, what, which, reason, by, batch)


@make_dashboard_change("/board/excluded", show_exclusions_page, "excluded")
def post_failed_check_exclusions(request: Request) -> None:
    """Exclude everybody from each batch whose attention check they failed.

    Exclusions that somebody lifted are not repeated.
    """
    rater_quality.exclude_failed_raters(get_store(request), get_person_name(request))


@make_dashboard_change("/board/excluded", show_exclusions_page, "lifted")
def post_lifted_exclusion(request: Request) -> None:
    """Lift the exclusion of the posted number: the judgements that it excluded count again."""
    posted, reason = get_posted_values(request, "number", "reason")
    number = int(posted) if posted.isdecimal() else -1
    rater_quality.lift_exclusion(get_store(request), number, reason, get_person_name(request))


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


@make_dashboard_change("/board/snapshots", show_snapshots_page, "frozen")
def post_snapshot(request: Request) -> None:
    """Make a snapshot, under a name, of the judgements of the chosen batches and forms."""
    fields, name = get_form_fields(request), get_posted_value(request, "name")
    selection = SnapshotSelection(fields.get("batch", ()), fields.get("form", ()))
    snapshots.freeze_snapshot(get_store(request), name, selection, get_person_name(request))


def post_snapshot_download(request: Request) -> Response:
    """Send the files of a snapshot as a zip."""
    name = get_posted_value(request, "name")
    try:
        packed = zip_snapshot(get_store(request), name, get_person_name(request))
    except Failed as failed:
        return show_snapshots_page(request, explain_refusal(failed))
    plain = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name)
    file = f"{plain.strip('-') or 'snapshot'}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(packed, media_type="application/zip", headers=headers)


DASHBOARD_PAGES: Mapping[str, PageHandler] = {
    "/board": show_progress_page,
    "POST /board/retire": post_retirement,
    "/board/quality": show_quality_page,
    "/board/returned": show_returned_page,
    "POST /board/reply": post_flag_reply,
    "/board/excluded": show_exclusions_page,
    "POST /board/exclude": post_exclusion,
    "POST /board/exclude-failed": post_failed_check_exclusions,
    "POST /board/lift": post_lifted_exclusion,
    "/board/person/{name:path}": show_rater_work,
    "/board/snapshots": show_snapshots_page,
    "POST /board/snapshots": post_snapshot,
    "POST /board/snapshots/download": post_snapshot_download,
    "/board/people": show_people_page,
    "POST /board/people/invite": post_invite,
    "POST /board/people/role": post_role,
    "POST /board/people/out": post_shut_out,
    "/board/guides": show_guide_editor_list,
    "/board/guides/{form}": show_guide_editor,
    "POST /board/guides/{form}": post_guide,
    "/board/book": show_audit_log,
}
"""pages of the dashboard, for researchers"""
