"""Atomic operations of a window: it closes, its first generation is assembled and published."""

from __future__ import annotations

from tests.model.engine import BLOCK
from tests.model.state import batches, open_batch


def ready(s, cfg, w):
    wm = set()
    last = None
    for i, b in batches(s):
        if b.state == "LANDED":
            if last is None or i > last[0]:
                last = (i, b)
            for p, a, z in b.ranges:
                if any(isinstance(r.w, int) and r.w > w for r in cfg.log[b.tid][p][a:z]):
                    wm.add(p)
    if last is None:
        return False
    return all(p in wm or last[1].drained[p] for p in range(len(last[1].drained)))


def contributions(s, w):
    return tuple(
        sorted(
            i for i, b in batches(s) if b.state == "LANDED" and any(f.kind in ("w", "re") and f.w == w for f in b.man)
        )
    )


def w_get(s, cfg, w):
    return s["w", w]


def sensor(s, cfg, w):
    return "ready" if ready(s, cfg, w) and open_batch(s) is None else BLOCK


def bump(s):
    v = s["pl"]
    s["pl"] = (v[0] + 1, *v[1:])


def w_close(s, cfg, w):
    """closing: from here on plans see the floor; the seal waits for the batches planned before."""
    x = s["w", w]
    if x.state != "OPEN":
        return "lost"
    if not ready(s, cfg, w):
        return BLOCK
    s["w", w] = x._replace(state="CLOSING", epoch=s["pl"][1])
    bump(s)
    return "ok"


def w_seal(s, cfg, w):
    x = s["w", w]
    if cfg.seal == "closing":
        if x.state != "CLOSING":
            return "lost"
        if any(i < x.epoch and b.state != "LANDED" for i, b in batches(s)):
            return BLOCK
    else:
        if x.state != "OPEN":
            return "lost"
        if cfg.seal == "tx" and (not ready(s, cfg, w) or open_batch(s) is not None):
            return BLOCK
    s["w", w] = x._replace(state="SEALED", gen=1, epoch=0, contrib=contributions(s, w))
    bump(s)
    return "ok"


def w_take(s, cfg, w, epoch):
    x = s["w", w]
    if x.state not in ("SEALED", "ASSEMBLING") or x.epoch != epoch:
        return "lost"
    s["w", w] = x._replace(state="ASSEMBLING", epoch=epoch + 1)
    return epoch + 1


def w_files(s, cfg, w):
    return tuple(f for i in s["w", w].contrib for f in s["b", i].man if f.kind in ("w", "re") and f.w == w)


def w_done(s, cfg, w, epoch, man, path):
    x = s["w", w]
    if x.state not in ("SEALED", "ASSEMBLING") or (cfg.asm_epoch and x.epoch != epoch):
        return "lost"
    s["w", w] = x._replace(state="ASSEMBLED", man=(path, man))
    return "ok"


def w_pub(s, cfg, w, gen, loc):
    x = s["w", w]
    if x.state not in ("ASSEMBLED", "REBUILT") or x.gen != gen:
        return "lost"
    s["w", w] = x._replace(state="PUBLISHED", cur=(gen, loc, x.man[1]), man=(), swap=None)
    return "ok"


def still_state(s, cfg, w, state, gen):
    x = s["w", w]
    return x.state == state and x.gen == gen
