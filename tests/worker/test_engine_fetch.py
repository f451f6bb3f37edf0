"""The worker's reader where there is no broker to read from."""

from __future__ import annotations

import gc
import socket
import time

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Message, TopicPartition
from engine_fixtures import TOPIC, job_plan, pipeline

from spark_jobs.engine.failures import JobError
from tidegate.core.base.offsets import OffsetRange
from tidegate.sources.kafka.worker import KafkaReader


def reader(settings: dict[str, str], stall_seconds: float = 0.3) -> KafkaReader:
    return KafkaReader(job_plan(pipeline("/nowhere"), [(0, 0, 5)]), settings, stall_seconds)


@pytest.fixture
def nobody() -> str:
    """An address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANSWER_SECONDS", "LOOK_SECONDS"):
        monkeypatch.setattr(f"tidegate.sources.kafka.worker.{name}", 1.0)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"receive.message.max.bytes": "1000000"}, "receive.message.max.bytes"),
        ({"security.protocol": "nonsense"}, "security.protocol"),
        ({"no.such.setting": "1"}, "no.such.setting"),
    ],
)
def test_settings_that_the_client_refuses_are_named_and_no_retry_helps(nobody, settings, says):
    reading = reader({"bootstrap.servers": nobody} | settings)
    with pytest.raises(JobError, match=f"the Kafka connection's settings are wrong: .*{says}") as wrong:
        list(reading.read(OffsetRange(TOPIC, 0, 0, 5)))
    assert not wrong.value.failure.retry
    reading.close()


def test_a_broker_that_refuses_connections_is_named_with_the_reason_and_the_place_within_seconds(nobody):
    reading = reader({"bootstrap.servers": nobody})
    started = time.monotonic()
    with pytest.raises(
        JobError, match=f"at {nobody} has no answer for topic {TOPIC}: .*Connection refused"
    ) as at_start:
        reading.topic_id()
    with pytest.raises(JobError, match="Connection refused") as read:
        list(reading.read(OffsetRange(TOPIC, 0, 3, 5)))
    reading.close()
    assert time.monotonic() - started < 25, "the usual limit is 30 s and more"
    assert at_start.value.failure.retry
    failure = read.value.failure
    assert (failure.retry, failure.partition, failure.offset) == (True, 0, 3)


class Client:
    """Gives messages in these portions, whatever is asked for; `end` is its position then."""

    portions: tuple[tuple[int, ...], ...] = ()
    end = 0

    def __init__(self, _settings: dict[str, object], **_: object) -> None:
        self._left, self._at = list(self.portions), 0
        self.asked: list[int] = []
        self.collecting: list[bool] = []
        made.append(self)

    def assign(self, places: list[TopicPartition]) -> None:
        self._at = places[0].offset

    def consume(self, count: int, timeout: float) -> list[Message]:
        self.asked.append(count)
        self.collecting.append(gc.isenabled())
        offsets = self._left.pop(0)
        self._at = offsets[-1] + 1 if self._left else self.end
        return [Message(topic=TOPIC, partition=0, offset=o, value=b"v", timestamp=(1, o)) for o in offsets]

    def position(self, _places: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, 0, self._at)]

    def unassign(self) -> None: ...

    def close(self) -> None: ...


made: list[Client] = []


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    monkeypatch.setattr(confluent_kafka, "Consumer", Client)
    made.clear()
    return Client


def test_the_end_of_a_transaction_is_not_waited_for(client, monkeypatch):
    """Offset 4 is its marker: the client has passed it, and nobody will send a message for it."""
    monkeypatch.setattr(client, "portions", ((0, 1), (2, 3)))
    monkeypatch.setattr(client, "end", 5)
    chunks = list(reader({}).read(OffsetRange(TOPIC, 0, 0, 5)))
    assert [chunk.offsets for chunk in chunks] == [[0, 1], [2, 3]]
    assert made[0].asked == [5, 3]


@pytest.mark.parametrize("of_the_log", [True, False])
def test_only_what_the_client_says_of_the_partition_is_damage_of_its_log(client, monkeypatch, of_the_log):
    """An answer above `receive.message.max.bytes` ends whatever else was asked on that connection, the coordinator's
    address among it: that arrives among the messages too, with the code of a record that is damaged."""
    monkeypatch.setattr(client, "portions", ((0, 1), (2, 3, 4)))
    given = client.consume

    def with_complaint(self: Client, count: int, timeout: float) -> list[Message]:
        place = {"topic": TOPIC, "partition": 0, "offset": 2} if of_the_log else {}
        complaint = Message(error=KafkaError(KafkaError._BAD_MSG, "Bad message format"), **place)
        return [*given(self, count, timeout), complaint]

    monkeypatch.setattr(client, "consume", with_complaint)
    reading = reader({}).read(OffsetRange(TOPIC, 0, 0, 5))
    if of_the_log:
        with pytest.raises(JobError, match="the records at offset 2 are damaged"):
            list(reading)
    else:
        assert [chunk.offsets for chunk in reading] == [[0, 1], [2, 3, 4]]


def test_messages_do_not_start_pythons_search_for_cycles(client, monkeypatch):
    monkeypatch.setattr(client, "portions", ((0, 1), (2, 3, 4)))
    reading = reader({}).read(OffsetRange(TOPIC, 0, 0, 5))
    assert [(chunk.timestamps, gc.isenabled()) for chunk in reading] == [([0, 1], True), ([2, 3, 4], True)]
    assert made[0].collecting == [False, False]
    gc.disable()
    try:
        list(reader({}).read(OffsetRange(TOPIC, 0, 0, 5)))
        assert not gc.isenabled(), "it was off before"
    finally:
        gc.enable()
