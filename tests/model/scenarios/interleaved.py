"""A full copy of a PostgreSQL table, whose transactions interleave in the log (`copy_interleaved.py`)."""

from __future__ import annotations

from tests.model.copy_interleaved import INFINITE, build

COPIER = ("R", ("copier",), 0)
# either may begin first and commit second; T and U write b both, so that one waits for the other; T and V are apart
T, U = (("u", "a", "t"), ("u", "b", "t"), ("commit",)), (("u", "b", "u"), ("d", "c"), ("commit",))
V = (("u", "c", "v"), ("u", "d", "v"), ("commit",))
ABORTED = (("u", "c", "x"), ("abort",))
OF_A, OF_C, OF_D = ((("u", key, "v"), ("commit",)) for key in ("a", "c", "d"))
BASE = (("a", "0"), ("b", "0"), ("c", "0"), ("d", "0"))


def several(**transactions):
    """Settings of a scenario with these transactions and a copier."""
    procs = tuple((name, ("transaction", name), 0) for name in transactions)
    always = (*(("see", name) for name in transactions), ("stream",), ("apply",))
    return {"transactions": transactions, "base": BASE, "procs": (*procs, COPIER), "always": always}


FLIPS = {
    "nothing is awaited": {"awaited": "none"},
    "noted before the event was known": {"looks": ("note", "low", "query")},
    "LOW is the log's end at the query": {"low": "end", "looks": ("note", "low", "query")},
    "LOW is the log's end before that": {"low": "end"},
    "the position is the row's own LSN": {"position": "own"},
    "LOW is a landed event's own LSN": {"low": "own"},
    "a chunk's row comes after events of that commit": {"row": INFINITE},
}
SCENARIOS = {
    "interleaved-apart": (several(T=T, V=V), FLIPS),
    "interleaved-two": (several(T=T, U=U), {}),
    "interleaved-abort": (several(T=T, A=ABORTED), {}),
    "interleaved-sweep": (
        {**several(T=T, V=V), "sweep": True, "held": (("z", "0"),)},
        {"nothing is awaited": {"awaited": "none"}},
    ),
    # LOW may be the newest commit that was delivered: then no other event need land before the query
    "interleaved-commit": (
        {**several(T=T, V=V), "low": "commit"},
        {
            "a chunk's row comes after events that follow that commit": {"row": INFINITE},
            "nothing is awaited": {"awaited": "none"},
        },
    ),
    # by (commit before it, own LSN) only those need be awaited whose commit stands in the log, if anybody could tell
    "interleaved-logged": (
        {**several(T=OF_A, V=OF_C, W=OF_C), "awaited": "logged"},
        {"the position is the row's own LSN": {"position": "own"}},
    ),
    # rows' own LSNs are positions too, with all awaited, and with LOW any place of the log before that
    "interleaved-own": (
        {**several(T=T, V=V), "low": "end", "position": "own"},
        {
            "noted before LOW is known": {"looks": ("note", "low", "query")},
            "only what is in the log is awaited": {"awaited": "logged"},
            "nothing is awaited": {"awaited": "none"},
        },
    ),
    # MySQL and MariaDB: positions are commits', LOW is the log's end, and a commit is in the log before it is seen (S2)
    "interleaved-binlog": (
        {**several(T=T, V=V), "low": "end", "position": "commit", "row": INFINITE},
        {
            "nothing is awaited: LOW is asked of the same server, no more": {"awaited": "none"},
            "LOW is asked after the query (S2)": {"looks": ("note", "query", "low")},
        },
    ),
    "interleaved-three": (several(T=T, U=U, V=OF_D), {"nothing is awaited": {"awaited": "none"}}),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
