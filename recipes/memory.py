"""Memory and shapes of the paper configurations, computed without weights.

`python -m recipes.memory [RECIPE ...] [--processes N]` prints a line for each training of a recipe:
what one process holds, in GB, where the weights are whole; and where FSDP splits them over N.
"""

import argparse
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformers import AutoConfig

from recipes import gophercite, webglm_stages, webgpt, webgpt_data, ziegler_stages
from recipes.gophercite_stages import Settings as GopherCiteSizes
from recipes.memory_plan import (
    TrainingMemory,
    TrainingShape,
    measure_training_memory,
    shape_imitation,
    shape_preference,
    shape_reinforcement,
)
from recipes.stages import ROOT
from rookery.learn.imitation_learning import ImitationSettings
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.reward_training import RewardTrainingSettings
from rookery.typed_files import merge_tables, parse_settings, read_toml_table

SIZES = ROOT / "recipes" / "sizes"
GB = 1e9


class RecipeStage(NamedTuple):
    """One training of a recipe."""

    name: str
    model: str
    """name in architectures.toml"""
    shape: TrainingShape


def load_architectures() -> dict[str, dict[str, Any]]:
    """Return the configurations of the models that the paper configurations name."""
    return tomllib.loads((SIZES / "architectures.toml").read_text("utf-8"))


def list_stages(recipe: str) -> list[RecipeStage]:
    """Return the trainings of the paper configuration of a recipe. Raises KeyError for another."""
    stages = {
        "ziegler": _list_ziegler_stages,
        "webgpt": _list_webgpt_stages,
        "gophercite": _list_gophercite_stages,
        "webglm": _list_webglm_stages,
    }[recipe](SIZES / f"{recipe}.paper.toml")
    return [stage._replace(name=f"{recipe} {stage.name}") for stage in stages]


RECIPES = ("ziegler", "webgpt", "gophercite", "webglm")


def _list_ziegler_stages(place: Path) -> list[RecipeStage]:
    settings = parse_settings(read_toml_table(place), ziegler_stages.Settings, place)
    model, tokens = settings.model, _EXCERPT_TOKENS + settings.policy.sampling.token_limit
    return [
        _imitation("tuned", settings.tuned, model),
        _preference("labels", settings.last_token, model, tokens, _COMPARED_ANSWERS),
        _reinforcement("labels", settings.policy, model, tokens, 1),
    ]


_EXCERPT_TOKENS, _COMPARED_ANSWERS = 64, 4
"""Of an excerpt to continue, at most, and of a label (Ziegler, sections 2 and 3.1)."""


def _list_webgpt_stages(place: Path) -> list[RecipeStage]:
    table = merge_tables(webgpt.DEFAULTS, read_toml_table(place))
    made = parse_settings(table, webgpt_data.Settings, place)
    model = made.imitate.trained.model
    return [
        _imitation("imitate", made.imitate, model),
        _preference("prefer", made.prefer, model),
        _reinforcement("reinforce", made.reinforce, model),
    ]


def _list_gophercite_stages(place: Path) -> list[RecipeStage]:
    table = merge_tables(gophercite.DEFAULTS, read_toml_table(place))
    made = parse_settings(table, GopherCiteSizes, place)
    model = made.imitate.trained.model
    return [
        _imitation("imitate", made.imitate, model),
        _preference("prefer", made.prefer, made.prefer.trained.model),
        _reinforcement("reinforce", made.reinforce, model, steps=1),
    ]


def _list_webglm_stages(place: Path) -> list[RecipeStage]:
    settings = parse_settings(read_toml_table(place), webglm_stages.Settings, place)
    how, generate = settings.retrieve, settings.generate.imitate
    trained, texts = (
        TrainedModelSettings(how.model, how.frozen),
        how.piece * (how.drawing.references + 1),
    )
    encoder = TrainingShape(_read(how.model), trained, how.optimising, texts, 256, outputs=0)
    return [
        RecipeStage("retrieve, each encoder", Path(how.model).name, encoder),
        _imitation("generate", generate, generate.trained.model),
    ]


def _read(model: str) -> Any:
    """Return the configuration of a model, by its name in architectures.toml or such a folder."""
    return AutoConfig.for_model(**load_architectures()[Path(model).name])


def _imitation(name: str, how: ImitationSettings, model: str) -> RecipeStage:
    return RecipeStage(name, Path(model).name, shape_imitation(how, _read(model)))


def _preference(
    name: str, how: RewardTrainingSettings, model: str, tokens: int = 0, answers: int = 2
) -> RecipeStage:
    shape = shape_preference(how, _read(model), tokens, answers)
    return RecipeStage(f"{name} reward", Path(model).name, shape)


def _reinforcement(
    name: str, how: ReinforcementSettings, model: str, tokens: int = 0, steps: int = 0
) -> RecipeStage:
    shape = shape_reinforcement(how, _read(model), tokens, steps)
    return RecipeStage(f"{name} policy", Path(model).name, shape)


def format_table(
    measured: Sequence[tuple[RecipeStage, TrainingMemory]], processes: int
) -> Iterator[str]:
    """Yield the lines of a table in GB, and under it the shapes of each forward pass."""
    columns: Mapping[str, Any] = {
        "weights": lambda one: one.process.weights,
        "bf16": lambda one: one.process.copies,
        "gradients": lambda one: one.process.gradients,
        "optimizer": lambda one: one.process.optimizer,
        "average": lambda one: one.process.average,
        "reference": lambda one: one.process.reference,
        "activations": lambda one: one.process.activations,
        "logits": lambda one: one.process.logits,
        "sampling": lambda one: one.process.cache + one.process.sampling,
        "at most": lambda one: one.process.peak,
        f"FSDP, {processes}": lambda one: one.shard_weights(processes).peak,
    }
    heads = "".join(f"{name:>12}" for name in columns)
    yield f"{'GB a process':28}{'parameters':>16}{'learning':>16}{heads}"
    for stage, one in measured:
        sizes = (value(one) for value in columns.values())
        cells = "".join(f"{size / GB:>12,.1f}" for size in sizes)
        yield f"{stage.name:28}{one.parameters:16,}{one.learning:16,}{cells}"
    yield ""
    for stage, one in measured:
        shapes = ", ".join(f"{name} {' × '.join(map(str, shape))}" for name, shape in one.outputs)
        rows = f"{stage.shape.rows} rows of {stage.shape.tokens:,} tokens"
        yield f"{stage.name}: {rows} of {stage.model} → {shapes}"


def main() -> None:
    """Print the table of the recipes named on the command line, or of all."""
    parser = argparse.ArgumentParser(prog="python -m recipes.memory", description=__doc__)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help=", ".join(RECIPES))
    parser.add_argument("--processes", type=int, default=8, help="that share the weights; 8")
    options = parser.parse_args()
    if unknown := set(options.recipes) - set(RECIPES):
        parser.error(f"there is no recipe {', '.join(sorted(unknown))}: use {', '.join(RECIPES)}")
    if options.processes < 1:
        parser.error("--processes must be 1 or more")
    stages = [stage for recipe in options.recipes or RECIPES for stage in list_stages(recipe)]
    measured = [(stage, measure_training_memory(stage.shape)) for stage in stages]
    print(*format_table(measured, options.processes), sep="\n")


if __name__ == "__main__":
    main()
