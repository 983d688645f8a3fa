"""The desk's tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _people()
    _items()
    _slots()
    _judgements()
    _runs()
    _books()


def downgrade() -> None:
    for table in (
        "audits",
        "snapshots",
        "guides",
        "releases",
        "pulls",
        "samples",
        "runs",
        "exclusions",
        "events",
        "judgements",
        "drafts",
        "leases",
        "slots",
        "items",
        "pages",
        "sessions",
        "invites",
        "people",
    ):
        op.drop_table(table)


def _people() -> None:
    """Who works at the desk."""
    op.create_table(
        "people",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("made", sa.Double(), nullable=False),
        sa.Column("gone", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_people"),
    )
    op.create_table(
        "invites",
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("used", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_invites_person"),
        sa.PrimaryKeyConstraint("token", name="pk_invites"),
    )
    op.create_table(
        "sessions",
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("began", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_sessions_person"),
        sa.PrimaryKeyConstraint("token", name="pk_sessions"),
    )


def _items() -> None:
    """What is to be done."""
    op.create_table(
        "pages",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_pages"),
    )
    op.create_index("ix_pages_digest", "pages", ["digest"])
    op.create_table(
        "items",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("number", NUMBER, nullable=False),
        sa.Column("batch", sa.Text(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("gold", sa.Boolean(), nullable=False),
        sa.Column("prelude", sa.Boolean(), nullable=False),
        sa.Column("policy", sa.Integer(), nullable=True),
        sa.Column("made", sa.Double(), nullable=False),
        sa.Column("retired", sa.Double(), nullable=True),
        sa.Column("why", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_items"),
        sa.UniqueConstraint("number", name="uq_items_number"),
    )
    op.create_index("ix_items_batch", "items", ["batch", "prelude"])


def _slots() -> None:
    """By whom it is done."""
    op.create_table(
        "slots",
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("person", sa.Text(), nullable=True),
        sa.Column("token", sa.Text(), nullable=True),
        sa.Column("began", sa.Double(), nullable=True),
        sa.Column("until", sa.Double(), nullable=True),
        sa.Column("done", sa.Boolean(), nullable=False),
        sa.Column("retired", sa.Boolean(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("arrival", NUMBER, nullable=False),
        sa.ForeignKeyConstraint(["item"], ["items.id"], name="fk_slots_item"),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_slots_person"),
        sa.PrimaryKeyConstraint("item", "number", name="pk_slots"),
        sa.UniqueConstraint("person", "item", name="uq_slots_person_item"),
    )
    op.create_index(
        "ix_slots_held",
        "slots",
        ["person"],
        sqlite_where=sa.text("done = 0"),
        postgresql_where=sa.text("NOT done"),
    )
    for name, columns in (
        ("ix_slots_next", ["rank", "number", "arrival"]),
        ("ix_slots_next_of_form", ["form", "rank", "number", "arrival"]),
    ):
        op.create_index(
            name,
            "slots",
            columns,
            sqlite_where=sa.text("done = 0 AND retired = 0"),
            postgresql_where=sa.text("NOT done AND NOT retired"),
        )
    op.create_table(
        "leases",
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("began", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["item"], ["items.id"], name="fk_leases_item"),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_leases_person"),
        sa.PrimaryKeyConstraint("token", name="pk_leases"),
    )


def _judgements() -> None:
    """What came of it."""
    op.create_table(
        "drafts",
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("saved", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["item"], ["items.id"], name="fk_drafts_item"),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_drafts_person"),
        sa.PrimaryKeyConstraint("item", "person", name="pk_drafts"),
    )
    op.create_table(
        "judgements",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("number", NUMBER, nullable=False),
        sa.Column("item", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=False),
        sa.Column("supersedes", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["item"], ["items.id"], name="fk_judgements_item"),
        sa.ForeignKeyConstraint(["person"], ["people.name"], name="fk_judgements_person"),
        sa.ForeignKeyConstraint(["supersedes"], ["judgements.id"], name="fk_judgements_supersedes"),
        sa.PrimaryKeyConstraint("id", name="pk_judgements"),
        sa.UniqueConstraint("number", name="uq_judgements_number"),
        sa.UniqueConstraint("supersedes", name="uq_judgements_supersedes"),
    )
    op.create_index("ix_judgements_item", "judgements", ["item"])
    op.create_index("ix_judgements_person", "judgements", ["person", "item"])
    op.create_table(
        "events",
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("chain", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("stream", "number", name="pk_events"),
    )
    op.create_table(
        "exclusions",
        sa.Column(
            "number",
            NUMBER,
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("which", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("lifts", NUMBER, nullable=True),
        sa.ForeignKeyConstraint(["lifts"], ["exclusions.number"], name="fk_exclusions_lifts"),
        sa.PrimaryKeyConstraint("number", name="pk_exclusions"),
        sa.UniqueConstraint("lifts", name="uq_exclusions_lifts"),
    )


def _runs() -> None:
    """Training runs, and the cord."""
    op.create_table(
        "runs",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("began", sa.Double(), nullable=False),
        sa.Column("seen", sa.Double(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("ended", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_runs"),
    )
    op.create_table(
        "samples",
        sa.Column(
            "number",
            NUMBER,
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("said", sa.Text(), nullable=False),
        sa.Column("reward", sa.Double(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.name"], name="fk_samples_run"),
        sa.PrimaryKeyConstraint("number", name="pk_samples"),
    )
    op.create_index("ix_samples_run", "samples", ["run"])
    op.create_table(
        "pulls",
        sa.Column(
            "number",
            NUMBER,
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run"], ["runs.name"], name="fk_pulls_run"),
        sa.PrimaryKeyConstraint("number", name="pk_pulls"),
    )
    op.create_index("ix_pulls_run", "pulls", ["run"])
    op.create_table(
        "releases",
        sa.Column("pull", NUMBER, nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["pull"], ["pulls.number"], name="fk_releases_pull"),
        sa.PrimaryKeyConstraint("pull", name="pk_releases"),
    )


def _books() -> None:
    """What is looked up later."""
    op.create_table(
        "guides",
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("form", "version", name="pk_guides"),
    )
    op.create_table(
        "snapshots",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_snapshots"),
    )
    op.create_table(
        "audits",
        sa.Column(
            "number",
            NUMBER,
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("chain", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audits"),
    )
