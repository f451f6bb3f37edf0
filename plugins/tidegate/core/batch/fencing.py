"""Fences off older attempts of a batch: what a row must still be for any change. The ledger compares it
(`ledger/moves.py`) and refuses by LostComparison.

The nonce counts too: in a ledger that lost commits an epoch can come twice, each time with another nonce.
"""

from __future__ import annotations

from tidegate.core.batch.states import AbandonedBatch, OpenBatch, PlannedBatch

AS_READ = ("epoch", "nonce", "revision")


def as_read(batch: OpenBatch | AbandonedBatch) -> dict[str, object]:
    """What a batch must still be for any change: the same attempt of the same revision."""
    epoch, nonce = attempt_of(batch)
    return {"epoch": epoch, "nonce": nonce, "revision": batch.plan.revision}


def attempt_of(batch: OpenBatch | AbandonedBatch) -> tuple[int, str]:
    """Epoch and nonce of its attempt; (0, "") before the first one."""
    return (0, "") if isinstance(batch, PlannedBatch) else (batch.epoch, batch.nonce)
