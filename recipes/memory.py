"""Memory and shapes of the paper configurations, computed on torch's meta device without weights.

`python -m recipes.memory [RECIPE ...] [--processes N]` prints a line for each training of a recipe:
what one process holds, in GB, where the weights are whole; and where FSDP splits them over N.
"""

import argparse
import gc
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from recipes import gophercite, webglm_stages, webgpt, webgpt_data, ziegler_stages
from recipes.gophercite_stages import Settings as GopherCiteSizes
from recipes.stages import ROOT
from rookery.draft.config import merge_tables, parse_settings, read_toml_table
from rookery.learn.action_batches import ActionBatch, compute_logprobs
from rookery.learn.imitation_learning import ImitationSettings
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.policy_gradient import build_value_head, compute_full_kl
from rookery.learn.pretrained_models import (
    HEAD_CLASSES,
    ModelHead,
    TrainedModelSettings,
    prepare_trainable_model,
)
from rookery.learn.reinforcement_settings import ReinforcementSettings
from rookery.learn.reward_training import RewardTrainingSettings

SIZES = ROOT / "recipes" / "sizes"
GB = 1e9
FLOAT_BYTES = 4
"""Bytes of a weight as it is kept, of its gradient, and of a value of the optimizer."""


class TrainingStage(NamedTuple):
    """One training of a recipe: what is trained, and what goes through it at once."""

    name: str
    model: str
    """Name in architectures.toml."""
    trained: TrainedModelSettings
    optimising: OptimizerSettings
    rows: int
    tokens: int
    """Of each row at most: as many as the paper says, or as the model reads."""
    said: int
    """Tokens of a row that are predicted; 0: the model gives a reward for each row."""
    reinforce: ReinforcementSettings | None = None
    """Of a training with a reference and a value network; None: there is neither."""


class StageMemory(NamedTuple):
    """What one process holds of one training, in bytes, the weights being whole."""

    stage: TrainingStage
    parameters: int
    """Of the model that is trained."""
    learning: int
    """Of these and the value network, those that learn."""
    weights: int
    """Model and value network as they are kept: in float32."""
    copies: int
    """The weights that learn, in the type that is computed in, where that is another."""
    gradients: int
    optimizer: int
    average: int
    reference: int
    activations: int
    """What is kept for the backward pass of one piece."""
    outputs: tuple[tuple[str, tuple[int, ...]], ...]
    """Names and shapes of what the forward pass gives."""

    @property
    def whole(self) -> int:
        """All of it together."""
        split = self.weights + self.gradients + self.optimizer
        return split + self.copies + self.average + self.reference + self.activations

    def split(self, processes: int) -> int | None:
        """Return the bytes of each of several processes under FSDP, which splits weights, gradients
        and the optimizer's state; each process keeps a whole copy of the weights beside.

        None where training refuses to be split: with Adafactor, or layers that networks share.
        """
        stage = self.stage
        if stage.optimising.method == "adafactor" or (stage.reinforce and stage.trained.frozen):
            return None
        parts = (self.weights + self.gradients + self.optimizer + self.copies) / processes
        return math.ceil(parts) + self.weights + self.average + self.reference + self.activations


def load_architectures() -> dict[str, dict[str, Any]]:
    """Return the configurations of the models that the paper configurations name."""
    return tomllib.loads((SIZES / "architectures.toml").read_text("utf-8"))


def list_stages(recipe: str) -> list[TrainingStage]:
    """Return the trainings of the paper configuration of a recipe. Raises KeyError for another."""
    stages = {
        "ziegler": _list_ziegler_stages,
        "webgpt": _list_webgpt_stages,
        "gophercite": _list_gophercite_stages,
        "webglm": _list_webglm_stages,
    }[recipe](SIZES / f"{recipe}.paper.toml")
    return [stage._replace(name=f"{recipe} {stage.name}") for stage in stages]


RECIPES = ("ziegler", "webgpt", "gophercite", "webglm")


