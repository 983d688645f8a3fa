"""The trainers in double precision, for laws that rounding hides in single precision.

Adam divides a gradient by its own size, so where a gradient is next to nothing a rounding error of
one part in 10^7 moves a weight by up to the whole learning rate: how far two runs in float32 may
end apart depends on the processor, and no bound on it follows from the arithmetic. In float64 the
errors lie below Adam's epsilon, and a law holds to 1e-10.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file


def write_double(model: str, folder: Path) -> str:
    """A copy of the model in `folder`, its weights in float64."""
    shutil.copytree(model, folder)
    file = folder / "model.safetensors"
    doubled = {name: weight.double() for name, weight in load_file(file).items()}
    save_file(doubled, file, {"format": "pt"})
    return str(folder)


@contextmanager
def double_precision() -> Iterator[None]:
    """What the trainers and transformers compute and keep as float32 is float64 within."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "float32", torch.float64)
            patch.setattr(torch.Tensor, "float", torch.Tensor.double)
            yield
    finally:
        torch.set_default_dtype(before)
