"""What the workflow needs from the outside. Adapters implement these; `tests/contract` holds every adapter to them.

Each changing call ends in one of three ways: it returns (done), raises a definite error (refused, nothing changed), or
raises `OutcomeUnknown` / `CatalogueUnsure` / `LedgerError` (unknown: the caller looks before it does anything else).
The ledger's port is in `core.ledger`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

# ---------------------------------------------------------------- Kafka


@dataclass(frozen=True)
class PartitionOffsets:
    """Offsets exclusive: the next record's. The last stable offset is what a read_committed reader can reach.

    `leader_epoch`: of the leader that told the ends; every record below them is of it or an earlier one."""

    log_start: int
    last_stable_offset: int
    high_watermark: int
    leader_epoch: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TopicState:
    """`retention_ms` and `retention_bytes` (of one partition) are None where nothing is deleted for that reason.

    `deletes`: whether retention deletes at all (a topic may only be compacted); None: we may not read the topic's
    settings, and the other fields say nothing. `segment_bytes`: Kafka deletes whole segments."""

    topic: str
    topic_id: str
    partitions: dict[int, PartitionOffsets]
    retention_ms: int | None = None
    retention_bytes: int | None = None
    deletes: bool | None = True
    segment_bytes: int | None = None


class Source(Protocol):
    def describe(self, topic: str) -> TopicState:
        """Raises SourceUnavailable (retry), SourceError if the topic does not exist."""
        ...

    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """First offset at or after the Kafka timestamp, for each partition; the high watermark where there is none."""
        ...

    def cuts(self, topic: str, ends: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Of partitions with (end, leader epoch): where the records of later leaders begin, if that is below the end.

        Partitions whose log was not cut there, or of which the broker cannot tell, are left out."""
        ...

    def commit_group(self, group: str, topic: str, offsets: dict[int, int], mark: str = "") -> None:
        """Tell Kafka's own tools how far we are. Informational: the ledger alone decides. `mark` says whose it is."""
        ...

    def committed_group(self, group: str, topic: str, mark: str = "") -> dict[int, int]:
        """Offsets (exclusive) that were last committed with this `mark`, by partition; others are left out."""
        ...

    def client_settings(self) -> dict[str, str]:
        """librdkafka settings for workers, without secrets."""
        ...


# ---------------------------------------------------------------- storage


# ---------------------------------------------------------------- Hive


# ---------------------------------------------------------------- Spark
