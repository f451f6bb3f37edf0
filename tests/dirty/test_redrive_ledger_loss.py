"""A ledger that lost commits after redrives: rows come back with their owners, from what storage recorded (R11)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.audit.audits import balanced
from tests.dirty.redrives import mend, odd, once, redriven
from tests.ledger_loss import Past, go_on, lived
from tests.world import World, record
from tidegate.core.base.errors import StorageAhead
from tidegate.workflow.maintain import reconcile


def history(world: World) -> None:
    """A redrive, one of rows that it had left dirty, a published hour that has rows of both and is rebuilt."""
    world.produce(odd("e0", 0.3) | {"other": "text", "third": 3})
    first_records(world)
    mend(world)
    assert redriven(world, "redrive 1") is not None
    mend(world, "$.third")
    found = redriven(world, "redrive 2")
    assert found is not None
    assert (found.sources, found.data, found.dirty) == ((2,), 1, 1)
    world.archive(0)
    mend(world, "$.none")
    assert world.replay(0).new


def first_records(world: World) -> None:
    world.produce(record("a0", 0.1), odd("a1", 0.5), odd("b0", 1.2, "b"), record("b1", 1.3), b"not json")
    world.produce(record("c0", 2.0), odd("c1", 2.5), record("d0", 3.5), partition=1)
    world.ingest("r1")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Past]:
    with lived(tmp_path_factory.mktemp("redriven"), history) as past:
        yield past


def goes_on(world: World) -> None:
    world.produce(record("next", 4.2), record("next", 4.3), partition=1)
    tasks: list[Callable[[], object]] = [
        lambda: world.ingest("r8"), lambda: redriven(world, "redrive 8"), lambda: world.ingest("r9"),
        lambda: world.archive(0), lambda: world.archive(1), lambda: reconcile.maintain(world.context()),
    ]  # fmt: skip
    go_on(world, tasks)


def settled(world: World) -> None:
    once(world)
    balanced(world)
    assert world.table("__dirty") == [(0, 5)]
    assert world.by_window()["00"] == [(0, 0), (0, 1), (0, 2)]


def test_the_history_has_commits_of_every_kind(past: Past) -> None:
    assert {"redrives.cleared", "batches.insert_plan", "batches.land"} <= set(past.names)


@pytest.mark.parametrize("part", range(2))
def test_a_ledger_that_goes_back_to_any_of_its_commits_is_rebuilt(past: Past, part: int) -> None:
    def follow(world: World) -> None:
        goes_on(world)
        settled(world)

    past.holds_from(past.drawn()[part::2], follow)


def test_a_ledger_that_is_gone_is_rebuilt_from_nothing(past: Past, tmp_path: Path) -> None:
    world = past.again()
    shutil.copy(World(tmp_path).database, world.database)
    with pytest.raises(StorageAhead, match="next batch is 1"):
        world.ingest("r9")
    world.close()
    goes_on(world)
    settled(world)
    ctx = world.context()
    rows = ctx.ledger.reads.batch_pages("readings", 1, 9)  # type: ignore[attr-defined]
    owners = {b.batch_id: (b.kind, b.sources, b.redriven_by) for page in rows for b in page.batches}
    assert owners[1] == ("ingest", (), 2)
    assert owners[2] == ("redrive", (1,), 3)
    assert owners[3][:2] == ("redrive", (2,))
    world.close()
