"""Pages of raters: the list of tasks, each form on its pages, drafts, submission, history and
corrections, and the stop switch of training runs.

A task under way is a draft in the store, so that any tab, browser or reload continues it. A GET
changes nothing.

With the stop switch (the Andon cord) any rater can stop a run with one click and a reason, and a
second person lets it go on. Every rater sees the newest samples of each run, and whether training
pushes the model towards or away from each.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from rookery.desk import (
    crowd_entry,
    form_versions,
    judgement_conversion,
    labelling_queue,
    projects,
    rater_quality,
    stop_switch,
)
from rookery.desk.accounts import DAY_SECONDS, has_role
from rookery.desk.adjudication import load_exclusions, select_active_exclusions
from rookery.desk.campaign_pages import CAMPAIGN_PAGES
from rookery.desk.crowd_entry import SessionProgress
from rookery.desk.dashboard import DASHBOARD_PAGES
from rookery.desk.decision_pages import DECISION_PAGES
from rookery.desk.demonstration_pages import build_demonstration_pages
from rookery.desk.form_parsing import TaskForm, encode_form, make_filled_form
from rookery.desk.form_versions import list_forms, load_form
from rookery.desk.forms import FLAG_REASONS, SKIP_REASONS, Judgement, LabellingItem
from rookery.desk.labelling_queue import ItemLease, RaterProgress
from rookery.desk.page_endpoints import (
    NavigationLink,
    PageHandler,
    get_app_context,
    get_form_fields,
    get_last_value,
    get_person_name,
    get_posted_value,
    get_posted_values,
    get_signed_in_person,
    get_store,
    make_routes,
    redirect_after_post,
    render_page,
    render_problem_page,
)
from rookery.desk.stop_switch import PolicySample
from rookery.desk.store import Store
from rookery.errors import Failed, Outcome
from rookery.records import Record, prepare_type
from rookery.shell.languages import mark_text
from rookery.shell.languages import translate_text as _

EXAMPLES_HEADING = "\n## Examples"
"""heading that begins the examples in a guide; a task shows them in a panel of their own"""
MAX_RECENT = 5
"""number of judgements in the list on the first page"""
MAX_HISTORY = 100
"""maximum number of judgements in the history"""


class TaskDraft(Record, frozen=True):
    """A draft of a judgement, stored as JSON."""

    token: str
    """token of the lease; empty for a correction"""
    began: float
    """Unix time at which the lease or the correction began"""
    raw: dict[str, list[str]]
    """posted values so far, by the field names of `rookery.desk.forms`"""
    supersedes: str = ""
    """id of the judgement that it corrects; empty if it is new"""
    form_version: str = ""
    """digest of the form that it was begun on; empty: the newest"""


def show_task_list(request: Request) -> Response:
    """Show how many tasks of each form wait, and the newest judgements of the person."""
    store, name = get_store(request), get_person_name(request)
    session = _load_session(request)
    progress = {
        form: _limit_progress(each, session)
        for form, each in labelling_queue.count_form_progress(store, name).items()
    }
    judged = labelling_queue.list_judgements(store, name, MAX_HISTORY)
    barred, trials = _list_exclusion_reasons(request), projects.list_person_trials(store, name)
    stopped = bool(barred) or any(
        not each.decided.admitted if each.decided else each.done >= each.of > 0
        for each in trials.values()
    )
    # Why there is nothing more is said below: "look in again" would say the contrary.
    nothing = stopped and request.query_params.get("said") == "nothing"
    notice: dict[str, Any] = {"said": ""} if nothing else {}
    return render_page(
        request,
        "home.html",
        stopped=stopped,
        **notice,
        todo=[(form, progress[form.name]) for form in list_forms(store) if form.name in progress],
        recent=_describe_judgements(request, judged[:MAX_RECENT]),
        barred=barred,
        trials=trials,
        session=session,
        completion=crowd_entry.COMPLETION_ADDRESS,
        today=sum(each.ended > store.clock() - DAY_SECONDS for each in judged),
        most=MAX_HISTORY,
    )


def post_session_end(request: Request) -> Response:
    """End the session of a person of a crowd platform; the first page then shows the code."""
    store, name = get_store(request), get_person_name(request)
    waiting = bool(labelling_queue.count_waiting_items(store, name))
    crowd_entry.finish_crowd_session(store, name, waiting)
    return redirect_after_post("/desk")


def _list_exclusion_reasons(request: Request) -> list[str]:
    """Return why the person gets no work of some batches, or none at all."""
    with get_store(request).begin_read() as connection:
        rows = load_exclusions(connection, get_person_name(request))
    return [row.reason for row in select_active_exclusions(rows) if row.what == "person"]


def post_next_task(request: Request) -> Response:
    """Lease the next task (of any form, of one form, or this item) and redirect to it.

    Without one, redirect to the list of tasks.
    """
    store, name = get_store(request), get_person_name(request)
    form, item = get_posted_values(request, "form", "item")
    lease = labelling_queue.claim_item(store, name, only_form=form or None, item=item or None)
    if lease is None:
        return redirect_after_post(f"/desk?said={'late' if item else 'nothing'}")
    return redirect_after_post(_prepare_task(request, lease))


def show_task_page(request: Request) -> Response:
    """Show one page of a task with the draft's values."""
    store, item_id = get_store(request), request.path_params["item"]
    item, begun = _load_item_and_draft(request, item_id)
    if begun is None:
        return _render_not_leased(request, item_id)
    check = "check" in request.query_params
    sheet = _make_form(request, item_id, item, begun, check)
    number = sheet.clamp_page(request.query_params.get("page", "0"))
    guide = form_versions.load_guide(store, sheet.form.name)
    rules, mark, examples = guide.text.partition(EXAMPLES_HEADING)
    return render_page(
        request,
        "task.html",
        sheet=sheet,
        number=number,
        begun=begun,
        item_id=item_id,
        warnings=_list_warnings(sheet) if check and not sheet.problems else [],
        guide=get_app_context(request).look.render_guide(rules),
        examples=get_app_context(request).look.render_guide(mark + examples) if mark else "",
        guide_version=guide.version,
        skips=SKIP_REASONS,
        flags=FLAG_REASONS,
        undo=request.query_params.get("undo", ""),
        progress=None if begun.supersedes else _load_task_progress(request, item_id),
    )


