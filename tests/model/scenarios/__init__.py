"""What is explored: every scenario with the whole protocol, and with one rule taken out at a time."""

from __future__ import annotations

from tests.model.scenarios import batches, catalogue, failovers, hours, late, mirrors, replays, walks
from tests.model.scenarios.building import SCENARIOS as OF_BATCHES
from tests.model.scenarios.building import build
from tests.model.scenarios.building import run as run_batches
from tests.model.scenarios.mirrors import SCENARIOS as OF_MIRRORS
from tests.model.scenarios.mirrors import run as run_mirrors
from tests.model.source_log import SCENARIOS as OF_LOGS
from tests.model.source_log import run as run_logs

WALKS = walks.WALKS
SCENARIOS = OF_BATCHES | OF_LOGS | OF_MIRRORS


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore a scenario, whole or with the rule `flip` taken out."""
    explore = run_logs if name in OF_LOGS else run_mirrors if name in OF_MIRRORS else run_batches
    return explore(name, flip, seconds, limit)


__all__ = [
    "OF_MIRRORS",
    "SCENARIOS",
    "WALKS",
    "batches",
    "build",
    "catalogue",
    "failovers",
    "hours",
    "late",
    "mirrors",
    "replays",
    "run",
]
