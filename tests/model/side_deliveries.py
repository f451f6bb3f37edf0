"""Late and dirty tables in a further system: units whose rows move to other units (D9 to D11).

A batch's late rows leave its part of the late table when a generation of their hour has taken them up; dirty rows leave
when a redrive has landed. So a batch has versions, as an hour has generations, and a row moves in one transaction of
the ledger from the version of one unit to that of another. The further system is told of each unit by itself: a row
must not be met in two of them, nor an older version after a newer one.

The ledger's side is that of hours (`deliveries.py`). The table there compares tokens when it changes (Iceberg), or does
what it is told, late too, behind intents (Hive, R8).
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.engine import BLOCK, UNK, Model, Switches, Violation


class Row(NamedTuple):
    """The ledger's row of a unit; with `version` 0 it has no row yet."""

    version: int = 0
    epoch: int = 0
    state: str = "NONE"


class Cfg(Switches):
    """Rules as switches, and what a scenario sets; the defaults are the whole protocol."""

    units = {  # by unit: its rows by version; `move` brings every unit to its second one
        "late": {1: ("a", "b"), 2: ("b",)},
        "hour": {1: ("x",), 2: ("a", "x")},
    }
    after = {("hour", 2): ("late",)}  # whose rows a version brings
    compares = True  # the table compares tokens (Iceberg) | does what it is told (Hive)
    version = "counted"  # D9: 1 + how often rows have left, by the ledger | "first": a batch is sent once
    asked = True  # D5: the ledger is asked right before the change
    intents = True  # R8, where the table does not compare
    order = True  # where it compares: an older token is refused
    whole = True  # D10: what stands for the unit becomes the version's rows | they are added to it
    leave = "stands"  # D11: the rows' old unit STANDS without them | "absent": or has no row | "taken": a try was begun
    #                       | "never": nobody waits

    eager, no_crash, env, env_kills, live = (), (), (), (), frozenset()
    procs, budget = (), (0, 0, 0, 0)

    def init(self, cfg):
        s = {"moved": False}
        for unit in cfg.units:
            s["row", unit], s["shown", unit], s["token", unit], s["seen", unit] = Row(), (), (0, 0), 0
        return s


# ---------------------------------------------------------------- the ledger


def in_force(s, cfg, unit):
    """The newest version; 0: the unit is not there yet."""
    versions = cfg.units[unit]
    if not s["moved"]:
        return 1 if 1 in versions else 0
    return max(versions)


def wanted(s, cfg, unit):
    """As a task is told it."""
    if cfg.version == "first" and unit in ("late", "dirty"):
        return 1
    return in_force(s, cfg, unit)


def look(s, cfg, unit):
    return wanted(s, cfg, unit), s["row", unit]


def move(s, cfg):
    """The environment: a reopening comes into force, or a redrive lands."""
    if s["moved"]:
        return BLOCK
    s["moved"] = True


def forget(s, cfg):
    """The environment: the ledger is restored from before the tries of one unit. Storage remembers what has moved."""
    unit = next(iter(cfg.units))
    if s["row", unit] == Row() or s.get("forgot"):
        return BLOCK
    s["row", unit], s["forgot"] = Row(), True


def left(s, cfg, unit, version):
    """D11: whether the rows that the version brings have left the units that had them, there."""
    for other in cfg.after.get((unit, version), ()):
        row, now = s["row", other], wanted(s, cfg, other)
        stands = row.version == now and row.state in ("STANDING", *(("SENDING",) if cfg.leave == "taken" else ()))
        if not (stands or (cfg.leave == "absent" and row.version == 0) or cfg.leave == "never"):
            return False
    return True


def take(s, cfg, unit, version, row, above):
    if s["row", unit] != row or wanted(s, cfg, unit) != version:
        return "lost"
    epoch = max(s["row", unit].epoch, above) + 1
    s["row", unit] = Row(version, epoch, "SENDING")
    return epoch


def holds(s, cfg, unit, version, epoch):
    return s["row", unit] == Row(version, epoch, "SENDING") and wanted(s, cfg, unit) == version


def stand(s, cfg, unit, version, epoch):
    if s["row", unit] != Row(version, epoch, "SENDING"):
        return "lost"
    s["row", unit] = s["row", unit]._replace(state="STANDING")
    return "ok"


# ---------------------------------------------------------------- the further system


def token(s, cfg, unit):
    """The newest that a record or the table names."""
    return s["token", unit]


def record(s, cfg, unit, version, epoch):
    """Before the first change; the newest one decides who comes late."""
    if cfg.order and s["token", unit] >= (version, epoch):
        return "ahead"
    s["token", unit] = max(s["token", unit], (version, epoch))
    return "ok"


def wait(s, cfg, unit, version, epoch):
    """Until no request of another try may be executed any more (R8)."""
    flying = [op for k, op in s.items() if isinstance(k, tuple) and k[0] == "fly" and op[1] == unit]
    others = [k for k in s if isinstance(k, tuple) and k[0] == "intent" and k[1] == unit and k[2:] != (version, epoch)]
    if not cfg.intents or not others:
        return "ok"
    if flying or any(live_try(s, cfg, *k[1:]) for k in others):
        return "busy"
    for k in others:
        del s[k]
    return "ok"


def live_try(s, cfg, unit, version, epoch):
    """Its intent is young: the request that it announces may still be sent."""
    return not s.get(("old", unit, version, epoch))