def _load_session(request: Request) -> SessionProgress | None:
    """Return the session of a person of a crowd platform; None for everybody else."""
    person = get_signed_in_person(request)
    if person.project is None:
        return None
    return crowd_entry.load_session_progress(get_store(request), person.name)


def _load_task_progress(request: Request, item_id: str) -> RaterProgress:
    """Return the progress in a crowd session of so many items, or else in the item's batch."""
    session = _load_session(request)
    if session and session.of:
        return RaterProgress(session.done, session.of)
    store, name = get_store(request), get_person_name(request)
    return labelling_queue.count_batch_progress(store, name, item_id)


def _limit_progress(progress: RaterProgress, session: SessionProgress | None) -> RaterProgress:
    """Return the progress with no more to come than the session has left."""
    if session is None or not session.of:
        return progress
    most = progress.done + session.of - session.done
    return progress._replace(of=min(progress.of or most, most))


def post_task_page(request: Request) -> Response:
    """Store the posted page of a task, then save, turn the page or submit, by the button."""
    store, posted = get_store(request), get_form_fields(request)
    item_id, do = request.path_params["item"], get_last_value(posted, "do") or "submit"
    item, begun = _load_item_and_draft(request, item_id)
    if begun is None and _find_judgement_of_item(request, item_id):
        return _redirect_to_next_task(request, item.form, "again")
    if begun is None:
        token, name = get_last_value(posted, "token"), get_person_name(request)
        if not labelling_queue.is_leased_to(store, token, name, item_id):
            return _render_not_leased(request, item_id)
        begun = TaskDraft(token, store.clock(), {})
    sheet = _make_form(request, item_id, item, begun)
    number = sheet.clamp_page(get_last_value(posted, "page"))
    begun = msgspec.structs.replace(begun, raw=sheet.merge_posted(sheet.pages[number], posted))
    if do == "submit" or (do == "on" and number == len(sheet.pages) - 1):
        whole = TaskForm(sheet.form, sheet.item, sheet.order, sheet.whole, begun.raw, check=True)
        return _submit_form(request, item_id, begun, whole)
    late = _store_draft(request, item_id, begun)
    if do == "draft":
        return PlainTextResponse("late" if late else "saved")
    if do == "save":
        return redirect_after_post(f"/tasks/{item_id}?page={number}&said=saved")
    return redirect_after_post(f"/tasks/{item_id}?page={sheet.turn_page(number, do)}")


