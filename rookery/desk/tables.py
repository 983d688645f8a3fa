"""Tables of the store (SQLAlchemy Core), alike in SQLite and PostgreSQL.

Times are seconds since 1970 in UTC. Bodies are records as JSON. Rows of judgements, leases, events,
exclusions, pulls, releases, admissions, decisions and audits are only ever added.
"""

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

people = Table(
    "people",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("made", Double, nullable=False),
    Column("gone", Double),  # when access was ended; their work stays
    Column("project", Text),  # by whose crowd link they came, to work for it alone; None: invited
)

invites = Table(
    "invites",
    metadata,
    Column("token", Text, primary_key=True),  # its SHA-256
    Column("person", Text, ForeignKey("people.name"), nullable=False),
    Column("until", Double, nullable=False),
    Column("used", Double),
)

sessions = Table(
    "sessions",
    metadata,
    Column("token", Text, primary_key=True),  # its SHA-256
    Column("person", Text, ForeignKey("people.name"), nullable=False),
    Column("began", Double, nullable=False),
    Column("seen", Double, nullable=False),
    Column("ended", Double),
)

pages = Table(
    "pages",
    metadata,
    Column("key", Text, primary_key=True),  # the SHA-256 of the body
    Column("digest", Text, nullable=False, index=True),
    Column("url", Text, nullable=False),
    Column("body", Text, nullable=False),
)

