"""The worker's reader where there is no broker to read from."""

from __future__ import annotations

import socket
import time

import pytest
from engine_fixtures import TOPIC, job_plan, pipeline

from spark_jobs.engine.failures import JobError
from spark_jobs.engine.fetch import KafkaReader
from tidegate.core.offsets import OffsetRange


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
        monkeypatch.setattr(f"spark_jobs.engine.fetch.{name}", 1.0)


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
