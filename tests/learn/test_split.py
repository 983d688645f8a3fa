"""Processes that each hold a part of the weights (FSDP) learn what one does, and go on the same."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from accelerate import Accelerator
from accelerate.utils import DistributedType
from asking import triple, write_bert, write_triples
from comparing import pair, write_lines, write_small
from demonstrated import demonstrated, write_episodes, write_reader
from enumerable import Browsing, write_listed
from safetensors.torch import load_file
from several import in_two_processes, run_in_two
from split_run import Lesson
from torch import nn

from rookery.learn.decoding import SamplingSettings
from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
from rookery.learn.optimizer import OptimizerSettings, copy_if_sharded
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.reinforcement_settings import make_ppo_settings
from rookery.learn.retrieval_data import ReferenceSamplingSettings, RetrievalSources
from rookery.learn.retrieval_training import RetrievalTrainingSettings, train_retriever
from rookery.learn.reward_training import RewardTrainingSettings, train_reward_model
from rookery.records import Failed

SCRIPT = Path(__file__).with_name("split_run.py")
FAST = OptimizerSettings(rate=1e-3, epsilon=1e-5, average=0.5)


def metrics(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def alike(split: Path, whole: Path) -> None:
    """Weights and what was measured on the way, up to the order of sums."""
    ours, theirs = (load_file(out / "model" / "model.safetensors") for out in (split, whole))
    assert max((ours[name] - weight).abs().max().item() for name, weight in theirs.items()) < 1e-5
    found, wanted = metrics(split), metrics(whole)
    assert len(found) == len(wanted) >= 2
    for line, expected in zip(found, wanted, strict=True):
        assert line.keys() == expected.keys()
        for key in (key for key in line if not key.endswith("_a_second")):
            assert line[key] == pytest.approx(expected[key], abs=1e-5, rel=1e-4), key


def lesson(what: str, settings: Any, out: Path, **more: str) -> Lesson:
    return Lesson(what, msgspec.Raw(msgspec.json.encode(settings)), str(out), **more)


def said(*lessons: Lesson) -> str:
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
    train_retriever(ranked, whole / "retrieve")
    lessons = [
        lesson("imitate", read, split / "imitate"),
        lesson("prefer", judged, split / "prefer"),
        lesson("retrieve", ranked, split / "retrieve", layer="BertLayer"),
    ]
    in_two_processes(SCRIPT, said(*lessons))
    for one in lessons:
        alike(split / one.what, whole / one.what)


@pytest.mark.slow
def test_a_policy_learns_the_same_and_goes_on_to_the_last_bit(tmp_path: Path) -> None:
    settings = make_ppo_settings(
        policy=TrainedModelSettings(write_listed(tmp_path / "lm", 0)),
        steps=3,
        episodes=17,
        piece=5,
        optimising=FAST,
        sampling=SamplingSettings(max_tokens=4),
        target=1.0,
        every=1,
    )
    whole, split, on = (tmp_path / name for name in ("whole", "split", "on"))
    train_by_reinforcement(settings, Browsing(0), whole)
    again = lesson("reinforce", settings, on)
    assert run_in_two(SCRIPT, said(again), "1").returncode != 0
    assert len((on / "metrics.jsonl").read_text().splitlines()) == 1
    in_two_processes(SCRIPT, said(lesson("reinforce", settings, split), again))
    alike(split, whole)
    for name in ("metrics.jsonl", "model/model.safetensors"):
        assert (on / name).read_bytes() == (split / name).read_bytes()


@pytest.mark.parametrize("kind", [DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM])
def test_what_was_never_tried_is_refused(kind: DistributedType) -> None:
    accelerator = Accelerator(cpu=True)
    found, accelerator.state.distributed_type = accelerator.state.distributed_type, kind
    try:
        with pytest.raises(Failed, match="fsdp_version: 2"):
            copy_if_sharded(nn.Linear(2, 2), accelerator)
    finally:
        accelerator.state.distributed_type = found
