"""With whom an answer is shared: the team, or whoever has a link."""

from alembic import op

from rookery.desk.tables import make_columns

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the answers that are there private to who asked."""
    for column in make_columns("team boolean false, link text null"):
        op.add_column("answers", column)
    op.create_index("ix_answers_link", "answers", ["link"], unique=True)
