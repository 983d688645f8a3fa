"""The arguments and options that several commands of `rookery measure` have."""

from pathlib import Path
from typing import Annotated

import typer

Compared = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="comparisons.jsonl of rookery judge export.")
]
Rated = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE...", help="ratings.jsonl; without --systems each file is a system."
    ),
]
Answered = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE...",
        help="What rookery ask --batch wrote, each file a system; or episodes, by whom they are.",
    ),
]
Rewarded = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]FILE...",
        help='Lines {"rewards": [...], "validations": [...]}, one a question; or, with --reward '
        "and --validation, answers, several to a question.",
    ),
]
Systems = Annotated[
    list[str] | None,
    typer.Option(
        "--systems",
        metavar="[NAME=]FILE",
        help="Answers or episodes, which tell whose a judged answer is; may be repeated.",
    ),
]
Majority = Annotated[
    bool, typer.Option("--majority", help="Of several raters of a question, what most say.")
]
Reward = Annotated[Path | None, typer.Option(metavar="DIR", help="The reward model that chooses.")]
Validation = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The one that says what the choice is worth.")
]
Folder = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Write the figure there, with pictures.")
]
