"""Programs that publish generations while the ledger may forget commits, and the operator who adopts."""

from __future__ import annotations

from tests.model.programs.archive import collect
from tests.model.programs.ingest import guarded_rename, ingest
from tests.model.state import names


def publishing(cfg, w, pid=0):
    """Publish a window's first generation, from wherever it stands."""
    for _ in range(cfg.max_try):
        if (yield ("unknown",)):
            return "stopped: storage is ahead"
        x = yield ("w_get", w)
        if x.state == "OPEN":
            yield ("w_close", w)
            x = yield ("w_get", w)
        if x.state == "CLOSING":
            yield ("w_seal", w)
            x = yield ("w_get", w)
        if x.state == "PUBLISHED":
            return "ok"
        done = yield from _finish(cfg, w, x)
        if done != "moved on":
            return done
    return "fail"


def reopening(cfg, w, pid=0):
    """Take up the late rows that wait."""
    for _ in range(cfg.max_try):
        if (yield ("unknown",)):
            return "stopped: storage is ahead"
        x = yield ("w_get", w)
        if x.state == "PUBLISHED":
            if not (yield ("late_waits", w)):
                return "ok"
            yield ("g_begin", w, "reopen")
            x = yield ("w_get", w)
        done = yield from _finish(cfg, w, x)
        if done != "moved on":
            return done
    return "fail"


def replaying(cfg, w, pid=0):
    """Rebuild the window; a generation that an earlier try has built is given up first."""
    begun = False
    for _ in range(cfg.max_try):
        if (yield ("unknown",)):
            return "stopped: storage is ahead"
        x = yield ("w_get", w)
        if x.state == "REBUILT" and not x.swap and not begun:
            if not cfg.keep_recorded:
                yield ("g_discard", w, x.gen)
            else:
                token = yield ("g_take_back", w, x.gen)
                if token != "lost" and not (yield ("g_met", w, x.gen)):
                    gone = yield ("g_discard", w, x.gen, token)
                    if gone == "ok" and (yield ("g_met", w, x.gen)):
                        yield ("restore", w, x.gen)
                    continue
                if token != "lost" and (yield ("restore", w, x.gen)) == "ok":
                    done = yield from _finish(cfg, w, (yield ("w_get", w)))
                    if done != "moved on":
                        continue
            continue
        if x.state == "PUBLISHED":
            if begun:
                return "ok"
            a = yield ("g_begin", w, "replay")
            begun = a == "ok"
            x = yield ("w_get", w)
        done = yield from _finish(cfg, w, x)
        if done != "moved on" and begun:
            return done
    return "fail"


def _finish(cfg, w, x):
    """BUILDING or BUILT to CURRENT. The answer of `g_built` is kept: the ledger is not read again by itself."""
    number = x.gen
    if x.state in ("SEALED", "ASSEMBLING", "REPLAY"):
        above = yield ("highest", w, number)
        a = yield ("g_take", w, number, above)
        if a == "lost":
            return "moved on"
        token, files, contrib, kind = a
        if (yield ("recorded", w, number)):
            a = yield ("restore", w, number)
            if a != "ok":
                return "stopped: record and ledger contradict each other" if a == "contradicts" else "moved on"
            x = yield ("w_get", w)
    if x.state in ("SEALED", "ASSEMBLING", "REPLAY"):
        if number == 1:
            path, man = f"pub/{w}.1.{token[0]}", files
            a = yield from collect(
                cfg, w, files, lambda f: [f"landed/{f.name[0]}", *(f"pub/{w}.1.{k}" for k in range(1, token[0])), path]
            )
            if a != "ok":
                mine = yield ("g_holds", w, number, token)
                return "alarm: file missing in assembly" if mine else "moved on"
        else:
            a = yield ("g_remake", w, number, token, kind)
            if a == "lost":
                return "moved on"
            path, man = a
        if (yield ("g_built", w, number, token, path, man)) != "ok":
            return "moved on"
    elif x.state in ("ASSEMBLED", "REBUILT"):
        (path, man), contrib = x.man, x.contrib
        kind = yield ("g_kind", w)
    else:
        return "moved on"
    return (yield from _show(cfg, w, number, contrib, kind, path, man))


def _show(cfg, w, number, contrib, kind, path, man):
    location = f"table/{w}" if number == 1 else path
    if cfg.ask_before_record and not (yield ("g_still", w, number, path)):
        return "moved on"
    yield ("g_mark", w, number, contrib, kind, path, location, man)
    if (cfg.swap_first or kind == "reopen") and (yield ("g_swap", w, number, path)) != "ok":
        return "moved on"
    if kind == "reopen":
        yield ("late_hide", w)
    if number == 1:
        a = yield from guarded_rename(cfg, path, location, names(man), ("g_still", w, number, path))
        if a != "done":
            return a
    if not cfg.swap_first and kind != "reopen" and (yield ("g_swap", w, number, path)) != "ok":
        return "moved on"
    if (yield ("g_show", w, number, path, location)) != "ok":
        return "moved on"
    if (yield ("g_publish", w, number, path, location)) != "ok":
        return "moved on"
    return "ok"


def operator(cfg, pid=0):
    """Adopt what storage remembers: restore it, let it close, or set it aside."""
    yield ("ahead_somewhere",)
    for w, number in (yield ("survey",)):
        a = yield ("restore", w, number)
        if a == "contradicts" and cfg.set_aside:
            yield ("aside_files", w, number)
            yield ("aside_record", w, number)
    return "ok"


def ingest_beside(cfg, pid=0):
    """An ingest run that asks first whether storage knows more than the ledger."""
    if (yield ("unknown",)):
        return "stopped: storage is ahead"
    return (yield from ingest(cfg, pid))
