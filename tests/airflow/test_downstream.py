"""What consumers have: a dataset by name, a sensor for their own data interval, a command; and what waits look like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import airflow_home  # noqa: F401  (before airflow)
import pytest
from airflow.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout, TaskDeferred
from click.testing import CliRunner, Result

from tests.world import HOUR, T0, World, record, window
from tidegate.cli.main import main
from tidegate.core.base.errors import SpecError
from tidegate.core.spec.pipeline import Windows
from tidegate.core.window.states import WindowKey
from tidegate.core.window.waits import MOST_ASKED, Look, PublishedWait, Standing
from tidegate.downstream import WindowPublishedSensor, table, window_published
from tidegate.workflow.base.context import Context
from tidegate.workflow.window import waits

HOURLY = Windows(size_ms=HOUR, timezone="UTC", start_ms=T0, watermark_delay_ms=HOUR, idle="follow")
DAY = 24 * HOUR


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Hours 0 to 8 are ready, 0 and 1 are published; the ledger is known by its connection only."""
    made = World(tmp_path)
    made.produce(record("a", 0.5), record("b", 1.5), record("later", 10))
    made.produce(record("later", 10), partition=1)
    made.ingest("r1")
    made.archive(0)
    made.archive(1)
    connection = {"conn_type": "sqlite", "host": str(made.database)}
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_LEDGER", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__TIDEGATE__POLL_SECONDS", "0.05")
    monkeypatch.chdir(tmp_path)
    yield made
    made.close()


def at(hour: float) -> str:
    return str(datetime.fromtimestamp(T0 / 1000 + hour * 3600, UTC))


def sensor(pipeline: str, start: float, end: float, **more: Any) -> WindowPublishedSensor:
    return WindowPublishedSensor(task_id="t", dag=None, pipeline=pipeline, start=at(start), end=at(end), **more)


def keys(first: int, last: int) -> tuple[WindowKey, ...]:
    return tuple(window(hour) for hour in range(first, last))


# ---------------------------------------------------------------- which windows


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 24, keys(0, 24)),  # a day of a daily consumer
        (3, 4, keys(3, 4)),
        (3.25, 3.5, keys(3, 4)),  # a quarter of an hour: the hour that it lies in
        (3.5, 5.5, keys(3, 6)),  # whatever overlaps
        (3, 3, keys(3, 4)),  # a run without an interval means an instant
        (3.5, 3.5, keys(3, 4)),
        (-5, 2, keys(0, 2)),  # nothing belongs before windows.start
        (-5, -1, ()),
        (-5, -5, ()),
    ],
)
def test_the_windows_of_an_interval(start: float, end: float, expected: tuple[WindowKey, ...]) -> None:
    assert waits.windows_of(HOURLY, T0 + int(start * HOUR), T0 + int(end * HOUR)) == expected


def test_an_hour_of_a_consumer_lies_in_a_day_of_the_pipeline() -> None:
    days = Windows(size_ms=DAY, timezone="UTC", start_ms=T0, watermark_delay_ms=HOUR)
    assert waits.windows_of(days, T0 + 25 * HOUR, T0 + 26 * HOUR) == (WindowKey(T0 + DAY, T0 + 2 * DAY),)


def test_an_interval_that_nobody_can_mean_is_refused() -> None:
    with pytest.raises(SpecError, match="more than 100,000 windows"):
        waits.windows_of(HOURLY, T0, T0 + 200_000 * HOUR)


def test_more_windows_than_one_look_asks_for_are_looked_at_at_once() -> None:
    wait = PublishedWait("p", HOURLY, keys(0, 3 * MOST_ASKED), 1, 3 * MOST_ASKED)

    class Published:
        """All windows before this hour."""

        def __init__(self, hour: int) -> None:
            self.before, self.looks = T0 + hour * HOUR, 0

        def look(self, pipelines: Any, windows: Any) -> Look:
            self.looks += 1
            return Look({}, {ref: Standing("CLOSED", 1) for ref in windows if ref[1] < self.before})

        def close(self) -> None: ...

    everything, some = Published(3 * MOST_ASKED), Published(MOST_ASKED + 1)
    assert waits.ask(everything, wait, 0)[0].done
    assert everything.looks == 3
    answer, left = waits.ask(some, wait, 0)
    assert (answer.done, len(left.missing), some.looks) == (False, 2 * MOST_ASKED - 1, 2)


# ---------------------------------------------------------------- the sensor


@pytest.mark.parametrize("name", ["readings", "lake.readings"])
def test_a_run_whose_windows_are_published_does_not_wait(world: World, name: str) -> None:
    sensor(name, 0, 2).execute({})


