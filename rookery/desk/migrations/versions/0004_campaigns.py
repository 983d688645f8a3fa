"""Labelling campaigns: projects with their batches and people, hours, decisions, crowd entries."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("people", sa.Column("project", sa.Text(), nullable=True))
    _projects()
    _work()


def _projects() -> None:
    op.create_table(
        "projects",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("made", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_projects"),
    )
    op.create_table(
        "project_batches",
        sa.Column("batch", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("trial", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name="fk_project_batches_project"),
        sa.PrimaryKeyConstraint("batch", name="pk_project_batches"),
    )
    op.create_index("ix_project_batches_project", "project_batches", ["project"])
    op.create_table(
        "batch_people",
        sa.Column("batch", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_batch_people_person"),
        sa.PrimaryKeyConstraint("batch", "person", name="pk_batch_people"),
    )
    op.create_table(
        "admissions",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("admitted", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name="fk_admissions_project"),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_admissions_person"),
        sa.PrimaryKeyConstraint("number", name="pk_admissions"),
    )
    op.create_index("ix_admissions_project", "admissions", ["project", "person"])
    op.create_table(
        "crowd_entries",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("participant", sa.Text(), nullable=False),
        sa.Column("study", sa.Text(), nullable=False),
        sa.Column("began", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name="fk_crowd_entries_project"),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_crowd_entries_person"),
        sa.PrimaryKeyConstraint("project", "session", name="pk_crowd_entries"),
    )
    op.create_index("ix_crowd_entries_person", "crowd_entries", ["person"])


def _work() -> None:
    op.create_table(
        "work_signs",
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["item"], ["items.id"], name="fk_work_signs_item"),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_work_signs_person"),
        sa.PrimaryKeyConstraint("item", "person", "at", name="pk_work_signs"),
    )
    op.create_table(
        "decisions",
        sa.Column("number", NUMBER, autoincrement=True, nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["item"], ["items.id"], name="fk_decisions_item"),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_decisions_person"),
        sa.PrimaryKeyConstraint("number", name="pk_decisions"),
    )
    op.create_index("ix_decisions_item", "decisions", ["item"])
    op.create_table(
        "flag_replies",
        sa.Column("judgement", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["judgement"], ["judgements.id"], name="fk_flag_replies_judgement"),
        sa.PrimaryKeyConstraint("judgement", name="pk_flag_replies"),
    )
