"""Load causal language models and tokenizers from a folder, prepare them for training, save them,
and encode prompts.

Nothing is downloaded, and no code from a folder is run.
"""

import codecs
import copy
import json
import shutil
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from inspect import signature
from itertools import pairwise
from pathlib import Path
from threading import RLock
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from platformdirs import user_data_path
from safetensors import SafetensorError
from safetensors.torch import save_file
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

from rookery.browser.browser import replace_surrogates
from rookery.errors import Failed, Outcome
from rookery.models.installed_models import find_model_folder, make_unwritable_error
from rookery.quotes.vocabulary import Vocabulary, read_vocabulary
from rookery.records import Failure

REQUIRED_FILES = {
    "config.json": "a configuration",
    "tokenizer.json": "a tokenizer",
    "*.safetensors": "weights",
}


LOADING_LOCK = RLock()
"""held while weights are loaded: transformers exchanges methods of its classes meanwhile, and
threads that load at the same time would leave them exchanged, so that no weights are tied"""
ADAPTER_CONFIG_FILE = "adapter_config.json"
ADAPTER_WEIGHTS_FILE = "adapter_model.safetensors"
_ADAPTER_PREFIX = "base_model.model."


class LoadedModel(NamedTuple):
    """A model with its tokenizer, end tokens and pad token."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    vocabulary: Vocabulary
    """as wide as the logits"""
    ends: frozenset[int]
    """the tokens that end what it says"""
    context: int
    """how many tokens a prompt and what follows may have together"""
    pad: int
    """token to pad with: the tokenizer's own, or an end token, since it is never looked at"""


def load_model(folder: Path, device: str = "", dtype: str = "") -> LoadedModel:
    """Return the model that `save_pretrained` wrote into this folder, with its tokenizer.

    The folder may be the name of an added model. The model is in evaluation mode. `device` is as
    torch names it; empty: cuda where there is one, else cpu. `dtype` is that of the weights while
    they are used; empty: as they are stored. Raises Failed: no_model where something is missing,
    bad_model where it cannot be loaded, no_device.
    """
    folder = locate_model(folder)
    place = choose_device(device)
    tokenizer, ends, pad = load_tokenizer(folder)
    model: Any = load_model_with_head(folder, "language", dtype or "auto")[0]
    with convert_load_errors(folder):
        if "cache" not in signature(model.forward).parameters:
            raise ValueError("it keeps no keys and values of what it has read, as transformers do")
        width = model.get_output_embeddings().weight.shape[0]
        end = choose_end_token(tokenizer, ends)
        vocabulary = read_vocabulary(folder / "tokenizer.json", end, width)
        context = count_context(model.config, tokenizer)
        return LoadedModel(model.to(place).eval(), tokenizer, vocabulary, ends, context, pad)


def locate_model(model: Path) -> Path:
    """Return the folder of a saved model: the folder itself, or that of an added model's name.

    A folder goes before a name. Raises Failed (no_model) unless all files are there.
    """
    folder = find_model_or_folder(model)
    require_model_files(folder)
    return folder


def find_model_or_folder(model: Path) -> Path:
    """Return the folder of an added model's name, where there is one and no folder of that name;
    else the path as it is."""
    if not model.is_dir() and len(model.parts) == 1:
        with suppress(Failed):
            return find_model_folder(model.name, Path(user_data_path("rookery")))
    return model


def choose_precision(device: str) -> str:
    """Return the type in which completions are fastest, or "" for that of the stored weights.

    On processors that multiply bfloat16 it reads a prompt faster than float32, in tiles (AMX) 3.5
    times as fast and in vectors (AVX-512 BF16) 1.6 times; with AVX2 alone it takes six times as
    long (docs/LOG.md).
    """
    if choose_device(device).type != "cpu":
        return ""
    cpu = torch.cpu.get_capabilities()
    return "bfloat16" if cpu.get("amx_bf16") or cpu.get("avx512_bf16") else "float32"


