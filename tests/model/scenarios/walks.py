"""Everything at once: random walks only, the breadth is too great."""

from __future__ import annotations

from tests.model.scenarios.building import INGEST_2, archive_of, log

ALL = dict(
    log={1: log((0, 1, 0), (0, 1))},
    ends=(2, 2),
    late="reopen",
    env=("produce", "dup_task"),
    heal_replays=((0, "reopen"),),
    procs=(
        ("I1", ("ingest_loop", 2), 1),
        ("I2", INGEST_2, 1),
        ("A0", archive_of(0), 1),
        ("A0b", archive_of(0, 2), 0),
        ("A1", archive_of(1), 1),
        ("R1", ("replay", 0, 1, "reopen"), 2),
        ("R2", ("replay", 0, 2), 2),
        ("C", ("cleaner",), 1),
        ("U", ("audit", 0), 1),
    ),
    budget=(2, 1, 1, 2),
)
WALKS = {
    "all-reopen": ALL,
    "all-side": {**ALL, "late": "side"},
    "all-merge": {
        **ALL,
        "late": "reroute",
        "mode": "merge",
        "windows": (0, 1, 2),
        "env": ("produce", "dup_task", "dup_merge"),
    },
}
