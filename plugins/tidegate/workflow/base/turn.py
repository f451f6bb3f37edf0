"""A task whose window another task has taken over waits for that one before it tries again: taking it back at once
would overtake the other in its turn, and two that build as long as each other would go on like that for hours."""

from __future__ import annotations

import time

from tidegate.core.base.instants import iso, span
from tidegate.core.window.states import BuildingGeneration, PublishedGeneration, WindowKey
from tidegate.workflow.base.context import Context

TIMES = 2.0
"""So many times as long as our own try took the other one is waited for; then it is dead, or there is a third."""
LOOK_S = 5.0


class Turn:
    """One try at a window after another. `began`: when the first did (`time.monotonic()`), now by default."""

    def __init__(self, ctx: Context, key: WindowKey, began: float | None = None) -> None:
        self._ctx, self._key = ctx, key
        self._began = time.monotonic() if began is None else began

    def give_way(self) -> None:
        """Returns when no task builds or publishes the window any more, or the time is up. A try that has done no work
        does not wait. Raises LedgerError."""
        took = time.monotonic() - self._began
        end, said = time.monotonic() + TIMES * took, False
        while self._at_work() and (left := end - time.monotonic()) > 0:
            if not said:
                what = f"another task has begun to build {iso(self._key.start_ms)} again"
                self._ctx.say(f"{what}: it is waited for, {span(round(TIMES * took * 1000))} at most")
                said = True
            time.sleep(min(left, LOOK_S, took / 10))
        self._began = time.monotonic()

    def _at_work(self) -> bool:
        windows, name = self._ctx.ledger.windows, self._ctx.name
        newest = windows.get(name, self._key).newest
        generation = windows.generation(name, self._key, newest) if newest else None
        if isinstance(generation, BuildingGeneration):
            return generation.epoch > 0
        return generation is not None and not isinstance(generation, PublishedGeneration)
