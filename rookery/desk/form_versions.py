"""Labelling forms that people wrote themselves, stored from TOML files, and the guides to all
forms: instructions in Markdown. Every version of both is kept.

A judgement names the digest of the version that it was given on, and is read with that version. A
form keeps its name and its number of answers; everything else may change from version to version.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select

from rookery.desk import tables
from rookery.desk.accounts import write_audit_entry
from rookery.desk.forms import FORMS, FormFile, LabellingForm, LabellingItem, parse_form_file
from rookery.desk.item_import import find_item_problems
from rookery.desk.store import Store, take_advisory_lock
from rookery.desk.tables import forms, items
from rookery.errors import Failed, Outcome
from rookery.records import Failure, Record


class FormVersion(Record, frozen=True):
    """One version of a form that people wrote: a line of forms.jsonl."""

    name: str
    version: int
    """counted from 1"""
    form: LabellingForm
    text: str
    """the TOML file as it was given"""
    by: str
    at: float
    """seconds since 1970, UTC"""


def parse_own_form(text: str) -> FormFile:
    """Return the form and guide of a file that somebody wrote. Raises Failed: bad_form, taken."""
    found = parse_form_file(text)
    if found.form.name in FORMS:
        detail = f'"{found.form.name}" is a form of Rookery\'s: give yours another name'
        raise Failed(Failure(found.form.name, Outcome.TAKEN, detail))
    return found


def add_form(store: Store, text: str, by: str) -> FormVersion:
    """Store the form that a TOML text defines as the newest version of its name.

    A text equal to the newest version adds none. Raises Failed: bad_form, taken (a form that comes
    with Rookery has the name) or in_use (items wait for the form that would not suit it any more).
    """
    form = parse_own_form(text).form
    with store.begin_write() as connection:
        take_advisory_lock(connection, f"form {form.name}")
        newest = _find_newest_row(connection, form.name)
        if newest is not None and newest.text == text:
            return _make_version(newest)
        if newest is not None:
            _check_waiting_items(connection, form, LabellingForm.from_json(newest.body))
        number = newest.version + 1 if newest is not None else 1
        version = FormVersion(form.name, number, form, text, by, store.clock())
        _insert_version(connection, version)
        write_audit_entry(connection, by, "form", f"{form.name}, version {number}", version.at)
    return version


def load_form(store: Store, name: str, digest: str = "") -> LabellingForm:
    """Return the version of a form with this digest, else the newest. Raises Failed (no_form).

    Of the forms that come with Rookery only the newest version is there.
    """
    if name in FORMS:
        return FORMS[name]
    with store.begin_read() as connection:
        body = connection.scalar(
            select(forms.c.body).where(forms.c.name == name, forms.c.digest == digest).limit(1)
        )
        if body is None:
            newest = _find_newest_row(connection, name)
            body = None if newest is None else newest.body
        if body is None:
            names = connection.scalars(select(forms.c.name).distinct())
            detail = f"there is no such form: name one of {', '.join([*FORMS, *sorted(names)])}"
            raise Failed(Failure(name, Outcome.NO_FORM, detail))
    return LabellingForm.from_json(body)


def list_forms(store: Store) -> list[LabellingForm]:
    """Return the newest version of every form: those of Rookery, then others in order of name."""
    with store.begin_read() as connection:
        known = index_forms(read_form_versions(connection))
    return [form for key, form in known.items() if key == form.name]


def list_form_versions(store: Store, name: str) -> list[FormVersion]:
    """Return every version of a form that people wrote, newest first; empty: there is none."""
    with store.begin_read() as connection:
        return read_form_versions(connection, name)[::-1]


def read_form_versions(connection: Connection, name: str | None = None) -> list[FormVersion]:
    """Return all versions of the forms that people wrote, or of one, by name and number."""
    query = select(forms).order_by(forms.c.name, forms.c.version)
    if name is not None:
        query = query.where(forms.c.name == name)
    return [_make_version(row) for row in connection.execute(query)]


def index_forms(versions: Iterable[FormVersion]) -> Mapping[str, LabellingForm]:
    """Return the forms of Rookery and these by name (the newest version) and by digest (any).

    `versions` are in order of their numbers.
    """
    known = dict(FORMS)
    for each in versions:
        known |= {each.name: each.form, each.form.digest: each.form}
    return known


def restore_form_versions(store: Store, versions: Sequence[FormVersion]) -> int:
    """Store exported versions that are not here, and return their number.

    Raises Failed (already) if a form of the same name has other versions here: judgements of the
    two could not be told apart.
    """
    new = 0
    with store.begin_write() as connection:
        for name in dict.fromkeys(each.name for each in versions):
            take_advisory_lock(connection, f"form {name}")
            stored = read_form_versions(connection, name)
            exported = [each for each in versions if each.name == name]
            if any(one.form != other.form for one, other in zip(stored, exported, strict=False)):
                detail = "another form here has this name: import into a store of its own"
                raise Failed(Failure(name, Outcome.ALREADY, detail))
            for each in exported[len(stored) :]:
                _insert_version(connection, each)
                new += 1
    return new


def _check_waiting_items(
    connection: Connection, form: LabellingForm, before: LabellingForm
) -> None:
    """Raise Failed (in_use) if items that were queued for a form do not suit its new version."""
    of_form = items.c.form == form.name
    number = connection.scalar(select(func.count()).select_from(items).where(of_form)) or 0
    if number and form.answers != before.answers:
        detail = (
            f"{number:,} items have the {before.answers} answers of the version before, and this "
            f"one has {form.answers}: give it another name"
        )
        raise Failed(Failure(form.name, Outcome.IN_USE, detail))
    query = select(items.c.body).where(of_form)
    if (form.trusted, form.decides) == (before.trusted, before.decides):
        # Then only right answers that were given in advance can be wrong.
        query = query.where(items.c.gold)
    for body in connection.scalars(query):
        item = LabellingItem.from_json(body)
        for problem in find_item_problems(item, {form.name: form}):
            detail = f"an item of it would not suit this version any more: {problem}"
            raise Failed(Failure(form.name, Outcome.IN_USE, detail))


def _find_newest_row(connection: Connection, name: str) -> Row[Any] | None:
    query = select(forms).where(forms.c.name == name).order_by(forms.c.version.desc())
    return connection.execute(query.limit(1)).first()


def _make_version(row: Row[Any]) -> FormVersion:
    form = LabellingForm.from_json(row.body)
    return FormVersion(row.name, row.version, form, row.text, row.by, row.at)


def _insert_version(connection: Connection, version: FormVersion) -> None:
    row = {name: getattr(version, name) for name in ("name", "version", "text", "by", "at")}
    row |= {"body": version.form.to_json(), "digest": version.form.digest}
    connection.execute(insert(forms).values(row))


PACKAGED_AUTHOR = "rookery"
"""author of the guides that come with Rookery"""
FORM_FILE_AUTHOR = "the form's file"
"""author of the guides that stand in the files of people's own forms"""
NO_GUIDE_TEXT = "Nobody has written a guide to this form yet.\n"
"""guide of a form whose file has none"""
MAX_GUIDE_CHARACTERS = 50_000
"""maximum characters of a guide"""


