"""What scenarios are made of, and how one is explored."""

from __future__ import annotations

from tests.model.engine import Model
from tests.model.healing import heal, run_seq
from tests.model.invariants import invariant
from tests.model.operations import DELAYABLE, LOSABLE, OPS
from tests.model.operations.environment import rollback, snapshot
from tests.model.programs import PROGRAMS
from tests.model.rules import Cfg, Rec, base_state


def row(p, o, w, app="a", w2=None, t=1):
    return Rec((t, p, o), w, app, w if w2 is None else w2)


def log(*parts, t=1):
    return tuple(
        tuple(row(p, o, *(x if isinstance(x, tuple) else (x,)), t=t) for o, x in enumerate(part))
        for p, part in enumerate(parts)
    )


def build(prefix=(), **kw):
    cfg = Cfg(**kw)
    m = Model(cfg, PROGRAMS, OPS, LOSABLE, DELAYABLE, invariant, heal if cfg.heal_on else None)
    if prefix:

        def init(c):
            s = base_state(c)
            for step in prefix:
                if callable(step):
                    s = dict(s)
                    step(s)
                    continue
                s, a = run_seq(m, s, step)
                assert a in ("ok", "nothing"), (step, a)
            return {k: v for k, v in s.items() if not (isinstance(k, tuple) and k[0] == "tok")}

        cfg.init = init
    return m


INGEST, INGEST_2 = ("ingest",), ("ingest", 2)
TWO = log((0, 1), (0, 1))
LATE = log((0, 1, 0), (0, 1))
APPS = log(((0, "a"), 1), ((0, "b"), 1))
PUB0 = (INGEST, ("archive", 0))


def end(*e):
    def f(s):
        s["end"] = e

    return f


def spec2(s):
    s["spec"] = 2


SCENARIOS = {}


def scenario(name, flips, **kw):
    """Note a scenario; `flips` gives, by label, what differs when one rule is taken out."""
    SCENARIOS[name] = (kw, flips)


def archive_of(w, pid=1):
    return ("archive", w, pid)


# the job runs at once (its zombies have scenarios of their own)
SPARK = (*Cfg.eager, "spark", "sp_part", "sp_receipt", "receipt")


def remember(s):
    """Note the ledger's commits so far."""
    snapshot(s, None)


def forget(s):
    """Fail the ledger over to what was noted."""
    rollback(s, None)


def run(name, flip=None, seconds=120, limit=3_000_000):
    kw, flips = SCENARIOS[name]
    kw = dict(kw)
    if flip:
        kw.update(flips[flip])
    return build(**kw).bfs(seconds=seconds, limit=limit)
