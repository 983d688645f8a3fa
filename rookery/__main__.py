"""The `rookery` command. Commands import what they need when they run, so that help is fast."""

import os
import select
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from errno import EDQUOT, EFBIG, ENOSPC
from io import TextIOWrapper
from pathlib import Path
from traceback import walk_stack
from typing import Annotated, Any

import msgspec
import typer

from rookery.cli.index_command import index_commands
from rookery.cli.measure_command import measure_group
from rookery.cli.models_command import models_commands
from rookery.cli.serve_command import serve_group
from rookery.desk.judge_command import judge_group
from rookery.errors import USER_ERROR_OUTCOMES, Failed
from rookery.settings import COMPLETION_FIELDS, Settings, get_data_folder, is_local_model
from rookery.shell.command_line import (
    EXIT_ANSWERED,
    EXIT_NO_EVIDENCE,
    EXIT_USAGE,
    CommandError,
    CommandErrorDetail,
    CommandErrorReport,
    CommandGroup,
    StopSignal,
    format_failure,
    print_lines,
    run_command,
    translate_failures,
)
from rookery.shell.command_options import (
    ENDPOINT_OPTIONS,
    NETWORK_OPTIONS,
    PLACE_OPTIONS,
    SETTINGS_OPTIONS,
    JsonLinesOption,
    JsonOption,
    add_settings_options,
    make_option,
    require_known_method,
)
from rookery.text_escaping import replace_control_characters, sanitize_text
from rookery.version import __version__

app = CommandGroup()
cite = CommandGroup(help="Check the quotes of saved answers, and write reports.")
app.add_typer(cite, name="cite")
app.add_typer(index_commands, name="index")
app.add_typer(judge_group, name="judge")
learn = CommandGroup(help="Train policies, reward models and rankers.")
app.add_typer(learn, name="learn")
app.add_typer(measure_group, name="measure")
app.add_typer(models_commands, name="models")
app.add_typer(serve_group, name="serve")


