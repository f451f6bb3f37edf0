"""Scenarios of the catalogue: statements in flight, partitions that come and go, two renames."""

from __future__ import annotations

from tests.model.rules import Rec
from tests.model.scenarios.building import INGEST, PUB0, TWO, archive_of, log, row, scenario, spec2

# the catalogue
scenario(
    "alter-in-flight",
    {"no intents": dict(alter_fence=False, heal_on=False)},
    log={1: TWO},
    prefix=PUB0,
    heal_windows=(),
    heal_replays=((0, "replay"),),
    procs=(("R1", ("replay", 0, 1), 1), ("R2", ("replay", 0, 2), 0), ("C", ("cleaner",), 0)),
    budget=(0, 0, 1, 0),
)
scenario(
    "alter-stalled-worker",
    {"no intents": dict(alter_fence=False)},
    log={1: TWO},
    prefix=PUB0,
    heal_on=False,
    procs=(("R1", ("replay", 0, 1), 0), ("R2", ("replay", 0, 2), 0), ("R3", ("replay", 0, 3), 0)),
    budget=(0, 0, 0, 0),
)
scenario(
    "partitions",
    {"one ALTER each": dict(one_alter=False)},
    log={1: (log((0, 1))[0], (Rec((1, 1, 0), 0, "b>a", 0), Rec((1, 1, 1), 0, "b", 0), row(1, 2, 1)))},
    prefix=(*PUB0, spec2),
    heal_windows=(),
    heal_replays=((0, "replay"),),
    procs=(("R1", ("replay", 0, 1), 1), ("R2", ("replay", 0, 2), 0)),
    budget=(1, 0, 0, 0),
)


scenario(
    "partitions-three-step",
    {"one ALTER each": dict(three_step=False, one_alter=False)},
    three_step=True,
    log={
        1: ((row(0, 0, 0, "a"), Rec((1, 0, 1), 0, "a>c", 0), row(0, 2, 1)), (Rec((1, 1, 0), 0, "b>a", 0), row(1, 1, 1)))
    },
    prefix=(*PUB0, spec2),
    heal_windows=(),
    heal_replays=((0, "replay"),),
    procs=(("R1", ("replay", 0, 1), 1), ("R2", ("replay", 0, 2), 0)),
    budget=(1, 0, 0, 0),
)


def app_b_gone(s):
    """Today's decode gives every row of window 0 the value 'a': partition b is not in generation 2."""
    s["spec"] = 2


scenario(
    "vanished-partition",
    {"only SET LOCATION": dict(exact_parts=False, heal_on=False)},
    log={1: (tuple([row(0, 0, 0, "a"), row(0, 1, 1)]), tuple([Rec((1, 1, 0), 0, "b>a", 0), row(1, 1, 1)]))},
    prefix=(*PUB0, app_b_gone),
    heal_windows=(),
    heal_replays=((0, "replay"),),
    procs=(("R1", ("replay", 0, 1), 1),),
    budget=(1, 1, 0, 0),
)
scenario(
    "late-add",
    {
        "ADD PARTITION without an intent": dict(add_fence=False),
        "one intent per task, not per call": dict(intent_per_call=False),
    },
    log={1: (tuple([row(0, 0, 0, "a"), row(0, 1, 1)]), tuple([Rec((1, 1, 0), 0, "b>a", 0), row(1, 1, 1)]))},
    prefix=(INGEST, app_b_gone),
    windows=(0,),
    heal_on=False,
    clean_landed="published",
    procs=(("A0", archive_of(0), 1), ("R1", ("replay_after", 0, 1), 0)),
    budget=(0, 0, 1, 0),
)

# swap: directory
scenario(
    "swap-directory",
    {
        "names are freed, identity not checked": dict(swapdir_tomb=False, clean_identity=False, heal_on=False),
        "names are freed": dict(swapdir_tomb=False, heal_on=False),
        "an hour may not be absent": dict(gap_ok=False, heal_on=False),
    },
    log={1: TWO},
    prefix=PUB0,
    heal_windows=(),
    heal_replays=((0, "replay_dir"),),
    gap_ok=True,
    procs=(("R1", ("replay_dir", 0, 1), 1), ("R2", ("replay_dir", 0, 2), 0), ("C", ("cleaner",), 0)),
    budget=(0, 0, 1, 0),
)
