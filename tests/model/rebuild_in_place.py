"""A model of rebuilds on a store that cannot rename: the table names files in the attempt that wrote them.

One window, its first generation in force. Two tasks rebuild it (a replay, a heal), maintenance gives rebuilds up, a
ledger is restored from a backup at any moment, and a cleaner asks ledger and table and deletes later.

With `replaced` the second generation is in force, and a task rolls the window back: the generation that it makes has
the files of the first one, where they lie.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.engine import BLOCK, Switches, Violation

OPEN = ("BUILDING", "BUILT", "SWAPPING")


class Gen(NamedTuple):
    """A generation as the ledger has it; `files`: the attempt's prefix that its manifest names, None while BUILDING.

    `origin`: of a rollback, the number of the generation whose files it has. `going`: they may be deleted."""

    state: str
    epoch: int
    nonce: int
    files: tuple | None
    origin: int = 0
    going: bool = False


FIRST, SECOND = (1, 1, 0), (2, 1, 0)  # (generation, epoch, nonce): where the files of the first ones lie


class Cfg(Switches):
    """Rules as switches, and what a scenario sets; the defaults are the whole protocol."""

    clean_built = False  # attempts go once their generation is BUILT
    ask_table = True  # what the table shows stays
    ask_files = True  # what the ledger's files name stays
    old_requests = True  # what was given up stays for longer than a request lives
    look_at_files = True  # before a commit storage shows every file of the generation
    old_deletions = True  # a cleaner's last answer is younger than a restored ledger
    mark = True  # a retired generation is marked before its files go: no rollback begins with them any more
    look_at_records = True  # after the mark storage knows no generation that the ledger does not
    ask_sharers = True  # what any generation names stays, and not only what the one names that wrote it
    replaced = False
    procs = ()
    env = ("backup", "restore")
    env_kills = ()
    no_crash = ()
    eager = ("write",)
    live = frozenset()
    budget = (0, 0, 0, 2)  # crashes, lost answers, requests in flight, environment events
    most = 2  # generations

    def init(self, _cfg):
        gens, stored = (Gen("CURRENT", 1, 0, FIRST),), {FIRST}
        if self.replaced:
            gens, stored = (Gen("RETIRED", 1, 0, FIRST), Gen("CURRENT", 1, 0, SECOND)), {FIRST, SECOND}
        table = (max(stored), max(stored))  # token and files
        return {"gens": gens, "backup": gens, "stored": frozenset(stored), "table": table, "uid": 0}


# ---------------------------------------------------------------- the ledger


def look(s, cfg):
    return s["gens"]


def begin(s, cfg, seen):
    """The next generation, BUILDING; or another try of the open one, with the next epoch."""
    if s["gens"] != seen:
        return "lost"
    last = seen[-1]
    again = last.state == "BUILDING"
    if not again and len(seen) == cfg.most:
        return "nothing"
    s["uid"] += 1
    kept = seen[:-1] if again else seen
    recorded = record(s, cfg, len(kept) + 1)  # R3: epochs of lost commits lie below
    epoch = max(last.epoch if again else 0, recorded[0][1] if recorded else 0) + 1
    s["gens"] = (*kept, Gen("BUILDING", epoch, s["uid"], None, last.origin if again else 0))
    return s["gens"]


def begin_back(s, cfg, seen):
    """The next generation, with the files of an earlier one; the newest that is not in force."""
    if s["gens"] != seen:
        return "lost"
    origins = [n for n, g in enumerate(seen, 1) if g.state == "RETIRED" and not g.going]
    if not origins or len(seen) == cfg.most:
        return "nothing"
    s["uid"] += 1
    recorded = record(s, cfg, len(seen) + 1)
    s["gens"] = (*seen, Gen("BUILDING", recorded[0][1] + 1 if recorded else 1, s["uid"], None, origins[-1]))
    return s["gens"]


def mark(s, cfg, number):
    """Whether the files of a retired generation may go; no rollback begins with them from then on."""
    gens = s["gens"]
    if len(gens) < number or gens[number - 1].state != "RETIRED" or any(g.state in OPEN for g in gens):
        return False
    given_up = {n for n, g in enumerate(gens, 1) if g.state == "DISCARDED" and g.origin}
    if cfg.old_requests and any(k[0] == "asked" and v in given_up for k, v in s.items() if isinstance(k, tuple)):
        return False
    s["gens"] = (*gens[: number - 1], gens[number - 1]._replace(going=True), *gens[number:])
    return True


def move(s, cfg, seen, state, files):
    """Compare-and-set of the newest generation; CURRENT retires the one before."""
    if s["gens"] != seen:
        return "lost"
    new = seen[-1]._replace(state=state, files=files)
    older = seen[:-1]
    if state == "CURRENT":
        older = tuple(g._replace(state="RETIRED") if g.state == "CURRENT" else g for g in older)
    s["gens"] = (*older, new)
    return s["gens"]


def adopt(s, cfg, seen, found):
    """R11: BUILT as storage recorded it."""
    if s["gens"] != seen:
        return "lost"
    (number, epoch, nonce), files = found
    s["gens"] = (*seen[: number - 1], Gen("BUILT", epoch, nonce, files))
    return s["gens"]


def holds(s, cfg, seen):
    """C1: whether the ledger still has the generation so; a commit follows."""
    if s["gens"] != seen:
        return False
    s["asked", seen[-1].nonce] = len(seen)
    return True


# ---------------------------------------------------------------- storage, the table


def write(s, cfg, attempt):
    s["stored"] |= {attempt}


def put(s, cfg, token, files):
    """The generation's record, if absent; its name has no nonce."""
    key = ("record", *token[:2])
    if key in s:
        return "exists"
    s[key] = (token, files)
    return "ok"


