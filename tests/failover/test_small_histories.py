"""Every small history of two logs, decided by the product's own rule: what is accepted lands once.

The histories, and what is true of them, are the model's (`tests/model/failover_log.py`)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.failover.planted import FAILOVER_BUGS
from tests.model import failover_log
from tests.model.scenarios.sites import LOGS
from tests.mutants.planting import Planted
from tidegate.core.failover.crossing import Walk
from tidegate.core.source.coordinates import Coordinate

BY_COORDINATES = [name for name, (settings, _) in LOGS.items() if settings.get("rule") is None]


def crossing(cfg: Any, log: list[failover_log.Entry], base: int, mark: int, landed: int) -> Any:
    """`failover_log.crossing`, by the walk."""
    walk = Walk(0, "t", landed, base, mark)
    there = [entry for entry in log if base <= entry.offset < mark]
    for entry in there:
        values = [] if entry.coordinate is None else [Coordinate("t", 0, *entry.coordinate).text()]
        if not walk.see(entry.offset, values):
            break
    found = walk.end()
    if found.refusals:
        return None
    readable = [e.offset for e in there if not any(e.offset in one for one in found.stretches)]
    assert len(readable) == found.to_read
    return readable, found.crossed or 0


@pytest.mark.parametrize("name", BY_COORDINATES)
def test_what_is_accepted_lands_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = failover_log.run(**LOGS[name][0])
    monkeypatch.setattr(failover_log, "crossing", crossing)
    mine = failover_log.run(**LOGS[name][0])
    assert (mine.verdict, mine.what) == ("ok", "")
    assert (mine.states, mine.trans) == (whole.states, whole.trans)  # neither stricter nor more lenient


@pytest.mark.parametrize("bug", ["a hole is read over", "repeats are read"])
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover_log, "crossing", crossing)
    with Planted(FAILOVER_BUGS[bug]):
        try:
            found = failover_log.run(**LOGS["failover-there"][0])
        except AssertionError:
            return  # what is said to be read is not what is
    assert found.verdict == "VIOLATION"
