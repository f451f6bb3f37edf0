"""Late and dirty tables in a further system: D9 to D11 (`side_deliveries.py`)."""

from __future__ import annotations

from tests.model.side_deliveries import build

LATE, HOUR = ("deliver", "late"), ("deliver", "hour")
REDRIVEN = {  # dirty rows of a batch become an hour's, late and dirty ones of the redrive
    "units": {"dirty": {1: ("d", "e", "f"), 2: ()}, "redriven": {2: ("f",)}, "hour": {1: ("x",), 2: ("d", "x")}},
    "after": {("redriven", 2): ("dirty",), ("hour", 2): ("dirty",)},
}
TOLD = {"compares": False}  # Hive
SCENARIOS = {
    # an old task of the late table, its successor, and an hour that has taken late rows up
    "side-compared": (
        {"procs": (("z", LATE, 0), ("t", LATE, 0), ("h", HOUR, 0)), "env": ("move",), "budget": (0, 0, 1, 1)},
        {
            "a batch is sent once (D9)": {"version": "first"},
            "neither the ledger nor the table is asked": {"order": False, "asked": False},
            "rows are added, none is taken out (D10)": {"whole": False},
            "an hour does not wait for its late rows to leave (D11)": {"leave": "never"},
            "an hour waits only until a try was begun (D11)": {"leave": "taken"},
        },
    ),
    "side-told": (
        TOLD | {"procs": (("z", LATE, 0), ("t", LATE, 0), ("h", HOUR, 0)), "env": ("move",), "budget": (0, 0, 1, 1)},
        {
            "a batch is sent once (D9)": {"version": "first"},
            "no intents (R8)": {"intents": False},
            "neither the ledger nor the records are asked": {"asked": False, "order": False},
            "rows are added, none is taken out (D10)": {"whole": False},
            "an hour does not wait for its late rows to leave (D11)": {"leave": "never"},
        },
    ),
    "side-restored": (
        {"procs": (("t", LATE, 1), ("h", HOUR, 0)), "env": ("move", "forget"), "budget": (0, 1, 1, 2)},
        {"a batch without a row has nothing there (D11)": {"leave": "absent"}},
    ),
    "side-redriven": (
        REDRIVEN
        | {"procs": (("t", ("deliver", "dirty"), 1), ("r", ("deliver", "redriven"), 0), ("h", HOUR, 0))}
        | {"env": ("move",), "budget": (0, 0, 1, 1)},
        {
            "a redrive's rows do not wait for what they were (D11)": {"leave": "never"},
            "a batch is sent once (D9)": {"version": "first"},
        },
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
