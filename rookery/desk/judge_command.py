"""The command `rookery judge`: the desk's store, invitations, import and export, and reports.

Heavy imports are made when a command runs.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socket import create_connection
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from rookery.errors import Failed
from rookery.records import Page
from rookery.settings import locate_store
from rookery.shell.command_line import (
    EXIT_USAGE,
    CommandGroup,
    get_user_name,
    print_lines,
    print_result,
    translate_failures,
)
from rookery.shell.command_options import (
    BatchesOption,
    DeskStoreOption,
    JsonLinesOption,
    JsonOption,
    OneBatchOption,
    make_argument,
    make_option,
)
from rookery.typed_files import open_named_file
from rookery.written_values import format_count

if TYPE_CHECKING:
    from rookery.desk.forms import LabellingForm, LabellingItem
    from rookery.desk.payment import PaymentReport
    from rookery.desk.projects import ProjectBatch, ProjectSettings, TrialResult
    from rookery.desk.store import Store

MOST_PRELUDE_ITEMS = 500
"""people before whom an attention check is put, where it is not said: more than will ever come"""
DEFAULT_ADDRESS = "http://127.0.0.1:8500"
"""of a desk that was never opened, as `rookery serve desk` opens it"""

FormFiles = Annotated[
    list[Path], make_argument("FILE...  TOML files of forms; - is standard input.")
]
TrialOption = Annotated[
    bool,
    make_option(
        "--trial  People do this batch first, and get no other of the project until they are "
        "admitted."
    ),
]
AddressOption = Annotated[
    str,
    make_option("--address URL  The address of the desk; without it, where it was served last."),
]
DaysOption = Annotated[float, make_option("--days NUMBER  Days for which the link works.", min=0)]
ProjectArgument = Annotated[str, make_argument("PROJECT  The project.")]
NamedOption = Annotated[
    list[str] | None, make_option("--for NAME  Only this person gets items of it; may be repeated.")
]

judge_group = CommandGroup(help="Have people judge answers: questions in, judgements out.")


@judge_group.command("init")
def run_judge_init(store: DeskStoreOption = "", pages: Path | None = None) -> None:
    """Make the desk's store, or bring an older one up to date and keep what is in it.

    --pages FILE  Also copy the pages of an archive into PostgreSQL, once: archive.sqlite in the
        data folder of a server that kept them there.
    """
    place = locate_store(store)
    if pages is not None and "://" not in place:
        raise ValueError("--pages goes with --store postgresql://HOST/DATABASE")
    if pages is not None and not pages.is_file():
        raise ValueError(f"{pages}: there is no such file: name the archive.sqlite of a server")
    with translate_failures("serve", "the desk"):
        from rookery.desk.store import initialize_store
        from rookery.library.page_archive import PageArchive

        if "://" not in place:
            Path(place).parent.mkdir(parents=True, exist_ok=True)
        initialize_store(place)
        if pages is not None:
            with PageArchive(pages) as source, PageArchive(place) as archive:
                _write_error(f"copied: {archive.copy_archive(source):,} versions of pages")
    print_lines([f"store: {place}"])
    _write_error("next: rookery judge invite NAME --role admin, then rookery serve desk")


@judge_group.command("invite")
def run_judge_invite(
    name: str,
    role: str = "",
    days: DaysOption = 7,
    address: AddressOption = "",
    store: DeskStoreOption = "",
) -> None:
    """Print a link that lets one person in, once.

    NAME  Who is invited; the same name is the same person.
    --role ROLE  reader (who asks), labeller (who judges, too), reviewer, researcher or admin (who
        may do all). Without it, the role that the person has, and labeller for a new one.
    """
    with _open_store(store) as desk:
        from rookery.desk.accounts import ROLES, create_invite, list_people

        roles = [] if role else [f"for another role: --role {'|'.join(ROLES)}"]
        role = role or dict(each[:2] for each in list_people(desk)).get(name, "labeller")
        if role not in ROLES:
            raise ValueError(f"there is no role {role!r}: use one of {', '.join(ROLES)}")
        token = create_invite(desk, name, role, get_user_name("rookery judge"), days)
        address = address or _find_address(desk)
    print_lines([f"{address.rstrip('/')}/enter/{token}"])
    _write_error(f"lets {name} in as {role}, once, within {days:g} days", *roles)


def _find_address(desk: "Store") -> str:
    """Return the address at which the desk was served last; say if nothing of this computer
    listens there now."""
    from rookery.desk.accounts import list_audit_entries

    served = [entry.what for entry in list_audit_entries(desk) if entry.action == "serve"]
    at = urlsplit(served[-1] if served else DEFAULT_ADDRESS)
    try:
        if at.hostname in ("127.0.0.1", "localhost", "::1"):
            create_connection((at.hostname, at.port or 80), 1).close()
    except OSError:
        _write_error(f"nothing listens there now: rookery serve --port {at.port or 80} opens it")
    return at.geturl()


@judge_group.command("import")
def run_judge_import(
    files: list[Path],
    form: str = "",
    batch: str = "",
    raters: Annotated[int | None, typer.Option(min=1)] = None,
    priority: int = 0,
    prelude: bool = False,
    project: str = "",
    trial: TrialOption = False,
    named: NamedOption = None,
    store: DeskStoreOption = "",
) -> None:
    """Hand questions or answers to people to judge: all of a file, or none.

    FILE...  Questions (CSV, JSONL), items (JSONL), what rookery ask --batch wrote (several are
        compared), or a folder that rookery judge export wrote.
    --form FORM  What people fill in: demonstrate, compare, or another form (rookery judge form
        list); or the TOML file of your own, which is checked and stored.
    --batch NAME  A name for what is imported.
    --raters NUMBER  People who judge each item; without it, one.
    --priority NUMBER  Items with a higher one are handed out first.
    --prelude  Everybody does these first, as a check of attention.
    --project NAME  The project that a new batch belongs to.
    """
    if len(files) == 1 and files[0].is_dir():
        with _open_store(store) as desk:
            from rookery.desk import snapshots

            imported = snapshots.import_snapshot(desk, files[0], get_user_name("rookery judge"))
        counted = f"{imported.items:,} items and {imported.judgements:,} judgements"
        print_lines([f"snapshot {imported.name}: {counted} that were not there"])
        return
    if not form or not batch:
        raise ValueError("say what people fill in and what belongs together: --form and --batch")
    per_item = raters or (MOST_PRELUDE_ITEMS if prelude else 1)
    with _open_store(store) as desk:
        from rookery.desk import form_versions, item_import, labelling_queue
        from rookery.desk.forms import parse_form_text

        known_forms = {each.name: each for each in form_versions.list_forms(desk)}
        text = _read_form_file(Path(form)) if form.endswith(".toml") else ""
        if text:
            own = parse_form_text(text)
            known_forms[own.name], form = own, own.name
        read = item_import.read_items(files, form, prelude, known_forms)
        if project:  # before the form is stored
            from rookery.desk.projects import load_project

            load_project(desk, project)
        if text:
            form_versions.add_form(desk, text, get_user_name("rookery judge"))
        if project or trial or named:  # before there are items that others could be given
            from rookery.desk.projects import place_imported_batch

            by = get_user_name("rookery judge")
            place_imported_batch(desk, batch, project, by, trial, named or ())
        _keep_pages(desk, read.items)
        added = labelling_queue.add_items(desk, read.items, batch, per_item, priority, prelude)
    print_lines(
        [f"batch {batch}: {added.new:,} new items, each for {per_item:,}; {added.known:,} known"]
    )
    _write_error(*(f"left out: {count:,} {reason}" for reason, count in read.left_out.items()))


@judge_group.command("export")
def run_judge_export(
    folder: Path,
    name: str = "",
    batch: BatchesOption = None,
    form: list[str] | None = None,
    table: bool = False,
    store: DeskStoreOption = "",
) -> None:
    """Freeze what was judged as a snapshot, and write the files that rookery learn reads.

    DIR  The folder to write to.
    --name NAME  A new snapshot's name, or that of one to write again; without it, the folder's,
        with the time where the folder holds that one already.
    --form NAME  Only this form; may be repeated.
    --csv  Also write values.csv: a row for every value given.
    """
    with _open_store(store) as desk:
        from rookery.desk import snapshots
        from rookery.desk.snapshots import SnapshotSelection

        named, names = name, snapshots.list_snapshot_names(desk)
        name = name or folder.resolve().name
        if name in names and not named and (folder / snapshots.MANIFEST_NAME).is_file():
            name = f"{name} {datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        selection = SnapshotSelection(tuple(batch or ()), tuple(form or ()))
        new = name not in names
        if new:
            snapshots.freeze_snapshot(desk, name, selection, get_user_name("rookery judge"))
        snapshot = snapshots.export_snapshot(
            desk, name, folder, get_user_name("rookery judge"), table
        )
    if not new:
        if selection not in (SnapshotSelection(), snapshot.wanted):
            _write_error(f"--batch and --form change nothing: {name} was frozen without them")
        when = datetime.fromtimestamp(snapshot.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        _write_error(f"{name} was frozen on {when}: for what there is now, choose another --name")
    print_lines(
        f"{folder / file}: {description.lines:,} lines"
        for file, description in snapshot.files.items()
    )
    print_lines([f"{folder / 'values.csv'}: every value that was given"] * table)
    print_lines([f"snapshot {name}: {snapshot.digest}"])
    _write_error(
        *(f"not learnt from: {count:,} {reason}" for reason, count in snapshot.left_out.items())
    )


form_group = CommandGroup(help="Labelling forms: TOML files that say what people are asked.")
judge_group.add_typer(form_group, name="form")


@form_group.command("list")
def run_form_list(store: DeskStoreOption = "") -> None:
    """List the forms: those of Rookery, and those that were added to the desk's store."""
    from rookery.desk.forms import FORMS
    from rookery.shell.terminal_output import format_table

    rows = [["form", "answers", "minutes", "versions", "what people are asked"]]
    rows += [[*_format_form(form), "rookery's", form.title] for form in FORMS.values()]
    if store or Path(locate_store(store)).is_file():
        with _open_store(store) as desk:
            from rookery.desk.form_versions import list_form_versions, list_forms

            for form in list_forms(desk)[len(FORMS) :]:
                versions = str(len(list_form_versions(desk, form.name)))
                rows.append([*_format_form(form), versions, form.title])
    print_lines(format_table(rows))


