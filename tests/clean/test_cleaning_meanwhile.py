"""Cleaning while it dies, is not alone, or meets other tasks."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.clean.cleanings import DAY, Kept, attempt_dies, audited, dying, first_life, other_columns, readers
from tests.hooks import Died, Hook, Once, catalogue_of, die, use_catalogue
from tests.world import World, record, window
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.clean.duties import clean
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("cleaning"))


class Calls:
    """Counts every call of every port; at the n-th one something else happens, before or after it."""

    def __init__(self, at: int = -1, step: Callable[[], object] | None = None, after: bool = False) -> None:
        self.at, self.step, self.after, self.names = at, step, after, []

    def wrap(self, name: str, port: Any) -> Any:
        return _Counted(self, name, port)


class _Counted:
    def __init__(self, calls: Calls, name: str, port: Any) -> None:
        self._calls, self._name, self._port = calls, name, port

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._port, method)
        if not callable(real):
            return real

        def counted(*args: Any, **options: Any) -> Any:
            calls = self._calls
            calls.names.append(f"{self._name}.{method}")
            now = len(calls.names) - 1 == calls.at and calls.step is not None
            if now and not calls.after:
                calls.step()
            result = real(*args, **options)
            if now and calls.after:
                calls.step()
            return result

        return counted


def with_calls(world: World, calls: Calls) -> Context:
    ctx = world.context()
    ledger = ctx.ledger
    for name in ("batches", "windows", "cleaning"):
        setattr(ledger, name, calls.wrap(name, getattr(ledger, name)))
    ctx.storage = calls.wrap("storage", ctx.storage)
    use_catalogue(ctx, calls.wrap("catalogue", catalogue_of(ctx)))
    return ctx


def busy_life(world: World) -> None:
    """Everything is in the middle of something, and most of it is old."""
    first_life(world)
    world.archive(2)
    for source in ("other", "value", "value"):  # the last one changes nothing: discarded
        other_columns(world, source)
        world.replay(0)
    world.produce(record("d0", 3.2), record("d1", 3.3, "b"), record("g0", 7.0))
    world.produce(record("g1", 7.0), partition=1)
    world.ingest("r3")
    ctx = world.context()
    ctx.storage = Hook(ctx.storage, {"rename_no_replace": Once(die, at=2)})  # hour 3: half assembled
    with pytest.raises(Died):
        archive.publish(ctx, window(3))
    (world.folder / "lake/readings/_tidegate/generations").mkdir(exist_ok=True)
    next((world.folder / "lake/readings/date=2013-01-05/hour=02").rglob("*.parquet")).unlink()
    for _ in range(2):  # hour 2: its heal has died twice
        with pytest.raises(Died):
            archive.publish(dying(world, run=die), window(2))
    world.produce(record("h0", 7.5), record("late", 0.3))
    ingest.plan(world.context(), "r4")
    for _ in range(2):
        attempt_dies(world, "r4")
    world.clock.advance(40 * DAY)
    world.close()


def finish(world: World) -> None:
    """What is left to do, by other tasks."""
    ingest.write(world.context(), "r4")
    ingest.land(world.context(), "r4")
    archive.publish(world.context(), window(2))
    archive.publish(world.context(), window(3))
    replay.replay(world.context(), window(0))
    world.close()


def left(world: World) -> list[str]:
    """Every file and directory, but for what chance names."""
    root = world.folder / "lake"
    return sorted(str(p.relative_to(root)).rpartition("-")[0] or str(p) for p in root.rglob("*"))


def test_a_cleaner_that_dies_or_is_not_alone_ends_where_one_alone_ends(kept: Kept, rng: random.Random) -> None:
    calls, alone = Calls(), kept.world(busy_life)
    found = clean(with_calls(alone, calls))
    assert {i.kind for i in found.deleted} == {"attempts", "plans", "publish", "generations", "landed"}
    expected = (left(alone), readers(alone))
    first = {name: n for n, name in reversed(list(enumerate(calls.names)))}
    for site in sorted({*first.values(), *rng.sample(range(len(calls.names)), 8)}):
        how = rng.choice(["dies before", "dies after", "second"])
        world = kept.world(busy_life)
        step = (lambda w=world: clean(w.context())) if how == "second" else die
        where = f"call {site} ({calls.names[site]}), {how}"
        try:
            clean(with_calls(world, Calls(site, step, how == "dies after")))
            assert how == "second", where
        except Died:
            clean(world.context())
        assert (left(world), readers(world)) == expected, where


def test_a_cleaner_that_meets_other_tasks_takes_nothing_from_them(kept: Kept, rng: random.Random) -> None:
    """All other tasks run to their end between its look and its deletion, or anywhere else."""
    calls, plain = Calls(), kept.world(busy_life)
    clean(with_calls(plain, calls))
    deletions = [n for n, name in enumerate(calls.names) if name == "storage.delete"]
    plain = kept.world(busy_life)
    finish(plain)
    expected = readers(plain)
    for site in (rng.choice(deletions), rng.choice(deletions), rng.randrange(len(calls.names))):
        world = kept.world(busy_life)
        clean(with_calls(world, Calls(site, lambda w=world: finish(w))))
        assert (readers(world), audited(world)) == (expected, []), f"call {site} ({calls.names[site]})"
    world.clock.advance(40 * DAY)
    clean(world.context())
    assert (readers(world), audited(world)) == (expected, [])
