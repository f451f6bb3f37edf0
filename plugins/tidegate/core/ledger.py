"""The ledger's port: every method is one transaction, every change a compare-and-set whose row count is checked.

A comparison that finds another state raises LostComparison and changes nothing. A connection that breaks raises
LedgerError: whether the transaction committed is unknown, so the caller reads the row again before anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.core.base.offsets import Interval
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.batch.planning import PlanningView
from tidegate.core.batch.refusal import Refusal
from tidegate.core.batch.states import AbandonedBatch, Batch, LandedBatch, OpenBatch, Plan, SealedBatch, WritingBatch
from tidegate.core.batch.totals import TotalsLedger
from tidegate.core.clean.rules import BatchFacts, GenerationFacts, Moment
from tidegate.core.completeness.port import TruthLedger
from tidegate.core.copy.rounds import CopyLedger
from tidegate.core.deliver.states import DeliveryLedger
from tidegate.core.dirty.redrive import RedriveLedger
from tidegate.core.failover.states import FailoverLedger
from tidegate.core.files.landed import LandedFile, OwedSpan
from tidegate.core.files.receipt import FileEntry, Receipt
from tidegate.core.late.reopen import ReopenLedger
from tidegate.core.mirror.applies import ApplyLedger
from tidegate.core.publish.grounds import GroundsLedger
from tidegate.core.replay.port import ReplayLedger
from tidegate.core.replay.rollback import RollbackLedger
from tidegate.core.restore.record import RecoveryLedger
from tidegate.core.source.log_cut import CutLedger
from tidegate.core.spec.pipeline import Fields, Pipeline
from tidegate.core.spec.schema_changes import SchemaLedger
from tidegate.core.tell.announcement import AnnouncementLedger
from tidegate.core.tell.notices import NoticeLedger
from tidegate.core.tell.pauses import PauseLedger
from tidegate.core.window.answer import Answer
from tidegate.core.window.due import DueLedger
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import (
    BuildingGeneration,
    BuiltGeneration,
    Generation,
    GenerationKind,
    Moved,
    PublishedGeneration,
    Window,
    WindowKey,
)
from tidegate.core.window.watermark import TopicFacts
from tidegate.core.window.zonedata import ZoneData

if TYPE_CHECKING:
    from tidegate.core.look.port import LedgerRepairs
    from tidegate.core.look.survey import Block


@dataclass(frozen=True)
class PipelineRow:
    """`version` rises with every change that a plan depends on (R5)."""

    name: str
    version: int
    next_batch_id: int
    accepted_topic_id: str | None


class PipelineLedger(Protocol):
    def register(self, pipeline: Pipeline, fingerprint: str) -> int:
        """The version number of this spec; a new one is added, with an event, if it was never seen."""
        ...

    def spec(self, name: str, version: int) -> Pipeline: ...

    def pin(self, name: str, version: int, fields: Fields) -> Pipeline:
        """The spec of that version with the ids by which its files name columns (`Sink.fields`): these, unless another
        task has pinned others before."""
        ...

    def specs(self, name: str) -> list[Pipeline]:
        """All versions, oldest first."""

    def newest(self, name: str) -> int:
        """Return the number of the newest version; 0 without any."""

    def row(self, name: str) -> PipelineRow | None: ...

    def accept_topic(self, name: str, old: str | None, new: str, why: str) -> None:
        """An operator accepts a recreated topic: its offsets start anew."""
        ...

    def blocks(self, name: str) -> list[Block]: ...


class BatchLedger(Protocol):
    def planning_view(self, name: str) -> PlanningView: ...

    def insert_plan(self, plan: Plan, version: int, run: str | None) -> None:
        """The batch, its ranges and the run's binding in one transaction, if the pipeline is still at `version`."""
        ...

    def bind(self, name: str, run: str, batch_id: int) -> int:
        """Bind a run to a batch; the batch that the run is bound to afterwards (an earlier binding stays)."""
        ...

    def bound(self, name: str, run: str) -> int | None: ...

    def get(self, name: str, batch_id: int) -> Batch: ...

    def open(self, name: str) -> OpenBatch | None: ...

    def take(self, batch: OpenBatch, nonce: str) -> WritingBatch:
        """PLANNED or WRITING(e) -> WRITING(e + 1)."""
        ...

    def replan(self, batch: WritingBatch, plan: Plan) -> WritingBatch:
        """A refused batch takes a new spec: same ranges, next revision, epoch + 1 (no attempt of it exists yet)."""
        ...

    def refuse(self, batch: WritingBatch, refusal: Refusal) -> None:
        """Remember why this attempt may not land."""
        ...

    def refusal(self, name: str, batch_id: int) -> Refusal | None: ...

    def seal(self, batch: WritingBatch, manifest: Receipt) -> SealedBatch:
        """WRITING(epoch) -> SEALED with the manifest's files."""
        ...

    def adopt(self, batch: OpenBatch, manifest: Receipt) -> SealedBatch:
        """Storage knew more than the ledger (R11): PLANNED or WRITING -> SEALED with the landed receipt's epoch."""
        ...

    def land(self, batch: SealedBatch) -> LandedBatch:
        """SEALED -> LANDED with the window totals and the watermark facts, in one transaction."""
        ...

    def mark_side(self, name: str, batch_id: int, flag: str) -> None:
        """`flag`: moved | registered, of a LANDED batch; done if it is set."""
        ...

    def side_duties(self, name: str) -> list[tuple[int, bool]]:
        """LANDED batches whose late and dirty files are not all in their tables: (batch id, moved)."""
        ...

    def abandon(self, batch: OpenBatch, reason: str) -> AbandonedBatch: ...

    def manifest_files(self, name: str, batch_id: int, kind: str | None = None) -> list[FileEntry]: ...

    def values(self, name: str, first_ms: int, last_ms: int | None = None) -> dict[int, set[PartitionValues]]:
        """Dynamic values of the data that has landed, by window: those that start in `[first_ms, last_ms]`; without a
        `last_ms` all later ones that are not CLOSED."""
        ...

    def gaps(self, name: str, batch_id: int) -> dict[int, tuple[Interval, ...]]:
        """Gap intervals by Kafka partition."""
        ...

    def newest_spec(self, name: str) -> int | None:
        """Spec version of the newest batch; None before the first."""
        ...

    def newest_zone(self, name: str) -> ZoneData | None:
        """The zone data that the newest LANDED batch was planned by; None before the first, and if it pinned none."""
        ...

    def block(self, batch: OpenBatch, reason: str) -> None:
        """An alarm, if the batch is still in this state at this epoch."""
        ...


