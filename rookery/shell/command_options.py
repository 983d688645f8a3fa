"""The options of the command line: their names, types and help texts."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from rookery.settings import FileSelection, ModelSettings, Settings

S = TypeVar("S", bound=msgspec.Struct)
_REPEATED = ("places", "globs", "excludes", "stop")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, also for errors.")]
JsonLinesOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, one object a line, also for errors.")
]
WriteOption = Annotated[
    bool,
    typer.Option(
        "--write",
        help="Have a model on this machine put the answer into words: --method webglm with --model "
        "or, without it, a model that rookery models add added, smollm2 before others.",
    ),
]
BatchOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help='Answer a file of questions, one a line as {"id": "1", "text": "Why ...?"}, or a file '
        "of ELI5, Natural Questions, TriviaQA, KILT or SQuAD; - is standard input.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where --batch writes, a JSON line for each question; goes on there where an earlier "
        "run with the same settings stopped. - is standard output.",
    ),
]
WorkersOption = Annotated[
    int,
    typer.Option(
        metavar="NUMBER",
        min=0,
        help="With --batch: processes that answer; 0: one for each processor.",
    ),
]
RayOption = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="With --batch: answer on the machines of a Ray cluster, such as auto or HOST:6379.",
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option("--force", help="With --batch: answer all again, in place of what is in --out."),
]
PassagesOption = Annotated[
    bool,
    typer.Option(
        "--passages",
        help="Also show what was searched and found, and why the answer was chosen or declined.",
    ),
]
TraceOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Append all that was done for the answer to this file, as a JSON line."
    ),
]
BothSidesOption = Annotated[
    bool,
    typer.Option(
        "--both-sides",
        help="Show what speaks for, and apart from it what speaks against, the claim that the "
        "question assumes, by --model or by the evidence model of --ranker DIR.",
    ),
]
ConfigOption = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="The settings of the training, in TOML.")
]
RunFolderOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="The folder of the run; a run that stopped there goes on."
    ),
]
RunDeskOption = Annotated[
    str,
    typer.Option(
        "--desk",
        metavar="STORE",
        help="The desk's store, a file or postgresql://HOST/DATABASE. People at the desk compare "
        "samples if the settings have [labels], and anyone there may stop the run.",
    ),
]
BoardOption = Annotated[bool, typer.Option("--board", help="Also write logs for TensorBoard.")]
DeskStoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PLACE",
        help="The desk's store: a file, or postgresql://USER@HOST/DATABASE. Without it, a file in "
        "your data folder.",
    ),
]
OneBatchOption = Annotated[
    str | None,
    typer.Option("--batch", metavar="NAME", help="Only this batch; without it, all of them."),
]
BatchesOption = Annotated[
    list[str] | None,
    typer.Option("--batch", metavar="NAME", help="Only this batch; may be repeated."),
]


def _declare_option(
    kind: object, default: object, *names: str, **details: Any
) -> tuple[object, object]:
    """Return the annotation of an option's parameter, and its default."""
    return Annotated[kind, typer.Option(*names, **details)], default


