"""Rows by what they became and when Kafka got them; late rows that a generation took up; counts of another system."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for name in ("rerouted", "bytes", "max_kafka_ms"):
        op.add_column("batch_ranges", sa.Column(name, sa.BigInteger()))
    op.add_column("batch_partitions", sa.Column("timed_ms", sa.BigInteger()))
    op.add_column("batch_window_totals", sa.Column("rerouted", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("generation_batches", sa.Column("kind", sa.String(8), nullable=False, server_default="data"))
    op.add_column("generation_batches", sa.Column("cleared", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "archive_notes",
        sa.Column("pipeline", sa.String(200), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline"),
    )
    op.create_table(
        "truths",
        sa.Column("pipeline", sa.String(200), nullable=False),
        sa.Column("window_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("expected", sa.BigInteger()),
        sa.Column("problem", sa.Text()),
        sa.Column("asked_ms", sa.BigInteger(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("accepted", sa.Text()),
        sa.PrimaryKeyConstraint("pipeline", "window_ms"),
    )