def require_model_files(folder: Path) -> None:
    """Raise Failed (no_model) unless a folder has all files of a saved model."""
    if not folder.is_dir():
        detail = "there is no such folder, and no model of this name: see rookery models list"
        if len(folder.parts) == 2:
            detail = (
                f"there is no such folder: a model of the Hugging Face hub is added first, by "
                f"rookery models add {folder}, and then named {folder.name}"
            )
        raise Failed(Failure(str(folder), Outcome.NO_MODEL, detail))
    if missing := [name for name in REQUIRED_FILES if not any(folder.glob(name))]:
        lacks = " and ".join(f"{REQUIRED_FILES[name]} ({name})" for name in missing)
        detail = f"the folder lacks {lacks}: name one that save_pretrained has written whole"
        raise Failed(Failure(str(folder), Outcome.NO_MODEL, detail))


def choose_device(name: str) -> torch.device:
    """Return the device of this name, or the usual one for "": cuda if there is one, else cpu.
    Raises Failed (no_device)."""
    usual = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name or usual)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        detail = f"this machine has no such device: leave it empty for {usual}"
        raise Failed(Failure(name, Outcome.NO_DEVICE, detail)) from error
    return torch.device(name or usual)


ModelHead = Literal["language", "row", "token"]
"""what a model gives: logits of the next token; numbers for a row, read at its last token; a number
for each token"""
HEAD_CLASSES: dict[ModelHead, Any] = {
    "language": AutoModelForCausalLM,
    "row": AutoModelForSequenceClassification,
    "token": AutoModelForTokenClassification,
}
_HEAD_NAMES = ("score", "classifier")
LOCAL_ONLY: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


class LoraSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Low-rank changes to frozen weights (peft), in place of all weights."""

    rank: int = 8
    """rank of each change: more of it learns more, and takes more memory"""
    alpha: int = 16
    """scale of the changes, which are multiplied by `alpha` / `rank`"""
    targets: tuple[str, ...] = ("q_proj", "v_proj")
    """the modules that are changed, by the ends of their names"""

    def __post_init__(self) -> None:
        if self.rank < 1 or self.alpha == 0 or not self.targets:
            raise ValueError("rank must be 1 or more; without alpha or targets nothing is learnt")


class TrainedModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which model is trained, and how much of it."""

    model: str
    """a folder that save_pretrained wrote, or the name of a model that was added to this machine"""
    frozen: float = 0.0
    """share of the layers, from the first on, that learn nothing, and the embeddings with them
    (GopherCite, appendix F: 60 %); LoRA leaves them alone too"""
    lora: LoraSettings | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    """numbers that are computed in; the weights are kept as float32, or small steps would be
    lost"""
    recompute: bool = False
    """gradient checkpointing: less memory, more time"""
    dropout: float = 0.0
    """probability of dropout, in every place that the model has for it, while it learns by
    imitation or from preferences (Ziegler, section 2.2: 0.1 for supervised baselines; WebGLM,
    section 3.3); whatever samples, validates or scores drops nothing"""

    def __post_init__(self) -> None:
        if not 0 <= self.frozen <= 1:
            raise ValueError("frozen must be a share from 0 to 1")
        if not 0 <= self.dropout < 1:
            raise ValueError("dropout must be a share from 0 to below 1")


def load_tokenizer(folder: Path) -> tuple[PreTrainedTokenizerBase, frozenset[int], int]:
    """Return a folder's tokenizer, the ids of its end tokens, and the id of its pad token.

    A tokenizer without a pad token pads with an end token: what is padded is never looked at.
    Raises Failed: no_model, bad_model.
    """
    folder = locate_model(folder)
    with convert_load_errors(folder), silence_transformers():
        tokenizer = AutoTokenizer.from_pretrained(folder, **LOCAL_ONLY)
        named = AutoConfig.from_pretrained(folder, **LOCAL_ONLY).get_text_config().eos_token_id
        if (folder / "generation_config.json").exists():
            named = GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id
        ends = {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}
        if not ends:
            raise ValueError("neither its tokenizer nor its configuration names an eos token")
    pad = tokenizer.pad_token_id
    return tokenizer, frozenset(ends), min(ends) if pad is None else int(pad)


