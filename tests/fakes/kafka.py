"""A broker in memory: what the control plane asks it, and the records that a worker reads from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import ReadPlan, isolation_of, wants_headers
from tidegate.core.source.port import ALL, ForWorkers, Lane, LogState, Traits
from tidegate.core.source.records import Chunk, Reader
from tidegate.core.source.unreadable import gone

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"


@dataclass(frozen=True)
class Record:
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None = None


@dataclass
class _Log:
    records: list[Record] = field(default_factory=list)
    start: int = 0
    kept_from: int | None = None
    end: int = 0
    open_since: int | None = None
    leaders: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  # epoch, where its records begin
    aborted: list[tuple[int, int]] = field(default_factory=list)

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]] | None = None,
    ) -> int:
        self.records.append(Record(self.end, timestamp_ms, key, value, headers))
        self.end += 1
        return self.end - 1

    def lead(self) -> None:
        """Another leader takes over at the log's end."""
        self.leaders.append((self.leaders[-1][0] + 1, self.end))

    def end_of(self, epoch: int) -> int | None:
        """Where the records of later leaders begin, as a broker says; None for an epoch that it does not know."""
        if epoch > self.leaders[-1][0]:
            return None
        return next((max(start, self.start) for other, start in self.leaders if other > epoch), self.end)

    @property
    def last_stable_offset(self) -> int:
        return self.end if self.open_since is None else max(self.open_since, self.start)

    def visible(self, isolation: str) -> Iterator[Record]:
        for record in self.records:
            if isolation == READ_COMMITTED and (
                record.offset >= self.last_stable_offset or any(a <= record.offset < b for a, b in self.aborted)
            ):
                continue
            yield record


@dataclass
class _Topic:
    topic_id: str
    logs: dict[int, _Log]
    retention_ms: int | None
    retention_bytes: int | None = None
    deletes: bool | None = True
    segment_bytes: int = 1024**3


