"""Traces in which a cleaner meets files of an Iceberg table that somebody still needs (C10)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import SetPropertiesUpdate, SetSnapshotRefUpdate

from tests.crash import lakehouse
from tests.hooks import catalogue_of
from tests.mutants.names import NAMED, THERE, WELCOME, require
from tests.mutants.stage import Stage, refused, window
from tidegate.core.base.errors import CatalogueUnsure, ReplayRefused
from tidegate.core.spec.pipeline import Column
from tidegate.targets.iceberg import leftovers, names, snapshot
from tidegate.targets.iceberg.catalogue import Loaded
from tidegate.targets.iceberg.live import PREFIX, look
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.replay import replay, rollback

A_DAY = 24 * 3_600_000
KEEPS = {"history.expire.min-snapshots-to-keep": "2", "write.metadata.previous-versions-max": "3"}


def a_busy_table_is_cleaned(stage: Stage) -> None:
    """C10: what a kept snapshot names, a tagged one or the log of metadata stays; and so does what others wrote."""
    _published(stage)
    first = _table(stage)
    kept = first.metadata.current_snapshot()
    assert kept is not None
    tag = SetSnapshotRefUpdate(ref_name="audited", type="tag", snapshot_id=kept.snapshot_id)
    catalogue_of(stage.context()).commit(first, (), (tag,))
    strangers = _strangers_files(stage)
    _commits(stage, 6)
    require(_clean(stage, A_DAY) > 10, NAMED, "the trace needs something that may go")
    _what_it_names_is_there(stage)
    gone = [p.name for p in strangers if not p.exists()]
    require(not gone, WELCOME, f"files of others are gone: {gone}")
    require(_clean(stage, A_DAY) == 0, NAMED, "a second round finds something")


def a_reader_opens_a_snapshot_that_was_let_go(stage: Stage) -> None:
    """C10: a reader asked the catalogue a minute ago; meanwhile many commits came, and old snapshots were let go."""
    _published(stage)
    _commits(stage, 2)
    reader = _table(stage)
    _commits(stage, 6)
    _clean(stage, 60_000)
    current = reader.metadata.current_snapshot()
    assert current is not None
    _is_whole(reader, current)
    _clean(stage, A_DAY)
    _what_it_names_is_there(stage)


def a_commit_is_executed_after_a_cleaning(stage: Stage) -> None:
    """C6, C10: nobody knows whether the commit will be executed, a day later neither; its files are there then."""
    _published(stage)
    _commits(stage, 4)
    stage.other_columns()
    late: list[Callable[[], None]] = []
    ctx = stage.context()
    catalogue = catalogue_of(ctx)
    change = catalogue._change

    def held_back(*asked: Any) -> None:
        late.append(lambda: change(*asked))
        raise CatalogueUnsure("no answer")

    catalogue._change = held_back
    with pytest.raises(CatalogueUnsure):
        replay.replay(ctx, window(0))
    _clean(stage, A_DAY, sweep=False)
    late[0]()
    _what_it_names_is_there(stage)


# ---------------------------------------------------------------- the table


def a_generation_whose_files_a_rollback_names_is_cleaned(stage: Stage) -> None:
    """L6: generation 3 is a rollback to 1, so its files are those of 1; 4 is in force, 1 goes, 3 stays."""
    _published(stage)
    for source in ("other", "place"):
        id_, site, _ = stage.pipeline.columns
        stage.change_spec(columns=(id_, site, Column(name="value", type="int", path=f"$.{source}")))
        stage.replay(0)
        if source == "other":
            rollback.rollback(stage.context(), window(0), 1, "a test")
            stage.close()
    stage.clock.advance(2 * A_DAY)
    clean(stage.context())
    stage.close()
    back = refused(lambda: rollback.rollback(stage.context(), window(0), 3, "a test"), ReplayRefused)
    require(back is None, THERE, f"generation 3 is kept, and its files are gone: {back}")
    stage.close()
    stage.at_rest()


def _published(stage: Stage) -> None:
    lakehouse.install(stage)
    stage.hour_0_published()
    catalogue_of(stage.context()).commit(_table(stage), (), (SetPropertiesUpdate(updates=KEEPS),))


def _table(stage: Stage) -> Loaded:
    found = lakehouse.loaded(stage)
    assert found is not None
    return found


def _commits(stage: Stage, count: int) -> None:
    """The hour's files are replaced by themselves, so often; what snapshots can be let go is."""
    for _ in range(count):
        now = _table(stage)
        seen = look(now.metadata, now.io, {window(0).start_ms * 1000})
        said = {f"{PREFIX}pipeline": stage.pipeline.name}
        updates = snapshot.replaced(now.metadata, now.io, seen, seen.files, said, None)
        catalogue_of(stage.context()).commit(now, (), updates)
        stage.close()
    stage.context().target.sweep(lambda publications: publications)
    stage.close()


def _clean(stage: Stage, ms: int, sweep: bool = True) -> int:
    """As a cleaner does, so long after the newest commit; how many files it has deleted."""
    ctx = stage.context()
    if sweep:
        ctx.target.sweep(lambda publications: publications)
    with mock.patch.object(leftovers, "WORTH", 0):
        found = ctx.target.leftovers(_table(stage).metadata.last_updated_ms + ms)
    for path in found:
        ctx.storage.delete(path)
    stage.close()
    return len(found)


def _strangers_files(stage: Stage) -> list[Path]:
    """Of another engine, and of a table of ours that was here before."""
    folder = Path(_table(stage).metadata_location.removeprefix("file://")).parent
    before = uuid.uuid4()
    found = [folder / "notes.txt"]
    for stamp in (str(uuid.uuid4()), names.stamp(before)):
        found += [
            folder / f"00000-{stamp}.metadata.json",
            folder / f"snap-77-1-{stamp}.avro",
            folder / f"{stamp}-1-m1.avro",
        ]
    for path in found:
        path.write_text("others'")
    return found


def _what_it_names_is_there(stage: Stage) -> None:
    place = catalogue_of(stage.context())._row(*_table_name(stage))["metadata_location"]
    require(_there(place), NAMED, f"the table's own metadata file {place} is gone")
    now = _table(stage)
    for entry in now.metadata.metadata_log:
        require(_there(entry.metadata_file), NAMED, f"{entry.metadata_file} of the log is gone")
    for each in now.metadata.snapshots:
        _is_whole(now, each)


def _table_name(stage: Stage) -> tuple[str, str]:
    namespace, _, table = stage.pipeline.sink.table.rpartition(".")
    return namespace, table


def _is_whole(table: Loaded, which: Snapshot) -> None:
    require(_there(which.manifest_list), NAMED, f"the list of snapshot {which.snapshot_id} is gone")
    for manifest in which.manifests(table.io):
        require(_there(manifest.manifest_path), NAMED, f"{manifest.manifest_path} of {which.snapshot_id} is gone")


def _there(path: str) -> bool:
    return Path(path.removeprefix("file://")).exists()