def post_task_return(request: Request) -> Response:
    """Skip a task, leaving it to others, or flag that something is wrong with it."""
    store, name, item_id = get_store(request), get_person_name(request), request.path_params["item"]
    do, token, choice, words = get_posted_values(request, "do", "token", "reason", "words")
    reason = ": ".join(filter(None, (choice, words.strip())))
    flagged = do == "flag"
    give_back = labelling_queue.flag_item if flagged else labelling_queue.skip_item
    give_back(store, token, name, reason[:2000] or _("no reason given"))
    if batch := labelling_queue.find_prelude_batch(store, item_id):
        rater_quality.exclude_failed_raters(store, ATTENTION_CHECK, batch)
    labelling_queue.save_draft(store, item_id, name, {})
    form = labelling_queue.load_item(store, item_id).form
    return _redirect_to_next_task(request, form, "flagged" if flagged else "skipped")


def show_judgement_history(request: Request) -> Response:
    """Show the person's judgements, newest first."""
    return render_page(
        request,
        "history.html",
        rows=_describe_judgements(request, _list_own_judgements(request)),
        agreement=rater_quality.measure_rater_agreement(
            get_store(request), get_person_name(request)
        ),
        least=rater_quality.MIN_FEEDBACK_ITEMS,
    )


def show_guide_list(request: Request) -> Response:
    """Show the list of guides, one for each form."""
    return render_page(request, "guides.html", forms=list_forms(get_store(request)))


def show_guide_page(request: Request) -> Response:
    """Show the newest guide of one form."""
    store, name = get_store(request), request.path_params["form"]
    form = next((each for each in list_forms(store) if each.name == name), None)
    if form is None:
        return render_problem_page(request, 404, "There is no such form.")
    newest = form_versions.load_guide(store, name)
    html = get_app_context(request).look.render_guide(newest.text)
    return render_page(request, "guide.html", form=form, version=newest.version, guide=html)


def post_correction(request: Request) -> Response:
    """Open one of the person's judgements as a draft; it stays until the new one is handed in."""
    store, name = get_store(request), get_person_name(request)
    judgement = _find_own_judgement(request)
    if judgement is None or judgement.kind not in ("done", "extra"):
        return render_problem_page(
            request, 404, "There is no such judgement of yours that could be corrected."
        )
    item = labelling_queue.load_item(store, judgement.item)
    form = load_form(store, item.form, judgement.form_version)
    raw = encode_form(form, item, judgement.order, judgement.filled)
    copied = {key: list(values) for key, values in raw.items()}
    begun = TaskDraft("", store.clock(), copied, judgement.id, form.digest)
    labelling_queue.save_draft(store, judgement.item, name, msgspec.to_builtins(begun))
    return redirect_after_post(f"/tasks/{judgement.item}")


def show_check_result(request: Request) -> Response:
    """Show the expected answers to an attention check that was handed in, and why."""
    store, judgement = get_store(request), _find_own_judgement(request)
    item = labelling_queue.load_item(store, judgement.item) if judgement else None
    batch = judgement and labelling_queue.find_prelude_batch(store, judgement.item)
    if judgement is None or item is None or item.gold is None or not batch:
        return render_problem_page(request, 404, "There is nothing to show here.")
    form = load_form(store, item.form, judgement.form_version)
    sheet, expected = (
        make_filled_form(form, item, judgement.order, values, judgement.whole)
        for values in (judgement.filled, item.gold.expected)
    )
    mine = {each.name: each for step in form.steps for each in sheet.list_controls(step)}
    pairs = [
        (mine.get(control.name, control._replace(values=())), control)
        for step in form.steps
        for control in expected.list_controls(step)
        if control.values
    ]
    return render_page(
        request,
        "revealed.html",
        sheet=sheet,
        asked=pairs,
        item=item,
        justification=judgement_conversion.format_justification(form, item, judgement.order),
        passed=judgement_conversion.matches_gold(item, judgement.filled, {form.name: form}),
    )


