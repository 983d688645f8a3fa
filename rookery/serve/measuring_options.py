"""The arguments and options that several commands of `rookery measure` have."""

from pathlib import Path
from typing import Annotated

import typer

Compared = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="comparisons.jsonl, as rookery judge export writes it."),
]
Rated = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE...",
        help="ratings.jsonl, as rookery judge export writes it; without --systems each file is "
        "a system.",
    ),
]
Answered = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE...",
        help="Answers that rookery ask --batch wrote, each file a system; or episodes, which "
        "name their system.",
    ),
]
Rewarded = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE...",
        help='Lines {"rewards": [...], "validations": [...]}, one a question; or, with --reward '
        "and --validation, files of answers, several to a question.",
    ),
]
Systems = Annotated[
    list[str] | None,
    typer.Option(
        "--systems",
        metavar="[NAME=]FILE",
        help="Answers or episodes of one system, to tell which system a judged answer is of; "
        "may be repeated.",
    ),
]
Majority = Annotated[
    bool,
    typer.Option("--majority", help="Where several people judged, count what most of them say."),
]
Reward = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The reward model that chooses the answer.")
]
Validation = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The reward model that judges the chosen answer.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Also write the figure to this folder, with pictures."
    ),
]
