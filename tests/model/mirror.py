"""A model of a keyed table into which landed batches of change events are merged: state, tasks, promises.

Appliers take ranges of batches and commit by compare-and-set on the snapshot that they read; a purge removes
tombstones; a person restores an older table; strangers compact it, or remove tombstones behind our back. Any task may
crash, wait for ever, lose its answer or come late.

It is apart from the model of batches and hours: what has landed is taken as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.engine import BLOCK, UNK, Model, Switches, Violation


class Event(NamedTuple):
    """What happened to a row: `op` is u (the row is `value` now) or d. `seen`: when it entered the topic."""

    key: str
    position: int
    op: str
    value: str | None
    seen: int


class Table(NamedTuple):
    """A snapshot: rows and tombstones as (file, event), and what stands in its summary."""

    snapshot: int
    rows: frozenset
    purged_below: int  # M5
    upto: int  # M3
    events: int  # in batches 1 to `upto`
    inserted: int  # keys that got their first row or tombstone
    purged: int


EMPTY = Table(0, frozenset(), 0, 0, 0, 0, 0)


class Cfg(Switches):
    """Rules as switches, and what a scenario sets; the defaults are the whole protocol."""

    read = "current"  # M1: current (compare-and-set) | files (snapshot isolation, removed files only) | rebase
    order = "content"  # M2: content (position, upsert, content) | delete | first (who is there stays) | last | topic
    upto = True  # M3: `upto` in the commit, apply takes what lies above it
    gapless = True  # M3: a range that does not begin right after it is refused
    told_by = "table"  # M4: table | ledger | nobody: where readers learn which batches are in it
    mark = "prefix"  # M4: of the ledger: prefix | any (as the last apply says)
    marker = "table"  # M5: table | ledger (written after the purge) | none
    floor = "promise"  # M6: promise (for the table's upto) | ledger (for the ledger's mark) | landed | none | horizon
    asked_of = "merged"  # M6, horizon: whose plan says what is still to come: merged | landed | nobody
    settled = 2  # M6, horizon: how many times `keep` ago a batch must have landed; 0: whenever
    conflicts = "refused"  # M7: refused (two contents at one position) | taken
    balance = True  # rows + tombstones + purged = inserted, looked at before each merge
    batches = {}
    promise = {}  # by `upto`: the smallest position that a batch above it brings for the first time
    keep = 0  # M6, horizon: what becomes readable at a is not older than what was readable before a - keep
    looked = {}  # by batch: when its plan looked at the topic's ends; it has all that was readable then
    landed = None  # how many at first; the event `land` brings the next
    any_order = False  # batches may be merged in any order: what M1 and M2 allow without M3
    wanted = {}  # by key: the source's own newest value, where it is not what the events say
    procs = ()
    env = ()
    env_kills = ()
    no_crash = ()
    eager = ()
    live = frozenset()
    budget = (1, 1, 1, 0)  # crashes, lost replies, in-flight requests, environment events

    def __init__(self, **settings):
        super().__init__(**settings)
        self.ends = set()  # the views in which this table has come to rest

    def init(self, _cfg):
        landed = len(self.batches) if self.landed is None else self.landed
        return {"table": EMPTY, "purged": 0, "mark": 0, "landed": landed, "now": 0, "landed_at": (0,) * landed}


# ---------------------------------------------------------------- the merge


def rank(cfg, e):
    """What events of a key are compared by."""
    if cfg.order == "content":
        return e.position, e.op == "u", str(e.value)
    if cfg.order == "delete":
        return e.position, e.op == "d", str(e.value)
    return (e.position, e.seen) if cfg.order == "topic" else (e.position,)


def beats(cfg, new, old):
    return rank(cfg, new) >= rank(cfg, old) if cfg.order == "last" else rank(cfg, new) > rank(cfg, old)


def merged(cfg, rows, events, purged_below):
    """(key, files removed, new event) for each key that changes."""
    newest = {}
    for e in events:
        if e.key not in newest or beats(cfg, e, newest[e.key]):
            newest[e.key] = e
    changes = []
    for key, e in sorted(newest.items()):
        old = [(file, row) for file, row in rows if row.key == key]
        if (not old and e.position >= purged_below) or (old and all(beats(cfg, e, row) for _, row in old)):
            changes.append((key, tuple(sorted(file for file, _ in old)), e))
    return tuple(changes)


def disagree(rows, events):
    """Whether two events of a key have one position and different content; a delete aside (of an equal key)."""
    contents = {}
    for e in (*events, *(row for _, row in rows)):
        if e.op == "u":
            contents.setdefault((e.key, e.position), set()).add(e.value)
    return any(len(values) > 1 for values in contents.values())


def balanced(table):
    return len(table.rows) + table.purged == table.inserted


# ---------------------------------------------------------------- what tasks ask and change


def load(s, cfg):
    return s["table"]


def ledger(s, cfg):
    return s["purged"], s["mark"], s["landed"]


def horizon(s, cfg):
    """What the ledger knows of time: now, and when each batch has landed."""
    return s["now"], s["landed_at"]


def wait_landed(s, cfg, last):
    return "ok" if s["landed"] >= last else BLOCK


def commit(s, cfg, snapshot, changes, upto, events):
    """One snapshot more, if what was read is still so (M1)."""
    table = s["table"]
    if cfg.read == "current" and table.snapshot != snapshot:
        return "conflict"
    there = {(file, row.key) for file, row in table.rows}
    if cfg.read == "files" and any((file, key) not in there for key, files, _ in changes for file in files):
        return "conflict"
    rows, inserted = set(table.rows), table.inserted
    for key, files, e in changes:
        gone = {(f, row) for f, row in rows if row.key == key and (f in files or cfg.read == "rebase")}
        inserted += not gone
        rows = (rows - gone) | {(table.snapshot + 1, e)}
        newest = s.get(("newest", key), 0)
        if e.position < newest:
            s["bad"] = f"key {key} goes back from position {newest} to {e.position}"
        s["newest", key] = max(newest, e.position)
    upto = max(table.upto, upto)
    s["table"] = Table(
        table.snapshot + 1, frozenset(rows), table.purged_below, upto, table.events + events, inserted, table.purged
    )
    return "ok"


def purge_commit(s, cfg, snapshot, below):
    table = s["table"]
    if table.snapshot != snapshot and cfg.read != "rebase":
        return "conflict"
    rows = frozenset(r for r in table.rows if not (r[1].op == "d" and r[1].position < below))
    s["table"] = table._replace(
        snapshot=table.snapshot + 1,
        rows=rows,
        purged_below=max(table.purged_below, below) if cfg.marker == "table" else 0,
        purged=table.purged + len(table.rows) - len(rows),
    )
    return "ok"


def note_purge(s, cfg, below):
    s["purged"] = max(s["purged"], below)
    return "ok"


def mark(s, cfg, first, last):
    if cfg.mark == "prefix" and first > s["mark"] + 1:
        return "the batches before are not applied"
    s["mark"] = max(s["mark"], last) if cfg.mark == "prefix" else last
    return "ok"


# ---------------------------------------------------------------- what just happens


def land(s, cfg):
    if s["landed"] >= len(cfg.batches):
        return BLOCK
    s["landed"] += 1
    s["landed_at"] = (*s["landed_at"], s["now"])
    return "ok"


def tick(s, cfg):
    """Time passes, and what is read by then lands."""
    s["now"] += 1
    if cfg.looked.get(s["landed"] + 1) == s["now"]:
        land(s, cfg)
    return "ok"


def restore(s, cfg):
    """A person takes the table back to its beginning, and tells nobody."""
    if s["table"].snapshot == 0 or s.get("restored"):
        return BLOCK
    s["table"], s["restored"] = EMPTY._replace(snapshot=s["table"].snapshot + 1), True
    for k in [k for k in s if isinstance(k, tuple) and k[0] == "newest"]:
        del s[k]
    return "ok"


def compact(s, cfg):
    """A stranger writes the same rows into other files."""
    table = s["table"]
    if len({file for file, _ in table.rows}) < 2:
        return BLOCK
    new = table.snapshot + 1
    s["table"] = table._replace(snapshot=new, rows=frozenset((new, row) for _, row in table.rows))
    return "ok"


def foreign_purge(s, cfg):
    """A stranger removes tombstones, and says so nowhere."""
    table = s["table"]
    rows = frozenset(r for r in table.rows if r[1].op != "d")
    if rows == table.rows:
        return BLOCK
    s["table"], s["stranger"] = table._replace(snapshot=table.snapshot + 1, rows=rows), True
    return "ok"


# ---------------------------------------------------------------- tasks


def apply(cfg, first, last):
    """Merge batches `first` to `last`, or what of them lies above the table's `upto`."""
    yield ("wait_landed", last)
    while True:
        below = (yield ("ledger",))[0] if cfg.marker == "ledger" else None
        table = yield ("load",)
        below = table.purged_below if below is None else below
        if cfg.balance and not balanced(table):
            return "alarm: rows that nobody purged are gone"
        begin = first
        if cfg.upto:
            if last <= table.upto:
                break
            begin = max(first, table.upto + 1)
            if cfg.gapless and begin > table.upto + 1:
                return "refused: the batches before are not in the table"
        events = [e for n in range(begin, last + 1) for e in cfg.batches[n]]
        if cfg.conflicts == "refused" and disagree(table.rows, events):
            return "alarm: two contents at one position"
        changes = merged(cfg, table.rows, events, below)
        answer = yield ("commit", table.snapshot, changes, last, len(events))
        if answer == UNK:
            return "fail"
        if answer == "ok":
            break
    yield ("mark", first, last)
    return "ok"


