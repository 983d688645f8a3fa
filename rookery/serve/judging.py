"""`rookery judge`: the desk's store, who may come in, what is to be judged, and what came of it.

What is heavy is imported when a command runs.
"""

import getpass
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from rookery.records import Failed, Record
from rookery.serve.command_line import CommandGroup
from rookery.serve.options import AsJson, Batches, DeskStore, OneBatch
from rookery.serve.serving import STORE

if TYPE_CHECKING:
    from rookery.judge.store import Store
    from rookery.judge.work import Item

OF_A_PRELUDE = 500
"""people before whom an attention check is put, where it is not said: more than will ever come"""
ADDRESS = "http://127.0.0.1:8500"
"""of the desk, as `rookery serve desk` opens it"""
BOOTSTRAP = 1000
"""times that items are drawn anew for the intervals of `rookery judge agreement`"""

judge = CommandGroup(help="Have people judge answers: questions in, judgements out.")


@judge.command()
def init(store: DeskStore = "") -> None:
    """Make the desk's store, or bring an older one up to date and keep what is in it."""
    place = _place(store)
    with _worded():
        from rookery.judge.store import init

        if "://" not in place:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
        init(place)
    _out(f"store: {place}")
    _err("next: rookery judge invite NAME --role admin, then rookery serve desk")


@judge.command()
def invite(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Who is invited; the same name is the same person."),
    ],
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="labeller, reviewer, researcher or admin.")
    ] = "labeller",
    days: Annotated[
        float, typer.Option(metavar="NUMBER", min=0, help="Days for which the link works.")
    ] = 7,
    address: Annotated[str, typer.Option(metavar="URL", help="The address of the desk.")] = ADDRESS,
    store: DeskStore = "",
) -> None:
    """Print a link that lets one person in, once."""
    with _opened(store) as desk:
        from rookery.judge.people import ROLES, invite

        if role not in ROLES:
            raise ValueError(f"there is no role {role!r}: use one of {', '.join(ROLES)}")
        token = invite(desk, name, role, _user(), days)
    _out(f"{address.rstrip('/')}/enter/{token}")
    _err(f"lets {name} in as {role}, once, within {days:g} days")


@judge.command("import")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Questions (CSV, JSONL), items (JSONL), what rookery ask --batch wrote (several "
            "are compared), or a folder that rookery judge export wrote.",
        ),
    ],
    form: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="What people fill in: demonstrate, compare, or another form of the manual.",
        ),
    ] = "",
    batch: Annotated[str, typer.Option(metavar="NAME", help="A name for what is imported.")] = "",
    raters: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, help="People who judge each item; without it, one."),
    ] = None,
    priority: Annotated[
        int, typer.Option(metavar="NUMBER", help="Items with a higher one are handed out first.")
    ] = 0,
    prelude: Annotated[
        bool, typer.Option("--prelude", help="Everybody does these first, as a check of attention.")
    ] = False,
    store: DeskStore = "",
) -> None:
    """Hand questions or answers to people to judge: all of a file, or none."""
    if len(files) == 1 and files[0].is_dir():
        with _opened(store) as desk:
            from rookery.judge import snapshots

            taken = snapshots.import_(desk, files[0], _user())
        counted = f"{taken.items:,} items and {taken.judgements:,} judgements"
        _out(f"snapshot {taken.name}: {counted} that were not there")
        return
    if not form or not batch:
        raise ValueError("say what people fill in and what belongs together: --form and --batch")
    wanted = raters or (OF_A_PRELUDE if prelude else 1)
    with _opened(store) as desk:
        from rookery.judge import handout, questions

        read = questions.read_items(files, form, prelude)
        _keep_pages(desk, read.items)
        added = handout.add(desk, read.items, batch, wanted, priority, prelude)
    _out(f"batch {batch}: {added.new:,} new items, each for {wanted:,}; {added.known:,} known")
    _err(*(f"left out: {count:,} {reason}" for reason, count in read.left_out.items()))


