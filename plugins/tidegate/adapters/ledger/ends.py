"""Where the next batch begins in each Kafka partition."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from tidegate.adapters.ledger import schema
from tidegate.adapters.ledger.store import rows_of
from tidegate.core.batch import INGEST

b, s = schema.batches, schema.resumptions


def newest_batch(c: Connection, name: str, topic_id: str | None) -> int:
    """Id of the newest batch on this topic, redrives excepted; 0 before the first."""
    newest = select(func.max(b.c.batch_id)).where(b.c.pipeline == name, b.c.topic_id == topic_id, b.c.kind == INGEST)
    return c.scalar(newest) or 0


def planned_ends(c: Connection, name: str, topic_id: str | None) -> dict[int, int]:
    """By Kafka partition: every batch but a redrive has a row for each. Empty before the first batch on the topic."""
    newest = newest_batch(c, name, topic_id)
    found = rows_of(c, schema.batch_partitions, pipeline=name, batch_id=newest) if newest else []
    ends = {r.partition: r.planned_end for r in found}
    return ends | {r.partition: r.offset for r in resumptions(c, name, topic_id, newest)}


def resumptions(c: Connection, name: str, topic_id: str | None, newest: int) -> list[Any]:
    """Of partitions where the batch after `newest` goes on elsewhere than at the planned end."""
    return rows_of(c, s, pipeline=name, topic_id=topic_id, after_batch=newest)