def purge(cfg, below):
    """Remove tombstones with a position below `below`, as far as M6 allows."""
    while True:
        marked, landed = 0, 0
        if cfg.floor == "horizon":
            now, at = yield ("horizon",)
        else:
            _, marked, landed = yield ("ledger",)
        table = yield ("load",)
        if cfg.floor == "horizon":
            below = _position_of_the_horizon(cfg, now, at, table.upto)
            if below is None:
                return "refused: older events may still come"
        known = table.upto if cfg.upto and cfg.floor == "promise" else marked
        if cfg.floor in ("promise", "ledger") and below > cfg.promise.get(known, 0):
            return "refused: older events may still come"
        if cfg.floor == "landed" and known < landed:
            return "refused: batches wait"
        answer = yield ("purge_commit", table.snapshot, below)
        if answer == UNK:
            return "fail"
        if answer == "ok":
            if cfg.marker == "ledger":
                yield ("note_purge", below)
            return "ok"


def _position_of_the_horizon(cfg, now, at, upto):
    """H by what the ledger knows of time (core/mirror/purge.py); None: no purge."""
    known = {"merged": upto, "landed": len(at), "nobody": None}[cfg.asked_of]
    if known is not None and (known not in cfg.looked or cfg.looked[known] < now - cfg.keep):
        return None
    old = [n for n, landed in enumerate(at[:upto], 1) if landed <= now - cfg.settled * cfg.keep]
    return max((e.position for n in old for e in cfg.batches[n]), default=None)


