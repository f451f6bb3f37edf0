"""The ledger's side of a publication (`core.target.port.Fence`)."""

from __future__ import annotations

from tidegate.core.base.offsets import Interval
from tidegate.core.window.states import BUILT, CURRENT, RETIRED, BuiltGeneration, PublishedGeneration
from tidegate.workflow.base import preflight
from tidegate.workflow.base.context import Context


class WindowFence:
    """Implements `core.target.port.Fence` for one generation of a window; every question reads the ledger anew."""

    def __init__(self, ctx: Context, generation: BuiltGeneration | PublishedGeneration) -> None:
        self._ctx, self.generation = ctx, generation

    @property
    def built(self) -> BuiltGeneration:
        """The generation, on its way to its readers."""
        assert isinstance(self.generation, BuiltGeneration)
        return self.generation

    def still_mine(self) -> bool:
        """Whether the ledger has it as it is here, and as the window's newest (R12)."""
        return self._ctx.ledger.windows.still(self.generation)

    def refuse_if_ahead(self) -> None:
        """Raises StorageAhead."""
        preflight.check_publications(self._ctx)

    def show(self, location: str) -> None:
        """BUILT -> SWAPPING; done if it is SWAPPING. Raises LostComparison."""
        if isinstance(self.generation, BuiltGeneration) and self.generation.state == BUILT:
            self.generation = self._ctx.ledger.windows.begin_swap(self.generation, location)

    def declare(self, location: str) -> str:
        """R8, with the generation read again. Raises LostComparison, CatalogueUnsure."""
        return self._ctx.ledger.windows.declare_intent(self.generation, location, self._ctx.request_ttl_ms)

    def answer(self, call_id: str) -> None:
        """End the intent of a change that has a definite answer."""
        self._ctx.ledger.windows.answer_intent(call_id)

    def occupant(self, location: str) -> PublishedGeneration | None:
        """The generation that the ledger knows at `location`: mostly the one in force."""
        ledger, key = self._ctx.ledger, self.generation.window
        # in a ledger that was restored numbers have holes: of what was given up storage keeps no record
        for known in reversed(ledger.rollbacks.generations(self._ctx.name, key)):
            if known.number >= self.generation.number or known.state not in (CURRENT, RETIRED):
                continue
            other = ledger.windows.generation(self._ctx.name, key, known.number)
            if isinstance(other, PublishedGeneration) and other.location == location:
                return other
        return None

    def block(self, reason: str) -> None:
        """The window waits for a person."""
        self._ctx.ledger.windows.block(self._ctx.name, self.generation.window, reason)

    def published(self, start_ms: int, end_ms: int) -> dict[int, int]:
        """Rows of windows that begin in `[start_ms, end_ms)` and have a generation in force, by their start."""
        return self._ctx.ledger.due.rows_within(self._ctx.name, Interval(start_ms, end_ms))

    def reason(self) -> str:
        """Why the window is complete, by its certificate; empty without one."""
        certificate = self._ctx.ledger.windows.certificate(self._ctx.name, self.generation.window)
        return "" if certificate is None else certificate.reason
