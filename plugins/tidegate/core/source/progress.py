"""How far reading is and how fast it goes: a few batches of the ledger, as the forecast of losses needs them.

Times are UTC ms, offsets exclusive at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


def begins(ends: Mapping[int, int], partition: int, log_start: int) -> int:
    """Offset at which the next batch begins, by the planned ends of the newest one: a partition that came later is read
    from its beginning, and before the first batch nothing is due that the log no longer has."""
    return ends.get(partition, 0 if ends else log_start)


@dataclass(frozen=True, kw_only=True)
class Look:
    """One Kafka partition as one batch met it: the planned range `[start, end)` (empty if nothing was new), the log's
    bounds at plan time, and, once it is sealed, what was read."""

    start: int
    end: int
    log_start: int
    high_watermark: int
    read: int = 0
    bytes: int = 0
    max_kafka_ms: int | None = None
    open_transaction_since_ms: int | None = None
    last_stable_offset: int | None = None

    @property
    def to_the_end(self) -> bool:
        return self.end >= self.high_watermark

    @property
    def to_a_transaction(self) -> bool:
        """Whether only an open transaction, and what came behind it, was left."""
        stable = self.last_stable_offset
        return self.open_transaction_since_ms is not None and stable is not None and self.end >= stable


@dataclass(frozen=True)
class BatchLook:
    """`is_read`: SEALED or LANDED; `clock_ms` is when its offsets were asked for; `landed_ms` is None before LANDED."""

    batch_id: int
    is_read: bool
    clock_ms: int
    landed_ms: int | None
    partitions: dict[int, Look] = field(default_factory=dict)
    is_abandoned: bool = False

    def position_ms(self, partition: int) -> int | None:
        """U: up to which Kafka timestamp the partition has been read; None if that cannot be told."""
        look = self.partitions.get(partition)
        if look is None:
            return None
        if look.end > look.start:
            return None if look.max_kafka_ms is None else min(look.max_kafka_ms, self.clock_ms)
        if look.to_the_end:
            return self.clock_ms
        return look.open_transaction_since_ms


@dataclass(frozen=True)
class Progress:
    """What the ledger knows of how far a pipeline is and how fast, all on the accepted topic and without redrives.

    `newest` in whatever state; `landed`: the newest LANDED one; `base`: the batch that the pace is measured from.
    `resumed`: where it was decided that the next batch goes on, in partitions whose log was cut."""

    topic_id: str | None
    newest: BatchLook | None = None
    landed: BatchLook | None = None
    base: BatchLook | None = None
    resumed: Mapping[int, int] = field(default_factory=dict)

    @property
    def ends(self) -> dict[int, int]:
        """Offsets at which the next batch begins, by the planned ends of the newest one and what was decided since."""
        newest = self.newest.partitions if self.newest is not None else {}
        return {p: look.end for p, look in newest.items()} | dict(self.resumed)

    def begins(self, partition: int, log_start: int) -> int:
        return begins(self.ends, partition, log_start)

    @property
    def read(self) -> BatchLook | None:
        """The batch that says what has been read."""
        return self.newest if self.newest is not None and self.newest.is_read else self.landed

    def next_offset(self, partition: int, log_start: int) -> int:
        """N. Before the first batch nothing is due; what was given up is not waited for."""
        if partition in self.resumed:
            return self.resumed[partition]
        if self.newest is None:
            return log_start
        look = self.newest.partitions.get(partition)
        if look is None:
            return 0
        return look.end if self.newest.is_read or self.newest.is_abandoned else look.start
