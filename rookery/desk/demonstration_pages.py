"""The pages of demonstrations: a person searches, reads, quotes, answers and hands it in; and the
trace of a finished demonstration, step by step.

Every command is a form that works without a script. A form carries the number of events that it had
seen, so that a form in a stale tab does nothing. A trace is shown to whoever made the
demonstration, and to reviewers; if only the judgement is there and not its events, as after an
import, it shows the prompts.

The browser's window is shown as blocks, links and runs of text: what a model is given, mark by
mark, where each run knows its offset in the page. Text from the web is made harmless: nothing in it
turns a line or hides.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby, pairwise
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import select
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rookery.browser.browser_commands import Observation, parse_command
from rookery.browser.page_view import WindowPart, get_domain, truncate_line
from rookery.desk import judgement_conversion, labelling_queue
from rookery.desk.accounts import has_role
from rookery.desk.demonstration_sessions import (
    DemonstrationKey,
    DemonstrationSession,
    DemonstrationStatus,
    DemonstrationStore,
    DeskLibrary,
    FetchJobs,
    StaleSessionError,
    make_closed_error,
)
from rookery.desk.form_parsing import split_at_claims
from rookery.desk.form_versions import load_guide
from rookery.desk.forms import (
    FLAG_REASONS,
    FORMS,
    SKIP_REASONS,
    Judgement,
    LabellingItem,
    make_item_id,
)
from rookery.desk.page_endpoints import (
    PageHandler,
    get_app_context,
    get_form_fields,
    get_last_value,
    get_person_name,
    get_posted_value,
    get_signed_in_person,
    get_store,
    redirect_after_post,
    render_page,
    render_problem_page,
)
from rookery.desk.store import read_events
from rookery.desk.tables import judgements
from rookery.errors import Failed, Outcome
from rookery.pages.page_text import neutralize_text
from rookery.pages.text_folding import Span
from rookery.records import Episode, Failure, Quote
from rookery.shell import demonstration_commands
from rookery.shell.browser_session import (
    FIND_PREFIX,
    SEARCH_PREFIX,
    BrowserSession,
    parse_typed_question,
)
from rookery.shell.demonstration_commands import Highlight
from rookery.shell.languages import mark_text, translate_borrowed_text
from rookery.shell.languages import translate_text as _
from rookery.shell.rendering import render_guide_html

SUGGESTIONS_KEY = "suggestions"
"""key of `Judgement.filled` that holds what versions before 0.3 suggested to the person"""
STOP_DESCRIPTIONS = {
    "end": mark_text("an answer"),
    Outcome.MAX_ACTIONS: mark_text("an answer, when the actions were used up"),
    Outcome.MAX_QUOTES: mark_text("an answer, when the room for quotes was used up"),
    Outcome.NONSENSE: mark_text("no answer: the question makes no sense"),
    Outcome.CONTROVERSIAL: mark_text("no answer: the question should not be answered"),
    Outcome.NO_QUOTES: mark_text("no answer: nothing was quoted"),
    Outcome.BAD_SYNTAX: mark_text("no answer that could be read"),
    Outcome.UNSUPPORTED: mark_text("no answer that its quotes support"),
}
"""end of a demonstration in words, by stop reason"""
_VERBS = {
    "Search": mark_text("searched for"), "Clicked on link": mark_text("followed link"),
    "Find in page:": mark_text("looked on the page for"), "Quote:": mark_text("quoted"),
    "Scrolled down": mark_text("scrolled down"), "Scrolled up": mark_text("scrolled up"),
    "Top": mark_text("went to the top"), "Back": mark_text("went back"),
    "End:": mark_text("ended:"),
}  # fmt: skip


class DemonstrationStep(NamedTuple):
    """One step of a finished demonstration."""

    number: int
    """number of the step, from 1"""
    prompt: str
    said: str
    """the command as it was given"""
    verb: str
    """the command in words"""
    what: str
    """argument of the command: words or a link; empty if it has none"""
    shown: Observation | None
    """observation before the command; None if only the prompt is known"""


def _render_trace(request: Request, sittings: DemonstrationStore, number: int) -> Response:
    """Render the trace of a demonstration, at step `number` from 1; 0 for the overview."""
    judgement = _load_judgement(request, request.path_params["judgement"])
    person = get_signed_in_person(request)
    if judgement is None or not (judgement.by == person.name or has_role(person, "reviewer")):
        return render_problem_page(
            request, 404, "There is no such demonstration, or it is not yours to see."
        )
    item = labelling_queue.load_item(get_store(request), judgement.item)
    episode = judgement_conversion.convert_to_episode(item, judgement)
    if episode is None:
        return render_problem_page(
            request, 404, "Nothing was demonstrated here: it was left to others."
        )
    with sittings.open_session(DemonstrationKey(judgement.item, judgement.by)) as work:
        session = work.browser_session
        walked = list(session.replay_steps()) if work.event_count else []
        steps = _list_steps(episode, [observation for observation, _ in walked])
        if not 0 <= number <= len(steps):
            return render_problem_page(request, 404, "There is no such step.")
        values: dict[str, Any] = {
            "judgement": judgement,
            "item": item,
            "question": neutralize_text(episode.question.text),
            "stop": STOP_DESCRIPTIONS.get(episode.stop, episode.stop),
            "steps": steps,
            "number": number,
            "answer": split_at_claims(episode.answer) if episode.answer else (),
            "quotes": make_quote_views(episode.answer.quotes if episode.answer else ()),
            "suggested_pages": len(judgement.filled.get(SUGGESTIONS_KEY, ())),
        }
        if not number:
            return render_page(request, "browser_trace.html", **values)
        return render_page(
            request, "browser_step.html", **values, **_describe_step(session, steps, number)
        )


def _describe_step(
    session: BrowserSession, steps: list[DemonstrationStep], number: int
) -> dict[str, Any]:
    """Return the values of the template for one step."""
    step = steps[number - 1]
    following = steps[number].shown if number < len(steps) else session.observation
    before = step.shown
    if before is None or following is None:
        return {"taken": step, "scene": None, "collected": [], "new": 0}
    page_quotes = [quote for quote in following.quotes if quote.digest == before.digest]
    marks = [((quote.start, quote.end), "quoted") for quote in page_quotes]
    return {
        "taken": step,
        "scene": None if before.answering else make_window_view(session, before, marks),
        "collected": make_quote_views(following.quotes),
        "new": len(following.quotes) - len(before.quotes),
    }


def _list_steps(episode: Episode, walked: Sequence[Observation]) -> list[DemonstrationStep]:
    """Return the steps of a judgement, with observations if its events are still stored."""
    same = [shown.prompt for shown in walked] == [step.prompt for step in episode.steps]
    shown = walked if same else [None] * len(episode.steps)
    return [
        DemonstrationStep(
            number, step.prompt, step.said.text, *_describe_command(step.said.text, one), one
        )
        for number, (step, one) in enumerate(zip(episode.steps, shown, strict=True), 1)
    ]


def _describe_command(text: str, observation: Observation | None) -> tuple[str, str]:
    """Return a command as verb and argument in words."""
    command = parse_command(text)
    if command is None or (observation is not None and observation.answering):
        return "answered", ""
    return _VERBS[command.verb], neutralize_text(command.argument)


def _load_judgement(request: Request, key: str) -> Judgement | None:
    with get_store(request).begin_read() as connection:
        body = connection.scalar(select(judgements.c.body).where(judgements.c.id == key))
    return Judgement.from_json(body) if body else None


_LOG = logging.getLogger("rookery.desk")
DEMONSTRATION_FORM = FORMS["demonstrate"]
OWN_QUESTIONS_BATCH = "own questions"
"""batch of the questions that people asked themselves"""
COMMAND_WAIT = 4.0
"""seconds that a request waits for a page or search, before it shows that it is being fetched"""
MAX_COMMENT_CHARACTERS = 5000
"""maximum characters of the comment on a demonstration"""
STALE_FORM = mark_text(
    "This tab was behind: you had gone on in another one. Here is where you are now."
)
LEASE_EXPIRED = mark_text(
    "The time for this task ran out, and somebody else has it now. Go on all the same: what you "
    "hand in is kept as an additional judgement."
)
T = TypeVar("T")
FormFields = dict[str, tuple[str, ...]]
"""values of a posted form by field name"""


def build_demonstration_pages() -> dict[str, PageHandler]:
    """Return the pages of demonstrations, of asking one's own question, and of the traces.

    The keys are those of `make_routes`: a path, or "POST" and a path.
    """
    pages = DemonstrationPages()
    return {
        "/demonstrate": pages.show_question_form,
        "POST /demonstrate": pages.post_question,
        "/demonstrate/{item}": pages.show_demonstration,
        "POST /demonstrate/{item}": pages.post_command,
        "POST /demonstrate/{item}/draft": pages.post_draft,
        "/trace/{judgement}": pages.show_trace,
        "/trace/{judgement}/{step}": pages.show_trace,
    }


class _Visit(NamedTuple):
    """A request to a demonstration that was handed out to the person who asks."""

    request: Request
    key: DemonstrationKey
    status: DemonstrationStatus
    fields: FormFields
    """values of the posted form"""
    late: bool = False
    """True: the lease ran out"""

    def show_again(self, query: str = "", anchor: str = "") -> Response:
        """Return a redirect to the page of the demonstration."""
        queries = [query] * bool(query) + ["late=1"] * self.late
        asked = f"?{'&'.join(queries)}" if queries else ""
        return redirect_after_post(f"/demonstrate/{self.key.item}{asked}{anchor}")


class DemonstrationPages:
    """The demonstration pages of one desk, as one process serves them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: FetchJobs | None = None

    def get_jobs(self, request: Request) -> FetchJobs:
        """Return the sessions, library and fetch jobs of the application that serves the request.

        They are made at the first use.
        """
        with self._lock:
            if self._jobs is None:
                desk = get_app_context(request)
                library = DeskLibrary(desk.settings)
                request.app.state.closing.append(library.close)
                self._jobs = FetchJobs(DemonstrationStore(desk.store), library)
            return self._jobs

    def show_question_form(self, request: Request) -> Response:
        """Show the form on which people ask a question of their own."""
        return render_page(request, "browser_ask.html", asked="", note="")

    def post_question(self, request: Request) -> Response:
        """Make an item of the person's own question, lease it to them, and redirect to it.

        A question that they handed in or left before is refused (409).
        """
        store, person = get_store(request), get_signed_in_person(request)
        words = get_posted_value(request, "q")
        try:
            question = parse_typed_question(words)
        except ValueError:
            note = _("Write the question that you want to answer.")
            return render_page(request, "browser_ask.html", 422, asked=words, note=note)
        item = LabellingItem("demonstrate", question, source=f"asked by {person.name}")
        labelling_queue.add_items(store, [item], OWN_QUESTIONS_BATCH, 1)
        item_id = make_item_id(OWN_QUESTIONS_BATCH, item)
        lease = labelling_queue.claim_item(store, person.name, item=item_id)
        if lease is None:
            note = _("You asked this before, and handed it in or left it: ask in other words.")
            return render_page(request, "browser_ask.html", 409, asked=words, note=note)
        return redirect_after_post(f"/demonstrate/{item_id}")

    def show_demonstration(self, request: Request) -> Response:
        """Show a demonstration as it stands, after a short wait for a page being fetched.

        One that was handed in redirects to its trace.
        """
        visit = self._begin_visit(request)
        if visit.status.kind in ("done", "extra"):
            return redirect_after_post(f"/trace/{visit.status.judgement}")
        if visit.status.judgement:
            raise make_closed_error(visit.status)
        self._wait_for_page(visit)
        return self._render_state(visit._replace(late="late" in request.query_params))

    def post_command(self, request: Request) -> Response:
        """Run the command of a posted form, or hand the demonstration in; show what came of it.

        Nothing is done for a form that has not seen the newest events (409), or for a command that
        would do nothing (422, with the reason).
        """
        visit = self._begin_visit(request)
        fields, status = visit.fields, visit.status
        if status.kind in ("done", "extra") and "hand_in" in fields:
            return redirect_after_post("/desk?said=again")
        if status.judgement:
            raise make_closed_error(status)
        lease_end = labelling_queue.renew_lease(get_store(request), status.token)
        visit = visit._replace(late=lease_end is None)
        try:
            note = self._change_session(visit, lambda session: _apply_form(session, fields))
        except StaleSessionError:
            if self._was_sent_before(visit):
                return redirect_after_post(f"/demonstrate/{visit.key.item}")
            return self._render_state(visit, 409, STALE_FORM)
        if note:
            return self._render_state(visit, 422, note)
        if "hand_in" in fields:
            return self._submit_demonstration(visit)
        with self._open_session(visit) as work:
            anchor = _make_anchor(work.browser_session, fields)
        self._wait_for_page(visit)
        return visit.show_again(anchor=anchor)

    def post_draft(self, request: Request) -> Response:
        """Store the draft of the answer for a script; return JSON.

        It holds the new number of events, why the draft was not stored, and remarks on the answer.
        Responds 409 to a form that has not seen the newest events, or after the demonstration was
        handed in.
        """
        visit = self._find_visit(request)
        if visit is None or visit.status.judgement:
            return JSONResponse({"sentence": _("This was handed in, or is not yours.")}, 409)
        labelling_queue.renew_lease(get_store(request), visit.status.token)
        words = get_last_value(visit.fields, "answer")
        try:
            note = self._change_session(
                visit, lambda session: demonstration_commands.save_draft_answer(session, words)
            )
        except StaleSessionError:
            return JSONResponse({"sentence": _(STALE_FORM)}, 409)
        with self._open_session(visit) as work:
            lints = [
                {"sentence": translate_borrowed_text(lint.sentence), "bars": lint.bars}
                for lint in demonstration_commands.lint_answer(work.browser_session, words)
            ]
            state = {"seen": work.event_count, "note": translate_borrowed_text(note)}
            return JSONResponse({**state, "lints": lints})

    def show_trace(self, request: Request) -> Response:
        """Show a whole demonstration (question, answer, quotes and steps), or one step of it."""
        number = _parse_number(request.path_params.get("step", ""), 0)
        return _render_trace(request, self.get_jobs(request).sessions, number)

    def _find_visit(self, request: Request) -> _Visit | None:
        """Return the request as a visit; None: the person never had the item."""
        key = DemonstrationKey(request.path_params["item"], get_person_name(request))
        status = self.get_jobs(request).sessions.find_status(key)
        return _Visit(request, key, status, get_form_fields(request)) if status else None

    def _begin_visit(self, request: Request) -> _Visit:
        """Return the request as a visit. Raises Failed (no_item): the person never had the item."""
        if (visit := self._find_visit(request)) is None:
            item = request.path_params["item"]
            labelling_queue.load_item(get_store(request), item)
            detail = mark_text("You do not have this task. Take one from the desk's first page.")
            raise Failed(Failure(item, Outcome.NO_ITEM, detail))
        return visit

    def _open_session(self, visit: _Visit) -> AbstractContextManager[DemonstrationSession]:
        return self.get_jobs(visit.request).sessions.open_session(visit.key)

    def _change_session(self, visit: _Visit, change: Callable[[BrowserSession], T]) -> T:
        """Change the session that the posted form has seen. Raises StaleSessionError."""
        event_count = _parse_number(get_last_value(visit.fields, "seen"), -1)
        return self.get_jobs(visit.request).sessions.change_session(visit.key, event_count, change)

    def _wait_for_page(self, visit: _Visit) -> None:
        """Fetch the page or search that the session waits for, if any, and wait a moment for it."""
        with self._open_session(visit) as work:
            number, pending = work.event_count, work.browser_session.pending_request
        if pending is not None:
            self.get_jobs(visit.request).run(visit.key, number, COMMAND_WAIT)

    def _was_sent_before(self, visit: _Visit) -> bool:
        """Return whether this very form was sent before: a double click, or a page that came
        back."""
        seen = _parse_number(get_last_value(visit.fields, "seen"), -1)
        if seen < 0:
            return False
        with get_store(visit.request).begin_read() as connection:
            bodies = read_events(connection, visit.key.stream, seen - 1)[:1]
        return any(_event_matches_form(msgspec.json.decode(body), visit.fields) for body in bodies)

    def _submit_demonstration(self, visit: _Visit) -> Response:
        """Check the answer and submit the demonstration as a judgement."""
        store, key, fields = get_store(visit.request), visit.key, visit.fields
        with self._open_session(visit) as work:
            session = work.browser_session
            if not session.ending:
                return self._render_state(visit, 409, STALE_FORM)
            if session.observation.answering:
                for lint in demonstration_commands.lint_answer(session, session.draft):
                    uncited = lint.sentence == demonstration_commands.UNCITED
                    if lint.bars or (uncited and "as_it_is" not in fields):
                        return self._render_state(visit, 422, lint.sentence)
            episode = demonstration_commands.make_demonstration_episode(session, key.person)
        comment = get_last_value(fields, "comment").strip()[:MAX_COMMENT_CHARACTERS]
        filled = judgement_conversion.add_episode({"comment": comment} if comment else {}, episode)
        judgement = Judgement(
            id="",
            item=key.item,
            by=key.person,
            kind="done",
            filled=filled,
            form_version=DEMONSTRATION_FORM.digest,
            guide_version=load_guide(store, DEMONSTRATION_FORM.name).version,
            order=(),
            whole=True,
            began=visit.status.began,
            ended=store.clock(),
        )
        kind = labelling_queue.submit_judgement(store, visit.status.token, key.person, judgement)
        return redirect_after_post(f"/desk?said={kind}")

    def _render_state(self, visit: _Visit, status: int = 200, note: str = "") -> Response:
        """Render the page for the present state: waiting, answering or browsing."""
        request = visit.request
        guide = load_guide(get_store(request), DEMONSTRATION_FORM.name)
        with self._open_session(visit) as work:
            session = work.browser_session
            observation = session.observation
            values: dict[str, Any] = {
                "item_id": visit.key.item,
                "token": visit.status.token,
                "question": neutralize_text(session.task.question.text),
                "seen": work.event_count,
                "budgets": measure_budgets(session),
                "note": note,
                "late": LEASE_EXPIRED if visit.late else "",
                "last": session.last_command,
                "guide": render_guide_html(guide.text),
                "skips": SKIP_REASONS,
                "flags": FLAG_REASONS,
            }
            template = "browser.html"
            if session.pending_request is not None:
                template = "browser_wait.html"
                values |= {
                    "wanted": demonstration_commands.describe_request(session.pending_request),
                    "trouble": self.get_jobs(request).explain_failure(visit.key),
                }
            elif session.ending:
                template = "browser_answer.html"
                values |= _describe_end(session, visit.fields)
            else:
                highlights = demonstration_commands.list_highlights(session)
                values |= {
                    "scene": make_window_view(session, observation, highlights),
                    "quotes": make_quote_views(observation.quotes),
                    "says": observation.note,
                    "sentences": list_quotable_sentences(session),
                    "typed": {
                        name: get_last_value(visit.fields, name)
                        for name in ("search", "find", "quote")
                    },
                    "found": session.last_find.removeprefix(FIND_PREFIX),
                }
            return render_page(request, template, status, **values)


