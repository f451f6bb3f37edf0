"""Where the next batch begins in each Kafka partition."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from tidegate.core.base.offsets import Interval
from tidegate.core.batch.states import INGEST
from tidegate.ledger import schema
from tidegate.ledger.store import rows_of

b, s = schema.batches, schema.resumptions


def newest_batch(c: Connection, name: str, topic_id: str | None) -> int:
    """Id of the newest batch on this topic, redrives excepted; 0 before the first."""
    newest = select(func.max(b.c.batch_id)).where(b.c.pipeline == name, b.c.topic_id == topic_id, b.c.kind == INGEST)
    return c.scalar(newest) or 0


def begun(c: Connection, name: str) -> bool:
    """Whether a batch was ever planned, on whatever topic; one that is to be read again counts."""
    batches = select(b.c.batch_id).where(b.c.pipeline == name, b.c.kind == INGEST)
    kept = select(s.c.after_batch).where(s.c.pipeline == name)
    return any(c.execute(found.limit(1)).first() is not None for found in (batches, kept))


@dataclass(frozen=True)
class Reach:
    """How far the batches on a topic are planned, and by which leader epochs that is known. `skipped`: offsets that the
    next batch records as lost."""

    newest: int
    ends: dict[int, int]
    epochs: dict[int, int]
    skipped: dict[int, Interval]


def reach(c: Connection, name: str, topic_id: str | None) -> Reach:
    newest = newest_batch(c, name, topic_id)
    found = rows_of(c, schema.batch_partitions, pipeline=name, batch_id=newest) if newest else []
    decided = rows_of(c, s, pipeline=name, topic_id=topic_id, after_batch=newest)
    epochs = {r.partition: r.leader_epoch for r in [*found, *decided]}
    return Reach(
        newest,
        {r.partition: r.planned_end for r in found} | {r.partition: r.offset for r in decided},
        {p: epoch for p, epoch in epochs.items() if epoch is not None},
        {r.partition: Interval(r.lost_start, r.offset) for r in decided if r.lost_start is not None},
    )
