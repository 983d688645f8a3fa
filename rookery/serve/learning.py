"""`rookery learn`: a TOML file says what is learnt; progress and what was reached are shown."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rookery.records import Failed, Failure
from rookery.serve.command_line import CommandError
from rookery.serve.exits import ANSWERED, STOPPED
from rookery.serve.terminal import StreamConsole, clean

Train = Callable[[dict[str, Any], Path, Path, "Told", str, bool], msgspec.Struct]
"""from a table, the file it stands in, the run's folder, who is told, the store of a desk, and
whether this process speaks, to what was reached"""
Told = Callable[[int, int, dict[str, float]], None]
SHOWN = 3
"""measures beside the progress bar"""
SAID = 160
"""characters of a sample that is shown as training goes"""


class Summary(NamedTuple):
    """How a person is told what came of a lesson, in words that its record's fields complete."""

    learnt: str
    measured: str
    """on what, before and after"""
    measures: Mapping[str, str]
    """those that are shown, and what they are"""


SUMMARIES = {
    "imitate": Summary(
        "learnt from {rows} steps of episodes; kept: the model after step {best_step} of {steps}",
        "{validation_rows} steps of episodes that were held out",
        {
            "validation_loss": "nats a token; less is better",
            "accuracy": "share of tokens that are the likeliest",
            "valid": "share of sampled answers that are commands, where one is wanted",
        },
    ),
    "prefer": Summary(
        "learnt from {comparisons} comparisons; kept: the model after step {best_step} of {steps}",
        "{after[comparisons]} comparisons that were held out",
        {
            "loss": "nats; 0.693 for pairs is knowing nothing, less is better",
            "accuracy": "share in which the preferred answer has the highest reward",
            "error": "calibration error; less is better",
        },
    ),
    "reinforce": Summary(
        "learnt in {reinforced[steps]} batches of episodes; the last is {reinforced[kl]:.3g} nats "
        "an episode from the reference",
        "{asked}",
        {
            "reward": "mean of an episode",
            "answered": "share of the episodes with an answer",
        },
    ),
    "retrieve": Summary(
        "learnt from {questions} questions; kept: the encoder after step {best_step} of {steps}",
        "{validation_questions} questions that were held out",
        {
            "mse": "squared error of foretold worths; less is better",
            "accuracy": "share of pairs of references in the right order",
            "ndcg": "how good the order of references is; 1 is the best",
        },
    ),
}


def learn(
    what: str, config: Path, out: Path | None, json: bool, board: bool, desk: str = ""
) -> int:
    """Trains what a file says; goes on where the same command was stopped or killed.

    Gives the exit code. Raises CommandError (STOPPED) where the cord of the run was pulled, and
    Failed for what is wrong with the file, the data or the model.
    """
    from safetensors import SafetensorError

    from rookery.draft.config import read_table

    table = read_table(config)
    folder = out or _folder(table, config)
    table.pop("out", None)
    main = _main_process()
    err = StreamConsole(stderr=True)
    with _Progress(err, folder, main, board) as progress:
        try:
            reached = TRAINERS[what](table, config, folder, progress.told, desk, main)
        except Failed as failed:
            if failed.failure.outcome != "stopped":
                raise
            raise CommandError(_why(failed.failure, folder), STOPPED) from failed
        except SafetensorError as error:  # is no OSError, as it is where others write
            detail = (
                f"weights cannot be written ({error}): make room and run the same command again"
            )
            raise Failed(Failure(str(folder), "unwritable", detail)) from error
    if main:
        _show(what, reached, folder, json, err)
    return ANSWERED


def _why(stopped: Failure, folder: Path) -> str:
    """What stopped a run, and what to do so that it goes on."""
    cord = folder / "cord"
    first = (
        f"delete {cord} and"
        if cord.exists()
        else "let a second person release it at the desk, or bring the desk back, and"
    )
    return f"stopped: {clean(stopped.detail)}; to go on, {first} run the same command again"


def _folder(table: dict[str, Any], config: Path) -> Path:
    """Where the run is kept, as the file says."""
    said = table.get("out")
    if not isinstance(said, str) or not said:
        detail = 'say where the run is kept: a line out = "runs/first", or --out DIR'
        raise Failed(Failure(str(config), "bad_config", detail))
    return Path(said)


def _show(what: str, reached: msgspec.Struct, folder: Path, json: bool, err: Console) -> None:
    from rookery.learn.curves import curves
    from rookery.learn.run import measured

    (folder / "curves.svg").write_text(curves(measured(folder)), encoding="utf-8")
    if json:
        sys.stdout.write(msgspec.json.encode(reached).decode() + "\n")
        return
    for line in _summary(SUMMARIES[what], msgspec.to_builtins(reached)):
        sys.stdout.write(clean(line) + "\n")
    sys.stdout.write(clean(f"model: {folder / 'model'}; curves: {folder / 'curves.svg'}") + "\n")