@contextmanager
def seed_torch(seed: int) -> Iterator[None]:
    """Let new weights on the CPU depend on the seed alone within a `with` block."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def choose_end_token(tokenizer: PreTrainedTokenizerBase, ends: frozenset[int]) -> int:
    """Return the token that ends a text: the tokenizer's own, or the first of those that end what a
    model says."""
    end = tokenizer.eos_token_id
    return min(ends) if end is None else int(end)


def count_context(config: Any, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return how many tokens a model of this configuration takes."""
    text = config.get_text_config()
    return int(getattr(text, "max_position_embeddings", tokenizer.model_max_length))


def load_trainable_model(
    trained: TrainedModelSettings, head: ModelHead = "language", outputs: int = 1
) -> PreTrainedModel:
    """Load a model with this head to be trained, with its dropout, frozen layers and LoRA.

    It is on the CPU, in float32 whatever `trained.dtype` says. A head that the folder does not have
    is new: its weights are drawn from N(0, 1/(d+1)), where d is the width of the model (Ziegler,
    section 2.1), after torch's seed, and a "token" head's are 0. The folder may hold a model with
    any head. Raises Failed: no_model, bad_model, no_peft, no_targets, no_dropout (it has no place
    for dropout).
    """
    folder = Path(trained.model)
    model, missing = load_model_with_head(folder, head, "float32", outputs)
    if missing:
        with convert_load_errors(folder):
            _initialize_head(find_head(model), head)
    return prepare_trainable_model(model, trained)


def prepare_trainable_model(
    model: PreTrainedModel, trained: TrainedModelSettings
) -> PreTrainedModel:
    """Set a model's dropout, freeze layers, turn on recomputation and add LoRA, as `trained` says.

    Changes the model and returns it, or with LoRA its wrapper. Raises Failed: no_peft, no_targets,
    no_dropout.
    """
    if not _set_dropout(model, trained.dropout) and trained.dropout:
        detail = "this kind of model has no place for dropout: let dropout be 0"
        raise Failed(Failure(trained.model, Outcome.NO_DROPOUT, detail))
    # The token that pads may end texts, too. Its row would not learn; padding itself is masked.
    words: Any = model.get_input_embeddings()
    words.padding_idx = None
    freeze_lower_layers(model, trained.frozen)
    if trained.frozen:
        for each in get_embeddings(model).values():
            each.requires_grad_(False)
    if trained.recompute:
        model.activation_checkpointing_enable({"use_reentrant": False})
        model.train()  # in evaluation, transformers recompute nothing
    return _add_lora(model, trained.lora, trained.frozen) if trained.lora else model


def load_model_with_head(
    folder: Path, head: ModelHead, dtype: str = "auto", outputs: int | None = None
) -> tuple[PreTrainedModel, list[str]]:
    """Load a model with this head; return it and the names of the head's weights that are missing.

    `outputs` None: as many as the folder says. Raises Failed: no_model, bad_model.
    """
    folder = locate_model(folder)
    more: dict[str, Any] = {}
    if head != "language" and outputs is not None:
        more["num_labels"] = outputs
    number_type = dtype if dtype == "auto" else getattr(torch, dtype)
    with convert_load_errors(folder):
        model, missing = load_weights(HEAD_CLASSES[head], folder, dtype=number_type, **more)
        heads = () if head == "language" else _HEAD_NAMES
        require_weights(name for name in missing if name.split(".")[0] not in heads)
    return model, missing


def load_weights(kind: Any, folder: Path, **options: Any) -> tuple[Any, list[str]]:
    """Load a model of this class of transformers; return it and the names of missing weights.

    Raises any error, ValueError where weights have another shape than the model's.
    """
    with LOADING_LOCK, silence_transformers():
        model, loading_info = kind.from_pretrained(
            folder,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **options,
            **LOCAL_ONLY,
        )
    if odd := sorted(name for name, *_ in loading_info["mismatched_keys"]):
        raise ValueError(f"{odd[0]} has another shape than this model's")
    return model, sorted(loading_info["missing_keys"])


