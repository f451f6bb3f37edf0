"""What a Spark job is told to do, beside the plan of its batch: one type for each kind of job."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from tidegate.core.base.fields import read_as
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import LEFT_OUT, UnknownFields, dumps, from_plain, to_plain
from tidegate.core.batch.readings import Reading
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.batch.states import Plan
from tidegate.core.copy.jobs import ChunkPlan, CopiedTable
from tidegate.core.copy.port import ReadAfter
from tidegate.core.files.merge import Merge, Source
from tidegate.core.files.overflow import Known
from tidegate.core.mirror.jobs import START, Bucket, EventFile, Position, TableColumn
from tidegate.core.mirror.parts import KeyPart, SweptPart
from tidegate.core.mirror.servers import Servers
from tidegate.core.source.behind import Behind
from tidegate.core.spec.pipeline import KAFKA
from tidegate.core.window.lateness import Floor
from tidegate.core.window.zonedata import ZoneData


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """`plans/*.json`: all that a Spark job is told. `attempt_dir` and `location` are URIs.

    `attempt` and `attempt_dir` of a job for several windows are those of the first; the words of a job that fails as a
    whole go there. `pipeline` is the compiled spec (columns of today)."""

    mode: ClassVar[str]

    attempt: str
    attempt_dir: str
    pipeline: dict[str, Any]  # core.pipeline.Pipeline, plain
    topic: str
    nonce: str
    epoch: int = 0
    spec_version: int = 0
    rules_version: int = RULES_VERSION
    known: Known = field(default_factory=Known)  # dynamic values that windows have already


@dataclass(frozen=True, kw_only=True)
class ReadPlan(JobPlan):
    """Records are read, each once, and become rows. `bootstrap`: librdkafka settings without secrets."""

    bootstrap: dict[str, str]
    topic_id: str
    parts: tuple[JobPart, ...]
    batch_id: int = 0

    @property
    def window_ms(self) -> int | None:
        return None

    @property
    def targets(self) -> tuple[Target, ...]:
        return ()

    @property
    def copies(self) -> tuple[Copy, ...]:
        return ()


@dataclass(frozen=True, kw_only=True)
class IngestPlan(ReadPlan):
    """The ranges of one part, each record routed by its floor."""

    mode = "ingest"


@dataclass(frozen=True, kw_only=True)
class RedrivePlan(IngestPlan):
    """The same, but the records are those of the dirty files that the part names."""

    mode = "redrive"


@dataclass(frozen=True, kw_only=True)
class ReplayPlan(ReadPlan):
    """The rows of `targets` are rebuilt; `parts` say which ranges, each with the pinned rules of its batch.

    Late, dirty and other windows' rows are counted, not written. Each range is read once, whatever the number of
    windows. `copies`: rows that come from files in force."""

    mode = "replay"

    window_ms: int | None = None
    targets: tuple[Target, ...] = ()  # none: the window of `window_ms`
    copies: tuple[Copy, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RewritePlan(JobPlan):
    """Rows of finished files become rows of a window's new ones; nothing is read from Kafka."""

    window_ms: int
    merges: tuple[Merge, ...]

    @property
    def late(self) -> tuple[Merge, ...]:
        return ()


@dataclass(frozen=True, kw_only=True)
class MergePlan(RewritePlan):
    """Each of `merges` becomes one file."""

    mode = "merge"