def there(s, cfg, attempt):
    return attempt in s["stored"]


def record(s, cfg, number):
    """The newest one of a generation."""
    found = [v for k, v in s.items() if isinstance(k, tuple) and k[:2] == ("record", number)]
    return max(found, default=None)


def named(s, cfg, token):
    return s.get(("record", *token[:2]))


def unknown(s, cfg):
    """Whether storage has a record of a generation that the ledger has lost."""
    return any(k[0] == "record" and k[1] > len(s["gens"]) for k in s if isinstance(k, tuple))


def names(s, cfg):
    return tuple(sorted(s["stored"] if cfg.replaced else s["stored"] - {FIRST}))


def ask(s, cfg, attempt):
    """What the cleaner reads of the ledger and the table right before it deletes."""
    if cfg.old_requests and ("asked", attempt[2]) in s:
        return BLOCK
    s["deleting"] = True
    return s["gens"], s["table"]


def delete(s, cfg, attempt, goes):
    s.pop("deleting", None)
    if goes:
        s["stored"] -= {attempt}


def load(s, cfg):
    return s["table"]


def commit(s, cfg, seen, token, files):
    s.pop(("asked", token[2]), None)
    if s["table"] != seen:
        return "conflict"
    s["table"] = (token, files)
    return "ok"


# ---------------------------------------------------------------- what happens


def backup(s, cfg):
    if s["backup"] == s["gens"]:
        return BLOCK
    s["backup"] = s["gens"]
    return None


def restore(s, cfg):
    if s["backup"] == s["gens"] or (cfg.old_deletions and "deleting" in s):
        return BLOCK
    s["gens"] = s["backup"]
    return None


# ---------------------------------------------------------------- tasks


def rebuild(cfg):
    gens = yield ("look",)
    if gens[-1].state not in OPEN or gens[-1].state == "BUILDING":
        number = len(gens) + (gens[-1].state != "BUILDING")
        found = yield ("record", number)
        if found is not None and (yield ("there", found[1])):
            gens = yield ("adopt", gens, found)
        else:
            gens = yield ("begin", gens)
            if gens in ("lost", "nothing"):
                return "nothing"
            gens = yield from _build(gens)
        if gens == "lost":
            return "fail"
    return (yield from _publish(cfg, gens))


def back(cfg):
    """A rollback; one that another try began is gone on with by a rebuild."""
    gens = yield ("look",)
    if gens[-1].state in OPEN:
        return "nothing"
    gens = yield ("begin_back", gens)
    if gens in ("lost", "nothing"):
        return "nothing"
    gens = yield from _build(gens)
    return "fail" if gens == "lost" else (yield from _publish(cfg, gens))


def _build(gens):
    """BUILT, or lost; a rollback whose files are gone is refused."""
    number, last = len(gens), gens[-1]
    if not last.origin:
        attempt = (number, last.epoch, last.nonce)
        yield ("write", attempt)
        return (yield ("move", gens, "BUILT", attempt))
    files = gens[last.origin - 1].files
    if (yield ("there", files)):
        return (yield ("move", gens, "BUILT", files))
    yield ("move", gens, "DISCARDED", None)
    return "lost"


def _publish(cfg, gens):
    files = gens[-1].files
    token = (len(gens), gens[-1].epoch, gens[-1].nonce)
    if (yield ("look",)) != gens:  # R12: the ledger is asked before the record is written
        return "fail"
    if (yield ("put", token, files)) != "ok" and (yield ("named", token)) != (token, files):
        return "ahead"
    if gens[-1].state == "BUILT":
        gens = yield ("move", gens, "SWAPPING", files)
        if gens == "lost":
            return "fail"
    for _ in range(2):
        table = yield ("load",)
        if table[0] == token:
            break
        if table[0][0] >= token[0]:
            return "ahead"  # C4
        if cfg.look_at_files and not (yield ("there", files)):
            return (yield from _lost(gens))
        if not (yield ("holds", gens)):
            return "fail"
        if (yield ("commit", table, token, files)) == "ok":
            break
    else:
        return "fail"
    return "fail" if (yield ("move", gens, "CURRENT", files)) == "lost" else "ok"


