"""Readers see an empty table until its first copy is whole, and whatever they once saw from then on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetPropertiesUpdate, SetSnapshotRefUpdate

from tests.copies.worlds import COPYING, CopyWorld
from tests.hooks import Hook, Once
from tests.mirror.worlds import YAML
from tidegate.core.base.errors import CatalogueMismatch
from tidegate.core.copy.words import how_far
from tidegate.core.spec.pipeline import Copy
from tidegate.targets.iceberg.tags import FIRST_COPY
from tidegate.workflow.apply.taking_back import take_back
from tidegate.workflow.clean.duties import clean

DAY = 86_400_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    made = begun(tmp_path)
    yield made
    made.close()


def begun(folder: Path, yaml: str = COPYING) -> CopyWorld:
    """Sixty rows; half of the chunks are read and merged."""
    made = CopyWorld(folder, yaml)
    made.source_table.rows = {key: f"old {key}" for key in range(1, 61)}
    made.source_table.set(3, "first event")
    made.deliver()
    made.apply()
    if made.pipeline.copy is not None:
        made.read(go_on=lambda: False)
        made.apply()
    return made


def refs(world: CopyWorld) -> set[str]:
    return set(world.loaded().metadata.refs)


def test_readers_see_nothing_and_then_all(world: CopyWorld) -> None:
    assert len(world.rows()) == 24
    assert world.shown() == {}
    assert refs(world) == {FIRST_COPY}
    told = world.standing()
    assert told.copied.hidden
    name = world.pipeline.name
    assert "empty table until it is whole" in how_far(world.context().ledger.reads.readings([name])[name], told, False)
    world.source_table.set(2, "changed")
    world.source_table.set(5, None)
    assert world.mirror() == world.source_table.rows
    assert world.shown() == world.source_table.rows
    assert refs(world) == {MAIN_BRANCH}
    assert not world.standing().copied.hidden


def test_each_commit_shows_nothing_or_a_whole_copy(world: CopyWorld) -> None:
    """Whatever task is at work: seen after each commit of the table."""
    seen = []

    def look(*_: object) -> None:
        seen.append(len(world.shown()))

    world.wrap = lambda name, real: Hook(real, after={"commit": look}) if name == "iceberg" else real
    world.mirror()
    world.again()
    world.mirror()
    assert set(seen) == {0, 60}
    assert sorted(seen) == seen


def test_what_readers_saw_they_go_on_to_see(tmp_path: Path) -> None:
    """The section copy is added to a mirror that is read."""
    world = begun(tmp_path, YAML)
    assert world.shown() == {3: "first event"}
    world.pipeline = replace(world.pipeline, copy=Copy(conn_id="shop", table="shop.readings", chunk_rows=3, tasks=1))
    world.read(go_on=lambda: False)
    world.apply()
    assert len(world.shown()) == 24
    assert world.mirror() == world.shown() == world.source_table.rows
    world.close()


def test_a_new_copy_hides_nothing(world: CopyWorld) -> None:
    world.mirror()
    world.again()
    world.source_table.sneak(7, "sneaked")
    world.read(go_on=lambda: False)
    world.apply()
    assert len(world.shown()) == 60


def test_nobody_waits_where_nothing_is_copied_any_more(world: CopyWorld) -> None:
    world.pipeline = replace(world.pipeline, copy=None)
    world.source_table.set(2, "changed")
    world.deliver()
    world.apply()
    assert len(world.shown()) == 24
    assert refs(world) == {MAIN_BRANCH}


def test_a_table_that_is_taken_back_stays_hidden(world: CopyWorld) -> None:
    first = min(world.loaded().metadata.snapshots, key=lambda s: s.sequence_number or 0)
    take_back(world.context(), str(first.snapshot_id), "a test")
    world.close()
    assert world.rows() == {3: "first event"}
    assert world.shown() == {}
    assert world.mirror() == world.shown() == world.source_table.rows


def test_two_first_merges_at_once(tmp_path: Path) -> None:
    """One of them is made anew: no event counts twice."""
    world = CopyWorld(tmp_path, COPYING)
    world.source_table.set(3, "first event")
    world.deliver()

    def rival(*_: object) -> None:
        world.wrap = lambda name, port: port
        world.apply()

    once = Once(rival)
    world.wrap = lambda name, real: Hook(real, before={"commit": once}) if name == "iceberg" else real
    world.apply()
    assert world.standing().events == 1
    assert world.rows() == {3: "first event"}
    world.close()


def test_cleaning_leaves_what_the_branch_needs(world: CopyWorld) -> None:
    loaded = world.loaded()
    world.iceberg.commit(loaded, (), (SetPropertiesUpdate(updates={"history.expire.min-snapshots-to-keep": "1"}),))
    for _ in range(3):
        world.clock.advance(40 * DAY)
        clean(world.context())
        world.close()
    assert len(world.loaded().metadata.snapshots) == 1
    assert len(world.rows()) == 24
    assert world.mirror() == world.shown() == world.source_table.rows


def test_a_writer_that_comes_first_is_named(world: CopyWorld) -> None:
    loaded = world.loaded()
    said = {
        "ref-name": MAIN_BRANCH,
        "type": SnapshotRefType.BRANCH,
        "snapshot-id": loaded.metadata.refs[FIRST_COPY].snapshot_id,
    }
    world.iceberg.commit(loaded, (), (SetSnapshotRefUpdate.model_validate(said),))
    world.source_table.set(2, "changed")
    world.deliver()
    with pytest.raises(CatalogueMismatch, match="somebody has written to it while its first copy is not whole"):
        world.apply()


@pytest.mark.parametrize("kind", [SnapshotRefType.BRANCH, SnapshotRefType.TAG])
def test_a_branch_by_that_name_on_a_whole_mirror_is_named(world: CopyWorld, kind: SnapshotRefType) -> None:
    """A person drops it; nothing is merged before, and nothing taken back."""
    world.mirror()
    whole = world.loaded().metadata.current_snapshot_id
    said = {"ref-name": FIRST_COPY, "type": kind, "snapshot-id": whole}
    world.iceberg.commit(world.loaded(), (), (SetSnapshotRefUpdate.model_validate(said),))
    world.source_table.set(2, "changed")
    world.deliver()
    for task in (world.apply, lambda: take_back(world.context(), str(whole), "a test")):
        with pytest.raises(CatalogueMismatch, match=f"or has made that {kind.value}") as told:
            task()
        assert f"DROP {kind.value.upper()} `{FIRST_COPY}`" in told.value.advice
        world.close()
    assert world.loaded().metadata.current_snapshot_id == whole
    dropped = RemoveSnapshotRefUpdate.model_validate({"ref-name": FIRST_COPY})
    world.iceberg.commit(world.loaded(), (), (dropped,))
    assert world.mirror() == world.shown() == world.source_table.rows
