"""Generations of one window in a further system: a relational database (one transaction, a token row), and one without
transactions over statements (D1 to D8), on several shards.

The ledger's side is the same: a generation comes into force (`publish`), a task takes the newest one by a compare-and-
set that raises the epoch, asks once more before readers meet anything, and says that it stands once it was read back.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.engine import BLOCK, UNK, Model, Switches, Violation


class Row(NamedTuple):
    """The ledger's row of the delivery; `generation` 0: there is none."""

    generation: int = 0
    epoch: int = 0
    state: str = "NONE"


class Cfg(Switches):
    """Rules as switches, and what a scenario sets; the defaults are the whole protocol."""

    shards = (0,)
    files = {1: ("x",), 2: ("y",)}  # by generation: what it holds in each shard
    taken = "compared"  # a try is taken if the row is as it was read, and the generation in force | blindly
    stood = "compared"  # STANDING is said of the try that the row still has | of whatever it has
    start = ()  # what stands there at first
    # a relational database
    token = "locked"  # compared within the transaction | before it | not at all
    unsure_commit = "looked"  # a commit without an answer: looked at | taken for done
    # one without transactions
    own = True  # D1: a staging for each try
    unsure = "abandoned"  # D2: a CREATE or INSERT without an answer: abandoned | again
    check = True  # D3: count and checksum of the staging
    fence = "others"  # D4: others (all of the window's others go, and are looked for) | none | blind (not looked for)
    asked = "late"  # D5: late (after the staging exists, before the first replace) | early | never
    empty = "replace"  # D6: an empty generation is a replace | a drop of the partition
    back = True  # D7: read back before STANDING
    verify = False  # D8: what stands is compared, and sent again where it differs
    dropped = (
        ""  # somebody drops the table once: what was under way, or stands, is due before it is made again (tries) |
    )
    # what stands alone | each row as it was read first, whoever has moved it meanwhile (once)

    eager, no_crash, env, env_kills, live = (), (), (), (), frozenset()
    procs, budget = (), (0, 0, 0, 0)
    heals = ("deliver",)

    def init(self, cfg):
        s = {"force": 1, "row": Row(), "token": (0, 0), "there": True}
        for shard in cfg.shards:
            s["shown", shard], s["seen", shard] = cfg.start, 0
        return s


# ---------------------------------------------------------------- the ledger


def look(s, cfg):
    return s["force"], s["row"]


def publish(s, cfg):
    """The environment: a replay brings the next generation into force."""
    if s["force"] + 1 not in cfg.files:
        return BLOCK
    s["force"] += 1


def forget(s, cfg):
    """The environment: the ledger is restored from before its tries; storage remembers the generations."""
    if s["row"] == Row() or s.get("forgot"):
        return BLOCK
    s["row"], s["forgot"] = Row(), True


def take(s, cfg, generation, row, above):
    if cfg.taken == "compared" and (s["row"] != row or s["force"] != generation):
        return "lost"
    was = s["row"] if cfg.taken == "compared" else row
    epoch = max(was.epoch, above) + 1
    s["row"] = Row(generation, epoch, "SENDING")
    return epoch


def holds(s, cfg, generation, epoch):
    return s["row"] == Row(generation, epoch, "SENDING") and s["force"] == generation


def stand(s, cfg, generation, epoch):
    if cfg.stood == "compared" and s["row"] != Row(generation, epoch, "SENDING"):
        return "lost"
    s["row"] = s["row"]._replace(state="STANDING")
    return "ok"


def missing(s, cfg):
    return not s["there"]


def due_again(s, cfg, row):
    if s["row"] != row:
        return "lost"
    s["row"] = row._replace(state="PENDING")
    return "ok"


def make(s, cfg):
    s["there"] = True
    return "ok"


def doubt(s, cfg, row):
    """D8: what was compared differs, so it is to be sent again."""
    if s["row"] != row:
        return "lost"
    s["row"] = row._replace(state="PENDING")
    return s["row"]


# ---------------------------------------------------------------- what readers meet


def show(s, cfg, shard, rows):
    s["shown", shard] = rows
    found = [g for g, files in cfg.files.items() if tuple(sorted(files)) == rows]
    if not found:
        s["bad"] = f"shard {shard} shows {rows}: no generation's rows"
    elif found[0] < s["seen", shard]:
        s["bad"] = f"shard {shard} goes back from generation {s['seen', shard]} to {found[0]}"
    else:
        s["seen", shard] = found[0]
    return "ok"


