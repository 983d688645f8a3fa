"""`rookery measure`: a figure for each command, from files that Rookery writes, and the report.

What is heavy is imported when a command runs.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rookery.records import Failed, Failure
from rookery.serve.command_line import CommandGroup
from rookery.serve.measuring_options import (
    Answered,
    Compared,
    Folder,
    Majority,
    Rated,
    Reward,
    Rewarded,
    Systems,
    Validation,
)
from rookery.serve.options import AsJson

if TYPE_CHECKING:
    from rookery.measure.bestofn import Curve
    from rookery.measure.figure import Figure

measure = CommandGroup(help="Compute figures from answers, judgements and training runs.")


@measure.command()
def battle(
    files: Compared,
    systems: Systems = None,
    of: Annotated[
        str, typer.Option(metavar="SYSTEM", help="Only this system, against each other one.")
    ] = "",
    majority: Majority = False,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how often each system is preferred to each other one."""
    with _worded():
        from rookery.serve.measuring_wins import beaten, met

        _show(beaten(met(files, systems or (), majority), of), out, as_json)


@measure.command()
def strength(
    files: Compared,
    systems: Systems = None,
    ties: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            min=0,
            help="Ties to add between any two systems that were compared, as a prior.",
        ),
    ] = 0.0,
    majority: Majority = False,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show the strength of each system, by the Bradley-Terry model."""
    with _worded():
        from rookery.serve.measuring_wins import met, strengths

        _show(strengths(met(files, systems or (), majority), ties), out, as_json)


@measure.command("best-of")
def best_of(
    files: Rewarded,
    reward: Reward = None,
    validation: Validation = None,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show the reward of the best of n answers, for each n."""
    with _worded():
        from rookery.serve.measuring_wins import best

        _show(best(_curves(files, reward, validation)), out, as_json)


@measure.command()
def compute(
    files: Rewarded,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER", help="The cost of one answer of a system; may be repeated."
        ),
    ] = None,
    reward: Reward = None,
    validation: Validation = None,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show which system and which n give the most reward for a budget."""
    with _worded():
        from rookery.serve.measuring_wins import bought

        costs = dict(map(_cost, cost or ()))
        _show(bought(_curves(files, reward, validation), costs), out, as_json)


@measure.command()
def coverage(
    files: Answered,
    ratings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='Ratings by people on the scale "good", in place of gold answers.'
        ),
    ] = None,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how good the answers are when those with the lowest scores are declined."""
    with _worded():
        from rookery.serve.measuring_rated import covered

        _show(covered(files, ratings), out, as_json)


@measure.command()
def frontier(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=]DIR...", help="Folders of runs of rookery learn reinforce."),
    ],
    samples: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help='Lines {"rewards": [...]}, one a question, of answers by the policy that the runs '
            "began with; with them the optimum is drawn too.",
        ),
    ] = None,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show the reward of runs against their KL divergence from the policy they began with."""
    with _worded():
        from rookery.serve.measuring_wins import reached

        _show(reached(runs, samples or ()), out, as_json)


@measure.command()
def rouge(
    files: Answered,
    stem: Annotated[
        bool, typer.Option("--stem", help="Compare stems of words, without their endings.")
    ] = False,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show the overlap of answers with gold answers (ROUGE)."""
    with _worded():
        from rookery.serve.measuring_answers import overlaps

        _show(overlaps(files, stem), out, as_json)


@measure.command()
def copying(
    files: Answered,
    show: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="What to show: novel (new words), repeated, openings, or places in the source.",
        ),
    ] = "novel",
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how much answers copy from their sources and repeat themselves."""
    with _worded():
        from rookery.serve.measuring_answers import copies

        _show(copies(files, show), out, as_json)


@measure.command()
def exact(files: Answered, out: Folder = None, as_json: AsJson = False) -> None:
    """Show how often answers equal a gold answer (exact match)."""
    with _worded():
        from rookery.serve.measuring_answers import exact

        _show(exact(files), out, as_json)


@measure.command()
def leakage(
    files: Answered,
    train: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Questions that were trained on; may be repeated."),
    ] = None,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how many answers are right, apart for questions that training has seen."""
    with _worded():
        from rookery.serve.measuring_answers import leaks

        _show(leaks(files, train or ()), out, as_json)


@measure.command()
def truthful(
    files: Rated, systems: Systems = None, out: Folder = None, as_json: AsJson = False
) -> None:
    """Show the share of answers that people rate as truthful and as informative."""
    with _worded():
        from rookery.serve.measuring_rated import truths

        _show(truths(files, systems or ()), out, as_json)


@measure.command()
def supported(
    files: Rated, systems: Systems = None, out: Folder = None, as_json: AsJson = False
) -> None:
    """Show the share of answers that people rate as supported and as plausible."""
    with _worded():
        from rookery.serve.measuring_rated import support

        _show(support(files, systems or ()), out, as_json)


