"""A model of a keyed table by days (docs/adr/mirror-days.md): each is built on the day before and its events; one of
them takes a copy of the source's table, read while events land; tombstones are purged; days are built again, their
records get lost, a ledger is restored.

A day that is published is compared with the source: each row is as of some moment from the last one of which all is in
the day, a copy's LOW or the events, to the day's end, or to the copy's reading if that came later.

Steps of the source: ("u", key, value), ("d", key), ("ghost", key) and ("sneak", key, value): a row that vanishes, or
comes, without event or position, ("day",): midnight. Time is told in days. That a generation is built and shown by one
task at a time is the concern of `operations`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.model.engine import BLOCK, Violation
from tests.model.full_copy import Resting, Settings

START = (0, 0)


class Day(NamedTuple):
    """A generation, as `_day.json` tells it. `rows`: (key, position, deleted, value). `since`, `until`: steps of the
    source at the smallest LOW of the newest copy that is in it, and when that was read; for the claim alone."""

    rows: frozenset = frozenset()
    taken: int = 0
    copied: int = 0
    swept: tuple = START
    purged: tuple = START
    seen: tuple = ()
    since: int = 0
    until: int = 0


class Plan(NamedTuple):
    """What a build has decided before it begins to write."""

    base: int
    taken: int
    purge_to: tuple
    seen: tuple
    again: bool  # by the record of the day in force


class Cfg(Settings):
    """Rules as switches; the defaults are the whole protocol."""

    no_crash = ("source", "sender")
    eager = ("finish",)  # what a day is built on does not change meanwhile
    lands = True  # an event lands as soon as it is readable; else by `batch`
    script = ()
    begun = 0  # so many steps are done
    daily = False  # midnight comes once the days before are published
    base = (("a", "0"), ("b", "0"))  # rows before the script begins; the topic has no event of them
    chunks = (("a",), ("b",))
    keep: Any = None  # tombstones stay for so many days
    promise = True  # what becomes readable is not older than what was readable `keep` days before
    waits = True  # S9': no day is published before a copy is whole
    turn = True  # nor before the day before is
    whole = True  # a day takes a copy that is whole; else whatever is read of the newest one
    sweep = True  # S5: what is older than the copy, and was not read, goes
    marker = True  # S5: later days know the position of the sweep
    pair = True  # S1: (LOW, number of the copy); else LOW alone
    recorded = "all"  # built again, a day takes: all | no copy | no purge (as its record says)
    stays = True  # S7: no purge while a copy is under way
    too_old = True  # S7: a copy with LOW below a purge is not taken
    kept_out = True  # M5: an event below the purge, whose key has no row, makes none
    twice = 2  # M6: what was readable 2 x keep before the day's end
    read_through = True  # M6: a batch of before the day's close has read the whole topic within `keep`
    seen_when = "built"  # M6: events were readable when their day was built | ended
    published_by = True  # a day whose record is lost takes no copy that was whole later than it was published
    still_whole = True  # R11: a day that is built again asks the ledger for the whole copy
    above = True  # R11: a new copy has a number above those that days have taken
    refuses = True  # R11: the ledger's copy is not gone on with, if a day has taken it whole

    def __init__(self, **kw):
        super().__init__(**kw)
        logged, n = [step[0] in "ud" for step in self.script], len(self.script) + 1
        self.position = [sum(logged[:i]) for i in range(n)]
        self.today = [sum(step == ("day",) for step in self.script[:i]) for i in range(n)]
        self.states = [applied(dict(self.base), self.script[:i]) for i in range(n)]
        self.events = [
            (self.position[i], step[1], (*step, None)[2], self.today[i], i)
            for i, step in enumerate(self.script, 1)
            if logged[i - 1]
        ]

    def init(self, _cfg):
        copies = {"rounds": (), "over": frozenset(), "read": frozenset(), "backup": None}
        return {"n": self.begun, "topic": (), "landed": 0, "read_day": 0, "open": 0, "lost": frozenset(), **copies}


def applied(rows, steps):
    for op, *args in steps:
        if op in ("u", "sneak"):
            rows[args[0]] = args[1]
        elif op != "day":
            rows.pop(args[0], None)
    return rows


# ---------------------------------------------------------------- the source and the topic


def write(s, cfg, i):
    today = cfg.today[i]
    if cfg.daily and cfg.script[i] == ("day",) and today and ("current", today - 1) not in s:
        return BLOCK
    s["n"] = i + 1
    return "ok"


def send(s, cfg, j):
    """An event becomes readable, for the first time or again."""
    position, *_, step = cfg.events[j]
    today = cfg.today[s["n"]]
    older = [cfg.events[i][0] for i, day in s["topic"] if cfg.keep is not None and day < today - cfg.keep]
    if s["n"] < step or (cfg.promise and position < max(older, default=0)):
        return BLOCK
    s["topic"] += ((j, today),)
    if cfg.lands:
        batch(s, cfg)
    return "ok"


def batch(s, cfg):
    """An ingest run reads the topic to its end. Events count in their day, or in the oldest one that is open."""
    today = cfg.today[s["n"]]
    if (s["landed"], s["read_day"]) == (len(s["topic"]), today):
        return BLOCK
    for j, _ in s["topic"][s["landed"] :]:
        day = max(cfg.events[j][3], s["open"])
        s["events", day] = s.get(("events", day), frozenset()) | {j}
    s["landed"], s["read_day"] = len(s["topic"]), today
    return "ok"


# ---------------------------------------------------------------- copies, in the ledger


def begin(s, cfg, again):
    """A round's number; the one that is there, unless the table is read `again`."""
    number = max(s["rounds"], default=0)
    told = in_force(s, max((k[1] for k in s if k[0] == "current"), default=-1))
    told = 0 if told is None else told.copied
    if not again and not number and told == 0:
        number = 1
    elif again:
        number = max(number, told if cfg.above else 0) + 1
    elif told >= number and number not in s["over"] and cfg.refuses:
        return None
    s["rounds"] = (*s["rounds"], *({number} - set(s["rounds"])))
    return number


