"""One optimizer step, the same however a batch is cut and shared by processes, for models that each
process has whole or that processes split (FSDP2); and an update rule that torch has not.
"""

import atexit
import copy
import math
import warnings
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
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate

from rookery.errors import Failed, Outcome
from rookery.records import Failure


class Adafactor(torch.optim.Optimizer):
    """Adafactor with relative steps and factored second moments (Shazeer and Stern 2018,
    algorithms 4 to 6), with the paper's constants.

    Of a matrix it keeps the sums over rows and over columns of the squared gradients, of a vector
    each square; tensors of more dimensions are lists of matrices. It computes what torch's own
    Adafactor computes, which cannot be used for weights that are split over processes.
    """

    def __init__(self, weights: Iterable[Any], lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the weights that have gradients once; `closure` is not called.

        All processes must call it at once.
        """
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update_weight(weight, group["lr"], group["weight_decay"])

    def _update_weight(self, weight: Tensor, rate: float, decay: float) -> None:
        state, grad = self.state[weight], weight.grad
        assert grad is not None
        state.setdefault("step", torch.zeros(()))
        state["step"] += 1
        count = state["step"].item()
        scale = max(_SMALLEST_SCALE, _compute_root_mean_square(weight))
        new_share = count**_MOMENT_DECAY
        if grad.dim() > 1:
            sums = {
                "row_var": _gather_sums(torch.linalg.vector_norm(grad, dim=-1, keepdim=True)),
                "col_var": _gather_sums(torch.linalg.vector_norm(grad, dim=-2, keepdim=True)),
            }
            counts = {"row_var": grad.shape[-1], "col_var": grad.shape[-2]}
            for name, norms in sums.items():
                square = norms.square().div_(counts[name])
                get_local_part(state.setdefault(name, torch.zeros_like(square))).lerp_(
                    get_local_part(square), new_share
                )
            rows, columns = state["row_var"], state["col_var"]
            mean = _gather_sums(rows.sum(dim=-2, keepdim=True)).div(grad.shape[-2])
            second = get_local_part(rows) @ get_local_part(columns)
            second.div_(get_local_part(mean).clamp(min=_EPSILON))
        else:
            local_grad = get_local_part(grad)
            square = get_local_part(state.setdefault("variance", torch.zeros_like(grad)))
            second = square.lerp_(local_grad.square(), new_share).clone()
        update = second.clamp_(min=_EPSILON**2).rsqrt_().mul_(get_local_part(grad))
        whole = _rebuild_tensor(update, grad)
        change = scale * min(rate, count**-0.5) / max(1.0, _compute_root_mean_square(whole))
        get_local_part(weight).mul_(1 - rate * decay).sub_(update, alpha=change)


_EPSILON = torch.finfo(torch.float32).eps
_SMALLEST_SCALE = 1e-3
"""of a weight's root mean square, so that weights of 0 learn (the paper's second epsilon)"""
_MOMENT_DECAY = -0.8


def get_local_part(value: Tensor) -> Tensor:
    """Return the part of a tensor that this process holds, which is changed in place."""
    return value.to_local() if isinstance(value, DTensor) else value


def _gather_sums(value: Tensor) -> Tensor:
    """Add up what each process has of sums or norms over a dimension that is split."""
    if not isinstance(value, DTensor) or not any(each.is_partial() for each in value.placements):
        return value
    places = [Replicate() if each.is_partial() else each for each in value.placements]
    return value.redistribute(placements=places)


def _rebuild_tensor(part: Tensor, like: Tensor) -> Tensor:
    """Return the tensor that processes split as they split another, of which this is a part."""
    if not isinstance(like, DTensor):
        return part
    return DTensor.from_local(
        part,
        like.device_mesh,
        like.placements,
        run_check=False,
        shape=like.shape,
        stride=like.stride(),
    )


def _compute_root_mean_square(value: Tensor) -> float:
    norm: Any = torch.linalg.vector_norm(value)
    length = float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    return length / math.sqrt(value.numel())


_UNSUPPORTED_TYPES = (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM, DistributedType.FSDP)


def require_supported_processes(accelerator: Accelerator) -> None:
    """Raise Failed (unsupported) where accelerate was told to split weights in its own ways, which
    were never tried here: better a sentence than weights that are not those learnt."""
    kind = accelerator.distributed_type
    if kind in _UNSUPPORTED_TYPES:
        detail = "start it with torchrun, and set sharded = true in [optimising] to split weights"
        raise Failed(Failure(f"accelerate: {kind.value}", Outcome.UNSUPPORTED, detail))


def shard_model(model: nn.Module, accelerator: Accelerator) -> None:
    """Split the weights of a model over all processes, in place (FSDP2).

    Each layer (an item of a list of modules) is gathered while it is computed; what belongs to no
    layer is gathered together. Weights are kept in float32, and computed in bfloat16 where the
    accelerator says so. Only calls of `model` itself gather: call nothing inside it from outside.
    """
    mesh = init_device_mesh(accelerator.device.type, (accelerator.num_processes,))
    inside = whole = MixedPrecisionPolicy()
    if accelerator.mixed_precision == "bf16":
        inside = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
        whole = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    for layer in _list_layers(model):
        fully_shard(layer, mesh=mesh, mp_policy=inside)
    fully_shard(model, mesh=mesh, mp_policy=whole)


def _list_layers(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the items of the outermost lists of modules."""
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        else:
            yield from _list_layers(child)


