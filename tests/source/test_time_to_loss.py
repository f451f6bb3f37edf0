"""Time to loss as the ledger and Kafka give it: in the survey, in `tidegate status`, in `tidegate metrics`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.cli.test_cli_commands import add_yaml, write_env
from tests.world import HOUR, TOPIC, World
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.core.look.status import PipelineStatus
from tidegate.core.source.loss_forecast import AHEAD, NEVER, PASSING
from tidegate.core.source.loss_warning import CRITICAL, OK, UNKNOWN, WARN
from tidegate.core.source.progress import Look
from tidegate.spec import load_file
from tidegate.workflow.batch import ingest
from tidegate.workflow.look.status import status

NAME, MINUTE = "readings", 60_000
DAY = 24 * HOUR


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    add_yaml(tmp_path, NAME)
    made = World(tmp_path, load_file(tmp_path / "pipelines/readings.yaml"))
    write_env(tmp_path, made.database)
    yield made
    made.close()


def keep(world: World, **settings: object) -> None:
    """A topic of one partition, as no test has written to it yet."""
    world.kafka.create(TOPIC, 1, **({"retention_ms": 7 * DAY} | settings))  # type: ignore[arg-type]


def write(world: World, count: int, *, behind_ms: int = 0, key: bytes | None = b"k") -> None:
    """Records that are `behind_ms` old by Kafka's timestamps."""
    at = world.clock.now_ms() - behind_ms
    for i in range(count):
        value = json.dumps({"id": f"r{i}", "at": at, "site": "a", "value": i}).encode()
        world.kafka.append(TOPIC, 0, value, key=key, timestamp_ms=at)


def look(world: World) -> PipelineStatus:
    ctx = world.context()
    return status(ctx, ctx.ledger.reads, world.kafka.look(TOPIC))


def limited(world: World, most: int, **source: object) -> None:
    world.change_spec(
        ingest=replace(world.pipeline.ingest, max_records=most), source=replace(world.pipeline.source, **source)
    )


def test_what_was_read_is_in_the_ledger(world: World) -> None:
    keep(world)
    write(world, 3, behind_ms=5_000)
    world.kafka.append(TOPIC, 0, b"not json", timestamp_ms=world.clock.now_ms() - 1_000)
    world.kafka.append(TOPIC, 0, None, key=b"only a key", timestamp_ms=-1)
    size = sum(len(r.value or b"") + len(r.key or b"") for r in world.kafka.records(TOPIC, 0))
    planned_at = world.clock.now_ms()
    world.ingest("r1")
    ledger = world.context().ledger
    found = ledger.reads.survey([NAME, "nobody"], world.clock.now_ms())
    assert list(found) == [NAME]
    progress = found[NAME].progress
    assert progress.newest == progress.landed
    assert progress.base is None
    assert progress.landed is not None
    assert (progress.landed.batch_id, progress.landed.is_read) == (1, True)
    assert progress.landed.clock_ms == planned_at
    assert progress.landed.partitions == {
        0: Look(
            start=0,
            end=5,
            log_start=0,
            high_watermark=5,
            read=5,
            bytes=size,
            max_kafka_ms=planned_at - 1_000,
            open_transaction_since_ms=None,
            last_stable_offset=5,
        )
    }
    assert found[NAME].totals.ingested.bytes == size
    assert found[NAME].facts == ledger.windows.facts(NAME)
    assert found[NAME].progress == ledger.reads.progress([NAME], world.clock.now_ms())[NAME]


def test_the_pace_is_measured_from_the_batch_an_hour_ago(world: World) -> None:
    keep(world)
    for i in range(9):
        write(world, 1)
        world.ingest(f"r{i}")
        world.clock.advance(20 * MINUTE)
    now = world.clock.now_ms()
    reads = world.context().ledger.reads
    progress = reads.progress([NAME], now)[NAME]
    assert progress.landed is not None
    assert progress.base is not None
    assert progress.landed.batch_id == 9
    assert progress.base.landed_ms is not None
    assert now - progress.base.landed_ms == HOUR
    assert progress.base.batch_id == 7
    later = reads.progress([NAME], now + 9 * HOUR)[NAME]
    assert later.base is not None
    assert later.base.batch_id == 8, "never the newest one itself"
    young = reads.progress([NAME], now - 5 * HOUR)[NAME]
    assert young.base is not None
    assert young.base.batch_id == 1, "the oldest, if all are younger than an hour"


def test_a_batch_that_is_under_way_is_unread(world: World) -> None:
    keep(world)
    write(world, 4)
    world.ingest("r1")
    world.clock.advance(10 * MINUTE)
    write(world, 3)
    ingest.plan(world.context(), "r2")
    found = look(world).loss
    assert found is not None
    assert found.partitions[0].unread == 3
    assert found.level == OK
    assert found.stopped_ms == 7 * DAY - 10 * MINUTE


def behind(world: World, **source: object) -> None:
    """6.9 days behind; a batch each half an hour reads a quarter of an hour's records."""
    keep(world)
    limited(world, 15, **source)
    old = int(6.9 * DAY)
    for i in range(200):
        write(world, 1, behind_ms=old - i * MINUTE)
    for i in range(4):
        world.ingest(f"r{i}")
        world.clock.advance(30 * MINUTE)


