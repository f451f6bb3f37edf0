"""What the ledger knows of a topic's event time: the ground of every readiness decision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Connection

from tidegate.core.batch.states import INGEST, LANDED
from tidegate.core.window.forecast import BATCHES, earlier
from tidegate.core.window.watermark import PartitionFacts, TopicFacts
from tidegate.ledger import schema
from tidegate.ledger.store import asked, read_as, rows_of

b = schema.batches
NOTHING = TopicFacts(None, None, ())
_LARGE = ("receipt", "floor", "gaps")
"""Columns that are not wanted here."""


def topic_facts(c: Connection, name: str) -> TopicFacts:
    """What the newest LANDED batch left behind; that is all that readiness rests on. A redrive leaves nothing."""
    landed = select(b.c.batch_id, b.c.clock_ms).where(b.c.pipeline == name, b.c.state == LANDED, b.c.kind == INGEST)
    batch = c.execute(landed.order_by(b.c.batch_id.desc()).limit(1)).first()
    if batch is None:
        return NOTHING
    return left_behind(batch, rows_of(c, schema.batch_partitions, pipeline=name, batch_id=batch.batch_id))


def partition_facts(p: Any) -> PartitionFacts:
    """Facts from a row of `batch_partitions`."""
    return read_as(PartitionFacts, p, drained=bool(p.drained))


def earlier_facts(c: Connection, names: Sequence[str]) -> dict[str, TopicFacts]:
    """What the batch left behind that a pace is measured from; pipelines of which only one has landed are left out."""
    statement = (
        "WITH asked(pipeline) AS (VALUES {rows}), low AS (SELECT a.pipeline, coalesce((SELECT n.batch_id "
        f"FROM batches AS n WHERE n.pipeline = a.pipeline AND n.state = '{LANDED}' AND n.kind = '{INGEST}' "
        f"ORDER BY n.batch_id DESC LIMIT 1 OFFSET {BATCHES}), 0) AS batch_id FROM asked AS a) "
        "SELECT t.pipeline, t.batch_id, t.clock_ms FROM low JOIN batches AS t ON t.pipeline = low.pipeline "
        f"AND t.batch_id >= low.batch_id WHERE t.state = '{LANDED}' AND t.kind = '{INGEST}' ORDER BY t.batch_id DESC"
    )
    landed: dict[str, dict[int, Any]] = defaultdict(dict)
    for row in asked(c, statement, [(name,) for name in names]):
        landed[row.pipeline][row.batch_id] = row
    found = {name: earlier([(i, row.clock_ms) for i, row in rows.items()]) for name, rows in landed.items()}
    pairs = [(name, i) for name, i in found.items() if i is not None]
    met: dict[str, list[Any]] = defaultdict(list)
    for row in of_batches(c, schema.batch_partitions, pairs):
        met[row.pipeline].append(row)
    return {name: left_behind(landed[name][i], met[name]) for name, i in pairs}


def left_behind(batch: Any, met: Sequence[Any]) -> TopicFacts:
    rows = sorted(met, key=lambda x: x.partition)
    return TopicFacts(batch.batch_id, batch.clock_ms, tuple(map(partition_facts, rows)))


def of_batches(c: Connection, table: Any, pairs: Sequence[tuple[str, int]]) -> list[Any]:
    """The rows of `table` that belong to these batches. Joined with the pairs as rows: any other way to say it makes
    PostgreSQL walk over the whole table."""
    columns = ", ".join(f't."{x.name}"' for x in table.c if x.name not in _LARGE)
    statement = (
        f"WITH asked(pipeline, batch_id) AS (VALUES {{rows}}) SELECT {columns} FROM asked AS a "
        f"JOIN {table.name} AS t ON t.pipeline = a.pipeline AND t.batch_id = a.batch_id"
    )
    return asked(c, statement, pairs)
