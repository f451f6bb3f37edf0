"""Programs that publish a further generation, and the cleaner."""

from __future__ import annotations

from tests.model.state import names


def swap_pointers(cfg, w, x, me):
    path, man = x.man
    want = tuple((app, path) for app in sorted({f.app for f in man}, key=repr))
    sure = True
    if cfg.alter_fence:
        for _ in range(2):
            n = yield ("doubt_set", w, path, me)
            if isinstance(n, int):
                break
            yield ("doubt_wait", w, me)
        else:
            return "fail in doubt"
        y = yield ("w_get", w)
        if (y.state, y.gen) != ("REBUILT", x.gen):
            yield ("doubt_drop", w, me, n)
            return "fail moved on"
    if cfg.three_step:
        for _ in range(cfg.max_try):
            have = yield ("pointers", w)
            if have == want:
                break
            new = tuple((app, "empty") for app, _ in want if app not in dict(have))
            if new:
                sure &= (yield ("add_part", w, new)) == "ok"
                continue
            gone = tuple((app, "empty") for app, _ in have if app not in dict(want))
            if not set(want + gone) <= set(have):
                sure &= (yield ("alter", w, want + gone)) == "ok"
                continue
            sure &= (yield ("alter", w, tuple((app, None) for app, _ in gone))) == "ok"
    for _ in range(cfg.max_try):
        have = yield ("pointers", w)
        changes = want + (tuple((app, None) for app, _ in have if app not in dict(want)) if cfg.exact_parts else ())
        if (cfg.exact_parts and have == want) or (not cfg.exact_parts and set(want) <= set(have)):
            break
        for c in (changes,) if cfg.one_alter else tuple((c,) for c in changes):
            if (yield ("alter", w, c)) != "ok":
                sure = False
    else:
        return "fail pointers"
    yield ("w_pub", w, x.gen, path)
    if cfg.alter_fence and sure:
        yield ("doubt_drop", w, me, n)
    return "ok"


def replay(cfg, w, pid=0, kind="replay"):
    me = f"R{pid}"
    x = yield ("w_get", w)
    if kind == "reopen" and x.state == "PUBLISHED" and not (yield ("pending_re", w)):
        return "nothing"
    if x.state in ("PUBLISHED", "REPLAY"):
        a = yield ("r_begin", w, x.gen, x.epoch)
        if not isinstance(a, tuple):
            return "fail begin"
        gen, e = a
        c = None
        if cfg.contrib != "frozen":
            c = yield ("r_contrib", w)
        if not cfg.name_by_cas:
            gen = (yield ("w_get", w)).gen
        path = f"gen/{w}.{gen}.{e}"
        man = yield ("rebuild", w, path, kind, c)
        if man == "totals differ":
            return "stopped: totals differ"
        yield ("r_done", w, gen, e, man, path, c)
        x = yield ("w_get", w)
    if x.state == "REBUILT":
        return (yield from swap_pointers(cfg, w, x, me))
    return "fail state"


def replay_after(cfg, w, pid=0):
    """An operator replays a published hour."""
    yield ("wait_published", w)
    return (yield from replay(cfg, w, pid))


def replay_dir(cfg, w, pid=0):
    """swap: directory.  Two guarded renames."""
    x = yield ("w_get", w)
    if x.state in ("PUBLISHED", "REPLAY"):
        a = yield ("r_begin", w, x.gen, x.epoch)
        if not isinstance(a, tuple):
            return "fail begin"
        gen, e = a
        path = f"pub/{w}.{gen}.{e}"
        man = yield ("rebuild", w, path, "replay", None)
        if man == "totals differ":
            return "stopped"
        yield ("r_done", w, gen, e, man, path, None)
        x = yield ("w_get", w)
    if x.state == "REBUILT":
        path, man = x.man
        old, ret = names(x.cur[2]), f"ret/{w}.{x.cur[0]}"
        T = yield ("ls", f"table/{w}")
        if T is not None and old == T:
            yield ("mv", f"table/{w}", ret)
        T = yield ("ls", f"table/{w}")
        if T is None:
            yield ("mv", path, f"table/{w}")
            T = yield ("ls", f"table/{w}")
        if names(man) != T:
            return "fail swap"
        yield ("w_pubdir", w, x.gen)
        return "ok"
    return "fail state"


def cleaner(cfg, pid=0):
    for path in (yield ("clean_look",)):
        if path.startswith("ret/"):
            w, g = (int(v) for v in path[4:].split("."))
            yield ("rm_ret", path, w, g)
        else:
            yield ("rm", path)
    return "ok"
