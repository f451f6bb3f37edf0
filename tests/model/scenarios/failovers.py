"""Scenarios of a ledger that fails over to an older commit."""

from __future__ import annotations

from tests.model.scenarios.building import INGEST, SPARK, archive_of, end, forget, log, remember, scenario

# what the failover loses: a whole batch; a batch and a published hour; a seal and a landing
RB = dict(
    log={1: log((0, 0, 1), (0, 1))},
    procs=(("I1", ("ingest_loop", 2), 1), ("A0", archive_of(0), 1)),
    eager=SPARK,
    budget=(0, 0, 0, 0),
    heal_on=False,
)
scenario(
    "rollback-batch",
    {"no high-water mark": dict(hwm=False, alarm_ok=False)},
    ends=(1, 1),
    prefix=(INGEST, remember, end(2, 2), INGEST, forget, end(3, 2)),
    **RB,
)
scenario(
    "rollback-hour",
    {"no high-water mark": dict(hwm=False)},
    ends=(1, 1),
    alarm_ok=True,
    prefix=(INGEST, remember, end(3, 2), INGEST, archive_of(0), forget),
    **RB,
)


def write1(s):
    s["b", 1] = s["b", 1]._replace(state="WRITING", epoch=1, man=None)
    remember(s)
    s["snap2"] = None
    forget(s)


scenario("rollback-landing", {"landed directory not adopted": dict(adopt=False)}, prefix=(INGEST, write1), **RB)