FormAction = Callable[[BrowserSession, str, FormFields], str]
"""runs what a field of a form asks for; returns why it did nothing, or an empty string"""


def _apply_form(session: BrowserSession, fields: FormFields) -> str:
    """Run the first action named in the form; return why it did nothing, or an empty string."""
    for name, act in _FORM_ACTIONS.items():
        if name in fields:
            return act(session, get_last_value(fields, name), fields)
    return mark_text("nothing was chosen: press one of the buttons")


def _quote_marked_span(session: BrowserSession, span: str, fields: FormFields) -> str:
    places = _parse_span(span)
    if places is None:
        return mark_text("mark the words that you want to quote")
    return demonstration_commands.quote_window_span(session, *places)


def _parse_span(text: str) -> Span | None:
    """Return the span that a form sends as START-END; None for anything else."""
    start, _, end = text.partition("-")
    if not all(place.isascii() and place.isdigit() and len(place) < 12 for place in (start, end)):
        return None
    return int(start), int(end)


def _quote_sentences(session: BrowserSession, first: str, fields: FormFields) -> str:
    start, end = first.partition("-")[0], get_last_value(fields, "to").partition("-")[2]
    return _quote_marked_span(session, f"{start}-{end}", fields)


def _run_words(session: BrowserSession, verb: str, words: str, empty: str) -> str:
    command = f"{verb}{words.strip()}"
    return demonstration_commands.run_browser_command(session, command) if words.strip() else empty


