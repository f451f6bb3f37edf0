"""A model of the certificate of completeness (S10): up to which position of the source is everything in the mirror?

A connector reads whole transactions of the source, sends their events to several partitions, and commits as its
offset how far they are delivered; it may crash in between and send events again. An observer reads that offset, P,
then the ends of all partitions; once those are applied it tells P. A source's transaction n has position n.

A table without events is told of by a commit that brings nothing (`idle`), while a person may take the table back. A
log may be cut below what was applied (`election`): who reads on at the end of that misses what takes the freed offsets.
"""

from __future__ import annotations

from tests.model.engine import BLOCK, Violation
from tests.model.full_copy import Resting, Settings


class Cfg(Settings):
    """Rules as switches; the defaults are the whole protocol."""

    transactions = ((("a", "1"), ("b", "1")), (("a", "2"),), (("b", "2"),), ())  # each: (key, value) of its events
    base = (("a", "0"), ("b", "0"))  # rows that were copied before
    partition = {"a": 0, "b": 1}
    looks = "position first"  # S10: position first | ends first
    p_of = "committed"  # S10: committed | read (by the connector) | seen (the greatest in the topic) | partitions
    asked = (0, 1)  # S10: the partitions whose ends are asked for
    whole = True  # S10: of a transaction that is half delivered, the position before counts
    acks = True  # the connector commits what is delivered; else what it has sent
    restart = (
        "offset"  # where a connector begins again: offset (that it committed) | ahead (one transaction is left out)
    )
    claim = "since"  # since (each row as of some position from P on) | exactly (the source at P) | quiet (that, where
    # the source's log ended at P)
    log_end = "after"  # S9 by a quiet source: asked after the ends of the topic | before them | never
    further = True  # S9 by a quiet source: told only while nothing behind the ends is applied
    exact = True  # S9: told exactly only while no event above P is applied
    same_log = True  # S10: ends of a log that was cut since it was applied are no ends
    on = "found"  # M1: a commit that only tells comes on: found (the snapshot that it was found of) | any

    always = (
        ("commit",),
        ("deliver", 0),
        ("deliver", 1),
        ("apply", 0),
        ("apply", 1),
    )  # steps that are taken at any time
    procs = (("S", ("source",), 0), ("C", ("connector",), 1), ("O", ("observer",), 0))
    budget = (1, 0, 0, 0)
    no_crash = ("source", "observer")

    def __init__(self, **kw):
        super().__init__(**kw)
        self.end = len(self.transactions)
        self.states = [dict(self.base)]
        for events in self.transactions:
            self.states.append(self.states[-1] | dict(events))

    def init(self, _cfg):
        s = {"n": 0, "read": (0, 0), "pending": (), "offset": 0, "told": 0, "snapshot": 0}
        s.update({("row", k): (0, v) for k, v in self.base})
        for q in (0, 1):
            s["topic", q], s["done", q] = (), 0
        return s


# ---------------------------------------------------------------- the source and the connector


def write(s, cfg):
    s["n"] += 1
    return "ok"


def resume(s, cfg):
    """Begin at the committed offset; what was not delivered is lost."""
    at = s["offset"] + (cfg.restart == "ahead") - (not cfg.whole)
    s["pending"], s["read"] = (), (max(0, min(at, s["n"])), 0)
    return s["read"][0] + 1


def send(s, cfg, n, i):
    """Read an event of transaction n and hand it to the producer; the last one ends the transaction."""
    if s["n"] < n:
        return BLOCK
    events = cfg.transactions[n - 1]
    if events:
        s["pending"] = (*s["pending"], (n, *events[i]))
    s["read"] = (n, 0) if i + 1 >= len(events) else (n - 1, i + 1)
    return "ok"


def deliver(s, cfg, q):
    """The broker takes the oldest event that is on its way to a partition."""
    mine = [e for e in s["pending"] if cfg.partition[e[1]] == q]
    if not mine:
        return BLOCK
    s["topic", q] = (*s["topic", q], mine[0])
    s["pending"] = tuple(e for e in s["pending"] if e != mine[0])
    return "ok"


def commit(s, cfg):
    """Commit how far everything that was read is delivered."""
    n, half = s["read"]
    waiting = [e[0] for e in s["pending"]]
    if not cfg.acks:
        waiting = []
    delivered = min(waiting) - 1 if waiting else n
    if not cfg.whole:  # the newest event before which all are delivered
        delivered += s["pending"][0][1:] != cfg.transactions[delivered][0] if waiting else half > 0
    if delivered <= s["offset"]:
        return BLOCK
    s["offset"] = delivered
    return "ok"


# ---------------------------------------------------------------- the mirror and the observer


def apply(s, cfg, q):
    """Apply the next event of a partition; the greatest position wins (M2)."""
    if s["done", q] >= len(s["topic", q]):
        return BLOCK
    n, key, value = s["topic", q][s["done", q]]
    s["done", q] += 1
    s["snapshot"] += 1
    if n > s["row", key][0]:
        s["row", key] = (n, value)
    return "ok"


