"""The language models that were added to this machine: their folders, and what is known of each.

Each lies in a folder of its own in the user's data folder, as `save_pretrained` writes it, beside a
record of its origin, licence and digest. Loads neither torch nor the models.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rookery.errors import Failed, Outcome
from rookery.records import Failure, Record
from rookery.settings import LOCAL, get_data_folder

MODELS_FOLDER = "models"
"""name of the folder of all models in the user's data folder"""
RECORD_FILE = "rookery-model.json"
"""file in a model's folder that holds its record; only a folder with one is changed or removed"""
WRITING_MODEL = "smollm2"
"""name of the model that writes answers, where it was added"""
UNKNOWN_LICENCE = "not stated"
"""licence of a model whose files name none"""
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class InstalledModel(Record, frozen=True):
    """A language model that was added to this machine."""

    name: str
    """on the command line, and of its folder"""
    origin: str
    """the package, folder or repository that it was taken from, with the version"""
    licence: str
    """as its source states it"""
    digest: str
    """of the weights when they were added, see `digest_weights`"""
    bytes: int
    """size of its files"""
    added: str
    """time, ISO 8601 in UTC"""
    chat: bool
    """it has a chat template"""


class ModelSource(NamedTuple):
    """Origin and licence of a model that is added."""

    origin: str
    licence: str
    chat: bool
    """it has a chat template"""


ModelWriter = Callable[[Path], ModelSource]
"""writes the files of a model into an empty folder, checks them, and says where they are from"""


def install_model(name: str, home: Path, write: ModelWriter) -> InstalledModel:
    """Add a model whose files `write` puts into a folder, and return its record.

    `home` is the user's data folder. The files are written beside and then renamed, so that what is
    interrupted leaves no model. Only one process at a time may add a model of one name. Raises
    Failed: bad_name, name_taken, or what `write` raises.
    """
    folder = _locate_model(name, home)
    if folder.exists():
        detail = f"there is a model of this name: rookery models remove {name}, or add it --as NAME"
        raise Failed(Failure(name, Outcome.NAME_TAKEN, detail))
    staging, _ = _list_leftover_folders(folder)
    shutil.rmtree(staging, ignore_errors=True)  # of a process that was killed
    staging.mkdir(parents=True)
    try:
        source = write(staging)
        size, now = _measure_files(staging), datetime.now(UTC).isoformat(timespec="seconds")
        digest = digest_weights(staging)
        installed = InstalledModel(
            name, source.origin, source.licence, digest, size, now, source.chat
        )
        (staging / RECORD_FILE).write_text(installed.to_json() + "\n", encoding="utf-8")
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return installed


def find_model_folder(name: str, home: Path) -> Path:
    """Return the folder of the model that was added under this name. Raises Failed (no_model)."""
    folder = home / MODELS_FOLDER / name
    if _NAME_PATTERN.fullmatch(name) and (folder / RECORD_FILE).is_file():
        return folder
    detail = (
        "no model of this name was added to this machine: rookery models list shows those that "
        "were, and rookery models add adds one"
    )
    raise Failed(Failure(name, Outcome.NO_MODEL, detail))


def read_installed_model(name: str, home: Path) -> InstalledModel:
    """Return the record of an added model. Raises Failed: no_model, bad_model."""
    folder = find_model_folder(name, home)
    try:
        return InstalledModel.from_json((folder / RECORD_FILE).read_bytes())
    except (OSError, ValueError) as error:
        detail = (
            f"its record cannot be read ({error}): rookery models remove {name}, and add it again"
        )
        raise Failed(Failure(str(folder), Outcome.BAD_MODEL, detail)) from error


def require_added_weights(name: str, home: Path) -> None:
    """Raise Failed (no_model, bad_model) unless an added model's weights are as they were added."""
    folder = find_model_folder(name, home)
    if digest_weights(folder) != read_installed_model(name, home).digest:
        detail = (
            f"its weights are not those that were added: rookery models remove {name}, and add it "
            "again"
        )
        raise Failed(Failure(name, Outcome.BAD_MODEL, detail))


def list_installed_models(home: Path) -> list[InstalledModel]:
    """Return the records of all added models, by name. Raises Failed (bad_model)."""
    files = sorted((home / MODELS_FOLDER).glob(f"[!.]*/{RECORD_FILE}"))
    return [read_installed_model(file.parent.name, home) for file in files]


def choose_writing_model(home: Path) -> str:
    """Return the name of the model that writes where none is named: WRITING_MODEL, or the first.

    Raises Failed: no_model where none was added, bad_model.
    """
    names = [model.name for model in list_installed_models(home)]
    if not names:
        detail = (
            "no language model was added to this machine: pip install torch==2.13.0, then "
            f"'rookery[write]', and run rookery models add {WRITING_MODEL}"
        )
        raise Failed(Failure("--write", Outcome.NO_MODEL, detail))
    return WRITING_MODEL if WRITING_MODEL in names else names[0]


