"""Traces in which the ledger has forgotten what storage knows (R11)."""

from __future__ import annotations

from tests.mutants.invariants import every_record_once
from tests.mutants.names import ONCE, require
from tests.mutants.stage import Stage, record, refused
from tidegate.core.base.errors import Alarm, StorageAhead
from tidegate.workflow.batch import ingest


def restored(stage: Stage, yesterday: bytes) -> None:
    stage.close()
    stage.database.write_bytes(yesterday)


def a_ledger_from_yesterday_plans_again(stage: Stage) -> None:
    """R11: batch 2 left nothing behind, batch 3 landed; the restored ledger's batch 2 would read both ranges."""
    stage.first_hours()
    stage.ingest("r1")
    yesterday = stage.database.read_bytes()
    stage.produce(record("x", 3.6))
    ingest.plan(stage.context(), "r2")
    batches = stage.context().ledger.batches
    batches.abandon(batches.get("readings", 2), "given up before anything was written")  # type: ignore[arg-type]
    stage.produce(record("y", 3.7))
    stage.ingest("r3")
    restored(stage, yesterday)
    if refused(lambda: ingest.plan(stage.context(), "r4"), StorageAhead):
        return
    batches = stage.context().ledger.batches
    again = {o for r in batches.get("readings", 2).plan.ranges for o in range(r.start, r.end)}
    require(not again & {5}, ONCE, f"batch 2 reads offsets {sorted(again)}, batch 3 has landed offset 5")


def a_ledger_forgets_that_a_batch_was_sealed(stage: Stage) -> None:
    """R11: a landed batch is adopted, not written again: its place is taken."""
    stage.first_hours()
    ingest.plan(stage.context(), "r1")
    stage.close()
    planned = stage.database.read_bytes()
    ingest.write(stage.context(), "r1")
    ingest.land(stage.context(), "r1")
    restored(stage, planned)
    stage.run("r1")
    stage.at_rest()


def a_ledger_forgets_what_it_had_planned(stage: Stage) -> None:
    """R11: what is adopted covers exactly the plan's ranges."""
    stage.first_hours()
    stage.close()
    before = stage.database.read_bytes()
    ingest.plan(stage.context(), "r1")
    ingest.write(stage.context(), "r1")
    stage.close()
    sealed = stage.folder / "lake/readings/_tidegate/tmp"
    stage.produce(record("more", 0.3))
    restored(stage, before)
    ingest.plan(stage.context(), "r1")
    attempt = next(sealed.iterdir())
    attempt.rename(_made(stage, "landed") / "1")  # the old ledger's task had its rename in flight
    refused(lambda: ingest.write(stage.context(), "r1"), StorageAhead, Alarm)
    state = stage.context().ledger.batches.get("readings", 1).state
    if state in ("SEALED", "LANDED"):
        refused(lambda: ingest.land(stage.context(), "r1"), StorageAhead, Alarm)
        stage.settle()
        every_record_once(stage, stage.produced)


def _made(stage: Stage, name: str):
    folder = stage.folder / "lake/readings/_tidegate" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
