"""The producer: `python -m tests.soak.producer SCENE ACKLOG`, told on standard input how many records to send next.

It is idempotent and waits for every acknowledgement; a broker that is away only makes it wait. It ends when its
standard input ends, after a flush; whoever starts it again goes on at the topic's end.
"""

from __future__ import annotations

import sys
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from tests.soak.acknowledged import AckLog
from tests.soak.scene import HOUR, SITES, T0, Scene

LATE_EVERY, DIRTY_EVERY = 499, 997
_CHUNK = 2_000


class Feed:
    """Records for all partitions in turn, their event times `step_ms` apart; some are late, some dirty."""

    def __init__(self, scene: Scene, log: Path) -> None:
        self._scene, self._log = scene, AckLog(log)
        self._next = {p: o.high_watermark for p, o in scene.source().look(scene.topic).partitions.items()}
        self._failed: KafkaError | None = None
        self._producer = Producer({
            "bootstrap.servers": scene.bootstrap,
            "log_level": 0,  # a broker that dies is what this is about
            "enable.idempotence": True,
            "message.timeout.ms": 0,
            "linger.ms": 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
            "reconnect.backoff.max.ms": 500,
        })  # fmt: skip

    def send(self, records: int) -> None:
        """Returns when all of them are acknowledged. Raises RuntimeError when the producer cannot go on."""
        for done in range(0, records, _CHUNK):
            for i in range(min(_CHUNK, records - done)):
                partition = i % self._scene.partitions
                self._producer.produce(self._scene.topic, self._value(partition), None, partition, self._acknowledge)
            self._producer.poll(0)
            while len(self._producer) > 50_000:
                self._wait(0.1)
            self._log.flush()
        while self._producer.flush(0.5) > 0:
            self._wait(0)
        self._wait(0)
        self._log.flush()

    def _wait(self, seconds: float) -> None:
        self._producer.poll(seconds)
        if self._failed is not None:
            raise RuntimeError(f"the producer cannot go on: {self._failed}")

    def _value(self, partition: int) -> bytes:
        number = self._next[partition]
        self._next[partition] = number + 1
        at = T0 + number * self._scene.step_ms
        if number % LATE_EVERY == 1:
            at = T0 - HOUR
        value = '"many"' if number % DIRTY_EVERY == 2 else str(number % 100)
        site = SITES[number % len(SITES)]
        return f'{{"id":"{partition}-{number}","site":"{site}","at":{at},"value":{value}}}'.encode()

    def _acknowledge(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._log.add(message.partition(), message.offset())
        else:
            self._failed = error


def main(arguments: list[str]) -> int:
    feed = Feed(Scene.load(Path(arguments[0])), Path(arguments[1]))
    for line in sys.stdin:
        feed.send(int(line))
        print(line.strip(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
