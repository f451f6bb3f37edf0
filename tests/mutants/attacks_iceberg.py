"""Traces against the rules of tables in Iceberg (C1 to C9): zombies, lost answers, strangers at the same table."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetDefaultSpecUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.transforms import IdentityTransform, TruncateTransform

from tests.crash import lakehouse
from tests.hooks import Died, Hook, Once, catalogue_of, die, use_catalogue
from tests.mutants.invariants import (
    every_record_once,
    readers_find_rows_by_partition_and_id,
    readers_never_go_back,
)
from tests.mutants.names import CLAIMS, HEALS, STOPS, WELCOME, require
from tests.mutants.stage import Stage, record, refused, retryable, window
from tidegate.core.base.errors import CatalogueMismatch, CatalogueUnsure, StorageAhead
from tidegate.core.spec.pipeline import Column, Reopening
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.catalogue import Loaded
from tidegate.targets.iceberg.complete import claimed
from tidegate.targets.iceberg.live import look
from tidegate.workflow.batch import ingest
from tidegate.workflow.late import reopen
from tidegate.workflow.replay import replay
from tidegate.workflow.restore import adoption


def _hour_0(stage: Stage) -> None:
    lakehouse.install(stage)
    stage.hour_0_published()


def _third_generation(stage: Stage) -> Callable[[], None]:
    """What others do meanwhile: they finish generation 2, then replay with other columns."""

    def rival() -> None:
        stage.archive(0)
        id_, site, _ = stage.pipeline.columns
        stage.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.value")))
        stage.replay(0)

    return rival


def _no_answer(*_: object) -> None:
    raise CatalogueUnsure("no answer")


def a_task_stands_still_before_it_loads(stage: Stage) -> None:
    """C1: the ledger is asked after the load; what was asked before is old by then."""
    _hour_0(stage)
    stage.other_columns()
    ctx, moved, rival = stage.context(), [], Once(_third_generation(stage))

    def at_home(_source: str, destination: str) -> None:
        moved.extend([1] if "/generations/" in destination else [])

    def loads(_table: str) -> None:
        if moved:
            rival()

    ctx.storage = Hook(ctx.storage, after={"rename_no_replace": at_home})  # type: ignore[assignment]
    use_catalogue(ctx, Hook(catalogue_of(ctx), before={"load": loads}))
    retryable(lambda: replay.replay(ctx, window(0)))
    require(bool(moved), STOPS, "nothing was moved")
    readers_never_go_back(stage)
    stage.at_rest()


def another_generation_comes_before_a_commit(stage: Stage) -> None:
    """C1, C2: what was loaded is no longer so: the commit is refused, and the next round asks the ledger."""
    _hour_0(stage)
    stage.other_columns()
    ctx = stage.hooked("catalogue", before={"commit": Once(_third_generation(stage))})
    retryable(lambda: replay.replay(ctx, window(0)))
    readers_never_go_back(stage)
    stage.at_rest()


def a_neighbour_commits_before_a_commit(stage: Stage) -> None:
    """C2: the write set is made anew on what the neighbour has left."""
    _hour_0(stage)
    stage.other_columns()
    ctx = stage.hooked("catalogue", before={"commit": Once(lambda: stage.archive(1))})
    retryable(lambda: replay.replay(ctx, window(0)))
    readers_never_go_back(stage)
    stage.at_rest()


def the_answer_of_a_commit_is_lost(stage: Stage) -> None:
    """C2, C4, C6: it was executed: the next look finds the token, and nothing is done about it."""
    _hour_0(stage)
    stage.other_columns()
    ctx = stage.hooked("catalogue", after={"commit": Once(_no_answer)})
    retryable(lambda: replay.replay(ctx, window(0)))
    every_record_once(stage, stage.produced)
    stage.at_rest()


def others_compact_a_window_that_is_replayed(stage: Stage) -> None:
    """C3: what stands for the window is read from the snapshot; the ledger's paths are gone from it."""
    _hour_0(stage)
    _compact(stage)
    stage.other_columns()
    stage.tried(lambda: stage.replay(0), "replay")
    stage.at_rest()


