"""What is explored: every scenario with the whole protocol, and with one rule taken out at a time."""

from __future__ import annotations

from tests.model.scenarios import batches, catalogue, failovers, hours, late, replays, walks
from tests.model.scenarios.building import SCENARIOS, build, run

WALKS = walks.WALKS
__all__ = ["SCENARIOS", "WALKS", "batches", "build", "catalogue", "failovers", "hours", "late", "replays", "run"]
