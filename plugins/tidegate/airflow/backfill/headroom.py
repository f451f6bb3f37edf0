"""Number of runs that a backfill may have at a time, so that today's windows find runs and slots of the pool."""

from __future__ import annotations

from collections.abc import Iterable

from airflow.models.pool import Pool
from sqlalchemy import select
from sqlalchemy.orm import Session

NO_LIMIT = 1_000_000
"""A pool with -1 slots has none."""


def most(max_active_runs: int, slots: int) -> int:
    """Most runs of one backfill: half of the DAG's, at most half of the pool's slots; at least one."""
    return max(1, min(max_active_runs, slots) // 2)


def room(limit: int, max_active_runs: int, others: int) -> int:
    """Runs that a backfill may have now, beside `others` of the DAG, queued or running. One stays free for the
    schedule. At least one, or runs that wait for windows to come would hold up every backfill."""
    return max(1, min(limit, max_active_runs - others - 1))


def slots_of(pools: Iterable[str], session: Session) -> int:
    """The fewest slots that any of these pools has. Raises LookupError with the name of a missing one."""
    wanted = set(pools)
    found = dict(session.execute(select(Pool.pool, Pool.slots).where(Pool.pool.in_(wanted))).all())
    for name in sorted(wanted - found.keys()):
        raise LookupError(name)
    return min((NO_LIMIT if slots < 0 else slots for slots in found.values()), default=NO_LIMIT)
