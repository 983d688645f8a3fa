"""Models to be trained: read from a folder, given a head, frozen in part, written again.

They are plain models of transformers, so that whatever reads those reads these. It knows nothing of
losses.
"""

import copy
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from rookery.learn.loading import _quietly, _require
from rookery.records import Failed, Failure

Head = Literal["language", "row", "token"]
"""what a model gives: logits of the next token; numbers for a row, read at its last token; a number
for each token"""
_HEADS: dict[Head, Any] = {
    "language": AutoModelForCausalLM,
    "row": AutoModelForSequenceClassification,
    "token": AutoModelForTokenClassification,
}
_HEAD_NAMES = ("score", "classifier")
_HERE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


class Lora(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Low-rank changes to frozen weights (peft), in place of all weights."""

    rank: int = 8
    alpha: int = 16
    targets: tuple[str, ...] = ("q_proj", "v_proj")
    """the modules that are changed, by the ends of their names"""

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha == 0 or not self.targets:
            raise ValueError("rank must be 1 or more; without alpha or targets nothing is learnt")


class Trained(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which model is trained, and how much of it."""

    model: str
    """a folder that save_pretrained wrote"""
    frozen: float = 0.0
    """share of the layers, from the first on, that learn nothing, and the embeddings with them
    (GopherCite, appendix F: 60 %); LoRA leaves them alone too. `reinforce` computes what comes out
    of them once for each batch of episodes, for policy, reference and value network together"""
    lora: Lora | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    """what is computed in; the weights are kept as float32, or small steps would be lost"""
    recompute: bool = False
    """gradient checkpointing: less memory, more time"""

    def __post_init__(self) -> None:
        if not 0 <= self.frozen <= 1:
            raise ValueError("frozen must be a share from 0 to 1")


def tokenizer_of(folder: Path) -> tuple[PreTrainedTokenizerBase, frozenset[int], int]:
    """A folder's tokenizer, the tokens that end what is said, and the one that pads.

    A tokenizer without a pad token pads with an end token: what is padded is never looked at.
    Raises Failed: no_model, bad_model.
    """
    _require(folder)
    with _worded(folder), _silently():
        tokenizer = AutoTokenizer.from_pretrained(folder, **_HERE)
        named = AutoConfig.from_pretrained(folder, **_HERE).get_text_config().eos_token_id
        if (folder / "generation_config.json").exists():
            named = GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id
        ends = {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}
        if not ends:
            raise ValueError("neither its tokenizer nor its configuration names an eos token")
    pad = tokenizer.pad_token_id
    return tokenizer, frozenset(ends), min(ends) if pad is None else int(pad)


def read_model(trained: Trained, head: Head = "language", outputs: int = 1) -> PreTrainedModel:
    """The model with this head, ready to be trained, and without dropout.

    A head that the folder does not have is new: its weights are drawn from N(0, 1/(d+1)), where d
    is the width of the model (Ziegler, section 2.1), after torch's seed, and a "token" head's are
    0. The folder may hold a model with any head. Raises Failed: no_model, bad_model, no_peft,
    no_targets.
    """
    folder = Path(trained.model)
    model, missing = model_of(folder, head, "float32", outputs)
    if missing:
        with _worded(folder):
            _begin(head_of(model), head)
    _forbid_dropout(model)
    freeze(model, trained.frozen)
    if trained.frozen:
        for each in embeddings_of(model).values():
            each.requires_grad_(False)
    if trained.recompute:
        model.activation_checkpointing_enable({"use_reentrant": False})
        model.train()  # in evaluation, transformers recompute nothing
    return _with_lora(model, trained.lora, trained.frozen) if trained.lora else model


def model_of(
    folder: Path, head: Head, dtype: str = "auto", outputs: int | None = None
) -> tuple[PreTrainedModel, list[str]]:
    """The model in a folder, read once, and the names of the weights of its head that are missing.

    `outputs` None: as many as the folder says. Raises Failed: no_model, bad_model.
    """
    _require(folder)
    more: dict[str, Any] = {}
    if head != "language" and outputs is not None:
        more["num_labels"] = outputs
    with _worded(folder), _silently():
        found: Any = _HEADS[head].from_pretrained(
            folder,
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **more,
            **_HERE,
        )
        model, told = found
        missing = sorted(told["missing_keys"])
        lost = [n for n in missing if head == "language" or n.split(".")[0] not in _HEAD_NAMES]
        if lost:
            raise ValueError(f"{len(lost)} of its weights are missing, {lost[0]} among them")
        if odd := sorted(name for name, *_ in told["mismatched_keys"]):
            raise ValueError(f"{odd[0]} has another shape than this model's")
    return model, missing


@contextmanager
def _silently() -> Iterator[None]:
    """Without progress bars and reports of what was found: Failed says what matters."""
    told = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        with _quietly():
            yield
    finally:
        logging.set_verbosity(told)


@contextmanager
def _worded(folder: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # there is no end to what may be wrong in a folder
        words = " ".join(str(error).split())[:300]
        detail = f"it cannot be loaded: write it again ({type(error).__name__}: {words})"
        raise Failed(Failure(str(folder), "bad_model", detail)) from error


def head_of(model: nn.Module) -> nn.Linear:
    """The layer that a "row" or "token" model's outputs come from. Raises ValueError where there
    is no such layer."""
    for name in _HEAD_NAMES:
        if isinstance(found := getattr(model, name, None), nn.Linear):
            return found
    raise ValueError("it gets no linear layer as its head: begin as another kind of model")


def _begin(made: nn.Linear, head: Head) -> None:
    spread = 0.0 if head == "token" else (made.in_features + 1) ** -0.5
    nn.init.normal_(made.weight, std=spread)
    if made.bias is not None:
        nn.init.zeros_(made.bias)


def _forbid_dropout(model: PreTrainedModel) -> None:
    """Layers of dropout, and the shares that attention passes to a function."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)


def freeze(model: PreTrainedModel, share: float) -> None:
    """Lets the words' embeddings and this share of the layers, from the first on, learn nothing."""
    if not share:
        return
    model.get_input_embeddings().requires_grad_(False)
    for layer in _lower(model, share):
        layer.requires_grad_(False)


def decoder_of(model: Any) -> nn.Module:
    """The model without its head, and without what LoRA wraps round it."""
    plain = model.get_base_model() if hasattr(model, "get_base_model") else model
    found: nn.Module = plain.base_model
    return found


def layers_of(model: nn.Module) -> nn.ModuleList:
    """The layers of a model, from the first on."""
    lists = (each for each in decoder_of(model).modules() if isinstance(each, nn.ModuleList))
    return max(lists, key=len)


def embeddings_of(model: nn.Module) -> dict[str, nn.Embedding]:
    """Those of words, and of positions where they are learnt, by name."""
    named = decoder_of(model).named_modules()
    return {name: each for name, each in named if isinstance(each, nn.Embedding)}


def _lower(model: nn.Module, share: float) -> list[nn.Module]:
    layers = layers_of(model)
    return list(layers[: round(share * len(layers))])


def _with_lora(model: PreTrainedModel, lora: Lora, frozen: float) -> PreTrainedModel:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        detail = "peft is not installed: pip install 'rookery[learn]'"
        raise Failed(Failure("lora", "no_peft", detail)) from error
    still = {each for layer in _lower(model, frozen) for each in layer.modules()}
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=list(lora.targets),
        exclude_modules=[name for name, each in model.named_modules() if each in still] or None,
        modules_to_save=[name for name in _HEAD_NAMES if hasattr(model, name)],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an old name
        try:
            wrapped: Any = get_peft_model(model, config)
        except ValueError as error:
            detail = "no layer that may learn has such modules: name others, or freeze fewer layers"
            raise Failed(Failure(", ".join(lora.targets), "no_targets", detail)) from error
    return wrapped  # type: ignore[no-any-return]


def merged(model: nn.Module) -> nn.Module:
    """The model with what LoRA changed put into its weights; others as they are."""
    whole: Any = model
    if not hasattr(whole, "merge_and_unload"):
        return model
    plain: nn.Module = copy.deepcopy(whole).merge_and_unload()
    return plain


def write_model(model: nn.Module, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Writes a model as `from_pretrained` reads it, in place of what is there.

    What LoRA changed is put into the weights first. The old model is deleted once the new one is
    in its place: a kill between the two leaves it beside, as `.NAME.old`.
    """
    new, old = (folder.with_name(f".{folder.name}.{age}") for age in ("new", "old"))
    shutil.rmtree(new, ignore_errors=True)
    whole: Any = merged(model)
    with _silently():
        whole.save_pretrained(new)
        tokenizer.save_pretrained(new)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
