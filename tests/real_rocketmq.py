"""A topic on a real RocketMQ, and a source that a `World` takes in place of its fake Kafka."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

from dev.stack.info import StackInfo
from dev.stack.rocketmq import LOG_FILE
from dev.stack.rocketmq_tools import RocketMQ
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.batch.jobs import IngestPlan, ReadPlan
from tidegate.sources.rocketmq.control import RocketMQSource
from tidegate.sources.rocketmq.remoting import MIN_OFFSET
from tidegate.sources.rocketmq.worker import RocketMQReader

PATIENCE_S = 60.0
_FILLER = b"\0" * (LOG_FILE * 5 // 8)
"""No two of them fit into a file of the commit log."""


class Place:
    """The servers of a stack, and what expires there."""

    def __init__(self, info: StackInfo) -> None:
        self.namesrv = info.rocketmq_namesrv
        self.tools = RocketMQ(self.namesrv)
        self.settings = {"namesrv": self.namesrv, "brokers": "broker-a"}
        self._log = Path(info.root) / "rocketmq" / "store" / "commitlog"
        self._filler = f"filler-{uuid.uuid4().hex[:8]}"
        self.tools.create(self._filler)

    def fresh(self) -> str:
        return f"rocket-{uuid.uuid4().hex[:12]}"

    def next_file(self) -> str:
        """What is sent next lies in another file of the commit log than what was sent before; its name."""
        before = self._files()[-1:]
        while not self._files() or self._files()[-1:] == before:
            self.tools.send(self._filler, _FILLER)
        return self._files()[-1].name

    def expire(self, before: str = "") -> None:
        """Files before this one are old, and go; else all but the last one."""
        kept, seen = before or self.next_file(), self._filler_begins()
        for file in self._files():
            if file.name < kept:
                os.utime(file, (0, 0))
        self.tools.delete_expired()
        deadline = time.monotonic() + PATIENCE_S
        while self._files()[0].name < kept:
            assert time.monotonic() < deadline, "the broker keeps what is old"
            time.sleep(0.05)
        deadline = time.monotonic() + 5  # the broker corrects its queues after it has deleted files, all in one round
        while self._filler_begins() == seen and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)

    def send(self, topic: str, *values: dict[str, Any] | bytes, queue: int = 0, **more: Any) -> None:
        for value in values:
            self.tools.send(topic, value if isinstance(value, bytes) else json.dumps(value).encode(), queue, **more)

    def _files(self) -> list[Path]:
        """Those that hold something: the broker makes further ones ahead."""
        return [file for file in sorted(self._log.iterdir()) if _begun(file)]

    def _filler_begins(self) -> str:
        header, _ = self.tools.ask(self.tools.brokers()["broker-a"], MIN_OFFSET, {"topic": self._filler, "queueId": 0})
        return str(header["extFields"]["offset"])


def _begun(file: Path) -> bool:
    try:
        with open(file, "rb") as content:
            return any(content.read(8))
    except FileNotFoundError:  # it goes this very moment
        return False


class RealRocketMQ(RocketMQSource):
    """`core.source.port.Source`, and the real reader that gives up after `stall_seconds`."""

    def __init__(self, place: Place, stall_seconds: float = 1.0) -> None:
        super().__init__(place.settings, PATIENCE_S)
        self._place, self._stall_seconds = place, stall_seconds

    def reader(self, plan: ReadPlan) -> RocketMQReader:
        return RocketMQReader(plan, dict(self._place.settings), self._stall_seconds)


def rows(place: Place, topic: str, queue: int, start: int, end: int, form: str = "raw") -> list[tuple[Any, ...]]:
    """(offset, key, value, headers) of a range."""
    spec = {"name": "p", "source": {"isolation": "read_committed", "topic": topic}, "format": {"type": form}}
    plan = IngestPlan(
        attempt="1.1-x", attempt_dir="", pipeline=spec, bootstrap={}, topic=topic, topic_id="", parts=(), nonce="x"
    )
    reader, found = RocketMQReader(plan, dict(place.settings), 1.0), list[tuple[Any, ...]]()
    try:
        for chunk in reader.read(OffsetRange(topic, queue, start, end)):
            found += zip(chunk.offsets, chunk.keys, chunk.values, chunk.headers or [], strict=True)
    finally:
        reader.close()
    return found
