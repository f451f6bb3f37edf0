"""Atomic operations of the cleaner."""

from __future__ import annotations


def clean_look(s, cfg):
    out = []
    for k in s:
        if not (isinstance(k, tuple) and k[0] == "d"):
            continue
        path = k[1]
        zone, _, rest = path.partition("/")
        if zone == "tmp":
            i, e = (int(v) for v in rest.split("."))
            b = s.get(("b", i))
            if b and (b.state == "LANDED" or e < b.epoch + (cfg.bug == "clean-current")):
                out.append(path)
        elif zone == "landed":
            b = s.get(("b", int(rest)))
            if not b or b.state != "LANDED":
                continue
            ws = {f.w for f in b.man if f.kind in ("w", "re")}
            done = all(w in cfg.windows and s["w", w].cur for w in ws)
            if cfg.clean_landed == "published":
                done = done and all(
                    set(f.recs) <= {r for g in s["w", f.w].cur[2] for r in g.recs}
                    for f in b.man
                    if f.kind in ("w", "re")
                )
                done = done and int(rest) < s["pl"][1] - 1  # the newest one stays: it is the storage's high-water mark
            if done:
                out.append(path)
        elif zone == "gen" or zone == "ret":
            w, g = (int(v) for v in rest.split(".")[:2])
            x = s["w", w]
            cur = x.cur and x.cur[0]
            if cur and g < cur and not (cfg.alter_fence and ("doubt", w) in s):
                out.append(path)
    return tuple(sorted(out))


def rm_ret(s, cfg, path, w, g):
    """Deletes a retired generation; with clean_identity only if the directory says it is that generation."""
    d = s.get(("d", path))
    if d is None:
        return "absent"
    if cfg.clean_identity and s["w", w].cur and d == frozenset(s["w", w].cur[2]):
        return "is current"
    s.pop(("d", path))
    if cfg.swapdir_tomb:
        s["tomb", path] = True
    return "ok"
