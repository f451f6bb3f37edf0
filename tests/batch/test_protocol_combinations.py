"""Parts that meet: a ledger that lost commits, swaps, merges, cleaning, side tables, other specs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.audit.audits import in_process
from tests.hooks import Died, Hook, die
from tests.world import TOPIC, World, record, window
from tidegate.core.base.errors import StorageAhead
from tidegate.core.window.states import PublishedGeneration
from tidegate.storage.local import LocalStorage
from tidegate.workflow.audit.audit import audit
from tidegate.workflow.batch import ingest
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.replay import replay
from tidegate.workflow.restore import adoption

DAY_MS = 86_400_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def _dies_on_the_way_to(part: str) -> Callable[[str, str], None]:
    def step(source: str, destination: str) -> None:
        if part in destination:
            raise Died

    return step


def adopt(world: World) -> list[str]:
    ctx = world.context()
    done = adoption.adopt(ctx, adoption.survey(ctx), "restored from a backup")
    world.close()
    return done


def everything_once(world: World) -> None:
    ends = {p: o.high_watermark for p, o in world.kafka.look(TOPIC).partitions.items()}
    expected = [(p, offset) for p, end in sorted(ends.items()) for offset in range(end)]
    waiting: list[tuple[int, int]] = []
    for folder in sorted((world.folder / "lake/readings/_tidegate/landed").iterdir()):
        waiting += world.rows_at(str(folder / "data"))
    assert sorted(world.table() + world.table("__late") + world.table("__dirty") + waiting) == expected
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process)
    world.close()
    assert report.problems == ()


# ---------------------------------------------------------------- a ledger that is days behind


def five_days(world: World) -> bytes:
    """Two hours, published five days apart; the ledger as it was before them."""
    world.produce(record("a", 0.1), record("b", 1.1), record("c", 2.1), record("d", 4.5))
    world.produce(record("x", 4.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.close()
    backup = world.database.read_bytes()
    world.clock.advance(2 * DAY_MS)
    world.archive(2)  # hours may be published in any order
    world.clock.advance(3 * DAY_MS)
    world.archive(1)
    world.close()
    world.clock.advance(DAY_MS)
    return backup


def test_an_adoption_that_dies_half_way_is_gone_on_with(world: World) -> None:
    """What it restored is not younger than what it did not come to."""
    world.database.write_bytes(five_days(world))

    class Dies:
        def __init__(self, port: Any) -> None:
            self._port, self._left = port, 1

        def __getattr__(self, name: str) -> Any:
            return getattr(self._port, name)

        def restore(self, *args: Any, **kwargs: Any) -> None:
            if not self._left:
                raise Died
            self._left -= 1
            self._port.restore(*args, **kwargs)

    world.wrap = lambda name, port: Dies(port) if name == "recovery" else port
    with pytest.raises(Died):
        adopt(world)
    world.close()
    world.wrap = lambda name, port: port
    with pytest.raises(StorageAhead, match="records of publications"):
        ingest.plan(world.context(), "r2")
    world.close()
    assert len([line for line in adopt(world) if line.startswith("adopted: generation")]) == 1
    world.archive(1)
    world.archive(2)
    everything_once(world)


def test_a_publication_by_a_ledger_that_is_behind_hides_nothing(world: World) -> None:
    """A task that goes on with what it finds in a restored ledger would make it look new."""
    world.database.write_bytes(five_days(world))
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, replace(value, path="$.other")))
    with pytest.raises(StorageAhead, match="records of publications"):
        world.replay(0)
    world.close()
    assert len([line for line in adopt(world) if line.startswith("adopted: generation")]) == 2
    world.replay(0)
    world.archive(1)
    world.archive(2)
    everything_once(world)


def test_a_generation_that_was_given_up_does_not_hide_the_one_in_force(world: World) -> None:
    """A replay died after its record, was given up for another one that changed nothing, and cleaned away."""
    world.produce(record("a", 0.1), record("b", 0.5, "b"), record("d", 4.5))
    world.produce(record("x", 4.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.close()
    backup = world.database.read_bytes()
    columns = world.pipeline.columns
    world.change_spec(columns=(*columns[:2], replace(columns[2], path="$.other")))
    stays = Hook(LocalStorage(), before={"rename_no_replace": _dies_on_the_way_to("generations/")})
    ctx = replace(world.context(), storage=stays)
    with pytest.raises(Died):
        replay.replay(ctx, window(0))
    world.close()
    world.change_spec(columns=columns)
    assert world.replay(0).note == "unchanged"
    world.clock.advance(3 * DAY_MS)
    clean(world.context())
    world.close()
    assert not (world.folder / "lake/readings/_tidegate/publish/20130105T000000Z.2.1").exists()
    world.database.write_bytes(backup)
    adopt(world)
    assert world.table() == [(0, 0), (0, 1)]
    assert world.archive(0).generation == 1
    everything_once(world)


@pytest.mark.parametrize("behind", ["days", "everything"])
def test_a_generation_that_made_way_is_found_where_it_is(world: World, behind: str) -> None:
    """`swap: directory`: its record says where it was first."""
    empty = world.database.read_bytes()
    world.change_spec(archive=replace(world.pipeline.archive, swap="directory"))
    world.produce(record("a", 0.1), record("b", 0.5, "b"), record("d", 4.5))
    world.produce(record("x", 4.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    world.close()
    backup = world.database.read_bytes()
    columns = world.pipeline.columns
    world.change_spec(columns=(*columns[:2], replace(columns[2], path="$.other")))
    world.replay(0)
    world.close()
    world.registered.clear()
    world.database.write_bytes(backup if behind == "days" else empty)
    adopt(world)
    ctx = world.context()
    old = ctx.ledger.windows.generation("readings", window(0), 1)
    assert isinstance(old, PublishedGeneration)
    assert old.state == "RETIRED"
    assert {f.path for f in old.files} <= {f.path for f in ctx.storage.list_files(old.location) or []}
    world.close()
    world.clock.advance(3 * DAY_MS)
    world.change_spec(archive=replace(world.pipeline.archive, keep_generations=1))
    cleaned = clean(world.context())
    assert [item.kind for item in cleaned.deleted].count("generations") >= 2
    world.close()
    everything_once(world)


# ---------------------------------------------------------------- what another version left


def test_a_merge_whose_receipt_is_of_another_version_is_left_out(world: World) -> None:
    """Nobody is needed for it: the files are published as they are."""
    run = world.pipeline.archive
    world.change_spec(archive=replace(run, merge=replace(run.merge, min_files=2)))
    for n in range(2):
        world.produce(record(f"a{n}", 0.1), record("d", 4.5))
        world.produce(record("x", 4.5), partition=1)
        world.ingest(f"r{n}")

    def spoil(plan: str) -> None:
        (receipt,) = (world.folder / "lake/readings/_tidegate/tmp").glob("*.merge/_receipt.json")
        told = json.loads(receipt.read_bytes())
        receipt.write_text(json.dumps(told | {"of_tomorrow": 1}))

    world.wrap = lambda name, port: Hook(port, after={"run": spoil}) if name == "launcher" else port
    assert world.archive(0).rows == 2
    assert any("published as they are" in line for line in world.said)
    everything_once(world)


def test_a_generation_that_a_restored_ledger_believes_to_be_building_is_adopted_too(world: World) -> None:
    """A later one was published: nobody would finish it, and nothing of the window would ever be cleaned."""
    world.produce(record("a", 0.1), record("b", 0.5, "b"), record("d", 4.5))
    world.produce(record("x", 4.5), partition=1)
    world.ingest("r1")
    world.wrap = lambda name, port: Hook(port, before={"take": die}) if name == "windows" else port
    with pytest.raises(Died):
        world.archive(0)
    world.close()
    world.wrap = lambda name, port: port
    backup = world.database.read_bytes()
    world.archive(0)
    columns = world.pipeline.columns
    world.change_spec(columns=(*columns[:2], replace(columns[2], path="$.other")))
    world.replay(0)
    world.close()
    world.database.write_bytes(backup)
    world.registered.clear()
    adopt(world)
    assert world.archive(0).generation == 2
    world.clock.advance(3 * DAY_MS)
    world.change_spec(archive=replace(world.pipeline.archive, keep_generations=1))
    cleaned = clean(world.context())
    assert cleaned.kept == ()
    assert [item.kind for item in cleaned.deleted].count("generations") >= 2
    world.close()
    everything_once(world)
