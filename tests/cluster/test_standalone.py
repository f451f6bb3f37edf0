"""Jobs on a real standalone cluster with two workers, with a Kafka that asks for a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.stack.info import StackInfo
from tests.cluster.conftest import ALL, BARE, Make
from tests.cluster.life import Held, end_sessions_of, parents_named
from tidegate.workflow.batch import ingest

pytestmark = pytest.mark.skipif(not ALL, reason="make test-cluster")


def test_two_workers_share_a_batch_that_is_cut_by_records(
    kafka: StackInfo, master: str, stack_roots: Path, make: Make
) -> None:
    """The driver has the password here, executors get it from the driver; nobody sees it."""
    life = make(kafka, {"host": master}, {}, task_records=500)
    life.produce(3_000)
    with life.watched():
        life.batch("run-1")
    assert len(life.tasks()) == 6, "by records, whatever executors there were"
    for worker in ("work0", "work1"):
        assert list((stack_roots / "standalone" / worker).glob("app-*/*/stderr")), f"{worker} had an executor"
    life.proven()


def test_a_killed_executor_loses_its_files_and_no_rows(
    kafka: StackInfo, master: str, packed: Path, make: Make, tmp_path: Path
) -> None:
    """With the workers' archive and a bare Python."""
    held = Held(tmp_path / "held", "files:3")
    life = make(kafka, {"host": master}, {"archive": str(packed), **BARE}, held=held, task_records=10_000)
    life.produce(40_000)
    life.step(ingest.plan, "run-1")
    thread, errors, ctx = life.begin("run-1")
    parents_named(held.waits("worker", errors), "CoarseGrainedExecutorBackend").kill()
    thread.join(240)
    assert errors == []
    ctx.ledger.close()
    life.step(ingest.land, "run-1")
    assert life.landed().epoch == 1, "Spark itself repeated the task"
    assert len(life.tasks()) == 4
    life.proven()


def test_a_warm_session_hands_its_secrets_to_executors(kafka: StackInfo, master: str, make: Make) -> None:
    life = make(kafka, {"host": master}, {}, spark_session="warm")
    try:
        with life.watched():
            for number in (1, 2):
                life.produce(1_000)
                life.batch(f"run-{number}")
        life.proven()
    finally:
        end_sessions_of(life)
