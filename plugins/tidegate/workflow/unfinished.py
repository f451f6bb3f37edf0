"""What carries a generation to its end that somebody began and did not finish."""

from __future__ import annotations

from tidegate.core.instants import iso
from tidegate.core.rollback import ROLLBACK
from tidegate.core.window import REOPEN, WindowKey
from tidegate.workflow.overdue import clear


def finishing(name: str, key: WindowKey, kind: str) -> str:
    """The command: who began a generation finishes it; the archive run finishes a heal, and has run before."""
    if kind == REOPEN:
        return f"tidegate reopen {name} {iso(key.start_ms)}"
    if kind == ROLLBACK:
        return f"tidegate rollback {name} {iso(key.start_ms)} --why '...'"
    if kind == "replay":
        return f"tidegate replay {name} {iso(key.start_ms)}"
    return clear(name, key.start_ms, key.start_ms)
