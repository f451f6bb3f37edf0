"""A copy may read a part of its table's keys."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Copies of before read the whole table."""
    op.add_column("copies", sa.Column("part", sa.Text()))
