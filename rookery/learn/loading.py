"""A causal language model and its tokenizer, read from a folder of this machine.

Nothing is downloaded, and no code that a folder brings along is run. It knows nothing of prompts.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from rookery.cite.vocabulary import Vocabulary, read_vocabulary
from rookery.records import Failed, Failure

NEEDED = {
    "config.json": "a configuration",
    "tokenizer.json": "a tokenizer",
    "*.safetensors": "weights",
}


class Loaded(NamedTuple):
    """A model that is ready to be asked."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    vocabulary: Vocabulary
    """as wide as the logits"""
    ends: frozenset[int]
    """the tokens that end what it says"""
    context: int
    """how many tokens a prompt and what follows may have together"""


def load(folder: Path, device: str = "", dtype: str = "") -> Loaded:
    """The model that `save_pretrained` wrote into this folder, with its tokenizer.

    `device` is as torch names it; empty: cuda where there is one, else cpu. `dtype` is that of the
    weights while they are used; empty: as they are stored. Raises Failed: no_model where something
    is missing, bad_model where it cannot be loaded, no_device.
    """
    _require(folder)
    place = _device(device)
    try:
        with _quietly():
            return _loaded(folder, place, dtype or "auto")
    except Failed:
        raise
    except Exception as error:  # there is no end to what may be wrong in a folder
        words = " ".join(str(error).split())[:300]
        detail = f"it cannot be loaded: write it again ({type(error).__name__}: {words})"
        raise Failed(Failure(str(folder), "bad_model", detail)) from error


def _require(folder: Path) -> None:
    if not folder.is_dir():
        raise Failed(Failure(str(folder), "no_model", "there is no such folder"))
    if missing := [name for name in NEEDED if not any(folder.glob(name))]:
        lacks = " and ".join(f"{NEEDED[name]} ({name})" for name in missing)
        detail = f"the folder lacks {lacks}: name one that save_pretrained has written whole"
        raise Failed(Failure(str(folder), "no_model", detail))


def _device(name: str) -> torch.device:
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name or usual)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        detail = f"this machine has no such device: leave it empty for {usual}"
        raise Failed(Failure(name, "no_device", detail)) from error
    return torch.device(name or usual)


@contextmanager
def _quietly() -> Iterator[None]:
    """No progress bars: what is shown, and where, is for a command to say."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _loaded(folder: Path, device: torch.device, dtype: str) -> Loaded:
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    found: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
    )
    model, told = found
    if lost := sorted(told["missing_keys"]):
        raise ValueError(f"{len(lost)} of its weights are missing, {lost[0]} among them")
    if "past_key_values" not in signature(model.forward).parameters:
        raise ValueError("it keeps no keys and values of what it has read, as transformers do")
    model = model.to(device).eval()
    ends = _ends(model, tokenizer)
    end = ends[0] if tokenizer.eos_token_id is None else tokenizer.eos_token_id
    width = model.get_output_embeddings().weight.shape[0]
    vocabulary = read_vocabulary(folder / "tokenizer.json", end, width)
    text = model.config.get_text_config()
    context = getattr(text, "max_position_embeddings", tokenizer.model_max_length)
    return Loaded(model, tokenizer, vocabulary, frozenset(ends), context)


def _ends(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    named = model.generation_config.eos_token_id if model.generation_config else None
    ends = {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}
    if not ends:
        raise ValueError("neither its tokenizer nor its generation_config.json names an eos token")
    return sorted(ends)
