"""What must hold in every state, and what must hold at rest."""

from __future__ import annotations

from tests.model.engine import Violation
from tests.model.operations.failover import late_visible
from tests.model.operations.window import ready
from tests.model.state import batches, route


def visible(s, w):
    out = []
    for k, loc in s.items():
        if isinstance(k, tuple) and k[0] == "h" and k[1] == w:
            d = s.get(("d", loc), frozenset() if loc == "empty" else None)
            if d is None and s.get("gap_ok") and s["w", w].state == "REBUILT":
                return None
            if d is None and s["records"] and s["w", w].cur is None:
                return None  # a lost publication that was set aside: the hour is absent until the next one
            if d is None:
                raise Violation(f"the catalogue points partition {k[1:]} to {loc}, which is gone")
            out += [r for f in d if f.app == k[2] and f.kind != "rc" for r in f.recs]
    return sorted(out)


def recs(files):
    return sorted(r for f in files for r in f.recs)


def invariant(s, cfg):
    if "alarm" in s and not cfg.alarm_ok:
        raise Violation("a false " + s["alarm"])
    seen = {}
    for w in cfg.windows:
        x = s["w", w]
        v = visible(s, w)
        if v is None:
            continue
        for r in v:
            if r in seen:
                raise Violation(f"record {r} is visible twice: windows {seen[r]} and {w}")
            seen[r] = w
        if x.cur is not None:
            lost = [v for k, v in s.items() if isinstance(k, tuple) and k[:2] == ("rec", w)]
            may = {x.cur[1], "empty"} | ({x.man[0]} if x.state == "REBUILT" else set()) | {one.location for one in lost}
            for k, loc in s.items():
                if (
                    isinstance(k, tuple)
                    and k[0] == "h"
                    and k[1] == w
                    and loc not in may
                    and not cfg.gap_ok
                    and cfg.check_loc
                ):
                    raise Violation(
                        f"the catalogue went back: partition {k[2]} of window {w} is at {loc}, "
                        f"generation {x.cur[0]} is published at {x.cur[1]}"
                    )
            ok = [recs(x.cur[2])]
            if x.state == "REBUILT":
                ok.append(recs(x.man[1]))
            ok += [recs(one.man) for one in lost]
            if v not in ok:
                raise Violation(f"readers of window {w} see {v}, neither the old nor the new generation: {ok}")
            loc = s.get(("d", x.cur[1]))
            if (
                loc is not None
                and not set(x.cur[2]) <= set(loc)
                and x.state == "PUBLISHED"
                and x.cur[1].startswith("gen")
            ):
                raise Violation(f"published generation {x.cur[0]} of window {w} changed")
        elif v and x.state == "ASSEMBLED" and v != recs(x.man[1]):
            raise Violation(f"readers of window {w} see {v}, its manifest holds {recs(x.man[1])}")
        if x.state not in ("OPEN", "CLOSING"):
            for i, b in batches(s):
                if b.state != "LANDED":
                    for p, a, z in b.ranges:
                        for r in cfg.log[b.tid][p][a:z]:
                            k, rw = route(cfg, s, b, r, b.spec)
                            if k == "w" and rw == w:
                                raise Violation(f"window {w} is {x.state} while batch {i} ({b.state}) owes it {r.rid}")
                elif any(f.kind == "w" and f.w == w for f in b.man) and i not in x.contrib:
                    raise Violation(f"window {w} is {x.state} without batch {i}, which landed rows for it")
    got = {}
    phys = {
        r for k, d in s.items() if isinstance(k, tuple) and k[0] == "d" for f in d if f.kind != "rc" for r in f.recs
    }
    for i, b in batches(s):
        for p, a, z in b.ranges:
            for o in range(a, z):
                if (b.tid, p, o) in got:
                    raise Violation(f"record {(b.tid, p, o)} belongs to batches {got[b.tid, p, o]} and {i}")
                got[b.tid, p, o] = i
        if b.state in ("SEALED", "LANDED"):
            for f in b.man:
                for r in f.recs:
                    if r[0] != b.tid:
                        raise Violation(f"batch {i}, planned on topic id {b.tid}, holds {r} of another topic id")
                    if f.kind in ("late", "dirty") and r in seen:
                        raise Violation(f"record {r} is {f.kind} in batch {i} and visible in window {seen[r]}")
                    if f.kind in ("w", "re") and r not in phys:
                        raise Violation(f"record {r} of batch {i} ({b.state}) is in no directory any more")
                    if f.kind == "w" and f.w == "none":
                        raise Violation(f"record {r} was rerouted to no window")


def goal(s, cfg):
    invariant(s, cfg)
    own = {}
    for w in cfg.windows:
        for r in visible(s, w) or ():
            own.setdefault(r, []).append(("published", w))
    for i, b in batches(s):
        if b.state != "LANDED":
            raise Violation(f"does not heal: batch {i} stays {b.state}")
        for f in b.man:
            for r in f.recs:
                if f.kind in ("late", "dirty"):
                    own.setdefault(r, []).append((f.kind, i))
                elif f.kind == "re" and cfg.records and late_visible(s, i):
                    own.setdefault(r, []).append(("late", i))
                elif f.kind == "re" and not cfg.records and (f.w not in cfg.windows or r not in own):
                    own.setdefault(r, []).append(("pending", i))
                elif f.kind == "w" and (f.w not in cfg.windows or not s["w", f.w].cur):
                    own.setdefault(r, []).append(("landed", f.w))
    for p, log in enumerate(cfg.log[s["tid"]]):
        for r in log[: s["end"][p]]:
            o = own.get(r.rid, [])
            if len(o) != 1:
                raise Violation(f"at rest record {r.rid} has owners {o}")
            spec = next((b.spec for i, b in batches(s) for q, a, z in b.ranges if q == p and a <= r.rid[2] < z), 1)
            if o[0][0] == "published" and (r.w if spec == 1 else r.w2) != o[0][1] and cfg.late != "reroute":
                raise Violation(f"at rest record {r.rid} is in {o}, not in the window that its plan's spec says")
    for w in cfg.windows if cfg.heal_windows is None else cfg.heal_windows:
        if s["w", w].state != "PUBLISHED" and ready(s, cfg, w):
            raise Violation(f"does not heal: window {w} stays {s['w', w].state}")