def _list_ziegler_stages(place: Path) -> list[TrainingStage]:
    made = parse_settings(read_toml_table(place), ziegler_stages.Settings, place)
    model = Path(made.model).name
    found = [_imitation("tuned", made.tuned, model)]
    for name, how, shown in (
        ("labels", made.labels, _EXCERPT_TOKENS),
        ("summaries", made.summaries, _ARTICLE_TOKENS),
    ):
        tokens = shown + how.reinforce.sampling.token_limit
        found += [
            _preference(name, how.prefer, model, how.answers)._replace(tokens=tokens),
            _reinforcement(name, how.reinforce, model)._replace(tokens=tokens),
        ]
    return found


_EXCERPT_TOKENS, _ARTICLE_TOKENS = 64, 500
"""Of an excerpt to continue and an article to sum up, at most (Ziegler, sections 3.1 and 3.2)."""


def _list_webgpt_stages(place: Path) -> list[TrainingStage]:
    table = merge_tables(webgpt.DEFAULTS, read_toml_table(place))
    made = parse_settings(table, webgpt_data.Settings, place)
    model = Path(made.imitate.trained.model).name
    return [
        _imitation("imitate", made.imitate, model),
        _preference("prefer", made.prefer, model),
        _reinforcement("reinforce", made.reinforce, model),
    ]


def _list_gophercite_stages(place: Path) -> list[TrainingStage]:
    table = merge_tables(gophercite.DEFAULTS, read_toml_table(place))
    made = parse_settings(table, GopherCiteSizes, place)
    model = Path(made.imitate.trained.model).name
    return [
        _imitation("imitate", made.imitate, model),
        _preference("prefer", made.prefer, Path(made.prefer.trained.model).name),
        _reinforcement("reinforce", made.reinforce, model),
    ]


def _list_webglm_stages(place: Path) -> list[TrainingStage]:
    made = parse_settings(read_toml_table(place), webglm_stages.Settings, place)
    assert made.summaries is not None
    model = Path(made.summaries.trained.model).name
    how = made.retrieve
    encoder, texts = Path(how.model).name, how.piece * (how.drawing.references + 1)
    trained = TrainedModelSettings(how.model, how.frozen)
    return [
        TrainingStage("retrieve", encoder, trained, how.optimising, texts, 256, 0),
        _imitation("summaries", made.summaries, model),
        _preference("prefer", made.prefer, model),
    ]


