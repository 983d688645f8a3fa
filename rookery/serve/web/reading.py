"""Ask a question, watch it being answered, read the answer, say what is wrong with it.

Asked and made beside the pages by `answering`. It knows nothing of how an answer is made.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from rookery.draft.sides import BY as SIDES
from rookery.judge import people
from rookery.judge.people import allowed
from rookery.records import Failed
from rookery.serve.web import asked, rated
from rookery.serve.web.answer_view import view
from rookery.serve.web.answering import Answering, answering_of
from rookery.serve.web.app import (
    desk_of,
    needs,
    one,
    person_of,
    problem,
    see_other,
    sent,
    session_of,
)
from rookery.serve.web.asked import Asked
from rookery.serve.web.rendering import Link, page
from rookery.serve.web.steps import line, lines, written
from rookery.serve.web.wanted import BY_MODELS, ENDS, EXTRACT, Event, Offers, Wanted

RECENT = 6
HISTORY = 200
QUIET = 15.0
"""seconds after which a stream says that it is still there"""
METHODS = {
    EXTRACT: ("Quotes", "The sentences that answer best, word for word. Quick, without a model."),
    SIDES: ("For and against", "What speaks for a claim and what against it, side by side."),
    "webgpt": ("Browse", "A model reads like a person: it searches, opens pages, quotes."),
    "gophercite": ("Quote first", "A model answers and quotes what supports it, held to the page."),
    "webglm": ("Write", "A model writes a text, each sentence resting on numbered quotes."),
}
STRICT = {
    "": "As this server is set",
    "0": "Answer whatever was found",
    "0.35": "Decline what is doubtful",
    "0.6": "Decline what is not likely right",
    "0.85": "Answer only when nearly sure",
}
"""how strictly is declined: of quotes, the least probability that the answer is right"""
WRONG = (
    "bad_question unknown_method unknown_model unknown_place bad_decline bad_samples busy".split()
)
"""outcomes of asking that whoever asks can put right"""


def routes() -> list[Route]:
    """Asking, reading, history."""
    at = "/answers/{answer}"
    return [
        Route("/", home),
        Route("/ask", ask, methods=["POST"]),
        Route("/asked", history),
        Route(at, show),
        Route(f"{at}/events", events),
        Route(f"{at}/cancel", cancel, methods=["POST"]),
        Route(f"{at}/rate", rate, methods=["POST"]),
        Route(f"{at}/wrong", wrong, methods=["POST"]),
    ]


def links() -> list[Link]:
    """In the head of each page."""
    return [Link("/", "Ask", "reader"), Link("/asked", "Asked", "reader")]


@needs("reader")
def home(request: Request) -> Response:
    """The box to ask in, filled in by the address where a question is to be asked again."""
    wanted = Wanted(request.query_params.get("question", "")[:2000])
    return _asking(request, wanted)


@needs("reader")
def ask(request: Request) -> Response:
    """Has a question answered, and leads to where that can be watched."""
    wanted = _wanted(request)
    try:
        answer = answering_of(request).ask(wanted, person_of(request).name)
    except Failed as failed:
        if failed.failure.outcome not in WRONG:
            raise
        return _asking(request, wanted, failed.failure.detail, 400)
    return see_other(f"/answers/{answer}")


@needs("reader")
def history(request: Request) -> Response:
    """What this person asked, the newest first, and those with certain words."""
    words = request.query_params.get("words", "")[:200]
    found = asked.of_person(desk_of(request).store, person_of(request).name, words, HISTORY)
    return page(request, "asked.html", found=found, words=words, most=HISTORY)


@needs("reader")
def show(request: Request) -> Response:
    """An answer: as far as it has come, or as it is."""
    answering = answering_of(request)
    found = answering.find(request.path_params["answer"])
    told = answering.events(found.id)
    mine = found.person == person_of(request).name
    common: dict[str, Any] = {
        "found": found,
        "steps": lines(told),
        "mine": mine,
        "again": _again(found),
    }
    if not found.over:
        newest = told[-1].number if told else -1
        return page(request, "answering.html", draft=written(told), newest=newest, **common)
    if found.answered is None:
        return page(request, "no_answer.html", why=_why(told), **common)
    shown = view(found.answered.episode, found.answered.verdicts, answering.page)
    said = None
    if found.answered.episode.answer:
        said = rated.said(desk_of(request).store, found, person_of(request).name)
    method = METHODS.get(found.wanted.method, (found.wanted.method,))[0]
    return page(request, "answer.html", shown=shown, rated=said, method=method, **common)


@needs("reader")
def cancel(request: Request) -> Response:
    """Ends an answer of one's own that takes too long."""
    found = _found(request)
    if found.person != person_of(request).name:
        return problem(request, 403, "Only who asked can cancel this.")
    answering_of(request).cancel(found.id)
    return see_other(f"/answers/{found.id}")


