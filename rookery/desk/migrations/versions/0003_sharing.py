"""With whom an answer is shared: the team, or whoever has a link."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the answers that are there private to who asked."""
    op.add_column(
        "answers", sa.Column("team", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.add_column("answers", sa.Column("link", sa.Text(), nullable=True))
    op.create_index("ix_answers_link", "answers", ["link"], unique=True)
