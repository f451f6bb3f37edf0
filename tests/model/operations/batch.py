"""Atomic operations of a batch: the ledger's comparisons, Kafka, the Spark job and the receipt."""

from __future__ import annotations

from tests.model.engine import BLOCK
from tests.model.rules import B, File
from tests.model.state import app_of, d_add, names, open_batch, read_range, route, target


def plan_look(s, cfg):
    ver, nid, ends, _ = s["pl"]
    return (
        ver,
        open_batch(s),
        nid,
        ends,
        frozenset(w for w in cfg.windows if s["w", w].state != "OPEN"),
        target(s, cfg),
        s["spec"],
    )


def kafka(s, cfg):
    return (s["end"], s["tid"])


def plan_commit(s, cfg, view, kaf):
    ver, _, nid, ends, floors, tgt, spec = view
    kends, tid = kaf
    if "plan" in cfg.tid and tid != s["acc"]:
        return "topic id changed"
    cur = s["pl"]
    if cfg.plan == "cas" and cur[0] != ver:
        return "conflict"
    if cfg.plan == "loose":
        nid = cur[1]
    if open_batch(s) is not None or ("b", nid) in s:
        return "conflict"
    if cfg.hwm and any(
        k[0] == "d" and k[1].startswith("landed/") and int(k[1][7:]) >= nid for k in s if isinstance(k, tuple)
    ):
        return "storage is ahead"
    ranges = tuple((p, e, min(k, e + cfg.cap)) for p, (e, k) in enumerate(zip(ends, kends, strict=False)) if k > e)
    nends = tuple(min(k, e + cfg.cap) for e, k in zip(ends, kends, strict=False))
    drained = tuple(n == k for n, k in zip(nends, kends, strict=False))
    if not ranges and drained == cur[3]:
        return "nothing"
    s["b", nid] = B("PLANNED", 0, ranges, floors, tgt, None, spec, tid, drained)
    s["pl"] = (cur[0] + 1, nid + 1, nends, drained)
    return nid


def b_get(s, cfg, i):
    b = s.get(("b", i))
    return None if b is None else (b.state, b.epoch, None if b.man is None else names(b.man))


def b_take(s, cfg, i, epoch):
    b = s.get(("b", i))
    if b is None or b.state not in ("PLANNED", "WRITING") or b.epoch != epoch:
        return "lost"
    s["b", i] = b._replace(state="WRITING", epoch=epoch + 1)
    return epoch + 1


def spark(s, cfg, i, e):
    s["spawn"] = ("spark_job", i, e)
    return "ok"


def sp_part(s, cfg, i, e, p):
    """One task: reads its range now, writes its files below the attempt (creating the directory, as HDFS does)."""
    b = s.get(("b", i))
    if b is None:
        return "no plan"
    groups = {}
    for r in read_range(s, cfg, b, p):
        k, w = route(cfg, s, b, r, b.spec if cfg.pin_route else s["spec"])
        groups.setdefault((k, w, app_of(r, b.spec)), []).append(r.rid)
    for (k, w, app), recs in sorted(groups.items(), key=repr):
        d_add(s, f"tmp/{i}.{e}", File((i, e, p, k, w, app), k, w, app, tuple(recs)))
    return "ok"


def sp_receipt(s, cfg, i, e):
    path = f"tmp/{i}.{e}"
    mine = tuple(sorted((f for f in s.get(("d", path), ()) if f.kind != "rc" and f.name[0] != "dup"), key=repr))
    d_add(s, path, File(("rc",), "rc", None, None, mine))
    return "ok"


def receipt(s, cfg, i, e, live):
    """The worker waits for the job; the answer is the receipt (or BLOCK while the job runs)."""
    for f in s.get(("d", f"tmp/{i}.{e}"), ()):
        if f.kind == "rc":
            return f.recs
    return BLOCK if live else None


def b_seal(s, cfg, i, e, man):
    b = s.get(("b", i))
    if b is None or b.state != "WRITING" or (b.epoch != e and cfg.bug != "seal-epoch"):
        return "lost"
    want = sum(z - a for _, a, z in b.ranges)
    if sum(len(f.recs) for f in man) != want:
        return "arithmetic"
    if "seal" in cfg.tid and s["tid"] != b.tid:
        return "topic id changed"
    s["b", i] = b._replace(state="SEALED", man=man)
    return "ok"


def b_adopt(s, cfg, i):
    """The storage knows more than the ledger: the receipt in landed/<batch> is the manifest, if it is of this plan."""
    b = s.get(("b", i))
    for f in s.get(("d", f"landed/{i}"), ()):
        if f.kind == "rc" and b and b.state in ("PLANNED", "WRITING"):
            got = {r for g in f.recs for r in g.recs}
            want = {(b.tid, p, o) for p, a, z in b.ranges for o in range(a, z)}
            if got != want:
                return "another plan"
            s["b", i] = b._replace(state="SEALED", man=f.recs, epoch=next((g.name[1] for g in f.recs), b.epoch))
            return "ok"
    return "lost"


def b_land(s, cfg, i):
    b = s.get(("b", i))
    if b is None or b.state != "SEALED":
        return "lost"
    s["b", i] = b._replace(state="LANDED")
    return "ok"


def still_sealed(s, cfg, i):
    b = s.get(("b", i))
    return b is not None and b.state == "SEALED"
