"""A redrive's dry run says what the redrive then gives, by field and reason, and leaves nothing that anyone sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.handlers.dirty import answer
from tests.audit.audits import balanced
from tests.dirty.redrives import first_batch, mend, odd, once, redriven
from tests.world import World, record
from tidegate.adapters.dirty_rows import DirtyProcess
from tidegate.core.base.errors import BatchRefused, JobFailed
from tidegate.core.clean.dry_runs import EVENT, NO_WINDOW, Rehearsal, parse_rehearsal
from tidegate.core.dirty.redrive import Change, Example
from tidegate.workflow.batch import ingest
from tidegate.workflow.clean import duties
from tidegate.workflow.dirty import rehearsal
from tidegate.workflow.dirty.rehearsal import Rehearsed


class Here(DirtyProcess):
    """Answers in this process."""

    def _ask(self, request: Any) -> dict[str, Any]:
        return answer(request)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def rehearsed(world: World) -> Rehearsed:
    found = rehearsal.rehearse(world.context(), Here())
    world.close()
    return found


def files(world: World) -> list[str]:
    lake = world.folder / "lake"
    return sorted(f"{p.relative_to(lake)} {p.stat().st_size}" for p in lake.rglob("*") if p.is_file())


def events(world: World) -> list[tuple[str, str]]:
    reads = world.context().ledger.reads  # type: ignore[attr-defined]
    return [(e.what, e.subject) for e in reads.events("readings", 100)]


def test_it_says_what_the_redrive_gives_and_changes_nothing(world: World) -> None:
    first_batch(world)
    world.produce(record("e0", 3.6) | {"value": "none", "other": 1.5})  # dirty once more after the mending
    world.ingest("r2")
    world.archive(0)
    mend(world)
    world.produce(record("open", 3.7))
    ingest.plan(world.context(), "r3")  # a batch that is open is not in the way
    before, then = files(world), events(world)
    found = rehearsed(world)
    assert files(world) == before
    assert events(world) == [(EVENT, "redrive"), *then]
    assert [b.batch_id for b in found.choice.chosen] == [1, 2]
    strings, broken = found.changes
    assert (strings.field, strings.rows, strings.readable, strings.varies) == ("value", 4, 3, False)
    ((field, reason, rows),) = strings.still
    assert (field, rows) == ("value", 1)
    assert reason != strings.reason
    assert [(e.batch_id, e.partition, e.offset) for e in strings.examples] == [(1, 0, 1), (1, 0, 2), (1, 1, 1)]
    assert (broken.field, broken.rows, broken.readable) == ("", 1, 0)
    assert broken.still == (("", broken.reason, 1),)
    assert [e.raw for e in broken.examples] == ["not json"]
    assert found.refused == found.note == ""
    world.ingest("r3")
    done = redriven(world)
    assert done is not None
    assert found.rows == {k: getattr(done, k) for k in found.rows}
    assert (found.rows["data"], found.rows["late"], found.rows["dirty"]) == (2, 1, 2)
    once(world)
    balanced(world)


def test_where_nothing_would_change_or_nothing_is_dirty(world: World) -> None:
    assert rehearsed(world) == Rehearsed(rehearsal.Choice(()))
    first_batch(world)
    mend(world, "$.site")
    found = rehearsed(world)
    assert found.refused.startswith("none of the 4 dirty rows became readable")
    assert [c.readable for c in found.changes] == [0, 0]


def test_a_job_that_fails_leaves_nothing_either(world: World) -> None:
    first_batch(world)
    mend(world)
    before = files(world)

    class Dies:
        def run(self, plan_path: str) -> None:
            raise JobFailed("the driver was killed")

    ctx = world.context()
    ctx.launcher = Dies()
    with pytest.raises(JobFailed, match="was killed"):
        rehearsal.rehearse(ctx, Here())
    assert files(world) == before
    for lost in (world.folder / "lake/readings/_tidegate/dirty/_batch=1").iterdir():
        lost.unlink()
    with pytest.raises((BatchRefused, JobFailed), match="dirty file lost"):
        rehearsed(world)


def test_what_one_that_was_killed_has_left_is_cleaned_by_age(world: World) -> None:
    first_batch(world)
    ctx = world.context()
    name = ctx.layout.redrive_rehearsal_name("abc")
    assert parse_rehearsal(name) == Rehearsal(NO_WINDOW)
    ctx.ledger.replays.rehearsed("readings", None, name)
    left = world.folder / f"lake/readings/_tidegate/tmp/{name}/dirty/x"
    left.parent.mkdir(parents=True)
    left.write_text("x")
    duties.clean(world.context())
    assert left.exists(), "it may be at work"
    world.clock.advance(400 * 86_400_000)
    duties.clean(world.context())
    assert not left.parent.parent.exists()


def test_changes_are_told_by_reason_whatever_the_value(world: World) -> None:
    world.produce(*(odd(str(n), 0.1) | {"value": f"many{n}"} for n in range(5)), record("z", 3.5))
    world.ingest("r1")
    mend(world)
    (change,) = rehearsed(world).changes
    assert isinstance(change, Change)
    assert (change.rows, change.readable, len(change.examples)) == (5, 5, 3)
    assert isinstance(change.examples[0], Example)
