"""A model of a full copy of a PostgreSQL table, whose transactions interleave in the log.

Each row change has a place in the log (LSN), and so has each commit; a commit stands in the log before other snapshots
see it. The stream delivers whole transactions in the order of their commits; an event's position is (commit of the
transaction delivered before, its own LSN, 0), that of a chunk's row (LOW, 0, round). LOW is the first part of the
position of an event that has landed; then the transactions in progress are noted, and the query's snapshot must have
none of them in progress any more. Transactions that write one row wait for each other.
"""

from __future__ import annotations

from tests.model.engine import BLOCK, Violation
from tests.model.full_copy import Resting, Settings

INFINITE = 99


class Cfg(Settings):
    """Rules as switches; the defaults are the whole protocol."""

    transactions = {}  # by name: steps: ("u", key, value), ("d", key), ("commit",), ("abort",)
    base = (("a", "0"), ("b", "0"))
    held = ()  # (key, value): rows of the mirror that have vanished from the source without an event
    position = "pair"  # of an event: pair (commit before it, own LSN) | own (LSN alone) | commit (of its transaction)
    low = "first"  # of a landed event: first (part of its position) | own (LSN) | commit; or end (of the log)
    looks = ("low", "note", "query")  # in which order
    awaited = "noted"  # noted (the snapshot has none of them in progress) | logged (whose commit is there) | none
    row = 0  # second part of a chunk row's position: 0 | INFINITE
    sweep = False  # what the chunk lacks, and is older than it, becomes a tombstone
    always = (("see", "T"), ("see", "U"), ("see", "V"), ("stream",), ("apply",))
    budget = (0, 0, 0, 0)

    def init(self, _cfg):
        # a heartbeat has landed first: the log begins with it
        s = {"log": (("heartbeat",),), "seen": frozenset(), "sent": 0, "topic": ((0, 1, None, None),), "done": 1}
        return s | {("row", k): ((0, 0, 0), v) for k, v in self.held}


# ---------------------------------------------------------------- the source


def change(s, cfg, name, i):
    """Write a step of a transaction to the log; a row that another one has written waits for its end."""
    step = cfg.transactions[name][i]
    if step[0] in ("u", "d"):
        for entry in s["log"]:
            if entry[0] in ("u", "d") and entry[1] == step[1] and entry[-1] != name and entry[-1] in progress(s):
                return BLOCK
    s["log"] = (*s["log"], (*step, name))
    return "ok"


def see(s, cfg, name):
    """Other snapshots see a commit from now on."""
    if name in s["seen"] or ("commit", name) not in s["log"]:
        return BLOCK
    s["seen"] = s["seen"] | {name}
    return "ok"


def progress(s):
    """Transactions that are in progress for a snapshot: begun, neither seen nor aborted."""
    begun = {entry[-1] for entry in s["log"] if len(entry) > 1}
    return begun - s["seen"] - {entry[1] for entry in s["log"] if entry[0] == "abort"}


def commits(s):
    """(LSN, name) of the commits in the log."""
    return [(lsn, entry[1]) for lsn, entry in enumerate(s["log"], 1) if entry[0] == "commit"]


def rows_of(cfg, log, names):
    """The table once these transactions are seen."""
    rows = dict(cfg.base)
    for entry in log:
        if entry[-1] in names and entry[0] == "u":
            rows[entry[1]] = entry[2]
        elif entry[-1] in names and entry[0] == "d":
            rows.pop(entry[1], None)
    return rows


# ---------------------------------------------------------------- the stream and the mirror


def stream(s, cfg):
    """Deliver the next transaction, whole."""
    found = commits(s)
    if s["sent"] >= len(found):
        return BLOCK
    commit, name = found[s["sent"]]
    before = commit if cfg.position == "commit" else found[s["sent"] - 1][0] if s["sent"] else 1
    events = [
        (before, lsn, entry[1], entry[2] if entry[0] == "u" else None)
        for lsn, entry in enumerate(s["log"], 1)
        if entry[-1] == name and entry[0] in ("u", "d")
    ]
    s["topic"] = (*s["topic"], *events)
    s["sent"] += 1
    return "ok"


