"""What there is to do, and doing it: each form on its pages, saved, handed in, corrected.

A task in hand is a draft in the store, so that any tab, browser or reload goes on from it. Looking
changes nothing. It knows nothing of how a form looks nor of what its values mean.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import msgspec
from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from rookery.judge import guides, handing_in, handout, meaning
from rookery.judge.filling import shown
from rookery.judge.forms import FLAGS, FORMS, SKIPS
from rookery.judge.tables import items
from rookery.judge.work import Item, Judgement, Lease
from rookery.records import Record
from rookery.serve.web.app import desk_of, needs, one, person_of, problem, see_other, sent
from rookery.serve.web.rendering import Link, page
from rookery.serve.web.sheets import Sheet

EXAMPLES = "\n## Examples"
"""the heading under which a guide has them; they have a tab of their own beside a task"""
RECENT = 5
HISTORY = 100
DAY = 86_400.0


class Begun(Record, frozen=True):
    """A draft: a form as far as it is filled in, and by what right."""

    token: str
    """of the lease"""
    began: float
    raw: dict[str, list[str]]
    """what was sent so far, by the names of `judge.fields`"""
    supersedes: str = ""
    """the judgement that it is to correct"""


def routes() -> list[Route]:
    """The first page, the tasks, the history."""
    return [
        Route("/desk", home),
        Route("/next", take, methods=["POST"]),
        Route("/tasks/{item}", task),
        Route("/tasks/{item}", go_on, methods=["POST"]),
        Route("/tasks/{item}/leave", leave_out, methods=["POST"]),
        Route("/history", history),
        Route("/guides", all_guides),
        Route("/guides/{form}", one_guide),
        Route("/judgements/{judgement}", revealed),
        Route("/judgements/{judgement}/correct", correct, methods=["POST"]),
    ]


def links() -> list[Link]:
    """In the head of each page."""
    return [Link("/desk", "Tasks"), Link("/history", "History"), Link("/guides", "Guides")]


@needs("labeller")
def home(request: Request) -> Response:
    """What there is to do, by form, and what was done last."""
    store, name = desk_of(request).store, person_of(request).name
    waiting = handout.waiting(store, name)
    done = handing_in.judged(store, name, HISTORY)
    return page(
        request,
        "home.html",
        todo=[(form, waiting[form.name]) for form in FORMS.values() if waiting.get(form.name)],
        recent=_told(request, done[:RECENT]),
        today=sum(each.ended > store.clock() - DAY for each in done),
        most=HISTORY,
    )


@needs("labeller")
def take(request: Request) -> Response:
    """The next task into this person's hands: of a form, or this one."""
    store, name, asked = desk_of(request).store, person_of(request).name, sent(request)
    item = one(asked, "item") or None
    lease = handout.claim(store, name, only_form=one(asked, "form") or None, item=item)
    if lease is None:
        return see_other(f"/desk?said={'late' if item else 'nothing'}")
    return see_other(_opened(request, lease))


@needs("labeller")
def task(request: Request) -> Response:
    """One page of a task as far as it is filled in."""
    store, item_id = desk_of(request).store, request.path_params["item"]
    begun = _begun(request, item_id)
    if begun is None:
        return _not_in_hand(request, item_id)
    check = "check" in request.query_params
    sheet = _sheet(request, item_id, begun, check)
    number = _page_number(request.query_params.get("page", "0"), sheet)
    guide = guides.guide(store, sheet.form.name)
    rules, mark, examples = guide.text.partition(EXAMPLES)
    return page(
        request,
        "task.html",
        sheet=sheet,
        number=number,
        begun=begun,
        item_id=item_id,
        warnings=_warnings(sheet) if check and not sheet.problems else [],
        guide=desk_of(request).look.guide(rules),
        examples=desk_of(request).look.guide(mark + examples) if mark else "",
        guide_version=guide.version,
        skips=SKIPS,
        flags=FLAGS,
        undo=request.query_params.get("undo", ""),
    )


