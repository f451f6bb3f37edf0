"""A source with a second site: at which offsets it goes on (`failover_log.py`, without coordinates
`failover_pair.py`, at a third site `failover_third.py`); the switch (`failover_switch.py`)."""

from __future__ import annotations

from tests.model import failover_log, failover_pair, failover_third
from tests.model.failover_switch import build

WORKER, OPERATOR = ("worker",), ("operator",)

LOGS = {
    "failover-there": (
        {},
        {
            "records without coordinates are new ones (F1)": {"bare": "taken"},
            "repeats are read (F1)": {"repeats": "read"},
            "a hole is read over (F1)": {"holes": "read over"},
            "the copier goes on behind the mark (F3)": {"mark": "unfenced", "repeats": "read"},
        },
    ),
    "failover-there-late": ({"trimmed": True}, {"a hole is read over (F1)": {"holes": "read over"}}),
    "failover-back": (
        {"back": True, "kinds": ("exact", "restart", "bare"), "n_max": 2},
        {
            "what had crossed is read again where it came from (F6)": {"crossed": "forgotten"},
            "back before all copies have landed (F6)": {"read_on": False},
            "the first site's end is not noted (F6)": {"noted": False},
            "the copier goes on behind the mark (F3)": {"mark": "unfenced"},
        },
    ),
    "failover-hashes": (
        {"rule": "pair", "alphabet": "ab", "kinds": ("exact",), "n_max": 4},
        {
            "hashes find the place": {"rule": "hashes"},
            "the same, all records differ, the copier restarts": {"rule": "hashes", "kinds": ("exact", "restart")},
            "a known pair, the copier restarts": {"kinds": ("exact", "restart")},
            "a known pair, what lies before is not compared (F2)": {"prefix": "not", "trimmed": True},
        },
    ),
}
PAIRS = {
    "failover-pair": (
        {},
        {
            "what has landed is not compared (F2)": {"compared": False},
            "an overlap that fits in another place too (F2)": {"shifts": "accepted"},
            "one row is enough (F2)": {"fewest": 1},
            "each offset counts as a record (F2)": {"holes": "counted"},
            "the copier restarts": {"kinds": ("exact", "restart")},
            "the copier leaves records out": {"kinds": ("exact", "hole"), "n_max": 4},
        },
    ),
    "failover-pair-back": (
        {"back": True, "n_min": 3, "new": 3, "early": (0, 1)},
        {
            "what crossed is not measured by both logs (F6)": {"crossed": "counted"},
            "any pair on the way back (F6)": {"back_pair": "any"},
        },
    ),
}
THIRD = {
    "failover-third": (
        {},
        {
            "what lay behind the mark as a copy is a new record (F3)": {"strays": "read"},
            "the same, where nobody can say (F3)": {"unknown": "read"},
            "it has not crossed (F1)": {"hole": "not"},
        },
    ),
}
SWITCHES = {
    "failover-switch": (
        {"procs": (("z", WORKER, 0), ("w", WORKER, 0), ("o", OPERATOR, 0)), "budget": (0, 0, 0, 0)},
        {
            "the open batch is ignored (F4)": {"open_rule": "ignored"},
            "plans do not compare, nor ask for the active site": {"compares": False, "active": False},
            "the switch raises no version, and plans do not ask for the active site (F4)": {
                "raises": False,
                "active": False,
            },
            "the switch compares no version (F4)": {"one": False, "same": False},
            "the switch does not compare the batch that it withdraws (F4)": {"same": False},
            "seal does not compare (F5)": {"pinned": False},
        },
    ),
    "failover-switch-late": (
        {"procs": (("w", WORKER, 0), ("o", OPERATOR, 1)), "budget": (1, 1, 1, 0), "records": 1},
        {"the open batch is ignored (F4)": {"open_rule": "ignored"}},
    ),
}
SCENARIOS = LOGS | PAIRS | THIRD | SWITCHES


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    settings = settings | (flips[flip] if flip else {})
    if name in PAIRS:
        return failover_pair.run(**settings)
    if name in THIRD:
        return failover_third.run(**settings)
    return failover_log.run(**settings) if name in LOGS else build(**settings).bfs(seconds=seconds, limit=limit)
