"""A database that fails over while a window's first generation is on its way to readers, and a task that lives on.

The failover forgets CLOSING, CLOSED and BUILT; an ingest run plans by the ledger that is left, in which the hour is
open. R12 to R15: the task asks before it acts, and what it has left is adopted, or set aside without a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.audits import in_process
from tests.hooks import Died, Hook, Once, catalogue_of, die, use_catalogue
from tests.ledger_loss import adopt
from tests.world import World, record, window
from tidegate.core.base.errors import StillClosing, StorageAhead
from tidegate.core.restore.ahead import contradiction
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.base import records
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive
from tidegate.workflow.restore import adoption
from tidegate.workflow.restore.contradiction import set_aside

ALL = [(0, 0), (0, 2), (1, 0)]
"""Of the hour: two records of batch 1, and the straggler of batch 3."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.produce(record("a", 0.1))
    made.produce(record("b", 0.1), partition=1)
    made.ingest("r1")
    made.produce(record("c", 3.0))
    made.produce(record("d", 3.0), partition=1)
    made.ingest("r2")
    yield made
    made.close()


class EarlierLook:
    """Storage as a plan saw it that looked for records before there was one."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def list_names(self, path: str) -> list[str] | None:
        return [] if path.endswith("/hwm/published") else self._storage.list_names(path)


def fails_over(world: World, backup: bytes, land: bool = True, straggler: float = 0.5) -> None:
    """A plan that is under way commits by what is left of the ledger, in which the hour is open."""
    world.close()
    world.database.write_bytes(backup)
    world.produce(record("straggler", straggler))
    ctx = world.context()
    ctx.storage = EarlierLook(ctx.storage)  # type: ignore[assignment]
    ingest.plan(ctx, "r3")
    if land:
        lands(world)
    world.close()


def lands(world: World) -> None:
    ingest.write(world.context(), "r3")
    ingest.land(world.context(), "r3")
    world.close()


Step = Callable[[], None]


def before_record(ctx: Context, step: Step) -> None:
    once = Once(step)
    ctx.storage = Hook(  # type: ignore[assignment]
        ctx.storage, before={"write_new": lambda path, _: once() if "/hwm/published/" in path else None}
    )


def before_call(method: str) -> Callable[[Context, Step], None]:
    def hook(ctx: Context, step: Step) -> None:
        ctx.ledger.windows = Hook(ctx.ledger.windows, before={method: Once(step)})  # type: ignore[misc]

    return hook


def after_table(ctx: Context, step: Step) -> None:
    use_catalogue(ctx, Hook(catalogue_of(ctx), after={"ensure_table": Once(step)}))


LEFT = {
    "a record": before_record,
    "a record, by a task that had asked": before_call("begin_swap"),
    "the hour in the table": before_call("declare_intent"),
    "partitions and _SUCCESS": before_call("publish"),
}


def lives_through(world: World, when: Callable[[Context, Step], None], **how: Any) -> archive.Published | None:
    """Publish the hour in a task that lives through a failover; None if it ends with StorageAhead."""
    backup, ctx = world.database.read_bytes(), world.context()
    when(ctx, lambda: fails_over(world, backup, **how))
    try:
        return archive.publish(ctx, window(0))
    except StorageAhead:
        return None
    finally:
        world.close()


def hwm(world: World) -> list[str]:
    folder = world.folder / "lake/readings/_tidegate/hwm/published"
    return sorted(p.name for p in folder.rglob("2013*Z.*"))


def hour_is_whole(world: World) -> None:
    """Every record once, by the table and by the audit; the next run goes on."""
    assert world.by_window()["00"] == ALL
    world.produce(record("next", 4.2))
    assert world.ingest("r4") == 4
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process)
    world.close()
    assert report.problems == ()


def test_a_task_whose_generation_was_forgotten_begins_anew(world: World) -> None:
    """The statement for the table takes long; what was built before it may be forgotten when it is answered."""
    published = lives_through(world, after_table)
    assert published is not None
    assert published.rows == 3
    assert hwm(world) == ["20130105T000000Z.1.2"]
    hour_is_whole(world)


@pytest.mark.parametrize("left", list(LEFT)[:2])
def test_nothing_moves_after_a_failover_that_came_behind_the_record(world: World, left: str) -> None:
    assert lives_through(world, LEFT[left]) is None
    assert hwm(world) == ["20130105T000000Z.1.1"]
    assert not (world.folder / "lake/readings/date=2013-01-05").exists()


@pytest.mark.parametrize("left", LEFT)
def test_what_contradicts_the_ledger_is_set_aside_and_the_hour_is_built_anew(world: World, left: str) -> None:
    assert lives_through(world, LEFT[left]) is None
    with pytest.raises(StorageAhead, match="repair <pipeline> --adopt"):
        world.archive(0)
    world.close()
    (done,) = adopt(world)
    assert done.startswith("set aside: generation 1 of 2013-01-05T00:00Z: generation 1 was built of batches [1], the")
    assert hwm(world) == []
    assert adoption.survey(world.context()).nothing
    assert world.archive(0).rows == 3
    hour_is_whole(world)


@pytest.mark.parametrize("left", LEFT)
def test_an_adopted_window_closes_behind_the_batch_that_is_open(world: World, left: str) -> None:
    """Batch 3 was planned with the hour open: it may bring it rows until it has landed (R14)."""
    assert lives_through(world, LEFT[left], land=False) is None
    assert adopt(world)[0].startswith("closing: 2013-01-05T00:00Z waits for batch 3")
    with pytest.raises(StillClosing, match="batch 3"):
        world.archive(0)
    world.close()
    assert adopt(world)[0].startswith("closing: ")  # asking again changes nothing
    lands(world)
    with pytest.raises(StorageAhead, match=r"built of batches \[1\], the ledger knows of \[1, 3\]"):
        world.archive(0)
    world.close()
    assert adopt(world)[0].startswith("set aside: ")
    assert world.archive(0).rows == 3
    hour_is_whole(world)


def test_an_open_batch_without_rows_for_the_window_lets_the_record_be_adopted(world: World) -> None:
    """By the next try of the task: nobody has to adopt twice."""
    assert lives_through(world, before_call("publish"), land=False, straggler=3.5) is None
    adopt(world)
    world.clock.advance(3 * 86_400_000)  # the record is older than what is looked through otherwise
    lands(world)
    published = world.archive(0)
    assert (published.generation, published.rows) == (1, 2)
    assert "its record is adopted" in " ".join(world.said)
    assert world.by_window()["00"] == [(0, 0), (1, 0)]


def test_a_move_that_comes_late_finds_nothing_once_the_record_is_set_aside(world: World) -> None:
    """The task committed SWAPPING, the database forgot it, an operator adopted: all before the task's rename."""
    backup, ctx = world.database.read_bytes(), world.context()
    done: list[str] = []

    def step(source: str, target: str) -> None:
        if target.endswith("/hour=00") and not done:
            done.append("")
            fails_over(world, backup)
            done.extend(adopt(world))

    ctx.storage = Hook(ctx.storage, before={"rename_no_replace": step})  # type: ignore[assignment]
    assert archive.publish(ctx, window(0)).rows == 3  # by the same task, from what is left of the ledger
    world.close()
    assert done[1].startswith("set aside: ")
    hour_is_whole(world)


