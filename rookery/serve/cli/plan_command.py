"""The command `rookery learn plan`: the memory of the training that a TOML file describes."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from rookery.draft.config import parse_settings, read_toml_table
from rookery.learn.memory_plan import (
    PART_NAMES,
    PHASES,
    ProcessMemory,
    TrainingMemory,
    TrainingShape,
    measure_training_memory,
    read_model_config,
    shape_imitation,
    shape_preference,
    shape_reinforcement,
    suggest_smaller_setting,
)
from rookery.learn.reward_training import RewardTrainingSettings
from rookery.learn.training_data import load_comparisons
from rookery.records import Failed, Failure
from rookery.serve.cli.learn_command import parse_imitation_file
from rookery.serve.cli.reinforce_command import parse_reinforce_file
from rookery.serve.command_line import print_lines
from rookery.serve.exit_codes import EXIT_ANSWERED

GB = 1e9
KIND_KEYS = {"settings": "reinforce", "comparisons": "prefer", "episodes": "imitate"}
"""keys of a file that tell what kind of training it describes"""
PHASE_NAMES = {"step": "in a step of the optimizer", "sampling": "while it samples"}


class PlacementPlan(msgspec.Struct, frozen=True):
    """Memory of each process where weights are whole, or where they are split, in bytes."""

    parts: ProcessMemory
    step: int
    """bytes held at once in a step of the optimizer"""
    sampling: int
    """bytes held at once while it samples"""
    peak: int
    """the larger of both"""


class TrainingPlan(msgspec.Struct, frozen=True):
    """The result of the command, for programs."""

    kind: str
    parameters: int
    """of the model that is trained"""
    learning: int
    """weights that learn, those of the value network among them"""
    rows: int
    """of a micro-batch"""
    tokens: int
    """of a row"""
    targets: int
    """tokens of a row that are predicted; 0: none"""
    gpus: int
    memory: float | None
    """of each GPU, in GB; None: it was not said"""
    whole: PlacementPlan
    split: PlacementPlan | None
    """None: with one GPU"""
    fits: bool | None
    """None: no memory was said"""
    conclusion: str
    """a sentence"""


def plan_training(
    config: Path, kind: str, gpus: int, memory: float | None, tokens: int, targets: int
) -> TrainingPlan:
    """Return the memory of the training that a TOML file describes.

    `kind` is imitate, prefer or reinforce; empty: as the file's keys tell. `memory` is that of each
    GPU in GB. `tokens` and `targets` are the lengths of the longest row and the longest target; 0:
    as many as there may be. Raises Failed: bad_config, bad_kind, no_model, bad_model, no_peft,
    no_targets, no_dropout.
    """
    table = read_toml_table(config)
    table.pop("out", None)
    told = (name for key, name in KIND_KEYS.items() if key in table)
    chosen = kind or next(told, "")
    if chosen not in SHAPES:
        names = ", ".join(SHAPES)
        said = f"{kind} is no kind" if kind else "the file does not tell its kind"
        detail = f"{said} of training: --kind {names}; no other kind is planned here"
        raise Failed(Failure(str(config), "bad_kind", detail))
    shape = SHAPES[chosen](table, config, tokens, targets)
    return _make_plan(chosen, measure_training_memory(shape), gpus, memory)


def run_plan(plan: TrainingPlan, as_json: bool) -> int:
    """Print a plan; return the exit code."""
    if as_json:
        print_lines([msgspec.json.encode(plan).decode()])
    else:
        print_lines(_format_plan(plan))
    return EXIT_ANSWERED


def _shape_imitate(table: dict[str, Any], config: Path, tokens: int, targets: int) -> TrainingShape:
    settings, world = parse_imitation_file(table, config)
    model = read_model_config(settings.trained.model)
    reward = world.get("reward") if isinstance(world, dict) else None
    shape = shape_imitation(settings, model, tokens, targets)
    return shape._replace(reward=_find_reward_config(reward, model) if reward else None)


def _shape_prefer(table: dict[str, Any], config: Path, tokens: int, _: int) -> TrainingShape:
    settings = parse_settings(table, RewardTrainingSettings, config, also=("out",))
    answers = 2
    with suppress(Failed):  # a plan may be made before there are any
        compared = load_comparisons(Path(settings.comparisons))
        answers = max((len(each.answers) for each in compared), default=2)
    return shape_preference(settings, read_model_config(settings.trained.model), tokens, answers)


def _shape_reinforce(table: dict[str, Any], config: Path, tokens: int, _: int) -> TrainingShape:
    file = parse_reinforce_file(table, config)
    settings, reward = file.settings, file.world.reward
    policy = settings.policy.model
    model = read_model_config(policy)
    critic, reference = (
        read_model_config(other) if other not in ("", policy) else None
        for other in (settings.value_model, settings.reference)
    )
    return shape_reinforcement(settings, model, tokens)._replace(
        critic=critic,
        reference=reference,
        reward=_find_reward_config(reward, model) if reward else None,
    )


SHAPES: dict[str, Callable[[dict[str, Any], Path, int, int], TrainingShape]] = {
    "imitate": _shape_imitate,
    "prefer": _shape_prefer,
    "reinforce": _shape_reinforce,
}


def _find_reward_config(reward: str, policy: Any) -> Any:
    """Return the configuration of a reward model, or the policy's while it is still to be made."""
    try:
        return read_model_config(reward)
    except Failed as failed:
        if failed.failure.outcome != "no_model":
            raise
        return policy


