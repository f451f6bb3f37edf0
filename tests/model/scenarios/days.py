"""A keyed table by days (`days.py`): copies, purges, days that are built again, a restored ledger."""

from __future__ import annotations

from tests.model.days_tasks import build

SOURCE, COPY, COPIES = ("S", ("source",), 0), ("C", ("copier",), 0), ("C", ("copiers",), 0)
SLOW = ("C", ("copier", False, 3), 0)
AGAIN, HEALED = ("A", ("again", 0), 0), ("H", ("healed", 0), 0)
DAY = ("day",)


def sent(*order):
    return ("E", ("sender", *order), 0)


def archive(count, tries=0):
    return ("D", ("days", *range(count)), tries)


# b is deleted; c is made by an event that comes later than those behind it
PURGED = {
    "script": (("u", "c", "1"), ("d", "b"), ("u", "a", "2"), *[DAY] * 5),
    "keep": 1,
    "waits": False,
    "begun": 3,
    "daily": True,
}
NEWS = {**PURGED, "base": (("b", "0"),), "chunks": (), "procs": (SOURCE, sent(1, 2, 0), archive(5))}
UNREAD = {"lands": False, "always": (("batch",),)}
LOST = {
    **{"script": (("u", "a", "1"), DAY, ("u", "a", "2"), ("ghost", "b"), DAY), "begun": 1, "chunks": (("a", "b"),)},
    "daily": True,
}

SCENARIOS = {
    "days-first": (
        {
            "script": (("u", "a", "1"), ("u", "b", "1"), DAY, DAY),
            "procs": (SOURCE, sent(0, 1), COPY, ("D0", ("days", 0), 0), ("D1", ("days", 1), 0)),
        },
        {
            "published before a copy is whole (S9')": {"waits": False},
            "a day takes what is read of a copy": {"whole": False},
            "a day is built before the day before": {"turn": False},
        },
    ),
    "days-crash": (
        {
            "script": (("u", "a", "1"), ("d", "b"), DAY),
            "procs": (SOURCE, sent(0, 1), (*COPY[:2], 1), archive(1, 1)),
            "budget": (1, 0, 0, 0),
        },
        {"published before a copy is whole (S9')": {"waits": False}},
    ),
    # b is made by an event that lands late, and vanishes before the copy, or after it
    "days-late-event": (
        {
            "script": (("u", "a", "1"), ("u", "b", "1"), ("ghost", "b"), DAY, DAY),
            "base": (("a", "0"),),
            "chunks": (("a", "b"),),
            "procs": (SOURCE, sent(0, 1), COPY, archive(2)),
        },
        {
            "later days do not know the sweep (S5)": {"marker": False},
        },
    ),
    # two copies: the second one puts right what no event has said
    "days-again": (
        {**LOST, "procs": (SOURCE, sent(0, 1), COPIES, archive(2), AGAIN)},
        {
            "a day that is built again takes the newest copy": {"recorded": "no copy", "published_by": False},
            "nothing goes with a copy (S5)": {"sweep": False},
        },
    ),
    "days-record-lost": (
        {**LOST, "procs": (SOURCE, sent(0, 1), COPIES, archive(2), HEALED)},
        {"a day whose record is lost takes a copy of later": {"published_by": False}},
    ),
    "days-purge": (
        {**NEWS, "begun": 6, "daily": False},
        {
            "events are taken for as old as their day (M6)": {"seen_when": "ended"},
        },
    ),
    "days-purge-unread": (
        {**NEWS, **UNREAD, "begun": 4},
        {
            "nobody asks whether all was read (M6)": {"read_through": False},
            "what was readable one time before (M6)": {"twice": 1},
        },
    ),
    # a connector that breaks its promise brings an event of before the delete
    "days-purge-repeat": (
        {
            **{**NEWS, "script": (("u", "b", "1"), *PURGED["script"][1:]), "promise": False, "begun": 4},
            "procs": (SOURCE, sent(0, 1, 2, 0), archive(5)),
        },
        {"an old event makes a row after the purge (M5)": {"kept_out": False}},
    ),
    # c, which has no event, is read by a copy that takes days; a tombstone goes meanwhile
    "days-purge-copy": (
        {
            **{**NEWS, "script": (("u", "b", "1"), ("sneak", "c", "1"), ("d", "b"), ("u", "a", "2"), *[DAY] * 5)},
            **{
                "base": (),
                "begun": 2,
                "chunks": (("c",), ("a", "b")),
                "procs": (SOURCE, sent(0, 1, 2), SLOW, archive(5)),
            },
        },
        {"days purge while a copy is under way, and take it (S7)": {"stays": False, "too_old": False}},
    ),
    "days-restored": (
        {
            **{"script": (("u", "a", "1"), DAY, ("u", "b", "2"), DAY), "begun": 1, "daily": True},
            "procs": (SOURCE, sent(0, 1), ("R", ("restored", 0, 1), 0), archive(2), AGAIN),
        },
        {
            "a day is built again by half a copy (R11)": {"still_whole": False},
            "a restored copy is gone on with (R11)": {"refuses": False},
        },
    ),
    "days-restored-number": (
        {
            **{"script": (("u", "a", "1"), DAY, ("u", "b", "2"), DAY), "begun": 1, "daily": True},
            "chunks": (("a", "b"),),
            "procs": (SOURCE, sent(0, 1), ("R", ("restored", 0, None), 0), archive(2), AGAIN),
        },
        {"a copy gets a number that a day has taken (R11)": {"above": False}},
    ),
}


def run(name, flip=None, seconds=120, limit=3_000_000):
    """Explore one of SCENARIOS, whole or with the rule `flip` taken out."""
    settings, flips = SCENARIOS[name]
    return build(**(settings | (flips[flip] if flip else {}))).bfs(seconds=seconds, limit=limit)
