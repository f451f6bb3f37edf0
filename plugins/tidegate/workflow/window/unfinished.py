"""What carries a generation to its end that somebody began and did not finish."""

from __future__ import annotations

from tidegate.core.base.errors import NotReady
from tidegate.core.base.instants import iso
from tidegate.core.window.kinds import command_of
from tidegate.core.window.states import BuildingGeneration, BuiltGeneration
from tidegate.workflow.window.overdue import clear


def in_the_way(begun: BuildingGeneration | BuiltGeneration, then: str) -> NotReady:
    """Why something else, as `then` says it, has to wait for this one."""
    name, start_ms = begun.pipeline, begun.window.start_ms
    return NotReady(
        f"{name} {iso(start_ms)}: generation {begun.number} ({begun.kind}) is {begun.state}",
        advice=f"wait for it, or go on with it: {finishing(name, start_ms, begun.kind)}; then {then}",
    )


def finishing(name: str, start_ms: int, kind: str) -> str:
    """The command, for the window that starts then (UTC ms): who began a generation finishes it; the archive run
    finishes a heal, and has run before."""
    return command_of(kind, name, start_ms) or clear(name, start_ms, start_ms)
