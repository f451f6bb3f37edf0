"""Threads that share a Kafka connection, on a real broker."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tests.real_kafka import Topic
from tidegate.sources.kafka.control import KafkaSource


@pytest.fixture
def eager():
    """Threads take turns all the time."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("eager")
def test_threads_that_ask_first_at_one_moment_all_get_their_answer(kafka):
    """As `tidegate status` asks for several pipelines that share a connection."""
    topic = Topic(kafka.kafka_bootstrap)
    for _ in range(20):
        source = KafkaSource(topic.settings, "read_committed", timeout_s=60.0)
        together = Barrier(8)

        def describe(source: KafkaSource = source, together: Barrier = together) -> str:
            together.wait()
            return source.look(topic.name).topic

        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(describe) for _ in range(8)]
            assert [one.result(timeout=120) for one in asked] == [topic.name] * 8