class WindowLedger(GroundsLedger, Protocol):
    def facts(self, name: str) -> TopicFacts: ...

    def get(self, name: str, key: WindowKey) -> Window:
        """A window without a row is OPEN."""
        ...

    def generation(self, name: str, key: WindowKey, number: int) -> Generation: ...

    def save_certificate(self, certificate: Certificate) -> None: ...

    def certificate(self, name: str, key: WindowKey) -> Certificate | None: ...

    def begin_close(
        self,
        name: str,
        key: WindowKey,
        certify: Callable[[TopicFacts], Certificate],
        weigh: Callable[[Certificate, Answer | None], Certificate] | None = None,
    ) -> Certificate:
        """OPEN -> CLOSING(next batch id) if `certify` says ready of the facts read in this transaction (R5).

        Where another system counts too, `weigh` has the last word: it gets a ready certificate and the stored answer,
        read in the same transaction."""
        ...

    def finish_close(self, name: str, key: WindowKey) -> list[int]:
        """CLOSING -> CLOSED once every batch below the closing id is LANDED or ABANDONED; fixes generation 1's batches.

        Returns the ids that are still in the way (then nothing was changed), [] when CLOSED."""
        ...

    def begin_generation(self, name: str, key: WindowKey, current: int, kind: GenerationKind, why: str = "") -> int:
        """The next generation beside `current`, BUILDING(0), its batch list fixed now; its number.

        It carries on the late rows that `current` has taken up. `kind` reopen: and takes up those of all other LANDED
        batches that the late table holds by the ledger; raises LostComparison if there are none."""
        ...

    def take(self, name: str, key: WindowKey, number: int, nonce: str, above: int = 0) -> BuildingGeneration:
        """BUILDING(e) -> BUILDING(e + 1), or the epoch after `above` if storage has seen higher ones (R11)."""
        ...

    def holds(self, generation: BuildingGeneration) -> bool:
        """Whether this epoch is still the generation's: asked before each move (R3)."""
        ...

    def built(
        self,
        generation: BuildingGeneration,
        directory: str,
        files: Iterable[FileEntry],
        spec: int | None = None,
        noted: Mapping[str, str] | None = None,
    ) -> BuiltGeneration:
        """BUILDING(epoch) -> BUILT. `spec`: the version by whose columns the rows are, where it is one. `noted`:
        what the event says beside."""
        ...

    def still(self, generation: BuiltGeneration | PublishedGeneration) -> bool:
        """Whether the ledger has it as it is in `generation`, and as the window's newest (R12). Asked before what
        cannot be taken back: a database that failed over may have forgotten it."""
        ...

    def take_back(self, generation: BuiltGeneration, nonce: str) -> BuildingGeneration:
        """BUILT -> BUILDING under another nonce: its task cannot swap it in any more (R13). Late rows that only it
        holds are due in the late table again, which changes nothing where they are in it."""
        ...

    def discard(self, generation: BuildingGeneration | BuiltGeneration, why: str) -> None:
        """BUILDING(epoch) or BUILT -> DISCARDED: refused, unchanged, given up; the current one is the newest again."""
        ...

    def begin_swap(self, generation: BuiltGeneration, location: str | None = None) -> BuiltGeneration:
        """BUILT -> SWAPPING, of the newest generation only. `location`: where it goes, whatever the spec says later."""
        ...

    def publish(
        self, generation: BuiltGeneration, location: str, certificate: str, moved: Moved | None = None
    ) -> PublishedGeneration:
        """SWAPPING -> CURRENT, and the one before -> RETIRED, in one transaction; `moved` is where an older one lies
        now that had `location`."""
        ...

    def published_starts(self, name: str) -> set[int]:
        """Starts (UTC ms) of the windows that have a CURRENT generation."""
        ...

    def announced(self, name: str, key: WindowKey, number: int) -> None:
        """The generation's `on_publish` statements ran and its event is on its way; done if it is set.

        Raises LostComparison if the ledger has forgotten its publication."""
        ...

    def landed_files(self, name: str, key: WindowKey, batches: Iterable[int]) -> list[LandedFile]: ...

    def owed(self, name: str, key: WindowKey, batches: Iterable[int], late: Iterable[int] = ()) -> list[OwedSpan]:
        """What these batches brought for the window: late rows of those in `late`, data of the others."""
        ...

    def declare_intent(self, generation: BuiltGeneration | PublishedGeneration, location: str, ttl_ms: int) -> str:
        """The call id of a catalogue change about to be made (R8).

        Raises LostComparison if the generation is no longer the window's newest in that state, and CatalogueUnsure
        while an intent of another generation or location is unanswered and not yet outlived."""
        ...

    def answer_intent(self, call_id: str) -> None:
        """That call had a definite answer."""
        ...

    def block(self, name: str, key: WindowKey, reason: str) -> None: ...


