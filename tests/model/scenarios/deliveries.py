"""Deliveries to further systems, with and without transactions over statements: D1 to D8 (`deliveries.py`)."""

from __future__ import annotations

from tests.model.deliveries import build

AT_ONCE = {"heals": ("deliver_at_once",)}
STAGED = {"heals": ("deliver_staged",)}
ONE, STAGING = ("deliver_at_once",), ("deliver_staged",)
TWO = {"env": ("publish",), "budget": (1, 0, 1, 1)}

SCENARIOS = {
    # an old task, its successor, and a generation that comes into force meanwhile
    "delivery-at-once": (
        AT_ONCE | TWO | {"procs": (("z", ONE, 0), ("t", ONE, 1))},
        {
            "the token is not compared (a late commit)": {"token": "none"},
            "the token is compared before the transaction": {"token": "before"},
            "STANDING is said of whatever try the row has": {"stood": "any"},
        },
    ),
    "delivery-at-once-lost": (
        AT_ONCE | {"procs": (("z", ONE, 0), ("t", ONE, 1)), "env": ("publish",), "budget": (0, 2, 0, 1)},
        {"a commit without an answer is taken for done": {"unsure_commit": "done"}},
    ),
    "delivery-restored": (
        AT_ONCE | {"procs": (("z", ONE, 0), ("t", ONE, 1)), "env": ("forget",), "budget": (0, 0, 1, 1)},
        {"a commit without an answer is taken for done": {"unsure_commit": "done"}},
    ),
    "delivery-staged": (
        STAGED | {"procs": (("z", STAGING, 0), ("t", STAGING, 1)), "env": ("publish",), "budget": (0, 0, 1, 1)},
        {
            "no fence (D4)": {"fence": "none"},
            "a drop without an answer is taken for done (D4)": {"fence": "blind"},
            "the ledger is asked before the staging is made (D5)": {"asked": "early"},
            "the ledger is not asked (D5)": {"asked": "never"},
            "one staging for all tries (D1)": {"own": False, "unsure": "again"},
            "not read back (D7)": {"back": False},
            "a try is taken whoever has taken another": {"taken": "blindly"},
        },
    ),
    "delivery-staged-files": (
        STAGED | {"procs": (("t", STAGING, 1),), "files": {1: ("x", "y")}, "budget": (1, 0, 1, 0)},
        {
            "an insert without an answer is sent again (D2)": {"unsure": "again", "check": False},
            "the staging is not checked (D3)": {"unsure": "looked", "check": False},
        },
    ),
    "delivery-staged-empty": (
        STAGED
        | {"procs": (("z", STAGING, 0), ("t", STAGING, 1)), "files": {1: (), 2: ("y",)}, "start": ("o",)}
        | {"env": ("publish",), "budget": (0, 0, 1, 1)},
        {"an empty generation drops the partition (D6)": {"empty": "drop"}},
    ),
    "delivery-staged-shards": (
        STAGED
        | {"procs": (("z", STAGING, 0), ("t", STAGING, 0)), "shards": (0, 1)}
        | {"env": ("publish",), "budget": (0, 0, 1, 1)},
        {"no fence (D4)": {"fence": "none"}},
    ),
    "delivery-dropped": (
        STAGED
        | {"procs": (("z", STAGING, 0), ("t", STAGING, 1)), "env": ("drop_table",), "dropped": "tries"}
        | {"budget": (0, 0, 1, 1)},
        {
            "a try that has read its rows back stands in the table that is made anew": {"dropped": "stood"},
            "a row that another task has moved meanwhile is left to it": {"dropped": "once"},
        },
    ),
    "delivery-undone": (
        STAGED | {"procs": (("t", STAGING, 1),), "env": ("restart",), "budget": (0, 0, 0, 1), "verify": True},
        {"nobody compares later (D8)": {"verify": False}},
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