def test_a_daily_consumer_waits_for_all_hours_and_ends_in_the_triggerer(world: World) -> None:
    task = sensor("readings", 0, 8, timeout=timedelta(seconds=60))
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    trigger = deferred.value.trigger
    path, arguments = trigger.serialize()
    assert path == "tidegate.airflow.downstream.WindowPublishedTrigger"
    json.dumps(arguments)
    assert (arguments["start_ms"], arguments["end_ms"]) == (window(2).start_ms, window(7).end_ms)
    for hour in range(2, 8):
        world.archive(hour)
    event = first_event(type(trigger)(**arguments))
    assert event == {"outcome": "published", "text": "readings: 6 windows published"}
    task.resume({}, event)


def test_a_time_out_names_the_windows_and_who_holds_them(world: World) -> None:
    task = sensor("readings", 0, 24, timeout=timedelta(seconds=0.2))
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    for hour in range(2, 9):
        world.archive(hour)
    event = first_event(deferred.value.trigger)
    with pytest.raises(AirflowSensorTimeout) as caught:  # without a retry
        task.resume({}, event)
    assert "15 of 22 windows not published: 2013-01-05T09:00Z (blocked: partition 0: " in str(caught.value)


def test_the_timeout_of_a_window_to_come_begins_when_it_could_be_ready(world: World) -> None:
    now = int(time.time()) * 1000
    hour = (now - T0) // HOUR
    task = sensor("readings", hour, hour + 1, timeout=timedelta(minutes=5))
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    due = T0 + (hour + 1) * HOUR + HOUR + 300_000  # its end, the watermark delay, the time-out
    assert deferred.value.trigger.deadline_ms == due
    assert deferred.value.timeout > timedelta(milliseconds=due - now)


@pytest.mark.parametrize(
    ("name", "said"),
    [("reading", "no pipeline reading; did you mean readings"), ("lake.x", "table lake.x; it knows readings")],
)
def test_a_name_that_the_ledger_does_not_know_may_come_yet(world: World, name: str, said: str) -> None:
    with pytest.raises(AirflowException, match=said) as caught:
        sensor(name, 0, 1).execute({})
    assert type(caught.value) is AirflowException


def test_an_instant_that_is_none_fails_at_once(world: World) -> None:
    with pytest.raises(AirflowFailException, match="no instant"):
        WindowPublishedSensor(task_id="t", dag=None, pipeline="readings", start="yesterday", end=at(1)).execute({})


def test_a_ledger_that_is_away_is_retried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    connection = {"conn_type": "sqlite", "host": str(tmp_path / "none" / "ledger.db")}
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_LEDGER", json.dumps(connection))
    with pytest.raises(AirflowException) as caught:
        sensor("readings", 0, 1).execute({})
    assert type(caught.value) is AirflowException


def test_the_one_liner() -> None:
    task = window_published("lake.flights", at_least_generation=2, timeout=timedelta(hours=3), pool="p", dag=None)
    assert (task.task_id, task.pipeline, task.at_least_generation) == ("published_lake_flights", "lake.flights", 2)
    assert (task.start, task.end) == ("{{ data_interval_start }}", "{{ data_interval_end }}")
    assert (task.timeout, task.pool) == (timedelta(hours=3), "p")
    assert window_published("flights", task_id="x", dag=None).task_id == "x"
    with pytest.raises(ValueError, match="counted from 1"):
        window_published("flights", at_least_generation=0, dag=None)


def first_event(trigger: Any) -> dict[str, str]:
    import asyncio

    async def first() -> dict[str, str]:
        async for event in trigger.run():
            return event.payload
        raise AssertionError("no event")

    return asyncio.run(asyncio.wait_for(first(), 30))


# ---------------------------------------------------------------- the spec in the ledger


def test_the_spec_in_force_is_that_of_the_newest_batch(world: World) -> None:
    """A spec that was taken back is not, though its number is the highest."""
    ctx: Context = world.context()
    specs = ctx.ledger.unwrapped.specs  # type: ignore[attr-defined]
    before = world.pipeline
    world.change_spec(where="value > 0")
    world.context()
    assert specs.spec("readings") == before
    world.produce(record("x", 11))
    world.ingest("r2")
    assert specs.spec("readings") == world.pipeline
    assert specs.of_table("lake.readings") == ["readings"]
    assert specs.of_table("lake_readings") == specs.of_table("lake.reading") == []
    assert specs.spec("other") is None


# ---------------------------------------------------------------- the dataset


@pytest.fixture
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AIRFLOW__TIDEGATE__PIPELINES_FOLDER", str(tmp_path))
    monkeypatch.setenv("LAYER", "gold")
    return tmp_path


def test_a_dataset_by_its_table_reads_nothing(pipelines: Path) -> None:
    pipelines.rmdir()
    assert table("lake.flights").uri == "tidegate://lake.flights/"


def test_a_dataset_by_its_pipeline(pipelines: Path) -> None:
    (pipelines / "flights.yaml").write_text("sink: {table: lake.flights}\ncolumns: [nonsense]")
    assert table("flights").uri == "tidegate://lake.flights/"
    (pipelines / "trams.yaml").write_text("name: trams")
    (pipelines / "defaults.yaml").write_text("sink: {table: lake.all}")
    assert table("trams").uri == "tidegate://lake.all/"


