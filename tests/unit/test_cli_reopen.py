"""`tidegate reopen` as an operator types it: words, JSON and exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.test_cli_commands import Tide, add_yaml, the_json, tide, world
from tests.world import World, record
from tidegate.commands import surroundings
from tidegate.spec import load_file

__all__ = ["tide", "world"]
HOUR_0 = "2013-01-05T00:00Z"


@pytest.fixture
def working(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> Tide:
    """The command's context is the world's. Two rows came late for hour 0, which is published."""

    @contextmanager
    def in_the_world(_pipeline: object, say: Callable[[str], None]) -> Iterator[Any]:
        world.pipeline = load_file(world.folder / "pipelines/readings.yaml")
        ctx = world.context()
        ctx.say = say
        yield ctx
        world.close()

    monkeypatch.setattr(surroundings, "working", in_the_world)
    monkeypatch.setattr(surroundings, "context", lambda pipeline, ledger, say=None: world.context())
    world.produce(record("late 1", 0.2), record("late 2", 0.3, "new"))
    world.ingest("readings.ingest/r2")
    return tide


def test_it_lists_what_waits(working: Tide) -> None:
    result = working("reopen", "readings")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("2013-01-05T00:00Z: 2 late rows of 1 batch wait since 2013-01-09T04:00Z; ")
    (found,) = the_json(working("reopen", "readings", "--json"))["windows"]
    assert (found["rows"], found["batches"], found["over_budget"]) == (2, [{"batch_id": 2, "rows": 2}], [])


def test_a_dry_run_changes_nothing(working: Tide, world: World) -> None:
    before = world.files()
    result = working("reopen", "readings", HOUR_0, "--dry-run")
    assert (result.exit_code, result.stdout.splitlines()[1:]) == (0, ["  batch 2: 2 rows"])
    assert the_json(working("reopen", "readings", HOUR_0, "--dry-run", "--json"))["generation"] == 1
    assert world.files() == before


def test_it_reopens(working: Tide, world: World) -> None:
    result = working("reopen", "readings", "date=2013-01-05/hour=00", "--why", "they matter")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("generation 2 is in force: 4 rows at file:///")
    assert world.table("__late") == []
    begun = the_json(working("events", "readings", "--json", "-n", "100"))["events"]
    assert [e["detail"]["why"] for e in begun if e["what"] == "generation begun"] == ["they matter"]
    audited = the_json(working("audit", "readings", "--json", "-q"))
    assert (audited["problems"], audited["balanced"], audited["late"]) == ([], True, 2)
    assert working("reopen", "readings").stdout == "readings: no late rows wait\n"


def test_json(working: Tide) -> None:
    found = the_json(working("reopen", "readings", HOUR_0, "--json"))
    assert (found["generation"], found["new"], found["rows"]) == (2, True, 4)


def test_over_budget(working: Tide, world: World) -> None:
    add_yaml(world.folder, "readings")
    path = world.folder / "pipelines/readings.yaml"
    path.write_text(path.read_text() + "\nlate: {reopen_rows: 1}\n")
    refused = working("reopen", "readings", HOUR_0)
    assert refused.exit_code == 1
    assert "2 late rows wait (late.reopen_rows: 1)" in refused.output
    without = working("reopen", "readings", HOUR_0, "--over-budget")
    assert (without.exit_code, "--over-budget needs --why" in without.output) == (2, True)
    assert working("reopen", "readings", HOUR_0, "--over-budget", "--why", "once").exit_code == 0


def test_a_window_that_was_never_published(working: Tide) -> None:
    result = working("reopen", "readings", "2013-01-05T03:00Z")
    assert result.exit_code == 1
    assert "was never published: there is nothing to reopen" in result.output
    assert "airflow dags backfill readings.archive -s 2013-01-05T03:00Z -e 2013-01-05T03:00Z" in result.output


def test_late_rows_before_the_first_window_stay_where_they_are(working: Tide, world: World) -> None:
    """Nobody is told to publish it: a backfill refuses what is before `windows.start`."""
    world.produce(record("too early", -4.5))
    world.ingest("readings.ingest/r3")
    (listed, _) = working("reopen", "readings").stdout.splitlines()
    assert listed.endswith("; it ends before windows.start: they stay in lake.readings__late")
    result = working("reopen", "readings", "2013-01-04T19:00Z")
    assert result.exit_code == 1
    assert "ends before windows.start" in result.output
    assert "query lake.readings__late" in result.output
    assert "backfill" not in result.output


def test_not_a_window(working: Tide) -> None:
    assert working("reopen", "readings", "yesterday").exit_code == 2
