"""Redrive: dirty rows become data exactly once, whatever else the pipeline does; and every row has one owner."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hooks import Died, Hook, die
from tests.unit.test_audit import in_process
from tests.world import T0, TOPIC, World, make_pipeline, record
from tidegate.core.batch import AbandonedBatch, LandedBatch
from tidegate.core.errors import (
    CatalogueError,
    LostComparison,
    NotReady,
    ReplayRefused,
    SpecError,
    StepMissing,
)
from tidegate.core.pipeline import RAW_HEADERS, Column, DirtyLimits, EventTime
from tidegate.workflow import ingest, reconcile, redrive
from tidegate.workflow.audit import audit

NEVER = b"not json"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def odd(name: str, hour: float, site: str = "a") -> dict[str, object]:
    """A record whose value is text: dirty until the column takes another field."""
    return record(name, hour, site) | {"value": "many", "other": 7}


def mend(world: World, path: str = "$.other") -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", path)))


def redriven(world: World, run: str = "redrive 1", **asked: object) -> redrive.Redriven | None:
    """Plan, write and land, each in a process of its own, as long as there is one to plan."""
    ctx = world.context()
    if redrive.plan(ctx, run, **asked) is None:  # type: ignore[arg-type]
        world.close()
        return None
    found = redrive.carry_out(world.context(), run)
    world.close()
    return found


def balanced(world: World) -> None:
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process)  # type: ignore[attr-defined]
    world.close()
    assert report.problems == ()
    assert report.balanced


def once(world: World) -> None:
    """Each record of the topic is in exactly one place that readers see, or waits for its window in one."""
    ends = {p: o.high_watermark for p, o in world.kafka.describe(TOPIC).partitions.items()}
    expected = sorted((p, offset) for p, end in ends.items() for offset in range(end))
    found = world.table() + world.table("__late") + world.table("__dirty") + waiting(world)
    assert sorted(found) == expected


def waiting(world: World) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    for folder in sorted((world.folder / "lake/readings/_tidegate/landed").iterdir()):
        rows += world.rows_at(str(folder / "data"))
    return rows


def first_batch(world: World) -> None:
    """Offsets 1, 2 and 4 of partition 0 and 1 of partition 1 are dirty; 4 for ever."""
    world.produce(record("a0", 0.1), odd("a1", 0.5), odd("b0", 1.2, "b"), record("b1", 1.3), NEVER)
    world.produce(record("c0", 2.0), odd("c1", 2.5), record("d0", 3.5), partition=1)
    world.ingest("r1")
    assert world.table("__dirty") == [(0, 1), (0, 2), (0, 4), (1, 1)]


# ---------------------------------------------------------------- what becomes of the rows


def test_dirty_rows_become_data_of_a_batch_of_their_own(world: World) -> None:
    first_batch(world)
    mend(world)
    found = redriven(world)
    assert found == redrive.Redriven(2, (1,), 4, data=3, dirty=1)
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


def test_a_replay_has_the_redriven_rows_again(world: World) -> None:
    first_batch(world)
    mend(world)
    redriven(world)
    world.archive(0)
    world.archive(1)
    mend(world, "$.third")
    published = world.replay(0)
    assert (published.generation, published.rows, published.new) == (2, 2, True)
    assert world.by_window() == {"00": [(0, 0), (0, 1)], "01": [(0, 2), (0, 3)]}
    once(world)
    balanced(world)


def test_a_lost_file_with_redriven_rows_is_rebuilt(world: World) -> None:
    first_batch(world)
    mend(world)
    redriven(world)
    world.archive(1)
    for path in (world.folder / "lake/readings/date=2013-01-05/hour=01").rglob("*.parquet"):
        path.unlink()
    assert world.archive(1).new
    assert world.by_window()["01"] == [(0, 2), (0, 3)]
    balanced(world)


def test_a_replay_needs_the_kept_files(world: World) -> None:
    first_batch(world)
    mend(world)
    redriven(world)
    world.archive(0)
    for path in (world.folder / "lake/readings/_tidegate/redriven/1").iterdir():
        path.unlink()
    mend(world, "$.third")
    with pytest.raises(ReplayRefused, match="dirty file lost"):
        world.replay(0)
    assert world.by_window()["00"] == [(0, 0), (0, 1)]


def test_a_window_of_redriven_rows_alone_is_replayed_without_kafka(world: World) -> None:
    """Retention has taken the records: the files have them."""
    world.produce(odd("a0", 0.1), odd("a1", 0.2))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    mend(world)
    redriven(world)
    world.archive(0)
    world.kafka.create(TOPIC, 2)
    mend(world, "$.third")
    assert world.replay(0).rows == 2
    assert world.by_window() == {"00": [(0, 0), (0, 1)]}


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


def test_a_replay_of_the_first_batch_leaves_its_dirty_rows_dirty(world: World) -> None:
    """They were dirty by its pinned plan; once redriven they are the redrive's alone."""
    first_batch(world)
    world.archive(0)
    mend(world)
    redriven(world)
    assert world.replay(0).rows == 1
    assert world.by_window() == {"00": [(0, 0)]}
    assert world.table("__late") == [(0, 1)]
    once(world)
    balanced(world)