def list_unfinished_models(home: Path) -> list[str]:
    """Return the names of models whose adding or removal is under way, or was killed."""
    folders = (home / MODELS_FOLDER).glob(".*")
    names = {folder.name[1:].rpartition(".")[0] for folder in folders}
    return sorted(name for name in names if _NAME_PATTERN.fullmatch(name))


def remove_installed_model(name: str, home: Path) -> int:
    """Delete a model that was added, or what a killed process left of one; return the bytes freed.

    Raises Failed: no_model, and not_added for a folder that `install_model` did not write, which is
    left alone.
    """
    folder = _locate_model(name, home)
    if folder.is_dir() and (folder.is_symlink() or not (folder / RECORD_FILE).is_file()):
        detail = "rookery models add did not write this folder: delete it yourself"
        raise Failed(Failure(str(folder), Outcome.NOT_ADDED, detail))
    staging, removed = _list_leftover_folders(folder)
    leftovers = [path for path in (staging, removed) if path.exists()]
    size = sum(map(_measure_files, leftovers))
    for path in leftovers:
        shutil.rmtree(path)
    if leftovers and not folder.exists():
        return size
    folder = find_model_folder(name, home)
    folder.rename(removed)  # so that what is interrupted leaves no half of a model
    size += _measure_files(removed)
    shutil.rmtree(removed)
    return size


def _list_leftover_folders(folder: Path) -> tuple[Path, Path]:
    """Return where a model lies while it is added, and while it is removed."""
    return folder.with_name(f".{folder.name}.adding"), folder.with_name(f".{folder.name}.removed")


def digest_weights(folder: Path) -> str:
    """Return the SHA-256 of the one safetensors file in a model's folder.

    Of several files, or of none, it is that of the list of their names and SHA-256s.
    """
    files = sorted(folder.glob("*.safetensors"))
    digests = [digest_file(file) for file in files]
    if len(digests) == 1:
        return digests[0]
    lines = (f"{digest}  {file.name}\n" for digest, file in zip(digests, files, strict=True))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_stated_licence(folder: Path) -> str:
    """Return the licence that a model card (README.md) states in its head, or UNKNOWN_LICENCE."""
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    head = re.match(r"---\n(.*?)\n---\n", text, re.S)
    found = re.search(r"^license:[ \t]*(\S[^\n]*)", head[1], re.M) if head else None
    return found[1].strip(" \"'") if found else UNKNOWN_LICENCE


def require_disk_room(home: Path, size: int) -> None:
    """Raise Failed (unwritable) unless so many bytes are free where models are kept.

    The user's data folder `home` is made where it does not exist.
    """
    home.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(home).free
    if free < size:
        detail = f"it takes {size / 1e6:,.0f} MB and {free / 1e6:,.0f} MB are free: make room"
        raise Failed(Failure(str(home), Outcome.UNWRITABLE, detail))


def copy_model_files(files: Iterable[Path], folder: Path) -> None:
    """Copy files into a folder, under their own names, over those that have them.

    Raises Failed (unwritable).
    """
    for file in files:
        try:
            shutil.copyfile(file, folder / file.name)
        except OSError as error:
            raise make_unwritable_error(folder / file.name, error.strerror or "no room") from error


def make_unwritable_error(path: Path, reason: str) -> Failed:
    """Return the error of a model's file that cannot be written, for lack of room as a rule."""
    detail = f"it cannot be written ({reason}): make room and run the same command again"
    return Failed(Failure(str(path), Outcome.UNWRITABLE, detail))


def _locate_model(name: str, home: Path) -> Path:
    """Return the folder of a model, which need not exist. Raises Failed (bad_name)."""
    if not _NAME_PATTERN.fullmatch(name):
        detail = (
            "a model's name is letters, digits, dots, hyphens and underscores: give it such a name "
            "with rookery models add --as NAME"
        )
        raise Failed(Failure(name[:80], Outcome.BAD_NAME, detail))
    return home / MODELS_FOLDER / name


def _measure_files(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def locate_local_model(model: str) -> Path:
    """Return the folder of a model on this machine: path:DIR, or the name of one that was added.

    The folder of path:DIR need not exist. Raises Failed (no_model).
    """
    if model.startswith(LOCAL):
        return Path(model.removeprefix(LOCAL))
    try:
        return find_model_folder(model, get_data_folder())
    except Failed as failed:
        detail = f"{failed.failure.detail}; for one on a server, say where: --base-url URL"
        raise Failed(Failure(model, failed.failure.outcome, detail)) from failed
