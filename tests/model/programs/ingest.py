"""Programs of an ingest: the task, and the Spark job."""

from __future__ import annotations

from tests.model.state import names


def guarded_rename(cfg, src, dst, want, still):
    for _ in range(cfg.max_try):
        a = yield ("mv", src, dst)
        if a == "done":
            return "done"
        if cfg.stat == "src_first":
            S = yield ("ls", src)
            D = yield ("ls", dst)
        else:
            D = yield ("ls", dst)
            S = yield ("ls", src)

        def fits(L):
            return (want == L) if cfg.match == "exact" else want <= L

        if D is None and S is not None and (not cfg.src_match or fits(S)):
            continue
        if D is not None and fits(D):
            if S is not None:
                yield ("rm", src)
            return "done"
        if cfg.reread and not (yield still):
            return "moved on"
        if D is not None and S is not None:
            return "alarm: both there, they differ"
        if D is not None:
            return "alarm: destination differs"
        return "alarm: data lost" if S is None else "alarm: source differs"
    return "fail"


def ingest(cfg, pid=0):
    v = yield ("plan_look",)
    i = v[1]
    if i is None:
        k = yield ("kafka",)
        i = yield ("plan_commit", v, k)
        if i in ("nothing",):
            return "nothing"
        if not isinstance(i, int):
            return "stopped: " + i if i in ("storage is ahead", "topic id changed") else "fail " + str(i)
    state, epoch, man = (yield ("b_get", i)) or ("LANDED", 0, None)
    if cfg.adopt and state in ("PLANNED", "WRITING") and (yield ("ls", f"landed/{i}")) is not None:
        yield ("b_adopt", i)
        state, epoch, man = (yield ("b_get", i)) or ("LANDED", 0, None)
    if state in ("PLANNED", "WRITING"):
        e = yield ("b_take", i, epoch)
        if not isinstance(e, int):
            return "fail take"
        yield ("spark", i, e)
        rc = yield ("receipt", i, e, True)
        if rc is None:
            return "fail job"
        listing = yield ("ls", f"tmp/{i}.{e}")
        if listing is None or not (names(rc) <= listing if cfg.match == "subset" else names(rc) == listing):
            return "fail listing"
        a = yield ("b_seal", i, e, rc)
        if a in ("arithmetic", "topic id changed"):
            return "stopped: " + a
        if a != "ok" and not cfg.seal_own:
            return "fail seal"
        state, epoch, man = (yield ("b_get", i)) or ("LANDED", 0, None)
        if state == "WRITING":
            return "fail seal"
    if state == "SEALED":
        if cfg.bug == "land-early":
            yield ("b_land", i)
        a = yield from guarded_rename(cfg, f"tmp/{i}.{epoch}", f"landed/{i}", man, ("still_sealed", i))
        if a != "done":
            return a
        yield ("b_land", i)
    return "ok"


def ingest_loop(cfg, n, pid=0):
    """A scheduled task that runs n times."""
    for _ in range(n):
        a = yield from ingest(cfg, pid)
        if a != "ok":
            return a
    return "ok"


def spark_job(cfg, i, e):
    for p in range(len(cfg.log[1])):
        if (yield ("sp_part", i, e, p)) != "ok":
            return "died"
    yield ("sp_receipt", i, e)
    return "ok"
