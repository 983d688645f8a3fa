"""Persistent answer queue, and the workers that answer from it in threads beside the web pages.

A question is stored before anything else happens, and so are its events. So every worker process
can show any answer, and continue one whose worker has died.
"""

import asyncio
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, delete, insert, or_, select, update
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from rookery.answers.methods import get_method_title
from rookery.desk.store import Store, append_event, read_events, take_advisory_lock
from rookery.desk.tables import (
    answers,
    decisions,
    drafts,
    events,
    flag_replies,
    items,
    judgements,
    leases,
    slots,
    work_signs,
)
from rookery.errors import USER_ERROR_OUTCOMES, Failed, Outcome
from rookery.library.page_archive import PageArchive
from rookery.library.worker_processes import count_cores
from rookery.quotes.verification import Verdict
from rookery.records import Episode, Failure, Library, Page, Question, Quote, prepare_type
from rookery.server.api.answer_sessions import (
    DOCUMENT_GONE,
    AnswerCancelledError,
    AnswerEvent,
    AnswerOutcome,
    DomainFilteredLibrary,
    EventKind,
    EventListener,
    QuestionRequest,
    ServerCapabilities,
    SharedSessionPool,
    list_capabilities,
    parse_requested_question,
    resolve_settings,
)
from rookery.server.api.endpoints import is_answer_charged, refund_key
from rookery.settings import Settings, locate_archive

if TYPE_CHECKING:
    from rookery.evidence.evidence_model import EvidenceTokenizer


MAX_ATTEMPTS = 3
"""workers that may crash on a question before it is abandoned"""
OPEN_STATES = ("asked", "going")
"""states of answers that are not finished"""


class StoredAnswer(NamedTuple):
    """An answer as stored, finished or not."""

    id: str
    person: str
    question: str
    wanted: QuestionRequest
    state: str
    """one of asked, going, done and failed"""
    answered: AnswerOutcome | None
    made: float
    ended: float | None
    team: bool
    """True if other readers of the server may read it"""
    link: str
    """secret of the address at which anybody may read it; empty if there is none"""

    @property
    def searched(self) -> str:
        """The question as it was searched: a follow-up with what it leans on."""
        return self.answered.episode.question.text if self.answered else self.question

    @property
    def over(self) -> bool:
        """True if the answer is finished and no more events follow."""
        return self.state not in OPEN_STATES


class AnswerSummary(NamedTuple):
    """One row of a person's list of answers."""

    id: str
    question: str
    method: str
    """label of the method"""
    outcome: str | None
    """one of answered, declined and stopped; None while the answer is unfinished"""
    quotes: int | None
    made: float
    searched: str
    """the question as it was searched: a follow-up with what it leans on"""
    certain: bool
    """False if it is a possible answer, to be checked"""


class AnswerLease(NamedTuple):
    """A worker's lease on an answer."""

    id: str
    token: str
    person: str
    wanted: QuestionRequest
    last_event: int
    """number of the newest event stored before the lease; -1 if there is none"""


def name_event_stream(answer: str) -> str:
    """Return the name of an answer's stream in the event table."""
    return f"answer:{answer}"


def name_conversation_stream(conversation: str) -> str:
    """Return the name of the event stream that lists the later answers of a conversation."""
    return f"conversation:{conversation}"


def enqueue_answers(
    store: Store, requests: Sequence[tuple[QuestionRequest, str]], person: str, token: str = ""
) -> list[str]:
    """Add requests with their questions to the queue, all or none; return the ids of the answers.

    Those of no conversation are in that of the first. `token` is the `ApiKey.token` whose budget
    was charged, empty if none was; once an answer has ended it is given back unless
    `is_answer_charged`.
    """
    now, ids = store.clock(), list[str]()
    with store.begin_write() as connection:
        for inquiry, question in requests:
            key, conversation = secrets.token_urlsafe(12), inquiry.conversation or "".join(ids[:1])
            stored = msgspec.structs.replace(
                inquiry, earlier=(), replies=(), conversation=conversation
            )
            row = {"id": key, "person": person, "question": question, "wanted": stored.to_json()}
            data = {"question": question, "method": inquiry.method, "model": inquiry.model}
            connection.execute(insert(answers).values(**row, state="asked", tries=0, made=now))
            _append_events(connection, key, person, [("asked", data)], now)
            if conversation:
                stream = name_conversation_stream(conversation)
                append_event(connection, stream, person, key, now)
            if token:
                append_event(connection, _name_charge_stream(key), person, token, now)
            ids.append(key)
    return ids


