"""Rules C1 to C9: each test is a trace that loses or doubles rows where the rule is missing."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSnapshotUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.typedef import Record

from tests.target_suite import KEY, ROWS, Lab, again, publish
from tests.targets.iceberg.lab import make, sqlite
from tests.world import record, window
from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure, StorageAhead
from tidegate.core.files.receipt import LATE
from tidegate.core.target.port import Token
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.catalogue import Conflict, Loaded
from tidegate.targets.iceberg.live import look, newest_token, summary_of, token_in
from tidegate.targets.iceberg.rules import Do, Held, decide
from tidegate.targets.iceberg.tags import TAG, tag_of
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.publish import archive


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    found = make(tmp_path, sqlite(tmp_path))
    yield found
    found.world.close()


def loaded(lab: Lab) -> Loaded:
    table = lab.world.context().target
    found = table.catalogue.load(table.name)  # type: ignore[attr-defined]
    assert found is not None
    return found  # type: ignore[no-any-return]


def by_somebody(
    lab: Lab,
    files: Callable[[list[DataFile]], list[DataFile]],
    said: dict[str, str] | None = None,
    operation: Operation = Operation.OVERWRITE,
) -> None:
    """A commit by another engine: what stands for the window is replaced by what `files` makes of it."""
    now = loaded(lab)
    seen = look(now.metadata, now.io, {KEY.start_ms * 1000})
    updates = snapshot.replaced(now.metadata, now.io, seen, files(seen.files), said or {}, None)
    made = updates[0].snapshot  # type: ignore[union-attr]
    summary = Summary(operation, **made.summary.additional_properties)
    updates = (AddSnapshotUpdate(snapshot=made.model_copy(update={"summary": summary})), *updates[1:])
    lab.world.context().target.catalogue.commit(now, (), updates)  # type: ignore[attr-defined]


def compact(lab: Lab, operation: Operation = Operation.REPLACE) -> None:
    """As Spark's rewrite_data_files: the rows are copied into files of other names."""

    def copied(files: list[DataFile]) -> list[DataFile]:
        found = []
        for n, old in enumerate(files):
            path = lab.world.folder / f"lake/compacted-{n}-{Path(old.file_path).name}"
            path.write_bytes(Path(old.file_path.removeprefix("file://")).read_bytes())
            new = DataFile.from_args(**{
                name: getattr(old, name)
                for name in ("content", "file_format", "partition", "record_count", "file_size_in_bytes")
            }, file_path=f"file://{path}")  # fmt: skip
            new.spec_id = old.spec_id
            found.append(new)
        return found

    by_somebody(lab, copied, operation=operation)


def problems(lab: Lab) -> list[str]:
    ctx = lab.world.context()
    nobody: Any = SimpleNamespace(close=lambda: None)
    found = audit(ctx, ctx.ledger.reads, nobody, Depth(footers=False, coordinates=False))
    return [f"{p.subject}: {p.what}" for p in found.problems]


# ---------------------------------------------------------------- C1, C2: order, no rebase


def test_c1_the_ledger_is_asked_after_the_load(lab: Lab) -> None:
    """A task that stood still before its commit finds another snapshot, and begins anew: it has been overtaken."""
    lab.until_done(publish)
    lab.other_columns()
    overtaken: list[int] = []

    def around(do: Callable[[], None]) -> None:
        if not overtaken:
            overtaken.append(1)
            publish(lab.context())  # another task finishes the generation,
            lab.other_columns()
            again(lab.context())  # and publishes the next one
        do()

    again(lab.context(around))
    assert overtaken
    assert lab.rows() == ROWS
    token = newest_token(loaded(lab).metadata, KEY.start_ms)
    assert getattr(token, "generation", 0) >= 3
    assert problems(lab) == []


