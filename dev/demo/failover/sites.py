"""Two sites, each with a broker of its own, and producers that keep a log of what was acknowledged."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from dev.stack.ports import LOOPBACK
from dev.stack.stack import Stack
from dev.stack.topics import create_topic

TOPIC, PARTITIONS = "shipments", 2
_FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00Z
_PATIENCE_S = 60.0


class Site:
    """A broker at a port that stays its own."""

    def __init__(self, name: str, root: Path, port: int, say: Callable[[str], None]) -> None:
        self.name, self.bootstrap = name, f"{LOOPBACK}:{port}"
        self._root = root
        self._stack = Stack(root, ("kafka",), ports={"kafka": port}, durable=True, progress=say)

    @property
    def settings(self) -> dict[str, str]:
        """A client's."""
        return {"bootstrap.servers": self.bootstrap, "log_level": "2"}

    @property
    def connection(self) -> str:
        """Airflow's, as an environment variable has it."""
        return json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": self.bootstrap}})

    def start(self) -> None:
        self._stack.up()

    def stop(self) -> None:
        self._stack.down()

    def create_topic(self) -> None:
        create_topic(
            {"bootstrap.servers": self.bootstrap}, NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
        )

    def kill(self) -> int:
        """SIGKILL of the broker; its process."""
        (keeper,) = next(part.pids for part in self._stack.status().parts if part.name == "kafka")
        (broker,) = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
        os.kill(int(broker), signal.SIGKILL)
        return int(broker)


@dataclass
class Producers:
    """`acknowledged`: ids of all records of which a broker has said that it has them."""

    acknowledged: list[str] = field(default_factory=list)
    made: int = 0

    def write(self, site: Site, count: int) -> None:
        """So many records, all of them acknowledged. Raises TimeoutError."""
        producer = Producer({**site.settings, "enable.idempotence": True, "linger.ms": 20})
        found: list[str] = []
        for _ in range(count):
            self.made += 1
            one = f"{site.name}-{self.made:07}"
            value = {"id": one, "weight": self.made % 997, "at": _FIRST_MS + self.made * 100}
            producer.produce(
                TOPIC,
                json.dumps(value),
                partition=self.made % PARTITIONS,
                on_delivery=lambda error, _message, one=one: None if error else found.append(one),
            )
            producer.poll(0)
        if producer.flush(_PATIENCE_S) or len(found) != count:
            raise TimeoutError(f"{site.name} has acknowledged {len(found)} of {count} records")
        self.acknowledged += found
