"""The life of a mirror on any storage: landed, merged, cleared, killed, taken back, cleaned, and audited in between."""

from __future__ import annotations

import pytest
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate

from tests.hooks import Died, Hook, die
from tests.mirror.audits import deep, dropped
from tests.mirror.test_cleaning import DAY, applies, files, keep
from tests.mirror.test_where_key import ask, states
from tests.mirror.worlds import MirrorWorld, event
from tidegate.changes import changes
from tidegate.core.base.errors import JobFailed
from tidegate.core.base.storage import Storage
from tidegate.core.target.paths import HANDED, RECEIPT
from tidegate.storage import for_uri
from tidegate.workflow.apply.apply import apply
from tidegate.workflow.batch import ingest
from tidegate.workflow.clean.duties import clean

END = {1: "a4", 4: "d", 5: "e"}


def children_read(monkeypatch: pytest.MonkeyPatch, store: Storage) -> None:
    """What audits do in processes of their own, done in this one, opens this store."""

    def opened(uri: str) -> object:
        return for_uri(uri) if uri.startswith("file:") else store

    for module in ("places", "mirror"):
        monkeypatch.setattr(f"spark_jobs.handlers.{module}.open_storage", opened)


def lived(world: MirrorWorld) -> None:
    """Ends with `END`; each step is seen by a reader."""
    world.land(event(1, "a", 10), event(2, "b", 11), event(3, "c", 12))
    world.land(event(1, "a2", 20), event(2, None, 21), event(1, "a", 10))
    assert (world.apply().merges, world.rows()) == (1, {1: "a2", 3: "c"})
    before = _seen(world)
    _cleared(world)
    assert _seen(world) == before, "nothing was left to do"
    first = world.loaded().metadata.current_snapshot_id

    world.land(event(1, "a3", 30), event(4, "d", 31))
    _dies(world, RECEIPT)
    _dies(world)
    assert world.rows() == {1: "a2", 3: "c"}, "readers see nothing of a try that died"
    world.apply()
    assert world.rows() == {1: "a3", 3: "c", 4: "d"}
    _taken_back(world, first)
    assert world.rows() == {1: "a2", 3: "c"}
    world.land(event(1, "a4", 40), event(3, None, 41), event(5, "e", 42))
    assert (world.apply().told.upto, world.rows()) == (4, END)
    balanced(world)

    cleaned(world)
    assert world.rows() == END
    balanced(world)
    answered(world)
    assert world.apply().merges == 0
    _taken_back(world, None)
    assert (world.apply(most_events=2).told.upto, world.rows()) == (4, END), "all that has landed is still there"
    balanced(world)


def balanced(world: MirrorWorld) -> None:
    """By the audit, which makes the table anew from what has landed."""
    found = deep(world)
    assert (found.problems, found.unsettled, found.balanced) == ((), (), True)
    assert found.recomputed is not None
    assert (found.recomputed.upto, found.recomputed.events) == (4, 11)


def cleaned(world: MirrorWorld) -> None:
    """For weeks, with one snapshot kept: what it names stays, and nothing else that merges wrote."""
    keep(world, 1)
    world.clock.advance(40 * DAY)
    for _ in range(3):
        assert clean(world.context()).kept == ()
        world.close()
    assert clean(world.context()).deleted == ()
    world.close()
    table = world.opened()
    assert table is not None
    assert files(world) == {task.file.file_path for task in table.scan().plan_files()}
    named = {uri.removeprefix(applies(world)).split("/")[1] for uri in files(world)}
    left = world.store.list_files(applies(world)) or []
    assert {f.path.split("/")[0].removesuffix(".json") for f in left} == named, (
        "tries that it names nothing of are gone"
    )
    assert [f.path for f in left if f"/{HANDED}/" in f.path] == []


def answered(world: MirrorWorld) -> None:
    """Questions to landed files, which stay for good."""
    assert states(ask(world, "id=1"))[0] == ("row", 4, 40 + 2**40)
    world.close()
    found = changes("readings", "1", ledger=f"sqlite:///{world.database}")
    assert (found.token, found.rows) == ("4", 8)
    for file in found.files:
        assert len(world.store.read(file.path)) == file.bytes


def _cleared(world: MirrorWorld) -> None:
    """Each task of the last ingest run, and the merge, once more."""
    run = f"run {world.runs}"
    for task in (ingest.plan, ingest.write, ingest.land):
        task(world.context(), run)
        world.close()
    assert world.apply().merges == 0


def _seen(world: MirrorWorld) -> tuple[object, ...]:
    found = world.store.list_files(world.pipeline.sink.location) or []
    return world.loaded().metadata_location, world.rows(), [(f.path, f.bytes, f.modified_ms) for f in found]


def _dies(world: MirrorWorld, before: str = "") -> None:
    """A task that is killed before its job has written a file of that name; without one: before its commit."""
    ctx = world.context()
    if before:
        hooked = Hook(ctx.storage, before={"write_new": lambda path, *_: die() if path.endswith(before) else None})
        ctx.storage = world.launcher.storage = hooked  # type: ignore[assignment, union-attr]
    else:
        assert ctx.keyed is not None
        ctx.keyed.apply = _gone  # type: ignore[method-assign]
    with pytest.raises((Died, JobFailed)):
        apply(ctx)
    world.close()


def _gone(*_: object) -> None:
    raise JobFailed("the worker is gone")


def _taken_back(world: MirrorWorld, snapshot: int | None) -> None:
    """By somebody else; None: the catalogue's table is dropped."""
    if snapshot is None:
        dropped(world)
        return
    to = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot}
    world.iceberg.commit(world.loaded(), (), (SetSnapshotRefUpdate.model_validate(to),))