def test_a_table_that_the_environment_names(pipelines: Path) -> None:
    source = Path(__file__).parents[1] / "fixtures/pipelines/tram_positions.yaml"
    text = source.read_text().replace("transit.tram_positions", "${LAYER}.tram_positions")
    assert "${LAYER}" in text
    (pipelines / "tram_positions.yaml").write_text(text)
    assert table("tram_positions").uri == "tidegate://gold.tram_positions/"


def test_a_pipeline_whose_yaml_is_not_there(pipelines: Path) -> None:
    with pytest.raises(SpecError, match=r"table\('database.table'\)"):
        table("flights")


def test_importing_it_in_a_dag_file_is_light() -> None:
    """On top of what every DAG file has loaded; and by the copied plugins folder alone."""
    code = (
        "import sys, airflow.models.dag, airflow.datasets, airflow.triggers.base\n"
        "before = set(sys.modules)\n"
        "from tidegate.downstream import table, window_published\n"
        "new = set(sys.modules) - before\n"
        "heavy = ('pandas', 'pyarrow', 'duckdb', 'pydantic', 'alembic', 'pyspark', 'confluent_kafka', 'pyhive',"
        " 'tidegate.adapters', 'tidegate.spec', 'tidegate.workflow', 'tidegate.wiring')\n"
        "heavy = [m for m in new if m.startswith(heavy)]\n"
        "print(heavy)"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "plugins")}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip().splitlines()[-1:] == ["[]"], done.stdout + done.stderr


def test_the_example_of_the_page_is_a_dag_file(tmp_path: Path) -> None:
    from airflow.models.dagbag import DagBag

    page = (Path(__file__).parents[2] / "docs/event-time.md").read_text()
    (code,) = [part.split("```")[0] for part in page.split("```python\n")[1:] if "window_published" in part]
    (tmp_path / "consumers.py").write_text(code)
    found = DagBag(tmp_path, include_examples=False, read_dags_from_db=False)
    assert found.import_errors == {}
    assert found.dags["flights_each_day"].task_dict["published_flights"].downstream_task_ids == {"summarise"}
    scheduled_by = found.dags["flights_each_hour"].timetable.dataset_condition.iter_datasets()
    assert [uri for uri, _ in scheduled_by] == ["tidegate://lake.flights/"]


# ---------------------------------------------------------------- the command


def tidegate(*words: str) -> Result:
    return CliRunner().invoke(main, ["wait", *words], prog_name="tidegate")


@pytest.mark.parametrize("windows", ["2013-01-05T00", "date=2013-01-05/hour=01", "20130105T000000Z..20130105T020000Z"])
def test_the_command_ends_at_once_when_all_is_published(world: World, windows: str) -> None:
    done = tidegate("readings", windows, "--timeout", "0")
    assert (done.exit_code, "published" in done.stdout) == (0, True), done.stderr


def test_the_command_says_what_is_missing(world: World) -> None:
    done = tidegate("lake.readings", "2013-01-05T00..2013-01-05T12", "--timeout", "300ms", "--poll", "100ms", "--json")
    assert done.exit_code == 1
    assert "10 of 12 windows not published: 2013-01-05T02:00Z (its watermark has passed, but readings" in done.stderr
    assert done.stderr.count("not published") == 1, "each text is said once"
    assert json.loads(done.stdout)["published"] is False


def test_the_command_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, asked = waits.ask, []

    def slow(*arguments: Any) -> Any:
        asked.append(1)
        if len(asked) == 2:
            world.archive(2)
        return ask(*arguments)

    monkeypatch.setattr(waits, "ask", slow)
    done = tidegate("readings", "2013-01-05T02", "--poll", "100ms")
    assert (done.exit_code, len(asked)) == (0, 2), done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("readings", "noon"), 2, "neither an instant"),
        (("readings", "2013-01-05T04..2013-01-05T04"), 2, "holds no window"),
        (("readings", "2013-01-05T04", "--timeout", "soon"), 2, "no duration"),
        (("reading", "2013-01-05T04"), 3, "did you mean readings?"),
    ],
)
def test_what_the_command_cannot_do(world: World, words: tuple[str, ...], code: int, said: str) -> None:
    done = tidegate(*words)
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr


def test_a_ledger_that_goes_away_is_waited_for_and_then_told_of(world: World) -> None:
    real = waits.find

    def find(specs: Any, name: str) -> Any:
        found = real(specs, name)
        world.close()
        world.database.rename(world.database.with_suffix(".away"))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waits, "find", find)
        done = tidegate("readings", "2013-01-05T04", "--timeout", "200ms", "--poll", "100ms")
    assert done.exit_code == 3
    assert "the ledger" in done.stderr
