"""The YAML section `source` of kind `kafka`."""

from __future__ import annotations

from typing import Annotated, Literal

from tidegate.spec.section import key
from tidegate.spec.source import SiteSection, SourceSection
from tidegate.spec.values import ConnectionId, Duration, OneOf, Start, Topic

Isolation = Annotated[Literal["read_committed", "read_uncommitted"], OneOf()]
Gaps = Annotated[Literal["forbid", "allow"], OneOf()]


class KafkaSection(SourceSection):
    """Where records come from."""

    conn_id: ConnectionId = key("Airflow connection of the Kafka cluster.", "kafka_default")
    topic: Topic = key("The Kafka topic. One pipeline reads one topic.")
    start: Start = key(
        "Where the very first batch begins: the log's start, its end, or the first record at or after a time (Kafka's "
        "timestamp). Without an offset the time is meant in `windows.timezone`. Later batches go on where the last one "
        "ended.",
        "earliest",
    )
    loss_warning: Duration | None = key(
        "Warn when Kafka's retention would pass unread records within this time at the present pace; a quarter of it "
        "is critical. null: no warning. docs/event-time.md says how the time is found.",
        "1d",
    )
    isolation: Isolation = key("Whether records of open and aborted transactions are left out.", "read_committed")
    gaps: Gaps = key(
        "What to do about offsets at which Kafka delivers no record. Transactional and compacted topics have such gaps "
        "and need `allow`; they are then recorded as intervals.",
        "forbid",
    )
    sites: tuple[SiteSection, ...] = key(
        "Where the topic is, and copies of it: the first one is that of `conn_id`, where reading began. Which one is "
        "active is in the ledger; `tidegate failover` changes it. Each copy of a record must say where it comes from.",
        (),
    )
