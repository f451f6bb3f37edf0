"""What is explored: every scenario with the whole protocol, and with one rule taken out at a time."""

from __future__ import annotations

from tests.model.scenarios import batches, catalogue, failovers, hours, late, replays, walks
from tests.model.scenarios.building import SCENARIOS as OF_BATCHES
from tests.model.scenarios.building import build
from tests.model.scenarios.building import run as run_batches
from tests.model.source_log import SCENARIOS as OF_LOGS
from tests.model.source_log import run as run_logs

WALKS = walks.WALKS
SCENARIOS = OF_BATCHES | OF_LOGS


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore a scenario, whole or with the rule `flip` taken out."""
    return (run_logs if name in OF_LOGS else run_batches)(name, flip, seconds, limit)


__all__ = ["SCENARIOS", "WALKS", "batches", "build", "catalogue", "failovers", "hours", "late", "replays", "run"]