def read(s, cfg, shard):
    return s["shown", shard]


def token(s, cfg):
    return s["token"]


def drop_table(s, cfg):
    """The environment: readers meet no row any more, and begin anew."""
    if s.get("dropped"):
        return BLOCK
    s["dropped"], s["there"] = True, False
    for shard in cfg.shards:
        s["shown", shard], s["seen", shard] = (), 0


def restart(s, cfg):
    """The environment: a server undoes a replace in part, once."""
    shard = cfg.shards[0]
    if s.get("restarted") or not s["shown", shard]:
        return BLOCK
    s["restarted"], s["shown", shard] = True, ("old",)


def commit(s, cfg, generation, epoch, compared):
    """The transaction's end. It locked the token before it changed anything, so what it has compared is still so."""
    if compared and s["token"] >= (generation, epoch):
        return "ahead"
    s["token"] = (generation, epoch)
    return show(s, cfg, cfg.shards[0], tuple(sorted(cfg.files[generation])))


# ---------------------------------------------------------------- statements


def create(s, cfg, shard, name, again=False):
    if ("st", shard, name) in s and not again:
        return "exists"
    s.setdefault(("st", shard, name), ())
    return "ok"


def insert(s, cfg, shard, name, file):
    if ("st", shard, name) not in s:
        return "gone"
    s["st", shard, name] = tuple(sorted((*s["st", shard, name], file)))
    return "ok"


def staged(s, cfg, shard, name):
    return s.get(("st", shard, name))


def others(s, cfg, shard, name):
    return tuple(sorted(k[2] for k in s if isinstance(k, tuple) and k[:2] == ("st", shard) and k[2] != name))


def drop(s, cfg, shard, name):
    s.pop(("st", shard, name), None)
    return "ok"


def replace(s, cfg, shard, name):
    return "gone" if ("st", shard, name) not in s or not s["there"] else show(s, cfg, shard, s["st", shard, name])


def drop_partition(s, cfg, shard):
    return show(s, cfg, shard, ())


# ---------------------------------------------------------------- tasks


def begun(cfg):
    """(generation, epoch) of a try, or how the task ends. What stands by its token is not sent again."""
    if cfg.dropped and not (yield from table_is_there(cfg)):
        return "fail: others are at it"
    generation, row = yield ("look",)
    if row.state == "STANDING" and row.generation == generation:
        if not cfg.verify:
            return "ok"
        same = True
        for shard in cfg.shards:
            same = (yield ("read", shard)) == tuple(sorted(cfg.files[generation])) and same
        row = row if same else (yield ("doubt", row))
        if same or row == "lost":
            return "ok"
    epoch = yield ("take", generation, row, 0)
    if epoch == UNK:
        return "fail: nobody knows"
    return "lost" if epoch == "lost" else (generation, epoch)


def table_is_there(cfg):
    """Whether it is, made again where it was missing."""
    if not (yield ("missing",)):
        return True
    states = ("STANDING", "SENDING") if cfg.dropped != "stood" else ("STANDING",)
    for _ in range(2):
        _, row = yield ("look",)
        if row.state not in states:
            break
        answer = yield ("due_again", row)
        if answer == "ok" or cfg.dropped == "once":
            break
        if answer == UNK:
            return False
    else:
        return False
    yield ("make",)
    return True


def deliver_at_once(cfg):
    """A relational database."""
    found = yield from begun(cfg)
    if not isinstance(found, tuple):
        return found
    generation, epoch = found
    for _ in range(3):
        there = yield ("token",)
        if cfg.token != "none" and there >= (generation, epoch):
            if there[0] > generation:
                return "fail: the system is ahead"
            epoch = yield ("take", generation, Row(generation, epoch, "SENDING"), there[1])
            if epoch in ("lost", UNK):
                return "lost" if epoch == "lost" else "fail: nobody knows"
            continue
        if not (yield ("holds", generation, epoch)):
            return "lost"
        answer = yield ("commit", generation, epoch, cfg.token == "locked")
        if answer == "ahead":
            continue
        if answer == UNK and cfg.unsure_commit == "looked" and (yield ("token",)) != (generation, epoch):
            return "fail: not executed"
        if (yield ("stand", generation, epoch)) == UNK:
            return "fail: nobody knows"
        return "ok"
    return "fail: others keep coming before it"


