"""A model of second readings: a window of a table without a log is read again, replayed, rolled back, cleaned.

A reading is two queries, one for each chunk of the table, by one attempt. The first one is landed and published. Rows
are (attempt that read them, chunk): a generation whose rows are of two attempts mixes two snapshots. With `dirty` the
first reading has left a dirty row, which a redrive makes a row of the window.

Who may publish what when (R4, R8, fences) is what `operations` and `rebuild_in_place` hold: here each generation's
files lie in a directory of its own, and the catalogue points to one generation at a time.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.engine import UNK, Switches, Violation

OPEN = ("BUILDING", "BUILT")
FIRST = (1, 1, 0)  # generation, epoch, nonce
CHUNKS = (0, 1)


class Gen(NamedTuple):
    """A generation as the ledger has it. `rows`: by its manifest, None while BUILDING; `origin`: of a rollback."""

    state: str
    kind: str
    epoch: int
    nonce: int
    rows: tuple | None = None
    origin: int = 0


class Cfg(Switches):
    """Rules as switches, and what a scenario sets; the defaults are the whole protocol."""

    whole = True  # an attempt reads all chunks: nothing of one that died is taken over
    own_kind = True  # a replay gives up a second reading that died, and the other way round
    owed_by_reading = True  # a rebuild from files owes the reading in force, and not the first one
    by_origin = True  # rows that a rollback brings back are of their generation's reading
    keep_current = True  # files go once their generation is retired, not once a newer one is built
    look_at_files = True  # a rollback looks whether the files are there
    refuse_dirty = True  # no second reading where a redrive may bring rows of the first one
    dirty = False
    procs = ()
    env = ()
    env_kills = ()
    no_crash = ()
    eager = ()
    live = frozenset()
    budget = (1, 1, 0, 0)  # crashes, lost answers, requests in flight, environment events
    most = 4  # generations

    def init(self, _cfg):
        rows = tuple((FIRST, chunk) for chunk in CHUNKS)
        gens = (Gen("CURRENT", "archive", 1, 0, rows),)
        return {"gens": gens, "files": frozenset({(1, 1)}), "shown": (1, 1), "uid": 0, "read": frozenset()}


def reading_of(cfg, gens, number):
    """The generation that read the table for the rows of this one; 1: the first reading."""
    while number > 1:
        g = gens[number - 1]
        if g.kind == "reread":
            return number
        earlier = [n for n in range(1, number) if gens[n - 1].state != "DISCARDED"]
        number = g.origin if g.origin and cfg.by_origin else earlier[-1]
    return 1


def in_force(gens):
    return next(n for n, g in enumerate(gens, 1) if g.state == "CURRENT")


# ---------------------------------------------------------------- the ledger


def look(s, cfg):
    return s["gens"]


def begin(s, cfg, seen, kind, origin=0):
    """The next generation; or another try of an open one of the same kind, by the next epoch."""
    if s["gens"] != seen:
        return "lost"
    last, again = seen[-1], seen[-1].state == "BUILDING"
    if not again and len(seen) == cfg.most:
        return "nothing"
    s["uid"] += 1
    new = last._replace(epoch=last.epoch + 1, nonce=s["uid"]) if again else Gen("BUILDING", kind, 1, s["uid"])
    if not again and origin:
        new = new._replace(origin=origin)
    s["gens"] = (*(seen[:-1] if again else seen), new)
    return s["gens"]


def move(s, cfg, seen, state, rows=None):
    """Compare-and-set of the newest generation; CURRENT retires the one before."""
    if s["gens"] != seen:
        return "lost"
    new = seen[-1]._replace(state=state, rows=seen[-1].rows if rows is None else rows)
    older = tuple(g._replace(state="RETIRED") if g.state == state == "CURRENT" else g for g in seen[:-1])
    s["gens"] = (*older, new)
    return s["gens"]


# ---------------------------------------------------------------- the source, storage, the catalogue


def query(s, cfg, attempt, chunk):
    """Rows of a chunk as they are now, into the attempt's own directory."""
    s["read"] |= {(attempt, chunk)}


def left(s, cfg, number):
    """What earlier attempts at the generation have read."""
    return tuple(sorted(r for r in s["read"] if r[0][0] == number))


def gather(s, cfg, place):
    s["files"] |= {place}


def there(s, cfg, place):
    return place in s["files"]


def show(s, cfg, seen, place):
    if s["gens"] != seen:
        return "lost"
    s["shown"] = place
    return "ok"


def clean(s, cfg, number, place):
    """Compared with the ledger right before."""
    gens = s["gens"]
    newer = gens[number:]
    goes = gens[number - 1].state == "RETIRED" if cfg.keep_current else any(g.state != "BUILDING" for g in newer)
    if goes:
        s["files"] -= {place}


# ---------------------------------------------------------------- tasks


def place_of(gens, number):
    return number, gens[number - 1].epoch


