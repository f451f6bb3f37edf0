"""Shards that lie on two servers are one mirror (`copy_servers.py`): what S4, S5, S7, M5 and S9' say is of one log."""

from __future__ import annotations

from tests.model.copy_servers import build

BOTH = (("S", ("source", 0), 0), ("T", ("source", 1), 0))
CHANGES = (("u", "a", "1"), ("u", "b", "1"))
CHANGED = {"scripts": (CHANGES, CHANGES)}
COPIED = {"copied": frozenset((0, 1))}
DELETES = (("d", "a"), ("u", "b", "1"))

SCENARIOS = {
    "servers-first": (
        {**CHANGED, "procs": (*BOTH, ("R", ("copier", 0, 1), 0))},
        {
            "rows are told apart by their key alone (S11)": {"identity": "key"},
            "a sweep is of both servers (S5)": {"sweep_of": "all", "procs": (*BOTH, ("R", ("copier", 1, 0), 0))},
            "one marker for both servers (S5)": {"marker_of": "all"},
            "whole after the round of one server": {"whole_by": "any"},
        },
    ),
    "servers-start": (
        {
            "scripts": (CHANGES, (*CHANGES, ("u", "a", "2"))),
            "connected": False,
            "base": ((("a", "0"),), (("a", "0"), ("c", "0"))),
            "procs": (
                ("S", ("late_source", 0, 0), 0),
                ("T", ("late_source", 1, 2), 0),
                ("R", ("copier", 0, 1), 0),
            ),
        },
        {"an event of one server shows the beginning of the other's (S4)": {"begins_of": "any"}},
    ),
    "servers-purge": (
        {"scripts": (DELETES, (*DELETES, ("u", "a", "2"))), **COPIED, "procs": (*BOTH, ("P", ("purger",), 0))},
        {"one purge for both servers (M5)": {"purge_of": "all"}},
    ),
    "servers-purge-gone": (
        {
            "scripts": ((), (("late", "b", "1"), ("d", "b"), ("u", "a", "1"))),
            **COPIED,
            "procs": (*BOTH, ("P", ("purger",), 0), ("L", ("leaving", 1), 0)),
        },
        {"what is purged of a server is forgotten with its line (M5)": {"gone": "forgotten"}},
    ),
    "servers-dropped": (
        {
            "scripts": ((), (("u", "b", "1"), ("d", "a"), ("u", "a", "2"))),
            **COPIED,
            "procs": (*BOTH, ("D", ("dropping", 1, 1), 0), ("O", ("observer",), 0)),
        },
        {"what has dropped the rows of a server is a copy of it": {"dropped": "a copy"}},
    ),
    "servers-purge-copy": (
        {
            "scripts": (DELETES[:1], (("u", "b", "0"), *DELETES)),
            **COPIED,
            "procs": (*BOTH, ("P", ("purger",), 0), ("R", ("copier", 1), 0)),
        },
        {
            "a LOW is compared with the purge of the other server (S7)": {"floor_of": "all"},
            "a purge does not wait for a round that is open, and is refused for ever (S7)": {"waits_for": "none"},
            "a purge does not wait for a round, whose LOW is compared with none (S7)": {
                "waits_for": "none",
                "floor_of": "none",
            },
        },
    ),
    "servers-apart": (
        {
            "scripts": (DELETES[:1], DELETES),
            **COPIED,
            "apart": True,
            "procs": (*BOTH, ("D", ("dying", 1, 0), 0), ("P", ("purger",), 0), ("R", ("reader", 2, 1), 0)),
        },
        {
            "no round begins while one of another server is open (S6)": {"turn": "all"},
            "no tombstone goes while a round of another server is open (S7)": {"waits_for": "all"},
        },
    ),
    "servers-both": (
        {
            "scripts": (CHANGES, DELETES),
            **COPIED,
            "apart": True,
            "procs": (*BOTH, ("R", ("reader", 1, 0), 0), ("Q", ("reader", 2, 1), 0)),
        },
        {
            "a chunk is refused once a newer round of another server is in the table (S6)": {"order": "all"},
        },
    ),
    "servers-kept-out": (
        {
            "scripts": (CHANGES[:1], (("late", "b", "1"), ("u", "a", "1"))),
            **COPIED,
            "procs": (*BOTH, ("P", ("purger",), 0), ("O", ("observer",), 0)),
        },
        {"a server of which a purge has kept an event out is told of (S9', M5)": {"silent": False}},
    ),
    "servers-new": (
        {
            "scripts": (CHANGES[:1], CHANGES[:1]),
            "base": ((("a", "0"),), (("a", "0"), ("c", "0"))),
            "copied": frozenset((0,)),
            "procs": (*BOTH, ("R", ("reader", 1, 1), 0), ("O", ("observer",), 0)),
        },
        {"a server without a whole copy is told of (S9')": {"tells": "any"}},
    ),
    "servers-told": (
        {"scripts": (CHANGES[:1], CHANGES[:1]), **COPIED, "procs": (*BOTH, ("O", ("observer",), 0))},
        {
            "what the first server's connector says is told of both (S9')": {"told_of": "first"},
            "the greatest time of all is told (S9')": {"time": "greatest"},
        },
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
