"""Adafactor: its steps by the paper's formulas, and what it keeps of the gradients; frozen weights
in bfloat16."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import split_adafactor
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from several import in_two_processes
from split_adafactor import STEPS, Shapes, compare_weights, take_steps
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import LlamaConfig, LlamaForCausalLM

from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings, make_accelerator
from rookery.learn.pretrained_models import (
    LoraSettings,
    TrainedModelSettings,
    prepare_trainable_model,
    seed_torch,
)
from rookery.learn.training_run import ResumableRun

BFLOAT16 = torch.bfloat16
Values = npt.NDArray[np.float64]
SETTINGS = OptimizerSettings(1e-2, "constant", method="adafactor", clip=None)


class PaperAdafactor:
    """Algorithms 4 to 6 of Shazeer and Stern (2018) for one weight, with float64 and loops."""

    def __init__(self, weight: Values) -> None:
        self.weight = weight.copy()
        self.rows: Values = np.zeros(())
        self.columns: Values = np.zeros(())
        self.second: Values = np.zeros(())

    def step(self, gradient: Values, rate: float, number: int) -> None:
        decay = 1 - number**-0.8
        square = gradient**2
        if gradient.ndim == 2:
            self.rows = decay * self.rows + (1 - decay) * square.sum(1)
            self.columns = decay * self.columns + (1 - decay) * square.sum(0)
            self.second = np.outer(self.rows, self.columns) / self.rows.sum()
        else:
            self.second = decay * self.second + (1 - decay) * square
        update = gradient / np.sqrt(self.second)
        update /= max(1.0, math.sqrt(float((update**2).mean())))
        scale = max(1e-3, math.sqrt(float((self.weight**2).mean())))
        self.weight -= scale * min(rate, number**-0.5) * update


def gradients(step: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(step)
    return torch.randn(3, 4, generator=chance), torch.randn(3, generator=chance)


def layer() -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Linear(4, 3)


def take_step(learner: ModelOptimizer, step: int, gradients: Sequence[Tensor]) -> None:
    """One step whose gradient is what was given."""

    def compute_loss(pair: Sequence[Tensor]) -> Tensor:
        model = learner.model
        found: Tensor = (model.weight * pair[0]).sum() + (model.bias * pair[1]).sum()
        return found

    learner.step(step, [gradients], compute_loss)


def test_the_first_step_of_a_matrix_is_what_a_hand_computes() -> None:
    """All of one sign: with rows and columns of rank one the update is 1 everywhere, its root mean
    square 1, and a weight moves by the rate times the root mean square of the matrix."""
    model = nn.Linear(2, 2, bias=False)
    nn.init.constant_(model.weight, 0.5)
    learner = ModelOptimizer(model, SETTINGS, 1, Accelerator(cpu=True))
    given = torch.tensor([[1.0, 2.0], [10.0, 20.0]])
    learner.step(0, [given], lambda piece: (learner.model.weight * piece).sum())
    wanted = torch.full((2, 2), 0.5 - 0.5 * 1e-2)
    torch.testing.assert_close(learner.model.weight.detach(), wanted)


@pytest.mark.parametrize("rate", [1e-2, 0.9])
def test_its_steps_are_those_of_the_paper(rate: float) -> None:
    """A matrix and a vector; at the higher rate the paper's bound of 1/√t holds from step 2 on."""
    model = layer()
    oracles = [PaperAdafactor(each.detach().double().numpy()) for each in model.parameters()]
    settings = OptimizerSettings(rate, "constant", method="adafactor", clip=None)
    learner = ModelOptimizer(model, settings, STEPS, Accelerator(cpu=True))
    for step in range(STEPS):
        given = gradients(step)
        take_step(learner, step, given)
        for oracle, gradient in zip(oracles, given, strict=True):
            oracle.step(gradient.double().numpy(), rate, step + 1)
        for oracle, weight in zip(oracles, learner.model.parameters(), strict=True):
            np.testing.assert_allclose(weight.detach().numpy(), oracle.weight, rtol=1e-5, atol=1e-7)