ASKED = (load, ledger, horizon, wait_landed, commit, purge_commit, note_purge, mark)
HAPPENS = (land, tick, restore, compact, foreign_purge)
OPS = {f.__name__: f for f in (*ASKED, *HAPPENS)}
PROGRAMS = {"apply": apply, "purge": purge}


# ---------------------------------------------------------------- what must hold


def expected(cfg, upto):
    """The newest event of each key in batches 1 to `upto`, by M2 whatever the scenario does."""
    newest = {}
    for n in range(1, upto + 1):
        for e in cfg.batches[n]:
            order = (e.position, e.op == "u", str(e.value))
            if e.key not in newest or order > newest[e.key][0]:
                newest[e.key] = (order, e)
    return {key: e for key, (_, e) in newest.items()}


def view(table):
    """What readers see: no tombstones."""
    return frozenset((row.key, row.value) for _, row in table.rows if row.op != "d")


def invariant(s, cfg):
    if s.get("bad"):
        raise Violation(s["bad"])
    table = s["table"]
    rows = {row.key: row for _, row in table.rows}
    if len(rows) < len(table.rows):
        raise Violation(f"a key has two rows: {sorted(((row.key, row.value) for _, row in table.rows), key=str)}")
    told = {"table": table.upto, "ledger": s["mark"], "nobody": 0}[cfg.told_by]
    for key, e in expected(cfg, told).items() if not s.get("stranger") else ():
        if (key not in rows and e.op != "d") or (key in rows and rows[key].position < e.position):
            raise Violation(f"readers are told batches 1 to {told}, but key {key} is {rows.get(key)}, not {e}")


def heal(model, st):
    """All tasks are killed; what is in flight never happens, or happens before or after tasks are run one by one."""
    cfg = model.cfg
    flying = [k for k in st[0] if isinstance(k, tuple) and k[0] == "fly"]
    late = [("late", st[0][k]) for k in flying]
    tasks = [("task", (n, n)) for n in cfg.batches] if cfg.any_order else [("task", (1, len(cfg.batches)))]
    for steps in (tasks, late + tasks, tasks + late) if late else (tasks,):
        s = {k: v for k, v in st[0].items() if k not in flying} | {"landed": len(cfg.batches)}
        stopped = False
        for kind, what in steps:
            if kind == "late":
                s, _ = model.done(s, what)
            else:
                s, answer = model.to_its_end(s, ("apply", *what), held=True)
                stopped = stopped or answer.startswith("alarm")
        invariant(s, cfg)
        if not stopped:
            at_rest(s, cfg)
        elif not s.get("stranger") and not disagree((), [e for events in cfg.batches.values() for e in events]):
            raise Violation("a person is called without a reason")


def at_rest(s, cfg):
    """Everything has landed and was applied, and nobody has stopped for a person."""
    table = s["table"]
    seen = view(table)
    cfg.ends.add(seen)
    if len(cfg.ends) > 1:
        raise Violation(f"the table depends on the order: {[sorted(each) for each in cfg.ends]}")
    wanted = {key: e.value for key, e in expected(cfg, len(cfg.batches)).items() if e.op != "d"} | dict(cfg.wanted)
    if seen != frozenset(wanted.items()):
        raise Violation(f"at rest there is {sorted(seen)}, the events say {sorted(wanted.items())}")
    total = sum(len(events) for events in cfg.batches.values())
    if not cfg.any_order and table.events != total:
        raise Violation(f"the counts in the table add up to {table.events}, the batches have {total} events")
    if not balanced(table):
        raise Violation("rows + tombstones + purged differ from inserted")


def build(**settings):
    """A model of a scenario's settings."""
    commits = ("commit", "purge_commit")
    return Model(Cfg(**settings), PROGRAMS, OPS, commits, commits, invariant, heal)