def test_c2_a_conflict_begins_again_at_the_load(lab: Lab) -> None:
    """Somebody else's commit comes between: its rows stay, ours come once."""
    lab.world.produce(record("next", 1.2), record("far", 9.5), partition=0)
    lab.world.produce(record("far", 9.5), partition=1)
    lab.world.ingest("r2")
    between: list[int] = []

    def around(do: Callable[[], None]) -> None:
        if not between:
            between.append(1)
            archive.publish(lab.context(), window(1))
        do()

    archive.publish(lab.context(around), KEY)
    assert lab.rows() == ROWS + Counter({(0, 4): 1})
    assert between
    assert lab.made.count("commit") == 3, "ours was refused once"


# ---------------------------------------------------------------- C3, C9: by window, other writers


def test_c3_what_stands_is_read_from_the_snapshot(lab: Lab) -> None:
    """A compaction renames files: paths that the ledger remembers would stay beside the new ones."""
    lab.until_done(publish)
    compact(lab)
    assert lab.rows() == ROWS
    lab.other_columns()
    lab.until_done(again)
    assert lab.rows() == ROWS


def test_a_ledger_that_forgot_swapping_finds_its_generation(lab: Lab) -> None:
    """R12: what stands is brought to CURRENT by every step, though nothing has to be committed."""
    lab.until_done(publish)
    snapshots = len(loaded(lab).metadata.snapshots)
    with sqlite3.connect(lab.world.database) as ledger:
        ledger.execute("UPDATE generations SET state = 'BUILT', location = NULL, published_ms = NULL")
    lab.until_done(publish)
    assert lab.world.context().ledger.windows.get(lab.world.pipeline.name, KEY).current == 1
    assert len(loaded(lab).metadata.snapshots) == snapshots
    assert (lab.rows(), problems(lab)) == (ROWS, [])


def test_c9_a_compaction_is_welcome_and_deleted_rows_are_named(lab: Lab) -> None:
    lab.until_done(publish)
    assert problems(lab) == []
    compact(lab)
    assert problems(lab) == []
    lab.made.clear()
    lab.until_done(publish)
    assert lab.made == [], "Clear leaves others' files alone while they hold what they should"
    by_somebody(lab, lambda files: files[1:])
    found = problems(lab)
    assert all(p.startswith("window") for p in found)
    assert all("partition _window=20130105T000000Z/site=" in p for p in found)
    assert sum("is not in the catalogue" in p for p in found) == 1
    lab.until_done(publish)
    assert (lab.rows(), problems(lab)) == (ROWS, [])


def test_c9_changed_rows_are_named_though_their_count_is_right(lab: Lab) -> None:
    """An UPDATE leaves as many rows; a compaction after it says that it changes none."""
    lab.until_done(publish)
    compact(lab, Operation.OVERWRITE)
    compact(lab)
    assert problems(lab)
    assert all("changed by another writer in snapshot" in p and p.startswith("window") for p in problems(lab))
    lab.until_done(publish)
    assert (lab.rows(), problems(lab)) == (ROWS, [])
    lab.made.clear()
    compact(lab)
    lab.until_done(publish)
    assert lab.made == [], "what was changed before our own commit has gone with it"


def test_c9_changed_rows_beside_the_table_are_named_by_their_batch(lab: Lab) -> None:
    lab.until_done(publish)
    lab.world.produce(record("late", 0.7))
    lab.world.produce(record("later", 6.5), partition=1)
    lab.world.ingest("r2")
    ctx = lab.world.context()
    side: Any = ctx.sides[LATE]
    now = side.catalogue.load(side.name)
    seen = look(now.metadata, now.io, None)
    side.catalogue.commit(now, (), snapshot.replaced(now.metadata, now.io, seen, seen.files, {}, None))
    [problem] = problems(lab)
    assert problem.startswith("batch 2: ")
    assert "batch 2, changed by another writer in snapshot" in problem
    files = ctx.ledger.batches.manifest_files(ctx.name, 2, LATE)
    for _ in range(2):
        side.publish({2: files}, lambda: True)
    assert problems(lab) == []
    assert len(side.catalogue.load(side.name).metadata.snapshots) == 3, "landed, changed, put right, and no more"