def low(s, cfg, r, i):
    if not s["landed"]:
        return BLOCK  # S4: the topic has all events of later on
    return None if ("chunk", r, i) in s else (cfg.position[s["n"]], s["n"])


def select(s, cfg, i):
    return tuple(sorted((k, v) for k, v in cfg.states[s["n"]].items() if k in cfg.chunks[i])), s["n"]


def accept(s, cfg, r, i, at, found):
    """One attempt of a chunk; once all are read the copy is whole."""
    if ("chunk", r, i) in s or r not in s["rounds"]:
        return "lost"
    s["chunk", r, i] = (*at, *found)
    if all(("chunk", r, n) in s for n in range(len(cfg.chunks))):
        s["over"] |= {r}
    return "ok"


def backup(s, cfg):
    s["backup"] = (s["rounds"], s["over"], frozenset((k, v) for k, v in s.items() if k[0] == "chunk"))
    return "ok"


def restore(s, cfg):
    """The ledger forgets what it has learnt of copies since; days are adopted as storage remembers them."""
    for k in [k for k in s if k[0] == "chunk"]:
        del s[k]
    s["rounds"], s["over"], chunks = s["backup"]
    s.update(dict(chunks))
    return "ok"


# ---------------------------------------------------------------- days


def in_force(s, d):
    return s.get(("made", d, s["current", d])) if ("current", d) in s else None


def close(s, cfg, d):
    if s["open"] > d:
        return "published" if ("current", d) in s else "ok"
    ready = cfg.today[s["n"]] > d and s["open"] == d
    if not ready or (cfg.turn and d and ("current", d - 1) not in s) or (cfg.waits and not to_be_had(s, cfg)):
        return BLOCK
    s["open"], s["horizon", d] = d + 1, cfg.today[s["n"]] if cfg.lands else s["read_day"]
    return "ok"


def decide(s, cfg, d):
    """What a build of the day takes and purges: anew, or as the record of the day in force says."""
    old, now = in_force(s, d - 1), in_force(s, d)
    if old is None:
        old = Day()
    record = None if d in s["lost"] else now
    taken = to_take(s, cfg, d, old) if record is None or cfg.recorded == "no copy" else record.taken
    if taken and record is not None and cfg.still_whole and taken not in s["over"]:
        return "refused: the ledger was restored"
    if not taken and cfg.waits and not old.copied and now is None:
        return BLOCK
    if record is None or cfg.recorded == "no purge":
        below = START if taken else to_purge(s, cfg, d, old)
    else:
        below = record.purged if record.purged > old.purged else START
    at = (cfg.today[s["n"]] if cfg.seen_when == "built" else d + 1) if record is None else None
    greatest = max((cfg.events[j][0] for j in s.get(("events", d), ())), default=0)
    seen = (*old.seen, (at, greatest)) if record is None else record.seen
    return Plan(s.get(("current", d - 1), 0), taken, below, seen, record is not None)


def to_take(s, cfg, d, old):
    """The newest copy that is whole and that no day before has."""
    found = [r for r in to_be_had(s, cfg) if r > old.copied]
    if cfg.published_by and ("shown", d) in s:
        found = [r for r in found if r in s["shown", d][1]]
    number = max(found, default=0)
    if number and cfg.too_old and (min(c[0] for c in chunks_of(s, cfg, number)), number) < old.purged:
        return 0
    return number


def to_be_had(s, cfg):
    return [r for r in s["rounds"] if r in s["over"] or (not cfg.whole and chunks_of(s, cfg, r))]


