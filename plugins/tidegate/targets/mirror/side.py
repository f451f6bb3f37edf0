"""Late and dirty rows of a pipeline into a keyed table are shown in no table: nothing is late, and a batch with dirty
rows lands only if a person lets it. Their files lie in storage as every pipeline's do; a redrive takes them up."""

from __future__ import annotations

from tidegate.core.spec.pipeline import Fields
from tidegate.core.target.port import Batches, Holds, Settled, Shown, Site, Unit


class NoSide:
    """Implements `core.target.port.SideTarget`: readers are shown nothing."""

    unit = Unit.BATCH
    remedy = "its files stand in no table"

    def __init__(self, site: Site, kind: str) -> None:
        self._site, self.kind = site, kind

    @property
    def name(self) -> str:
        """Name for people; no catalogue has such a table."""
        return f"{self._site.pipeline.sink.table}__{self.kind}"

    def prepare(self) -> None:
        """Nothing: there is no table."""

    def fields(self) -> Fields:
        """No fields."""
        return ()

    def publish(self, batches: Batches, holds: Holds) -> None:
        """Nothing: the files stay in storage."""

    def retire(self, batches: Batches, holds: Holds) -> None:
        """Nothing: they were not shown."""

    def agrees(self, expected: str, shown: str) -> bool:
        """Always: nothing is expected, and nothing shown."""
        return True

    def sweep(self, settled: Settled) -> list[str]:
        """Nothing."""
        return []

    def leftovers(self, now_ms: int) -> list[str]:
        """Nothing."""
        return []

    def expected(self, batches: Batches) -> Shown:
        """Nothing, whatever has landed."""
        return {}

    def shown(self) -> Shown:
        """Nothing."""
        return {}
