"""Keyed tables: appliers beside zombies, repeats, purges, a restored table, strangers; rules M1 to M7 (`mirror.py`)."""

from __future__ import annotations

from tests.model.mirror import Event, build


def up(key, position, value, seen=None):
    return Event(key, position, "u", value, position if seen is None else seen)


def gone(key, position, seen=None):
    return Event(key, position, "d", None, position if seen is None else seen)


# k is made, deleted and made again; an older event of m comes late
CHANGES = {
    1: (up("k", 1, "a"), up("m", 2, "x")),
    2: (gone("k", 3), up("m", 1, "w")),
    3: (up("k", 4, "b"), up("n", 5, "y")),
}
# a connector that starts again sends the first event of k once more, after k was deleted
REPEATED = {
    1: (up("k", 1, "a"),),
    2: (gone("k", 2), up("m", 3, "x")),
    3: (up("k", 1, "a", seen=9), up("n", 4, "y")),
}
PROMISED = {0: 1, 1: 2, 2: 4, 3: 5}
WITH_Q = {**REPEATED, 1: (up("k", 1, "a"), up("q", 2, "q"))}
# (keep 2) q lags: it becomes readable at 3, when the position of m was readable since 1; z is as old as it may be
LAGGING = {
    1: (up("k", 1, "a", 0), gone("k", 2, 1), up("m", 6, "x", 1)),
    2: (up("q", 3, "q", 3),),
    3: (up("z", 6, "z", 5), up("k", 7, "b", 5)),
}
SAME_POSITION = {1: (up("k", 1, "a", 1),), 2: (up("k", 1, "b", 2),), 3: (up("k", 1, "a", 3),)}
EQUAL_KEYS = {1: (up("k", 1, "a"),), 2: (up("k", 2, "b"),), 3: (gone("k", 2),)}
ZOMBIES = (("z", ("apply", 1, 1), 0), ("t", ("apply", 1, 3), 0), ("u", ("apply", 2, 2), 0))
RETRIED = (("z", ("apply", 1, 1), 1), ("t", ("apply", 1, 3), 1), ("u", ("apply", 2, 3), 0))
PURGING = (("z", ("apply", 1, 1), 0), ("t", ("apply", 1, 2), 0), ("p", ("purge", 3), 0), ("u", ("apply", 3, 3), 0))