def _undo_command(session: BrowserSession, _: str, fields: FormFields) -> str:
    if "answer" in fields:
        demonstration_commands.save_draft_answer(session, get_last_value(fields, "answer"))
    return demonstration_commands.undo_last_command(session)


def _save_answer(session: BrowserSession, _: str, fields: FormFields) -> str:
    if not session.ending:
        return mark_text("read on, or end browsing first: the answer comes after it")
    if "answer" not in fields:
        return ""
    words = get_last_value(fields, "answer").strip()
    return demonstration_commands.save_draft_answer(session, words)


_FORM_ACTIONS: Mapping[str, FormAction] = {
    "undo": _undo_command,
    "search": lambda session, words, _: _run_words(
        session, SEARCH_PREFIX, words, mark_text("write what to search for")
    ),
    "find": lambda session, words, _: _run_words(
        session, FIND_PREFIX, words, mark_text("write what to find on this page")
    ),
    "span": _quote_marked_span,
    "from": _quote_sentences,
    "quote": lambda session, words, _: demonstration_commands.run_typed_command(
        session, f"Quote: {words.removeprefix('Quote:')}"
    ),
    "command": lambda session, words, _: demonstration_commands.run_typed_command(session, words),
    "hand_in": _save_answer,
    "save": _save_answer,
}
"""action by the name of the form field that asks for it"""


