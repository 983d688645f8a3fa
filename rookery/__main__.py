"""The command line: a command for each room. Everything heavy is imported when used."""

import os
import select
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import EDQUOT, EFBIG, ENOSPC
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from rookery import __version__
from rookery.records import Failed
from rookery.serve.command_line import (
    CommandError,
    CommandErrorDetail,
    CommandErrorReport,
    CommandGroup,
    run_command,
)
from rookery.serve.exits import ANSWERED, MISTAKES, NO_EVIDENCE, USAGE
from rookery.serve.indexing import index
from rookery.serve.judging import judge
from rookery.serve.measuring import measure
from rookery.serve.options import (
    AsJson,
    AsLines,
    AtDesk,
    BaseUrl,
    Batch,
    Board,
    BothSides,
    CapMoney,
    CapTokens,
    Config,
    Decline,
    Endpoints,
    Engine,
    Excludes,
    Force,
    Globs,
    Method,
    Model,
    Offline,
    Out,
    Passages,
    Places,
    Private,
    Proxy,
    Quotes,
    Ranker,
    RunFolder,
    Samples,
    Trace,
    Worth,
)
from rookery.serve.serving import serve

if TYPE_CHECKING:
    from rookery.serve.session import Settings

app = CommandGroup()
cite = CommandGroup(help="Check the quotes of saved answers.")
app.add_typer(cite, name="cite")
app.add_typer(index, name="index")
app.add_typer(judge, name="judge")
learn = CommandGroup(help="Train policies, reward models and rankers.")
app.add_typer(learn, name="learn")
app.add_typer(measure, name="measure")
app.add_typer(serve, name="serve")

METHODS = ("extract", "webgpt", "gophercite", "webglm")


