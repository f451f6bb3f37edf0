"""Keyed tables that are cut into another number of buckets: beside merges, a purge, a host with the old YAML; M1
(`recut.py`)."""

from __future__ import annotations

from tests.model.recut import build
from tests.model.scenarios.mirrors import gone, up

# of two buckets k and n share one, of four none; k is deleted, n comes late
HASHES = {"k": 0, "m": 1, "n": 2}
CHANGES = {1: (up("k", 1, "a"),), 2: (gone("k", 2), up("n", 3, "x")), 3: (up("n", 4, "y"), up("m", 5, "z"))}
FEW = {1: (up("k", 1, "a"), up("n", 2, "x")), 2: (gone("k", 3), up("m", 4, "z"))}
TABLE = {"batches": CHANGES, "hashes": HASHES, "promise": {0: 1, 1: 2, 2: 4, 3: 5}}
M1 = {
    "a merge takes no notice of a cut since it read the table (M1)": {"over": "cuts"},
    "a cut takes no notice of a merge since it read the table (M1)": {"over": "merges"},
}

SCENARIOS = {
    # the new YAML's host cuts, while a task of the old one merges, dies and cuts back
    "mirror-recut": (
        TABLE | {"procs": (("o", ("apply", 1, 2, 2), 1), ("t", ("apply", 1, 3, 4), 0)), "budget": (1, 1, 1, 0)},
        {
            **M1,
            "the number of buckets is said after the cut": {"said": "after"},
            "a merge goes by the number of an earlier look": {"merges_by": "look"},
        },
    ),
    # hosts that want other numbers than the table has, each another: it comes to rest all the same
    "mirror-recut-hosts": (
        TABLE
        | {"batches": FEW, "made": 4, "budget": (1, 1, 0, 0)}
        | {"procs": (("t", ("apply", 1, 2, 1), 0), ("u", ("apply", 1, 2, 2), 0))},
        {**M1, "a cut goes by the number of an earlier look": {"cut_of": "look"}},
    ),
    "mirror-recut-purge": (
        TABLE
        | {"procs": (("o", ("apply", 1, 2, 2), 0), ("t", ("apply", 3, 3, 4), 0), ("p", ("purge", 3), 0))}
        | {"env": ("restore",), "budget": (0, 0, 0, 1), "attempts": 3},
        {**M1, "the number of buckets is said after the cut": {"said": "after"}},
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