@needs("labeller")
def go_on(request: Request) -> Response:
    """Keeps what a page of a task says, then does what the pressed button stands for."""
    store, posted = desk_of(request).store, sent(request)
    item_id, do = request.path_params["item"], one(posted, "do") or "submit"
    begun = _begun(request, item_id)
    if begun is None and (done := _done(request, item_id)):
        return _next(request, FORMS[handout.item(store, done.item).form].name, "again")
    begun = begun or Begun(one(posted, "token"), store.clock(), {})
    sheet = _sheet(request, item_id, begun)
    number = _page_number(one(posted, "page"), sheet)
    begun = msgspec.structs.replace(begun, raw=sheet.merged(sheet.pages[number], posted))
    if do == "submit" or (do == "on" and number == len(sheet.pages) - 1):
        whole = Sheet(sheet.form, sheet.item, sheet.order, sheet.whole, begun.raw, check=True)
        return _hand_in(request, item_id, begun, whole)
    late = _kept(request, item_id, begun)
    if do == "draft":
        return PlainTextResponse("late" if late else "saved")
    if do == "save":
        return see_other(f"/tasks/{item_id}?page={number}&said=saved")
    wanted = {"on": number + 1, "back": number - 1}.get(do)
    number = _page_number(do if wanted is None else str(max(0, wanted)), sheet)
    return see_other(f"/tasks/{item_id}?page={number}")


@needs("labeller")
def leave_out(request: Request) -> Response:
    """Leaves a task to others, or says that something is wrong with it."""
    store, name, posted = desk_of(request).store, person_of(request).name, sent(request)
    item_id = request.path_params["item"]
    reason = one(posted, "reason")
    if words := one(posted, "words").strip():
        reason = f"{reason}: {words}" if reason else words
    flagged = one(posted, "do") == "flag"
    give_back = handing_in.flag if flagged else handing_in.skip
    give_back(store, one(posted, "token"), name, reason[:2000] or "no reason given")
    handing_in.save_draft(store, item_id, name, {})
    form = handout.item(store, item_id).form
    return _next(request, form, "flagged" if flagged else "skipped")


@needs("labeller")
def history(request: Request) -> Response:
    """What this person did, the newest first."""
    done = handing_in.judged(desk_of(request).store, person_of(request).name, HISTORY)
    return page(request, "history.html", rows=_told(request, done))


@needs("labeller")
def all_guides(request: Request) -> Response:
    """The instructions for each form."""
    return page(request, "guides.html", forms=list(FORMS.values()))


@needs("labeller")
def one_guide(request: Request) -> Response:
    """The instructions for one form, in their newest version."""
    form = FORMS.get(request.path_params["form"])
    if form is None:
        return problem(request, 404, "There is no such form.")
    newest = guides.guide(desk_of(request).store, form.name)
    html = desk_of(request).look.guide(newest.text)
    return page(request, "guide.html", form=form, version=newest.version, guide=html)


@needs("labeller")
def correct(request: Request) -> Response:
    """Opens a judgement of one's own again. It stays as it is until the new one is handed in."""
    store, name = desk_of(request).store, person_of(request).name
    judgement = _own(request, request.path_params["judgement"])
    if judgement is None or judgement.kind not in ("done", "extra"):
        return problem(request, 404, "There is no such judgement of yours that could be corrected.")
    item = handout.item(store, judgement.item)
    raw = shown(FORMS[item.form], item, judgement.order, judgement.filled)
    kept = {key: list(values) for key, values in raw.items()}
    begun = Begun("", store.clock(), kept, judgement.id)
    handing_in.save_draft(store, judgement.item, name, msgspec.to_builtins(begun))
    return see_other(f"/tasks/{judgement.item}")


@needs("labeller")
def revealed(request: Request) -> Response:
    """The right answers to an attention check, once it was handed in, and why they are right."""
    judgement = _own(request, request.path_params["judgement"])
    item = handout.item(desk_of(request).store, judgement.item) if judgement else None
    if judgement is None or item is None or item.gold is None:
        return problem(request, 404, "There is nothing to show here.")
    if not _is_prelude(request, judgement.item):
        return problem(request, 404, "There is nothing to show here.")
    said = shown(FORMS[item.form], item, judgement.order, judgement.filled)
    right = shown(FORMS[item.form], item, judgement.order, item.gold.expected)
    sheet = Sheet(FORMS[item.form], item, judgement.order, judgement.whole, said)
    expected = Sheet(FORMS[item.form], item, judgement.order, judgement.whole, right)
    asked = [
        (mine, theirs)
        for step in sheet.form.steps
        for mine, theirs in zip(sheet.controls(step), expected.controls(step), strict=True)
        if theirs.values
    ]
    return page(
        request,
        "revealed.html",
        sheet=sheet,
        asked=asked,
        item=item,
        passed=meaning.right(item, judgement.filled),
    )


def _kept(request: Request, item_id: str, begun: Begun) -> bool:
    """Keeps a draft, and puts its lease off; whether it is too late for that."""
    store, name = desk_of(request).store, person_of(request).name
    handing_in.save_draft(store, item_id, name, msgspec.to_builtins(begun))
    return handout.beat(store, begun.token) is None and not begun.supersedes


