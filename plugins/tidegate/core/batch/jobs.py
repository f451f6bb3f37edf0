"""What a Spark job is told to do, beside the plan of its batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tidegate.core.base.offsets import OffsetRange
from tidegate.core.base.plain import LEFT_OUT
from tidegate.core.batch.rules_version import RULES_VERSION
from tidegate.core.files.merge import Merge, Source
from tidegate.core.files.overflow import Known
from tidegate.core.spec.pipeline import KAFKA
from tidegate.core.window.lateness import Floor
from tidegate.core.window.zonedata import ZoneData


@dataclass(frozen=True)
class JobPlan:
    """`plans/*.json`: all that a Spark job is told. `attempt_dir` and `location` are URIs.

    `mode` ingest: `ranges` are read once, each record routed by `floor`.
    `mode` replay: the rows of `targets` are rebuilt; `parts` say which ranges, each with the pinned rules of its batch;
    late, dirty and other windows' rows are counted, not written. Each range is read once, whatever the number of
    windows. `attempt` and `attempt_dir` are those of the first; the words of a job that fails as a whole go there.
    `mode` merge: `merges` are carried out; nothing is read from Kafka.
    `mode` reopen: the files of `merges` are copied, one or several into one, and the rows of `late` are split by their
    partition values; nothing is read from Kafka.
    `mode` redrive: as ingest, but the records are those of the dirty files that the part names.
    `pipeline` is the compiled spec (columns of today).
    """

    mode: str
    attempt: str
    attempt_dir: str
    pipeline: dict[str, Any]  # core.pipeline.Pipeline, plain
    bootstrap: dict[str, str]  # librdkafka settings without secrets
    topic: str
    topic_id: str
    parts: tuple[JobPart, ...]
    nonce: str
    batch_id: int = 0
    epoch: int = 0
    spec_version: int = 0
    rules_version: int = RULES_VERSION
    window_ms: int | None = None
    merges: tuple[Merge, ...] = ()
    known: Known = field(default_factory=Known)  # dynamic values that windows have already
    late: tuple[Merge, ...] = ()  # late files by the columns that they were written with
    targets: tuple[Target, ...] = ()  # of a replay: the windows; none: the one of `window_ms`
    copies: tuple[Copy, ...] = ()  # of a replay: rows that come from files in force


@dataclass(frozen=True)
class JobPart:
    """Ranges that share one batch's pinned rules. `pinned` is that batch's compiled spec if it is not the plan's.

    With `sources` the records are read from these dirty files and not from Kafka, in a replay too."""

    batch_id: int
    clock_ms: int
    floor: Floor
    ranges: tuple[OffsetRange, ...]
    rules_version: int = RULES_VERSION
    pinned: dict[str, Any] | None = None
    sources: tuple[Source, ...] = ()
    zone: ZoneData | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True)
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


def wants_headers(plan: JobPlan) -> bool:
    """Whether any of the plan's specs takes records as they are; asking for headers costs a little."""
    specs = [plan.pipeline, *(part.pinned for part in plan.parts)]
    return any(spec is not None and spec["format"]["type"] == "raw" for spec in specs)


def isolation_of(plan: JobPlan, wanted: OffsetRange) -> str:
    """R1: a replay sees what the range's batch could see when it was planned, whatever the spec says today."""
    for part in plan.parts:
        for r in part.ranges if part.pinned is not None and not part.sources else ():
            if r.partition == wanted.partition and r.start <= wanted.start and wanted.end <= r.end:
                return str(part.pinned["source"]["isolation"])  # type: ignore[index]
    return str(plan.pipeline["source"]["isolation"])


def kind_of(plan: JobPlan) -> str:
    """The kind of source that the plan's records come from; plans of earlier releases do not name it."""
    return str(plan.pipeline["source"].get("kind", KAFKA))
