"""The answers in the store: asked, taken by a worker for a while, finished, found again.

It knows nothing of how an answer is made, nor of pages.
"""

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, insert, or_, select, update

from rookery.cite.verify import Verdict
from rookery.judge import events
from rookery.judge.store import Store
from rookery.judge.tables import answers
from rookery.records import Episode, Failed, Failure
from rookery.serve.web.wanted import ENDS, Answered, Event, Kind, Wanted

TRIES = 3
"""workers that may die of a question before it is given up"""
OPEN = ("asked", "going")


class Asked(NamedTuple):
    """An answer as it stands in the store."""

    id: str
    person: str
    question: str
    wanted: Wanted
    state: str
    """asked, going, done or failed"""
    answered: Answered | None
    made: float
    ended: float | None

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self.state not in OPEN


class Brief(NamedTuple):
    """A line of somebody's history."""

    id: str
    question: str
    state: str
    outcome: str | None
    """answered, declined or stopped; None: it is not over"""
    quotes: int | None
    made: float


class Taken(NamedTuple):
    """An answer in the hands of a worker."""

    id: str
    token: str
    person: str
    wanted: Wanted
    after: int
    """the number of the newest event"""


def stream(answer: str) -> str:
    """The events of an answer."""
    return f"answer:{answer}"


def ask(store: Store, wanted: Wanted, question: str, person: str) -> str:
    """Keeps what is wanted; the answer's id."""
    key, now = secrets.token_urlsafe(12), store.clock()
    row = {"id": key, "person": person, "question": question, "wanted": wanted.to_json()}
    data = {"question": question, "method": wanted.method, "model": wanted.model}
    with store.writing() as connection:
        connection.execute(insert(answers).values(**row, state="asked", tries=0, made=now))
        _append(connection, key, person, [("asked", data)], now)
    return key


def find(store: Store, answer: str) -> Asked:
    """The answer with this id. Raises Failed (no_answer)."""
    with store.reading() as connection:
        row = connection.execute(select(answers).where(answers.c.id == answer)).first()
    if row is None:
        raise Failed(Failure(answer[:80], "no_answer", "no such answer: look in your history"))
    return _asked(row)


def of_person(store: Store, person: str, words: str = "", most: int = 50) -> list[Brief]:
    """What a person asked, the newest first; with words, where the question holds all of them."""
    columns = [answers.c[name] for name in Brief._fields]
    query = select(*columns).where(answers.c.person == person)
    for word in words.split():
        query = query.where(answers.c.question.icontains(word, autoescape=True))
    with store.reading() as connection:
        rows = connection.execute(query.order_by(answers.c.made.desc()).limit(most))
        return [Brief(*row) for row in rows]


def waiting(store: Store, later: float = 0.0) -> list[str]:
    """What nobody works on: asked at least `later` seconds ago, or left by a worker."""
    now = store.clock()
    left = (answers.c.state == "going") & (answers.c.until < now)
    fresh = (answers.c.state == "asked") & (answers.c.made <= now - later)
    query = select(answers.c.id).where(or_(left, fresh)).order_by(answers.c.made).limit(100)
    with store.reading() as connection:
        return list(connection.scalars(query))


def take(store: Store, answer: str, lease: float) -> Taken | None:
    """Takes an answer in hand; None: another has it, or it is over."""
    now, token = store.clock(), secrets.token_urlsafe(12)
    left = (answers.c.state == "going") & (answers.c.until < now)
    its = (answers.c.id == answer) & or_(answers.c.state == "asked", left)
    with store.writing() as connection:
        mine = {"state": "going", "token": token, "until": now + lease}
        taken = update(answers).where(its).values(**mine, tries=answers.c.tries + 1)
        if connection.execute(taken).rowcount == 0:
            return None
        row = connection.execute(select(answers).where(answers.c.id == answer)).one()
        if row.tries > TRIES:
            _give_up(connection, row, now)
            return None
        after = len(_told(connection, answer)) - 1
    return Taken(answer, token, row.person, msgspec.json.decode(row.wanted, type=Wanted), after)


