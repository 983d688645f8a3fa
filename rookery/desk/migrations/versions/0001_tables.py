"""The first tables of the desk, which some stores have; new stores begin with the newest ones."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: only stores that have this revision are brought up to date."""
