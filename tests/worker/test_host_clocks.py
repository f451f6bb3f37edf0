"""Hosts whose clocks differ: what must not rest on them goes by the database's clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clean.cleanings import keep_for
from tests.fakes.clock import FakeClock
from tests.hooks import Hook, catalogue_of, use_catalogue
from tests.world import HOUR, World, record, window
from tidegate.core.base.errors import CatalogueUnsure, LostComparison
from tidegate.core.spec.pipeline import Column
from tidegate.targets.hive import partitions
from tidegate.workflow.clean import duties
from tidegate.workflow.publish.fence import WindowFence
from tidegate.workflow.replay import replay

MINUTE = 60_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.produce(record("a", 0.1) | {"other": 5, "third": 7})
    made.produce(record("b", 0.1) | {"other": 5, "third": 7}, partition=1)
    made.ingest("r1")
    made.produce(record("c", 3.0))
    made.produce(record("d", 3.0), partition=1)
    made.ingest("r2")
    made.archive(0)
    made.database_clock = made.clock
    yield made
    made.close()


def other_host(world: World, ahead_ms: int) -> None:
    assert world.database_clock is not None
    world.clock = FakeClock(world.database_clock.now_ms() + ahead_ms)


def decode(world: World, source: str) -> None:
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path=f"$.{source}")))


@pytest.mark.parametrize("ahead_ms", [-15 * MINUTE, 15 * MINUTE], ids=["slow", "fast"])
def test_r8_a_change_is_unanswered_for_as_long_as_it_lives_whatever_hosts_say(world: World, ahead_ms: int) -> None:
    """One host declares it, another asks: their clocks differ by more than a request lives."""
    decode(world, "other")
    other_host(world, ahead_ms)
    ctx = world.context()

    def unanswered(*_: object) -> None:
        raise CatalogueUnsure("no answer within 60 s")

    use_catalogue(ctx, Hook(catalogue_of(ctx), before={"set_location": unanswered}))
    with pytest.raises(CatalogueUnsure):
        replay.replay(ctx, window(0))
    world.close()
    decode(world, "third")
    other_host(world, 0)
    assert world.database_clock is not None
    world.database_clock.advance(9 * MINUTE)
    with pytest.raises(CatalogueUnsure, match="got no answer and may still be executed"):
        world.replay(0)
    world.close()
    world.database_clock.advance(MINUTE)
    assert world.replay(0).generation == 3


def test_a_cleaner_whose_host_is_a_year_ahead_takes_nothing_before_its_time(world: World) -> None:
    keep_for(world, generations_ms=HOUR)
    world.change_spec(archive=replace(world.pipeline.archive, keep_generations=1))
    decode(world, "other")
    world.replay(0)
    other_host(world, 365 * 24 * HOUR)
    assert not [i for i in duties.clean(world.context()).deleted if i.kind == "generations"]
    world.close()
    assert world.database_clock is not None
    world.database_clock.advance(HOUR)
    other_host(world, -365 * 24 * HOUR)
    assert [i for i in duties.clean(world.context()).deleted if i.kind == "generations"]


def test_a_task_that_stood_still_sends_nothing_though_its_clock_was_put_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = world.context()
    generation = ctx.ledger.windows.generation("readings", window(0), 1)
    world.catalogue.drop_partitions("lake.readings", list(world.partitions("lake.readings")))
    passed = iter((0.0, 61.0))  # a request sent now could outlive its intent of 10 minutes
    with monkeypatch.context() as patched:
        patched.setattr(partitions.time, "monotonic", lambda: next(passed))
        with pytest.raises(LostComparison, match="stood still"):
            partitions.align(ctx.target, WindowFence(ctx, generation), generation.location)  # type: ignore[arg-type, union-attr]
    assert world.partitions("lake.readings") == {}
