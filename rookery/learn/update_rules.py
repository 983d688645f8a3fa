"""Optimizers that torch has not: they update weights that are whole in a process, or split over
processes (FSDP2).
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate


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
            for whole in group["params"]:
                if whole.grad is None:
                    continue
                state = self.state[whole]
                if not state:
                    state["step"] = torch.zeros(())
                    state["mean"] = torch.zeros_like(whole)
                    state["square"] = torch.zeros_like(whole)
                state["step"] += 1
                count = state["step"].item()
                weight, grad, mean, square = (
                    get_local_part(each)
                    for each in (whole, whole.grad, state["mean"], state["square"])
                )
                mean.lerp_(grad, 1 - first)
                square.mul_(second).addcmul_(grad, grad, value=1 - second)
                rate = group["lr"] * math.sqrt(1 - second**count) / (1 - first**count)
                weight.addcdiv_(mean, square.sqrt().add_(group["eps"]), value=-rate)


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
        """Update the weights once from their gradients. All processes must call it at once."""
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