def test_what_is_still_dirty_can_be_redriven_again(world: World) -> None:
    world.produce(odd("a0", 0.1), record("a1", 0.2) | {"at": "never"}, NEVER, record("a3", 0.3))
    world.ingest("r1")
    mend(world)
    first = redriven(world)
    assert first == redrive.Redriven(2, (1,), 3, data=1, dirty=2)
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
    assert found == redrive.Redriven(6, (1, 2, 3, 4, 5), 50, data=50)
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
    assert redriven(world) == redrive.Redriven(2, (1,), 4, data=2, dirty=2), str(world.said[-3:])
    published = world.archive(0)
    assert published.rows == 3
    mend(world, "$.third")
    assert world.replay(0).rows == 3
    balanced(world)
    world.close()


def dirty_rows(world: World, batch_id: int) -> list[dict[str, object]]:
    import pyarrow.parquet as pq

    folder = world.folder / f"lake/readings/_tidegate/dirty/_batch={batch_id}"
    rows = [row for path in folder.iterdir() for row in pq.read_table(path, partitioning=None).to_pylist()]
    return sorted(({k: r[k] for k in ("raw_key", "raw_value", "_offset", "_kafka_ts")} for r in rows),
                  key=lambda r: r["_offset"])  # fmt: skip


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
    overview = ctx.ledger.reads.overview("readings")  # type: ignore[attr-defined]
    assert overview.planned_ends == view.planned_ends
    assert json.dumps({str(k): v for k, v in world.kafka.groups.items()}) == groups
    assert world.ingest("r2") == 3
    once(world)
    balanced(world)


def test_the_pipelines_sums_count_each_row_once(world: World) -> None:
    first_batch(world)
    mend(world)
    redriven(world)
    ctx = world.context()
    totals = ctx.ledger.reads.overview("readings").totals  # type: ignore[attr-defined]
    assert (totals.offsets, totals.read, totals.gaps) == (8, 8, 0)
    assert (totals.data, totals.late, totals.dirty) == (7, 0, 1)
    report = audit(ctx, ctx.ledger.reads, in_process)  # type: ignore[attr-defined]
    assert report.totals.balance == totals
    assert report.totals.unfinished == 0


# ---------------------------------------------------------------- what is refused


def test_in_vain_it_is_given_up_and_nothing_moves(world: World) -> None:
    first_batch(world)
    found = redriven(world)
    assert found is not None
    assert found.refused.startswith("redrive 2: none of the 4 dirty rows became readable, for example partition 0")
    assert "given up" in found.words
    assert world.table("__dirty") == [(0, 1), (0, 2), (0, 4), (1, 1)]
    once(world)
    balanced(world)
    mend(world)
    again = redriven(world, "redrive 2")
    assert again is not None
    assert (again.batch_id, again.data) == (3, 3)
    world.produce(record("e0", 4.0))
    assert world.ingest("r2") == 4
    once(world)
    balanced(world)


def test_a_given_up_redrive_does_not_stop_the_run_that_finds_it(world: World) -> None:
    first_batch(world)
    redrive.plan(world.context(), "redrive 1")
    world.produce(record("e0", 4.0))
    world.ingest("r2")
    ctx = world.context()
    assert isinstance(ctx.ledger.batches.get("readings", 2), AbandonedBatch)
    assert world.ingest("r3") == 3
    once(world)
    balanced(world)


def test_limits_do_not_hold_for_rows_that_were_dirty_before(world: World) -> None:
    first_batch(world)
    mend(world)
    world.change_spec(dirty=DirtyLimits(0, 0.0))
    found = redriven(world)
    assert found is not None
    assert found.data == 3


def test_without_kafkas_columns_it_is_refused_by_name(tmp_path: Path) -> None:
    world = World(tmp_path, replace(make_pipeline(f"file://{tmp_path}/lake/readings"), kafka_columns=False))
    world.produce(record("a0", 0.1), odd("a1", 0.2))
    world.ingest("r1")
    mend(world)
    for step in (lambda: redrive.plan(world.context(), "redrive 1"), lambda: redrive.preview(world.context())):
        with pytest.raises(SpecError, match=r"(?s)kafka_columns: false.*redriven.*what to do"):
            step()
    world.close()


