"""Rounds of copies that are forgotten, and tables that are taken back (`copy_forgotten.py`)."""

from __future__ import annotations

from tests.model.copy_forgotten import build

SOURCE, EVENTS = ("S", ("source",), 0), ("E", ("applier", 0), 0)
GHOST = {"script": (("u", "a", "1"), ("ghost", "b")), "repaired": frozenset("b")}
ONE_CHUNK = {**GHOST, "ranges": (("a", "b", "c"),)}
TAKEN_BACK = (("K", ("cleaner", 1, 2), 0), ("B", ("taker", 1, 2, 3), 0))
A_PART_IS_READ = {**ONE_CHUNK, "part": {3: ("b",)}}

SCENARIOS = {
    # the table goes back to what it was before both rounds
    "forgotten-back": (
        {**ONE_CHUNK, "procs": (SOURCE, EVENTS, ("R", ("copiers", 2, 3), 0), ("G", ("giver_up", 3), 0), *TAKEN_BACK)},
        {
            "a round goes once a later one has begun": {"covered_by": "begun"},
            "a round goes once a later one is read": {"covered_by": "read"},
            "what is covered is merged again": {"skips": False},
        },
    ),
    "forgotten-tag": (
        {**ONE_CHUNK, "procs": (SOURCE, EVENTS, ("R", ("copiers", 2, 3), 0), ("T", ("tagger",), 0), *TAKEN_BACK)},
        {"what is covered is merged again": {"skips": False}},
    ),
    "forgotten-part": (
        {**A_PART_IS_READ, "procs": (SOURCE, EVENTS, ("R", ("copiers", 2, 3), 0), *TAKEN_BACK)},
        {
            "a part covers all keys": {"covers": "any"},
            "a table forgets whatever is older than its newest round": {"forgets": "older"},
            "a later round comes in before those that the table lacks (S6)": {"in_order": False},
        },
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
