"""A keyed table in Iceberg: merges by the real job, committed on a catalogue on SQLite; rules M1, M3, M4, C1, C2."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.table import StaticTable
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from spark_jobs import apply
from tests.hooks import Hook, Once
from tests.mirror.histories import Event
from tests.mirror.planted import TABLE_BUGS
from tests.mirror.tables import CONTENT, EVENT, landed, plan_of
from tests.mutants.planting import Planted
from tests.targets.iceberg.lab import sqlite
from tests.world import make_pipeline
from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure, LostComparison
from tidegate.core.base.plain import loads
from tidegate.core.mirror.jobs import ApplyReceipt, EventFile
from tidegate.core.spec.pipeline import Column
from tidegate.core.target.paths import RECEIPT
from tidegate.core.target.prefix import Merged, Prefix
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.catalogue import Loaded
from tidegate.targets.iceberg.live import look
from tidegate.targets.mirror.prefix import UPTO
from tidegate.targets.mirror.table import MirrorTable

KINDS = ("bigint",)
BUCKETS = 3
Merge = Callable[[], Merged]


def u(key: int, commit: int, word: str | None, batch: int = 1, offset: int | None = None) -> Event:
    """An upsert, or a delete without a word."""
    op, content = ("d", None) if word is None else ("u", (word, commit))
    return Event((key,), (commit, 0, 0), op, content, batch, 0, commit if offset is None else offset)


@dataclass
class Mirror:
    """The control plane's part by hand; `batches`: what has landed."""

    folder: Path
    catalogue: Any
    batches: dict[int, list[Event]] = field(default_factory=dict)
    tries: int = 0
    name: str = "lake.orders"

    def table(self, catalogue: Any = None) -> MirrorTable:
        logical = (("k0", "bigint"), *CONTENT, *EVENT)
        columns = tuple(Column(name=name, type=kind, path=f"$.{name}") for name, kind in logical)
        pipeline = make_pipeline(f"file://{self.folder}/lake")
        pipeline = replace(
            pipeline,
            columns=columns,
            partition_by=("date", "hour"),
            sink=replace(pipeline.sink, kind="iceberg", conn_id="lake", table=self.name),
        )
        site: Any = SimpleNamespace(
            pipeline=pipeline,
            storage=LocalStorage(),
            clock=None,
            request_ttl_ms=0,
            say=lambda line: None,
            landed_fields=lambda: (),
        )
        return MirrorTable(site, self.catalogue if catalogue is None else catalogue)

    def land(self, *events: Event) -> int:
        number = len(self.batches) + 1
        self.batches[number] = [replace(e, batch=number) for e in events]
        return number

    def merged(self, first: int, last: int, before: tuple[Prefix, Any] | None = None) -> tuple[Prefix, Merged]:
        """What the job makes of the batches, on what stands now, or stood before."""
        self.tries += 1
        table, attempt = self.table(), f"{first}-{last}.{self.tries}-abc"
        directory = f"file://{self.folder}/lake/_tidegate/apply/{attempt}"
        prefix, base = table.base() if before is None else before
        plan = plan_of(
            KINDS, BUCKETS, columns=table.columns(), fields=table.fields(), attempt=attempt, attempt_dir=directory,
            first=first, last=last, base=base, events=tuple(self._files(first, last)),
        )  # fmt: skip
        apply.carry_out(plan, LocalStorage())
        receipt = loads(ApplyReceipt, LocalStorage().read(f"{directory}/{RECEIPT}"))
        return prefix, Merged(first, last, attempt, directory, receipt)

    def apply(self, first: int, last: int, catalogue: Any = None) -> Prefix:
        before, merged = self.merged(first, last)
        return self.table(catalogue).apply(before, merged, lambda: True)

    def _files(self, first: int, last: int) -> Iterable[EventFile]:
        for n in range(first, last + 1):
            path = self.folder / f"landed-{n}.parquet"
            rows = landed(KINDS, self.batches[n])
            pq.write_table(rows, path)
            yield EventFile(n, f"file://{path}", len(rows))

    def loaded(self) -> Loaded:
        found = self.catalogue.load(self.name)
        assert found is not None
        return found  # type: ignore[no-any-return]

    def rows(self) -> dict[int, str]:
        """As a reader by pyiceberg sees them, tombstones left out."""
        table = StaticTable.from_metadata(self.loaded().metadata_location)
        found: pa.Table = table.scan(row_filter="_op != 'd'").to_arrow()
        rows = found.select(["k0", "word"]).to_pylist()
        assert len({r["k0"] for r in rows}) == len(rows), "a key has two rows"
        return {r["k0"]: r["word"] for r in rows}

    def upto(self) -> int:
        return self.table().standing().upto


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    """Batches 1 and 2 have landed, and 1 stands in the table."""
    made = Mirror(tmp_path, sqlite(tmp_path))
    made.table().prepare()
    made.land(u(1, 10, "a"), u(2, 11, "b"), u(3, 12, "c"))
    made.land(u(1, 20, "a2"), u(2, 21, None), u(4, 22, "d"))
    made.apply(1, 1)
    return made


