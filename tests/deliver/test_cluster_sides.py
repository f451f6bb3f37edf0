"""Late and dirty tables in a copy at another cluster: versions of batches (D9, D10), and rows that move (D11)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from tests.deliver.cluster_lab import Around
from tests.deliver.side_lab import (
    KINDS,
    SIDES,
    HiveSides,
    Sides,
    as_at_home,
    begun,
    none_twice,
    redrives_all,
    reopens,
    sends,
    states,
)
from tests.world import record
from tidegate.core.base.errors import DeliveryAhead, LostComparison
from tidegate.core.deliver.units import key_of
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.deliver import content, deliver

DAY_MS = 86_400_000


_KINDS = KINDS | {"hive in an object store": partial(HiveSides, objects=True)}


@pytest.fixture(params=list(_KINDS))
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Sides:
    return _KINDS[request.param](tmp_path)


def test_late_and_dirty_rows_arrive_leave_and_move_on(lab: Sides) -> None:
    begun(lab)
    assert sends(lab) == {"shop.late": ["delivered"], "shop.dirty": ["delivered"], "shop": ["delivered"]}
    assert (lab.met("late").total(), lab.met("dirty").total()) == (2, 2)
    as_at_home(lab)
    assert sends(lab) == {"shop.late": [], "shop.dirty": [], "shop": []}

    reopens(lab.world)
    assert sends(lab, "shop") == {"shop": ["waits"]}  # D11
    none_twice(lab)
    assert sends(lab) == {"shop.late": ["delivered"], "shop.dirty": [], "shop": ["delivered"]}
    assert (states(lab, "late"), lab.met("late")) == (["2 STANDING 2.2"], Counter())
    as_at_home(lab)

    redrives_all(lab.world)
    with lab.context() as ctx:
        (one, other) = ctx.ledger.deliveries.due("readings", "shop.dirty", None, 9)
        assert (one.window_ms, one.generation, other.window_ms, other.generation) == (2, 2, 3, 1)
        assert content.held_by(ctx, "shop.dirty", other) == [("dirty", 2)]
    lab.world.archive(1)
    assert sends(lab, "shop") == {"shop": ["waits"]}
    assert sends(lab) == {"shop.late": [], "shop.dirty": ["delivered", "delivered"], "shop": ["delivered"]}
    assert states(lab, "dirty") == ["2 STANDING 2.2", "3 STANDING 1.1"]
    as_at_home(lab)

    lab.world.clock.advance(DAY_MS + 1)
    sends(lab)
    as_at_home(lab)
    assert lab.names("beside/late/replaced") == lab.names("beside/late/copies") == []
    assert stored(lab) == []


def test_a_batch_of_two_hours_leaves_hour_by_hour(lab: Sides) -> None:
    begun(lab)
    lab.world.archive(1)
    lab.world.produce(record("late for 0", 0.7), record("late for 1", 1.7))
    lab.world.ingest("r3")
    sends(lab)
    as_at_home(lab)
    reopens(lab.world)
    sends(lab)
    assert states(lab, "late") == ["2 STANDING 2.2", "3 STANDING 2.2"]
    assert lab.met("late").total() == 1
    as_at_home(lab)


def test_a_restored_ledger_does_not_take_a_batch_without_a_row_for_one_that_is_not_there(lab: Sides) -> None:
    """D11: readers there meet the late rows, and nobody remembers that they were sent."""
    begun(lab)
    sends(lab)
    with lab.context() as ctx, ctx.ledger.unwrapped.store.begin() as c:
        c.exec_driver_sql("DELETE FROM deliveries")
    reopens(lab.world)
    assert sends(lab, "shop") == {"shop": ["waits"]}
    none_twice(lab)
    sends(lab)
    as_at_home(lab)


def test_an_older_version_that_comes_late_is_refused(lab: Sides) -> None:
    begun(lab)
    with lab.context() as ctx:
        (one,) = ctx.ledger.deliveries.due("readings", "shop.late", None, 9)
        row = ctx.ledger.deliveries.take("readings", "shop.late", one, "digest", ctx.nonce())
        found = content.of(ctx, one)
    reopens(lab.world)
    sends(lab)
    late = lab.pipeline.deliver[1]
    with lab.context() as ctx:
        assert not ctx.ledger.deliveries.holds(row)
        with pytest.raises(LostComparison):
            ctx.ledger.deliveries.take("readings", "shop.late", one, "digest", ctx.nonce())
        with pytest.raises(DeliveryAhead, match="batch 2: generation 2"):
            lab.opened(late).send(row.attempt(found.rows), found.generation, lambda: True)
    as_at_home(lab)


def test_a_version_that_is_overtaken_on_its_way_is_not_shown(lab: Sides) -> None:
    """D5: between its copy and its change the rows were taken up."""
    begun(lab)
    with lab.context() as ctx:
        (one,) = ctx.ledger.deliveries.due("readings", "shop.late", None, 9)
        row = ctx.ledger.deliveries.take("readings", "shop.late", one, "digest", ctx.nonce())
        found = content.of(ctx, one)

    def holds() -> bool:
        reopens(lab.world)
        with lab.context() as now:
            return bool(now.ledger.deliveries.holds(row))

    sender = lab.opened(lab.pipeline.deliver[1])
    sender.prepare()
    with pytest.raises(LostComparison):
        sender.send(row.attempt(found.rows), found.generation, holds)
    assert lab.met("late") == Counter()
    sends(lab)
    as_at_home(lab)


def test_a_request_that_got_no_answer_holds_the_hour_back(tmp_path: Path) -> None:
    """Hive: the partition may still be added, so its rows must not be in the hour there yet (R8, D11)."""
    late: list[Any] = []

    def unanswered(add: Any) -> None:
        from tidegate.core.base.errors import CatalogueUnsure

        late.append(add)
        raise CatalogueUnsure("no answer")

    around = Around()
    lab = HiveSides(tmp_path, wrap_far=around)
    begun(lab)
    sends(lab, "shop")
    around.changes["add_partitions"] = unanswered
    assert sends(lab, "shop.late") == {"shop.late": ["failed"]}
    reopens(lab.world)
    assert sends(lab) == {"shop.late": ["failed"], "shop.dirty": ["delivered"], "shop": ["waits"]}
    late.pop()()
    none_twice(lab)
    lab.world.clock.advance(REQUEST_TTL_MS + 1)
    sends(lab)
    as_at_home(lab)


def test_what_somebody_changes_there_is_compared_and_sent_again(lab: Sides) -> None:
    begun(lab)
    sends(lab)
    late = lab.pipeline.deliver[1]
    with lab.context() as ctx:
        assert [s.what for s in deliver.compare(ctx, late, ctx.sender(late))] == ["unchanged"]
    for name in stored(lab):
        lab.storage.delete(name)
    with lab.context() as ctx:
        found = list(deliver.compare(ctx, late, ctx.sender(late)))
        assert [(s.what, s.unit) for s in found] == [("differs", "batch 2")]
        assert found[0].advice == "to send it again: tidegate deliver readings --batch 2 --to shop.late"
        assert [s.what for s in deliver.fix(ctx, late, ctx.sender(late), found, "files were lost")] == ["delivered"]
        assert [s.what for s in deliver.verify(ctx, late, ctx.sender(late), [key_of(2)])] == ["unchanged"]
    as_at_home(lab)


def stored(lab: Sides) -> list[str]:
    home = f"{lab.there}/_tidegate/beside/late/generations"
    return [f"{home}/{f.path}" for f in lab.storage.list_files(home) or [] if f.path.endswith(".parquet")]


def test_a_batch_that_a_person_skips_holds_nothing_back(lab: Sides) -> None:
    begun(lab)
    with lab.context() as ctx:
        (done,) = deliver.skip(ctx, lab.pipeline.deliver[1], [key_of(2)], "not wanted")
        assert (done.what, done.unit) == ("skipped", "batch 2")
    reopens(lab.world)
    assert sends(lab, "shop.late") == {"shop.late": ["delivered"]}
    assert sends(lab, "shop") == {"shop": ["delivered"]}
    as_at_home_but_late = lab.met()
    assert as_at_home_but_late == lab.home()


def test_side_tables_that_are_not_asked_for_hold_nothing_back(tmp_path: Path) -> None:
    lab = HiveSides(tmp_path)
    lab.world.change_spec(deliver=lab.pipeline.deliver[:1])
    begun(lab)
    reopens(lab.world)
    assert lab.deliver() == ["delivered"]
    assert [lab.met(side) for side in SIDES] == [Counter(), Counter()]


def test_dirty_batches_are_found_by_their_own_index(tmp_path: Path) -> None:
    """A pipeline has a million files, and few of dirty rows."""
    lab = HiveSides(tmp_path)
    begun(lab)
    with lab.context() as ctx:
        engine = ctx.ledger.unwrapped.store.engine
        asked: list[tuple[str, Any]] = []
        event.listen(engine, "before_cursor_execute", told := lambda c, cur, s, p, *_: asked.append((s, p)))
        assert ctx.ledger.deliveries.due("readings", "shop.dirty", None, 9)
        event.remove(engine, "before_cursor_execute", told)
        with ctx.ledger.unwrapped.store.begin() as c:
            plans = [" ".join(str(r) for r in c.exec_driver_sql("EXPLAIN QUERY PLAN " + s, p)) for s, p in asked]
    assert any("ix_batch_files_dirty" in plan for plan in plans)
