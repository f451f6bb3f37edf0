"""A connector that has lost its place in the source's log begins again further on, and what is in between never comes
(S12): nothing newer is told until a copy that began later is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.copies.planted_places import PLACE_BUGS
from tests.copies.test_complete import begun, told
from tests.copies.test_later_columns import compared
from tests.copies.worlds import CopyWorld, copy_words
from tests.fakes.source_table import place, position
from tests.mirror.audits import Here
from tests.mutants.planting import Planted
from tidegate.core.base.errors import StorageAhead
from tidegate.core.base.instants import HOUR_MS
from tidegate.core.look.status import PipelineStatus
from tidegate.ledger.copies import SqlCopies
from tidegate.workflow.copy.compare import compare
from tidegate.workflow.look import status

MAY_LACK = "the connector may have left out changes"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    made = begun(tmp_path)
    named(made, "first")
    made.mirror()
    assert told(made) is not None
    yield made
    made.close()


def named(world: CopyWorld, connector: str) -> None:
    """The YAML names this connector."""
    copy = world.pipeline.copy
    assert copy is not None
    world.pipeline = replace(world.pipeline, copy=replace(copy, connect_conn_id="connect", connector=connector))


def skips(world: CopyWorld, key: int, word: str | None) -> None:
    """A change that never comes: the connector goes on behind it."""
    world.source_table.set(key, word)
    world.sent = len(world.source_table.log)


def goes_on(world: CopyWorld) -> None:
    """The connector is at the log's end, sends a change and notes it; two hours later `apply` runs."""
    world.source_table.set(1, f"comes {world.source_table.end}")
    world.deliver()
    world.delivered = world.source_table.end
    world.clock.advance(2 * HOUR_MS)
    world.apply()


def purged(world: CopyWorld) -> None:
    """The log was purged while the connector was down, and begins behind what it had noted."""
    skips(world, 2, None)
    world.source_table.begin = world.source_table.end


def seen_down(world: CopyWorld) -> None:
    """The same, and `apply` looked while the connector was down."""
    purged(world)
    world.apply()


def forgotten(world: CopyWorld) -> None:
    """Its offsets were reset, or its slot dropped, and `apply` looked before it noted others."""
    world.delivered = None  # type: ignore[assignment]
    world.apply()
    skips(world, 2, None)


def renamed(world: CopyWorld) -> None:
    """Another connector was made, which began at the log's end."""
    skips(world, 2, None)
    named(world, "second")


LOSSES = [purged, seen_down, forgotten, renamed]


def seen(world: CopyWorld) -> PipelineStatus:
    ctx = world.context()
    return status.status(ctx, ctx.ledger.reads, None)


def concerned(world: CopyWorld) -> bool:
    return any(one.kind == "lost_place" for one in seen(world).concerns)


@pytest.mark.parametrize("loses", LOSSES)
def test_nothing_newer_is_told_until_a_later_copy_is_whole(world: CopyWorld, loses: Callable) -> None:
    before = told(world)
    assert before is not None
    loses(world)
    goes_on(world)
    assert 2 in world.rows()
    assert 2 not in world.source_table.rows
    now = told(world)
    assert now is not None
    assert (now.position, now.exact) == (before.position, False), "of that place it is still true"
    assert any("may have left out changes" in line for line in world.said)
    assert MAY_LACK in copy_words(world)
    assert concerned(world)
    goes_on(world)
    found = told(world)
    assert found is not None
    assert found.position == before.position, "later looks do not make it good"
    world.again()
    world.read()
    assert concerned(world)
    goes_on(world)
    found = told(world)
    assert world.rows() == world.source_table.rows
    assert found is not None
    assert found.position == position(world.delivered)
    assert MAY_LACK not in copy_words(world)
    assert not concerned(world)


@pytest.mark.parametrize("loses", LOSSES)
def test_a_copy_that_was_under_way_does_not_make_it_good(world: CopyWorld, loses: Callable) -> None:
    world.again()
    world.read()  # and not merged
    before = told(world)
    loses(world)
    goes_on(world)
    goes_on(world)
    assert world.standing().copied.whole is not None
    assert world.standing().copied.whole.number == 2
    now = told(world)
    assert before is not None
    assert now is not None
    assert now.position == before.position
    assert concerned(world)


def test_a_copy_that_begins_before_the_connector_is_back_does_not_make_it_good(world: CopyWorld) -> None:
    purged(world)
    world.again()
    world.read()
    skips(world, 3, None)
    goes_on(world)
    goes_on(world)
    assert 3 in world.rows()
    assert concerned(world)
    world.again()
    world.read()
    goes_on(world)
    assert world.rows() == world.source_table.rows
    assert not concerned(world)


def test_a_comparison_without_a_difference_makes_it_good(world: CopyWorld) -> None:
    purged(world)
    goes_on(world)
    found = compared(world)
    assert (found.exact, found.differ) == (True, {"surplus": 1}), "the mirror has caught up with what comes"
    goes_on(world)
    assert concerned(world)
    world.source_table.set(2, "comes again")
    goes_on(world)
    assert concerned(world)
    assert compared(world).differ == {}
    goes_on(world)
    now = told(world)
    assert now is not None
    assert (now.position, now.exact) == (position(world.delivered), False), "nobody knows as of when its rows are"
    assert not concerned(world)


