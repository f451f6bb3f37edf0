"""Late policies: which one a row meets is what its batch's plan pinned, through replays, redrives and merges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.engine.route import Routed, Router
from tests.audit.audits import balanced
from tests.hooks import Hook, Once
from tests.late.late_rows import (
    begun,
    fate,
    floor,
    hour_of,
    lose_a_file,
    mend,
    odd,
    policy,
    redriven,
    sql,
    totals,
    with_times,
)
from tests.world import World, record, window
from tidegate.core.base.errors import BatchRefused, NotReady
from tidegate.core.files.overflow import OVERFLOW_VALUE
from tidegate.core.spec.pipeline import Column, DirtyLimits
from tidegate.core.window.lateness import DROP, POLICIES, REROUTE, SIDE
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Hour 0 is published, 1 to 3 are open; the next record of partition 0 has offset 2."""
    yield (made := begun(World(tmp_path, with_times(tmp_path))))
    made.close()


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
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other"), at), late_policy=SIDE)
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
        with pytest.raises(BatchRefused, match="1 row late, but late.policy is reroute"):
            world.ingest("r2")
    ingest.write(world.context(), "r2")
    ingest.land(world.context(), "r2")
    world.archive(1)
    assert world.by_window()["01"] == [(0, 1), (0, 2)]


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
    assert any("overflow: window 2013-01-05T01:00Z: 1 row" in line for line in world.said)
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
