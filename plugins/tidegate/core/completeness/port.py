"""The ports to another system that counts the rows of windows too, and to what the ledger keeps of its answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidegate.core.window.answer import Answer
from tidegate.core.window.states import WindowKey


class Truth(Protocol):
    def expected(self, window: WindowKey) -> int | None:
        """How many rows the window should have; None: it does not know the window yet.

        Raises TruthUnknown for everything that is no count: no connection, no permission, an answer that cannot be
        read. It changes nothing anywhere."""
        ...


class TruthLedger(Protocol):
    """What another system said of windows, one answer each: the newest, or the one that was accepted."""

    def known(self, name: str, key: WindowKey, kinds: Iterable[str]) -> tuple[int, Answer | None]:
        """(rows of these kinds that have landed for the window, without rerouted ones; the stored answer)."""
        ...

    def save(self, name: str, key: WindowKey, answer: Answer, old: Answer | None) -> None:
        """`answer` takes the place of `old`. Raises LostComparison if another one stands there, or it was accepted."""
        ...

    def accept(self, name: str, key: WindowKey, answer: Answer, why: str) -> None:
        """An operator has the OPEN window published with what is there, by the stored answer that was shown.

        Raises LostComparison if another answer stands there, or the window is not OPEN any more."""
        ...
