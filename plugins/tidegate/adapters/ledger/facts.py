"""What the ledger knows of a topic's event time: the ground of every readiness decision."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Connection

from tidegate.adapters.ledger import schema
from tidegate.adapters.ledger.store import rows_of
from tidegate.core.batch import INGEST
from tidegate.core.watermark import PartitionFacts, TopicFacts


def topic_facts(c: Connection, name: str) -> TopicFacts:
    """What the newest LANDED batch left behind; that is all that readiness rests on. A redrive leaves nothing."""
    b = schema.batches
    landed = select(b).where(b.c.pipeline == name, b.c.state == "LANDED", b.c.kind == INGEST)
    row = c.execute(landed.order_by(b.c.batch_id.desc()).limit(1)).first()
    if row is None:
        return TopicFacts(None, None, ())
    parts = rows_of(c, schema.batch_partitions, pipeline=name, batch_id=row.batch_id)
    return TopicFacts(
        row.batch_id,
        row.clock_ms,
        tuple(partition_facts(p) for p in parts),
    )


def partition_facts(p: Any) -> PartitionFacts:
    """Of a row of `batch_partitions`."""
    return PartitionFacts(
        p.partition,
        p.max_event_ms,
        bool(p.drained),
        p.advanced_ms,
        p.open_transaction_since_ms,
        p.last_stable_offset,
    )
