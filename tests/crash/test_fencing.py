"""Two processes at one task: whoever is overtaken at any call, and goes on as a zombie, loses and doubles nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.faults import OVERTAKEN, ProcessGone
from tests.crash.life import STEPS
from tests.crash.matrix import Reference, drawn
from tests.crash.pool import Pool, failures
from tests.hooks import Hook, Once, catalogue_of, use_catalogue
from tests.late.reopenings import BOTH, WORK, begun, once
from tests.world import World, record, window
from tidegate.core.base.errors import CatalogueUnsure, JobFailed, PathMissing
from tidegate.core.replay.abandoned import GIVEN_UP_MS
from tidegate.core.spec.pipeline import Column, Reopening
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay


def overtaken(reference: Reference, step: int, kind: str) -> list[str]:
    return failures(reference, drawn(reference.calls, step, kind))


@pytest.fixture(scope="module")
def under_way(request: pytest.FixtureRequest, pool: Pool) -> dict[tuple[int, str], Any]:
    chosen = [item.callspec.params for item in request.session.items if getattr(item, "callspec", None)]
    wanted = {(p["step"], p["how"]) for p in chosen if {"step", "how"} <= p.keys()}
    return {one: pool.submit(overtaken, *one) for one in sorted(wanted)}


@pytest.mark.parametrize("how", OVERTAKEN)
@pytest.mark.parametrize("step", range(len(STEPS)), ids=[s.name for s in STEPS])
def test_a_zombie_changes_nothing(under_way: dict[tuple[int, str], Any], step: int, how: str) -> None:
    assert under_way[step, how].result() == []


# ---------------------------------------------------------------- two schedulers, call by call


class Interrupted:
    """Ports whose every call is counted, also those that only look; before the n-th one `step` is run."""

    def __init__(self, at: int, step: Callable[[], object]) -> None:
        self.calls, self._at, self._step = 0, at, step

    def wrap(self, ctx: Context) -> Context:
        for name in ("source", "storage"):
            setattr(ctx, name, _Counted(self, getattr(ctx, name)))
        use_catalogue(ctx, _Counted(self, catalogue_of(ctx)))
        for name in ("pipelines", "batches", "windows", "recovery"):
            setattr(ctx.ledger, name, _Counted(self, getattr(ctx.ledger, name)))
        return ctx

    def called(self) -> None:
        self.calls += 1
        if self.calls == self._at:
            self._step()


class _Counted:
    def __init__(self, interrupted: Interrupted, port: Any) -> None:
        self._interrupted, self._port = interrupted, port

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        def counted(*args: Any, **options: Any) -> Any:
            self._interrupted.called()
            return method(*args, **options)

        return counted if callable(method) else method


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_two_schedulers_that_plan_at_once_plan_one_batch(world: World) -> None:
    """At every call of `plan` the other one plans: both runs go on with one batch, and every offset is planned once."""
    at, planned = 0, 0
    while True:
        at += 1
        world.produce(record(f"a{at}", 0.1), record(f"b{at}", 0.2))
        other: list[int | None] = []
        meanwhile = Interrupted(at, lambda at=at, found=other: found.append(ingest.plan(world.context(), f"other{at}")))
        mine = ingest.plan(meanwhile.wrap(world.context()), f"mine{at}")
        if not other:
            break
        assert mine == other[0], f"call {at}"
        planned += 1
        batch = world.context().ledger.batches.get("readings", mine)
        assert [(r.start, r.end) for r in batch.plan.ranges] == [(2 * at - 2, 2 * at)], f"call {at}"
        ingest.write(world.context(), f"mine{at}")
        ingest.land(world.context(), f"other{at}")
        world.close()
    assert planned == at - 1 >= 8


# ---------------------------------------------------------------- R8: an ALTER that arrives after a replay


def test_a_late_alter_of_an_older_replay_cannot_bring_it_back(world: World) -> None:
    """The first replay's ALTER hangs. The second one may not swap while it can still arrive; then it does arrive."""
    world.produce(record("a0", 0.1, value=1), record("b0", 3.5))
    world.produce(record("c0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    late: list[Callable[[], None]] = []
    id_, site, value = world.pipeline.columns

    def hangs(*args: Any) -> None:
        late.append(lambda: world.catalogue.set_location(*args))
        raise ProcessGone

    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    ctx = world.context()
    use_catalogue(ctx, Hook(world.catalogue, before={"set_location": hangs}))
    with pytest.raises(ProcessGone):
        replay.replay(ctx, window(0))

    world.change_spec(columns=(id_, site, value))
    for _ in range(3):
        with pytest.raises(CatalogueUnsure, match="may still be executed"):
            replay.replay(world.context(), window(0))
    late[0]()
    world.clock.advance(ctx.request_ttl_ms)
    published = world.replay(0)
    places = world.partitions("lake.readings")
    assert all(place.startswith(published.location) for place in places.values()), places
    assert world.table() == [(0, 0)]


# ---------------------------------------------------------------- a replay that was given up, and lives


@pytest.mark.parametrize(
    ("port", "when", "call"),
    [
        ("launcher", "before", "run"),
        ("launcher", "after", "run"),
        ("windows", "after", "holds"),
        ("storage", "before", "rename_no_replace"),
        ("storage", "after", "rename_no_replace"),
        ("windows", "before", "built"),
    ],
)
def test_a_driver_that_comes_back_to_a_replay_that_was_given_up(world: World, port: str, when: str, call: str) -> None:
    """It has lost its epoch: what it made is nobody's, what it was asked for it does anew, and every row is there once,
    those that were taken up meanwhile, too. What it wrote after a cleaner had passed goes with the next one."""
    begun(world)
    world.change_spec(columns=(*world.pipeline.columns[:2], Column(name="value", type="int", path="$.other")))
    world.change_spec(reopening=Reopening(after_ms=0))
    ended: list[str] = []

    def a_day_later(*_: object) -> None:
        world.clock.advance(GIVEN_UP_MS)
        ended.extend(reconcile.maintain(world.context(), None, lambda windows: set()))
        world.clock.advance(GIVEN_UP_MS + 1)
        reconcile.maintain(world.context(), None, lambda windows: set())

    world.wrap = lambda name, p: Hook(p, **{when: {call: Once(a_day_later)}}) if name == port else p
    zombie = world.context()
    world.wrap = lambda name, p: p
    try:
        published = replay.replay(zombie, window(0))
    except (PathMissing, JobFailed):  # its plan or receipt was cleaned: a try that failed, the next one goes on
        assert call == "run"
        published = replay.replay(world.context(), window(0))
    archive.announced(zombie, published)
    assert ["given up" in line for line in ended if "generation" in line] == [True, False]
    assert (published.generation, published.new) == (4, True)
    once(world, BOTH)
    world.clock.advance(2 * GIVEN_UP_MS)
    reconcile.maintain(world.context())
    work = world.folder / WORK
    assert [path for folder in ("tmp", "publish", "generations") for path in (work / folder).glob("*Z.2.*")] == []
    once(world, BOTH)