def others_compact_a_window_that_is_cleared(stage: Stage) -> None:
    """C9: rows are compared, not paths; Clear and the audit take the files for what they are."""
    _hour_0(stage)
    _compact(stage)
    before = lakehouse.loaded(stage)
    assert before is not None
    stage.tried(lambda: stage.archive(0), "clear")
    stage.at_rest()
    compacted = [f for f in lakehouse.live(stage) if "/compacted-" in f.file_path]
    require(bool(compacted), WELCOME, "Clear has brought back files of its own")


def the_ledger_and_its_records_are_older_than_the_table(stage: Stage) -> None:
    """C4, R11: an older generation is not put over a newer one, even where the table alone tells of it."""
    _hour_0(stage)
    stage.close()
    yesterday = stage.database.read_bytes()
    stage.other_columns()
    stage.replay(0)
    stage.close()
    stage.database.write_bytes(yesterday)
    for mark in (stage.folder / "lake/readings/_tidegate/hwm/published").rglob("*T000000Z.2.1"):
        mark.unlink()
    stopped = refused(lambda: stage.archive(0), StorageAhead)
    require(stopped is not None, STOPS, "generation 1 was put over generation 2")


def a_snapshot_expires_before_the_ledger_knows(stage: Stage) -> None:
    """C5: the process dies behind its commit; others compact, expire and delete what only expired snapshots name."""
    _hour_0(stage)
    stage.other_columns()
    with pytest.raises(Died):
        replay.replay(stage.hooked("catalogue", after={"commit": die}), window(0))
    _compact(stage)
    _expire(stage)
    stage.tried(lambda: stage.archive(0), "archive")
    stage.at_rest()


def the_partitions_of_the_table_are_changed(stage: Stage) -> None:
    """C7: files are told to be in the partition that they are in; a table that wants another one is refused."""
    _hour_0(stage)
    found = _table(stage)
    ids = {f.name: f.field_id for f in found.metadata.schema().fields}
    spec = PartitionSpec(
        PartitionField(ids["_window"], 1000, IdentityTransform(), "_window"),
        PartitionField(ids["site"], 1002, TruncateTransform(2), "site_trunc"),
        spec_id=1,
    )
    catalogue_of(stage.context()).commit(
        found, (), (AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate(spec_id=-1))
    )
    stage.produce(record("new", 1.5, "station"))
    stage.run("r2")
    refused(lambda: stage.archive(1), CatalogueMismatch)
    readers_find_rows_by_partition_and_id(stage)


def a_site_has_a_long_name(stage: Stage) -> None:
    """Partition values are our own; bounds, from which others guess them, are cut off."""
    lakehouse.install(stage)
    stage.produce(record("long", 0.2, "a station with a long name"))
    stage.hour_0_published()
    readers_find_rows_by_partition_and_id(stage)
    stage.at_rest()


def a_column_comes_between(stage: Stage) -> None:
    """Files call columns by the ids that the table gave them, in whatever order the spec names them."""
    _hour_0(stage)
    id_, *others = stage.pipeline.columns
    stage.change_spec(columns=(id_, Column(name="between", type="int", path="$.between"), *others))
    stage.tried(lambda: stage.replay(0), "replay")
    readers_find_rows_by_partition_and_id(stage)
    stage.at_rest()


def the_ledger_forgets_a_generation_behind_its_commit(stage: Stage) -> None:
    """C8: storage knows of a generation before readers do, so that a ledger can be told of it."""
    _hour_0(stage)
    stage.close()
    yesterday = stage.database.read_bytes()
    stage.other_columns()
    with pytest.raises(Died):
        replay.replay(stage.hooked("catalogue", after={"commit": die}), window(0))
    stage.close()
    stage.database.write_bytes(yesterday)
    stopped = refused(lambda: stage.archive(0), StorageAhead)
    require(stopped is not None, STOPS, "generation 1 was put over generation 2")
    ctx = stage.context()
    adoption.adopt(ctx, adoption.survey(ctx), "the ledger was restored")
    again = refused(lambda: stage.tried(lambda: stage.archive(0), "archive"), StorageAhead)
    require(again is None, HEALS, f"adoption does not know of it: {again}")
    stage.at_rest()


