"""`tidegate explain`: an hour's state, why, and how a window may be named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.test_cli_commands import Tide, add_yaml, the_json, tide, world
from tests.world import TOPIC, World, record, window
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive

__all__ = ["tide", "world"]  # fixtures


def test_explain_a_published_hour(tide: Tide, world: World) -> None:
    world.produce(record("late", 0.7))
    world.ingest("r2")
    result = tide("explain", "readings", "2013-01-05T00")
    assert result.exit_code == 0
    assert "published: generation 1 (archive), 2 rows; rows that came late (1) are in lake.readings__late" in (
        " ".join(result.output.split())
    )
    assert "airflow dags backfill readings.replay -s 2013-01-05T00:00Z -e 2013-01-05T00:00Z" in result.output
    assert "date=2013-01-05/hour=00" in result.output
    assert "0: 2 in [0, 1]" in result.output


def test_explain_an_hour_that_is_ready_and_one_that_is_not(tide: Tide) -> None:
    ready = tide("explain", "readings", "2013-01-05T01:30")
    assert ready.exit_code == 1
    assert "ready, but no run has published it" in ready.output
    assert (
        "next         airflow dags backfill readings.archive -s 2013-01-05T01:00Z -e 2013-01-05T01:00Z" in ready.output
    )
    blocked = tide("explain", "readings", "2013-01-05T03")
    assert blocked.exit_code == 1
    words = " ".join(blocked.output.split())
    assert "blocked by 2 of 2: partition 0: last event" in words
    assert "expected readiness unknown: there are no two batches to measure a pace by" in words
    assert "1 blocks" in blocked.output


def test_explain_a_closing_hour_names_the_batch_that_must_land(tide: Tide, world: World) -> None:
    world.produce(record("more", 1.9))
    ctx = world.context()
    ingest.plan(ctx, "r2")
    with pytest.raises(Exception, match="batch 2"):
        archive.close(ctx, window(1))
    found = the_json(tide("explain", "readings", "2013-01-05T01", "--json"))
    assert (found["state"], found["waits_for"], found["published"]) == ("CLOSING", [2], False)
    assert found["stored"]["ready"] is True
    assert "closing, waits for batch 2" in found["summary"]


def test_explain_does_not_store_a_certificate(tide: Tide, world: World) -> None:
    tide("explain", "readings", "2013-01-05T03")
    assert world.context().ledger.windows.certificate("readings", window(3)) is None


@pytest.mark.parametrize(
    "text",
    [
        "2013-01-05T01",
        "2013-01-05T01:00",
        "2013-01-05T01:59:59Z",
        "2013-01-05T02:00+01:00",
        "20130105T010000Z",
        "date=2013-01-05/hour=01",
        "date=2013-01-05/hour=01/site=a",
    ],
)
def test_a_window_by_many_names(tide: Tide, text: str) -> None:
    found = the_json(tide("explain", "readings", text, "--json"))
    assert found["window"]["start"] == "2013-01-05T01:00Z"


@pytest.mark.parametrize(
    "text", ["yesterday", "2013-13-01", "hour=01", "date=2013-01-05", "date=x/hour=1", "20130105T01Z"]
)
def test_what_is_no_window(tide: Tide, text: str) -> None:
    result = tide("explain", "readings", text)
    assert result.exit_code == 2
    assert "is neither an instant" in result.output


def test_partitions_are_local_and_the_second_hour_of_a_change_of_clocks_has_its_own(tide: Tide, world: World) -> None:
    add_yaml(world.folder, "berlin", "Europe/Berlin")
    names = {}
    for hour in ("date=2013-10-27/hour=02", "date=2013-10-27/hour=02-fold", "date=2013-10-27/hour=03"):
        names[hour] = the_json(tide("explain", "berlin", hour, "--json"))["window"]["start"]
    assert list(names.values()) == ["2013-10-27T00:00Z", "2013-10-27T01:00Z", "2013-10-27T02:00Z"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("date=2013-03-31/hour=02", "clocks of Europe/Berlin"),  # the hour that is skipped
        ("date=2013-03-31/hour=03-fold", "clocks of Europe/Berlin"),  # comes once
        ("date=2013-10-27/hour=01-fold", "clocks of Europe/Berlin"),
    ],
)
def test_a_partition_that_no_window_has_is_told_from_what_is_none(
    tide: Tide, world: World, text: str, why: str
) -> None:
    add_yaml(world.folder, "berlin", "Europe/Berlin")
    result = tide("explain", "berlin", text)
    assert result.exit_code == 2
    assert "is neither" not in result.output
    assert f"no window has the partition {text}" in " ".join(result.output.split())
    assert why in result.output


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("text", ["9999-12-31T23", "9999-12-31T23:30+01:00", "0001-01-01T00", "0001-01-01T00+01:00"])
def test_the_ends_of_the_calendar_are_no_defect(tide: Tide, world: World, zone: str, text: str) -> None:
    add_yaml(world.folder, "far", zone)
    result = tide("explain", "far", text)
    assert "defect" not in result.output, result.output
    assert result.exit_code in (1, 2)


def test_a_watermark_that_has_fallen_back_says_nothing_of_a_published_hour(tide: Tide, world: World) -> None:
    world.kafka.add_partitions(TOPIC, 3)
    world.produce(record("old", 0.1), record("older", 0.0), partition=2)
    world.change_spec(ingest=replace(world.pipeline.ingest, max_records=1))
    world.ingest("r2")
    result = tide("explain", "readings", "2013-01-05T00")
    assert result.exit_code == 0
    assert "not ready" not in result.output
    assert the_json(tide("explain", "readings", "2013-01-05T00", "--json"))["now"]["ready"] is False
