"""Late policies: side, reroute and drop. Which one a row meets, and where it goes, is what its batch's plan pinned."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine.route import Routed, Router
from tests.hooks import Hook, Once
from tests.unit.test_audit import in_process
from tests.unit.test_where_chaos import InProcessRows
from tests.world import HOUR, T0, World, make_pipeline, record, window
from tidegate.core.balance import Balance
from tidegate.core.errors import BatchRefused, NotReady, ReplayRefused
from tidegate.core.fate import Fate
from tidegate.core.lateness import DROP, POLICIES, REROUTE, SIDE
from tidegate.core.overflow import OVERFLOW_VALUE
from tidegate.core.pipeline import Column, DirtyLimits
from tidegate.workflow import archive, ingest, redrive
from tidegate.workflow.audit import audit
from tidegate.workflow.explanation import explain
from tidegate.workflow.where import where

AT = Column("at", "bigint", "$.at")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Hour 0 is published, 1 to 3 are open; the next record of partition 0 has offset 2."""
    yield (made := begun(World(tmp_path, with_times(tmp_path))))
    made.close()


def with_times(folder: Path) -> Any:
    spec = make_pipeline(f"file://{folder}/lake/readings")
    return replace(spec, columns=(*spec.columns, AT))


def begun(world: World) -> World:
    world.produce(record("a0", 0.1), record("b0", 1.2))
    world.produce(record("c0", 2.0), record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    return world


def policy(world: World, name: str) -> None:
    world.change_spec(late_policy=name)


def totals(world: World) -> Balance:
    overview = world.context().ledger.reads.overview("readings")
    world.close()
    assert overview is not None
    return overview.totals


def balanced(world: World) -> None:
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process)  # type: ignore[attr-defined]
    world.close()
    assert report.problems == ()


def fate(world: World, offset: int, partition: int = 0) -> Fate:
    ctx = world.context()
    (found,) = where(ctx, ctx.ledger.reads, InProcessRows(), partition, offset).fates
    world.close()
    return found


def floor(world: World, batch_id: int) -> Any:
    found = world.context().ledger.batches.get("readings", batch_id).plan.floor
    world.close()
    return found


def hour_of(ms: int | None) -> float | None:
    return None if ms is None else (ms - T0) / HOUR


def lose_a_file(world: World, hour: int) -> None:
    """Of the generation in force, wherever it lies."""
    partitions = world.partitions("lake.readings").items()
    places = [at for values, at in partitions if dict(values)["hour"] == f"{hour:02d}"]
    min(Path(places[0].removeprefix("file://")).glob("*.parquet")).unlink()


def sql(world: World, statement: str) -> list[Any]:
    world.close()
    with sqlite3.connect(world.database) as connection:
        return connection.execute(statement).fetchall()


# ---------------------------------------------------------------- where a late row goes


def test_side_puts_it_beside(world: World) -> None:
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    world.archive(1)
    assert world.table("__late") == [(0, 2)]
    assert world.by_window() == {"00": [(0, 0)], "01": [(0, 1), (0, 3)]}
    assert totals(world).text() == "read 6 = data 5 + late 1 + dirty 0 + filtered 0 + dropped 0"
    assert floor(world, 2).reroute_ms is None
    balanced(world)


def test_reroute_makes_it_a_row_of_the_oldest_open_window(world: World) -> None:
    policy(world, REROUTE)
    world.produce(record("late", 0.7), record("fine", 1.9), record("more", 3.9))
    world.ingest("r2")
    assert hour_of(floor(world, 2).reroute_ms) == 1
    assert totals(world).text() == ("read 7 = data 7 (1 of them rerouted) + late 0 + dirty 0 + filtered 0 + dropped 0")
    balanced(world)
    world.archive(1)
    assert world.table("__late") == []
    assert world.by_window() == {"00": [(0, 0)], "01": [(0, 1), (0, 2), (0, 3)]}
    assert any(
        "sealed batch 2: read 3, data 3, late 0, dirty 0, rerouted 1; 2 files for 2 windows" in line
        for line in world.said
    )
    balanced(world)


