"""The options of the command line: their names, types and help texts."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from rookery.settings import FileSelection, ModelSettings, Precision, Settings

S = TypeVar("S", bound=msgspec.Struct)


def make_option(usage: str, **details: Any) -> Any:
    """Return an option from its line of a help page: its names, the word for a value, its help.

    Two blanks stand before the help: `-q, --quotes NUMBER  Quotes that an answer has at most.`
    `details` are further arguments of `typer.Option`.
    """
    names, _, help = usage.partition("  ")
    words = names.replace(",", "").split()
    metavar = None if words[-1].startswith("-") else words.pop()
    return typer.Option(*words, metavar=metavar, help=help, **details)


def make_argument(usage: str, **details: Any) -> Any:
    """Return an argument from its line of a help page: the word for it, two blanks and its help."""
    metavar, _, help = usage.partition("  ")
    return typer.Argument(metavar=metavar, help=help, **details)


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
    "places": make_option(
        "--in PATH_OR_URL  What to answer from: a folder, a file, a site "
        "(https://host/prefix/), rookery:corvids, the little web that comes with Rookery, or your "
        "own library, python:package.module.name; may be repeated. Without it the web is searched."
    ),
    "glob": make_option(
        "--glob PATTERN  Of the folders, read only files that match, such as '*.md' or "
        "'docs/'; may be repeated."
    ),
    "exclude": make_option(
        "--exclude PATTERN  Leave out files and folders that match; may be repeated. What "
        ".gitignore and .rookeryignore name is left out anyway."
    ),
    "follow_links": make_option(
        "--follow-links  Also read what symbolic links lead to outside of the folders."
    ),
    "method": make_option(
        "--method METHOD  How to answer: extract quotes the documents and needs no model; "
        "webglm, gophercite and webgpt have a model write the answer. Without it, webglm where "
        "--base-url or --endpoints names a model, else extract."
    ),
    "model": make_option(
        "--model NAME  The model that writes: its name at an OpenAI-compatible server; "
        "without --base-url, one of rookery models list, or path:DIR, on this machine; "
        "script:FILE for one that says the lines of a file."
    ),
    "base_url": make_option(
        "--base-url URL  Where the model is served; the key is read from OPENAI_API_KEY."
    ),
    "endpoints": make_option(
        "--endpoints FILE  A TOML file with a model for each role, in tables named browse, "
        "write and default."
    ),
    "samples": make_option(
        "-n NUMBER  Answers that the model writes, of which the best is given.", min=1
    ),
    "choose_by": make_option(
        "--choose-by JUDGE  What chooses among -n answers: model, the chat model itself, which is "
        "usual for one on a server, or evidence, the evidence model."
    ),
    "tokens": make_option(
        "--cap-tokens NUMBER  Most tokens that models may use, prompts included.", min=0
    ),
    "money": make_option(
        "--cap-money NUMBER  Most money that models may cost, by the prices in --endpoints.", min=0
    ),
    "context_tokens": make_option(
        "--context-tokens NUMBER  How much a chat model is shown at once; 8000 without it.", min=500
    ),
    "decline": make_option(
        "--decline NUMBER  Decline rather than answer badly. With extract and --write: "
        "decline answers that are less likely than this to be right; 0.5 without it. With "
        "another model: the share of the given answers that must be good, which needs rookery "
        "calibrate first.",
        min=0,
        max=1,
    ),
    "quotes": make_option(
        "-q, --quotes NUMBER  Quotes that an answer has at most, with --both-sides on each "
        "side; 3, and of webglm 5, of webgpt and gophercite as many as the model makes.",
        min=1,
        max=20,
    ),
    "engine": make_option(
        "--engine ENGINE  What searches the web: duckduckgo, wikipedia, wikipedia:LANGUAGE, "
        "searxng:URL or brave; several joined by commas, whose results are merged; or auto: "
        "brave where its key is set, else DuckDuckGo, else Wikipedia. "
        "searxng:URL,auto asks a server of your own first."
    ),
    "ranker": make_option(
        "--ranker DIR  What ranks passages: a folder with an evidence model, as "
        "recipes.evidence writes it, or with a trained encoder, as rookery learn retrieve "
        "writes it; or words. Without it, the evidence model that comes with Rookery."
    ),
    "offline": make_option("--offline  Use only pages and model answers that are stored already."),
    "private": make_option("--allow-private  Also open addresses of this machine and its network."),
    "proxy": make_option("--proxy  Use the proxy that HTTPS_PROXY names."),
    "contact": make_option(
        "--contact ADDRESS  Where the owners of sites can reach you: a mail address or a web "
        "page, which every request then carries with its name, as Wikipedia asks."
    ),
    "render": make_option(
        "--render  Have a local Chromium run the scripts of pages that show no text without "
        "them; needs pip install 'rookery[render]' and Chromium."
    ),
    "temperature": make_option(
        "--temperature NUMBER  How freely the model writes; 0 always takes the likeliest "
        "token. Without it, what --endpoints says, else the server's own; 1 on this machine.",
        min=0,
    ),
    "top_p": make_option(
        "--top-p NUMBER  Draw from the likeliest tokens only, as few as have this probability "
        "together.",
        min=0,
        max=1,
    ),
    "max_tokens": make_option(
        "--max-tokens NUMBER  Most tokens of one completion; 1024 without it.", min=1
    ),
    "stop": make_option("--stop WORDS  End a completion before these words; may be repeated."),
    "chat": make_option(
        "--chat/--no-chat  Whether the prompt is a message in the model's chat template, or a "
        "text that it continues. Without either, what --endpoints says, else the former "
        "where it can be.",
        show_default=False,
    ),
    "threads": make_option(
        "--threads NUMBER  Threads of the processor for a model on this machine.", min=1
    ),
    "dtype": make_option(
        "--dtype TYPE  What a model on this machine computes in: float32, bfloat16 or "
        "float16; without it, what is fastest on its device."
    ),
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

    selection, models = take_fields(FileSelection), take_fields(ModelSettings)
    return Settings(selection=selection, models=models, **values)


def require_known_method(settings: Settings) -> Settings:
    """Return the settings, with a method where they name none.

    Raises ValueError for an unknown method, and where a model is missing or has nothing to do.
    """
    from rookery.answers.methods import MODEL_METHODS, NAMED_METHODS, choose_default_method

    if not settings.method:
        method = choose_default_method(settings.models)
        settings = msgspec.structs.replace(settings, method=method)
    if settings.method not in NAMED_METHODS:
        names = ", ".join(NAMED_METHODS)
        raise ValueError(f"there is no method {settings.method!r}: use one of {names}")
    if (settings.method in MODEL_METHODS) != bool(settings.models):
        *others, last = MODEL_METHODS
        raise ValueError(
            f"--method {', '.join(others)} or {last} goes with --model and --base-url, or "
            "--endpoints, or with --model and a model of rookery models list"
        )
    return settings
