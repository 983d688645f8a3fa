"""A training run at the desk: its cord is there, what it says is shown there, and people there
compare while it learns.

It knows nothing of how people are shown what they compare.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from sqlalchemy import select

from rookery.judge import cord, handout, meaning, tables
from rookery.judge.counted import covers, exclusions_of, standing
from rookery.judge.store import Store
from rookery.judge.work import Item, Judgement
from rookery.learn.labels_kept import Asked
from rookery.learn.run import Told, reached
from rookery.records import Comparison, Failed, Failure, digest_of

FORMS = {2: "compare_short", 3: "best_of_four", 4: "best_of_four"}
"""the form for so many answers"""
BEAT = 10.0
"""seconds from one word to the desk to the next"""
AHEAD = 64
"""comparisons that are looked for together"""
SHOWN = 4_000
"""characters of a sample: the end of what was shown, the beginning of what was said"""
NOBODY = "nobody"
"""who has compared what a lead took back"""
LOST = frozenset({"no_store", "store_busy", "disk_full", "store_fails"})
T = TypeVar("T")


class DeskSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run meets people at the desk."""

    name: str = ""
    """of the run, for people to see, and of its batch; empty: that of its folder. Two runs at one
    desk need two names"""
    priority: int = 10
    """of what it asks: the highest is handed out first"""
    repeated: float = 0.05
    """share of what is asked that several people answer, to see whether they agree (Ziegler,
    section 2.3). The first of their answers is learnt from"""
    people: int = 5
    """who answer it (Ziegler, section 2.3)"""
    rest: float = 6.0
    """seconds in which somebody may still take a judgement back, before it is learnt from"""
    every: float = 1.0
    """seconds from one look for judgements to the next"""
    grace: float = 60.0
    """seconds without an answer from the store, after which the run stops. No step is made before
    the store has said that nobody pulled the cord"""

    def __post_init__(self) -> None:
        if not 0 <= self.repeated <= 1 or self.people < 1:
            raise ValueError("repeated is a share from 0 to 1, people 1 or more")
        if min(self.rest, self.grace) < 0 or self.every <= 0:
            raise ValueError("rest and grace are 0 seconds or more, every is more than 0")