def _make_plan(kind: str, found: TrainingMemory, gpus: int, memory: float | None) -> TrainingPlan:
    shape = found.shape
    whole = found.replicate_weights(gpus)
    split = None if gpus == 1 else found.shard_weights(gpus)
    best = whole if split is None or whole.peak <= split.peak else split
    fits = None if memory is None else best.peak <= memory * GB
    placed = "whole weights" if best is whole else "weights that FSDP splits (sharded = true)"
    who = "the GPU holds" if gpus == 1 else f"with {placed} each GPU holds"
    holds = f"{who} {best.peak / GB:,.3f} GB"
    if memory is None:
        conclusion = f"{holds} at most"
    elif fits:
        conclusion = f"it fits: {holds} of {memory:g} at most; CUDA itself takes a GB or two more"
    else:
        advice = suggest_smaller_setting(shape, best)
        conclusion = f"it does not fit: {holds}, and has {memory:g}; {advice}"
    return TrainingPlan(
        kind,
        found.parameters,
        found.learning,
        shape.rows,
        shape.tokens,
        shape.targets,
        gpus,
        memory,
        _sum_placement(whole),
        None if split is None else _sum_placement(split),
        fits,
        conclusion,
    )


def _sum_placement(parts: ProcessMemory) -> PlacementPlan:
    step, sampling = (parts.sum_parts(phase) for phase in PHASES)
    return PlacementPlan(parts, step, sampling, parts.peak)


def _format_plan(plan: TrainingPlan) -> Iterator[str]:
    """Yield the lines of a plan for people."""
    rows = "1 row" if plan.rows == 1 else f"{plan.rows:,} rows"
    predicted = f", {plan.targets:,} of them predicted" if plan.targets else ""
    yield f"{plan.kind}: {plan.parameters:,} weights; {plan.learning:,} weights learn"
    yield f"micro-batches of {rows} of {plan.tokens:,} tokens{predicted}"
    yield ""
    columns = {"whole": plan.whole} | ({f"FSDP, {plan.gpus}": plan.split} if plan.split else {})
    yield f"{'GB on each GPU':36}" + "".join(f"{name:>12}" for name in columns)
    for name, words in PART_NAMES.items():
        sizes = [getattr(each.parts, name) for each in columns.values()]
        if any(sizes):
            yield _format_row(words, sizes)
    yield _format_row(PHASE_NAMES["step"], [each.step for each in columns.values()])
    if plan.whole.parts.cache:
        yield _format_row(PHASE_NAMES["sampling"], [each.sampling for each in columns.values()])
    yield ""
    yield plan.conclusion


def _format_row(words: str, sizes: list[int]) -> str:
    cells = "".join(f"{size / GB:>12,.3f}" if size else f"{'-':>12}" for size in sizes)
    return f"{words:36}{cells}"
