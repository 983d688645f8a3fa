"""Labelling forms that people wrote themselves, each with all its versions."""

from alembic import op

from rookery.desk.tables import make_columns

revision = "0005"
down_revision = "0004"
FORMS = "name text key, version integer key, digest text, body text, text text, by text, at double"


def upgrade() -> None:
    """Make the table of forms."""
    op.create_table("forms", *make_columns(FORMS))
