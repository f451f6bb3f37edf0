"""A second pipeline, added by its YAML alone, on real Airflow, Kafka, Spark and Hive.

Quarter hours of Europe/Berlin in the night when the clocks go back, nested fields, no dynamic partition: two of the
four windows lie in the hour that comes twice.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import consumers
import duckdb
import psutil
import pytest
from airflow_api import AirflowApi, eventually
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from pyhive import hive

from dev.stack.places import Places
from dev.stack.stack import Stack
from dev.stack.topics import create_topic

INGEST, ARCHIVE, REPLAY, MAINTAIN = (f"tram_positions.{kind}" for kind in ("ingest", "archive", "replay", "maintain"))
TABLE = "transit.tram_positions"
START = datetime(2024, 10, 27, 0, 30, tzinfo=UTC)  # 02:30 in Berlin, summer time
WINDOWS = [START + timedelta(minutes=15 * i) for i in range(4)]
PARTITIONS = ["hour=02/minute=30", "hour=02/minute=45", "hour=02-fold/minute=00", "hour=02-fold/minute=15"]
EVERY_S, EVENTS, MAX_RECORDS = 3, 1500, 800


def run_id(window: datetime) -> str:
    return f"backfill__{window.isoformat()}"


def expected(window: datetime) -> list[tuple[str, datetime]]:
    """(vehicle, measured at) of the window, sorted."""
    rows = [(f"tram-{i % 17}", START + timedelta(seconds=i * EVERY_S)) for i in range(EVENTS)]
    return sorted(row for row in rows if window <= row[1] < window + timedelta(minutes=15))


@pytest.fixture(scope="module")
def air(stack_roots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowApi]:
    """A stack of its own whose only pipeline is the tram fixture, in batches of at most MAX_RECORDS."""
    places, dags = Places.of_checkout(), tmp_path_factory.mktemp("dags")
    (dags / "pipelines").mkdir()
    shutil.copy(places.dags / "tidegate_pipelines.py", dags)
    consumers.add_dag_file(dags)
    text = (places.checkout / "tests/fixtures/pipelines/tram_positions.yaml").read_text()
    assert "max_records: 200000" in text
    text = text.replace("max_records: 200000", f"max_records: {MAX_RECORDS}")
    text = text.replace("sla: 10m", "sla: 10m\n  max_active_runs: 2")
    (dags / "pipelines/tram_positions.yaml").write_text(text)
    env = {
        "TIDEGATE_LAKE": str(tmp_path_factory.mktemp("lake")),
        "AIRFLOW__TIDEGATE__POLL_SECONDS": "1",
        "PYTHONPATH": f"{places.plugins}:{places.checkout}",
    }
    stack = Stack(stack_roots / "airflow", dags_folder=dags, env=env, progress=lambda line: print(f"[stack] {line}"))
    try:
        info = stack.up()
        migrate = "import os; from tidegate.ledger.migrate import migrate; migrate(os.environ['LEDGER'])"
        subprocess.run([sys.executable, "-c", migrate], env={**info.env, "LEDGER": info.ledger_url}, check=True)
        yield AirflowApi(info)
    finally:
        stack.down()


@pytest.fixture(scope="module")
def ingested(air: AirflowApi) -> AirflowApi:
    """Everything produced is landed, by the DAG's schedule and the runs that it triggers for its backlog."""
    produce(air)
    eventually("the DAGs are parsed", lambda: {INGEST, ARCHIVE, REPLAY, MAINTAIN} <= dag_ids(air))
    air.pause(INGEST, False)
    eventually("the backlog is landed", lambda: finished(air, INGEST, "backlog_after_batch_1"))
    air.pause(INGEST, True)
    return air


@pytest.fixture(scope="module")
def archived(ingested: AirflowApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowApi]:
    """The four windows, published by the literal command while the DAG is paused, and consumers wait for them."""
    with consumers.waiting(ingested, tmp_path_factory.mktemp("consumers")):
        ingested.command("dags", "backfill", ARCHIVE, "-s", WINDOWS[0].isoformat(), "-e", WINDOWS[-1].isoformat())
        yield ingested


