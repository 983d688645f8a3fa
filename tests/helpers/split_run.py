"""What trainers learn in processes that each hold a part of the weights (FSDP2), on CPUs.

torchrun --nproc_per_node 2 split_run.py LESSONS [STEPS [kill]]

Stops in the middle of the step with the number STEPS; or is killed while its checkpoint is written.
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))

from enumerable import Browsing

from rookery.learn import optimizer
from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
from rookery.learn.optimizer import shard_model
from rookery.learn.policy_gradient import ReinforcementSettings
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.retrieval_training import RetrievalTrainingSettings, train_retriever
from rookery.learn.reward_training import RewardTrainingSettings, train_reward_model
from rookery.learn.training_run import StopCheck


def cord(steps: int = 1000) -> StopCheck:
    """Pulled in the middle of the step with this number: asked before the batch is played, and
    twice in each of four epochs."""
    asked = count(1)
    return lambda: "stop" if next(asked) > 9 * steps + 4 else ""


class Killer:
    """Kills the second process when the networks of this checkpoint are written, and nothing yet
    says that it is whole."""

    def __init__(self, checkpoint: int) -> None:
        self._left = checkpoint

    def save(self, _: Path) -> None:
        self._left -= 1
        if not self._left and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)

    def load(self, _: Path) -> None: ...


def train_policy(settings: ReinforcementSettings, out: Path) -> None:
    steps, kill = int(sys.argv[2]) if sys.argv[2:] else 1000, sys.argv[3:] == ["kill"]
    also = [Killer(steps)] if kill else []
    stop = cord() if kill else cord(steps)
    train_by_reinforcement(settings, Browsing(0), out, also=also, cord=stop)


split: list[nn.Module] = []


def watch(model: nn.Module, accelerator: Accelerator) -> None:
    """Each process holds half of every weight, up to one row of each."""
    shard_model(model, accelerator)
    weights: list[Any] = list(model.parameters())
    held = sum(each.to_local().numel() for each in weights)
    rows = sum(each.numel() // len(each) for each in weights)
    assert held <= sum(each.numel() for each in weights) / 2 + rows
    assert {each.dtype for each in weights} == {torch.float32}
    split.append(model)


class Lesson(msgspec.Struct):
    """What a process is told in JSON."""

    what: str
    settings: msgspec.Raw
    out: str


TRAINERS: dict[str, tuple[Any, Any]] = {
    "imitate": (ImitationSettings, train_by_imitation),
    "prefer": (RewardTrainingSettings, train_reward_model),
    "reinforce": (ReinforcementSettings, train_policy),
    "retrieve": (RetrievalTrainingSettings, train_retriever),
}

if __name__ == "__main__":
    optimizer.shard_model = watch
    lessons = msgspec.json.decode(sys.argv[1], type=list[Lesson])
    for lesson in lessons:
        AcceleratorState._reset_state()
        kind, train = TRAINERS[lesson.what]
        train(msgspec.json.decode(lesson.settings, type=kind), Path(lesson.out))
    assert len(split) == len(lessons)