PLACE_OPTIONS = ("places", "globs", "excludes")
NETWORK_OPTIONS = ("private", "proxy", "contact", "render")
ENDPOINT_OPTIONS = ("model", "base_url", "endpoints")
SOURCE_OPTIONS = ("engine", "ranker", "offline")
COMPLETION_OPTIONS: Mapping[str, tuple[object, object]] = {
    "temperature": _declare_option(
        float | None,
        None,
        metavar="NUMBER",
        min=0,
        help="How freely the model writes; 0 always takes the likeliest token. Without it, what "
        "--endpoints says, else the server's own; 1 on this machine.",
    ),
    "top_p": _declare_option(
        float | None,
        None,
        metavar="NUMBER",
        min=0,
        max=1,
        help="Draw from the likeliest tokens only, as few as have this probability together.",
    ),
    "max_tokens": _declare_option(
        int | None,
        None,
        metavar="NUMBER",
        min=1,
        help="Most tokens of one completion; 1024 without it.",
    ),
    "stop": _declare_option(
        list[str] | None,
        None,
        metavar="WORDS",
        help="End a completion before these words; may be repeated.",
    ),
    "chat": _declare_option(
        bool | None,
        None,
        "--chat/--no-chat",
        help="Whether the prompt is a message in the model's chat template, or a text that it "
        "continues. Without either, what --endpoints says, else the former where it can be.",
        show_default=False,
    ),
    "threads": _declare_option(
        int | None,
        None,
        metavar="NUMBER",
        min=1,
        help="Threads of the processor for a model on this machine.",
    ),
    "dtype": _declare_option(
        str,
        "",
        metavar="TYPE",
        help="What a model on this machine computes in: float32, bfloat16 or float16; without it, "
        "what is fastest on its device.",
    ),
}
"""type and default of the option of each field of `CompletionSettings`"""
SETTINGS_OPTIONS: Mapping[str, tuple[object, object]] = {
    "places": _declare_option(
        list[str] | None,
        None,
        "--in",
        metavar="PATH_OR_URL",
        help="What to answer from: a folder, a file, a site (https://host/prefix/), or "
        "rookery:corvids, the little web that comes with Rookery; may be repeated. Without it "
        "the web is searched.",
    ),
    "globs": _declare_option(
        list[str] | None,
        None,
        "--glob",
        metavar="PATTERN",
        help="Of the folders, read only files that match, such as '*.md' or 'docs/'; may be "
        "repeated.",
    ),
    "excludes": _declare_option(
        list[str] | None,
        None,
        "--exclude",
        metavar="PATTERN",
        help="Leave out files and folders that match; may be repeated. What .gitignore and "
        ".rookeryignore name is left out anyway.",
    ),
    "method": _declare_option(
        str,
        "extract",
        metavar="METHOD",
        help="How to answer: extract quotes the documents and needs no model; webglm, gophercite "
        "and webgpt have a model write the answer.",
    ),
    "model": _declare_option(
        str,
        "",
        metavar="NAME",
        help="The model that writes: its name at an OpenAI-compatible server; without --base-url, "
        "one of rookery models list, or path:DIR, on this machine; script:FILE for one that says "
        "the lines of a file.",
    ),
    "base_url": _declare_option(
        str,
        "",
        metavar="URL",
        help="Where the model is served; the key is read from OPENAI_API_KEY.",
    ),
    "endpoints": _declare_option(
        str,
        "",
        metavar="FILE",
        help="A TOML file with a model for each role, in tables named browse, write and default.",
    ),
    "samples": _declare_option(
        int | None,
        None,
        "-n",
        metavar="NUMBER",
        min=1,
        help="Answers that the model writes, of which the best is given.",
    ),
    "worth": _declare_option(
        float,
        0.0,
        metavar="NUMBER",
        min=0,
        help="Stop before -n answers are written when one more is not expected to raise the score "
        "by this much.",
    ),
    "cap_tokens": _declare_option(
        int | None,
        None,
        metavar="NUMBER",
        min=0,
        help="Most tokens that models may use, prompts included.",
    ),
    "cap_money": _declare_option(
        float | None,
        None,
        metavar="NUMBER",
        min=0,
        help="Most money that models may cost, by the prices in --endpoints.",
    ),
    "decline": _declare_option(
        float | None,
        None,
        metavar="NUMBER",
        min=0,
        max=1,
        help="Decline rather than answer badly. With extract and --write: decline answers that are "
        "less likely than this to be right; 0.5 without it. With another model: the share of the "
        "given answers that must be good, which needs rookery calibrate first.",
    ),
    "quotes": _declare_option(
        int | None,
        None,
        "-q",
        "--quotes",
        metavar="NUMBER",
        min=1,
        max=20,
        help="Quotes that an answer has at most, with --both-sides on each side; 3, and of "
        "webglm 5, of webgpt and gophercite as many as the model makes.",
    ),
    "engine": _declare_option(
        str,
        "auto",
        metavar="ENGINE",
        help="What searches the web: duckduckgo, wikipedia, wikipedia:LANGUAGE, searxng:URL, brave "
        "or google; several joined by commas, whose results are merged; or auto: brave and google "
        "where their keys are set, else DuckDuckGo, else Wikipedia. searxng:URL,auto asks a "
        "server of your own first.",
    ),
    "ranker": _declare_option(
        str,
        "",
        metavar="DIR",
        help="What ranks passages: a folder with an evidence model, as recipes.evidence writes it, "
        "or with a trained encoder, as rookery learn retrieve writes it; or words. Without it, the "
        "evidence model that comes with Rookery.",
    ),
    "offline": _declare_option(
        bool, False, "--offline", help="Use only pages and model answers that are stored already."
    ),
    "private": _declare_option(
        bool, False, "--allow-private", help="Also open addresses of this machine and its network."
    ),
    "proxy": _declare_option(bool, False, "--proxy", help="Use the proxy that HTTPS_PROXY names."),
    "contact": _declare_option(
        str,
        "",
        metavar="ADDRESS",
        help="Where the owners of sites can reach you: a mail address or a web page, which every "
        "request then carries with its name, as Wikipedia asks.",
    ),
    "render": _declare_option(
        bool,
        False,
        "--render",
        help="Have a local Chromium run the scripts of pages that show no text without them; needs "
        "pip install 'rookery[render]' and Chromium.",
    ),
    **COMPLETION_OPTIONS,
}
"""type and default of each option that is a field of `Settings`, or of a part of them"""
_FIELDS = {"globs": "glob", "excludes": "exclude", "cap_tokens": "tokens", "cap_money": "money"}
"""fields that are not called as their option's parameter is"""


