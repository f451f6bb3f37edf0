"""Certificates of published windows: in the directory and in the ledger, and bounded whatever a window is made of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import insert

from tests.world import HOUR, T0, TOPIC, World, record, window
from tidegate.core.base.plain import from_plain
from tidegate.core.publish import grounds as rules
from tidegate.core.publish.grounds import Gap, Grounds, Lost, PartitionGround, RangeGround
from tidegate.core.spec.pipeline import Column
from tidegate.ledger import grounds as reads
from tidegate.ledger import schema
from tidegate.workflow.batch import ingest
from tidegate.workflow.dirty import redrive
from tidegate.workflow.generation import assembly
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def certificate(world: World, hour: int = 0) -> dict:
    path = world.folder / f"lake/readings/date=2013-01-05/hour={hour:02}/_certificate.json"
    return json.loads(path.read_text())


def grounds(world: World, hour: int = 0) -> Grounds:
    return from_plain(Grounds, certificate(world, hour)["grounds"])


def test_which_batches_ranges_and_counts(world: World) -> None:
    """As `_certificate.json` tells them: the same that the ledger's tables give, at any later time."""
    world.produce(record("a", 0.1), record("b", 1.1), record("c", 0.2))
    world.produce(record("d", 0.3), partition=1)
    world.ingest("r1")
    world.produce(record("e", 3.1), record("f", 0.4))
    world.ingest("r2")
    world.archive(0)
    told, found = certificate(world), grounds(world)
    assert (told["generation"], told["batches"], told["rows"], told["file_count"]) == (1, [1, 2], 4, len(told["files"]))
    assert told["certificate"]["ready"]
    assert [(b.batch_id, b.rows, b.floor_ms, b.spec_version) for b in found.batches] == [
        (1, 3, window(0).start_ms, 1),
        (2, 1, window(0).start_ms, 1),
    ]
    assert found.partitions == (
        PartitionGround(partition=0, rows=3, first=0, last=4, batches=2, offsets=5, gaps=0),
        PartitionGround(partition=1, rows=1, first=0, last=0, batches=1, offsets=1, gaps=0),
    )
    assert found.ranges == (
        RangeGround(batch_id=1, partition=0, start=0, end=3, rows=2, first=0, last=2),
        RangeGround(batch_id=1, partition=1, start=0, end=1, rows=1, first=0, last=0),
        RangeGround(batch_id=2, partition=0, start=3, end=5, rows=1, first=4, last=4),
    )
    assert (found.closing_batch, found.range_count, found.gaps, found.losses) == (3, 3, 0, ())
    ledger = world.context().ledger
    assert ledger.windows.grounds("readings", window(0), (1, 2)) == found
    world.close()


def test_gaps_and_losses_are_named(world: World) -> None:
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, gaps="allow", on_data_loss="record"))
    world.produce(record("a", 0.1))
    world.kafka.skip(TOPIC, 0, 2)
    world.produce(record("b", 0.2))
    world.ingest("r1")
    world.produce(*[record(f"lost{i}", 0.3) for i in range(3)], record("c", 0.5), record("d", 3.0))
    world.kafka.trim(TOPIC, 0, 7)
    world.ingest("r2")
    world.archive(0)
    found = grounds(world)
    assert (found.gaps, found.gap_intervals, found.gap_ranges) == (2, (Gap(1, 0, 1, 3),), 1)
    assert (found.losses, found.loss_count) == ((Lost(2, 0, 4, 7, "retention"),), 1)
    assert found.partitions[0].offsets == 4 + 2


def test_a_batch_that_was_given_up_between_is_named(world: World) -> None:
    world.produce(record("a", 0.1))
    world.ingest("r1")
    world.produce(record("gone", 0.2), record("gone too", 0.3))
    ctx = world.context()
    ingest.plan(ctx, "r2")
    reconcile.abandon(ctx, 2, "the broker's disk is gone", force=True)
    world.produce(record("b", 0.4), record("c", 3.0))
    world.ingest("r3")
    world.archive(0)
    assert grounds(world).losses == (Lost(2, 0, 1, 3, "abandoned"),)
    assert certificate(world)["batches"] == [1, 3]


