"""Connect a training run with the desk: people there see its samples, compare its answers while it
learns, and can stop it."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from sqlalchemy import select

from rookery.desk import judgement_conversion, labelling_queue, stop_switch, tables
from rookery.desk.adjudication import (
    covers_judgement,
    load_exclusions,
    select_active_exclusions,
    trace_versions,
)
from rookery.desk.forms import Judgement, LabellingItem, make_item_id
from rookery.desk.store import Store
from rookery.errors import Failed, Outcome
from rookery.learn.online_labelling import ComparisonQuestion
from rookery.learn.training_run import StepCallback, find_checkpoint_step
from rookery.records import Comparison, Failure

COMPARISON_FORMS = {2: "compare_short", 3: "best_of_four", 4: "best_of_four"}
"""the form for so many answers"""
HEARTBEAT_SECONDS = 10.0
"""seconds from one word to the desk to the next"""
LOOKAHEAD_COMPARISONS = 64
"""comparisons that are looked for together"""
MAX_SAMPLE_CHARACTERS = 4_000
"""characters of a sample: the end of what was shown, the beginning of what was said"""
NO_RATER = "nobody"
"""who has compared what a lead took back"""
STORE_LOST_OUTCOMES = frozenset(
    {Outcome.NO_STORE, Outcome.STORE_BUSY, Outcome.DISK_FULL, Outcome.STORE_FAILS}
)
T = TypeVar("T")


class HumanFeedbackSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the comparisons that people make at the desk while a run learns."""

    name: str = ""
    """name of the run, for people to see, and of its batch; empty: that of its folder. Two runs at
    one desk need two names"""
    priority: int = 10
    """priority of what it asks: the highest is handed out first"""
    repeated: float = 0.05
    """share of what is asked that several people answer, to see whether they agree (Ziegler,
    section 2.3). The first of their answers is learnt from"""
    people: int = 5
    """people who answer what is repeated (Ziegler, section 2.3)"""
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


