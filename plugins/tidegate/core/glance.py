"""What the ledger shows of many pipelines and of a stretch of windows in a few statements. Times are UTC ms."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.completeness import Answer
from tidegate.core.offsets import Interval
from tidegate.core.pipeline import Pipeline
from tidegate.core.views import Event, WindowView
from tidegate.core.window import WindowKey


@dataclass(frozen=True)
class Head:
    """A pipeline's newest batch (None: none was planned), how many windows are closing, and the alarms of others.

    `told` are notices that have not ended: (key, since when)."""

    name: str
    batch_id: int | None = None
    state: str | None = None
    epoch: int = 0
    kind: str = "ingest"
    records: int = 0
    planned_ms: int | None = None
    refused: str | None = None
    blocked: str | None = None
    closing: int = 0
    alarms: tuple[tuple[int, str], ...] = ()
    told: tuple[tuple[str, int], ...] = ()

    @property
    def open(self) -> bool:
        """Whether the newest batch has not landed: at most one has not, and none is planned before it has."""
        return self.state in ("PLANNED", "WRITING", "SEALED")

    @property
    def waits(self) -> bool:
        """Whether something of it waits for a human."""
        return bool(self.open and (self.refused or self.blocked)) or bool(self.alarms or self.told)


@dataclass(frozen=True)
class Mark:
    """One window of which the ledger knows something. `number`, `kind`, `rows` and `published_ms` are of the generation
    in force, `building` is the state of a newer one. `late` rows wait in the late table."""

    start_ms: int
    state: str
    blocked: str | None = None
    number: int | None = None
    kind: str | None = None
    rows: int | None = None
    published_ms: int | None = None
    building: str | None = None
    late: int = 0
    answer: Answer | None = None


@dataclass(frozen=True)
class Binding:
    """`run` is `<DAG id>/<run id>`."""

    run: str
    batch_id: int


class GlanceLedger(Protocol):
    """Each method is of one instant and changes nothing. Raises LedgerError."""

    def heads(self) -> dict[str, Head]:
        """Every pipeline that the ledger knows: three statements, whatever their number."""
        ...

    def published_counts(self, names: Collection[str]) -> dict[str, dict[str, int]]:
        """Generations by state, of these pipelines."""
        ...

    def spec_versions(self, names: Collection[str]) -> dict[str, int]:
        """The newest version of each pipeline's spec."""
        ...

    def specs(self, wanted: Collection[tuple[str, int]]) -> dict[tuple[str, int], Pipeline]:
        """Specs by (pipeline, version); at most a few thousand at once."""
        ...

    def marks(self, name: str, within: Interval) -> list[Mark]:
        """Windows that begin in `within`, in order: a number of statements that does not grow with them."""
        ...

    def window_view(self, name: str, key: WindowKey, events: int = 20) -> WindowView:
        """As `LedgerReads.window`, but batches without ranges and generations without files, in a few statements."""
        ...

    def file_counts(self, name: str, key: WindowKey) -> dict[int, tuple[int, int]]:
        """Of each generation: (files, bytes)."""
        ...

    def event_page(self, name: str, limit: int, before: int | None, subject: str | None) -> list[Event]:
        """The newest events whose id is below `before`, newest first."""
        ...

    def bindings(self, name: str, batch_id: int) -> list[Binding]:
        """The runs that are bound to a batch."""
        ...
