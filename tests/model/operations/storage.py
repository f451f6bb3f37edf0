"""Atomic operations of storage, and the jobs that write to it."""

from __future__ import annotations

from tests.model.engine import BLOCK
from tests.model.state import d_add, names


def mk_empty(s, cfg, path):
    s.setdefault(("d", path), frozenset())
    return "ok"


def mv(s, cfg, src, dst):
    if ("d", src) not in s or ("d", dst) in s or ("tomb", dst) in s:
        return "refused"
    s["d", dst] = s.pop(("d", src))
    return "done"


def mvf(s, cfg, name, src, dst):
    f = next((x for x in s.get(("d", src), ()) if x.name == name), None)
    if f is None or any(x.name == name for x in s.get(("d", dst), ())):
        return "refused"
    s["d", src] = s["d", src] - {f}
    d_add(s, dst, f)
    return "done"


def ls(s, cfg, path):
    d = s.get(("d", path))
    return None if d is None else names(d)


def rm(s, cfg, path, tomb=False):
    s.pop(("d", path), None)
    if tomb:
        s["tomb", path] = True
    return "ok"


def wfile(s, cfg, path, f):
    d_add(s, path, f)
    return "ok"


def job(s, cfg, *prog):
    s["spawn"] = prog
    return "ok"


def token(s, cfg, key):
    s[("tok", *key)] = True
    return "ok"


def wait_token(s, cfg, key, live):
    if ("tok", *key) in s:
        return "ok"
    return BLOCK if live else None
