"""Heal a state: every task dies, surviving jobs run on, and the tasks are run again one by one."""

from __future__ import annotations

from tests.model.engine import Violation
from tests.model.invariants import goal
from tests.model.operations.replay import pending_re


def run_seq(model, s, prog, tries=4):
    for _ in range(tries):
        hist = ()
        zs = []
        while True:
            kind, val = model.next_op(prog, hist)
            if kind == "end":
                break
            r = model.run_op(s, val)
            if r is None:
                if zs:
                    s, _ = run_seq(model, s, zs.pop(0))
                    continue
                return s, "blocked"
            s, ans, spawn = r
            if spawn:
                zs.append(spawn)
            hist += (ans,)
        for z in zs:
            s, _ = run_seq(model, s, z, 1)
        if isinstance(val, str) and val.startswith("alarm"):
            s = dict(s)
            s["alarm"] = val
        if not (isinstance(val, str) and val.startswith("fail")):
            return s, val
    return s, val


def heal(model, st):
    """Every task dies now; the jobs that survived run on (first or last); then tasks are re-run one by one."""
    cfg = model.cfg
    zombies = [(prog, hist) for pid, prog, _, hist in st[1] if pid[0] == "z"]
    cfg.live = frozenset()
    for zombies_first in (True, False) if zombies else (True,):
        s = dict(st[0])

        def flush(s):
            for prog, hist in zombies:
                while True:
                    kind, val = model.next_op(prog, hist)
                    if kind == "end":
                        break
                    r = model.run_op(s, val)
                    if r is None:
                        break
                    s, hist = r[0], (*hist, r[1])
            return s

        for k in [k for k in s if isinstance(k, tuple) and k[0] == "fly"]:
            op = s.pop(k)
            r = model.run_op(s, op)
            s = r[0] if r else s
        if zombies_first:
            s = flush(s)
        if cfg.records:
            s = _heal_with_records(model, s)
        for _ in range(0 if cfg.records else 8):
            s, a = run_seq(model, s, ("ingest",))
            if a == "nothing" or a.startswith("stopped"):
                break
        for w in () if cfg.records else cfg.windows if cfg.heal_windows is None else cfg.heal_windows:
            if s["w", w].state in ("OPEN", "CLOSING", "SEALED", "ASSEMBLING", "ASSEMBLED"):
                s, a = run_seq(model, s, ("archive", w, 9))
        for w, prog in cfg.heal_replays:
            if s["w", w].state in ("REPLAY", "REBUILT") or (prog == "reopen" and pending_re(s, cfg, w)):
                for _ in range(2):
                    s, a = run_seq(
                        model,
                        s,
                        ("replay", w, 9, "reopen" if cfg.late == "reopen" else "replay")
                        if prog != "replay_dir"
                        else ("replay_dir", w, 9),
                    )
        if not zombies_first:
            s = flush(s)
        s, a = run_seq(model, s, ("cleaner", 9))
        s, a = run_seq(model, s, ("cleaner", 9))
        try:
            goal(s, cfg)
        except Violation as v:
            raise Violation(
                f"after killing all tasks here and re-running them{'' if zombies_first else ' (zombies last)'}: {v}"
            ) from None


def _heal_with_records(model, s):
    """The next scheduled runs, and an operator who adopts where one of them says that storage is ahead."""
    cfg = model.cfg
    for _ in range(4):
        s, _answer = run_seq(model, s, ("operator",))
        s, _answer = run_seq(model, s, ("ingest_beside",))
        for w in cfg.heal_windows:
            x = s["w", w]
            if s.get(("kind", w)) == "reopen" and x.state in ("REPLAY", "REBUILT"):
                s, _answer = run_seq(model, s, ("reopening", w))  # maintenance goes on with reopenings
            elif x.state in ("REPLAY", "REBUILT"):
                s, _answer = run_seq(model, s, ("replaying", w))  # its next try
            elif x.state != "PUBLISHED":
                s, _answer = run_seq(model, s, ("publishing", w))
        s, _blocked, _spawned = model.run_op(s, ("late_settle",))
    return s
