"""The folder of a training run: its configuration, checkpoints, metrics and stop file, and likely
faults of the metrics.

A run that was killed at any moment continues from its last complete checkpoint with the same
result.
"""

import fcntl
import hashlib
import json
import logging
import math
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import msgspec
from accelerate import Accelerator
from accelerate.utils import gather_object
from safetensors import SafetensorError

from rookery.answers.training_rows import list_dataset_files
from rookery.errors import Failed, Outcome
from rookery.learn.run_page import PAGE_SECONDS, MetricHistory, render_run_page
from rookery.library.page_archive import write_whole_file
from rookery.records import Failure, prepare_type

KEPT_CHECKPOINTS = 2
"""checkpoints: should the last be damaged, there is another"""
_MANIFEST_FILE = "whole.json"


class CheckpointedState(Protocol):
    """State of training that can be saved to a folder and restored from it exactly."""

    def save(self, folder: Path) -> None:
        """Write the state to a folder."""

    def load(self, folder: Path) -> None:
        """Restore the state that `save` wrote to a folder."""


class CheckpointParts:
    """States that are saved to the same folder and restored from it one after the other."""

    def __init__(self, *parts: CheckpointedState) -> None:
        self._parts = parts

    def save(self, folder: Path) -> None:
        """Write each state to a folder."""
        for part in self._parts:
            part.save(folder)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote to a folder."""
        for part in self._parts:
            part.load(folder)


R = TypeVar("R")


class SavedRecord(Generic[R]):
    """A record that a checkpoint keeps in a JSON file of its own; one process writes it."""

    def __init__(self, name: str, record: R, writes: bool) -> None:
        self.record = record
        self._name = name
        self._writes = writes

    def save(self, folder: Path) -> None:
        """Write the record to a folder."""
        if self._writes:
            (folder / self._name).write_bytes(msgspec.json.encode(self.record))

    def load(self, folder: Path) -> None:
        """Read the record that `save` wrote to a folder."""
        kind = type(self.record)
        data = (folder / self._name).read_bytes()
        self.record = msgspec.json.decode(data, type=prepare_type(kind))


class ValidationProgress(msgspec.Struct):
    """The validations of a run so far; the first one is the best until another has more worth."""

    step: int = 0
    """after how many steps the best one was; 0 too where there is none"""
    last: int = 0
    """after how many steps the last one was"""
    worse: int = 0
    """validations since the best one"""
    before: dict[str, float] = {}
    """metrics of the model as it began"""
    after: dict[str, float] = {}
    """metrics at the best one"""

    def add_validation(self, step: int, metrics: dict[str, float], best: str) -> bool:
        """Record the metrics of a validation; return whether it is the best so far by the metric
        `best`, of which a loss or an error is better if it is lower."""
        self.last = step
        if self.after and not _get_worth(metrics, best) > _get_worth(self.after, best):
            self.worse += 1
            return False
        self.step, self.worse, self.after = step, 0, metrics
        return True


def _get_worth(metrics: dict[str, float], best: str) -> float:
    """Return a number that is higher for a better validation; -inf if it was not measured."""
    worth = metrics.get(best, math.nan)
    worth = -worth if best in ("validation_loss", "validation_mse") else worth
    return -math.inf if math.isnan(worth) else worth


StepCallback = Callable[[int, int, dict[str, float]], None]
"""is told the step, how many there are, and what was measured"""
StopCheck = Callable[[], str]
"""says why nothing more may be learnt; empty: go on"""


class ResumableRun:
    """One run at a time in one folder.

    `config.json` holds what the run was begun with, `data.json` the digests of its files of `data`,
    `metrics.jsonl` a line for each step, `samples.jsonl` what was said, `checkpoints/` the last
    states, and `run.html` shows metrics and samples in a browser while the run lasts. Writing a
    reason into `cord` stops the run before its next step, and so does a reason that the function
    `cord` gives. `progress` is the file or folder whose presence says that the run has begun: until
    then, configuration and data may change. The folder is locked from the making of the object to
    the end of its `with` block. Raises Failed: run_in_use, other_run where the folder holds a run
    that was begun otherwise or from other data, and OSError where it cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        config: msgspec.Struct,
        accelerator: Accelerator | None = None,
        progress: str = "checkpoints",
        cord: StopCheck = str,
        data: Iterable[str] = (),
    ) -> None:
        self.folder = folder
        self.config = config
        self._accelerator = accelerator
        self._stop_check = cord
        self._is_main_process = accelerator is None or bool(accelerator.is_main_process)
        """whether this process writes: one of several that share the work does"""
        self.ending = ""
        """why it ended before its last step, to be shown; empty: it did not"""
        self._progress: tuple[int, int] | None = None
        """steps made and planned; None: none was begun"""
        self._page_time = -math.inf
        if self._is_main_process:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / "lock").open("w")
            try:
                self._acquire_lock()
                self._write_config(msgspec.json.encode(config), progress)
                self._write_data_digests(data, progress)
            except BaseException:
                self._lock.close()
                raise

    def _acquire_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            detail = "another process trains here: wait for it, or name another folder"
            raise Failed(Failure(str(self.folder), Outcome.RUN_IN_USE, detail)) from None

    def _write_config(self, config: bytes, progress: str) -> None:
        """Write the configuration; until there is a checkpoint it may still be changed."""
        place = self.folder / "config.json"
        begun = (self.folder / progress).exists()
        if begun and place.exists() and place.read_bytes() != config:
            detail = "it holds a run with another configuration: name another folder for this one"
            raise Failed(Failure(str(self.folder), Outcome.OTHER_RUN, detail))
        write_whole_file(place, [config])

    def _write_data_digests(self, data: Iterable[str], progress: str) -> None:
        """Write the digests of the files that are learnt from.

        With other data, what was held out before would be learnt, and measured as if it was not.
        """
        place = self.folder / "data.json"
        files = [file for each in data if each for file in list_dataset_files(Path(each))]
        now = {str(file): _digest_file(file) for file in files if file.is_file()}
        if (self.folder / progress).exists() and place.exists():
            before = json.loads(place.read_bytes())
            if changed := [file for file in now if before.get(file, now[file]) != now[file]]:
                detail = (
                    f"{changed[0]} has changed since this run was begun: name another folder for a "
                    "run with the new data, or put the old file back"
                )
                raise Failed(Failure(str(self.folder), Outcome.OTHER_RUN, detail))
        write_whole_file(place, [json.dumps(now).encode()])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._is_main_process:
            if error is not None:
                reason = error.failure.detail if isinstance(error, Failed) else type(error).__name__
                self.ending = f"stopped: {reason}"
            self._write_page(running=False)
            self._lock.close()

    def _write_page(self, running: bool) -> None:
        """Write `run.html`, unless it was written just before; a disk that is full keeps the old
        page, and is reported where a checkpoint is written."""
        early = running and time.monotonic() < self._page_time + PAGE_SECONDS
        if self._progress is None or early or not self._is_main_process:
            return
        self._page_time = time.monotonic()
        step, count = self._progress
        about = self.ending or ("running" if running else "finished")
        state = f"{about}, {step} of {count} steps, {time.strftime('%Y-%m-%d %H:%M:%S %Z')}"
        with suppress(OSError, Failed):
            name, history = self.folder.resolve().name, load_run_metrics(self.folder)
            samples = _read_last_lines(self.folder / "samples.jsonl")
            faults = diagnose_training(history)
            page = render_run_page(name, state, running, history, samples, faults)
            write_whole_file(self.folder / "run.html", [page.encode("utf-8", "replace")])

    def find_stop_reason(self) -> str:
        """Return why the run must stop: what the file or the function `cord` says; empty to go on.

        Processes that share the work must all ask: none goes on where one has seen it.
        """
        why = read_stop_reason(self.folder) or self._stop_check()
        if self._accelerator is None or self._accelerator.num_processes == 1:
            return why
        return next(filter(None, gather_object([why])), "")

    def iterate_steps(
        self,
        count: int,
        state: CheckpointedState,
        every: int | None = None,
        callback: StepCallback | None = None,
        most: int = 100,
    ) -> Iterator[int]:
        """Yield the numbers of the steps that are still to be made.

        Loads the last whole checkpoint first, and cuts off the metrics and samples that were
        written after it. After each step it writes the metrics and calls `callback`; after every so
        many steps, and after the last, it writes a checkpoint. All processes must call it. Without
        `every` they are a tenth of the run, and `most` at most, so that a short run that is killed
        goes on as well. Call `record_metrics` with what was measured before asking for the next
        number. Raises Failed: bad_line for a damaged line of the metrics or samples, stopped before
        a step where the cord was pulled, unwritable where a checkpoint cannot be saved.
        """
        every = min(max(count // 10, 1), most) if every is None else every
        first = self._restore_checkpoint(state)
        self._step_metrics: dict[str, float] = {}
        self._progress = (first, count)
        for number in range(first, count):
            self._write_page(running=True)
            if why := self.find_stop_reason():
                raise Failed(Failure(str(self.folder), Outcome.STOPPED, why))
            yield number
            if self._is_main_process:
                line = {"step": number, **self._step_metrics}
                _append_json_line(self.folder / "metrics.jsonl", line)
            self._progress = (number + 1, count)
            if callback is not None:
                callback(number + 1, count, self._step_metrics)
            if (number + 1) % every == 0 or number + 1 == count:
                self._save_checkpoint(number + 1, state)

    def find_oldest_step(self) -> int:
        """Return the number of steps before the oldest checkpoint that is kept; 0 without one."""
        kept = (self.folder / "checkpoints").glob("[0-9]*")
        return min((int(place.name) for place in kept), default=0)

    def record_metrics(self, **measured: float) -> None:
        """Set the metrics of this step, which are written when the next step is asked for."""
        self._step_metrics = measured

    def record_sample(self, **sample: Any) -> None:
        """Append a sample, such as a generated answer, to `samples.jsonl`."""
        if self._is_main_process:
            _append_json_line(self.folder / "samples.jsonl", sample)

    def _save_checkpoint(self, number: int, state: CheckpointedState) -> None:
        """Write a checkpoint that is there whole or not at all, and forget the oldest."""
        checkpoints = self.folder / "checkpoints"
        new, place = checkpoints / "new", checkpoints / f"{number:08}"
        if self._is_main_process:
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
        self._wait_for_everyone()
        try:
            state.save(new)
        except (OSError, RuntimeError, SafetensorError) as error:  # a full disk is any of these
            detail = f"it cannot be written ({error}): make room and run the same command again"
            raise Failed(Failure(str(new), Outcome.UNWRITABLE, detail)) from error
        self._wait_for_everyone()
        digests = self._digest_files(new)
        if not self._is_main_process:
            return
        files = [file for name in _LINE_FILES if (file := self.folder / name).exists()]
        for file in files:
            _sync_path(file)
        sizes = {file.name: file.stat().st_size for file in files}
        about = {"step": number, "lines": sizes, "files": digests}
        write_whole_file(new / _MANIFEST_FILE, [json.dumps(about).encode()])
        shutil.rmtree(place, ignore_errors=True)
        new.rename(place)
        _sync_path(checkpoints)
        for old in sorted(checkpoints.glob("[0-9]*"))[:-KEPT_CHECKPOINTS]:
            shutil.rmtree(old)

    def _digest_files(self, folder: Path) -> dict[str, str]:
        """Return the digest of each file of a checkpoint; each process reads a share of them."""
        files = sorted(
            path for path in folder.rglob("*") if path.is_file() and path.name != _MANIFEST_FILE
        )
        index = 0 if self._accelerator is None else self._accelerator.process_index
        count = 1 if self._accelerator is None else self._accelerator.num_processes
        ours = [(str(path.relative_to(folder)), _digest_file(path)) for path in files[index::count]]
        return dict(sorted(ours if count == 1 else gather_object(ours)))

    def _wait_for_everyone(self) -> None:
        if self._accelerator is not None:
            self._accelerator.wait_for_everyone()

    def _restore_checkpoint(self, state: CheckpointedState) -> int:
        """Load the last whole checkpoint; return how many steps it has seen."""
        checkpoints = self.folder / "checkpoints"
        for place in sorted(checkpoints.glob("[0-9]*"), reverse=True):
            about = _read_manifest(place)
            if about is None or about["files"] != self._digest_files(place):
                continue
            state.load(place)
            if self._is_main_process:
                for name in _LINE_FILES:
                    _restore_lines(self.folder / name, about["lines"].get(name, 0))
            return int(about["step"])
        for name in _LINE_FILES if self._is_main_process else ():
            _restore_lines(self.folder / name, 0)
        return 0


class TrainingSchedule(NamedTuple):
    """The steps of a run, and how often it is validated and saved."""

    steps: int
    check: int
    """steps from one validation to the next; there is one after the last step too"""
    patience: int | None
    """validations in a row without a better one, after which the training ends; None: it does
    not"""
    every: int | None
    """steps from one checkpoint to the next; None: as `ResumableRun.iterate_steps` has it"""
    best: str
    """metric of a validation by which the written model is chosen"""


P = TypeVar("P", bound=ValidationProgress)
StepFunction = Callable[[int], dict[str, float]]
"""from a number of steps to the metrics of one of them"""


def train_with_validations(
    run: ResumableRun,
    schedule: TrainingSchedule,
    state: CheckpointedState,
    progress: SavedRecord[P],
    train: StepFunction,
    validate: Callable[[], tuple[dict[str, float], Sequence[dict[str, Any]]]] | None,
    write: Callable[[], None],
    callback: StepCallback | None,
) -> None:
    """Make the steps of a run that are still to be made, with validations between them.

    `train` makes the step of a number, counted from 0. `validate` gives metrics and samples to be
    kept; None: nothing is validated. `write` writes the model where it is the best so far. `state`
    and `progress` are saved with each checkpoint. Raises Failed as `ResumableRun.iterate_steps`
    does.
    """
    parts = CheckpointParts(state, progress)
    for step in run.iterate_steps(schedule.steps, parts, schedule.every, callback):
        if schedule.patience is not None and progress.record.worse >= schedule.patience:
            run.ending = f"ended: nothing better in {schedule.patience} validations"
            break
        metrics, steps = train(step), step + 1
        if validate and (steps % schedule.check == 0 or steps == schedule.steps):
            measured, samples = validate()
            for each in samples:
                run.record_sample(step=steps, **each)
            if progress.record.add_validation(steps, measured, schedule.best):
                write()
            metrics |= measured
        run.record_metrics(**metrics)


def read_stop_reason(folder: Path) -> str:
    """Return the text of the file `cord` in a run's folder, which stops it; empty without the file.

    An empty file gives a text too.
    """
    try:
        return (folder / "cord").read_text("utf-8").strip() or "the cord was pulled"
    except FileNotFoundError:
        return ""


def find_checkpoint_step(folder: Path) -> int:
    """Return the number of steps made before the last checkpoint in this folder; 0 without one."""
    made = (folder / "checkpoints").glob("[0-9]*")
    return max((int(place.name) for place in made), default=0)


def load_run_metrics(folder: Path) -> list[dict[str, float]]:
    """Return the metrics of the run in this folder, step by step; empty if there are none.

    Each has its `step`, counted from 0. A value that was no finite number is None. Raises Failed
    (bad_line).
    """
    place = folder / "metrics.jsonl"
    return read_run_lines(place) if place.exists() else []


_LOG = logging.getLogger("rookery.learn")
_LINE_FILES = ("metrics.jsonl", "samples.jsonl")


def _append_json_line(place: Path, line: dict[str, Any]) -> None:
    """Append an object as a line of JSON; numbers that are not finite are written as null."""
    plain = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in line.items()
    }
    with place.open("ab") as lines:
        lines.write(json.dumps(plain).encode() + b"\n")


def _restore_lines(place: Path, size: int) -> None:
    """Cut off what was written after the checkpoint: it is written again.

    So is a line before it that has lost its end, with a warning. Raises Failed (bad_line).
    """
    if place.exists():
        os.truncate(place, min(size, place.stat().st_size))
        if cut_partial_line(place):
            _LOG.warning("%s: its last line had lost its end and is forgotten", place)
        read_run_lines(place)


def read_run_lines(place: Path) -> list[dict[str, Any]]:
    """Read the objects of a file of JSON lines; a last line without an end is passed over.

    Raises Failed (bad_line).
    """
    lines, content = list[dict[str, Any]](), place.read_bytes()
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            lines.append(json.loads(line))
        except ValueError as error:
            detail = f"it is damaged ({error}): take the line out and run the same command again"
            raise Failed(Failure(f"{place}, line {number}", Outcome.BAD_LINE, detail)) from error
    return lines


def _read_last_lines(place: Path) -> list[dict[str, Any]]:
    """Read the objects of the last lines of a file of JSON lines; empty without the file."""
    if not place.exists():
        return []
    with place.open("rb") as file:
        return [json.loads(line) for line in deque(file, maxlen=8)]


def cut_partial_line(place: Path) -> int:
    """Cut a last line that has no end, as a kill leaves it, off a file; return its bytes."""
    with place.open("r+b") as lines:
        content = lines.read()
        return len(content) - lines.truncate(content.rfind(b"\n") + 1)


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _read_manifest(place: Path) -> dict[str, Any] | None:
    """Return the manifest of a checkpoint, or None without a whole one."""
    try:
        about: dict[str, Any] = json.loads((place / _MANIFEST_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) and {"step", "lines", "files"} <= about.keys() else None


def _sync_path(path: Path) -> None:
    """Make sure that a file, or the new names in a folder, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


_WINDOW_STEPS = 5
"""steps that are looked at together, since one may be chance"""


def diagnose_training(history: MetricHistory) -> list[str]:
    """Return a sentence on each likely fault of a reinforcement run, from its metrics.

    It looks at the last 5 steps, for the fit of the values at the last 20, and at the entropy of
    the first. Empty if it finds none, and without metrics.
    """
    if not history:
        return []
    return [*_find_sampling_faults(history), *_find_learning_faults(history)]


def _average_metric(history: MetricHistory, name: str, steps: int = _WINDOW_STEPS) -> float:
    """Over the last steps; not a number where nothing was measured."""
    values = [value for line in history[-steps:] if (value := line.get(name)) is not None]
    return fmean(values) if values else math.nan


def _find_sampling_faults(history: MetricHistory) -> Iterator[str]:
    answered, kl = _average_metric(history, "answered"), _average_metric(history, "kl")
    if answered == 0:
        yield (
            f"no episode of the last {min(_WINDOW_STEPS, len(history))} batches has an answer: "
            "allow longer "
            "actions, imitate answers first, or look at what is said in samples.jsonl"
        )
    elif _average_metric(history, "reward_spread") == 0:
        yield (
            "all episodes of a batch have the same reward, so that nothing can be learnt from it: "
            "look at the reward, or draw at a higher temperature"
        )
    worst = max((line.get("mismatch") or 0.0) for line in history[-_WINDOW_STEPS:])
    if worst >= 0.1:  # bfloat16 makes some hundredths
        yield (
            f"the ratio is not 1 in the first epoch: what was drawn with one log-probability has "
            f"another when it is read again (they lie {worst:.2g} apart): sampling and training do "
            "not use the same temperature, mask, precision or weights"
        )
    if kl <= -0.05 and len(history) >= _WINDOW_STEPS:
        yield (
            f"the KL from the reference is negative ({kl:.2f} nats an episode), which no KL is: "
            "tokens are not drawn from the distribution whose log-probabilities are used "
            "(temperature, top-p, a length that is forced), or the reference is read otherwise"
        )


def _find_learning_faults(history: MetricHistory) -> Iterator[str]:
    first, last = history[0].get("entropy"), _average_metric(history, "entropy")
    if first is not None and last <= min(0.05, first / 10):
        yield (
            f"the entropy fell from {first:.2f} to {last:.3f} nats a token, so that nearly always "
            "the same is said: raise beta, lower the rate, or stop earlier"
        )
    share = _average_metric(history, "clipped")
    if share >= 0.3:
        yield (
            f"{share:.0%} of the tokens are clipped (1 or 2 % is usual): lower the rate, or make "
            "fewer epochs"
        )
    if len(history) < 4 * _WINDOW_STEPS:
        return
    explained = _average_metric(history, "explained", 4 * _WINDOW_STEPS)
    if explained <= 0.02:
        yield (
            f"the values explain nothing of the returns ({explained:.2f} of the variance): raise "
            "value_weight or the rate, or begin the value network from the reward model"
        )
    kl, target = _average_metric(history, "kl"), _average_metric(history, "target")
    if kl >= 3 * target:
        yield (
            f"the KL ({kl:.1f} nats an episode) is far above its target ({target:g}): raise beta, "
            "or lower horizon or the rate"
        )
