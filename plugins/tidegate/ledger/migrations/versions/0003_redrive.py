"""What kind a batch is, which dirty rows it takes up, and who owns rows that have left their batch."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("batches", sa.Column("kind", sa.String(16), nullable=False, server_default="ingest"))
    op.create_table(
        "batch_sources",
        sa.Column("pipeline", sa.String(200), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("source", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("partition", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("min_offset", sa.BigInteger(), nullable=False),
        sa.Column("max_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "batch_id", "source", "partition"),
    )
    op.create_table(
        "row_owners",
        sa.Column("pipeline", sa.String(200), nullable=False),
        sa.Column("batch_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("owner", sa.BigInteger(), nullable=False),
        sa.Column("cleared", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline", "batch_id", "kind"),
    )
    op.create_index("ix_row_owners_owner", "row_owners", ["pipeline", "owner"])
