"""The command line: `rookery ask|browse|cite|doctor`. Everything heavy is imported when used."""

import sys
from errno import ENOSPC
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from rookery import __version__
from rookery.records import Failed
from rookery.serve.exits import ANSWERED, INTERRUPTED, NO_EVIDENCE, USAGE

MISTAKES = {"not_found", "unreadable_file", "unknown_engine", "invalid_url", "unsupported_scheme"}
"""outcomes that are wrong use, and not a world that did not answer"""

app = typer.Typer(
    help="Answers with quotes that anyone can check.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
cite = typer.Typer(help="Quotes: check those of saved answers.", no_args_is_help=True)
app.add_typer(cite, name="cite")

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
Private = Annotated[
    bool, typer.Option("--allow-private", help="Also open addresses of this machine or network.")
]
Proxy = Annotated[bool, typer.Option("--proxy", help="Use the proxy that the environment names.")]


@app.command()
def ask(
    question: Annotated[
        str, typer.Argument(help="The question; - reads it from standard input.")
    ] = "",
    places: Places = None,
    method: Annotated[str, typer.Option(help="How to answer: extract.")] = "extract",
    decline: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Decline answers less likely than this to be right."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="wikipedia, wikipedia:LANGUAGE, searxng:URL, brave or google."),
    ] = "wikipedia",
    offline: Annotated[
        bool, typer.Option("--offline", help="Only what was opened before.")
    ] = False,
    batch: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Answer each question of a JSONL file.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where --batch writes; resumes there.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append the whole episode as a JSON line.")
    ] = None,
    as_json: AsJson = False,
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Answer a question, or a file of them, with verified quotes."""
    from rookery.serve import asking
    from rookery.serve.session import Settings

    if method != "extract":
        _wrong(f"there is no method {method!r} yet: use --method extract")
    if bool(question) == bool(batch) or bool(batch) != bool(out):
        _wrong('give one question, as in rookery ask "Why ...?", or --batch FILE with --out FILE')
    settings = Settings(tuple(places or ()), engine, offline, private, proxy, decline)
    if batch and out:
        asking.batch(settings, batch, out)
        return
    text = sys.stdin.read() if question == "-" else question
    raise typer.Exit(asking.ask(settings, text, as_json, trace))


@app.command()
def browse(
    place: Annotated[str, typer.Argument(metavar="FILE_OR_URL")],
    plain: Annotated[
        bool, typer.Option("--plain", help="The article's text (the default).")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="All text that a reader sees.")] = False,
    as_json: AsJson = False,
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Print a page as Rookery reads it: the text that every quote points into."""
    from rookery.browse.read import plain as text_of
    from rookery.serve.session import Settings, open_page

    if plain + full + as_json > 1:
        _wrong("--plain, --full and --json are three ways to print: choose one")
    page = open_page(place, Settings(private=private, proxy=proxy))
    typer.echo(page.to_json() if as_json else text_of(page, full))


@cite.command()
def verify(
    file: Annotated[
        Path, typer.Argument(help="Saved answers: ours, or Markdown or JSON of others.")
    ],
    pages: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Documents to check against, too.")
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Open sources that are not stored.")
    ] = False,
    as_json: AsJson = False,
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Check every quote of saved answers against the stored pages."""
    from rookery.serve.checking import check
    from rookery.serve.session import Settings

    raise typer.Exit(check(file, pages, fetch, as_json, Settings(private=private, proxy=proxy)))


@app.command()
def doctor(
    engine: Annotated[str, typer.Option(help="The search engine to try.")] = "wikipedia",
    as_json: AsJson = False,
    proxy: Proxy = False,
) -> None:
    """Check search, store, index and the dense ranker one by one, and say what to do."""
    from rookery.serve.doctor import examine

    raise typer.Exit(examine(engine, as_json, proxy))


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def _wrong(sentence: str) -> NoReturn:
    _say(sentence)
    raise typer.Exit(USAGE)


def main() -> None:
    """Run the command line; a user's mistake or a missing thing is a sentence, not a traceback."""
    try:
        app()
    except Failed as failed:
        _say(f"{failed.failure.what}: {failed.failure.detail or failed.failure.outcome}")
        sys.exit(USAGE if failed.failure.outcome in MISTAKES else NO_EVIDENCE)
    except (ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()
            sys.exit(ANSWERED)
        _say(_worded(error))
        sys.exit(USAGE)
    except KeyboardInterrupt:
        _say("stopped; what was finished is kept, and the same command goes on from there")
        sys.exit(INTERRUPTED)


def _worded(error: ValueError | OSError) -> str:
    if isinstance(error, OSError) and error.filename:
        advice = ": make room and run the same command again" if error.errno == ENOSPC else ""
        return f"{error.filename}: {error.strerror}{advice}"
    return str(error)


def _say(sentence: str) -> None:
    typer.echo(f"rookery: {sentence}", err=True)


if __name__ == "__main__":
    main()
