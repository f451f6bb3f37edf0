"""Scenarios of second readings of a table without a log."""

from __future__ import annotations

from tests.model import second_reading
from tests.model.engine import Model

READS, REPLAYS, BACK = ("S", ("reread",), 1), ("R", ("replay",), 0), ("B", ("back",), 0)
CLEANER, REDRIVE = ("C", ("cleaner",), 0), ("D", ("redrive",), 0)
SCENARIOS = {
    "second-reading": (
        {"procs": (READS, ("S2", ("reread",), 0), REPLAYS), "budget": (2, 1, 0, 0), "most": 3},
        {
            "chunks of a try that died are taken over": {"whole": False},
            "a replay goes on with a second reading that died": {"own_kind": False},
            "a rebuild owes what the first reading had": {"owed_by_reading": False},
        },
    ),
    "second-reading-back": (
        {"procs": (READS, BACK, REPLAYS, CLEANER), "budget": (1, 0, 0, 0)},
        {
            "rows that a rollback brought back are of the reading before": {"by_origin": False},
            "files go once a newer generation is built": {"keep_current": False},
            "a rollback does not look whether the files are there": {"look_at_files": False},
        },
    ),
    "second-reading-dirty": (
        {"procs": (READS, REDRIVE, REPLAYS), "dirty": True},
        {"dirty rows of the first reading do not refuse it": {"refuse_dirty": False}},
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore a scenario, whole or with the rule `flip` taken out."""
    of = second_reading
    settings, flips = SCENARIOS[name]
    cfg = of.Cfg(**settings, **(flips[flip] if flip else {}))
    return Model(cfg, of.PROGRAMS, of.OPS, of.UNSURE, (), of.invariant, of.heal).bfs(seconds=seconds, limit=limit)