def test_c9_a_rollback_of_the_whole_table_is_named(lab: Lab) -> None:
    lab.until_done(publish)
    before = loaded(lab).metadata.current_snapshot_id
    lab.other_columns()
    lab.until_done(again)
    now = loaded(lab)
    back = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=before)
    lab.world.context().target.catalogue.commit(now, (), (back,))  # type: ignore[attr-defined]
    what = r"is at 20130105T000000Z\.1\.1 \(\d rows?\), should be at 20130105T000000Z\.2\.1 \(\d rows?\)"
    assert any(re.search(what, p) for p in problems(lab)), problems(lab)
    lab.until_done(publish)
    assert (lab.rows(), problems(lab)) == (ROWS, [])


# ---------------------------------------------------------------- C4: look


def test_c4_a_newer_generation_in_the_table_stops(lab: Lab) -> None:
    """R11: a ledger that lost commits must not put an older generation over a newer one."""
    lab.until_done(publish)
    token = newest_token(loaded(lab).metadata, KEY.start_ms)
    assert token is not None
    newer = replace(token, generation=2, digest="another")
    by_somebody(lab, lambda files: files, summary_of(newer, 4, "file:///elsewhere/x.2.1"))
    with pytest.raises(StorageAhead, match="shows generation 2"):
        publish(lab.context())


MINE = Token(pipeline="p", unit=0, generation=2, epoch=1, digest="d")


@pytest.mark.parametrize(
    ("newest", "held", "foreign", "todo"),
    [
        (None, Held.EMPTY, False, Do.COMMIT),  # an empty hour has a token, too
        (None, Held.AS_WRITTEN, False, Do.NOTHING),  # its snapshot has expired
        (None, Held.REWRITTEN, False, Do.COMMIT),  # of whatever generation
        (None, Held.OTHER, False, Do.COMMIT),
        (None, Held.OTHER, True, Do.REFUSE),
        (MINE, Held.AS_WRITTEN, False, Do.NOTHING),
        (MINE, Held.EMPTY, False, Do.NOTHING),
        (MINE, Held.REWRITTEN, True, Do.NOTHING),
        (MINE, Held.OTHER, False, Do.COMMIT),
        (replace(MINE, generation=1), Held.AS_WRITTEN, False, Do.COMMIT),
        (replace(MINE, generation=1), Held.REWRITTEN, False, Do.COMMIT),
        (replace(MINE, epoch=2), Held.AS_WRITTEN, False, Do.STOP),
        (replace(MINE, digest="e"), Held.AS_WRITTEN, False, Do.STOP),
        (replace(MINE, generation=3), Held.OTHER, True, Do.STOP),
    ],
)
def test_c4_decisions(newest: Token | None, held: Held, foreign: bool, todo: Do) -> None:
    assert decide(MINE, newest, held, foreign) is todo


def test_rows_that_nobody_published_are_not_replaced(lab: Lab) -> None:
    """A table in which somebody else has written the hour: a first generation takes nobody's rows away."""
    table = lab.world.context().target
    table.prepare()
    file = DataFile.from_args(
        content=0, file_path="file:///elsewhere/theirs.parquet", file_format="PARQUET",
        partition=Record(KEY.start_ms * 1000, "a"),
        record_count=7, file_size_in_bytes=100,
    )  # fmt: skip
    file.spec_id = 0
    by_somebody(lab, lambda files: [file])
    with pytest.raises(CatalogueError, match="theirs.parquet"):
        publish(lab.context())


# ---------------------------------------------------------------- C5 to C8


def test_c5_a_tag_keeps_the_snapshot_of_a_publication(lab: Lab) -> None:
    """Expiry forgets the summary; the tag does not, until the ledger knows."""
    lab.until_done(publish)
    metadata = loaded(lab).metadata
    snap = metadata.current_snapshot()
    assert snap is not None
    token = token_in(snap)
    assert token is not None
    assert metadata.refs[tag_of(token)].snapshot_id == snap.snapshot_id
    assert tag_of(token).startswith(TAG)
    assert metadata.properties["gc.enabled"] == "false"


