"""What every source must do. A source's test module derives a class from `SourceSuite` and gives the fixture `broker`:

    class TestRocketMQ(SourceSuite):
        @pytest.fixture
        def broker(self, rocketmq: StackInfo) -> Broker: ...

What a source can't do is held too: without a trait the promise that stands in its place is tested.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from spark_jobs.engine.failures import JobError
from tests.real_kafka import PATIENCE_S
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import IngestPlan, ReadPlan
from tidegate.core.source.port import Lane, Source
from tidegate.core.source.records import Reader
from tidegate.core.source.trouble import Trouble, What
from tidegate.kinds import SourceKind
from tidegate.spec.source import SourceSection


class Broker(Protocol):
    """The same actions on any source: each returns when the servers have done it.

    A record's value is `v<n>` for the n-th timestamp of its call, its key `k`. `begin` and `end` are for sources with
    transactions, `isolation` too. `stamps`: whether records keep the timestamps that they are given; else their servers
    give each a time of its own, in order."""

    stamps: bool

    @property
    def kind(self) -> SourceKind: ...
    def source(self, isolation: str = "read_committed") -> Source: ...
    def reader(self, plan: ReadPlan) -> Reader: ...
    def unavailable(self) -> Source: ...
    def create(self, topic: str, partitions: int = 1, retention_ms: int | None = None) -> None: ...
    def delete(self, topic: str) -> None: ...
    def add_partitions(self, topic: str, total: int) -> None: ...
    def append(self, topic: str, partition: int, timestamps_ms: list[int]) -> None: ...
    def begin(self, topic: str, partition: int, timestamps_ms: list[int]) -> None: ...
    def end(self, topic: str, partition: int, *, commit: bool) -> None: ...
    def trim(self, topic: str, partition: int, before: int) -> None: ...


def plan_for(topic: str, topic_id: str = "", form: str = "json") -> IngestPlan:
    """What a reader looks at of a plan."""
    spec = {"name": "p", "source": {"isolation": "read_committed", "topic": topic}, "format": {"type": form}}
    return IngestPlan(
        attempt="1.1-x",
        attempt_dir="",
        pipeline=spec,
        bootstrap={},
        topic=topic,
        topic_id=topic_id,
        parts=(),
        nonce="x",
    )


class SourceSuite:
    @pytest.fixture
    def topic(self) -> str:
        return f"source-{uuid.uuid4().hex[:12]}"

    # ------------------------------------------------------------ the log

    def test_an_empty_log_says_what_it_is(self, broker: Broker, topic: str) -> None:
        broker.create(topic, partitions=3, retention_ms=86_400_000)
        source = broker.source()
        state = source.look(topic)
        assert (state.topic, state.partitions) == (topic, dict.fromkeys(range(3), Lane(0, 0, 0)))
        assert state.topic_id, "the ledger keeps it as the accepted one"
        assert state.traits == source.traits
        if not source.traits.expires:
            assert (state.retention_ms, state.retention_bytes) == (None, None)

    def test_offsets_of_several_lanes(self, broker: Broker, topic: str) -> None:
        broker.create(topic, partitions=3)
        broker.append(topic, 0, [1, 2, 3])
        broker.append(topic, 2, [1])
        assert broker.source().look(topic).partitions == {0: Lane(0, 3, 3), 1: Lane(0, 0, 0), 2: Lane(0, 1, 1)}

    def test_the_id_tells_a_recreated_log_from_the_old_one(self, broker: Broker, topic: str) -> None:
        """Without the trait `identity` every log of this name has the same id, and no rule is ever misled by it."""
        broker.create(topic)
        source = broker.source()
        first = source.look(topic)
        assert source.look(topic).topic_id == first.topic_id
        broker.delete(topic)
        broker.create(topic)
        again = source.look(topic)
        assert again.is_another(first.topic_id) is source.traits.identity
        assert (again.topic_id != first.topic_id) is source.traits.identity
        if not source.traits.identity:
            assert again.topic_id == topic

    @pytest.mark.parametrize("commit", [True, False])
    def test_an_open_transaction_holds_the_readable_end(self, broker: Broker, topic: str, commit: bool) -> None:
        broker.create(topic)
        broker.append(topic, 0, [1, 2])
        source = broker.source()
        if not source.traits.transactions:
            assert all(
                lane.last_stable_offset == lane.high_watermark for lane in source.look(topic).partitions.values()
            )
            return
        broker.begin(topic, 0, [3, 4, 5])
        assert source.look(topic).partitions == {0: Lane(0, 2, 5)}
        assert broker.source("read_uncommitted").look(topic).partitions == {0: Lane(0, 5, 5)}
        broker.end(topic, 0, commit=commit)
        source = broker.source()
        eventually(lambda: [lane.last_stable_offset for lane in source.look(topic).partitions.values()] >= [5])
        (lane,) = source.look(topic).partitions.values()
        assert lane.last_stable_offset == lane.high_watermark

    def test_retention_moves_the_log_start(self, broker: Broker, topic: str) -> None:
        broker.create(topic)
        broker.append(topic, 0, list(range(10)))
        if not broker.source().traits.expires:
            return
        broker.trim(topic, 0, 4)
        assert broker.source().look(topic).partitions == {0: Lane(4, 10, 10)}
        broker.trim(topic, 0, 10)
        assert broker.source().look(topic).partitions == {0: Lane(10, 10, 10)}

    def test_added_lanes_appear(self, broker: Broker, topic: str) -> None:
        broker.create(topic, partitions=1)
        source = broker.source()
        assert list(source.look(topic).partitions) == [0]
        broker.add_partitions(topic, 3)
        assert source.look(topic).partitions == dict.fromkeys(range(3), Lane(0, 0, 0))

    def test_a_log_that_was_not_cut(self, broker: Broker, topic: str) -> None:
        broker.create(topic, partitions=2)
        broker.append(topic, 0, [1, 2, 3])
        source = broker.source()
        epochs = {p: o.leader_epoch for p, o in source.look(topic).partitions.items()}
        known = {p: epoch for p, epoch in epochs.items() if epoch is not None}
        asked = {p: (end, known[p]) for p, end in ((0, 3), (1, 0)) if p in known}
        assert source.cuts(topic, asked) == {}
        assert source.cuts(topic, {p: (2, epoch) for p, epoch in known.items() if p == 0}) == {}

    def test_offsets_at_a_time(self, broker: Broker, topic: str) -> None:
        broker.create(topic, partitions=3)
        broker.append(topic, 0, [1000, 2000, 3000])
        broker.append(topic, 1, [1000])
        source, reader = broker.source(), broker.reader(plan_for(topic))
        try:
            stamps = {p: [row[1] for row in read(reader, topic, p, 0, n)] for p, n in ((0, 3), (1, 1), (2, 0))}
        finally:
            reader.close()
        assert not broker.stamps or stamps == {0: [1000, 2000, 3000], 1: [1000], 2: []}
        first, second, third = stamps[0]
        assert first < second < third
        for at in (1, first, second, second + 1, third, third + 1, stamps[1][0], third + 6000):
            wanted = {p: sum(stamp < at for stamp in found) for p, found in stamps.items()}
            assert source.offsets_at(topic, at) == wanted, at - first

    def test_offsets_at_a_time_do_not_skip_an_open_transaction(self, broker: Broker, topic: str) -> None:
        broker.create(topic)
        broker.append(topic, 0, [1000])
        if not broker.source().traits.transactions:
            return
        broker.begin(topic, 0, [2000, 3000])
        assert broker.source().offsets_at(topic, 1500) == {0: 1}
        broker.end(topic, 0, commit=True)

    def test_its_kind_says_what_it_is(self, broker: Broker) -> None:
        kind = broker.kind
        assert kind.traits == broker.source().traits
        assert issubclass(kind.section(), SourceSection)
        assert kind.connection_types
        if not kind.traits.transactions:
            assert "isolation" not in kind.section().model_fields

    # ------------------------------------------------------------ what it remembers

    def test_ends_are_told_to_whom_they_belong(self, broker: Broker, topic: str) -> None:
        broker.create(topic, partitions=2)
        broker.append(topic, 0, [1, 2, 3])
        source, group = broker.source(), f"tidegate-{topic}"
        if not source.traits.remembers:
            return  # never called: `workflow.base.preflight` and `workflow.batch.ingest` ask the trait
        assert source.remembered(group, topic, "mine") == {}
        source.remember(group, topic, {0: 2, 1: 0}, "mine")
        source.remember(group, topic, {1: 0}, "another's")
        assert source.remembered(group, topic, "mine") == {0: 2}
        assert source.remembered(group, topic, "another's") == {1: 0}
        source.remember(group, topic, {})

    # ------------------------------------------------------------ errors, and what is said

    def test_an_unknown_log_is_named_and_no_retry_helps(self, broker: Broker, topic: str) -> None:
        source = broker.source()
        calls: list[Callable[[], object]] = [lambda: source.look(topic), lambda: source.offsets_at(topic, 0)]
        for call in calls:
            with pytest.raises(SourceError, match=topic) as refused:
                call()
            assert not refused.value.retry

    def test_servers_that_are_down_are_an_error_within_seconds(self, broker: Broker, topic: str) -> None:
        broker.create(topic)
        source = broker.unavailable()
        calls: list[Callable[[], object]] = [lambda: source.look(topic), lambda: source.offsets_at(topic, 0)]
        if source.traits.remembers:
            calls += [lambda: source.remember("g", topic, {0: 0}), lambda: source.remembered("g", topic)]
        if source.traits.identity:
            calls += [lambda: source.cuts(topic, {0: (1, 0)})]
        started = time.monotonic()
        for call in calls:
            with pytest.raises(SourceUnavailable, match="Connection refused") as refused:
                call()
            assert refused.value.retry
        assert time.monotonic() - started < 30, "the usual limit is 10 s for each"

    def test_what_workers_are_told_is_text_and_shows_no_secret(self, broker: Broker) -> None:
        told = broker.source().for_workers()
        assert told.settings
        assert all(isinstance(text, str) for pair in (told.settings | told.secrets).items() for text in pair)
        assert not told.settings.keys() & told.secrets.keys()
        assert not any(secret in repr(told) for secret in told.secrets.values())

    def test_there_is_a_remedy_for_each_trouble_that_its_traits_allow(self, broker: Broker) -> None:
        traits = broker.kind.traits
        mine = {What.EXPIRES: traits.expires, What.KEEPS_LITTLE: traits.expires}
        for what in What:
            if mine.get(what, traits.transactions):
                for limit in ("time", "bytes"):
                    words = broker.kind.remedy(Trouble(what, "orders", limit, "15 min"))
                    assert words.strip() == words != ""
                    assert not words.endswith(";"), "it completes a sentence"

    # ------------------------------------------------------------ the worker's side

    def test_ranges_are_read_exactly(self, broker: Broker, topic: str) -> None:
        broker.create(topic, partitions=2)
        broker.append(topic, 0, [1000 + n for n in range(12)])
        reader = broker.reader(plan_for(topic))
        try:
            for start, end in ((0, 12), (0, 1), (3, 10), (11, 12), (4, 4), (12, 12)):
                rows = read(reader, topic, 0, start, end)
                given = [row[1] if not broker.stamps else 1000 + row[0] for row in rows]
                wanted = [(n, at, b"k", f"v{n}".encode()) for n, at in zip(range(start, end), given, strict=True)]
                assert rows == wanted, (start, end)
                if broker.source().traits.rereadable:
                    assert read(reader, topic, 0, start, end) == rows, "a second reading gives the same records"
            assert read(reader, topic, 1, 0, 0) == []
        finally:
            reader.close()

    def test_headers_are_there_only_if_the_format_asks_for_them(self, broker: Broker, topic: str) -> None:
        broker.create(topic)
        broker.append(topic, 0, [1, 2])
        for form, asked in (("raw", True), ("json", False)):
            reader = broker.reader(plan_for(topic, form=form))
            try:
                chunks = list(reader.read(OffsetRange(topic, 0, 0, 2)))
                assert all((chunk.headers is not None) is asked for chunk in chunks)
            finally:
                reader.close()

    def test_what_the_log_does_not_hold_is_data_loss_and_no_retry_helps(self, broker: Broker, topic: str) -> None:
        """Waiting for producers to write other records past the end would read the wrong ones."""
        broker.create(topic)
        broker.append(topic, 0, list(range(6)))
        ranges = [(4, 7), (8, 9)]
        if broker.source().traits.expires:
            broker.trim(topic, 0, 2)
            ranges.append((0, 5))
        reader: Any = broker.reader(plan_for(topic))
        reader._stall_seconds = 1.0  # nothing comes: however long busy servers took, it would be the same
        try:
            for start, end in ranges:
                with pytest.raises(JobError, match=rf"data loss.*\[{start}, {end}\)") as lost:
                    read(reader, topic, 0, start, end)
                assert not lost.value.failure.retry
                assert lost.value.failure.partition == 0
        finally:
            reader.close()

    def test_both_sides_name_a_log_alike(self, broker: Broker, topic: str) -> None:
        broker.create(topic)
        reader = broker.reader(plan_for(topic))
        try:
            assert reader.topic_id() in (broker.source().look(topic).topic_id, None)
            assert (reader.topic_id() is not None) is broker.source().traits.identity, "an era is not its to know"
        finally:
            reader.close()


def read(reader: Reader, topic: str, partition: int, start: int, end: int) -> list[tuple[int, int, Any, Any]]:
    """(offset, timestamp, key, value) of every record of the range."""
    rows: list[tuple[int, int, Any, Any]] = []
    for chunk in reader.read(OffsetRange(topic, partition, start, end)):
        assert len(chunk) == len(chunk.timestamps) == len(chunk.keys) == len(chunk.values) > 0
        rows += zip(chunk.offsets, chunk.timestamps, chunk.keys, chunk.values, strict=True)
    return rows


def eventually(look: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """A transaction's marker is written after the producer has its answer."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline
