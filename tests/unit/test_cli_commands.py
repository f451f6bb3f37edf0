"""`tidegate` as an operator runs it: exit codes, the words and the JSON, on a ledger and files that are real."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.world import TOPIC, World, record, window
from tidegate.adapters.ledger.migrate import migrate
from tidegate.cli import main
from tidegate.commands import surroundings
from tidegate.core.errors import BatchRefused
from tidegate.core.pipeline import DirtyLimits
from tidegate.spec import load_file
from tidegate.workflow import archive, ingest

YAML = """\
version: 1
name: {name}
owner: tests
source: {{conn_id: kafka, topic: readings}}
format: {{type: json}}
columns:
  - {{name: id, type: string, nullable: false}}
  - {{name: site, type: string}}
  - {{name: value, type: int}}
event_time: {{from: $.at, format: epoch_ms}}
windows: {{size: 1h, timezone: {zone}, start: 2013-01-05T00:00:00Z, watermark_delay: 1h, idle: follow}}
partition_by: [date, hour, site]
dirty: {{max_count: null, max_ratio: null}}
sink: {{conn_id: hive, table: lake.{name}, location: "file://{folder}/lake/{name}"}}
ingest: {{schedule: null, spark: {{conn_id: spark}}}}
"""

Tide = Callable[..., Result]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Hours 0 and 1 can be published, hour 0 is; batch 1 has landed; a pipelines folder and an env file lie beside."""
    add_yaml(tmp_path, "readings")
    made = World(tmp_path, load_file(tmp_path / "pipelines/readings.yaml"))
    made.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    made.produce(record("c0", 2.0), record("d0", 3.5), partition=1)
    made.ingest("readings.ingest/r1")
    made.archive(0)
    write_env(tmp_path, made.database)
    yield made
    made.close()


def add_yaml(folder: Path, name: str, zone: str = "UTC", **changes: str) -> None:
    text = YAML.format(name=name, folder=folder, zone=zone)
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / "pipelines").mkdir(exist_ok=True)
    (folder / f"pipelines/{name}.yaml").write_text(text)


def write_env(folder: Path, database: Path) -> None:
    env = {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__TIDEGATE__PIPELINES_FOLDER": str(folder / "pipelines"),
        "AIRFLOW_CONN_TIDEGATE_LEDGER": json.dumps({"conn_type": "sqlite", "host": str(database)}),
    }
    (folder / ".tidegate/stack").mkdir(parents=True, exist_ok=True)
    (folder / ".tidegate/stack/env").write_text("".join(f"{k}={v}\n" for k, v in env.items()))


