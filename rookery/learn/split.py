"""A model whose weights processes hold in parts (FSDP), and a whole copy of it in each of them.

What reads a model beside training (validating, sampling, writing) reads the copy: processes that
hold parts would have to read as often as each other. It knows nothing of optimisers.
"""

import copy

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import nn
from torch.distributed.tensor import DTensor

from rookery.records import Failed, Failure

_UNTRIED = (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)


def copied(model: nn.Module, accelerator: Accelerator) -> nn.Module | None:
    """A copy, before the model's weights are split; None where they will not be.

    Raises Failed (unsupported) for ways of splitting that were never tried: better a sentence than
    weights that are not those learnt.
    """
    kind = accelerator.distributed_type
    if kind in _UNTRIED or (is_split(accelerator) and not accelerator.is_fsdp2):
        detail = "weights are split by FSDP alone, and by its second version: fsdp_version: 2"
        raise Failed(Failure(f"accelerate: {kind.value}", "unsupported", detail))
    return copy.deepcopy(model).to(accelerator.device) if is_split(accelerator) else None


def is_split(accelerator: Accelerator) -> bool:
    """Whether each process holds a part of the weights."""
    return bool(accelerator.distributed_type == DistributedType.FSDP)


@torch.no_grad()
def follow(whole: nn.Module, split: nn.Module) -> None:
    """Gives the copy the weights as they are now. All processes do it at once."""
    parts = split.state_dict()
    for name, weight in whole.state_dict().items():
        part = parts[name]
        weight.copy_(part.full_tensor() if isinstance(part, DTensor) else part)