def test_it_keeps_its_own_event_time(world: World) -> None:
    policy(world, REROUTE)
    world.produce(record("late", 0.75))
    world.ingest("r2")
    assert sql(world, "SELECT min_event_ms, max_event_ms, window_ms FROM batch_files WHERE batch_id = 2") == [
        (T0 + HOUR * 3 // 4, T0 + HOUR * 3 // 4, T0 + HOUR)
    ]
    world.archive(1)
    found = fate(world, 2)
    assert (hour_of(found.event_ms), hour_of(found.window_ms)) == (0.75, 1.0)


def test_drop_counts_it_and_writes_nothing(world: World) -> None:
    policy(world, DROP)
    world.produce(record("late", 0.7), record("fine", 1.9), record("other", 0.8))
    world.ingest("r2")
    world.archive(1)
    assert totals(world).text() == "read 7 = data 5 + late 0 + dirty 0 + filtered 0 + dropped 2"
    assert world.by_window() == {"00": [(0, 0)], "01": [(0, 1), (0, 3)]}
    assert world.table("__late") == []
    balanced(world)


def test_a_batch_of_dropped_rows_alone(world: World) -> None:
    policy(world, DROP)
    world.produce(record("late", 0.7))
    world.ingest("r2")
    assert totals(world).dropped == 1
    assert sql(world, "SELECT count(*) FROM batch_files WHERE batch_id = 2") == [(0,)]
    balanced(world)


@pytest.mark.parametrize("name", POLICIES)
def test_a_late_row_moves_the_watermark_whatever_becomes_of_it(tmp_path: Path, name: str) -> None:
    world = World(tmp_path, with_times(tmp_path))
    world.produce(record("a0", 0.1), record("d0", 3.5))
    world.ingest("r1")
    world.archive(0)
    policy(world, name)
    world.produce(record("late", 0.7), partition=1)
    world.ingest("r2")
    facts = {p.partition: hour_of(p.max_event_ms) for p in world.context().ledger.windows.facts("readings").partitions}
    assert facts == {0: 3.5, 1: 0.7}
    world.close()


@pytest.mark.parametrize("name", POLICIES)
def test_dirty_and_filtered_come_before_late(world: World, name: str) -> None:
    world.change_spec(where="value > 1", late_policy=name)
    world.produce(b"not json", record("late and filtered", 0.7), record("late", 0.8, value=2))
    world.ingest("r2")
    found = totals(world)
    assert (found.dirty, found.filtered) == (1, 1)
    assert (found.late, found.rerouted, found.dropped) == tuple(int(name == p) for p in (SIDE, REROUTE, DROP))
    balanced(world)


@pytest.mark.parametrize("name", POLICIES)
def test_rows_before_the_first_window_are_late_too(world: World, name: str) -> None:
    policy(world, name)
    world.produce(record("before", -30.0))
    world.ingest("r2")
    found = totals(world)
    assert (found.late, found.rerouted, found.dropped) == tuple(int(name == p) for p in (SIDE, REROUTE, DROP))
    if name == REROUTE:
        assert "its window 2013-01-03T18:00Z ended before windows.start" in fate(world, 2).words
        world.archive(1)
        assert world.by_window()["01"] == [(0, 1), (0, 2)]
    balanced(world)


def test_rows_beyond_the_age_limit_go_into_the_window_that_the_limit_cuts(world: World) -> None:
    """The plan's clock is T0 + 100 h."""
    world.change_spec(late_policy=REROUTE, windows=replace(world.pipeline.windows, max_age_ms=int(97.5 * HOUR)))
    world.produce(record("old", 1.1), record("just", 2.1))
    world.ingest("r2")
    assert hour_of(floor(world, 2).reroute_ms) == 2
    assert "older than windows.max_age when batch 2 was planned" in fate(world, 2).words
    assert fate(world, 3).reason == ""
    world.produce(record("later", 4.6))
    world.ingest("r3")
    world.archive(2)
    assert world.by_window()["02"] == [(0, 2), (0, 3), (1, 0)]
    balanced(world)


def test_a_hole_among_closed_hours_is_the_oldest_open_one(world: World) -> None:
    world.produce(record("e0", 4.6), record("e1", 4.6))
    world.ingest("r2")
    world.archive(2)
    policy(world, REROUTE)
    world.produce(record("late for 0", 0.7), record("late for 2", 2.7))
    world.ingest("r3")
    assert hour_of(floor(world, 3).reroute_ms) == 1
    world.archive(1)
    assert world.by_window() == {"00": [(0, 0)], "01": [(0, 1), (0, 4), (0, 5)], "02": [(1, 0)]}
    balanced(world)


# ---------------------------------------------------------------- the plan pins it


def test_the_target_waits_for_a_batch_that_was_planned_before_it_closed(world: World) -> None:
    """R5: closing has two steps, and the second one waits."""
    policy(world, REROUTE)
    world.produce(record("late", 0.7))
    ingest.plan(world.context(), "r2")
    with pytest.raises(NotReady):
        archive.publish(world.context(), window(1))
    ingest.write(world.context(), "r2")
    ingest.land(world.context(), "r2")
    world.archive(1)
    assert world.by_window()["01"] == [(0, 1), (0, 2)]
    balanced(world)


def test_a_plan_whose_target_closes_meanwhile_takes_the_next_one(world: World) -> None:
    """R5: a plan commits on the version that it read."""
    policy(world, REROUTE)
    world.produce(record("late", 0.7))
    ctx = world.context()
    ctx.ledger.batches = Hook(ctx.ledger.batches, {"insert_plan": Once(lambda: world.archive(1))})
    ingest.plan(ctx, "r2")
    assert hour_of(floor(world, 2).reroute_ms) == 2
    ingest.write(world.context(), "r2")
    ingest.land(world.context(), "r2")
    world.produce(record("last", 4.5))
    world.ingest("r3")
    world.archive(2)
    assert world.by_window() == {"00": [(0, 0)], "01": [(0, 1)], "02": [(0, 2), (1, 0)]}
    balanced(world)


def test_a_second_attempt_goes_where_the_first_one_went(world: World) -> None:
    policy(world, REROUTE)
    world.produce(record("late", 0.7), record("late too", 0.8))
    ingest.plan(world.context(), "r2")
    ctx = world.context()
    ctx.ledger.batches = Hook(ctx.ledger.batches, {"seal": Once(lambda: 1 / 0)})
    with pytest.raises(ZeroDivisionError):
        ingest.write(ctx, "r2")
    with pytest.raises(NotReady):
        archive.publish(world.context(), window(1))  # it is closing now
    for attempt in (world.folder / "lake/readings/_tidegate/tmp").iterdir():
        (attempt / "_receipt.json").unlink()
    ingest.write(world.context(), "r2")
    ingest.land(world.context(), "r2")
    assert len(world.context().ledger.batches.manifest_files("readings", 2)) == 1
    world.archive(1)
    assert world.by_window()["01"] == [(0, 1), (0, 2), (0, 3)]
    balanced(world)


def test_the_target_and_the_own_window_are_replayed_each_with_its_rows(world: World) -> None:
    policy(world, REROUTE)
    world.produce(record("late", 0.7), record("fine", 1.9), record("far", 5.5))
    world.ingest("r2")
    world.archive(1)
    for hour in (0, 1):
        assert world.replay(hour).note == "unchanged"
    id_, site, _, at = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other"), at), late_policy=SIDE)
    for hour in (0, 1):
        assert world.replay(hour).generation > 1
    assert world.by_window() == {"00": [(0, 0)], "01": [(0, 1), (0, 2), (0, 3)]}
    balanced(world)


@pytest.mark.parametrize("hour", [0, 1])
def test_a_lost_file_comes_back_with_the_rows_of_its_window(world: World, hour: int) -> None:
    policy(world, REROUTE)
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    world.archive(1)
    policy(world, DROP)
    lose_a_file(world, hour)
    assert world.archive(hour).generation == 2
    assert world.by_window() == {"00": [(0, 0)], "01": [(0, 1), (0, 2), (0, 3)]}
    balanced(world)


def test_each_batch_keeps_the_policy_that_it_was_planned_with(world: World) -> None:
    """side, reroute, drop and side again over the same windows; then every one of them is replayed and cleared."""
    rows = {}
    for number, name in enumerate((SIDE, REROUTE, DROP, SIDE), 2):
        policy(world, name)
        world.produce(record(f"late {name}", 0.7), record(f"fine {name}", 1.5))
        world.ingest(f"r{number}")
        rows[number] = name
    world.produce(record("far", 5.5))
    world.ingest("r6")
    world.archive(1)
    published = {"00": [(0, 0)], "01": [(0, 1), (0, 3), (0, 4), (0, 5), (0, 7), (0, 9)]}
    assert world.by_window() == published
    assert world.table("__late") == [(0, 2), (0, 8)]
    found = totals(world)
    assert (found.late, found.rerouted, found.dropped) == (2, 1, 1)
    for today in POLICIES:
        policy(world, today)
        for hour in (0, 1):
            assert world.replay(hour).note == "unchanged"
            lose_a_file(world, hour)
            world.archive(hour)
        assert world.by_window() == published
    assert [fate(world, o).kind for o in (2, 4, 6, 8)] == ["late", "published", "dropped", "late"]
    balanced(world)


@pytest.mark.parametrize(("before", "after"), [(SIDE, REROUTE), (REROUTE, SIDE), (REROUTE, DROP), (DROP, REROUTE)])
def test_a_refused_batch_takes_the_policy_of_the_mended_spec(world: World, before: str, after: str) -> None:
    """With the floor that it was planned with, so its target is one that still waits for it."""
    world.change_spec(late_policy=before, dirty=DirtyLimits(0, None))
    world.produce(record("late", 0.7), b"not json")
    with pytest.raises(BatchRefused):
        world.ingest("r2")
    with pytest.raises(NotReady):
        archive.publish(world.context(), window(1))  # closing: no target for a plan from now on
    world.change_spec(late_policy=after, dirty=DirtyLimits(None, None))
    ingest.write(world.context(), "r2")
    ingest.land(world.context(), "r2")
    assert hour_of(floor(world, 2).reroute_ms) == (1 if after == REROUTE else None)
    found = totals(world)
    assert (found.late, found.rerouted, found.dropped) == tuple(int(after == p) for p in (SIDE, REROUTE, DROP))
    world.archive(1)
    assert world.by_window()["01"] == [(0, 1), (0, 2)] if after == REROUTE else [(0, 1)]
    assert world.replay(1).note == "unchanged"
    balanced(world)


def test_plans_of_before_have_no_target_and_mean_what_they_meant(world: World) -> None:
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    for batch_id, text in sql(world, "SELECT batch_id, floor FROM batches"):
        old = text.replace(',"reroute_ms":null', "")
        assert old != text
        sql(world, f"UPDATE batches SET floor = '{old}' WHERE batch_id = {batch_id}")
    sql(world, "UPDATE batch_ranges SET rerouted = NULL")
    world.archive(1)
    policy(world, REROUTE)
    for hour in (0, 1):
        assert world.replay(hour).note == "unchanged"
    assert fate(world, 2).kind == "late"
    balanced(world)


def test_a_worker_that_goes_by_another_policy_lands_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    policy(world, REROUTE)
    world.produce(record("late", 0.7))

    def as_before(self: Router, routed: Routed) -> Routed:
        return routed

    with monkeypatch.context() as changed:
        changed.setattr(Router, "_by_policy", as_before)
        with pytest.raises(BatchRefused, match="1 rows late, but late.policy is reroute"):
            world.ingest("r2")
    ingest.write(world.context(), "r2")
    ingest.land(world.context(), "r2")
    world.archive(1)
    assert world.by_window()["01"] == [(0, 1), (0, 2)]


# ---------------------------------------------------------------- with everything else


def odd(name: str, hour: float) -> dict[str, Any]:
    """Dirty until the column takes another field."""
    return record(name, hour) | {"value": "many", "other": 7}


def mend(world: World, late_policy: str) -> None:
    id_, site, _, at = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column("value", "int", "$.other"), at), late_policy=late_policy)


