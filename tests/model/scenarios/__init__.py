"""What is explored: every scenario with the whole protocol, and with one rule taken out at a time."""

from __future__ import annotations

from tests.model import delivery_places
from tests.model.scenarios import (
    batches,
    catalogue,
    certificates,
    copies,
    days,
    deliveries,
    failovers,
    forgotten,
    hours,
    interleaved,
    landings,
    late,
    mirrors,
    places,
    recuts,
    replays,
    rounds,
    second_readings,
    servers,
    side_deliveries,
    sites,
    walks,
)
from tests.model.scenarios.building import SCENARIOS as OF_BATCHES
from tests.model.scenarios.building import build
from tests.model.scenarios.building import run as run_batches
from tests.model.scenarios.landings import SCENARIOS as OF_LANDINGS
from tests.model.scenarios.landings import run as run_landings
from tests.model.scenarios.mirrors import SCENARIOS as OF_MIRRORS
from tests.model.scenarios.mirrors import run as run_mirrors
from tests.model.scenarios.recuts import SCENARIOS as OF_RECUTS
from tests.model.scenarios.recuts import run as run_recuts
from tests.model.source_log import SCENARIOS as OF_LOGS
from tests.model.source_log import run as run_logs

WALKS = walks.WALKS
COPIES = (copies, rounds, forgotten, certificates, interleaved, places, servers)
OF_COPIES = {name: settings for module in COPIES for name, settings in module.SCENARIOS.items()}
OF_DAYS = days.SCENARIOS
OF_DELIVERIES = deliveries.SCENARIOS | delivery_places.SCENARIOS | side_deliveries.SCENARIOS
OF_SITES, OF_READINGS = sites.SCENARIOS, second_readings.SCENARIOS
SCENARIOS = OF_BATCHES | OF_LOGS | OF_MIRRORS | OF_RECUTS | OF_LANDINGS | OF_COPIES | OF_DAYS | OF_DELIVERIES | OF_SITES
SCENARIOS |= OF_READINGS


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore a scenario, whole or with the rule `flip` taken out."""
    own = ((run_logs, OF_LOGS), (run_mirrors, OF_MIRRORS), (run_recuts, OF_RECUTS), (run_landings, OF_LANDINGS))
    others = (*COPIES, days, deliveries, delivery_places, second_readings, side_deliveries, sites)
    for explore, of in (*own, *((module.run, module.SCENARIOS) for module in others)):
        if name in of:
            return explore(name, flip, seconds, limit)
    return run_batches(name, flip, seconds, limit)


__all__ = [
    "OF_COPIES",
    "OF_DAYS",
    "OF_DELIVERIES",
    "OF_MIRRORS",
    "OF_READINGS",
    "OF_RECUTS",
    "OF_SITES",
    "SCENARIOS",
    "WALKS",
    "batches",
    "build",
    "catalogue",
    "certificates",
    "copies",
    "days",
    "failovers",
    "hours",
    "interleaved",
    "landings",
    "late",
    "mirrors",
    "recuts",
    "replays",
    "rounds",
    "run",
]
