"""A table that was damaged goes back to a tag, or to an earlier snapshot, and is merged again from there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate

from tests.hooks import Hook, Once
from tests.mirror.test_cleaning import DAY, cleaned, keep
from tests.mirror.test_commands import taken_away
from tests.mirror.worlds import MirrorWorld, event
from tidegate.core.base.errors import CatalogueMismatch, LostComparison, StorageAhead
from tidegate.core.mirror.applies import Told
from tidegate.targets.iceberg.live import look
from tidegate.workflow.apply.taking_back import at, take_back

BEFORE = {1: "a", 2: "b"}
NOW = {1: "a2", 3: "c"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    """Batch 1 is in the tagged snapshot, batch 2 in the one after it."""
    made = MirrorWorld(tmp_path)
    made.land(event(1, "a", 10), event(2, "b", 11))
    made.apply()
    tag(made, "good")
    made.land(event(1, "a2", 20), event(2, None, 21), event(3, "c", 22))
    made.apply()
    made.close()
    yield made
    made.close()


def tag(world: MirrorWorld, name: str) -> int:
    """As CREATE TAG does it. Returns the snapshot's id."""
    loaded = world.loaded()
    snapshot = loaded.metadata.current_snapshot_id
    said = {"ref-name": name, "type": SnapshotRefType.TAG, "snapshot-id": snapshot}
    world.iceberg.commit(loaded, (), (SetSnapshotRefUpdate.model_validate(said),))
    return snapshot


def back(world: MirrorWorld, to: str = "good") -> Told:
    try:
        return take_back(world.context(), to, "a test")
    finally:
        world.close()


def history(world: MirrorWorld) -> list[dict]:
    return [m.detail for m in world.context().ledger.cleaning.history("readings", "mirror")]


def test_a_damaged_table_is_made_again_from_its_tag(world: MirrorWorld) -> None:
    taken_away(world)
    world.land(event(4, "d", 40))
    with pytest.raises(CatalogueMismatch, match="rows of bucket"):
        world.apply()
    assert back(world).upto == 1
    assert world.rows() == BEFORE
    (detail,) = history(world)
    assert (detail["from"], detail["to"], detail["why"]) == (2, 1, "a test")
    assert world.apply().told.upto == 3
    assert world.rows() == NOW | {4: "d"}


def test_a_second_time_changes_nothing(world: MirrorWorld) -> None:
    back(world)
    where = world.loaded().metadata_location
    assert back(world).upto == 1
    assert world.loaded().metadata_location == where


def test_a_snapshot_by_its_id_and_a_tag_behind_it(world: MirrorWorld) -> None:
    newest = str(world.loaded().metadata.current_snapshot_id)
    back(world)
    assert back(world, newest).upto == 2, "also forward again: it is kept still"
    assert world.rows() == NOW


def test_what_does_not_exist_is_refused_with_what_does(world: MirrorWorld) -> None:
    for unknown in ("bad", "77", MAIN_BRANCH):
        with pytest.raises(CatalogueMismatch, match=f"keeps no snapshot '{unknown}'") as refused:
            back(world, unknown)
        assert "its tags are good" in refused.value.advice
    assert world.rows() == NOW


def test_a_snapshot_that_has_lost_a_file_is_refused(world: MirrorWorld) -> None:
    with_tag = at(world.context(), "good").told
    loaded = world.loaded()
    metadata = loaded.metadata.model_copy(update={"current_snapshot_id": int(with_tag.snapshot or 0)})
    lost = look(metadata, loaded.io, None).files[0].file_path
    world.store.delete(lost)
    with pytest.raises(CatalogueMismatch, match=f"1 file of snapshot {with_tag.snapshot} lost: {lost}"):
        back(world)
    assert world.rows() == NOW


def test_a_snapshot_that_others_have_damaged_is_refused(world: MirrorWorld) -> None:
    taken_away(world)
    tag(world, "bad")
    with pytest.raises(CatalogueMismatch, match="rows of bucket"):
        back(world, "bad")


def test_a_tag_beyond_the_ledger_is_refused(tmp_path: Path) -> None:
    """The ledger is from a backup: it does not know batch 2."""
    world = MirrorWorld(tmp_path)
    world.land(event(1, "a", 10))
    world.apply()
    world.close()
    early = (tmp_path / "ledger.db").read_bytes()
    world.land(event(2, "b", 20))
    world.apply()
    tag(world, "newest")
    world.close()
    (tmp_path / "ledger.db").write_bytes(early)
    with pytest.raises(StorageAhead, match="the table holds batches 1 to 2, but the ledger's newest landed one is 1"):
        at(world.context(), "newest")
    world.close()


def test_a_merge_meanwhile_is_not_lost(world: MirrorWorld) -> None:
    world.land(event(4, "d", 40))
    world.close()
    between = Once(lambda: world.apply())
    ctx = world.context()
    assert ctx.keyed is not None
    table = ctx.keyed
    table.catalogue = Hook(table.catalogue, before={"commit": between})  # type: ignore[attr-defined]
    with pytest.raises(LostComparison, match="moved on meanwhile: nothing was taken back"):
        table.take_back("good", lambda prefix: None)
    assert world.rows() == NOW | {4: "d"}


def test_cleaning_keeps_what_a_tag_names(world: MirrorWorld) -> None:
    keep(world, 1)
    for n in range(3):
        world.land(event(5, f"e{n}", 50 + n))
        world.apply()
    world.clock.advance(40 * DAY)
    assert cleaned(world), "files of the snapshots between went"
    assert back(world).upto == 1
    assert world.rows() == BEFORE
    assert world.apply().told.upto == 5
    assert world.rows() == NOW | {5: "e2"}
