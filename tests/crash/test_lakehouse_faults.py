"""The life of `test_single_faults.py` and `test_fencing.py` with tables in Iceberg: every call that changes something
fails in every way, is overtaken by another whole try or by a cleaner, and is the last one before an audit.

Twice: on a filesystem, and in an object store, where nothing moves, a file's change is the write that closes it, and
records say what has landed. Readers of the fault-free life see what those of Hive see. `make test` takes each way of
failing at a commit and some cases of the other calls, by the run's seed, each kind in one process; `make test-faults`
takes all.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from tests.crash.cases import ways
from tests.crash.faults import KINDS, OF_A_LAKEHOUSE, OVERTAKEN
from tests.crash.lakehouse import IN_PLACE, KIND
from tests.crash.life import STEPS
from tests.crash.matrix import Case, Reference, drawn
from tests.crash.pool import Pool, failures
from tests.crash.test_audit_at_any_moment import SOUND, false_alarms
from tests.crash.test_single_faults import meets_every_outcome

ALL = os.environ.get("TIDEGATE_FAULTS") == "all"
LAYOUTS = (KIND, IN_PLACE)
OTHERS = 4
"""Cases of other calls, in `make test`."""
AT_RECORDS = 3
"""Cases of writes that record a landing, there."""


def a_step(reference: Reference, number: int) -> list[str]:
    """All that can happen to it."""
    found = [
        line for kind in (*KINDS, *OVERTAKEN) for line in failures(reference, drawn(reference.calls, number, kind))
    ]
    return found + (false_alarms(reference, number) if number in SOUND else [])


def a_sample(reference: Reference, seed: str, layout: str) -> tuple[list[str], set[str], dict[str, Any]]:
    """What failed, the methods that the life calls, and what readers see in the end."""
    rng, cases = random.Random(f"{seed}:{layout}"), []
    every = [
        (call, Case(step, at, kind))
        for step, calls in enumerate(reference.calls)
        for at, call in enumerate(calls)
        for kind in (*call.kinds(), *OVERTAKEN)
    ]
    for kind in sorted(ways("iceberg.commit", (*KINDS, *OVERTAKEN))):
        at_commit = [case for call, case in every if call.method == "iceberg.commit" and case.kind == kind]
        cases += rng.sample(at_commit, min(1, len(at_commit)))
    cases += rng.sample([case for call, case in every if call.method == "pipelines.pin"], 1)
    at_records = [case for call, case in every if call.site.startswith("storage.write_new(hwm/")]
    cases += rng.sample(at_records, AT_RECORDS if layout == IN_PLACE else 0)
    cases += rng.sample([case for _, case in every], OTHERS)
    return failures(reference, cases), {call.method for call, _ in every}, reference.after[-1]


@pytest.mark.skipif(ALL, reason="every case is taken")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sample_of_faults_heals(pool: Pool, layout: str) -> None:
    seed = os.environ["TIDEGATE_TEST_SEED"]
    failed, methods, last = pool.submit(a_sample, seed, layout, target=layout).result()
    assert failed == []
    assert methods >= OF_A_LAKEHOUSE
    meets_every_outcome(last)


@pytest.fixture(scope="module")
def under_way(request: pytest.FixtureRequest, pool: Pool) -> dict[tuple[str, int], Any]:
    chosen = [item.callspec.params for item in request.session.items if getattr(item, "callspec", None)]
    wanted = [(p["layout"], p["of_iceberg"]) for p in chosen if "of_iceberg" in p]
    return {(layout, step): pool.submit(a_step, step, target=layout) for layout, step in wanted}


if ALL:

    @pytest.mark.parametrize("of_iceberg", range(len(STEPS)), ids=[step.name for step in STEPS])
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_any_fault_heals(under_way: dict[tuple[str, int], Any], layout: str, of_iceberg: int) -> None:
        assert under_way[layout, of_iceberg].result() == []
