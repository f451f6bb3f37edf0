"""An audit while the pipeline works, or lies dead in the middle of any step, raises no false alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.faults import Faults, ProcessGone
from tests.crash.scenario import STEPS
from tests.crash.test_single_faults import Reference
from tests.unit.test_audit import in_process
from tidegate.core.errors import TidegateError
from tidegate.workflow.audit import audit


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    return Reference(tmp_path_factory.mktemp("audited"))


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[s.name for s in STEPS])
def test_a_process_that_died_after_any_change_leaves_a_balanced_pipeline(reference: Reference, number: int) -> None:
    step = STEPS[number]
    for site, call in enumerate(reference.calls[number]):
        world = reference.before[number].restore(reference.world_folder, Faults(site, "gone after"))
        step.happens(world)
        try:
            for task in step.tasks:
                task(world)
        except (ProcessGone, TidegateError):
            pass
        finally:
            world.close()
        world.wrap = lambda name, port: port
        ctx = world.context()
        problems = audit(ctx, ctx.ledger.reads, in_process).problems
        world.close()
        lost = lost_on_purpose(world.folder) if step.name == "heal" else ()
        assert [p for p in problems if not any(name in p.what for name in lost)] == [], f"after {call}"


def lost_on_purpose(folder: Path) -> tuple[str, ...]:
    """The step's own damage: one published file of hour 1."""
    return (f"{folder}/lake/readings/date=2013-01-05/hour=01/site=a/b1-",)