items = Table(
    "items",
    metadata,
    Column("id", Text, primary_key=True),  # a digest of batch and body
    Column("number", Number, nullable=False, unique=True),  # in order of arrival
    Column("batch", Text, nullable=False),
    Column("form", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("wanted", Integer, nullable=False),  # k: by how many people
    Column("priority", Integer, nullable=False),
    Column("gold", Boolean, nullable=False),
    Column("prelude", Boolean, nullable=False),  # attention check, before the rest of the batch
    Column("policy", Integer),  # the step of the training run that wrote the answers
    Column("made", Double, nullable=False),
    Column("retired", Double),
    Column("why", Text),
    Index("ix_items_batch", "batch", "prelude"),
)

slots = Table(
    "slots",
    metadata,
    Column("item", Text, ForeignKey("items.id"), primary_key=True),
    Column("number", Integer, primary_key=True),  # from 0 to k - 1
    Column("person", Text, ForeignKey("people.name")),  # None: nobody's
    Column("token", Text),
    Column("began", Double),
    Column("until", Double),  # end of the lease; then the slot is anybody's
    Column("done", Boolean, nullable=False),
    # Copied from the item, so that one index holds the slots in the order of handing out.
    Column("retired", Boolean, nullable=False),
    Column("form", Text, nullable=False),
    Column("rank", Integer, nullable=False),  # minus the item's priority: low first
    Column("arrival", Number, nullable=False),  # the item's number
    # If two requests take two slots of an item for one person, one fails here.
    UniqueConstraint("person", "item"),
)
OPEN = ~slots.c.done & ~slots.c.retired
Index(
    "ix_slots_next",
    *(slots.c.rank, slots.c.number, slots.c.arrival),
    sqlite_where=OPEN,
    postgresql_where=OPEN,
)
Index(
    "ix_slots_next_of_form",
    *(slots.c.form, slots.c.rank, slots.c.number, slots.c.arrival),
    sqlite_where=OPEN,
    postgresql_where=OPEN,
)
Index("ix_slots_held", slots.c.person, sqlite_where=~slots.c.done, postgresql_where=~slots.c.done)

leases = Table(
    "leases",
    metadata,
    Column("token", Text, primary_key=True),
    Column("item", Text, ForeignKey("items.id"), nullable=False),
    Column("person", Text, ForeignKey("people.name"), nullable=False),
    Column("began", Double, nullable=False),
)

drafts = Table(
    "drafts",
    metadata,
    Column("item", Text, ForeignKey("items.id"), primary_key=True),
    Column("person", Text, ForeignKey("people.name"), primary_key=True),
    Column("body", Text, nullable=False),  # the form as far as it is filled in
    Column("saved", Double, nullable=False),
)

judgements = Table(
    "judgements",
    metadata,
    Column("id", Text, primary_key=True),
    Column("number", Number, nullable=False, unique=True),
    Column("item", Text, ForeignKey("items.id"), nullable=False, index=True),
    Column("person", Text, ForeignKey("people.name"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("ended", Double, nullable=False),
    Column("supersedes", Text, ForeignKey("judgements.id"), unique=True),
    Index("ix_judgements_person", "person", "item"),
)

events = Table(
    "events",
    metadata,
    Column("stream", Text, primary_key=True),  # demonstration:ITEM:PERSON
    Column("number", Integer, primary_key=True),  # from 0, without gaps
    Column("person", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("chain", Text, nullable=False),  # SHA-256 of this event and the previous digest
)

exclusions = Table(
    "exclusions",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("what", Text, nullable=False),  # person or judgement
    Column("which", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("lifts", Number, ForeignKey("exclusions.number"), unique=True),
)

guides = Table(
    "guides",
    metadata,
    Column("form", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("text", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", Double, nullable=False),
)

forms = Table(
    "forms",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("digest", Text, nullable=False),  # of the form, as judgements name it
    Column("body", Text, nullable=False),
    Column("text", Text, nullable=False),  # the TOML file that it was read from
    Column("by", Text, nullable=False),
    Column("at", Double, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("began", Double, nullable=False),
    Column("seen", Double, nullable=False),
    Column("step", Integer, nullable=False),
    Column("ended", Text),  # how it ended
)

samples = Table(
    "samples",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("run", Text, ForeignKey("runs.name"), nullable=False, index=True),
    Column("step", Integer, nullable=False),
    Column("shown", Text, nullable=False),  # the prompt
    Column("said", Text, nullable=False),
    Column("reward", Double),
    Column("at", Double, nullable=False),
)

pulls = Table(
    "pulls",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("run", Text, ForeignKey("runs.name"), nullable=False, index=True),
    Column("person", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Double, nullable=False),
)

releases = Table(
    "releases",
    metadata,
    Column("pull", Number, ForeignKey("pulls.number"), primary_key=True),
    Column("person", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Double, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("name", Text, primary_key=True),
    Column("body", Text, nullable=False),  # the selection, and the ids it matched
    Column("digest", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", Double, nullable=False),
)

audits = Table(
    "audits",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=False),  # without gaps
    Column("person", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("chain", Text, nullable=False),
)

answers = Table(
    "answers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("person", Text, ForeignKey("people.name"), nullable=False),  # the asker
    Column("question", Text, nullable=False),
    Column("wanted", Text, nullable=False),  # settings of the answer
    Column("state", Text, nullable=False),  # asked, going, done or failed
    Column("episode", Text),
    Column("verdicts", Text),  # of each of its quotes
    Column("outcome", Text),  # answered, declined or stopped
    Column("quotes", Integer),  # number of quotes
    Column("token", Text),  # of the worker that answers
    Column("until", Double),  # end of its lease; then another worker may start over
    Column("tries", Integer, nullable=False),
    Column("made", Double, nullable=False),
    Column("ended", Double),
    Column("team", Boolean, nullable=False, server_default=false()),  # others may read it
    Column("link", Text),  # the secret of an address that anybody may read it at
    Index("ix_answers_person", "person", "made"),
    Index("ix_answers_state", "state", "made"),
    Index("ix_answers_link", "link", unique=True),
)

keys = Table(
    "keys",
    metadata,
    Column("token", Text, primary_key=True),  # its SHA-256
    Column("name", Text, nullable=False, unique=True),
    Column("person", Text, ForeignKey("people.name"), nullable=False),
    Column("made", Double, nullable=False),
    Column("ended", Double),
    Column("per_minute", Integer),  # None: unlimited
    Column("budget", Double),  # None: unlimited
    Column("spent", Double, nullable=False),
)

projects = Table(
    "projects",
    metadata,
    Column("name", Text, primary_key=True),
    Column("body", Text, nullable=False),  # its settings
    Column("key", Text, nullable=False),  # secret that signs its links
    Column("made", Double, nullable=False),
)

project_batches = Table(
    "project_batches",
    metadata,
    Column("batch", Text, primary_key=True),  # also one of which there are no items yet
    Column("project", Text, ForeignKey("projects.name"), nullable=False, index=True),
    Column("trial", Boolean, nullable=False),  # to be done before the other batches
)

batch_people = Table(
    "batch_people",
    metadata,
    Column("batch", Text, primary_key=True),  # with rows here: only these people get its items
    Column("person", Text, ForeignKey("people.name"), primary_key=True),
)

admissions = Table(
    "admissions",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("project", Text, ForeignKey("projects.name"), nullable=False),
    Column("person", Text, ForeignKey("people.name"), nullable=False),
    Column("admitted", Boolean, nullable=False),  # of a person's rows the newest holds
    Column("reason", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", Double, nullable=False),
    Index("ix_admissions_project", "project", "person"),
)

work_signs = Table(
    "work_signs",
    metadata,
    Column("item", Text, ForeignKey("items.id"), primary_key=True),
    Column("person", Text, ForeignKey("people.name"), primary_key=True),
    Column("at", Double, primary_key=True),  # an action on an item in hand, about one a minute
)

decisions = Table(
    "decisions",
    metadata,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("item", Text, ForeignKey("items.id"), nullable=False, index=True),
    Column("person", Text, ForeignKey("people.name"), nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Double, nullable=False),
)

flag_replies = Table(
    "flag_replies",
    metadata,
    Column("judgement", Text, ForeignKey("judgements.id"), primary_key=True),
    Column("text", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", Double, nullable=False),
)

crowd_entries = Table(
    "crowd_entries",
    metadata,
    Column("project", Text, ForeignKey("projects.name"), primary_key=True),
    Column("session", Text, primary_key=True),  # the platform's name of it
    Column("person", Text, ForeignKey("people.name"), nullable=False, index=True),
    Column("participant", Text, nullable=False),
    Column("study", Text, nullable=False),
    Column("began", Double, nullable=False),
    Column("ended", Double),  # when the completion code was asked for
)
