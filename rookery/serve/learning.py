"""`rookery learn`: a TOML file says what is learnt; progress and what was reached are shown."""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rookery.records import Failed, Failure
from rookery.serve.exits import ANSWERED, STOPPED
from rookery.serve.terminal import clean

Train = Callable[[dict[str, Any], Path, Path, "Told"], msgspec.Struct]
"""from a table, the file it stands in, the run's folder and who is told, to what was reached"""
Told = Callable[[int, int, dict[str, float]], None]
SHOWN = 4
"""measures beside the progress bar"""


def learn(what: str, config: Path, out: Path | None, json: bool, board: bool) -> int:
    """Trains what a file says; goes on where the same command was stopped or killed.

    Gives the exit code: STOPPED where the cord of the run was pulled. Raises Failed for what is
    wrong with the file, the data or the model.
    """
    from rookery.learn.config import read_table

    table = read_table(config)
    said = table.pop("out", "")
    folder = out or Path(said)
    if not said and out is None:
        detail = 'say where the run is kept: a line out = "runs/first", or --out DIR'
        raise Failed(Failure(str(config), "bad_config", detail))
    err = Console(stderr=True, highlight=False)
    with _Progress(err, folder, board) as progress:
        try:
            reached = TRAINERS[what](table, config, folder, progress.told)
        except Failed as failed:
            if failed.failure.outcome != "stopped":
                raise
            err.print(f"stopped: {clean(failed.failure.detail)}", markup=False, soft_wrap=True)
            return STOPPED
    if _main_process():
        _show(reached, folder, json, err)
    return ANSWERED


def _show(reached: msgspec.Struct, folder: Path, json: bool, err: Console) -> None:
    from rookery.learn.curves import curves
    from rookery.learn.run import measured

    (folder / "curves.svg").write_text(curves(measured(folder)), encoding="utf-8")
    if json:
        sys.stdout.write(msgspec.json.encode(reached).decode() + "\n")
        return
    for name, value in msgspec.to_builtins(reached).items():
        if words := _plain(value):
            sys.stdout.write(f"{name}: {clean(words)}\n")
    err.print(f"curves are drawn in {folder / 'curves.svg'}", style="dim", markup=False)


def _plain(value: Any) -> str:
    """As a person reads it: tables within tables are for --json."""
    if isinstance(value, dict):
        said = ((name, _plain(each)) for name, each in value.items())
        return ", ".join(f"{name} {words}" for name, words in said if words)
    if isinstance(value, list | tuple):
        return "; ".join(_plain(each) for each in value if not isinstance(each, dict))
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def _main_process() -> bool:
    """Of several that share the work, one speaks."""
    from accelerate import PartialState

    return bool(PartialState().is_main_process)


class _Progress:
    """A bar on standard error, and, where it is wanted, TensorBoard's files."""

    def __init__(self, err: Console, folder: Path, board: bool) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[measured]}"),
        )
        self._bar = Progress(*columns, console=err, disable=not err.is_terminal)
        self._task = self._bar.add_task("learning", total=None, measured="")
        self._board: Any = _writer(folder) if board and _main_process() else None

    def told(self, step: int, count: int, measured: dict[str, float]) -> None:
        """Shows what was measured."""
        first = list(measured.items())[:SHOWN]
        words = "  ".join(f"{name} {value:.3g}" for name, value in first)
        self._bar.update(self._task, completed=step, total=count, measured=words)
        if self._board is not None:
            for name, value in measured.items():
                self._board.add_scalar(name, value, step)

    def __enter__(self) -> "_Progress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        if self._board:
            with suppress(OSError):
                self._board.close()


def _writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        detail = "TensorBoard is not installed: pip install tensorboard, or leave --board out"
        raise Failed(Failure("--board", "no_tensorboard", detail)) from error
    return SummaryWriter(str(folder / "board"))


def _imitate(table: dict[str, Any], config: Path, out: Path, told: Told) -> msgspec.Struct:
    from rookery.learn.config import settings_of
    from rookery.learn.imitate import ImitateSettings, imitate

    return imitate(settings_of(table, ImitateSettings, config), out, told)


def _prefer(table: dict[str, Any], config: Path, out: Path, told: Told) -> msgspec.Struct:
    from rookery.learn.config import settings_of
    from rookery.learn.prefer import PreferSettings, prefer

    return prefer(settings_of(table, PreferSettings, config), out, told)


def _retrieve(table: dict[str, Any], config: Path, out: Path, told: Told) -> msgspec.Struct:
    from rookery.learn.config import settings_of
    from rookery.learn.retrieve import RetrieveSettings, retrieve

    return retrieve(settings_of(table, RetrieveSettings, config), out, told)


def _reinforce(table: dict[str, Any], config: Path, out: Path, told: Told) -> msgspec.Struct:
    from rookery.serve.reinforcing import reinforced

    return reinforced(table, config, out, told)


TRAINERS: dict[str, Train] = {
    "imitate": _imitate,
    "prefer": _prefer,
    "reinforce": _reinforce,
    "retrieve": _retrieve,
}
