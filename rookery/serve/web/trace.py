"""How a demonstration went, a page a step: what was shown, and what was said to it.

For whoever made it, and for reviewers. Where only the judgement is there and not its events, as
after an import, the prompts stand for what was shown. It knows nothing of how it was made.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.browse.commands import parse
from rookery.browse.observation import Observation
from rookery.browse.view import neutral
from rookery.judge import handout, meaning
from rookery.judge.people import allowed
from rookery.judge.tables import judgements
from rookery.judge.work import Judgement
from rookery.records import Episode
from rookery.serve.web import scene
from rookery.serve.web.app import desk_of, needs, person_of, problem
from rookery.serve.web.rendering import page
from rookery.serve.web.shown import pieces
from rookery.serve.web.sittings import Place, Sittings, Work

STOPS = {
    "end": "an answer",
    "max_actions": "an answer, when the actions were used up",
    "max_quotes": "an answer, when the room for quotes was used up",
    "nonsense": "no answer: the question makes no sense",
    "controversial": "no answer: the question should not be answered",
    "no_quotes": "no answer: nothing was quoted",
    "bad_syntax": "no answer that could be read",
}
_VERBS = {
    "Search": "searched for",
    "Clicked on link": "followed link",
    "Find in page:": "looked on the page for",
    "Quote:": "quoted",
    "Scrolled down": "scrolled down",
    "Scrolled up": "scrolled up",
    "Top": "went to the top",
    "Back": "went back",
    "End:": "ended:",
}


class Taken(NamedTuple):
    """One step."""

    number: int
    prompt: str
    said: str
    verb: str
    what: str
    shown: Observation | None
    """None: only the prompt is known"""


def routes(sittings: Callable[[Request], Sittings]) -> list[Route]:
    """A demonstration, and each of its steps."""

    def overview(request: Request) -> Response:
        return _traced(request, sittings(request), 0)

    def step(request: Request) -> Response:
        said = request.path_params["step"]
        number = int(said) if said.isascii() and said.isdigit() and len(said) < 6 else 0
        return _traced(request, sittings(request), number)

    let_in = needs("labeller")
    return [
        Route("/trace/{judgement}", let_in(overview)),
        Route("/trace/{judgement}/{step}", let_in(step)),
    ]


def _traced(request: Request, sittings: Sittings, number: int) -> Response:
    """The page of one step, from 1; 0: of the whole."""
    judgement = _judgement(request, request.path_params["judgement"])
    person = person_of(request)
    if judgement is None or not (judgement.by == person.name or allowed(person, "reviewer")):
        return problem(request, 404, "There is no such demonstration, or it is not yours to see.")
    item = handout.item(desk_of(request).store, judgement.item)
    episode = meaning.episode(item, judgement)
    if episode is None:
        return problem(request, 404, "Nothing was demonstrated here: it was left to others.")
    with sittings.at(Place(judgement.item, judgement.by)) as work:
        steps = _steps(episode, work)
        if not 0 <= number <= len(steps):
            return problem(request, 404, "There is no such step.")
        values: dict[str, Any] = {
            "judgement": judgement,
            "item": item,
            "question": neutral(episode.question.text),
            "stop": STOPS.get(episode.stop, episode.stop),
            "steps": steps,
            "number": number,
            "answer": pieces(episode.answer) if episode.answer else (),
            "quotes": scene.cited(episode.answer.quotes if episode.answer else ()),
        }
        if not number:
            return page(request, "browser_trace.html", **values)
        return page(request, "browser_step.html", **values, **_step(work, steps, number))


def _step(work: Work, steps: list[Taken], number: int) -> dict[str, Any]:
    """What one step shows besides."""
    taken = steps[number - 1]
    following = steps[number].shown if number < len(steps) else work.sitting.shown
    shown = taken.shown
    if shown is None or following is None:
        return {"taken": taken, "scene": None, "collected": [], "new": 0}
    here = [quote for quote in following.quotes if quote.digest == shown.digest]
    marks = [((quote.start, quote.end), "quoted") for quote in here]
    return {
        "taken": taken,
        "scene": None if shown.answering else scene.scene(work, shown, marks),
        "collected": scene.cited(following.quotes),
        "new": len(following.quotes) - len(shown.quotes),
    }


def _steps(episode: Episode, work: Work) -> list[Taken]:
    """The steps of the judgement, each with what was shown if its events are still here."""
    walked = list(work.sitting.walk()) if work.number else []
    same = [shown.prompt for shown, _ in walked] == [step.prompt for step in episode.steps]
    shown = [shown for shown, _ in walked] if same else [None] * len(episode.steps)
    return [
        Taken(number, step.prompt, step.said.text, *_told(step.said.text, one), one)
        for number, (step, one) in enumerate(zip(episode.steps, shown, strict=True), 1)
    ]


def _told(said: str, shown: Observation | None) -> tuple[str, str]:
    """What was done, in words, and with what."""
    command = parse(said)
    if command is None or (shown is not None and shown.answering):
        return "answered", ""
    return _VERBS[command.verb], neutral(command.argument)


def _judgement(request: Request, key: str) -> Judgement | None:
    with desk_of(request).store.reading() as connection:
        body = connection.scalar(select(judgements.c.body).where(judgements.c.id == key))
    return Judgement.from_json(body) if body else None