@judge.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to.")],
    name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A new snapshot's name, or that of one to write again; without it, the folder's.",
        ),
    ] = "",
    batch: Batches = None,
    form: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this form; may be repeated.")
    ] = None,
    store: DeskStore = "",
) -> None:
    """Freeze what was judged as a snapshot, and write the files that rookery learn reads."""
    with _opened(store) as desk:
        from rookery.judge import snapshots
        from rookery.judge.frozen import Wanted

        name = name or folder.resolve().name
        wanted = Wanted(tuple(batch or ()), tuple(form or ()))
        new = name not in snapshots.frozen_names(desk)
        if new:
            snapshots.freeze(desk, name, wanted, _user())
        found = snapshots.export(desk, name, folder, _user())
    if not new:
        if wanted not in (Wanted(), found.wanted):
            _err(f"--batch and --form change nothing: {name} was frozen without them")
        when = datetime.fromtimestamp(found.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        _err(f"{name} was frozen on {when}: for what there is now, choose another --name")
    _out(*(f"{folder / file}: {told.lines:,} lines" for file, told in found.files.items()))
    _out(f"snapshot {name}: {found.digest}")
    _err(*(f"not learnt from: {count:,} {reason}" for reason, count in found.left_out.items()))


@judge.command()
def stats(batch: OneBatch = None, as_json: AsJson = False, store: DeskStore = "") -> None:
    """Show how much each person judged, how well, and whose work is left out."""
    with _opened(store) as desk:
        from rookery.judge.quality import board
        from rookery.serve import tallies

        found = board(desk, batch)
    _show(found, tallies.stats(found), as_json)


@judge.command()
def agreement(batch: OneBatch = None, as_json: AsJson = False, store: DeskStore = "") -> None:
    """Show how far people agree with researchers and with each other, by form and field."""
    with _opened(store) as desk:
        from rookery.judge.quality import board
        from rookery.serve import tallies

        found = board(desk, batch, BOOTSTRAP)
    _show(found.agreement, tallies.agreement(found), as_json)


def _show(record: Record, lines: Iterable[str], as_json: bool) -> None:
    from rookery.serve.terminal import as_json as written

    if as_json:
        sys.stdout.write(written(record) + "\n")
    else:
        _out(*lines)


def _keep_pages(desk: "Store", items: "Iterable[Item]") -> None:
    """Every page that an answer quotes and that was read on this machine, for people to look at."""
    from rookery.browse.archive import Archive
    from rookery.judge.kept_pages import keep
    from rookery.serve.session import ARCHIVE, data_home

    answers = [answer for item in items for answer in item.answers]
    quotes = {(quote.digest, quote.url) for answer in answers for quote in answer.quotes}
    path = data_home() / ARCHIVE
    if not quotes or not path.exists():
        return
    with Archive(path) as archive:
        pages = [
            archive.page(digest, url) or archive.page(digest) for digest, url in sorted(quotes)
        ]
    with desk.writing() as connection:
        for page in pages:
            if page is not None:
                keep(connection, page)


@contextmanager
def _opened(store: str) -> "Iterator[Store]":
    with _worded():
        from rookery.judge.store import Store

        with Store(_place(store)) as desk:
            yield desk


@contextmanager
def _worded() -> Iterator[None]:
    """What went wrong, as a sentence: all of it is to be mended by whoever gave the command."""
    try:
        yield
    except Failed as failed:
        said = failed.failure
        raise ValueError(f"{said.what}: {said.detail or said.outcome}") from failed
    except ModuleNotFoundError as error:
        sentence = f"the desk needs {error.name}: pip install 'rookery[serve]'"
        raise ValueError(sentence) from error


def _place(store: str) -> str:
    from rookery.serve.session import data_home

    return store or str(data_home() / STORE)


def _user() -> str:
    """Who gives the command, for the book of what was done."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "rookery judge"


def _out(*lines: str) -> None:
    _write(sys.stdout, lines)


def _err(*lines: str) -> None:
    _write(sys.stderr, lines)


def _write(stream: TextIO, lines: Iterable[str]) -> None:
    """Names and reasons come from others: nothing in them commands a terminal."""
    from rookery.serve.terminal import clean

    stream.writelines(f"{clean(line)}\n" for line in lines)
