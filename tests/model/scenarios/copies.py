"""A full copy and its changes, by ranges (`full_copy.py`): rules S1 to S9 and S11."""

from __future__ import annotations

from tests.model.full_copy import build

SOURCE, EVENTS = ("S", ("source",), 0), ("E", ("applier", 0), 0)
ALL = ("a", "b", "c")
# a row is changed, another deleted, the first gets the key of a third, the deleted one comes back
MOVES = (("u", "a", "1"), ("d", "b"), ("mv", "a", "c", "3"), ("u", "b", "4"))
TWO_CHUNKS = ("R", ("reads", (1, ("a", "b")), (2, ("c",))), 0)
ONE_CHUNK = ("R", ("reads", (1, ALL)), 0)
TWICE = ("R", ("repair",), 0)
FULL = {"script": MOVES, "procs": (SOURCE, EVENTS, TWO_CHUNKS), "absent": "none"}
CRASH = {"procs": (SOURCE, EVENTS, (*TWO_CHUNKS[:2], 1)), "budget": (1, 0, 0, 0)}
PARTS = {**FULL, "parts": 2, "procs": (SOURCE, ("E0", ("applier", 0), 0), ("E1", ("applier", 1), 0), ONE_CHUNK)}
SINCE = {"claim": "since"}
# rows that vanish without an event, found by a second read
GHOST = {"script": (("u", "a", "1"), ("ghost", "b"), ("mv", "a", "c", "2")), "repaired": frozenset("b")}
REPAIR = {**GHOST, "procs": (SOURCE, EVENTS, TWICE)}
# b is made by an event that is applied late, and vanishes before any read
LATE_EVENT = {**REPAIR, "script": (("u", "b", "1"), ("ghost", "b"), ("u", "a", "2")), "base": (("a", "0"),)}
IDLE = {**REPAIR, "script": (("u", "a", "1"), ("ghost", "b"))}
LATE = {
    **{"script": (("ghost", "b"), ("u", "a", "1")), "repaired": frozenset("b"), "after": 1},
    "procs": (SOURCE, EVENTS, ("Z", ("read", 1, ALL), 0), ("R", ("later",), 0)),
}
PURGE = {
    **{"script": (("u", "a", "1"), ("d", "b"), ("u", "a", "3")), "absent": "none"},
    "procs": (SOURCE, EVENTS, ONE_CHUNK, ("P", ("purger", 3), 0)),
}
# a row moves from shard 1, positions about 100, to shard 2, positions about 5
SHARDS = ({1: (100, "k", True, None), 2: (5, "k", False, "moved")}, ((1, (90, "k", False, "1")),), ("moved",))

SCENARIOS = {
    "copy-changes": (
        FULL,
        {
            "no HIGH in the certificate (S9)": {"high": False},
            "chunk rows carry HIGH (S1)": {"chunk_at": "high"},
            "P is the largest position seen, of a torn transaction (S9)": {"p_of": "seen"},
            "told while half of the next transaction is applied (S9)": {"exact": False},
            "the topic begins after LOW, nobody looks (S4)": {"start": 2, "start_check": False},
            "a key change sends no delete (S3)": {"move_deletes": False},
            "an event carries its change's position, not its commit's (S3)": {
                "script": (("u", "b", "1"), ("d", "b"), ("u", "a", "3", 1))
            },
            "the select does not see all up to LOW (S2)": {"lag": True},
            "chunks are told beside the table, afterwards (S8)": {
                "told_by": "ledger",
                "procs": (SOURCE, EVENTS, ("R", ("reads", (1, ("a", "b")), (2, ("c",)), (3, ("a", "b"))), 0)),
            },
        },
    ),
    "copy-crash": ({**FULL, **CRASH}, {"no HIGH in the certificate (S9)": {"high": False}}),
    # (a row moves into what was read)
    "copy-last-chunk-first": (
        {**FULL, "procs": (SOURCE, EVENTS, ("R", ("reads", (1, ("c",)), (2, ("a", "b"))), 0))},
        {},
    ),
    "copy-start": (
        {**FULL, "start": 2},
        {"the topic begins after LOW, nobody looks (S4)": {"start_check": False}},
    ),
    # without ghosts neither the fence nor the order of reads is needed
    "copy-two-attempts": ({**FULL, **CRASH, "fenced": False, "order": False}, {}),
    # a connector or an applier that begins again brings every event once more
    "copy-events-again": (
        {**FULL, "procs": (SOURCE, (*EVENTS[:2], 1), ONE_CHUNK), "budget": (1, 0, 0, 0), "no_crash": ("source",)},
        {},
    ),
    "copy-torn": ({**FULL, "torn": True, "procs": (SOURCE, EVENTS, ONE_CHUNK)}, {}),
    "copy-partitions": (
        PARTS,
        {
            "told while another partition is ahead of P (S9)": {"exact": False},
            "P is the greatest over partitions (S9)": {"p_parts": "max"},
            "no heartbeats": {"heartbeats": False},
        },
    ),
    "copy-nothing-older": (
        {**FULL, **SINCE},
        {"the topic begins after LOW, nobody looks (S4)": {"start": 2, "start_check": False}},
    ),
    "copy-nothing-older-partitions": (
        {**PARTS, **SINCE},
        {"P is the greatest over partitions (S9')": {"p_parts": "max"}},
    ),
    "copy-idle-table": (
        {**FULL, "script": (("u", "a", "1"), ("other",))},
        {"HIGH is ahead of the last event, no heartbeats": {"heartbeats": False}},
    ),
    "copy-repair": (
        REPAIR,
        {
            "absent rows go whatever their position (S5)": {"absent": "any"},
            "tombstones carry HIGH (S5)": {"chunk_at": "high"},
        },
    ),
    "copy-repair-comes-back": ({**REPAIR, "script": (*GHOST["script"], ("u", "b", "3"))}, {}),
    "copy-repair-late-event": (
        LATE_EVENT,
        {"events up to LOW come after the absence was noticed (S5)": {"absent_after": "whenever"}},
    ),
    "copy-repair-torn": ({**REPAIR, "torn": True}, {}),
    # an idle source gives both reads the same LOW
    "copy-repair-idle": (IDLE, {"the position alone, without the number of the read (S1)": {"pair": False}}),
    "copy-repair-late-chunk": (LATE, {"an older chunk comes after the repair (S6)": {"order": False}}),
    "copy-purge": (
        PURGE,
        {
            "a chunk below the purge is taken (S7)": {"purge_check": "none"},
            "its rows are stale one by one (S7)": {"purge_check": "row", "base": (("a", "0"), ("b", "0"), ("c", "0"))},
        },
    ),
    "copy-shards": (
        {"shards": SHARDS, "procs": (("1", ("shard", 1), 0), ("2", ("shard", 2), 0))},
        {"one key, positions of two logs compared (S11)": {"identity": "key"}},
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
