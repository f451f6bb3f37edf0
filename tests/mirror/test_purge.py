"""Tombstones are purged where the source's promise allows it (M6), and what comes too late stays out (M5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate

from tests.mirror.audits import deep, dropped, overwritten
from tests.mirror.test_where_key import Here
from tests.mirror.worlds import YAML, MirrorWorld, event
from tidegate.core.base.errors import BatchRefused, JobFailed
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.look.concerns import KEPT_OUT_MS, _kept_out
from tidegate.core.mirror.applies import APPLIED, OPEN, OVERTAKEN, REFUSED, Tried
from tidegate.core.mirror.balance import imbalance
from tidegate.workflow.apply.apply import apply
from tidegate.workflow.look.where_key import KeyAnswer, key_of, where_key

DAY = 86_400_000
KEPT = YAML.replace("buckets: 3", "buckets: 3, tombstones: 2d")
LOG = 2**40
"""Positions of the first binlog begin there."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path, KEPT)
    yield made
    made.close()


def old_deletes(world: MirrorWorld) -> None:
    """Keys 2 and 3 were deleted long ago, key 5 lately; the greatest old position is that of key 4."""
    world.land(*(event(n, "a", 10 + n) for n in range(1, 6)))
    world.land(event(2, None, 20), event(3, None, 21), event(4, "b", 22))
    world.apply()
    world.clock.advance(4 * DAY)
    world.land(event(5, None, 30), event(1, "c", 31))


def upkeeps(world: MirrorWorld) -> list[Tried]:
    ledger = world.context().ledger
    newest = ledger.applies.newest(world.pipeline.name)
    epochs = range(1, 1 + (0 if newest is None else newest.apply.epoch))
    found = sorted(ledger.applies.tries(world.pipeline.name, epochs).items())
    world.close()
    return [tried for _, tried in found if not tried.apply.merges]


def history(world: MirrorWorld) -> list[Any]:
    found = world.context().ledger.cleaning.history(world.pipeline.name, "mirror")
    world.close()
    return [h for h in found if h.what == "kept out by a purge"]


def snapshots(world: MirrorWorld) -> int:
    return len(world.loaded().metadata.snapshots)


def back_to(world: MirrorWorld, snapshot: int) -> None:
    values = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot}
    world.iceberg.commit(world.loaded(), (), (SetSnapshotRefUpdate.model_validate(values),))


def told(world: MirrorWorld) -> tuple[int, int, int, int]:
    prefix = world.standing()
    assert imbalance(prefix) is None
    return prefix.rows, prefix.tombstones, prefix.purged, max(0, prefix.purged_below[0] - LOG)


# ---------------------------------------------------------------- what goes


def test_m5_old_tombstones_go_and_the_table_says_so(world: MirrorWorld) -> None:
    old_deletes(world)
    done = world.apply()
    assert (done.merges, done.purged) == (1, 2)
    assert told(world) == (2, 1, 2, 22)
    assert world.rows() == {1: "c", 4: "b"}
    assert world.standing().purged_upto == world.standing().upto == 3
    (mine,) = upkeeps(world)
    assert (mine.state, mine.apply.first, mine.apply.last) == (APPLIED, 4, 3)
    assert world.context().ledger.applies.told("readings") == done.told
    assert done.told.purged_below == (LOG + 22, 0, 0)
    found = deep(world)
    assert (found.problems, found.recomputed and found.recomputed.kept_out) == ((), 0)
    world.land(event(2, "again", 40))
    world.apply()
    assert world.rows() == {1: "c", 2: "again", 4: "b"}
    assert told(world) == (3, 1, 2, 22)


def test_m6_what_came_lately_sets_no_position(world: MirrorWorld) -> None:
    """Before twice the time has passed since the old batches landed, nothing is old enough."""
    world.land(event(1, "a", 10), event(2, "b", 11))
    world.land(event(2, None, 20), event(1, "c", 22))
    world.apply()
    world.clock.advance(4 * DAY - 1)
    world.land(event(1, "d", 30))
    assert world.apply().purged == 0
    assert any("no batch with events had landed 4.0 days ago" in line for line in world.said)
    world.clock.advance(1)
    assert world.apply().purged == 1


def test_m6_unread_records_hold_a_purge_up(world: MirrorWorld) -> None:
    """They may have become readable long ago."""
    old_deletes(world)
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=1))
    world.clock.advance(3 * DAY)
    world.land(event(1, "d", 40), event(1, "e", 41))
    assert world.apply().purged == 0
    assert any("no merged batch has read the whole topic within the last 2.0 days" in line for line in world.said)
    world.land()
    assert world.apply().purged == 2


