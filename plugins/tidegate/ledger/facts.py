"""What the ledger knows of a topic's event time: the ground of every readiness decision."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Connection

from tidegate.core.batch.states import INGEST
from tidegate.core.window.forecast import BATCHES, earlier
from tidegate.core.window.watermark import PartitionFacts, TopicFacts
from tidegate.ledger import schema
from tidegate.ledger.store import read_as, row_of, rows_of

b = schema.batches
NOTHING = TopicFacts(None, None, ())


def topic_facts(c: Connection, name: str) -> TopicFacts:
    """What the newest LANDED batch left behind; that is all that readiness rests on. A redrive leaves nothing."""
    row = c.execute(_landed(name).limit(1)).first()
    return NOTHING if row is None else _facts(c, name, row)


def facts_after(c: Connection, name: str, batch_id: int) -> TopicFacts:
    """What this batch left behind; nothing, if it has not landed."""
    row = row_of(c, b, pipeline=name, batch_id=batch_id, state="LANDED")
    return NOTHING if row is None else _facts(c, name, row)


def earlier_facts(c: Connection, name: str) -> TopicFacts:
    """What the batch left behind that a pace is measured from; nothing, if only one has landed."""
    newest = [(r.batch_id, r.clock_ms) for r in c.execute(_landed(name).limit(BATCHES + 1))]
    batch_id = earlier(newest)
    return NOTHING if batch_id is None else facts_after(c, name, batch_id)


def _landed(name: str) -> Any:
    """Newest first."""
    landed = select(b.c.batch_id, b.c.clock_ms).where(b.c.pipeline == name, b.c.state == "LANDED", b.c.kind == INGEST)
    return landed.order_by(b.c.batch_id.desc())


def _facts(c: Connection, name: str, batch: Any) -> TopicFacts:
    parts = rows_of(c, schema.batch_partitions, pipeline=name, batch_id=batch.batch_id)
    return TopicFacts(batch.batch_id, batch.clock_ms, tuple(partition_facts(p) for p in parts))


def partition_facts(p: Any) -> PartitionFacts:
    """Of a row of `batch_partitions`."""
    return read_as(PartitionFacts, p, drained=bool(p.drained))
