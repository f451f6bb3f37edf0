"""The certificate of completeness (`copy_complete.py`): rule S10."""

from __future__ import annotations

from tests.model.copy_complete import build

# a transaction in both partitions, one in the second alone, one of another table
SHORT = {"transactions": ((("a", "1"), ("b", "1")), (("b", "2"),), ())}
IDLE = (("S", ("source",), 0), ("C", ("connector",), 0), ("I", ("idle",), 0), ("T", ("person",), 0))
CUT = (("S", ("source",), 0), ("C", ("connector",), 0), ("O", ("observer",), 0), ("E", ("election",), 0))

SCENARIOS = {
    "complete-since": (
        SHORT,
        {
            "the ends are read before P": {"looks": "ends first"},
            "P is the greatest position in the topic": {"p_of": "seen"},
            "the end of one partition alone is asked for": {"asked": (0,)},
            "P is what the connector has read, not delivered": {"p_of": "read"},
            "the connector commits what it has sent, not delivered": {"acks": False},
            "a transaction that is half delivered counts": {"whole": False},
            "a person moves the connector's offset ahead (S4)": {"restart": "ahead"},
            # taken over partitions P never gets further than the one that lags: heartbeats would be needed in each
            "P is the smallest of the partitions' newest positions": {"p_of": "partitions"},
        },
    ),
    "complete-exactly": (
        {**SHORT, "claim": "exactly"},
        {
            "told while an event above P is applied (S9)": {"exact": False},
            "P is what the connector has read, not delivered": {"p_of": "read"},
        },
    ),
    # nothing is merged: a commit that only tells, and a table that is taken back
    "complete-idle": (
        {**SHORT, "procs": IDLE, "budget": (0, 0, 0, 0)},
        {
            "it tells of whatever the table is by now (M1)": {"on": "any"},
            "the end of one partition alone is asked for": {"asked": (0,)},
        },
    ),
    # a log that is cut below what was applied, and grows again
    "complete-cut": (
        {"transactions": ((("a", "1"),), (("a", "2"),)), "procs": CUT, "budget": (0, 0, 0, 0)},
        {"ends of a log that was cut are taken for those of the log that was read": {"same_log": False}},
    ),
    # positions of events need not tell which commit they are of: the source's log has ended at P
    "complete-quiet": (
        {**SHORT, "claim": "quiet"},
        {
            "the log's end is asked before the topic's": {"log_end": "before"},
            "nobody asks whether the log ends at P": {"log_end": "never"},
            "told while an event behind the ends is applied": {"further": False},
            "P is what the connector has read, not delivered": {"p_of": "read"},
        },
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