def chunks_of(s, cfg, r):
    return [s["chunk", r, i] for i in range(len(cfg.chunks)) if ("chunk", r, i) in s]


def to_purge(s, cfg, d, old):
    under_way = any(r not in s["over"] for r in s["rounds"])
    if cfg.keep is None or not any(row[2] for row in old.rows) or (cfg.stays and under_way):
        return START
    if cfg.read_through and s["horizon", d] < d + 1 - cfg.keep:
        return START
    settled = [position for at, position in old.seen if at < d + 1 - cfg.twice * cfg.keep]
    return max((max(settled, default=0), 0), START)


def finish(s, cfg, d, plan):
    """The job, and its generation comes into force."""
    old = s.get(("made", d - 1, plan.base), Day())
    chunks = chunks_of(s, cfg, plan.taken) if plan.taken else []
    number = s.get(("current", d), 0) + 1
    swept = (min(c[0] for c in chunks), plan.taken if cfg.pair else 0) if chunks else old.swept if cfg.marker else START
    found = [(k, (c[0], plan.taken if cfg.pair else 0), False, v) for c in chunks for k, v in c[2]]
    for j in s.get(("events", d), ()):
        position, key, value, *_ = cfg.events[j]
        found.append((key, (position, 0), value is None, value))
    rows = merged({row[0]: row for row in old.rows}, found, swept, old.purged if cfg.kept_out else START)
    if chunks and cfg.sweep:
        rows = [row for row in rows if row[1] >= swept]
    rows = [row for row in rows if not (row[2] and row[1] < plan.purge_to)]
    made = Day(
        frozenset(rows),
        *(plan.taken, plan.taken or old.copied, swept, max(old.purged, plan.purge_to), plan.seen),
        *((min(c[1] for c in chunks), max(c[3] for c in chunks)) if chunks else (old.since, old.until)),
    )
    s["made", d, number], s["current", d] = made, number
    if number == 1:
        s["shown", d] = (live(made), s["over"])
    elif plan.again and not s["lost"] and live(made) != s["shown", d][0]:
        s["alarm"] = f"day {d} is built again and shows {live(made)}, it has shown {s['shown', d][0]}"
    s["lost"] -= {d}
    return "ok"


def merged(rows, found, swept, purged):
    """M2, and what makes no row: S5, M5 (`core.mirror.order.fates`)."""
    for key, *row in sorted(found, key=lambda row: (row[1], row[2])):
        newest = max(r[1] for r in found if r[0] == key)
        if key not in rows and (row[0] < swept or newest < purged):
            continue
        if key not in rows or (row[0], row[1]) > rows[key][1:3]:
            rows[key] = (key, *row)
    return list(rows.values())


def live(made):
    return frozenset((row[0], row[3]) for row in made.rows if not row[2])


def published(s, cfg, d):
    return "ok" if ("current", d) in s else BLOCK


def lose(s, cfg, d):
    """`_day.json` of the day in force is gone."""
    if ("current", d) not in s:
        return BLOCK
    s["lost"] |= {d}
    return "ok"


LEDGER = (begin, low, select, accept, backup, restore, close, decide, finish, lose, published)
OPS = {f.__name__: f for f in (write, send, batch, *LEDGER)}


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    if "alarm" in s:
        raise Violation(s["alarm"])
    there = set()
    for d in sorted(k[1] for k in s if k[0] == "current"):
        there |= s.get(("events", d), frozenset())
        one = in_force(s, d)
        ends = max(n for n, day in enumerate(cfg.today) if day <= d)
        missing = [e[4] for j, e in enumerate(cfg.events) if j not in there]
        complete = min(missing, default=len(cfg.script) + 1) - 1
        known = one.copied in s["shown", d][1]
        until = max(ends, one.until) if known else ends
        since = min(max(complete, one.since if known else 0), until)
        rows, steps = dict(live(one)), range(since, until + 1)
        for key in {key for state in cfg.states for key in state}:
            may = {cfg.states[n].get(key) for n in steps}
            may |= {as_logged(cfg, one.since, n).get(key) for n in steps if n >= one.since}
            if rows.get(key) not in may:
                what = f"key {key} is {rows.get(key)}, the source had {may} from step {since} to {until}"
                raise Violation(f"day {d}: {what}")


def as_logged(cfg, since, n):
    """The table at step `n`, but for what has changed without an event since the copy."""
    return applied(dict(cfg.states[since]), [step for step in cfg.script[since:n] if step[0] in "ud"])


class Days(Resting):
    """A model that tells of days that nobody can publish any more."""

    def check(self, st):
        super().check(st)
        waits = [prog for _, prog, *_ in st[1] if prog[0] != "sender"]
        if waits and next(self.succ(st), None) is None:
            raise Violation(f"{waits[0]} waits for ever")
