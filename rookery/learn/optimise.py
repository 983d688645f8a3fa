"""One step of an optimiser, the same however a batch is cut into pieces and shared by processes.

It knows nothing of what is learnt. accelerate is the only layer that knows of devices, processes
and precision (its own configuration files choose FSDP and the like).
"""

import atexit
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from rookery.learn.split import copied, follow
from rookery.records import Failed, Failure

P = TypeVar("P")


class Optimising(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How weights follow their gradients."""

    rate: float = 1e-5
    """learning rate at its highest"""
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    """how it falls: not at all, or to 0 after the last step"""
    warmup: float = 0.0
    """share of the steps in which it rises"""
    adam: Literal["torch", "tf"] = "torch"
    """where epsilon stands: tf is as in the code of Ziegler and others (2019), which moves weights
    of small gradients less"""
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    decay: float = 0.0
    """of weights, apart from their gradients"""
    clip: float | None = 1.0
    """the longest gradient (L2); None: any length"""
    average: float = 0.0
    """share of its past that the average of the weights keeps at each step; 0: none is made"""

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf or not 0 <= self.warmup <= 1 or not 0 <= self.average < 1:
            raise ValueError("rate must be more than 0; warmup and average are shares from 0 to 1")
        if not all(0 <= beta < 1 for beta in self.betas) or not 0 <= self.epsilon < math.inf:
            raise ValueError("betas must be from 0 to below 1, epsilon 0 or more")
        if not 0 <= self.decay < math.inf or (self.clip is not None and not self.clip > 0):
            raise ValueError("decay must be 0 or more; clip more than 0, or nothing is learnt")

    def share(self, step: int, steps: int) -> float:
        """Of the highest learning rate, in this step of so many, counted from 0."""
        rising = self.warmup * steps
        if step < rising:
            return (step + 1) / (rising + 1)
        left = 1 - (step - rising) / max(steps - rising, 1)
        if self.schedule == "cosine":
            return (1 - math.cos(math.pi * left)) / 2
        return left if self.schedule == "linear" else 1.0


class TFAdam(torch.optim.Optimizer):
    """Adam as TensorFlow 1 has it: epsilon is added before the second moment is set right."""

    def __init__(
        self, weights: Iterable[Tensor], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        super().__init__(weights, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Follows the gradients once."""
        for group in self.param_groups:
            first, second = group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["step"] = torch.zeros(())
                    state["mean"] = torch.zeros_like(weight)
                    state["square"] = torch.zeros_like(weight)
                state["step"] += 1
                count = state["step"].item()
                state["mean"].lerp_(weight.grad, 1 - first)
                state["square"].mul_(second).addcmul_(weight.grad, weight.grad, value=1 - second)
                rate = group["lr"] * math.sqrt(1 - second**count) / (1 - first**count)
                root = state["square"].sqrt().add_(group["eps"])
                weight.addcdiv_(state["mean"], root, value=-rate)


def workers(dtype: str = "float32") -> Accelerator:
    """The processes that share the work, and what they compute on: as torchrun or accelerate begun
    them, or this one alone. With bfloat16 they compute in it, and keep weights in float32."""
    # Several processes of a machine without an accelerator find each other only if told so.
    lone = not torch.accelerator.is_available()
    found = Accelerator(cpu=lone, mixed_precision="bf16" if dtype == "bfloat16" else "no")
    atexit.unregister(_part)
    atexit.register(_part)
    return found


def _part() -> None:
    """Processes that part only as they end may abort: threads of theirs are still listening."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


class Learner:
    """A model, its optimiser, and the processes that share the work.

    `pulled` is asked at the beginning of every step, and again before a weight is changed: it says
    why nothing more may be learnt; empty: go on.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: Optimising,
        steps: int,
        accelerator: Accelerator | None = None,
        pulled: Callable[[], str] = str,
    ) -> None:
        self.accelerator = accelerator or workers()
        self.settings = settings
        self._steps = steps
        self._pulled = pulled
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        if not weights:
            detail = "no weight of the model is to be learnt: freeze fewer layers"
            raise Failed(Failure("the model", "nothing_to_learn", detail))
        optimiser = _optimiser(weights, settings)
        self._whole = copied(model, self.accelerator)
        self._moved = False
        """whether the weights are others than the copy's"""
        self.model, self._optimiser = self.accelerator.prepare(model, optimiser)
        self.averages: AveragedModel | None = None
        if settings.average:
            kept = get_ema_multi_avg_fn(settings.average)  # type: ignore[no-untyped-call]
            self.averages = AveragedModel(self.bare, multi_avg_fn=kept)
        self.accelerator.register_save_state_pre_hook(_once)

    @property
    def bare(self) -> Any:
        """The model without what processes wrap round it, and whole where each holds a part: all
        processes must then ask for it at once."""
        if self._whole is None:
            return self.accelerator.unwrap_model(self.model)
        if self._moved:
            follow(self._whole, self.model)
            self._moved = False
        return self._whole

    def step(self, number: int, pieces: Sequence[P], loss: Callable[[P], Tensor]) -> float:
        """Follows the sum of the losses of all pieces and processes; gives its gradient's length.

        A piece's loss is its part of the whole batch's: a sum divided by the count of the whole
        batch. Then it does not matter how many pieces or processes there are. Each process must
        have as many pieces. Raises Failed: stopped, or not_a_number before any weight is changed.
        """
        self._stop_if_pulled()
        for group in self._optimiser.param_groups:
            group["lr"] = self.settings.rate * self.settings.share(number, self._steps)
        for count, piece in enumerate(pieces, 1):
            last = count == len(pieces)
            with nullcontext() if last else self.accelerator.no_sync(self.model):
                # Gradients of processes are averaged where they meet, and a sum is wanted.
                self.accelerator.backward(loss(piece) * self.accelerator.num_processes)
        length = self._clipped()
        if not math.isfinite(length):
            self._optimiser.zero_grad()
            detail = (
                "the gradient is no number: lower the rate, or look for what is wrong in the data"
            )
            raise Failed(Failure(f"step {number}", "not_a_number", detail))
        self._stop_if_pulled()
        self._optimiser.step()
        self._optimiser.zero_grad()
        self._moved = True
        if self.averages is not None:
            self.averages.update_parameters(self.bare)
        return length

    def _stop_if_pulled(self) -> None:
        if why := self._pulled():
            self._optimiser.zero_grad()
            raise Failed(Failure("training", "stopped", why))

    def _clipped(self) -> float:
        longest = math.inf if self.settings.clip is None else self.settings.clip
        found = self.accelerator.clip_grad_norm_(self.model.parameters(), longest)
        return float(found) if found is not None else 0.0

    def save(self, folder: Path) -> None:
        """Writes all that `load` needs to go on as if nothing had been."""
        self.accelerator.save_state(str(folder), safe_serialization=True)
        if self.averages is not None and self.accelerator.is_main_process:
            torch.save(self.averages.state_dict(), folder / "averages.pt")

    def load(self, folder: Path) -> None:
        """Goes on from what `save` wrote."""
        self.accelerator.load_state(str(folder))
        self._moved = True
        if self.averages is not None:
            self.averages.load_state_dict(torch.load(folder / "averages.pt", weights_only=True))


def _once(_: object, states: list[dict[str, Tensor]], __: str) -> None:
    """Weights that networks share are saved under one name: accelerate would do it too, and tell
    the log of each."""
    for state in states:
        seen = set()
        for name, weight in list(state.items()):
            place = weight.data_ptr(), weight.shape
            if weight.numel() and place in seen:
                del state[name]
            seen.add(place)


def _optimiser(weights: Sequence[Tensor], settings: Optimising) -> torch.optim.Optimizer:
    if settings.adam == "tf":
        return TFAdam(weights, settings.rate, settings.betas, settings.epsilon)
    return torch.optim.AdamW(
        weights, settings.rate, settings.betas, settings.epsilon, settings.decay, fused=True
    )