def _event_matches_form(event: Mapping[str, Any], fields: FormFields) -> bool:
    """Return whether an event is one that this form would make."""
    if event.get("type") == "Undone":
        return "undo" in fields
    if event.get("type") == "Drafted":
        return str(event.get("text", "")).strip() == get_last_value(fields, "answer").strip()
    command = str(event.get("command", ""))
    if command.startswith("Quote: "):
        return bool({"span", "from", "quote"} & set(fields))
    words = (
        get_last_value(fields, "search")
        or get_last_value(fields, "find")
        or get_last_value(fields, "command")
    )
    return bool(words.strip()) and command.endswith(words.strip())


def _describe_end(session: BrowserSession, typed: FormFields) -> dict[str, Any]:
    """Return the values of the last page: of an answer, or of an end without one."""
    observation = session.observation
    text = get_last_value(typed, "answer") if "answer" in typed else session.draft
    return {
        "answering": observation.answering,
        "stop": session.browse_result.stop if session.browse_result else "",
        "quotes": make_quote_views(observation.quotes),
        "answer": text,
        "comment": get_last_value(typed, "comment"),
        "lints": demonstration_commands.lint_answer(session, text)
        if observation.answering and text.strip()
        else [],
        "uncited": demonstration_commands.UNCITED,
    }


