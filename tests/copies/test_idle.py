"""A mirror whose table has no events, while its connector goes on: commits that only tell since when nothing in it is
older (S9')."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import delete

from tests.copies.test_complete import begun, sends, silent, told
from tests.copies.worlds import CopyWorld
from tests.fakes.source_table import position
from tidegate.core.base.instants import MINUTE_MS
from tidegate.core.mirror.copied import Complete
from tidegate.ledger.schema_copies import source_looks
from tidegate.targets.mirror.table import MirrorTable
from tidegate.workflow.apply.apply import apply


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    made = begun(tmp_path)
    yield made
    made.close()


def goes_on(world: CopyWorld, minutes: int) -> None:
    """Other tables of the source change, and the connector has noted it."""
    world.clock.advance(minutes * MINUTE_MS)
    world.source_table.end += 1_000
    world.delivered = world.source_table.end


def snapshots(world: CopyWorld) -> int:
    return len(world.loaded().metadata.snapshots)


def test_it_tells_once_an_hour(world: CopyWorld) -> None:
    world.mirror()
    ledger, name, rows = world.context().ledger.applies, world.pipeline.name, world.rows()
    tried = ledger.newest(name)
    for passed, tells in ((10, 0), (49, 0), (1, 1), (10, 0), (49, 0), (1, 1), (120, 1)):
        goes_on(world, passed)
        before, had = snapshots(world), told(world)
        done = world.apply()
        assert (done.merges, snapshots(world)) == (0, before + tells)
        now = Complete(position(world.delivered), world.clock.now_ms(), exact=True)
        assert told(world) == (now if tells else had)
    assert any("nothing in it is older than" in line for line in world.said)
    assert (world.rows(), ledger.newest(name), ledger.upkeep(name)) == (rows, tried, None), "purges go by upkeep"
    world.source_table.set(1, "newer")
    assert world.mirror() == world.source_table.rows, "merges go on behind it"


def test_it_tells_at_once_what_was_not_known_at_the_merge(world: CopyWorld) -> None:
    connector = world.connector
    world.deliver()
    world.apply()
    world.read()
    with world.context().ledger.copies._store.begin() as c:
        c.execute(delete(source_looks))
    world.connector = silent  # type: ignore[assignment]
    world.apply()
    assert told(world) is None
    world.connector = connector
    world.apply()
    assert told(world) == Complete(position(world.delivered), world.clock.now_ms(), exact=True)


def test_it_tells_at_once_that_it_is_exact(world: CopyWorld) -> None:
    """The merge came before the connector had noted the change."""
    world.mirror()
    sends(world, 1, "newer")
    world.runs += 1
    world.ingest("lands")
    world.apply()
    found = told(world)
    assert found is not None
    assert not found.exact
    world.delivered = world.source_table.end
    world.apply()
    assert told(world) == Complete(position(world.delivered), world.clock.now_ms(), exact=True)
    before = snapshots(world)
    world.apply()
    assert snapshots(world) == before


def test_it_tells_nothing_while_the_first_copy_is_read(world: CopyWorld) -> None:
    world.deliver()
    world.apply()
    before = snapshots(world)
    goes_on(world, 120)
    world.apply()
    assert (told(world), snapshots(world)) == (None, before)


def test_it_tells_nothing_while_events_are_on_their_way(world: CopyWorld) -> None:
    world.mirror()
    before = snapshots(world)
    sends(world, 1, "newer")
    goes_on(world, 120)
    world.apply()
    assert snapshots(world) == before


def test_a_copy_meanwhile_is_judged_anew(world: CopyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found of one snapshot is not told of another (M1)."""
    world.mirror()
    goes_on(world, 120)
    ctx, meanwhile = world.context(), []
    commit = MirrorTable.apply

    def late(self, before, merged, holds):
        if not meanwhile:
            meanwhile.append(world.source_table.set(1, "newer than its event"))
            world.again()
            world.read()
            world.apply()
        return commit(self, before, merged, holds)

    monkeypatch.setattr(MirrorTable, "apply", late)
    apply(ctx)
    found = told(world)
    assert found is not None
    assert (world.rows()[1], found.exact) == ("newer than its event", False)
    assert world.standing().copied.newest == 2
    assert any("is no longer what the merge tell-" in line for line in world.said)
