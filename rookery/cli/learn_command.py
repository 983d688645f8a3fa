"""The command `rookery learn`: train what a TOML file describes, with progress and a summary."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rookery.errors import Failed, Outcome
from rookery.records import Failure
from rookery.shell.command_line import EXIT_ANSWERED, EXIT_STOPPED, CommandError, print_lines
from rookery.shell.terminal_output import StreamConsole, sanitize_text
from rookery.typed_files import parse_settings, read_toml_table

if TYPE_CHECKING:
    from rookery.learn.imitation_learning import ImitationSettings

Trainer = Callable[[dict[str, Any], Path, Path, "StepObserver", str, bool], msgspec.Struct]
"""from a table, the file it stands in, the run's folder, who is told, the store of a desk, and
whether this process speaks, to what was reached"""
StepObserver = Callable[[int, int, dict[str, float]], None]
SAMPLES_SHOWN = 3
"""measures beside the progress bar"""
SAMPLE_LENGTH = 160
"""characters of a sample that is shown as training goes"""


class TrainingSummary(NamedTuple):
    """Templates of the lines that tell a person the result of a training run."""

    learnt: str
    measured: str
    """on what, before and after"""
    measures: Mapping[str, str]
    """those that are shown, and what they are"""


TRAINING_SUMMARIES = {
    "imitate": TrainingSummary(
        "learnt from {rows} steps of episodes; kept: the model after step {best_step} of {steps}",
        "{validation_rows} steps of episodes that were held out",
        {
            "validation_loss": "nats a token; less is better",
            "accuracy": "share of tokens that are the likeliest",
            "valid": "share of sampled answers that are commands, where one is wanted",
        },
    ),
    "prefer": TrainingSummary(
        "learnt from {comparisons} comparisons; kept: the model after step {best_step} of {steps}",
        "{after[comparisons]} comparisons that were held out",
        {
            "loss": "nats; 0.693 for pairs is knowing nothing, less is better",
            "accuracy": "share in which the preferred answer has the highest reward",
            "error": "calibration error; less is better",
        },
    ),
    "reinforce": TrainingSummary(
        "learnt in {reinforced[steps]} batches of episodes; the last is {reinforced[kl]:.3g} nats "
        "an episode from the reference",
        "{asked}",
        {"reward": "mean of an episode", "answered": "share of the episodes with an answer"},
    ),
    "retrieve": TrainingSummary(
        "learnt from {questions} questions; kept: the encoder after step {best_step} of {steps}",
        "{validation_questions} questions that were held out",
        {
            "mse": "squared error of foretold worths; less is better",
            "accuracy": "share of pairs of references in the right order",
            "ndcg": "how good the order of references is; 1 is the best",
        },
    ),
}


def run_learn(
    what: str, config: Path, out: Path | None, json: bool, board: bool, desk: str = ""
) -> int:
    """Run a kind of training (`what`) as a TOML file says, and print its result.

    Continues where the same command was stopped or killed. Returns the exit code. Raises
    CommandError (EXIT_STOPPED) where the stop switch of the run was used, and Failed for what is
    wrong with the file, the data or the model.
    """
    from safetensors import SafetensorError

    table = read_toml_table(config)
    folder = out or _get_run_folder(table, config)
    table.pop("out", None)
    main = _is_main_process()
    err = StreamConsole(stderr=True)
    with _TrainingProgress(err, folder, main, board) as progress:
        try:
            reached = TRAINERS[what](table, config, folder, progress.show_step, desk, main)
        except Failed as failed:
            if failed.failure.outcome != Outcome.STOPPED:
                raise
            raise CommandError(_describe_stop(failed.failure, folder), EXIT_STOPPED) from failed
        except SafetensorError as error:  # is no OSError, as it is where others write
            detail = (
                f"weights cannot be written ({error}): make room and run the same command again"
            )
            raise Failed(Failure(str(folder), Outcome.UNWRITABLE, detail)) from error
    if main:
        _show_result(what, reached, folder, json, err)
    return EXIT_ANSWERED


def _describe_stop(stopped: Failure, folder: Path) -> str:
    """Return a sentence on why a run stopped, and how to continue it."""
    cord = folder / "cord"
    first = (
        f"delete {cord} and"
        if cord.exists()
        else "let a second person release it at the desk, or bring the desk back, and"
    )
    return f"stopped: {sanitize_text(stopped.detail)}; to go on, {first} run the same command again"


def _get_run_folder(table: dict[str, Any], config: Path) -> Path:
    """Return the folder of the run that the file names."""
    said = table.get("out")
    if not isinstance(said, str) or not said:
        detail = 'say where the run is kept: a line out = "runs/first", or --out DIR'
        raise Failed(Failure(str(config), Outcome.BAD_CONFIG, detail))
    return Path(said)


def _show_result(
    what: str, reached: msgspec.Struct, folder: Path, json: bool, err: Console
) -> None:
    from rookery.learn.training_run import load_run_metrics, plot_metrics

    (folder / "curves.svg").write_text(plot_metrics(load_run_metrics(folder)), encoding="utf-8")
    if json:
        sys.stdout.write(msgspec.json.encode(reached).decode() + "\n")
        return
    print_lines(_format_summary(TRAINING_SUMMARIES[what], msgspec.to_builtins(reached)))
    print_lines([f"model: {folder / 'model'}; curves: {folder / 'curves.svg'}"])


def _format_summary(summary: TrainingSummary, reached: dict[str, Any]) -> Iterator[str]:
    yield summary.learnt.format_map(reached)
    before = reached.get("before") or {}
    after = reached.get("after") or reached.get("measured") or {}
    if after:
        yield f"on {summary.measured.format_map(reached)}, before -> after:"
        yield from _format_measures(summary.measures, before, after)
    else:
        yield "nothing was held out, so nothing says how good it is"
    if reached.get("left_out"):
        yield f"left out: {reached['left_out']}"
    if too_long := reached.get("too_long"):
        yield f"left out: {too_long} comparisons and ratings that are too long for the model"
    learnt = reached.get("reinforced") or {}
    if labelled := reached.get("labelled"):
        yield from _format_labelled(labelled)
    if learnt.get("ended"):
        yield f"ended early: {learnt['ended']}"
    if learnt.get("validated") is not None:
        yield (
            f"kept: the policy after batch {learnt['best_step']}, with the highest reward on the "
            f"questions for validation: {learnt['validated']:.4g}"
        )
    yield from (f"look at this: {fault}" for fault in learnt.get("faults", ()))


def _format_labelled(reached: Mapping[str, Any]) -> Iterator[str]:
    yield f"people compared {reached['labels']} times; reward model: {reached['reward']}"
    if reached["better"] is not None:
        yield f"of the last times, they preferred it to its reference in {reached['better']:.0%}"


def _format_measures(
    measures: Mapping[str, str], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a line for each measure that was taken."""
    for name, meaning in measures.items():
        values = [each[name] for each in (before, after) if each.get(name) is not None]
        if values:
            change = " -> ".join(f"{value:.4g}" for value in values)
            yield f"  {name:<16}{change:<20}  {meaning}"