def test_a_pipeline_that_falls_behind_is_told_when_it_loses_records(world: World) -> None:
    behind(world)
    found = look(world)
    assert found.loss is not None
    (one,) = found.loss.partitions
    assert (one.state, one.limit, one.unread) == (AHEAD, "time", 140)
    # 2.4 h were left at first; in two hours of clock one hour of records was read
    assert found.loss.stopped_ms == pytest.approx(1.4 * HOUR, abs=2 * MINUTE)
    assert found.loss.at_pace_ms == pytest.approx(2.8 * HOUR, abs=10 * MINUTE)
    assert found.loss.level == CRITICAL
    assert not found.well
    assert "partition 0 loses unread records in about" in found.concerns[0].what
    assert "retention.ms" in found.concerns[0].advice


def test_the_warning_is_as_early_as_the_spec_says(world: World) -> None:
    behind(world, loss_warning_ms=3 * HOUR)
    found = look(world)
    assert found.loss is not None
    assert (found.loss.level, found.well) == (WARN, True)
    limited(world, 15, loss_warning_ms=None)
    off = look(world)
    assert off.loss is not None
    assert (off.loss.level, off.well) == ("off", True)
    assert off.loss.at_pace_ms == found.loss.at_pace_ms


def test_records_that_retention_has_passed_are_an_alarm(world: World) -> None:
    behind(world)
    world.kafka.trim(TOPIC, 0, 61)
    found = look(world)
    assert found.loss is not None
    assert (found.loss.partitions[0].state, found.loss.level) == (PASSING, CRITICAL)
    assert len(found.concerns) == 1, "what is gone is said once"
    limited(world, 15, on_data_loss="record")
    world.ingest("after the loss")
    after = look(world)
    assert after.loss is not None
    assert (after.loss.partitions[0].state, after.loss.partitions[0].unread) == (AHEAD, 124)
    assert after.survey is not None
    assert after.survey.lost == 1


def test_a_batch_that_was_given_up_is_not_waited_for(world: World) -> None:
    from tidegate.workflow.maintain.reconcile import abandon

    behind(world)
    ingest.plan(world.context(), "given up")
    abandon(world.context(), 5, "its offsets will be gone", force=True)
    world.kafka.trim(TOPIC, 0, 75)
    found = look(world).loss
    assert found is not None
    assert (found.partitions[0].state, found.partitions[0].unread) == (AHEAD, 125)


@pytest.mark.parametrize(
    ("settings", "state"),
    [({"deletes": False}, NEVER), ({"deletes": None}, UNKNOWN), ({"retention_ms": None}, NEVER)],
)
def test_topics_without_retention_or_rights(world: World, settings: dict, state: str) -> None:
    keep(world, **settings)
    write(world, 5, behind_ms=30 * DAY)
    world.ingest("r1")
    write(world, 5, behind_ms=30 * DAY)
    found = look(world)
    assert found.loss is not None
    assert (found.loss.partitions[0].state, found.well) == (state, True)


def test_another_topic_of_the_same_name_is_said_once(world: World) -> None:
    behind(world)
    keep(world)
    write(world, 500, behind_ms=30 * DAY)
    found = look(world)
    assert found.loss is not None
    assert found.loss.level == UNKNOWN
    assert len(found.concerns) == 1


# ---------------------------------------------------------------- the command


@pytest.fixture
def tide(world: World, monkeypatch: pytest.MonkeyPatch):
    for name in [n for n in os.environ if n.startswith(("AIRFLOW", "TIDEGATE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(surroundings, "source", lambda pipeline, timeout_s=1.0: world.kafka)
    monkeypatch.setattr("tidegate.adapters.clock.SystemClock.now_ms", lambda self: world.clock.now_ms())

    def run(*arguments: str) -> Result:
        world.close()
        return CliRunner().invoke(main, arguments)

    return run


def test_status_says_it(tide, world: World) -> None:
    behind(world)
    add_yaml(world.folder, NAME, **{"schedule: null": "schedule: null, max_records: 15"})
    short = tide("status")
    assert short.exit_code == 1
    assert "loss in" in short.output
    whole = " ".join(tide("status", NAME).output.split())
    assert "critical: partition 0 loses unread records in about" in whole
    assert "(retention 7.0 days, 6.9 days behind, 140 unread)" in whole
    assert "kafka-configs --bootstrap-server ... --alter --entity-type topics --entity-name readings" in whole
    plain = json.loads(tide("status", NAME, "--json").output)["pipelines"][0]["time_to_loss"]
    assert (plain["level"], plain["partitions"][0]["unread"]) == ("critical", 140)
    assert plain["seconds"] == pytest.approx(2.8 * 3600, abs=600)
    assert plain["seconds_if_stopped"] == pytest.approx(1.4 * 3600, abs=120)
    silent = json.loads(tide("status", NAME, "--json", "--no-kafka").output)["pipelines"][0]
    assert silent["time_to_loss"] is None


def test_a_warning_says_what_to_do_and_leaves_the_exit_code(tide, world: World) -> None:
    add_yaml(world.folder, NAME, **{"topic: readings": "topic: readings, loss_warning: 3h"})
    behind(world)
    whole = tide("status", NAME)
    assert whole.exit_code == 0
    assert "warn: partition 0 loses" in " ".join(whole.output.split())
    assert "first let Kafka keep them" in whole.output
    assert "readings: warn: partition 0 loses" in " ".join(tide("status").output.split())