def produce(air: AirflowApi) -> None:
    topic = NewTopic("transit.positions", 3, 1, config={"retention.ms": "-1"})
    create_topic({"bootstrap.servers": air.info.kafka_bootstrap}, topic)
    producer = Producer({"bootstrap.servers": air.info.kafka_bootstrap})
    for i in range(EVENTS):
        at = START + timedelta(seconds=i * EVERY_S)
        event = {
            "vehicle": {"id": f"tram-{i % 17}", "doors": {"front": i % 2 == 0}, "energy": {"kwh": i / 4}},
            "trip": {"line": "M4", "delay_s": i % 60, "next_stops": [{"stop": "Alex", "eta": at.isoformat()}]},
            "position": {"lat": 52.5, "lon": 13.4, "accuracy_m": 2.5},
            "measured_at": at.isoformat(),
        }
        producer.produce("transit.positions", partition=i % 3, value=json.dumps(event))
    assert producer.flush(30) == 0


def dag_ids(air: AirflowApi) -> set[str]:
    return {dag["dag_id"] for dag in air.call("GET", "/dags")["dags"]}


def finished(air: AirflowApi, dag_id: str, run: str) -> bool:
    found = air.runs(dag_id).get(run)
    assert found is None or found["state"] != "failed", f"{dag_id} {run} failed"
    return found is not None and found["state"] == "success"


def sql(air: AirflowApi, statement: str) -> list[tuple]:
    connection = hive.Connection(host=air.info.hive_host, port=air.info.hive_port, username="test")
    try:
        cursor = connection.cursor()
        cursor.execute(statement)
        return cursor.fetchall() if statement.startswith(("SHOW", "SELECT", "DESCRIBE")) else []
    finally:
        connection.close()


def directory(air: AirflowApi, window: datetime) -> Path:
    """Where the catalogue says that the window's files are."""
    partition = dict(p.split("=") for p in PARTITIONS[WINDOWS.index(window)].split("/"))
    where = f"`date`='2024-10-27', `hour`='{partition['hour']}', `minute`='{partition['minute']}'"
    rows = sql(air, f"DESCRIBE FORMATTED {TABLE} PARTITION ({where})")
    return Path(next(value for key, value, _ in rows if key == "Location").removeprefix("file:"))


def content(folder: Path) -> list[tuple[str, datetime]]:
    asked = f"SELECT vehicle, epoch_ms(measured_at) FROM read_parquet('{folder}/*.parquet')"
    with duckdb.connect() as connection:  # the default one is every test's
        found = connection.execute(asked).fetchall()
    return sorted((vehicle, datetime.fromtimestamp(ms / 1000, UTC)) for vehicle, ms in found)


def events(air: AirflowApi) -> int:
    return air.call("GET", "/datasets/events")["total_entries"]


def cleared(air: AirflowApi, window: datetime) -> int:
    """Clear `publish`; the number of the attempt that will run."""
    attempt = air.task(ARCHIVE, run_id(window), "publish")["try_number"] + 1
    air.clear(ARCHIVE, run_id(window), "publish")
    return attempt


def forget_waiting_runs(air: AirflowApi) -> None:
    """While the DAG was unpaused its schedule made runs that wait for windows without data, and hold its slots."""
    for run in air.runs(ARCHIVE):
        if run.startswith("scheduled__"):
            air.delete_run(ARCHIVE, run)


def test_batches_follow_each_other_until_the_backlog_is_read(ingested: AirflowApi) -> None:
    runs = ingested.runs(INGEST)
    assert "backlog_after_batch_1" in runs
    first = next(run for run in runs.values() if run["run_type"] == "scheduled")
    assert f"planned batch 1: {MAX_RECORDS - MAX_RECORDS % 3} offsets" in ingested.log(
        INGEST, first["dag_run_id"], "plan", 1
    ).replace(",", "")