def add_settings_options(
    *names: str, **usual: object
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command these of SETTINGS_OPTIONS.

    They stand in the place of its parameter `settings`, which receives the `Settings` that they
    make. `usual` are defaults of this command.
    """
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=usual.get(name, none), annotation=kind)
        for name, (kind, none) in SETTINGS_OPTIONS.items()
        if name in names
    ]

    def decorate_command(command: Callable[..., None]) -> Callable[..., None]:
        shape, parameters = signature(command), list[Parameter]()
        for each in shape.parameters.values():
            own = [each.replace(kind=Parameter.KEYWORD_ONLY)]
            parameters += options if each.name == "settings" else own

        @wraps(command)
        def run_with_settings(**arguments: Any) -> None:
            named = {option.name: arguments.pop(option.name) for option in options}
            command(settings=_make_settings(named), **arguments)

        run_with_settings.__signature__ = shape.replace(  # type: ignore[attr-defined]
            parameters=parameters
        )
        return run_with_settings

    return decorate_command


def _make_settings(named: Mapping[str, object]) -> Settings:
    """Make the settings of some options, by their names; those of no option keep their defaults."""
    values = {
        _FIELDS.get(name, name): tuple(value or ()) if name in _REPEATED else value  # type: ignore
        for name, value in named.items()
    }

    def take_fields(kind: type[S]) -> S:
        fields = kind.__struct_fields__
        return kind(**{name: values.pop(name) for name in fields if name in values})

    selection, models = take_fields(FileSelection), take_fields(ModelSettings)
    return Settings(selection=selection, models=models, **values)  # type: ignore


def require_known_method(settings: Settings) -> None:
    """Raise ValueError for an unknown method, and where a model is missing or has nothing to do."""
    from rookery.answers.methods import MODEL_METHODS, NAMED_METHODS

    if settings.method not in NAMED_METHODS:
        names = ", ".join(NAMED_METHODS)
        raise ValueError(f"there is no method {settings.method!r}: use one of {names}")
    if (settings.method in MODEL_METHODS) != bool(settings.models):
        *others, last = MODEL_METHODS
        raise ValueError(
            f"--method {', '.join(others)} or {last} goes with --model and --base-url, or "
            "--endpoints, or with --model and a model of rookery models list"
        )
