"""Frozen layers that are computed once, beside models that compute them every time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import transformers
from double import double_precision, write_double
from enumerable import ENDS, Browsing, write_listed
from safetensors.torch import load_file, save_file
from several import in_two_processes
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedConfig
from trunk_run import apart, in_two, metrics, settings

from rookery.errors import Failed
from rookery.learn import policy_gradient
from rookery.learn.action_batches import ActionRow
from rookery.learn.decoding import SamplingSettings, sample_actions
from rookery.learn.episodes import Trajectory
from rookery.learn.frozen_layers import HiddenStateCache, find_shared_layers
from rookery.learn.minibatches import BatchSplitter, MicroBatch, RowLocation
from rookery.learn.optimizer import ModelOptimizer
from rookery.learn.policy_gradient import (
    PolicyGradientTrainer,
    PolicyNetworks,
    build_policy_networks,
)
from rookery.learn.pretrained_models import (
    LoraSettings,
    TrainedModelSettings,
    find_head,
    get_decoder,
    get_layers,
    load_trainable_model,
)
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.reinforcement_settings import make_a2c_settings, make_rloo_settings

HELPERS = Path(__file__).parent.parent / "helpers"
LAYERS, FROZEN = 3, 2
WIDTHS: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.1,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
GPT2: dict[str, Any] = {**WIDTHS, "n_embd": 32, "n_layer": LAYERS, "n_head": 4}
MODELS: dict[str, PreTrainedConfig] = {
    "Llama": transformers.LlamaConfig(**WIDTHS),
    "tied": transformers.Qwen3Config(**WIDTHS, head_dim=8, tie_word_embeddings=True),
    "learnt positions": transformers.GPT2Config(**GPT2),
    "scaled, some windows": transformers.Gemma2Config(**WIDTHS, head_dim=8, sliding_window=3),
}


def write(folder: Path, config: PreTrainedConfig, seed: int = 0) -> str:
    write_listed(folder, 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        made.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    config = transformers.LlamaConfig(**{**WIDTHS, "vocab_size": 10})
    return write(tmp_path_factory.mktemp("deep") / "model", config)


def half(model: str, **changes: Any) -> TrainedModelSettings:
    return TrainedModelSettings(model, frozen=FROZEN / LAYERS, **changes)


def begun(
    policy: TrainedModelSettings, reference: str = "", value_model: str = ""
) -> PolicyNetworks:
    return build_policy_networks(policy, "separate", value_model, 0, reference, 0)


def pieces() -> tuple[list[MicroBatch], list[MicroBatch]]:
    """The same rows twice, with other rows beside them and so with other padding."""
    rows = [
        ActionRow([1 + (7 * row + at) % 39 for at in range(1 + row % 5)], [row, *range(row % 4)])
        for row in range(9)
    ]
    order = [RowLocation(0, number, len(row.action)) for number, row in enumerate(rows)]
    portions = BatchSplitter(rows, order, 0, 4, 0)
    [first] = portions.split_into_minibatches(1, "")
    second, third = portions.split_into_minibatches(2, "other")
    return list(first.pieces), [*second.pieces, *third.pieces]


def told(made: PolicyNetworks, piece: MicroBatch) -> list[Tensor]:
    """Log-probabilities, values, and the log-probabilities of the reference."""
    found = made.actor(piece.batch, 1.0, {"logprobs", "values", "reference"})
    return [found["logprobs"], found["values"], found["reference"]]


def gradients(made: PolicyNetworks, found: Sequence[Tensor]) -> dict[str, Tensor]:
    made.actor.zero_grad()
    (found[0].sum() + (found[1] ** 2).sum()).backward()  # type: ignore[no-untyped-call]
    named = made.actor.named_parameters()
    return {name: weight.grad.clone() for name, weight in named if weight.grad is not None}


def assert_close(found: Tensor, expected: Tensor) -> None:
    """To a millionth of the largest number."""
    atol = 1e-6 * max(float(expected.detach().abs().max()), 1.0)
    torch.testing.assert_close(found, expected, atol=atol, rtol=0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("recompute", [False, True])
def test_above_the_trunk_all_is_as_in_a_whole_pass(
    tmp_path: Path, name: str, recompute: bool
) -> None:
    """Values and gradients, of pieces that the trunk was computed for and of other ones."""
    made = begun(half(write(tmp_path / "model", MODELS[name]), recompute=recompute))
    find_head(made.actor.critic).weight.data += torch.linspace(-0.1, 0.1, 32)
    kept, (first, others) = HiddenStateCache(made.shared_layers), pieces()
    assert made.shared_layers is not None
    for piece in [*first, *others]:
        whole = told(made, piece)
        expected = gradients(made, whole)
        with kept.resume_micro_batch(piece):
            above = told(made, piece)
        found = gradients(made, above)
        for one, other in zip(whole, above, strict=True):
            assert_close(one, other)
        assert found.keys() == expected.keys()
        for weight, gradient in found.items():
            assert_close(gradient, expected[weight])


def test_what_fills_up_for_a_process_without_rows_is_read_too(model: str) -> None:
    """Without a token to learn from it has gradients of 0, which other processes wait for."""
    made = begun(half(model))
    [minibatch] = BatchSplitter([], [RowLocation(1, 0, 2)], 0, 4, 0).split_into_minibatches(1, "")
    [piece] = minibatch.pieces
    for _ in range(2):
        with HiddenStateCache(made.shared_layers).resume_micro_batch(piece):
            found = gradients(made, told(made, piece))
        learning = {name for name, each in made.actor.named_parameters() if each.requires_grad}
        assert found.keys() == learning
        assert not any(each.any() for each in found.values())


def lower(model: Any) -> list[torch.nn.Parameter]:
    decoder: Any = get_decoder(model)
    return [decoder.get_input_embeddings().weight, *get_layers(model)[:FROZEN].parameters()]


def shares(made: PolicyNetworks, model: Any) -> bool:
    """Whether a model's lower weights are the policy's, and not a copy of them."""
    pairs = list(zip(lower(made.actor.policy), lower(model), strict=True))
    assert len({one is other for one, other in pairs}) == 1
    return pairs[0][0] is pairs[0][1]


@pytest.mark.parametrize("name", ["Llama", "tied"])
def test_the_lower_weights_are_kept_once(tmp_path: Path, name: str) -> None:
    made = begun(half(write(tmp_path / "model", MODELS[name])))
    policy, reference = made.actor.policy, made.actor.reference
    assert shares(made, reference)
    assert shares(made, made.actor.critic)
    assert (policy.lm_head.weight is policy.get_input_embeddings().weight) == (name == "tied")
    assert (reference.lm_head.weight is policy.lm_head.weight) == (name == "tied")
    above = [get_layers(each)[FROZEN:].parameters() for each in (policy, reference)]
    assert not any(one is other for one, other in zip(*above, strict=True))


@pytest.mark.parametrize("changed", ["embed_tokens", "layers.1.mlp.up_proj"])
def test_a_model_with_other_lower_weights_keeps_its_own(
    model: str, tmp_path: Path, changed: str
) -> None:
    """Were it one word's embedding by which they differ."""
    other = write(tmp_path / "other", transformers.AutoConfig.from_pretrained(model))
    weights = load_file(Path(other) / "model.safetensors")
    weights[f"model.{changed}.weight"][9, 0] += 1
    save_file(weights, Path(other) / "model.safetensors", {"format": "pt"})
    made = begun(half(model), reference=other)
    assert not shares(made, made.actor.reference)
    assert shares(made, made.actor.critic)
    made = begun(half(model), value_model=other)
    assert shares(made, made.actor.reference)
    assert not shares(made, made.actor.critic)
    _, (piece, *_) = pieces()
    piece = piece._replace(batch=piece.batch._replace(tokens_BT=piece.batch.tokens_BT % 10))
    whole = told(made, piece)
    with HiddenStateCache(made.shared_layers).resume_micro_batch(piece):
        for one, found in zip(whole, told(made, piece), strict=True):
            assert_close(one, found)