@form_group.command("show")
def run_form_show(name: str, store: DeskStoreOption = "") -> None:
    """Print the TOML file of a form, to be copied and changed.

    NAME  The name of a form.
    """
    from rookery.desk.forms import FORMS, read_packaged_form_text

    if name in FORMS:
        sys.stdout.write(read_packaged_form_text(name))
        return
    with _open_store(store) as desk:
        from rookery.desk.form_versions import list_form_versions, load_form

        load_form(desk, name)
        sys.stdout.write(list_form_versions(desk, name)[0].text)


@form_group.command("check")
def run_form_check(files: FormFiles) -> None:
    """Check the files of forms, and say the first thing that is wrong with each."""
    from rookery.desk.form_versions import parse_own_form

    wrong = 0
    for path in files:
        text = _read_form_file(path)
        try:
            form = parse_own_form(text).form
        except Failed as failed:
            wrong += 1
            _write_error(f"{path}: {failed.failure.detail}")
        else:
            print_lines([f"{path}: {_describe_form(form)}: nothing is wrong"])
    if wrong:
        raise typer.Exit(EXIT_USAGE)


@form_group.command("add")
def run_form_add(files: FormFiles, store: DeskStoreOption = "") -> None:
    """Store forms at the desk, each as a new version of its name; nobody is asked anything yet.

    Look at it there (Board, Forms), then hand items out: rookery judge import --form NAME.
    """
    texts = [(path, _read_form_file(path)) for path in files]
    with _open_store(store) as desk:
        from rookery.desk.form_versions import add_form

        for path, text in texts:
            added = add_form(desk, text, get_user_name("rookery judge"))
            print_lines([f"{path}: {_describe_form(added.form)}: version {added.version}"])


