"""Copies of source tables into mirrors: rounds, their chunks, and what the tables say of them."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """New tables, and columns whose defaults say what a table without copies says."""
    op.create_table(
        "copies",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("round", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("table_name", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("ended", sa.Boolean(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("begun_ms", sa.BigInteger(), nullable=False),
        sa.Column("done_ms", sa.BigInteger()),
    )
    op.create_table(
        "chunks",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("chunk", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("key_range", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("nonce", sa.String(32), nullable=False),
        sa.Column("tried_ms", sa.BigInteger()),
        sa.Column("low", sa.String(100)),
        sa.Column("high", sa.String(100)),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("read_ms", sa.BigInteger()),
    )
    op.create_index("ix_chunks_round", "chunks", ["pipeline", "round"])
    op.create_table(
        "source_looks",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("look", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("position", sa.String(100), nullable=False),
        sa.Column("log_end", sa.String(100), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ends", sa.Text(), nullable=False),
    )
    op.add_column("prefixes", sa.Column("begins", sa.String(100)))
    op.add_column("prefixes", sa.Column("last_position", sa.String(100)))
    op.add_column("prefixes", sa.Column("copied", sa.Text()))