class Desk:
    """The desk as a run in `folder` sees it, from its beginning to its end.

    Of several processes that share the work, all ask whether the cord was pulled, and the `main`
    one does the rest. `waits` is told how many comparisons people have still to make. Raises Failed
    (stopped) where the cord was pulled before, and where the store is lost for longer than the
    grace.
    """

    def __init__(
        self,
        store: Store,
        folder: Path,
        settings: DeskSettings = DeskSettings(),
        main: bool = True,
        waits: Callable[[int], None] = lambda count: None,
    ) -> None:
        self.run = settings.name or folder.resolve().name
        self.step = reached(folder)
        """how many steps were made, as far as is known here"""
        self._store = store
        self._settings = settings
        self._main = main
        self._waits = waits
        self._file = _identity(store.place)
        self._samples = folder / "samples.jsonl"
        self._read = 0
        self._beaten = time.monotonic()

    def __enter__(self) -> Self:
        if why := self.pulled():
            raise self._stopped(why)
        if self._main:
            self._patiently(lambda: cord.begin(self._store, self.run, self.step))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> None:
        if self._main:
            how = error.failure.outcome if isinstance(error, Failed) else "broken off"
            with suppress(Failed):  # nothing is lost but how it ended
                cord.end(self._store, self.run, how if kind else "finished")

    def pulled(self) -> str:
        """Why nothing more may be learnt: who pulled the cord and the reason, or that the store is
        lost; empty: go on."""
        try:
            pull = self._patiently(lambda: cord.pulled(self._store, self.run))
        except Failed as failed:
            return failed.failure.detail
        self._beat()
        return cord.why(pull) if pull else ""

    def told(self, also: Told) -> Told:
        """Shows at the desk what was said in a step, and tells somebody else of the step too."""

        def tell(step: int, count: int, measured: dict[str, float]) -> None:
            self.step = step
            if self._main:
                said = list(self._said(step - 1))
                self._patiently(lambda: cord.beat(self._store, self.run, step, said))
            also(step, count, measured)

        return tell

    def compare(self, asked: Sequence[Asked]) -> Iterable[Comparison]:
        """A Comparison of each, in their order, as soon as people have made it.

        What the desk was asked before is not asked again, even by another try of this run; what
        nobody has answered and is asked no more is taken back. Nothing is preferred where a lead
        took something back, somebody could not decide, or who judged is excluded.
        """
        items = self._patiently(lambda: self._ask(asked))
        found: dict[str, Comparison] = {}
        for number, name in enumerate(items):
            self._waits(len(items) - number)
            while name not in found:
                if why := self.pulled():
                    raise self._stopped(why)
                near = dict(list(items.items())[number : number + AHEAD])
                found |= self._patiently(partial(self._made, near))
                if name not in found:
                    time.sleep(self._settings.every)
            yield found.pop(name)
        self._waits(0)

    def _ask(self, asked: Sequence[Asked]) -> dict[str, Item]:
        """The items of all that is asked, by their names."""
        items = [self._item(one) for one in asked]
        several = [self._is_repeated(one.number) for one in asked]
        for many, people in ((False, 1), (True, self._settings.people)):
            part = [item for item, wanted in zip(items, several, strict=True) if wanted == many]
            handout.add(
                self._store, part, self.run, people, self._settings.priority, policy=self.step
            )
        named = {_name(self.run, item): item for item in items}
        if stale := self._unanswered() - named.keys():
            handout.retire(self._store, "the run asks this no more", sorted(stale))
        return named

    def _item(self, asked: Asked) -> Item:
        form = FORMS[len(asked.answers)]
        source = f"{self.run} {asked.number}"
        return Item(form, asked.question, asked.answers, source=source)

    def _is_repeated(self, number: int) -> bool:
        share = self._settings.repeated
        return int((number + 1) * share) > int(number * share)

    def _unanswered(self) -> set[str]:
        """What this run has asked and nobody has answered."""
        items, judged = tables.items.c, tables.judgements.c
        answered = select(judged.item).where(judged.kind.in_(("done", "extra")))
        wanted = select(items.id).where(items.batch == self.run, items.retired.is_(None))
        with self._store.reading() as connection:
            return set(connection.scalars(wanted.where(items.id.not_in(answered))))

    def _made(self, items: Mapping[str, Item]) -> dict[str, Comparison]:
        """Of these items, those that were compared: by the first whose judgement counts."""
        with self._store.reading() as connection:
            excluding = standing(exclusions_of(connection))

        def counts(judgement: Judgement) -> bool:
            return not any(covers(each, judgement, self.run) for each in excluding)

        made = {name: _undecided(items[name], NOBODY) for name in self._taken_back(items)}
        for one in sorted(self._judged(items), key=counts):  # the last of an item stays
            label = meaning.comparison(items[one.item], one) if counts(one) else None
            made[one.item] = label or _undecided(items[one.item], one.by)
        return made

    def _judged(self, names: Iterable[str]) -> list[Judgement]:
        """What was made of these and not corrected, and has rested; the newest first."""
        table = tables.judgements.c
        wanted = select(table.body).where(table.item.in_(names), table.kind.in_(("done", "extra")))
        with self._store.reading() as connection:
            bodies = connection.scalars(wanted.order_by(table.number.desc())).all()
        found = [Judgement.from_json(body) for body in bodies]
        corrected = {each.supersedes for each in found}
        before = self._store.clock() - self._settings.rest
        return [each for each in found if each.id not in corrected and each.ended <= before]

    def _taken_back(self, names: Iterable[str]) -> Sequence[str]:
        table = tables.items.c
        wanted = select(table.id).where(table.id.in_(names), table.retired.is_not(None))
        with self._store.reading() as connection:
            return connection.scalars(wanted).all()

    def _said(self, step: int) -> Iterator[cord.Sample]:
        """What was written down as said in this step."""
        if not self._samples.exists():
            return
        with self._samples.open("rb") as lines:
            lines.seek(self._read)
            for line in lines:
                said = json.loads(line)
                if said["step"] == step:
                    yield _sample(said)
            self._read = lines.tell()

    def _beat(self) -> None:
        if self._main and time.monotonic() - self._beaten > BEAT:
            self._beaten = time.monotonic()
            with suppress(Failed):  # whoever waits to write would keep the run from learning
                cord.beat(self._store, self.run, self.step)

    def _patiently(self, call: Callable[[], T]) -> T:
        """What the store gives, should it be away for a while. Raises Failed (stopped)."""
        begun = time.monotonic()
        while True:
            try:
                self._check_file()
                return call()
            except Failed as failed:
                if failed.failure.outcome not in LOST:
                    raise
                if time.monotonic() - begun > self._settings.grace:
                    raise self._stopped(self._lost(failed.failure)) from failed
            time.sleep(min(self._settings.every, 1.0))

    def _check_file(self) -> None:
        """A file that was deleted or replaced is still read by who had opened it before."""
        if _identity(self._store.place) != self._file:
            raise Failed(Failure(self._store.place, "no_store", "the file is not there any more"))

    def _lost(self, failure: Failure) -> str:
        return (
            f"the desk's store did not answer for {self._settings.grace:g} seconds, in which "
            f"nobody could have stopped this run ({failure.detail})"
        )

    def _stopped(self, why: str) -> Failed:
        return Failed(Failure(self.run, "stopped", why))


def _name(batch: str, item: Item) -> str:
    """The item's id, as `handout` gives it."""
    return digest_of(f"{batch}\n{item.to_json()}")


def _identity(place: str) -> tuple[int, int] | None:
    """Which file it is; None: none, or no file's place at all."""
    try:
        found = Path(place).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _undecided(item: Item, by: str) -> Comparison:
    size = len(item.answers)
    return Comparison(item.question, item.answers, (1 / size,) * size, by)


def _sample(said: Mapping[str, Any]) -> cord.Sample:
    row = said["rows"][-1] if said["rows"] else {"context": "", "action": ""}
    shown, words = row["context"][-SHOWN:], row["action"][:SHOWN]
    return cord.Sample(said["step"], shown, words, said["reward"])