def test_c6_files_of_an_unsure_commit_stay(lab: Lab) -> None:
    """A request that has not been answered may still be executed: what it names must be there then."""
    late: list[Callable[[], None]] = []

    def around(do: Callable[[], None]) -> None:
        late.append(do)
        raise CatalogueUnsure("no answer")

    with pytest.raises(CatalogueUnsure):
        publish(lab.context(around))
    late[0]()
    assert lab.rows() == ROWS
    lab.until_done(publish)
    assert lab.rows() == ROWS


def test_c7_a_partition_spec_that_mixes_windows_is_refused(lab: Lab) -> None:
    lab.until_done(publish)
    other = PartitionSpec(*UNPARTITIONED_PARTITION_SPEC.fields, spec_id=1)
    lab.world.context().target.catalogue.commit(  # type: ignore[attr-defined]
        loaded(lab), (), (AddPartitionSpecUpdate(spec=other), SetDefaultSpecUpdate(spec_id=-1))
    )
    lab.other_columns()
    with pytest.raises(CatalogueMismatch, match="partitioned by"):
        again(lab.context())
    assert lab.rows() == ROWS


def test_c8_the_record_is_written_before_the_commit(lab: Lab) -> None:
    def around(do: Callable[[], None]) -> None:
        marks = lab.world.context().layout.publication_marks().removeprefix("file://")
        assert list(Path(marks).rglob("*.1.1")), "storage knows of the generation before readers do"
        do()

    publish(lab.context(around))
    assert lab.rows() == ROWS


def test_c8_records_are_asked_after_the_load(lab: Lab) -> None:
    """A task stands still before it loads; the next generation is published, its token expires, and the ledger is
    restored from a backup: nothing but storage knows of it."""
    lab.until_done(publish)
    lab.other_columns()
    ctx = lab.context()
    table: Any = ctx.target
    load, stood = table.catalogue.load, list[int]()

    def loading(name: str) -> Loaded | None:
        newest = ctx.ledger.windows.get(ctx.name, KEY).newest
        if not stood and newest == 2 and ctx.ledger.windows.generation(ctx.name, KEY, 2).state == "SWAPPING":
            stood.append(1)
            backup = lab.world.database.read_bytes()
            publish(lab.context())
            lab.other_columns()
            again(lab.context())
            for _ in range(2):
                by_somebody(lab, lambda files: files)
            keep = SetPropertiesUpdate(updates={"history.expire.min-snapshots-to-keep": "1"})
            other: Any = lab.world.context().target
            other.catalogue.commit(loaded(lab), (), (keep,))
            other.sweep(lambda publications: publications)
            assert newest_token(loaded(lab).metadata, KEY.start_ms) is None
            lab.world.database.write_bytes(backup)
        return load(name)  # type: ignore[no-any-return]

    table.catalogue = SimpleNamespace(load=loading, commit=first_refused(table.catalogue.commit))
    with pytest.raises(StorageAhead):
        again(ctx)
    assert lab.rows() == ROWS
    places = {f.file_path.split("/generations/")[1].split("/")[0] for f in look(*snapshot_of(lab), None).files}
    assert {place.split(".")[1] for place in places} == {"3"}


def first_refused(commit: Callable[..., Loaded]) -> Callable[..., Loaded]:
    """So that a second round begins at the load, with SWAPPING recorded."""
    tried: list[int] = []

    def refused_once(*args: Any) -> Loaded:
        tried.append(1)
        if len(tried) == 1:
            raise Conflict("somebody else was first")
        return commit(*args)

    return refused_once


def snapshot_of(lab: Lab) -> tuple[Any, Any]:
    now = loaded(lab)
    return now.metadata, now.io
