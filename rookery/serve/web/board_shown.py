"""How a page of the lead's board is shown, and what follows where a lead changes something.

It knows nothing of what the pages say.
"""

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from rookery.judge.people import ROLES, Person, people
from rookery.judge.store import Store
from rookery.records import Failed, Failure
from rookery.serve.web.app import see_other
from rookery.serve.web.rendering import page

Show = Callable[[Request, str], Response]
"""shows a page again, with a sentence that says what is wrong"""
TABS = (
    ("/board", "Progress"),
    ("/board/quality", "Quality"),
    ("/board/returned", "Flagged"),
    ("/board/excluded", "Left out"),
    ("/board/snapshots", "Snapshots"),
    ("/board/people", "People"),
    ("/board/guides", "Guides"),
    ("/board/book", "Book"),
)
DID = {
    "retired": "Retired. It is handed out no more; what was made of it stays.",
    "excluded": "Excluded. The judgements stay, and do not count.",
    "lifted": "Lifted. The judgements count again.",
    "frozen": "Frozen. It can be downloaded, the same bytes each time.",
    "role": "The role is changed.",
    "out": "Shut out. What they did stays.",
    "guide": "That is the newest version now. The earlier ones are kept.",
}
LATER = frozenset({"store_busy", "disk_full", "store_fails", "no_store"})
"""outcomes that are not a lead's to mend"""


def shown(request: Request, template: str, wrong: str = "", **values: Any) -> Response:
    """A page of the board; `wrong` says why something was not done."""
    did = DID.get(request.query_params.get("did", ""), "")
    status = 422 if wrong else 200
    values |= {"wrong": wrong, "tabs": TABS, "said": did, "wide": True}
    return page(request, template, status, **values)


def changed(
    request: Request, show: Show, then: str, change: Callable[[], object], did: str = ""
) -> Response:
    """Makes a change, then leads to the page `then`; or shows the page again with what is wrong."""
    try:
        change()
    except Failed as failed:
        if failed.failure.outcome in LATER:
            raise
        return show(request, failed.failure.detail)
    return see_other(f"{then}?did={did}")


def check_rank(store: Store, lead: Person, name: str, role: str) -> None:
    """Raises Failed (not_allowed) for a role above the lead's own, given or had."""
    had = [one.role for one in people(store) if one.name == name]
    if role not in ROLES:
        raise Failed(Failure(role, "not_allowed", "choose one of the roles"))
    if any(ROLES.index(one) > ROLES.index(lead.role) for one in (role, *had)):
        detail = "this is for somebody of that role or above: ask an admin"
        raise Failed(Failure(name, "not_allowed", detail))
