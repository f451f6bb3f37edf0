"""When a window is not reopened, and reopenings that died on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hooks import Hook, catalogue_of, use_catalogue
from tests.late.reopenings import BOTH, WORK, begun, once, reopened
from tests.world import HOUR, World, make_pipeline, record, window
from tidegate.core.base.errors import JobFailed, NotReady, OverBudget, ReplayRefused, SpecError
from tidegate.core.spec.pipeline import Column, Pipeline, Reopening
from tidegate.workflow.batch import ingest
from tidegate.workflow.generation import extension
from tidegate.workflow.late import reopen
from tidegate.workflow.maintain import reconcile


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = begun(World(tmp_path))
    yield made
    made.close()


def test_a_window_that_was_never_published(world: World) -> None:
    with pytest.raises(NotReady, match="never published"):
        reopened(world, 2)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Reopening(generations=0), "reopened 0 times"),
        (Reopening(age_ms=HOUR), "ended at 2013-01-05T01:00Z"),
        (Reopening(rows=1), "2 late rows wait"),
    ],
)
def test_over_its_budget(world: World, budget: Reopening, words: str) -> None:
    world.change_spec(reopening=budget)
    with pytest.raises(OverBudget, match=words):
        reopened(world)
    once(world, BOTH[:2], [(0, 3), (0, 4)])
    assert reopened(world, over_budget=True).new


def test_the_generations_of_the_budget_are_reopenings(world: World) -> None:
    world.change_spec(reopening=Reopening(generations=1))
    reopened(world)
    world.produce(record("later", 0.9))
    world.ingest("r3")
    with pytest.raises(OverBudget, match="reopened 1 times"):
        reopened(world)


def test_rows_without_coordinates(tmp_path: Path) -> None:
    spec: Pipeline = replace(make_pipeline(f"file://{tmp_path}/lake/readings"), kafka_columns=False)
    world = World(tmp_path, spec)
    with pytest.raises(SpecError, match="do not carry their Kafka offsets"):
        reopened(world)
    world.close()


def test_a_lost_late_file(world: World) -> None:
    (late,) = (world.folder / WORK / "late").rglob("*.parquet")
    late.unlink()
    with pytest.raises(ReplayRefused, match="late file lost"):
        reopened(world)
    assert world.by_window()["00"] == BOTH[:2]
    assert not world.archive(0).new  # what is in force goes on being verified


def test_a_lost_file_of_the_generation_in_force(world: World) -> None:
    location = dict((dict(v)["hour"], at) for v, at in world.partitions("lake.readings").items())["00"]
    min(Path(location.removeprefix("file://")).rglob("*.parquet")).unlink()
    with pytest.raises(ReplayRefused, match="clear the window's publish task"):
        reopened(world)
    world.archive(0)
    reopened(world)
    once(world, BOTH)


def test_a_late_file_with_other_rows(world: World) -> None:
    """Of the same length, so that only its rows tell."""
    (late,) = (world.folder / WORK / "late").rglob("*.parquet")
    content = bytearray(late.read_bytes())
    at = content.rfind(b"late 1") if b"late 1" in content else 8
    content[at] ^= 1
    late.write_bytes(content)
    with pytest.raises((ReplayRefused, JobFailed)):
        reopened(world)
    assert world.by_window()["00"] == BOTH[:2]


def test_while_another_generation_is_at_work(world: World) -> None:
    ctx = world.context()
    ctx.ledger.windows.begin_generation("readings", window(0), 1, "heal")
    with pytest.raises(NotReady, match=r"generation 2 \(heal\) is BUILDING"):
        reopened(world)


def test_hive_away(world: World) -> None:
    """Late rows that are not in the late table yet wait; those of other batches do not."""
    world.catalogue.away = True
    world.produce(record("later", 0.9))
    ingest.plan(world.context(), "r3")
    ingest.write(world.context(), "r3")
    ingest.land(world.context(), "r3")
    world.catalogue.away = False
    reconcile.maintain(world.context())
    world.close()
    reopened(world)
    once(world, [*BOTH, (0, 6)])


def test_clear_goes_on_with_one_that_died(world: World) -> None:
    world.context().ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    published = world.archive(0)
    assert (published.new, published.generation, published.rows) == (True, 2, 4)
    once(world, BOTH)


def test_a_replay_finishes_one_that_died_first(world: World) -> None:
    world.context().ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    published = world.replay(0)
    assert (published.new, published.generation, published.rows) == (True, 3, 4)
    once(world, BOTH)


def test_a_replay_gives_up_one_that_was_built(world: World) -> None:
    """Its late rows are in the late table still, and wait for the next one."""
    ctx = world.context()
    number = ctx.ledger.windows.begin_generation("readings", window(0), 1, "reopen")
    generation = ctx.ledger.windows.take("readings", window(0), number, "n")
    extension.build(ctx, generation)
    assert world.replay(0).note == "unchanged"
    once(world, BOTH[:2], [(0, 3), (0, 4)])
    reopened(world)
    once(world, BOTH)


def test_readers_of_both_tables_never_meet_a_row_twice(world: World) -> None:
    """Looked at before and after each change of the catalogue, by pointer and by directory."""
    seen: list[int] = []

    def look(*_arguments: object) -> None:
        rows = world.by_window()["00"] + world.table("__late")
        assert len(rows) == len(set(rows)), rows
        seen.append(len(rows))

    for swap in ("pointer", "directory"):
        world.change_spec(archive=replace(world.pipeline.archive, swap=swap))
        ctx = world.context()
        calls = dict.fromkeys(("add_partitions", "set_location", "drop_partitions"), look)
        use_catalogue(ctx, Hook(catalogue_of(ctx), before=calls, after=calls))
        ctx.storage = Hook(ctx.storage, after={"rename_no_replace": look})  # type: ignore[assignment]
        reopen.reopen(ctx, window(0))
        world.close()
        world.produce(record("later", 0.9))
        world.ingest(f"{swap} 2")
    assert len(seen) > 10