def test_nothing_is_shared_where_something_below_learns(model: str, tmp_path: Path) -> None:
    policy: Any = load_trainable_model(half(model))
    assert find_shared_layers(policy, []) is not None
    policy.get_input_embeddings().requires_grad_(True)
    assert find_shared_layers(policy, []) is None
    assert find_shared_layers(load_trainable_model(TrainedModelSettings(model)), []) is None
    assert (
        find_shared_layers(
            load_trainable_model(TrainedModelSettings(model, lora=LoraSettings(rank=2))), []
        )
        is None
    )
    positions: Any = load_trainable_model(
        half(write(tmp_path / "gpt2", MODELS["learnt positions"]))
    )
    assert find_shared_layers(positions, []) is not None
    positions.transformer.wpe.requires_grad_(True)
    assert find_shared_layers(positions, []) is None


def test_models_that_are_built_otherwise_are_read_as_a_whole(tmp_path: Path) -> None:
    """BLOOM's layers give more than states; no other error than slowness may come of that."""
    config = transformers.BloomConfig(vocab_size=40, hidden_size=32, n_layer=LAYERS, n_head=4)
    made = begun(half(write(tmp_path / "model", config)))
    assert made.shared_layers is None
    assert "forward" not in {
        name for layer in get_layers(made.actor.policy) for name in vars(layer)
    }


