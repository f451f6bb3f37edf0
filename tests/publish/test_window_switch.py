"""`sink.metastore_conn_id`: a window's partitions turn in one call; its intent, its three answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.hooks import Died, Hook, die, use_catalogue
from tests.world import World, make_pipeline, record, window
from tidegate.core.base.errors import CatalogueError, CatalogueUnsure
from tidegate.core.spec.pipeline import Column
from tidegate.spec.compiled import fingerprint
from tidegate.targets.hive import partitions
from tidegate.workflow.base.context import REQUEST_TTL_MS
from tidegate.workflow.publish.fence import WindowFence
from tidegate.workflow.replay import replay

TABLE = "lake.readings"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Hour 0 is published with sites a, b and d; today's columns give it a, b and c, with other rows in each."""
    found = World(tmp_path)
    found.produce(*(record(f"{site}{n}", n / 10, site) | {"place": place} for n, (site, place) in enumerate(PLACES)))
    found.produce(record("later", 3.5), partition=1)
    found.ingest("r1")
    found.archive(0)
    id_, _, value = found.pipeline.columns
    sink = replace(found.pipeline.sink, metastore_conn_id="metastore_default")
    found.change_spec(columns=(id_, Column(name="site", type="string", path="$.place"), value), sink=sink)
    return found


PLACES = (("a", "b"), ("b", "a"), ("d", "c"), ("a", "b"))


def watched(world: World, views: list[dict[Any, str]]) -> Callable[[str, Any], Any]:
    def look(*_: object) -> None:
        views.append(world.catalogue.partitions(TABLE))

    changes = {"add_partitions": look, "switch_partitions": look, "set_location": look, "drop_partitions": look}
    return lambda name, port: Hook(port, after=changes) if name in ("catalogue", "switch") else port


def generations(world: World, view: dict[Any, str]) -> set[str]:
    """Of the rows that a query of the window would read."""
    shown = {where for where in view.values() if world.rows_at(where)}
    return {"new" if "/generations/" in where else "old" for where in shown}


def test_the_window_turns_in_one_call(world: World) -> None:
    before, views = set(world.by_window()["00"]), []
    world.wrap = watched(world, views)
    published = world.replay(0)
    assert published.new
    assert published.generation == 2
    assert set(world.by_window()["00"]) == before
    assert [generations(world, view) for view in views] == [{"old"}, {"new"}, {"new"}]  # add, switch, drop
    sites = sorted(dict(values)["site"] or "" for values in world.catalogue.partitions(TABLE))
    assert sites == ["a", "b", "c"]


def test_without_it_the_window_turns_in_steps(world: World) -> None:
    """Which is what the key is for: the same look finds both generations in one window."""
    world.change_spec(sink=replace(world.pipeline.sink, metastore_conn_id=None))
    views: list[dict[Any, str]] = []
    world.wrap = watched(world, views)
    world.replay(0)
    assert {"old", "new"} in [generations(world, view) for view in views]


def test_a_window_that_loses_all_its_rows_empties_at_once(world: World) -> None:
    views: list[dict[Any, str]] = []
    ctx = world.context()
    current = ctx.ledger.windows.generation(ctx.name, window(0), 1)
    world.wrap = watched(world, views)
    ctx = world.context()
    assert partitions.align(ctx.target, WindowFence(ctx, replace(current, files=())), f"{world.location}/elsewhere")
    assert [generations(world, view) for view in views] == [set(), set()]
    assert world.catalogue.partitions(TABLE) == {}


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_is_looked_at_before_anything_else(world: World, done: bool) -> None:
    late: list[tuple[Any, ...]] = []

    def lost(*args: Any) -> None:
        late.append(args)
        if done:
            world.catalogue.switch_partitions(*args)
        raise CatalogueUnsure("no answer")

    ctx = world.context()
    ctx.target.switch = Hook(world.catalogue, before={"switch_partitions": lost})  # type: ignore[assignment]
    with pytest.raises(CatalogueUnsure):
        replay.replay(ctx, window(0))
    assert ctx.ledger.windows.get("readings", window(0)).current == 1
    published = world.replay(0)
    assert published.generation == 2
    now = world.catalogue.partitions(TABLE)
    assert generations(world, now) == {"new"}
    assert len(late) == 1


def test_a_late_switch_cannot_bring_an_old_generation_back(world: World) -> None:
    """R8: while its intent is unanswered nobody begins another swap; after the deadline it is not executed any more."""
    ctx = world.context()

    def lost(*_: Any) -> None:
        raise CatalogueUnsure("no answer")

    ctx.target.switch = Hook(world.catalogue, before={"switch_partitions": lost})  # type: ignore[assignment]
    with pytest.raises(CatalogueUnsure):
        replay.replay(ctx, window(0))
    world.replay(0)
    world.change_spec(columns=make_pipeline(world.location).columns)
    with pytest.raises(CatalogueUnsure):  # generation 3 must not be swapped in yet
        world.replay(0)
    world.clock.advance(REQUEST_TTL_MS + 1)
    assert world.replay(0).generation > 2


def test_a_refusal_changes_nothing_and_waits_for_nobody(world: World) -> None:
    def refuse(*_: Any) -> None:
        raise CatalogueError("no such host")

    ctx, before = world.context(), world.by_window()
    ctx.target.switch = Hook(world.catalogue, before={"switch_partitions": refuse})  # type: ignore[assignment]
    with pytest.raises(CatalogueError):
        replay.replay(ctx, window(0))
    assert world.by_window() == before
    assert world.replay(0).generation == 2


def test_a_death_between_the_steps_heals(world: World) -> None:
    rows = world.by_window()
    for name in ("switch_partitions", "drop_partitions"):
        ctx = world.context()
        hooked = Hook(world.catalogue, after={name: die})
        ctx.target.switch = hooked  # type: ignore[attr-defined]
        use_catalogue(ctx, hooked)
        with pytest.raises(Died):
            replay.replay(ctx, window(0))
    world.replay(0)
    assert world.by_window() == rows
    assert len(world.catalogue.partitions(TABLE)) == 3


def test_the_key_makes_no_new_version_of_a_spec() -> None:
    plain = make_pipeline("file:///lake")
    named = replace(plain, sink=replace(plain.sink, metastore_conn_id="metastore_default"))
    assert fingerprint(named) == fingerprint(plain)
