"""The pages on which a person demonstrates: searches, reads, quotes, answers, hands it in.

Every command is a form that works without a script. A form carries how many events it had seen, so
that one of a stale tab does nothing. It knows nothing of how a page is read and found.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rookery.browse.view import neutral
from rookery.judge import events, guides, handing_in, handout, meaning
from rookery.judge.forms import FLAGS, FORMS, SKIPS
from rookery.judge.work import Item, Judgement
from rookery.records import Failed, digest_of
from rookery.serve.typed import FIND, SEARCH, question_of
from rookery.serve.web import acts, scene, trace
from rookery.serve.web.app import desk_of, needs, person_of, problem, see_other, sent
from rookery.serve.web.errands import Errands, Holdings
from rookery.serve.web.rendering import Link, guide_html, page
from rookery.serve.web.sittings import Moved, Place, Sittings, Standing, Work, closed

FORM = FORMS["demonstrate"]
OWN = "own questions"
"""the batch of what people asked themselves"""
PATIENCE = 4.0
"""seconds that a command waits for what it opens, before the page says that it is being opened"""
COMMENT = 5000
MOVED = "This tab was behind: you had gone on in another one. Here is where you are now."
LATE = (
    "The time for this task ran out, and somebody else has it now. Go on all the same: what you "
    "hand in is kept as an additional judgement."
)
Fields = Mapping[str, tuple[str, ...]]


def routes() -> list[Route]:
    """The demonstrations, one's own question, and the traces."""
    pages = Demonstrations()
    let_in = needs("labeller")
    at = "/demonstrate/{item}"
    return [
        Route("/demonstrate", let_in(pages.begin)),
        Route("/demonstrate", let_in(pages.ask), methods=["POST"]),
        Route(at, let_in(pages.look)),
        Route(at, let_in(pages.act), methods=["POST"]),
        Route(f"{at}/draft", let_in(pages.draft), methods=["POST"]),
        *trace.routes(pages.sittings),
    ]


def links() -> list[Link]:
    """In the head of each page."""
    return [Link("/demonstrate", "Demonstrate")]