def test_a_run_with_it_goes_on_to_the_last_bit(tmp_path: Path) -> None:
    def train(folder: Path, stop: int) -> list[Tensor]:
        learner = ModelOptimizer(layer(), SETTINGS, STEPS, Accelerator(cpu=True))
        with ResumableRun(folder, SETTINGS) as run:
            for step in run.iterate_steps(STEPS, learner, 2):
                take_step(learner, step, gradients(step))
                if step == stop:
                    break
                run.record_metrics()
        return list(learner.model.state_dict().values())

    whole = train(tmp_path / "whole", STEPS)
    train(tmp_path / "broken", 2)
    again = train(tmp_path / "broken", STEPS)
    assert all(map(torch.equal, whole, again))
    assert not torch.equal(whole[0], layer().weight)


def test_split_weights_learn_what_torch_s_own_does_whole_and_go_on_alone(tmp_path: Path) -> None:
    in_two_processes(Path(split_adafactor.__file__), str(tmp_path))
    alone = ModelOptimizer(Shapes(), split_adafactor.SETTINGS, STEPS, Accelerator(cpu=True))
    alone.load(tmp_path)
    compare_weights(alone, 3)
    take_steps(alone, range(3, STEPS))
    compare_weights(alone, STEPS)


class CastCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the matrices that are cast to bfloat16."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._to_copy.default and (kwargs or {}).get("dtype") == BFLOAT16:
            self.shapes += [tuple(args[0].shape)] if args[0].dim() == 2 else []
        return func(*args, **(kwargs or {}))


@pytest.fixture
def in_bfloat16() -> Iterator[Accelerator]:
    AcceleratorState._reset_state(reset_partial_state=True)
    yield make_accelerator("bfloat16")
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("trained", "learning"),
    [
        (TrainedModelSettings("", frozen=0.5), 7),
        (TrainedModelSettings("", lora=LoraSettings(2)), 8),
    ],
)
def test_frozen_weights_are_cast_to_bfloat16_once_and_stay_exact_where_they_are_written(
    in_bfloat16: Accelerator, trained: TrainedModelSettings, learning: int, tied: bool
) -> None:
    """Two layers of seven matrices: the upper one learns all, or LoRA two pairs in each."""
    sizes: dict[str, Any] = {"vocab_size": 12, "hidden_size": 16, "intermediate_size": 24}
    heads: dict[str, Any] = {
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "tie_word_embeddings": tied,
    }
    ids = torch.tensor([[1, 2, 3, 4, 5]])

    def make() -> Any:
        with seed_torch(0):
            model = LlamaForCausalLM(LlamaConfig(**sizes | heads))
            return prepare_trainable_model(model, trained)

    slow, model = make(), make()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    learner = ModelOptimizer(model, OptimizerSettings(rate=0.1), 1, in_bfloat16)
    with CastCounter() as slowly, torch.autocast("cpu", BFLOAT16):
        expected = slow(input_ids=ids, use_cache=False).logits.float()
    with CastCounter() as counter:
        found = learner.model(input_ids=ids, use_cache=False).logits
    head = 0 if trained.lora or tied else 1
    assert len(slowly.shapes) == 15 + (8 if trained.lora else 0)
    assert len(counter.shapes) == learning + head
    assert torch.equal(found, expected)
    expected.square().sum().backward()
    found.square().sum().backward()
    gradients = [
        [each.grad for each in one.parameters() if each.requires_grad] for one in (slow, model)
    ]
    assert all(map(torch.equal, *gradients))
    with learner.open_whole_model(dtype="bfloat16") as sampled, torch.autocast("cpu", BFLOAT16):
        assert torch.equal(sampled(input_ids=ids, use_cache=False).logits.float(), expected)
    learner.step(0, [ids], lambda piece: learner.model(input_ids=piece).logits.square().sum())
    written: dict[str, Tensor] = {}
    learner.write_model(lambda whole: written.update(whole.state_dict()))
    assert written.keys() == before.keys()
    moved = {name for name, value in before.items() if not torch.equal(written[name], value)}
    named = slow.named_parameters()
    learnt = {name for name, weight in named if weight.requires_grad}
    assert moved == {
        name for name in learnt if "lora_A" not in name
    }  # whose gradient is 0 at first
    assert all(value.dtype == torch.float32 for value in written.values())