def test_a_merge_is_one_commit_that_says_up_to_where(mirror: Mirror) -> None:
    assert mirror.rows() == {1: "a", 2: "b", 3: "c"}
    after = mirror.apply(2, 2)
    assert mirror.rows() == {1: "a2", 3: "c", 4: "d"}
    assert (after.upto, after.rows, after.tombstones, after.inserted, after.events) == (2, 3, 1, 4, 6)
    assert after == mirror.table().standing()
    snapshots = mirror.loaded().metadata.snapshots
    assert [s.summary[UPTO] for s in snapshots if s.summary] == ["1", "2"]


def test_buckets_that_no_event_changes_keep_their_files(mirror: Mirror) -> None:
    _, before = mirror.table().base()
    mirror.land(u(3, 30, "c2"))
    mirror.apply(2, 2)
    _, middle = mirror.table().base()
    mirror.apply(3, 3)
    _, after = mirror.table().base()
    assert len([b for b in after if b not in middle]) == 1
    assert before != middle


def test_a_merge_that_changes_nothing_still_moves_upto(mirror: Mirror) -> None:
    mirror.apply(2, 2)
    _, before = mirror.table().base()
    mirror.land(u(1, 20, "a2", offset=77))  # a restarted connector sends it again
    mirror.land()
    after = mirror.apply(3, 4)
    assert (after.upto, after.events, after.inserted) == (4, 7, 4)
    assert mirror.table().base()[1] == before


# ---------------------------------------------------------------- M1, C1, C2


def test_m1_a_merge_of_an_older_snapshot_is_refused(mirror: Mirror) -> None:
    """Two appliers have read one snapshot: the first one commits, the other has to merge anew."""
    before, slow = mirror.merged(2, 2)
    mirror.apply(2, 2)
    with pytest.raises(LostComparison, match="merge anew"):
        mirror.table().apply(before, slow, lambda: True)
    assert mirror.table().standing().events == 6, "no event counts twice"


def test_m1_another_commit_between_look_and_commit(mirror: Mirror) -> None:
    before, slow = mirror.merged(2, 2)
    rival = Once(lambda: mirror.apply(2, 2))
    late = mirror.table(Hook(mirror.catalogue, before={"commit": lambda *_: rival()}))
    with pytest.raises(LostComparison):
        late.apply(before, slow, lambda: True)
    assert mirror.rows() == {1: "a2", 3: "c", 4: "d"}
    assert mirror.table().standing().events == 6


def _lost(*_: object) -> None:
    raise CatalogueUnsure("no answer")


def test_c2_a_lost_answer_is_found_by_looking(mirror: Mirror) -> None:
    before, merged = mirror.merged(2, 2)
    unsure = mirror.table(Hook(mirror.catalogue, after={"commit": Once(_lost)}))
    assert unsure.apply(before, merged, lambda: True).upto == 2
    assert len(mirror.loaded().metadata.snapshots) == 2
    assert mirror.table().apply(before, merged, lambda: True).upto == 2, "a second time changes nothing"
    mirror.land(u(9, 40, "x"))
    mirror.apply(3, 3)
    assert mirror.table().apply(before, merged, lambda: True).upto == 3, "whatever came after it"
    assert mirror.table().standing().events == 7


def test_c1_the_ledger_is_asked_after_the_load(mirror: Mirror) -> None:
    before, merged = mirror.merged(2, 2)
    with pytest.raises(LostComparison, match="no longer wanted"):
        mirror.table().apply(before, merged, lambda: False)
    assert mirror.upto() == 1


# ---------------------------------------------------------------- M3, M4


def test_m3_a_hole_and_a_repeat_are_refused(mirror: Mirror) -> None:
    mirror.land(u(9, 40, "x"))
    for first, last in ((3, 3), (1, 2)):
        before, merged = mirror.merged(first, last)
        with pytest.raises(LostComparison):
            mirror.table().apply(before, merged, lambda: True)
    assert mirror.upto() == 1


def test_m4_a_table_that_was_taken_back_says_so_itself(mirror: Mirror) -> None:
    """Somebody rolls the table back: the next merge begins where the table is."""
    first = mirror.loaded().metadata.current_snapshot_id
    mirror.apply(2, 2)
    to = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": first}
    mirror.catalogue.commit(mirror.loaded(), (), (SetSnapshotRefUpdate.model_validate(to),))
    assert (mirror.upto(), mirror.rows()) == (1, {1: "a", 2: "b", 3: "c"})
    after = mirror.apply(2, 2)
    assert (after.upto, after.events, mirror.rows()) == (2, 6, {1: "a2", 3: "c", 4: "d"})


# ---------------------------------------------------------------- others at the table


def _rewritten(mirror: Mirror, operation: Operation, files: Callable[[list[DataFile]], list[DataFile]]) -> None:
    now = mirror.loaded()
    seen = look(now.metadata, now.io, None)
    updates = snapshot.replaced(now.metadata, now.io, seen, files(seen.files), {}, None)
    made = updates[0].snapshot  # type: ignore[union-attr]
    summary = Summary(operation, **{k: v for k, v in made.summary.additional_properties.items()})
    updates = (AddSnapshotUpdate(snapshot=made.model_copy(update={"summary": summary})), *updates[1:])
    mirror.catalogue.commit(now, (), updates)


