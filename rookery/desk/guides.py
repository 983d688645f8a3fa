"""Labelling guides: instructions for each form in Markdown, of which every version is kept."""

from functools import cache
from importlib.resources import files

from sqlalchemy import Connection, bindparam, insert, select

from rookery.desk import tables
from rookery.desk.accounts import write_audit_entry
from rookery.desk.form_versions import list_form_versions
from rookery.desk.forms import FORMS, parse_form_file
from rookery.desk.store import Store, take_advisory_lock
from rookery.errors import Failed, Outcome
from rookery.records import Failure, Record

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
        raise Failed(
            Failure(form, Outcome.NO_TEXT, "the guide is empty: write what people are to do")
        )
    if len(text) > MAX_GUIDE_CHARACTERS:
        detail = (
            f"it has {len(text):,} characters, and {MAX_GUIDE_CHARACTERS:,} are the "
            "most: leave some out"
        )
        raise Failed(Failure(form, Outcome.TOO_LONG, detail))
    return _add_version(store, form, text, by)


def list_guide_versions(store: Store, form: str) -> list[LabellingGuide]:
    """Return every version of a form's guide, newest first. Raises Failed (no_form)."""
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
        write_audit_entry(connection, by, "guide", f"{form} {version}", guide.at)
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
