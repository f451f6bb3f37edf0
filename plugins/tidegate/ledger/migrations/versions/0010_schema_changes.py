"""Fields of change events that became columns by themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """A new table only: nobody waits, and an earlier release does not meet it."""
    op.create_table(
        "schema_changes",
        sa.Column("pipeline", sa.String(200), primary_key=True),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("column_name", sa.String(200), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.BigInteger()),
        sa.Column("partition", sa.Integer()),
        sa.Column("offset", sa.BigInteger()),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("actor", sa.String(500), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.UniqueConstraint("pipeline", "column_name", name="uq_schema_change"),
    )