def test_a_run_that_finds_nothing_new_skips_and_can_be_cleared(ingested: AirflowApi) -> None:
    run = ingested.call("POST", f"/dags/{INGEST}/dagRuns", {"dag_run_id": "nothing_new"})["dag_run_id"]
    ingested.pause(INGEST, False)
    eventually("the run is over", lambda: finished(ingested, INGEST, run))
    assert ingested.task(INGEST, run, "plan")["state"] == "skipped"
    assert ingested.task(INGEST, run, "land")["state"] == "skipped"
    ingested.clear(INGEST, run, "plan")
    eventually("it ran again", lambda: ingested.task(INGEST, run, "plan")["try_number"] == 2)
    eventually("the run is over again", lambda: finished(ingested, INGEST, run))
    ingested.pause(INGEST, True)


def test_the_table_holds_exactly_what_was_produced(archived: AirflowApi) -> None:
    partitions = [row[0] for row in sql(archived, f"SHOW PARTITIONS {TABLE}")]
    assert sorted(partitions) == sorted(f"date=2024-10-27/{p}" for p in PARTITIONS)
    for window in WINDOWS:
        assert content(directory(archived, window)) == expected(window), window
    counts = sql(archived, f"SELECT `hour`, `minute`, count(*), sum(size(next_stops)) FROM {TABLE} GROUP BY 1, 2")
    assert {f"hour={h}/minute={m}": (n, stops) for h, m, n, stops in counts} == dict.fromkeys(PARTITIONS, (300, 300))


def test_certificates_are_in_the_ui(archived: AirflowApi) -> None:
    """As XComs of both tasks: why the window was ready, and what its generation rests on."""
    for task, words in (
        ("ready", ("'ready': True", "watermark ")),
        ("publish", ("'rows': 300", "'kafka_partitions': 3")),
    ):
        run = urllib.parse.quote(run_id(WINDOWS[0]))
        path = f"/dags/{ARCHIVE}/dagRuns/{run}/taskInstances/{task}/xcomEntries/certificate"
        value = str(archived.call("GET", path)["value"])
        assert all(word in value for word in words), value


def test_a_consumer_of_the_table_reads_what_each_event_says(archived: AirflowApi) -> None:
    said = [e["extra"] for e in archived.call("GET", "/datasets/events?limit=100")["dataset_events"]]
    first = [extra for extra in said if extra["generation"] == 1]
    assert sorted(extra["window_start"] for extra in first) == [window.isoformat() for window in WINDOWS]
    # Airflow keeps an event that comes while it makes a run of the one before for the run after: not all need be here
    found = eventually("windows were told of", lambda: [t for t in consumers.told(archived) if t["generation"] == 1])
    assert all(told in first for told in found)
    assert len({told["window"] for told in found}) == len(found)
    for told in found:
        window = datetime.fromisoformat(told["window_start"])
        assert (told["table"], told["rows"], told["kind"]) == (TABLE, 300, "archive")
        assert told["location"] == f"file:{directory(archived, window)}".replace("file:/", "file:///")
        assert told["ready_reason"].startswith("watermark ")


def test_a_consumer_of_four_windows_runs_when_all_of_them_are_published(archived: AirflowApi) -> None:
    """Its wait began in another triggerer."""
    (run,) = archived.runs(consumers.BY_HOUR)
    eventually("the hour's consumer is done", lambda: finished(archived, consumers.BY_HOUR, run))
    assert archived.task(consumers.BY_HOUR, run, consumers.WAIT)["try_number"] == 1
    first, second = (log.read_text() for log in consumers.trigger_logs(archived, run))
    assert "4 of 4 windows not published: 2024-10-27T00:30Z (" in first
    assert "4 windows published" in second


def test_hours_that_a_backfill_touched_belong_to_the_scheduler(archived: AirflowApi) -> None:
    runs = archived.runs(ARCHIVE)
    for window in WINDOWS:
        run = runs[run_id(window)]
        assert (run["run_type"], run["state"]) == ("scheduled", "success")
        assert run["data_interval_start"] == window.isoformat()
        assert run["data_interval_end"] == (window + timedelta(minutes=15)).isoformat()