@app.command()
def ask(
    question: Annotated[
        str,
        typer.Argument(metavar="QUESTION", help="The question; - reads it from standard input."),
    ] = "",
    places: Places = None,
    globs: Globs = None,
    excludes: Excludes = None,
    method: Method = "extract",
    model: Model = "",
    base_url: BaseUrl = "",
    endpoints: Endpoints = "",
    samples: Samples = None,
    worth: Worth = 0.0,
    cap_tokens: CapTokens = None,
    cap_money: CapMoney = None,
    decline: Decline = None,
    quotes: Quotes = None,
    both_sides: BothSides = False,
    engine: Engine = "wikipedia",
    ranker: Ranker = "",
    offline: Offline = False,
    batch: Batch = None,
    out: Out = None,
    force: Force = False,
    passages: Passages = False,
    trace: Trace = None,
    as_json: AsJson = False,
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Answer a question, or a file of them, with verified quotes.

    Exit code 0: answered. 3: declined. 4: no evidence could be gathered. 5: a quote failed
    verification. 6: a model gave no answer. 2: wrong use.
    """
    from rookery.browse.selection import Selection
    from rookery.serve import asking
    from rookery.serve.models import ModelSettings
    from rookery.serve.session import Settings

    if method not in METHODS:
        _wrong(f"there is no method {method!r}: use one of {', '.join(METHODS)}")
    models = ModelSettings(model, base_url, endpoints, samples, worth, cap_tokens, cap_money)
    if both_sides and (method != "extract" or decline is not None):
        _wrong("--both-sides is a method of its own: leave out --method and --decline")
    if (method == "extract") == bool(models) and not both_sides:
        _wrong(
            "--method webgpt, gophercite or webglm goes with --model and --base-url, or --endpoints"
        )
    if bool(question) == bool(batch) or bool(batch) != bool(out):
        _wrong('give one question, as in rookery ask "Why ...?", or --batch FILE with --out FILE')
    if batch and (trace or as_json or passages):
        _wrong(
            "--trace, --json and --passages are for one question; "
            "--batch writes JSON lines to --out"
        )
    if force and not batch:
        _wrong("--force goes with --batch: it answers all questions again")
    everywhere = tuple(places or ())
    method = "sides" if both_sides else method
    named = (everywhere, engine, offline, private, proxy, decline, method, models, ranker, quotes)
    settings = Settings(*named, selection=Selection(tuple(globs or ()), tuple(excludes or ())))
    if batch and out:
        raise typer.Exit(asking.batch(settings, batch, out, force))
    text = _typed() if question == "-" else question
    raise typer.Exit(asking.ask(settings, text, as_json, trace, passages))


@app.command()
def calibrate(
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Answers that rookery ask --batch wrote; - is standard input."
        ),
    ],
    method: Method = "",
    model: Model = "",
    base_url: BaseUrl = "",
    endpoints: Endpoints = "",
    samples: Samples = None,
    worth: Worth = 0.0,
    ratings: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Ratings by people on the scale "good". Without it an answer is good if it says a '
            "gold answer of its question.",
        ),
    ] = None,
    decline: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            min=0,
            max=1,
            help="Share of the given answers that must be good, for which a threshold is sought.",
        ),
    ] = 0.9,
    as_json: AsJson = False,
) -> None:
    """Find the score below which a model must decline, from saved answers known as good or bad.

    After it, rookery ask --decline keeps its promise for this model and method.
    """
    from rookery.serve.calibrating import calibrate_answers
    from rookery.serve.models import ModelSettings
    from rookery.serve.session import Settings

    if method not in METHODS[1:]:
        _wrong(f"name the answers' --method: one of {', '.join(METHODS[1:])}")
    models = ModelSettings(model, base_url, endpoints, samples, worth)
    settings = Settings(decline=decline, method=method, models=models)
    raise typer.Exit(calibrate_answers(settings, answers, ratings, as_json))


@app.command()
def browse(
    place: Annotated[
        str,
        typer.Argument(
            metavar="[URL|FILE]", help="The page to begin with or to print; - is standard input."
        ),
    ] = "",
    places: Places = None,
    globs: Globs = None,
    excludes: Excludes = None,
    question: Annotated[
        str,
        typer.Option(
            metavar="QUESTION", help="The question to answer; without it you are asked for one."
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Add the finished demonstration to this file, as a JSON line."
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep all pages and search results that were shown in this file."
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="ENGINE",
            help="What searches the web: wikipedia, wikipedia:LANGUAGE, searxng:URL, brave or "
            "google.",
        ),
    ] = "wikipedia",
    plain: Annotated[bool, typer.Option("--plain", help="Print the text of the article.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Print all text that the page shows.")
    ] = False,
    as_json: AsJson = False,
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Search, read, quote and answer in a text browser, or print a page as Rookery reads it."""
    from rookery.browse.selection import Selection
    from rookery.serve.session import Settings

    selection = Selection(tuple(globs or ()), tuple(excludes or ()))
    settings = Settings(
        tuple(places or ()), engine, private=private, proxy=proxy, selection=selection
    )
    if plain or full or as_json or place == "-" or not sys.stdout.isatty():
        if plain + full + as_json > 1:
            _wrong("--plain, --full and --json are three ways to print: choose one")
        if places or question or out or record:
            _wrong("--in, --question, --out and --record are for the text browser in a terminal")
        if not place:
            _wrong("name FILE_OR_URL to print; the text browser itself needs a terminal")
        _print_page(place, settings, full, as_json)
        return
    from rookery.serve import browsing

    raise typer.Exit(browsing.browse(place, settings, question, out, record))


def _print_page(place: str, settings: "Settings", full: bool, as_json: bool) -> None:
    """The text that every quote points into."""
    from rookery.browse.read import plain
    from rookery.serve import terminal
    from rookery.serve.session import open_page

    page = open_page(place, settings)
    text = terminal.as_json(page) if as_json else terminal.harmless(plain(page, full))
    sys.stdout.write(text + "\n")


@cite.command()
def verify(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Saved answers: of rookery ask, or Markdown or JSON of other tools; - is standard "
            "input.",
        ),
    ],
    pages: Annotated[
        str, typer.Option(metavar="DIR", help="Also check against the documents in this folder.")
    ] = "",
    fetch: Annotated[bool, typer.Option("--fetch", help="Open every source as it is now.")] = False,
    elided: Annotated[
        bool,
        typer.Option(
            "--allow-elided",
            help="Accept quotations with an ellipsis where what is left out holds no negation, "
            "number or name.",
        ),
    ] = False,
    as_json: AsLines = False,
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Check every quote of saved answers against the stored pages."""
    from rookery.browse.places import path_of
    from rookery.serve.checking import check
    from rookery.serve.session import Settings

    settings = Settings(private=private, proxy=proxy)
    folder = path_of(pages) if pages else None
    raise typer.Exit(check(file, folder, fetch, as_json, settings, elided))


def _learn(what: str) -> Callable[[Path, Path | None, bool, bool], None]:
    def command(
        config: Config, out: RunFolder = None, as_json: AsJson = False, board: Board = False
    ) -> None:
        _lesson(what, config, out, as_json, board)

    return command


def _lesson(
    what: str, config: Path, out: Path | None, as_json: bool, board: bool, desk: str = ""
) -> NoReturn:
    from rookery.serve.learning import learn

    try:
        code = learn(what, config, out, as_json, board, desk)
    except Failed as failed:  # the file, the data, the model or the machine is to be mended
        _wrong(_told(failed))
    raise typer.Exit(code)


LESSONS = {
    "imitate": "Train a policy to imitate demonstrations (behaviour cloning).",
    "prefer": "Train a reward model from comparisons.",
    "retrieve": "Train an encoder that ranks passages by how much answers use them.",
}
for _what, _help in LESSONS.items():
    learn.command(_what, help=_help)(_learn(_what))


@learn.command()
def reinforce(
    config: Config,
    out: RunFolder = None,
    desk: AtDesk = "",
    as_json: AsJson = False,
    board: Board = False,
) -> None:
    """Train a policy by reinforcement, with a reward model or people at a desk."""
    _lesson("reinforce", config, out, as_json, board, desk)


@learn.command()
def example(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to.")],
) -> None:
    """Write a tiny model, data, and the settings of each kind of training, to try them out."""
    from rookery.serve.example import write_example

    try:
        written = write_example(folder)
    except Failed as failed:
        _wrong(_told(failed))
    for config in written:
        typer.echo(shlex.join(["rookery", "learn", config.stem, "--config", str(config)]))


@app.command()
def doctor(
    engine: Annotated[
        str,
        typer.Option(
            metavar="ENGINE",
            help="The search engine to try, which then counts for the exit code; without it, "
            "Wikipedia is tried and only warned of.",
        ),
    ] = "",
    model: Model = "",
    base_url: BaseUrl = "",
    endpoints: Endpoints = "",
    as_json: AsLines = False,
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Check store, index, answers, search, model and ranker one by one, and say what to do.

    Exit code 0: your own documents are answered from, and what you name here works. 4: not so.
    """
    from rookery.serve.doctor import examine
    from rookery.serve.models import ModelSettings

    models = ModelSettings(model, base_url, endpoints)
    raise typer.Exit(examine(engine, models, as_json, private, proxy))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Answer questions with quotes that anyone can check."""


def _typed() -> str:
    """Standard input as far as a question may go, and a little further, so that it is refused."""
    return sys.stdin.buffer.read(1_000_000).decode("utf-8", "replace")


def _told(failed: Failed) -> str:
    return f"{failed.failure.what}: {failed.failure.detail or failed.failure.outcome}"


def _wrong(sentence: str) -> NoReturn:
    raise CommandError(sentence)


class Stopped(BaseException):
    """Ctrl-C or a request to end. Not a KeyboardInterrupt, which the command-line library would
    answer itself."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main() -> None:
    """Run the command line; a user's mistake or a missing thing is a sentence, not a traceback.

    A reader that closes the pipe has read enough: that ends quietly, with exit code 0.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    _write_anything()
    try:
        code = _exit_code(sys.argv[1:])
    except BrokenPipeError:
        code = ANSWERED
    _forget_output()
    sys.exit(code)


def _exit_code(arguments: Sequence[str]) -> int:
    """Run the command to its end. Raises BrokenPipeError where nobody reads its output."""
    try:
        code = run_command(app, arguments)
        sys.stdout.flush()  # a pipe or disk that does not take it is noticed here
        return code
    except CommandError as error:
        return _failed(str(error), error.exit_code)
    except Failed as failed:
        mistaken = failed.failure.outcome in MISTAKES
        return _failed(_told(failed), USAGE if mistaken else NO_EVIDENCE)
    except (ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError) and not _has_readers():
            raise
        return _failed(_worded(error), USAGE)
    except Stopped as stopped:
        sentence = "stopped; what was finished is kept, and the same command goes on from there"
        return _failed(sentence, 128 + stopped.number)


def _failed(sentence: str, code: int) -> int:
    """Say what went wrong, with --json also where a program reads it; gives the exit code."""
    from rookery.serve.terminal import as_json, clean

    with suppress(OSError):
        sys.stderr.write(f"rookery: {clean(sentence)}\n")
    if "--json" in sys.argv[1:]:
        with suppress(OSError):
            report = CommandErrorReport(CommandErrorDetail(clean(sentence), code))
            sys.stdout.write(as_json(report) + "\n")
            sys.stdout.flush()
    return code


def _has_readers() -> bool:
    """Whether somebody still reads both streams: another pipe may break, as that of a worker."""
    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream.fileno(), select.POLLOUT)
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _stop(number: int, _: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # the files are being closed: once is enough
    raise Stopped(number)


def _write_anything() -> None:
    """Pages hold characters that not every terminal and no encoding has; a stream may be closed."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(
                encoding=None if stream.isatty() else "utf-8", errors="backslashreplace"
            )


def _forget_output() -> None:
    """What could not be written is not tried again at the end of the process."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _worded(error: ValueError | OSError) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    advice = ": make room and run the same command again"
    full = error.errno in (ENOSPC, EDQUOT, EFBIG)
    return f"{error.filename or 'writing'}: {error.strerror}{advice * full}"


if __name__ == "__main__":
    main()
