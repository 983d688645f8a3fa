"""Pages of answers: questions, answers with their quotes, ratings, traces, downloads, notebooks.

`/answers/ID.html`, `.md`, `.json`, `.bib` and `.csl.json` are downloads. `/answers/ID/trace` lists
the steps of an answer, `/answers/ID/trace/N` shows one with the prompt that the model was given and
what it said; where no model was asked there are no steps, and the events alone are listed.

Progress events are shown in words, the text in pieces and quotes as cards; of a file only the name
is shown, never its folder. Readers' ratings are stored as judgements of the desk, so that models
can learn from them: thumbs up or down is a judgement of an item with the form "thumbs"; a wrong
citation is a flag of the same item.

A notebook shows a conversation, the list of answers that follow-up questions make too: its
questions are asked to the letter, each by itself. `/answers/ID/notebook` is the page, ID that of
any of its answers, `/answers/ID/report.FORMAT` the report.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import msgspec
from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rookery.answers.answer_results import split_remarks
from rookery.answers.both_sides import SIDES_METHOD as SIDES
from rookery.answers.follow_ups import join_questions
from rookery.answers.methods import METHODS, MODEL_METHODS, get_method_title
from rookery.desk import accounts, form_parsing, form_versions, labelling_queue
from rookery.desk.accounts import has_role
from rookery.desk.demonstration_pages import STOP_DESCRIPTIONS
from rookery.desk.forms import FORMS, Judgement, JudgementKind, LabellingItem
from rookery.desk.page_endpoints import (
    PageHandler,
    get_form_fields,
    get_last_value,
    get_person_name,
    get_posted_value,
    get_posted_values,
    get_session_token,
    get_store,
    make_public_url,
    redirect_after_post,
    render_page,
    render_problem_page,
)
from rookery.desk.store import Store
from rookery.desk.tables import judgements
from rookery.errors import Failed, Outcome
from rookery.evidence.calibration import explain_score, word_score
from rookery.library.libraries import is_url
from rookery.quotes.quote_links import describe_location, make_deep_link
from rookery.quotes.verification import Verdict
from rookery.records import (
    Answer,
    Claim,
    Episode,
    Failure,
    Page,
    Question,
    Quote,
    Record,
    digest_of,
)
from rookery.server.api import answer_queue
from rookery.server.api.answer_queue import AnswerService, StoredAnswer, get_answer_service
from rookery.server.api.answer_sessions import (
    FINAL_EVENTS,
    AnswerEvent,
    QuestionRequest,
    ServerCapabilities,
)
from rookery.server.api.endpoints import EventFrames, build_event_response, encode_event
from rookery.server.api.questions import BAD_REQUEST_OUTCOMES
from rookery.server.documents import list_searched_places, make_safe_file_name
from rookery.server.stored_pages import make_quote_address
from rookery.shell.answer_export import (
    EXPORT_TYPES,
    REPORT_TYPES,
    ExportedAnswer,
    ExportedReport,
    ExportLanguage,
    render_report,
)
from rookery.shell.answer_export import render_export as made
from rookery.shell.languages import (
    format_number,
    get_language,
    mark_text,
    translate_borrowed_text,
    translate_plural,
)
from rookery.shell.languages import translate_text as _
from rookery.shell.quote_layout import QuoteLayout, lay_out_quote
from rookery.shell.rendering import cut_between_words, format_host, replace_unseen_characters
from rookery.shell.terminal_output import (
    NO_ANSWER_MESSAGES,
    format_failure_counts,
    is_declined_by_model,
)
from rookery.text_escaping import sanitize_text


def export_answer(request: Request) -> Response:
    """Handle GET /answers/ID.FORMAT: return the answer as a file; 409 if unfinished or failed."""
    stored = find_requested_answer(request)
    kind = request.scope["path"].partition(".")[2]
    exported = prepare_export(request, stored)
    if exported is None:
        why = _("This answer is not ready: look at it again in a while.")
        if stored.over:
            why = _("This answer failed or was cancelled, so it cannot be downloaded: ask again.")
        return render_problem_page(request, 409, why)
    headers = make_download_headers(f"{stored.question}.{kind}", f"answer-{stored.id}.{kind}")
    body = made(exported, kind).encode("utf-8", "replace")
    return Response(body, headers=headers, media_type=f"{EXPORT_TYPES[kind]}; charset=utf-8")


def make_download_headers(name: str, plain: str) -> dict[str, str]:
    """Return the headers of a download under this name; `plain` is its name in ASCII, for clients
    that know no other (RFC 6266, section 5)."""
    safe = quote(make_safe_file_name(name.replace("/", "_")))
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{safe}; filename=\"{plain}\""}


def prepare_export(request: Request, stored: StoredAnswer) -> ExportedAnswer | None:
    """Return the answer with its pages; None while it is unfinished or if it failed."""
    if stored.answered is None:
        return None
    episode, verdicts = stored.answered.episode, stored.answered.verdicts
    quotes = episode.answer.quotes if episode.answer else ()
    pages = [get_answer_service(request).find_page(quote) for quote in quotes]
    day = time.strftime("%Y-%m-%d", time.gmtime(stored.ended or stored.made))
    asked = stored.question if stored.question != stored.searched else ""
    return ExportedAnswer(episode, verdicts, pages, day, asked, get_export_language())


def get_export_language() -> ExportLanguage:
    """Return the language of the request, for the words of an export."""
    return ExportLanguage(get_language(), translate_borrowed_text)


RECENT_COUNT = 6
HISTORY_LIMIT = 200
KEEPALIVE_SECONDS = 15.0
"""seconds without an event after which a stream sends a keep-alive comment"""
DECLINE_CHOICES = {
    "": mark_text("As this server is set"),
    "0": mark_text("Answer whatever was found"),
    "0.35": mark_text("Decline what is doubtful"),
    "0.6": mark_text("Decline what is not likely right"),
    "0.85": mark_text("Answer only when nearly sure"),
}
"""choices of the decline threshold, as probabilities that the answer is right"""
FORM_OUTCOMES = (*BAD_REQUEST_OUTCOMES, "unknown_model", "busy")
"""outcomes that the person can correct in the form"""


def show_ask_page(request: Request) -> Response:
    """Show the question form, filled in from the URL if a question is repeated."""
    wanted = QuestionRequest(request.query_params.get("question", "")[:2000])
    return render_ask_page(request, wanted)


def submit_question(request: Request) -> Response:
    """Enqueue the submitted question and redirect to its answer page.

    If it is refused for what the person can correct, show the form again with the reason.
    """
    inquiry = find_context(request, parse_question_form(request))
    try:
        answer = get_answer_service(request).enqueue_question(inquiry, get_person_name(request))
    except Failed as failed:
        if failed.failure.outcome not in FORM_OUTCOMES:
            raise
        return render_ask_page(request, inquiry, failed.failure.detail, 400)
    return redirect_after_post(f"/answers/{answer}")


def show_history(request: Request) -> Response:
    """Show the person's questions, newest first and at most 200, that contain all given words."""
    words = request.query_params.get("words", "")[:200]
    found = answer_queue.list_person_answers(
        get_store(request), get_person_name(request), words, HISTORY_LIMIT
    )
    return render_page(request, "asked.html", found=found, words=words, most=HISTORY_LIMIT)


