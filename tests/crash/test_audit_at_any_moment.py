"""An audit while the pipeline works, or lies dead in the middle of any step, raises no false alarm.

`make test` takes one change of each method, and draws a hundredth of the others; `make test-faults` takes all."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from tests.crash.faults import Faults, ProcessGone
from tests.crash.life import STEPS
from tests.crash.matrix import Reference, drawn, problems
from tests.crash.pool import Pool
from tests.crash.scenario import run_tasks

TROUBLED = ("damaged attempt", "damaged landing", "restored ledger", "forgotten plan", "contradicting record")
"""Steps that end with an operator's repair: until then the audit has every reason to speak."""

SOUND = [number for number, step in enumerate(STEPS) if step.name not in TROUBLED]


def false_alarms(reference: Reference, number: int) -> list[str]:
    """What the audit says after the process has died behind the step's changes, and nobody has come back.

    Without what it said before the step: files that the world has taken away."""
    calls = [made if step in SOUND else [] for step, made in enumerate(reference.calls)]
    cases = drawn(calls, number, "gone after")
    found, told = [], _before(reference, number) if cases else []
    for case in cases:
        call, faults = reference.calls[number][case.at], Faults.one(case.at, case.kind)
        world = reference.restore(number, faults)
        try:
            run_tasks(world, STEPS[number], faults, until_gone=True)
        except ProcessGone:
            pass
        finally:
            world.close()
        assert faults.fired == [call.site]
        found += [f"after {call.site}: {p}" for p in problems(world) if p not in told]
        world.close()
    return found


def _before(reference: Reference, number: int) -> list[str]:
    world = reference.restore(number, Faults())
    try:
        return problems(world)
    finally:
        world.close()


@pytest.fixture(scope="module")
def under_way(request: pytest.FixtureRequest, pool: Pool) -> dict[int, Future[list[str]]]:
    chosen = [item.callspec.params for item in request.session.items if getattr(item, "callspec", None)]
    return {p["sound"]: pool.submit(false_alarms, p["sound"]) for p in chosen if "sound" in p}


@pytest.mark.parametrize("sound", SOUND, ids=[STEPS[number].name for number in SOUND])
def test_a_process_that_died_after_any_change_leaves_a_balanced_pipeline(
    under_way: dict[int, Future[list[str]]], sound: int
) -> None:
    assert under_way[sound].result() == []
