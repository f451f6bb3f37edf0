"""A model of a mirror whose shards lie on two servers (S11): each has a log of its own, whose positions say nothing
beside those of the other one.

Events of both come by one lane. A round reads one server; its turn, its sweep, its marker, the beginning of the topic
that it asks for (S4) and the purge are of that server alone, so that one which dies in its round holds up no other.
Readers are shown the table once each server has a whole round.
What is told is a vector: up to which position of each log nothing is older (S9'), and up to which time all is in.

Steps of a server: ("u", key, value), ("d", key), ("ghost", key): a row that vanishes without event or position;
("late", key, value): its event may come behind later ones, whatever the connector has promised (M6).
"""

from __future__ import annotations

from tests.model.engine import BLOCK, Violation
from tests.model.full_copy import Resting, Settings

SERVERS = (0, 1)


class Cfg(Settings):
    """Rules as switches; the defaults are the whole protocol."""

    scripts = ((), ())  # by server
    base = ((("a", "0"),), (("a", "0"),))  # rows of the beginning, by server
    first = (10, 0)  # where the log of each server begins
    copied = frozenset()  # servers whose round stands in the table from the beginning, whole
    connected = True  # both connectors have run from the beginning
    identity = "server"  # S11: (server, key) | key
    sweep_of = "server"  # S5: a round's sweep drops rows of: its server | all
    marker_of = "server"  # S5: its marker is of: its server | all
    begins_of = "server"  # S4: an event that shows the topic's beginning is of: the server that is read | any
    purge_of = "server"  # M5: what a purge drops, and its marker, are of: each server | all, by the greatest position
    waits_for = "server"  # S7: tombstones of a server stay while a round is open of: that server | all | none
    turn = "server"  # S6: a round begins once the one before is over, of: its server | all
    order = "server"  # S6: a chunk is refused once a newer round is in the table, of: its server | all
    apart = False  # nobody waits for ever
    dropped = "no copy"  # S11: what has dropped the rows of a server is: no copy | a copy of it, once it is back
    gone = "kept"  # M5: the purge of a server whose line goes, and comes back, is: kept | forgotten
    floor_of = "server"  # S7: a LOW is compared with the purge of: its server | all | none
    whole_by = "each"  # shown once: each server has a whole round | any of them
    told_of = "each"  # S9': the position of each server is: its own connector's | where its log ends now
    time = "smallest"  # of the looks: smallest | greatest
    silent = True  # S9', M5: nothing is told of a server of which a purge has kept an event out
    tells = "whole"  # S9': of a server that is: whole | any
    copies = True  # the first copy is a promise: readers see nothing before it

    no_crash = ("source", "round", "observer", "purger", "connector")

    def __init__(self, **kw):
        super().__init__(**kw)
        steps = [range(len(script) + 1) for script in self.scripts]
        self.position = [
            [self.first[v] + sum(step[0] != "ghost" for step in self.scripts[v][:n]) for n in steps[v]] for v in SERVERS
        ]
        self.states = [[_rows(self.base[v], self.scripts[v][:n]) for n in steps[v]] for v in SERVERS]

    @property
    def always(self):
        """A connector delivers, and what is delivered is merged, at any time."""
        return (("deliver", 0), ("deliver", 1), ("merge",), *(("deliver_late", v) for v in SERVERS if self.is_late(v)))

    def is_late(self, v):
        return any(step[0] == "late" for step in self.scripts[v])

    def init(self, _cfg):
        s = {"topic": (), "done": 0, "clock": 0}
        for v in SERVERS:
            s["n", v] = s["sent", v] = 0
            s["purged", v], s["marker", v], s["begins", v] = 0, (0, 0), None
            s["at", v] = (0,)  # when each state of the server began
            s["from", v] = 0 if self.connected else None
            s["whole", v] = v in self.copied
            s["round", v] = s["newest", v] = s["over", v] = 0
            s["late", v], s["kept", v] = None, False
            if v in self.copied:
                s.update({("row", self.key(v, k)): ((0, 0), False, value, v) for k, value in self.base[v]})
        return s

    def key(self, v, key):
        return (v, key) if self.identity == "server" else key

    def others(self, v, of):
        """The servers that a rule is about."""
        return {"server": (v,), "all": SERVERS, "any": SERVERS, "none": ()}[of]


def _rows(base, steps):
    rows = dict(base)
    for op, key, *rest in steps:
        if op in ("u", "late"):
            rows[key] = rest[0]
        else:
            rows.pop(key, None)
    return rows


# ---------------------------------------------------------------- the servers and their connectors


def write(s, cfg, v):
    s["n", v] += 1
    s["clock"] += 1
    s["at", v] = (*s["at", v], s["clock"])
    return "ok"


def connect(s, cfg, v):
    """The connector begins at the end of the log."""
    s["from", v] = s["sent", v] = s["n", v]
    return "ok"