@dataclass(eq=False)
class HumanFeedback:
    """Connection of a training run in `folder` to the labelling desk; a context manager.

    Of several processes that share the work, all ask whether the cord was pulled, and the main one
    does the rest. `report_waiting` is told how many comparisons people have still to make. Entering
    records that the run begins, leaving how it ends. Raises Failed (stopped) where the cord was
    pulled before, and where the store is lost for longer than the grace.
    """

    store: Store
    folder: Path
    settings: HumanFeedbackSettings = field(default_factory=HumanFeedbackSettings)
    is_main_process: bool = True
    report_waiting: Callable[[int], None] = lambda count: None

    def __post_init__(self) -> None:
        self.run = self.settings.name or self.folder.resolve().name
        self.step = find_checkpoint_step(self.folder)
        """how many steps were made, as far as is known here"""
        self._store_identity = _identify_file(self.store.place)
        self._samples_file = self.folder / "samples.jsonl"
        self._samples_offset = 0
        self._last_heartbeat = time.monotonic()

    def __enter__(self) -> Self:
        if why := self.find_stop_reason():
            raise self._make_stopped_error(why)
        if self.is_main_process:
            self._retry_store(lambda: stop_switch.begin_run(self.store, self.run, self.step))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> None:
        if self.is_main_process:
            how = error.failure.detail if isinstance(error, Failed) else "broken off"
            with suppress(Failed):  # nothing is lost but how it ended
                stop_switch.end_run(self.store, self.run, how if kind else "finished")

    def find_stop_reason(self) -> str:
        """Return why the run must stop, or an empty string; while the store is away, wait for it.

        Either somebody stopped it at the desk, with a reason, or the store was lost for longer than
        the grace, or failed otherwise. In the main process it also tells the desk, every 10 seconds
        at most, that the run is alive.
        """
        try:
            pull = self._retry_store(lambda: stop_switch.find_active_stop(self.store, self.run))
        except Failed as failed:
            return failed.failure.detail
        self._send_heartbeat()
        return stop_switch.describe_run_stop(pull) if pull else ""

    def report_steps(self, also: StepCallback) -> StepCallback:
        """Return a callback that records each step and its samples at the desk and calls `also`.

        Only the main process records. It waits while the store is away, and raises Failed (stopped)
        after the grace.
        """

        def report_step(step: int, count: int, measured: dict[str, float]) -> None:
            self.step = step
            if self.is_main_process:
                said = list(self._read_new_samples(step - 1))
                self._retry_store(
                    lambda: stop_switch.record_progress(self.store, self.run, step, said)
                )
            also(step, count, measured)

        return report_step

    def compare_answers(self, questions: Sequence[ComparisonQuestion]) -> Iterable[Comparison]:
        """Yield one Comparison for each question, in their order, as soon as it is there.

        Once it is iterated, it puts the questions, each of 2 to 4 answers, into the desk's
        labelling queue, waits for people, and takes the first judgement of each that is not
        excluded. What an earlier try of this run asked is not asked again; what nobody has answered
        and is asked no more is withdrawn. All weights are equal where somebody could not decide,
        where only excluded people judged, and where a lead withdrew the question. Raises Failed
        (stopped).
        """
        items = self._retry_store(lambda: self._ask_people(questions))
        comparisons: dict[str, Comparison] = {}
        for number, name in enumerate(items):
            self.report_waiting(len(items) - number)
            while name not in comparisons:
                if why := self.find_stop_reason():
                    raise self._make_stopped_error(why)
                near = dict(list(items.items())[number : number + LOOKAHEAD_COMPARISONS])
                comparisons |= self._retry_store(partial(self._collect_comparisons, near))
                if name not in comparisons:
                    time.sleep(self.settings.every)
            yield comparisons.pop(name)
        self.report_waiting(0)

    def _ask_people(self, questions: Sequence[ComparisonQuestion]) -> dict[str, LabellingItem]:
        """Return the items of all that is asked, by their names."""
        items = [self._make_item(one) for one in questions]
        several = [self._is_for_several_people(one.number) for one in questions]
        for many, people in ((False, 1), (True, self.settings.people)):
            part = [item for item, needed in zip(items, several, strict=True) if needed == many]
            labelling_queue.add_items(
                self.store, part, self.run, people, self.settings.priority, policy=self.step
            )
        named = {make_item_id(self.run, item): item for item in items}
        if stale := self._list_unanswered_items() - named.keys():
            labelling_queue.retire_items(self.store, "the run asks this no more", sorted(stale))
        return named

    def _make_item(self, question: ComparisonQuestion) -> LabellingItem:
        form = COMPARISON_FORMS[len(question.answers)]
        source = f"{self.run} {question.number}"
        return LabellingItem(form, question.question, question.answers, source=source)

    def _is_for_several_people(self, number: int) -> bool:
        share = self.settings.repeated
        return int((number + 1) * share) > int(number * share)

    def _list_unanswered_items(self) -> set[str]:
        """Return the names of this run's items that nobody has answered."""
        items, judged = tables.items.c, tables.judgements.c
        answered = select(judged.item).where(judged.kind.in_(("done", "extra")))
        wanted = select(items.id).where(items.batch == self.run, items.retired.is_(None))
        with self.store.begin_read() as connection:
            return set(connection.scalars(wanted.where(items.id.not_in(answered))))

    def _collect_comparisons(self, items: Mapping[str, LabellingItem]) -> dict[str, Comparison]:
        """Return the comparisons made of these items, by the first judgement of each that
        counts."""
        with self.store.begin_read() as connection:
            excluding = select_active_exclusions(load_exclusions(connection))

        def is_counted(versions: Sequence[Judgement]) -> bool:
            return not any(covers_judgement(each, versions, self.run) for each in excluding)

        comparisons = {
            name: _make_tie(items[name], NO_RATER) for name in self._list_retired_items(items)
        }
        for versions in sorted(
            self._load_settled_judgements(items), key=is_counted
        ):  # the last of an item stays
            one = versions[-1]
            label = None
            if is_counted(versions):
                label = judgement_conversion.convert_to_comparison(items[one.item], one)
            comparisons[one.item] = label or _make_tie(items[one.item], one.by)
        return comparisons

    def _load_settled_judgements(self, names: Iterable[str]) -> list[tuple[Judgement, ...]]:
        """Return judgements of these items that are old enough and were not corrected, newest
        first, each after the earlier versions that it corrects."""
        table = tables.judgements.c
        query = select(table.body).where(table.item.in_(names), table.kind.in_(("done", "extra")))
        with self.store.begin_read() as connection:
            bodies = connection.scalars(query.order_by(table.number)).all()
        traced = trace_versions(map(Judgement.from_json, bodies))
        corrected = {versions[-1].supersedes for versions in traced.values()}
        before = self.store.clock() - self.settings.rest
        return [
            versions
            for key, versions in reversed(traced.items())
            if key not in corrected and versions[-1].ended <= before
        ]

    def _list_retired_items(self, names: Iterable[str]) -> Sequence[str]:
        table = tables.items.c
        wanted = select(table.id).where(table.id.in_(names), table.retired.is_not(None))
        with self.store.begin_read() as connection:
            return connection.scalars(wanted).all()

    def _read_new_samples(self, step: int) -> Iterator[stop_switch.PolicySample]:
        """Yield the samples that were written in this step."""
        if not self._samples_file.exists():
            return
        with self._samples_file.open("rb") as lines:
            lines.seek(self._samples_offset)
            for line in lines:
                record = json.loads(line)
                if record["step"] == step:
                    yield _make_policy_sample(record)
            self._samples_offset = lines.tell()

    def _send_heartbeat(self) -> None:
        if self.is_main_process and time.monotonic() - self._last_heartbeat > HEARTBEAT_SECONDS:
            self._last_heartbeat = time.monotonic()
            with suppress(Failed):  # whoever waits to write would keep the run from learning
                stop_switch.record_progress(self.store, self.run, self.step)

    def _retry_store(self, call: Callable[[], T]) -> T:
        """Return what a call to the store returns, retrying while it is away. Raises Failed
        (stopped)."""
        begun = time.monotonic()
        while True:
            try:
                self._check_store_file()
                return call()
            except Failed as failed:
                if failed.failure.outcome not in STORE_LOST_OUTCOMES:
                    raise
                if time.monotonic() - begun > self.settings.grace:
                    why = (
                        f"the desk's store did not answer for {self.settings.grace:g} seconds, in "
                        f"which nobody could have stopped this run ({failed.failure.detail})"
                    )
                    raise self._make_stopped_error(why) from failed
            time.sleep(min(self.settings.every, 1.0))

    def _check_store_file(self) -> None:
        """A file that was deleted or replaced is still read by who had opened it before."""
        if _identify_file(self.store.place) != self._store_identity:
            detail = "the file is not there any more"
            raise Failed(Failure(self.store.place, Outcome.NO_STORE, detail))

    def _make_stopped_error(self, why: str) -> Failed:
        return Failed(Failure(self.run, Outcome.STOPPED, why))


def _identify_file(place: str) -> tuple[int, int] | None:
    """Return the device and inode of a file; None if there is none, or the place is no file."""
    try:
        found = Path(place).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_tie(item: LabellingItem, by: str) -> Comparison:
    size = len(item.answers)
    return Comparison(item.question, item.answers, (1 / size,) * size, by)


def _make_policy_sample(record: Mapping[str, Any]) -> stop_switch.PolicySample:
    row = record["rows"][-1] if record["rows"] else {"context": "", "action": ""}
    shown, words = row["context"][-MAX_SAMPLE_CHARACTERS:], row["action"][:MAX_SAMPLE_CHARACTERS]
    return stop_switch.PolicySample(record["step"], shown, words, record["reward"])