def test_m6_a_batch_that_waits_says_nothing(world: MirrorWorld) -> None:
    """It has read all of the topic, but is not in the table: what it brings may be older than what was read since."""
    old_deletes(world)
    world.apply(most_events=1, go_on=lambda: False)
    ledger = world.context().ledger
    assert ledger.applies.horizon("readings", 2, world.clock.now_ms()).read_ms == world.clock.now_ms() - 4 * DAY
    assert ledger.applies.horizon("readings", 3, world.clock.now_ms()).read_ms == world.clock.now_ms()
    assert ledger.applies.horizon("readings", 3, world.clock.now_ms() - DAY).settled == 2
    assert ledger.applies.horizon("readings", 1, world.clock.now_ms()).settled == 1


def test_tombstones_stay_where_the_spec_says_keep(tmp_path: Path) -> None:
    world = MirrorWorld(tmp_path)
    old_deletes(world)
    assert world.apply().purged == 0
    assert told(world) == (2, 3, 0, 0)
    world.close()


def test_nothing_to_drop_is_no_commit_and_enough_for_a_day(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    world.apply()
    world.clock.advance(4 * DAY)
    world.land(event(1, None, 20))
    world.apply()
    assert snapshots(world) == 2
    assert told(world) == (0, 1, 0, 0)
    assert [t.state for t in upkeeps(world)] == [APPLIED]
    world.clock.advance(DAY - 1)
    world.apply()
    assert len(upkeeps(world)) == 1
    world.land(event(2, "b", 30))
    world.clock.advance(1)
    world.apply()
    assert len(upkeeps(world)) == 2


def test_a_bucket_without_old_tombstones_is_left_alone(world: MirrorWorld) -> None:
    old_deletes(world)
    world.apply()
    assert world.launcher is not None
    plan = world.launcher.runs[-1]
    assert isinstance(plan, ApplyPlan)
    changed = {int(p.name[-5:]) for p in Path(plan.attempt_dir.removeprefix("file://")).glob("bucket-*")}
    assert set() < changed < {b.number for b in plan.base}


# ---------------------------------------------------------------- what comes too late


def kept_out(world: MirrorWorld) -> None:
    """After the purge an older event of key 2, which has no row, and one of key 4, which has one."""
    old_deletes(world)
    world.apply()
    world.land(event(2, "late", 19), event(4, "late", 18), event(9, "new", 50))
    world.apply()


def test_m5_an_older_event_stays_out_and_is_told(world: MirrorWorld) -> None:
    kept_out(world)
    assert world.rows() == {1: "c", 4: "b", 9: "new"}
    prefix = world.standing()
    assert (prefix.below_purge, prefix.purged_below) == (1, (LOG + 22, 0, 0))
    (said,) = history(world)
    assert (said.detail["events"], said.detail["in all"]) == (1, 1)
    (sample,) = said.detail["samples"]
    assert sample.startswith("id=2 from readings, partition 0, offset ")
    world.land(event(3, "late", 19))
    world.apply()
    assert [h.detail["in all"] for h in history(world)] == [1, 2]
    assert world.standing().below_purge == 2
    assert world.context().ledger.applies.rows("readings", 5) == world.standing().events


def test_m5_an_event_that_is_kept_out_is_no_damage(world: MirrorWorld) -> None:
    kept_out(world)
    for expected in (0, 1):  # the delete of key 2 is newer than what came; that of key 3 is not
        found = deep(world)
        assert found.problems == ()
        assert found.recomputed is not None
        assert found.recomputed.kept_out == expected
        world.land(event(3, "late", 21, row=1))
        world.apply()


def test_rows_that_somebody_took_below_the_purge_are_damage(world: MirrorWorld) -> None:
    """More keys lack their row than events were kept out."""
    world.land(event(7, "old", 8), event(8, "old", 9))
    kept_out(world)
    overwritten(world, lambda rows: [r for r in rows if r["id"] not in (7, 8)])
    found = " | ".join(p.what for p in deep(world).problems)
    assert "2 rows below its purge at" in found
    assert "but its merges have kept out 1 event" in found


def ask(world: MirrorWorld, key: int) -> KeyAnswer:
    ctx = world.context()
    found = where_key(ctx, Here(), key_of(ctx, [f"id={key}"]))
    world.close()
    return found


def test_where_tells_purged_and_kept_out(world: MirrorWorld) -> None:
    kept_out(world)
    assert [(e.state, e.commit - LOG) for e in ask(world, 3).events] == [("purged", 21), ("older", 13)]
    assert [(e.state, e.commit - LOG) for e in ask(world, 5).events] == [("tombstone", 30), ("older", 15)]
    found = ask(world, 2)
    assert [(e.state, e.commit - LOG) for e in found.events] == [("purged", 20), ("below-purge", 19), ("older", 12)]
    assert [(e.state, e.commit - LOG) for e in ask(world, 4).events] == [("row", 22), ("older", 18), ("older", 14)]
    world.land(event(3, "late", 21, row=1), event(3, "newer", 60))
    world.apply()
    assert [e.state for e in ask(world, 3).events] == ["row", "older", "older", "older"]


def test_where_tells_a_row_that_the_purge_keeps_out(world: MirrorWorld) -> None:
    old_deletes(world)
    world.apply()
    world.land(event(3, "late", 21, row=1))
    world.apply()
    assert 3 not in world.rows()
    found = ask(world, 3)
    assert [e.state for e in found.events] == ["below-purge", "purged", "older"]
    assert found.seen is not None
    assert found.seen.state == "purged"


# ---------------------------------------------------------------- what dies


def test_a_purge_that_died_is_made_anew_at_once(world: MirrorWorld) -> None:
    old_deletes(world)
    ctx = world.context()
    assert ctx.keyed is not None
    apply_, told_before = ctx.keyed.apply, world.standing()

    def dies(before: Any, merged: Any, holds: Any) -> Any:
        if merged.last < merged.first:
            raise JobFailed("the worker is gone")
        return apply_(before, merged, holds)

    ctx.keyed.apply = dies  # type: ignore[method-assign]
    with pytest.raises(JobFailed):
        apply(ctx)
    assert [t.state for t in upkeeps(world)] == [OPEN]
    assert told_before.purged == 0
    assert world.apply().purged == 2
    assert [t.state for t in upkeeps(world)] == [OVERTAKEN, APPLIED]


def test_a_purge_whose_answer_was_lost_is_found_in_the_table(world: MirrorWorld) -> None:
    old_deletes(world)
    world.apply_and_die_once_upkeep_is_committed()
    assert world.apply().purged == 0
    assert [t.state for t in upkeeps(world)] == [APPLIED]
    assert told(world) == (2, 1, 2, 22)


def test_m1_a_merge_in_between_overtakes_a_purge(world: MirrorWorld) -> None:
    """It is made anew on what stands then."""
    old_deletes(world)
    ctx, met = world.context(), []
    assert ctx.keyed is not None
    apply_ = ctx.keyed.apply

    def late(before: Any, merged: Any, holds: Any) -> Any:
        if merged.last < merged.first and not met:
            met.append(merged)
            world.land(event(2, "back", 19))
            world.apply()
        return apply_(before, merged, holds)

    ctx.keyed.apply = late  # type: ignore[method-assign]
    done = apply(ctx)
    assert len(met) == 1
    assert (done.told.upto, done.told.purged) == (4, 2)
    assert world.rows() == {1: "c", 4: "b"}
    assert sorted(t.state for t in upkeeps(world)) == [APPLIED, OVERTAKEN]


def test_a_table_that_was_taken_back_has_its_tombstones_and_its_marker_again(world: MirrorWorld) -> None:
    old_deletes(world)
    world.apply()
    back_to(world, world.loaded().metadata.snapshots[0].snapshot_id)
    assert told(world) == (3, 2, 0, 0)
    assert told(world)[3] == 0
    world.land(event(2, "late", 19))
    assert world.apply().told.below_purge == 0, "its tombstone is there again"
    assert world.rows() == {1: "c", 4: "b"}
    dropped(world)
    world.apply()
    assert world.rows() == {1: "c", 4: "b"}
    assert told(world)[:3] == (2, 3, 0)


def test_a_purge_that_is_refused_stops_no_merge(world: MirrorWorld) -> None:
    old_deletes(world)
    ctx = world.context()
    real = ctx.ledger.batches.manifest_files
    ctx.ledger.batches.manifest_files = lambda name, n, kind=None: [  # type: ignore[method-assign]
        replace(f, rows=f.rows + (n == 2)) for f in real(name, n, kind)
    ]
    with pytest.raises(BatchRefused, match="its batch's manifest has"):
        apply(ctx)
    (mine,) = upkeeps(world)
    assert mine.state == REFUSED
    world.land(event(1, "d", 60))
    assert world.apply().told.upto == 4, "and the purge is tried again tomorrow"
    assert len(upkeeps(world)) == 1


def test_people_are_told_for_a_week(world: MirrorWorld) -> None:
    kept_out(world)
    merging = world.context().ledger.reads.merging(["readings"])["readings"]
    assert merging.kept_out_ms == world.clock.now_ms()
    (concern,) = _kept_out("readings", merging, world.clock.now_ms() + KEPT_OUT_MS)
    assert concern.what.startswith("1 event was kept out of the table, older than its purge of tombstones; the last 7")
    assert "tidegate where readings --key" in concern.advice
    assert list(_kept_out("readings", merging, world.clock.now_ms() + KEPT_OUT_MS + 1)) == []
