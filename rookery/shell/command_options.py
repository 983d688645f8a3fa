"""The options of the command line: their names, types and help texts."""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from rookery.settings import FileSelection, ModelSettings, Precision, Settings, is_local_model

S = TypeVar("S", bound=msgspec.Struct)


def make_option(usage: str, **details: Any) -> Any:
    """Return an option from its line of a help page: its names, the word for a value, its help.

    Two blanks stand before the help: `-q, --quotes NUMBER  Quotes that an answer has at most.`
    The help may have several lines. `details` are further arguments of `typer.Option`.
    """
    names, _, help = usage.partition("  ")
    words = names.replace(",", "").split()
    metavar = None if words[-1].startswith("-") else words.pop()
    return typer.Option(*words, metavar=metavar, help=" ".join(help.split()), **details)


def make_argument(usage: str, **details: Any) -> Any:
    """Return an argument from its line of a help page: the word for it, two blanks and its help."""
    metavar, _, help = usage.partition("  ")
    return typer.Argument(metavar=metavar, help=help, **details)


def describe_parameters(command: Callable[..., Any]) -> str:
    """Give a command the options and arguments that its docstring describes; return what is left.

    The docstring has a line as of `make_option` or `make_argument` for each parameter that has no
    help text of its own, in their order. Lines that continue it are indented. Raises ValueError
    for another number of lines.
    """
    lines = re.sub(r"\n +", " ", cleandoc(command.__doc__ or "")).split("\n")
    usages = [line for line in lines if "  " in line]
    shape = signature(command)
    parameters = dict(shape.parameters)
    bare = [each for each in parameters.values() if not _has_help(each.annotation)]
    if len(bare) != len(usages):
        counts = f"{len(usages)} of the {len(bare)} parameters of {command.__name__}"
        raise ValueError(f"its docstring describes {counts}: run Python without -OO")
    for each, usage in zip(bare, usages, strict=True):
        parameters[each.name] = each.replace(annotation=_add_usage(each.annotation, usage))
    command.__signature__ = shape.replace(  # type: ignore[attr-defined]
        parameters=tuple(parameters.values())
    )
    return "\n".join(line for line in lines if line not in usages)


def _has_help(annotation: Any) -> bool:
    details = getattr(annotation, "__metadata__", ())
    return annotation is typer.Context or any(each.help for each in details)


def _add_usage(annotation: Any, usage: str) -> Any:
    """Return the type of a parameter with its line of the help page, and the bounds it has."""
    make = make_option if usage.startswith("-") else make_argument
    if not hasattr(annotation, "__metadata__"):
        return Annotated[annotation, make(usage)]
    [bounds] = annotation.__metadata__
    kept = {name: getattr(bounds, name) for name in ("min", "max", "formats")}
    return Annotated[annotation.__origin__, make(usage, **kept)]


JsonOption = Annotated[bool, make_option("--json  Print one JSON object, also for errors.")]
JsonLinesOption = Annotated[
    bool, make_option("--json  Print JSON, one object a line, also for errors.")
]
DeskStoreOption = Annotated[
    str,
    make_option(
        "--store PLACE  The desk's store: a file, or postgresql://USER@HOST/DATABASE. Without "
        "it, a file in your data folder."
    ),
]
OneBatchOption = Annotated[
    str | None, make_option("--batch NAME  Only this batch; without it, all of them.")
]
BatchesOption = Annotated[
    list[str] | None, make_option("--batch NAME  Only this batch; may be repeated.")
]


SELECTION_OPTIONS = FileSelection.__struct_fields__
PLACE_OPTIONS = ("places", *SELECTION_OPTIONS)
NETWORK_OPTIONS = ("private", "proxy", "contact", "render")
ENDPOINT_OPTIONS = ("model", "base_url", "endpoints", "context_tokens")
SOURCE_OPTIONS = ("engine", "ranker", "offline")
SETTINGS_OPTIONS: Mapping[str, Any] = {
    name: make_option(**option)
    for name, option in msgspec.toml.decode(
        Path(__file__).with_name("settings_options.toml").read_bytes()
    ).items()
}
"""the option of each field of `Settings` and of their parts that can be set on the command line"""
_FIELDS = {
    field.name: field
    for part in (Settings, FileSelection, ModelSettings)
    for field in msgspec.structs.fields(part)
}