def test_clear_leaves_an_intact_window_as_it_is(archived: AirflowApi) -> None:
    """The scheduler runs the cleared task of a run that a backfill made."""
    window = WINDOWS[0]
    before = {p.name: p.stat().st_mtime_ns for p in directory(archived, window).iterdir()}
    events_before = events(archived)
    attempt = cleared(archived, window)
    archived.pause(ARCHIVE, False)
    eventually("the cleared task ran", lambda: finished(archived, ARCHIVE, run_id(window)))
    archived.pause(ARCHIVE, True)
    forget_waiting_runs(archived)
    log = archived.log(ARCHIVE, run_id(window), "publish", attempt)
    assert "unchanged: generation 1, 300 rows" in log
    assert {p.name: p.stat().st_mtime_ns for p in directory(archived, window).iterdir()} == before
    assert events(archived) == events_before


def test_clear_rebuilds_a_lost_file_and_a_lost_partition(archived: AirflowApi) -> None:
    """The DAG is paused: a backfill of the window runs the cleared task."""
    window = WINDOWS[2]
    next(directory(archived, window).glob("*.parquet")).unlink()
    sql(archived, f"ALTER TABLE {TABLE} DROP PARTITION (`date`='2024-10-27', `hour`='02-fold', `minute`='00')")
    events_before = events(archived)
    attempt = cleared(archived, window)
    archived.command("dags", "backfill", ARCHIVE, "-s", window.isoformat(), "-e", window.isoformat())
    assert "published: generation 2, 300 rows" in archived.log(ARCHIVE, run_id(window), "publish", attempt)
    assert content(directory(archived, window)) == expected(window)
    assert events(archived) == events_before + 1


def test_replay_of_unchanged_content_publishes_nothing(archived: AirflowApi) -> None:
    window = WINDOWS[1]
    archived.command("dags", "backfill", REPLAY, "-s", window.isoformat(), "-e", window.isoformat())
    assert finished(archived, REPLAY, run_id(window))
    assert "unchanged: generation 1, 300 rows" in archived.log(REPLAY, run_id(window), "replay", 1)
    assert content(directory(archived, window)) == expected(window)


def test_a_broken_yaml_is_an_import_error_of_its_own(air: AirflowApi) -> None:
    folder = Path(air.info.env["AIRFLOW__TIDEGATE__PIPELINES_FOLDER"])
    broken = (folder / "tram_positions.yaml").read_text().replace("tram_positions", "trams").replace("15m", "15 apples")
    (folder / "trams.yaml").write_text(broken)
    try:
        error = eventually(
            "the error is in the UI",
            lambda: [e for e in air.call("GET", "/importErrors")["import_errors"] if "trams.yaml" in e["filename"]],
        )[0]
        assert "trams.yaml:" in error["stack_trace"]
        assert "windows.size" in error["stack_trace"]
        assert not air.call("GET", f"/dags/{INGEST}")["has_import_errors"]
    finally:
        (folder / "trams.yaml").unlink()


def test_a_killed_task_ends_its_spark_job(archived: AirflowApi) -> None:
    """Marking a running replay failed ends JVM and Python driver; the window stays as it was."""
    window = WINDOWS[3]
    archived.pause(REPLAY, False)
    created = archived.call("POST", f"/dags/{REPLAY}/dagRuns", {"logical_date": window.isoformat()})
    assert created["data_interval_start"] == window.isoformat()
    run = created["dag_run_id"]
    drivers = eventually("the driver runs", lambda: drivers_of(archived))
    archived.fail_run(REPLAY, run)
    _, alive = psutil.wait_procs(drivers, timeout=240)
    assert not alive
    archived.pause(REPLAY, True)
    assert content(directory(archived, window)) == expected(window)


def drivers_of(air: AirflowApi) -> list[psutil.Process]:
    lake = air.info.env["TIDEGATE_LAKE"]
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "python" in (words[:1] or [""])[0] and any("land.py" in w for w in words) and any(lake in w for w in words):
            found.append(process)
    return found
