"""A topic on a real broker, and a broker that a `World` takes in place of its fake."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from dev.stack.info import StackInfo
from dev.stack.stack import Stack
from dev.stack.topics import await_leaders, create_topic
from tests.world import World, record
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.source.port import LogState
from tidegate.core.source.records import Chunk
from tidegate.core.spec.pipeline import Column
from tidegate.sources.kafka.control import KafkaSource
from tidegate.sources.kafka.worker import KafkaReader

PATIENCE_S = 120.0
"""For what is a matter of moments, however busy the machine is."""
_QUIET = {"log_level": "2"}  # a producer outlives the broker by a moment at the end of a run


class Topic:
    """Each call returns when the broker has done it."""

    def __init__(self, bootstrap: str, partitions: int = 1, **config: str) -> None:
        self.name = f"edge-{uuid.uuid4().hex[:12]}"
        self.settings = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self.settings | _QUIET)
        self._producers: dict[str, Producer] = {}
        self.create(partitions, **config)

    def create(self, partitions: int = 1, **config: str) -> None:
        """Also again, after `delete`: the name is free after a moment."""
        wanted = NewTopic(self.name, partitions, 1, config={"retention.ms": "-1", **config})
        eventually(lambda: create_topic(self.settings | _QUIET, wanted) is None)
        self._producers.clear()  # they would learn of it much later

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result()
        eventually(lambda: not self._listed())

    def add_partitions(self, total: int) -> None:
        self._admin.create_partitions([NewPartitions(self.name, total)])[self.name].result()
        await_leaders(self.settings | _QUIET, self.name, total)
        self._producers.clear()

    def trim(self, partition: int, before: int) -> None:
        at = TopicPartition(self.name, partition, before)
        self._admin.delete_records([at])[at].result()

    def produce(
        self, *values: dict[str, Any] | bytes | None, partition: int = 0, key: bytes | None = b"k", **settings: str
    ) -> None:
        mark = json.dumps(settings)
        if mark not in self._producers:
            self._producers[mark] = Producer(self.settings | _QUIET | settings)
        self._send(self._producers[mark], values, partition, key)

    @contextlib.contextmanager
    def transaction(self, end: str = "commit") -> Iterator[Callable[..., None]]:
        """Gives `produce`. `end`: commit | abort | hang (its producer says nothing for a quarter of an hour)."""
        producer = Producer(
            self.settings | _QUIET | {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": "900000"}
        )
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        yield lambda *values, partition=0: self._send(producer, values, partition, b"k")
        if end != "hang":
            {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[end](PATIENCE_S)
            self.settled()

    def settled(self) -> None:
        """The markers of finished transactions are there, which is a moment after their producers were told."""
        source = KafkaSource(self.settings, "read_committed")
        eventually(
            lambda: all(p.last_stable_offset == p.high_watermark for p in source.look(self.name).partitions.values())
        )

    def state(self, isolation: str = "read_committed") -> LogState:
        return KafkaSource(self.settings, isolation).look(self.name)

    def _listed(self) -> dict[int, Any]:
        found = self._admin.list_topics(timeout=PATIENCE_S).topics.get(self.name)
        return {} if found is None or found.error else found.partitions

    def _send(self, producer: Producer, values: tuple, partition: int, key: bytes | None) -> None:
        failures: list[object] = []
        for value in values:
            body = json.dumps(value).encode() if isinstance(value, dict) else value
            producer.produce(self.name, body, key, partition, on_delivery=lambda e, _: e and failures.append(e))
        assert producer.flush(PATIENCE_S) == 0
        assert not failures


class RealKafka:
    """`core.source.port.Source`, and the real reader that gives up after `stall_seconds`."""

    def __init__(self, topic: Topic, isolation: str = "read_committed", stall_seconds: float = PATIENCE_S) -> None:
        self.settings, self.stall_seconds = dict(topic.settings), stall_seconds
        self._source = KafkaSource(topic.settings, isolation, timeout_s=PATIENCE_S)

    def reader(self, plan: ReadPlan) -> KafkaReader:
        return KafkaReader(plan, self.settings, self.stall_seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class Interrupted(RealKafka):
    """Small fetches; `meanwhile` happens when a task has its first chunk of many, which may take its time: only after
    that a standstill of `stall_then` seconds ends the reading."""

    def __init__(self, topic: Topic, meanwhile: Callable[[], object], stall_then: float = 1.0) -> None:
        super().__init__(topic)
        self._stall_then = stall_then
        self.settings |= {"queued.max.messages.kbytes": "100", "fetch.message.max.bytes": "10000"}
        self._meanwhile = meanwhile

    def reader(self, plan: ReadPlan) -> KafkaReader:
        reader = super().reader(plan)
        read = reader.read

        def interrupted(wanted: OffsetRange) -> Iterator[Chunk]:
            for n, chunk in enumerate(read(wanted)):
                yield chunk
                if n == 0:
                    self._meanwhile()
                    reader._stall_seconds = self._stall_then

        reader.read = interrupted  # type: ignore[method-assign]
        return reader


def bulky(count: int) -> list[dict[str, Any]]:
    """Records of two kilobytes: a few hundred of them take many fetches of an `Interrupted` reader."""
    return [record(str(n), 0.1) | {"filler": "x" * 2000} for n in range(count)]


def world_on(topic: Topic, folder: Path, **source: Any) -> World:
    """A World of a pipeline of its own that reads this topic; gaps are allowed unless told otherwise."""
    folder.mkdir(exist_ok=True)
    world = World(folder)
    world.change_spec(name=f"edge-{uuid.uuid4().hex[:8]}")  # Kafka's group is named after it
    spec = replace(world.pipeline.source, **({"topic": topic.name, "gaps": "allow"} | source))
    world.change_spec(source=spec)
    world.kafka = RealKafka(topic, spec.isolation)  # type: ignore[assignment]
    return world


def numbered(first: int, count: int, hour: float = 0.1) -> list[dict]:
    return [record(str(n), hour) for n in range(first, first + count)]


def ranges(world: World, batch_id: int | None) -> list[tuple[int, int, int]]:
    assert batch_id is not None
    plan = world.context().ledger.batches.get(world.pipeline.name, batch_id).plan
    return [(r.partition, r.start, r.end) for r in plan.ranges]


def landed(world: World, batch_id: int) -> list[tuple[int, int]]:
    """Coordinates of every row in the files of a landed batch."""
    folder = world.folder / f"lake/readings/_tidegate/landed/{batch_id}"
    return sorted(world.rows_at(f"file://{folder}"))


def gaps(world: World, batch_id: int) -> dict[int, list[tuple[int, int]]]:
    found = world.context().ledger.batches.gaps(world.pipeline.name, batch_id)
    return {p: [(i.start, i.end) for i in intervals] for p, intervals in found.items()}


def other_columns(world: World) -> None:
    """A replay then has something new to publish, if it may."""
    id_, site, _ = world.pipeline.columns
    world.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))


@contextlib.contextmanager
def frozen(kafka: StackInfo) -> Iterator[None]:
    """The broker's process stands still: connections stay open and nothing is answered."""
    pid = _broker(kafka)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        eventually(lambda: _has_a_controller(kafka))  # it thinks that it has left its own cluster, for a moment


def _has_a_controller(kafka: StackInfo) -> bool:
    admin = AdminClient({"bootstrap.servers": kafka.kafka_bootstrap} | _QUIET)
    return admin.describe_cluster(request_timeout=PATIENCE_S / 4).result().controller is not None


def _broker(kafka: StackInfo) -> int:
    """The keeper's child."""
    (keeper,) = next(p.pids for p in Stack(Path(kafka.root), parts=("kafka",)).status().parts if p.name == "kafka")
    (child,) = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    return int(child)


def eventually(look: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Look until it is so; an error of Kafka's counts as not yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if look():
                return
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, "it did not become so"
