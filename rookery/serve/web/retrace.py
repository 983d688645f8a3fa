"""How an answer was made, a page a step: what a model was shown, and what it said.

`/answers/ID/trace` is the whole, `/answers/ID/trace/N` one step; whoever is in may be sent there.
Where no model was asked there are no steps, and what happened is listed all the same. It knows
nothing of how an answer is made.
"""

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.records import Episode
from rookery.serve.terminal import clean
from rookery.serve.web.answering import answering_of
from rookery.serve.web.app import needs, problem
from rookery.serve.web.asked import Asked
from rookery.serve.web.page_text import visible
from rookery.serve.web.rendering import page
from rookery.serve.web.steps import lines, named
from rookery.serve.web.trace import STOPS

SHOWN = 160
"""characters of what was said, on its line"""
FAILURES = 50
"""failures that are listed; the others are only counted"""


class Taken(NamedTuple):
    """One step."""

    number: int
    prompt: str
    said: str
    tokens: int


def routes() -> list[Route]:
    """The whole, and each step."""
    let_in = needs("reader")
    at = "/answers/{answer}/trace"
    return [Route(at, let_in(whole)), Route(f"{at}/{{step}}", let_in(step))]


def whole(request: Request) -> Response:
    """All that happened."""
    found = _found(request)
    episode = found.answered.episode if found.answered else None
    failures = episode.failures if episode else ()
    told = dict.fromkeys(f"{named(f.what)}: {f.detail or f.outcome}" for f in failures)
    said = [clean(each) for each in told]
    return page(
        request,
        "retrace.html",
        found=found,
        question=visible(found.question),
        episode=episode,
        stop=STOPS.get(episode.stop, episode.stop) if episode else "",
        events=lines(answering_of(request).events(found.id)),
        steps=[one._replace(said=_short(one.said)) for one in _steps(episode)],
        failures=said[:FAILURES],
        more=len(said[FAILURES:]),
    )


def step(request: Request) -> Response:
    """One step, from 1."""
    found = _found(request)
    steps = _steps(found.answered.episode if found.answered else None)
    asked = request.path_params["step"]
    number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 0
    if not 1 <= number <= len(steps):
        return problem(request, 404, "There is no such step.")
    return page(
        request,
        "retrace_step.html",
        found=found,
        question=visible(found.question),
        taken=steps[number - 1],
        count=len(steps),
    )


def _found(request: Request) -> Asked:
    return answering_of(request).find(request.path_params["answer"])


def _steps(episode: Episode | None) -> list[Taken]:
    return [
        Taken(n, visible(one.prompt), visible(one.said.text), len(one.said.tokens))
        for n, one in enumerate(episode.steps if episode else (), 1)
    ]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1].rstrip() + "…"