def _lost(gens):
    """It is taken back: the next try builds it again."""
    yield ("move", gens, "BUILDING", None)
    return "fail"


def maintenance(cfg):
    """Give up a rebuild (R13): one that is BUILT is taken back first, one that readers may have met goes on."""
    gens = yield ("look",)
    if gens[-1].state not in ("BUILDING", "BUILT"):
        return "nothing"
    if gens[-1].state == "BUILT":
        gens = yield ("move", gens, "BUILDING", None)
        gens = gens if gens == "lost" else (yield ("begin", gens))
        if gens == "lost":
            return "fail"
    for step in ("look", "discard", "look again"):
        if step == "discard":
            gens = yield ("move", gens, "DISCARDED", None)
            if gens == "lost":
                return "fail"
            continue
        found = yield ("record", len(gens))
        if found is not None and (yield ("load",)) == found:
            yield ("adopt", gens, found)
            break
    return "ok"


def cleaner(cfg):
    """Asks the ledger and the table, deletes later. Of retired generations with the same files one at a time goes."""
    for attempt in (yield ("names",)):
        gens = yield ("look",)
        due = [n for n, g in enumerate(gens, 1) if g.state == "RETIRED" and g.files == attempt and not g.going]
        if cfg.replaced and cfg.mark and due:
            if not (yield ("mark", due[0])):
                continue
            if cfg.look_at_records and (yield ("unknown",)):
                return "ahead"
        gens, table = yield ("ask", attempt)
        yield ("delete", attempt, _goes(cfg, attempt, gens, table))
    return "ok"


def _goes(cfg, attempt, gens, table):
    if len(gens) < attempt[0]:
        return False
    g = gens[attempt[0] - 1]
    if cfg.clean_built:
        return g.state != "BUILDING"
    if g.state in OPEN:
        return False
    holders = [o for o in (gens if cfg.ask_sharers else (g,)) if o.files == attempt]
    if cfg.ask_files and any(o.state == "CURRENT" or o.state in OPEN for o in holders):
        return False
    if cfg.replaced and cfg.mark and any(o.state == "RETIRED" and not o.going for o in holders):
        return False
    return not (cfg.ask_table and table[1] == attempt)


OF_LEDGER = (look, begin, begin_back, mark, move, adopt, holds)
OF_STORAGE = (write, put, there, record, named, unknown, names, ask, delete, load, commit)
OPS = {f.__name__: f for f in (*OF_LEDGER, *OF_STORAGE, backup, restore)}
PROGRAMS = {f.__name__: f for f in (rebuild, back, maintenance, cleaner)}
UNSURE = {"put", "commit"}


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    if s["table"][1] not in s["stored"]:
        raise Violation(f"the table names files of generation {s['table'][1][0]} that are gone")
    for i, g in enumerate(s["gens"]):
        forgotten = cfg.replaced and s["table"][0][0] > i + 1  # what a restored ledger has in force was replaced
        if g.state == "CURRENT" and g.files not in s["stored"] and not forgotten:
            raise Violation(f"generation {i + 1} is {g.state}, its files are gone")
        kept = cfg.replaced and cfg.mark and not cfg.env and g.state == "RETIRED" and not g.going
        if kept and g.files not in s["stored"]:
            raise Violation(f"generation {i + 1} is kept, its files are gone")


def heal(model, st):
    """Every task is killed, requests in flight are executed or never were; then tasks run one by one."""
    flying = sorted((k for k in st[0] if isinstance(k, tuple) and k[0] == "fly"), key=str)
    for executed in (True, False) if flying else (True,):
        s = {k: v for k, v in st[0].items() if k not in flying}
        for k in flying if executed else ():
            s, _ = model.done(s, st[0][k])
        s = {k: v for k, v in s.items() if not (isinstance(k, tuple) and k[0] == "asked")}  # they are over
        s.pop("deleting", None)
        answer = ""
        for program in ("cleaner", "rebuild", "cleaner", "rebuild", "rebuild", "cleaner"):
            s, said = model.to_its_end(s, (program,))
            answer = said if program == "rebuild" else answer
            invariant(s, model.cfg)
        newest = s["gens"][-1]
        if answer != "ahead" and newest.state in OPEN:
            raise Violation(f"generation {len(s['gens'])} stays {newest.state}, whatever is run again")
