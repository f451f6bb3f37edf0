"""When work began, a lifted dirty limit, sums of what has landed, and what people were told."""

import json
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    # what takes long first: adding columns keeps even readers out until the end
    nameless = _restored()
    _partial_index("ix_totals_late", "batch_window_totals", "kind = 'late'", "pipeline", "window_ms")
    _partial_index("ix_windows_at_work", "windows", "state <> 'CLOSED' OR blocked IS NOT NULL", "pipeline")
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
    _mark_forgotten(nameless)


def _restored() -> list[dict[str, object]]:
    """Generations that came back from a record, which did not name the specs of their rows yet, and what was reopened
    on top of them; a replay read everything from Kafka."""
    e = sa.table("events", *map(sa.column, ("pipeline", "what", "subject", "detail")))
    g = sa.table("generations", *map(sa.column, ("pipeline", "window_ms", "number", "kind", "state")))
    connection, found = op.get_bind(), []
    restored: dict[tuple[str, int], set[int]] = {}
    for row in connection.execute(sa.select(e.c.pipeline, e.c.subject, e.c.detail).where(e.c.what == "restored")):
        start = datetime.strptime(row.subject, "window %Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        key = (row.pipeline, int(start.timestamp()) * 1000)
        restored.setdefault(key, set()).add(json.loads(row.detail)["generation"])
    for (pipeline, start_ms), numbers in restored.items():
        mine = sa.and_(g.c.pipeline == pipeline, g.c.window_ms == start_ms, g.c.state != "DISCARDED")
        nameless = False
        for row in connection.execute(sa.select(g.c.number, g.c.kind).where(mine).order_by(g.c.number)):
            if row.number in numbers:
                nameless = row.kind != "archive"
            elif row.kind != "reopen":
                nameless = False
            if nameless:
                found.append({"p": pipeline, "w": start_ms, "n": row.number})
    return found


def _mark_forgotten(nameless: list[dict[str, object]]) -> None:
    statement = "UPDATE generations SET spec_version = 0 WHERE pipeline = :p AND window_ms = :w AND number = :n"
    for one in nameless:
        op.get_bind().execute(sa.text(statement), one)


def _partial_index(name: str, table: str, where: str, *columns: str) -> None:
    op.create_index(name, table, columns, postgresql_where=sa.text(where), sqlite_where=sa.text(where))
