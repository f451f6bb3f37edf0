"""A full copy in rounds (`copy_rounds.py`): rules S1, S5 to S8 as the number of a round and a sweep keep them."""

from __future__ import annotations

from tests.model.copy_rounds import build

SOURCE, EVENTS = ("S", ("source",), 0), ("E", ("applier", 0), 0)
ROUND, BACKWARDS = ("R", ("copier", 2), 0), ("R", ("copier", 2, 1, 0), 0)
GHOST = {"script": (("u", "a", "1"), ("ghost", "b"), ("mv", "a", "c", "2")), "repaired": frozenset("b")}
MOVES = {"script": (("u", "a", "1"), ("mv", "a", "c", "2"), ("mv", "c", "a", "3"))}
# b is made by an event that is applied late, and vanishes before the round begins
LATE_EVENT = {"script": (("u", "b", "1"), ("ghost", "b"), ("u", "a", "2")), "repaired": frozenset("b")} | {
    "base": (("a", "0"),)
}
VANISHED = {"script": (("ghost", "b"), ("u", "a", "1")), "repaired": frozenset("b")}
FIRST = {**VANISHED, "copied": False, "ranges": (("a", "b", "c"),)}
R1, R2, GIVER = ("R", ("copier", 1), 0), ("T", ("copier", 2), 0), ("G", ("giver_up", 1), 0)

SCENARIOS = {
    "rounds-ghost": (
        {**GHOST, "procs": (SOURCE, EVENTS, ROUND)},
        {
            "rows go whatever their position (S5)": {"sweep_rows": "any"},
            "swept by the greatest LOW (S5)": {"sweep_at": "greatest"},
            "swept by HIGH (S5)": {"sweep_at": "high"},
            "swept by LOW of the first chunk, which was read last (S5)": {
                "sweep_at": "first",
                "procs": (SOURCE, EVENTS, BACKWARDS),
            },
            "swept once one chunk stands in the table (S5)": {
                "sweep_after": "any",
                "procs": (SOURCE, EVENTS, ROUND, ("W", ("sweeper", 2), 0)),
            },
            "swept once all chunks are accepted (S5)": {
                "sweep_after": "accepted",
                "procs": (SOURCE, EVENTS, ROUND, ("W", ("sweeper", 2), 0)),
            },
        },
    ),
    "rounds-crash": (
        {**GHOST, "procs": (SOURCE, EVENTS, (*ROUND[:2], 1)), "budget": (1, 0, 0, 0)},
        {"swept by the greatest LOW (S5)": {"sweep_at": "greatest"}},
    ),
    "rounds-moves": ({**MOVES, "procs": (SOURCE, EVENTS, ROUND)}, {}),
    "rounds-moves-backwards": ({**MOVES, "procs": (SOURCE, EVENTS, BACKWARDS)}, {}),
    "rounds-moves-partitions": (
        {**MOVES, "parts": 2, "procs": (SOURCE, ("E0", ("applier", 0), 0), ("E1", ("applier", 1), 0), ROUND)},
        {"a key change sends no delete (S3)": {"move_deletes": False}},
    ),
    "rounds-late-event": (
        {**LATE_EVENT, "procs": (SOURCE, EVENTS, ROUND)},
        {"the sweep leaves no marker (S5)": {"marker": False}},
    ),
    "rounds-zombie": (
        {**FIRST, "procs": (SOURCE, EVENTS, R1, ("Z", ("copier", 1), 0))},
        {"a zombie's second attempt is merged after the sweep": {"fenced": False}},
    ),
    # no tombstone stands where the mirror never had the row
    "rounds-given-up": (
        {**FIRST, "procs": (SOURCE, EVENTS, R1, GIVER, R2)},
        {
            "a chunk of an older round comes after the sweep (S6)": {"order": False},
            "a round begins before the one before is over": {"one_round": False},
        },
    ),
    "rounds-given-up-half": (
        {**FIRST, "ranges": (("a", "b"), ("c",)), "procs": (SOURCE, EVENTS, R1, GIVER, R2)},
        {
            "swept by a round that is not the newest": {"sweep_newest": False},
        },
    ),
    "rounds-idle": (
        {**VANISHED, "procs": (SOURCE, EVENTS, ROUND)},
        {"the position alone, without the round (S1)": {"pair": False}},
    ),
    # LOW is the newest event that has landed, and a connector that begins again sends an older one
    "rounds-low-falls": (
        {
            **{**GHOST, "script": (("u", "a", "1"), ("ghost", "b"), ("u", "a", "2"))},
            **{"behind": ((2, 1),), "copied": False, "ranges": (("a",), ("b", "c"))},
            "procs": (SOURCE, EVENTS, ("R", ("copiers", 1, 2), 0)),
        },
        {"LOW is below that of an earlier round (S5)": {"rises": False}},
    ),
    "rounds-exactly": (
        {**GHOST, "claim": "exactly", "procs": (SOURCE, EVENTS, ROUND)},
        {
            "no HIGH in the certificate (S9)": {"high": False},
            "swept by the greatest LOW (S5)": {"sweep_at": "greatest"},
        },
    ),
    "rounds-first": (
        {**GHOST, "copied": False, "procs": (SOURCE, EVENTS, ("R", ("copiers", 1, 2), 0))},
        {},
    ),
    # a is read again, and c goes without an event: nobody has asked for c
    "rounds-part": (
        {
            **{
                "script": (("ghost", "a"), ("u", "a", "1"), ("u", "c", "2"), ("ghost", "a")),
                "repaired": frozenset("a"),
            },
            **{"part": {2: ("a",)}, "procs": (SOURCE, EVENTS, ROUND)},
        },
        {
            "the sweep takes keys of others (S5)": {"sweep_part": False},
        },
    ),
    "rounds-part-late-event": (
        {**LATE_EVENT, "part": {2: ("b",)}, "procs": (SOURCE, EVENTS, ROUND)},
        {
            "the sweep of a part leaves no marker (S5)": {"mark_part": "none"},
            "the marker of a part is one of all keys (S5)": {
                "mark_part": "all",
                "script": (("u", "c", "1"), ("u", "a", "2")),
                "repaired": frozenset(),
            },
        },
    ),
    "rounds-part-first": (
        {
            **{"script": (("u", "a", "1"), ("u", "c", "2")), "copied": False, "part": {1: ("a",)}},
            "procs": (SOURCE, EVENTS, ("R", ("copiers", 1, 2), 0)),
        },
        {"the table is whole by a part of it (S9)": {"whole_by": "part"}},
    ),
    "rounds-partitions": (
        {**GHOST, "parts": 2, "procs": (SOURCE, ("E0", ("applier", 0), 0), ("E1", ("applier", 1), 0), ROUND)},
        {"swept by the greatest LOW (S5)": {"sweep_at": "greatest"}},
    ),
    "rounds-purge": (
        {
            **{"script": (("u", "a", "1"), ("d", "b"), ("u", "a", "3"))},
            "procs": (SOURCE, EVENTS, ("R", ("copiers", 2, 3), 0), ("P", ("purger", 3), 0)),
        },
        {"a chunk below the purge is taken (S7)": {"purge_check": False}},
    ),
    "rounds-purge-ghost": (
        {
            **{"script": (("d", "c"), ("ghost", "b"), ("u", "a", "2"), ("u", "c", "3")), "repaired": frozenset("b")},
            **{"base": (("a", "0"), ("b", "0"), ("c", "0")), "ranges": (("a", "b", "c"),)},
            "procs": (SOURCE, EVENTS, ("R", ("copiers", 2, 3), 0), ("P", ("purger", 3), 0)),
        },
        {},
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
