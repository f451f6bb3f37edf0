"""Events that no task causes: producers, retention, a new spec, duplicate tasks, a failover of the ledger."""

from __future__ import annotations

from tests.model.engine import BLOCK
from tests.model.operations.window import w_files
from tests.model.rules import File
from tests.model.state import batches, d_add, read_range


def produce(s, cfg):
    for p, e in enumerate(s["end"]):
        if e < len(cfg.log[s["tid"]][p]):
            s["end"] = (*s["end"][:p], e + 1, *s["end"][p + 1 :])
            return None
    return BLOCK


def new_spec(s, cfg):
    if s["spec"] == 2:
        return BLOCK
    s["spec"] = 2
    return None


def recreate(s, cfg):
    if s["tid"] == 2:
        return BLOCK
    s["tid"] = 2
    s["end"] = tuple(len(x) for x in cfg.log[2])
    return None


def dup_task(s, cfg):
    """A duplicate Spark task of the newest attempt writes its file now (creating directories, as HDFS does)."""
    for i, b in sorted(batches(s), reverse=True):
        if b.epoch and ("dupdone", i, b.epoch) not in s:
            p = b.ranges[0][0] if b.ranges else None
            if p is None:
                continue
            recs = read_range(s, cfg, b, p)
            s["dupdone", i, b.epoch] = True
            d_add(s, f"tmp/{i}.{b.epoch}", File(("dup", i, b.epoch), "w", recs[0].w, recs[0].app, (recs[0].rid,)))
            return None
    return BLOCK


def dup_merge(s, cfg):
    """A duplicate task of a merge job writes its file where the job writes."""
    for w in cfg.windows:
        x = s["w", w]
        if x.state in ("SEALED", "ASSEMBLING", "ASSEMBLED") and ("dupm", w) not in s:
            fs = w_files(s, cfg, w)
            if not fs:
                continue
            s["dupm", w] = True
            e = x.epoch if cfg.asm_epoch else 0
            base = (
                f"wrk/{w}.{x.gen}.{e}"
                if cfg.clean_dir
                else (f"pub/{w}.{x.gen}.{e}" if cfg.asm_epoch else f"pub/{w}.{x.gen}")
            )
            d_add(s, base, File(("dup", w), "w", w, fs[0].app, fs[0].recs))
            return None
    return BLOCK


LEDGER = ("pl", "b", "w", "doubt", "acc")


def snapshot(s, cfg):
    if "snap" in s:
        return BLOCK
    s["snap"] = frozenset((k, v) for k, v in s.items() if (k[0] in LEDGER if isinstance(k, tuple) else k in LEDGER))
    return None


def rollback(s, cfg):
    """The state database fails over to an older commit."""
    if s.get("snap") in (None, "used"):
        return BLOCK
    for k in [k for k in s if (k[0] in LEDGER if isinstance(k, tuple) else k in LEDGER)]:
        del s[k]
    s.update(dict(s["snap"]))
    s["snap"] = "used"
    return None


def retention(s, cfg):
    """Kafka drops its oldest record still there."""
    for _p, log in enumerate(cfg.log[1]):
        for r in log:
            if ("gone", r.rid) not in s:
                s["gone", r.rid] = True
                return None
    return BLOCK