class Demonstrations:
    """The demonstrations of one desk, as this process serves them."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._opened: tuple[Sittings, Errands] | None = None

    def sittings(self, request: Request) -> Sittings:
        """Those of the desk that was asked."""
        return self._open(request)[0]

    def begin(self, request: Request) -> Response:
        """Where somebody asks a question of their own."""
        return page(request, "browser_ask.html", asked="", note="")

    def ask(self, request: Request) -> Response:
        """Makes an item of one's own question, and takes it in hand."""
        store, person = desk_of(request).store, person_of(request)
        words = one_of(sent(request), "q")
        try:
            question = question_of(words)
        except ValueError:
            note = "Write the question that you want to answer."
            return page(request, "browser_ask.html", 422, asked=words, note=note)
        item = Item("demonstrate", question, source=f"asked by {person.name}")
        handout.add(store, [item], OWN, 1)
        item_id = digest_of(f"{OWN}\n{item.to_json()}")
        lease = handout.claim(store, person.name, item=item_id)
        if lease is None:
            note = "You asked this before, and handed it in or left it: ask in other words."
            return page(request, "browser_ask.html", 409, asked=words, note=note)
        return see_other(f"/demonstrate/{item_id}")

    def look(self, request: Request) -> Response:
        """A demonstration as it stands."""
        sittings, errands = self._open(request)
        place, standing = self._place(request)
        if standing is None:
            return _not_in_hand(request, place)
        if standing.kind in ("done", "extra"):
            return see_other(f"/trace/{standing.judgement}")
        if standing.judgement:
            raise closed(standing)
        with sittings.at(place) as work:
            number, wanted = work.number, work.sitting.wanted
        if wanted is not None:
            errands.run(place, number, PATIENCE)
        return self._shown(request, place, standing)

    def act(self, request: Request) -> Response:
        """Does what one form says."""
        sittings, errands = self._open(request)
        place, standing = self._place(request)
        fields = sent(request)
        if standing is None:
            return _not_in_hand(request, place)
        if standing.judgement:
            return _handed_in_before(standing, fields)
        late = handout.beat(desk_of(request).store, standing.token) is None
        seen = _number(fields, "seen")
        try:
            note = sittings.change(place, seen, lambda work: _deed(work, fields))
        except Moved:
            if self._done_before(request, place, seen, fields):
                return see_other(f"/demonstrate/{place.item}")
            return self._shown(request, place, standing, 409, note=MOVED, late=late, typed=fields)
        with sittings.at(place) as work:
            number, wanted = work.number, work.sitting.wanted
            where = _where(work, fields)
        if note:
            return self._shown(request, place, standing, 422, note=note, late=late, typed=fields)
        if "hand_in" in fields:
            return self._hand_in(request, place, standing, fields)
        if wanted is not None:
            errands.run(place, number, PATIENCE)
        return see_other(f"/demonstrate/{place.item}{'?late=1' if late else ''}{where}")

    def draft(self, request: Request) -> Response:
        """Keeps the answer as far as it is written, for a script; says what is to be said of it."""
        sittings, _ = self._open(request)
        place, standing = self._place(request)
        fields = sent(request)
        if standing is None or standing.judgement:
            return JSONResponse({"sentence": "This was handed in, or is not yours."}, 409)
        handout.beat(desk_of(request).store, standing.token)
        words = one_of(fields, "answer")
        try:
            note = sittings.change(
                place, _number(fields, "seen"), lambda work: acts.write(work, words)
            )
        except Moved:
            return JSONResponse({"sentence": MOVED}, 409)
        with sittings.at(place) as work:
            found = [lint._asdict() for lint in acts.lints(work, words)]
            return JSONResponse({"seen": work.number, "note": note, "lints": found})

    def _open(self, request: Request) -> tuple[Sittings, Errands]:
        with self._turn:
            if self._opened is None:
                desk = desk_of(request)
                sittings, holdings = Sittings(desk.store), Holdings(desk.settings)
                request.app.state.closing.append(holdings.close)
                self._opened = sittings, Errands(sittings, holdings)
            return self._opened

    def _place(self, request: Request) -> tuple[Place, Standing | None]:
        place = Place(request.path_params["item"], person_of(request).name)
        return place, self.sittings(request).standing(place)

    def _done_before(self, request: Request, place: Place, seen: int, fields: Fields) -> bool:
        """Whether this very form was sent before: a double click, or a page that came back."""
        with desk_of(request).store.reading() as connection:
            bodies = events.read(connection, place.stream, seen - 1)[:1] if seen >= 0 else []
        return any(_is_of(msgspec.json.decode(body), fields) for body in bodies)

    def _hand_in(
        self, request: Request, place: Place, standing: Standing, fields: Fields
    ) -> Response:
        store = desk_of(request).store
        with self.sittings(request).at(place) as work:
            if not work.ending:
                return self._shown(request, place, standing, 409, note=MOVED)
            if work.sitting.shown.answering:
                found = acts.lints(work, work.sitting.draft)
                heeded = "as_it_is" in fields
                bars = [x for x in found if x.bars or (x.sentence == acts.UNCITED and not heeded)]
                if bars:
                    note = bars[0].sentence
                    return self._shown(request, place, standing, 422, note=note, typed=fields)
            episode = acts.episode(work)
        comment = one_of(fields, "comment").strip()[:COMMENT]
        filled = meaning.with_episode({"comment": comment} if comment else {}, episode)
        judgement = Judgement(
            id="",
            item=place.item,
            by=place.person,
            kind="done",
            filled=filled,
            form_version=FORM.digest,
            guide_version=guides.guide(store, FORM.name).version,
            order=(),
            whole=True,
            began=standing.began,
            ended=store.clock(),
        )
        kind = handing_in.submit(store, standing.token, place.person, judgement)
        return see_other(f"/desk?said={'extra' if kind == 'extra' else 'done'}")

    def _shown(
        self,
        request: Request,
        place: Place,
        standing: Standing,
        status: int = 200,
        note: str = "",
        late: bool = False,
        typed: Fields | None = None,
    ) -> Response:
        """The page of where the work stands now."""
        sittings, errands = self._open(request)
        desk = desk_of(request)
        late = late or "late" in request.query_params
        guide = guides.guide(desk.store, FORM.name)
        with sittings.at(place) as work:
            shown = work.sitting.shown
            common = {
                "item_id": place.item,
                "token": standing.token,
                "question": neutral(work.sitting.task.question.text),
                "seen": work.number,
                "budgets": scene.budgets(work),
                "note": note,
                "late": LATE if late else "",
                "last": work.sitting.last,
                "guide": guide_html(guide.text),
                "skips": SKIPS,
                "flags": FLAGS,
            }
            if work.sitting.wanted is not None:
                trouble = errands.trouble(place)
                values: dict[str, Any] = {"wanted": scene.wanted(work), "trouble": trouble}
                return page(request, "browser_wait.html", status, **common, **values)
            if work.ending:
                return page(request, "browser_answer.html", status, **common, **_end(work, typed))
            return page(
                request,
                "browser.html",
                status,
                **common,
                scene=scene.scene(work, shown, acts.highlights(work)),
                quotes=scene.cited(shown.quotes),
                says=shown.note,
                sentences=scene.sentences(work),
                typed=_typed(typed),
                found=_found(work),
            )


