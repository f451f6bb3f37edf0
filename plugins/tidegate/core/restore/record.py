"""What storage keeps of the ledger, so that a ledger that lost commits, or all of itself, can be rebuilt (R11).

A record is written beside the files before the ledger says LANDED or CURRENT, and is never cleaned. It holds all that
the ledger's rows are made of: for a batch its pinned plan, its spec and its manifest, for a generation its manifest.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, TypeVar

from tidegate.core.base.plain import LEFT_OUT, dumps, loads, to_plain
from tidegate.core.batch.states import AbandonedBatch, OpenBatch, Plan, SealedBatch
from tidegate.core.files.receipt import FileEntry, Receipt
from tidegate.core.replay.rollback import Origin
from tidegate.core.source.log_cut import Resumption
from tidegate.core.spec.pipeline import Pipeline, Sink
from tidegate.core.window.readiness import Certificate
from tidegate.core.window.states import GenerationKind, GenerationState, Moved, WindowKey

T = TypeVar("T")


@dataclass(frozen=True)
class BatchRecord:
    """`hwm/<batch>`. `spec` is the one that the plan pins, `fingerprint` its identity: version numbers are a ledger's
    own. `manifest` is None for an abandoned batch, which has a reason instead. `resumed`: where it went on after a log
    was cut."""

    plan: Plan
    spec: Pipeline
    fingerprint: str
    manifest: Receipt | None = None
    abandoned: str | None = None
    resumed: tuple[Resumption, ...] = field(default=(), metadata=LEFT_OUT)


@dataclass(frozen=True)
class Decoder:
    """A spec with its identity: version numbers are a ledger's own."""

    fingerprint: str
    spec: Pipeline


@dataclass(frozen=True, kw_only=True)
class GenerationRecord:
    """`hwm/published/...`: a generation as it was built, about to be renamed from `directory` to `location` (URIs).

    Paths of `files` are relative to either; `recorded_ms` is when it was recorded, UTC ms; `late`: those of `batches`
    whose rows came late and were taken up by a reopening; `origin` of a rollback. `decoders`: the specs that may have
    decoded its rows, where these are not its batches' own."""

    pipeline: str
    window: WindowKey
    number: int
    epoch: int
    kind: GenerationKind
    batches: tuple[int, ...]
    directory: str
    location: str
    files: tuple[FileEntry, ...]
    digest: str
    certificate: Certificate | None = None
    recorded_ms: int = 0
    late: tuple[int, ...] = ()
    origin: Origin | None = field(default=None, metadata=LEFT_OUT)
    decoders: tuple[Decoder, ...] = field(default=(), metadata=LEFT_OUT)


def pack(record: BatchRecord | GenerationRecord) -> bytes:
    """Compressed JSON; equal records give equal bytes.

    Fields that the release before does not know are left out where they say no more than what was before: so that
    release can adopt what has landed since, if an operator goes back to it."""
    content = to_plain(record)
    if isinstance(record, BatchRecord):
        # not by LEFT_OUT: the ledger's texts of specs have both
        _leave_out(record.spec, content["spec"], "notify")
        _leave_out(record.spec.sink, content["spec"]["sink"], "metastore_conn_id")
        for name in ("slow", "slow_seconds"):  # no one needs them to know what has landed
            (content["manifest"] or {}).pop(name, None)
        for partition in content["plan"]["partitions"]:
            del partition["leader_epoch"]  # what it tells is of use to the next plan alone
    return gzip.compress(dumps(content).encode(), mtime=0)


def _leave_out(value: Pipeline | Sink, content: dict[str, Any], name: str) -> None:
    if getattr(value, name) == next(f.default for f in fields(value) if f.name == name):
        del content[name]


def unpack(kind: type[T], content: bytes) -> T:
    """Raises ValueError for anything that `pack` did not write whole."""
    try:
        return loads(kind, gzip.decompress(content))
    except (OSError, EOFError, zlib.error, KeyError, TypeError, AttributeError) as e:
        raise ValueError(f"not a {kind.__name__}: {e}") from None


class RecoveryLedger(Protocol):
    """What is compared with storage's records, and how lost rows come back from them (R11)."""

    def identity(self, name: str) -> str:
        """Tells this ledger's pipeline from one of the same name in another ledger."""
        ...

    def record(self, batch: SealedBatch | AbandonedBatch) -> BatchRecord:
        """All that the ledger knows of the batch, to be written to storage."""
        ...

    def decoders(self, name: str, key: WindowKey, number: int) -> tuple[Decoder, ...]:
        """Specs that decoded a generation's rows: of a replay or heal the one that it was built by, where that is
        known. None of what was assembled from batches, which pin theirs; all that the ledger has of what holds rows of
        other generations."""
        ...

    def newest_publication_ms(self, name: str) -> int | None:
        """When the newest generation was published, UTC ms."""
        ...

    def begun_ms(self, name: str, key: WindowKey, number: int) -> int | None:
        """When the newest generation of a window was begun, UTC ms; None if the ledger does not know. It has no record
        that is older."""
        ...

    def unknown_generations(self, name: str, found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Pairs (window start UTC ms, generation number) that the ledger has no row of."""
        ...

    def unfinished_generations(self, name: str, found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Pairs (window start UTC ms, generation number) that are BUILDING, BUILT or SWAPPING in the ledger, or a
        reopening that is DISCARDED."""
        ...

    def contributors(self, name: str, key: WindowKey) -> list[int]:
        """Batches that brought the window rows in time."""
        ...

    def set_aside(self, record: GenerationRecord, why: str) -> None:
        """Note that the record is not adopted. Its late rows that the generation in force does not hold are due in the
        late table again: a swap that was forgotten may have taken them out."""
        ...

    def withdraw(self, batch: OpenBatch | AbandonedBatch, why: str, same_starts: bool = False) -> None:
        """PLANNED, WRITING, SEALED or ABANDONED, the newest id -> no such batch: storage holds another batch of this
        id, or says that the one which was given up has landed.

        `same_starts`: or it is to be read again, from the offsets where it began, also if it was the first one."""
        ...

    def restore(
        self, record: GenerationRecord, state: GenerationState, why: str, gone: bool = False, moved: Moved | None = None
    ) -> list[int]:
        """A lost generation as it was recorded, in `state` BUILT | CURRENT | RETIRED | DISCARDED; its window is CLOSED.

        `gone`: its files have been cleaned away already; `moved`: an older one that made way for it.
        An unfinished generation of the same number is overwritten: its files are where the record says; unfinished
        earlier ones are DISCARDED, no task would finish them. If batches are open while the window is not CLOSED it is
        only CLOSING afterwards, and nothing else has changed (R14): the answer names the batches, which must land
        first. Raises LostComparison if the ledger has another finished generation, or other batches for the window."""
        ...
