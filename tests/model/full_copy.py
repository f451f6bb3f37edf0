"""A model of a full copy of a source table that goes on while its changes are merged: rules S1 to S9 and S11.

A chunk of the table is read between two looks at the source's log (LOW, select, HIGH); its rows and the events are
merged by the greatest position. When may a reader be told "this is the source at P", or "nothing here is older than
P"?

Steps of the source: ("u", key, value[, position that the event claims]), ("d", key), ("mv", old key, new key, value),
("ghost", key): a row that vanishes without event or position, ("other",): a position of another table.
"""

from __future__ import annotations

from tests.model.engine import BLOCK, Model, Switches, Violation


class Settings(Switches):
    """What the engine asks of a scenario; `budget` is crashes, lost replies, in-flight requests, environment events."""

    procs, env, env_kills, eager, live = (), (), (), (), frozenset()
    always = ()  # operations that are done at any time, by no process that remembers them
    no_crash = ("source", "applier")
    budget = (0, 0, 0, 0)


class Source(Settings):
    """A source table, its events by partition of the topic, and the rules about both."""

    script = ()
    keys = ("a", "b", "c")
    base = (("a", "0"), ("b", "0"))  # rows before the script begins
    parts = 1
    start = 0  # the topic holds events of positions above it
    heartbeats = True  # one for each position in every partition that has no event of it
    move_deletes = True  # S3: a key change sends the delete of the old key
    lag = False  # S2, taken out: the select reads a state one position old
    repaired = frozenset()  # keys that vanish without an event: what they should be is unknown until the repair

    def __init__(self, **kw):
        super().__init__(**kw)
        steps = range(len(self.script) + 1)
        self.position = [sum(step[0] != "ghost" for step in self.script[:n]) for n in steps]
        self.states = [_rows(self.base, self.script[:n]) for n in steps]
        self.events = _events(self)
        self.end = max(steps)

    def at(self, position):
        """The table's rows once everything up to `position` has been committed."""
        return self.states[max(n for n, p in enumerate(self.position) if p <= position)]

    def since(self, position, n, key):
        """What `key` was at some moment from `position` up to now, step `n`."""
        return {self.states[i].get(key) for i in range(n + 1) if self.position[i] >= position}


def _rows(base, steps):
    rows = dict(base)
    for op, key, *rest in (step for step in steps if step[0] != "other"):
        if op == "u":
            rows[key] = rest[0]
            continue
        rows.pop(key, None)
        if op == "mv":
            rows[rest[0]] = rest[1]
    return rows


def _events(cfg):
    """By partition: ((position, key, deleted, value), step needed, position of the commit, last of it here)."""
    out = tuple([] for _ in range(cfg.parts))
    for n, (op, *args) in enumerate(cfg.script, 1):
        p = cfg.position[n]
        if op == "ghost" or p <= cfg.start:
            continue
        found = []
        if op == "u":
            found = [(args[2] if len(args) > 2 else p, args[0], False, args[1])]
        elif op == "d" or (op == "mv" and cfg.move_deletes):
            found = [(p, args[0], True, None)]
        if op == "mv":
            found.append((p, args[1], False, args[2]))
        for q in range(cfg.parts):
            mine = [e for e in found if cfg.parts == 1 or (e[1] != "a") == q]
            if not mine and cfg.heartbeats:
                mine = [(p, None, False, None)]
            out[q].extend((e, n, p, i == len(mine) - 1) for i, e in enumerate(mine))
    return out


class Cfg(Source):
    """Rules as switches; the defaults are the whole protocol."""

    chunk_at = "low"  # S1: low | high: the position of a chunk's row
    pair = True  # S1: (position, number of the read), of an event (position, 0); else the position alone
    high = True  # S9: the certificate asks P >= HIGH of every applied chunk
    p_of = "complete"  # S9: complete | seen (the largest position that is applied)
    exact = True  # S9: told only while nothing above P is applied, in any partition, of any transaction
    p_parts = "min"  # S9: min | max over the topic's partitions
    start_check = True  # S4: a chunk with LOW < start is refused
    absent = "older"  # S5: older (rows of the range below (LOW, n) become tombstones) | any | none
    absent_after = "applied"  # S5: applied (all events up to LOW are in the table) | whenever
    order = True  # S6: a chunk older than one that is applied to its range is refused
    fenced = True  # one attempt of a chunk is accepted
    purge_check = "refuse"  # S7: refuse (a chunk with LOW < purged_below) | row (its rows are stale one by one) | none
    told_by = "table"  # S8: table (chunks stand in the snapshot) | ledger (written afterwards)
    claim = "exactly"  # S9: exactly (the source at P) | since (S9': each row as of some position from P on)
    torn = False  # the select reads row by row, each at another moment
    after = 2  # the step of the source that a second read waits for
    must = True  # at rest all must have been copied, and some position told
    identity = "shard"  # S11: shard (and key) | key
    shards = None  # by shard: (position, key, deleted, value); rows before that; wanted values

    def init(self, _cfg):
        s = {"n": 0, "purged": 0, "chunks": frozenset(), "known": frozenset()}
        s.update({("done", q): 0 for q in range(self.parts)})
        if self.shards:
            s.update({("row", self.key(shard, e[1])): ((e[0], 0), *e[2:]) for shard, e in self.shards[1]})
        return s

    def key(self, shard, key):
        return (shard, key) if self.identity == "shard" else key


