"""Failovers of the source: which site is active, what is never read of which topic, ends that were noted."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """New tables: a pipeline without a row is at its first site."""
    op.create_table(
        "failovers",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("site", sa.String(100), nullable=False),
        sa.Column("before", sa.String(100), nullable=False),
        sa.Column("certificate", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "stretches",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("topic_id", sa.String(100), primary_key=True),
        sa.Column("partition", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("start", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "site_ends",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("site", sa.String(100), primary_key=True),
        sa.Column("partition", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("noted_ms", sa.BigInteger(), nullable=False),
    )
