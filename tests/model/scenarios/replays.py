"""Scenarios of replays: another spec, and after retention."""

from __future__ import annotations

from tests.model.rules import Cfg
from tests.model.scenarios.building import INGEST, PUB0, TWO, archive_of, log, scenario, spec2

# replay with another spec, after retention
NEW = dict(log={1: log((0, (0, "a", 1), 1), (0, 1))}, heal_windows=())
scenario(
    "replay-new-spec",
    {
        "today's routing, no totals": dict(pin_route=False, replay_check=False),
        "today's routing, totals checked": dict(pin_route=False),
    },
    prefix=(*PUB0, archive_of(1), spec2),
    heal_replays=((0, "replay"), (1, "replay")),
    procs=(("R1", ("replay", 0, 1), 1), ("R2", ("replay", 1, 2), 1)),
    budget=(1, 0, 0, 0),
    **NEW,
)
scenario(
    "replay-dirty",
    {"today's routing, no totals": dict(pin_route=False, replay_check=False)},
    log={1: log((0, ("dirty", "a", 0), 1), (0, 1))},
    prefix=(*PUB0, spec2),
    heal_windows=(),
    heal_replays=((0, "replay"),),
    procs=(("R1", ("replay", 0, 1), 1),),
    budget=(1, 0, 0, 0),
)
scenario(
    "replay-retention",
    {"no totals": dict(replay_check=False)},
    log={1: TWO},
    prefix=PUB0,
    heal_windows=(),
    heal_replays=((0, "replay"),),
    env=("retention",),
    procs=(("R1", ("replay", 0, 1), 1),),
    budget=(1, 0, 0, 1),
)
scenario(
    "open-batch-new-spec",
    {"the job uses today's spec": dict(pin_route=False)},
    log={1: log((0, (0, "a", 1), 1), (0, 1))},
    eager=Cfg.eager,
    env=("new_spec",),
    procs=(("I1", INGEST, 1), ("A0", archive_of(0), 0)),
    budget=(1, 0, 0, 1),
)