def copy_without_weights(model: nn.Module) -> nn.Module:
    """Return a copy of a model whose weights are on the meta device; buffers are copied."""
    empty = {
        id(weight): nn.Parameter(weight.detach().to("meta"), weight.requires_grad)
        for weight in model.parameters()
    }
    return copy.deepcopy(model, empty)


@torch.no_grad()
def fill_weights(
    skeleton: nn.Module,
    weights: Mapping[str, Tensor],
    device: torch.device,
    dtype: torch.dtype,
    is_source: bool,
) -> None:
    """Put whole weights of these names in place of those of a model, in this process if it is
    `is_source`.

    All processes must call it: they gather each weight together.
    """
    names = {id(weight): name for name, weight in skeleton.named_parameters()}
    filled: dict[str, nn.Parameter] = {}
    for name, old in list(skeleton.named_parameters()):
        part = weights[name]
        full = part.full_tensor() if isinstance(part, DTensor) else part
        if is_source:
            filled[name] = nn.Parameter(full.to(device, dtype), old.requires_grad)
    for module in skeleton.modules() if is_source else ():
        for name, old in list(module.named_parameters(recurse=False)):
            setattr(module, name, filled[names[id(old)]])
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, buffer.to(device))


P = TypeVar("P")


class OptimizerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Optimizer, learning rate and its schedule, gradient clipping and weight averaging."""

    rate: float = 1e-5
    """learning rate at its highest"""
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    """how the rate falls: not at all, or to 0 after the last step"""
    warmup: float = 0.0
    """share of the steps in which the rate rises"""
    adam: Literal["torch", "tf"] = "torch"
    """where Adam's epsilon stands: tf is as in the code of Ziegler and others (2019), which moves
    weights of small gradients less"""
    betas: tuple[float, float] = (0.9, 0.999)
    """shares of their past that Adam's averages of gradients and of their squares keep"""
    epsilon: float = 1e-8
    """epsilon of Adam, beside the root of the mean square"""
    decay: float = 0.0
    """weight decay, apart from the gradients"""
    clip: float | None = 1.0
    """the longest gradient (L2); None: any length"""
    average: float = 0.0
    """share of its past that the average of the weights keeps at each step; 0: none is made"""
    method: Literal["adam", "adafactor"] = "adam"
    """adafactor keeps sums of squared gradients over rows and columns, and not each of them, and
    multiplies the rate by the root mean square of each matrix of weights (Shazeer and Stern 2018;
    GopherCite, appendices D.1 and F.1); it does not use `adam`, `betas` and `epsilon`"""
    sharded: bool = False
    """whether several processes split weights, gradients and the optimizer's state (FSDP2), so that
    each holds a part; false: each holds all"""

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


def make_accelerator(dtype: str = "float32") -> Accelerator:
    """Return an Accelerator for the processes of torchrun or accelerate, or for this one alone.

    With bfloat16, computation is in bfloat16 and weights stay in float32.
    """
    # Several processes of a machine without an accelerator find each other only if told so.
    lone = not torch.accelerator.is_available()
    accelerator = Accelerator(cpu=lone, mixed_precision="bf16" if dtype == "bfloat16" else "no")
    atexit.unregister(_leave_process_group)
    atexit.register(_leave_process_group)
    return accelerator