@pytest.mark.parametrize("dies", ["set_aside", "rename_no_replace"])
def test_setting_aside_goes_on_where_it_died(world: World, dies: str) -> None:
    lives_through(world, before_call("publish"))
    ctx = world.context()
    if dies == "set_aside":
        ctx.ledger.recovery = Hook(ctx.ledger.recovery, before={"set_aside": die})  # type: ignore[misc]
    else:
        ctx.storage = Hook(ctx.storage, after={"rename_no_replace": die})  # type: ignore[assignment]
    with pytest.raises(Died):
        adoption.adopt(ctx, adoption.survey(ctx), "failover")
    world.close()
    assert adopt(world)[0].startswith("set aside: ")
    assert world.archive(0).rows == 3
    hour_is_whole(world)


def test_a_record_of_batches_that_the_ledger_does_not_have_is_not_set_aside(world: World) -> None:
    """Its rows might be nobody's then."""
    world.archive(0)
    ctx = world.context()
    (path,) = records.publication_marks(ctx, None).values()
    found = records.generation_record(ctx, path)
    assert contradiction(found, {1}, ()) is None
    assert contradiction(found, {1}, (7,)) is not None  # late rows in force that the record would drop
    more, other = contradiction(found, {1, 3}, ()), contradiction(found, {2}, ())
    assert (more and more.set_aside, other and other.set_aside) == (True, False)
    assert other is not None
    with pytest.raises(StorageAhead, match="knows of"):
        set_aside(ctx, found, other, "test")
