"""Files of merges: what no snapshot of the table names goes, once the try is over; what is named, or open, stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mirror.worlds import MirrorWorld, event
from tidegate.core.base.errors import BatchRefused, JobFailed
from tidegate.core.clean.merges import file_of_merge, try_of_merge
from tidegate.core.mirror.applies import APPLIED, OPEN, OVERTAKEN, REFUSED, Apply, Tried
from tidegate.core.spec.pipeline import Cleaning
from tidegate.core.target.paths import Layout, join
from tidegate.workflow.clean.duties import clean

DAY = 86_400_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path)
    yield made
    made.close()


def tries(world: MirrorWorld) -> list[str]:
    """Names of their directories."""
    return [name for name in world.store.list_names(applies(world)) or [] if not name.endswith(".json")]


def files(world: MirrorWorld) -> set[str]:
    """URIs of the data files that merges have left."""
    found = world.store.list_files(applies(world)) or []
    return {join(applies(world), f.path) for f in found if f.path.endswith(".parquet")}


def applies(world: MirrorWorld) -> str:
    return Layout.of(world.pipeline).applies()


def keep(world: MirrorWorld, snapshots: int) -> None:
    from pyiceberg.table.update import SetPropertiesUpdate

    loaded = world.loaded()
    world.iceberg.commit(
        loaded, (), (SetPropertiesUpdate(updates={"history.expire.min-snapshots-to-keep": str(snapshots)}),)
    )


def merges(world: MirrorWorld, count: int) -> None:
    """Each changes key 1, and brings one more."""
    for n in range(1, count + 1):
        world.land(event(1, f"a{n}", 10 * n), event(n + 1, "new", 10 * n + 1))
        world.apply()


def cleaned(world: MirrorWorld) -> list[str]:
    clean(world.context())  # the sweep lets snapshots go after the files were looked at
    return [item.path for item in clean(world.context()).deleted if item.kind == "merges"]


def test_files_that_a_kept_snapshot_names_stay(world: MirrorWorld) -> None:
    merges(world, 4)
    world.clock.advance(2 * DAY)
    before = files(world)
    cleaned(world)
    assert files(world) == before
    table = world.opened()
    assert table is not None
    read = [table.scan(snapshot_id=s.snapshot_id).to_arrow().num_rows for s in world.loaded().metadata.snapshots]
    assert read == [2, 3, 4, 5]
    assert world.rows()[1] == "a4"


def test_files_that_no_snapshot_names_any_more_go(world: MirrorWorld) -> None:
    merges(world, 4)
    keep(world, 1)
    world.clock.advance(2 * DAY)
    before = files(world)
    gone = cleaned(world)
    assert gone
    assert len(files(world)) < len(before)
    table = world.opened()
    assert table is not None
    assert files(world) == {task.file.file_path for task in table.scan().plan_files()}
    assert world.rows() == {1: "a4", 2: "new", 3: "new", 4: "new", 5: "new"}
    assert cleaned(world) == []


def test_nothing_goes_before_its_time(world: MirrorWorld) -> None:
    merges(world, 3)
    keep(world, 1)
    world.clock.advance(DAY // 2)
    assert cleaned(world) == []


def test_a_try_that_is_open_stays(world: MirrorWorld) -> None:
    """Its task may have died after a commit that nobody has heard of."""
    world.land(event(1, "a", 10))
    world.apply()
    world.land(event(1, "b", 20))
    ctx = world.context()
    assert ctx.keyed is not None
    ctx.keyed.apply = lambda *_: (_ for _ in ()).throw(JobFailed("the worker is gone"))  # type: ignore[method-assign]
    from tidegate.workflow.apply.apply import apply

    with pytest.raises(JobFailed):
        apply(ctx)
    world.clock.advance(9 * DAY)
    (mine,) = [name for name in tries(world) if name.startswith("2-2.")]
    cleaned(world)
    assert mine in tries(world)
    world.apply()  # overtakes it
    world.clock.advance(9 * DAY)
    cleaned(world)
    assert mine not in tries(world)
    assert world.rows() == {1: "b"}


def test_a_refused_try_goes(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10), event(1, "b", 10))
    with pytest.raises(BatchRefused):
        world.apply()
    world.clock.advance(2 * DAY)
    cleaned(world)
    assert not world.store.list_names(applies(world))


def test_what_the_ledger_does_not_know_stays_and_is_told(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    world.apply()
    for name in ("1-1.9-deadbeef", "somebody"):
        world.store.write_new(f"{applies(world)}/{name}/part", b"")
    world.clock.advance(9 * DAY)
    found = clean(world.context())
    kept = {Path(item.path).name: item.why for item in found.kept}
    assert kept.keys() >= {"1-1.9-deadbeef", "somebody"}
    assert "may have lost a commit" in kept["1-1.9-deadbeef"]
    assert "not a name that Tidegate gives" in kept["somebody"]


APPLY = Apply(pipeline="p", first=1, last=2, epoch=3, nonce="n")
OVER = Tried(apply=APPLY, state=APPLIED, began_ms=0, done_ms=DAY)


@pytest.mark.parametrize(
    ("tried", "now_ms", "go", "odd"),
    [
        (None, 9 * DAY, False, True),
        (replace(OVER, apply=replace(APPLY, nonce="other")), 9 * DAY, False, True),
        (replace(OVER, state=OPEN, done_ms=None), 9 * DAY, False, False),
        (OVER, 2 * DAY - 1, False, False),
        (OVER, 2 * DAY, True, False),
        (replace(OVER, state=OVERTAKEN), 2 * DAY, True, False),
        (replace(OVER, state=REFUSED), 2 * DAY, True, False),
        (replace(OVER, done_ms=None), 9 * DAY, False, False),
    ],
)
def test_the_rule(tried: Tried | None, now_ms: int, go: bool, odd: bool) -> None:
    verdict = try_of_merge(APPLY, tried, Cleaning(), now_ms)
    assert (verdict.go, verdict.odd) == (go, odd)
    assert not try_of_merge(APPLY, tried, Cleaning(attempts_ms=None), now_ms).go
    assert (file_of_merge("a", {"a"}).go, file_of_merge("b", {"a"}).go) == (False, True)
