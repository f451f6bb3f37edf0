"""Where reading goes on, if not at the planned end of the newest batch: written once, read by the next plan."""

from __future__ import annotations

from sqlalchemy import delete, insert
from sqlalchemy.engine import Connection

from tidegate.adapters.ledger import schema
from tidegate.core.batch import Plan

s = schema.resumptions


def keep_starts(c: Connection, plan: Plan, why: str) -> None:
    """The first batch on its topic is forgotten: the next one begins where it began, not where `source.start` says
    by then."""
    if plan.is_redrive:
        return
    begun = {p.partition: p.start for p in plan.partitions} | {x.partition: x.start for x in plan.losses}
    for partition, offset in begun.items():
        row = {"pipeline": plan.pipeline, "after_batch": 0, "partition": partition}
        c.execute(delete(s).where(*(s.c[column] == value for column, value in row.items())))
        c.execute(insert(s).values(**row, topic_id=plan.topic_id, offset=offset, why=why))