def deliver(s, cfg, v):
    """The next step of a server comes into the topic."""
    n = s["sent", v]
    if s["from", v] is None or n >= s["n", v]:
        return BLOCK
    op, key, *rest = cfg.scripts[v][n]
    s["sent", v] = n + 1
    if op == "late":
        s["late", v] = n
    elif op != "ghost":
        s["topic"] = (*s["topic"], (v, cfg.position[v][n + 1], key, op == "d", rest[0] if rest else None))
    return "ok"


def deliver_late(s, cfg, v):
    n = s["late", v]
    if n is None:
        return BLOCK
    _, key, value = cfg.scripts[v][n]
    s["late", v], s["topic"] = None, (*s["topic"], (v, cfg.position[v][n + 1], key, False, value))
    return "ok"


# ---------------------------------------------------------------- commits to the table


def merge(s, cfg):
    """The oldest event that the table lacks: the greater position of a key wins (M2)."""
    if s["done"] >= len(s["topic"]):
        return BLOCK
    v, at, key, deleted, value = s["topic"][s["done"]]
    s["done"] += 1
    if s["begins", v] is None:
        s["begins", v] = at
    found = s.get(("row", cfg.key(v, key)))
    if found is None and ((at, 0) < s["marker", v] or at < s["purged", v]):
        s["kept", v] = s["kept", v] or at < s["purged", v]
        return "ok"
    if found is None or found[0] < (at, 0):
        s["row", cfg.key(v, key)] = ((at, 0), deleted, value, v)
    return "ok"


def is_open(s, cfg, v, of):
    """Whether a round is, of one of the servers that a rule is about."""
    return any(s["round", w] > s["over", w] for w in cfg.others(v, of))


def low(s, cfg, r, v):
    """LOW of a round, once one may begin (S6) and the topic has shown that it began before (S4)."""
    shown = [s["begins", w] is not None for w in cfg.others(v, cfg.begins_of)]
    if is_open(s, cfg, v, cfg.turn) or not any(shown):
        return BLOCK
    s["round", v] = r
    return cfg.position[v][s["n", v]]


def select(s, cfg, v):
    return tuple(sorted(cfg.states[v][s["n", v]].items()))


def chunk(s, cfg, r, v, at, rows):
    """All rows of the server, in one commit (S1, S6, S7)."""
    below = any(at < s["purged", w] for w in cfg.others(v, cfg.floor_of))
    if below or any(r < s["newest", w] for w in cfg.others(v, cfg.order)):
        s["refused"] = at
        return "refused: below the purge, or a newer round is in the table"
    s["newest", v] = r
    for k, value in rows:
        found = s.get(("row", cfg.key(v, k)))
        if found is None or found[0] < (at, r):
            s["row", cfg.key(v, k)] = ((at, r), False, value, v)
    return "ok"


def sweep(s, cfg, r, v, at):
    """Drop what the round did not find, and what is older than it; leave its position as a marker (S5)."""
    s["whole", v], s["over", v] = True, r
    return sweep_rows(s, cfg, r, v, at)


def sweep_rows(s, cfg, r, v, at):
    for k in [k for k in s if k[0] == "row" and s[k][3] in cfg.others(v, cfg.sweep_of)]:
        if s[k][0] < (at, r):
            del s[k]
    for w in cfg.others(v, cfg.marker_of):
        s["marker", w] = max(s["marker", w], (at, r))
    return "ok"


def purge(s, cfg):
    """Drop, in one commit, tombstones of each server of which no round is open, below the newest merged position of it
    (M5); whatever comes later is above (M6)."""
    below = {v: at for v, at, *_ in s["topic"][: s["done"]] if not is_open(s, cfg, v, cfg.waits_for)}
    if not below:
        return BLOCK
    if cfg.purge_of == "all":
        below = dict.fromkeys(SERVERS, max(below.values()))
    for v, at in below.items():
        for k in [k for k in s if k[0] == "row" and s[k][3] == v and s[k][1] and s[k][0][0] < at]:
            del s[k]
        s["purged", v] = max(s["purged", v], at)
    return "ok"


def leave(s, cfg, v):
    """The YAML names the server no more, and then again; meanwhile none of its events is merged."""
    if cfg.gone == "forgotten":
        s["purged", v] = 0
    return "ok"


def drop(s, cfg, v, r):
    """A round that has read no row, above all that is known of the server: its rows go (S5). Its line is back later."""
    at = max((at for w, at, *_ in s["topic"][: s["done"]] if w == v), default=0)
    s["whole", v] = cfg.dropped == "a copy"
    if not s["whole", v]:  # of a server that is not there the commit tells nothing
        s["told"] = tuple(0 if w == v else place for w, place in zip(SERVERS, s.get("told", (0, 0)), strict=True))
        s["time"] = 0
    return sweep_rows(s, cfg, r, v, max(at, s["purged", v], s["marker", v][0]))


# ---------------------------------------------------------------- what is told


def look(s, cfg, v):
    """How far a connector has delivered, and when it said so (S10)."""
    return s["sent", v] if s["late", v] is None else s["late", v], s["clock"], s["n", v]


