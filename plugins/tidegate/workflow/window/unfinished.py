"""Says which step carries a generation to its end that somebody began and did not finish."""

from __future__ import annotations

from tidegate.core.base.errors import NotReady
from tidegate.core.base.instants import iso
from tidegate.core.look.overdue import finishing
from tidegate.core.window.states import BuildingGeneration, BuiltGeneration


def in_the_way(begun: BuildingGeneration | BuiltGeneration, then: str) -> NotReady:
    """Why something else, as `then` says it, has to wait for this one."""
    name, start_ms = begun.pipeline, begun.window.start_ms
    return NotReady(
        f"{name} {iso(start_ms)}: generation {begun.number} ({begun.kind}) is {begun.state}",
        advice=f"wait for it, or go on with it: {finishing(name, start_ms, begun.kind)}; then {then}",
    )