def redriven(world: World, run: str) -> redrive.Redriven:
    assert redrive.plan(world.context(), run) is not None
    found = redrive.carry_out(world.context(), run)
    world.close()
    return found


@pytest.mark.parametrize(("at_first", "then"), [(SIDE, REROUTE), (REROUTE, DROP), (DROP, SIDE), (REROUTE, REROUTE)])
def test_redriven_rows_that_are_late_by_now_go_by_the_redrives_own_plan(world: World, at_first: str, then: str) -> None:
    """They were read when hour 1 was open; when they are redriven it is published."""
    policy(world, at_first)
    world.produce(odd("x", 1.4), record("y", 1.6), odd("z", 0.4))
    world.ingest("r2")
    world.archive(1)
    mend(world, then)
    found = redriven(world, "redrive 1")
    assert (found.late, found.rerouted, found.dropped) == tuple(2 * int(then == p) for p in (SIDE, REROUTE, DROP))
    assert found.words.endswith(
        {
            SIDE: ": 0 data, 2 late, 0 still dirty",
            REROUTE: ": 2 data (2 of them rerouted), 0 late, 0 still dirty",
            DROP: ": 0 data, 0 late, 0 still dirty, 2 dropped",
        }[then]
    )
    assert [fate(world, o).kind for o in (2, 4)] == [{SIDE: "late", REROUTE: "waiting", DROP: "dropped"}[then]] * 2
    balanced(world)
    world.produce(record("far", 5.5))
    world.ingest("r3")
    world.archive(2)
    redirected = [(0, 2), (0, 4)] if then == REROUTE else []
    assert world.by_window()["02"] == [*redirected, (1, 0)]
    assert world.replay(2).generation == 2, "the other column has other values"
    assert world.by_window()["02"] == [*redirected, (1, 0)]
    lose_a_file(world, 2)
    world.archive(2)
    assert world.by_window()["02"] == [*redirected, (1, 0)]
    if then == REROUTE:
        words = fate(world, 2).words
        assert "redriven by batch 3: rerouted: its window 2013-01-05T01:00Z was closing or closed when batch 3" in words
    balanced(world)


