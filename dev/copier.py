"""A transactional copier of a Kafka topic to another cluster, whose copies say what they are copies of (F1).

    copier = Copier(source, target, "flights", "flights-there")
    copier.copy(10_000)

For tests and trials: a copier in production runs for ever, and copies more than one topic. What makes a copy sound is
here whole: each record once (a transaction for a run; where to go on is read from the copies themselves), in order, by
partition, with the header `tidegate-source`; and a `transactional.id`, by which a failover fences it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tidegate.core.source.coordinates import HEADER, OWN, Coordinate, coordinate_of
from tidegate.sources.kafka.standby import KafkaStandby

_PATIENCE_S = 60.0


class Copier:
    """`starts`: where it begins in partitions of which the target has no copy yet; where the log begins by default."""

    def __init__(
        self,
        source: Mapping[str, str],
        target: Mapping[str, str],
        topic: str,
        transactional_id: str,
        starts: Mapping[int, int] | None = None,
    ) -> None:
        self._topic, self._settings = topic, dict(source)
        self._producer = Producer({**target, "transactional.id": transactional_id, "log_level": "2"})
        self._producer.init_transactions(_PATIENCE_S)  # an earlier producer of this id can write no more
        looked = KafkaStandby(dict(source), "read_committed").look(topic)
        self._topic_id = looked.topic_id
        there = KafkaStandby(dict(target), "read_committed")
        self._target_id = there.look(topic).topic_id
        self._at = {p: (starts or {}).get(p, lane.log_start) for p, lane in looked.partitions.items()}
        self._at |= dict(self._copied(there))

    def copy(self, most: int) -> int:
        """Copy up to so many records of each partition, in one transaction; their number."""
        count = self.begin(most)
        self.commit()
        return count

    def begin(self, most: int) -> int:
        """The same without the transaction's end."""
        self._producer.begin_transaction()
        count = 0
        for partition in sorted(self._at):
            for message in self._records(partition, most):
                if not self._is_of_the_target(message):
                    self._send(partition, message)
                    count += 1
        if self._producer.flush(_PATIENCE_S):
            raise TimeoutError(f"the copies of {self._topic} were not taken in time")
        return count

    def commit(self) -> None:
        """Raises KafkaException where another producer of this id came between."""
        self._producer.commit_transaction(_PATIENCE_S)

    def _is_of_the_target(self, message: Message) -> bool:
        """A copy of one of its own records: copied back it would be there twice. The next `first` is not above it."""
        copy = _coordinate(message)
        return copy is not None and copy.topic_id == self._target_id

    def _send(self, partition: int, message: Message) -> None:
        offset = message.offset()
        itself = _coordinate(message)
        of = OWN if itself is None else itself.topic_id
        source = Coordinate(self._topic_id, partition, self._at[partition], offset, of)
        headers = [(name, value) for name, value in message.headers() or () if name != HEADER]
        self._producer.produce(
            self._topic,
            message.value(),
            message.key(),
            partition,
            timestamp=message.timestamp()[1],
            headers=[*headers, (HEADER, source.text())],
        )
        self._at[partition] = offset + 1

    def _records(self, partition: int, most: int) -> Iterator[Message]:
        ours = {"group.id": "copier", "enable.auto.commit": "false", "enable.partition.eof": "true", "log_level": "2"}
        ours["auto.offset.reset"] = "error"  # what retention has taken must not look like a hole that was always there
        consumer = Consumer({**self._settings, **ours, "isolation.level": "read_committed"})
        try:
            consumer.assign([TopicPartition(self._topic, partition, self._at[partition])])
            for _ in range(most):
                message = consumer.poll(_PATIENCE_S)
                if message is None:
                    raise TimeoutError(f"nothing comes from partition {partition} of {self._topic}")
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise KafkaException(error)
                yield message
        finally:
            consumer.close()

    def _copied(self, target: KafkaStandby) -> Iterator[tuple[int, int]]:
        """Where to go on, by the copies that the target has."""
        for partition, lane in target.look(self._topic).partitions.items():
            reached = None
            for one in target.records(self._topic, lane.log_start, lane.last_stable_offset, partition):
                copy = coordinate_of(one.sources)
                if copy is not None and copy.topic_id == self._topic_id:
                    reached = copy.offset + 1
            if reached is not None:
                yield partition, reached


def _coordinate(message: Message) -> Coordinate | None:
    return coordinate_of([value for name, value in message.headers() or () if name == HEADER])
