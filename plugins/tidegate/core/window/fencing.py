"""Fences off older tries to build a generation of a window: what its row must still be for any change.

While it is assembled its epoch and nonce are compared (R3), later its content too: in a ledger that lost commits a
number can come twice.
"""

from __future__ import annotations

from tidegate.core.window.states import BuildingGeneration, BuiltGeneration, Generation

ATTEMPT, CONTENT = ("epoch", "nonce"), ("epoch", "digest")


def as_read(generation: Generation) -> dict[str, object]:
    """What a generation must still be for any change of it."""
    if isinstance(generation, BuildingGeneration):
        return {"epoch": generation.epoch, "nonce": generation.nonce}
    if isinstance(generation, BuiltGeneration):
        return {"epoch": generation.epoch, "digest": generation.digest}
    return {"digest": generation.digest}
