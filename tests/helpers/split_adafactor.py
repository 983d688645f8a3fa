"""Adafactor's steps in processes that each hold a part of the weights, on CPUs.

split_adafactor.py CHECKPOINT: takes three steps, writes a checkpoint, and takes two more. Each
process compares all weights with those that torch's Adafactor gives to a model that is whole.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rookery.learn.optimizer import ModelOptimizer, OptimizerSettings, make_accelerator

SETTINGS = OptimizerSettings(
    0.3, "constant", method="adafactor", clip=None, decay=0.1, sharded=True
)
STEPS = 5


class Shapes(nn.Module):
    """Matrices that two processes cannot halve, one of a single row, a list of matrices, a vector
    and zeros."""

    def __init__(self) -> None:
        super().__init__()
        chance = torch.Generator().manual_seed(3)
        for name, shape in {
            "odd": (5, 4),
            "row": (1, 6),
            "list": (3, 4, 2),
            "vector": (7,),
        }.items():
            setattr(self, name, nn.Parameter(torch.randn(shape, generator=chance)))
        self.zeros = nn.Parameter(torch.zeros(4, 3))

    def forward(self, inputs: list[Tensor]) -> Tensor:
        pairs = zip(self.parameters(), inputs, strict=True)
        return torch.stack([(weight * each).sum() for weight, each in pairs]).sum()


def draw_gradients(step: int) -> list[Tensor]:
    chance = torch.Generator().manual_seed(step)
    return [torch.randn(each.shape, generator=chance) for each in Shapes().parameters()]


def compute_expected(steps: int) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights after so many steps of torch's own."""
    model = Shapes()
    peer: Any = torch.optim.Adafactor(
        model.parameters(), SETTINGS.rate, weight_decay=SETTINGS.decay
    )
    for step in range(steps):
        for weight, gradient in zip(model.parameters(), draw_gradients(step), strict=True):
            weight.grad = gradient
        peer.step()
    for name, weight in model.named_parameters():
        yield name, weight.detach()


def take_steps(learner: ModelOptimizer, steps: range) -> None:
    """Each process gives half of the gradient, since those of all are added up."""
    share = learner.accelerator.num_processes
    for step in steps:
        piece = [each / share for each in draw_gradients(step)]
        learner.step(step, [piece], lambda given: learner.model(given))


def compare_weights(learner: ModelOptimizer, steps: int) -> None:
    with learner.open_whole_model() as whole:
        found = dict(whole.named_parameters())
        for name, weight in compute_expected(steps):
            torch.testing.assert_close(found[name].detach(), weight, rtol=1e-5, atol=1e-6)


if __name__ == "__main__":
    learner = ModelOptimizer(Shapes(), SETTINGS, STEPS, make_accelerator())
    take_steps(learner, range(3))
    learner.save(Path(sys.argv[1]))
    take_steps(learner, range(3, STEPS))
    compare_weights(learner, STEPS)
