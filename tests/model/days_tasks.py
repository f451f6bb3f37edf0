"""Tasks of the model of a keyed table by days (`tests.model.days`)."""

from __future__ import annotations

from tests.model.days import OPS, Cfg, Days, Plan, invariant


def source(cfg):
    for i in range(cfg.begun, len(cfg.script)):
        yield ("write", i)


def sender(cfg, *order):
    for j in order:
        yield ("send", j)


def days(cfg, *some):
    for d in some:
        if (yield ("close", d)) == "ok":
            yield from built(d)


def built(d):
    plan = yield ("decide", d)
    if isinstance(plan, Plan):
        yield ("finish", d, plan)


def again(cfg, d):
    """Replay, or Clear, of a day that is published."""
    yield ("published", d)
    yield from built(d)


def healed(cfg, d):
    yield ("lose", d)
    yield from built(d)


def copier(cfg, again=False, slow=None):
    """`slow`: all chunks but the first one are read once that day is published."""
    r = yield ("begin", again)
    for i in range(len(cfg.chunks)) if r is not None else ():
        if i and slow is not None:
            yield ("published", slow)
        at = yield ("low", r, i)
        if at is not None:
            found = yield ("select", i)
            yield ("accept", r, i, at, found)


def copiers(cfg):
    yield from copier(cfg)
    yield from copier(cfg, True)


def restored(cfg, d, after):
    """The ledger of when `after` chunks were read, or None of when nothing had begun, comes back once day `d` is
    published; who copies goes on, or where that is refused reads all again."""
    if after is None:
        yield ("backup",)
    r = yield ("begin", False)
    for i in range(len(cfg.chunks)):
        if i == after:
            yield ("backup",)
        at = yield ("low", r, i)
        found = yield ("select", i)
        yield ("accept", r, i, at, found)
    yield ("published", d)
    yield ("restore",)
    yield from copier(cfg)
    yield from copier(cfg, True)


PROGRAMS = {f.__name__: f for f in (source, sender, days, again, healed, copier, copiers, restored)}


def build(**settings):
    """A model of a scenario's settings."""
    return Days(Cfg(**settings), PROGRAMS, OPS, invariant, invariant)