@app.command("ask")
@add_settings_options(*SETTINGS_OPTIONS, method="")
def run_ask(
    words: list[str] | None = None,
    settings: Settings = Settings(),
    write: bool = False,
    both_sides: bool = False,
    batch: Path | None = None,
    out: Path | None = None,
    force: bool = False,
    workers: Annotated[int, typer.Option(min=0)] = 0,
    ray: str = "",
    passages: bool = False,
    trace: Path | None = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question, or a file of them, with verified quotes.

    A score says how sure it is that the first quote answers: high is certain (0.75 or more of 1),
    middle and low are possible answers. In a terminal, words that seem to answer are bold.

    Exit code 0: answered. 3: declined. 4: no evidence could be gathered. 5: a quote failed
    verification. 6: a model gave no answer. 2: wrong use.

    [QUESTION...]  The question, in quotes or not; - reads it from standard input.
    --write  Have a model on this machine put the answer into words: --method webglm with --model
        or, without it, a model that rookery models add added, smollm2 before others, which takes
        some ten seconds on one core. A sentence that no quote supports is taken out: in 16 of 31
        answers measured nothing was left, and the quotes stood. The last lines then say why.
    --both-sides  Show what speaks for, and apart from it what speaks against, the claim that the
        question assumes, by --model or by the evidence model of --ranker DIR.
    --batch FILE  Answer a file of questions, one a line as {"id": "1", "text": "Why ...?"}, or a
        file of ELI5, Natural Questions, TriviaQA, KILT or SQuAD; - is standard input.
    --out FILE  Where --batch writes, a JSON line for each question; goes on there where an earlier
        run with the same settings stopped. - is standard output.
    --force  With --batch: answer all again, in place of what is in --out.
    --workers NUMBER  With --batch: processes that answer; 0: one for each processor.
    --ray ADDRESS  With --batch: answer on the machines of a Ray cluster, such as auto or HOST:6379.
    --passages  Also show what was searched and found, and why the answer was chosen or declined.
    --trace FILE  Append all that was done for the answer to this file, as a JSON line.
    """
    from rookery.cli import ask_command
    from rookery.models.installed_models import choose_writing_model

    words, models = words or [], settings.models
    if len(words) > 1 and any(" " in word or Path(word).is_file() for word in words):
        raise CommandError(f"give one question, and --in before each place: {shlex.join(words)}")
    question = " ".join(words)
    if write:
        server = models.base_url or models.endpoints
        if settings.method not in ("", "extract", "webglm") or both_sides or server:
            raise CommandError(
                "--write is --method webglm with a model on this machine: leave out --method, "
                "--both-sides, --base-url and --endpoints"
            )
        name = models.model or choose_writing_model(get_data_folder())
        models = msgspec.structs.replace(models, model=name)
        settings = msgspec.structs.replace(settings, method="webglm", models=models)
    if not both_sides:
        settings = require_known_method(settings)
    elif settings.method not in ("", "extract") or settings.decline is not None:
        raise CommandError("--both-sides is a method of its own: leave out --method and --decline")
    else:
        settings = msgspec.structs.replace(settings, method="sides")
    if bool(question) == bool(batch) or bool(batch) != bool(out):
        raise CommandError(
            'give one question, as in rookery ask "Why ...?", or --batch FILE with --out FILE'
        )
    if batch and (trace or as_json or passages):
        raise CommandError(
            "--trace, --json and --passages are for one question; "
            "--batch writes JSON lines to --out"
        )
    if (force or workers or ray) and not batch:
        raise CommandError("--force, --workers and --ray go with --batch, a file of questions")
    if batch and out:
        raise typer.Exit(ask_command.run_batch_command(settings, batch, out, force, workers, ray))
    if question == "-":  # at most 1 MB; a longer one is refused later
        question = sys.stdin.buffer.read(1_000_000).decode("utf-8", "replace")
    raise typer.Exit(ask_command.run_ask_command(settings, question, as_json, trace, passages))


@app.command("calibrate")
@add_settings_options(
    *PLACE_OPTIONS,
    "ranker",
    "method",
    *ENDPOINT_OPTIONS,
    "samples",
    "choose_by",
    "reward",
    *COMPLETION_FIELDS,
    method="",
)
def run_calibrate(
    answers: Path | None = None,
    settings: Settings = Settings(),
    ratings: Path | None = None,
    decline: Annotated[float, typer.Option(min=0, max=1)] = 0.9,
    as_json: JsonOption = False,
) -> None:
    """Make scores mean something: for documents with --in, for a model with saved answers.

    With --in, the evidence model is asked about headings and sentences of the documents, and
    rookery ask shows probabilities for them. With FILE, the score is found below which a model must
    decline, from saved answers known as good or bad, for rookery ask --decline.

    [FILE]  Answers of a model that rookery ask --batch wrote; - is standard input. Without it, the
        documents of --in are asked questions made from them.
    --ratings FILE  Ratings by people on the scale "good". Without it an answer is good if it says a
        gold answer of its question.
    --decline NUMBER  Share of the given answers that must be good, for which a threshold is sought.
    """
    from rookery.answers.methods import MODEL_METHODS
    from rookery.cli.calibrate_command import calibrate_answers, calibrate_documents

    if (answers is None) == (not settings.places):
        raise CommandError(
            "give documents with --in PATH_OR_URL, or a FILE of saved answers with --method"
        )
    if answers is None:
        raise typer.Exit(calibrate_documents(settings, as_json))
    if settings.method not in MODEL_METHODS:
        raise CommandError(f"name the answers' --method: one of {', '.join(MODEL_METHODS)}")
    if settings.method == "webglm" and is_local_model(settings.models):
        raise CommandError(
            "webglm with a model on this machine declines as extract does, and has its scores: "
            "calibrate them on the documents, with --in PATH_OR_URL"
        )
    settings = msgspec.structs.replace(settings, decline=decline)
    raise typer.Exit(calibrate_answers(settings, answers, ratings, as_json))


@app.command("browse")
@add_settings_options(*PLACE_OPTIONS, "engine", *NETWORK_OPTIONS)
def run_browse(
    place: str = "",
    settings: Settings = Settings(),
    question: str = "",
    plain: bool = False,
    full: bool = False,
    as_json: JsonOption = False,
) -> None:
    """Search, read and quote in a text browser, or print a page as Rookery reads it.

    [URL|FILE]  The page to begin with or to print; - is standard input.
    --question QUESTION  A question; pages that give it away are hidden, as from a model.
    --plain  Print the text of the article.
    --full  Print all text that the page shows.
    """
    if plain or full or as_json or place == "-" or not sys.stdout.isatty():
        if plain + full + as_json > 1:
            raise CommandError("--plain, --full and --json are three ways to print: choose one")
        if settings.places or question:
            raise CommandError("--in and --question are for the text browser in a terminal")
        if not place:
            raise CommandError("name FILE_OR_URL to print; the text browser needs a terminal")
        _print_page(place, settings, full, as_json)
        return
    from rookery.cli import browse_command

    raise typer.Exit(browse_command.run_browse_command(place, settings, question))


def _print_page(place: str, settings: "Settings", full: bool, as_json: bool) -> None:
    """Print a page's text, which quotes point into, or the page as JSON."""
    from rookery.pages.page_text import join_visible_text
    from rookery.shell import terminal_output
    from rookery.shell.file_reading import open_page

    page = open_page(place, settings)
    if as_json:
        text = terminal_output.to_terminal_json(page)
    else:
        text = replace_control_characters(join_visible_text(page, full))
    sys.stdout.write(text + "\n")


@cite.command("verify")
@add_settings_options("ranker", *NETWORK_OPTIONS)
def run_verify(
    file: Path,
    pages: str = "",
    fetch: bool = False,
    support: bool = False,
    as_json: JsonLinesOption = False,
    settings: Settings = Settings(),
) -> None:
    """Check every quote of saved answers against the stored pages.

    FILE  Saved answers: of rookery ask, or Markdown or JSON of other tools; - is standard input.
    --pages DIR  Also check against the documents in this folder.
    --fetch  Open every source as it is now.
    --support  Also say of each claim whether what it cites supports it, refutes it or neither.
    """
    from rookery.library.libraries import resolve_place_path
    from rookery.shell.answer_verification import run_verify_command

    folder = resolve_place_path(pages) if pages else None
    raise typer.Exit(run_verify_command(file, folder, fetch, as_json, settings, support))


@cite.command("report")
def run_report(file: Path, out: Path, title: str = "", pages: str = "") -> None:
    """Write saved answers as one report with their quotes, checked again, and their sources.

    FILE  Saved answers: one object of rookery ask --json, or one a line; - is standard input.
    --out FILE  The report: a new .html, .md or .docx file.
    --title TITLE  Title of the report, in place of a count.
    --pages DIR  Also check against the documents in this folder.
    """
    from rookery.cli.report_command import run_report_command
    from rookery.library.libraries import resolve_place_path

    folder = resolve_place_path(pages) if pages else None
    raise typer.Exit(run_report_command(file, out, title, folder))


RunFolderOption = Annotated[
    Path | None, make_option("--out DIR  The folder of the run; a run that stopped there goes on.")
]


def _run_training(what: str, config: Path, out: Path | None, as_json: bool, desk: str = "") -> None:
    from rookery.cli.learn_command import run_learn

    with translate_failures():
        raise typer.Exit(run_learn(what, config, out, as_json, desk))


TRAINING_COMMANDS = {
    "imitate": "Train a policy to imitate demonstrations (behaviour cloning).",
    "prefer": "Train a reward model from comparisons.",
    "retrieve": "Train an encoder that ranks passages by how much answers use them.",
}


def _add_training_command(what: str, help: str) -> None:
    @learn.command(what, help=help)
    def run_learn(config: Path, out: RunFolderOption = None, as_json: JsonOption = False) -> None:
        """Train as the file says.

        --config FILE  The settings of the training, in TOML. The page reference/settings.md of the
            documentation has every key.
        """
        _run_training(what, config, out, as_json)


for _what, _help in TRAINING_COMMANDS.items():
    _add_training_command(_what, _help)


@learn.command("reinforce")
def run_reinforce(
    config: Path, out: RunFolderOption = None, desk: str = "", as_json: JsonOption = False
) -> None:
    """Train a policy by reinforcement, with a reward model or people at a desk.

    --config FILE  The settings of the training, in TOML. The page reference/settings.md of the
        documentation has every key.
    --desk STORE  The desk's store, a file or postgresql://HOST/DATABASE. People at the desk compare
        samples if the settings have [labels], and anyone there may stop the run.
    """
    _run_training("reinforce", config, out, as_json, desk)


@learn.command("evaluate")
def run_evaluate(
    config: Path, model: str, out: Path | None = None, as_json: JsonOption = False
) -> None:
    """Measure a policy on held-out questions, beside the one that its training began with.

    --config FILE  The settings of rookery learn reinforce, in TOML.
    --model DIR  The policy to try, such as RUN/model.
    --out DIR  Where the episodes are kept; else the folder evaluation of the run.
    """
    from rookery.cli.learn_command import run_evaluation

    with translate_failures():
        raise typer.Exit(run_evaluation(config, model, out, as_json))


@learn.command("example")
def run_example(folder: Path) -> None:
    """Write a tiny model, data, and the settings of each kind of training, to try them out.

    DIR  The folder to write to.
    """
    from rookery.cli.learn_example import write_example

    with translate_failures():
        written = write_example(folder)
    for config in written:
        typer.echo(shlex.join(["rookery", "learn", config.stem, "--config", str(config)]))


@app.command("doctor")
@add_settings_options(*ENDPOINT_OPTIONS, "private", "proxy", "contact", *COMPLETION_FIELDS)
def run_doctor(
    engine: str = "", settings: Settings = Settings(), as_json: JsonLinesOption = False
) -> None:
    """Check store, index, answers, search, Chromium, model and ranker, and say what to repair how.

    Exit code 0: your documents give answers, and what you name here works. 4: otherwise.

    --engine ENGINE  The search engine to try, which then counts for the exit code; without it, auto
        is tried and only warned of.
    """
    from rookery.cli.doctor_command import run_doctor_command

    raise typer.Exit(run_doctor_command(settings, engine, as_json))


def _print_version(show: bool) -> None:
    if show:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _run_root(
    version: Annotated[
        bool, make_option("--version  Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Answer questions with quotes that anyone can check."""


def main() -> None:
    """Run the command line and exit; errors of use are printed as a sentence without a traceback.

    Exits quietly with code 0 where the reader of a pipe has closed it.
    """
    _accept_any_character()
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _raise_stop_signal)
        code = _run_to_exit_code(sys.argv[1:])
    except BrokenPipeError:
        code = EXIT_ANSWERED
    _discard_unwritten_output()
    sys.exit(code)


def _run_to_exit_code(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. Raises BrokenPipeError where its reader has left."""
    try:
        try:
            code = run_command(app, arguments)
        finally:
            if _deferred_stops:  # until an import ends, which has ended meanwhile
                signal.setitimer(signal.ITIMER_REAL, 0)
                raise StopSignal(_deferred_stops[0])
        sys.stdout.flush()  # raises here where a pipe or disk does not take the output
        return code
    except CommandError as error:
        return _report_error(str(error), error.exit_code)
    except Failed as failed:
        mistaken = failed.failure.outcome in USER_ERROR_OUTCOMES
        return _report_error(format_failure(failed), EXIT_USAGE if mistaken else EXIT_NO_EVIDENCE)
    except (ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError) and not _has_readers():
            raise
        return _report_error(_format_error(error), EXIT_USAGE)
    except StopSignal as stopped:
        # --force begins anew
        again = "" if "--force" in arguments else ", and the same command goes on from there"
        return _report_error(f"stopped; what was finished is kept{again}", 128 + stopped.number)


def _report_error(sentence: str, code: int) -> int:
    """Print an error to standard error, with --json also as JSON to standard output.

    Returns the exit code.
    """
    from rookery.shell.terminal_output import to_terminal_json

    with suppress(OSError):
        print_lines([f"rookery: {sentence}"], sys.stderr)
    if "--json" in sys.argv[1:]:
        with suppress(OSError):
            report = CommandErrorReport(CommandErrorDetail(sanitize_text(sentence), code))
            typer.echo(to_terminal_json(report))
    return code


def _has_readers() -> bool:
    """Return True if standard output and error are still read: a worker's pipe may have broken."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream.fileno(), select.POLLOUT)
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


_deferred_stops: list[int] = []
"""numbers of signals that came within an import"""


def _raise_stop_signal(number: int, frame: Any, waits: int = 250) -> None:
    """Raise StopSignal; within an import only after it, or after 5 s.

    An extension module that is interrupted while it loads fails as if it were broken, or loads on.
    """
    signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the closing of files
    frames = [each.f_code.co_filename for each, _ in walk_stack(frame)]
    if not waits or "<frozen importlib._bootstrap>" not in frames:
        _deferred_stops.clear()  # a command may say of it what was kept
        raise StopSignal(number)
    _deferred_stops.append(number)
    signal.signal(signal.SIGALRM, lambda _, later: _raise_stop_signal(number, later, waits - 1))
    signal.setitimer(signal.ITIMER_REAL, 0.02)


def _accept_any_character() -> None:
    """Make the output streams escape what they cannot encode, and replace closed ones by null."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for each in (sys.stdout, sys.stderr):
        if isinstance(each, TextIOWrapper):
            each.reconfigure(encoding=None if each.isatty() else "utf-8", errors="backslashreplace")


def _discard_unwritten_output() -> None:
    """Discard buffered output that cannot be written, so that Python does not try again at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _format_error(error: ValueError | OSError) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    full = error.errno in (ENOSPC, EDQUOT, EFBIG)
    advice = ": make room and run the same command again" * full
    return f"{error.filename or 'writing'}: {error.strerror}{advice}"


if __name__ == "__main__":
    main()
