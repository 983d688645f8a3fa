"""Processes that each hold a part of the weights (FSDP2) learn what one does, and go on."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from asking import triple, write_bert, write_triples
from comparing import pair, write_lines, write_small
from demonstrated import demonstrated, write_episodes, write_reader
from enumerable import Browsing, write_listed
from safetensors.torch import load_file
from several import in_two_processes, run_in_two
from split_run import Lesson
from transformers import LlamaConfig, LlamaForCausalLM

from rookery.errors import Failed
from rookery.learn.decoding import SamplingSettings
from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
from rookery.learn.optimizer import OptimizerSettings, require_supported_processes
from rookery.learn.policy_gradient import (
    ReinforcementSettings,
    make_a2c_settings,
    make_ppo_settings,
)
from rookery.learn.pretrained_models import LoraSettings, TrainedModelSettings
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.retrieval_data import ReferenceSamplingSettings, RetrievalSources
from rookery.learn.retrieval_training import RetrievalTrainingSettings, train_retriever
from rookery.learn.reward_training import RewardTrainingSettings, train_reward_model

SCRIPT = Path(__file__).parent.parent / "helpers" / "split_run.py"
FAST = OptimizerSettings(rate=1e-3, epsilon=1e-5, average=0.5)


def metrics(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def alike(split: Path, whole: Path) -> None:
    """Weights and what was measured on the way, up to the order of sums."""
    for place in sorted(whole.glob("model/**/model.safetensors")):
        tensors, references = load_file(split / place.relative_to(whole)), load_file(place)
        furthest = max((tensors[name] - weight).abs().max() for name, weight in references.items())
        assert furthest < 1e-5, place
    metrics_split, metrics_whole = metrics(split), metrics(whole)
    assert len(metrics_split) == len(metrics_whole) >= 2
    for line, expected in zip(metrics_split, metrics_whole, strict=True):
        assert line.keys() == expected.keys()
        for key in (key for key in line if not key.endswith("_a_second")):
            assert line[key] == pytest.approx(expected[key], abs=1e-5, rel=1e-4), key


def lesson(what: str, settings: Any, out: Path) -> Lesson:
    """The same settings, but for how weights are kept."""
    optimising = msgspec.structs.replace(settings.optimising, sharded=True)
    settings = msgspec.structs.replace(settings, optimising=optimising)
    return Lesson(what, msgspec.Raw(msgspec.json.encode(settings)), str(out))


def encode_lessons(*lessons: Lesson) -> str:
    return msgspec.json.encode(lessons).decode()


def imitation(tmp_path: Path) -> ImitationSettings:
    episodes = list(demonstrated(tmp_path))[:3]
    file = write_episodes(tmp_path / "episodes.jsonl", episodes)
    trained = TrainedModelSettings(str(write_reader(tmp_path / "reader", episodes)))
    return ImitationSettings(
        trained, (str(file),), optimising=FAST, rows=6, piece=2048, epochs=1, check=1, tokens=5
    )


def preference(tmp_path: Path) -> RewardTrainingSettings:
    return RewardTrainingSettings(
        trained=TrainedModelSettings(str(write_small(tmp_path / "small"))),
        comparisons=str(write_lines(tmp_path / "pairs", map(pair, range(30)))),
        optimising=FAST,
        batch=7,
        piece=3,
        check=2,
    )


def retrieval(tmp_path: Path) -> RetrievalTrainingSettings:
    triples = write_triples(tmp_path / "triples.jsonl", [triple(number) for number in range(30)])
    return RetrievalTrainingSettings(
        RetrievalSources(triples=(str(triples),)),
        str(write_bert(tmp_path / "bert")),
        optimising=FAST,
        drawing=ReferenceSamplingSettings(questions=7, references=4),
        epochs=1,
        piece=3,
        validation=0.2,
    )


@pytest.mark.slow
def test_trainers_learn_the_same(tmp_path: Path) -> None:
    whole, split = tmp_path / "whole", tmp_path / "split"
    read, judged, ranked = imitation(tmp_path), preference(tmp_path), retrieval(tmp_path)
    train_by_imitation(read, whole / "imitate")
    train_reward_model(judged, whole / "prefer")
    paired = msgspec.structs.replace(ranked, encoders="two")
    train_retriever(ranked, whole / "retrieve")
    train_retriever(paired, whole / "paired")
    lessons = [
        lesson("imitate", read, split / "imitate"),
        lesson("prefer", judged, split / "prefer"),
        lesson("retrieve", ranked, split / "retrieve"),
        lesson("retrieve", paired, split / "paired"),
    ]
    in_two_processes(SCRIPT, encode_lessons(*lessons))
    for one in lessons:
        alike(Path(one.out), whole / Path(one.out).name)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> ReinforcementSettings:
    """PPO with a value network and a reference of their own."""
    return make_ppo_settings(
        policy=TrainedModelSettings(write_listed(tmp_path_factory.mktemp("lm") / "lm", 0)),
        steps=3,
        episodes=17,
        piece=5,
        optimising=FAST,
        sampling=SamplingSettings(max_tokens=4),
        target=1.0,
        every=1,
    )


@pytest.fixture(scope="module")
def taught(policy: ReinforcementSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the same policy by one process that has all weights, and by two that split them."""
    folder = tmp_path_factory.mktemp("taught")
    train_by_reinforcement(policy, Browsing(0), folder / "whole")
    in_two_processes(SCRIPT, encode_lessons(lesson("reinforce", policy, folder / "split")))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_policy_learns_the_same_and_goes_on_to_the_last_bit(
    how: str, policy: ReinforcementSettings, taught: Path, tmp_path: Path
) -> None:
    """Stopped in the middle of the second step; killed while its checkpoint is written."""
    alike(taught / "split", taught / "whole")
    on = tmp_path / "on"
    again = encode_lessons(lesson("reinforce", policy, on))
    codes, _ = run_in_two(SCRIPT, again, *(["1"] if how == "stopped" else ["2", "kill"]))
    assert any(codes)
    assert len(metrics(on)) == 1 + (how == "killed")
    there = {place.name for place in (on / "checkpoints").iterdir()}
    assert there == {"00000001"} | ({"new"} if how == "killed" else set())
    shutil.copytree(on, tmp_path / "alone")
    in_two_processes(SCRIPT, again)
    for name in ("metrics.jsonl", "model/model.safetensors"):
        assert (on / name).read_bytes() == (taught / "split" / name).read_bytes()
    # One process reads what two have written, each its half.
    optimising = msgspec.structs.replace(policy.optimising, sharded=True)
    alone = msgspec.structs.replace(policy, optimising=optimising)
    train_by_reinforcement(alone, Browsing(0), tmp_path / "alone")
    alike(tmp_path / "alone", taught / "whole")


