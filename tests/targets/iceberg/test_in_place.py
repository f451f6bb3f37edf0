"""Lives on a store without renames: the record is the landing, and files stay where they were written."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clean.cleanings import days_later
from tests.dirty.redrives import NEVER, mend, odd, redriven
from tests.hooks import Died, Hook, die
from tests.late.reopenings import reopened
from tests.ledger_loss import adopt
from tests.targets.iceberg.in_place import Lake, make
from tests.world import record, window
from tidegate.core.base.errors import Alarm, OutcomeUnknown, StorageAhead
from tidegate.core.batch.states import LandedBatch, PlannedBatch, SealedBatch
from tidegate.core.clean.rules import parse_attempt
from tidegate.core.restore.record import pack
from tidegate.core.target.paths import Assembly
from tidegate.core.window.states import DISCARDED
from tidegate.targets.iceberg.catalogue import Loaded
from tidegate.targets.iceberg.table import IcebergTable
from tidegate.workflow.batch import ingest, landing
from tidegate.workflow.clean import in_place
from tidegate.workflow.clean.round import Run
from tidegate.workflow.dirty import redrive
from tidegate.workflow.publish import archive


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return make(tmp_path, monkeypatch)


def test_a_life_without_a_rename(lake: Lake) -> None:
    """Merge, late rows, reopening, dirty rows, redrive, replay with other columns; cleaned for weeks."""
    world = lake.world
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("a2", 0.5, "beyond"), record("c0", 1.5))
    world.ingest("r1")
    world.produce(record("a3", 0.2), record("a4", 0.2), odd("a5", 0.5), NEVER)
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r2")
    world.archive(0)
    assert lake.rows().total() == 5
    assert lake.rows("dirty").total() == 2
    world.produce(record("late 1", 0.2), record("late 2", 0.3, "new"), record("fine", 2.6))
    world.ingest("r3")
    assert lake.rows("late").total() == 2
    reopened(world)
    assert (lake.rows().total(), lake.rows("late").total()) == (7, 0)
    mend(world)
    assert redriven(world) is not None
    lake.balanced()
    world.archive(1)
    value = replace(world.pipeline.columns[2], path="$.other")
    world.change_spec(columns=(*world.pipeline.columns[:2], value))
    world.replay(0)
    lake.balanced()

    shown = lake.rows()
    assert set(shown.values()) == {1}
    for days in (40, 80, 120):
        cleaned = days_later(world, days)
        assert cleaned.kept == ()
        assert lake.rows() == shown
        lake.balanced()
    below = {f.path.split("/")[0] for f in lake.objects.list_files(world.pipeline.sink.workdir) or []}
    assert below == {"tmp", "generations", "hwm", "reopened", "redriven", "late", "dirty"}


# ---------------------------------------------------------------- L1: the record is the landing


def sealed(lake: Lake) -> SealedBatch:
    """Batch 1 of two rows, written and not landed."""
    lake.world.produce(record("a", 0.1), record("b", 1.5))
    ingest.plan(lake.world.context(), "r1")
    ingest.write(lake.world.context(), "r1")
    batch = lake.world.context().ledger.batches.get("readings", 1)
    assert isinstance(batch, SealedBatch)
    return batch


def recorded_by_another(lake: Lake, batch: SealedBatch) -> None:
    """A task of a ledger that lost commits has landed an attempt of its own under the same id."""
    ctx = lake.world.context()
    mine = ctx.ledger.recovery.record(batch)
    assert mine.manifest is not None
    other = replace(mine, manifest=replace(mine.manifest, nonce="0ther000"))
    lake.objects.write_new(ctx.layout.high_water_mark(1), pack(other))


def test_l1_an_answer_that_was_lost_is_read_back(lake: Lake) -> None:
    batch = sealed(lake)
    ctx = lake.world.context()
    ctx.storage = Hook(ctx.storage, after={"write_new": _unknown})  # type: ignore[assignment]
    landing.land_sealed(ctx, batch)
    assert isinstance(lake.world.context().ledger.batches.get("readings", 1), LandedBatch)


def _unknown(path: str, _content: bytes) -> None:
    raise OutcomeUnknown(f"{path}: no answer")


def test_l1_already_there_is_another_attempts_landing(lake: Lake) -> None:
    batch = sealed(lake)
    recorded_by_another(lake, batch)
    with pytest.raises(StorageAhead):
        landing.land_sealed(lake.world.context(), batch)
    assert not isinstance(lake.world.context().ledger.batches.get("readings", 1), LandedBatch)


def test_l1_what_lost_a_file_does_not_land(lake: Lake) -> None:
    batch = sealed(lake)
    ctx = lake.world.context()
    lake.objects.delete(f"{ctx.layout.attempt(1, batch.epoch, batch.nonce)}/{batch.manifest.files[0].path}")
    with pytest.raises(Alarm):
        landing.land_sealed(ctx, batch)
    assert not lake.objects.exists(ctx.layout.high_water_mark(1))


# ---------------------------------------------------------------- L2, L3: what a cleaner leaves alone


def test_l2_an_attempt_goes_only_once_the_record_names_another(lake: Lake) -> None:
    batch = sealed(lake)
    ctx = lake.world.context()
    run, mine = Run(ctx, 10, False), ctx.layout.attempt(1, batch.epoch, batch.nonce)
    other = ctx.layout.attempt(1, batch.epoch, "0ther000")
    assert not in_place.never_lands(run, mine, 1).go, "a zombie may still land it"
    landing.land_sealed(ctx, batch)
    kept = in_place.never_lands(run, mine, 1)
    assert (kept.go, kept.odd) == (False, True), "whatever a ledger that lost commits calls it"
    assert in_place.never_lands(run, other, 1).go


def test_l3_what_a_rebuild_wrote_stays_while_a_generation_has_files_there(lake: Lake) -> None:
    world = lake.world
    world.produce(record("a", 0.1), record("b", 2.5), record("c", 2.5))
    world.produce(record("d", 2.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.change_spec(columns=(*world.pipeline.columns[:2], replace(world.pipeline.columns[2], path="$.other")))
    world.replay(0)
    ctx = world.context()
    (name,) = (n for n in lake.objects.list_names(ctx.layout.attempts()) or [] if n.startswith("2013"))
    found = parse_attempt(name)
    assert isinstance(found, Assembly)
    run, path = Run(ctx, 10, False), f"{ctx.layout.attempts()}/{name}"
    facts = run.generation((found.window_ms, found.number))
    assert facts is not None
    assert not in_place.rebuilt(run, path, found, facts).go, "it is in force"
    shown = in_place.rebuilt(run, path, found, replace(facts, state=DISCARDED))
    assert (shown.go, shown.odd) == (False, True), "a ledger that lost commits does not know; the table does"
    unknown = in_place.rebuilt(run, f"{ctx.layout.attempts()}/20130105T000000Z.2.9-x", replace(found, epoch=0), facts)
    assert unknown.go, "an overtaken try's"


@pytest.mark.parametrize("written", ["gathered.json", "_certificate.json"])
def test_what_an_overtaken_try_certified_goes(lake: Lake, written: str) -> None:
    """A window's directory of an epoch that nobody goes on with; that of the generation in force stays."""
    world = lake.world
    world.produce(record("a", 0.1), record("b", 2.5))
    world.produce(record("c", 2.5), partition=1)
    world.ingest("r1")
    ctx = world.context()

    def dies_there(path: str, _content: bytes) -> None:
        if path.endswith(written):
            die()

    ctx.storage = Hook(ctx.storage, after={"write_new": dies_there})  # type: ignore[assignment]
    with pytest.raises(Died):
        archive.publish(ctx, window(0))
    world.close()
    world.archive(0)
    generations = ctx.layout.generations()
    in_force = ["20130105T000000Z.1.2"]
    assert lake.objects.list_names(generations) == ["20130105T000000Z.1.1", *in_force]
    days_later(world, 40)
    assert lake.objects.list_names(generations) == in_force
    assert lake.rows() == Counter({(0, 0): 1})
    lake.balanced()