def test_a_comparison_counts_once_what_waits_in_the_topic_is_merged(world: CopyWorld) -> None:
    """What was lost has made a row again what it was before a change that waits: they are equal by chance."""
    was, before = world.source_table.rows[3], told(world)
    world.source_table.set(3, "waits")
    world.send(world.source_table.log[-1])
    skips(world, 3, was)
    world.source_table.begin = world.delivered = world.source_table.end
    world.clock.advance(2 * HOUR_MS)
    world.apply()
    assert concerned(world)
    assert compared(world).differ == {}
    assert concerned(world)
    goes_on(world)
    assert world.rows() != world.source_table.rows
    now = told(world)
    assert now is not None
    assert before is not None
    assert now.position == before.position
    assert compared(world).differ == {"other": 1}


def test_a_comparison_waits_for_nothing_where_nothing_is_complete(
    world: CopyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records were lost, or left out."""
    purged(world)
    world.source_table.set(2, "comes again")
    goes_on(world)
    assert concerned(world)
    monkeypatch.setattr(SqlCopies, "merged_ends", lambda *_: {})
    found = compare(world.context(), world.source_table, Here(), lambda: pytest.fail("it waited"))
    assert found.differ == {}
    assert concerned(world)


def test_a_loss_is_noted_though_another_task_looks_meanwhile(world: CopyWorld) -> None:
    """That one has asked before."""
    ask, others = world.connector, [0]

    def meanwhile() -> object:
        found = place(world.source_table, world.delivered)
        if not others.pop():
            others.append(1)
            world.connector = lambda: found
            begin, world.source_table.begin = world.source_table.begin, 0
            world.apply()
            world.source_table.begin, world.connector = begin, ask
        return found

    purged(world)
    world.connector = meanwhile
    world.apply()
    world.connector = ask
    assert concerned(world)


def test_a_place_that_the_log_goes_back_to_is_none_that_was_lost(world: CopyWorld) -> None:
    """It is purged up to there, a connector begins from an earlier place, or has another name and is no further."""
    world.source_table.set(3, "comes")
    world.deliver()
    world.source_table.begin = world.delivered
    world.apply()
    named(world, "second")
    world.apply()
    goes_on(world)
    named(world, "third")
    world.delivered -= 10
    world.apply()
    world.delivered += 10
    world.apply()
    goes_on(world)
    now = told(world)
    assert now is not None
    assert now.position == position(world.delivered)
    assert not concerned(world)


def test_a_slot_that_the_yaml_names_by_mistake_loses_nothing(world: CopyWorld) -> None:
    named(world, "mistake")
    noted, world.delivered = world.delivered, None  # type: ignore[assignment]
    world.apply()
    named(world, "first")
    world.delivered = noted
    goes_on(world)
    assert not concerned(world)


@pytest.mark.parametrize("down", [True, False])
def test_a_ledger_that_was_lost_finds_it_again(world: CopyWorld, down: bool) -> None:
    """What the table tells stays at the place that was lost."""
    purged(world)
    if down:
        goes_on(world)
    ctx = world.context()
    with ctx.ledger.copies._store.begin() as c:
        c.exec_driver_sql("DELETE FROM source_looks")
    goes_on(world)
    assert concerned(world)


def test_a_ledger_of_before_the_copy_knows_from_the_table_that_it_may_lack_something(tmp_path: Path) -> None:
    world = begun(tmp_path)
    named(world, "first")
    world.deliver()
    world.apply()
    world.close()
    kept = world.database.read_bytes()
    world.read()
    world.apply()
    before = told(world)
    assert before is not None
    world.close()
    world.database.write_bytes(kept)
    purged(world)
    with pytest.raises(StorageAhead, match="copy 1, which the ledger does not know"):
        goes_on(world)
    world.again()
    goes_on(world)
    assert 2 in world.rows()
    now = told(world)
    assert now is not None
    assert now.position == before.position
    world.close()


FOUND_BY = {
    "the log's begin is compared with the newest place alone": (
        test_nothing_newer_is_told_until_a_later_copy_is_whole,
        purged,
    ),
    "a connector of another name goes on where that was": (
        test_nothing_newer_is_told_until_a_later_copy_is_whole,
        renamed,
    ),
    "a look forgets what those before it have found": (
        test_nothing_newer_is_told_until_a_later_copy_is_whole,
        seen_down,
    ),
    "every look counts": (test_nothing_newer_is_told_until_a_later_copy_is_whole, forgotten),
    "a copy counts that was under way": (test_a_copy_that_was_under_way_does_not_make_it_good, seen_down),
    "the look that finds it at another place is as any other": (
        test_a_copy_that_begins_before_the_connector_is_back_does_not_make_it_good,
    ),
}


@pytest.mark.parametrize("name", FOUND_BY)
def test_a_planted_bug_is_found(world: CopyWorld, name: str) -> None:
    test, *loses = FOUND_BY[name]
    with Planted(PLACE_BUGS[name]) as planted:
        with pytest.raises(AssertionError):
            test(world, *loses)
        assert planted.never_called() == []