def tell(store: Store, taken: Taken, told: Sequence[tuple[Kind, Any]], lease: float) -> bool:
    """Adds events and puts the lease off; False: the answer is no longer in these hands."""
    now = store.clock()
    with store.writing() as connection:
        if connection.execute(_mine(taken).values(until=now + lease)).rowcount == 0:
            return False
        _append(connection, taken.id, taken.person, told, now)
    return True


def finish(
    store: Store, taken: Taken, answered: Answered | None, told: Sequence[tuple[Kind, Any]]
) -> bool:
    """Keeps what came of it, with its last events; False: it is no longer in these hands."""
    now = store.clock()
    values: dict[str, Any] = {"state": "failed", "token": None, "until": None}
    values |= {"outcome": told[-1][0], "ended": now}
    if answered is not None:
        values |= {
            "state": "done",
            "quotes": len(answered.verdicts),
            "episode": answered.episode.to_json(),
            "verdicts": msgspec.json.encode(answered.verdicts).decode(),
        }
    with store.writing() as connection:
        if connection.execute(_mine(taken).values(**values)).rowcount == 0:
            return False
        _append(connection, taken.id, taken.person, told, now)
    return True


def give_back(store: Store, taken: Taken) -> None:
    """Leaves an answer to other workers, as if nobody had begun."""
    back = {"state": "asked", "token": None, "until": None, "tries": answers.c.tries - 1}
    with store.writing() as connection:
        connection.execute(_mine(taken).values(**back))


def cancel(store: Store, answer: str) -> bool:
    """Ends an answer that is not over; whether it was not."""
    its, now = answers.c.id == answer, store.clock()
    with store.writing() as connection:
        row = connection.execute(select(answers).where(its, answers.c.state.in_(OPEN))).first()
        if row is None:
            return False
        _stop(connection, row, now, "cancelled", "whoever asked did not want to wait longer")
    return True


def told(store: Store, answer: str, after: int = -1) -> list[Event]:
    """The events of an answer in order, from the one after this number on."""
    with store.reading() as connection:
        return _told(connection, answer)[after + 1 :]


def ended(found: Sequence[Event]) -> bool:
    """Whether the last of these is the last of all."""
    return bool(found) and found[-1].kind in ENDS


def _mine(taken: Taken) -> Any:
    its: ColumnElement[bool] = (answers.c.id == taken.id) & (answers.c.token == taken.token)
    return update(answers).where(its)


def _give_up(connection: Connection, row: Row[Any], now: float) -> None:
    detail = "this question ended the server more than once: ask it in other words"
    _stop(connection, row, now, "given_up", detail)


def _stop(connection: Connection, row: Row[Any], now: float, outcome: str, detail: str) -> None:
    over = {"state": "failed", "token": None, "until": None, "outcome": "stopped", "ended": now}
    connection.execute(update(answers).where(answers.c.id == row.id).values(**over))
    last: tuple[Kind, Any] = ("stopped", {"outcome": outcome, "detail": detail})
    _append(connection, row.id, row.person, [last], now)


def _append(
    connection: Connection, answer: str, person: str, told: Sequence[tuple[Kind, Any]], at: float
) -> None:
    """Adds events, in one row those that are told together."""
    if told:
        body = msgspec.json.encode(told).decode()
        events.append(connection, stream(answer), person, body, at)


def _told(connection: Connection, answer: str) -> list[Event]:
    told: list[tuple[Kind, dict[str, Any]]] = []
    for body in events.read(connection, stream(answer)):
        told += msgspec.json.decode(body, type=list[tuple[Kind, dict[str, Any]]])
    return [Event(number, kind, data) for number, (kind, data) in enumerate(told)]


def _asked(row: Row[Any]) -> Asked:
    answered = None
    if row.episode is not None:
        verdicts = msgspec.json.decode(row.verdicts, type=tuple[Verdict, ...])
        answered = Answered(Episode.from_json(row.episode), verdicts)
    wanted = Wanted.from_json(row.wanted)
    return Asked(row.id, row.person, row.question, wanted, row.state, answered, row.made, row.ended)