def test_rerouted_rows_have_the_partition_values_of_their_target(tmp_path: Path) -> None:
    """One place a window: hour 1 has site a already, so a late row of site b goes to hour 1's overflow partition."""
    spec = with_times(tmp_path)
    world = begun(World(tmp_path, replace(spec, sink=replace(spec.sink, max_partitions=1), late_policy=REROUTE)))
    world.produce(record("late b", 0.7, "b"), record("late a", 0.8, "a"))
    world.ingest("r2")
    world.archive(1)
    values = {dict(v)["site"]: world.rows_at(at) for v, at in world.partitions("lake.readings").items()
              if dict(v)["hour"] == "01"}  # fmt: skip
    assert values == {"a": [(0, 1), (0, 3)], OVERFLOW_VALUE: [(0, 2)]}
    assert any("overflow: window 2013-01-05T01:00Z: 1 rows" in line for line in world.said)
    assert world.replay(1).note == "unchanged"
    balanced(world)


def test_small_files_with_rerouted_rows_are_merged(tmp_path: Path) -> None:
    world = begun(World(tmp_path, replace(with_times(tmp_path), late_policy=REROUTE)))
    merge = replace(world.pipeline.archive.merge, min_files=2)
    world.change_spec(archive=replace(world.pipeline.archive, merge=merge))
    for number in range(2, 5):
        world.produce(record(f"late {number}", 0.7), record(f"fine {number}", 1.5))
        world.ingest(f"r{number}")
    world.archive(1)
    (hour,) = [d for d in (world.folder / "lake/readings/date=2013-01-05").iterdir() if d.name == "hour=01"]
    assert len(list(hour.rglob("*.parquet"))) == 1
    assert world.by_window()["01"] == [(0, n) for n in range(1, 8)]
    assert [hour_of(fate(world, o).event_ms) for o in (2, 3)] == [0.7, 1.5]
    assert fate(world, 2).words.startswith("rerouted: ")
    assert fate(world, 3).words.startswith("batch 2, attempt 1, event time ")
    balanced(world)


