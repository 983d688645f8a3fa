"""What trainers learn in processes that each hold a part of the weights (FSDP), on CPUs.

accelerate passes its own configuration of FSDP by without an accelerator, so it is told here, where
it has made up its mind, what it would have read there. All else is as it is.

torchrun --nproc_per_node 2 split_run.py LESSONS [STEPS]
"""

import os
import sys
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

sys.path.insert(0, str(Path(__file__).parent))

from enumerable import Browsing

from rookery.learn.imitation_learning import ImitationSettings, train_by_imitation
from rookery.learn.optimizer import is_sharded, make_accelerator
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.reinforcement_settings import ReinforcementSettings
from rookery.learn.retrieval_training import RetrievalTrainingSettings, train_retriever
from rookery.learn.reward_training import RewardTrainingSettings, train_reward_model
from rookery.learn.training_run import StopCheck

begin = AcceleratorState.__init__


def begin_split(state: Any, *given: Any, **named: Any) -> None:
    begin(state, *given, **named)
    if state.distributed_type == DistributedType.MULTI_CPU:
        state.distributed_type = DistributedType.FSDP
        state.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, auto_wrap_policy="transformer_based_wrap"
        )


def cord(steps: int = 1000) -> StopCheck:
    """Pulled in the middle of the step with this number: asked before the batch is played, and
    twice in each of four epochs."""
    asked = count(1)
    return lambda: "stop" if next(asked) > 9 * steps + 4 else ""


class Lesson(msgspec.Struct):
    """What a process is told in JSON."""

    what: str
    settings: msgspec.Raw
    out: str
    layer: str = "LlamaDecoderLayer"
    """what is split apart"""


TRAINERS: dict[str, tuple[Any, Any]] = {
    "imitate": (ImitationSettings, train_by_imitation),
    "prefer": (RewardTrainingSettings, train_reward_model),
    "reinforce": (
        ReinforcementSettings,
        lambda said, out: train_by_reinforcement(
            said, Browsing(0), out, cord=cord(*map(int, sys.argv[2:]))
        ),
    ),
    "retrieve": (RetrievalTrainingSettings, train_retriever),
}

if __name__ == "__main__":
    AcceleratorState.__init__ = begin_split
    for lesson in msgspec.json.decode(sys.argv[1], type=list[Lesson]):
        os.environ["FSDP_TRANSFORMER_CLS_TO_WRAP"] = lesson.layer
        AcceleratorState._reset_state()
        kind, train = TRAINERS[lesson.what]
        train(msgspec.json.decode(lesson.settings, type=kind), Path(lesson.out))
        assert is_sharded(make_accelerator())
