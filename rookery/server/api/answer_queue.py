"""Persistent answer queue: enqueue, lease, complete, cancel and look up answers."""

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, delete, insert, or_, select, update

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
from rookery.errors import Failed, Outcome
from rookery.quotes.verification import Verdict
from rookery.records import Episode, Failure, Question, prepare_type
from rookery.server.api.answer_sessions import (
    AnswerEvent,
    AnswerOutcome,
    EventKind,
    QuestionRequest,
)
from rookery.server.api.endpoints import is_answer_charged, refund_key

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
    state: str
    outcome: str | None
    """one of answered, declined and stopped; None while the answer is unfinished"""
    quotes: int | None
    made: float
    searched: str
    """the question as it was searched: a follow-up with what it leans on"""


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


def enqueue_answer(
    store: Store, inquiry: QuestionRequest, question: str, person: str, token: str = ""
) -> str:
    """Add a question to the queue and return the id of its answer.

    `token` is the `ApiKey.token` whose budget was charged, empty if none was; once the answer has
    ended it is given back unless `is_answer_charged`.
    """
    key, now = secrets.token_urlsafe(12), store.clock()
    stored = msgspec.structs.replace(inquiry, earlier=())
    row = {"id": key, "person": person, "question": question, "wanted": stored.to_json()}
    data = {"question": question, "method": inquiry.method, "model": inquiry.model}
    with store.begin_write() as connection:
        connection.execute(insert(answers).values(**row, state="asked", tries=0, made=now))
        _append_events(connection, key, person, [("asked", data)], now)
        if inquiry.conversation:
            append_event(
                connection, name_conversation_stream(inquiry.conversation), person, key, now
            )
        if token:
            append_event(connection, _name_charge_stream(key), person, token, now)
    return key


def find_answer(store: Store, answer: str) -> StoredAnswer:
    """Return the answer with this id. Raises Failed (no_answer)."""
    with store.begin_read() as connection:
        row = connection.execute(select(answers).where(answers.c.id == answer)).first()
    if row is None:
        raise Failed(
            Failure(answer[:80], Outcome.NO_ANSWER, "no such answer: look in your history")
        )
    return _build_stored_answer(row)


def find_standing_question(store: Store, answer: str) -> tuple[str, ...]:
    """Return the question that was searched for an answer; none where that is deleted."""
    with store.begin_read() as connection:
        row = connection.execute(select(answers).where(answers.c.id == answer)).first()
    return () if row is None else (_build_stored_answer(row).searched,)


def follow_answer(inquiry: QuestionRequest, before: StoredAnswer) -> QuestionRequest:
    """Return the request as a follow-up of the answer `before`, in the same conversation."""
    conversation = before.wanted.conversation or before.id
    return msgspec.structs.replace(inquiry, conversation=conversation, follows=before.id)


def list_conversation(store: Store, conversation: str) -> list[StoredAnswer]:
    """List the answers of a conversation, oldest first, without those that are deleted."""
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


def list_person_answers(
    store: Store, person: str, words: str = "", most: int = 50
) -> list[AnswerSummary]:
    """List up to `most` answers of a person, newest first, whose question contains all words."""
    query = select(answers).where(answers.c.person == person)
    for word in words.split():
        query = query.where(answers.c.question.icontains(word, autoescape=True))
    with store.begin_read() as connection:
        rows = connection.execute(query.order_by(answers.c.made.desc()).limit(most)).all()
    return [
        AnswerSummary(
            row.id, row.question, row.state, row.outcome, row.quotes, row.made,
            _read_searched_question(row),
        )
        for row in rows
    ]  # fmt: skip


class _EpisodeQuestion(msgspec.Struct):
    """The part of a stored episode that a list shows."""

    question: Question


def _read_searched_question(row: Row[Any]) -> str:
    if row.episode is None:
        return str(row.question)
    return msgspec.json.decode(row.episode, type=prepare_type(_EpisodeQuestion)).question.text


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
    return AnswerLease(
        answer,
        token,
        row.person,
        msgspec.json.decode(row.wanted, type=prepare_type(QuestionRequest)),
        after,
    )


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
    the last event.
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
    """Return a leased answer to the queue without counting the attempt."""
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
