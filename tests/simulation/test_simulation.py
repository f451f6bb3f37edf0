"""The core through seeded lives of a topic; TIDEGATE_TEST_SEED makes them happen again, `make simulate` lives more."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from spark_jobs.engine.formats import Bad, Decoded
from spark_jobs.engine.route import Router
from tests.mutants.planting import ROOT, Planted
from tests.simulation import planted, report, worker
from tests.simulation.course import Course
from tests.simulation.life import begin, live
from tests.simulation.pipelines import calendar_of
from tests.simulation.settings import SIZES, draw
from tests.simulation.topic import BAD, FILTERED
from tests.simulation.verdicts import DATA, DIRTY, DROPPED, LATE, NAMES, REROUTED, TURNED_AWAY, Fate
from tidegate.core.base.plain import loads
from tidegate.core.batch.states import Plan
from tidegate.core.source.records import Chunk
from tidegate.core.window.cut import window_end, window_start

WINDOWS = 1_000
"""Of a sample; `make simulate` takes 30,000."""
SEED = "planted"


def test_lives_of_a_topic(rng: random.Random) -> None:
    lives, seed = [], rng.randrange(2**32)
    while sum(one.tally.closes for one in lives) < WINDOWS:
        lives.append(live(f"{seed}:{len(lives)}"))
        last = lives[-1]
        assert last.wrong is None, f"make simulate ARGS='--life {last.seed}': {last.wrong}\n{last.setting}"
    whole = report.total(lives)
    assert max(whole.delays) <= 1, whole.delays
    assert max(whole.waits, default=0) <= 1, whole.waits
    places = sum(whole.places.values())
    assert places == whole.records > 0, whole.places


def test_a_life_is_the_same_in_another_process(rng: random.Random) -> None:
    """Nothing is decided by the order of a set, by a clock or by an address."""
    seed = f"{rng.randrange(2**32)}:again"
    code = f"from tests.simulation.life import live; print(live({seed!r}).journal)"
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(rng.randrange(1000))}
    other = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert other.returncode == 0, other.stderr
    assert live(seed).journal == other.stdout.strip() != ""


@pytest.mark.parametrize("name", planted.BUGS)
def test_a_planted_rule_still_applies(name: str) -> None:
    """Fails with the seam that is gone, or takes other arguments: adapt the bug to the code."""
    bug = planted.BUGS[name]
    Planted(bug)
    assert set(bug.violates.split(" | ")) <= NAMES


@pytest.fixture(scope="module")
def hunted(request: pytest.FixtureRequest) -> dict[str, planted.Found]:
    """What became of each selected bug, two at a time."""
    wanted = [
        item.callspec.params["bug"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and (item.path, item.originalname) == (request.path, "test_a_planted_rule_is_found")
        and item.get_closest_marker("skip") is None
    ]
    return {found.bug: found for found in planted.hunt(wanted, SEED)}


@pytest.mark.parametrize("bug", planted.BUGS)
def test_a_planted_rule_is_found(hunted: dict[str, planted.Found], bug: str) -> None:
    found = hunted[bug]
    assert found.is_right, f"after {found.lives} lives: {found.name or 'nothing was noticed'}; {found.detail}"


def test_the_oracle_knows_nothing_of_the_core() -> None:
    code = (
        "import sys, tests.simulation.oracle, tests.simulation.generator\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('tidegate', 'spark_jobs')])"
    )
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize("size", SIZES)
def test_windows_are_where_the_calendar_says(size: int, rng: random.Random) -> None:
    """Also around each change of clocks that a life meets."""
    for _ in range(12):
        setting = draw(rng, size)
        windows, calendar = begin("any", setting)[0].pipeline.windows, calendar_of(setting)
        for _ in range(60):
            event = setting.start + int(rng.uniform(-30, setting.windows) * size)
            start = window_start(event, windows)
            assert (start, window_end(start, windows)) == calendar.window(event), (setting.zone, event)


def test_the_simulated_worker_decides_as_the_real_router(rng: random.Random) -> None:
    seed, places = rng.randrange(2**32), Counter[str]()
    for n in range(4):
        name = f"{seed}:{n}"
        setting = replace(draw(random.Random(name)), late=("side", "reroute", "drop", "side")[n])
        course, _, _ = begin(name, setting)
        course.live()
        kept = list(course.ledger.landed.values())
        for landed in kept[:: max(1, len(kept) // 25)]:
            plan = loads(Plan, landed.plan)
            _, fates = worker.read(course.pipeline, plan, course.world.topic)
            assert fates == _routed(course, plan), f"{name}, batch {plan.batch_id}"
            places.update(place for _, _, place, _ in fates)
    assert places[DATA] > 0


def _routed(course: Course, plan: Plan) -> list[Fate]:
    """The same by the worker's own code, and its precedence: dirty, filtered, late, data."""
    fates: list[Fate] = []
    router = Router(course.pipeline, plan.floor, plan.clock_ms)
    for r in plan.ranges:
        log = course.world.topic.logs[r.partition].records
        found = [(o, log[o]) for o in range(r.start, r.end) if log[o] is not None]
        if not found:
            continue
        spoilt = {i: Bad("spoilt", "") for i, (_, x) in enumerate(found) if x.kind == BAD or x.event is None}
        events = [None if i in spoilt else x.event for i, (_, x) in enumerate(found)]
        nothing = [None] * len(found)
        chunk = Chunk([o for o, _ in found], [x.at for _, x in found], nothing, nothing)
        table = pa.table({"id": pa.array(nothing, pa.string())})
        routed = router.route(chunk, Decoded(table, pa.array(events, pa.int64()), spoilt))
        late, windows = routed.late.to_pylist(), routed.window.to_pylist()
        rerouted = routed.rerouted.to_pylist() if routed.rerouted is not None else nothing
        dropped = routed.dropped.to_pylist() if routed.dropped is not None else nothing
        for i, (offset, record) in enumerate(found):
            if i in routed.bad:
                place, window = DIRTY, None
            elif record.kind == FILTERED:
                place, window = TURNED_AWAY, None
            elif dropped[i]:
                place, window = DROPPED, None
            else:
                place, window = REROUTED if rerouted[i] else LATE if late[i] else DATA, windows[i]
            fates.append((r.partition, offset, place, window))
    return fates