def merge(s, key, at, value):
    old = s.get(("row", key))
    if old is None or at > old[0]:
        s["row", key] = (at, value)


def apply(s, cfg):
    if s["done"] >= len(s["topic"]):
        return BLOCK
    before, own, key, value = s["topic"][s["done"]]
    s["done"] += 1
    merge(s, key, (own, 0, 0) if cfg.position == "own" else (before, own, 0), value)
    return "ok"


# ---------------------------------------------------------------- the chunk


def low(s, cfg):
    before, own, _, _ = s["topic"][-1]
    commit = commits(s)[s["sent"] - 1][0] if s["sent"] else 1
    return {"first": before, "own": own, "commit": commit, "end": len(s["log"])}[cfg.low]


def note(s, cfg):
    """The transactions in progress."""
    return frozenset(progress(s))


def query(s, cfg, noted):
    awaited = noted if cfg.awaited == "noted" else noted & {name for _, name in commits(s)}
    if cfg.awaited != "none" and awaited & progress(s):
        return BLOCK
    return tuple(sorted(rows_of(cfg, s["log"], s["seen"]).items()))


def chunk(s, cfg, at, rows):
    """Merge the chunk, of the whole table; what it lacks and is older becomes a tombstone."""
    for key, value in rows:
        merge(s, key, (at, cfg.row, 1), value)
    for k in [k for k in s if k[0] == "row" and k[1] not in dict(rows)] if cfg.sweep else ():
        merge(s, k[1], (at, cfg.row, 1), None)
    s["copied"] = True
    return "ok"


# ---------------------------------------------------------------- what must hold


def live(s):
    return {k[1]: row[1] for k, row in s.items() if k[0] == "row" and row[1] is not None}


def invariant(s, cfg):
    """S9': once copied, each row is as it was after some commit from the last one that is applied on."""
    if "copied" not in s:
        return
    names, applied, left = [name for _, name in commits(s)], 0, s["done"] - 1
    while applied < len(names):
        left -= sum(entry[-1] == names[applied] and entry[0] in ("u", "d") for entry in s["log"])
        if left < 0:
            break
        applied += 1
    later = [rows_of(cfg, s["log"], names[:i]) for i in range(applied, len(names) + 1)]
    rows = live(s)
    for key in {*rows, *later[0]} - {k for k, _ in cfg.held}:
        may = {of.get(key) for of in later}
        if rows.get(key) not in may:
            raise Violation(f"told that nothing is older than commit {applied}: {key} is {rows.get(key)}, it was {may}")


def rest(s, cfg):
    """All is committed, delivered and applied."""
    ended = all((steps[-1][0], name) in s["log"] for name, steps in cfg.transactions.items())
    if ended and "copied" in s and s["sent"] == len(commits(s)) and s["done"] == len(s["topic"]):
        source = rows_of(cfg, s["log"], {name for _, name in commits(s)})
        if live(s) != source:
            raise Violation(f"at rest the mirror has {live(s)}, the source {source}")


# ---------------------------------------------------------------- tasks


def transaction(cfg, name):
    for i in range(len(cfg.transactions[name])):
        yield ("change", name, i)


def copier(cfg):
    at, noted, rows = None, frozenset(), ()
    for look in cfg.looks:
        if look == "low":
            at = yield ("low",)
        elif look == "note":
            noted = yield ("note",)
        else:
            rows = yield ("query", noted)
    yield ("chunk", at, rows)


PROGRAMS = {f.__name__: f for f in (transaction, copier)}
OPS = {f.__name__: f for f in (change, see, stream, apply, low, note, query, chunk)}


def build(**settings):
    """A model of a scenario's settings."""
    return Resting(Cfg(**settings), PROGRAMS, OPS, invariant, rest)