def add_settings_options(
    *names: str, **usual: object
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command these of SETTINGS_OPTIONS.

    They stand in the place of its parameter `settings`, which receives the `Settings` that they
    make. `usual` are defaults of this command; the others are those of the settings.
    """
    options = [
        _make_parameter(name, option, usual)
        for name, option in SETTINGS_OPTIONS.items()
        if name in names
    ]

    def decorate_command(command: Callable[..., None]) -> Callable[..., None]:
        shape, parameters = signature(command), list[Parameter]()
        for each in shape.parameters.values():
            own = [each.replace(kind=Parameter.KEYWORD_ONLY)]
            parameters += options if each.name == "settings" else own

        @wraps(command)
        def run_with_settings(**arguments: Any) -> None:
            values = {option.name: arguments.pop(option.name) for option in options}
            command(settings=_make_settings(values), **arguments)

        run_with_settings.__signature__ = shape.replace(  # type: ignore[attr-defined]
            parameters=parameters
        )
        return run_with_settings

    return decorate_command


def _make_parameter(name: str, option: object, usual: Mapping[str, object]) -> Parameter:
    """Return the parameter of an option: its type and default are those of the settings' field."""
    kind, default = _FIELDS[name].type, usual.get(name, _FIELDS[name].default)
    if kind == tuple[str, ...]:
        kind, default = list[str] | None, None
    elif kind == Precision:  # a wrong one is told by the settings
        kind = str
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _make_settings(values: dict[str, Any]) -> Settings:
    """Make the settings of some fields; the others keep their defaults."""
    for name in values:
        if _FIELDS[name].type == tuple[str, ...]:
            values[name] = tuple(values[name] or ())

    def take_fields(kind: type[S]) -> S:
        fields = kind.__struct_fields__
        return kind(**{name: values.pop(name) for name in fields if name in values})

    try:
        selection, models = take_fields(FileSelection), take_fields(ModelSettings)
        return Settings(selection=selection, models=models, **values)
    except ValueError as error:  # whose first word is the field
        sentence = re.sub(r"^\w+", lambda field: get_option_name(field[0]), str(error))
        raise ValueError(sentence) from error


def get_option_name(field: str) -> str:
    """Return the option that sets a field of the settings, in its long form."""
    option = SETTINGS_OPTIONS.get(field)
    names = [option.default, *option.param_decls] if option else [f"--{field}"]
    return str(max(names, key=len)).partition("/")[0]


def require_known_method(settings: Settings) -> Settings:
    """Return the settings, with a method where they name none.

    Raises ValueError for an unknown method, and where a model is missing or has nothing to do.
    """
    from rookery.answers.methods import MODEL_METHODS, NAMED_METHODS, choose_default_method
    from rookery.models.installed_models import locate_local_model

    if not settings.method:
        method = choose_default_method(settings.models)
        settings = msgspec.structs.replace(settings, method=method)
    if settings.method not in NAMED_METHODS:
        names = ", ".join(NAMED_METHODS)
        raise ValueError(f"there is no method {settings.method!r}: use one of {names}")
    *others, last = MODEL_METHODS
    names = f"--method {', '.join(others)} or {last}"
    named = settings.models.model or settings.models.endpoints
    if (settings.method in MODEL_METHODS) != bool(settings.models) and not named:
        raise ValueError(
            f"{names} goes with --model and --base-url, or --endpoints, or with --model and a "
            "model of rookery models list"
        )
    if settings.models and settings.method not in MODEL_METHODS:
        if is_local_model(settings.models):
            locate_local_model(settings.models.model)
        idle = f"a model has nothing to do in --method {settings.method}"
        raise ValueError(f"{idle}: add {names}, or --write for one on this machine")
    return settings