def _store_draft(request: Request, item_id: str, begun: TaskDraft) -> bool:
    """Store a draft and renew its lease; return whether the lease was lost.

    A correction has no lease, and only the time of the action is kept.
    """
    store, name = get_store(request), get_person_name(request)
    labelling_queue.save_draft(store, item_id, name, msgspec.to_builtins(begun))
    if begun.supersedes:
        labelling_queue.record_correction_sign(store, item_id, name, begun.began)
        return False
    return labelling_queue.renew_lease(store, begun.token) is None


def _submit_form(request: Request, item_id: str, begun: TaskDraft, sheet: TaskForm) -> Response:
    """Submit the draft, or redirect to the page with the first problem."""
    store, name = get_store(request), get_person_name(request)
    if sheet.problems or (_list_warnings(sheet) and not get_posted_value(request, "heeded")):
        _store_draft(request, item_id, begun)
        number = sheet.turn_page(len(sheet.pages) - 1, "submit")
        return redirect_after_post(f"/tasks/{item_id}?page={number}&check=1")
    judgement = Judgement(
        id="",
        item=item_id,
        by=name,
        kind="done",
        filled=sheet.filled,
        form_version=sheet.form.digest,
        guide_version=form_versions.load_guide(store, sheet.form.name).version,
        order=sheet.order,
        whole=sheet.whole,
        began=begun.began,
        ended=store.clock(),
        supersedes=begun.supersedes,
    )
    try:
        kind = labelling_queue.submit_judgement(store, begun.token, name, judgement)
    except Failed as failed:
        if failed.failure.outcome != Outcome.ALREADY:
            raise
        return _redirect_to_next_task(request, sheet.form.name, "again")  # by another tab, just now
    batch = labelling_queue.find_prelude_batch(store, item_id) if sheet.item.gold else ""
    if batch:
        rater_quality.exclude_failed_raters(store, ATTENTION_CHECK, batch)
    if begun.supersedes:
        labelling_queue.save_draft(store, item_id, name, {})
        if not sheet.form.auto:
            return redirect_after_post("/history?said=corrected")
        return _redirect_to_next_task(request, sheet.form.name, "corrected")
    mine = _find_judgement_of_item(request, item_id) if batch or sheet.form.auto else None
    if mine and batch:
        return redirect_after_post(f"/judgements/{mine.id}")
    return _redirect_to_next_task(request, sheet.form.name, kind, mine.id if mine else "")


def _redirect_to_next_task(request: Request, form: str, notice: str, undo: str = "") -> Response:
    """Redirect to another task of the same form, or to the task list if there is none."""
    store, name = get_store(request), get_person_name(request)
    lease = labelling_queue.claim_item(store, name, only_form=form)
    address = "/desk" if lease is None else _prepare_task(request, lease)
    told = {"undo": undo} if undo and lease else {"said": notice}
    return redirect_after_post(f"{address}?{urlencode(told)}")


def _prepare_task(request: Request, lease: ItemLease) -> str:
    """Store a draft for a leased task, and return its path."""
    if lease.item.form == "demonstrate":
        return f"/demonstrate/{lease.item_id}"
    store = get_store(request)
    _item, before = _load_item_and_draft(request, lease.item_id)
    if before is None or before.token != lease.token:
        version = load_form(store, lease.item.form).digest
        if before is not None and before.raw:  # what was filled in stays on its version
            version = before.form_version
        raw = before.raw if before is not None else {}
        begun = TaskDraft(lease.token, lease.began, raw, form_version=version)
        values = msgspec.to_builtins(begun)
        labelling_queue.save_draft(store, lease.item_id, lease.person, values)
    return f"/tasks/{lease.item_id}"


