"""`tidegate` as an operator runs it: exit codes, the words and the JSON, on a ledger and files that are real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.world import TOPIC, World, record, window
from tidegate.cli import surroundings
from tidegate.cli.main import main
from tidegate.ledger.migrate import migrate
from tidegate.spec import load_file
from tidegate.workflow.batch import ingest

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
    monkeypatch.setattr(surroundings, "source", lambda pipeline, timeout_s=1.0: world.kafka)

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
    assert found["produced"] == {"offsets": 6, "not_planned": 0, "passed_by_retention": 0, "earlier": 0}
    assert found["files"]["coordinates"] == 6
    assert the_json(tide("audit", "readings", "--json"))["files"] == {**found["files"], "coordinates": None}
    assert tide("audit", "readings", "--deep", "--no-files").exit_code == 2


def test_audit_names_what_is_wrong_and_what_to_do(tide: Tide, world: World) -> None:
    next((world.folder / "lake/readings/date=2013-01-05").rglob("*.parquet")).unlink()
    result = tide("audit", "readings", "--no-files", "-q")
    assert result.exit_code == 1
    assert "NOT BALANCED: 1 problem" in result.stdout
    assert "window 2013-01-05T00:00Z:" in result.stdout
    assert "20130105T000000Z:" not in result.stdout
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
    shown = tide("events", "readings").output
    assert "batch 1: landed" in shown
    assert "window 2013-01-05T00:00Z: published" in shown
    windows = [
        the_json(tide("events", "readings", "--about", f"window {name}", "--json"))["events"]
        for name in ("2013-01-05T00:00Z", "20130105T000000Z")
    ]
    assert windows[0] == windows[1]
    assert {e["subject"] for e in windows[0]} == {"window 20130105T000000Z"}, "as programs know it"
    assert tide("events", "nobody").exit_code == 1


def test_repair_lists_and_clears_a_block_with_a_reason(tide: Tide, world: World) -> None:
    assert tide("repair", "readings").exit_code == 0
    world.context().ledger.windows.block("readings", window(0), "files and ledger differ")
    listed = tide("repair", "readings", "--list")
    assert listed.exit_code == 1
    assert "tidegate repair readings --window 2013-01-05T00:00Z --why" in listed.output
    assert the_json(tide("repair", "readings", "--json"))["blocks"][0]["reason"] == "files and ledger differ"
    status = tide("status", "readings")
    assert status.exit_code == 1
    assert "window 2013-01-05T00:00Z is blocked: files and ledger differ" in status.output
    assert "window 2013-01-05T00:00Z: blocked" in status.output, "its event"
    assert "20130105T000000Z" not in listed.output + status.output
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
    assert "batch 2 (PLANNED) will be ABANDONED: 1 offset is lost" in result.output
    assert world.ingest("r3") == 3
    audited = the_json(tide("audit", "readings", "--json", "-q"))
    assert audited["problems"] == []
    assert (audited["abandoned"], audited["read"]) == (1, 7)
    told = tide("audit", "readings", "-q").output
    assert "1 offset + 7 of topics before it = 7 landed + 0 not planned yet + 1 lost or abandoned" in told


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
    assert "1 of 2 pipelines valid" in result.stdout
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
    assert "1 of 1 pipeline valid" in tide("spec", "validate").output


def test_names_are_completed(tide: Tide, world: World) -> None:
    add_yaml(world.folder, "reach")
    before = dict(os.environ)
    try:
        assert surroundings.complete_pipeline(None, None, "re") == ["reach", "readings"]  # type: ignore[arg-type]
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_an_installed_package_has_no_stack_and_says_where_it_is(
    tide: Tide, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tidegate.cli.main.__file__", str(tmp_path / "a/tidegate/cli/main.py"))
    result = tide("stack", "status")
    assert result.exit_code == 2
    assert "in a checkout of Tidegate only" in result.output


HEAVY = ("airflow", "pyarrow", "duckdb", "pyspark", "pendulum")
TELL_MODULES = """
import json, sys
from tidegate.cli.main import main
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


def test_nobody_else_tries_what_was_typed():
    from tidegate.cli.failures import _failed
    from tidegate.core.base.errors import GOES_ON, LedgerError, SourceUnavailable

    told = _failed(SourceUnavailable("Kafka has no answer")).message
    assert told.endswith("what to do: check the connection that source.conn_id names; then run it again")
    first = _failed(LedgerError("no answer", advice=f"{GOES_ON} once the database is back")).message
    assert first.endswith("what to do: run it again once the database is back")
