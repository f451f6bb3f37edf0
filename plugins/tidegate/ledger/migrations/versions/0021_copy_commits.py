"""Tries to merge know which copy they bring rows of, or end: a purge is not put off by them."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Tries of before are not told apart from other upkeep: it puts a purge off for a day at most."""
    op.add_column("applies", sa.Column("copied", sa.Integer(), nullable=True))
