"""Scenarios of batches: two tasks on one chain, jobs that outlive their task, recreated topics."""

from __future__ import annotations

from tests.model.scenarios.building import INGEST, INGEST_2, SPARK, TWO, archive_of, log, scenario

# two workers on one batch chain (adopted task and its retry), crash, lost reply
scenario(
    "two-ingests",
    {
        "loose plan": dict(
            plan="loose",
            cap=9,
            procs=(("I1", INGEST, 0), ("I2", INGEST_2, 0)),
            budget=(0, 0, 0, 2),
            log={1: TWO},
            heal_on=False,
            ends=(1, 1),
            env=("produce",),
        ),
        "BUG seal ignores the epoch": dict(bug="seal-epoch"),
        "destination looked at first": dict(stat="dst_first"),
        "lost seal comparison stops": dict(seal_own=False),
    },
    log={1: TWO},
    cap=1,
    procs=(("I1", INGEST, 1), ("I2", INGEST_2, 1)),
    budget=(1, 1, 0, 0),
)
scenario(
    "zombie-job",
    {
        "BUG cleaner takes the current attempt": dict(bug="clean-current"),
        "BUG LANDED before the rename": dict(bug="land-early"),
    },
    log={1: TWO},
    procs=(("I1", INGEST, 2), ("A0", archive_of(0), 0), ("C", ("cleaner",), 0)),
    budget=(2, 0, 0, 0),
)
scenario(
    "in-flight-rename",
    {"no re-read before an alarm": dict(reread=False)},
    log={1: TWO},
    eager=SPARK,
    procs=(("I1", INGEST, 1), ("I2", INGEST_2, 0), ("C", ("cleaner",), 0), ("A0", archive_of(0), 0)),
    budget=(0, 0, 1, 0),
)

# duplicate Spark tasks against the rename
scenario(
    "duplicate-task",
    {"listing must equal the manifest": dict(match="exact")},
    log={1: log((0, 1), ())},
    eager=SPARK,
    procs=(("I1", INGEST, 1), ("I2", INGEST_2, 0), ("A0", archive_of(0), 0), ("C", ("cleaner",), 0)),
    env=("dup_task",),
    budget=(1, 0, 0, 1),
)

# topic recreated
scenario(
    "topic-recreated",
    {"id compared at plan only": dict(tid=("plan",))},
    log={1: TWO, 2: log((0, 1), (0, 1), t=2)},
    env=("recreate",),
    procs=(("I1", INGEST, 1),),
    budget=(1, 0, 0, 1),
    heal_on=False,
)

# empty hours and batches
scenario(
    "empty",
    {},
    log={1: log((1,), ())},
    eager=SPARK,
    windows=(0, 1),
    procs=(("I1", ("ingest_loop", 2), 1), ("A0", archive_of(0), 1), ("A1", archive_of(1), 0)),
    budget=(1, 0, 0, 0),
)