def _hand_in(request: Request, item_id: str, begun: Begun, sheet: Sheet) -> Response:
    """Hands the draft in, or leads to what is missing."""
    store, name = desk_of(request).store, person_of(request).name
    if sheet.problems or (_warnings(sheet) and not one(sent(request), "heeded")):
        _kept(request, item_id, begun)
        wrong = [sheet.page_of(field) for field in sheet.problems]
        number = min(wrong, default=len(sheet.pages) - 1)
        return see_other(f"/tasks/{item_id}?page={number}&check=1")
    judgement = Judgement(
        id="",
        item=item_id,
        by=name,
        kind="done",
        filled=sheet.filled,
        form_version=sheet.form.digest,
        guide_version=guides.guide(store, sheet.form.name).version,
        order=sheet.order,
        whole=sheet.whole,
        began=begun.began,
        ended=store.clock(),
        supersedes=begun.supersedes,
    )
    kind = handing_in.submit(store, begun.token, name, judgement)
    if begun.supersedes:
        handing_in.save_draft(store, item_id, name, {})
        return _next(request, sheet.form.name, "corrected") if sheet.form.auto else _corrected()
    mine = _done(request, item_id) if sheet.item.gold or sheet.form.auto else None
    if mine and sheet.item.gold and _is_prelude(request, item_id):
        return see_other(f"/judgements/{mine.id}")
    undo = mine.id if mine and sheet.form.auto else ""
    return _next(request, sheet.form.name, "extra" if kind == "extra" else "done", undo)


def _corrected() -> Response:
    return see_other("/history?said=corrected")


def _next(request: Request, form: str, said: str, undo: str = "") -> Response:
    """On to another task of the same form, or to the first page."""
    store, name = desk_of(request).store, person_of(request).name
    lease = handout.claim(store, name, only_form=form)
    address = "/desk" if lease is None else _opened(request, lease)
    told = {"undo": undo} if undo and lease else {"said": said}
    return see_other(f"{address}?{urlencode(told)}")


def _opened(request: Request, lease: Lease) -> str:
    """Where a task that was handed out is worked on."""
    if lease.item.form == "demonstrate":
        return f"/demonstrate/{lease.item_id}"
    store = desk_of(request).store
    before = _begun(request, lease.item_id)
    if before is None or before.token != lease.token:
        begun = Begun(lease.token, lease.began, before.raw if before else {})
        kept = msgspec.to_builtins(begun)
        handing_in.save_draft(store, lease.item_id, lease.person, kept)
    return f"/tasks/{lease.item_id}"


def _begun(request: Request, item_id: str) -> Begun | None:
    kept = handing_in.draft(desk_of(request).store, item_id, person_of(request).name)
    return msgspec.convert(kept, Begun) if kept else None


def _sheet(request: Request, item_id: str, begun: Begun, check: bool = False) -> Sheet:
    item: Item = handout.item(desk_of(request).store, item_id)
    name = person_of(request).name
    order = handout.order_of(item_id, name, len(item.answers))
    return Sheet(FORMS[item.form], item, order, handout.whole_of(item_id, name), begun.raw, check)


def _warnings(sheet: Sheet) -> Sequence[str]:
    return meaning.warnings(sheet.form, sheet.filled)


def _page_number(said: str, sheet: Sheet) -> int:
    number = int(said) if said.isdecimal() and len(said) < 4 else 0
    return min(number, len(sheet.pages) - 1)


def _not_in_hand(request: Request, item_id: str) -> Response:
    handout.item(desk_of(request).store, item_id)
    return page(request, "not_in_hand.html", 409, item_id=item_id, done=_done(request, item_id))


def _done(request: Request, item_id: str) -> Judgement | None:
    done = handing_in.judged(desk_of(request).store, person_of(request).name, HISTORY)
    return next((each for each in done if each.item == item_id), None)


def _is_prelude(request: Request, item_id: str) -> bool:
    """Whether an item is an attention check, of which the right answers are told afterwards."""
    with desk_of(request).store.reading() as connection:
        query = select(items.c.prelude).where(items.c.id == item_id)
        return bool(connection.scalar(query))


def _own(request: Request, judgement: str) -> Judgement | None:
    done = handing_in.judged(desk_of(request).store, person_of(request).name, HISTORY)
    return next((each for each in done if each.id == judgement), None)


def _told(request: Request, done: Sequence[Judgement]) -> list[Mapping[str, object]]:
    """Judgements with what they are about, for people."""
    store = desk_of(request).store
    return [
        {
            "judgement": each,
            "item": (item := handout.item(store, each.item)),
            "form": FORMS[item.form],
            "open": each.kind in ("done", "extra") and item.form != "demonstrate",
        }
        for each in done
    ]
