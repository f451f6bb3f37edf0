"""A model of a full copy that is read in rounds: rules S5 and S6 by the number of a round, ghosts found by a sweep.

A round reads the whole table once, in disjoint chunks; the ledger accepts one attempt of each. A new round begins only
when the one before is complete or given up. Once all chunks of the newest round stand in the table, one commit drops
every row and tombstone below (its smallest LOW, round): the sweep. It leaves that position as a marker: an event below
it whose key has no row makes none, since the round would have read one.

A round of a part of the keys (`part`) reads, sweeps and marks that part alone; the table is whole by a round of all.

The source, its events and what readers are told are those of `full_copy.py`.
"""

from __future__ import annotations

from tests.model import full_copy
from tests.model.engine import BLOCK, Violation
from tests.model.full_copy import Resting, Source, beats, complete_to, live, position, write


class Cfg(Source):
    """Rules as switches; the defaults are the whole protocol."""

    ranges = (("a", "b"), ("c",))  # of a round's chunks
    copied = True  # round 1 is complete, and has brought the rows of the beginning
    held = ()  # other rows of the beginning: (key, value), as events brought them at position 0
    fenced = True  # one attempt of each chunk is accepted, of a round that is not over
    one_round = True  # a round begins only when the one before is over
    order = True  # S6: a chunk of a round below the table's newest is refused
    pair = True  # S1: (position, round), of an event (position, 0); else the position alone
    purge_check = True  # S7: a chunk with LOW < purged_below is refused, and its round given up
    behind = ()  # (round, n): LOW is the position of an event that has landed, n positions ago
    rises = True  # S5: LOW is not below that of an earlier round; else wait
    sweep_at = "smallest"  # S5: smallest (LOW of the round) | greatest | first (LOW of its first chunk) | high
    sweep_after = "all"  # S5: all (chunks stand in the table) | accepted (in the ledger) | any (one of them)
    marker = True  # S5: an event below the sweep, whose key has no row, makes none
    claim = "since"  # since (S9': each row as of some position from P on) | exactly (S9)
    high = True  # S9: told only if P >= HIGH of every chunk that is in the table
    sweep_newest = True  # S5: refused once a chunk of a newer round stands in the table
    part = {}  # keys of a round that reads a part of the table
    sweep_part = True  # the sweep of such a round leaves other keys alone
    mark_part = "part"  # its marker: of part | all | none
    whole_by = "all"  # the table is whole by a round of: all (keys) | part (of any)
    sweep_rows = "older"  # S5: older (than the bound) | any (whatever the round has not brought)

    def init(self, _cfg):
        s = {"n": 0, "purged": 0, "round": 0, "over": frozenset(), "chunks": frozenset()}
        s.update({("swept", k): 0 for k in self.keys} | {("marker", k): (0, 0) for k in self.keys})
        s.update({("done", q): 0 for q in range(self.parts)})
        s.update({("row", k): ((0, 0), False, v) for k, v in self.held})
        if self.copied:
            s.update({("row", k): ((0, 1), False, v) for k, v in self.base})
            s["round"], s["over"] = 1, frozenset({1})
            s["chunks"] = frozenset((1, i, 0, 0, 0) for i in range(len(self.ranges)))
        return s

    def chunks_of(self, r):
        """Numbers of the ranges that a round reads."""
        part = self.part.get(r, self.keys)
        return tuple(i for i, keys in enumerate(self.ranges) if set(keys) & set(part))

    def rows_of(self, r, i):
        return set(self.ranges[i]) & set(self.part.get(r, self.keys))


# ---------------------------------------------------------------- the ledger


def begin(s, cfg, r):
    """Begin a round, or go on with it."""
    if s["round"] < r - 1 or (cfg.one_round and r > 1 and r - 1 not in s["over"]):
        return BLOCK
    s["round"] = max(s["round"], r)
    return "over" if r in s["over"] else "ok"


def give_up(s, cfg, r):
    if s["round"] < r:
        return BLOCK
    s["over"] = s["over"] | {r}
    return "ok"


def low(s, cfg, r, i):
    """LOW of a chunk that has no accepted attempt yet, and the source's step (for the claim about ghosts alone)."""
    if ("accepted", r, i) in s and cfg.fenced:
        return None
    at = max(0, position(s, cfg) - dict(cfg.behind).get(r, 0))
    if cfg.rises and at < max((c[2] for c in s["chunks"] if c[0] < r), default=0):
        return BLOCK
    return at, s["n"]


def select(s, cfg, r, i):
    rows = cfg.states[s["n"]]
    return tuple(sorted((k, v) for k, v in rows.items() if k in cfg.rows_of(r, i)))


def accept(s, cfg, r, i, attempt):
    if cfg.fenced and (("accepted", r, i) in s or r in s["over"]):
        return "lost"
    s["accepted", r, i] = attempt
    return "ok"


# ---------------------------------------------------------------- commits to the table


def newest(s):
    return max((c[0] for c in s["chunks"]), default=0)


def stand(s, r):
    return {c[1] for c in s["chunks"] if c[0] == r}


