"""The tables of what is asked for reading, and of the keys of programs."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "answers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("episode", sa.Text(), nullable=True),
        sa.Column("verdicts", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("quotes", sa.Integer(), nullable=True),
        sa.Column("token", sa.Text(), nullable=True),
        sa.Column("until", sa.Double(), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("made", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_answers_person"),
        sa.PrimaryKeyConstraint("id", name="pk_answers"),
    )
    op.create_index("ix_answers_person", "answers", ["person", "made"])
    op.create_index("ix_answers_state", "answers", ["state", "made"])
    op.create_table(
        "keys",
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("made", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.Column("per_minute", sa.Integer(), nullable=True),
        sa.Column("budget", sa.Double(), nullable=True),
        sa.Column("spent", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_keys_person"),
        sa.PrimaryKeyConstraint("token", name="pk_keys"),
        sa.UniqueConstraint("name", name="uq_keys_name"),
    )