def _make_anchor(session: BrowserSession, fields: FormFields) -> str:
    """Return the anchor of the last quoted paragraph, for browsers without script."""
    if "scrolls" in fields or not {"span", "from", "quote"} & set(fields):
        return ""
    return f"#p{find_last_quoted_paragraph(session)}"


def _parse_number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else default


_LINK_START = re.compile(r"【([0-9]+)†")
_LINK = re.compile(r" ?【([0-9]+)†(.*?)(?:†([^†】]*))?】 ?", re.DOTALL)
# Browsers turn a carriage return into a line feed and drop NUL: both would shift later offsets.
_REPLACED_CHARACTERS = str.maketrans({"\x00": "\ufffd", "\r": " "})
CELL_SEPARATOR = " | "
"""separator that a window shows between the cells of a row"""


class WindowRun(NamedTuple):
    """A run of text in one style."""

    text: str
    start: int
    """offset in the page in code points; -1 if the window put the text in"""
    style: str = ""
    """names of styles, joined with spaces"""


class WindowPiece(NamedTuple):
    """The text of one link, or the text between two."""

    runs: list[WindowRun]
    link: str = ""
    """number by which a command names the link; empty if this is no link"""
    domain: str = ""
    """domain that the link leads to, if it is another one; empty otherwise"""


