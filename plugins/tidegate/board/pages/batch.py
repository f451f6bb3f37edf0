"""One batch: its ranges, what became of their records, and the runs that worked on it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tidegate.board.airflow import Run, runs_named
from tidegate.board.reach import Reach
from tidegate.core.files.balance import Balance
from tidegate.core.look.concerns import unblocking
from tidegate.core.look.glance import BatchDetail
from tidegate.core.look.views import BatchRow, Event
from tidegate.core.spec.pipeline import Pipeline

EVENTS = 20
MOST = 200
"""Most ranges to list."""
LARGEST = 2**63 - 1


class NoBatch(Exception):
    """The pipeline has no batch of this number."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """`newest`: the pipeline's newest batch; `merged`: a mirror's newest merged one, 0 for none; else None."""

    pipeline: Pipeline
    batch: BatchRow
    detail: BatchDetail
    events: tuple[Event, ...]
    runs: tuple[Run, ...]
    newest: int
    merged: int | None
    now_ms: int

    @property
    def balance(self) -> Balance | None:
        """Sum over its ranges; None before it is sealed."""
        found = [r.balance for r in self.batch.ranges if r.balance is not None]
        return sum(found, Balance()) if found else None

    @property
    def todo(self) -> str:
        """Advice, where it waits for a human."""
        name, batch = self.pipeline.name, self.batch
        if batch.is_open and batch.blocked:
            return unblocking(name, f"batch {batch.batch_id}")
        if batch.is_open and batch.refusal is not None:
            return batch.refusal.helps(name, batch.batch_id)
        return ""

    @property
    def may_be_released(self) -> bool:
        """Whether a user may let it land although it is too dirty."""
        refusal = self.batch.refusal
        return self.batch.is_open and refusal is not None and refusal.is_releasable


def gather(reach: Reach, name: str, batch_id: int) -> Page:
    """Raises UnknownPipeline, NotRegistered, NoBatch, LedgerError."""
    pipeline, reads = reach.pipeline(name), reach.ledger().reads
    batch, detail, newest = reads.batch(name, batch_id) if batch_id <= LARGEST else (None, None, 0)
    if batch is None or detail is None:
        raise NoBatch(batch_id)
    events = reads.event_page(name, EVENTS, None, f"batch {batch_id}")
    runs = runs_named([x.run for x in reads.bindings(name, batch_id)])
    return Page(
        pipeline=pipeline,
        batch=batch,
        detail=detail,
        events=tuple(events),
        runs=runs,
        newest=newest,
        merged=None if pipeline.windows.closes else reads.merging([name])[name].upto,
        now_ms=time.time_ns() // 1_000_000,
    )