# ---------------------------------------------------------------- the source, the topic and the table


def write(s, cfg, i):
    s["n"] = i + 1
    return "ok"


def position(s, cfg):
    return cfg.position[s["n"]]


def select(s, cfg, keys):
    rows = cfg.states[max(0, s["n"] - 1) if cfg.lag else s["n"]]
    return tuple(sorted((k, v) for k, v in rows.items() if k in keys))


def wait_step(s, cfg, i):
    return "ok" if s["n"] >= i else BLOCK


def beats(cfg, new, old):
    """Whether a position is above that of the row that is there (M2); a tie keeps what is there."""
    return old is None or (new > old[0] if cfg.pair else new[0] > old[0][0])


def event(s, cfg, q, j):
    """Apply one event of a partition; one below `purged_below` makes no new row (M5)."""
    (at, key, deleted, value), n, _, _ = cfg.events[q][j]
    if s["n"] < n:
        return BLOCK
    if key is not None:
        old = s.get(("row", key))
        if (old is not None or at >= s["purged"]) and beats(cfg, (at, 0), old):
            s["row", key] = ((at, 0), deleted, value)
    if j == s["done", q]:
        s["done", q] = j + 1
    return "ok"


def accept(s, cfg, n, attempt):
    """The ledger accepts one attempt of a chunk."""
    known = s.get(("accepted", n))
    if known is not None and cfg.fenced:
        return "ok" if known == attempt else "lost"
    s["accepted", n] = attempt
    return "ok"


def chunk(s, cfg, n, keys, low, rows, high):
    """Merge the n-th read, of the range `keys`."""
    if cfg.start_check and low < cfg.start:
        return "refused: the topic lacks events that come after LOW"
    if cfg.purge_check == "refuse" and low < s["purged"]:
        return "refused: below the purge"
    if cfg.order and any(c[0] > n and set(c[1]) & set(keys) for c in s["chunks"]):
        return "refused: older than what its range has"
    if cfg.absent != "none" and cfg.absent_after == "applied" and complete_to(s, cfg) < low:
        return BLOCK
    at = (low if cfg.chunk_at == "low" else high, n)
    for k, v in rows:
        old = s.get(("row", k))
        stale = old is None and cfg.purge_check == "row" and at[0] < s["purged"]
        if not stale and beats(cfg, at, old):
            s["row", k] = (at, False, v)
    for k in sorted(set(keys) - {k for k, _ in rows}) if cfg.absent != "none" else ():
        old = s.get(("row", k))
        if old is not None and not old[1] and (cfg.absent == "any" or beats(cfg, at, old)):
            s["row", k] = (at, True, None)
    s["chunks"] = s["chunks"] | {(n, keys, low, high)}
    if cfg.told_by == "table":
        s["known"] = s["chunks"]
    return "ok"


def tell_ledger(s, cfg):
    s["known"] = s["chunks"]
    return "ok"


def purge(s, cfg, below):
    """Remove tombstones below `below`, once every event below it is applied (M6)."""
    if complete_to(s, cfg) < below - 1:
        return BLOCK
    for k in [k for k in s if k[0] == "row" and s[k][1] and s[k][0][0] < below]:
        del s[k]
    s["purged"] = below
    return "ok"


def of_shard(s, cfg, shard):
    at, key, deleted, value = cfg.shards[0][shard]
    key = cfg.key(shard, key)
    if beats(cfg, (at, 0), s.get(("row", key))):
        s["row", key] = ((at, 0), deleted, value)
    return "ok"


# ---------------------------------------------------------------- what readers are told


def complete_to(s, cfg, of="complete", over=min):
    """P: every event up to it is applied."""
    found = []
    for q, events in enumerate(cfg.events):
        done = s["done", q]
        _, _, p, last = events[done - 1] if done else (None, None, cfg.start, True)
        found.append(p if last or of == "seen" else p - 1)
    return over(found)


