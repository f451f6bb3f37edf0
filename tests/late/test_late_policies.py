"""Late policies: side, reroute and drop. Where a late row goes, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.engine.route import Router
from tests.audit.audits import balanced, in_process
from tests.late.late_rows import begun, fate, floor, hour_of, policy, sql, totals, with_times
from tests.world import HOUR, T0, World, make_pipeline, record, window
from tidegate.core.base.errors import ReplayRefused
from tidegate.core.window.lateness import DROP, POLICIES, REROUTE, SIDE
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.look.explanation import explain


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Hour 0 is published, 1 to 3 are open; the next record of partition 0 has offset 2."""
    yield (made := begun(World(tmp_path, with_times(tmp_path))))
    made.close()


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
        assert fate(world, offset).words.startswith("perhaps rerouted, as 1 row of batch 2; it is data of")
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
        "2 rows were rerouted, 1 by the windows they went to", "1 row was rerouted, 2 by the windows they went to"
    )  # fmt: skip


def test_a_replay_that_would_take_a_rerouted_row_for_its_own_windows_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the ledger owes each window is what a rebuild is compared with."""
    policy(world, REROUTE)
    world.produce(record("late", 0.7), record("fine", 1.9))
    world.ingest("r2")
    world.archive(1)
    monkeypatch.setattr(Router, "_by_policy", lambda self, routed: routed)
    with pytest.raises(ReplayRefused, match="batch 2, partition 0 owes 2 rows, the topic gives 1"):
        world.replay(1)
