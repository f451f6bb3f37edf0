"""A replay of several windows: what is read once goes to the window that it belongs to, each with a receipt of its own.

One window never spoils another: what today's columns cannot decode refuses the window that the row belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.route import Routed
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.files.receipt import Failure


class Targets:
    """The windows that a replay is about, as one task sees them."""

    def __init__(self, plan: ReadPlan) -> None:
        starts = [t.window_ms for t in plan.targets] or [plan.window_ms]
        self._starts = pa.array(starts, pa.int64())
        self._taken: dict[int, list[int]] = defaultdict(list)
        for target in plan.targets:
            for batch_id in target.taken:
                self._taken[batch_id].append(target.window_ms)
        self.alone = len(starts) == 1
        self.refused: dict[int, Failure] = {}

    def choose(self, routed: Routed, batch_id: int) -> tuple[Routed, pa.Array]:
        """Which records are rows of a window that is rebuilt; their `late` says no more that they came late.

        Those of a batch whose late rows a window has taken up are that window's."""
        late = routed.late
        if batch_id in self._taken:
            taken = pc.is_in(routed.window, pa.array(self._taken[batch_id], pa.int64()))
            late = pc.and_(late, pc.invert(taken))
        wanted = pc.and_(pc.is_in(routed.window, self._starts), pc.invert(late))
        if routed.dropped is not None:
            wanted = pc.and_(wanted, pc.invert(routed.dropped))
        return replace(routed, late=late), self.without_refused(routed.window, wanted)

    def without_refused(self, window: pa.Array, wanted: pa.Array) -> pa.Array:
        if not self.refused:
            return wanted
        refused = pc.is_in(window, pa.array(sorted(self.refused), pa.int64()))
        return pc.and_(wanted, pc.invert(refused))


def cut_copies(plan: ReadPlan, tasks: int) -> list[tuple[int, ...]]:
    """Indices of the plan's copies, for tasks of about equal size."""
    bins: list[list[int]] = [[] for _ in range(min(max(1, tasks), len(plan.copies)))]
    loads = [0] * len(bins)
    sizes = sorted(((c.source.entry.bytes, i) for i, c in enumerate(plan.copies)), reverse=True)
    for size, index in sizes:
        least = loads.index(min(loads))
        bins[least].append(index)
        loads[least] += size
    return [tuple(sorted(b)) for b in bins]
