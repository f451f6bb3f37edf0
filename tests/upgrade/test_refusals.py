"""Batches that 0.1.0 refused: what its sentences say stands in columns once the ledger is migrated."""

from __future__ import annotations

import importlib
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.upgrade import release
from tests.world import World, record
from tidegate.core.base.errors import BatchRefused, StepMissing
from tidegate.core.batch.refusal import Refusal, RefusalKind, refusal_of
from tidegate.core.spec.pipeline import DirtyLimits
from tidegate.ledger.migrate import migrate
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile

meant = importlib.import_module("tidegate.ledger.migrations.versions.0007_refusals").meant


def test_refusals_of_0_1_0_keep_their_meaning(old_checkout: Path, tmp_path: Path) -> None:
    release.run(old_checkout, "old_refusals.py", tmp_path)
    found: dict[str, Refusal | None] = {}
    for name in ("dirty", "unknown", "lost"):
        url = f"sqlite:///{tmp_path}/{name}/ledger.db"
        migrate(url)
        columns = "refused, refused_kind, refused_advice, refused_partition, refused_offset"
        with sa.create_engine(url).connect() as c:
            row = c.execute(sa.text(f"SELECT {columns} FROM batches WHERE refused IS NOT NULL")).one()
        found[name] = refusal_of(*row)
    dirty, unknown, lost = found["dirty"], found["unknown"], found["lost"]
    assert dirty is not None
    assert unknown is not None
    assert lost is not None
    assert (dirty.kind, dirty.is_releasable, dirty.partition) == (RefusalKind.DIRTY_LIMIT, True, None)
    assert (unknown.kind, unknown.partition, unknown.offset) == (RefusalKind.UNKNOWN_FIELD, 0, 1)
    assert "unknown field 'other'" in unknown.said
    assert unknown.advice
    assert unknown.helps("readings", 1) == unknown.advice.replace("<pipeline>", "readings")
    assert (lost.kind, lost.partition, lost.offset) == (RefusalKind.JOB, 0, 0)
    assert lost.advice
    assert "data loss" in lost.first_line


GENERAL = (
    "\n  what to do: mend the spec or raise the threshold, then clear the write task: the same offsets are read again"
)


@pytest.mark.parametrize(
    ("said", "kind", "advice", "at"),
    [
        ("batch 12: 1,001 of 1,000,000 records are dirty, over dirty.max_count 1000" + GENERAL + "; or", "dirty_limit",
         GENERAL.partition(": ")[2] + "; or", (None, None)),
        ("attempt 3.1-ab: unknown field 'x' (partition 2, offset 70, field x)" + GENERAL, "unknown_field", None,
         (2, 70)),
        ('attempt 3.1-ab: unknown field "it\'s" (partition 0, offset 7, field it\'s)', "unknown_field", None, (0, 7)),
        ("attempt 3.1-ab: data loss (partition 2)\n  what to do: look", "job", "look", (None, None)),
        ("the receipt of batch 7 does not add up: batch 7: 1 of 2 records are dirty, over dirty.max_count 0" + GENERAL,
         "receipt", None, (None, None)),
        ("the receipt of redrive 7 does not add up: x", "receipt", None, (None, None)),
        ("the receipt of batch 7 is of other windows than the schedule's: x\n  what to do: y", "windows", "y",
         (None, None)),
        ("the receipt of batch 7 is not of its plan: x\n  what to do: y", "windows", "y", (None, None)),
        ("partition 0: the log was cut at offset 7 (x)\n  what to do: tidegate", "log_cut", "tidegate", (None, None)),
        ("batch 7, partition 0: records are gone (attempt 1)\n  what to do: y", "reread", "y", (None, None)),
        ("batch 7: field x: 1 of 2 records are dirty, over dirty.max_count 0", "other", None, (None, None)),
        ("batch 7: 1 of 2 records are dirty", "other", None, (None, None)),
        ("", "other", None, (None, None)),
    ],
)  # fmt: skip
def test_a_sentence_is_read_once(said: str, kind: str, advice: str | None, at: tuple[int | None, int | None]) -> None:
    assert meant(said) == {
        "refused_kind": kind, "refused_advice": advice, "refused_partition": at[0], "refused_offset": at[1],
    }  # fmt: skip


def test_a_refusal_that_0_1_0_wrote_beside_this_release_is_said_anew_by_the_next_try(tmp_path: Path) -> None:
    """It knows the words only: nobody can release the batch by them, and no rule reads them."""
    world = World(tmp_path)
    world.change_spec(dirty=DirtyLimits(0, None))
    world.produce(record("a", 0.1), b"not json")
    ingest.plan(world.context(), "r1")
    with pytest.raises(BatchRefused):
        ingest.write(world.context(), "r1")
    world.close()
    with sqlite3.connect(world.database) as c:
        c.execute("UPDATE batches SET refused_kind = NULL, refused_advice = NULL")
    with pytest.raises(StepMissing, match="not refused for its dirty records"):
        reconcile.releasable(world.context(), 1)
    with pytest.raises(BatchRefused):
        ingest.write(world.context(), "r1")
    assert reconcile.releasable(world.context(), 1).startswith("batch 1: 1 of 2 records are dirty")
    world.close()
