"""The ledger's side of a failover: a switch of the site while a batch may be open and an old worker alive (F4, F5).

Both sites hold the same records; the second one's offsets are 10 higher. A site that is not active plans nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.engine import UNK, Model, Switches, Violation


class Batch(NamedTuple):
    state: str
    epoch: int
    site: str
    start: int
    end: int
    nonce: int


class Cfg(Switches):
    """Rules as switches; the defaults are the whole protocol."""

    open_rule = "withdrawn"  # F4: the open batch goes, in the same transaction | ignored
    compares = True  # R5: a plan commits on the version that it read
    raises = True  # F4: the switch raises it
    active = True  # a plan is refused at a site that is not the active one
    one = True  # F4: a switch compares the version that its operator saw
    same = True  # F4: and the batch
    pinned = True  # F5: seal compares the batch as it was taken, and its site
    records = 2

    eager, no_crash, env, env_kills, live = (), (), (), (), frozenset()
    procs, budget = (), (0, 0, 0, 0)

    def init(self, _cfg):
        return {"version": 0, "site": "A", "ends": (("A", 0),), "batch": None, "nonces": 0}


def _end(s, site):
    return dict(s["ends"]).get(site, 0)


def look(s, cfg):
    return s["version"], s["site"], _end(s, s["site"]), s["batch"]


def plan(s, cfg, version, site, start, end):
    if cfg.compares and s["version"] != version:
        return "lost"
    if (cfg.active and s["site"] != site) or (s["batch"] and s["batch"].state != "LANDED"):
        return "lost"
    s["nonces"] += 1
    s["batch"] = Batch("PLANNED", 0, site, start, end, s["nonces"])
    s["ends"] = tuple(sorted((dict(s["ends"]) | {site: end}).items()))
    s["version"] += 1
    return "ok"


def take(s, cfg):
    batch = s["batch"]
    if batch is None or batch.state not in ("PLANNED", "WRITING"):
        return None
    s["nonces"] += 1
    s["batch"] = batch._replace(state="WRITING", epoch=batch.epoch + 1, nonce=s["nonces"])
    return s["batch"]


def land(s, cfg, mine):
    """Seal and land; the records are those of the site that it was planned on."""
    if cfg.pinned and s["batch"] != mine:
        return "lost"
    if s["batch"] is None or s["batch"].state != "WRITING":
        return "lost"
    for offset in range(mine.start, mine.end):
        who = offset if mine.site == "A" else offset - 10
        s["landed", who] = s.get(("landed", who), 0) + 1
    s["batch"] = s["batch"]._replace(state="LANDED")
    return "ok"


def switch(s, cfg, version, batch, done):
    """To the second site, which goes on behind `done`, where the batches that have landed end."""
    if (cfg.one and s["version"] != version) or s["site"] != "A":
        return "lost"
    if cfg.same and s["batch"] != batch:
        return "lost"
    batch = s["batch"]
    if batch is not None and batch.state != "LANDED" and cfg.open_rule == "withdrawn":
        s["batch"] = None
        s["ends"] = tuple(sorted((dict(s["ends"]) | {"A": batch.start}).items()))
    s["site"] = "B"
    s["ends"] = tuple(sorted((dict(s["ends"]) | {"B": done + 10}).items()))
    s["version"] += 1 if cfg.raises else 0
    return "ok"


def worker(cfg):
    for _ in range(cfg.records + 1):
        version, site, end, batch = yield ("look",)
        if batch is None or batch.state == "LANDED":
            if end >= cfg.records + (10 if site == "B" else 0):
                return "ok"
            if (yield ("plan", version, site, end, end + 1)) != "ok":
                continue
        mine = yield ("take",)
        if mine is not None:
            yield ("land", mine)
    return "ok"


def operator(cfg):
    version, site, end, batch = yield ("look",)
    done = batch.start if batch is not None and batch.state != "LANDED" else end
    answer = yield ("switch", version, batch, done)
    return "fail: look again" if answer in ("lost", UNK) and site == "A" else "ok"


def invariant(s, cfg):
    for who in range(cfg.records):
        if s.get(("landed", who), 0) > 1:
            raise Violation(f"record {who} has landed twice")


def heal(model, st):
    """All are killed; then an operator, if he has not switched yet, and a worker run to their end."""
    s = {k: v for k, v in st[0].items() if not (isinstance(k, tuple) and k[0] == "fly")}
    for name in ("operator", "worker", "worker"):
        task = model.programs[name](model.cfg)
        try:
            op = next(task)
            while True:
                found = model.run_op(s, op)
                assert found is not None, op
                s = found[0]
                invariant(s, model.cfg)
                op = task.send(found[1])
        except StopIteration:
            pass
    for who in range(model.cfg.records):
        if s.get(("landed", who), 0) != 1:
            raise Violation(f"at rest record {who} has landed {s.get(('landed', who), 0)} times")


OPS = {f.__name__: f for f in (look, plan, take, land, switch)}


def build(**settings):
    """A model of a scenario's settings."""
    programs = {"worker": worker, "operator": operator}
    changing = ("plan", "take", "land", "switch")
    return Model(Cfg(**settings), programs, OPS, changing, ("plan", "land", "switch"), invariant, heal)
