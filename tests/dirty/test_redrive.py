"""Redriving dirty rows: a batch of its own, every row with one owner, nothing else moves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import balanced, in_process
from tests.dirty.redrives import NEVER, dirty_rows, first_batch, mend, odd, once, redriven
from tests.world import T0, TOPIC, World, make_pipeline, record
from tidegate.core.spec.pipeline import EventTime
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.dirty import redrive


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


# ---------------------------------------------------------------- what becomes of the rows


def test_dirty_rows_become_data_of_a_batch_of_their_own(world: World) -> None:
    first_batch(world)
    mend(world)
    found = redriven(world)
    assert found == redrive.Redriven(batch_id=2, sources=(1,), rows=4, data=3, dirty=1)
    assert found.words == "batch 2 (redrive of 4 dirty rows of batch 1): 3 data, 0 late, 1 still dirty"
    assert list(world.partitions("lake.readings__dirty")) == [(("_batch", "2"),)]
    assert world.table("__dirty") == [(0, 4)]
    once(world)
    balanced(world)
    world.archive(0)
    world.archive(1)
    assert world.by_window() == {"00": [(0, 0), (0, 1)], "01": [(0, 2), (0, 3)]}
    once(world)
    balanced(world)


def test_their_files_are_kept_for_replays(world: World) -> None:
    first_batch(world)
    before = {p.name: p.read_bytes() for p in (world.folder / "lake/readings/_tidegate/dirty/_batch=1").iterdir()}
    mend(world)
    redriven(world)
    kept = world.folder / "lake/readings/_tidegate/redriven/1"
    assert {p.name: p.read_bytes() for p in kept.iterdir()} == before
    assert list((world.folder / "lake/readings/_tidegate/dirty/_batch=1").iterdir()) == []


def test_a_late_add_of_its_partition_shows_no_row_again(world: World) -> None:
    first_batch(world)
    late = world.partitions("lake.readings__dirty")
    mend(world)
    redriven(world)
    world.catalogue.add_partitions("lake.readings__dirty", late)
    assert world.table("__dirty") == [(0, 4)]
    once(world)
    balanced(world)


def test_rows_of_closed_windows_are_late(world: World) -> None:
    first_batch(world)
    world.archive(0)
    mend(world)
    found = redriven(world)
    assert found is not None
    assert (found.data, found.late, found.dirty) == (2, 1, 1)
    assert world.table("__late") == [(0, 1)]
    once(world)
    balanced(world)


def test_what_is_still_dirty_can_be_redriven_again(world: World) -> None:
    world.produce(odd("a0", 0.1), record("a1", 0.2) | {"at": "never"}, NEVER, record("a3", 0.3))
    world.ingest("r1")
    mend(world)
    first = redriven(world)
    assert first == redrive.Redriven(batch_id=2, sources=(1,), rows=3, data=1, dirty=2)
    world.change_spec(event_time=EventTime("$.at", "epoch_ms"))
    world.produce(record("e0", 4.0))
    world.ingest("r2")
    world.change_spec(format=replace(world.pipeline.format), event_time=EventTime(None))
    second = redriven(world, "redrive 2")
    assert second is not None
    assert second.sources == (2,)
    assert (second.data + second.late, second.dirty) == (1, 1)
    assert world.table("__dirty") == [(0, 2)]
    once(world)
    balanced(world)


def test_rows_of_many_batches_and_partitions_go_together(world: World) -> None:
    for n in range(5):
        for partition in (0, 1):
            world.produce(*(odd(f"{n}", n / 2 + i / 50) if i % 3 else record(f"{n}", n / 2) for i in range(8)),
                          partition=partition)  # fmt: skip
        world.ingest(f"r{n}")
    dirty = world.table("__dirty")
    assert len(dirty) == 50
    mend(world)
    found = redriven(world)
    assert found == redrive.Redriven(batch_id=6, sources=(1, 2, 3, 4, 5), rows=50, data=50)
    assert world.table("__dirty") == []
    once(world)
    balanced(world)
    world.archive(0)
    once(world)
    balanced(world)


def test_keys_values_and_timestamps_survive(world: World) -> None:
    """An empty key is not a missing one, an empty value no missing value, and Kafka's time is the record's."""
    world.kafka.append(TOPIC, 0, None, key=b"", timestamp_ms=T0 + 5)
    world.kafka.append(TOPIC, 0, b"", key=None, timestamp_ms=T0 + 6)
    world.kafka.append(TOPIC, 0, b"\xff\x00", key=b"\x00", timestamp_ms=T0 + 7)
    world.produce(odd("a", 0.1))
    world.ingest("r1")
    before = dirty_rows(world, 1)
    mend(world)
    redriven(world)
    assert dirty_rows(world, 2) == before[:3]


@pytest.mark.parametrize(("form", "codec"), [("orc", "zstd"), ("text", "gzip")])
def test_whatever_the_files_format(tmp_path: Path, form: str, codec: str) -> None:
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    world = World(tmp_path, replace(spec, sink=replace(spec.sink, format=form, compression=codec)))
    world.kafka.append(TOPIC, 0, b"\xff\x00\n\x01\\", key=b"")
    world.kafka.append(TOPIC, 0, None, key=None, timestamp_ms=-1)
    world.produce(odd("a0", 0.1), odd("a1", 0.2), record("a2", 0.3))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    mend(world)
    assert redriven(world) == redrive.Redriven(batch_id=2, sources=(1,), rows=4, data=2, dirty=2), str(world.said[-3:])
    published = world.archive(0)
    assert published.rows == 3
    mend(world, "$.third")
    assert world.replay(0).rows == 3
    balanced(world)
    world.close()


# ---------------------------------------------------------------- what does not move


def test_planned_ends_lag_and_watermark_stand_still(world: World) -> None:
    first_batch(world)
    world.produce(record("next", 3.7))
    ctx = world.context()
    view, facts = ctx.ledger.batches.planning_view("readings"), ctx.ledger.windows.facts("readings")
    groups = json.dumps({str(k): v for k, v in world.kafka.groups.items()})
    mend(world)
    redriven(world)
    after = ctx.ledger.batches.planning_view("readings")
    assert (after.planned_ends, after.facts, after.next_batch_id) == (view.planned_ends, facts, 3)
    assert ctx.ledger.windows.facts("readings") == facts
    survey = ctx.ledger.reads.survey(["readings"], 0)["readings"]  # type: ignore[attr-defined]
    assert survey.progress.ends == view.planned_ends
    assert json.dumps({str(k): v for k, v in world.kafka.groups.items()}) == groups
    assert world.ingest("r2") == 3
    once(world)
    balanced(world)


def test_the_pipelines_sums_count_each_row_once(world: World) -> None:
    first_batch(world)
    mend(world)
    redriven(world)
    ctx = world.context()
    totals = ctx.ledger.reads.survey(["readings"], 0)["readings"].totals.balance  # type: ignore[attr-defined]
    assert (totals.offsets, totals.read, totals.gaps) == (8, 8, 0)
    assert (totals.data, totals.late, totals.dirty) == (7, 0, 1)
    report = audit(ctx, ctx.ledger.reads, in_process)  # type: ignore[attr-defined]
    assert report.totals.balance == totals
    assert report.totals.unfinished == 0