def _read_form_file(path: Path) -> str:
    try:
        with open_named_file(path) as file:
            return file.read().decode()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): check the path") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: save it again as UTF-8") from error


def _format_form(form: "LabellingForm") -> list[str]:
    return [form.name, str(form.answers), str(form.minutes)]


def _describe_form(form: "LabellingForm") -> str:
    counted = [(len(form.steps), "step"), (len(form.fields), "question"), (form.answers, "answer")]
    return f"form {form.name}, " + ", ".join(
        f"{count} {what}{'s' * (count != 1)}" for count, what in counted
    )


@judge_group.command("convert")
def run_judge_convert(source: Path, out: Path, by: str = "import") -> None:
    """Convert comparisons or episodes to the rows of TRL and similar libraries, and such rows back.

    Comparisons become {prompt, chosen, rejected}, steps of episodes {prompt, completion}.

    FILE  JSON lines to convert.
    OUT  The file to write.
    --by NAME  Who judged or wrote the rows of another library.
    """
    with translate_failures("serve", "the desk"):
        from rookery.answers.training_rows import convert_training_file

        written, left_out = convert_training_file(source, out, by)
    print_lines([f"{out}: {written:,} lines"])
    _write_error(*(f"left out: {count:,} {reason}" for reason, count in left_out.items()))