def expire(s, cfg):
    """The environment: ten minutes pass without a step of a try that has an intent, and its request is dead."""
    for k in [k for k in s if isinstance(k, tuple) and k[0] == "intent" and not s.get(("old", *k[1:]))]:
        if any(isinstance(f, tuple) and f[0] == "fly" and op[1:4] == k[1:] for f, op in s.items()):
            continue
        s["old", k[1], k[2], k[3]] = True
        return "ok"
    return BLOCK


def declare(s, cfg, unit, version, epoch):
    s["intent", unit, version, epoch] = True
    return "ok"


def answered(s, cfg, unit, version, epoch):
    s.pop(("intent", unit, version, epoch), None)
    return "ok"


def change(s, cfg, unit, version, epoch, base):
    """Readers meet the version. `base`: the token of the snapshot that was looked at, where the table compares."""
    if s.get(("old", unit, version, epoch)) and cfg.intents:
        return "dead"  # a request that is older than its intent allows
    if cfg.compares and cfg.order and s["done", unit] != base:
        return "conflict"
    rows = cfg.units[unit][version]
    s["shown", unit] = rows if cfg.whole else tuple(sorted({*s["shown", unit], *rows}))
    s["done", unit] = (version, epoch)
    if version < s["seen", unit]:
        s["bad"] = f"{unit} goes back from version {s['seen', unit]} to {version}"
    s["seen", unit] = max(version, s["seen", unit])
    return "ok"


def done(s, cfg, unit):
    return s.setdefault(("done", unit), (0, 0))


def read(s, cfg, unit):
    return s["shown", unit]


# ---------------------------------------------------------------- a task


def deliver(cfg, unit):
    """One unit: how the task ends."""
    version, row = yield ("look", unit)
    if version == 0 or (row.version == version and row.state == "STANDING"):
        return "ok"
    if cfg.after.get((unit, version)) and not (yield ("left", unit, version)):
        return "fail: its rows stand elsewhere"
    above = 0
    for _ in range(2):
        epoch = yield ("take", unit, version, row, above)
        if epoch in ("lost", UNK):
            return "lost" if epoch == "lost" else "fail: nobody knows"
        there = yield ("token", unit)
        if cfg.order and there >= (version, epoch):
            if there[0] > version:
                return "fail: the system is ahead"
            row, above = Row(version, epoch, "SENDING"), there[1]
            continue
        return (yield from send(cfg, unit, version, epoch))
    return "fail: others keep coming before it"


def send(cfg, unit, version, epoch):
    hive = not cfg.compares
    if hive and (yield ("wait", unit, version, epoch)) == "busy":
        return "fail: a request may be executed"
    if (yield ("record", unit, version, epoch)) == "ahead":
        return "fail: a later try has come"
    base = yield ("done", unit)
    if cfg.compares and cfg.order and base > (version, epoch):
        return "fail: a later try has come"
    if hive and cfg.intents:
        yield ("declare", unit, version, epoch)
    if cfg.asked and not (yield ("holds", unit, version, epoch)):
        if hive:
            yield ("answered", unit, version, epoch)
        return "lost"
    answer = yield ("change", unit, version, epoch, base)
    if answer == UNK:
        return "fail: unsure"
    if hive:
        yield ("answered", unit, version, epoch)
    if answer != "ok" or (yield ("read", unit)) != cfg.units[unit][version]:
        return "fail: other rows stand there"
    if (yield ("stand", unit, version, epoch)) == UNK:
        return "fail: nobody knows"
    return "ok"


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    if s.get("bad"):
        raise Violation(s["bad"])
    met = [row for unit in cfg.units for row in s["shown", unit]]
    twice = sorted({row for row in met if met.count(row) > 1})
    if twice:
        raise Violation(f"{twice[0]} is met twice: { ({u: s['shown', u] for u in cfg.units}) }")
    for unit in cfg.units:
        row = s["row", unit]
        if row.state == "STANDING" and s["seen", unit] < row.version:
            raise Violation(f"the ledger says version {row.version} of {unit}, {s['seen', unit]} was shown")


def at_rest(s, cfg):
    for unit, versions in cfg.units.items():
        now = in_force(s, cfg, unit)
        if now and s["shown", unit] != versions[now]:
            raise Violation(f"at rest {unit} shows {s['shown', unit]}, version {now} has {versions[now]}")


def heal(model, st):
    """All tasks are killed; what is in flight never happens, or before the tasks run again, or after it where the table
    compares or nobody waits. Then each unit is delivered until nothing is due."""
    cfg = model.cfg
    flying = [k for k in st[0] if isinstance(k, tuple) and k[0] == "fly"]
    late = [st[0][k] for k in flying]
    whens = ("never", "before", "after") if cfg.compares or not cfg.intents else ("never", "before")
    for when in whens if late else ("never",):
        s = {k: v for k, v in st[0].items() if k not in flying}
        for op in late if when == "before" else ():
            s = _did(model, s, op)
        while (waited := model.run_op(s, ("expire",))) is not None:
            s = waited[0]
        for _ in range(3):
            for unit in cfg.units:
                s = model.alone(s, lambda unit=unit: deliver(cfg, unit), 3)
        for op in late if when == "after" else ():
            s = _did(model, s, op)
        invariant(s, cfg)
        at_rest(s, cfg)


def _did(model, s, op):
    found = model.run_op(s, op)
    return s if found is None else found[0]


OPS = {
    f.__name__: f
    for f in (
        look, move, forget, left, take, holds, stand, token, record, wait, expire, declare, answered, change, done,
        read,
    )
}  # fmt: skip


def build(**settings):
    """A model of a scenario's settings."""
    return Model(Cfg(**settings), {"deliver": deliver}, OPS, ("change", "take", "stand"), ("change",), invariant, heal)