@pytest.mark.slow
def test_frozen_layers_lora_and_bfloat16_are_split_too(tmp_path: Path) -> None:
    """In bfloat16 the weights that learn stay in float32."""
    model = write_deep(tmp_path / "lm")
    some: dict[str, Any] = {"steps": 2, "episodes": 9, "piece": 4, "optimising": FAST}
    some |= {"sampling": SamplingSettings(max_tokens=4)}
    frozen = TrainedModelSettings(model, frozen=2 / 3)
    lora = TrainedModelSettings(model, lora=LoraSettings(2))
    small = TrainedModelSettings(model, dtype="bfloat16", recompute=True)
    runs = {
        "frozen": make_ppo_settings(policy=frozen, **some),
        "lora": make_a2c_settings(policy=lora, value_width=8, **some),
        "small": make_ppo_settings(policy=small, value="shared", value_width=8, **some),
    }
    lessons = [lesson("reinforce", each, tmp_path / "split" / name) for name, each in runs.items()]
    in_two_processes(SCRIPT, encode_lessons(*lessons))
    for name in ("frozen", "lora"):
        train_by_reinforcement(runs[name], Browsing(0), tmp_path / "whole" / name)
        alike(tmp_path / "split" / name, tmp_path / "whole" / name)
    found = metrics(tmp_path / "split" / "small")
    assert max(line["mismatch"] for line in found) < 0.1
    before = load_file(Path(model) / "model.safetensors")
    after = load_file(tmp_path / "split" / "small" / "model" / "model.safetensors")
    moved = [(after[name] - weight).abs().max().item() for name, weight in before.items()]
    assert 1e-4 < max(moved) < 0.1


def write_deep(folder: Path) -> str:
    """A model of three layers that says what `Browsing` asks for."""
    write_listed(folder, 0)
    config = LlamaConfig.from_pretrained(folder)
    config.num_hidden_layers = 3
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("kind", [DistributedType.DEEPSPEED, DistributedType.FSDP])
def test_what_was_never_tried_is_refused(kind: DistributedType) -> None:
    accelerator = Accelerator(cpu=True)
    found, accelerator.state.distributed_type = accelerator.state.distributed_type, kind
    try:
        with pytest.raises(Failed, match="sharded = true"):
            require_supported_processes(accelerator)
    finally:
        accelerator.state.distributed_type = found
