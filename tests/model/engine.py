"""An explicit-state checker: breadth-first (shortest traces) and seeded random walks.

A process is a generator of operations. Its state is the history of the answers it has received; the next operation is
a pure function of (program, history), so states hash. Every operation is atomic on the shared state (a flat dict);
between any two of them the process may crash, answers may be lost (executed or not), and requests may hang in flight
and execute later.
"""

from __future__ import annotations

import random
import time
from collections import deque

UNK = "UNK"


class Violation(Exception):
    pass


class Switches:
    """What a scenario says of its model: values for attributes of the class. Raises TypeError for one it has not."""

    def __init__(self, **settings):
        for name, value in settings.items():
            if not hasattr(type(self), name):
                raise TypeError(name)
            setattr(self, name, value)


class Model:
    """Checks one scenario.

    `cfg` holds the scenario's switches; `programs` names generator functions of (cfg, *args), `ops` functions of
    (s, cfg, *args).
    """

    def __init__(self, cfg, programs, ops, losable, delayable, invariant, heal=None):
        self.cfg, self.programs, self.ops = cfg, programs, ops
        self.losable, self.delayable = losable, delayable
        self.invariant, self.heal = invariant, heal
        self.cache, self.healed = {}, {}

    def next_op(self, prog, hist):
        key = (prog, hist)
        hit = self.cache.get(key)
        if hit is None:
            gen = self.programs[prog[0]](self.cfg, *prog[1:])
            try:
                op = next(gen)
                for answer in hist:
                    op = gen.send(answer)
                hit = ("op", op)
            except StopIteration as stop:
                hit = ("end", stop.value)
            self.cache[key] = hit
        return hit

    def alone(self, s, task, tries):
        """What is left after so many tries of a program, made by `task`, with nothing in between; one that ends with
        "ok" is the last."""
        for _ in range(tries):
            program = task()
            try:
                op = next(program)
                while True:
                    found = self.run_op(s, op)
                    assert found is not None, op
                    s = found[0]
                    self.invariant(s, self.cfg)
                    op = program.send(found[1])
            except StopIteration as end:
                if end.value == "ok":
                    return s
        return s

    def to_its_end(self, s, prog, held=False):
        """(What is left, what it returns) of a program with nothing in between. `held`: the invariant after each
        step."""
        hist = ()
        while True:
            kind, val = self.next_op(prog, hist)
            if kind == "end":
                return s, val
            s, answer = self.done(s, val)
            if held:
                self.invariant(s, self.cfg)
            hist = (*hist, answer)

    def done(self, s, op):
        """(What is left, the answer) of an operation that nothing blocks."""
        found = self.run_op(s, op)
        assert found is not None, op
        return found[0], found[1]

    # state = (dict shared, tuple procs, tuple budget); proc = (pid, prog, tries, history)
    def key(self, st):
        return hash((frozenset(st[0].items()), st[1], st[2]))

    def settle(self, s, procs):
        """Run ended programs away; a failed one is tried again (Airflow's retry)."""
        out = []
        for pid, prog, tries, hist in procs:
            while True:
                kind, val = self.next_op(prog, hist)
                if kind == "op":
                    out.append((pid, prog, tries, hist))
                    break
                if isinstance(val, str) and val.startswith("alarm"):
                    s["alarm"] = val
                if isinstance(val, str) and val.startswith("fail") and tries > 0:
                    tries, hist = tries - 1, ()
                    continue
                break
        return tuple(out)

    def run_op(self, s, op):
        """-> None (disabled) or (s2, answer, spawned)"""
        s2 = dict(s)
        s2.pop("spawn", None)
        ans = self.ops[op[0]](s2, self.cfg, *op[1:])
        if ans is BLOCK:
            return None
        return s2, ans, s2.pop("spawn", None)

    def succ(self, st):
        """Yield (step, next state); a step is (who, operation, answer, what went wrong), see `told`."""
        s, procs, bud = st
        crash, lost, fly, env = bud
        self.cfg.live = frozenset(p[0] for p in procs)
        for i, (pid, prog, tries, hist) in enumerate(procs):  # operations that commute with everything go first, alone
            _kind, op = self.next_op(prog, hist)
            if op[0] in self.cfg.eager:
                r = self.run_op(s, op)
                if r is not None:
                    np = list(procs)
                    np[i] = (pid, prog, tries, (*hist, r[1]))
                    if r[2]:
                        np.append((("z",) + r[2], r[2], 0, ()))
                    yield (pid, op, r[1], ""), (r[0], self.settle(r[0], np), bud)
                    return
        for i, (pid, prog, tries, hist) in enumerate(procs):
            _kind, op = self.next_op(prog, hist)
            outs = []
            r = self.run_op(s, op)
            if r is not None:
                s2, ans, spawn = r
                outs.append((s2, ans, spawn, bud, ""))
                if lost and op[0] in self.losable:
                    outs.append((dict(s2), UNK, spawn, (crash, lost - 1, fly, env), " [executed, reply lost]"))
                    outs.append((dict(s), UNK, None, (crash, lost - 1, fly, env), " [request lost]"))
                if fly and op[0] in self.delayable:
                    s3 = dict(s)
                    n = 0
                    while ("fly", n) in s3:
                        n += 1
                    s3[("fly", n)] = op
                    outs.append((s3, UNK, None, (crash, lost, fly - 1, env), " [timed out, still in flight]"))
            for s2, ans, spawn, b2, note in outs:
                np = list(procs)
                np[i] = (pid, prog, tries, (*hist, ans))
                if spawn:
                    np.append((("z", *spawn), spawn, 0, ()))
                yield (pid, op, ans, note), (s2, self.settle(s2, np), b2)
            if crash and not (self.cfg.no_crash and prog[0] in self.cfg.no_crash) and (hist or tries):
                np = list(procs)
                if tries > 0:
                    np[i] = (pid, prog, tries - 1, ())
                else:
                    del np[i]
                s2 = dict(s)
                yield (pid, None, None, ": CRASH"), (s2, self.settle(s2, np), (crash - 1, lost, fly, env))
        flying = [k for k in s if isinstance(k, tuple) and k[0] == "fly"] if fly < self.cfg.budget[2] else ()
        for k in flying:
            s2 = dict(s)
            op = s2.pop(k)
            r = self.run_op(s2, op)
            s3 = r[0] if r else s2
            yield ("late execution", op, r[1] if r else None, ""), (s3, procs, bud)
        if env:
            for name in self.cfg.env:
                s2 = dict(s)
                if self.ops[name](s2, self.cfg) is BLOCK:
                    continue
                np = procs if name not in self.cfg.env_kills else ()
                yield (f"environment: {name}", None, None, ""), (s2, np, (crash, lost, fly, env - 1))

    def check(self, st):
        self.invariant(st[0], self.cfg)
        if self.heal:
            k = hash(frozenset(st[0].items()))
            if k not in self.healed:
                self.healed[k] = True
                self.heal(self, st)

    def initial(self):
        s = self.cfg.init(self.cfg)
        procs = tuple((pid, prog, tries, ()) for pid, prog, tries in self.cfg.procs)
        return (s, self.settle(s, procs), self.cfg.budget)

    def bfs(self, limit=2_000_000, seconds=600):
        t0 = time.time()
        st = self.initial()
        k0 = self.key(st)
        parent = {k0: None}
        queue = deque([(st, k0, 0)])
        n = trans = depth = 0
        while queue:
            st, k, d = queue.popleft()
            n += 1
            depth = max(depth, d)
            try:
                self.check(st)
            except Violation as v:
                return Result("VIOLATION", str(v), self.trace(parent, k), n, trans, d, time.time() - t0)
            for step, nx in self.succ(st):
                trans += 1
                nk = self.key(nx)
                if nk not in parent:
                    parent[nk] = (k, step)
                    queue.append((nx, nk, d + 1))
            if n >= limit or time.time() - t0 > seconds:
                return Result("bounded", f"frontier {len(queue)}", [], n, trans, depth, time.time() - t0)
        return Result("ok", "", [], n, trans, depth, time.time() - t0)

    def trace(self, parent, k):
        out = []
        while parent[k] is not None:
            k, step = parent[k]
            out.append(told(*step))
        return out[::-1]

    def walk(self, seed, walks, seconds=60, steps=200):
        """Random walks (for configurations too large for BFS)."""
        t0, n, rnd = time.time(), 0, random.Random(seed)
        seen = set()
        done = 0
        for _walk in range(walks):
            done += 1
            st, trace = self.initial(), []
            for _ in range(steps):
                try:
                    n += 1
                    seen.add(self.key(st))
                    self.check(st)
                except Violation as v:
                    return Result("VIOLATION", str(v), trace, len(seen), n, len(trace), time.time() - t0)
                nxt = list(self.succ(st))
                if not nxt:
                    break
                calm = [x for x in nxt if not x[0][3]]
                step, st = rnd.choice(nxt if rnd.random() < 0.4 or not calm else calm)
                trace.append(told(*step))
            if time.time() - t0 > seconds:
                break
        return Result("walked", f"{done} walks", [], len(seen), n, steps, time.time() - t0)


class _Block:
    def __repr__(self):
        return "BLOCK"


BLOCK = _Block()


class Result:
    def __init__(self, verdict, what, trace, states, trans, depth, secs):
        self.verdict, self.what, self.trace = verdict, what, trace
        self.states, self.trans, self.depth, self.secs = states, trans, depth, secs

    def line(self):
        """Return the verdict and the size of what was explored, in one line."""
        size = f"{self.states:8d} states {self.trans:9d} transitions depth {self.depth:3d} {self.secs:6.1f}s"
        return f"{self.verdict:9s} {size} {self.what}"


def told(who, op, answer, wrong):
    return f"{who}: {show(op)} -> {show(answer)}{wrong}" if op else f"{who}{wrong}"


def show(x, n=150):
    t = repr(x).replace("frozenset", "")
    return t if len(t) < n else t[: n - 3] + "..."
