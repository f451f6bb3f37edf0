"""`tidegate reopen` as an operator types it: words, JSON and exit codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.test_cli_commands import Tide, add_yaml, the_json, tide, world
from tests.world import World, record, window
from tidegate.cli import surroundings
from tidegate.core.base.errors import CatalogueError
from tidegate.spec import load_file
from tidegate.targets.hive import partitions
from tidegate.workflow.late import reopen
from tidegate.workflow.publish import archive

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
    status = working("status", "readings", "--no-kafka").stdout
    assert "+ late 2 + dirty 1 + filtered 0 + dropped 0; of the late rows 0 still wait" in " ".join(status.split())
    assert the_json(working("status", "readings", "--json"))["pipelines"][0]["late_now"] == 0
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


# ---------------------------------------------------------------- a range


def three_hours(world: World) -> None:
    """Late rows wait for hours 0 and 1, which are published; none for hour 2, which is not."""
    world.archive(1)
    world.produce(record("late 3", 1.2))
    world.ingest("readings.ingest/r3")


def outcomes_of(found: dict[str, Any]) -> list[tuple[str, int | None]]:
    return [(w["outcome"], w["generation"]) for w in found["windows"]]


RANGE = ("reopen", "readings", "-s", HOUR_0, "-e", "2013-01-05T02:00Z")


def test_a_range_takes_up_what_waits_and_leaves_the_rest_alone(working: Tide, world: World) -> None:
    three_hours(world)
    before = world.files()
    dry = working(*RANGE, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert dry.stdout.splitlines()[2] == "3 windows: 3 late rows of 2 of them would be taken up"
    assert world.files() == before
    done = working(*RANGE, "--why", "they matter")
    assert done.exit_code == 0, done.output
    assert done.stdout == "3 windows: 2 reopened, 1 without late rows\n"
    assert "[1 of 3] 2013-01-05T00:00Z reopened: generation 2, 4 rows" in done.stderr
    assert world.table("__late") == []
    again = working(*RANGE, "--json")
    assert (again.exit_code, outcomes_of(the_json(again))) == (0, [("without late rows", None)] * 3)
    audited = the_json(working("audit", "readings", "--json", "-q"))
    assert (audited["problems"], audited["balanced"]) == ([], True)


def test_one_window_that_is_refused_stops_no_other(working: Tide, world: World) -> None:
    """Hour 0 has two late rows, one more than its budget, hour 1 has one."""
    three_hours(world)
    path = world.folder / "pipelines/readings.yaml"
    path.write_text(path.read_text() + "\nlate: {reopen_rows: 1}\n")
    world.pipeline = load_file(path)
    assert working(*RANGE, "--dry-run").exit_code == 1
    stopped = working(*RANGE, "--stop-on-failure")
    assert stopped.exit_code == 1
    assert stopped.stdout.startswith("3 windows: 1 refused, 1 left, 1 without late rows\n")
    assert "2013-01-05T01:00Z left: not begun: readings 2013-01-05T00:00Z is over its budget" in stopped.stdout
    assert "what to do: the same command goes on with the rest" in stopped.stdout
    done = working(*RANGE, "--json")
    expected = [("refused", None), ("reopened", 2), ("without late rows", None)]
    assert (done.exit_code, outcomes_of(the_json(done))) == (1, expected)
    assert working(*RANGE, "--over-budget", "--why", "once", "--dry-run").exit_code == 0
    last = working(*RANGE, "--over-budget", "--why", "once")
    assert (last.exit_code, last.stdout) == (0, "3 windows: 1 reopened, 2 without late rows\n")


def test_late_rows_of_a_window_that_was_never_published(working: Tide, world: World) -> None:
    """Hour 1 is closed, so that its row is late, and not in the table yet."""
    ctx = world.context()
    archive.close(ctx, window(1))
    world.produce(record("late 3", 1.2))
    world.ingest("readings.ingest/r3")
    assert working(*RANGE, "--dry-run").exit_code == 1
    done = working(*RANGE)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (1, "3 windows: 1 reopened, 1 refused, 1 without late rows")
    assert "01:00Z refused: readings 2013-01-05T01:00Z was never published" in done.stdout


def test_ctrl_c_and_the_same_command_goes_on_with_the_rest(
    working: Tide, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_hours(world)
    real, calls = partitions.align, list[int]()

    def interrupted(*args: Any) -> list[str]:
        calls.append(1)
        if len(calls) == 2:  # in the middle of the second window
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(partitions, "align", interrupted)
    first = working(*RANGE)
    assert first.exit_code == 130
    assert first.stdout.startswith("3 windows: 1 reopened, 2 left\n")
    assert "01:00Z left: interrupted\n    what to do: the same command goes on with the rest" in first.stdout
    second = working(*RANGE)
    assert (second.exit_code, second.stdout) == (0, "3 windows: 2 without late rows, 1 reopened\n"), second.output
    assert world.table("__late") == []
    assert the_json(working("audit", "readings", "--json", "-q"))["problems"] == []


def no_answer(*_: Any) -> Any:
    raise CatalogueError("connection refused")


def test_hive_that_gives_no_answer_is_asked_for_a_few_windows_only(
    working: Tide, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_hours(world)
    monkeypatch.setattr(reopen, "SILENT_AT_MOST", 1)
    with monkeypatch.context() as down:
        down.setattr(world.catalogue, "partitions", no_answer)
        done = working(*RANGE, "--json")
    found = the_json(done)
    assert (done.exit_code, outcomes_of(found)) == (3, [("failed", None), ("left", None), ("without late rows", None)])
    assert found["windows"][1]["advice"] == "the same command goes on with the rest"
    assert working(*RANGE).exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((HOUR_0, "-s", HOUR_0), "name one WINDOW, or a range"),
        (("-e", HOUR_0), "-e needs -s"),
        ((HOUR_0, "--stop-on-failure"), "needs a range"),
        (("-s", "2013-01-05T01:00Z", "-e", HOUR_0), "is before"),
        (("-s", "2012-01-01"), "is before windows.start"),
    ],
)
def test_usage_of_a_range(tide: Tide, words: tuple[str, ...], said: str) -> None:
    result = tide("reopen", "readings", *words)
    assert (result.exit_code, said in result.output) == (2, True), result.output
