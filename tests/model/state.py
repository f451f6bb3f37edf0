"""Questions about a state that several operations ask."""

from __future__ import annotations


def batches(s):
    return [(k[1], v) for k, v in s.items() if k[0] == "b" and isinstance(k, tuple)]


def open_batch(s):
    return next((i for i, b in sorted(batches(s)) if b.state != "LANDED"), None)


def read_range(s, cfg, b, p):
    tid_log = cfg.log[s["tid"]][p]
    return [r for (q, a, z) in b.ranges if q == p for r in tid_log[a:z] if ("gone", r.rid) not in s]


def route(cfg, s, b, r, spec, live=False):
    w = r.w if spec == 1 else r.w2
    if w == "dirty":
        return ("dirty", None)
    if w in b.floors:
        if cfg.late == "reroute":
            t = b.target if cfg.reroute_target == "plan" else target(s, cfg)
            return ("w", t)
        return ("re" if cfg.late == "reopen" else "late", w)
    return ("w", w)


def app_of(r, spec):
    """Return the partition value: 'x>y' is x by spec 1 and y by spec 2.

    A column's decoding follows today's spec; only the routing to windows is pinned.
    """
    return r.app.split(">")[0 if spec == 1 else -1]


def target(s, cfg):
    return next((w for w in cfg.windows if s["w", w].state == "OPEN"), "none")


def names(files):
    """(name, length), as the listing shows them."""
    return frozenset((f.name, len(f.recs)) for f in files if f.kind != "rc")


def d_add(s, path, f):
    cur = s.get(("d", path), frozenset())
    s["d", path] = frozenset(x for x in cur if x.name != f.name) | {f}
