"""Tasks that die, race each other or find files missing: the next try goes on, and nobody has to repair anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.hooks import Died, Hook, Once, die
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import Alarm, BatchRefused, CatalogueUnsure, LedgerError, ReplayRefused, TidegateError
from tidegate.core.spec.pipeline import Column, DirtyLimits
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest, sealing
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay

HOUR_0 = "lake/readings/date=2013-01-05/hour=00"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def two_hours(world: World) -> None:
    """Rows for hours 0 to 2; the watermark (delay one hour) then stands at 02:30."""
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    world.produce(record("c0", 2.0), record("d0", 3.5), partition=1)


def hour_0_published(world: World) -> None:
    two_hours(world)
    world.ingest("r1")
    world.archive(0)


def a_data_file(world: World) -> Path:
    return next((world.folder / HOUR_0 / "site=a").glob("*.parquet"))


def dies(world: World, before: str = "", after: str = "") -> Context:
    """A process that ends before or after this call of the ledger, given as `batches.seal`."""
    ctx = world.context()
    port, method = (before or after).split(".")
    hook = Hook(getattr(ctx.ledger, port), **{"before" if before else "after": {method: die}})
    setattr(ctx.ledger, port, hook)
    return ctx


def retryable(step: Callable[[], object]) -> None:
    """What a race may cost is one try of the task, never a human."""
    try:
        step()
    except TidegateError as e:
        if not e.retry:
            raise


# ---------------------------------------------------------------- ingest


def test_a_crash_between_replan_and_take_is_gone_on_from(world: World) -> None:
    world.change_spec(dirty=DirtyLimits(max_count=1, max_ratio=None))
    world.produce(b"x", b"y", record("a", 0.1))
    with pytest.raises(BatchRefused):
        world.ingest("r1")
    world.change_spec(dirty=DirtyLimits(max_count=5, max_ratio=None))
    with pytest.raises(Died):
        ingest.write(dies(world, after="batches.replan"), "r1")
    assert world.ingest("r1") == 1
    assert world.table("__dirty") == [(0, 0), (0, 1)]


def lands(world: World) -> None:
    ingest.write(world.context(), "r1")
    ingest.land(world.context(), "r1")


def lands_and_archives(world: World) -> None:
    lands(world)
    world.archive(0)


def dies_before_late_rows_are_in_place(world: World) -> None:
    ingest.write(world.context(), "r1")
    ctx = world.context()

    def at_side(source: str, _destination: str) -> None:
        if "/side/" in source:
            die()

    ctx.storage = Hook(ctx.storage, before={"rename_no_replace": at_side})  # type: ignore[assignment]
    with pytest.raises(Died):
        ingest.land(ctx, "r1")


@pytest.mark.parametrize("other", [lands, lands_and_archives, dies_before_late_rows_are_in_place])
def test_a_write_that_another_task_overtakes_raises_no_alarm(world: World, other: Callable[[World], None]) -> None:
    world.produce(record("late", -3))
    two_hours(world)
    ingest.plan(world.context(), "r1")
    ctx = world.context()
    ctx.ledger.batches = Hook(ctx.ledger.batches, after={"get": Once(lambda: other(world))})
    retryable(lambda: ingest.write(ctx, "r1"))
    assert world.context().ledger.pipelines.blocks("readings") == []
    world.ingest("r1")
    assert world.table("__late") == [(0, 0)]


@pytest.mark.parametrize("reading", [1, 2])
def test_a_seal_that_another_task_overtakes_blocks_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, reading: int
) -> None:
    """The other one seals and renames the attempt away while this one holds its receipt and is about to look."""
    two_hours(world)
    ingest.plan(world.context(), "r1")
    with pytest.raises(Died):
        ingest.write(dies(world, before="batches.seal"), "r1")

    def other() -> None:
        ingest.write(world.context(), "r1")
        with pytest.raises(Died):
            ingest.land(dies(world, before="batches.land"), "r1")

    ctx, real, overtaken = world.context(), sealing.read_receipt, Once(other, at=reading)

    def read_receipt(reader: Context, directory: str) -> Any:
        receipt = real(reader, directory)
        if reader is ctx and receipt is not None:
            overtaken()
        return receipt

    monkeypatch.setattr(sealing, "read_receipt", read_receipt)
    retryable(lambda: ingest.write(ctx, "r1"))
    assert world.context().ledger.pipelines.blocks("readings") == []
    assert world.ingest("r1") == 1


def test_a_lost_dirty_file_does_not_stop_ingest_and_is_told_by_maintain(world: World) -> None:
    two_hours(world)
    ingest.plan(world.context(), "r1")
    ingest.write(world.context(), "r1")
    with pytest.raises(Died):
        ingest.land(dies(world, after="batches.land"), "r1")
    next((world.folder / "lake/readings/_tidegate/landed/1/dirty").rglob("*.parquet")).unlink()
    world.produce(b"dirty too")
    assert world.ingest("r2") == 2
    assert world.table("__dirty") == [(0, 4)], "the other batch's duty is done all the same"
    with pytest.raises(Alarm, match="lost"):
        reconcile.maintain(world.context())
    assert world.context().ledger.pipelines.blocks("readings") == []


def test_a_dead_hive_costs_at_most_one_call_a_run(world: World) -> None:
    """Each call waits for its time-out: one for every batch that is owed would make a run longer and longer."""
    calls: list[str] = []

    class Down:
        def __getattr__(self, name: str) -> Callable[..., None]:
            def unanswered(*_: object) -> None:
                calls.append(name)
                raise CatalogueUnsure("no answer")

            return unanswered

    hive, world.catalogue = world.catalogue, Down()  # type: ignore[assignment]
    for i in range(5):
        world.produce(b"dirty")
        world.ingest(f"r{i}")
    assert len(calls) <= 5
    world.catalogue = hive
    reconcile.maintain(world.context())
    assert len(world.table("__dirty")) == 5


# ---------------------------------------------------------------- archive and replay


@pytest.mark.parametrize("unanswered", [False, True], ids=["the process ends", "the ledger's reply is lost"])
def test_a_generation_is_new_and_runs_on_publish_until_it_is_announced(world: World, unanswered: bool) -> None:
    world.change_spec(archive=replace(world.pipeline.archive, on_publish=("REFRESH lake.readings",)))
    two_hours(world)
    world.ingest("r1")

    def after(*_: object) -> None:
        raise LedgerError("no reply") if unanswered else Died

    ctx = world.context()
    ctx.ledger.windows = Hook(ctx.ledger.windows, after={"publish": after})
    with pytest.raises((Died, LedgerError)):
        archive.publish(ctx, window(0))
    assert archive.publish(world.context(), window(0)).new, "this try ends before it has told anybody"
    assert world.archive(0).new
    assert world.catalogue.statements == ["REFRESH lake.readings"] * 2
    assert not world.archive(0).new


def test_a_refused_replay_leaves_clear_of_the_hour_working(world: World) -> None:
    hour_0_published(world)
    id_, site, _ = world.pipeline.columns
    as_it_was = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    world.kafka.trim(TOPIC, 0, 1)
    with pytest.raises(ReplayRefused, match="retention"):
        world.replay(0)
    world.change_spec(columns=as_it_was)
    world.close()
    world.catalogue.drop_partitions("lake.readings", [next(iter(world.catalogue.partitions("lake.readings")))])
    assert world.archive(0).generation == 1
    assert world.table() == [(0, 0), (0, 1)]


def test_a_lost_file_that_kafka_cannot_give_again_may_come_back_from_a_backup(world: World) -> None:
    hour_0_published(world)
    file = a_data_file(world)
    content = file.read_bytes()
    file.unlink()
    world.kafka.trim(TOPIC, 0, 1)
    with pytest.raises(ReplayRefused, match="restore"):
        world.archive(0)
    world.close()
    file.write_bytes(content)
    assert world.archive(0).generation == 1


def test_replay_of_a_damaged_hour_mends_it_though_its_content_is_unchanged(world: World) -> None:
    hour_0_published(world)
    before = world.table()
    a_data_file(world).unlink()
    world.replay(0)
    assert world.table() == before


def test_clear_of_a_damaged_hour_with_an_unfinished_replay_mends_it(world: World) -> None:
    hour_0_published(world)
    before = world.table()
    with pytest.raises(Died):
        replay.replay(dies(world, after="windows.built"), window(0))
    a_data_file(world).unlink()
    world.archive(0)
    assert world.table() == before


def test_clear_while_a_replay_runs_ends_with_one_generation_in_force(world: World) -> None:
    hour_0_published(world)
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    ctx = world.context()
    ctx.launcher = Hook(ctx.launcher, after={"run": Once(lambda: world.archive(0))})  # type: ignore[assignment]
    assert replay.replay(ctx, window(0)).generation == 2
    assert world.table() == [(0, 0), (0, 1)]
    assert world.context().ledger.windows.get("readings", window(0)).newest == 2


def test_a_slow_sensor_does_not_overwrite_the_answer_of_a_window_that_was_closed_meanwhile(world: World) -> None:
    two_hours(world)
    ctx = world.context()

    def meanwhile() -> None:
        world.ingest("r1")
        world.archive(0)

    ctx.ledger.windows = Hook(ctx.ledger.windows, after={"facts": Once(meanwhile)})
    archive.ready(ctx, window(0))
    stored = world.context().ledger.windows.certificate("readings", window(0))
    assert stored is not None
    assert stored.ready, stored.text()
