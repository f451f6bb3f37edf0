"""Later generations in a ledger that forgets commits while tasks live on: R13 and R15."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.audit.audits import balanced
from tests.hooks import Died, Hook, Once, catalogue_of, die, use_catalogue
from tests.ledger_loss import adopt
from tests.world import World, make_pipeline, record, window
from tidegate.core.spec.pipeline import Column, Reopening
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.late import reopen
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.replay import rollback

ALL = [(0, 0), (0, 2), (1, 0)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, replace(make_pipeline(f"file://{tmp_path}/lake/readings"), reopening=Reopening(age_ms=None)))
    made.produce(record("a", 0.1))
    made.produce(record("b", 0.1), partition=1)
    made.ingest("r1")
    made.produce(record("c", 3.0))
    made.produce(record("d", 3.0), partition=1)
    made.ingest("r2")
    made.archive(0)
    made.produce(record("late", 0.5))
    made.ingest("r3")
    yield made
    made.close()


def other_columns(world: World) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))


def dies_with_swapping_forgotten(world: World) -> None:
    """The reopening has taken its rows out of the late table; the database forgets that it had begun to swap."""
    ctx, kept = world.context(), list[bytes]()
    ctx.ledger.windows = Hook(
        ctx.ledger.windows, before={"begin_swap": lambda *_, **__: kept.append(world.database.read_bytes())}
    )
    use_catalogue(ctx, Hook(catalogue_of(ctx), after={"drop_partitions": die}))
    with pytest.raises(Died):
        reopen.reopen(ctx, window(0), "test")
    world.close()
    world.database.write_bytes(kept[0])
    assert world.table("__late") == []


def test_a_reopening_that_readers_may_have_met_is_finished_before_a_replay(world: World) -> None:
    dies_with_swapping_forgotten(world)
    other_columns(world)
    assert world.replay(0).generation == 3
    assert (world.by_window()["00"], world.table("__late")) == (ALL, [])
    balanced(world)


def test_one_that_has_no_record_is_given_up(world: World) -> None:
    """Its rows have not left the late table."""
    ctx = world.context()
    ctx.ledger.windows = Hook(ctx.ledger.windows, after={"built": die})
    with pytest.raises(Died):
        reopen.reopen(ctx, window(0), "test")
    world.close()
    other_columns(world)
    assert world.replay(0).generation == 3
    assert (world.by_window()["00"], world.table("__late")) == ([(0, 0), (1, 0)], [(0, 2)])
    balanced(world)


def test_a_reopening_that_was_given_up_all_the_same_is_seen_and_adopted(world: World) -> None:
    """An earlier release did so; and so may a try that dies between its two looks in the middle of a failover."""
    dies_with_swapping_forgotten(world)
    ctx = world.context()
    ctx.ledger.windows.discard(ctx.ledger.windows.generation("readings", window(0), 2), "a newer replay was asked for")  # type: ignore[arg-type]
    world.close()
    assert adopt(world) == ["adopted: generation 2 of 2013-01-05T00:00Z as BUILT, 3 rows"]
    assert reopen.reopen(world.context(), window(0), "test").generation == 2
    world.close()
    assert (world.by_window()["00"], world.table("__late")) == (ALL, [])
    balanced(world)


def test_a_failover_between_the_looks_is_seen_by_the_second_one(world: World) -> None:
    """The reopening is taken back, its own task takes it anew, swaps it in and dies; all that is forgotten."""
    ctx = world.context()
    ctx.ledger.windows = Hook(ctx.ledger.windows, after={"built": die})  # type: ignore[misc]
    with pytest.raises(Died):
        reopen.reopen(ctx, window(0), "test")
    world.close()
    other_columns(world)

    def meanwhile(*_: object, **__: object) -> None:
        backup = world.database.read_bytes()
        other = world.context()
        use_catalogue(other, Hook(catalogue_of(other), after={"drop_partitions": die}))
        with pytest.raises(Died):
            reopen.reopen(other, window(0), "test")
        world.close()
        world.database.write_bytes(backup)

    ctx = world.context()
    ctx.ledger.windows = Hook(ctx.ledger.windows, before={"discard": Once(meanwhile)})  # type: ignore[misc]
    world_replay(ctx)
    world.close()
    assert (world.by_window()["00"], world.table("__late")) == (ALL, [])
    balanced(world)


@pytest.mark.parametrize("dead", ["taken back", "looked at the record"])
def test_a_replay_that_dies_while_it_gives_up_leaves_what_the_next_try_decides(world: World, dead: str) -> None:
    dies_with_swapping_forgotten(world)
    other_columns(world)
    ctx = world.context()
    if dead == "taken back":
        ctx.ledger.windows = Hook(ctx.ledger.windows, after={"take_back": die})
    else:
        ctx.ledger.recovery = Hook(ctx.ledger.recovery, before={"restore": die})
    with pytest.raises(Died):
        world_replay(ctx)
    world.close()
    assert world.replay(0).new
    assert (world.by_window()["00"], world.table("__late")) == (ALL, [])
    balanced(world)


def world_replay(ctx: object) -> None:
    from tidegate.workflow.replay import replay

    replay.replay(ctx, window(0))  # type: ignore[arg-type]


def test_a_replay_whose_swap_was_forgotten_is_no_copy_to_be_discarded(world: World) -> None:
    """swap: directory: generation 2 lies in the hour, by storage; by the ledger it is BUILT and equals generation 1."""
    world.change_spec(archive=replace(world.pipeline.archive, swap="directory"))
    other_columns(world)
    ctx, kept = world.context(), list[bytes]()
    ctx.ledger.windows = Hook(
        ctx.ledger.windows,
        before={"begin_swap": lambda *_, **__: kept.append(world.database.read_bytes()), "answer_intent": die},
    )
    with pytest.raises(Died):
        world_replay(ctx)
    world.close()
    world.database.write_bytes(kept[0])
    world.clock.advance(REQUEST_TTL_MS + 1)
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.value")))
    assert world.replay(0).generation == 3
    assert world.by_window()["00"] == [(0, 0), (1, 0)]
    balanced(world)


def test_a_record_that_takes_up_fewer_late_rows_is_adopted_and_the_rest_waits(world: World) -> None:
    """A failover takes a reopening back from its beginning on, right before it writes its record; another late row
    lands; the task begins anew, of one batch more than its record says."""
    kept: list[bytes] = []
    ctx = world.context()

    def failover() -> None:
        world.close()
        world.database.write_bytes(kept[0])
        world.produce(record("late 2", 0.6))
        world.ingest("r4")

    once = Once(failover)
    ctx.storage = Hook(  # type: ignore[assignment]
        ctx.storage, before={"write_new": lambda path, _: once() if "/hwm/published/" in path else None}
    )
    ctx.ledger.windows = Hook(  # type: ignore[misc]
        ctx.ledger.windows, before={"begin_generation": lambda *_, **__: kept.append(world.database.read_bytes())}
    )
    assert reopen.reopen(ctx, window(0), "test").rows == 3
    world.close()
    assert (world.by_window()["00"], world.table("__late")) == (ALL, [(0, 3)])
    assert reopen.reopen(world.context(), window(0), "again").rows == 4
    world.close()
    assert (world.by_window()["00"], world.table("__late")) == ([(0, 0), (0, 2), (0, 3), (1, 0)], [])
    balanced(world)


def test_a_generation_that_a_later_one_has_overtaken_is_not_swapped_in(world: World) -> None:
    """Generation 2 was BUILT when the database forgot that a replay gave it up and published generation 3."""
    ctx = world.context()
    ctx.ledger.windows = Hook(ctx.ledger.windows, after={"built": die})
    with pytest.raises(Died):
        reopen.reopen(ctx, window(0), "test")
    world.close()
    backup = world.database.read_bytes()
    other_columns(world)
    assert world.replay(0).generation == 3
    world.database.write_bytes(backup)
    world.clock.advance(REQUEST_TTL_MS + 1)
    adopt(world)
    reconcile.maintain(world.context())
    world.close()
    assert (world.by_window()["00"], world.table("__late")) == ([(0, 0), (1, 0)], [(0, 2)])
    balanced(world)
    reopen.reopen(world.context(), window(0), "test")
    world.close()
    assert (world.by_window()["00"], world.table("__late")) == (ALL, [])


def test_a_rollback_that_was_recorded_is_finished_before_a_replay(world: World) -> None:
    """The ledger forgot BUILT and SWAPPING of it; the catalogue may show it already."""
    other_columns(world)
    world.replay(0)
    ctx, kept = world.context(), list[bytes]()
    ctx.ledger.windows = Hook(
        ctx.ledger.windows,
        before={"built": lambda *_, **__: kept.append(world.database.read_bytes()), "publish": die},
    )
    with pytest.raises(Died):
        rollback.rollback(ctx, window(0), 1, "test")
    world.close()
    world.database.write_bytes(kept[0])
    world.clock.advance(REQUEST_TTL_MS + 1)
    assert world.replay(0).generation == 4
    assert world.by_window()["00"] == [(0, 0), (1, 0)]
    balanced(world)


def test_a_replay_that_carries_rows_of_a_forgotten_reopening_is_finished(world: World) -> None:
    """Forgotten are CURRENT of the reopening and the whole replay: its record alone says where the late rows are."""
    kept: list[bytes] = []
    ctx = world.context()
    ctx.ledger.windows = Hook(  # type: ignore[misc]
        ctx.ledger.windows, before={"publish": lambda *_, **__: kept.append(world.database.read_bytes())}
    )
    reopen.reopen(ctx, window(0), "test")
    world.close()
    other_columns(world)
    ctx = world.context()
    ctx.storage = Hook(  # type: ignore[assignment]
        ctx.storage, before={"rename_no_replace": lambda source, to: die() if "/_tidegate/generations/" in to else None}
    )
    with pytest.raises(Died):
        world_replay(ctx)
    world.close()
    world.database.write_bytes(kept[0])
    world.clock.advance(REQUEST_TTL_MS + 1)
    adopt(world)
    assert world.replay(0).rows == 3
    assert (world.by_window()["00"], world.table("__late")) == (ALL, [])
    balanced(world)
