"""What is known of one offset before its fate is decided: from the ledger, the files and the broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.files.receipt import FileEntry
from tidegate.core.look.views import BatchRow, GenerationRow, LossRow, WindowRow
from tidegate.core.source.port import LogState
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.lateness import Floor
from tidegate.core.window.readiness import Certificate


@dataclass(frozen=True)
class WindowFacts:
    """`placed`: the generation that owns the window's rows, in force or the first on its way there; its files are only
    those whose spans hold the offset. `others`: all generations, without files."""

    window_ms: int
    row: WindowRow | None
    placed: GenerationRow | None
    others: tuple[GenerationRow, ...]

    @property
    def first(self) -> GenerationRow | None:
        return next((g for g in self.others if g.number == 1), None)


@dataclass(frozen=True)
class Earlier:
    """A batch in which the row was dirty before a redrive took it up; `files`: its dirty files that may hold it."""

    batch: BatchRow
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, kw_only=True)
class Life:
    """What the ledger knows of an offset under one topic id.

    `first_offset`: where the partition's reading began, `planned_end` (exclusive) how far it is planned; both None for
    a partition that no batch of this life has. `batch` is the one whose range holds the offset, `files` those of its
    files whose spans do, `windows` the windows of its data files. `ended_ms`: when the batch was abandoned. Where a
    redrive has taken the row up, `batch` is that one, and `earlier` are those before it, oldest first."""

    topic_id: str
    accepted: bool
    first_offset: int | None = None
    planned_end: int | None = None
    loss: LossRow | None = None
    loss_planned_ms: int | None = None
    batch: BatchRow | None = None
    floor: Floor | None = None
    abandoned: str = ""
    ended_ms: int | None = None
    files: tuple[FileEntry, ...] = ()
    windows: Mapping[int, WindowFacts] | None = None
    earlier: tuple[Earlier, ...] = ()


@dataclass(frozen=True)
class OffsetFacts:
    """`lives`: newest topic id first; empty before the first batch."""

    partition: int
    offset: int
    lives: tuple[Life, ...]


@dataclass(frozen=True)
class Candidate:
    """A file that may hold the row, with the places (URIs) where it can be, the likeliest first.

    `generation`: the one whose file it is; None for a batch's own."""

    entry: FileEntry
    uris: tuple[str, ...]
    generation: int | None = None


@dataclass(frozen=True)
class Sighting:
    """The row itself: which candidate held it, where that file was, and what the row says.

    `event_ms` and `kafka_ms` are None where no column tells it; `reason`, `field` and `raw` are of a dirty row."""

    candidate: Candidate
    uri: str
    event_ms: int | None = None
    reason: str = ""
    field: str = ""
    raw: str = ""
    kafka_ms: int | None = None


@dataclass(frozen=True)
class Search:
    """What looking into the candidates gave; `unread`: why not all of them could be looked into.

    `before`: of a redriven row, what it was when it was dirty."""

    candidates: tuple[Candidate, ...] = ()
    found: Sighting | None = None
    unread: str = ""
    before: Row | None = None


@dataclass(frozen=True)
class Surroundings:
    """`pinned` is the spec of the life's batch, `now` today's. `topic` is None when Kafka gave no answer: `silence`.

    `certificates`: readiness of the windows that wait, made now. `merged_upto`: of a mirror, the last batch in its
    table as the ledger has it; None if nothing was merged yet. `left`: the site that the life's topic is of, while
    another one is active; `crossed`: offsets of it below this one have been copied there."""

    now: Pipeline
    pinned: Pipeline
    topic: LogState | None
    silence: str
    certificates: Mapping[int, Certificate]
    merged_upto: int | None = None
    left: str = ""
    crossed: int = 0


@dataclass(frozen=True)
class Lookup:
    """A row to be found in one of the files; each has the places where it can be. `batch_id`: only rows that say so,
    or that say nothing. `event`: the column that holds the event time, and its format. `columns`: of each file that
    does not say them itself, else None; empty if they all do."""

    partition: int
    offset: int
    batch_id: int
    files: tuple[tuple[str, ...], ...]
    event: tuple[str, str] | None = None
    columns: tuple[tuple[tuple[str, str], ...] | None, ...] = ()


@dataclass(frozen=True)
class Row:
    """What was found: `file` is an index of the lookup's files, `uri` the place. See Sighting for the rest."""

    file: int
    uri: str
    event_ms: int | None = None
    reason: str = ""
    field: str = ""
    raw: str = ""
    kafka_ms: int | None = None


class RowReader(Protocol):
    """Looks for single rows. Raises TidegateError when it cannot work at all."""

    def find(self, lookup: Lookup) -> tuple[Row | None, str]:
        """The row, and why not every file could be looked into ("" if all were, or the row was found)."""
        ...
