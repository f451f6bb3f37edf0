"""Deliveries know where they go: a task by a YAML of before says nothing of the place of today."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """The next run of each delivery notes its place; what stood until then is believed."""
    op.create_table(
        "delivery_places",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("name", sa.String(100), primary_key=True),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("earlier", sa.Text(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
    )
