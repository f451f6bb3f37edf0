"""What the workflow may expect of a source, compared with a real RocketMQ."""

from __future__ import annotations

import pytest

from dev.stack.info import StackInfo
from tests.real_rocketmq import Place
from tests.source_suite import Broker, SourceSuite
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.source.port import Source
from tidegate.core.source.records import Reader
from tidegate.sources.rocketmq import KIND
from tidegate.sources.rocketmq.control import RocketMQSource
from tidegate.sources.rocketmq.worker import RocketMQReader


class RealBroker:
    kind = KIND
    stamps = False

    def __init__(self, place: Place) -> None:
        self.place = place
        self._files: dict[tuple[str, int], list[str]] = {}

    def source(self, isolation: str = "read_committed") -> Source:
        return RocketMQSource(self.place.settings)

    def reader(self, plan: ReadPlan) -> Reader:
        return RocketMQReader(plan, dict(self.place.settings))

    def unavailable(self) -> Source:
        return RocketMQSource({"namesrv": "127.0.0.1:1", "brokers": "broker-a"}, timeout_s=2)

    def create(self, topic: str, partitions: int = 1, retention_ms: int | None = None) -> None:
        self.place.tools.create(topic, partitions)

    def delete(self, topic: str) -> None:
        self.place.tools.delete(topic)

    def add_partitions(self, topic: str, total: int) -> None:
        self.place.tools.create(topic, total)

    def append(self, topic: str, partition: int, timestamps_ms: list[int]) -> None:
        for n, born_ms in enumerate(timestamps_ms):
            self._files.setdefault((topic, partition), []).append(self.place.next_file())
            self.place.tools.send(topic, f"v{n}".encode(), partition, born_ms=born_ms)

    def begin(self, topic: str, partition: int, timestamps_ms: list[int]) -> None:
        raise NotImplementedError

    def end(self, topic: str, partition: int, *, commit: bool) -> None:
        raise NotImplementedError

    def trim(self, topic: str, partition: int, before: int) -> None:
        """Files expire, not messages: each is in one of its own."""
        files = self._files[topic, partition]
        self.place.expire(files[before] if before < len(files) else "")


@pytest.fixture(scope="module")
def place(rocketmq: StackInfo) -> Place:
    return Place(rocketmq)


class TestRocketMQ(SourceSuite):
    test_retention_moves_the_log_start = None
    test_what_the_log_does_not_hold_is_data_loss_and_no_retry_helps = None
    """Both are in tests/integration/test_rocketmq_life.py, later: in its first minute a broker expires nothing."""

    @pytest.fixture
    def broker(self, place: Place) -> Broker:
        return RealBroker(place)
