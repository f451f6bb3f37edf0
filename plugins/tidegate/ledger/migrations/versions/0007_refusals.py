"""By which rule a batch was refused, what helps it, and at which record: no rule reads the words any more."""

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_ADVICE = "\n  what to do: "
_HELPS_ALL = "mend the spec or raise the threshold, then clear the write task: the same offsets are read again"
_KINDS = (
    ("dirty_limit", re.compile(r"batch \d+: [\d,]+ of [\d,]+ records are dirty, over dirty\.")),
    ("unknown_field", re.compile(r"attempt \S+: unknown field ['\"]")),
    ("job", re.compile(r"attempt \S+: ")),
    ("receipt", re.compile(r"the receipt of \S+ \d+ does not add up: ")),
    ("windows", re.compile(r"the receipt of batch \d+ is (of other windows than the schedule's|not of its plan): ")),
    ("log_cut", re.compile(r"partition \d+: the log was cut at offset ")),
    ("reread", re.compile(r"batch \d+, partition \d+: ")),
)
"""How the sentences of 0.1.0 begin."""
_AT = re.compile(r"\(partition (\d+), offset (\d+)(?:, field [^\n]*)?\)$")


def upgrade() -> None:
    """Looks for refused batches before it changes the table: from then on every task waits for the commit. A refusal
    that a task of 0.1.0 writes in between, or later, has words only, which its next try replaces."""
    columns = ("pipeline", "batch_id", "refused", "refused_kind", "refused_advice", "refused_partition")
    b = sa.table("batches", *map(sa.column, (*columns, "refused_offset")))
    connection = op.get_bind()
    refused = sa.select(b.c.pipeline, b.c.batch_id, b.c.refused).where(b.c.refused.is_not(None))
    found = connection.execute(refused).all()
    op.add_column("batches", sa.Column("refused_kind", sa.String(16)))
    op.add_column("batches", sa.Column("refused_advice", sa.Text()))
    op.add_column("batches", sa.Column("refused_partition", sa.Integer()))
    op.add_column("batches", sa.Column("refused_offset", sa.BigInteger()))
    for row in found:
        mine = sa.and_(b.c.pipeline == row.pipeline, b.c.batch_id == row.batch_id, b.c.refused == row.refused)
        connection.execute(sa.update(b).where(mine).values(**meant(row.refused)))


def meant(refused: str) -> dict[str, Any]:
    """What the words of 0.1.0 say, once and for all."""
    message, _, advice = refused.rpartition(_ADVICE) if _ADVICE in refused else (refused, "", "")
    kind = next((kind for kind, words in _KINDS if words.match(message)), "other")
    at = _AT.search(message) if kind in ("job", "unknown_field") else None
    return {
        "refused_kind": kind,
        "refused_advice": None if advice in ("", _HELPS_ALL) else advice,
        "refused_partition": None if at is None else int(at[1]),
        "refused_offset": None if at is None else int(at[2]),
    }
