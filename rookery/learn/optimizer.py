"""One optimizer step, the same however a batch is cut and shared by processes, and models whose
weights are sharded (FSDP).

Validation, sampling and saving read a whole copy of a sharded model in each process: processes
that hold parts would have to read equally often.
"""

import atexit
import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec
import torch
import torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from rookery.records import Failed, Failure

_UNSUPPORTED_TYPES = (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)


def copy_if_sharded(model: nn.Module, accelerator: Accelerator) -> nn.Module | None:
    """Return an unsharded copy of a model that will be sharded over processes, else None.

    Raises Failed (unsupported) for DeepSpeed, Megatron-LM and the first version of FSDP, which were
    never tried: better a sentence than weights that are not those learnt.
    """
    kind = accelerator.distributed_type
    if kind in _UNSUPPORTED_TYPES or (is_sharded(accelerator) and not accelerator.is_fsdp2):
        detail = "weights are split by FSDP alone, and by its second version: fsdp_version: 2"
        raise Failed(Failure(f"accelerate: {kind.value}", "unsupported", detail))
    return copy.deepcopy(model).to(accelerator.device) if is_sharded(accelerator) else None


def is_sharded(accelerator: Accelerator) -> bool:
    """Return whether each process holds only a part of the weights (FSDP)."""
    return bool(accelerator.distributed_type == DistributedType.FSDP)


@torch.no_grad()
def copy_sharded_weights(whole: nn.Module, split: nn.Module) -> None:
    """Copy the weights of the sharded model `split` into its unsharded copy `whole`.

    All processes must call it.
    """
    parts = split.state_dict()
    for name, weight in whole.state_dict().items():
        part = parts[name]
        weight.copy_(part.full_tensor() if isinstance(part, DTensor) else part)


P = TypeVar("P")


class OptimizerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Optimizer, learning rate and its schedule, gradient clipping and weight averaging."""

    rate: float = 1e-5
    """learning rate at its highest"""
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    """how it falls: not at all, or to 0 after the last step"""
    warmup: float = 0.0
    """share of the steps in which it rises"""
    adam: Literal["torch", "tf"] = "torch"
    """where Adam's epsilon stands: tf is as in the code of Ziegler and others (2019), which moves
    weights of small gradients less"""
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    decay: float = 0.0
    """of weights, apart from their gradients"""
    clip: float | None = 1.0
    """the longest gradient (L2); None: any length"""
    average: float = 0.0
    """share of its past that the average of the weights keeps at each step; 0: none is made"""
    method: Literal["adam", "adafactor"] = "adam"
    """adafactor keeps sums of squared gradients over rows and columns, and not each of them, and
    multiplies the rate by the root mean square of each matrix of weights (Shazeer and Stern 2018;
    GopherCite, appendices D.1 and F.1); it does not use `adam`, `betas` and `epsilon`"""

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf or not 0 <= self.warmup <= 1 or not 0 <= self.average < 1:
            raise ValueError("rate must be more than 0; warmup and average are shares from 0 to 1")
        if not all(0 <= beta < 1 for beta in self.betas) or not 0 <= self.epsilon < math.inf:
            raise ValueError("betas must be from 0 to below 1, epsilon 0 or more")
        if not 0 <= self.decay < math.inf or (self.clip is not None and not self.clip > 0):
            raise ValueError("decay must be 0 or more; clip more than 0, or nothing is learnt")

    def compute_rate_share(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, numbered from 0, as a share of the highest."""
        rising = self.warmup * steps
        if step < rising:
            return (step + 1) / (rising + 1)
        left = 1 - (step - rising) / max(steps - rising, 1)
        if self.schedule == "cosine":
            return (1 - math.cos(math.pi * left)) / 2
        return left if self.schedule == "linear" else 1.0