# ---------------------------------------------------------------- L4, L5


def test_l4_a_commit_looks_at_the_files_that_it_will_name(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    world = lake.world
    world.produce(record("a", 0.1), record("b", 2.5))
    world.produce(record("c", 2.5), partition=1)
    world.ingest("r1")
    load = IcebergTable._load

    def loaded_as_a_cleaner_goes_by(table: IcebergTable) -> Loaded:
        for f in lake.objects.list_files("s3://lake/readings/_tidegate/tmp") or []:
            if "hour=00" in f.path:
                lake.objects.delete(f"s3://lake/readings/_tidegate/tmp/{f.path}")
        return load(table)

    monkeypatch.setattr(IcebergTable, "_load", loaded_as_a_cleaner_goes_by)
    with pytest.raises(Alarm):
        world.archive(0)
    assert lake.rows().total() == 0


def test_l5_a_batch_that_has_landed_is_not_given_up(lake: Lake) -> None:
    lake.world.produce(record("a", 0.1), record("b", 1.5))
    ingest.plan(lake.world.context(), "r1")
    yesterday = lake.world.database.read_bytes()
    ingest.write(lake.world.context(), "r1")
    ingest.land(lake.world.context(), "r1")
    lake.world.close()
    lake.world.database.write_bytes(yesterday)
    ctx = lake.world.context()
    batch = ctx.ledger.batches.get("readings", 1)
    assert isinstance(batch, PlannedBatch)
    ctx.ledger.batches.abandon(batch, "a test")
    for _ in range(2):
        with pytest.raises(StorageAhead, match=r"(?s)says that it has landed.*tidegate repair readings --adopt"):
            ingest.plan(lake.world.context(), "r2")
    assert adopt(lake.world) == [
        "withdrawn: batch 1 as the ledger had it (ABANDONED)",
        "adopted: batch 1 (2 rows)",
    ]
    assert adopt(lake.world) == []
    lake.world.produce(record("c", 0.2), record("later", 4.5))
    assert lake.world.ingest("r2") == 2
    lake.world.archive(0)
    assert lake.rows() == Counter({(0, 0): 1, (0, 2): 1})
    lake.balanced()


def test_l5_a_redrive_that_has_landed_is_not_given_up(lake: Lake) -> None:
    world = lake.world
    world.produce(record("a", 0.1), odd("b", 0.5))
    world.ingest("r1")
    mend(world)
    redrive.plan(world.context(), "redrive 1")
    world.close()
    yesterday = world.database.read_bytes()
    redrive.carry_out(world.context(), "redrive 1")
    world.close()
    world.database.write_bytes(yesterday)
    ctx = world.context()
    open_batch = ctx.ledger.batches.open("readings")
    assert open_batch is not None
    assert open_batch.plan.is_redrive
    ctx.ledger.batches.abandon(open_batch, "in vain")
    for plan in (redrive.plan, ingest.plan):
        with pytest.raises(StorageAhead, match="batch 2 is ABANDONED in the ledger, but .* has landed, 1 row"):
            plan(world.context(), "another")
    assert adopt(world)[0] == "withdrawn: batch 2 as the ledger had it (ABANDONED)"
    assert world.context().ledger.redrives.duties("readings") == [(1, 2)]
    world.produce(record("c", 0.2), record("later", 4.5))
    assert redrive.plan(world.context(), "redrive 3") is None
    assert world.ingest("r4") == 3
    world.archive(0)
    assert lake.rows() == Counter({(0, 0): 1, (0, 1): 1, (0, 2): 1})
    assert lake.rows("dirty") == Counter()
    lake.balanced()
