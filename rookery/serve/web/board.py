"""The lead's board: how far the work is, how good it is, what of it does not count, and snapshots.

It knows nothing of how any of this is measured.
"""

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.judge import handing_in, handout, quality, snapshots
from rookery.judge.forms import FORMS
from rookery.judge.frozen import Wanted
from rookery.records import Failed, Failure
from rookery.serve.web import board_people
from rookery.serve.web.app import desk_of, needs, one, person_of, problem, sent
from rookery.serve.web.board_rows import batches, reason, returned, snapshots_of, told, zipped
from rookery.serve.web.board_shown import changed, shown
from rookery.serve.web.rendering import Link

NEWEST = 100
"""judgements or items of a list"""


def routes() -> list[Route]:
    """The board and all that hangs on it."""
    return [
        Route("/board", progress),
        Route("/board/retire", retire, methods=["POST"]),
        Route("/board/quality", measured),
        Route("/board/returned", flagged),
        Route("/board/excluded", left_out),
        Route("/board/exclude", exclude, methods=["POST"]),
        Route("/board/exclude-failed", exclude_failed, methods=["POST"]),
        Route("/board/lift", lift, methods=["POST"]),
        Route("/board/person/{name:path}", work_of),
        Route("/board/snapshots", frozen),
        Route("/board/snapshots", freeze, methods=["POST"]),
        Route("/board/snapshots/download", download, methods=["POST"]),
        *board_people.routes(),
    ]


def links() -> list[Link]:
    """In the head of each page."""
    return [Link("/board", "Board", "researcher")]


@needs("researcher")
def progress(request: Request) -> Response:
    """How far each batch is."""
    return _progress(request)


def _progress(request: Request, wrong: str = "") -> Response:
    return shown(request, "board.html", wrong, batches=batches(desk_of(request).store))


@needs("researcher")
def retire(request: Request) -> Response:
    """Hands out no more of a batch, or of one item."""
    said, store = sent(request), desk_of(request).store
    batch, item, why = one(said, "batch"), one(said, "item"), one(said, "reason").strip()

    def change() -> None:
        if not why or not (batch or item):
            raise Failed(Failure("retire", "no_reason", "say why: others will ask"))
        handout.retire(store, why, [item] if item else None, None if item else batch)

    show, then = (_flagged, "/board/returned") if item else (_progress, "/board")
    return changed(request, show, then, change, "retired")


@needs("researcher")
def measured(request: Request) -> Response:
    """How far people agree, and how each of them works; of one batch, or of all."""
    store, batch = desk_of(request).store, request.query_params.get("batch", "")
    names = [each.name for each in batches(store)]
    if batch and batch not in names:
        return problem(request, 404, "There is no such batch.")
    board = quality.board(store, batch or None)
    return shown(request, "board_quality.html", board=board, names=names)


@needs("researcher")
def flagged(request: Request) -> Response:
    """What people flagged or skipped, and why."""
    return _flagged(request)


def _flagged(request: Request, wrong: str = "") -> Response:
    found = returned(desk_of(request).store, NEWEST)
    return shown(request, "board_returned.html", wrong, found=found, words=reason)


@needs("researcher")
def left_out(request: Request) -> Response:
    """What does not count, by whom and why."""
    return _left_out(request)


def _left_out(request: Request, wrong: str = "") -> Response:
    store = desk_of(request).store
    board = quality.board(store, rounds=1)
    rows = quality.excluded(store)
    lifted = {row.lifts: row for row in rows if row.lifts is not None}
    values = {"board": board, "lifted": lifted, "names": [each.name for each in batches(store)]}
    return shown(request, "board_excluded.html", wrong, **values)


@needs("researcher")
def exclude(request: Request) -> Response:
    """Lets what a person judged, or one judgement, count no more."""
    said, by = sent(request), person_of(request).name
    judgement = one(said, "judgement")
    what, which = ("judgement", judgement) if judgement else ("person", one(said, "person"))
    change = partial(
        quality.exclude,
        desk_of(request).store,
        what,  # type: ignore[arg-type]
        which,
        one(said, "reason"),
        by,
        one(said, "batch"),
    )
    return changed(request, _left_out, "/board/excluded", change, "excluded")


@needs("researcher")
def exclude_failed(request: Request) -> Response:
    """Excludes what the board proposes: the work of those who failed an attention check."""
    change = partial(quality.exclude_failed, desk_of(request).store, person_of(request).name)
    return changed(request, _left_out, "/board/excluded", change, "excluded")


@needs("researcher")
def lift(request: Request) -> Response:
    """Lets what was excluded count again."""
    said, by, store = sent(request), person_of(request).name, desk_of(request).store
    number = one(said, "number")

    def change() -> None:
        quality.lift(store, int(number) if number.isdecimal() else -1, one(said, "reason"), by)

    return changed(request, _left_out, "/board/excluded", change, "lifted")


@needs("researcher")
def work_of(request: Request) -> Response:
    """What one person judged last, each to be excluded alone."""
    store, name = desk_of(request).store, request.path_params["name"]
    judged = []
    for each in handing_in.judged(store, name, NEWEST):
        item = handout.item(store, each.item)
        judged.append((each, item, told(FORMS[item.form], each.filled)))
    return shown(request, "board_work.html", name=name, judged=judged)


@needs("researcher")
def frozen(request: Request) -> Response:
    """The snapshots, and the form that makes one."""
    return _frozen(request)


def _frozen(request: Request, wrong: str = "") -> Response:
    store = desk_of(request).store
    values = {"batches": batches(store), "forms": list(FORMS.values())}
    return shown(request, "board_snapshots.html", wrong, found=snapshots_of(store), **values)


@needs("researcher")
def freeze(request: Request) -> Response:
    """Keeps what there is now under a name."""
    said, by = sent(request), person_of(request).name
    wanted = Wanted(said.get("batch", ()), said.get("form", ()))
    change = partial(snapshots.freeze, desk_of(request).store, one(said, "name"), wanted, by)
    return changed(request, _frozen, "/board/snapshots", change, "frozen")


@needs("researcher")
def download(request: Request) -> Response:
    """A snapshot's files in one."""
    name = one(sent(request), "name")
    try:
        packed = zipped(desk_of(request).store, name, person_of(request).name)
    except Failed as failed:
        return _frozen(request, failed.failure.detail)
    plain = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name)
    headers = {
        "Content-Disposition": f'attachment; filename="{plain.strip("-") or "snapshot"}.zip"'
    }
    return Response(packed, media_type="application/zip", headers=headers)
