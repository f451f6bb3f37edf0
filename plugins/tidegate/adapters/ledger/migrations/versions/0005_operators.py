"""When work began, a lifted dirty limit, sums of what has landed, and what people were told."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("batches", sa.Column("began_ms", sa.BigInteger()))
    op.add_column("batches", sa.Column("job_ms", sa.BigInteger()))
    op.add_column("batches", sa.Column("released", sa.Text()))
    op.add_column("generations", sa.Column("began_ms", sa.BigInteger()))
    op.add_column("generations", sa.Column("origin", sa.Integer()))
    op.add_column("generations", sa.Column("why", sa.Text()))
    op.add_column("generations", sa.Column("spec_version", sa.Integer()))
    op.create_table(
        "totals",
        sa.Column("pipeline", sa.String(200), nullable=False),
        sa.Column("through_batch", sa.BigInteger(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("pipeline"),
    )
    op.create_table(
        "notices",
        sa.Column("pipeline", sa.String(200), nullable=False),
        sa.Column("key", sa.String(300), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("first_ms", sa.BigInteger(), nullable=False),
        sa.Column("told_ms", sa.BigInteger()),
        sa.Column("ended_ms", sa.BigInteger()),
        sa.Column("closed_ms", sa.BigInteger()),
        sa.PrimaryKeyConstraint("pipeline", "key"),
    )
    _partial_index("ix_totals_late", "batch_window_totals", "kind = 'late'", "pipeline", "window_ms")
    _partial_index("ix_windows_at_work", "windows", "state <> 'CLOSED' OR blocked IS NOT NULL", "pipeline")


def _partial_index(name: str, table: str, where: str, *columns: str) -> None:
    op.create_index(name, table, columns, postgresql_where=sa.text(where), sqlite_where=sa.text(where))