def show_answer_page(request: Request) -> Response:
    """Show an answer: its progress, its result, or the reason why there is none."""
    answering, person = get_answer_service(request), get_person_name(request)
    stored = find_requested_answer(request)
    progress, mine = answering.read_events(stored.id), stored.person == person
    link = make_public_url(request, f"/shared/{stored.link}") if stored.link else ""
    common: dict[str, Any] = {
        "found": stored,
        "conversation": list_readable_answers(request, stored),
        "options": list_option_fields(stored),
        "steps": summarize_events(progress),
        "mine": mine,
        "again": _list_repeat_fields(stored),
        "link": link if mine else "",
    }
    if not stored.over:
        newest = progress[-1].number if progress else -1
        return render_page(
            request, "answering.html", draft=get_draft_text(progress), newest=newest, **common
        )
    if stored.answered is None:
        return render_page(request, "no_answer.html", why=explain_stop(progress), **common)
    view = make_answer_view(stored.answered.episode, stored.answered.verdicts, answering.find_page)
    rating = None
    if stored.answered.episode.answer:
        rating = load_reader_rating(answering.store, stored, person)
    method = get_method_title(stored.wanted.method)
    return render_page(request, "answer.html", shown=view, rated=rating, method=method, **common)


def preview_follow_up(request: Request) -> Response:
    """Return the text that a follow-up question of an answer would be searched with."""
    stored = find_requested_answer(request)
    question = request.query_params.get("question", "")[:2000].strip()
    return PlainTextResponse(join_questions([stored.searched, question]) if question else "")


def cancel_own_answer(request: Request) -> Response:
    """Cancel an answer of the person's own, unless it is finished; 403 for somebody else's."""
    found = find_requested_answer(request)
    if found.person != get_person_name(request):
        return render_problem_page(request, 403, "Only who asked can cancel this.")
    answering = get_answer_service(request)
    answering.cancel_answer(found.id, bool(get_draft_text(answering.read_events(found.id))))
    return redirect_after_post(f"/answers/{found.id}")


def rate_answer(request: Request) -> Response:
    """Store a reader's rating of an answer (up or down) and comment, replacing earlier ones."""
    stored = find_requested_answer(request)
    thumbs, comment = get_posted_values(request, "thumbs", "comment")
    save_answer_rating(get_store(request), stored, get_person_name(request), thumbs, comment)
    return redirect_after_post(f"/answers/{stored.id}?said=noted")


def report_wrong_citation(request: Request) -> Response:
    """Store a reader's report that a citation is wrong."""
    stored, name = find_requested_answer(request), get_person_name(request)
    number, words = get_posted_values(request, "quote", "words")
    counted = int(number) if number.isdecimal() and len(number) < 4 else 0
    flag_citation(get_store(request), stored, name, counted, words)
    return redirect_after_post(f"/answers/{stored.id}?said=noted")


async def stream_answer_page(request: Request) -> Response:
    """Stream an answer's events as server-sent events, from `Last-Event-ID` + 1 on.

    Without that header, from `?after=` + 1 on. Responds 401 to people who are not signed in as
    readers.
    """
    answering = get_answer_service(request)
    try:
        person = await run_in_threadpool(
            accounts.find_session_person, get_store(request), get_session_token(request)
        )
        if person is None or not has_role(person, "reader"):
            return PlainTextResponse("You are not in.", 401)
        stored = await run_in_threadpool(
            answer_queue.find_answer, answering.store, request.path_params["answer"]
        )
        _require_access(stored, person.name)
    except Failed as failed:
        status = 404 if failed.failure.outcome == Outcome.NO_ANSWER else 503
        return PlainTextResponse("There is nothing to be heard.", status)
    newest = request.headers.get("last-event-id") or request.query_params.get("after", "")
    after = int(newest) if newest.isdecimal() and len(newest) < 9 else -1
    return build_event_response(_stream_events(request, answering, stored.id, after))


