"""What people are told to do, form by form: texts in Markdown, of which every version is kept.

It knows nothing of how they are shown.
"""

from importlib.resources import files
from typing import Any

from sqlalchemy import Connection, Select, insert, select

from rookery.judge import tables
from rookery.judge.forms import FORMS
from rookery.judge.people import audit
from rookery.judge.store import Store, alone
from rookery.records import Failed, Failure, Record

BY = "rookery"
"""who wrote the guides that come with it"""
LONGEST = 50_000
"""characters of a guide"""


class Guide(Record, frozen=True):
    """One version of what people are told about one form."""

    form: str
    version: int
    """from 1 on"""
    text: str
    """Markdown"""
    by: str
    at: float
    """seconds since 1970, UTC"""


def guide(store: Store, form: str) -> Guide:
    """The newest version. Raises Failed (no_form).

    What comes with Rookery becomes a version as it is first read, and again where a newer Rookery
    says something else, unless people have written their own: a version says the same for good.
    """
    ours = packaged(form)
    with store.reading() as connection:
        newest = _newest(connection, form)
    if newest is not None and (newest.by != BY or newest.text == ours):
        return newest
    return _add(store, form, ours, BY)


def write_guide(store: Store, form: str, text: str, by: str) -> Guide:
    """Makes this text the newest version; the others stay. The same text again is no other version.

    Raises Failed: no_form, no_text, too_long.
    """
    guide(store, form)
    text = "\n".join(text.split("\r\n")).strip() + "\n"
    if not text.strip():
        raise Failed(Failure(form, "no_text", "the guide is empty: write what people are to do"))
    if len(text) > LONGEST:
        detail = f"it has {len(text):,} characters, and {LONGEST:,} are the most: leave some out"
        raise Failed(Failure(form, "too_long", detail))
    return _add(store, form, text, by)


def history(store: Store, form: str) -> list[Guide]:
    """Every version, the newest first. Raises Failed (no_form)."""
    guide(store, form)
    with store.reading() as connection:
        return [Guide(*row) for row in connection.execute(_versions(form))]


def packaged(form: str) -> str:
    """The guide that comes with Rookery. Raises Failed (no_form)."""
    if form not in FORMS:
        detail = f"there is no such form: name one of {', '.join(FORMS)}"
        raise Failed(Failure(form, "no_form", detail))
    return files("rookery.judge").joinpath("guides", f"{form}.md").read_text(encoding="utf-8")


def _add(store: Store, form: str, text: str, by: str) -> Guide:
    with store.writing() as connection:
        alone(connection, f"guide {form}")
        newest = _newest(connection, form)
        if newest and (newest.text == text or (by == BY and newest.by != BY)):
            return newest  # written a moment ago
        version = newest.version + 1 if newest else 1
        made = Guide(form, version, text, by, store.clock())
        row = {name: getattr(made, name) for name in made.__struct_fields__}
        connection.execute(insert(tables.guides).values(row))
        audit(connection, by, "guide", f"{form} {version}", made.at)
        return made


def _newest(connection: Connection, form: str) -> Guide | None:
    row = connection.execute(_versions(form).limit(1)).first()
    return Guide(*row) if row else None


def _versions(form: str) -> Select[Any]:
    guides = tables.guides
    return select(guides).where(guides.c.form == form).order_by(guides.c.version.desc())
