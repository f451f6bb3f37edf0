"""Programs of an archive: merging, assembling and publishing an hour, and the audit that runs beside it."""

from __future__ import annotations

from tests.model.programs.ingest import guarded_rename
from tests.model.rules import File
from tests.model.state import names


def merge_job(cfg, path, w, uid, files):
    apps = sorted({f.app for f in files}, key=repr)
    for app in apps:
        yield (
            "wfile",
            path,
            File(("m", uid, app), "w", w, app, tuple(r for f in files if f.app == app for r in f.recs)),
        )
    yield ("token", (uid,))
    return "ok"


def collect(cfg, w, files, dirs):
    """Move every file up into dirs[-1]; the others are looked through in the order in which files travel."""
    for f in files:
        for _ in range(cfg.max_try):
            src = None
            for d in dirs(f):
                L = yield ("ls", d)
                if L is not None and (f.name, len(f.recs)) in L:
                    src = d
                    break
            if src is None:
                return "missing"
            if src == dirs(f)[-1]:
                break
            a = yield ("mvf", f.name, src, dirs(f)[-1])
            if a == "done":
                break
    return "ok"


def archive(cfg, w, pid=0):
    x = yield ("w_get", w)
    if x.state == "OPEN":
        if cfg.seal == "naive":
            yield ("sensor", w)
        elif cfg.seal == "closing":
            yield ("w_close", w)
    x = yield ("w_get", w)
    if x.state in ("OPEN", "CLOSING"):
        yield ("w_seal", w)
        x = yield ("w_get", w)
    if x.state in ("SEALED", "ASSEMBLING"):
        e = 0
        out = f"pub/{w}.{x.gen}"
        if cfg.asm_epoch:
            e = yield ("w_take", w, x.epoch)
            if not isinstance(e, int):
                return "fail take"
            out = f"pub/{w}.{x.gen}.{e}"
        files = yield ("w_files", w)
        if not files:
            yield ("mk_empty", out)
        if cfg.mode == "move" or not files:

            def path(f):
                return [f"landed/{f.name[0]}"] + [f"pub/{w}.{x.gen}.{k}" for k in range(1, e)] + [out]

            a = yield from collect(cfg, w, files, path)
            if a != "ok":
                y = yield ("w_get", w)
                if cfg.reread and (y.state, y.epoch) != ("ASSEMBLING" if cfg.asm_epoch else x.state, e):
                    return "fail moved on"
                return "alarm: file missing in assembly"
            man = files
        else:
            uid = (w, x.gen, e, pid)
            work = f"wrk/{w}.{x.gen}.{e}" if cfg.clean_dir else out
            yield ("job", "merge_job", work, w, uid, files)
            if (yield ("wait_token", (uid,), True)) is None:
                return "fail job"
            man = tuple(
                File(("m", uid, app), "w", w, app, tuple(r for f in files if f.app == app for r in f.recs))
                for app in sorted({f.app for f in files}, key=repr)
            )
            if cfg.clean_dir:
                a = yield from collect(cfg, w, man, lambda f: [work, out])
                if a != "ok":
                    return "fail moved on"
        L = yield ("ls", out)
        if names(man) != L:
            return "fail listing"
        a = yield ("w_done", w, e, man, out)
        x = yield ("w_get", w)
    if x.state == "ASSEMBLED":
        out, man = x.man
        if True:
            L = yield ("ls", out)
            if L is not None and names(man) != L:
                return "fail listing"
        a = yield from guarded_rename(cfg, out, f"table/{w}", names(man), ("still_state", w, "ASSEMBLED", x.gen))
        if a == "moved on":
            return "ok"
        if a != "done":
            return a
        parts = tuple((app, f"table/{w}") for app in sorted({f.app for f in man}, key=repr))
        me, sure = f"A{w}b" if pid == 2 else f"A{w}", True
        if parts:
            if cfg.alter_fence and cfg.add_fence:
                for _ in range(2):
                    n = yield ("doubt_set", w, f"table/{w}", me)
                    if isinstance(n, int):
                        break
                    yield ("doubt_wait", w, me)
                else:
                    return "fail in doubt"
                y = yield ("w_get", w)
                if y.state != "ASSEMBLED":
                    yield ("doubt_drop", w, me, n)
                    return "ok"
            sure = (yield ("add_part", w, parts)) == "ok"
            got = yield ("pointers", w)
            if got != parts:
                return "fail pointers"
        yield ("w_pub", w, x.gen, f"table/{w}")
        if parts and cfg.alter_fence and cfg.add_fence and sure:
            yield ("doubt_drop", w, me, n)
    return "ok"


def audit(cfg, w, pid=0):
    """Every file of a sealed, unpublished window must be somewhere."""
    x = yield ("w_get", w)
    if x.state not in ("SEALED", "ASSEMBLING"):
        return "ok"
    files = yield ("w_files", w)
    seen = set()
    for d in (
        sorted({f"landed/{f.name[0]}" for f in files})
        + [f"pub/{w}.{x.gen}.{k}" for k in range(1, 4)]
        + [f"pub/{w}.{x.gen}"]
    ):
        seen |= (yield ("ls", d)) or set()
    if not names(files) <= seen:
        if cfg.reread and (yield ("w_get", w)) != x:
            return "ok"
        return "alarm: audit misses a file"
    return "ok"