def test_lora_leaves_frozen_layers_alone(model: str) -> None:
    made = begun(half(model, lora=LoraSettings(rank=2)))
    assert made.actor.reference is None
    assert shares(made, made.actor.critic)
    learning = {name for name, weight in made.actor.named_parameters() if weight.requires_grad}
    assert any("layers.2" in name and "lora" in name for name in learning)
    assert not any(f"layers.{number}." in name for name in learning for number in range(FROZEN))
    assert made.shared_layers is not None


@pytest.mark.parametrize(
    "trained",
    [
        TrainedModelSettings("", frozen=1.0, lora=LoraSettings()),
        TrainedModelSettings("", lora=LoraSettings(targets=("query",))),
    ],
)
def test_lora_that_finds_nothing_to_change_is_refused(
    model: str, trained: TrainedModelSettings
) -> None:
    with pytest.raises(Failed, match="name others, or freeze fewer layers"):
        load_trainable_model(msgspec.structs.replace(trained, model=model))


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_gradient, "find_shared_layers", lambda *_: None)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [in_two, make_a2c_settings, make_rloo_settings])
@pytest.mark.parametrize("lora", [None, LoraSettings(rank=2)])
def test_a_run_learns_the_same_with_and_without(
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recipe: Any,
    lora: LoraSettings | None,
) -> None:
    model = write_double(model, tmp_path / "model")
    rules = settings(model, recipe, steps=3, every=3, policy=half(model, lora=lora))
    with double_precision():
        train_by_reinforcement(rules, Browsing(0), tmp_path / "shared")
        without(monkeypatch)
        train_by_reinforcement(rules, Browsing(0), tmp_path / "whole")
    assert apart(tmp_path / "shared", tmp_path / "whole") < 1e-10
    assert [line["ratio"] for line in metrics(tmp_path / "shared")] == [0.0, 0.0, 0.0]
    before, after = load_file(Path(model) / "model.safetensors"), metrics(tmp_path / "shared")[-1]
    moved = load_file(tmp_path / "shared" / "model" / "model.safetensors")
    still = {name for name in before if torch.equal(before[name], moved[name])}
    assert {name for name in before if ".0." in name or ".1." in name or "embed" in name} <= still
    assert after["kl_token"] > 0


class Counted:
    """How many rows a layer did its work on."""

    def __init__(self, layer: Any) -> None:
        self.rows = 0
        layer.mlp.register_forward_hook(self._count)

    def _count(self, _: Any, __: Any, output: Tensor) -> None:
        self.rows += len(output)