# ---------------------------------------------------------------- in words


def test_where_a_rerouted_row_went_is_said(world: World) -> None:
    policy(world, REROUTE)
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    waiting = fate(world, 2)
    told = (
        "rerouted: its window 2013-01-05T00:00Z was closing or closed when batch 2 was planned (2013-01-09T04:00Z); "
        "it is data of 2013-01-05T01:00Z: batch 2, attempt 1, event time 2013-01-05T00:42Z, landed 2013-01-09T04:00Z, "
    )
    assert (waiting.kind, waiting.words.startswith(told + "waits for its window")) == ("waiting", True)
    world.archive(1)
    published = fate(world, 2)
    assert published.words == told + "published in generation 1 of 2013-01-05T01:00Z"
    assert (published.kind, published.reason) == ("published", told.partition(";")[0])
    assert "rerouted" not in fate(world, 3).words


def test_where_no_column_tells_the_event_time_it_is_said_as_far_as_it_is_known(tmp_path: Path) -> None:
    world = begun(World(tmp_path, replace(make_pipeline(f"file://{tmp_path}/lake/readings"), late_policy=REROUTE)))
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    for offset in (2, 3):
        assert fate(world, offset).words.startswith("perhaps rerouted, as 1 rows of batch 2; it is data of")
    assert "rerouted" not in fate(world, 1).words
    world.close()


