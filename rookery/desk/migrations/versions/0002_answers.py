"""The tables of what is asked for reading, and of the keys of programs."""

from alembic import op

from rookery.desk.tables import make_columns

revision = "0002"
down_revision = "0001"
ANSWERS = (
    "id text key, person people.name, question text, wanted text, state text, episode text null,"
    "verdicts text null, outcome text null, quotes integer null, token text null,"
    "until double null, tries integer, made double, ended double null"
)
KEYS = (
    "token text key, name text unique, person people.name, made double, ended double null,"
    "per_minute integer null, budget double null, spent double"
)


def upgrade() -> None:
    op.create_table("answers", *make_columns(ANSWERS))
    op.create_index("ix_answers_person", "answers", ["person", "made"])
    op.create_index("ix_answers_state", "answers", ["state", "made"])
    op.create_table("keys", *make_columns(KEYS))
