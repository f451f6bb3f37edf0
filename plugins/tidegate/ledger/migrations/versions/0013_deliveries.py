"""Deliveries: what stands of windows in further systems."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """A new table: windows of before it were never sent."""
    op.create_table(
        "deliveries",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("name", sa.String(100), primary_key=True),
        sa.Column("window_ms", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("nonce", sa.String(32), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("stood", sa.Integer()),
        sa.Column("rows", sa.BigInteger()),
        sa.Column("checksum", sa.String(20)),
        sa.Column("stood_ms", sa.BigInteger()),
    )
    wanted = sa.text("state IN ('PENDING', 'SENDING')")
    op.create_index(
        "ix_deliveries_wanted", "deliveries", ["pipeline", "name"], postgresql_where=wanted, sqlite_where=wanted
    )