@needs("reader")
def rate(request: Request) -> Response:
    """Keeps what a reader thinks of an answer."""
    found, said, name = _found(request), sent(request), person_of(request).name
    rated.rate(desk_of(request).store, found, name, one(said, "thumbs"), one(said, "comment"))
    return see_other(f"/answers/{found.id}?said=noted")


@needs("reader")
def wrong(request: Request) -> Response:
    """Keeps that a reader holds a citation to be wrong."""
    found, said, name = _found(request), sent(request), person_of(request).name
    number = one(said, "quote")
    counted = int(number) if number.isdecimal() and len(number) < 4 else 0
    rated.flag(desk_of(request).store, found, name, counted, one(said, "words"))
    return see_other(f"/answers/{found.id}?said=noted")


async def events(request: Request) -> Response:
    """What happens, as server-sent events, from the one after `Last-Event-ID` on."""
    answering = answering_of(request)
    try:
        person = await run_in_threadpool(people.who, desk_of(request).store, session_of(request))
        if person is None or not allowed(person, "reader"):
            return PlainTextResponse("You are not in.", 401)
        found = await run_in_threadpool(answering.find, request.path_params["answer"])
    except Failed as failed:
        status = 404 if failed.failure.outcome == "no_answer" else 503
        return PlainTextResponse("There is nothing to be heard.", status)
    newest = request.headers.get("last-event-id") or request.query_params.get("after", "")
    after = int(newest) if newest.isdecimal() and len(newest) < 9 else -1
    stream = _stream(request, answering, found.id, after)
    return StreamingResponse(stream, media_type="text/event-stream")


async def _stream(
    request: Request, answering: Answering, answer: str, after: int
) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n\n"
    while not await request.is_disconnected():
        try:
            found = await answering.awaited(answer, after, QUIET)
        except Failed:  # the store is busy; the browser comes again
            return
        if not found:
            yield b": still here\n\n"
        for event in found:
            after = event.number
            yield _sent(event)
            if event.kind in ENDS:
                return


def _sent(event: Event) -> bytes:
    said = line(event)
    if event.kind == "writing":
        said = msgspec.structs.replace(said, text=written([event]))
    return f"id: {event.number}\ndata: {said.to_json()}\n\n".encode()


def _asking(request: Request, wanted: Wanted, wrong: str = "", status: int = 200) -> Response:
    offered = answering_of(request).offers
    recent = asked.of_person(desk_of(request).store, person_of(request).name, most=RECENT + 1)
    decline = wanted.decline
    return page(
        request,
        "ask.html",
        status,
        wanted=wanted,
        wrong=wrong,
        methods=[(name, *METHODS[name]) for name in offered.methods],
        models=list(offered.models),
        by_models=BY_MODELS,
        places=_places(offered),
        looked=offered.usual if wanted.places is None else wanted.places,
        strict=STRICT,
        chosen="" if decline is None else f"{decline:g}",
        recent=recent[:RECENT],
        more=len(recent) > RECENT,
    )


def _wanted(request: Request) -> Wanted:
    """What the form says. What it does not offer is refused later, in words."""
    said = sent(request)
    try:
        decline = float(one(said, "decline")) if one(said, "decline") else None
    except ValueError:
        decline = -1.0
    return Wanted(
        question=one(said, "question"),
        method=one(said, "method") or EXTRACT,
        model=one(said, "model"),
        places=said.get("place"),
        decline=decline,
        offline="offline" in said,
    )


def _places(offered: Offers) -> list[str]:
    """To choose among, where there is more than one."""
    return list(offered.places) if len(offered.places) > 1 else []


def _found(request: Request) -> Asked:
    return answering_of(request).find(request.path_params["answer"])


def _again(found: Asked) -> list[tuple[str, str]]:
    """The fields of a form that asks the same once more."""
    wanted = found.wanted
    fields = [("question", wanted.question), ("method", wanted.method), ("model", wanted.model)]
    fields += [("place", place) for place in wanted.places or ()]
    fields += [] if wanted.decline is None else [("decline", f"{wanted.decline:g}")]
    return fields + ([("offline", "yes")] if wanted.offline else [])


def _why(told: Sequence[Event]) -> tuple[str, str]:
    """Why an answer was never finished: the outcome, and a sentence."""
    last = told[-1].data if told else {}
    return str(last.get("outcome", "")), str(last.get("detail", ""))