def test_what_was_lost_after_the_last_of_its_rows_is_named(world: World) -> None:
    """Retention takes the end of an hour, and the two after it: the batch that met the gap has no row of theirs."""
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, on_data_loss="record"))
    world.clock.advance(T0 - world.clock.now_ms())
    world.produce(record("a", 0.1))
    world.clock.advance(HOUR // 4)
    world.ingest("r1")
    world.produce(*[record(f"lost{i}", 0.5 * i) for i in range(1, 6)], record("d", 4.0))
    world.kafka.trim(TOPIC, 0, 6)
    world.clock.advance(4 * HOUR)
    world.ingest("r2")
    world.produce(record("e", 4.2))
    world.ingest("r3")
    for hour in (0, 1, 2):
        world.archive(hour)
        assert grounds(world, hour).losses == (Lost(2, 0, 1, 6, "retention"),), hour
        assert (grounds(world, hour).rows, grounds(world, hour).loss_count) == (int(hour == 0), 1)


def test_what_was_lost_before_or_after_its_time_is_not_named(world: World) -> None:
    """Nothing that was read before an hour began, or planned when its rows were late, can have held rows of it."""
    world.clock.advance(T0 - world.clock.now_ms())
    world.produce(record("a", 0.1))
    world.ingest("r1")
    world.clock.advance(2 * HOUR)
    world.produce(record("b", 2.0))
    world.ingest("r2")
    world.archive(0)
    world.produce(record("gone", 2.1))
    ingest.plan(world.context(), "r3")
    reconcile.abandon(world.context(), 3, "the broker's disk is gone", force=True)
    assert grounds(world).losses == ()
    current = world.context().ledger.windows.grounds("readings", window(0), [1])
    assert current.losses == ()
    world.clock.advance(2 * HOUR)
    world.produce(record("d", 4.0))
    world.ingest("r4")
    world.archive(1)
    world.archive(2)
    assert grounds(world, 1).losses == grounds(world, 2).losses == (Lost(3, 0, 2, 3, "abandoned"),)


def test_an_hour_without_rows_rests_on_nothing(world: World) -> None:
    world.produce(record("a", 0.1), record("b", 3.1))
    world.ingest("r1")
    world.archive(1)
    found = grounds(world, 1)
    assert (found.rows, found.batches, found.ranges, found.closing_batch) == (0, (), (), 2)


def test_what_lies_between_redriven_rows_is_no_gap(world: World) -> None:
    world.pipeline = replace(world.pipeline, columns=world.pipeline.columns[:2])
    number = Column(name="value", type="int", path="$.value", nullable=False)
    world.change_spec(columns=(*world.pipeline.columns, number))
    odd = [{"id": name, "at": T0 + 1, "other": 1} for name in "ab"]
    world.produce(odd[0], record("c", 0.1), record("d", 3.1), odd[1])
    world.ingest("r1")
    world.change_spec(columns=(*world.pipeline.columns[:2], replace(number, path="$.other")))
    assert redrive.plan(world.context(), "redrive") is not None
    redrive.carry_out(world.context(), "redrive")
    world.archive(0)
    found = grounds(world)
    assert [(b.batch_id, b.kind, b.rows) for b in found.batches] == [(1, "ingest", 1), (2, "redrive", 2)]
    assert found.partitions == (PartitionGround(partition=0, rows=3, first=0, last=3, batches=2, offsets=4, gaps=0),)
    assert found.gap_intervals == ()


def test_a_redrive_that_was_given_up_has_lost_nothing(world: World) -> None:
    """Its rows stay dirty rows: no offset of the topic was left unread."""
    number = Column(name="value", type="int", path="$.value", nullable=False)
    world.change_spec(columns=(*world.pipeline.columns[:2], number))
    world.produce({"id": "a", "at": T0 + 1, "other": 1}, record("b", 0.1))
    world.ingest("r1")
    world.change_spec(columns=(*world.pipeline.columns[:2], replace(number, path="$.other")))
    assert redrive.plan(world.context(), "redrive") == 2
    reconcile.abandon(world.context(), 2, "not now", force=True)
    world.produce({"id": "c", "at": T0 + 2, "other": 2}, {"id": "d", "at": window(3).start_ms, "other": 2})
    world.ingest("r3")
    world.archive(0)
    assert [b.batch_id for b in grounds(world).batches] == [1, 3]
    assert grounds(world).losses == ()


def test_the_file_stays_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of batches times partitions, of gaps and of files are cut and say how many there are; sums are whole."""
    for module in (rules, reads):
        monkeypatch.setattr(module, "MAX_GAPS", 2)
    monkeypatch.setattr(reads, "MAX_RANGES", 2)
    monkeypatch.setattr(reads, "MAX_LOSSES", 2)
    monkeypatch.setattr(assembly, "MAX_FILES", 1)
    world.pipeline = replace(world.pipeline, source=replace(world.pipeline.source, gaps="allow"))
    for batch in range(4):
        for p in (0, 1):
            world.produce(record(f"{batch}{p}", 0.1), partition=p)
            world.kafka.skip(TOPIC, p, 1)
            world.produce(record(f"{batch}{p}+", 0.1 if batch < 3 else 3.0), partition=p)
        world.ingest(f"r{batch}")
    ctx = world.context()
    with ctx.ledger.store.begin() as c:  # type: ignore[attr-defined]
        for n in range(4):
            values = {"pipeline": "readings", "partition": 0, "start": n, "end": n + 1, "batch_id": 2, "reason": "x"}
            c.execute(insert(schema.losses).values(**values))
    world.archive(0)
    told, found = certificate(world), grounds(world)
    assert (len(told["files"]), told["file_count"]) == (1, 4)
    assert (len(found.ranges), found.range_count) == (2, 8)
    assert (len(found.gap_intervals), found.gap_ranges, found.gaps) == (2, 8, 8)
    assert (len(found.losses), found.loss_count) == (2, 4)
    assert found.rows == told["rows"] == 14


def test_a_certificate_of_an_earlier_version_is_read(world: World) -> None:
    """The ledger's own, without the fields that came later."""
    world.produce(record("a", 0.1), record("b", 3.1))
    world.ingest("r1")
    ctx = world.context()
    archive.ready(ctx, window(0))
    t = schema.certificates
    with ctx.ledger.store.begin() as c:  # type: ignore[attr-defined]
        (row,) = c.execute(t.select()).all()
        old = json.loads(row.content)
        for mark in old["partitions"]:
            del mark["held"], mark["last_stable_offset"]
        old.pop("completeness", None)
        c.execute(t.update().values(content=json.dumps(old)))
    stored = ctx.ledger.windows.certificate("readings", window(0))
    assert stored is not None
    assert stored.ready
    assert [m.held for m in stored.partitions] == ["", ""]
    world.close()