def late_rows_are_taken_up_before_a_zombie_shows_them(stage: Stage) -> None:
    """C1 of side tables: a batch lands, its late row is taken up by its hour; a task that was to show it comes last."""
    _hour_0(stage)
    stage.change_spec(reopening=Reopening(after_ms=0))
    stage.produce(record("late", 0.7))
    ingest.plan(stage.context(), "r2")
    ingest.write(stage.context(), "r2")

    def rival() -> None:
        ingest.land(stage.context(), "r2")
        reopen.reopen(stage.context(), window(0))

    meanwhile = Once(rival, at=2)  # the first time the table is prepared

    def loads(table: str) -> None:
        if table.endswith("__late"):
            meanwhile()

    retryable(lambda: ingest.land(stage.hooked("catalogue", before={"load": loads}), "r2"))
    every_record_once(stage, stage.produced)
    stage.at_rest()


def the_table_is_rolled_back(stage: Stage) -> None:
    """The ledger has hour 1 in force, the table no longer shows it: it is not claimed before Clear brings it back."""
    _hour_0(stage)
    first = _table(stage).metadata.current_snapshot_id
    stage.archive(1)
    _roll_back(stage, first)
    stage.other_columns()
    stage.replay(0)
    found = claimed(_table(stage).metadata)
    require(
        found is not None and found.end_ms == window(1).start_ms,
        CLAIMS,
        f"the claim is {found}, hour 1 begins at {window(1).start_ms}",
    )
    stage.archive(1)
    found = claimed(_table(stage).metadata)
    require(found is not None and found.end_ms == window(1).end_ms, CLAIMS, "hour 1 is back, and not claimed")
    stage.at_rest()


# ---------------------------------------------------------------- what others do with the table


def _table(stage: Stage) -> Loaded:
    found = lakehouse.loaded(stage)
    assert found is not None
    return found


def _roll_back(stage: Stage, snapshot_id: int | None) -> None:
    """As rollback_to_snapshot of somebody who means the whole table."""
    to = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot_id}
    catalogue_of(stage.context()).commit(_table(stage), (), (SetSnapshotRefUpdate.model_validate(to),))
    stage.close()


def _compact(stage: Stage, hour: int = 0) -> None:
    """As Spark's rewrite_data_files: the rows are copied into files of other names."""
    now = _table(stage)
    seen = look(now.metadata, now.io, {window(hour).start_ms * 1000})
    files = [_copied(stage, n, old) for n, old in enumerate(seen.files)]
    updates = snapshot.replaced(now.metadata, now.io, seen, files, {}, None)
    made = updates[0].snapshot  # type: ignore[union-attr]
    summary = Summary(Operation.REPLACE, **made.summary.additional_properties)  # the rows are the same, it says
    updates = (AddSnapshotUpdate(snapshot=made.model_copy(update={"summary": summary})), *updates[1:])
    catalogue_of(stage.context()).commit(now, (), updates)
    stage.close()


def _copied(stage: Stage, n: int, old: DataFile) -> DataFile:
    path = stage.folder / f"lake/compacted-{n}-{Path(old.file_path).name}"
    shutil.copyfile(lakehouse.path_of(old), path)
    kept: dict[str, Any] = {
        name: getattr(old, name)
        for name in ("content", "file_format", "partition", "record_count", "file_size_in_bytes")
    }
    new = DataFile.from_args(**kept, file_path=f"file://{path}")
    new.spec_id = old.spec_id
    return new


def _expire(stage: Stage) -> None:
    """As expire_snapshots of somebody who does not ask `gc.enabled`: but the current one and those that tags keep."""
    now = _table(stage)
    kept = {ref.snapshot_id for ref in now.metadata.refs.values()}
    gone = [s for s in now.metadata.snapshots if s.snapshot_id not in kept]
    needed = _paths(now, [s for s in now.metadata.snapshots if s.snapshot_id in kept])
    for path in _paths(now, gone) - needed:
        Path(path.removeprefix("file://")).unlink()
    catalogue_of(stage.context()).commit(now, (), (RemoveSnapshotsUpdate(snapshot_ids=[s.snapshot_id for s in gone]),))
    stage.close()


def _paths(now: Loaded, snapshots: Iterable[Any]) -> set[str]:
    return {
        entry.data_file.file_path
        for each in snapshots
        for manifest in each.manifests(now.io)
        for entry in manifest.fetch_manifest_entry(now.io, discard_deleted=True)
    }
