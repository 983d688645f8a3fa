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

measure = CommandGroup(help="Figures of what was answered and judged.")


@measure.command()
def battle(
    files: Compared,
    systems: Systems = None,
    of: Annotated[str, typer.Option(metavar="SYSTEM", help="Only against each other one.")] = "",
    majority: Majority = False,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how often each system is preferred to each other."""
    with _worded():
        from rookery.serve.measuring_wins import beaten, met

        _show(beaten(met(files, systems or (), majority), of), out, as_json)


@measure.command()
def strength(
    files: Compared,
    systems: Systems = None,
    ties: Annotated[
        float, typer.Option(min=0, help="Ties put between any two that met, as a prior.")
    ] = 0.0,
    majority: Majority = False,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how strong each system is (Bradley and Terry)."""
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
    """Show what the best of n answers is worth, for all n."""
    with _worded():
        from rookery.serve.measuring_wins import best

        _show(best(_curves(files, reward, validation)), out, as_json)


@measure.command()
def compute(
    files: Rewarded,
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="Of one answer of a system; may be repeated."),
    ] = None,
    reward: Reward = None,
    validation: Validation = None,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show which system and n are worth most for a budget."""
    with _worded():
        from rookery.serve.measuring_wins import bought

        costs = dict(map(_cost, cost or ()))
        _show(bought(_curves(files, reward, validation), costs), out, as_json)


@measure.command()
def coverage(
    files: Answered,
    ratings: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Ratings on the scale "good", in place of gold answers.'),
    ] = None,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how good answers are when the least sure are declined."""
    with _worded():
        from rookery.serve.measuring_rated import covered

        _show(covered(files, ratings), out, as_json)


@measure.command()
def frontier(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=]DIR...", help="Runs of rookery learn reinforce."),
    ],
    samples: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help='Lines {"rewards": [...]}, one a question, of answers of the policy that the '
            "runs began with: the optimum is drawn, too.",
        ),
    ] = None,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how much reward runs have at which distance."""
    with _worded():
        from rookery.serve.measuring_wins import reached

        _show(reached(runs, samples or ()), out, as_json)


@measure.command()
def rouge(
    files: Answered,
    stem: Annotated[bool, typer.Option("--stem", help="Endings of words do not count.")] = False,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show the words that answers share with the gold ones."""
    with _worded():
        from rookery.serve.measuring_answers import overlaps

        _show(overlaps(files, stem), out, as_json)


@measure.command()
def copying(
    files: Answered,
    show: Annotated[
        str, typer.Option(metavar="WHAT", help="novel, repeated, openings or places.")
    ] = "novel",
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show what answers copy from their sources, and repeat."""
    with _worded():
        from rookery.serve.measuring_answers import copies

        _show(copies(files, show), out, as_json)


@measure.command()
def exact(files: Answered, out: Folder = None, as_json: AsJson = False) -> None:
    """Show how often answers are gold ones."""
    with _worded():
        from rookery.serve.measuring_answers import exact

        _show(exact(files), out, as_json)


@measure.command()
def leakage(
    files: Answered,
    train: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Questions of training; may be repeated."),
    ] = None,
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show answers that are right, by what training has seen."""
    with _worded():
        from rookery.serve.measuring_answers import leaks

        _show(leaks(files, train or ()), out, as_json)


@measure.command()
def truthful(
    files: Rated, systems: Systems = None, out: Folder = None, as_json: AsJson = False
) -> None:
    """Show how truthful and informative answers are."""
    with _worded():
        from rookery.serve.measuring_rated import truths

        _show(truths(files, systems or ()), out, as_json)


@measure.command()
def supported(
    files: Rated, systems: Systems = None, out: Folder = None, as_json: AsJson = False
) -> None:
    """Show how many answers are supported and plausible."""
    with _worded():
        from rookery.serve.measuring_rated import support

        _show(support(files, systems or ()), out, as_json)


@measure.command()
def criteria(
    files: Rated, systems: Systems = None, out: Folder = None, as_json: AsJson = False
) -> None:
    """Show what people make of answers and references."""
    with _worded():
        from rookery.serve.measuring_rated import judged

        _show(judged(files, systems or ()), out, as_json)


@measure.command()
def citations(files: Answered, out: Folder = None, as_json: AsJson = False) -> None:
    """Show how many statements are cited, and citations of use."""
    with _worded():
        from rookery.serve.measuring_answers import citing

        _show(citing(files), out, as_json)


@measure.command()
def ranking(
    triples: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Questions, references, answers; may be repeated."),
    ] = None,
    episodes: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Episodes; may be repeated.")
    ] = None,
    squad: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="SQuAD's; may be repeated.")
    ] = None,
    ranker: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]DIR", help="An encoder; may be repeated."),
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
    kind: Annotated[str, typer.Argument(metavar="stance|point", help="Which ones.")],
) -> None:
    """Print the probe questions, for rookery ask --batch."""
    with _worded():
        from rookery.serve.measuring_answers import probing

        sys.stdout.writelines(question.to_json() + "\n" for question in probing(kind))


@measure.command()
def stance(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Answers to the probes of stance.")],
    out: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show whether answers lean as their questions do."""
    with _worded():
        from rookery.serve.measuring_answers import stances

        _show(stances(file), out, as_json)


@measure.command()
def point(files: Answered, out: Folder = None, as_json: AsJson = False) -> None:
    """Show which place answers take for everybody's."""
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
    """Show how often which command is given, and its tokens."""
    with _worded():
        from rookery.serve.measuring_answers import acted

        _show(acted(files), out, as_json)


@measure.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="With figures, below it, too.")],
) -> None:
    """Write all figures of a folder, and what recipes found, as one page."""
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