def chunk(s, cfg, r, i, mine):
    """Merge the accepted attempt of a chunk; `mine` is the reader's own, which an unfenced zombie merges."""
    if cfg.fenced and i in stand(s, r):
        return "ok"  # S8: the table says what is in it
    attempt = s.get(("accepted", r, i)) if cfg.fenced else mine
    if attempt is None:
        return "refused: no attempt is accepted"
    if cfg.order and r < newest(s):
        return "refused: a newer round has begun"
    at, rows, high, step = attempt
    if cfg.purge_check and (at < s["purged"] or (at, r) < max(s["marker", k] for k in cfg.keys)):
        return "refused: below the purge, or below a sweep"
    for k, v in rows:
        if beats(cfg, (at, r), s.get(("row", k))):
            s["row", k] = ((at, r), False, v)
    s["chunks"] = s["chunks"] | {(r, i, at, high, step)}
    return "ok"


def sweep(s, cfg, r):
    """Drop what the round did not find, and what is older than it; tombstones too, for the marker does their work."""
    chunks = sorted(c[1:] for c in s["chunks"] if c[0] == r)
    if cfg.sweep_after == "accepted":
        chunks = sorted((k[2], s[k][0], s[k][2], s[k][3]) for k in s if k[:2] == ("accepted", r))
    if not chunks or (cfg.sweep_after != "any" and len({c[0] for c in chunks}) < len(cfg.chunks_of(r))):
        return BLOCK if r not in s["over"] else "refused: the round is over"
    if cfg.sweep_newest and r < newest(s):
        return "refused: a newer round has begun"
    lows = [c[1] for c in chunks]
    greatest = {"greatest": max(lows), "high": max(c[2] for c in chunks), "first": lows[0]}
    bound = greatest.get(cfg.sweep_at, min(lows))
    part = cfg.part.get(r, cfg.keys)
    for k in [k for k in s if k[0] == "row" and (k[1] in part or not cfg.sweep_part)]:
        older = beats(cfg, (bound, r), s[k]) if cfg.sweep_rows == "older" else s[k][0][1] != r
        if older:
            del s[k]
    marked = {"part": part, "all": cfg.keys}.get(cfg.mark_part, part if part == cfg.keys else ())
    for k in marked if cfg.marker else ():
        s["marker", k] = max(s["marker", k], (bound, r))
    for k in part:
        s["swept", k] = max(s["swept", k], min(c[3] for c in chunks))
    return "ok"


def event(s, cfg, q, j):
    """Apply one event; one below the marker makes no new row."""
    (at, key, _, _), n, _, _ = cfg.events[q][j]
    if s["n"] >= n and key is not None and ("row", key) not in s and (at, 0) < s["marker", key]:
        if j == s["done", q]:
            s["done", q] = j + 1
        return "ok"
    return full_copy.event(s, cfg, q, j)


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    """Told once a whole round of all keys stands in the table."""
    rounds = [r for r in range(1, s["round"] + 1) if r not in cfg.part or cfg.whole_by == "part"]
    if all(len(stand(s, r)) < len(cfg.chunks_of(r)) for r in rounds):
        return
    p = complete_to(s, cfg)
    if cfg.claim == "since":
        full_copy.nothing_older(cfg, s, p)
    elif not full_copy.ahead(s, cfg, p) and (not cfg.high or p >= max(c[3] for c in s["chunks"])):
        full_copy.exactly(cfg, s, p)


def rest(s, cfg):
    """The mirror is the source, but for rows that vanished after the first LOW of the last round that was swept."""
    if s["n"] < cfg.end or any(s["done", q] < len(events) for q, events in enumerate(cfg.events)):
        return
    if s["round"] not in s["over"] or len(stand(s, s["round"])) < len(cfg.chunks_of(s["round"])):
        return  # nobody has finished the copy
    ghosts = [(n, step[1]) for n, step in enumerate(cfg.script, 1) if step[0] == "ghost"]
    late = {key for n, key in ghosts if n > s["swept", key]}
    rows, source = ({k: v for k, v in of.items() if k not in late} for of in (live(s), cfg.states[-1]))
    if rows != source:
        raise Violation(f"at rest the mirror has {rows}, the source {source}")


# ---------------------------------------------------------------- tasks


def copier(cfg, r, *order):
    """Read a round's chunks in this order, merge them, sweep; give the round up where a chunk is refused."""
    if (yield ("begin", r)) == "over":
        return
    for i in order or cfg.chunks_of(r):
        at, mine = (yield ("low", r, i)), None
        if at is not None:
            rows = yield ("select", r, i)
            mine = (at[0], rows, (yield ("position",)), at[1])
            if (yield ("accept", r, i, mine)) == "lost" and cfg.fenced:
                mine = None
        if (yield ("chunk", r, i, mine)) != "ok":
            yield ("give_up", r)
            return
    yield from sweeper(cfg, r)


def sweeper(cfg, r):
    if (yield ("sweep", r)) == "ok":
        yield ("give_up", r)  # complete


def copiers(cfg, *rounds):
    for r in rounds:
        yield from copier(cfg, r)


def giver_up(cfg, r):
    yield ("give_up", r)


PROGRAMS = {f.__name__: f for f in (copier, copiers, sweeper, giver_up)}
PROGRAMS |= {name: full_copy.PROGRAMS[name] for name in ("source", "applier", "purger")}
DONE = (begin, give_up, low, select, accept, chunk, sweep, write, event, position, full_copy.purge)
OPS = {f.__name__: f for f in DONE}


def build(**settings):
    """A model of a scenario's settings."""
    return Resting(Cfg(**settings), PROGRAMS, OPS, invariant, rest)