@judge_group.command("project")
def run_judge_project(
    name: str = "",
    config: Path | None = None,
    batch: list[str] | None = None,
    trial: TrialOption = False,
    named: NamedOption = None,
    as_json: JsonOption = False,
    store: DeskStoreOption = "",
) -> None:
    """Make a labelling project or change it, and show its settings, batches and trial.

    NAME  The project; without it, they are listed.
    --config FILE  Settings as TOML; a new project is made, an old one changed.
    --batch NAME  A batch that is part of it; may be repeated.
    """
    if (config or batch or trial or named) and not name:
        raise ValueError("name the project")
    if (trial or named) and not batch:
        raise ValueError("name the batch that it is about: --batch")
    with _open_store(store) as desk:
        from rookery.desk import projects
        from rookery.desk.projects import ProjectSettings

        by = get_user_name("rookery judge")
        settings_by_name = {each.name: each.settings for each in projects.list_projects(desk)}
        if not name:
            print_lines(
                settings_by_name or ["there are no projects: rookery judge project NAME makes one"]
            )
            return
        settings = settings_by_name.get(name, ProjectSettings())
        if config:
            settings = projects.read_project_settings(config, settings)
        if config or name not in settings_by_name:
            projects.save_project(desk, name, settings, by)
        for each in batch or ():
            projects.place_batch(desk, each, name, by, trial, named or ())
        lines = _format_project(
            projects.list_project_batches(desk, name), projects.list_trial_results(desk, name)
        )
        print_result(settings, [*_format_settings(settings), *lines], as_json)


@judge_group.command("admit")
def run_judge_admit(
    project: ProjectArgument, person: str, refuse: str = "", store: DeskStoreOption = ""
) -> None:
    """Admit somebody to a project after its trial, or refuse.

    NAME  Who did its trial.
    --refuse REASON  Do not admit them, and why not.
    """
    with _open_store(store) as desk:
        from rookery.desk.projects import decide_admission

        by = get_user_name("rookery judge")
        decide_admission(desk, project, person, not refuse, refuse, by)
    print_lines([f"{person} is {'not ' * bool(refuse)}admitted to {project}"])


@judge_group.command("link")
def run_judge_link(
    project: ProjectArgument,
    days: DaysOption = 14,
    study: str = "",
    address: AddressOption = "",
    store: DeskStoreOption = "",
) -> None:
    """Print a signed link by which people of Prolific come to work on a project.

    --study ID  Only for this study of the platform.
    """
    with _open_store(store) as desk:
        from rookery.desk.crowd_entry import make_crowd_link

        path = make_crowd_link(desk, project, days, study, get_user_name("rookery judge"))
        address = address or _find_address(desk)
    print_lines([f"{address.rstrip('/')}{path}"])
    _write_error("give it to the platform as the study's link, with its parameters as they are")


@judge_group.command("sessions")
def run_judge_sessions(
    project: ProjectArgument, as_json: JsonLinesOption = False, store: DeskStoreOption = ""
) -> None:
    """List who came from a crowd platform, what they did, and their completion codes."""
    with _open_store(store) as desk:
        from rookery.desk.crowd_entry import list_crowd_sessions

        crowd_sessions = list_crowd_sessions(desk, project)
    from rookery.shell.terminal_output import format_table, to_terminal_json

    if as_json:
        sys.stdout.writelines(f"{to_terminal_json(each)}\n" for each in crowd_sessions)
        return
    if not crowd_sessions:
        _write_error(f"nobody has come to {project} from a platform")
    rows = ["participant,study,session,items,finished,code".split(",")]
    for each in crowd_sessions:
        when, code = "", ""
        if each.ended is not None:
            when = datetime.fromtimestamp(each.ended, UTC).strftime("%Y-%m-%d %H:%M")
            code = each.code
        rows.append([each.participant, each.study, each.session, str(each.items), when, code])
    print_lines(format_table(rows))


@judge_group.command("pay")
def run_judge_pay(
    project: str = "",
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"])] = None,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"])] = None,
    as_csv: bool = False,
    as_json: JsonOption = False,
    store: DeskStoreOption = "",
) -> None:
    """Show the hours of each rater, and what they are owed.

    PROJECT  The project; without it, batches of none.
    --since DATE  The first day that counts, UTC.
    --until DATE  The last day that counts, UTC.
    --csv  Print CSV.
    """
    with _open_store(store) as desk:
        from rookery.desk.payment import build_payment_report, write_payment_csv

        begin = None if since is None else since.replace(tzinfo=UTC).timestamp()
        end = None if until is None else (until.replace(tzinfo=UTC) + timedelta(1)).timestamp()
        report = build_payment_report(desk, project, begin, end)
    if as_csv:
        sys.stdout.write(write_payment_csv(report))
    else:
        print_result(report, _format_payment(report), as_json)


