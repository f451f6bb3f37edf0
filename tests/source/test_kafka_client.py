"""One Kafka connection asked by several threads at once, and clients that never answer."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.cli import surroundings
from tidegate.cli.topics import topics
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.source.port import LogState
from tidegate.sources.kafka import control
from tidegate.sources.kafka.control import KafkaSource

SETTINGS = {"bootstrap.servers": "127.0.0.1:1"}


class SlowAdmin:
    """A client that takes a moment to make, and whose requests nobody answers."""

    made: list[SlowAdmin] = []
    all_here = threading.Barrier(1)

    def __init__(self, _settings: dict[str, Any]) -> None:
        self.made.append(self)
        try:
            self.all_here.wait(0.5)  # every thread that may make one is making it
        except threading.BrokenBarrierError:
            pass

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics=[])

    def list_consumer_group_offsets(self, *_request: Any, **_limits: float) -> dict[str, Future]:
        return {"group": Future()}


@pytest.fixture
def slow(monkeypatch) -> type[SlowAdmin]:
    monkeypatch.setattr(SlowAdmin, "made", [])
    monkeypatch.setattr(SlowAdmin, "all_here", threading.Barrier(8))
    monkeypatch.setattr(control, "AdminClient", SlowAdmin)
    monkeypatch.setattr(control, "_GRACE_S", 0.0)
    return SlowAdmin


def test_threads_share_one_client(slow):
    source = KafkaSource(SETTINGS, "read_committed", timeout_s=0.01)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(source.remembered, "tidegate-a", "flights") for _ in range(8)]
        errors = [one.exception(timeout=60) for one in asked]
    assert len(slow.made) == 1
    assert {type(e) for e in errors} == {SourceUnavailable}


def test_a_result_that_never_comes_is_given_up(slow):
    source = KafkaSource(SETTINGS, "read_committed", timeout_s=0.01)
    with pytest.raises(SourceUnavailable, match=r"127\.0\.0\.1:1 has no answer for topic flights within 0.01 s"):
        source.remembered("tidegate-a", "flights")


# ---------------------------------------------------------------- what `tidegate status` asks


def loaded(*names: str, conn_id: str = "kafka_default") -> list[Any]:
    return [
        SimpleNamespace(
            name=name,
            pipeline=SimpleNamespace(
                source=SimpleNamespace(
                    conn_id=conn_id, isolation="read_committed", topic=name, kind="kafka", options=(), sites=(), site=""
                )
            ),
        )
        for name in names
    ]


def test_a_connection_that_is_away_is_asked_by_no_more_threads_than_run_at_once(monkeypatch):
    asked = []

    class Away:
        def look(self, topic: str) -> LogState:
            asked.append(topic)
            raise SourceUnavailable(f"no answer for {topic}")

    monkeypatch.setattr(surroundings, "source", lambda *_a, **_k: Away())
    answers = topics(loaded(*(f"t{i}" for i in range(100))), 60.0)
    assert len(answers) == 100
    assert all(str(a).startswith("no answer for") for a in answers.values())
    assert len(asked) <= 8


def test_a_topic_that_is_missing_says_nothing_of_the_others(monkeypatch):
    class Some:
        def look(self, topic: str) -> LogState:
            if topic == "b":
                raise SourceError("no topic b")
            return LogState(topic=topic, topic_id="id", partitions={})

    monkeypatch.setattr(surroundings, "source", lambda *_a, **_k: Some())
    answers = topics(loaded("a", "b", "c"), 60.0)
    assert answers["b"] == "no topic b"
    assert [type(answers[name]) for name in "ac"] == [LogState, LogState]


def test_a_call_that_hangs_costs_its_time_and_keeps_no_process_alive(monkeypatch):
    let_go = threading.Event()

    class Hangs:
        def look(self, topic: str) -> LogState:
            let_go.wait()
            raise AssertionError

    monkeypatch.setattr(surroundings, "source", lambda *_a, **_k: Hangs())
    began = time.monotonic()
    answers = topics(loaded(*(f"t{i}" for i in range(20))), 0.2)
    left = [t for t in threading.enumerate() if t.name.startswith("ask t")]
    let_go.set()
    assert set(answers.values()) == {"Kafka gave no answer within 0.2 s"}
    assert time.monotonic() - began < 60
    assert all(t.daemon for t in left)