def test_a_compaction_by_others_is_welcome(mirror: Mirror) -> None:
    """Between two merges; one that has read the files before must begin anew (M1)."""
    before, slow = mirror.merged(2, 2)

    def copied(files: list[DataFile]) -> list[DataFile]:
        for n, f in enumerate(files):
            path = Path(f.file_path.removeprefix("file://"))
            copy = path.with_name(f"compacted-{n}.parquet")
            copy.write_bytes(path.read_bytes())
            f._data[1] = f"file://{copy}"
        return files

    _rewritten(mirror, Operation.REPLACE, copied)
    assert mirror.upto() == 1
    with pytest.raises(LostComparison):
        mirror.table().apply(before, slow, lambda: True)
    assert all("compacted" in f.uri for b in mirror.table().base()[1] for f in b.files)
    assert mirror.apply(2, 2).upto == 2
    assert mirror.rows() == {1: "a2", 3: "c", 4: "d"}


@pytest.mark.parametrize("operation", [Operation.OVERWRITE, Operation.REPLACE])
def test_rows_that_others_take_away_stop_the_next_merge(mirror: Mirror, operation: Operation) -> None:
    """Whatever their commit says of itself: rows + tombstones + purged = inserted."""
    _rewritten(mirror, operation, lambda files: files[1:])
    with pytest.raises(CatalogueError, match="rows of bucket|its files hold 2 rows"):
        mirror.table().base()


def _expire(mirror: Mirror, *snapshots: int | None) -> None:
    gone = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(snapshots)})
    mirror.catalogue.commit(mirror.loaded(), (), (gone,))


def test_m4_a_snapshot_across_a_gap_is_no_proof(mirror: Mirror) -> None:
    """The table is taken back from batch 2 to 1 and compacted; what it was taken back to expires, not the other."""
    first = mirror.loaded().metadata.current_snapshot_id
    mirror.apply(2, 2)
    second = mirror.loaded().metadata.current_snapshot_id
    for ref, kind, to in (("audited", SnapshotRefType.TAG, second), (MAIN_BRANCH, SnapshotRefType.BRANCH, first)):
        said = {"ref-name": ref, "type": kind, "snapshot-id": to}
        mirror.catalogue.commit(mirror.loaded(), (), (SetSnapshotRefUpdate.model_validate(said),))
    _rewritten(mirror, Operation.REPLACE, lambda files: files)
    assert mirror.upto() == 1
    _expire(mirror, first)
    with pytest.raises(CatalogueMismatch, match="does not tell up to which batch it is"):
        mirror.table().standing()


def test_snapshots_that_tell_are_never_let_go(mirror: Mirror) -> None:
    metadata = mirror.loaded().metadata
    keep = SetPropertiesUpdate(updates={"history.expire.min-snapshots-to-keep": "1"})
    mirror.catalogue.commit(mirror.loaded(), (), (keep,))
    mirror.apply(2, 2)
    mirror.table().sweep(lambda publications: publications)
    assert [s.snapshot_id for s in mirror.loaded().metadata.snapshots] != [metadata.current_snapshot_id]
    assert mirror.upto() == 2
    for _ in range(2):
        _rewritten(mirror, Operation.REPLACE, lambda files: files)
    mirror.table().sweep(lambda publications: publications)
    assert mirror.upto() == 2
    assert len(mirror.loaded().metadata.snapshots) == 3, "the merge, and what others made of it"


def test_a_table_of_others_is_refused(mirror: Mirror) -> None:
    owner = SetPropertiesUpdate(updates={"tidegate.pipeline": "another"})
    mirror.catalogue.commit(mirror.loaded(), (), (owner,))
    with pytest.raises(CatalogueMismatch, match="the table of pipeline another"):
        mirror.table().base()


# ---------------------------------------------------------------- planted bugs

FOUND_BY: dict[str, Callable[[Mirror], None]] = {
    "whatever was read, the merge is committed": test_m1_another_commit_between_look_and_commit,
    "another snapshot of the same batches will do": test_a_compaction_by_others_is_welcome,
    "a range need not follow": test_m3_a_hole_and_a_repeat_are_refused,
    "the ledger's mark is believed": test_m4_a_table_that_was_taken_back_says_so_itself,
    "nobody looks for the attempt": test_c2_a_lost_answer_is_found_by_looking,
    "the ledger is not asked after the load": test_c1_the_ledger_is_asked_after_the_load,
    "rows that are gone are not missed": partial(
        test_rows_that_others_take_away_stop_the_next_merge, operation=Operation.OVERWRITE
    ),
}


@pytest.mark.parametrize("name", TABLE_BUGS)
def test_a_planted_bug_is_found(mirror: Mirror, name: str) -> None:
    with Planted(TABLE_BUGS[name]) as planted:
        with pytest.raises((AssertionError, LostComparison, CatalogueError, pytest.fail.Exception)):
            FOUND_BY[name](mirror)
        assert planted.never_called() == []
