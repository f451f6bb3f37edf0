"""The ledger as it is looked at: read by pages, commands and the audit, changed by repairs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from tidegate.core.base.offsets import Interval
from tidegate.core.base.slabs import Slab
from tidegate.core.look.survey import SurveyLedger
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.states import WindowKey

if TYPE_CHECKING:
    from tidegate.core.look.sighting import OffsetFacts
from tidegate.core.look.views import BatchPage, Event, Overview, Spine, Weight, WindowPage, WindowView


class LedgerReads(SurveyLedger, Protocol):
    """Each method looks at one instant and changes nothing. Raises LedgerError."""

    def names(self) -> list[str]:
        """Pipelines that the ledger knows, sorted."""
        ...

    def spec_version(self, name: str, fingerprint: str) -> int | None:
        """The version under which this spec is registered."""
        ...

    def newest_specs(self, names: Collection[str]) -> dict[str, Pipeline]:
        """The specs that their newest batches were planned under, in one statement."""
        ...

    def overviews(self, names: Collection[str], events: int = 5) -> dict[str, Overview]:
        """An overview of each, by a number of statements that does not grow with them."""
        ...

    def window(self, name: str, key: WindowKey, events: int = 20) -> WindowView: ...

    def spine(self, name: str) -> Spine | None: ...

    def slabs(self, name: str) -> list[Slab]:
        """The LANDED batches, cut into runs of a bounded number of offsets."""
        ...

    def batch_pages(self, name: str, first: int, last: int, plans: bool = False) -> Iterator[BatchPage]:
        """Batches with ids `[first, last]`, in order; each page is of one instant and of bounded size."""
        ...

    def weight(self, name: str, within: Interval | None = None) -> Weight:
        """Files in force, those that wait for their window, late and dirty ones; `within`: of the windows that start
        there only."""
        ...

    def window_pages(self, name: str) -> Iterator[WindowPage]:
        """Every window that the ledger knows of, in order; each page is of one instant."""
        ...

    def offsets(self, name: str, wanted: Sequence[tuple[int, int]]) -> list[OffsetFacts] | None:
        """What is known of each (Kafka partition, offset); None for a pipeline that no run has registered."""
        ...

    def landed(self, name: str) -> list[tuple[int, int]]:
        """(batch id, when it landed) of the LANDED batches but redrives, in order."""
        ...

    def events(self, name: str, limit: int, subject: str | None = None) -> list[Event]:
        """The newest ones, newest first."""
        ...

    def newest_event(self, name: str) -> int:
        """A number that rises with every change of the pipeline; 0 before the first."""
        ...


class LedgerRepairs(Protocol):
    """An operator takes back what stands in the way, by the reason that was seen. Raises LostComparison if it has
    changed."""

    def clear_batch(self, name: str, batch_id: int, reason: str, why: str) -> None: ...

    def clear_window(self, name: str, key: WindowKey, reason: str, why: str) -> None: ...

    def release(self, name: str, batch_id: int, refused: str, why: str) -> None:
        """Lift the limits of dirty records for a batch that was refused for them, until it takes another spec."""
        ...

    def released(self, name: str, batch_id: int) -> str | None:
        """The name of who lifted the batch's limits, and why."""
        ...
