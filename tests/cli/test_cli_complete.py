"""`tidegate complete`, and what explain and status say of windows that another system's count holds."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

import pytest

from tests.cli.test_cli_commands import Tide, add_yaml, the_json, tide, world
from tests.world import T0, World, record, window
from tidegate.core.base.errors import NotReady
from tidegate.spec import load_file

__all__ = ["tide", "world"]  # fixtures

HOUR_1 = "2013-01-05T01:00Z"
SECTION = "completeness: {from: sql, conn_id: counts, query: 'select n from counts where at = :start'}\nsink:"


@pytest.fixture
def counts(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hour 1 has one row of ours, and two by another system."""
    add_yaml(world.folder, "readings", **{"sink:": SECTION})
    world.pipeline = load_file(world.folder / "pipelines/readings.yaml")
    path = world.folder / "counts.db"
    monkeypatch.setenv("AIRFLOW_CONN_COUNTS", json.dumps({"conn_type": "sqlite", "host": str(path)}))
    with sqlite3.connect(path) as c:
        c.execute("create table counts (at text, n int)")
    tell(path, 2)
    return path


def tell(path: Path, count: int) -> None:
    with sqlite3.connect(path) as c:
        c.execute("delete from counts")
        c.execute("insert into counts values ('2013-01-05 01:00:00', ?)", (count,))
    c.close()


def test_it_compares(tide: Tide, counts: Path) -> None:
    result = tide("complete", "readings", HOUR_1)
    assert result.exit_code == 1
    assert "short: 1 of 2 by counts (1 missing, 50.00 %); waits until it is complete or somebody" in result.output
    tell(counts, 1)
    result = tide("complete", "readings", HOUR_1)
    assert (result.exit_code, "complete: 1 of 1 by counts" in result.output) == (0, True)
    found = the_json(tide("complete", "readings", HOUR_1, "--json"))
    assert (found["comparison"]["verdict"], found["comparison"]["expected"]) == ("complete", 1)


def test_accepting_it(tide: Tide, world: World, counts: Path) -> None:
    assert tide("complete", "readings", HOUR_1, "--why", "lost at the gateway", input="n\n").exit_code == 1
    result = tide("complete", "readings", HOUR_1, "--why", "lost at the gateway", input="y\n")
    assert result.exit_code == 0, result.output
    assert "accepted: a run of readings.archive that waits goes on" in result.output
    event = the_json(tide("events", "readings", "-n", "1", "--json"))["events"][0]
    assert (event["what"], event["detail"]["why"]) == ("count accepted", "lost at the gateway")
    assert world.archive(1).rows == 1
    result = tide("explain", "readings", HOUR_1)
    words = " ".join(result.output.split())
    assert "short: 1 of 2 by counts (1 missing, 50.00 %); accepted: lost at the gateway" in words
    result = tide("complete", "readings", HOUR_1, "--why", "again", "--yes")
    assert (result.exit_code, "is closed already" in result.output) == (1, True)


def test_what_was_accepted_stays_so_however_often_it_is_said(tide: Tide, counts: Path) -> None:
    assert tide("complete", "readings", HOUR_1, "--why", "lost at the gateway", "--yes").exit_code == 0
    result = tide("complete", "readings", HOUR_1)
    assert (result.exit_code, "accepted: lost at the gateway" in result.output) == (0, True)
    again = tide("complete", "readings", HOUR_1, "--why", "another reason")
    assert (again.exit_code, "it was accepted before" in again.output) == (0, True), again.output
    assert "accepted: lost at the gateway" in again.output
    assert the_json(tide("complete", "readings", HOUR_1, "--json"))["comparison"]["accepted"] == "lost at the gateway"


def test_a_window_before_the_first_has_no_watermark_to_wait_for(tide: Tide, counts: Path) -> None:
    result = tide("complete", "readings", "2013-01-04T20:00Z")
    assert (result.exit_code, "ends before windows.start" in result.output) == (1, True)
    assert "watermark" not in result.output


