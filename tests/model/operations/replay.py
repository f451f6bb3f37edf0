"""Atomic operations of a replay and of a reopening."""

from __future__ import annotations

from tests.model.engine import BLOCK
from tests.model.operations.window import contributions
from tests.model.rules import File
from tests.model.state import app_of, batches, read_range, route


def r_begin(s, cfg, w, gen, epoch):
    x = s["w", w]
    if x.state == "PUBLISHED" and x.gen == gen:
        s["w", w] = x._replace(
            state="REPLAY", gen=gen + 1, epoch=1, contrib=contributions(s, w) if cfg.contrib == "frozen" else x.contrib
        )
        return (gen + 1, 1)
    if x.state == "REPLAY" and x.gen == gen and x.epoch == epoch:
        s["w", w] = x._replace(epoch=epoch + 1)
        return (gen, epoch + 1)
    return "lost"


def rebuild(s, cfg, w, path, kind, contrib=None):
    """Read the batches' ranges again; 'reopen' adds the late rows to the old content instead."""
    x = s["w", w]
    files = []
    src = contrib if contrib is not None else x.contrib
    if kind == "reopen":
        files = list(x.cur[2])
        have = {r for f in files for r in f.recs}
        for i in src:
            files += [f for f in s["b", i].man if f.kind == "re" and f.w == w and not set(f.recs) <= have]
    else:
        for i in src:
            b = s["b", i]
            groups = {}
            n = 0
            for p, _, _ in b.ranges:
                for r in read_range(s, cfg, b, p):
                    k, rw = route(cfg, s, b, r, b.spec if cfg.pin_route else s["spec"])
                    if k in ("w", "re") and rw == w:
                        groups.setdefault(app_of(r, s["spec"]), []).append(r.rid)
                        n += 1
            if cfg.replay_check and n != sum(len(f.recs) for f in b.man if f.kind in ("w", "re") and f.w == w):
                return "totals differ"
            files += [File((i, path, app), "w", w, app, tuple(v)) for app, v in sorted(groups.items(), key=repr)]
    s["d", path] = frozenset(files)
    return tuple(sorted(files, key=repr))


def pending_re(s, cfg, w):
    """'w' while reopened rows landed that no generation holds."""
    x = s["w", w]
    have = {r for f in (x.cur[2] if x.cur else ()) for r in f.recs}
    return any(
        f.kind == "re" and f.w == w and not set(f.recs) <= have
        for i, b in batches(s)
        if b.state == "LANDED"
        for f in b.man
    )


def wait_published(s, cfg, w):
    return "ok" if s["w", w].state == "PUBLISHED" else BLOCK


def r_contrib(s, cfg, w):
    return contributions(s, w)


def r_done(s, cfg, w, gen, epoch, man, path, contrib=None):
    x = s["w", w]
    if x.state != "REPLAY" or x.gen != gen or x.epoch != epoch:
        return "lost"
    s["w", w] = x._replace(state="REBUILT", man=(path, man), contrib=x.contrib if contrib is None else contrib)
    return "ok"


def w_pubdir(s, cfg, w, gen):
    x = s["w", w]
    if x.state != "REBUILT" or x.gen != gen:
        return "lost"
    s["w", w] = x._replace(state="PUBLISHED", cur=(gen, f"table/{w}", x.man[1]), man=(), swap=None)
    return "ok"
