"""Scenarios of hours: closing against planning, two archives of one hour, the audit beside them."""

from __future__ import annotations

from tests.model.scenarios.building import INGEST, SPARK, TWO, archive_of, log, scenario

# seal against plan
scenario(
    "seal-vs-plan",
    {
        "sensor, then a CAS that does not look": dict(seal="naive"),
        "floors read outside the plan's transaction": dict(plan="loose"),
        "seal=tx (safe, starves)": dict(seal="tx"),
    },
    log={1: log((0, 1, 0), (0, 1, 0))},
    ends=(2, 2),
    env=("produce",),
    eager=SPARK,
    procs=(("I1", ("ingest_loop", 2), 0), ("A0", archive_of(0), 1)),
    budget=(1, 0, 0, 1),
)

# two archive runs of one hour
scenario(
    "two-archives-move",
    {"no assembly epoch": dict(asm_epoch=False), "no re-read before an alarm": dict(reread=False)},
    log={1: log((0, 1), (0, 1))},
    prefix=(INGEST,),
    windows=(0,),
    procs=(("A0", archive_of(0), 1), ("A0b", archive_of(0, 2), 0)),
    budget=(1, 0, 0, 0),
)
scenario(
    "two-archives-lost",
    {},
    log={1: log((0, 1), (0, 1))},
    prefix=(INGEST,),
    windows=(0,),
    procs=(("A0", archive_of(0), 1), ("A0b", archive_of(0, 2), 0)),
    budget=(0, 1, 0, 0),
)
scenario(
    "two-archives-merge",
    {
        "no assembly epoch, jobs write where the rename takes": dict(
            asm_epoch=False, clean_dir=False, heal_on=False, env=()
        ),
        "jobs write where the rename takes": dict(clean_dir=False, heal_on=False),
        "no assembly epoch": dict(asm_epoch=False),
    },
    log={1: log((0, 1), (1,))},
    prefix=(INGEST,),
    windows=(0,),
    mode="merge",
    procs=(("A0", archive_of(0), 1), ("A0b", archive_of(0, 2), 0)),
    env=("dup_merge",),
    budget=(1, 0, 0, 1),
)

# audit during moves
scenario(
    "audit",
    {"no re-read before an alarm": dict(reread=False)},
    log={1: TWO},
    prefix=(INGEST,),
    windows=(0,),
    procs=(("A0", archive_of(0), 1), ("U", ("audit", 0), 0)),
    budget=(1, 0, 0, 0),
)
