"""Scenarios of late rows."""

from __future__ import annotations

from tests.model.scenarios.building import INGEST, LATE, SPARK, archive_of, end, scenario

# late policies
LATEKW = dict(
    log={1: LATE}, ends=(2, 2), eager=SPARK, prefix=(INGEST, archive_of(0), end(3, 2)), heal_replays=((0, "reopen"),)
)
scenario(
    "late-side",
    {},
    late="side",
    procs=(("I1", INGEST, 1), ("A1", archive_of(1), 0), ("R1", ("replay", 0, 1), 1), ("C", ("cleaner",), 0)),
    budget=(1, 0, 0, 0),
    **LATEKW,
)
scenario(
    "late-reroute",
    {"target looked up by the job": dict(reroute_target="write")},
    late="reroute",
    windows=(0, 1, 2),
    procs=(("I1", INGEST, 1), ("A1", archive_of(1), 1), ("R1", ("replay", 0, 1), 0)),
    budget=(1, 0, 0, 0),
    **LATEKW,
)
scenario(
    "late-reopen",
    {
        "replay looks its batches up later": dict(contrib="build"),
        "cleaner ignores reopened rows": dict(clean_landed="eager"),
        "directory named by a later read": dict(name_by_cas=False),
    },
    late="reopen",
    procs=(
        ("I1", INGEST, 0),
        ("R1", ("replay", 0, 1, "reopen"), 1),
        ("R2", ("replay", 0, 2), 0),
        ("C", ("cleaner",), 0),
    ),
    budget=(1, 0, 0, 0),
    **LATEKW,
)
