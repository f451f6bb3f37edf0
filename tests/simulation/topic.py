"""The topic as it is: what each Kafka partition holds, what of it can be read, and what retention has taken."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

GOOD, BAD, FILTERED = "good", "bad", "filtered"
"""What a record is before anybody asks for its time: BAD cannot be decoded, FILTERED is turned away by `where`."""


@dataclass(frozen=True, slots=True)
class Record:
    """`event`: UTC ms, None if the record has no time; `at`: when it was appended."""

    event: int | None
    kind: str
    at: int


@dataclass
class Transaction:
    """Open from its first offset on until `ends` (UTC ms), when it is committed or aborted."""

    partition: int
    first: int
    ends: int
    commits: bool
    offsets: list[int] = field(default_factory=list)


@dataclass
class Log:
    """`records[offset]` is None where no record is delivered: a marker, an aborted or compacted record."""

    records: list[Record | None] = field(default_factory=list)
    times: list[int] = field(default_factory=list)  # of the append, by offset
    begins: int = 0

    @property
    def ends(self) -> int:
        return len(self.records)


class Topic:
    def __init__(self, partitions: int) -> None:
        self.logs = {p: Log() for p in range(partitions)}
        self.open: list[Transaction] = []

    def add_partition(self) -> int:
        new = len(self.logs)
        self.logs[new] = Log()
        return new

    def append(self, partition: int, record: Record | None, at: int, within: Transaction | None = None) -> None:
        log = self.logs[partition]
        if within is not None:
            within.offsets.append(len(log.records))
        log.records.append(record)
        log.times.append(max(at, log.times[-1]) if log.times else at)

    def begin(self, partition: int, ends: int, commits: bool) -> Transaction:
        transaction = Transaction(partition, self.logs[partition].ends, ends, commits)
        self.open.append(transaction)
        return transaction

    def end_transactions(self, now: int) -> None:
        """Those that are due: an aborted one's records are never delivered; a marker follows either way."""
        for t in [t for t in self.open if t.ends <= now]:
            if not t.commits:
                for offset in t.offsets:
                    self.logs[t.partition].records[offset] = None
            self.append(t.partition, None, now)
            self.open.remove(t)

    def readable(self, partition: int) -> int:
        """The last stable offset: where the oldest open transaction begins, else the end of the log."""
        return min((t.first for t in self.open if t.partition == partition), default=self.logs[partition].ends)

    def holds_back(self, partition: int) -> bool:
        return any(t.partition == partition for t in self.open)

    def retain(self, since: int) -> None:
        """Drop what was appended before `since`, up to the oldest open transaction."""
        for p, log in self.logs.items():
            log.begins = max(log.begins, min(bisect_left(log.times, since), self.readable(p)))