@pytest.fixture
def tide(world: World, monkeypatch: pytest.MonkeyPatch) -> Tide:
    """Run a command in the world's folder; Kafka and Hive are the world's."""
    for name in [n for n in os.environ if n.startswith(("AIRFLOW", "TIDEGATE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(surroundings, "kafka", lambda pipeline, timeout_s=1.0: world.kafka)
    monkeypatch.setattr(surroundings, "hive", lambda pipeline: world.catalogue)

    def run(*arguments: str, input: str | None = None) -> Result:
        world.close()
        before = dict(os.environ)
        result = CliRunner().invoke(main, arguments, input=input)
        assert dict(os.environ) == before, "a command leaves the environment as it was"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def the_json(result: Result) -> dict:
    assert result.stdout.count("\n") == 1, "one document on one line"
    return json.loads(result.stdout)


# ---------------------------------------------------------------- status


def test_status_of_a_well_pipeline(tide: Tide, world: World) -> None:
    world.archive(1)
    result = tide("status")
    assert result.exit_code == 0, result.output
    assert re.search(r"^readings +well ", result.output, re.MULTILINE), result.output
    assert "2013-01-05T02:30Z" in result.output


def test_status_as_json_says_everything(tide: Tide, world: World) -> None:
    world.produce(record("e", 3.6), record("f", 3.7), record("late", 0.2))
    ingest.plan(world.context(), "readings.ingest/r2")
    world.produce(record("g", 3.8), partition=1)
    found = the_json(tide("status", "readings", "--json"))["pipelines"][0]
    assert found["open_batch"]["batch_id"] == 2
    assert found["open_batch"]["state"] == "PLANNED"
    assert found["open_batch"]["ranges"] == [{"partition": 0, "start": 4, "end": 7}]
    assert found["newest_landed"]["landed"] == "2013-01-09T04:00Z"
    assert found["lag"] == {"records": 1, "by_partition": {"0": 0, "1": 1}, "lost": 0}
    assert found["watermark"] == "2013-01-05T02:30Z"
    assert found["next_window"]["start"] == "2013-01-05T02:00Z"
    assert found["next_window"]["blockers"] == [0, 1]
    assert found["due"] == [{"start": "2013-01-05T01:00Z", "end": "2013-01-05T02:00Z"}]
    assert found["due_since"] == "2013-01-09T04:00Z"
    assert (found["windows"], found["generations"]) == ({"CLOSED": 1}, {"CURRENT": 1})
    assert found["totals"]["dirty"] == 1
    assert found["events"][0]["what"] == "planned"


def test_status_names_hours_that_nobody_publishes_once_they_are_overdue(tide: Tide) -> None:
    result = tide("status")  # the world's batches landed in 2013
    assert result.exit_code == 1
    assert "1 window is ready and not published, the oldest (2013-01-05T01:00Z) for" in result.output
    assert "airflow dags backfill readings.archive -s 2013-01-05T01:00Z -e 2013-01-05T01:00Z" in result.output


def test_hours_become_due_with_the_batch_that_made_them_ready(tide: Tide, world: World) -> None:
    world.clock.advance(60_000)
    world.produce(record("x", 9.0))
    world.ingest("r2")
    world.clock.advance(60_000)
    world.produce(record("y", 9.1))
    world.ingest("r3")
    world.archive(1)
    assert the_json(tide("status", "--json"))["pipelines"][0]["due_since"] == "2013-01-09T04:01Z"


def test_a_broken_yaml_is_listed_with_file_line_and_field(tide: Tide, world: World) -> None:
    add_yaml(world.folder, "broken", partition_by="partition_buy")
    result = tide("status")
    assert result.exit_code == 2
    assert f"{world.folder}/pipelines/broken.yaml:12: partition_buy: unknown key (did you mean partition_by?)" in (
        result.output
    )
    assert "readings" in result.output
    found = {p["name"]: p for p in the_json(tide("status", "--json"))["pipelines"]}
    assert "broken.yaml:12" in found["broken"]["error"]
    assert found["readings"]["error"] is None


def test_a_new_pipeline_has_no_runs_yet_and_is_well(tide: Tide, world: World) -> None:
    add_yaml(world.folder, "fresh")
    result = tide("status", "fresh")
    assert result.exit_code == 0
    assert "no run has registered this pipeline yet" in result.output
    assert "6 records" in result.output


def test_status_registers_nothing(tide: Tide, world: World) -> None:
    add_yaml(world.folder, "fresh")
    for command in (("status",), ("plan", "fresh"), ("explain", "fresh", "2013-01-05T00")):
        tide(*command)
    assert world.context().ledger.reads.names() == ["readings"]


def test_pipelines_without_a_yaml_are_named(tide: Tide, world: World) -> None:
    (world.folder / "pipelines/readings.yaml").rename(world.folder / "elsewhere.yaml")
    result = tide("status")
    assert "in the ledger, without a YAML here: readings" in result.output


def test_kafka_is_never_needed(tide: Tide, world: World) -> None:
    world.archive(1)
    world.kafka.unavailable = True
    result = tide("status")
    assert result.exit_code == 0
    assert "lag not known of readings: Kafka at fake:9092" in result.output


def test_a_recreated_topic_and_lost_records_are_not_well(tide: Tide, world: World) -> None:
    world.archive(1)
    world.produce(*[record(str(i), 3.6) for i in range(5)])
    world.kafka.trim(TOPIC, 0, 7)
    assert "3 offsets are gone from the topic" in tide("status").output
    world.kafka.create(TOPIC, 2)
    result = tide("status")
    assert result.exit_code == 1
    assert "tidegate source reset readings" in result.output


def test_a_refused_batch_is_not_well(tide: Tide, world: World) -> None:
    world.archive(1)
    world.change_spec(dirty=DirtyLimits(max_count=0, max_ratio=None))
    world.produce(b"x")
    with pytest.raises(BatchRefused):
        world.ingest("r2")
    result = tide("status", "readings")
    assert result.exit_code == 1
    assert "batch 2 was refused: batch 2: 1 of 1 records are dirty" in " ".join(result.output.split())


def test_no_ledger_is_exit_code_3_and_one_message(tide: Tide, world: World) -> None:
    world.database.unlink()
    result = tide("status")
    assert result.exit_code == 3
    assert "the ledger's schema is at revision none" in result.output
    assert "what to do: run `tidegate db migrate`" in result.output
    assert "Traceback" not in result.output
    (world.folder / ".tidegate/stack/env").write_text("AIRFLOW_HOME=/nowhere\n")
    result = tide("status")
    assert result.exit_code == 3
    assert "AIRFLOW_CONN_TIDEGATE_LEDGER" in result.output
    assert "tidegate stack up" in result.output


def test_debug_shows_the_trace(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.database.unlink()
    monkeypatch.setenv("TIDEGATE_DEBUG", "1")
    with pytest.raises(Exception, match="revision none"):
        tide("status")


def test_an_unknown_pipeline_is_a_usage_error_with_a_hint(tide: Tide) -> None:
    for command in ("status", "audit", "plan", "repair"):
        result = tide(command, "reading")
        assert result.exit_code == 2, command
        assert "did you mean readings?" in result.output


def test_an_unknown_command_has_a_hint(tide: Tide) -> None:
    result = tide("audti")
    assert result.exit_code == 2
    assert "audit" in result.output


# ---------------------------------------------------------------- explain


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
    assert "ready, but nobody has published it" in ready.output
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


# ---------------------------------------------------------------- audit


def test_audit_of_a_clean_world(tide: Tide) -> None:
    result = tide("audit", "readings")
    assert result.exit_code == 0, result.output
    assert "read 6 = data 5 + late 0 + dirty 1 + filtered 0 + dropped 0" in result.stdout
    assert "5 = published 2 + waiting 3" in result.stdout
    assert "readings: balanced" in result.stdout
    assert "files: 6 in their places" in result.stderr, "progress goes to standard error"


def test_audit_as_json(tide: Tide) -> None:
    found = the_json(tide("audit", "readings", "--json", "--deep"))
    assert found["balanced"] is True
    assert {k: found[k] for k in ("read", "data", "late", "dirty", "filtered", "dropped", "published", "waiting")} == {
        "read": 6, "data": 5, "late": 0, "dirty": 1, "filtered": 0, "dropped": 0, "published": 2, "waiting": 3,
    }  # fmt: skip
    assert found["problems"] == []
    assert found["produced"] == {"offsets": 6, "not_planned": 0, "passed_by_retention": 0}
    assert found["files"]["coordinates"] == 6
    assert the_json(tide("audit", "readings", "--json"))["files"] == {**found["files"], "coordinates": None}
    assert tide("audit", "readings", "--deep", "--no-files").exit_code == 2


def test_audit_names_what_is_wrong_and_what_to_do(tide: Tide, world: World) -> None:
    next((world.folder / "lake/readings/date=2013-01-05").rglob("*.parquet")).unlink()
    result = tide("audit", "readings", "--no-files", "-q")
    assert result.exit_code == 1
    assert "NOT BALANCED: 1 problems" in result.stdout
    assert "airflow dags backfill --reset-dagruns -y readings.archive -s 2013-01-05T00:00Z" in result.stdout
    assert result.stderr == ""
    problem = the_json(tide("audit", "readings", "--json", "--no-files", "-q"))["problems"][0]
    assert problem["subject"] == "window 20130105T000000Z"
    assert problem["advice"]


# ---------------------------------------------------------------- the others


def test_plan_shows_and_writes_nothing(tide: Tide, world: World) -> None:
    assert "nothing would be planned: no new records" in tide("plan", "readings").output
    world.produce(record("e", 3.6), record("f", 3.7))
    result = tide("plan", "readings")
    assert result.exit_code == 0
    assert "batch 2 would be planned: 2 offsets of readings" in result.output
    assert the_json(tide("plan", "readings", "--json"))["plan"]["partitions"][0]["end"] == 6
    assert world.context().ledger.batches.open("readings") is None


def test_plan_of_a_pipeline_that_never_ran(tide: Tide, world: World) -> None:
    add_yaml(world.folder, "fresh")
    assert "batch 1 would be planned: 6 offsets" in tide("plan", "fresh").output


def test_plan_says_why_it_would_be_refused(tide: Tide, world: World) -> None:
    world.produce(*[record(str(i), 3.6) for i in range(5)])
    world.kafka.trim(TOPIC, 0, 7)
    result = tide("plan", "readings")
    assert result.exit_code == 1
    assert "offsets [4, 7) are gone from the topic" in result.output
    world.kafka.unavailable = True
    assert tide("plan", "readings").exit_code == 3


def test_events_newest_last_and_by_subject(tide: Tide) -> None:
    found = the_json(tide("events", "readings", "--json"))["events"]
    assert [e["what"] for e in found][-2:] == ["published", "announced"]
    about = the_json(tide("events", "readings", "--about", "batch 1", "--json"))["events"]
    assert [e["what"] for e in about][:3] == ["planned", "writing", "sealed"]
    assert "batch 1: landed" in tide("events", "readings").output
    assert tide("events", "nobody").exit_code == 1


def test_repair_lists_and_clears_a_block_with_a_reason(tide: Tide, world: World) -> None:
    assert tide("repair", "readings").exit_code == 0
    world.context().ledger.windows.block("readings", window(0), "files and ledger differ")
    listed = tide("repair", "readings", "--list")
    assert listed.exit_code == 1
    assert "tidegate repair readings --window 20130105T000000Z --why" in listed.output
    assert the_json(tide("repair", "readings", "--json"))["blocks"][0]["reason"] == "files and ledger differ"
    assert tide("status", "readings").exit_code == 1
    assert tide("repair", "readings", "--window", "2013-01-05T00").exit_code == 2, "--why is needed"
    assert tide("repair", "readings", "--window", "2013-01-05T00", "--why", "x", input="n\n").exit_code == 1
    assert tide("repair", "readings").exit_code == 1, "not confirmed, not cleared"
    result = tide("repair", "readings", "--window", "2013-01-05T00", "--why", "restored", input="y\n")
    assert result.exit_code == 0, result.output
    assert tide("repair", "readings").exit_code == 0
    event = the_json(tide("events", "readings", "-n", "1", "--json"))["events"][0]
    assert (event["what"], event["detail"]["why"]) == ("block cleared", "restored")
    assert event["actor"].startswith("tidegate command, ")


def test_repair_of_a_batch(tide: Tide, world: World) -> None:
    world.produce(record("e", 3.6))
    ctx = world.context()
    ingest.plan(ctx, "r2")
    taken = ctx.ledger.batches.take(ctx.ledger.batches.open("readings"), "n")
    ctx.ledger.batches.block(taken, "odd")
    assert tide("repair", "readings", "--batch", "2", "--why", "looked", "--yes").exit_code == 0
    result = tide("repair", "readings", "--batch", "2", "--why", "again", "--yes")
    assert result.exit_code == 1
    assert "batch 2 is not blocked" in result.output


def test_source_reset_accepts_a_recreated_topic_and_abandons_what_cannot_be_read(tide: Tide, world: World) -> None:
    assert "nothing to do" in tide("source", "reset", "readings").output
    world.produce(record("unread", 3.6))
    ingest.plan(world.context(), "r2")
    world.kafka.create(TOPIC, 3)
    world.produce(record("new", 3.7))
    assert tide("source", "reset", "readings").exit_code == 2, "--why is needed"
    result = tide("source", "reset", "readings", "--why", "more partitions", "--yes")
    assert result.exit_code == 0, result.output
    assert "batch 2 (PLANNED) will be ABANDONED: 1 offsets are lost" in result.output
    assert world.ingest("r3") == 3
    audited = the_json(tide("audit", "readings", "--json", "-q"))
    assert audited["problems"] == []
    assert (audited["abandoned"], audited["read"]) == (1, 7)


def test_db_migrate_and_revision(tide: Tide, world: World) -> None:
    assert tide("db", "revision").exit_code == 0
    world.database.unlink()
    assert tide("db", "revision").exit_code == 3
    assert tide("db", "migrate").exit_code == 0
    assert tide("db", "migrate").exit_code == 0
    assert tide("db", "revision").exit_code == 0
    assert tide("db", "migrate", "--revision", "7").exit_code == 2


def test_db_of_a_server_that_is_not_there(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_LEDGER", "postgres://u:secret@127.0.0.1:9/tidegate")
    for command in (("status",), ("db", "migrate"), ("db", "revision"), ("explain", "readings", "2013-01-05T00")):
        result = tide(*command)
        assert result.exit_code == 3, command
        assert "Connection refused" in result.output
        assert "secret" not in result.output
        assert "Traceback" not in result.output


def test_spec_commands(tide: Tide, world: World, tmp_path: Path) -> None:
    assert tide("spec", "validate").exit_code == 0
    add_yaml(world.folder, "broken", columns="colums")
    result = tide("spec", "validate")
    assert result.exit_code == 2
    assert "1 of 2 pipelines are right" in result.stdout
    assert "broken.yaml:" in result.stderr
    assert tide("spec", "validate", "pipelines/readings.yaml").exit_code == 0
    assert json.loads(tide("spec", "schema").output)["properties"]["name"]
    assert tide("spec", "docs", "-o", str(tmp_path / "x.md")).exit_code == 0
    assert "watermark_delay" in (tmp_path / "x.md").read_text()


# ---------------------------------------------------------------- surroundings


def test_the_environment_wins_over_the_stacks_file(tide: Tide, world: World, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    migrate(f"sqlite:///{other}")
    named = tmp_path / "named.env"
    named.write_text(f'AIRFLOW_CONN_TIDEGATE_LEDGER={{"conn_type": "sqlite", "host": "{other}"}}\n# a comment\n')
    named.write_text(named.read_text() + f"AIRFLOW__TIDEGATE__PIPELINES_FOLDER={tmp_path}/pipelines\n")
    assert "no run has registered" in tide("--env-file", str(named), "status", "readings").output
    assert tide("--env-file", str(tmp_path / "absent"), "status").exit_code == 2


def test_the_stacks_file_is_found_from_any_folder_below(tmp_path: Path) -> None:
    write_env(tmp_path, tmp_path / "x.db")
    (tmp_path / "a/b").mkdir(parents=True)
    assert surroundings.find_env_file(tmp_path / "a/b") == tmp_path / ".tidegate/stack/env"


def test_a_checkout_without_a_stack_has_pipelines(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.folder / ".tidegate/stack/env").unlink()
    (world.folder / "dags").mkdir()
    (world.folder / "pipelines").rename(world.folder / "dags/pipelines")
    monkeypatch.setenv("AIRFLOW_HOME", "/nowhere")
    assert "1 of 1 pipelines are right" in tide("spec", "validate").output


def test_names_are_completed(tide: Tide, world: World) -> None:
    add_yaml(world.folder, "reach")
    before = dict(os.environ)
    try:
        assert surroundings.complete_pipeline(None, None, "re") == ["reach", "readings"]  # type: ignore[arg-type]
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_without_the_embedded_extras_stack_says_what_to_install(tide: Tide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tidegate.embedded.stack", None)
    monkeypatch.delitem(sys.modules, "tidegate.embedded.cli", raising=False)

    class Missing:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "psutil" or name == "tidegate.embedded.cli":
                raise ModuleNotFoundError("No module named 'psutil'", name="psutil")

    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    result = tide("stack", "status")
    assert result.exit_code == 2
    assert "tidegate[embedded,worker,postgres]" in result.output


HEAVY = ("airflow", "pyarrow", "duckdb", "pyspark", "pendulum")
TELL_MODULES = """
import json, sys
from tidegate.cli import main
try:
    main(sys.argv[1:], standalone_mode=False)
except SystemExit:
    pass
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def test_commands_import_neither_airflow_nor_the_workers_libraries(world: World) -> None:
    """And `--help` nothing but click."""
    for command in (["--help"], ["status"], ["audit", "readings", "--no-files", "-q"]):
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        argv = [sys.executable, "-c", TELL_MODULES, *command]
        finished = subprocess.run(argv, cwd=world.folder, capture_output=True, text=True, check=True, env=env)
        loaded = set(json.loads(finished.stderr.splitlines()[-1]))
        assert not loaded & set(HEAVY), command
        if command == ["--help"]:
            assert not loaded & {"sqlalchemy", "rich", "pydantic", "yaml"}


def test_outputs_fit_into_80_columns(tide: Tide, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in (["status"], ["explain", "readings", "2013-01-05T03"], ["plan", "readings"]):
        lines = [line for line in tide(*command).output.splitlines() if "airflow dags" not in line]
        lines = [line for line in lines if "tidegate status" not in line]  # commands are not wrapped
        assert max(map(len, lines)) <= 80, command
