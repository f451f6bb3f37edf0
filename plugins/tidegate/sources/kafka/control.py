"""Kafka as the control plane sees it: topic identity, offsets and retention. It never reads a record."""

from __future__ import annotations

import difflib
import logging
import re
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, ListOffsetsResultInfo, OffsetSpec, ResourceType

from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.source.port import ForWorkers, Lane, LogState
from tidegate.core.spec import pipeline
from tidegate.sources.kafka import TRAITS, log_ends

log = logging.getLogger(__name__)

T = TypeVar("T")

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

_SECRET = re.compile(r"(password|secret|passphrase|key\.pem)$|^sasl\.oauthbearer\.config$")
_OURS = frozenset((
    "auto.offset.reset", "client.id", "enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof",
    "group.id", "group.instance.id", "isolation.level",
))  # fmt: skip
"""What a connection may say for other DAGs and Tidegate decides itself: offsets live in the ledger, not in a group."""
_CALLBACKS = frozenset(("error_cb", "log_cb", "on_commit", "stats_cb", "throttle_cb"))
_MOVING = frozenset((
    KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION,
))  # fmt: skip
"""A partition's answers while its leader is being elected, which takes moments (also for a topic just created)."""
_UNREACHABLE = _MOVING - {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION} | {
    KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._RESOLVE, KafkaError._SSL,
    KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._TRANSPORT, KafkaError._WAIT_COORD,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_COORDINATOR, KafkaError.REQUEST_TIMED_OUT,
}  # fmt: skip
_LIMITS = ("retention.ms", "retention.bytes", "segment.bytes")
_PAUSE_S = 0.1
_GRACE_S = 2.0
"""How much longer than a request's own time-out we wait for its result: a client that is gone never gives one."""
_UNKNOWN_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class KafkaSource:
    """Implements `core.source.port.Source`. Create it in the process that uses it: its threads survive no fork.

    `settings` are librdkafka's. Each request is given up after `timeout_s` seconds. Several threads may ask at once.
    """

    traits = TRAITS

    def __init__(
        self, settings: Mapping[str, str], isolation: str, *, client_id: str = "tidegate", timeout_s: float = 10.0
    ) -> None:
        if isolation not in (READ_COMMITTED, READ_UNCOMMITTED):
            raise ValueError(f"isolation: {isolation!r} is neither {READ_COMMITTED} nor {READ_UNCOMMITTED}")
        kept = {key: value for key, value in settings.items() if key not in _OURS}
        self._settings = kept | {"client.id": client_id, "isolation.level": isolation}
        self._isolation = isolation
        self._timeout_s = timeout_s
        self._client: AdminClient | None = None
        self._making = threading.Lock()
        self._reason = ""

    def look(self, topic: str) -> LogState:
        description = self._answer(self._admin.describe_topics(TopicCollection([topic]), **self._limit), topic)
        numbers = sorted(p.id for p in description.partitions)
        # In this order log start <= high watermark holds, and the last stable offset is below the high watermark only
        # if a transaction is open, not because records came between the two requests.
        starts = self._list_offsets(topic, numbers, OffsetSpec.earliest(), READ_UNCOMMITTED)
        ends = self._list_offsets(topic, numbers, OffsetSpec.latest(), READ_UNCOMMITTED)
        stable = ends
        if self._isolation == READ_COMMITTED:
            stable = self._list_offsets(topic, numbers, OffsetSpec.latest(), READ_COMMITTED)
        # of the last answer: what was cut off before it lies above its end, what is cut off later has a later leader
        epochs = {p: stable[p].leader_epoch for p in numbers}
        return LogState(
            topic=topic,
            topic_id=str(description.topic_id),
            partitions={
                p: Lane(starts[p].offset, min(stable[p].offset, ends[p].offset), ends[p].offset, _epoch(epochs[p]))
                for p in numbers
            },
            **self._retention(topic),
        )

    def offsets_at(self, topic: str, timestamp_ms: int) -> dict[int, int]:
        """Records of open transactions count, so that none of them is skipped when it is committed later."""
        description = self._answer(self._admin.describe_topics(TopicCollection([topic]), **self._limit), topic)
        numbers = sorted(p.id for p in description.partitions)
        # The ends first: a record that arrives in between is then read, not skipped.
        ends = self._list_offsets(topic, numbers, OffsetSpec.latest(), READ_UNCOMMITTED)
        found = self._list_offsets(topic, numbers, OffsetSpec.for_timestamp(timestamp_ms), READ_UNCOMMITTED)
        return {p: (found[p] if found[p].offset >= 0 else ends[p]).offset for p in numbers}

    def cuts(self, topic: str, ends: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Raises SourceError."""
        return log_ends.cuts(self._settings, topic, ends, self._timeout_s)

    def remember(self, group: str, topic: str, offsets: dict[int, int], mark: str = "") -> None:
        """Raises SourceError, which the caller may ignore: nothing is lost when it fails."""
        partitions = [TopicPartition(topic, p, offset, mark) for p, offset in sorted(offsets.items())]
        if not partitions:
            return
        deadline = time.monotonic() + self._timeout_s
        while (refused := self._alter(group, partitions)) is not None:
            if refused.error.code() not in _UNREACHABLE or time.monotonic() > deadline:
                place = f"topic {topic}, partition {refused.partition}"
                message = f"Kafka took no offset of group {group} for {place}: {refused.error.str()}"
                raise SourceError(message, advice="if another consumer is in this group, it must not be")
            time.sleep(_PAUSE_S)  # the group's coordinator moves, or is elected for the first time

    def remembered(self, group: str, topic: str, mark: str = "") -> dict[int, int]:
        """Raises SourceError. A group that does not exist has committed nothing."""
        request = [ConsumerGroupTopicPartitions(group)]
        answer = self._answer(self._admin.list_consumer_group_offsets(request, **self._limit), topic)
        found = [p for p in answer.topic_partitions if p.topic == topic and p.error is None and p.offset >= 0]
        return {p.partition: p.offset for p in found if (p.metadata or "") == mark}

    def for_workers(self) -> ForWorkers:
        """librdkafka settings, with `client.id` and `isolation.level`; group settings are the reader's own affair."""
        secrets = {key: value for key, value in self._settings.items() if _SECRET.search(key)}
        return ForWorkers({key: value for key, value in self._settings.items() if key not in secrets}, secrets)

    @property
    def _limit(self) -> dict[str, float]:
        return {"request_timeout": self._timeout_s}

    @property
    def _admin(self) -> AdminClient:
        """One client for all threads: a second one that loses the race is destroyed under requests that it has sent."""
        with self._making:
            if self._client is None:
                quiet = {"log_level": "2", "error_cb": self._remember}
                admin = {key: value for key, value in self._settings.items() if key != "isolation.level"}
                try:
                    self._client = AdminClient(admin | quiet)
                except (KafkaException, TypeError, ValueError) as error:
                    reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
                    raise SourceError(f"the Kafka connection's settings are wrong: {reason}") from error
            return self._client

    def _remember(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # says less than the one before it
            self._reason = re.sub(r" \(after \d+ms in state \w+\)", "", error.str())

    def _list_offsets(
        self, topic: str, numbers: Iterable[int], spec: OffsetSpec, isolation: str
    ) -> dict[int, ListOffsetsResultInfo]:
        """One request to each leading broker, whatever the number of partitions; once more for those that move."""
        level = IsolationLevel.READ_COMMITTED if isolation == READ_COMMITTED else IsolationLevel.READ_UNCOMMITTED
        found: dict[int, ListOffsetsResultInfo] = {}
        missing = set(numbers)
        deadline = time.monotonic() + self._timeout_s
        while missing:
            wanted = {TopicPartition(topic, p): spec for p in missing}
            answers = self._admin.list_offsets(wanted, isolation_level=level, **self._limit)
            for partition, future in ((tp.partition, future) for tp, future in answers.items()):
                try:
                    found[partition] = self._result(future, topic)
                except KafkaException as error:
                    if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                        raise self._error(error.args[0], topic, partition) from error
            missing -= found.keys()
            if missing:
                time.sleep(_PAUSE_S)
        return found

    def _alter(self, group: str, partitions: list[TopicPartition]) -> TopicPartition | None:
        """The first partition whose offset was not taken."""
        request = [ConsumerGroupTopicPartitions(group, partitions)]
        answer = self._answer(self._admin.alter_consumer_group_offsets(request, **self._limit), partitions[0].topic)
        return next((p for p in answer.topic_partitions if p.error is not None), None)

    def _retention(self, topic: str) -> dict[str, Any]:
        """The fields of LogState about it; `deletes` is None if we are not allowed to know."""
        try:
            request = [ConfigResource(ResourceType.TOPIC, topic)]
            config = self._answer(self._admin.describe_configs(request, **self._limit), topic)
        except SourceUnavailable:
            raise
        except SourceError as error:
            log.warning("retention of topic %s is not known: %s", topic, error)
            return {"deletes": None}
        told = {name: int(config[name].value) for name in _LIMITS if name in config and config[name].value is not None}
        policy = config["cleanup.policy"].value if "cleanup.policy" in config else None
        if policy is None or not {"retention.ms", "retention.bytes"} <= told.keys():
            return {"deletes": None}  # some services show a part of the settings only
        deletes = "delete" in policy
        time, size = (told[name] if deletes and told[name] >= 0 else None for name in _LIMITS[:2])
        return {
            "retention_ms": time,
            "retention_bytes": size,
            "deletes": deletes,
            "segment_bytes": told.get("segment.bytes"),
        }

    def _answer(self, futures: Mapping[Any, Future[T]], topic: str) -> T:
        """The result of a request for one thing."""
        try:
            return self._result(next(iter(futures.values())), topic)
        except KafkaException as error:
            raise self._error(error.args[0], topic) from error

    def _result(self, future: Future[T], topic: str) -> T:
        """Raises KafkaException, and SourceUnavailable for a result that never comes."""
        try:
            return future.result(self._timeout_s + _GRACE_S)
        except TimeoutError:
            brokers = self._settings.get("bootstrap.servers", "")
            raise SourceUnavailable(
                f"Kafka at {brokers} has no answer for topic {topic} within {self._timeout_s:g} s"
            ) from None

    def _error(self, error: KafkaError, topic: str, partition: int | None = None) -> SourceError:
        place = f"topic {topic}" if partition is None else f"topic {topic}, partition {partition}"
        brokers = self._settings.get("bootstrap.servers", "")
        if error.code() in _UNREACHABLE:
            self._admin.poll(0)  # delivers what the client's threads have complained about
            return SourceUnavailable(f"Kafka at {brokers} has no answer for {place}: {self._reason or error.str()}")
        if error.code() in _UNKNOWN_TOPIC:
            return self._unknown(topic, brokers) if partition is None else SourceUnavailable(f"{place}: {error.str()}")
        return SourceError(f"Kafka at {brokers} refused {place}: {error.str()}")

    def _unknown(self, topic: str, brokers: str) -> SourceError:
        try:
            names = [name for name in self._admin.list_topics(timeout=self._timeout_s).topics if name[:2] != "__"]
        except KafkaException:
            names = []
        if topic in names:  # created or deleted this very moment
            return SourceUnavailable(f"Kafka at {brokers} does not yet answer for topic {topic}")
        near = difflib.get_close_matches(topic, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        message = f"Kafka at {brokers} has no topic {topic}{hint}"
        return SourceError(message, advice="create the topic, or fix source.topic (or the connection's ACLs)")


def _epoch(told: int | None) -> int | None:
    """Old brokers do not tell it."""
    return told if told is not None and told >= 0 else None


def connection_settings(extra: Mapping[str, Any]) -> dict[str, str]:
    """librdkafka settings as strings from a connection's extra; callbacks for other DAGs' clients are left out."""
    advice = "the extra of a Kafka connection is a librdkafka configuration as JSON"
    if not extra.get("bootstrap.servers"):
        raise SourceError("the Kafka connection's extra has no bootstrap.servers", advice=advice)
    if "oauth_cb" in extra:
        advice = "use sasl.oauthbearer.method=oidc with its client id and secret"
        raise SourceError("the Kafka connection's oauth_cb can't be handed to Spark's workers", advice=advice)
    settings = {}
    for key, value in extra.items():
        if key in _CALLBACKS:
            continue
        if isinstance(value, bool):
            value = str(value).lower()
        if not isinstance(value, str | int | float):
            raise SourceError(f"the Kafka connection's {key} is not a string or number", advice=advice)
        settings[key] = str(value)
    return settings


def opened(connection: Connection, source: pipeline.Source, client_id: str, timeout_s: float) -> KafkaSource:
    """Raises SourceError."""
    settings = connection_settings(connection.extra)
    return KafkaSource(settings, source.isolation, client_id=client_id, timeout_s=timeout_s)