class TensorFlowAdam(torch.optim.Optimizer):
    """Adam as in TensorFlow 1: epsilon is added before the bias correction of the second moment."""

    def __init__(
        self, weights: Iterable[Any], lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        super().__init__(weights, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update the weights once from their gradients."""
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


def make_accelerator(dtype: str = "float32") -> Accelerator:
    """Return an Accelerator for the processes of torchrun or accelerate, or for this one alone.

    With bfloat16, computation is in bfloat16 and weights stay in float32.
    """
    # Several processes of a machine without an accelerator find each other only if told so.
    lone = not torch.accelerator.is_available()
    found = Accelerator(cpu=lone, mixed_precision="bf16" if dtype == "bfloat16" else "no")
    atexit.unregister(_leave_process_group)
    atexit.register(_leave_process_group)
    return found


def _leave_process_group() -> None:
    """Processes that part only as they end may abort: threads of theirs are still listening."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


class ModelOptimizer:
    """A model, its optimiser, and the processes that share the work.

    `pulled` is asked at the beginning of every step, and again before a weight is changed: it says
    why nothing more may be learnt; empty: go on. `rates` has the highest learning rate of
    parameters by the first part of their name ("head" of "head.weight"), where it is not that of
    the settings: heads that begin at random learn faster than what was trained before. With a
    `dropout_seed` the model drops out during a step and at no other time; what is dropped depends
    on the seed, the step, the process and the pieces alone, so that a run goes on exactly.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: OptimizerSettings,
        steps: int,
        accelerator: Accelerator | None = None,
        pulled: Callable[[], str] = str,
        rates: Mapping[str, float] = MappingProxyType({}),
        dropout_seed: int | None = None,
    ) -> None:
        self.accelerator = accelerator or make_accelerator()
        self.settings = settings
        self._steps = steps
        self._find_stop_reason = pulled
        self._dropout_seed = dropout_seed
        if dropout_seed is not None:
            model.eval()
        by_rate: dict[float, list[Tensor]] = {}
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                rate = rates.get(name.partition(".")[0], settings.rate)
                by_rate.setdefault(rate, []).append(weight)
        if not by_rate:
            detail = "no weight of the model is to be learnt: freeze fewer layers"
            raise Failed(Failure("the model", "nothing_to_learn", detail))
        optimiser = make_optimizer(by_rate, settings)
        self._whole_copy = copy_if_sharded(model, self.accelerator)
        if self._whole_copy is not None and settings.method == "adafactor":
            detail = "Adafactor's sums over rows and columns cannot be split: let method be adam"
            raise Failed(Failure("accelerate: FSDP", "unsupported", detail))
        self._weights_changed = False
        """whether the weights are others than the copy's"""
        self.model, self._optimiser = self.accelerator.prepare(model, optimiser)
        self.averages: AveragedModel | None = None
        if settings.average:
            kept = get_ema_multi_avg_fn(settings.average)  # type: ignore[no-untyped-call]
            self.averages = AveragedModel(self.unwrapped_model, multi_avg_fn=kept)
        self.accelerator.register_save_state_pre_hook(_drop_shared_weights)

    @property
    def unwrapped_model(self) -> Any:
        """The model without the wrappers of accelerate; an unsharded copy, if it is sharded.

        Then all processes must ask for it at once.
        """
        if self._whole_copy is None:
            return self.accelerator.unwrap_model(self.model)
        if self._weights_changed:
            copy_sharded_weights(self._whole_copy, self.model)
            self._weights_changed = False
        return self._whole_copy

    def step(self, number: int, pieces: Sequence[P], loss: Callable[[P], Tensor]) -> float:
        """Take one optimizer step along the sum of all losses; return the gradient's norm.

        Sets the learning rate of step `number`, clips the gradient, whose norm is that before
        clipping, and updates the average of the weights. A piece's loss is its part of the whole
        batch's: a sum divided by the count of the whole batch. Then it does not matter how many
        pieces or processes there are. Each process must have as many pieces. Raises Failed:
        stopped, or not_a_number before any weight is changed.
        """
        self._raise_if_stopped()
        for group in self._optimiser.param_groups:
            share = self.settings.compute_rate_share(number, self._steps)
            group["lr"] = group["highest"] * share
        with self._drop_out(number):
            for count, piece in enumerate(pieces, 1):
                last = count == len(pieces)
                with nullcontext() if last else self.accelerator.no_sync(self.model):
                    # Gradients of processes are averaged where they meet, and a sum is wanted.
                    self.accelerator.backward(loss(piece) * self.accelerator.num_processes)
        length = self._clip_gradient()
        if not math.isfinite(length):
            self._optimiser.zero_grad()
            detail = (
                "the gradient is no number: lower the rate, or look for what is wrong in the data"
            )
            raise Failed(Failure(f"step {number}", "not_a_number", detail))
        self._raise_if_stopped()
        self._optimiser.step()
        self._optimiser.zero_grad()
        self._weights_changed = True
        if self.averages is not None:
            self.averages.update_parameters(self.unwrapped_model)
        return length

    @contextmanager
    def _drop_out(self, step: int) -> Iterator[None]:
        """Let the model drop out within a `with` block; without a seed, change nothing."""
        if self._dropout_seed is None:
            yield
            return
        device = self.accelerator.device
        chance = Random(f"{self._dropout_seed} dropout {step} {self.accelerator.process_index}")
        others = [] if device.type == "cpu" else [device]
        kind = "cuda" if device.type == "cpu" else device.type
        with torch.random.fork_rng(devices=others, device_type=kind):
            torch.manual_seed(chance.getrandbits(63))
            self.model.train()
            try:
                yield
            finally:
                self.model.eval()

    def _raise_if_stopped(self) -> None:
        if why := self._find_stop_reason():
            self._optimiser.zero_grad()
            raise Failed(Failure("training", "stopped", why))

    def _clip_gradient(self) -> float:
        longest = math.inf if self.settings.clip is None else self.settings.clip
        found = self.accelerator.clip_grad_norm_(self.model.parameters(), longest)
        return float(found) if found is not None else 0.0

    def save(self, folder: Path) -> None:
        """Write the state to a folder: weights, optimizer and averages."""
        self.accelerator.save_state(str(folder), safe_serialization=True)
        if self.averages is not None and self.accelerator.is_main_process:
            torch.save(self.averages.state_dict(), folder / "averages.pt")

    def load(self, folder: Path) -> None:
        """Restore the state that `save` wrote to a folder."""
        self.accelerator.load_state(str(folder))
        self._weights_changed = True
        if self.averages is not None:
            self.averages.load_state_dict(torch.load(folder / "averages.pt", weights_only=True))


def _drop_shared_weights(_: object, states: list[dict[str, Tensor]], __: str) -> None:
    """Weights that networks share are saved under one name: accelerate would do it too, and tell
    the log of each."""
    for state in states:
        seen = set()
        for name, weight in list(state.items()):
            place = weight.data_ptr(), weight.shape
            if weight.numel() and place in seen:
                del state[name]
            seen.add(place)


def make_optimizer(
    by_rate: Mapping[float, Sequence[Tensor]], settings: OptimizerSettings
) -> torch.optim.Optimizer:
    """Return the optimizer of weights by their highest learning rate."""
    groups = [{"params": weights, "highest": rate} for rate, weights in by_rate.items()]
    if settings.method == "adafactor":
        return torch.optim.Adafactor(groups, settings.rate, weight_decay=settings.decay)
    if settings.adam == "tf":
        return TensorFlowAdam(groups, settings.rate, settings.betas, settings.epsilon)
    return torch.optim.AdamW(
        groups, settings.rate, settings.betas, settings.epsilon, settings.decay, fused=True
    )