def test_nothing_dirty_is_nothing_to_do(world: World) -> None:
    world.produce(record("a0", 0.1))
    world.ingest("r1")
    assert redriven(world) is None
    assert world.context().ledger.batches.open("readings") is None


def test_a_batch_without_dirty_rows_is_named(world: World) -> None:
    first_batch(world)
    mend(world)
    with pytest.raises(StepMissing, match="batch 7 has no dirty rows"):
        redrive.plan(world.context(), "redrive 1", [7])
    redriven(world)
    with pytest.raises(StepMissing, match="batch 1 has no dirty rows of its own"):
        redrive.plan(world.context(), "redrive 2", [1])


def test_an_unknown_field_gives_it_up(world: World) -> None:
    world.produce(record("a0", 0.1), odd("a1", 0.2) | {"more": 1})
    world.ingest("r1")
    mend(world)
    world.change_spec(format=replace(world.pipeline.format, unknown_fields="fail"))
    found = redriven(world)
    assert found is not None
    assert "unknown field" in found.refused
    once(world)


# ---------------------------------------------------------------- meeting others


def test_while_another_batch_is_open_it_waits(world: World) -> None:
    first_batch(world)
    world.produce(record("e0", 4.0))
    ingest.plan(world.context(), "r2")
    mend(world)
    with pytest.raises(NotReady, match="batch 2 is PLANNED") as refused:
        redrive.plan(world.context(), "redrive 1")
    assert refused.value.retry
    ingest.write(world.context(), "r2")
    ingest.land(world.context(), "r2")
    assert redriven(world) is not None
    once(world)
    balanced(world)


def test_an_ingest_run_finishes_an_open_redrive_and_asks_for_another_run(world: World) -> None:
    first_batch(world)
    mend(world)
    redrive.plan(world.context(), "redrive 1")
    world.produce(record("e0", 4.0))
    assert ingest.plan(world.context(), "r2") == 2
    ingest.write(world.context(), "r2")
    assert ingest.land(world.context(), "r2")
    assert redrive.carry_out(world.context(), "redrive 1").data == 3
    assert world.ingest("r3") == 3
    once(world)
    balanced(world)


def test_two_at_once_plan_one(world: World) -> None:
    first_batch(world)
    mend(world)
    first = world.context()

    def other(*_: object) -> None:
        assert redrive.plan(world.context(), "redrive 2") == 2

    first.ledger.batches = Hook(first.ledger.batches, before={"insert_plan": once_only(other)})  # type: ignore[misc]
    assert redrive.plan(first, "redrive 1") == 2
    for run in ("redrive 1", "redrive 2"):
        assert redrive.carry_out(world.context(), run) == redrive.Redriven(2, (1,), 4, data=3, dirty=1)
    once(world)
    balanced(world)


def once_only(step: Callable[..., None]) -> Callable[..., None]:
    left = [step]
    return lambda *a: left.pop()(*a) if left else None


def test_the_overtaken_one_touches_nothing(world: World) -> None:
    first_batch(world)
    mend(world)
    redrive.plan(world.context(), "redrive 1")
    slow = world.context()

    def other(*_: object) -> None:
        assert redrive.carry_out(world.context(), "redrive 1").data == 3

    slow.launcher = Hook(slow.launcher, before={"run": once_only(other)})  # type: ignore[assignment]
    found = redrive.carry_out(slow, "redrive 1")
    assert found.data == 3
    once(world)
    balanced(world)


def test_a_window_that_closes_meanwhile_makes_no_row_vanish(world: World) -> None:
    """R5: hour 0 closes between looking and planning: its rows are late."""
    first_batch(world)
    mend(world)
    ctx = world.context()

    def close(*_: object) -> None:
        world.archive(0)

    ctx.ledger.batches = Hook(ctx.ledger.batches, before={"insert_plan": once_only(close)})  # type: ignore[misc]
    redrive.plan(ctx, "redrive 1")
    found = redrive.carry_out(world.context(), "redrive 1")
    assert (found.data, found.late) == (2, 1)
    once(world)
    balanced(world)


def test_a_window_does_not_close_over_an_open_redrive(world: World) -> None:
    first_batch(world)
    mend(world)
    redrive.plan(world.context(), "redrive 1")
    with pytest.raises(NotReady):
        world.archive(0)
    redrive.carry_out(world.context(), "redrive 1")
    world.archive(0)
    assert world.by_window()["00"] == [(0, 0), (0, 1)]
    balanced(world)


