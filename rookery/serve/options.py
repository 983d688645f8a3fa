"""The options of the command line: their names, their types, and what `--help` says of them."""

from pathlib import Path
from typing import Annotated

import typer

Places = Annotated[
    list[str] | None,
    typer.Option(
        "--in",
        metavar="PATH_OR_URL",
        help="A folder, a file, a site (https://host/prefix/) or rookery:corvids; may be repeated. "
        "Without it the web is searched.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
AsLines = Annotated[bool, typer.Option("--json", help="Print JSON objects, one a line.")]
Private = Annotated[
    bool, typer.Option("--allow-private", help="Also open addresses of this machine or network.")
]
Proxy = Annotated[bool, typer.Option("--proxy", help="Use the proxy that the environment names.")]
Method = Annotated[
    str, typer.Option(help="How to answer: extract, or by a model: webgpt, gophercite, webglm.")
]
Model = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The model of an OpenAI-compatible server; path:DIR, one on this machine; script:FILE,"
        " what a file says.",
    ),
]
BaseUrl = Annotated[
    str, typer.Option(metavar="URL", help="Where it is served; the key is in OPENAI_API_KEY.")
]
Samples = Annotated[
    int | None, typer.Option("-n", min=1, help="Answers that a model writes to choose among.")
]
Endpoints = Annotated[
    str,
    typer.Option(
        metavar="FILE", help="Tables named browse, write and default: a model for each role."
    ),
]
Worth = Annotated[
    float,
    typer.Option(
        min=0, help="Draw fewer than -n where one more is not expected to add this to the score."
    ),
]
CapTokens = Annotated[
    int | None, typer.Option(min=0, help="Tokens that models may take in all, prompts included.")
]
CapMoney = Annotated[
    float | None, typer.Option(min=0, help="The same in money, by the prices of --endpoints.")
]
Decline = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Least share of what is answered that is to be good: a promise, after rookery "
        "calibrate. Of extract: decline answers less likely than this to be right.",
    ),
]
Engine = Annotated[
    str, typer.Option(help="wikipedia, wikipedia:LANGUAGE, searxng:URL, brave or google.")
]
Ranker = Annotated[
    str,
    typer.Option(metavar="DIR", help="An encoder that rookery learn retrieve wrote, to rank with."),
]
Offline = Annotated[bool, typer.Option("--offline", help="Only what was opened or said before.")]
Batch = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Answer each question of a JSONL file; - is the input."),
]
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where --batch writes; resumes there.")
]
Trace = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Append the whole episode as a JSON line.")
]
BothSides = Annotated[
    bool,
    typer.Option(
        "--both-sides",
        help="Show apart what speaks for and against the claim that the question assumes.",
    ),
]
Config = Annotated[Path, typer.Option("--config", metavar="FILE", help="What is learnt, in TOML.")]
RunFolder = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where the run is kept; resumes there.")
]
AtDesk = Annotated[
    str,
    typer.Option(
        "--desk",
        metavar="STORE",
        help="The desk's store, a file or postgresql://HOST/NAME: people there compare where the "
        "file has [labels], and anyone may stop the run.",
    ),
]
Board = Annotated[bool, typer.Option("--board", help="Also write files for TensorBoard.")]
DeskStore = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PLACE",
        help="The desk's store: a file, or postgresql://USER@HOST/DATABASE. Without it, one among "
        "the user's data.",
    ),
]
OneBatch = Annotated[
    str | None, typer.Option("--batch", metavar="NAME", help="Only this batch; without it, all.")
]
Batches = Annotated[
    list[str] | None,
    typer.Option("--batch", metavar="NAME", help="Only this batch; may be repeated."),
]
