"""Holders of a pool's slots, and tasks that wait for one."""

from __future__ import annotations

import time
from collections import Counter

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidegate.core.base.wording import many

HOLDERS = 6
"""Most DAGs to name."""
URGENT_S = 10.0
"""Seconds between looks for others that wait."""


def full(pool: str, session: Session) -> str:
    """Words such as `the 4 slots of tidegate_archive are held: flights.archive 3, ...`; empty while one is free."""
    slots, held = _held(pool, session)
    taken = sum(held.values())
    if slots is None or slots < 0 or taken < slots:
        return ""
    named = ", ".join(f"{dag_id} {count}" for dag_id, count in held.most_common(HOLDERS))
    more = ", ..." if len(held) > HOLDERS else ""
    owners = {dag_id.rpartition(".")[0] or dag_id for dag_id in held}
    if len(owners) == 1:
        return f"{owners.pop()} holds the {many(slots, 'slot')} of {pool} ({named}{more})"
    return f"the {many(slots, 'slot')} of {pool} are held: {named}{more}"


def starves(pool: str, weight: int, session: Session) -> bool:
    """Whether a task of a greater weight, and of a DAG that is not paused, waits for a slot of a pool that has none."""
    slots, held = _held(pool, session)
    if slots is None or slots < 0 or sum(held.values()) < slots:
        return False
    waits = (TaskInstance.pool == pool, TaskInstance.state == TaskInstanceState.SCHEDULED)
    goes_on = (DagRun.state == "running", DagModel.is_paused.is_(False))
    asked = select(func.count()).select_from(TaskInstance).join(TaskInstance.dag_run)
    asked = asked.join(DagModel, DagModel.dag_id == TaskInstance.dag_id).where(*waits, *goes_on)
    return bool(session.scalar(asked.where(TaskInstance.priority_weight > weight)))


class Turn:
    """A long task's turn with its slot: over, for good, once a task of a greater weight waits for one."""

    def __init__(self, pool: str, weight: int) -> None:
        self._pool, self._weight = pool, weight
        self._looked = time.monotonic()
        self._over = False

    def over(self) -> bool:
        """Looks now and then."""
        if not self._over and time.monotonic() - self._looked >= URGENT_S:
            self._looked = time.monotonic()
            with create_session() as session:
                self._over = starves(self._pool, self._weight, session)
        return self._over


def _held(pool: str, session: Session) -> tuple[int | None, Counter[str]]:
    """Slots of the pool (None: no such pool; below zero: no limit), and how many each DAG holds."""
    slots = session.scalar(select(Pool.slots).where(Pool.pool == pool))
    taken = TaskInstance.state.in_((TaskInstanceState.RUNNING, TaskInstanceState.QUEUED))
    asked = select(TaskInstance.dag_id, func.sum(TaskInstance.pool_slots)).where(TaskInstance.pool == pool, taken)
    found = session.execute(asked.group_by(TaskInstance.dag_id)).all()
    return slots, Counter({dag_id: int(count) for dag_id, count in found})