def _leave_process_group() -> None:
    """Processes that part only as they end may abort: threads of theirs are still listening."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


class ModelOptimizer:
    """A model, its optimizer, and the processes that share the work.

    `pulled` is asked at the beginning of every step, and again before a weight is changed: it says
    why nothing more may be learnt; empty: go on. `rates` has the highest learning rate of
    parameters by the first part of their name ("head" of "head.weight"), where it is not that of
    the settings: heads that begin at random learn faster than what was trained before. With a
    `dropout_seed` the model drops out during a step and at no other time; what is dropped depends
    on the seed, the step, the process and the pieces alone, so that a run goes on exactly.
    `model` is what computes: all processes must call it equally often. Raises Failed: unsupported
    (processes of another kind), nothing_to_learn (all weights are frozen).
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
        require_supported_processes(self.accelerator)
        if dropout_seed is not None:
            model.eval()
        if not any(weight.requires_grad for weight in model.parameters()):
            detail = "no weight of the model is to be learnt: freeze fewer layers"
            raise Failed(Failure("the model", Outcome.NOTHING_TO_LEARN, detail))
        self._skeleton: nn.Module | None = None
        """a copy without weights, which are gathered into copies of it; None: weights are whole"""
        if settings.sharded and self.accelerator.num_processes > 1:
            self._skeleton = copy_without_weights(model)
            shard_model(model, self.accelerator)
            self.model: Any = model
        else:
            self.model = self.accelerator.prepare_model(model)
        self._network = model
        """without the wrappers of accelerate"""
        self._set_aside: dict[nn.Linear, Tensor] = {}
        """of layers that compute in bfloat16 and learn nothing, the weights in float32; autocast
        keeps the cast weights of none but those that learn, and would cast these at every pass"""
        if self._skeleton is None and self.accelerator.mixed_precision == "bf16":
            for layer in (each for each in model.modules() if isinstance(each, nn.Linear)):
                if not layer.weight.requires_grad:
                    rounded = layer.weight.detach().bfloat16()
                    self._set_aside[layer] = nn.Parameter(rounded, requires_grad=False)
            self._exchange_frozen()
        named = dict(model.named_parameters())
        self._learning = {name: each for name, each in named.items() if each.requires_grad}
        by_rate: dict[float, list[Tensor]] = {}
        for name, weight in self._learning.items():
            rate = rates.get(name.partition(".")[0], settings.rate)
            by_rate.setdefault(rate, []).append(weight)
        self._optimizer = make_optimizer(by_rate, settings)
        self._averages: dict[str, Tensor] = {}
        """of the weights that learn, by name; empty: there are none"""
        if settings.average:
            self._averages = {
                name: weight.detach().clone() for name, weight in self._learning.items()
            }
        self._is_averaging = False
        """whether a step was made: the average begins as the weights after the first"""

    @contextmanager
    def open_whole_model(
        self, part: str = "", averaged: bool = True, everywhere: bool = True, dtype: str = "float32"
    ) -> Iterator[Any]:
        """Yield the model, or its submodule `part`, with all of its weights, to validate, sample or
        write it: with the averages of the weights where they are made and `averaged`.

        Weights that are split are gathered into a copy of this type, for the time of the block: all
        processes must open it at once. Where it is not needed `everywhere`, the main process alone
        gets weights, on the CPU, and the others a model that must not be used. Weights that are not
        split keep their type; with `dtype` bfloat16, for autocast, linear layers that learn nothing
        are in bfloat16 where training computes in it. Nothing may be learnt inside.
        """
        averages = self._averages if averaged and self._is_averaging else {}
        if self._skeleton is not None:
            weights = dict(self._network.named_parameters()) | averages
            prefix = f"{part}." if part else ""
            whole: nn.Module = copy.deepcopy(self._skeleton.get_submodule(part))
            fill_weights(
                whole,
                {name: weights[prefix + name] for name, _ in whole.named_parameters()},
                self.accelerator.device if everywhere else torch.device("cpu"),
                getattr(torch, dtype),
                everywhere or self.accelerator.is_main_process,
            )
            yield whole
            return
        with self._swap_weights(averages, dtype == "float32"):
            yield self._network.get_submodule(part)

    def write_model(self, write: Callable[[Any], None], part: str = "") -> None:
        """Call `write` with the whole model, or its submodule `part`, in the main process; all
        processes must call this, and wait for it."""
        with self.open_whole_model(part, everywhere=False) as model:
            if self.accelerator.is_main_process:
                write(model)
        self.accelerator.wait_for_everyone()

    @contextmanager
    def _swap_weights(self, others: Mapping[str, Tensor], exact: bool) -> Iterator[None]:
        def exchange_data() -> None:
            if exact:
                self._exchange_frozen()
            for name, other in others.items():
                weight = self._learning[name]
                weight.data, other.data = other.data, weight.data

        exchange_data()
        try:
            yield
        finally:
            exchange_data()

    def _exchange_frozen(self) -> None:
        for layer, other in self._set_aside.items():
            self._set_aside[layer], layer.weight = layer.weight, other

    @torch.no_grad()
    def restore_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load the weights of a whole model, by their names in its state, and drop their averages.

        No weights are averaged afterwards, and the optimizer's own state stays: this is for the end
        of training.
        """
        self._averages, self._is_averaging = {}, False
        if self._skeleton is None:
            self._network.load_state_dict(weights)
            return
        options = StateDictOptions(full_state_dict=True)
        set_model_state_dict(self._network, dict(weights), options=options)

    def step(self, number: int, pieces: Sequence[P], loss: Callable[[P], Tensor]) -> float:
        """Take one optimizer step along the sum of all losses; return the gradient's norm.

        Sets the learning rate of step `number`, clips the gradient, whose norm is that before
        clipping, and updates the average of the weights. A piece's loss is its part of the whole
        batch's: a sum divided by the count of the whole batch. Then it does not matter how many
        pieces or processes there are. Each process must have as many pieces. Raises Failed:
        stopped, or not_a_number before any weight is changed.
        """
        self._raise_if_stopped()
        share, epsilon = (
            self.settings.compute_rate_share(number, self._steps),
            self.settings.epsilon,
        )
        if self.settings.adam == "tf":  # added before the second moment's bias is corrected
            epsilon /= math.sqrt(1 - self.settings.betas[1] ** (number + 1))
        for group in self._optimizer.param_groups:
            group["lr"] = group["highest"] * share
            if "eps" in group:
                group["eps"] = epsilon
        with self._drop_out(number):
            for count, piece in enumerate(pieces, 1):
                # Gradients that are split are added up after each piece: kept whole until the last,
                # they would take the memory that splitting saves.
                whole = self._skeleton is None and count < len(pieces)
                with self.accelerator.no_sync(self.model) if whole else nullcontext():
                    # Gradients of processes are averaged where they meet, and a sum is wanted.
                    (loss(piece) * self.accelerator.num_processes).backward()
        length = self._clip_gradient()
        if not math.isfinite(length):
            self._optimizer.zero_grad()
            detail = (
                "the gradient is no number: lower the rate, or look for what is wrong in the data"
            )
            raise Failed(Failure(f"step {number}", Outcome.NOT_A_NUMBER, detail))
        self._raise_if_stopped()
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._update_averages()
        return length

    def step_in_shares(
        self, number: int, pieces: Sequence[P], loss: Callable[[P], Tensor]
    ) -> dict[str, float]:
        """Take one step on the micro-batches of all processes, of which each computes its share.

        `pieces`, one at least, are the same in all processes. Returns the `loss`, summed over them,
        and the norm of the `gradient`. Each process computes as many; where there are too few, one
        more counts nothing. Otherwise as `step`.
        """
        count, losses = self.accelerator.num_processes, list[Tensor]()
        weighted = [(piece, 1.0) for piece in pieces]
        weighted += [(pieces[0], 0.0)] * (-len(pieces) % count)

        def compute_weighted_loss(pair: tuple[P, float]) -> Tensor:
            part = loss(pair[0]) * pair[1]
            losses.append(part.detach())
            return part

        share = weighted[self.accelerator.process_index :: count]
        length = self.step(number, share, compute_weighted_loss)
        return {"loss": self.sum_losses(losses)[0], "gradient": length}

    def sum_losses(self, losses: Sequence[Tensor]) -> list[float]:
        """Return the sum of numbers or vectors over all micro-batches of all processes.

        It is a list with one number for each entry of a vector. All processes must call this, with
        one loss at least.
        """
        summed = torch.stack(list(losses)).sum(0)
        return [float(each) for each in self.accelerator.reduce(summed, "sum").reshape(-1)]

    @torch.no_grad()
    def _update_averages(self) -> None:
        if self._averages:
            weights = [get_local_part(self._learning[name]) for name in self._averages]
            averages = [get_local_part(each) for each in self._averages.values()]
            # The first average is of one: the weights themselves.
            share = 1 - self.settings.average if self._is_averaging else 1.0
            torch._foreach_lerp_(averages, weights, share)
            self._is_averaging = True

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
            self._optimizer.zero_grad()
            raise Failed(Failure("training", Outcome.STOPPED, why))

    def _clip_gradient(self) -> float:
        longest = math.inf if self.settings.clip is None else self.settings.clip
        found: Any = nn.utils.clip_grad_norm_(self._learning.values(), longest)
        return float(found.full_tensor() if isinstance(found, DTensor) else found)

    def save(self, folder: Path) -> None:
        """Write the state to a folder: weights that learn, the optimizer's state, and averages.

        All processes must call it: each writes what it holds, and of what all hold a share, to the
        same folder.
        """
        place = folder / _STATE_FOLDER
        with _raise_causes():
            state_dict_saver.save(self._collect_state(), checkpoint_id=place)

    def load(self, folder: Path) -> None:
        """Restore the state that `save` wrote to a folder, in any number of processes, split or
        whole: exactly, and in as many processes the run goes on to the last bit.

        All processes must call it. Raises Failed (other_run) where the folder has no such state, as
        where an earlier version wrote it.
        """
        place = folder / _STATE_FOLDER
        if not place.is_dir():
            detail = "its checkpoints are of an earlier version: begin again, in another folder"
            raise Failed(Failure(str(folder), Outcome.OTHER_RUN, detail))
        state = self._collect_state()
        with _raise_causes():
            state_dict_loader.load(state, checkpoint_id=place)
        set_state_dict(
            self._network,
            self._optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
            options=_STATE_OPTIONS,
        )
        self._is_averaging = bool(state["is_averaging"])

    def _collect_state(self) -> dict[str, Any]:
        """Return what is kept, as tensors that loading writes into."""
        model, optimizer = get_state_dict(self._network, self._optimizer, options=_STATE_OPTIONS)
        averaging = torch.tensor(self._is_averaging)
        return {
            "model": model,
            "optimizer": optimizer,
            "averages": self._averages,
            "is_averaging": averaging,
        }


_STATE_FOLDER = "state"
_STATE_OPTIONS = StateDictOptions(ignore_frozen_params=True, strict=False)
"""what is frozen is read from the model's folder again"""