@measure.command()
def criteria(
    files: Rated, systems: Systems = None, out: Folder = None, as_json: AsJson = False
) -> None:
    """Show how people rate answers and references, by criterion."""
    with _worded():
        from rookery.serve.measuring_rated import judged

        _show(judged(files, systems or ()), out, as_json)


@measure.command()
def citations(files: Answered, out: Folder = None, as_json: AsJson = False) -> None:
    """Show citation recall and precision."""
    with _worded():
        from rookery.serve.measuring_answers import citing

        _show(citing(files), out, as_json)


@measure.command()
def ranking(
    triples: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Questions with references and answers; may be repeated."
        ),
    ] = None,
    episodes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Episodes, as rookery ask --trace writes them; may be repeated."
        ),
    ] = None,
    squad: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="A file of SQuAD; may be repeated.")
    ] = None,
    ranker: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]DIR", help="The folder of an encoder; may be repeated."),
    ] = None,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how well BM25, TF-IDF and encoders rank references."""
    with _worded():
        from rookery.learn.referred import Sources
        from rookery.serve.measuring_ranks import rankings

        sources = Sources(tuple(episodes or ()), tuple(triples or ()), tuple(squad or ()))
        _show(rankings(sources, ranker or ()), out, as_json)


@measure.command()
def probes(
    kind: Annotated[str, typer.Argument(metavar="stance|point", help="The probes to print.")],
) -> None:
    """Print probe questions, to be answered by rookery ask --batch."""
    with _worded():
        from rookery.serve.measuring_answers import probing

        sys.stdout.writelines(question.to_json() + "\n" for question in probing(kind))


@measure.command()
def stance(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Answers to the stance probes.")],
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show whether answers take the side that their questions suggest (stance probes)."""
    with _worded():
        from rookery.serve.measuring_answers import stances

        _show(stances(file), out, as_json)


@measure.command()
def point(files: Answered, out: Folder = None, as_json: AsJson = False) -> None:
    """Show which part of the world answers assume where the question names none."""
    with _worded():
        from rookery.serve.measuring_answers import points

        _show(points(files), out, as_json)


@measure.command()
def actions(
    files: Annotated[
        list[str], typer.Argument(metavar="[NAME=]FILE...", help="Episodes of the text browser.")
    ],
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how often each browser command is given, and how many tokens it takes."""
    with _worded():
        from rookery.serve.measuring_answers import acted

        _show(acted(files), out, as_json)


@measure.command()
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of figures, subfolders included.")
    ],
) -> None:
    """Write all figures of a folder and the findings of recipes as one page."""
    with _worded():
        from rookery.measure.report import write_report

        sys.stdout.write(f"{write_report(folder)}\n")


def _curves(
    files: Sequence[str], reward: Path | None, validation: Path | None
) -> "dict[str, Curve]":
    """Raises ValueError where one reward model is named without the other."""
    from rookery.serve.measuring_wins import curves

    if (reward is None) != (validation is None):
        raise ValueError("name both: --reward chooses, and --validation says what that is worth")
    if reward is None or validation is None:
        return curves(files, None)
    from rookery.learn.scorer import Scorer

    return curves(files, (Scorer(reward).scores, Scorer(validation).scores))


def _cost(argument: str) -> tuple[str, float]:
    name, equal, number = argument.rpartition("=")
    try:
        cost = float(number)
    except ValueError:
        cost = 0.0
    if not equal or not 0 < cost < float("inf"):
        raise ValueError(f"--cost {argument}: say NAME=NUMBER, above 0")
    return name, cost


def _show(figure: "Figure", out: Path | None, as_json: bool) -> None:
    """On standard output; in its folder, too, where one is named."""
    from rookery.measure.report_page import as_lines
    from rookery.serve.terminal import as_json as written
    from rookery.serve.terminal import clean

    if as_json:
        sys.stdout.write(written(figure) + "\n")
    else:
        sys.stdout.writelines(f"{clean(line)}\n" for line in as_lines(figure))
    if out is not None:
        from rookery.measure.report import write_figure

        write_figure(figure, out)
        sys.stderr.write(clean(f"written: {out / figure.name}.json, .md, .svg, .png") + "\n")


@contextmanager
def _worded() -> Iterator[None]:
    """A file that is wrong, or a package that is missing, is a sentence and wrong use."""
    try:
        yield
    except Failed as failed:
        raise ValueError(_told(failed.failure)) from failed
    except ModuleNotFoundError as error:
        extra = "learn" if error.name in ("torch", "transformers", "accelerate") else "measure"
        raise ValueError(f"this needs {error.name}: pip install 'rookery[{extra}]'") from error


def _told(failure: Failure) -> str:
    return f"{failure.what}: {failure.detail or failure.outcome}"