def deliver_staged(cfg):
    """A system without transactions over statements."""
    found = yield from begun(cfg)
    if not isinstance(found, tuple):
        return found
    generation, epoch = found
    name, want = (generation, epoch) if cfg.own else ("w",), tuple(sorted(cfg.files[generation]))
    if cfg.asked == "early" and not (yield ("holds", generation, epoch)):
        return "lost"
    partition = cfg.empty == "drop" and not want
    for shard in () if partition else cfg.shards:
        answer = yield from stage(cfg, shard, name, want)
        if answer is not None:
            return answer
    for shard in cfg.shards if cfg.fence != "none" else ():
        for other in (yield ("others", shard, name)):
            answer = yield ("drop", shard, other)
            while cfg.fence == "others" and answer == UNK and other in (yield ("others", shard, name)):
                answer = yield ("drop", shard, other)
    if cfg.asked == "late" and not (yield ("holds", generation, epoch)):
        return "lost"
    for shard in cfg.shards:
        answer = yield ("drop_partition", shard) if partition else ("replace", shard, name)
        if answer == "gone":
            return "fail: another try has fenced this one"
    for shard in cfg.shards if cfg.back else ():
        if (yield ("read", shard)) != want:
            return "fail: other rows stand there"
    if (yield ("stand", generation, epoch)) == UNK:
        return "fail: nobody knows"
    return "ok"


def stage(cfg, shard, name, want):
    """None, or how the task ends."""
    answer = yield ("create", shard, name)
    if answer == UNK:
        if cfg.unsure == "abandoned":
            return "fail: unsure"
        answer = yield ("create", shard, name, True)
    if answer == "exists" and cfg.own:
        return "fail: the name is taken"
    for file in want:
        answer = yield ("insert", shard, name, file)
        if answer == UNK and cfg.unsure == "abandoned":
            return "fail: unsure"
        if answer == UNK and cfg.unsure == "again":
            yield ("insert", shard, name, file)
    if cfg.check and (yield ("staged", shard, name)) != want:
        return "fail: the staging holds other rows"
    return None


# ---------------------------------------------------------------- what must hold


def invariant(s, cfg):
    if s.get("bad"):
        raise Violation(s["bad"])
    row = s["row"]
    if row.state == "STANDING" and s["there"]:  # where the table is gone the next run finds that out
        for shard in cfg.shards:
            if s["seen", shard] < row.generation:
                raise Violation(f"the ledger says {row.generation}, shard {shard} has shown {s['seen', shard]}")


def at_rest(s, cfg):
    row = s["row"]
    if (row.generation, row.state) != (s["force"], "STANDING"):
        raise Violation(f"not healed: {row}, generation {s['force']} is in force")
    for shard in cfg.shards:
        if s["shown", shard] != tuple(sorted(cfg.files[s["force"]])):
            raise Violation(f"at rest the ledger says {row.generation}, shard {shard} shows {s['shown', shard]}")


def heal(model, st):
    """All tasks are killed; what is in flight never happens, or before or after a task that runs to its end."""
    cfg = model.cfg
    flying = [k for k in st[0] if isinstance(k, tuple) and k[0] == "fly"]
    late = [st[0][k] for k in flying]
    for when in ("never", "before", "after") if late else ("never",):
        s = {k: v for k, v in st[0].items() if k not in flying}
        for op in late if when == "before" else ():
            s = _done(model, s, op)
        s = model.alone(s, lambda: model.programs[cfg.heals[0]](cfg), 6)
        for op in late if when == "after" else ():
            s = _done(model, s, op)
        if cfg.verify and when == "after":
            s = model.alone(s, lambda: model.programs[cfg.heals[0]](cfg), 6)
        invariant(s, cfg)
        at_rest(s, cfg)


def _done(model, s, op):
    found = model.run_op(s, op)
    return s if found is None else found[0]


OPS = {
    f.__name__: f
    for f in (
        look, publish, forget, take, holds, stand, doubt, read, token, restart, commit, create, insert, staged, others,
        drop, replace, drop_partition, missing, due_again, make, drop_table,
    )
}  # fmt: skip
STATEMENTS = ("commit", "create", "insert", "drop", "replace", "drop_partition")


def build(**settings):
    """A model of a scenario's settings."""
    programs = {"deliver_at_once": deliver_at_once, "deliver_staged": deliver_staged}
    return Model(
        Cfg(**settings), programs, OPS, (*STATEMENTS, "take", "stand", "due_again"), STATEMENTS, invariant, heal
    )
