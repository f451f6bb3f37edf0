"""What the maintenance task tells Airflow's metrics and the log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pytest
from airflow.metrics.validators import stat_name_default_handler
from airflow.stats import Stats

from tests.world import HOUR, TOPIC, World
from tidegate.airflow import gauges
from tidegate.core.files.slow_path import LIBRARY
from tidegate.core.look.measures import FAMILIES, SUMMARY, Measure

DAY = 24 * HOUR
NAMES = [n for f, (kind, _) in FAMILIES.items() for n in ((f,) if kind != SUMMARY else (f"{f}_sum", f"{f}_count"))]
LOG = logging.getLogger("task")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[Any, float]:
    found: dict[Any, float] = {}

    def gauge(name: str, value: float, tags: dict[str, str] | None = None) -> None:
        stat_name_default_handler(name)
        found[name if tags is None else (name, *tags.items())] = value

    monkeypatch.setattr(Stats, "gauge", gauge, raising=False)
    return found


def test_without_tags_the_pipeline_is_part_of_the_name(sent: dict[Any, float]) -> None:
    gauges.send([
        Measure("tidegate_lag_records", (("pipeline", "a"),), 7),
        Measure("tidegate_records_total", (("pipeline", "a"), ("fate", "late")), 3),
        Measure("tidegate_slow_records", (("pipeline", "a"), ("reason", LIBRARY)), 4),
    ])  # fmt: skip
    names = ("tidegate.lag_records.a", "tidegate.records_total.late.a", "tidegate.slow_records.no_library.a")
    assert sent == dict(zip(names, (7, 3, 4), strict=True))


class Ti:
    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        json.dumps(value)
        self.pushed[key] = value


@pytest.mark.parametrize("key", ["OTEL_ON", "STATSD_DATADOG_ENABLED", "STATSD_INFLUXDB_ENABLED"])
def test_tags_where_they_are_sent(sent: dict[Any, float], monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv(f"AIRFLOW__METRICS__{key}", "True")
    gauges.send([Measure("tidegate_records_total", (("pipeline", "a"), ("fate", "late")), 3)])
    assert sent == {("tidegate.records_total", ("pipeline", "a"), ("fate", "late")): 3}


def test_every_name_is_one_that_airflow_takes(sent: dict[Any, float]) -> None:
    longest = "p" * 150
    gauges.send(Measure(name, (("pipeline", longest), ("fate", "filtered")), 1) for name in NAMES)
    assert len(sent) == len(NAMES)


def late(world: World, days: float) -> None:
    world.kafka.create(TOPIC, 1, retention_ms=7 * DAY)
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=1))
    at = world.clock.now_ms() - int(days * DAY)
    for i in range(4):
        value = json.dumps({"id": f"r{i}", "at": at, "site": "a", "value": i}).encode()
        world.kafka.append(TOPIC, 0, value, timestamp_ms=at)
    for i in range(2):
        world.ingest(f"r{i}")
        world.clock.advance(HOUR)


@pytest.mark.parametrize(("days", "level", "said"), [(6.8, "ERROR", "critical"), (6.2, "WARNING", "warn")])
def test_a_loss_ahead_is_said_in_the_log(world, sent, caplog, days: float, level: str, said: str) -> None:
    late(world, days)
    ti = Ti()
    gauges.tell(world.context(), ti, LOG)
    shown = ti.pushed["time_to_loss"]
    assert (shown["level"], shown["text"][:32]) == (said, "partition 0 loses unread records")
    first, second = [r for r in caplog.records if r.name == "task"]
    assert first.levelname == second.levelname == level
    assert first.message.startswith(f"time to loss: {said}: partition 0 loses unread records in about")
    assert "kafka-configs" in second.message
    assert sent["tidegate.lag_records.readings"] == 2
    assert sent["tidegate.loss_level.readings"] == {"critical": 2, "warn": 1}[said]
    assert sent["tidegate.time_to_loss_seconds.readings"] == pytest.approx((7 - days) * 86_400 - 7_200, abs=60)


def test_nothing_to_say_is_not_said(world, sent, caplog) -> None:
    late(world, 1)
    ti = Ti()
    gauges.tell(world.context(), ti, LOG)
    assert ti.pushed["time_to_loss"]["level"] == "ok"
    assert [r for r in caplog.records if r.name == "task"] == []
    assert sent["tidegate.loss_level.readings"] == 0


def test_a_broker_or_a_ledger_that_is_away_fails_no_task(world, sent, caplog) -> None:
    late(world, 6.8)
    world.kafka.unavailable = True
    ti = Ti()
    gauges.tell(world.context(), ti, LOG)
    assert ti.pushed == {}
    assert sent["tidegate.kafka_ok.readings"] == 0
    assert sent["tidegate.records_read_total.readings"] == 2
    ctx = world.context()
    world.database.unlink()
    world.database.write_bytes(b"not a database at all, whatever its name may say")
    world.close()
    gauges.tell(ctx, ti, LOG)
    assert "nothing is measured" in caplog.records[-1].message
