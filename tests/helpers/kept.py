"""The weights that a checkpoint keeps, by name."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save


def checkpoint_weights(folder: Path) -> dict[str, Tensor]:
    with TemporaryDirectory() as other:
        whole = Path(other) / "whole.pt"
        dcp_to_torch_save(folder / "state", whole)
        found: dict[str, Tensor] = torch.load(whole, weights_only=False)["model"]
    return found