def ends(s, cfg):
    return len(s["topic"])


def tell(s, cfg, looks, end):
    """Once all is merged that was in the topic: for each server the place (in its steps) behind which nothing is older,
    0 where nobody knows, and the time up to which everything is in, where all places are known."""
    if s["done"] < end:
        return BLOCK
    own = [sent for sent, _, _ in looks]
    s["told"] = tuple(own if cfg.told_of == "each" else [own[0], *[n for _, _, n in looks[1:]]])
    known = [clock for sent, clock, n in looks if sent == n]  # where a connector lags, the time is not known here
    times = min(known, default=0) if cfg.time == "smallest" else max(known, default=0)
    s["time"] = times if len(known) == len(looks) or cfg.time != "smallest" else 0
    told_of = [(s["whole", v] or cfg.tells == "any") and not (s["kept", v] and cfg.silent) for v in SERVERS]
    if not all(told_of):
        s["told"] = tuple(place if of else 0 for place, of in zip(s["told"], told_of, strict=True))
        s["time"] = 0
    return "ok"


def shown(s, cfg):
    """Whether readers see the table."""
    return (all if cfg.whole_by == "each" else any)(s["whole", v] for v in SERVERS)


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    """Each row of a server is as of some moment since what was told of it, or since the first copy."""
    for v in SERVERS:
        if not cfg.copies or not (shown(s, cfg) or s.get("told", (0, 0))[v]):
            continue
        since = max(s.get("told", (0, 0))[v], sum(1 for at in s["at", v][1:] if at <= s.get("time", 0)))
        for k in {key for state in cfg.states[v] for key in state}:
            row = s.get(("row", cfg.key(v, k)))
            value = None if row is None or row[1] else row[2]
            may = {state.get(k) for state in cfg.states[v][since : s["n", v] + 1]}
            if value not in may:
                raise Violation(f"key {k} of server {v} is {value}, since step {since} the source had {may}")


def rest(s, cfg):
    """Once all is delivered and merged, the mirror is both servers; but for a row that vanished after its round, and
    for a server whose late event a purge has kept out."""
    if (
        any(s["sent", v] < s["n", v] or s["late", v] is not None for v in SERVERS)
        or s["done"] < len(s["topic"])
        or not shown(s, cfg)
    ):
        return
    if s.get("refused"):
        raise Violation(f"at rest the round of LOW {s['refused']} is refused, and would be again")
    for v in (each for each in SERVERS if not (s["kept", each] and cfg.is_late(each))):
        mine = {k[1]: row for k, row in s.items() if k[0] == "row"}
        for k in {key for state in cfg.states[v] for key in state}:
            row = mine.get(cfg.key(v, k))
            value, wanted = None if row is None or row[1] else row[2], cfg.states[v][s["n", v]].get(k)
            if value != wanted:
                raise Violation(f"at rest key {k} of server {v} is {value}, the source has {wanted}")


# ---------------------------------------------------------------- tasks


def source(cfg, v):
    for _ in cfg.scripts[v]:
        yield ("write", v)


def late_source(cfg, v, before):
    """The connector begins once so many steps are done."""
    for n, _ in enumerate(cfg.scripts[v]):
        if n == before:
            yield ("connect", v)
        yield ("write", v)


def copier(cfg, *servers):
    """Rounds 1, 2, ... of these servers, one after the other."""
    for r, v in enumerate(servers, 1):
        yield from reader(cfg, r, v)


def reader(cfg, r, v):
    at = yield ("low", r, v)
    rows = yield ("select", v)
    if (yield ("chunk", r, v, at, rows)) == "ok":
        yield ("sweep", r, v, at)


def dying(cfg, r, v):
    """A round whose server gives no answer any more."""
    yield ("low", r, v)


def purger(cfg):
    yield ("purge",)


def leaving(cfg, v):
    yield ("leave", v)


def dropping(cfg, v, r):
    """Its rows are dropped, and then it is back, and read anew."""
    yield ("drop", v, r)
    yield from reader(cfg, r + 1, v)


def observer(cfg):
    looks = []
    for v in SERVERS:
        looks.append((yield ("look", v)))
    end = yield ("ends",)
    yield ("tell", tuple(looks), end)


PROGRAMS = {f.__name__: f for f in (source, late_source, copier, reader, dying, purger, leaving, dropping, observer)}
DONE = (write, connect, deliver, deliver_late, merge, low, select, chunk, sweep, purge, leave, drop, look, ends, tell)
OPS = {f.__name__: f for f in DONE}


class Apart(Resting):
    """A model that looks whether a process waits for ever, where the scenario says that none does."""

    def check(self, st):
        super().check(st)
        if self.cfg.apart and st[1] and next(self.succ(st), None) is None:
            raise Violation(f"{', '.join(proc[0] for proc in st[1])} waits for ever")


def build(**settings):
    """A model of a scenario's settings."""
    return Apart(Cfg(**settings), PROGRAMS, OPS, invariant, rest)