async def _stream_events(
    request: Request, answering: AnswerService, answer: str, after: int
) -> EventFrames:
    yield b"retry: 1000\n\n"
    while not await request.is_disconnected():
        try:
            progress = await answering.wait_for_events(answer, after, KEEPALIVE_SECONDS)
        except Failed:  # the store is busy; the browser reconnects
            return
        if not progress:
            yield b": still here\n\n"
        for event in progress:
            after, line = event.number, describe_event(event)
            if event.kind == "writing":
                line = msgspec.structs.replace(line, text=get_draft_text([event]))
            yield encode_event(line, number=after)
            if event.kind in FINAL_EVENTS:
                return


def render_ask_page(
    request: Request,
    inquiry: QuestionRequest,
    wrong: str = "",
    status: int = 200,
    several: bool = False,
) -> Response:
    """Render the question form filled in with a request, and with what is `wrong` with it.

    With `several`, it takes several questions for a notebook.
    """
    request.app.state.documents.notice_changes()
    offered = get_answer_service(request).capabilities
    recent = answer_queue.list_person_answers(
        get_store(request), get_person_name(request), most=RECENT_COUNT + 1
    )
    decline = inquiry.decline
    return render_page(
        request,
        "ask.html",
        status,
        wanted=offered.name_method(inquiry),
        wrong=wrong,
        several=several,
        methods=[(name, METHODS[name].title, METHODS[name].summary) for name in offered.methods],
        models=list(offered.models),
        by_models=MODEL_METHODS,
        places=list_searched_places(offered),
        looked=_list_checked_places(offered, inquiry),
        strict=DECLINE_CHOICES,
        chosen="" if decline is None else f"{decline:g}",
        recent=recent[:RECENT_COUNT],
        more=len(recent) > RECENT_COUNT,
    )


def parse_question_form(request: Request) -> QuestionRequest:
    """Parse the question form; values that are not offered are refused later."""
    fields = get_form_fields(request)
    question, method, model, least = get_posted_values(
        request, "question", "method", "model", "decline"
    )
    try:
        decline = float(least) if least else None
    except ValueError:
        decline = -1.0
    places, offline = _narrow_places(fields.get("place")), "offline" in fields
    return QuestionRequest(question, method, model, places, decline, offline)


def find_context(request: Request, inquiry: QuestionRequest) -> QuestionRequest:
    """Return the request as part of the conversation that the form names.

    It begins a new one where the answer that it follows is deleted, or another person's.
    """
    followed = get_posted_value(request, "follows")
    if not followed:
        return inquiry
    try:
        previous = answer_queue.find_answer(get_store(request), followed)
    except Failed as failed:
        if failed.failure.outcome != Outcome.NO_ANSWER:
            raise
        return inquiry
    if previous.person != get_person_name(request):
        return inquiry
    follow_up = answer_queue.follow_answer(inquiry, previous)
    exact = "exact" in get_form_fields(request)
    return msgspec.structs.replace(follow_up, follows="") if exact else follow_up


def _list_checked_places(offered: ServerCapabilities, inquiry: QuestionRequest) -> tuple[str, ...]:
    """Return the names of what is searched; of a place with single files of it, both."""
    if inquiry.places is None:
        return offered.default_places
    files = tuple(inquiry.places)
    return (*files, *(p for p in offered.places if any(f.startswith(f"{p}/") for f in files)))