def _load_item_and_draft(request: Request, item_id: str) -> tuple[LabellingItem, TaskDraft | None]:
    store, name = get_store(request), get_person_name(request)
    item, stored = labelling_queue.load_item_and_draft(store, item_id, name)
    return item, msgspec.convert(stored, prepare_type(TaskDraft)) if stored else None


def _make_form(
    request: Request, item_id: str, item: LabellingItem, begun: TaskDraft, check: bool = False
) -> TaskForm:
    store, name = get_store(request), get_person_name(request)
    order = labelling_queue.shuffle_answers(item_id, name, len(item.answers))
    form = load_form(store, item.form, begun.form_version)
    whole = labelling_queue.requires_whole_form(item_id, name)
    return TaskForm(form, item, order, whole, begun.raw, check)


def _list_warnings(sheet: TaskForm) -> Sequence[str]:
    return judgement_conversion.list_form_warnings(sheet.form, sheet.filled)


def _render_not_leased(request: Request, item_id: str) -> Response:
    labelling_queue.load_item(get_store(request), item_id)
    return render_page(
        request,
        "not_in_hand.html",
        409,
        item_id=item_id,
        done=_find_judgement_of_item(request, item_id),
    )


def _find_judgement_of_item(request: Request, item_id: str) -> Judgement | None:
    return next(iter(_list_own_judgements(request, item=item_id)), None)


def _find_own_judgement(request: Request) -> Judgement | None:
    """Return the judgement of this person that the path names."""
    key = request.path_params["judgement"]
    return next(iter(_list_own_judgements(request, id=key)), None)


def _list_own_judgements(request: Request, **only: str) -> list[Judgement]:
    store, name = get_store(request), get_person_name(request)
    return labelling_queue.list_judgements(store, name, MAX_HISTORY, **only)


def _describe_judgements(
    request: Request, judged: Sequence[Judgement]
) -> list[Mapping[str, object]]:
    """Return judgements with their items and forms, for the templates."""
    store = get_store(request)
    flagged = [each.id for each in judged if each.kind == "flagged"]
    outcomes = rater_quality.load_flag_outcomes(store, flagged) if flagged else {}
    return [
        {
            "judgement": each,
            "outcome": outcomes.get(each.id),
            "item": (item := labelling_queue.load_item(store, each.item)),
            "form": load_form(store, item.form, each.form_version),
            "open": each.kind in ("done", "extra") and item.form != "demonstrate",
        }
        for each in judged
    ]


ATTENTION_CHECK = "the attention check"
"""who excludes people that failed one, in the record of exclusions"""
MAX_LIVE_SAMPLES = 6
"""number of samples shown of each run that is alive"""
MAX_RUN_SAMPLES = 50
"""number of samples shown on the page of one run"""
STOP_REASONS = (
    mark_text("It says harmful things"),
    mark_text("It writes nonsense"),
    mark_text("It is pushed towards what is bad"),
    mark_text("It says the same again and again"),
)
"""reasons that can be given with one click"""


def post_stop(request: Request) -> Response:
    """Stop a run, for a reason that was typed or that is on the button."""
    name, reason = get_posted_values(request, "run", "reason")
    try:
        stop_switch.stop_run(get_store(request), name, get_person_name(request), reason)
    except Failed as failed:
        if failed.failure.outcome != Outcome.NO_REASON:
            raise
        return show_runs_page(request, failed.failure.detail, name)
    return redirect_after_post("/cord?said=pulled")


def show_run_page(request: Request) -> Response:
    """Show one run: its history of stops and releases, and more of its samples."""
    store, name = get_store(request), request.path_params["run"]
    run = stop_switch.load_training_run(store, name)
    return render_page(
        request,
        "cord_run.html",
        run=run,
        state=run.get_state(store.clock()),
        samples=_list_pushed_samples(store, name, MAX_RUN_SAMPLES),
        history=stop_switch.list_run_stops(store, name),
    )