def test_the_trunk_is_computed_once_for_each_row_of_a_batch(model: str) -> None:
    made, rules = begun(half(model)), settings(model)
    prompts = [[1 + number % 9] * (1 + number % 3) for number in range(13)]
    said = sample_actions(
        made.actor.policy, prompts, range(13), ENDS, SamplingSettings(max_tokens=4)
    )
    played = [Trajectory(n, [one], float(n), n) for n, one in enumerate(said)]
    models = (made.actor.policy, made.actor.critic, made.actor.reference)
    below, above = ([Counted(get_layers(each)[at]) for each in models] for at in (0, FROZEN))
    teacher = PolicyGradientTrainer(
        rules, made, ModelOptimizer(made.actor, rules.optimising, 99), 0
    )
    for step in range(2):
        teacher.train_on_batch(teacher.prepare_batch(played, step), step, 0.1)
    assert [each.rows for each in below] == [26, 0, 0]
    read = 26 * (1 + rules.epochs)
    assert [each.rows for each in above] == [read, read, 26]


def test_the_reference_says_the_same_after_training(model: str) -> None:
    """Read as a whole, which is more than the part of it that is its own."""
    made, rules = begun(half(model)), settings(model)
    (piece, *_), _ = pieces()
    piece = piece._replace(batch=piece.batch._replace(tokens_BT=piece.batch.tokens_BT % 10))
    before = told(made, piece)
    teacher = PolicyGradientTrainer(
        rules, made, ModelOptimizer(made.actor, rules.optimising, 99), 0
    )
    for step in range(3):
        said = sample_actions(made.actor.policy, [[1], [2, 3]] * 4, range(8), ENDS, rules.sampling)
        played = [Trajectory(n, [one], float(n), n) for n, one in enumerate(said)]
        teacher.train_on_batch(teacher.prepare_batch(played, step), step, 0.1)
    logprobs, values, reference = told(made, piece)
    assert torch.equal(reference, before[2])
    assert not torch.allclose(logprobs, before[0], atol=1e-3)
    assert not torch.allclose(values, before[1], atol=1e-3)
    with HiddenStateCache(made.shared_layers).resume_micro_batch(piece):
        assert_close(told(made, piece)[2], reference)


class Breaks(Exception):
    pass


@pytest.mark.slow
def test_a_run_with_a_trunk_goes_on_to_the_last_bit(
    model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = settings(model, steps=4, every=2, policy=half(model))

    def stop(step: int, _: int, __: dict[str, float]) -> None:
        if step == 2:
            raise Breaks

    train_by_reinforcement(rules, Browsing(0), tmp_path / "whole")
    with pytest.raises(Breaks):
        train_by_reinforcement(rules, Browsing(0), tmp_path / "broken", stop)
    train_by_reinforcement(rules, Browsing(0), tmp_path / "broken")
    assert apart(tmp_path / "whole", tmp_path / "broken") == 0
    whole, broken = (tmp_path / name / "metrics.jsonl" for name in ("whole", "broken"))
    assert whole.read_bytes() == broken.read_bytes()
    assert "shared tensor" not in caplog.text  # weights that networks share are saved once


@pytest.mark.slow
def test_two_processes_with_a_trunk_learn_what_one_learns(model: str, tmp_path: Path) -> None:
    doubled = write_double(model, tmp_path / "model")
    in_two_processes(HELPERS / "trunk_run.py", doubled, str(tmp_path / "two"))
    with double_precision():
        train_by_reinforcement(settings(doubled), Browsing(0), tmp_path / "one")
    assert apart(tmp_path / "one", tmp_path / "two") < 1e-10
    for one, two in zip(metrics(tmp_path / "one"), metrics(tmp_path / "two"), strict=True):
        assert one["kl"] == pytest.approx(two["kl"], abs=1e-10)
        assert one["value_loss"] == pytest.approx(two["value_loss"], rel=1e-10)


@pytest.mark.slow
def test_pieces_of_any_size_learn_the_same(model: str, tmp_path: Path) -> None:
    doubled = write_double(model, tmp_path / "model")
    with double_precision():
        for piece in (64, 3):
            rules = settings(doubled, piece=piece)
            train_by_reinforcement(rules, Browsing(0), tmp_path / str(piece))
    assert apart(tmp_path / "64", tmp_path / "3") < 1e-10