class LabellingGuide(Record, frozen=True):
    """One version of the instructions for a form."""

    form: str
    version: int
    """counted from 1"""
    text: str
    """Markdown"""
    by: str
    at: float
    """seconds since 1970, UTC"""


def load_guide(store: Store, form: str) -> LabellingGuide:
    """Return the newest guide of a form. Raises Failed (no_form).

    The guide that comes with the form, in Rookery or in the form's file, is stored as a version
    when it is first read, and again when another text comes, unless people have written their own;
    a stored version never changes.
    """
    packaged, author = _read_form_guide(store, form)
    with store.begin_read() as connection:
        newest = _find_newest_version(connection, form)
    if newest is not None and (newest.by != author or newest.text == packaged):
        return newest
    return _add_version(store, form, packaged, author)


def write_guide(store: Store, form: str, text: str, by: str) -> LabellingGuide:
    """Store a text as the newest version of a form's guide, with the author `by`.

    White space around it is stripped, and a text equal to the newest version adds none. Raises
    Failed: no_form, no_text, too_long.
    """
    load_guide(store, form)
    text = "\n".join(text.split("\r\n")).strip() + "\n"
    if not text.strip():
        detail = "the guide is empty: write what people are to do"
        raise Failed(Failure(form, Outcome.NO_TEXT, detail))
    if len(text) > MAX_GUIDE_CHARACTERS:
        detail = (
            f"it has {len(text):,} characters, and {MAX_GUIDE_CHARACTERS:,} are the "
            "most: leave some out"
        )
        raise Failed(Failure(form, Outcome.TOO_LONG, detail))
    return _add_version(store, form, text, by)


def list_guide_versions(store: Store, form: str) -> list[LabellingGuide]:
    """Return every version of a form's guide, newest first. Raises Failed (no_form).

    The guide that comes with the form may be stored first, as by `load_guide`.
    """
    load_guide(store, form)
    with store.begin_read() as connection:
        return [LabellingGuide(*row) for row in connection.execute(_VERSIONS, {"form": form})]


@cache
def read_packaged_guide(form: str) -> str:
    """Read the guide of a form that comes with Rookery. Raises Failed (no_form)."""
    if form not in FORMS:
        detail = f"there is no such form: name one of {', '.join(FORMS)}"
        raise Failed(Failure(form, Outcome.NO_FORM, detail))
    return files("rookery.desk").joinpath("guides", f"{form}.md").read_text(encoding="utf-8")


def _read_form_guide(store: Store, form: str) -> tuple[str, str]:
    """Return the guide that comes with a form, and its author. Raises Failed (no_form)."""
    versions = [] if form in FORMS else list_form_versions(store, form)
    if not versions:
        return read_packaged_guide(form), PACKAGED_AUTHOR
    guide = parse_form_file(versions[0].text).guide.strip()
    return f"{guide}\n" if guide else NO_GUIDE_TEXT, FORM_FILE_AUTHOR


def _add_version(store: Store, form: str, text: str, by: str) -> LabellingGuide:
    with store.begin_write() as connection:
        take_advisory_lock(connection, f"guide {form}")
        newest = _find_newest_version(connection, form)
        if newest and (
            newest.text == text or (by in (PACKAGED_AUTHOR, FORM_FILE_AUTHOR) and newest.by != by)
        ):
            return newest  # another request wrote it since
        version = newest.version + 1 if newest else 1
        guide = LabellingGuide(form, version, text, by, store.clock())
        row = {name: getattr(guide, name) for name in guide.__struct_fields__}
        connection.execute(insert(tables.guides).values(row))
        write_audit_entry(connection, by, "guide", f"{form}, version {version}", guide.at)
        return guide


def _find_newest_version(connection: Connection, form: str) -> LabellingGuide | None:
    row = connection.execute(_NEWEST_VERSION, {"form": form}).first()
    return LabellingGuide(*row) if row else None


_VERSIONS = (
    select(tables.guides)
    .where(tables.guides.c.form == bindparam("form"))
    .order_by(tables.guides.c.version.desc())
)
_NEWEST_VERSION = _VERSIONS.limit(1)