def _list_pushed_samples(store: Store, run: str, count: int) -> list[tuple[PolicySample, int]]:
    """Return a run's newest samples, each with the direction in which training pushes."""
    newest = stop_switch.list_newest_samples(store, run, count)
    return list(zip(newest, stop_switch.compute_push_directions(newest), strict=True))


def post_release(request: Request) -> Response:
    """Release a stopped run, for a reason."""
    number, reason = request.path_params["number"], get_posted_value(request, "reason")
    try:
        stop_switch.release_run(get_store(request), number, get_person_name(request), reason)
    except Failed as failed:
        if failed.failure.outcome != Outcome.NO_REASON:
            raise
        return show_release_page(request, failed.failure.detail)
    return redirect_after_post("/cord?said=released")


def show_runs_page(request: Request, wrong: str = "", about: str = "") -> Response:
    """Show all training runs: their newest samples, and the buttons that stop them."""
    store, person = get_store(request), get_signed_in_person(request)
    now, runs = store.clock(), []
    for each in stop_switch.list_training_runs(store):
        state = each.get_state(now)
        ended = state == "ended"
        samples = [] if ended else _list_pushed_samples(store, each.name, MAX_LIVE_SAMPLES)
        runs.append((each, state, samples))
    return render_page(
        request,
        "cord.html",
        422 if wrong else 200,
        runs=sorted(runs, key=lambda one: one[1] == "ended"),
        reasons=STOP_REASONS,
        may_release=has_role(person, "reviewer"),
        problem=wrong,
        about=about,
    )


def show_release_page(request: Request, wrong: str = "") -> Response:
    """Show the form on which a second person says why a stopped run may go on."""
    found = stop_switch.load_run_stop(get_store(request), request.path_params["number"])
    status = 422 if wrong else 200
    return render_page(request, "cord_release.html", status, pull=found, problem=wrong)


TASK_PAGES: Mapping[str, PageHandler] = {
    "/desk": show_task_list,
    "POST /desk/finish": post_session_end,
    "POST /next": post_next_task,
    "/tasks/{item}": show_task_page,
    "POST /tasks/{item}": post_task_page,
    "POST /tasks/{item}/leave": post_task_return,
    "/history": show_judgement_history,
    "/guides": show_guide_list,
    "/guides/{form}": show_guide_page,
    "/judgements/{judgement}": show_check_result,
    "POST /judgements/{judgement}/correct": post_correction,
}
"""pages of tasks, the history and the guides, for labellers"""
STOP_SWITCH_PAGES: Mapping[str, PageHandler] = {
    "/cord": show_runs_page,
    "POST /cord/pull": post_stop,
    "/cord/runs/{run:path}": show_run_page,
}
"""pages of the stop switch, for labellers"""
RELEASE_PAGES: Mapping[str, PageHandler] = {
    "/cord/{number:int}/release": show_release_page,
    "POST /cord/{number:int}/release": post_release,
}
"""pages on which a stopped run is released, for reviewers"""


def build_desk_pages() -> tuple[list[Route], list[NavigationLink]]:
    """Return the routes of the desk's pages, and their links in the head in the order shown."""
    routes = [
        *make_routes("labeller", TASK_PAGES, crowd=True),
        *make_routes("labeller", build_demonstration_pages(), crowd=True),
        *make_routes("labeller", STOP_SWITCH_PAGES),
        *make_routes("reviewer", {**RELEASE_PAGES, **DECISION_PAGES}),
        *make_routes("researcher", {**DASHBOARD_PAGES, **CAMPAIGN_PAGES}),
    ]
    links = [
        NavigationLink("/desk", "Tasks", crowd=True),
        NavigationLink("/history", "My work", crowd=True),
        NavigationLink("/guides", "Guides", crowd=True),
        NavigationLink("/demonstrate", "Answer yourself"),
        NavigationLink("/cord", "Model training"),
        NavigationLink("/disagreements", "Disagreements", "reviewer"),
        NavigationLink("/board", "Board", "researcher"),
    ]
    return routes, links
