"""Lower layers that learn nothing are computed once for all networks and epochs, as if each did."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from enumerable import Rule, write_listed
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from rookery.learn import policy_gradient
from rookery.learn.decoding import SamplingSettings
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.policy_gradient import build_policy_networks, make_ppo_settings
from rookery.learn.pretrained_models import LoraSettings, TrainedModelSettings
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.training_run import load_run_metrics

LORA: dict[str, Any] = {"frozen": 0.75, "lora": LoraSettings(rank=2)}
LAYERS = 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Llama of four layers, over ten ids."""
    folder = tmp_path_factory.mktemp("listed") / "model"
    write_listed(folder, 0)
    config = LlamaConfig.from_pretrained(folder, num_hidden_layers=LAYERS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


def settings(model: str, trained: dict[str, Any], **changes: Any) -> Any:
    usual: dict[str, Any] = {
        "policy": TrainedModelSettings(model, **trained),
        "steps": 2,
        "episodes": 8,
        "piece": 3,
        "optimising": OptimizerSettings(rate=1e-2),
        "sampling": SamplingSettings(max_tokens=4),
    }
    return make_ppo_settings(**usual | changes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trained", "more", "networks"),
    [
        (LORA, {}, 2),
        (LORA, {"advantage": "rloo"}, 1),
        (LORA, {"value": "shared", "kl": "loss"}, 1),
        ({"frozen": 0.75}, {}, 3),
        ({"frozen": 0.75, "recompute": True}, {}, 3),
        (LORA, {"chunk": 2}, 2),
    ],
)
def test_the_same_is_learnt_with_each_lower_layer_computed_once(
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trained: dict[str, Any],
    more: dict[str, Any],
    networks: int,
) -> None:
    calls, compute = Counter[int](), LlamaDecoderLayer.forward

    def forward(layer: Any, states: Any, *args: Any, **others: Any) -> Any:
        if states.shape[1] > 1 and not others.get("use_cache"):
            calls[layer.self_attn.layer_idx] += 1
        return compute(layer, states, *args, **others)

    monkeypatch.setattr(LlamaDecoderLayer, "forward", forward)
    rules = settings(model, trained, **more)
    assert len(build_policy_networks(rules).shared_layers) == networks
    group = 4 if "advantage" in more else 1
    train_by_reinforcement(rules, Rule(0).world(group), tmp_path / "shared")
    shared = calls.copy()
    calls.clear()
    monkeypatch.setattr(policy_gradient, "list_frozen_layers", lambda _: [])
    train_by_reinforcement(rules, Rule(0).world(group), tmp_path / "alone")
    # While the policy samples it is recorded what they give, but of actions that are cut up after.
    assert (shared[0] > 0) == ("chunk" in more)
    assert shared[0] < calls[0]
    assert shared[LAYERS - 1] == calls[LAYERS - 1]
    assert shared[0] == shared[LAYERS - 2]
    for one, two in zip(
        *map(load_run_metrics, (tmp_path / "shared", tmp_path / "alone")), strict=True
    ):
        assert one == pytest.approx(two, rel=1e-3, abs=1e-5)


def test_networks_share_what_is_the_same_and_learns_nothing(model: str, tmp_path: Path) -> None:
    def count(trained: dict[str, Any], **more: Any) -> list[int]:
        rules = settings(model, trained, **more)
        return [len(each) for each in build_policy_networks(rules).shared_layers]

    other = shutil.copytree(model, tmp_path / "other")
    assert count(LORA) == [3, 3]
    assert count(LORA, value_model=str(other)) == [3]
    assert count(LORA, value_model=model, reference=str(other)) == [3, 3]
    assert count(LORA, reference=model) == [3, 3, 3]
    assert count({}) == count({"lora": LoraSettings(rank=2)}) == []
    assert count(LORA, optimising=OptimizerSettings(sharded=True)) == []