@contextmanager
def _raise_causes() -> Iterator[None]:
    """Raise what went wrong in a checkpoint itself: torch packs it up, Ctrl-C too."""
    with warnings.catch_warnings():
        # torch warns of each checkpoint of a process that is alone.
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        try:
            yield
        except CheckpointException as error:
            cause, _ = next(iter(error.failures.values()))
            raise _find_interruption(cause) or cause from error


def _find_interruption(error: BaseException) -> BaseException | None:
    """Return the signal, such as Ctrl-C, that an error arose from; None where it did not.

    Where a signal comes in the middle of a file, torch closes the file and complains that it is
    not whole.
    """
    arisen: BaseException | None = error
    while isinstance(arisen, Exception):
        arisen = arisen.__context__
    return arisen


def make_optimizer(
    by_rate: Mapping[float, Sequence[Tensor]], settings: OptimizerSettings
) -> torch.optim.Optimizer:
    """Return the optimizer of the settings for weights, given by their highest learning rate.

    Each group keeps that rate as `highest`; its `lr`, and the epsilon of TensorFlow's Adam, are set
    by the caller before a step, as `ModelOptimizer.step` does.
    """
    groups = [{"params": weights, "highest": rate} for rate, weights in by_rate.items()]
    if settings.method == "adafactor":
        return Adafactor(groups, settings.rate, settings.decay)
    return torch.optim.AdamW(
        groups, settings.rate, settings.betas, settings.epsilon, settings.decay, fused=True
    )