def require_weights(missing: Iterable[str]) -> None:
    """Raise ValueError where weights of a model are missing."""
    if lost := list(missing):
        raise ValueError(f"{len(lost)} of its weights are missing, {lost[0]} among them")


@contextmanager
def silence_transformers() -> Iterator[None]:
    """Hide progress bars and all log messages of transformers but errors within a `with` block:
    commands show their own."""
    verbosity, shows_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shows_bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def convert_load_errors(folder: Path) -> Iterator[None]:
    """Raise Failed (bad_model) in place of any error within a `with` block, another Failed too."""
    try:
        yield
    except Exception as error:  # there is no end to what may be wrong in a folder
        words = " ".join(str(error).split())[:300]
        detail = f"it cannot be loaded: write it again ({type(error).__name__}: {words})"
        raise Failed(Failure(str(folder), Outcome.BAD_MODEL, detail)) from error


def find_head(model: nn.Module) -> nn.Linear:
    """Return the linear layer that a "row" or "token" model's outputs come from.

    Raises ValueError where there is no such layer.
    """
    for name in _HEAD_NAMES:
        if isinstance(found := getattr(model, name, None), nn.Linear):
            return found
    raise ValueError("it gets no linear layer as its head: begin as another kind of model")


def _initialize_head(layer: nn.Linear, head: ModelHead) -> None:
    spread = 0.0 if head == "token" else (layer.in_features + 1) ** -0.5
    nn.init.normal_(layer.weight, std=spread)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


def _set_dropout(model: PreTrainedModel, share: float) -> int:
    """Set what layers of dropout and attention drop; return in how many places.

    Whole layers are never dropped (`layerdrop`), and of anything else but dropout nothing.
    """
    places = 0
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share
            places += 1
        for name, value in vars(module).items():
            if "drop" in name and isinstance(value, float):  # what attention passes to a function
                setattr(module, name, share if "dropout" in name else 0.0)
                places += "dropout" in name
    return places


def freeze_lower_layers(model: PreTrainedModel, share: float) -> None:
    """Freeze the input embeddings and this share of the layers, from the first on; 0: nothing."""
    if not share:
        return
    model.get_input_embeddings().requires_grad_(False)
    for layer in _get_lower_layers(model, share):
        layer.requires_grad_(False)


def unwrap_lora(model: Any) -> Any:
    """Return the model without the wrapper of LoRA, whose changes it computes all the same."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def get_decoder(model: Any) -> nn.Module:
    """Return the model without its head and without the wrapper of LoRA."""
    found: nn.Module = unwrap_lora(model).base_model
    return found


def count_state_width(model: Any) -> int:
    """Return the width of the hidden states that a language model's logits are computed from."""
    width: int = model.get_output_embeddings().weight.shape[1]
    return width


def get_layers(model: nn.Module) -> nn.ModuleList:
    """Return the layers of a model, from the first on: its longest list of modules."""
    lists = (each for each in get_decoder(model).modules() if isinstance(each, nn.ModuleList))
    return max(lists, key=len)


def get_embeddings(model: nn.Module) -> dict[str, nn.Embedding]:
    """Return the embeddings of words, and of positions where they are learnt, by name."""
    named = get_decoder(model).named_modules()
    return {name: each for name, each in named if isinstance(each, nn.Embedding)}


def _get_lower_layers(model: nn.Module, share: float) -> list[nn.Module]:
    layers = get_layers(model)
    return list(layers[: round(share * len(layers))])


def _add_lora(model: PreTrainedModel, lora: LoraSettings, frozen: float) -> PreTrainedModel:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        detail = "peft is not installed: pip install 'rookery[write]'"
        raise Failed(Failure("lora", Outcome.NO_PEFT, detail)) from error
    still = {each for layer in _get_lower_layers(model, frozen) for each in layer.modules()}
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
            raise Failed(Failure(", ".join(lora.targets), Outcome.NO_TARGETS, detail)) from error
    return wrapped  # type: ignore[no-any-return]


def merge_lora(model: nn.Module) -> nn.Module:
    """Return a copy with LoRA's changes merged into the weights; without LoRA, the model itself."""
    whole: Any = model
    if not hasattr(whole, "merge_and_unload"):
        return model
    plain: nn.Module = copy.deepcopy(whole).merge_and_unload()
    return plain