@dataclass(frozen=True, kw_only=True)
class ReopenPlan(RewritePlan):
    """The files of `merges`, those of the generation in force, are copied, one or several into one; the rows of `late`
    are split by their partition values: late files by the columns that they were written with."""

    mode = "reopen"

    late: tuple[Merge, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ApplyPlan(JobPlan):
    """Batches `first` to `last` (inclusive) are merged into the files of one snapshot, bucket by bucket (M2).

    `key`: logical columns, in the order of the hash. `columns`: the table's, in order; `fields`: (path, id) of all of
    its fields. A bucket that no event changes gets no new file. `take_conflicts`: a person lets the order decide
    between two contents at one position (M2), which is refused otherwise (M7), and takes positions that go back (M8).
    `newest_ms`: the newest time at the source (UTC) of all events that are merged; 0: none is known. `whole`: every
    bucket of the base is written anew, so that the new files are the whole table; rows and tombstones in files of their
    own; files know no field ids, and an event file may hold events of several batches (`batch_id` 0). `settled`: landed
    events; it is a purge of tombstones below their greatest commit (M6), without `events`; those of servers
    that are `held` stay (S7). `cut_before`: how many buckets the base has, where all of its rows are cut into another
    number of them; 0: nothing is cut.
    `swept_below`: what is older says nothing of the source any more (S5). `sweep`: it ends a round of a copy: rows and
    tombstones below `swept_below` go, without `events`; of a `whole` table once its `events` are in. `swept_parts`: the
    same of parts of the keys. `part`: the keys that a sweep, or a comparison with the source, is about; None: all.
    `purge_to`: of a `whole` table, tombstones below it go once its `events` are in; START: none do. `servers`: of a
    table whose source's tables lie on several (S11); None: on one."""

    mode = "apply"

    first: int
    last: int
    key: tuple[str, ...]
    buckets: int
    purged_below: Position = START
    events: tuple[EventFile, ...]
    base: tuple[Bucket, ...]
    columns: tuple[TableColumn, ...]
    fields: tuple[tuple[str, int], ...] = ()
    target_file_size: int = 256 * 1024 * 1024
    take_conflicts: bool = field(default=False, metadata=LEFT_OUT)
    newest_ms: int = field(default=0, metadata=LEFT_OUT)
    whole: bool = field(default=False, metadata=LEFT_OUT)
    settled: tuple[EventFile, ...] = field(default=(), metadata=LEFT_OUT)
    held: tuple[str, ...] = field(default=(), metadata=LEFT_OUT)
    cut_before: int = field(default=0, metadata=LEFT_OUT)
    swept_below: Position = field(default=START, metadata=LEFT_OUT)
    sweep: bool = field(default=False, metadata=LEFT_OUT)
    swept_parts: tuple[SweptPart, ...] = field(default=(), metadata=LEFT_OUT)
    part: KeyPart | None = field(default=None, metadata=LEFT_OUT)
    purge_to: Position = field(default=START, metadata=LEFT_OUT)
    servers: Servers | None = field(default=None, metadata=LEFT_OUT)

    @property
    def drops(self) -> bool:
        """Whether it only takes rows or tombstones away."""
        return not self.whole and (self.sweep or bool(self.settled))

    @property
    def visits_all(self) -> bool:
        """Whether buckets without events are looked at too."""
        return self.whole or self.drops or bool(self.cut_before)


@dataclass(frozen=True, kw_only=True)
class CopyPlan(JobPlan):
    """Chunks of a source table become files of rows, each chunk with a receipt of its own; `attempt` and `attempt_dir`
    are those of the first one.

    `after`: what a read must have seen (S2). `rate`: most rows a
    second, of all tasks together; None: no limit. `tasks`: how many chunks are read at once. `server`: the one that is
    read, where there are several (S11)."""

    mode = "copy"

    tables: tuple[CopiedTable, ...]
    chunks: tuple[ChunkPlan, ...]
    after: ReadAfter
    rate: int | None = None
    tasks: int = 1
    server: str = field(default="", metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class JobPart:
    """Ranges that share one batch's pinned rules. `pinned` is that batch's compiled spec if it is not the plan's.

    With `sources` the records are read from these dirty files and not from Kafka, in a replay too. `reading`: how the
    range is read where the source has the trait `windowed`. `behind`: copies that are no records of the range."""

    batch_id: int
    clock_ms: int
    floor: Floor
    ranges: tuple[OffsetRange, ...]
    rules_version: int = RULES_VERSION
    pinned: dict[str, Any] | None = None
    sources: tuple[Source, ...] = ()
    zone: ZoneData | None = field(default=None, metadata=LEFT_OUT)
    reading: Reading | None = field(default=None, metadata=LEFT_OUT)
    behind: Behind | None = field(default=None, metadata=LEFT_OUT)


def part_of(plan: Plan, **more: Any) -> JobPart:
    """What a batch's plan pins of a job; `more`: what else the job is told."""
    return read_as(JobPart, plan, **{"pinned": None, "sources": (), "reading": None, "behind": None, **more})


@dataclass(frozen=True, kw_only=True)
class Target:
    """One window of a replay: its rows and a receipt of its own go to `attempt_dir` (a URI), as if it were alone.

    `parts`: indices of the plan's parts that owe it rows. `taken`: batches whose late rows it has taken up."""

    window_ms: int
    attempt: str
    attempt_dir: str
    nonce: str = ""
    epoch: int = 0
    parts: tuple[int, ...] = ()
    taken: tuple[int, ...] = ()


@dataclass(frozen=True)
class Copy:
    """Rows of a file in force that become rows of the window's rebuild as they are, in the columns of the plan.

    `wanted`: (batch, Kafka partition) of the rows; None: all of them. `columns`: (name, Hive type) of what the file
    holds, where it does not say it itself."""

    window_ms: int
    source: Source
    wanted: tuple[tuple[int, int], ...] | None
    columns: tuple[tuple[str, str], ...] | None = None


def wants_headers(plan: ReadPlan) -> bool:
    """Whether any of the plan's specs takes records as they are, or copies are looked for: headers cost a little."""
    specs = [plan.pipeline, *(part.pinned for part in plan.parts)]
    raw = any(spec is not None and spec["format"]["type"] == "raw" for spec in specs)
    return raw or any(part.behind is not None for part in plan.parts)


def isolation_of(plan: ReadPlan, wanted: OffsetRange) -> str:
    """R1: a replay sees what the range's batch could see when it was planned, whatever the spec says today."""
    for part in plan.parts:
        for r in part.ranges if part.pinned is not None and not part.sources else ():
            if r.partition == wanted.partition and r.start <= wanted.start and wanted.end <= r.end:
                return str(part.pinned["source"]["isolation"])  # type: ignore[index]
    return str(plan.pipeline["source"]["isolation"])


def kind_of(plan: ReadPlan) -> str:
    """The kind of source that the plan's records come from; plans of earlier releases do not name it."""
    return str(plan.pipeline["source"].get("kind", KAFKA))


# ---------------------------------------------------------------- the plain form, which 0.1.0 reads and writes too

_KINDS: dict[str, type[JobPlan]] = {
    kind.mode: kind for kind in (IngestPlan, RedrivePlan, ReplayPlan, MergePlan, ReopenPlan, ApplyPlan, CopyPlan)
}
_SILENT: dict[str, Any] = {
    "bootstrap": {}, "topic_id": "", "parts": [], "batch_id": 0, "window_ms": None, "targets": [], "copies": [],
    "merges": [], "late": [],
}  # fmt: skip
"""Each plan names the fields of every kind: what it says of those that are not its own."""


def dumps_plan(plan: JobPlan) -> str:
    """`mode` is the tag."""
    return dumps({**_SILENT, **to_plain(plan), "mode": plan.mode})


def loads_plan(text: str | bytes) -> JobPlan:
    """The plan as a job of its kind. Raises ValueError for whatever this release would not carry out as it was meant:
    a kind or a field that it does not know, a field that says something and is not of the plan's kind."""
    try:
        plain = json.loads(text)
        mode = plain.pop("mode")
        kind = _KINDS.get(mode)
        if kind is None:
            known = ", ".join(_KINDS)
            raise UnknownFields(
                f"a plan of mode {mode!r}, this release knows {known}: a newer release wrote it, install that here"
            )
        mine = {f.name for f in fields(kind)}
        return from_plain(kind, {k: v for k, v in plain.items() if k in mine or v != _SILENT.get(k, plain)})
    except (KeyError, TypeError, AttributeError, RecursionError) as e:
        raise ValueError(f"not a plan of a job: {e}") from None
