"""Asks the ledger whether a window that is built on the one before may go on."""

from __future__ import annotations

from tidegate.core.copy.days import whole
from tidegate.core.ledger import Ledger
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window import turn
from tidegate.core.window.readiness import Certificate


def in_turn(ledger: Ledger, windows: Windows, certificate: Certificate) -> Certificate:
    """The certificate, held while the window before has nothing in force, or while no copy of the source's table is
    whole. Raises LedgerError; where windows are built on none, the ledger is not asked."""
    name = certificate.pipeline
    return turn.in_turn(
        certificate,
        windows,
        lambda key: ledger.windows.get(name, key).current is not None,
        lambda: whole(ledger.copies.rounds(name)),
    )