def save_pretrained_model(
    model: nn.Module, tokenizer: PreTrainedTokenizerBase, folder: Path
) -> None:
    """Write a model as `from_pretrained` reads it, in place of what is there.

    What LoRA changed is put into the weights first. The old model is deleted once the new one is
    in its place: a kill between the two leaves it beside, as `.NAME.old`. Raises Failed
    (unwritable), or OSError for other files than the weights.
    """
    new = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    whole: Any = merge_lora(model)
    with silence_transformers():
        try:
            whole.save_pretrained(new)
        except SafetensorError as error:  # is no OSError, as it is where others write
            raise make_unwritable_error(folder, str(error)) from error
        tokenizer.save_pretrained(new)
    replace_folder(folder, new)


def replace_folder(folder: Path, new: Path) -> None:
    """Put the folder `new` in the place of another, if there is one, and delete that afterwards.

    A kill between the two leaves the old one beside, as `.NAME.old`.
    """
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


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
    state = get_peft_model_state_dict(whole)
    weights = {name: each.detach().half().contiguous() for name, each in state.items()}
    changed = {name.removeprefix(_ADAPTER_PREFIX).rpartition(".lora_")[0] for name in weights}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / ADAPTER_WEIGHTS_FILE, {"format": "pt"})
    adapter_config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base,
        "r": config.r, "lora_alpha": config.lora_alpha, "target_modules": sorted(changed),
        "inference_mode": True,
    }  # fmt: skip
    (folder / ADAPTER_CONFIG_FILE).write_text(
        json.dumps(adapter_config, indent=1) + "\n", encoding="utf-8"
    )


_PLACEHOLDER = "\ue000"
_BLANKS = " \t\n\r\u2581"
"""white space, as tokenizers spell it: tokens that were added for runs of it are text"""


def tokenize_prompt(
    tokenizer: PreTrainedTokenizerBase, prompt: str, chat: bool | None = None
) -> list[int]:
    """Return the token ids of a prompt, as a user's message in the chat template or as it is.

    With `chat` None, the template is used where there is one. What a prompt spells out that looks
    like a token added to the tokenizer (`<|end|>` or `<tool_call>` on a page) is text, and steers
    no model. Raises ValueError where there is no template, or no token.
    """
    prompt = replace_surrogates(prompt)
    if chat is None:
        chat = tokenizer.chat_template is not None
    if chat and tokenizer.chat_template is None:
        detail = "it has no chat template: leave `chat` out, or set it to false"
        raise Failed(Failure(str(tokenizer.name_or_path), Outcome.BAD_MODEL, detail))
    if chat:
        tokens = _encode(tokenizer, _render_chat(tokenizer, prompt))["input_ids"]
        parts = _render_chat(tokenizer, _PLACEHOLDER).partition(_PLACEHOLDER)
        before, _, after = (_encode(tokenizer, part)["input_ids"] for part in parts)
    else:
        options = {"add_special_tokens": True, "split_special_tokens": True}
        tokens = _encode(tokenizer, prompt, **options)["input_ids"]
        empty = _encode(tokenizer, "", add_special_tokens=True)["input_ids"]
        begun = int(empty[:1] == [tokenizer.bos_token_id])
        before, after = empty[:begun], empty[begun:]
    reserved = _list_reserved_tokens(tokenizer)
    if sum(token in reserved for token in tokens) > sum(
        token in reserved for token in (*before, *after)
    ):
        tokens = [*before, *_tokenize_plainly(tokenizer, prompt, reserved), *after]
    if not tokens:
        raise ValueError("the prompt has no tokens: ask for something")
    return list(tokens)