def ahead(s, cfg, p):
    """Whether an event above P is applied."""
    return any(s["done", q] and events[s["done", q] - 1][2] > p for q, events in enumerate(cfg.events))


def certificate(s, cfg):
    """The P that a reader is told, or None."""
    chunks = s["known"]
    if set(cfg.keys) - {k for c in chunks for k in c[1]}:
        return None
    p = complete_to(s, cfg, cfg.p_of, min if cfg.p_parts == "min" else max)
    if cfg.claim == "exactly" and ((cfg.exact and ahead(s, cfg, p)) or (cfg.high and p < max(c[3] for c in chunks))):
        return None
    return p


def live(s):
    """What readers see: no tombstones."""
    return {k[1]: row[2] for k, row in s.items() if k[0] == "row" and not row[1]}


def nothing_older(cfg, s, p):
    """S9'."""
    rows = live(s)
    for k in cfg.keys:
        may = cfg.since(p, s["n"], k)
        if rows.get(k) not in may and k not in cfg.repaired:
            raise Violation(
                f"told that nothing is older than {p}: key {k} is {rows.get(k)}, the source had {may} since"
            )


def exactly(cfg, s, p):
    """S9."""
    rows, source = ({k: v for k, v in of.items() if k not in cfg.repaired} for of in (live(s), cfg.at(p)))
    if rows != source:
        raise Violation(f"told that this is the source at {p}: a reader sees {rows}, the source was {source}")


def invariant(s, cfg):
    p = None if cfg.shards else certificate(s, cfg)
    if p is not None:
        (nothing_older if cfg.claim == "since" else exactly)(cfg, s, p)


def rest(s, cfg):
    """No process is left."""
    rows = live(s)
    if cfg.shards:
        if sorted(rows.values()) != sorted(cfg.shards[2]):
            raise Violation(f"at rest the mirror has {rows}, the shards have {cfg.shards[2]}")
        return
    if s["n"] < cfg.end or any(s["done", q] < len(events) for q, events in enumerate(cfg.events)):
        return
    if cfg.must and set(cfg.keys) - {k for c in s["chunks"] for k in c[1]}:
        return
    if rows != cfg.states[-1]:
        raise Violation(f"at rest the mirror has {rows}, the source {cfg.states[-1]}")
    if cfg.must and certificate(s, cfg) is None:
        raise Violation("at rest, and no position will ever be told")


# ---------------------------------------------------------------- tasks


def source(cfg):
    for i in range(len(cfg.script)):
        yield ("write", i)


def applier(cfg, q):
    for j in range(len(cfg.events[q])):
        yield ("event", q, j)


def read(cfg, n, keys):
    """Read a range for the n-th time and merge it."""
    low = yield ("position",)
    rows = ()
    for part in [(k,) for k in keys] if cfg.torn else [keys]:
        rows += yield ("select", part)
    high = yield ("position",)
    if (yield ("accept", n, (low, rows))) == "lost":
        return
    yield ("chunk", n, keys, low, rows, high)
    if cfg.told_by == "ledger":
        yield ("tell_ledger",)


def reads(cfg, *chunks):
    for n, keys in chunks:
        yield from read(cfg, n, keys)


def repair(cfg):
    """Copy once, and again after a step of the source."""
    yield from read(cfg, 1, cfg.keys)
    yield from later(cfg)


def later(cfg):
    yield ("wait_step", cfg.after)
    yield from read(cfg, 2, cfg.keys)


def purger(cfg, below):
    yield ("purge", below)


def shard(cfg, n):
    yield ("of_shard", n)


PROGRAMS = {f.__name__: f for f in (source, applier, read, reads, repair, later, purger, shard)}
DONE = (write, position, select, wait_step, event, accept, chunk, tell_ledger, purge, of_shard)
OPS = {f.__name__: f for f in DONE}


class Resting(Model):
    """A model that looks at every state, and closer where no process is left."""

    def __init__(self, cfg, programs, ops, invariant, rest):
        super().__init__(cfg, programs, ops, set(), set(), invariant)
        self.rest = rest

    def succ(self, st):
        yield from super().succ(st)
        for op in self.cfg.always:
            done = self.run_op(st[0], op)
            if done is not None:
                yield ("always", op, done[1], ""), (done[0], *st[1:])

    def check(self, st):
        self.invariant(st[0], self.cfg)
        if not st[1]:
            self.rest(st[0], self.cfg)


def build(**settings):
    """A model of a scenario's settings."""
    return Resting(Cfg(**settings), PROGRAMS, OPS, invariant, rest)