class WindowParagraph(NamedTuple):
    """One block of the page, as the window shows it."""

    kind: str
    level: int
    pieces: list[WindowPiece]
    start: int
    """offset of its first shown character"""
    gap: str
    """text that the window puts before it: white space or a cell separator"""


class WindowGroup(NamedTuple):
    """Paragraphs laid out together: rows of a table, lines of code, items, or one alone."""

    kind: str
    rows: list[list[WindowParagraph]]


class ResultLink(NamedTuple):
    """A link with its snippet, on a page of search results; or text before the first link."""

    link: str
    words: str
    domain: str
    snippet: str


def group_window_parts(
    parts: Iterable[WindowPart], highlights: Sequence[Highlight] = ()
) -> list[WindowGroup]:
    """Return a window's parts as paragraphs, grouped for layout, with highlights marked."""
    paragraphs = [
        _make_paragraph(list(block_parts), highlights)
        for _, block_parts in groupby(parts, lambda p: p.block)
    ]
    groups: list[WindowGroup] = []
    for one in paragraphs:
        if groups and one.kind == groups[-1].kind and one.kind in ("cell", "code", "item"):
            if one.gap == CELL_SEPARATOR and one.kind == "cell":
                groups[-1].rows[-1].append(one)
            else:
                groups[-1].rows.append([one])
        else:
            groups.append(WindowGroup(one.kind, [[one]]))
    return groups


