"""The lead's board: who may work at the desk, what they are told, and the book of what was done.

It knows nothing of what people judge.
"""

import time
from functools import partial
from typing import cast, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.judge import guides, people
from rookery.judge.forms import FORMS
from rookery.judge.work import Role
from rookery.records import Failed, Failure
from rookery.serve.web.app import desk_of, needs, one, person_of, problem, sent
from rookery.serve.web.board_shown import changed, check_rank, shown

DAY = 86_400.0
SPANS = {"7": "a week", "30": "a month", "": "all"}
"""days of the book that are shown"""
LINES = 1_000
"""of the book on one page, the newest"""


def routes() -> list[Route]:
    """People, guides and the book."""
    return [
        Route("/board/people", everybody),
        Route("/board/people/invite", invite, methods=["POST"]),
        Route("/board/people/role", role, methods=["POST"]),
        Route("/board/people/out", shut_out, methods=["POST"]),
        Route("/board/guides", all_guides),
        Route("/board/guides/{form}", guide),
        Route("/board/guides/{form}", write, methods=["POST"]),
        Route("/board/book", book),
    ]


@needs("researcher")
def everybody(request: Request) -> Response:
    """All people, and the form that invites one."""
    return _everybody(request)


def _everybody(request: Request, wrong: str = "", link: str = "", invited: str = "") -> Response:
    me, roles = person_of(request), get_args(Role)
    return shown(
        request,
        "board_people.html",
        wrong,
        people=people.people(desk_of(request).store),
        roles=roles[: roles.index(me.role) + 1],
        link=link,
        invited=invited,
    )


@needs("researcher")
def invite(request: Request) -> Response:
    """Makes a link that lets somebody in once, and shows it this once."""
    store, me, said = desk_of(request).store, person_of(request), sent(request)
    name, role = one(said, "name").strip(), one(said, "role")
    try:
        check_rank(store, me, name, role)
        token = people.invite(store, name, cast("Role", role), me.name)
    except Failed as failed:
        return _everybody(request, failed.failure.detail)
    return _everybody(request, link=str(request.url_for("invited", token=token)), invited=name)


@needs("researcher")
def role(request: Request) -> Response:
    """Gives somebody another role."""
    store, me, said = desk_of(request).store, person_of(request), sent(request)
    name, wanted = one(said, "name"), one(said, "role")

    def change() -> None:
        check_rank(store, me, name, wanted)
        people.set_role(store, name, cast("Role", wanted), me.name)

    return changed(request, _everybody, "/board/people", change, "role")


@needs("researcher")
def shut_out(request: Request) -> Response:
    """Ends all that somebody may do here."""
    store, me, name = desk_of(request).store, person_of(request), one(sent(request), "name")

    def change() -> None:
        if name == me.name:
            raise Failed(Failure(name, "not_allowed", "ask somebody else to shut you out"))
        check_rank(store, me, name, "labeller")
        people.shut_out(store, name, me.name)

    return changed(request, _everybody, "/board/people", change, "out")


@needs("researcher")
def all_guides(request: Request) -> Response:
    """The newest guide of each form."""
    store = desk_of(request).store
    found = [(form, guides.guide(store, form.name)) for form in FORMS.values()]
    return shown(request, "board_guides.html", found=found)


@needs("researcher")
def guide(request: Request) -> Response:
    """One form's guide: as it is, to be written anew, and as it was."""
    return _guide(request)


def _guide(request: Request, wrong: str = "") -> Response:
    name = request.path_params["form"]
    if name not in FORMS:
        return problem(request, 404, "There is no such form.")
    versions = guides.history(desk_of(request).store, name)
    look = desk_of(request).look
    return shown(
        request,
        "board_guide.html",
        wrong,
        form=FORMS[name],
        versions=versions,
        now=look.guide(versions[0].text),
        text=one(sent(request), "text") or versions[0].text,
    )


@needs("researcher")
def write(request: Request) -> Response:
    """Makes a text the newest version."""
    name, text = request.path_params["form"], one(sent(request), "text")
    store, by = desk_of(request).store, person_of(request).name
    change = partial(guides.write_guide, store, name, text, by)
    return changed(request, _guide, f"/board/guides/{name}", change, "guide")


@needs("researcher")
def book(request: Request) -> Response:
    """What was done at the desk, by whom and when."""
    store, days = desk_of(request).store, request.query_params.get("days", "7")
    days = days if days in SPANS else "7"
    since = store.clock() - float(days) * DAY if days else 0.0
    lines = people.audits(store, since)
    return shown(
        request,
        "board_book.html",
        lines=lines[: -LINES - 1 : -1],
        count=len(lines),
        spans=SPANS,
        days=days,
        whole=people.audits_whole(store),
        when=lambda at: time.strftime("%Y-%m-%d %H:%M", time.gmtime(at)),
    )
