"""Stock MirrorMaker 2 as an exact copier: a distributed Kafka Connect with support for exactly-once sources."""

from __future__ import annotations

import json
import struct
import urllib.request
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from dev.demo.mirror.connect import Connect, Settings
from dev.stack.jars import ensure_jars
from dev.stack.java import find_java
from dev.stack.places import Places
from dev.stack.ports import LOOPBACK
from dev.stack.processes import Launcher, Program, end_all

_START_S, _END_S = 240.0, 60.0
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def mirror(topic: str, source: tuple[str, str], target: tuple[str, str]) -> Settings:
    """Settings of its source connector between two clusters: (alias, bootstrap servers) each."""
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": source[0], "source.cluster.bootstrap.servers": source[1],
        "target.cluster.alias": target[0], "target.cluster.bootstrap.servers": target[1],
        "topics": topic, "replication.factor": "1", "offset-syncs.topic.replication.factor": "1",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "key.converter": _BYTES, "value.converter": _BYTES, "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "false", "consumer.isolation.level": "read_committed",
        "exactly.once.support": "required", "offset-syncs.topic.location": "target",
    }  # fmt: skip


class ExactMirror(Connect):
    """A distributed worker at the target with one connector, `mirror`. `starts`: the offsets that it begins with, by
    partition of the topic; without them with the topic's beginning."""

    def __init__(self, folder: Path, port: int, settings: Settings, launcher: Launcher, starts: dict | None = None):
        super().__init__(
            folder, settings["target.cluster.bootstrap.servers"], port, {"mirror": settings}, launcher,
            flush_ms=1000, jars="mirrormaker",
        )  # fmt: skip
        self._settings, self._starts = settings, starts
        topics = {f"{what}.storage.topic": f"connect-{what}" for what in ("config", "offset", "status")}
        factors = {f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")}
        own = {"group.id": "connect", "exactly.once.source.support": "enabled", "offset.storage.partitions": "1"}
        worker = folder / "worker.properties"
        kept = [line for line in worker.read_text().splitlines() if not line.startswith("offset.storage.file")]
        more = (topics | factors | own).items()
        worker.write_text("\n".join([*kept, *(f"{key}={value}" for key, value in more)]))

    def start(self) -> None:
        java = [str(find_java().binary), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        jars = ensure_jars(self._jars, Places.of_checkout())
        main = ["-cp", f"{jars}/*", "org.apache.kafka.connect.cli.ConnectDistributed", self._files[0]]
        self._running = self._launcher.start("connect", Program([*java, *main], cwd=self._folder, grace_s=_END_S))
        self._running.wait_ready(self._created, _START_S)
        if self._starts is not None:
            self._running.wait_ready(self._placed, _START_S)
            self._ask("PUT", "/connectors/mirror/resume")
        self._running.wait_ready(self._runs, _START_S)

    def stop(self) -> None:
        if self._running is not None:
            end_all([self._running.keeper], _END_S)
            self._running = None

    def _created(self) -> bool:
        state = "RUNNING" if self._starts is None else "STOPPED"
        return self._ask("POST", "/connectors", {"name": "mirror", "config": self._settings, "initial_state": state})

    def _placed(self) -> bool:
        """An offset is that of the last record which it has copied."""
        cluster, topic = self._settings["source.cluster.alias"], self._settings["topics"]
        offsets = [
            {"partition": {"cluster": cluster, "topic": topic, "partition": p}, "offset": {"offset": start - 1}}
            for p, start in (self._starts or {}).items()
        ]
        return self._ask("PATCH", "/connectors/mirror/offsets", {"offsets": offsets})

    def _ask(self, method: str, path: str, body: Any = None) -> bool:
        data = None if body is None else json.dumps(body).encode()
        address, headers = f"http://{LOOPBACK}:{self._port}{path}", {"Content-Type": "application/json"}
        request = urllib.request.Request(address, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30):
                return True
        except OSError:
            return False


def pairs_of(bootstrap: str, source: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    """What MirrorMaker 2 has written of a topic's offsets, by partition: (in the source, in the target)."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "pairs", "enable.partition.eof": "true", "log_level": "2"}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
    found: dict[int, list[tuple[int, int]]] = {}
    try:
        consumer.assign([TopicPartition(f"mm2-offset-syncs.{source}.internal", 0, 0)])
        while True:
            message = consumer.poll(60.0)
            assert message is not None, "its topic is not there"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            key, value = message.key(), message.value()
            length = struct.unpack(">h", key[:2])[0]
            if key[2 : 2 + length].decode() == topic:
                partition = struct.unpack(">i", key[2 + length :])[0]
                found.setdefault(partition, []).append(struct.unpack(">qq", value))
    finally:
        consumer.close()