def _imitation(name: str, how: ImitationSettings, model: str) -> TrainingStage:
    tokens = _count_context(model)
    rows = max(how.piece // tokens, 1)
    return TrainingStage(name, model, how.trained, how.optimising, rows, tokens, tokens - 1)


def _preference(
    name: str, how: RewardTrainingSettings, model: str, answers: int = 2
) -> TrainingStage:
    tokens = how.context or _count_context(model)
    rows = how.piece * answers
    return TrainingStage(f"{name} reward", model, how.trained, how.optimising, rows, tokens, 0)


def _reinforcement(name: str, how: ReinforcementSettings, model: str) -> TrainingStage:
    said = min(how.sampling.token_limit, how.chunk or how.sampling.token_limit)
    tokens = _count_context(model)
    return TrainingStage(
        f"{name} policy", model, how.policy, how.optimising, how.piece, tokens, said, how
    )


def _count_context(model: str) -> int:
    config = load_architectures()[model]
    return int(config.get("n_positions") or config["max_position_embeddings"])


class _FusedAttention(torch.autograd.Function):
    """Keeps what a fused kernel of attention keeps: queries, keys, values, its output, and a sum
    for each query. Without a kernel for it, the meta device would keep all pairs of positions."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        output = torch.empty_like(query)
        sums = query.new_empty(query.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, output, sums)
        return output


def _attend(
    _: nn.Module, query: Tensor, key: Tensor, value: Tensor, *__: Any, **___: Any
) -> tuple[Tensor, None]:
    output: Any = _FusedAttention.apply(query, key, value)  # type: ignore[no-untyped-call]
    return output.transpose(1, 2).contiguous(), None


_FUSED = "fused_on_meta"
ALL_ATTENTION_FUNCTIONS.register(_FUSED, _attend)


def build_meta_model(
    model: str, trained: TrainedModelSettings, head: ModelHead, layers: int | None = None
) -> PreTrainedModel:
    """Build a model on the meta device, prepared for training as a loaded one is.

    Its type is that which is computed in. `layers` in place of its own number makes it smaller.
    """
    config = AutoConfig.for_model(**load_architectures()[model])
    if layers is not None:
        setattr(config, "n_layer" if config.model_type == "gpt2" else "num_hidden_layers", layers)
    if head != "language":
        config.num_labels, config.pad_token_id = 1, 0
    with torch.device("meta"):
        made: PreTrainedModel = HEAD_CLASSES[head].from_config(
            config, dtype=getattr(torch, trained.dtype), attn_implementation=_FUSED
        )
    return prepare_trainable_model(made, trained)


def count_optimizer_values(weights: Sequence[Tensor], settings: OptimizerSettings) -> int:
    """Return how many numbers an optimizer keeps of these weights.

    Adam keeps two of each weight; Adafactor a sum of each row and column of a matrix, and one of
    each weight of a vector.
    """
    if settings.method == "adam":
        return 2 * sum(each.numel() for each in weights)
    return sum(
        each.numel() // each.shape[-1] + each.numel() // each.shape[-2]
        if each.dim() > 1
        else each.numel()
        for each in weights
    )


def measure_stage(stage: TrainingStage) -> StageMemory:
    """Compute what one process holds of a training, and the shapes of a forward pass."""
    trained, how = stage.trained, stage.reinforce
    networks = _build_networks(stage)
    model = networks[0]
    weights = [each for one in networks for each in one.parameters()]
    learning = [each for each in weights if each.requires_grad]
    learnt = sum(each.numel() for each in learning)
    shared = _count_shared_values(model) if how is not None else 0
    separate = len(networks) > 1 and _has_separate_critic(stage)
    kept = sum(each.numel() for each in weights) - shared * separate
    parameters = sum(each.numel() for each in model.parameters())
    return StageMemory(
        stage=stage,
        parameters=parameters,
        learning=learnt,
        weights=FLOAT_BYTES * kept,
        copies=0 if trained.dtype == "float32" else 2 * learnt,
        gradients=FLOAT_BYTES * learnt,
        optimizer=FLOAT_BYTES * count_optimizer_values(learning, stage.optimising),
        average=FLOAT_BYTES * kept if stage.optimising.average else 0,
        reference=FLOAT_BYTES * (parameters - shared) if how is not None else 0,
        activations=_estimate_activations(stage),
        outputs=tuple(_run_forward(stage, networks)[1]),
    )


def _build_networks(stage: TrainingStage, layers: int | None = None) -> list[nn.Module]:
    """Build the model of a stage, and its value network where there is one."""
    head: ModelHead = "language" if stage.said else "row"
    model = build_meta_model(stage.model, stage.trained, head, layers)
    how = stage.reinforce
    if how is None or how.advantage != "gae":
        return [model]
    if _has_separate_critic(stage):
        return [model, build_meta_model(stage.model, stage.trained, "token", layers)]
    with torch.device("meta"):
        return [model, build_value_head(model.config.hidden_size, how.value_width)]


def _has_separate_critic(stage: TrainingStage) -> bool:
    return stage.reinforce is not None and stage.reinforce.value == "separate"


def _count_shared_values(model: nn.Module) -> int:
    """Count the weights of frozen layers and embeddings, which the networks have in common."""
    return sum(each.numel() for each in model.parameters() if not each.requires_grad)


def _estimate_activations(stage: TrainingStage) -> int:
    """Return the bytes kept for the backward pass, from models of one and two layers.

    Only layers that learn keep any. With recomputation a layer keeps its input, and one at a time
    keeps all.
    """
    plain = msgspec.structs.replace(stage.trained, frozen=0.0, recompute=False)
    small = stage._replace(trained=plain)
    one, two = (_measure_activations(small, layers) for layers in (1, 2))
    layer, rest = two - one, 2 * one - two
    config: Any = AutoConfig.for_model(**load_architectures()[stage.model])
    count, size = int(config.num_hidden_layers), int(config.hidden_size)
    layers = count - round(stage.trained.frozen * count)
    if not stage.trained.recompute:
        return rest + layers * layer
    width = 4 if stage.trained.dtype == "float32" else 2
    return rest + layer + layers * stage.rows * stage.tokens * size * width


def _measure_activations(stage: TrainingStage, layers: int) -> int:
    networks = [network.train() for network in _build_networks(stage, layers)]
    return count_saved_bytes(networks, partial(_run_forward, stage, networks))


def count_saved_bytes(networks: Sequence[nn.Module], run: Any) -> int:
    """Return the bytes of what a forward pass keeps for the backward pass, weights left out.

    `run` makes the pass and returns its output first. Each piece of memory counts once.
    """
    weights = {_identify(each) for network in networks for each in network.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(value: Tensor) -> Tensor:
        if _identify(value) not in weights:
            kept.setdefault(_identify(value), value)
        return value

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        output = run()
    found = sum(each.untyped_storage().nbytes() for each in kept.values())
    del output
    return found


def _identify(value: Tensor) -> int:
    """Meta tensors have no addresses, and their storages are objects."""
    return int(value.untyped_storage()._cdata)


Outputs = list[tuple[str, tuple[int, ...]]]


def _run_forward(stage: TrainingStage, networks: Sequence[Any]) -> tuple[Tensor, Outputs]:
    """Run a forward pass on the meta device; return its loss, and the shapes of the outputs.

    The mask is given for each pair of positions, as transformers make it where rows are padded:
    to make it they look at values, which are not there.
    """
    tokens = torch.zeros((stage.rows, stage.tokens), dtype=torch.long, device="meta")
    pairs = (stage.rows, 1, stage.tokens, stage.tokens)
    shown: dict[str, Any] = {
        "input_ids": tokens,
        "attention_mask": torch.ones(pairs, dtype=torch.bool, device="meta"),
    }
    model = networks[0]
    if not stage.said:
        if stage.model == "contriever":
            states = model.base_model(**shown)[0]
            return states.sum(), [("states", tuple(states.shape))]
        rewards = model(**shown, use_cache=False).logits
        return rewards.float().sum(), [("rewards", tuple(rewards.shape))]
    batch = ActionBatch(
        tokens, torch.ones_like(tokens, dtype=torch.bool), tokens[:, -stage.said :],
        torch.ones_like(tokens[:, -stage.said :], dtype=torch.bool), None,
    )  # fmt: skip
    how = stage.reinforce
    shared = how is not None and how.value == "shared"
    found = model(
        **shown, logits_to_keep=stage.said + 1, use_cache=False, output_hidden_states=shared
    )
    logits = found.logits[:, :-1].float()
    loss = compute_logprobs(logits, batch).sum()
    outputs: Outputs = [("logits", tuple(logits.shape))]
    if len(networks) > 1:
        if shared:
            values = networks[1](found.hidden_states[-1].float())
        else:
            values = networks[1](**shown, use_cache=False).logits
        values = values[:, -stage.said - 1 : -1, 0].float()
        outputs.append(("values", tuple(values.shape)))
        loss = loss + values.sum()
    if how is not None and how.kl == "loss":
        loss = loss + compute_full_kl(logits, torch.zeros_like(logits)).sum()
    return loss, outputs


def format_table(found: Sequence[StageMemory], processes: int) -> Iterator[str]:
    """Yield the lines of a table in GB, and under it the shapes of each forward pass."""
    columns: Mapping[str, Any] = {
        "weights": lambda one: one.weights,
        "bf16": lambda one: one.copies,
        "gradients": lambda one: one.gradients,
        "optimizer": lambda one: one.optimizer,
        "average": lambda one: one.average,
        "reference": lambda one: one.reference,
        "activations": lambda one: one.activations,
        "together": lambda one: one.whole,
        f"FSDP, {processes}": lambda one: one.split(processes),
    }
    heads = "".join(f"{name:>12}" for name in columns)
    yield f"{'GB a process':28}{'parameters':>16}{'learning':>16}{heads}"
    for one in found:
        sizes = (value(one) for value in columns.values())
        cells = "".join(f"{'none' if size is None else f'{size / GB:,.1f}':>12}" for size in sizes)
        yield f"{one.stage.name:28}{one.parameters:16,}{one.learning:16,}{cells}"
    yield ""
    for one in found:
        shapes = ", ".join(f"{name} {' × '.join(map(str, shape))}" for name, shape in one.outputs)
        stage = one.stage
        rows = f"{stage.rows} rows of {stage.tokens:,} tokens"
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
    found = []
    for recipe in options.recipes or RECIPES:
        for stage in list_stages(recipe):
            found.append(measure_stage(stage))
            gc.collect()
    print(*format_table(found, options.processes), sep="\n")


if __name__ == "__main__":
    main()