class CleaningLedger(Protocol):
    """What a cleaner asks before each deletion, and notes after it (R7)."""

    def batches(self, name: str, ids: Iterable[int]) -> dict[int, BatchFacts]:
        """Facts of the batches that the ledger knows."""
        ...

    def uncleaned_batches(self, name: str, after: int, landed_before_ms: int, limit: int) -> list[int]:
        """Ids above `after` of batches that landed until then and are not marked as cleaned, oldest first."""
        ...

    def generations(self, name: str, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], GenerationFacts]:
        """Facts of the generations that the ledger knows, by (window start UTC ms, number)."""
        ...

    def uncleaned_generations(self, name: str, after: tuple[int, int], limit: int) -> list[tuple[int, int]]:
        """RETIRED and DISCARDED ones after (window start, number) that are not marked as cleaned, oldest first."""
        ...

    def history(self, name: str, subject: str, whats: Iterable[str] = ()) -> list[Moment]:
        """Events of one subject, oldest first; `whats`: only of these kinds."""
        ...

    def batch_cleaned(self, name: str, batch_id: int) -> None:
        """The remains of a LANDED batch are gone; done if it is marked."""
        ...

    def generation_goes(self, name: str, window_ms: int, number: int) -> bool:
        """Mark that files of a RETIRED generation are about to be deleted: no rollback begins with them any more.

        Whether it is marked: False while a generation of the window is at work, which may have begun with them, and
        while one that was given up keeps something: its last request may still be executed."""
        ...

    def generation_cleaned(self, name: str, window_ms: int, number: int) -> None:
        """The files of a RETIRED or DISCARDED generation are gone; done if it is marked."""
        ...

    def cleaned(self, name: str, counts: dict[str, int], kept: dict[str, str]) -> None:
        """One event for a run: deletions by kind, and what was kept (path -> why) because it contradicts the ledger."""
        ...


class Ledger(Protocol):
    """`actor` says who makes the changes that follow, for the event log."""

    actor: str

    def now_ms(self) -> int:
        """The time by the database's clock, which is that of its rows, UTC ms."""
        ...

    @property
    def pipelines(self) -> PipelineLedger: ...

    @property
    def batches(self) -> BatchLedger: ...

    @property
    def windows(self) -> WindowLedger: ...

    @property
    def recovery(self) -> RecoveryLedger: ...

    @property
    def cuts(self) -> CutLedger: ...

    @property
    def cleaning(self) -> CleaningLedger: ...

    @property
    def redrives(self) -> RedriveLedger: ...

    @property
    def reopenings(self) -> ReopenLedger: ...

    @property
    def replays(self) -> ReplayLedger: ...
    @property
    def rollbacks(self) -> RollbackLedger: ...

    @property
    def truths(self) -> TruthLedger: ...

    @property
    def due(self) -> DueLedger: ...
    @property
    def totals(self) -> TotalsLedger: ...
    @property
    def pauses(self) -> PauseLedger: ...
    @property
    def notices(self) -> NoticeLedger: ...
    @property
    def announcements(self) -> AnnouncementLedger: ...
    @property
    def schema_changes(self) -> SchemaLedger: ...

    @property
    def applies(self) -> ApplyLedger: ...

    @property
    def copies(self) -> CopyLedger: ...

    @property
    def deliveries(self) -> DeliveryLedger: ...

    @property
    def failovers(self) -> FailoverLedger: ...

    @property
    def repairs(self) -> LedgerRepairs: ...

    def close(self) -> None: ...
