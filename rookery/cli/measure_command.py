"""The command `rookery measure`: the table of its figures, from which its commands are made."""

import math
import shutil
import sys
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

from rookery.shell.command_line import CommandGroup, print_lines, print_result, translate_failures
from rookery.shell.command_options import JsonOption, make_argument, make_option


def _make_parameter(
    kind: object, usage: str, default: Any = Parameter.empty, least: float | None = None
) -> Parameter:
    """Return the parameter of an option, or of an argument, from its line of a help page."""
    if usage.startswith("--"):
        name, described = usage[2:].split()[0], make_option(usage, min=least)
    else:
        name = "runs" if usage.startswith("[NAME=]DIR") else "files"
        described = make_argument(usage)
    annotation = Annotated[kind, described]  # type: ignore[valid-type]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _make_list_option(usage: str) -> Parameter:
    return _make_parameter(list[str], usage, ())


COMPARISONS = _make_parameter(
    list[str], "FILE...  comparisons.jsonl, as rookery judge export writes it."
)
RATINGS = _make_parameter(
    list[str],
    "[NAME=]FILE...  ratings.jsonl, as rookery judge export writes it; without --systems each file "
    "is a system.",
)
ANSWERS = _make_parameter(
    list[str],
    "[NAME=]FILE...  Answers that rookery ask --batch wrote, each file a system; or episodes, "
    "which name their system.",
)
REWARDS = _make_parameter(
    list[str],
    '[NAME=]FILE...  Lines {"rewards": [...], "validations": [...]}, one a question; or, with '
    "--reward and --validation, files of answers, several to a question.",
)
RUNS = _make_parameter(list[str], "[NAME=]DIR...  Folders of runs of rookery learn reinforce.")

SYSTEMS = _make_list_option(
    "--systems [NAME=]FILE  Answers or episodes of one system, to tell which system a judged "
    "answer is of; may be repeated."
)
OF = _make_parameter(str, "--of SYSTEM  Only this system, against each other one.", "")
MAJORITY = _make_parameter(
    bool, "--majority  Where several people judged, count what most of them say.", False
)
REWARD_MODELS = tuple(
    _make_parameter(Path | None, usage, None)
    for usage in (
        "--reward REWARD  What chooses the answer: the folder of a reward model, or a function of "
        "your own, python:package.module.function.",
        "--validation REWARD  Another one, which judges the chosen answer.",
    )
)
GOOD_RATINGS = _make_parameter(
    Path | None,
    '--ratings FILE  Ratings by people on the scale "good", in place of gold answers.',
    None,
)
SAMPLES = _make_parameter(
    list[Path],
    '--samples FILE  Lines {"rewards": [...]}, one a question, of answers by the policy that the '
    "runs began with; with them the optimum is drawn too.",
    (),
)
RANKING = (
    _make_list_option("--triples FILE  Questions with references and answers; may be repeated."),
    _make_list_option(
        "--episodes FILE  Episodes, as rookery ask --trace writes them; may be repeated."
    ),
    _make_list_option("--squad FILE  A file of SQuAD; may be repeated."),
    _make_list_option("--ranker [NAME=]DIR  The folder of an encoder; may be repeated."),
)
CLAIM_RANKER = _make_parameter(
    str,
    "--ranker DIR  Judge by the evidence model in this folder, not the bundled one; words: by "
    "shared words.",
    "",
)
WORKERS = _make_parameter(int, "--workers NUMBER  Processes that judge.", 1, least=1)
FIGURE_OPTIONS = (
    _make_parameter(
        Path | None, "--out DIR  Also write the figure to this folder, with pictures.", None
    ),
    Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
)
"""options of every command that shows a figure"""

MEASURE_COMMANDS: Mapping[str, tuple[str, tuple[Parameter, ...]]] = {
    "battle": (
        "Show how often each system is preferred to each other one.",
        (COMPARISONS, SYSTEMS, OF, MAJORITY),
    ),
    "best-of": (
        "Show the reward of the best of n answers, for each n.",
        (REWARDS, *REWARD_MODELS, WORKERS),
    ),
    "coverage": (
        "Show how good the answers are when those with the lowest scores are declined.",
        (ANSWERS, GOOD_RATINGS),
    ),
    "frontier": (
        "Show the reward of runs against their KL divergence from the policy they began with.",
        (RUNS, SAMPLES),
    ),
    "exact": ("Show how often answers equal a gold answer (exact match).", (ANSWERS,)),
    "truthful": (
        "Show the share of answers that people rate as truthful and as informative.",
        (RATINGS, SYSTEMS),
    ),
    "supported": (
        "Show the share of answers that people rate as supported and as plausible.",
        (RATINGS, SYSTEMS),
    ),
    "criteria": ("Show how people rate answers and references, by criterion.", (RATINGS, SYSTEMS)),
    "citations": (
        "Show citation recall and precision, by the evidence model.",
        (ANSWERS, CLAIM_RANKER, WORKERS),
    ),
    "ranking": ("Show how well BM25, TF-IDF and encoders rank references.", RANKING),
}
"""help and inputs of each command; `run_measure_NAME` of measure_figures does its work"""

measure_group = CommandGroup(help="Compute figures from answers, judgements and training runs.")


def _make_command(name: str, inputs: tuple[Parameter, ...]) -> Callable[..., None]:
    def run_command(out: Path | None = None, as_json: bool = False, **values: Any) -> None:
        with translate_failures("measure"):
            from rookery.cli import measure_figures
            from rookery.measure.figures import format_figure_lines, write_figure

            result = getattr(measure_figures, f"run_measure_{name.replace('-', '_')}")(**values)
            columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
            print_result(result, format_figure_lines(result, columns), as_json)
            if out is not None:
                write_figure(result, out)
                print_lines([f"written: {out / result.name}.json, .md, .svg, .png"], sys.stderr)

    run_command.__signature__ = Signature(inputs)  # type: ignore[attr-defined]
    return run_command


for _name, (_help, _inputs) in MEASURE_COMMANDS.items():
    measure_group.command(_name, help=_help)(_make_command(_name, (*_inputs, *FIGURE_OPTIONS)))


@measure_group.command("report")
def run_measure_report(folder: Path) -> None:
    """Write all figures of a folder and the findings of recipes as one page.

    DIR  A folder of figures, subfolders included.
    """
    with translate_failures("measure"):
        from rookery.measure.figures import write_report

        print_lines([str(write_report(folder))])
