"""Atomic operations of the catalogue, and the intents that fence them (R8)."""

from __future__ import annotations

from tests.model.engine import BLOCK


def alter(s, cfg, w, changes, loc_of=None):
    """changes: tuple of (app, location or None).  Unconditional, as Hive's is."""
    for app, loc in changes:
        if loc is None:
            s.pop(("h", w, app), None)
        else:
            s["h", w, app] = loc
    return "ok"


def add_part(s, cfg, w, changes):
    """ADD PARTITION IF NOT EXISTS"""
    for app, loc in changes:
        s.setdefault(("h", w, app), loc)
    return "ok"


def pointers(s, cfg, w):
    return tuple(
        sorted(((k[2], v) for k, v in s.items() if k[0] == "h" and isinstance(k, tuple) and k[1] == w), key=repr)
    )


def doubt_set(s, cfg, w, loc, me):
    """Intent, written before an ALTER; refused while somebody's ALTER to another location may still execute."""
    d = s.get(("doubt", w), frozenset())
    if any(x[1] != loc for x in d):
        return "in doubt"
    n = next(n for n in range(99) if (me, loc, n) not in d) if cfg.intent_per_call else 0
    s["doubt", w] = d | {(me, loc, n)}
    return n


def flying(s, w):
    return any(
        v[0] in ("alter", "add_part") and v[1] == w for k, v in s.items() if isinstance(k, tuple) and k[0] == "fly"
    )


def doubt_drop(s, cfg, w, me, n):
    """Its own intent, after definite answers only."""
    d = frozenset(x for x in s.get(("doubt", w), ()) if (x[0], x[2]) != (me, n))
    if d:
        s["doubt", w] = d
    else:
        s.pop(("doubt", w), None)
    return "ok"


def doubt_wait(s, cfg, w, me):
    """Forget the intents once the longest life of a worker and of a request has passed.

    Then nothing is in flight, and the other writers are dead.
    """
    if flying(s, w) or any(x[0] != me and x[0] in cfg.live for x in s.get(("doubt", w), ())):
        return BLOCK
    s.pop(("doubt", w), None)
    return "ok"
