"""Merges into keyed tables, and what the tables said when they were last looked at."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """New tables only: nobody waits, and an earlier release does not meet them."""
    op.create_table(
        "applies",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("epoch", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("first_batch", sa.BigInteger(), nullable=False),
        sa.Column("last_batch", sa.BigInteger(), nullable=False),
        sa.Column("nonce", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("snapshot", sa.String(100)),
        sa.Column("why", sa.Text()),
        sa.Column("began_ms", sa.BigInteger(), nullable=False),
        sa.Column("done_ms", sa.BigInteger()),
    )
    op.create_index("ix_applies_state", "applies", ["pipeline", "state"])
    op.create_table(
        "prefixes",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("upto", sa.BigInteger(), nullable=False),
        sa.Column("snapshot", sa.String(100)),
        sa.Column("attempt", sa.String(100), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("tombstones", sa.BigInteger(), nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("inserted", sa.BigInteger(), nullable=False),
        sa.Column("purged", sa.BigInteger(), nullable=False),
        sa.Column("told_ms", sa.BigInteger(), nullable=False),
    )
