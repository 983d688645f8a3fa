"""LoRA adapters in files: the low-rank changes to a model's weights, without the weights.

The files are peft's own (adapter_config.json, adapter_model.safetensors), so that other programs
read them.
"""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

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
