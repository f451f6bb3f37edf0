"""Logs that were cut, and where reading goes on, if not at the planned end; by which zone data a batch was planned."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("batch_partitions", sa.Column("leader_epoch", sa.Integer()))
    op.create_table(
        "log_cuts",
        sa.Column("pipeline", sa.String(200), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("topic_id", sa.String(100), nullable=False),
        sa.Column("after_batch", sa.BigInteger(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("end", sa.BigInteger(), nullable=False),
        sa.Column("leader_epoch", sa.Integer()),
        sa.Column("found_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "partition"),
    )
    op.create_table(
        "resumptions",
        sa.Column("pipeline", sa.String(200), nullable=False),
        sa.Column("after_batch", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.Integer(), nullable=False),
        sa.Column("topic_id", sa.String(100), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("lost_start", sa.BigInteger()),
        sa.Column("leader_epoch", sa.Integer()),
        sa.Column("batch_id", sa.BigInteger()),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "after_batch", "partition"),
    )
    op.add_column("batches", sa.Column("zone", sa.Text()))
