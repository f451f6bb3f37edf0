"""How many runs a backfill may have at a time: today's windows need runs of the same DAG and slots of the same pool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

NO_LIMIT = 1_000_000
"""A pool with -1 slots has none."""


def most(max_active_runs: int, slots: int) -> int:
    """Of a backfill's own runs: half of what the DAG may have, and half of the pool's slots; at least one."""
    return max(1, min(max_active_runs, slots) // 2)


def room(limit: int, max_active_runs: int, others: int) -> int:
    """How many of its own runs a backfill may have now, beside `others` of the DAG that are queued or running: one run
    stays free for the schedule. At least one, or runs that wait for windows to come would hold up every backfill."""
    return max(1, min(limit, max_active_runs - others - 1))


def slots_of(pools: Iterable[str], session: Session) -> int:
    """The fewest slots that any of these pools has. Raises LookupError with the name of one that is not there."""
    from airflow.models.pool import Pool
    from sqlalchemy import select

    wanted = set(pools)
    found = dict(session.execute(select(Pool.pool, Pool.slots).where(Pool.pool.in_(wanted))).all())
    for name in sorted(wanted - found.keys()):
        raise LookupError(name)
    return min((NO_LIMIT if slots < 0 else slots for slots in found.values()), default=NO_LIMIT)