def parse_result_links(text: str) -> list[ResultLink]:
    """Parse search results into links with snippets; text before the first is an entry, too."""
    found: list[ResultLink] = []
    done = 0
    for link in _LINK.finditer(text):
        found = _attach_snippet(found, text[done : link.start()])
        found.append(ResultLink(link[1], link[2], neutralize_text(link[3] or ""), ""))
        done = link.end()
    return _attach_snippet(found, text[done:])


def _attach_snippet(links: list[ResultLink], words: str) -> list[ResultLink]:
    if not words.strip():
        return links
    if not links:
        return [ResultLink("", "", "", words.strip())]
    return [*links[:-1], links[-1]._replace(snippet=words.strip())]


def _make_paragraph(parts: list[WindowPart], highlights: Sequence[Highlight]) -> WindowParagraph:
    block = parts[0].block
    gap = ""
    pieces = [WindowPiece([])]
    for number, part in enumerate(parts):
        text = part.text.translate(_REPLACED_CHARACTERS)
        if part.start < part.end:
            pieces[-1].runs.extend(_split_runs(text, part.start, highlights))
        elif number == 0 and (part.text.isspace() or part.text == CELL_SEPARATOR):
            gap = part.text
        elif opens := _LINK_START.fullmatch(part.text):
            pieces.append(WindowPiece([], opens[1]))
        elif pieces[-1].link and part.text.endswith("】") and "【" not in part.text:
            pieces[-1] = pieces[-1]._replace(domain=neutralize_text(part.text[1:-1]))
            pieces.append(WindowPiece([]))
        elif whole := _LINK.fullmatch(part.text):
            pieces += [
                WindowPiece([WindowRun(whole[2], -1)], whole[1], neutralize_text(whole[3] or "")),
                WindowPiece([]),
            ]
        else:
            pieces[-1].runs.append(WindowRun(text, -1))
    filled_pieces = [piece for piece in pieces if piece.runs]
    return WindowParagraph(block.kind, block.level, filled_pieces, parts[0].start, gap)