SCENARIOS = {
    # no `upto`: merges are repeated, and come in any order
    "mirror-any-order": (
        {"batches": CHANGES, "upto": False, "any_order": True, "procs": ZOMBIES, "budget": (0, 0, 1, 0), "mark": "any"}
        | {"told_by": "nobody"},
        {
            "snapshot isolation: only removed files are looked at (M1)": {"read": "files"},
            "a library's rebase: nothing is looked at (M1)": {"read": "rebase"},
            "the newcomer wins (M2)": {
                "order": "last",
                "batches": {**CHANGES, 2: (up("k", 3, "b"),), 3: (gone("k", 3),)},
            },
        },
    ),
    "mirror-appliers": (
        {"batches": CHANGES, "procs": RETRIED, "budget": (1, 1, 0, 0)},
        {
            "no upto: what is applied again counts again (M3)": {"upto": False},
            "a range may begin above the next batch (M3)": {
                "gapless": False,
                "procs": (("t", ("apply", 1, 1), 0), ("u", ("apply", 3, 3), 0)),
            },
            "readers are told by the ledger, whose mark jumps (M4)": {
                "told_by": "ledger",
                "mark": "any",
                "upto": False,
                "any_order": True,
                "procs": (("t", ("apply", 1, 1), 0), ("u", ("apply", 3, 3), 0)),
            },
        },
    ),
    "mirror-restored": (
        {
            "batches": WITH_Q,
            "promise": PROMISED,
            "env": ("restore",),
            "procs": (("t", ("apply", 1, 2), 0), ("p", ("purge", 3), 0)),
            "budget": (1, 0, 0, 1),
        },
        {
            "readers are told by the ledger (M4)": {"told_by": "ledger"},
            "the floor goes by the ledger's mark (M6)": {"floor": "ledger"},
        },
    ),
    "mirror-purge": (
        {"batches": REPEATED, "promise": PROMISED, "landed": 2, "env": ("land",), "procs": PURGING}
        | {"budget": (0, 0, 1, 1)},
        {
            "no marker (M5)": {"marker": "none"},
            "the marker is in the ledger, after the purge (M5)": {"marker": "ledger"},
            "the purge has no floor (M6)": {"floor": "none", "batches": WITH_Q},
            "the floor is that all that landed is applied (M6)": {
                "floor": "landed",
                "batches": {1: (up("k", 1, "a"),), 2: (gone("k", 3),), 3: (up("n", 2, "y"),)},
                "procs": (("t", ("apply", 1, 2), 0), ("p", ("purge", 4), 0), ("u", ("apply", 3, 3), 0)),
            },
        },
    ),
    "mirror-horizon": (
        {"batches": LAGGING, "keep": 2, "looked": {1: 1, 2: 3, 3: 5}, "landed": 0, "floor": "horizon"}
        | {"env": ("tick",), "budget": (0, 0, 0, 6)}
        | {"procs": (("t", ("apply", 1, 1), 0), ("u", ("apply", 1, 2), 0), ("p", ("purge", 0), 0))},
        {
            "a batch that has landed says what is still to come, not a merged one (M6)": {"asked_of": "landed"},
            "nobody says what is still to come (M6)": {"asked_of": "nobody"},
            "a batch is settled as soon as tombstones are old (M6)": {"settled": 1},
            "H is the greatest position that is merged: too high (M6)": {"settled": 0},
        },
    ),
    "mirror-strangers": (
        {"batches": REPEATED, "env": ("compact", "foreign_purge"), "budget": (0, 1, 0, 2)}
        | {"procs": (("t", ("apply", 1, 2), 1), ("u", ("apply", 1, 3), 0))},
        {
            "the balance is not looked at": {"balance": False},
            "a library's rebase: nothing is looked at (M1)": {"read": "rebase", "balance": False},
        },
    ),
    # k is changed to a key that is written otherwise and equal: a delete and an insert at one position, each in a lane
    "mirror-equal-keys": (
        {"batches": EQUAL_KEYS, "wanted": {"k": "b"}, "upto": False, "any_order": True, "mark": "any"}
        | {"told_by": "nobody", "budget": (1, 1, 1, 0)}
        | {"procs": (("t", ("apply", 1, 1), 0), ("u", ("apply", 2, 2), 0), ("v", ("apply", 3, 3), 0))},
        {"the delete of a position stands (M2)": {"order": "delete"}},
    ),
    # positions that are no positions, such as time stamps
    "mirror-equal-positions": (
        {
            "batches": SAME_POSITION,
            "upto": False,
            "any_order": True,
            "mark": "any",
            "told_by": "nobody",
            "budget": (1, 1, 1, 0),
        }
        | {"procs": (("t", ("apply", 1, 1), 0), ("u", ("apply", 2, 2), 0), ("v", ("apply", 3, 3), 0))},
        {
            "conflicts are taken, the newcomer wins (M2, M7)": {"conflicts": "taken", "order": "last"},
            "conflicts are taken, the row that is there stays (M2, M7)": {"conflicts": "taken", "order": "first"},
            "conflicts are taken by content: the older stays (M7)": {
                "conflicts": "taken",
                "batches": {1: (up("k", 1, "b", 1),), 2: (up("k", 1, "a", 2),), 3: ()},
                "wanted": {"k": "a"},
            },
            "conflicts are taken by their order in the topic (M7)": {
                "conflicts": "taken",
                "order": "topic",
                "batches": {1: (up("k", 1, "a", 1), up("k", 1, "b", 2)), 2: (up("k", 1, "a", 3),), 3: ()},
                "wanted": {"k": "b"},
            },
        },
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