def find_answer(store: Store, answer: str) -> StoredAnswer:
    """Return the answer with this id. Raises Failed (no_answer)."""
    with store.begin_read() as connection:
        row = connection.execute(select(answers).where(answers.c.id == answer)).first()
    if row is None:
        raise Failed(
            Failure(answer[:80], Outcome.NO_ANSWER, "no such answer: look in your history")
        )
    return _build_stored_answer(row)


def find_standing_question(store: Store, answer: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the question that was searched for an answer, and the answer's text, each in a tuple.

    The tuples are empty where there is no such answer, as for an empty id or a deleted one.
    """
    with store.begin_read() as connection:
        row = connection.execute(select(answers).where(answers.c.id == answer)).first()
    if row is None:
        return (), ()
    stored = _build_stored_answer(row)
    answer_made = stored.answered.episode.answer if stored.answered else None
    return (stored.searched,), (answer_made.text if answer_made else "",)


def follow_answer(inquiry: QuestionRequest, before: StoredAnswer) -> QuestionRequest:
    """Return the request as a follow-up of the answer `before`, in the same conversation."""
    conversation = before.wanted.conversation or before.id
    return msgspec.structs.replace(inquiry, conversation=conversation, follows=before.id)


def list_conversation(store: Store, conversation: str) -> list[StoredAnswer]:
    """List the answers of a conversation, oldest first, without those that are deleted.

    They are all answers, whoever may read them; empty for an unknown id.
    """
    with store.begin_read() as connection:
        told = [conversation, *read_events(connection, name_conversation_stream(conversation))]
        rows = connection.execute(select(answers).where(answers.c.id.in_(told)))
        return sorted(map(_build_stored_answer, rows), key=lambda each: told.index(each.id))


def find_linked_answer(store: Store, link: str) -> StoredAnswer:
    """Return the answer with the secret `link`. Raises Failed (no_answer)."""
    with store.begin_read() as connection:
        row = connection.execute(select(answers).where(answers.c.link == link)).first()
    if row is None:
        detail = "there is no such answer, or it is not shared any more"
        raise Failed(Failure("the link", Outcome.NO_ANSWER, detail))
    return _build_stored_answer(row)


def share_answer(store: Store, answer: str, team: bool, linked: bool) -> None:
    """Set whether the team may read an answer, and whether anybody may who has a link.

    A link that is there stays. A withdrawn one never works again: the next has another secret.
    """
    with store.begin_write() as connection:
        its = answers.c.id == answer
        former = connection.scalar(select(answers.c.link).where(its))
        link = (former or secrets.token_urlsafe(24)) if linked else None
        connection.execute(update(answers).where(its).values(team=team, link=link))


def delete_answer(store: Store, answer: str, item: str = "") -> None:
    """Delete an answer for good, with its events, and the readers' ratings of `item`.

    An unfinished one is cancelled first. What the API charged for it stays charged or not as it
    was.
    """
    cancel_answer(store, answer)
    streams = name_event_stream(answer), _name_charge_stream(answer)
    with store.begin_write() as connection:
        rated = select(judgements.c.id).where(judgements.c.item == item)
        connection.execute(delete(flag_replies).where(flag_replies.c.judgement.in_(rated)))
        for table in (decisions, work_signs, judgements, drafts, leases, slots):
            connection.execute(delete(table).where(table.c.item == item))
        connection.execute(delete(items).where(items.c.id == item))
        connection.execute(delete(events).where(events.c.stream.in_(streams)))
        connection.execute(delete(answers).where(answers.c.id == answer))


def list_quoting_answers(store: Store, digest: str) -> Sequence[Row[Any]]:
    """List the answers that name the digest of a text, oldest first; none for an empty one."""
    query = select(answers).where(answers.c.episode.contains(digest, autoescape=True))
    with store.begin_read() as connection:
        return connection.execute(query.order_by(answers.c.made)).all() if digest else ()


def list_person_answers(
    store: Store, person: str, words: str = "", most: int = 50
) -> list[AnswerSummary]:
    """List up to `most` answers of a person, newest first, whose question contains all words.

    Words may be parts of words, in any case; the question is the one that was asked.
    """
    query = select(answers).where(answers.c.person == person)
    for word in words.split():
        query = query.where(answers.c.question.icontains(word, autoescape=True))
    with store.begin_read() as connection:
        rows = connection.execute(query.order_by(answers.c.made.desc()).limit(most)).all()
    return list(map(_summarize_row, rows))


class _ShownEpisode(msgspec.Struct):
    """The parts of a stored episode that a list shows."""

    question: Question
    answer: dict[str, msgspec.Raw] | None = None


def _summarize_row(row: Row[Any]) -> AnswerSummary:
    searched, certain = str(row.question), True
    if row.episode is not None:
        episode = msgspec.json.decode(row.episode, type=prepare_type(_ShownEpisode))
        searched, certain = episode.question.text, "certain" not in (episode.answer or {})
    method = get_method_title(QuestionRequest.from_json(row.wanted).method)
    common = row.id, row.question, method, row.outcome, row.quotes, row.made
    return AnswerSummary(*common, searched, certain)


def list_waiting_answers(store: Store, later: float = 0.0) -> list[str]:
    """List ids of up to 100 answers without a worker, oldest first.

    These were enqueued at least `later` seconds ago, or their lease has expired.
    """
    now = store.clock()
    expired = (answers.c.state == "going") & (answers.c.until < now)
    fresh = (answers.c.state == "asked") & (answers.c.made <= now - later)
    query = select(answers.c.id).where(or_(expired, fresh)).order_by(answers.c.made).limit(100)
    with store.begin_read() as connection:
        return list(connection.scalars(query))


def lease_answer(store: Store, answer: str, lease: float) -> AnswerLease | None:
    """Lease an answer for `lease` seconds; None if it is finished or leased by another worker.

    An answer whose workers crashed MAX_ATTEMPTS times is marked as failed instead.
    """
    now, token = store.clock(), secrets.token_urlsafe(12)
    expired = (answers.c.state == "going") & (answers.c.until < now)
    free = (answers.c.id == answer) & or_(answers.c.state == "asked", expired)
    with store.begin_write() as connection:
        mine = {"state": "going", "token": token, "until": now + lease}
        statement = update(answers).where(free).values(**mine, tries=answers.c.tries + 1)
        if connection.execute(statement).rowcount == 0:
            return None
        row = connection.execute(select(answers).where(answers.c.id == answer)).one()
        if row.tries > MAX_ATTEMPTS:
            detail = "this question ended the server more than once: ask it in other words"
            _stop_answer(connection, row, now, "given_up", detail)
            return None
        after = len(_read_events(connection, answer)) - 1
    return AnswerLease(answer, token, row.person, QuestionRequest.from_json(row.wanted), after)


def append_answer_events(
    store: Store, leased: AnswerLease, progress: Sequence[tuple[EventKind, Any]], lease: float
) -> bool:
    """Append events and renew the lease; False if the lease was lost."""
    now = store.clock()
    with store.begin_write() as connection:
        if connection.execute(_update_leased(leased).values(until=now + lease)).rowcount == 0:
            return False
        _append_events(connection, leased.id, leased.person, progress, now)
    return True


def complete_answer(
    store: Store,
    leased: AnswerLease,
    answered: AnswerOutcome | None,
    progress: Sequence[tuple[EventKind, Any]],
) -> bool:
    """Store the result and the last events, and end the lease; False if the lease was lost.

    Without a result (`answered` is None) the answer is marked as failed. Its outcome is the kind of
    the last event, of which there must be one. The charge is given back unless `is_answer_charged`.
    """
    now = store.clock()
    values: dict[str, Any] = {"state": "failed", "token": None, "until": None}
    values |= {"outcome": progress[-1][0], "ended": now}
    if answered is not None:
        values |= {
            "state": "done",
            "quotes": len(answered.verdicts),
            "episode": answered.episode.to_json(),
            "verdicts": msgspec.json.encode(answered.verdicts).decode(),
        }
    with store.begin_write() as connection:
        if connection.execute(_update_leased(leased).values(**values)).rowcount == 0:
            return False
        _append_events(connection, leased.id, leased.person, progress, now)
        if not is_answer_charged(answered.episode if answered else None):
            _refund_answer(connection, leased.id, leased.person, now)
    return True


def release_answer(store: Store, leased: AnswerLease) -> None:
    """Return a leased answer to the queue, the attempt not counted, unless the lease is lost."""
    back = {"state": "asked", "token": None, "until": None, "tries": answers.c.tries - 1}
    with store.begin_write() as connection:
        connection.execute(_update_leased(leased).values(**back))


def cancel_answer(store: Store, answer: str, text_sent: bool = False) -> bool:
    """Cancel an unfinished answer; False if it was finished already.

    With `text_sent`, some of its text was shown to the client, so that it stays charged.
    """
    by_id, now = answers.c.id == answer, store.clock()
    with store.begin_write() as connection:
        row = connection.execute(
            select(answers).where(by_id, answers.c.state.in_(OPEN_STATES))
        ).first()
        if row is None:
            return False
        detail = "the question was cancelled by its author"
        _stop_answer(connection, row, now, "cancelled", detail, text_sent)
    return True


def read_answer_events(store: Store, answer: str, after: int = -1) -> list[AnswerEvent]:
    """Return an answer's events in order, from number `after` + 1 on."""
    with store.begin_read() as connection:
        return _read_events(connection, answer)[after + 1 :]


def _update_leased(leased: AnswerLease) -> Any:
    its: ColumnElement[bool] = (answers.c.id == leased.id) & (answers.c.token == leased.token)
    return update(answers).where(its)


def _stop_answer(
    connection: Connection,
    row: Row[Any],
    now: float,
    outcome: str,
    detail: str,
    text_sent: bool = False,
) -> None:
    over = {"state": "failed", "token": None, "until": None, "outcome": "stopped", "ended": now}
    connection.execute(update(answers).where(answers.c.id == row.id).values(**over))
    last: tuple[EventKind, Any] = ("stopped", {"outcome": outcome, "detail": detail})
    _append_events(connection, row.id, row.person, [last], now)
    if not is_answer_charged(None, text_sent):
        _refund_answer(connection, row.id, row.person, now)


def _refund_answer(connection: Connection, answer: str, person: str, now: float) -> None:
    """Give back the charge of an answer, once; nothing if no key was charged for it."""
    stream = _name_charge_stream(answer)
    take_advisory_lock(connection, f"events {stream}")
    told = read_events(connection, stream)
    if len(told) == 1:
        refund_key(connection, told[0])
        append_event(connection, stream, person, "refunded", now)


def _name_charge_stream(answer: str) -> str:
    """Return the stream of an answer's charge: the key's token, then "refunded" if it was."""
    return f"charge:{answer}"


def _append_events(
    connection: Connection,
    answer: str,
    person: str,
    progress: Sequence[tuple[EventKind, Any]],
    at: float,
) -> None:
    """Append events as one row of the event table."""
    if progress:
        body = msgspec.json.encode(progress).decode()
        append_event(connection, name_event_stream(answer), person, body, at)


def _read_events(connection: Connection, answer: str) -> list[AnswerEvent]:
    told: list[tuple[EventKind, dict[str, Any]]] = []
    for body in read_events(connection, name_event_stream(answer)):
        told += msgspec.json.decode(body, type=prepare_type(list[tuple[EventKind, dict[str, Any]]]))
    return [AnswerEvent(number, kind, data) for number, (kind, data) in enumerate(told)]


def _build_stored_answer(row: Row[Any]) -> StoredAnswer:
    answered = None
    if row.episode is not None:
        verdicts = msgspec.json.decode(row.verdicts, type=prepare_type(tuple[Verdict, ...]))
        answered = AnswerOutcome(Episode.from_json(row.episode), verdicts)
    wanted = QuestionRequest.from_json(row.wanted)
    return StoredAnswer(
        row.id, row.person, row.question, wanted, row.state, answered, row.made, row.ended,
        row.team, row.link or "",
    )  # fmt: skip


_LOG = logging.getLogger("rookery.reading")

PROGRESS_INTERVAL = 0.15
"""minimum seconds between two "writing" events, which carry the text so far"""
FINISH_RETRY_DELAYS = (0.0, 0.5, 2.0)
"""seconds to wait before each attempt to store the finished answer"""
PendingEvents = list[tuple[EventKind, Any]]
"""kind and data of events that are not yet numbered or stored"""


class LiveAnswer:
    """An answer that a worker of this process has leased: its events, and its lease in the queue.

    Thread-safe; events go to the store with `flush`, and `wake` is called at once with the id of
    the answer at each change.
    """

    def __init__(
        self, store: Store, leased: AnswerLease, lease: float, wake: Callable[[str], None]
    ) -> None:
        self.lease = leased
        self._store = store
        self._wake = wake
        self._lease_seconds = lease
        self._events: list[AnswerEvent] = []
        self._pending: PendingEvents = []
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._last_progress = 0.0
        self.stopped = False
        """True if the work is over, was given up, or was lost to another worker."""

    def publish_event(self, kind: EventKind, data: dict[str, Any]) -> None:
        """Add an event; drop "writing" events that come too fast. Raises AnswerCancelledError if
        the work was stopped."""
        if self.stopped:
            raise AnswerCancelledError
        if kind == "writing":
            now = time.monotonic()
            if now - self._last_progress < PROGRESS_INTERVAL:
                return
            self._last_progress = now
        self._append_events([(kind, data)])

    def list_events_after(self, number: int) -> list[AnswerEvent]:
        """Return the events numbered above `number`, those of earlier workers read from the
        store."""
        first = self.lease.last_event + 1
        with self._lock:
            here = self._events[max(0, number + 1 - first) :]
        if number + 1 >= first:
            return here
        before = read_answer_events(self._store, self.lease.id, number)
        return [event for event in before if event.number < first] + here

    def stop(self) -> None:
        """Stop the work: the worker's next event raises, and everyone who waits is woken."""
        self.stopped = True
        self._wake(self.lease.id)

    def flush(self, beat: bool = False) -> None:
        """Store the events not yet stored and renew the lease; without such events, renew it only
        with `beat`. Stops the work if the lease is lost. Raises Failed as the store does."""
        with self._writing:
            with self._lock:
                pending = self._pending
                self._pending = []
            if not (pending or beat) or self.stopped:
                return
            try:
                mine = append_answer_events(self._store, self.lease, pending, self._lease_seconds)
            except BaseException:
                with self._lock:
                    self._pending = pending + self._pending
                raise
        if not mine:
            self.stop()

    def finish(self, answered: AnswerOutcome) -> None:
        """Store the finished answer with its quotes and its last event, then tell listeners.

        Nobody is told where the lease was lost. Blocks for up to 2.5 seconds between three attempts
        to store it, and raises Failed after the last.
        """
        answer, last_events = answered.episode.answer, PendingEvents()
        for number, verdict in enumerate(answered.verdicts, 1):
            quote = {**msgspec.to_builtins(verdict), "number": number}
            last_events.append(("quote", quote))
        if answer is None:
            why = "; ".join(failure.detail for failure in answered.episode.failures[:1])
            last_events.append(("stopped", {"outcome": answered.episode.stop, "detail": why}))
        else:
            kind: EventKind = "declined" if answer.declined else "answered"
            last_events.append((kind, {"text": answer.text}))
        self._store_end(answered, last_events)

    def finish_without_answer(self, outcome: str, detail: str) -> None:
        """Store that there is no answer, with the outcome and the reason, then tell listeners.

        Waits and raises Failed as `finish` does.
        """
        self._store_end(None, [("stopped", {"outcome": outcome, "detail": detail})])

    def _store_end(self, answered: AnswerOutcome | None, last_events: PendingEvents) -> None:
        """Store the end first and tell listeners afterwards, so that whoever hears of the end finds
        the answer in the store. Raises Failed after the last attempt."""
        with self._writing:
            for seconds in FINISH_RETRY_DELAYS:
                time.sleep(seconds)
                try:
                    stored = complete_answer(
                        self._store, self.lease, answered, self._pending + last_events
                    )
                    break
                except Failed:
                    if seconds == FINISH_RETRY_DELAYS[-1]:
                        raise
            with self._lock:
                self._pending = []
        if stored:
            self._append_events(last_events, pending=False)

    def _append_events(self, new_events: PendingEvents, pending: bool = True) -> None:
        with self._lock:
            for kind, data in new_events:
                self._events.append(
                    AnswerEvent(self.lease.last_event + len(self._events) + 1, kind, data)
                )
            if pending:
                self._pending += new_events
        self._wake(self.lease.id)


LONGEST_POLL_SECONDS = 2.0
"""seconds between two polls for events of an answer that nobody has begun for long"""
INTERNAL_ERROR = "something went wrong here, not with you: ask again"
NOT_CONFIGURED = "this server is not set up for that: choose otherwise, or tell whoever runs it"
TOO_BUSY = "many are asking just now: try again in a moment"


class WorkerSettings(msgspec.Struct, frozen=True):
    """Limits and intervals of the answer workers of one process."""

    workers: int = 8
    """number of questions answered at the same time; without a model, at most one per core"""
    waiting: int = 1000
    """maximum number of waiting questions; further ones are refused"""
    lease: float = 15.0
    """seconds without a sign of a worker after which another one starts over"""
    flush: float = 0.2
    """seconds between two writes of new events to the store, and between two polls for them"""
    look: float = 1.0
    """seconds between two searches for answers abandoned by other workers"""


class AnswerService:
    """Answers questions for one store. Call `start` and `close` with the application."""

    def __init__(
        self, store: Store, settings: Settings, pace: WorkerSettings = WorkerSettings()
    ) -> None:
        self.store = store
        self.capabilities: ServerCapabilities = list_capabilities(settings)
        self.worker_settings = pace
        self.notice_changes: Callable[[], None] = lambda: None
        """called before each question: adds and removes places that other processes changed"""
        self._settings = settings
        self._sessions = SharedSessionPool()
        self._archive: PageArchive | None = None
        self._tokenizer: EvidenceTokenizer | None = None
        self._worker_slots = threading.BoundedSemaphore(pace.workers)
        self._core_slots = threading.BoundedSemaphore(count_cores())
        self._waiting: queue.Queue[str] = queue.Queue()
        self._queued: set[str] = set()
        self._live: dict[str, LiveAnswer] = {}
        self._listeners: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}
        """events of asyncio, with their loops, that are set at each change of an answer"""
        self._lock = threading.Lock()
        self._lease_lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()

    def start(self) -> None:
        """Start the worker threads and pick up abandoned answers. Repeated calls do nothing."""
        with self._lock:
            if self._threads or self._closing.is_set():
                return
            work = [
                (self._run_worker, f"answers: {n}") for n in range(self.worker_settings.workers)
            ]
            for target, name in [*work, (self._run_keeper, "answers: keeper")]:
                thread = threading.Thread(target=target, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._look_for_abandoned(later=0)

    def close(self, grace: float = 5.0) -> None:
        """Stop the workers: wait up to `grace` seconds for answers, then requeue the others."""
        with self._lease_lock:  # what was leased before is in `_live`, and nothing is leased after
            self._closing.set()
        deadline = time.monotonic() + grace
        while self._live and time.monotonic() < deadline:
            time.sleep(0.02)
        for live in list(self._live.values()):
            live.stop()
            with _logged_errors():
                release_answer(self.store, live.lease)
        for thread in self._threads:
            thread.join(max(0.5, deadline - time.monotonic()))
        self._sessions.close()
        if self._archive:
            self._archive.close()

    def add_place(self, name: str, place: str) -> None:
        """Add a place by name, or reopen one whose content has changed.

        Questions that name no place search it, too, unless they search the web.
        """
        offered = self.capabilities
        searched = offered.default_places
        if all(offered.places[one] for one in searched) and name not in searched:
            searched = (*searched, name)
        self.capabilities = msgspec.structs.replace(
            offered, places={**offered.places, name: place}, default_places=searched
        )
        self._sessions.reopen_place(place)

    def remove_place(self, name: str) -> None:
        """Offer a place no more; answers under way go on with it. Nothing if it was not offered."""
        offered = self.capabilities
        places = {one: at for one, at in offered.places.items() if one != name}
        searched = tuple(one for one in offered.default_places if one != name)
        self.capabilities = msgspec.structs.replace(offered, places=places, default_places=searched)

    def enqueue_question(self, inquiry: QuestionRequest, by: str, token: str = "") -> str:
        """Enqueue a question of a person and return the id of its answer.

        `token` names the API key whose budget was charged, as `enqueue_answers` takes it. Raises
        Failed: bad_question, unknown_..., bad_..., busy, and as the store does.
        """
        return self.enqueue_questions([inquiry], by, token)[0]

    def enqueue_questions(
        self, inquiries: Sequence[QuestionRequest], by: str, token: str = ""
    ) -> list[str]:
        """Enqueue questions of a person, all or none, and return the ids of their answers.

        Those of no conversation are in that of the first. Raises Failed as `enqueue_question` does.
        """
        requests = list[tuple[QuestionRequest, str]]()
        for inquiry in map(self.capabilities.name_method, inquiries):
            self._resolve_settings(inquiry)
            requests.append((inquiry, parse_requested_question(inquiry).text))
        if self._waiting.qsize() + len(requests) > self.worker_settings.waiting:
            raise Failed(Failure("the question", Outcome.BUSY, TOO_BUSY))
        ids = enqueue_answers(self.store, requests, by, token)
        self.start()
        for answer in ids:
            self._enqueue(answer)
        return ids

    def answer_now(
        self,
        inquiry: QuestionRequest,
        hear: EventListener = lambda kind, data: None,
        disconnected: Callable[[], bool] = lambda: False,
    ) -> AnswerOutcome:
        """Answer a question in this thread without storing it.

        Waits for a free worker slot. `hear` receives the progress events. Raises
        AnswerCancelledError once `disconnected()` is true, which is asked at each event and while
        it waits for its slot; and Failed, as `enqueue_question` and the answer session do.
        """
        self._resolve_settings(inquiry)
        parse_requested_question(inquiry)

        def report_event(kind: EventKind, data: dict[str, Any]) -> None:
            if disconnected():
                raise AnswerCancelledError
            hear(kind, data)

        while not self._worker_slots.acquire(timeout=0.1):
            if disconnected():
                raise AnswerCancelledError
        try:
            return self._answer_question(inquiry, report_event)
        finally:
            self._worker_slots.release()

    @contextmanager
    def open_library(self, inquiry: QuestionRequest) -> Iterator[Library]:
        """Yield the library that a request would be answered from.

        Raises Failed (unknown_place), and as opening the library does.
        """
        with self._sessions.use_session(self._resolve_settings(inquiry)) as reading:
            shelf = reading.sources.open_library_for_question()
            yield (DomainFilteredLibrary(shelf, inquiry.domains) if inquiry.domains else shelf)

    def read_events(self, answer: str, after: int = -1) -> list[AnswerEvent]:
        """Return the events after number `after`, from memory if this process makes the answer."""
        live = self._find_live(answer)
        return (
            live.list_events_after(after) if live else read_answer_events(self.store, answer, after)
        )

    async def wait_for_events(self, answer: str, after: int, seconds: float) -> list[AnswerEvent]:
        """Return the events after number `after`, waiting up to `seconds` for the first.

        The list is empty if none arrives in time. No thread is blocked while waiting.
        """
        deadline, pause = time.monotonic() + seconds, self.worker_settings.flush
        with self._listen_for_changes(answer) as changed:
            while True:
                changed.clear()
                if live := self._find_live(answer):
                    progress, pause = live.list_events_after(after), 1.0
                else:
                    progress = await run_in_threadpool(
                        read_answer_events, self.store, answer, after
                    )
                remaining = deadline - time.monotonic()
                if progress or remaining <= 0:
                    return progress
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), min(remaining, pause))
                # Hundreds may wait long for their turn: each asks the store ever less often.
                pause = min(2 * pause, LONGEST_POLL_SECONDS)

    @contextmanager
    def _listen_for_changes(self, answer: str) -> Iterator[asyncio.Event]:
        """Yield an event of the running loop that is set at each change of the answer."""
        changed = asyncio.Event()
        listener = (asyncio.get_running_loop(), changed)
        with self._lock:
            self._listeners.setdefault(answer, set()).add(listener)
        try:
            yield changed
        finally:
            with self._lock:
                self._listeners[answer].discard(listener)
                if not self._listeners[answer]:
                    del self._listeners[answer]

    def _wake_listeners(self, answer: str) -> None:
        """Set the events of whoever waits for changes of the answer, from any thread."""
        with self._lock:
            listeners = list(self._listeners.get(answer, ()))
        for loop, changed in listeners:
            with suppress(RuntimeError):  # the event loop is closed, and its listeners with it
                loop.call_soon_threadsafe(changed.set)

    def find_page(self, quote: Quote) -> Page | None:
        """Return the archived version of the page that a quote was cut from; None if missing."""
        with self._lock:
            if self._archive is None:
                self._archive = PageArchive(locate_archive(self._settings.archive))
        return self._archive.find_page(quote.digest, quote.url) or self._archive.find_page(
            quote.digest
        )

    def count_tokens(self, texts: Iterable[str]) -> int:
        """Return the number of tokens of some texts, by the tokenizer of the bundled model."""
        with self._lock:
            if self._tokenizer is None:
                from rookery.evidence.evidence_model import BUNDLED_MODEL, EvidenceTokenizer

                self._tokenizer = EvidenceTokenizer(BUNDLED_MODEL)
        return sum(map(self._tokenizer.count_tokens, texts))

    def cancel_answer(self, answer: str, text_sent: bool = False) -> bool:
        """Cancel an answer, whichever process makes it; False if it was finished already.

        With `text_sent`, some of its text was shown to the client, so that it stays charged.
        """
        cancelled = cancel_answer(self.store, answer, text_sent)
        if live := self._live.get(answer):
            live.stop()
        return cancelled

    def _find_live(self, answer: str) -> LiveAnswer | None:
        """Return the answer's live state if this process is making it."""
        live = self._live.get(answer)
        return None if live is None or live.stopped else live

    def _enqueue(self, answer: str) -> None:
        with self._lock:
            if answer in self._queued or answer in self._live:
                return
            self._queued.add(answer)
        self._waiting.put(answer)

    def _run_worker(self) -> None:
        while not self._closing.is_set():
            try:
                answer = self._waiting.get(timeout=self.worker_settings.flush)
            except queue.Empty:
                continue
            with self._worker_slots, _logged_errors():
                self._answer_leased(answer)
            with self._lock:
                self._queued.discard(answer)

    def _answer_leased(self, answer: str) -> None:
        """Lease one answer and make it; do nothing if it cannot be leased, or while closing."""
        with self._lease_lock:
            if self._closing.is_set():
                return
            leased = lease_answer(self.store, answer, self.worker_settings.lease)
            if leased is None:
                return
            live = LiveAnswer(self.store, leased, self.worker_settings.lease, self._wake_listeners)
            self._live[answer] = live
        try:
            live.publish_event("begun", {"again": leased.last_event > 0})
            earlier, replies = find_standing_question(self.store, leased.wanted.follows)
            inquiry = msgspec.structs.replace(leased.wanted, earlier=earlier, replies=replies)
            live.finish(self._answer_question(inquiry, live.publish_event))
        except AnswerCancelledError:
            pass
        except Failed as failed:
            _LOG.warning("%s: %s", answer, failed)
            outcome, detail = failed.failure.outcome, failed.failure.detail
            if outcome in (Outcome.NOT_FOUND, Outcome.EMPTY_LIBRARY) and self._names_single_files(
                leased.wanted
            ):
                outcome, detail = (
                    Outcome.UNKNOWN_PLACE,
                    DOCUMENT_GONE,
                )  # removed before it was opened
            elif outcome in USER_ERROR_OUTCOMES:  # the operator's mistake, not the reader's
                detail = NOT_CONFIGURED
            live.finish_without_answer(outcome, detail)
        except Exception:  # one failing question must not stop the worker
            _LOG.exception("%s", answer)
            live.finish_without_answer("broken", INTERNAL_ERROR)
        finally:
            del self._live[answer]
            live.stop()

    def _answer_question(self, inquiry: QuestionRequest, hear: EventListener) -> AnswerOutcome:
        settings = self._resolve_settings(inquiry)
        # Without a model the CPU is the limit: more threads would slow each other and the pages.
        turn = nullcontext() if settings.models else self._core_slots
        return self._sessions.answer_question(settings, inquiry, hear, turn)

    def _resolve_settings(self, inquiry: QuestionRequest) -> Settings:
        """Return the settings of a question over the places as they are now.

        Raises Failed (unknown_..., bad_...).
        """
        self.notice_changes()
        return resolve_settings(self._settings, self.capabilities, inquiry)

    def _names_single_files(self, inquiry: QuestionRequest) -> bool:
        return any(name not in self.capabilities.places for name in inquiry.places or ())

    def _run_keeper(self) -> None:
        """Write new events, renew leases and look for abandoned answers until closed."""
        looked = beaten = time.monotonic()
        while not self._closing.wait(self.worker_settings.flush) or self._live:
            now = time.monotonic()
            beat = now - beaten > self.worker_settings.lease / 3
            for live in list(self._live.values()):
                with _logged_errors():
                    live.flush(beat)
            beaten = now if beat else beaten
            if now - looked > self.worker_settings.look and not self._closing.is_set():
                self._look_for_abandoned(later=self.worker_settings.look)
                looked = now
            if self._closing.is_set():
                time.sleep(0.02)

    def _look_for_abandoned(self, later: float) -> None:
        with _logged_errors():
            for answer in list_waiting_answers(self.store, later):
                self._enqueue(answer)


@contextmanager
def _logged_errors() -> Iterator[None]:
    """Log the errors of the block; the keeper tries again later."""
    try:
        yield
    except Failed as failed:
        _LOG.error("%s", failed)
    except Exception:
        _LOG.exception("the store")


def get_answer_service(request: Request) -> AnswerService:
    """Return the answer service of the request's application."""
    answering: AnswerService = request.app.state.answering
    return answering
