"""Labelling campaigns: projects with their batches and people, hours, decisions, crowd entries."""

from alembic import op

from rookery.desk.tables import make_columns

revision = "0004"
down_revision = "0003"
TABLES = {
    "projects": "name text key, body text, key text, made double",
    "project_batches": "batch text key, project projects.name index, trial boolean",
    "batch_people": "batch text key, person people.name key",
    "admissions": "number number key counted, project projects.name, person people.name,"
    "admitted boolean, reason text, by text, at double",
    "crowd_entries": "project projects.name key, session text key, person people.name index,"
    "participant text, study text, began double, ended double null",
    "work_signs": "item items.id key, person people.name key, at double key",
    "decisions": "number number key counted, item items.id index, person people.name, body text,"
    "at double",
    "flag_replies": "judgement judgements.id key, text text, by text, at double",
}


def upgrade() -> None:
    for column in make_columns("project text null"):
        op.add_column("people", column)
    for name, columns in TABLES.items():
        op.create_table(name, *make_columns(columns))
    op.create_index("ix_admissions_project", "admissions", ["project", "person"])