def _list_reserved_tokens(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the ids of the tokens that were added to the tokenizer, white space left out.

    Those that it does not call special steer a model as well, such as `<tool_call>` and `<think>`.
    """
    added = tokenizer.added_tokens_decoder.items()
    return frozenset(token for token, each in added if each.content.strip(_BLANKS))


def _render_chat(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    said = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
    return str(text)


def _tokenize_plainly(
    tokenizer: PreTrainedTokenizerBase, text: str, reserved: frozenset[int]
) -> list[int]:
    """Return the tokens of a text, none of them reserved: one that would be is cut in two.

    A reserved token of one character cannot be cut, and is left out.
    """
    encoded = _encode(tokenizer, text, split_special_tokens=True, return_offsets_mapping=True)
    tokens, spans = encoded["input_ids"], encoded["offset_mapping"]
    reserved_spans = [span for token, span in zip(tokens, spans, strict=True) if token in reserved]
    cuts = [start + 1 for start, end in reserved_spans if end - start > 1]
    if not cuts:
        return [token for token in tokens if token not in reserved]
    pieces = (text[start:end] for start, end in pairwise((0, *cuts, len(text))))
    return [each for piece in pieces for each in _tokenize_plainly(tokenizer, piece, reserved)]


def _encode(tokenizer: PreTrainedTokenizerBase, text: str, **options: bool) -> Any:
    plain = {"add_special_tokens": False, "verbose": False, "return_attention_mask": False}
    return tokenizer(text, **(plain | options))


class PolicyTokenizer(NamedTuple):
    """The tokenizer and limits by which texts of an environment become tokens of a policy."""

    tokenizer: PreTrainedTokenizerBase
    vocabulary: Vocabulary
    ends: frozenset[int]
    max_action_tokens: int
    """of an action, at most"""
    max_prompt_tokens: int
    """the most tokens of a prompt, so that an action fits behind it"""
    chat: bool | None = None
    """whether a prompt is a user's message in the chat template; None: where there is one"""

    def encode_prompt(self, prompt: str) -> list[int]:
        """Return the token ids that the policy is given for a prompt.

        Raises Failed (prompt_too_long) where an action would not fit behind them.
        """
        tokens = tokenize_prompt(self.tokenizer, prompt, self.chat)
        if len(tokens) > self.max_prompt_tokens:
            detail = (
                f"it has {len(tokens)} tokens, and {self.max_prompt_tokens} leave room for "
                "an action: show less "
                "of a page, let actions be shorter, or use a model with a longer context"
            )
            raise Failed(Failure("a prompt", Outcome.PROMPT_TOO_LONG, detail))
        return tokens

    def decode_action(self, action: Sequence[int]) -> str:
        """Return the text of these tokens up to the first end token, as `LocalModel` gives it:
        bytes that are not UTF-8 are U+FFFD, and an incomplete character at the end is left out."""
        end = next((at for at, token in enumerate(action) if token in self.ends), len(action))
        return self.decode_prompt(action[:end])

    def decode_prompt(self, context: Sequence[int]) -> str:
        """Return the text of these tokens as `decode_action` does, past end tokens too, which chat
        templates hold."""
        known = self.vocabulary.tokens
        shown = b"".join(known[token] or b"" for token in context if token < len(known))
        return codecs.getincrementaldecoder("utf-8")("replace").decode(shown)


def load_policy_tokenizer(folder: Path, tokens: int, chat: bool | None = None) -> PolicyTokenizer:
    """Load the tokenizer of the policy in a folder, for actions of at most `tokens` tokens.

    Raises Failed: no_model, bad_model, and prompt_too_long where there is no room for a prompt.
    """
    folder = locate_model(folder)
    tokenizer, ends, _ = load_tokenizer(folder)
    try:
        vocabulary = read_vocabulary(folder / "tokenizer.json", choose_end_token(tokenizer, ends))
    except ValueError as error:
        raise Failed(Failure(str(folder), Outcome.BAD_MODEL, str(error))) from error
    config = AutoConfig.from_pretrained(folder, **LOCAL_ONLY)
    room = count_context(config, tokenizer) - tokens
    if room < 1:
        detail = f"actions of {tokens} tokens leave no room for a prompt: let them be shorter"
        raise Failed(Failure(str(folder), Outcome.PROMPT_TOO_LONG, detail))
    return PolicyTokenizer(tokenizer, vocabulary, ends, tokens, room, chat)