@pytest.mark.parametrize(("port", "call"), [
    ("storage", "rename_no_replace"), ("storage", "write_new"), ("catalogue", "drop_partitions"),
    ("catalogue", "add_partitions"), ("launcher", "run"),
])  # fmt: skip
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_anywhere_it_heals(world: World, port: str, call: str, when: str) -> None:
    first_batch(world)
    mend(world)
    redrive.plan(world.context(), "redrive 1")
    for n in range(12):
        ctx = world.context()
        nth = [n]

        def kill(*_: object, nth: list[int] = nth) -> None:
            nth[0] -= 1
            if nth[0] < 0:
                die()

        setattr(ctx, port, Hook(getattr(ctx, port), **{when: {call: kill}}))  # type: ignore[arg-type]
        try:
            redrive.carry_out(ctx, "redrive 1")
            break
        except Died:
            world.close()
    assert redrive.carry_out(world.context(), "redrive 1").data == 3
    reconcile.maintain(world.context())
    once(world)
    balanced(world)


def test_a_catalogue_that_is_away_holds_nothing_up(world: World) -> None:
    first_batch(world)
    mend(world)
    ctx = world.context()
    redrive.plan(ctx, "redrive 1")
    away = world.context()
    away.catalogue = Hook(away.catalogue, before={"drop_partitions": fails})  # type: ignore[assignment]
    assert redrive.carry_out(away, "redrive 1").data == 3
    assert world.table("__dirty") == [(0, 1), (0, 2), (0, 4), (1, 1)]  # none of them twice
    reconcile.maintain(world.context())
    assert world.table("__dirty") == [(0, 4)]
    once(world)
    balanced(world)


def fails(*_: object) -> None:
    raise CatalogueError("the endpoint is away")


def test_the_ledger_gives_rows_to_one_owner_only(world: World) -> None:
    """Whatever planned it: a second redrive of the same rows is no plan."""
    first_batch(world)
    mend(world)
    ctx = world.context()
    redrive.plan(ctx, "redrive 1")
    batch = ctx.ledger.batches.open("readings")
    assert batch is not None
    redrive.carry_out(world.context(), "redrive 1")
    view = ctx.ledger.batches.planning_view("readings")
    with pytest.raises(LostComparison):
        ctx.ledger.batches.insert_plan(replace(batch.plan, batch_id=3), view.version, None)
    assert isinstance(ctx.ledger.batches.get("readings", 2), LandedBatch)


# ---------------------------------------------------------------- a topic that was recreated


def test_rows_of_an_older_topic_are_redriven_apart(world: World) -> None:
    first_batch(world)
    old = world.kafka.describe(TOPIC).topic_id
    world.kafka.create(TOPIC, 2)
    new = world.kafka.describe(TOPIC).topic_id
    world.context().ledger.pipelines.accept_topic("readings", old, new, "on purpose")
    world.produce(record("n0", 4.0), odd("n1", 4.1), odd("n2", 4.2))
    world.ingest("r2")
    mend(world)
    first = redriven(world, below=3)
    second = redriven(world, "redrive 2", below=3)
    assert first == redrive.Redriven(3, (1,), 4, data=3, dirty=1)
    assert second == redrive.Redriven(4, (2,), 2, data=2)
    assert redriven(world, "redrive 3", below=3) is None
    view = world.context().ledger.batches.planning_view("readings")
    assert (view.accepted_topic_id, view.planned_ends) == (new, {0: 3, 1: 0})
    balanced(world)
    world.produce(record("n3", 4.3))
    world.ingest("r3")
    balanced(world)


def test_preview_changes_nothing(world: World) -> None:
    first_batch(world)
    choice = redrive.preview(world.context())
    assert [(b.batch_id, b.count) for b in choice.chosen] == [(1, 4)]
    assert world.context().ledger.batches.open("readings") is None


def test_rows_of_a_column_that_dirty_rows_do_not_keep_are_refused(tmp_path: Path) -> None:
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    raw = replace(
        spec,
        format=replace(spec.format, type="raw"),
        columns=(Column("text", "string", "$.value"), Column("headers", RAW_HEADERS, "$.headers")),
        event_time=EventTime(None),
        partition_by=("date", "hour"),
    )
    world = World(tmp_path, raw)
    world.kafka.append(TOPIC, 0, b"\xff", timestamp_ms=T0 + 5)
    world.ingest("r1")
    with pytest.raises(SpecError, match="without Kafka's headers, so the column headers"):
        redrive.plan(world.context(), "redrive 1")
    world.change_spec(columns=(Column("bytes", "binary", "$.value"),))
    assert redriven(world) == redrive.Redriven(2, (1,), 1, data=1)
    balanced(world)
    world.close()
