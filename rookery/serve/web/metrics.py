"""What a server counts, in the text format of Prometheus: requests, their seconds, and what the
store holds.

Each worker process counts for itself and writes its counts into a folder of them all, once a second
at most; so any worker can tell the sum. It knows nothing of what is asked.
"""

import asyncio
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from sqlalchemy import JSON, Connection, cast, func, select, type_coerce

from rookery.judge.store import Store
from rookery.judge.tables import answers, slots

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""seconds"""
OFTEN = 1.0
"""seconds between two writings of a worker's counts"""
SETTLED = 60.0
"""seconds after which no answer is added that says it had ended before"""
KIND = "text/plain; version=0.0.4; charset=utf-8"
Row = tuple[str, Mapping[str, str], float]


class Counts(msgspec.Struct):
    """What one worker counted since it began."""

    requests: dict[str, int] = {}
    """by method, route and status, with blanks between"""
    buckets: dict[str, list[int]] = {}
    """requests by route, in each span between two bounds; the last is beyond all"""
    seconds: dict[str, float] = {}
    """in all, by route"""

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request that is over."""
        name = f"{method} {route} {status}"
        self.requests[name] = self.requests.get(name, 0) + 1
        spans = self.buckets.setdefault(route, [0] * (len(BOUNDS) + 1))
        spans[bisect_left(BOUNDS, seconds)] += 1
        self.seconds[route] = self.seconds.get(route, 0.0) + seconds


class Counting:
    """The counts of this worker and, by a folder that workers share, of all."""

    def __init__(self, folder: Path | None = None) -> None:
        self.own = Counts()
        self._file = folder / f"{os.getpid()}.json" if folder else None
        self._told = False

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts a request that is over."""
        self.own.add(method, route, status, seconds)
        if self._file and not self._told:
            self._told = True
            asyncio.get_running_loop().call_later(OFTEN, self.write)

    def write(self) -> None:
        """Tells the other workers; where the disk is full, another time."""
        self._told = False
        if self._file:
            new = self._file.with_suffix(".new")
            with suppress(OSError):
                new.write_bytes(msgspec.json.encode(self.own))
                new.replace(self._file)

    def all(self) -> list[Counts]:
        """The counts of all workers, of those that are gone too."""
        if self._file is None:
            return [self.own]
        others = [each for each in self._file.parent.glob("*.json") if each != self._file]
        read = msgspec.json.Decoder(Counts)
        return [self.own, *(read.decode(each.read_bytes()) for each in others)]


class Ended:
    """How many answers of a store ended how, without reading old ones twice."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._until = 0.0
        self._settled: dict[str, int] = {}

    def counted(self) -> dict[str, int]:
        """Answers by how they ended. Raises Failed as the store does."""
        until = self._store.clock() - SETTLED
        with self._store.reading() as connection:
            old = _stops(connection, self._until, until)
            new = _stops(connection, until, float("inf"))
        self._settled = summed([self._settled, old])
        self._until = until
        return summed([self._settled, new])


def _stops(connection: Connection, after: float, until: float) -> dict[str, int]:
    body = answers.c.episode
    postgresql = connection.dialect.name == "postgresql"
    record = cast(body, JSON) if postgresql else type_coerce(body, JSON)
    declined = record["answer"]["declined"].as_boolean()
    stop = record["stop"].as_string()
    span = (answers.c.ended > after) & (answers.c.ended <= until)
    query = select(stop, declined, func.count()).where(span).group_by(stop, declined)
    found: dict[str, int] = {}
    for name, no, count in connection.execute(query):
        kind = "failed" if name is None else "declined" if no else name
        found[kind] = found.get(kind, 0) + count
    return found


def text(counts: Iterable[Counts], ended: Mapping[str, int], store: Store) -> str:
    """All that is counted, as Prometheus reads it. Raises Failed as the store does."""
    every = list(counts)
    lines = [*_requests(every), *_seconds(every), *_answers(ended), *_held(store)]
    return "\n".join(lines) + "\n"


def summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of counts by name."""
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return total


def _requests(every: Iterable[Counts]) -> Iterator[str]:
    rows: list[Row] = []
    for name, count in sorted(summed(each.requests for each in every).items()):
        labels = dict(zip(("method", "route", "status"), name.split(" "), strict=True))
        rows.append(("rookery_requests_total", labels, count))
    yield from _series("rookery_requests_total", "counter", "Requests that are over.", rows)


def _seconds(every: list[Counts]) -> Iterator[str]:
    name, rows = "rookery_request_seconds", list[Row]()
    for route in sorted({route for each in every for route in each.buckets}):
        spans = [each.buckets[route] for each in every if route in each.buckets]
        count = 0
        for bound, *found in zip([*map(str, BOUNDS), "+Inf"], *spans, strict=True):
            count += sum(found)
            rows.append((f"{name}_bucket", {"route": route, "le": bound}, count))
        total = sum(each.seconds.get(route, 0.0) for each in every)
        rows += [(f"{name}_sum", {"route": route}, total)]
        rows += [(f"{name}_count", {"route": route}, count)]
    about = "Seconds from a request to the end of its answer, streams included."
    yield from _series(name, "histogram", about, rows)


def _answers(ended: Mapping[str, int]) -> Iterator[str]:
    name = "rookery_answers_total"
    rows: list[Row] = [(name, {"stop": stop}, count) for stop, count in sorted(ended.items())]
    yield from _series(name, "counter", "Kept answers that are over, by how they ended.", rows)


def _held(store: Store) -> Iterator[str]:
    now = store.clock()
    held = (answers.c.state == "going") & (answers.c.until >= now)
    asked = answers.c.state.in_(("asked", "going")) & ~held
    items = slots.c.person.is_not(None) & ~slots.c.done & (slots.c.until >= now)
    with store.reading() as connection:
        waiting, going = (
            connection.scalar(select(func.count()).select_from(answers).where(which)) or 0
            for which in (asked, held)
        )
        leased = connection.scalar(select(func.count()).select_from(slots).where(items)) or 0
    about = "Questions that no worker has in hand."
    yield from _series("rookery_waiting", "gauge", about, [("rookery_waiting", {}, waiting)])
    name = "rookery_leases"
    rows: list[Row] = [(name, {"of": "answers"}, going), (name, {"of": "items"}, leased)]
    yield from _series(name, "gauge", "Answers and items of the desk that are in hand.", rows)


def _series(name: str, kind: str, about: str, rows: Iterable[Row]) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for series, labels, value in rows:
        named = ",".join(f'{label}="{_escaped(said)}"' for label, said in labels.items())
        yield f"{series}{{{named}}} {value}" if named else f"{series} {value}"


def _escaped(said: str) -> str:
    return said.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