def _is_main_process() -> bool:
    """Return whether this is the process that prints, of several that share the work."""
    import torch
    from accelerate import PartialState

    # Several processes of a machine without an accelerator find each other only if told so.
    return bool(PartialState(cpu=not torch.accelerator.is_available()).is_main_process)


class _TrainingProgress:
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
        self._board: Any = _open_tensorboard(folder) if main and board else None

    def show_step(self, step: int, count: int, measured: dict[str, float]) -> None:
        """Show what was measured."""
        first = list(measured.items())[:SAMPLES_SHOWN]
        words = "  ".join(f"{name} {value:.3g}" for name, value in first)
        self._bar.update(
            self._task, description="learning", completed=step, total=count, measured=words
        )
        if not self._bar.disable:
            self._show_sample(step)
        if self._board is not None:
            for name, value in measured.items():
                self._board.add_scalar(name, value, step)

    def _show_sample(self, step: int) -> None:
        """The last of what was said in this step."""
        lines = self._samples.read_bytes()[self._read :] if self._samples.exists() else b""
        self._read += len(lines)
        for line in lines.splitlines()[-1:]:
            words = sanitize_text(_format_sample(msgspec.json.decode(line)))
            if words:
                text = f"step {step}: {words[:SAMPLE_LENGTH]}"
                self._bar.console.print(text, style="dim", markup=False)

    def __enter__(self) -> "_TrainingProgress":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        if self._board:
            with suppress(OSError):
                self._board.close()


def _format_sample(sample: Mapping[str, Any]) -> str:
    """Return a sample of any lesson in a line."""
    rows = sample.get("rows") or [{}]
    words = sample.get("said") or sample.get("first") or rows[-1].get("action", "")
    asked = f"{sample['question']} -> " if sample.get("question") else ""
    return " ".join(f"{asked}{words}".split()) if words else ""


def _open_tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        detail = "TensorBoard is not installed: pip install tensorboard, or leave --board out"
        raise Failed(Failure("--board", Outcome.NO_TENSORBOARD, detail)) from error
    return SummaryWriter(str(folder / "board"))


def _run_imitate(
    table: dict[str, Any], config: Path, out: Path, observer: StepObserver, *_: object
) -> msgspec.Struct:
    from rookery.cli.reinforce_command import open_reward_environment
    from rookery.learn.imitation_learning import train_by_imitation

    settings, world = parse_imitation_file(table, config)
    if world is None:
        return train_by_imitation(settings, out, observer)
    model, tokens = settings.trained.model, settings.sampling.token_limit
    with open_reward_environment(world, config, model, tokens) as environment:
        return train_by_imitation(settings, out, observer, environment)


def parse_imitation_file(table: dict[str, Any], config: Path) -> tuple["ImitationSettings", Any]:
    """Return the settings of a file for imitation, and its table [world]; None without one."""
    from rookery.learn.imitation_learning import ImitationSettings

    own = {name: value for name, value in table.items() if name != "world"}
    settings = parse_settings(own, ImitationSettings, config, also=("out", "world"))
    return settings, table.get("world")


def _run_prefer(
    table: dict[str, Any], config: Path, out: Path, observer: StepObserver, *_: object
) -> msgspec.Struct:
    from rookery.learn.reward_training import RewardTrainingSettings, train_reward_model

    return train_reward_model(
        parse_settings(table, RewardTrainingSettings, config, also=("out",)), out, observer
    )


def _run_retrieve(
    table: dict[str, Any], config: Path, out: Path, observer: StepObserver, *_: object
) -> msgspec.Struct:
    from rookery.learn.retrieval_training import RetrievalTrainingSettings, train_retriever

    return train_retriever(
        parse_settings(table, RetrievalTrainingSettings, config, also=("out",)), out, observer
    )


def _run_reinforce(
    table: dict[str, Any], config: Path, out: Path, observer: StepObserver, desk: str, main: bool
) -> msgspec.Struct:
    from rookery.cli.reinforce_command import run_reinforcement

    return run_reinforcement(table, config, out, observer, desk, main)


TRAINERS: dict[str, Trainer] = {
    "imitate": _run_imitate,
    "prefer": _run_prefer,
    "reinforce": _run_reinforce,
    "retrieve": _run_retrieve,
}