def test_a_dropped_row_is_said_to_be_dropped(world: World) -> None:
    policy(world, DROP)
    world.produce(record("late", 0.7))
    world.ingest("r2")
    policy(world, SIDE)
    found = fate(world, 2)
    assert (found.kind, found.settled, found.next_step) == ("dropped", True, "")
    assert found.words == (
        "dropped: its window was not open when batch 2 was planned (2013-01-09T04:00Z), and late.policy was drop "
        "(batch 2, attempt 1)"
    )


def test_explain_says_how_many_rows_came_from_earlier_windows(world: World) -> None:
    policy(world, REROUTE)
    world.produce(record("late", 0.7), record("late too", 0.2), record("fine", 1.9))
    world.ingest("r2")
    ctx = world.context()
    shares = {hour: [(s.batch_id, s.rows, s.rerouted) for s in explain(ctx, ctx.ledger.reads, window(hour)).shares]
              for hour in (0, 1)}  # fmt: skip
    assert shares == {0: [(1, 1, 0)], 1: [(1, 1, 0), (2, 3, 2)]}


@pytest.mark.parametrize("table", ["batch_ranges", "batch_window_totals"])
def test_the_audit_holds_the_two_counts_of_rerouted_rows_against_each_other(world: World, table: str) -> None:
    policy(world, REROUTE)
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    balanced(world)
    sql(world, f"UPDATE {table} SET rerouted = 2 WHERE batch_id = 2")
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process)  # type: ignore[attr-defined]
    (problem,) = report.problems
    assert problem.what in (
        "2 rows were rerouted, 1 by the windows they went to", "1 rows were rerouted, 2 by the windows they went to"
    )  # fmt: skip


def test_a_replay_that_would_take_a_rerouted_row_for_its_own_windows_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the ledger owes each window is what a rebuild is held against."""
    policy(world, REROUTE)
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    world.archive(1)
    monkeypatch.setattr(Router, "_by_policy", lambda self, routed: routed)
    with pytest.raises(ReplayRefused, match="batch 2, partition 0 owes 2 rows, the topic gives 1"):
        world.replay(1)