def test_what_is_complete_needs_no_word(tide: Tide, counts: Path) -> None:
    tell(counts, 1)
    result = tide("complete", "readings", HOUR_1, "--why", "to be sure", "--yes")
    assert (result.exit_code, "there is nothing to accept" in result.output) == (1, True)


def test_a_window_is_not_asked_for_before_its_watermark_has_passed(tide: Tide, world: World, counts: Path) -> None:
    """Both counts may be equal by then and still grow: that answer would be taken for the last one."""
    result = tide("complete", "readings", "2013-01-05T02:00Z")
    assert result.exit_code == 1
    assert "its count is not asked for" in result.output
    ledger = world.context().ledger
    assert ledger.truths.known("readings", window(2), ("data",))[1] is None


def test_what_nobody_answers_is_said(tide: Tide, counts: Path) -> None:
    counts.unlink()
    result = tide("complete", "readings", HOUR_1)
    assert (result.exit_code, "unknown: counts: there is no file" in result.output) == (1, True)


def test_a_pipeline_that_asks_nobody(tide: Tide) -> None:
    result = tide("complete", "readings", HOUR_1)
    assert (result.exit_code, "has no section `completeness`" in result.output) == (2, True)


def test_explain_and_status_show_what_is_held(tide: Tide, world: World, counts: Path) -> None:
    tide("complete", "readings", HOUR_1)
    result = tide("explain", "readings", HOUR_1)
    words = " ".join(result.output.split())
    assert "not ready: short: 1 of 2 by counts (1 missing, 50.00 %)" in words
    assert f"tidegate complete readings {HOUR_1} --why '...'" in words
    found = the_json(tide("explain", "readings", HOUR_1, "--json"))
    assert found["now"]["completeness"]["verdict"] == "short"
    status = the_json(tide("status", "readings", "--json"))["pipelines"][0]
    assert (status["held_count"], status["held"][0]["verdict"]) == (1, "short")
    assert [c["what"] for c in status["concerns"]] == [], "it has waited for less than archive.sla"
    assert "short: 1 of 2" in " ".join(tide("status", "readings").output.split())


def test_what_is_held_for_long_is_a_concern_of_its_own(tide: Tide, world: World, counts: Path) -> None:
    """And no advice to unpause what is not paused."""
    world.truth.counts[T0 + 3_600_000] = 2
    with pytest.raises(NotReady, match="short: 1 of 2"):
        world.archive(1)
    (concern,) = the_json(tide("status", "readings", "--json"))["pipelines"][0]["concerns"]
    assert concern["what"].startswith(
        "1 window is held by another system's count, the oldest (2013-01-05T01:00Z): short"
    )
    assert "tidegate complete readings 2013-01-05T01:00Z --why '...'" in concern["advice"]
    world.produce(record("another", 1.5))
    world.ingest("readings.ingest/r9")
    world.clock.advance(3_600_000)
    assert world.archive(1).rows == 2
    assert the_json(tide("status", "readings", "--json"))["pipelines"][0]["concerns"] == []


def test_what_is_held_makes_no_other_window_look_overdue(tide: Tide, world: World, counts: Path) -> None:
    """The next hours became ready this minute; the held one was ready long ago."""
    world.truth.counts[T0 + 3_600_000] = 2
    with pytest.raises(NotReady, match="short: 1 of 2"):
        world.archive(1)
    world.clock.advance(time.time_ns() // 1_000_000 - world.clock.now_ms())
    world.produce(record("later", 9.5))
    world.ingest("readings.ingest/r9")
    status = the_json(tide("status", "readings", "--json"))["pipelines"][0]
    assert (status["held_count"], status["due_count"] > 2) == (1, True)
    (concern,) = status["concerns"]
    assert concern["what"].startswith("1 window is held by another system's count")
