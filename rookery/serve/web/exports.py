"""Answers to take away: `/answers/ID.html`, `.md`, `.json`, `.bib` and `.csl.json`.

What is in them is made by `rookery.serve.exports`. It knows nothing of how an answer is made.
"""

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rookery.serve.exports import TYPES, Exported
from rookery.serve.exports import exported as made
from rookery.serve.web.answering import answering_of
from rookery.serve.web.app import needs, problem
from rookery.serve.web.asked import Asked


def routes() -> list[Route]:
    """One for each kind."""
    let_in = needs("reader")
    return [
        Route(f"/answers/{{answer}}.{kind}", let_in(export), name=kind)
        for kind in sorted(TYPES, key=len, reverse=True)  # .csl.json before .json
    ]


def export(request: Request) -> Response:
    """The answer as a file."""
    found = answering_of(request).find(request.path_params["answer"])
    kind = request.scope["path"].partition(".")[2]
    told = _told(request, found)
    if told is None:
        return problem(request, 409, "This answer is not ready: look at it again in a while.")
    name = f"answer-{found.id}.{kind}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    body = made(told, kind).encode("utf-8", "replace")
    return Response(body, headers=headers, media_type=f"{TYPES[kind]}; charset=utf-8")


def _told(request: Request, found: Asked) -> Exported | None:
    """The answer and its pages; None: it is not there, or not yet."""
    if found.answered is None:
        return None
    episode, verdicts = found.answered.episode, found.answered.verdicts
    quotes = episode.answer.quotes if episode.answer else ()
    pages = [answering_of(request).page(quote) for quote in quotes]
    day = time.strftime("%Y-%m-%d", time.gmtime(found.ended or found.made))
    return Exported(episode, verdicts, pages, day)
