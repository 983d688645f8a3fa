"""Tables of the store (SQLAlchemy Core), alike in SQLite and PostgreSQL.

Times are seconds since 1970 in UTC. Bodies are records as JSON. Rows of judgements, leases, events,
exclusions, pulls, releases, admissions, decisions and audits are only ever added.
"""

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
Number = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up by itself only in a column of this type"""


def _key(name: str, kind: Any = Text, refers_to: str = "", counts: bool = False) -> Column[Any]:
    """Return a column of the primary key; `counts`: the database numbers the rows."""
    keys = [ForeignKey(refers_to)] if refers_to else []
    return Column(name, kind, *keys, primary_key=True, autoincrement=counts)


def _filled(kind: Any, *names: str) -> list[Column[Any]]:
    """Return columns that have a value in every row."""
    return [Column(name, kind, nullable=False) for name in names]


def _to(name: str, refers_to: str, **options: Any) -> Column[Any]:
    """Return a column with the key of a row of another table, such as "people.name"."""
    return Column(name, Text, ForeignKey(refers_to), **{"nullable": False, **options})


people = Table(
    "people",
    metadata,
    *(_key("name"), *_filled(Text, "role"), *_filled(Double, "made")),
    Column("gone", Double),  # when access was ended; their work stays
    Column("project", Text),  # by whose crowd link they came, to work for it alone; None: invited
)

invites = Table(
    "invites",
    metadata,
    _key("token"),  # its SHA-256
    *(_to("person", "people.name"), *_filled(Double, "until"), Column("used", Double)),
)

sessions = Table(
    "sessions",
    metadata,
    _key("token"),  # its SHA-256
    *(_to("person", "people.name"), *_filled(Double, "began", "seen"), Column("ended", Double)),
)

pages = Table(
    "pages",
    metadata,
    _key("key"),  # the SHA-256 of the body
    *(Column("digest", Text, nullable=False, index=True), *_filled(Text, "url", "body")),
)

items = Table(
    "items",
    metadata,
    _key("id"),  # a digest of batch and body
    Column("number", Number, nullable=False, unique=True),  # in order of arrival
    *_filled(Text, "batch", "form", "body"),
    *_filled(Integer, "wanted", "priority"),  # k: by how many people
    *_filled(Boolean, "gold", "prelude"),  # attention check, before the rest of the batch
    Column("policy", Integer),  # the step of the training run that wrote the answers
    *(*_filled(Double, "made"), Column("retired", Double), Column("why", Text)),
    Index("ix_items_batch", "batch", "prelude"),
)

slots = Table(
    "slots",
    metadata,
    *(_key("item", refers_to="items.id"), _key("number", Integer)),  # from 0 to k - 1
    _to("person", "people.name", nullable=True),  # None: nobody's
    *(Column("token", Text), Column("began", Double)),
    Column("until", Double),  # end of the lease; then the slot is anybody's
    # From `retired` on copied from the item, so that one index holds the slots in the order of
    # handing out. The rank is minus its priority, low first; the arrival is its number.
    *(*_filled(Boolean, "done", "retired"), *_filled(Text, "form"), *_filled(Integer, "rank")),
    *_filled(Number, "arrival"),
    # If two requests take two slots of an item for one person, one fails here.
    UniqueConstraint("person", "item"),
)
OPEN = ~slots.c.done & ~slots.c.retired
for name, columns, where in (
    ("ix_slots_next", (slots.c.rank, slots.c.number, slots.c.arrival), OPEN),
    ("ix_slots_next_of_form", (slots.c.form, slots.c.rank, slots.c.number, slots.c.arrival), OPEN),
    ("ix_slots_held", (slots.c.person,), ~slots.c.done),
):
    Index(name, *columns, sqlite_where=where, postgresql_where=where)

leases = Table(
    "leases",
    metadata,
    *(_key("token"), _to("item", "items.id"), _to("person", "people.name")),
    *_filled(Double, "began"),
)

drafts = Table(
    "drafts",
    metadata,
    *(_key("item", refers_to="items.id"), _key("person", refers_to="people.name")),
    *_filled(Text, "body"),  # the form as far as it is filled in
    *_filled(Double, "saved"),
)

judgements = Table(
    "judgements",
    metadata,
    *(_key("id"), Column("number", Number, nullable=False, unique=True)),
    *(_to("item", "items.id", index=True), _to("person", "people.name")),
    *(*_filled(Text, "kind", "body"), *_filled(Double, "ended")),
    _to("supersedes", "judgements.id", unique=True, nullable=True),
    Index("ix_judgements_person", "person", "item"),
)

events = Table(
    "events",
    metadata,
    _key("stream"),  # demonstration:ITEM:PERSON
    _key("number", Integer),  # from 0, without gaps
    *(*_filled(Text, "person", "body"), *_filled(Double, "at")),
    *_filled(Text, "chain"),  # SHA-256 of this event and the previous digest
)

exclusions = Table(
    "exclusions",
    metadata,
    _key("number", Number, counts=True),
    *_filled(Text, "what", "which", "reason", "by"),  # what: person or judgement
    *_filled(Double, "at"),
    Column("lifts", Number, ForeignKey("exclusions.number"), unique=True),
)

guides = Table(
    "guides",
    metadata,
    *(_key("form"), _key("version", Integer), *_filled(Text, "text", "by"), *_filled(Double, "at")),
)

forms = Table(
    "forms",
    metadata,
    *(_key("name"), _key("version", Integer)),
    # The digest is of the form, as judgements name it; the text is the TOML file that it was.
    *(*_filled(Text, "digest", "body", "text", "by"), *_filled(Double, "at")),
)

runs = Table(
    "runs",
    metadata,
    *(_key("name"), *_filled(Double, "began", "seen"), *_filled(Integer, "step")),
    Column("ended", Text),  # how it ended
)

samples = Table(
    "samples",
    metadata,
    *(_key("number", Number, counts=True), _to("run", "runs.name", index=True)),
    *(*_filled(Integer, "step"), *_filled(Text, "shown", "said")),  # shown: the prompt
    *(Column("reward", Double), *_filled(Double, "at")),
)

pulls = Table(
    "pulls",
    metadata,
    *(_key("number", Number, counts=True), _to("run", "runs.name", index=True)),
    *(*_filled(Text, "person", "reason"), *_filled(Double, "at")),
)

releases = Table(
    "releases",
    metadata,
    Column("pull", Number, ForeignKey("pulls.number"), primary_key=True),
    *(*_filled(Text, "person", "reason"), *_filled(Double, "at")),
)

snapshots = Table(
    "snapshots",
    metadata,
    *(_key("name"), *_filled(Text, "body")),  # the selection, and the ids it matched
    *(*_filled(Text, "digest", "by"), *_filled(Double, "at")),
)

audits = Table(
    "audits",
    metadata,
    _key("number", Number),  # without gaps
    *(*_filled(Text, "person", "action", "what"), *_filled(Double, "at"), *_filled(Text, "chain")),
)

answers = Table(
    "answers",
    metadata,
    *(_key("id"), _to("person", "people.name")),  # the asker
    *_filled(Text, "question", "wanted", "state"),  # settings; asked, going, done or failed
    *(Column("episode", Text), Column("verdicts", Text)),  # verdicts: of each of its quotes
    Column("outcome", Text),  # answered, declined or stopped
    Column("quotes", Integer),  # number of quotes
    Column("token", Text),  # of the worker that answers
    Column("until", Double),  # end of its lease; then another worker may start over
    *(*_filled(Integer, "tries"), *_filled(Double, "made"), Column("ended", Double)),
    Column("team", Boolean, nullable=False, server_default=false()),  # others may read it
    Column("link", Text),  # the secret of an address that anybody may read it at
    *(Index("ix_answers_person", "person", "made"), Index("ix_answers_state", "state", "made")),
    Index("ix_answers_link", "link", unique=True),
)

keys = Table(
    "keys",
    metadata,
    _key("token"),  # its SHA-256
    *(Column("name", Text, nullable=False, unique=True), _to("person", "people.name")),
    *(*_filled(Double, "made"), Column("ended", Double)),
    *(Column("per_minute", Integer), Column("budget", Double)),  # None: unlimited
    *_filled(Double, "spent"),
)

projects = Table(
    "projects",
    metadata,
    *(_key("name"), *_filled(Text, "body", "key")),  # its settings; secret that signs its links
    *_filled(Double, "made"),
)

project_batches = Table(
    "project_batches",
    metadata,
    _key("batch"),  # also one of which there are no items yet
    _to("project", "projects.name", index=True),
    *_filled(Boolean, "trial"),  # to be done before the other batches
)

batch_people = Table(
    "batch_people",
    metadata,
    _key("batch"),  # with rows here: only these people get its items
    _key("person", refers_to="people.name"),
)

admissions = Table(
    "admissions",
    metadata,
    _key("number", Number, counts=True),
    *(_to("project", "projects.name"), _to("person", "people.name")),
    *_filled(Boolean, "admitted"),  # of a person's rows the newest holds
    *(*_filled(Text, "reason", "by"), *_filled(Double, "at")),
    Index("ix_admissions_project", "project", "person"),
)

work_signs = Table(
    "work_signs",
    metadata,
    *(_key("item", refers_to="items.id"), _key("person", refers_to="people.name")),
    _key("at", Double),  # an action on an item in hand, about one a minute
)

decisions = Table(
    "decisions",
    metadata,
    *(_key("number", Number, counts=True), _to("item", "items.id", index=True)),
    *(_to("person", "people.name"), *_filled(Text, "body"), *_filled(Double, "at")),
)

flag_replies = Table(
    "flag_replies",
    metadata,
    *(_key("judgement", refers_to="judgements.id"), *_filled(Text, "text", "by")),
    *_filled(Double, "at"),
)

crowd_entries = Table(
    "crowd_entries",
    metadata,
    _key("project", refers_to="projects.name"),
    _key("session"),  # the platform's name of it
    *(_to("person", "people.name", index=True), *_filled(Text, "participant", "study")),
    *_filled(Double, "began"),
    Column("ended", Double),  # when the completion code was asked for
)
