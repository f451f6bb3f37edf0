"""A model of rebuilds on a store that cannot rename: the table names files in the attempt that wrote them.

One window, its first generation in force. Two tasks rebuild it (a replay, a heal), maintenance gives rebuilds up, a
ledger is restored from a backup at any moment, and a cleaner asks ledger and table and deletes later.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.engine import BLOCK, Violation

OPEN = ("BUILDING", "BUILT", "SWAPPING")


class Gen(NamedTuple):
    """A generation as the ledger has it; `files`: the attempt's prefix that its manifest names, None while BUILDING."""

    state: str
    epoch: int
    nonce: int
    files: tuple | None


FIRST = (1, 1, 0)  # (generation, epoch, nonce): where the landed files of the first one lie


class Cfg:
    """Rules as switches, and what a scenario sets; the defaults are the whole protocol."""

    clean_built = False  # attempts go once their generation is BUILT
    ask_table = True  # what the table shows stays
    ask_files = True  # what the ledger's files name stays
    old_requests = True  # what was given up stays for longer than a request lives
    look_at_files = True  # before a commit storage shows every file of the generation
    old_deletions = True  # a cleaner's last answer is younger than a restored ledger
    procs = ()
    env = ("backup", "restore")
    env_kills = ()
    no_crash = ()
    eager = ("write",)
    live = frozenset()
    budget = (0, 0, 0, 2)  # crashes, lost answers, requests in flight, environment events
    most = 2  # generations

    def __init__(self, **kw):
        for k, v in kw.items():
            if not hasattr(type(self), k):
                raise TypeError(k)
            setattr(self, k, v)

    def init(self, _cfg):
        first = (Gen("CURRENT", 1, 0, FIRST),)
        return {"gens": first, "backup": first, "stored": frozenset({FIRST}), "table": FIRST, "uid": 0}


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
    epoch = max(last.epoch if again else 0, recorded[1] if recorded else 0) + 1
    s["gens"] = (*kept, Gen("BUILDING", epoch, s["uid"], None))
    return s["gens"]


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
    s["gens"] = (*seen[: found[0] - 1], Gen("BUILT", found[1], found[2], found))
    return s["gens"]


def holds(s, cfg, seen):
    """C1: whether the ledger still has the generation so; a commit follows."""
    if s["gens"] != seen:
        return False
    s["asked", seen[-1].nonce] = True
    return True


# ---------------------------------------------------------------- storage, the table


def write(s, cfg, attempt):
    s["stored"] |= {attempt}


def put(s, cfg, attempt):
    """The generation's record, if absent; its name has no nonce."""
    key = ("record", *attempt[:2])
    if key in s:
        return "exists"
    s[key] = attempt
    return "ok"


def there(s, cfg, attempt):
    return attempt in s["stored"]


def record(s, cfg, number):
    """The newest one of a generation."""
    found = [v for k, v in s.items() if isinstance(k, tuple) and k[:2] == ("record", number)]
    return max(found, default=None)


def named(s, cfg, attempt):
    return s.get(("record", *attempt[:2]))


def names(s, cfg):
    return tuple(sorted(s["stored"] - {FIRST}))


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


def commit(s, cfg, seen, attempt):
    s.pop(("asked", attempt[2]), None)
    if s["table"] != seen:
        return "conflict"
    s["table"] = attempt
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
        if found is not None and (yield ("there", found)):
            gens = yield ("adopt", gens, found)
        else:
            gens = yield ("begin", gens)
            if gens in ("lost", "nothing"):
                return "nothing"
            attempt = (len(gens), gens[-1].epoch, gens[-1].nonce)
            yield ("write", attempt)
            gens = yield ("move", gens, "BUILT", attempt)
        if gens == "lost":
            return "fail"
    return (yield from _publish(cfg, gens))


def _publish(cfg, gens):
    attempt = gens[-1].files
    if (yield ("look",)) != gens:  # R12: the ledger is asked before the record is written
        return "fail"
    if (yield ("put", attempt)) != "ok" and (yield ("named", attempt)) != attempt:
        return "ahead"
    if gens[-1].state == "BUILT":
        gens = yield ("move", gens, "SWAPPING", attempt)
        if gens == "lost":
            return "fail"
    for _ in range(2):
        table = yield ("load",)
        if table == attempt:
            break
        if table[0] >= attempt[0]:
            return "ahead"  # C4
        if cfg.look_at_files and not (yield ("there", attempt)):
            return (yield from _lost(gens))
        if not (yield ("holds", gens)):
            return "fail"
        if (yield ("commit", table, attempt)) == "ok":
            break
    else:
        return "fail"
    return "fail" if (yield ("move", gens, "CURRENT", attempt)) == "lost" else "ok"


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
    """Asks the ledger and the table, deletes later."""
    for attempt in (yield ("names",)):
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
    if cfg.ask_files and g.files == attempt and g.state == "CURRENT":
        return False
    return not (cfg.ask_table and table == attempt)


OF_LEDGER = (look, begin, move, adopt, holds)
OF_STORAGE = (write, put, there, record, named, names, ask, delete, load, commit)
OPS = {f.__name__: f for f in (*OF_LEDGER, *OF_STORAGE, backup, restore)}
PROGRAMS = {f.__name__: f for f in (rebuild, maintenance, cleaner)}
UNSURE = {"put", "commit"}


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    if s["table"] not in s["stored"]:
        raise Violation(f"the table names files of generation {s['table'][0]} that are gone")
    for i, g in enumerate(s["gens"]):
        if g.state == "CURRENT" and g.files not in s["stored"]:
            raise Violation(f"generation {i + 1} is {g.state}, its files are gone")


def heal(model, st):
    """Every task is killed, requests in flight are executed or never were; then tasks run one by one."""
    flying = sorted((k for k in st[0] if isinstance(k, tuple) and k[0] == "fly"), key=str)
    for executed in (True, False) if flying else (True,):
        s = {k: v for k, v in st[0].items() if k not in flying}
        for k in flying if executed else ():
            s, _ = _do(model, s, st[0][k])
        s = {k: v for k, v in s.items() if not (isinstance(k, tuple) and k[0] == "asked")}  # they are over
        s.pop("deleting", None)
        answer = ""
        for program in ("cleaner", "rebuild", "cleaner", "rebuild", "rebuild", "cleaner"):
            s, said = _alone(model, s, program)
            answer = said if program == "rebuild" else answer
            invariant(s, model.cfg)
        newest = s["gens"][-1]
        if answer != "ahead" and newest.state in OPEN:
            raise Violation(f"generation {len(s['gens'])} stays {newest.state}, whatever is run again")


def _do(model, s, op):
    found = model.run_op(s, op)
    assert found is not None, op
    return found[0], found[1]


def _alone(model, s, program):
    history = ()
    while True:
        kind, value = model.next_op((program,), history)
        if kind == "end":
            return s, value
        s, answer = _do(model, s, value)
        history = (*history, answer)
