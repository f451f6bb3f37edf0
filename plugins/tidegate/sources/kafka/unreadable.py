"""Why records of a Kafka topic cannot be read, where only Kafka has such a reason; the others are in
`core.source.unreadable`."""

from __future__ import annotations

from tidegate.core.base.offsets import OffsetRange
from tidegate.core.files.failure import JobError, refuse


def no_topic(topic: str, brokers: str) -> JobError:
    """A retry helps where the brokers have not all heard of the topic yet, or somebody restores it."""
    return refuse(
        f"Kafka at {brokers} has no topic {topic}: it was deleted, or the connection points to another cluster",
        advice="check source.topic and the Kafka connection; once the topic is there again, "
        "`tidegate source reset <pipeline>` accepts it",
        retry=True,
    )


def too_large(wanted: OffsetRange, at: int, limit: str) -> JobError:
    """The client drops any answer above its limit, so asking again gives the same."""
    return refuse(
        f"{wanted.topic} partition {wanted.partition}: the records at offset {at} come in one piece that is larger "
        f"than the client takes ({limit})",
        advice="raise receive.message.max.bytes in the extra of the Kafka connection, then clear the task",
        partition=wanted.partition,
        offset=at,
    )


def wrong_settings(why: str) -> JobError:
    return refuse(f"the Kafka connection's settings are wrong: {why}", advice="fix the extra of the Kafka connection")


def no_answer(topic: str, brokers: str, why: str) -> JobError:
    return refuse(
        f"Kafka at {brokers} has no answer for topic {topic}: {why}",
        advice="check the Kafka connection; the next try goes on by itself",
        retry=True,
    )
