"""How far a table is complete, by what it says itself: `tidegate.complete-through`, and a tag for each whole day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetPropertiesUpdate, SetSnapshotRefUpdate

from tests.hooks import Hook, Once, catalogue_of, use_catalogue
from tests.target_suite import Lab
from tests.targets.iceberg.lab import Tables, sqlite
from tests.targets.iceberg.test_rules import compact
from tests.world import World, record, window
from tidegate.core.base.instants import iso
from tidegate.targets.iceberg.catalogue import Catalogue, Loaded
from tidegate.targets.iceberg.complete import DAY, THROUGH, claimed
from tidegate.targets.iceberg.live import token_in
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.publish import archive

Make = Callable[..., World]


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return sqlite(tmp_path)


@pytest.fixture
def world(tmp_path: Path, catalogue: Catalogue) -> World:
    """Rows in hours 0, 1 and 3; hour 2 is empty; the watermark has passed hour 30."""
    world = World(tmp_path)
    world.change_spec(sink=replace(world.pipeline.sink, kind="iceberg", conn_id="lake", table="lake.readings"))
    world.tables = lambda w: Tables(catalogue)
    world.produce(record("a", 0.1), record("b", 1.2), record("c", 3.3), record("later", 32.5))
    world.produce(record("later", 32.5), partition=1)
    world.ingest("r1")
    return world


def table(catalogue: Catalogue) -> Loaded:
    found = catalogue.load("lake.readings")
    assert found is not None
    return found


def through(catalogue: Catalogue) -> int | None:
    """The first hour that is not claimed, by the summary; the property says the same."""
    metadata = table(catalogue).metadata
    found = claimed(metadata)
    assert found is not None
    assert metadata.properties[THROUGH] == iso(found.end_ms)
    return (found.end_ms - window(0).start_ms) // 3_600_000


def days(catalogue: Catalogue) -> list[str]:
    return sorted(name.removeprefix(DAY) for name in table(catalogue).metadata.refs if name.startswith(DAY))


def test_a_claim_follows_each_hour(world: World, catalogue: Catalogue) -> None:
    for hour in range(5):
        world.archive(hour)
        assert through(catalogue) == hour + 1
    current = table(catalogue).metadata.current_snapshot()
    assert current is not None
    assert current.summary is not None
    assert current.summary["tidegate.certificate"]


def test_a_hole_holds_the_claim_until_it_is_filled(world: World, catalogue: Catalogue) -> None:
    for hour, claim in ((1, 0), (3, 0), (2, 0), (0, 4)):
        world.archive(hour)
        assert through(catalogue) == claim


def test_a_replay_takes_nothing_back(world: World, catalogue: Catalogue) -> None:
    for hour in (0, 1):
        world.archive(hour)
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, replace(value, type="int", path="$.other")))
    world.replay(0)
    assert through(catalogue) == 2


def test_a_start_that_moves_back_takes_the_claim_along(world: World, catalogue: Catalogue) -> None:
    """Two hours before hour 0 are due by then: who asks whether an hour is there must not take them for published."""
    for hour in range(3):
        world.archive(hour)
    windows = world.pipeline.windows
    world.change_spec(windows=replace(windows, start_ms=windows.start_ms - 2 * windows.size_ms))
    for hour, claim in ((3, -2), (-1, -2), (-2, 4), (4, 5)):
        world.archive(hour)
        assert through(catalogue) == claim


def test_two_tasks_at_once_leave_no_claim_behind(world: World, catalogue: Catalogue) -> None:
    """Hour 0 is committed while hour 1 is on its way; the ledger has neither as CURRENT yet when the other commits."""
    ctx = world.context()
    rival = Once(lambda: world.archive(0))
    use_catalogue(ctx, Hook(catalogue_of(ctx), before={"commit": lambda *_: rival()}))
    archive.publish(ctx, window(1))
    assert through(catalogue) == 2


def test_a_table_made_anew_claims_what_it_shows(world: World, catalogue: Catalogue) -> None:
    """The ledger has hours 0 to 2 in force; the new table has none of them until Clear brings them back."""
    for hour in range(3):
        world.archive(hour)
    with catalogue._engine.begin() as c:  # type: ignore[attr-defined]
        c.exec_driver_sql("DELETE FROM iceberg_tables WHERE table_name = 'readings'")
    world.archive(3)
    assert through(catalogue) == 0
    for hour, claim in ((1, 0), (0, 4)):
        world.archive(hour)
        assert through(catalogue) == claim  # hour 2 is empty: nothing is missing there


def test_a_table_rolled_back_claims_what_it_shows(world: World, catalogue: Catalogue) -> None:
    for hour in (0, 1, 2, 3):
        world.archive(hour)
    now = table(catalogue)
    first = next(s for s in now.metadata.snapshots if (t := token_in(s)) and t.unit == window(0).start_ms)
    back = SetSnapshotRefUpdate.model_validate(
        {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": first.snapshot_id}
    )
    catalogue.commit(now, (), (back,))
    world.archive(4)
    assert through(catalogue) == 1
    for hour, claim in ((3, 1), (1, 5)):
        world.archive(hour)  # Clear
        assert through(catalogue) == claim


def test_a_compaction_by_others_keeps_the_claim(world: World, catalogue: Catalogue) -> None:
    for hour in (0, 1):
        world.archive(hour)
    compact(Lab(world, ("commit",)))
    assert through(catalogue) == 2
    world.archive(2)
    assert through(catalogue) == 3


def test_expired_tokens_are_replaced_by_the_rows_that_are_there(world: World, catalogue: Catalogue) -> None:
    """Hours 1 to 3 wait for hour 0 while their snapshots are let go."""
    for hour in (1, 2, 3, 5):
        world.archive(hour)
    clean(world.context())
    now = table(catalogue)
    line = [s.snapshot_id for s in ancestors_of(now.metadata.current_snapshot(), now.metadata)]
    tags = {r.snapshot_id for name, r in now.metadata.refs.items() if name != MAIN_BRANCH}
    gone = [i for i in line[1:] if i not in tags]
    assert gone
    catalogue.commit(now, (), (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone}),))
    world.archive(0)
    assert through(catalogue) == 4


def test_a_day_gets_a_tag_once_it_is_whole(world: World, catalogue: Catalogue) -> None:
    for hour in range(23):
        world.archive(hour)
    assert days(catalogue) == []
    world.archive(23)
    assert len(days(catalogue)) == 1
    (day,) = days(catalogue)
    metadata = table(catalogue).metadata
    assert metadata.refs[f"{DAY}{day}"].snapshot_id == metadata.current_snapshot_id
    world.archive(24)
    clean(world.context())
    assert days(catalogue) == [day], "a day's tag is no publication's: it stays"
    catalogue.commit(table(catalogue), (), (SetPropertiesUpdate(updates={"tidegate.day-tags": "0"}),))
    clean(world.context())
    assert days(catalogue) == []