def _begun(cfg, kind, origin=0):
    """The generation, BUILDING; None if there is nothing to do, or another was faster."""
    gens = yield ("look",)
    last = gens[-1]
    if last.state == "BUILT":
        return (yield from _published(gens))
    if last.state == "BUILDING" and last.kind != kind and (cfg.own_kind or "back" in (kind, last.kind)):
        yield ("move", gens, "DISCARDED")
        return None
    gens = yield ("begin", gens, kind, origin)
    return None if gens in ("lost", "nothing", UNK) else gens


def _published(gens):
    number = len(gens)
    if (yield ("show", gens, place_of(gens, number))) != "ok":
        return None
    yield ("move", gens, "CURRENT")
    return None


def _built(gens, rows):
    yield ("gather", place_of(gens, len(gens)))
    gens = yield ("move", gens, "BUILT", rows)
    if gens in ("lost", UNK):
        return "fail"
    yield from _published(gens)
    return "ok"


def reread(cfg):
    if cfg.dirty and cfg.refuse_dirty:
        return "refused"
    gens = yield from _begun(cfg, "reread")
    if gens is None:
        return "again"
    number, g = len(gens), gens[-1]
    attempt = (number, g.epoch, g.nonce)
    known = () if cfg.whole else (yield ("left", number))
    for chunk in CHUNKS:
        if chunk not in [c for _, c in known]:
            yield ("query", attempt, chunk)
            known = (*known, (attempt, chunk))
    return (yield from _built(gens, tuple(known)))


def replay(cfg):
    """Rows of the files in force, compared with what the reading in force owes."""
    gens = yield from _begun(cfg, "replay")
    if gens is None:
        return "again"
    current = in_force(gens)
    owes = reading_of(cfg, gens, current) if cfg.owed_by_reading else 1
    rows = gens[current - 1].rows
    if not (yield ("there", place_of(gens, current))):
        yield ("move", gens, "DISCARDED")
        return "files lost"
    if {attempt[0] for attempt, _ in rows} != {owes}:
        yield ("move", gens, "DISCARDED")
        return "refused"
    return (yield from _built(gens, rows))


def back(cfg):
    """To the newest generation that was in force once, and whose files are there."""
    gens = yield ("look",)
    if gens[-1].state in OPEN:
        origin = gens[-1].origin
        if not origin:
            return "again"
    else:
        retired = [n for n, g in enumerate(gens, 1) if g.state == "RETIRED"]
        if not retired:
            return "nothing"
        origin = retired[-1]
    gens = yield from _begun(cfg, "back", origin)
    if gens is None:
        return "again"
    origin = gens[-1].origin
    lost = not (yield ("there", place_of(gens, origin)))
    if lost and cfg.look_at_files:
        yield ("move", gens, "DISCARDED")
        return "refused"
    return (yield from _built(gens, () if lost else gens[origin - 1].rows))


def redrive(cfg):
    """The dirty row of the first reading joins the rows in force."""
    gens = yield from _begun(cfg, "redrive")
    if gens is None:
        return "again"
    rows = gens[in_force(gens) - 1].rows
    more = () if (FIRST, "dirty") in rows else ((FIRST, "dirty"),)
    return (yield from _built(gens, (*rows, *more)))


def cleaner(cfg):
    gens = yield ("look",)
    for number in range(1, len(gens)):
        yield ("clean", number, place_of(gens, number))
    return "ok"


OPS = {f.__name__: f for f in (look, begin, move, query, left, gather, there, show, clean)}
PROGRAMS = {f.__name__: f for f in (reread, replay, back, redrive, cleaner)}
UNSURE = {"begin", "move", "show"}


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    if s["shown"] not in s["files"]:
        raise Violation(f"readers see generation {s['shown'][0]}, whose files are gone")
    for number, g in enumerate(s["gens"], 1):
        if g.rows is None:
            continue
        attempts, chunks = {a for a, _ in g.rows}, {c for _, c in g.rows}
        if len(attempts) > 1:
            raise Violation(f"generation {number} mixes the readings {sorted(attempts)}")
        if not set(CHUNKS) <= chunks:
            raise Violation(f"generation {number} is without rows of chunks {sorted(set(CHUNKS) - chunks)}")
        told = reading_of(cfg, s["gens"], number)
        if {a[0] for a in attempts} != {told}:
            raise Violation(f"generation {number} is told to be of reading {told}, its rows are of {sorted(attempts)}")


def heal(model, st):
    """Every task is killed, then they run one by one: each ends, and a replay of whole files is not refused."""
    s = {k: v for k, v in st[0].items()}
    for name in ("reread", "replay", "cleaner"):
        for _ in range(3):
            s, said = model.to_its_end(s, (name,))
            invariant(s, model.cfg)
            if said == "refused" and name == "replay":
                raise Violation("a replay is refused although the files in force are whole")
            if said != "again":
                break
    newest = s["gens"][-1]
    if newest.state in OPEN and not (model.cfg.dirty or len(s["gens"]) == model.cfg.most):
        raise Violation(f"generation {len(s['gens'])} stays {newest.state}, whatever is run again")
