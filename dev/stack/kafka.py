"""A Kafka broker in KRaft mode: one node that is broker and controller."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

from dev.stack.java import find_java
from dev.stack.parts import Part
from dev.stack.ports import LOOPBACK, accepts
from dev.stack.processes import Program
from dev.stack.secrets import write_private

SASL_USER = "tidegate"
_START_S = 180.0


def cluster_id() -> str:
    """Kafka's form of a UUID; never with a dash in front, which its tools would read as an option."""
    first = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([first[0] & 0x7F]) + first[1:]).decode().rstrip("=")


class Kafka(Part):
    """Topics are created explicitly; records are kept for ever unless a topic says otherwise.

    A second listener asks for a password (SASL, PLAIN), as brokers elsewhere do; the first asks for nothing."""

    name = "kafka"
    port_names = ("kafka", "kafka_controller", "kafka_sasl")
    jar_set = "kafka"

    def start(self) -> None:
        """Format the log directory the first time, start, wait until the broker answers for metadata."""
        folder = self.site.folder("kafka")
        config = folder / "server.properties"
        write_private(config, "".join(f"{key}={value}\n" for key, value in self._properties(folder).items()))
        if not (folder / "data" / "meta.properties").exists():
            cluster = cluster_id()
            formatting = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config)]
            command = self._java("-Xmx128m", "-XX:TieredStopAtLevel=1")
            self.site.launcher.run("kafka", Program([*command, *formatting], cwd=folder), _START_S)
        command = self._java("-Xmx384m", "-Xms64m", "-XX:MaxDirectMemorySize=128m")
        running = self.site.launcher.start("kafka", Program([*command, "kafka.Kafka", str(config)], cwd=folder))
        running.wait_ready(self._answers, _START_S)

    def _java(self, *options: str) -> list[str]:
        logging = "-Dorg.slf4j.simpleLogger.showDateTime=true"
        return [str(find_java().binary), "-XX:+UseSerialGC", *options, logging, "-cp", f"{self.jars()}/*"]

    def _answers(self) -> bool:
        if not accepts(self.port):
            return False
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            return bool(AdminClient({"bootstrap.servers": f"{LOOPBACK}:{self.port}"}).list_topics(timeout=5).brokers)
        except KafkaException:
            return False

    def _properties(self, folder: Path) -> dict[str, object]:
        broker, controller, sasl = (f"{LOOPBACK}:{self.site.ports[name]}" for name in self.port_names)
        login = f'user_{SASL_USER}="{self.site.secrets.kafka_password}"'
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{broker},SASL_PLAINTEXT://{sasl},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker},SASL_PLAINTEXT://{sasl}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {login};"
            ),
            "log.dirs": folder / "data",
            "auto.create.topics.enable": "false",
            # The demo's records are of 2013: by their own time any finite retention has passed.
            "log.retention.ms": -1,
            "log.retention.check.interval.ms": 1000,
            "log.initial.task.delay.ms": 1000,
            "num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "background.threads": 2,
            "log.cleaner.threads": 1,
            "log.cleaner.dedupe.buffer.size": 2_097_152,
            "log.cleaner.io.buffer.size": 65_536,
            "log.cleaner.backoff.ms": 1000,
        }