def _split_runs(text: str, start: int, highlights: Sequence[Highlight]) -> list[WindowRun]:
    """Return a text cut where highlights begin or end."""
    end = start + len(text)
    over = [(span, name) for span, name in highlights if span[0] < end and start < span[1]]
    cuts = {start, end, *(place for span, _ in over for place in span if start < place < end)}
    places = sorted(cuts)
    runs = []
    for low, high in pairwise(places):
        names = {name for span, name in over if span[0] <= low < span[1]}
        runs.append(WindowRun(text[low - start : high - start], low, " ".join(sorted(names))))
    return runs


BAR_WIDTH = 1000
"""width of a full bar, in units of its viewBox"""
MAX_TITLE_CHARACTERS = 200
"""maximum characters shown of a title or address"""


class QuoteView(NamedTuple):
    """A quote as it is shown beside the page."""

    number: int
    title: str
    host: str
    text: str


class WindowView(NamedTuple):
    """The browser's window: title, host, and a page, search results or an error."""

    title: str
    host: str
    fetched: str
    """date at which the page was fetched; empty for search results and errors"""
    bar: tuple[int, int]
    """first and last position of the window in the page, in percent"""
    groups: list[WindowGroup]
    """blocks of the page; empty if results or an error are shown"""
    results: list[ResultLink]
    error: str


class BudgetMeter(NamedTuple):
    """The used part of a budget, and its limit."""

    used: int
    most: int

    @property
    def width(self) -> int:
        """Width of the used part of its bar, from 0 to BAR_WIDTH."""
        return BAR_WIDTH * min(self.used, self.most) // max(self.most, 1)


def make_window_view(
    session: BrowserSession, observation: Observation, highlights: Sequence[Highlight]
) -> WindowView:
    """Return what an observation shows, for the template.

    It is a page's text with highlights, a list of results as links, or the text of an error.
    """
    view = session.find_shown_view(observation)
    title = (
        neutralize_text(truncate_line(view.page.title, MAX_TITLE_CHARACTERS))
        if view
        else observation.title
    )
    failed = view is None and observation.title.startswith("Error")
    return WindowView(
        title=title,
        host=neutralize_text(view.domain) if view else "",
        fetched=view.page.fetched[:10] if view else "",
        bar=observation.scrollbar,
        groups=group_window_parts(view.iter_parts(observation.start), highlights) if view else [],
        results=parse_result_links(observation.text) if view is None and not failed else [],
        error=observation.text if failed else "",
    )


def make_quote_views(quotes: Sequence[Quote]) -> list[QuoteView]:
    """Return quotes numbered from 1, as an answer cites them."""
    return [
        QuoteView(
            number,
            neutralize_text(truncate_line(quote.title, MAX_TITLE_CHARACTERS)),
            neutralize_text(get_domain(quote.url)),
            neutralize_text(quote.text),
        )
        for number, quote in enumerate(quotes, 1)
    ]


def measure_budgets(session: BrowserSession) -> dict[str, BudgetMeter]:
    """Return the use of the budgets: actions, and characters of quotes."""
    shown, rules = session.observation, session.task.rules
    quoted = sum(len(quote.text) for quote in shown.quotes)
    return {
        "actions": BudgetMeter(rules.actions - shown.left, rules.actions),
        "quoted": BudgetMeter(quoted, rules.quoted),
    }


def list_quotable_sentences(session: BrowserSession) -> list[tuple[Span, str]]:
    """Return the sentences in the window that can be quoted: span and shortened text.

    Empty if no page is open.
    """
    view = session.find_shown_view()
    if view is None:
        return []
    return [
        (span, neutralize_text(truncate_line(view.page.text[span[0] : span[1]], 70)))
        for span in demonstration_commands.list_quotable_spans(session)
    ]


def find_last_quoted_paragraph(session: BrowserSession) -> int:
    """Return the offset of the paragraph of the last quote in this window, else of its start."""
    view, shown = session.find_shown_view(), session.observation
    of_page = (quote.start for quote in shown.quotes if quote.digest == shown.digest)
    places = [place for place in of_page if shown.start <= place < shown.end]
    if view is None or not places:
        return shown.start
    place = places[-1]
    begun = {part.block: part.start for part in reversed(list(view.iter_parts(shown.start)))}
    return max((start for start in begun.values() if start <= place), default=shown.start)
