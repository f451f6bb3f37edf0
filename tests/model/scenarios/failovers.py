"""Scenarios of a ledger that fails over to an older commit."""

from __future__ import annotations

from tests.model.scenarios.building import INGEST, SPARK, archive_of, end, forget, log, remember, scenario

# what the failover loses: a whole batch; a batch and a published hour; a seal and a landing
RB = dict(
    log={1: log((0, 0, 1), (0, 1))},
    procs=(("I1", ("ingest_loop", 2), 1), ("A0", archive_of(0), 1)),
    eager=SPARK,
    budget=(0, 0, 0, 0),
    heal_on=False,
)
scenario(
    "rollback-batch",
    {"no high-water mark": dict(hwm=False, alarm_ok=False)},
    ends=(1, 1),
    prefix=(INGEST, remember, end(2, 2), INGEST, forget, end(3, 2)),
    **RB,
)
scenario(
    "rollback-hour",
    {"no high-water mark": dict(hwm=False)},
    ends=(1, 1),
    alarm_ok=True,
    prefix=(INGEST, remember, end(3, 2), INGEST, archive_of(0), forget),
    **RB,
)


def write1(s):
    s["b", 1] = s["b", 1]._replace(state="WRITING", epoch=1, man=None)
    remember(s)
    s["snap2"] = None
    forget(s)


scenario("rollback-landing", {"landed directory not adopted": dict(adopt=False)}, prefix=(INGEST, write1), **RB)


# tasks that live through the failover: what windows have committed since some moment is lost at another
FENCED = dict(records=True, eager=SPARK, env=("produce", "note_commits", "lose_commits"))
STRAGGLER = dict(log={1: log((0, 1, 0), (1,))}, ends=(2, 1), prefix=(INGEST,), heal_windows=(0,))
scenario(
    "failover-first",
    {
        "without R12 to R15": dict(
            ask_before_record=False, swap_first=False, adopt_closing=False, survey_building=False, set_aside=False
        ),
        "an adopted window is CLOSED at once": dict(adopt_closing=False),
        "only the table's directory is set aside": dict(built_first=False),
        "a contradicting record stays": dict(set_aside=False),
        "an adoption looks at unknown generations only": dict(survey_building=False),
    },
    procs=(("A0", ("publishing", 0), 0), ("I1", ("ingest_beside",), 0), ("O", ("operator",), 0)),
    budget=(0, 0, 0, 3),
    **FENCED,
    **STRAGGLER,
)
REOPENED = dict(log={1: log((0, 1, 0), (1,))}, ends=(2, 1), late="reopen", heal_windows=(0,))
scenario(
    "failover-reopen",
    {
        "what has a record is given up": dict(keep_recorded=False),
        "the late rows are not due again": dict(keep_recorded=False, shown_again=False),
    },
    prefix=(INGEST, ("publishing", 0), end(3, 1), INGEST),
    procs=(("R1", ("reopening", 0), 0), ("R2", ("replaying", 0), 0)),
    budget=(0, 0, 0, 2),
    **{**FENCED, "env": ("note_commits", "lose_commits")},
    **REOPENED,
)