def _deed(work: Work, fields: Fields) -> str:
    """Does what a form says; why not, where it did nothing."""
    for name, act in _ACTS.items():
        if name in fields:
            return act(work, one_of(fields, name), fields)
    return "nothing was said: choose what to do"


def _quote(work: Work, span: str, fields: Fields) -> str:
    start, _, end = span.partition("-")
    if not all(place.isascii() and place.isdigit() and len(place) < 12 for place in (start, end)):
        return "mark the words that you want to quote"
    return acts.quote(work, int(start), int(end))


def _quote_from(work: Work, first: str, fields: Fields) -> str:
    start, end = first.partition("-")[0], one_of(fields, "to").partition("-")[2]
    return _quote(work, f"{start}-{end}", fields)


def _quote_typed(work: Work, words: str, fields: Fields) -> str:
    return acts.say(work, words if words.startswith("Quote:") else f"Quote: {words}")


def _verb(verb: str, empty: str) -> Callable[[Work, str, Fields], str]:
    def act(work: Work, words: str, fields: Fields) -> str:
        return acts.do(work, f"{verb}{words.strip()}") if words.strip() else empty

    return act


def _undo(work: Work, _: str, fields: Fields) -> str:
    if "answer" in fields:
        acts.write(work, one_of(fields, "answer"))
    return acts.undo(work)


def _write(work: Work, _: str, fields: Fields) -> str:
    if not work.ending:
        return "read on, or end browsing first: the answer comes after it"
    return acts.write(work, one_of(fields, "answer").strip()) if "answer" in fields else ""


_ACTS: Mapping[str, Callable[[Work, str, Fields], str]] = {
    "undo": _undo,
    "search": _verb(SEARCH, "write what to search for"),
    "find": _verb(FIND, "write what to find on this page"),
    "span": _quote,
    "from": _quote_from,
    "quote": _quote_typed,
    "command": lambda work, words, _: acts.say(work, words),
    "hand_in": _write,
    "save": _write,
}
"""what a form may say, by the name of the field that says it"""


def _is_of(event: Mapping[str, Any], fields: Fields) -> bool:
    """Whether an event is what such a form makes."""
    if event.get("type") == "Undone":
        return "undo" in fields
    if event.get("type") == "Drafted":
        return str(event.get("text", "")).strip() == one_of(fields, "answer").strip()
    said = str(event.get("command", ""))
    if said.startswith("Quote: "):
        return bool({"span", "from", "quote"} & set(fields))
    words = one_of(fields, "search") or one_of(fields, "find") or one_of(fields, "command")
    return bool(words.strip()) and said.endswith(words.strip())


def _end(work: Work, typed: Fields | None) -> dict[str, Any]:
    """What the last page shows: of an answer, or of an end without one."""
    sitting, shown = work.sitting, work.sitting.shown
    text = one_of(typed, "answer") if typed and "answer" in typed else sitting.draft
    return {
        "answering": shown.answering,
        "stop": sitting.browsed.stop if sitting.browsed else "",
        "quotes": scene.cited(shown.quotes),
        "answer": text,
        "comment": one_of(typed, "comment") if typed else "",
        "lints": acts.lints(work, text) if shown.answering and text.strip() else [],
        "uncited": acts.UNCITED,
    }


def _typed(fields: Fields | None) -> dict[str, str]:
    """What stood in the forms that are shown again."""
    names = ("search", "find", "quote")
    return {name: one_of(fields, name) if fields else "" for name in names}


def _found(work: Work) -> str:
    """What was looked for last on some page."""
    finds = (said for said in reversed(work.sitting.commands) if said.startswith(FIND))
    return next(finds, FIND).removeprefix(FIND)


def _where(work: Work, fields: Fields) -> str:
    """Where on the page to go on reading, for who has no script: at what was quoted just now."""
    if "scrolls" in fields or not {"span", "from", "quote"} & set(fields):
        return ""
    return f"#p{scene.paragraph_of_last_quote(work)}"


def _handed_in_before(standing: Standing, fields: Fields) -> Response:
    if standing.kind in ("done", "extra") and "hand_in" in fields:
        return see_other("/desk?said=again")
    raise closed(standing)


def _not_in_hand(request: Request, place: Place) -> Response:
    try:
        handout.item(desk_of(request).store, place.item)
    except Failed:
        return problem(request, 404, "There is no such task.")
    return problem(request, 404, "You do not have this task. Take one from the desk's first page.")


def _number(fields: Fields, name: str) -> int:
    said = one_of(fields, name)
    return int(said) if said.isascii() and said.isdigit() and len(said) < 9 else -1


def one_of(fields: Fields | None, name: str) -> str:
    """The last value of that name, or nothing."""
    return (fields or {}).get(name, ("",))[-1]
