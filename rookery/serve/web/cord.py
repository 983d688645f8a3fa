"""The cord: one click and a reason stop a training run, and a second person lets it go on.

Everybody sees what each run says now, and whether it is pushed towards that or away from it. It
knows nothing of how a run learns.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.judge import cord
from rookery.judge.people import allowed
from rookery.records import Failed
from rookery.serve.web.app import desk_of, needs, one, person_of, problem, see_other, sent
from rookery.serve.web.rendering import Link, page

SAMPLES = 6
"""of each run that is alive"""
HISTORY = 50
"""of one run"""
REASONS = (
    "It says harmful things",
    "It writes nonsense",
    "It is pushed towards what is bad",
    "It says the same again and again",
)
"""that one click gives"""
GONE = {"no_run": 404, "no_pull": 404, "released": 409, "no_person": 403}
SAID = {
    "pulled": "The cord is pulled. The run makes no further step.",
    "released": "Released. The run goes on when it is begun again.",
}


def routes() -> list[Route]:
    """The cord of every run."""
    return [
        Route("/cord", runs),
        Route("/cord/pull", pull, methods=["POST"]),
        Route("/cord/{number:int}/release", release),
        Route("/cord/{number:int}/release", let_go_on, methods=["POST"]),
        Route("/cord/runs/{run:path}", run),
    ]


def links() -> list[Link]:
    """In the head of each page."""
    return [Link("/cord", "Runs")]


@needs("labeller")
def runs(request: Request) -> Response:
    """All runs: what each says now, and how to stop it."""
    return _runs(request)


@needs("labeller")
def pull(request: Request) -> Response:
    """Stops a run, for the reason that was typed or that stands on the button."""
    said = sent(request)
    try:
        name, reason = one(said, "run"), one(said, "reason")
        cord.pull(desk_of(request).store, name, person_of(request).name, reason)
    except Failed as failed:
        if failed.failure.outcome == "no_reason":
            return _runs(request, failed.failure.detail, one(said, "run"))
        return _gone(request, failed)
    return see_other("/cord?did=pulled")


@needs("labeller")
def run(request: Request) -> Response:
    """One run: who stopped it, and more of what it said."""
    store, name = desk_of(request).store, request.path_params["run"]
    try:
        shown = cord.training(store, name)
    except Failed as failed:
        return _gone(request, failed)
    said = cord.newest(store, name, HISTORY)
    return page(
        request,
        "cord_run.html",
        run=shown,
        state=shown.state(store.clock()),
        samples=list(zip(said, cord.pushes(said), strict=True)),
        history=cord.history(store, name),
    )


@needs("reviewer")
def release(request: Request) -> Response:
    """The page on which a second person says why a run may go on."""
    return _release(request)


@needs("reviewer")
def let_go_on(request: Request) -> Response:
    """Takes back a pull."""
    number, reason = request.path_params["number"], one(sent(request), "reason")
    try:
        cord.release(desk_of(request).store, number, person_of(request).name, reason)
    except Failed as failed:
        if failed.failure.outcome == "no_reason":
            return _release(request, failed.failure.detail)
        return _gone(request, failed)
    return see_other("/cord?did=released")


def _runs(request: Request, wrong: str = "", about: str = "") -> Response:
    store, person = desk_of(request).store, person_of(request)
    now, shown = store.clock(), []
    for each in cord.trainings(store):
        state = each.state(now)
        said = cord.newest(store, each.name, SAMPLES) if state != "ended" else []
        shown.append((each, state, list(zip(said, cord.pushes(said), strict=True))))
    return page(
        request,
        "cord.html",
        422 if wrong else 200,
        runs=sorted(shown, key=lambda one: one[1] == "ended"),
        reasons=REASONS,
        may_release=allowed(person, "reviewer"),
        problem=wrong,
        about=about,
        said=SAID.get(request.query_params.get("did", ""), ""),
    )


def _release(request: Request, wrong: str = "") -> Response:
    try:
        found = cord.pull_of(desk_of(request).store, request.path_params["number"])
    except Failed as failed:
        return _gone(request, failed)
    status = 422 if wrong else 200
    return page(request, "cord_release.html", status, pull=found, problem=wrong)


def _gone(request: Request, failed: Failed) -> Response:
    """What is not there any more, or was done by somebody else. Raises what is something else."""
    if failed.failure.outcome not in GONE:
        raise failed
    return problem(request, GONE[failed.failure.outcome], failed.failure.detail)