def _summary(summary: Summary, reached: dict[str, Any]) -> Iterator[str]:
    yield summary.learnt.format_map(reached)
    before = reached.get("before") or {}
    after = reached.get("after") or reached.get("measured") or {}
    if after:
        yield f"on {summary.measured.format_map(reached)}, before -> after:"
        yield from _measures(summary.measures, before, after)
    else:
        yield "nothing was held out, so nothing says how good it is"
    if reached.get("left_out"):
        yield f"left out: {reached['left_out']}"
    if too_long := reached.get("too_long"):
        yield f"left out: {too_long} comparisons and ratings that are too long for the model"
    learnt = reached.get("reinforced") or {}
    if labelled := reached.get("labelled"):
        yield from _labelled(labelled)
    if learnt.get("ended"):
        yield f"ended early: {learnt['ended']}"
    yield from (f"look at this: {fault}" for fault in learnt.get("faults", ()))


def _labelled(reached: Mapping[str, Any]) -> Iterator[str]:
    yield f"people compared {reached['labels']} times; reward model: {reached['reward']}"
    if reached["better"] is not None:
        yield f"of the last times, they preferred it to its reference in {reached['better']:.0%}"


def _measures(
    shown: Mapping[str, str], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[str]:
    """One a line, as far as they were measured."""
    for name, meaning in shown.items():
        values = [each[name] for each in (before, after) if each.get(name) is not None]
        if values:
            change = " -> ".join(f"{value:.4g}" for value in values)
            yield f"  {name:<16}{change:<20}  {meaning}"


def _main_process() -> bool:
    """Of several that share the work, one speaks."""
    import torch
    from accelerate import PartialState

    # Several processes of a machine without an accelerator find each other only if told so.
    return bool(PartialState(cpu=not torch.accelerator.is_available()).is_main_process)


class _Progress:
    """A bar on standard error, what the model says above it, and TensorBoard's files on request."""

    def __init__(self, err: Console, folder: Path, main: bool, board: bool) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[measured]}"),
        )
        self._bar = Progress(*columns, console=err, disable=not (main and err.is_interactive))
        self._task = self._bar.add_task("reading", total=None, measured="")
        self._samples = folder / "samples.jsonl"
        self._read = 0
        self._board: Any = _writer(folder) if main and board else None

    def told(self, step: int, count: int, measured: dict[str, float]) -> None:
        """Shows what was measured."""
        first = list(measured.items())[:SHOWN]
        words = "  ".join(f"{name} {value:.3g}" for name, value in first)
        self._bar.update(
            self._task, description="learning", completed=step, total=count, measured=words
        )
        if not self._bar.disable:
            self._say(step)
        if self._board is not None:
            for name, value in measured.items():
                self._board.add_scalar(name, value, step)

    def _say(self, step: int) -> None:
        """The last of what was said in this step."""
        lines = self._samples.read_bytes()[self._read :] if self._samples.exists() else b""
        self._read += len(lines)
        for line in lines.splitlines()[-1:]:
            words = clean(_said(msgspec.json.decode(line)))
            if words:
                text = f"step {step}: {words[:SAID]}"
                self._bar.console.print(text, style="dim", markup=False)

    def __enter__(self) -> "_Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        if self._board:
            with suppress(OSError):
                self._board.close()


def _said(sample: Mapping[str, Any]) -> str:
    """A sample of any lesson in a line."""
    rows = sample.get("rows") or [{}]
    words = sample.get("said") or sample.get("first") or rows[-1].get("action", "")
    asked = f"{sample['question']} -> " if sample.get("question") else ""
    return " ".join(f"{asked}{words}".split()) if words else ""


def _writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        detail = "TensorBoard is not installed: pip install tensorboard, or leave --board out"
        raise Failed(Failure("--board", "no_tensorboard", detail)) from error
    return SummaryWriter(str(folder / "board"))


def _imitate(
    table: dict[str, Any], config: Path, out: Path, told: Told, *_: object
) -> msgspec.Struct:
    from rookery.draft.config import settings_of
    from rookery.learn.imitate import ImitateSettings, imitate

    return imitate(settings_of(table, ImitateSettings, config, also=("out",)), out, told)


def _prefer(
    table: dict[str, Any], config: Path, out: Path, told: Told, *_: object
) -> msgspec.Struct:
    from rookery.draft.config import settings_of
    from rookery.learn.prefer import PreferSettings, prefer

    return prefer(settings_of(table, PreferSettings, config, also=("out",)), out, told)


def _retrieve(
    table: dict[str, Any], config: Path, out: Path, told: Told, *_: object
) -> msgspec.Struct:
    from rookery.draft.config import settings_of
    from rookery.learn.retrieve import RetrieveSettings, retrieve

    return retrieve(settings_of(table, RetrieveSettings, config, also=("out",)), out, told)


def _reinforce(
    table: dict[str, Any], config: Path, out: Path, told: Told, desk: str, main: bool
) -> msgspec.Struct:
    from rookery.serve.reinforcing import reinforced

    return reinforced(table, config, out, told, desk, main)


TRAINERS: dict[str, Train] = {
    "imitate": _imitate,
    "prefer": _prefer,
    "reinforce": _reinforce,
    "retrieve": _retrieve,
}
