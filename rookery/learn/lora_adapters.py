"""LoRA adapters in files: the low-rank changes to a model's weights, without the weights.

The files are peft's own (adapter_config.json, adapter_model.safetensors), so that other programs
read them. They are merged into a model without peft.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from rookery.records import Failed, Failure

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
_PREFIX = "base_model.model."


def is_lora_model(model: nn.Module) -> bool:
    """Return True if a model has low-rank changes that are not merged into its weights."""
    return hasattr(model, "peft_config")


def save_adapter(model: nn.Module, folder: Path, base: str) -> None:
    """Write the low-rank changes of a model as float16; `base` is the name of the model itself.

    `model` is what `load_trainable_model` returns with LoRA. Raises ValueError without LoRA.
    """
    if not is_lora_model(model):
        raise ValueError("the model has no LoRA: save it whole")
    from peft import get_peft_model_state_dict

    whole: Any = model
    config = whole.peft_config["default"]
    found = get_peft_model_state_dict(whole)
    weights = {name: each.detach().half().contiguous() for name, each in found.items()}
    changed = {name.removeprefix(_PREFIX).rpartition(".lora_")[0] for name in weights}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / WEIGHTS_FILE, {"format": "pt"})
    said = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": config.r,
        "lora_alpha": config.lora_alpha,
        "target_modules": sorted(changed),
        "inference_mode": True,
    }
    (folder / CONFIG_FILE).write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


@torch.no_grad()
def merge_adapter(model: nn.Module, folder: Path) -> None:
    """Add the changes of an adapter's files to a model's weights, W + alpha / r · B A, in place.

    (Hu and others 2021, arXiv 2106.09685, section 4.1.) Raises Failed (bad_adapter) where they are
    missing, cannot be read or are those of another model; the weights are then as they were.
    """
    try:
        config = json.loads((folder / CONFIG_FILE).read_bytes())
        scale = config["lora_alpha"] / config["r"]
        changes: list[tuple[nn.Parameter, torch.Tensor]] = []
        with safe_open(folder / WEIGHTS_FILE, framework="pt") as file:
            names = [name for name in file.keys() if ".lora_A." in name]  # noqa: SIM118
            for name in names:
                low_RI = file.get_tensor(name).float()
                high_OR = file.get_tensor(name.replace(".lora_A.", ".lora_B.")).float()
                module = model.get_submodule(name.removeprefix(_PREFIX).partition(".lora_A.")[0])
                weight_OI = module.get_parameter("weight")
                change_OI = scale * (high_OR @ low_RI)
                if change_OI.shape != weight_OI.shape:
                    raise ValueError(f"{name} has another shape than the model's weight")
                changes.append((weight_OI, change_OI))
        if not changes:
            raise ValueError("it holds no low-rank matrices")
    except Exception as error:  # there is no end to what may be wrong in a file
        words = " ".join(str(error).split())[:300]
        detail = f"it is no adapter for this model ({type(error).__name__}: {words}): name another"
        raise Failed(Failure(str(folder), "bad_adapter", detail)) from error
    for weight_OI, change_OI in changes:
        weight_OI.add_(change_OI.to(weight_OI.device, weight_OI.dtype))
