"""Every call of a life and every way in which it may fail, or a draw of them; for lives of several steps."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from tests.crash.faults import OVERTAKEN, Call

OVERTAKINGS = tuple(kind for kind in OVERTAKEN if kind.startswith("overtaken"))
"""By another whole try; not by a cleaner."""
ALL = os.environ.get("TIDEGATE_FAULTS") == "all"
Case = tuple[int, int, str]
"""(step, number of the call within it, how it fails)."""


def ways(method: str, kinds: Iterable[str]) -> set[str]:
    """Those of its ways to fail in which a method fails in this run: half of them, drawn by the run's seed."""
    every = sorted(set(kinds))
    return set(random.Random(f"{os.environ['TIDEGATE_TEST_SEED']}:{method}").sample(every, (len(every) + 1) // 2))


def cases(calls: Sequence[Sequence[Call]], of: Callable[[Call], bool] = lambda call: True) -> list[Case]:
    """One of each method and half of its ways, drawn by the run's seed; TIDEGATE_FAULTS=all: every one.

    `of`: which calls count."""
    every: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for step, mine in enumerate(calls):
        for at, call in enumerate(mine):
            for kind in (*call.kinds(), *OVERTAKINGS) if of(call) else ():
                every[call.method, kind].append((step, at, kind))
    if ALL:
        return [case for some in every.values() for case in some]
    seed, known = os.environ["TIDEGATE_TEST_SEED"], defaultdict(set)
    for method, kind in every:
        known[method].add(kind)
    drawn = {(method, kind) for method, kinds in known.items() for kind in ways(method, kinds)}
    return [random.Random(f"{seed}:{key}").choice(some) for key, some in every.items() if key in drawn]


def unhealed(
    calls: Sequence[Sequence[Call]],
    kind: str,
    lived: Callable[[int, int, str], str | None],
    of: Callable[[Call], bool] = lambda call: True,
) -> list[str]:
    """What was wrong after lives in which one call failed in this way. `lived`: lives one; None: it healed."""
    failed = []
    for step, at, _ in (case for case in cases(calls, of) if case[2] == kind):
        wrong = lived(step, at, kind)
        if wrong is not None:
            failed.append(f"step {step}, {calls[step][at].site}, {kind}: {wrong}")
    return failed
