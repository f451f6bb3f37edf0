"""Tries to merge: each is judged by what became of itself, whatever other tasks do in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate

from tests.hooks import Hook, Once
from tests.mirror.test_cleaning import tries
from tests.mirror.worlds import MirrorWorld, event
from tidegate.core.base.errors import BatchRefused, JobFailed
from tidegate.workflow.apply.apply import apply
from tidegate.workflow.base.context import Context


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MirrorWorld]:
    made = MirrorWorld(tmp_path)
    yield made
    made.close()


def hooked(world: MirrorWorld, **after: Callable[..., object]) -> Context:
    """A process in which something happens right after a question to the ledger."""
    ctx = world.context()
    ctx.ledger = Hook(ctx.ledger)  # type: ignore[assignment]
    ctx.ledger.applies = Hook(ctx.ledger.applies, after=dict(after))  # type: ignore[assignment]
    return ctx


def upto(world: MirrorWorld) -> int:
    told = world.context().ledger.applies.told("readings")
    return 0 if told is None else told.upto


def test_m7_a_refusal_is_of_its_batches_alone(world: MirrorWorld) -> None:
    """Batch 3 is refused, then somebody takes the table back to batch 1: batch 2 is merged without a person."""
    world.land(event(1, "a", 10))
    world.apply()
    first = world.loaded().metadata.current_snapshot_id
    world.land(event(1, "b", 20))
    world.apply()
    world.land(event(2, "x", 30), event(2, "y", 30))
    with pytest.raises(BatchRefused):
        world.apply()
    to = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": first}
    world.iceberg.commit(world.loaded(), (), (SetSnapshotRefUpdate.model_validate(to),))
    with pytest.raises(BatchRefused, match="two contents"):
        world.apply(most_events=1)
    assert (upto(world), world.rows()) == (2, {1: "b"})


def test_m7_conflicts_are_taken_in_one_merge(world: MirrorWorld) -> None:
    """The one that the person has seen: the next one in the same run is refused."""
    world.land(event(1, "a", 10), event(1, "b", 10))
    world.land(event(2, "x", 30), event(2, "y", 30))
    with pytest.raises(BatchRefused, match="two contents of one key at one position: id=2"):
        world.apply(most_events=2, conflicts="both are right")
    assert (upto(world), world.rows().keys()) == (1, {1})


def test_r9_a_try_has_a_directory_of_its_own(world: MirrorWorld) -> None:
    """Also where a restored ledger gives an epoch for a second time."""
    world.land(event(1, "a", 10))
    world.apply()
    world.land(event(1, "b", 20))
    world.close()
    early = world.database.read_bytes()
    for _ in range(2):
        ctx = world.context()
        assert ctx.keyed is not None
        ctx.keyed.apply = _gone  # type: ignore[method-assign]
        with pytest.raises(JobFailed, match="gone"):
            apply(ctx)
        world.close()
        world.database.write_bytes(early)
    assert len([name for name in tries(world) if name.startswith("2-2.2-")]) == 2
    world.apply()
    assert world.rows() == {1: "b"}


def _gone(*_: object) -> None:
    raise JobFailed("the worker is gone")


def test_m4_a_merge_in_between_takes_nothing_back(world: MirrorWorld) -> None:
    """A task has read the table when another one merges: its look is old, the table was not taken back."""
    world.land(event(1, "a", 10))
    world.apply()
    world.land(event(1, "b", 20))
    apply(hooked(world, landed=Once(lambda: apply(world.context()))))
    assert [line for line in world.said if "taken it back" in line] == []
    assert world.context().ledger.cleaning.history("readings", "mirror") == []
    assert (upto(world), world.rows()) == (2, {1: "b"})


def test_m4_a_landing_in_between_is_no_contradiction(world: MirrorWorld) -> None:
    world.land(event(1, "a", 10))
    world.apply()

    def meanwhile() -> None:
        world.send(event(2, "b", 20))
        world.ingest("meanwhile")
        apply(world.context())

    assert apply(hooked(world, landed=Once(meanwhile))).merges == 0
    assert world.rows() == {1: "a", 2: "b"}