def _narrow_places(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the chosen places; where single documents are among them, only these of all."""
    if names is None:
        return None
    return tuple(n for n in names if not any(each.startswith(f"{n}/") for each in names))


def find_requested_answer(request: Request) -> StoredAnswer:
    """Return the answer of the address. Raises Failed (no_answer), also for a private one."""
    found = answer_queue.find_answer(get_store(request), request.path_params["answer"])
    _require_access(found, get_person_name(request))
    return found


def _require_access(stored: StoredAnswer, person: str) -> None:
    """Raise Failed (no_answer) unless the person asked, or the answer is shared with the team."""
    if stored.person != person and not stored.team:
        detail = mark_text("there is no such answer, or it is private: ask who asked to share it")
        raise Failed(Failure(stored.id, Outcome.NO_ANSWER, detail))


def post_sharing(request: Request) -> Response:
    """Set with whom an answer of the person's own is shared."""
    found, said = find_requested_answer(request), get_form_fields(request)
    if found.person != get_person_name(request):
        return render_problem_page(request, 403, "Only who asked can share this.")
    store = get_store(request)
    answer_queue.share_answer(store, found.id, "team" in said, "link" in said)
    ended = "withdrawn" if found.link else "shared"
    return redirect_after_post(f"/answers/{found.id}?said={'linked' if 'link' in said else ended}")


def post_deletion(request: Request) -> Response:
    """Delete an answer of the person's own for good, with its ratings."""
    found = find_requested_answer(request)
    if found.person != get_person_name(request):
        return render_problem_page(request, 403, "Only who asked can delete this.")
    item = ""
    if found.answered is not None and found.answered.episode.answer is not None:
        item = _make_item_id(_make_item(found))
    answer_queue.delete_answer(get_store(request), found.id, item)
    return redirect_after_post("/asked?said=deleted")


def show_linked_answer(request: Request) -> Response:
    """Show an answer to whoever has its link, without anything that needs an account."""
    request.state.person = None
    stored = answer_queue.find_linked_answer(get_store(request), request.path_params["link"])
    if stored.answered is None or stored.answered.episode.answer is None:
        return render_problem_page(request, 409, "There is no answer here yet: look again later.")
    outcome, find_page = stored.answered, get_answer_service(request).find_page
    view = make_answer_view(outcome.episode, outcome.verdicts, find_page)
    return render_page(request, "shared.html", found=stored, shown=view)


def list_readable_answers(request: Request, stored: StoredAnswer) -> list[StoredAnswer]:
    """Return the answers of the conversation that the person may read."""
    person, conversation = get_person_name(request), stored.wanted.conversation or stored.id
    every = answer_queue.list_conversation(get_store(request), conversation)
    return [each for each in every if each.person == person or each.team]


def _list_repeat_fields(stored: StoredAnswer) -> list[tuple[str, str]]:
    """Return the form fields that ask the same question again."""
    wanted, fields = stored.wanted, [("question", stored.wanted.question)]
    if wanted.conversation:
        context = wanted.follows or wanted.conversation
        fields += [("follows", context), *([] if wanted.follows else [("exact", "yes")])]
    return fields + list_option_fields(stored)


def list_option_fields(stored: StoredAnswer) -> list[tuple[str, str]]:
    """Return the form fields that ask another question in the same way."""
    wanted = stored.wanted
    fields = [("method", wanted.method), ("model", wanted.model)]
    fields += [("place", place) for place in wanted.places or ()]
    fields += [] if wanted.decline is None else [("decline", f"{wanted.decline:g}")]
    return fields + ([("offline", "yes")] if wanted.offline else [])


def explain_stop(progress: Sequence[AnswerEvent]) -> tuple[str, str]:
    """Return the outcome and the sentence of the event that ended an answer, which is its last one.

    Both are empty without events.
    """
    last = progress[-1].data if progress else {}
    return str(last.get("outcome", "")), str(last.get("detail", ""))


MAX_LINE_CHARACTERS = 160
"""maximum characters of a completion on its line"""
MAX_LISTED_FAILURES = 50
"""maximum failures listed; the others are only counted"""


class AnswerStep(NamedTuple):
    """One step: prompt, completion, and the completion's number of tokens."""

    number: int
    """number of the step, from 1"""
    prompt: str
    said: str
    tokens: int


def show_answer_trace(request: Request) -> Response:
    """Show an answer's steps, the events of its last attempt, and its first 50 distinct failures.

    Raises Failed (no_answer), also for somebody else's private answer.
    """
    stored = find_requested_answer(request)
    episode = stored.answered.episode if stored.answered else None
    failures = episode.failures if episode else ()
    reasons = dict.fromkeys(map(_word_failure, failures))
    sentences = [sanitize_text(each) for each in reasons]
    return render_page(
        request,
        "retrace.html",
        found=stored,
        question=replace_unseen_characters(stored.question),
        episode=episode,
        stop=STOP_DESCRIPTIONS.get(episode.stop, episode.stop) if episode else "",
        events=summarize_events(get_answer_service(request).read_events(stored.id)),
        steps=[
            one._replace(said=cut_between_words(one.said, MAX_LINE_CHARACTERS))
            for one in _list_steps(episode)
        ],
        failures=sentences[:MAX_LISTED_FAILURES],
        more=len(sentences[MAX_LISTED_FAILURES:]),
    )


def show_answer_step(request: Request) -> Response:
    """Show one step of an answer, numbered from 1."""
    stored = find_requested_answer(request)
    steps = _list_steps(stored.answered.episode if stored.answered else None)
    step = request.path_params["step"]
    number = int(step) if step.isascii() and step.isdigit() and len(step) < 6 else 0
    if not 1 <= number <= len(steps):
        return render_problem_page(request, 404, "There is no such step.")
    return render_page(
        request,
        "retrace_step.html",
        found=stored,
        question=replace_unseen_characters(stored.question),
        taken=steps[number - 1],
        count=len(steps),
    )


def _list_steps(episode: Episode | None) -> list[AnswerStep]:
    clean = replace_unseen_characters
    return [
        AnswerStep(n, clean(one.prompt), clean(one.said.text), len(one.said.tokens))
        for n, one in enumerate(episode.steps if episode else (), 1)
    ]


class ProgressLine(Record, frozen=True):
    """An event in words; a later line with the same key replaces it on the page."""

    number: int
    """number of the event"""
    kind: str
    """kind of the event, which is its CSS class, too"""
    key: str
    """equal for events about the same query or page"""
    text: str
    more: str = ""
    """details in a quieter style"""


def describe_event(event: AnswerEvent) -> ProgressLine:
    """Return an event as a line of the progress list."""
    data = event.data
    text, more = _describe_event_data(event.kind, data)
    about = data.get("query") or data.get("url") or data.get("what") or str(event.number)
    key = "end" if event.kind in FINAL_EVENTS else digest_of(str(about))[:12]
    return ProgressLine(event.number, event.kind, key, sanitize_text(text), sanitize_text(more))


def summarize_events(events: Sequence[AnswerEvent]) -> list[ProgressLine]:
    """Return the progress list: events since the last attempt began, the newest line of each key.
    Excludes the text being written and the end."""
    lines: dict[str, ProgressLine] = {}
    for event in events:
        if event.kind == "begun":
            lines.clear()
        if event.kind not in ("asked", "begun", "writing", *FINAL_EVENTS):
            line = describe_event(event)
            lines[line.key] = line
    return list(lines.values())


def get_draft_text(events: Sequence[AnswerEvent]) -> str:
    """Return the draft of the answer that a model is writing; empty if there is none."""
    texts = [event.data["text"] for event in events if event.kind == "writing"]
    return sanitize_text(texts[-1]) if texts else ""


def format_source_name(url: str) -> str:
    """Return a short name: the host of a URL, the name of a file, or a model without its server's
    address."""
    if " at http" in url:
        return url.partition(" at http")[0]
    parts = urlsplit(url)
    return format_host(url) or unquote(parts.path).rpartition("/")[2] or url


def _word_failure(failure: Failure) -> str:
    said = translate_borrowed_text(failure.detail or failure.outcome.replace("_", " "))
    return f"{format_source_name(failure.what)}: {said}"


def _describe_event_data(kind: str, data: dict[str, Any]) -> tuple[str, str]:
    if kind == "rewritten":
        text = _("Understood as “%(question)s”", question=data["question"])
        return text, _("with the question before")
    if kind == "searching":
        return _("Searching “%(query)s”", query=data["query"]), ""
    if kind == "found":
        count = len(data["hits"])
        many = translate_plural("%(num)s page found", "%(num)s pages found", count, num=count)
        return _("Searched “%(query)s”", query=data["query"]), many
    if kind == "opening":
        return _("Opening %(source)s", source=format_source_name(data["url"])), ""
    if kind == "opened":
        title = data["title"] or _("a page without a title")
        return _("Read “%(title)s”", title=title), _describe_size(data)
    if kind == "failed":
        text = _("Not read: %(source)s", source=format_source_name(data["what"]))
        return text, translate_borrowed_text(data.get("detail") or data["outcome"])
    if kind == "saying":
        return data["command"], _("in the text browser")
    if kind == "quote":
        text = cut_between_words(data["quote"]["text"], MAX_LINE_CHARACTERS)
        return f"“{text}”", data["quote"]["title"]
    if kind == "stopped":
        return _("Stopped"), data.get("detail", "")
    return {"asked": _("Waiting for its turn"), "begun": _("Begun")}.get(kind, ""), ""


def _describe_size(data: dict[str, Any]) -> str:
    source, count = format_source_name(data["url"]), format_number(data["chars"])
    return _("%(source)s, %(count)s characters", source=source, count=count)


AGAINST_HEADING = "\nAgainst:\n"
"""heading that separates the two sides in the answer's text"""
MAX_FAILURES = 8
"""maximum failures shown in full; the others are only counted"""


class AnswerPiece(NamedTuple):
    """A part of an answer's text, and the numbers (from 1) of the quotes it rests on."""

    text: str
    cited: tuple[int, ...]
    doubtful: tuple[int, ...] = ()
    """those of them that do not seem to support it"""
    layout: QuoteLayout | None = None
    """that of the quote that it is, where it is a part of a table"""


class QuoteCard(NamedTuple):
    """A quote as the page shows it, with its source and the result of its verification."""

    number: int
    quote: Quote
    layout: QuoteLayout
    source: str
    """host of the page, or name of the file"""
    place: str
    """position in the page: a page number, a heading, or "about 40 % down"; empty if the page is
    not at hand"""
    shown: str
    """path of the stored page with this quote marked"""
    live: str
    """URL of the live page at the quote; empty if it came from a file"""
    verified: bool
    detail: str
    """message of the verification; empty if it found nothing wrong"""


class AnswerSide(NamedTuple):
    """The evidence for a claim, or the evidence against it."""

    name: str
    pieces: list[AnswerPiece]
    nothing: str
    """sentence for a side without quotes; empty otherwise"""


class AnswerView(NamedTuple):
    """Everything that the page of an answer shows, also if there is none."""

    episode: Episode
    pieces: list[AnswerPiece]
    cards: list[QuoteCard]
    claim: str
    """the claim, if the answer has two sides"""
    sides: list[AnswerSide]
    """the evidence for and against the claim; empty for other answers"""
    footer: str
    """sentence that says who judged the two sides"""
    why: str
    """reason why there is no answer; empty if there is one"""
    counts: list[str]
    """sentences that count failures by kind"""
    failures: list[str]
    """failures in words, without repetitions"""
    remarks: list[str]
    """what is remarked on the citations of an answer"""
    decline: str
    """sentence that says why a model's answer is declined; else empty"""
    refused: bool
    """the model said that there is no answer"""
    score: str
    """score of the answer in words; empty if it has none"""
    score_meaning: str
    """sentence on the meaning of the score; empty if none is known"""
    verbatim: bool
    """the answer is its quotes, word for word and nothing else"""
    asked: str
    """question whose answering words are marked in quotes; empty: a model wrote the text"""


def make_answer_view(
    episode: Episode, verdicts: Sequence[Verdict], page_of: Callable[[Quote], Page | None]
) -> AnswerView:
    """Return what the page of an answer shows. `verdicts` are the verified quotes in order;
    `page_of` returns a quote's stored page, or None."""
    answer = episode.answer
    question = episode.question.text
    cards = [
        make_quote_card(number, each, page_of(each.quote), question)
        for number, each in enumerate(verdicts, 1)
    ]
    pieces = _split_answer_pieces(answer.text, answer.claims) if answer else []
    pieces = [_lay_out_piece(piece, cards) for piece in pieces]
    claim, sides, footer = "", list[AnswerSide](), ""
    if answer and episode.by == SIDES and not answer.declined and AGAINST_HEADING in answer.text:
        claim, sides, footer = _split_sides(answer)
    episode, remarks = split_remarks(episode)
    reasons = dict.fromkeys(map(_word_failure, episode.failures))
    refused = is_declined_by_model(episode)
    return AnswerView(
        episode,
        pieces,
        cards,
        claim,
        sides,
        footer,
        "" if answer else NO_ANSWER_MESSAGES.get(episode.stop, f"no answer: {episode.stop}"),
        format_failure_counts(episode.failures, translate_borrowed_text),
        [sanitize_text(each) for each in list(reasons)[:MAX_FAILURES]],
        [sanitize_text(translate_borrowed_text(each)) for each in remarks],
        _("The model found no answer in what it was shown.") if refused else "",
        refused,
        word_score(episode),
        explain_score(episode),
        bool(cards) and [p.text.strip() for p in pieces] == [c.layout.text for c in cards],
        question if episode.by == "extract" else "",
    )


def _lay_out_piece(piece: AnswerPiece, cards: Sequence[QuoteCard]) -> AnswerPiece:
    """Return a piece that is a quote as the quote is laid out, and any other as it is."""
    layout = cards[piece.cited[0] - 1].layout if piece.cited else None
    text = piece.text.lstrip()
    if layout is None or text != cards[piece.cited[0] - 1].quote.text:
        return piece
    before = piece.text[: len(piece.text) - len(text)]
    return piece._replace(text=before + layout.text, layout=layout if layout.rows else None)


def make_quote_card(
    number: int, verdict: Verdict, page: Page | None, question: str = ""
) -> QuoteCard:
    """Return a quote as a card; `page` gives its place, if it is the version that was quoted."""
    quote = verdict.quote
    return QuoteCard(
        number,
        quote,
        lay_out_quote(quote, page, question),
        "" if (source := format_source_name(quote.url)) == quote.title else source,
        describe_location(page, quote.start) if page and page.digest == quote.digest else "",
        make_quote_address(quote),
        make_deep_link(quote, page) if is_url(quote.url) else "",
        verdict.verified,
        verdict.detail,
    )


def _split_answer_pieces(text: str, claims: Sequence[Claim], start: int = 0) -> list[AnswerPiece]:
    pieces, last = list[AnswerPiece](), start
    for claim in claims:
        cited, doubtful = (tuple(n + 1 for n in each) for each in (claim.quotes, claim.doubtful))
        pieces.append(AnswerPiece(text[last : claim.end], cited, doubtful))
        last = max(last, claim.end)
    return [*pieces, AnswerPiece(text[last:], ())] if text[last:].strip() else pieces


def _split_sides(answer: Answer) -> tuple[str, list[AnswerSide], str]:
    """Return the claim, what is for and against it, and the sentence on who judged."""
    head, _, rest = answer.text.partition("\n")
    middle = answer.text.index(AGAINST_HEADING)
    against, _, footer = rest.partition(AGAINST_HEADING)[2].rpartition("\n\n")
    parts = {"For": (rest.partition("For:\n")[2].partition(AGAINST_HEADING)[0], range(middle))}
    parts["Against"] = against, range(middle, len(answer.text))
    sides = []
    for name, (text, where) in parts.items():
        claims = [claim for claim in answer.claims if claim.start in where]
        pieces = [
            AnswerPiece(answer.text[each.start : each.end], tuple(n + 1 for n in each.quotes))
            for each in claims
        ]
        sides.append(AnswerSide(name, pieces, "" if pieces else text.strip()))
    return head.removeprefix("Claim: "), sides, footer


RATINGS_BATCH = "reading"
"""source of the items, and name of their batch"""
THUMBS_FORM = FORMS["thumbs"]
WRONG_CITATION = "citation {} is wrong"
"""reason of a flag; it says which citation is meant"""
MAX_COMMENT_CHARACTERS = 2000
"""maximum characters of a comment"""


class ReaderRating(NamedTuple):
    """One person's rating of an answer."""

    thumbs: str
    """"up", "down" or empty"""
    comment: str
    wrong: frozenset[int]
    """numbers of the citations (from 1) that the person reported as wrong"""


def save_answer_rating(
    store: Store, stored: StoredAnswer, person: str, thumbs: str, comment: str
) -> None:
    """Store a person's rating of an answer with a comment; it replaces their earlier one.

    Raises Failed (not_rated) if `thumbs` is neither "up" nor "down", or there is no answer to rate.
    """
    item = _make_item(stored)
    raw = {"thumbs.0": [thumbs], "comment": [comment.strip()[:MAX_COMMENT_CHARACTERS]]}
    read = form_parsing.parse_form(THUMBS_FORM, item, (0,), raw, whole=False)
    if read.problems:
        raise Failed(Failure(stored.id, Outcome.NOT_RATED, "say whether the answer is good or bad"))
    key = _store_item(store, item)
    before = [
        each for each in _list_judgements(store, key, person) if each.kind in ("done", "extra")
    ]
    judgement = _make_judgement(store, stored, key, person, "done", read.filled)
    if not before:
        labelling_queue.restore_judgements(store, [judgement])
    elif before[0].filled != read.filled:
        labelling_queue.correct_judgement(
            store, msgspec.structs.replace(judgement, supersedes=before[0].id)
        )


def flag_citation(store: Store, stored: StoredAnswer, person: str, number: int, words: str) -> None:
    """Store that a person reports citation `number` (from 1) as wrong, with their words.

    The same report again changes nothing; one with other words is kept beside the first. Raises
    Failed (not_rated) if there is no answer, or no such citation in it.
    """
    answer = _get_answer(stored)
    if not 1 <= number <= len(answer.quotes):
        raise Failed(Failure(stored.id, Outcome.NOT_RATED, "name a citation that the answer has"))
    reason = ": ".join(
        filter(None, [WRONG_CITATION.format(number), words.strip()[:MAX_COMMENT_CHARACTERS]])
    )
    key = _store_item(store, _make_item(stored))
    judgement = _make_judgement(store, stored, key, person, "flagged", {"reason": reason}, reason)
    labelling_queue.restore_judgements(store, [judgement])


def load_reader_rating(store: Store, stored: StoredAnswer, person: str) -> ReaderRating:
    """Return a person's present rating of an answer; its fields are empty where they gave none.

    `stored.answered` must not be None. Raises Failed (not_rated) if its episode has no answer.
    """
    ratings = _list_judgements(store, _make_item_id(_make_item(stored)), person)
    verdicts = [each.filled for each in ratings if each.kind in ("done", "extra")]
    thumbs, comment = "", ""
    if verdicts:
        (thumbs,), comment = verdicts[0]["thumbs"], verdicts[0].get("comment", "")
    reasons = [str(each.filled.get("reason", "")) for each in ratings if each.kind == "flagged"]
    numbers = range(1, len(_get_answer(stored).quotes) + 1)
    wrong = {
        n for n in numbers if any(r.partition(":")[0] == WRONG_CITATION.format(n) for r in reasons)
    }
    return ReaderRating(thumbs, comment, frozenset(wrong))


def _make_item(stored: StoredAnswer) -> LabellingItem:
    answer = _get_answer(stored)
    assert stored.answered is not None  # or there were no answer
    episode = stored.answered.episode
    writer = " ".join(filter(None, [episode.by, stored.wanted.model]))
    return LabellingItem(
        THUMBS_FORM.name, episode.question, (answer,), (writer,), source=RATINGS_BATCH
    )


def _get_answer(stored: StoredAnswer) -> Answer:
    """Return the answer. Raises Failed (not_rated) if there is none."""
    if stored.answered is None or stored.answered.episode.answer is None:
        raise Failed(
            Failure(stored.id, Outcome.NOT_RATED, "there is no answer that could be rated")
        )
    return stored.answered.episode.answer


def _store_item(store: Store, item: LabellingItem) -> str:
    """Store the item if it is new, and return its id."""
    labelling_queue.add_items(store, [item], RATINGS_BATCH, people_wanted=1)
    return _make_item_id(item)


def _make_item_id(item: LabellingItem) -> str:
    return digest_of(f"{RATINGS_BATCH}\n{item.to_json()}")


def _list_judgements(store: Store, item: str, person: str) -> list[Judgement]:
    """Return a person's judgements of an item, newest first."""
    its = (judgements.c.item == item) & (judgements.c.person == person)
    query = select(judgements.c.body).where(its).order_by(judgements.c.number.desc())
    with store.begin_read() as connection:
        return [Judgement.from_json(body) for body in connection.scalars(query)]


def _make_judgement(
    store: Store,
    stored: StoredAnswer,
    item: str,
    person: str,
    kind: JudgementKind,
    filled: dict[str, object],
    about: str = "",
) -> Judgement:
    return Judgement(
        id=digest_of(f"{RATINGS_BATCH} {item} {person} {kind} {about}"),
        item=item,
        by=person,
        kind=kind,
        filled=filled,
        form_version=THUMBS_FORM.digest,
        guide_version=form_versions.load_guide(store, THUMBS_FORM.name).version,
        order=(0,),
        whole=False,
        began=stored.ended or stored.made,
        ended=store.clock(),
    )


MAX_QUESTIONS = 50
"""maximum number of questions that are asked at once"""
MAX_TITLE_CHARACTERS = 200
"""maximum characters of a report's title"""


class NotebookRow(NamedTuple):
    """A question of a notebook, with its answer as it is shown."""

    number: int
    found: StoredAnswer
    shown: AnswerView | None
    """None: it is under way, or there is no answer"""
    why: str
    """reason why there is no answer; empty if there is one, or none yet"""


def show_new_notebook(request: Request) -> Response:
    """Show the form for several questions, one a line."""
    return render_ask_page(request, QuestionRequest(""), several=True)


def post_questions(request: Request) -> Response:
    """Enqueue each line of the form as a question of one conversation, and show its notebook.

    All are refused, with the form and the reason, where one is no question or the queue has no room
    for all of them.
    """
    fields, answering = get_form_fields(request), get_answer_service(request)
    text = get_last_value(fields, "questions")
    lines = list(dict.fromkeys(line.strip() for line in text.split("\n") if line.strip()))
    inquiry = find_context(request, parse_question_form(request))
    try:
        if not 1 <= len(lines) <= MAX_QUESTIONS:
            detail = _("ask 1 to %(most)s questions, each on a line of its own", most=MAX_QUESTIONS)
            raise Failed(Failure("questions", Outcome.BAD_QUESTION, detail))
        requests = [msgspec.structs.replace(inquiry, question=line, follows="") for line in lines]
        first = answering.enqueue_questions(requests, get_person_name(request))[0]
    except Failed as failed:
        if failed.failure.outcome not in FORM_OUTCOMES:
            raise
        form_state = msgspec.structs.replace(inquiry, question=text)
        return render_ask_page(request, form_state, failed.failure.detail, 400, several=True)
    return redirect_after_post(f"/answers/{first}/notebook")


def show_notebook(request: Request) -> Response:
    """Show the answers of a conversation that the person may read, with their quotes.

    Questions that are under way or have no answer are shown without one.
    """
    stored = find_requested_answer(request)
    answers = enumerate(list_readable_answers(request, stored), 1)
    rows = [_make_row(request, number, each) for number, each in answers]
    return render_page(
        request,
        "notebook.html",
        found=stored,
        rows=rows,
        title=_suggest_title([row.found for row in rows]),
        options=list_option_fields(stored),
        mine=stored.person == get_person_name(request),
        going=sum(not row.found.over for row in rows),
        kinds=(("html", mark_text("Web page")), ("md", "Markdown"), ("docx", "Word")),
    )


def download_report(request: Request) -> Response:
    """Return a conversation's answers as one file; 409 while some are under way."""
    kind = request.path_params["kind"]
    if kind not in REPORT_TYPES:
        return render_problem_page(request, 404, "There is no such page.")
    answers = list_readable_answers(request, find_requested_answer(request))
    if going := sum(not each.over for each in answers):
        why = translate_plural(
            "Not ready: one question is under way. Save the report when all are done.",
            "Not ready: %(num)s questions are under way. Save the report when all are done.",
            going,
            num=going,
        )
        return render_problem_page(request, 409, why)
    title = " ".join(request.query_params.get("title", "").split())[:MAX_TITLE_CHARACTERS]
    title = title or _suggest_title(answers)
    report = ExportedReport(
        title,
        [_export_stored_answer(request, each) for each in answers],
        time.strftime("%Y-%m-%d", time.gmtime()),
        get_export_language(),
    )
    headers = make_download_headers(f"{title}.{kind}", f"report-{answers[0].id}.{kind}")
    body = render_report(report, kind)
    return Response(body, headers=headers, media_type=REPORT_TYPES[kind])


def _make_row(request: Request, number: int, stored: StoredAnswer) -> NotebookRow:
    answering = get_answer_service(request)
    if stored.answered is None:
        return NotebookRow(number, stored, None, _explain_missing(request, stored))
    outcome = stored.answered
    shown = make_answer_view(outcome.episode, outcome.verdicts, answering.find_page)
    return NotebookRow(number, stored, shown, shown.why)


def _explain_missing(request: Request, stored: StoredAnswer) -> str:
    """Return the reason why there is no answer; empty while it is under way."""
    if not stored.over:
        return ""
    outcome, detail = explain_stop(get_answer_service(request).read_events(stored.id))
    return "cancelled" if outcome == "cancelled" else detail or outcome


def _export_stored_answer(request: Request, stored: StoredAnswer) -> ExportedAnswer:
    told = prepare_export(request, stored)
    if told is not None:
        return told
    day = time.strftime("%Y-%m-%d", time.gmtime(stored.ended or stored.made))
    stop = _explain_missing(request, stored)
    question, method = Question(stored.id, stored.question), stored.wanted.method
    episode = Episode(question, method, stop=stop)
    return ExportedAnswer(episode, (), (), day, language=get_export_language())


def _suggest_title(answers: Sequence[StoredAnswer]) -> str:
    """Return a title that names the first question, and says how many others there are."""
    others = len(answers) - 1
    if not others:
        return answers[0].question
    return translate_plural(
        "%(question)s and %(num)s other question",
        "%(question)s and %(num)s other questions",
        others,
        question=answers[0].question,
        num=others,
    )


ANSWER_PAGES: Mapping[str, PageHandler] = {
    # .csl.json before .json
    **{
        f"/answers/{{answer}}.{kind}": export_answer
        for kind in sorted(EXPORT_TYPES, key=len, reverse=True)
    },
    "/answers/{answer}/trace": show_answer_trace,
    "/answers/{answer}/trace/{step}": show_answer_step,
    "/": show_ask_page,
    "POST /ask": submit_question,
    "/asked": show_history,
    "/answers/{answer}": show_answer_page,
    "/answers/{answer}/searched": preview_follow_up,
    "POST /answers/{answer}/cancel": cancel_own_answer,
    "POST /answers/{answer}/rate": rate_answer,
    "POST /answers/{answer}/wrong": report_wrong_citation,
    "POST /answers/{answer}/share": post_sharing,
    "POST /answers/{answer}/delete": post_deletion,
    "/notebook": show_new_notebook,
    "POST /notebook": post_questions,
    "/answers/{answer}/notebook": show_notebook,
    "/answers/{answer}/report.{kind}": download_report,
}
"""pages of questions, answers and notebooks, for readers"""