def look(s, cfg):
    """P."""
    topics = [max((e[0] for e in s["topic", q]), default=0) for q in (0, 1)]
    return {"read": s["read"][0], "seen": max(topics), "partitions": min(topics)}.get(cfg.p_of, s["offset"])


def ends(s, cfg, q):
    """None: it is another log than the one that was applied."""
    return None if cfg.same_log and s.get(("cut", q)) else len(s["topic", q])


def cut(s, cfg, q):
    """The newest event of a partition, which was applied, is gone: the next one gets its offset."""
    if not s["topic", q] or s["done", q] < len(s["topic", q]):
        return BLOCK
    s["topic", q], s["cut", q] = s["topic", q][:-1], True
    return "ok"


def ended(s, cfg):
    """Where the source's log ends."""
    return s["n"]


def tell(s, cfg, p, found, log_end=None):
    """Tell P once the ends are applied."""
    if any(s["done", q] < end for q, end in found):
        return BLOCK
    rows = {k[1]: row[1] for k, row in s.items() if k[0] == "row"}
    behind = any(s["done", q] > end for q, end in found)
    quiet = (log_end is None or log_end <= p) and not (cfg.further and behind)
    if cfg.claim == "quiet" and quiet and rows != cfg.states[p]:
        s["bad"] = f"told that this is the source at {p}: a reader sees {rows}, the source was {cfg.states[p]}"
    above = any(e[0] > p for q in (0, 1) for e in s["topic", q][: s["done", q]])
    if cfg.claim == "exactly" and not (cfg.exact and above) and rows != cfg.states[p]:
        s["bad"] = f"told that this is the source at {p}: a reader sees {rows}, the source was {cfg.states[p]}"
    s["told"] = max(s["told"], p)
    return "ok"


def found(s, cfg, ends_of):
    """The snapshot that has all up to those ends."""
    return BLOCK if any(s["done", q] < end for q, end in ends_of) else s["snapshot"]


def tell_alone(s, cfg, p, snapshot):
    """A commit that tells P, and brings nothing."""
    if cfg.on == "found" and s["snapshot"] != snapshot:
        return "lost"
    s["told"], s["snapshot"] = max(s["told"], p), s["snapshot"] + 1
    return "ok"


def take_back(s, cfg):
    """A person takes the table back to what it was first, and to what that told."""
    for q in (0, 1):
        s["done", q] = 0
    s.update({("row", k): (0, v) for k, v in cfg.base})
    s["told"], s["snapshot"] = 0, s["snapshot"] + 1
    return "ok"


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    if s.get("bad"):
        raise Violation(s["bad"])
    for k in cfg.states[0]:
        value, may = s["row", k][1], {rows[k] for rows in cfg.states[s["told"] : s["n"] + 1]}
        if value not in may:
            raise Violation(f"told that nothing is older than {s['told']}: key {k} is {value}, the source had {may}")
    quiet = s["n"] == cfg.end == s["offset"] and not s["pending"]
    if quiet and all(s["done", q] == len(s["topic", q]) for q in (0, 1)) and look(s, cfg) < cfg.end:
        raise Violation(f"all is applied, and no position above {look(s, cfg)} will ever be told")


# ---------------------------------------------------------------- tasks


def source(cfg):
    for _ in cfg.transactions:
        yield ("write",)


def connector(cfg):
    first = yield ("resume",)
    for n in range(first, cfg.end + 1):
        for i in range(max(1, len(cfg.transactions[n - 1]))):
            yield ("send", n, i)


def observer(cfg):
    found, p = [], None
    if cfg.looks == "position first":
        p = yield ("look",)
    log_end = (yield ("ended",)) if cfg.log_end == "before" else None
    for q in cfg.asked:
        found.append((q, (yield ("ends", q))))
    if p is None:
        p = yield ("look",)
    if cfg.log_end == "after":
        log_end = yield ("ended",)
    if None not in dict(found).values():
        yield ("tell", p, tuple(found), log_end)


def idle(cfg):
    p = yield ("look",)
    of = []
    for q in cfg.asked:
        of.append((q, (yield ("ends", q))))
    snapshot = yield ("found", tuple(of))
    yield ("tell_alone", p, snapshot)


def person(cfg):
    yield ("take_back",)


def election(cfg):
    yield ("cut", 0)


PROGRAMS = {f.__name__: f for f in (source, connector, observer, idle, person, election)}
OPS = {f.__name__: f for f in (write, resume, send, deliver, commit, apply, look, ends, ended, tell)}
OPS |= {f.__name__: f for f in (found, tell_alone, take_back, cut)}


def build(**settings):
    """A model of a scenario's settings."""
    return Resting(Cfg(**settings), PROGRAMS, OPS, invariant, lambda s, cfg: None)
