"""Tables of the store (SQLAlchemy Core), alike in SQLite and PostgreSQL.

Times are seconds since 1970 in UTC. Bodies are records as JSON. Rows of judgements, leases, events,
exclusions, pulls, releases, admissions, decisions and audits are only ever added. Tokens are stored
as their SHA-256.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_TYPES: dict[str, Any] = {
    "text": Text,
    "double": Double,
    "integer": Integer,
    "boolean": Boolean,
    # SQLite counts up by itself only in a column of this type.
    "number": BigInteger().with_variant(Integer, "sqlite"),
}


def _make_table(name: str, columns: str, *constraints: Index | UniqueConstraint) -> Table:
    """Define a table; its columns are written as `make_columns` takes them."""
    return Table(name, metadata, *make_columns(columns), *constraints)


def make_columns(columns: str) -> Iterator[Column[Any]]:
    """Define columns, each written as its name, its type or the TABLE.COLUMN that it refers to, and
    its marks, with commas between them.

    Marks: key (primary), counted (by the database), unique, index, null (may be empty), and false
    (unless another value is given).
    """
    for name, kind, *marks in map(str.split, columns.split(",")):
        refers = [ForeignKey(kind)] if "." in kind else []
        if refers:  # said here, as a migration does not know the table that it refers to
            kind = "number" if kind.endswith(".number") else "text"
        yield Column(
            name,
            _TYPES[kind],
            *refers,
            primary_key="key" in marks,
            autoincrement="counted" in marks,
            nullable="null" in marks,
            unique="unique" in marks or None,
            index="index" in marks or None,
            server_default=false() if "false" in marks else None,
        )


people = _make_table(
    "people", "name text key, role text, made double, gone double null, project text null"
)
"""`gone`: when access was ended; their work stays. `project`: by whose crowd link they came, to
work for it alone; None: they were invited"""
invites = _make_table(
    "invites", "token text key, person people.name, until double, used double null"
)
sessions = _make_table(
    "sessions", "token text key, person people.name, began double, seen double, ended double null"
)
pages = _make_table("pages", "key text key, digest text index, url text, body text")
"""`key`: the SHA-256 of the body"""
items = _make_table(
    "items",
    "id text key, number number unique, batch text, form text, body text, wanted integer,"
    "priority integer, gold boolean, prelude boolean, policy integer null, made double,"
    "retired double null, why text null",
    Index("ix_items_batch", "batch", "prelude"),
)
"""`id`: a digest of batch and body. `number`: in order of arrival. `wanted`: k, by how many people.
`prelude`: attention check, before the rest of the batch. `policy`: the step of the training run
that wrote the answers"""
slots = _make_table(
    "slots",
    "item items.id key, number integer key, person people.name null, token text null,"
    "began double null, until double null, done boolean, retired boolean, form text, rank integer,"
    "arrival number",
    # If two requests take two slots of an item for one person, one fails here.
    UniqueConstraint("person", "item"),
)
"""`number`: from 0 to k - 1. `person`: None is nobody's. `until`: end of the lease; then the slot
is anybody's. What follows `done` is copied from the item, so that one index holds the slots in the
order of handing out: `rank` is minus the item's priority, low first, `arrival` its number"""
OPEN = ~slots.c.done & ~slots.c.retired
_NEXT = (slots.c.rank, slots.c.number, slots.c.arrival)
Index("ix_slots_next", *_NEXT, sqlite_where=OPEN, postgresql_where=OPEN)
Index("ix_slots_next_of_form", slots.c.form, *_NEXT, sqlite_where=OPEN, postgresql_where=OPEN)
Index("ix_slots_held", slots.c.person, sqlite_where=~slots.c.done, postgresql_where=~slots.c.done)
leases = _make_table("leases", "token text key, item items.id, person people.name, began double")
drafts = _make_table("drafts", "item items.id key, person people.name key, body text, saved double")
"""`body`: the form as far as it is filled in"""
judgements = _make_table(
    "judgements",
    "id text key, number number unique, item items.id index, person people.name, kind text,"
    "body text, ended double, supersedes judgements.id null unique",
    Index("ix_judgements_person", "person", "item"),
)
events = _make_table(
    "events", "stream text key, number integer key, person text, body text, at double, chain text"
)
"""`stream`: demonstration:ITEM:PERSON. `number`: from 0, without gaps. `chain`: SHA-256 of this
event and the previous digest"""
exclusions = _make_table(
    "exclusions",
    "number number key counted, what text, which text, reason text, by text, at double,"
    "lifts exclusions.number null unique",
)
"""`what`: person or judgement"""
guides = _make_table("guides", "form text key, version integer key, text text, by text, at double")
forms = _make_table(
    "forms",
    "name text key, version integer key, digest text, body text, text text, by text, at double",
)
"""`digest`: of the form, as judgements name it. `text`: the TOML file that it was read from"""
runs = _make_table(
    "runs", "name text key, began double, seen double, step integer, ended text null"
)
"""`ended`: how it ended"""
samples = _make_table(
    "samples",
    "number number key counted, run runs.name index, step integer, shown text, said text,"
    "reward double null, at double",
)
"""`shown`: the prompt"""
pulls = _make_table(
    "pulls", "number number key counted, run runs.name index, person text, reason text, at double"
)
releases = _make_table("releases", "pull pulls.number key, person text, reason text, at double")
snapshots = _make_table("snapshots", "name text key, body text, digest text, by text, at double")
"""`body`: the selection, and the ids it matched"""
audits = _make_table(
    "audits", "number number key, person text, action text, what text, at double, chain text"
)
"""`number`: without gaps"""
answers = _make_table(
    "answers",
    "id text key, person people.name, question text, wanted text, state text, episode text null,"
    "verdicts text null, outcome text null, quotes integer null, token text null,"
    "until double null, tries integer, made double, ended double null, team boolean false,"
    "link text null",
    Index("ix_answers_person", "person", "made"),
    Index("ix_answers_state", "state", "made"),
    Index("ix_answers_link", "link", unique=True),
)
"""`person`: the asker. `wanted`: settings of the answer. `state`: asked, going, done or failed.
`verdicts`: of each of its quotes. `outcome`: answered, declined or stopped. `quotes`: their number.
`token`: of the worker that answers. `until`: end of its lease; then another worker may start over.
`team`: others may read it. `link`: the secret of an address that anybody may read it at"""
keys = _make_table(
    "keys",
    "token text key, name text unique, person people.name, made double, ended double null,"
    "per_minute integer null, budget double null, spent double",
)
"""`per_minute`, `budget`: None is unlimited"""
projects = _make_table("projects", "name text key, body text, key text, made double")
"""`body`: its settings. `key`: secret that signs its links"""
project_batches = _make_table(
    "project_batches", "batch text key, project projects.name index, trial boolean"
)
"""`batch`: also one of which there are no items yet. `trial`: to be done before the other
batches"""
batch_people = _make_table("batch_people", "batch text key, person people.name key")
"""where a batch has rows here, only these people get its items"""
admissions = _make_table(
    "admissions",
    "number number key counted, project projects.name, person people.name, admitted boolean,"
    "reason text, by text, at double",
    Index("ix_admissions_project", "project", "person"),
)
"""of a person's rows the newest holds"""
work_signs = _make_table("work_signs", "item items.id key, person people.name key, at double key")
"""`at`: an action on an item in hand, about one a minute"""
decisions = _make_table(
    "decisions",
    "number number key counted, item items.id index, person people.name, body text, at double",
)
flag_replies = _make_table(
    "flag_replies", "judgement judgements.id key, text text, by text, at double"
)
crowd_entries = _make_table(
    "crowd_entries",
    "project projects.name key, session text key, person people.name index, participant text,"
    "study text, began double, ended double null",
)
"""`session`: the platform's name of it. `ended`: when the completion code was asked for"""