@judge_group.command("stats")
def run_judge_stats(
    batch: OneBatchOption = None, as_json: JsonOption = False, store: DeskStoreOption = ""
) -> None:
    """Count what was judged and what is left out; with --json, print all that the board shows.

    That is how much and how well each person judged, and how far people agree.
    """
    with _open_store(store) as desk:
        from rookery.desk.rater_quality import build_quality_report

        report = build_quality_report(desk, batch)
    where = f"batch {report.batch}" if report.batch else "all batches"
    counted = (
        f"{format_count(report.items, 'item')}, {format_count(report.judgements, 'judgement')}"
    )
    lines = [f"{where}: {counted} that count{'s' * (report.judgements == 1)}"]
    lines += [f"left out: {count:,} {reason}" for reason, count in report.left_out.items()]
    print_result(report, lines, as_json)


def _keep_pages(desk: "Store", items: "Iterable[LabellingItem]") -> None:
    """Every page that an answer quotes and that was read on this machine, or by the servers of this
    store, for people to look at."""
    from rookery.desk.store import store_page
    from rookery.library.page_archive import PageArchive
    from rookery.settings import locate_archive

    answers = [answer for item in items for answer in item.answers]
    quotes = {(quote.digest, quote.url) for answer in answers for quote in answer.quotes}
    pages: list[Page] = []
    for place in {locate_archive(), locate_archive(desk.place)} if quotes else ():
        if isinstance(place, Path) and not place.exists():
            continue
        with PageArchive(place) as archive:
            matches = (
                archive.find_page(digest, url) or archive.find_page(digest)
                for digest, url in sorted(quotes)
            )
            pages += filter(None, matches)
    if pages:
        with desk.begin_write() as connection:
            for page in pages:
                store_page(connection, page)


@contextmanager
def _open_store(store: str) -> "Iterator[Store]":
    with translate_failures("serve", "the desk"):
        from rookery.desk.store import Store

        with Store(locate_store(store)) as desk:
            yield desk


def _write_error(*lines: str) -> None:
    print_lines(lines, sys.stderr)


def _format_settings(settings: "ProjectSettings") -> Iterator[str]:
    """Yield the settings as lines of the TOML file that sets them."""
    from msgspec import json

    for field in settings.__struct_fields__:
        yield f"{field} = {json.encode(getattr(settings, field)).decode()}"


def _format_project(
    batches: "Sequence[ProjectBatch]", results: "Sequence[TrialResult]"
) -> Iterator[str]:
    """Yield lines on the batches of a project and the people in its trial."""
    for batch in batches:
        named = f", for {', '.join(batch.people)}" if batch.people else ""
        yield f"batch {batch.name}{' (trial)' * batch.trial}{named}"
    for each in results:
        progress = f"{each.done} of {each.of} of the trial" if each.of else "no trial"
        state = "waits to be admitted" if each.done >= each.of else "is at the trial"
        if each.decided is not None:
            why = f": {each.decided.reason}" if each.decided.reason else ""
            decision = "admitted" if each.decided.admitted else "refused"
            state = f"{decision} by {each.decided.by}{why}"
        yield f"{each.person}: {progress}, {state}"


def _format_payment(report: "PaymentReport") -> Iterator[str]:
    """Yield lines on the hours and the pay of each rater."""
    from rookery.shell.terminal_output import format_table

    settings = report.settings
    paid = f"{settings.rate:g} {settings.currency} for one {settings.per}" if settings.rate else ""
    name = f"project {report.project}" if report.project else "batches of no project"
    yield f"{name}: {report.seconds / 3600:.2f} hours{', ' * bool(paid)}{paid}"
    rows = ["rater,items,skipped,flagged,excluded,hours,amount".split(",")]
    for each in report.raters:
        counts = map(str, (each.items, each.skipped, each.flagged, each.excluded))
        money = f"{each.amount:.2f}" if paid else ""
        rows.append([each.name, *counts, f"{each.hours:.2f}", money])
    if report.raters:
        yield from ("", *format_table(rows))
    if report.raters and paid:
        yield from ("", f"in all: {report.amount:.2f} {settings.currency}")