class FakeKafka:
    """Implements `core.source.port.Source`. Tests change it by the methods below `reader`.

    `unavailable` makes every call fail as a broker does that is down; `groups` holds what was committed.
    """

    def __init__(self, isolation: str = READ_COMMITTED, traits: Traits = ALL) -> None:
        self.isolation = isolation
        self.traits = traits
        self.unavailable = False
        self.groups: dict[tuple[str, str], dict[int, int]] = {}
        self._marks: dict[tuple[str, str, int], str] = {}
        self._topics: dict[str, _Topic] = {}
        self._created = 0

    # ------------------------------------------------------------ the port

    def look(self, topic: str) -> LogState:
        found = self._topic(topic)
        return LogState(
            topic=topic,
            topic_id=found.topic_id if self.traits.identity else topic,
            partitions={p: self._offsets(log) for p, log in sorted(found.logs.items())},
            retention_ms=found.retention_ms if found.deletes and self.traits.expires else None,
            retention_bytes=found.retention_bytes if found.deletes and self.traits.expires else None,
            deletes=found.deletes,
            segment_bytes=None if found.deletes is None else found.segment_bytes,
            traits=self.traits,
        )

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        return {
            p: next((r.offset for r in log.records if r.timestamp_ms >= timestamp_ms), log.end)
            for p, log in sorted(self._topic(topic).logs.items())
        }

    def cuts(self, topic: str, ends: dict[int, tuple[int, int]]) -> dict[int, int]:
        logs = self._topic(topic).logs
        found = {p: logs[p].end_of(epoch) for p, (_, epoch) in ends.items()}
        return {p: end for p, end in found.items() if end is not None and end < ends[p][0]}

    def remember(self, group: str, topic: str, offsets: dict[int, int], mark: str = "") -> None:
        unknown = offsets.keys() - self._topic(topic).logs.keys()
        if unknown:
            raise SourceError(f"Kafka took no offset of group {group} for topic {topic}, partition {min(unknown)}")
        self.groups.setdefault((group, topic), {}).update(offsets)
        self._marks |= {(group, topic, partition): mark for partition in offsets}

    def remembered(self, group: str, topic: str, mark: str = "") -> dict[int, int]:
        self._topic(topic)
        offsets = self.groups.get((group, topic), {})
        return {p: offset for p, offset in offsets.items() if self._marks[group, topic, p] == mark}

    def for_workers(self) -> ForWorkers:
        return ForWorkers(
            {"bootstrap.servers": "fake:9092", "client.id": "tidegate", "isolation.level": self.isolation}
        )

    # ------------------------------------------------------------ the worker's side

    def reader(self, plan: ReadPlan, settings: dict[str, str] | None = None) -> FakeReader:
        """In place of the engine's own reader; `settings` are not looked at."""
        return FakeReader(self, plan)

    # ------------------------------------------------------------ what happens to a topic

    def create(
        self,
        topic: str,
        partitions: int = 1,
        retention_ms: int | None = None,
        retention_bytes: int | None = None,
        deletes: bool | None = True,
        segment_bytes: int = 1024**3,
    ) -> str:
        """The new topic's id. A topic of the same name is gone with its records. Nothing is deleted by itself: `trim`.

        `deletes`: None hides the topic's settings from whoever asks."""
        self._created += 1
        logs = {p: _Log() for p in range(partitions)}
        self._topics[topic] = _Topic(f"id-{self._created}", logs, retention_ms, retention_bytes, deletes, segment_bytes)
        return self._topics[topic].topic_id

    def delete(self, topic: str) -> None:
        del self._topics[topic]

    def add_partitions(self, topic: str, total: int) -> None:
        for partition in range(total):
            self._topics[topic].logs.setdefault(partition, _Log())

    def append(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp_ms: int = 0,
        headers: list[tuple[str, bytes | None]] | None = None,
    ) -> int:
        """The record's offset. Part of the partition's open transaction, if there is one."""
        return self._log(topic, partition).append(timestamp_ms, key, value, headers)

    def skip(self, topic: str, partition: int, count: int = 1) -> None:
        """Offsets without records, such as control records leave."""
        self._log(topic, partition).end += count

    def compact(self, topic: str, partition: int, *offsets: int) -> None:
        """These records are gone; the log start stays where it was."""
        log = self._log(topic, partition)
        log.records = [record for record in log.records if record.offset not in offsets]

    def put_back(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        """A record where there was none. No broker does this; a reader that skips records looks like it."""
        log = self._log(topic, partition)
        log.records = sorted([*log.records, Record(offset, 0, None, value)], key=lambda record: record.offset)

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """An unclean leader election: the newest records are gone, and their offsets will be given to others."""
        log = self._log(topic, partition)
        log.records = [record for record in log.records if record.offset < end]
        log.end = min(log.end, end)
        log.lead()
        log.leaders = [(epoch, start) for epoch, start in log.leaders if start <= end]

    def elect(self, topic: str, partition: int) -> None:
        """A clean leader election: nothing is lost."""
        self._log(topic, partition).lead()

    def trim(self, topic: str, partition: int, before: int) -> None:
        """Retention: records below `before` are gone."""
        log = self._log(topic, partition)
        log.start = max(log.start, min(before, log.end))
        log.records = [record for record in log.records if record.offset >= log.start]

    def out_of_reach(self, topic: str) -> None:
        """Retention has passed all records, as far as anybody can see, until `within_reach`."""
        for log in self._topics[topic].logs.values():
            log.kept_from, log.start = log.start, log.end

    def within_reach(self, topic: str) -> None:
        for log in self._topics[topic].logs.values():
            log.start = min(log.start, log.kept_from) if log.kept_from is not None else log.start
            log.kept_from = None

    def begin(self, topic: str, partition: int) -> None:
        """A transaction is open from here on: the last stable offset stands still."""
        log = self._log(topic, partition)
        assert log.open_since is None, "a transaction is open"
        log.open_since = log.end

    def commit(self, topic: str, partition: int) -> None:
        """Ends the transaction, with its control record."""
        log = self._log(topic, partition)
        assert log.open_since is not None, "no transaction is open"
        log.open_since = None
        log.end += 1

    def abort(self, topic: str, partition: int) -> None:
        """Ends the transaction; nobody who reads committed records sees those of it."""
        log = self._log(topic, partition)
        assert log.open_since is not None, "no transaction is open"
        log.aborted.append((log.open_since, log.end))
        self.commit(topic, partition)

    def records(self, topic: str, partition: int, isolation: str | None = None) -> list[Record]:
        """What a reader can see now."""
        return list(self._log(topic, partition).visible(isolation or self.isolation))

    # ------------------------------------------------------------

    def _topic(self, topic: str) -> _Topic:
        if self.unavailable:
            raise SourceUnavailable(f"Kafka at fake:9092 has no answer for topic {topic}: Connection refused")
        if topic not in self._topics:
            raise SourceError(f"Kafka at fake:9092 has no topic {topic}")
        return self._topics[topic]

    def _log(self, topic: str, partition: int) -> _Log:
        return self._topics[topic].logs[partition]

    def _offsets(self, log: _Log) -> Lane:
        stable = log.last_stable_offset if self.isolation == READ_COMMITTED else log.end
        return Lane(log.start, stable, log.end, log.leaders[-1][0])


class FakeReader(Reader):
    """Chunks of at most `chunk` records, so that their borders are met in small tests too."""

    def __init__(self, kafka: FakeKafka, plan: ReadPlan, chunk: int = 3) -> None:
        self._kafka, self._plan, self._chunk = kafka, plan, chunk

    def topic_id(self) -> str | None:
        found = self._kafka.look(self._plan.topic)
        return found.topic_id if self._kafka.traits.identity else None

    def read(self, wanted: OffsetRange) -> Iterator[Chunk]:
        offsets = self._kafka.look(wanted.topic).partitions[wanted.partition]
        if wanted.start < offsets.log_start or wanted.end > offsets.high_watermark:
            raise gone(wanted, wanted.start, f"the log now holds [{offsets.log_start}, {offsets.high_watermark})")
        visible = self._kafka.records(wanted.topic, wanted.partition, isolation_of(self._plan, wanted))
        records = [r for r in visible if wanted.start <= r.offset < wanted.end]
        for at in range(0, len(records), self._chunk):
            part = records[at : at + self._chunk]
            yield Chunk(
                [r.offset for r in part],
                [r.timestamp_ms for r in part],
                [r.key for r in part],
                [r.value for r in part],
                [r.headers for r in part] if wants_headers(self._plan) else None,
            )
