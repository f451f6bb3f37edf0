"""`tidegate doctor` on set-ups that are broken in one place: each finding is seen to appear, and nothing hangs."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from spark_jobs.engine import native
from tests.world import World, record
from tidegate import __version__
from tidegate.adapters import installed
from tidegate.cli import examination
from tidegate.cli.deadlines import ask
from tidegate.cli.main import main
from tidegate.ledger.migrate import migrate
from tidegate.spec import load_file
from tidegate.storage import probing

YAML = """\
version: 1
name: {name}
owner: tests
source: {{conn_id: kafka, topic: readings}}
format: {{type: json}}
columns: [{{name: id, type: string}}]
event_time: {{from: $.at, format: epoch_ms}}
windows: {{size: 1h, timezone: UTC, start: 2013-01-05T00:00:00Z, watermark_delay: 1h}}
partition_by: [date, hour]
sink: {{conn_id: hive, table: lake.{name}, location: "file://{folder}/lake/{name}"}}
ingest: {{schedule: null, spark: {{conn_id: spark}}}}
"""
KINDS = ("ingest", "archive", "replay", "maintain")


class Setup:
    """A folder with all that the doctor looks at but Kafka and Hive, whose ports are closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pipelines").mkdir()
        (folder / "airflow").mkdir()
        self.add("readings")
        self.ledger, self.airflow = folder / "ledger.db", folder / "airflow.db"
        migrate(f"sqlite:///{self.ledger}")
        self._make_airflow()
        port = _closed_port()
        self.env = {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__TIDEGATE__PIPELINES_FOLDER": str(folder / "pipelines"),
            "AIRFLOW__TIDEGATE__SPARK_BINARY": "/bin/true",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.airflow}",
            "AIRFLOW_CONN_TIDEGATE_LEDGER": json.dumps({"conn_type": "sqlite", "host": str(self.ledger)}),
            "AIRFLOW_CONN_KAFKA": json.dumps(
                {"conn_type": "kafka", "extra": {"bootstrap.servers": f"127.0.0.1:{port}"}}
            ),
            "AIRFLOW_CONN_HIVE": f"hiveserver2://x@127.0.0.1:{port}/default",
            "AIRFLOW_CONN_SPARK": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }

    def add(self, name: str, **changes: str) -> None:
        text = YAML.format(name=name, folder=self.folder)
        for old, new in changes.items():
            text = text.replace(old, new)
        (self.folder / f"pipelines/{name}.yaml").write_text(text)

    def _make_airflow(self) -> None:
        now = datetime.now(UTC).replace(tzinfo=None)
        self.sql("CREATE TABLE job (job_type, state, latest_heartbeat)")
        self.sql("CREATE TABLE slot_pool (pool, slots, description, include_deferred)")
        self.sql("CREATE TABLE dag (dag_id, is_paused, is_active, fileloc)")
        self.sql("CREATE TABLE import_error (filename, stacktrace)")
        for kind in ("SchedulerJob", "TriggererJob"):
            self.sql("INSERT INTO job VALUES (?, 'running', ?)", kind, str(now))
        for pool in ("tidegate_ingest", "tidegate_archive"):
            self.sql("INSERT INTO slot_pool VALUES (?, 4, '', 0)", pool)
        for kind in KINDS:
            self.sql("INSERT INTO dag VALUES (?, 0, 1, NULL)", f"readings.{kind}")

    def sql(self, statement: str, *values: Any) -> list[tuple]:
        with sqlite3.connect(self.airflow) as connection:
            return connection.execute(statement, values).fetchall()

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, ["doctor", "--timeout", "60", *words], catch_exceptions=False)

    def findings(self, *words: str, code: int | None = None) -> dict[str, list[dict[str, str]]]:
        """By check."""
        result = self.run("--json", *words)
        assert code is None or result.exit_code == code, result.output
        found: dict[str, list[dict[str, str]]] = {}
        for f in json.loads(result.stdout.splitlines()[-1])["findings"]:
            found.setdefault(f["check"], []).append(f)
        return found

    def wrong(self, check: str, level: str = "wrong") -> dict[str, str]:
        """The one finding of that level; each says what it means and how to mend it."""
        (found,) = [f for f in self.findings().get(check, ()) if f["level"] == level]
        assert found["means"]
        assert found["mend"]
        return found


def _closed_port() -> int:
    with socket.create_server((("127.0.0.1"), 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    for name in [n for n in os.environ if n.startswith(("AIRFLOW", "TIDEGATE"))]:
        monkeypatch.delenv(name)
    made = Setup(tmp_path)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(examination.Examination, "_kafka", _silent)
    monkeypatch.setattr(examination.Examination, "_table", _silent)
    return made


def _silent(self: Any, pipeline: Any) -> list[Any]:
    return []


_silent.__name__ = "_silent"


def test_a_good_set_up_is_well_and_nothing_is_left_behind(setup: Setup) -> None:
    result = setup.run()
    assert result.exit_code == 0, result.output
    assert " wrong" not in result.output
    assert not (setup.folder / "lake").exists(), "the probe of storage leaves nothing"
    assert not [p for p in setup.folder.rglob("*doctor*")]
    everything = setup.run("--all").output
    for words in (
        "the scheduler is alive",
        "pool tidegate_ingest: 4 slots",
        "ledger: at revision",
        "its DAGs are there",
    ):
        assert words in everything


def test_the_doctor_says_what_decodes_messages(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = setup.findings()["native library"]
    assert found["what"] == f"messages are decoded by {native.named()}"
    monkeypatch.setattr(native, "_load", lambda: "the C library is missing")
    found = setup.wrong("native library", "warning")
    assert found["what"] == "messages are decoded by the row rules in Python, because the C library is missing"
    assert found["mend"] == native.ADVICE


def test_servers_that_refuse_are_asked_really(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for name, value in setup.env.items():
        monkeypatch.setenv(name, value)
    found = setup.findings("--timeout", "6", code=1)
    assert {f["level"] for f in found["kafka"]} == {f["level"] for f in found["hive"]} == {"wrong"}
    assert "no batch can be planned" in found["kafka"][0]["means"]
    assert "no window can be published" in found["hive"][0]["means"]


BROKEN: dict[str, tuple[str, str, Callable[[Setup, pytest.MonkeyPatch], Any]]] = {
    "scheduler": ("scheduler", "no scheduler runs", lambda s, m: s.sql("DELETE FROM job WHERE job_type LIKE 'Sched%'")),
    "triggerer": ("triggerer", "has not beaten", lambda s, m: s.sql(
        "UPDATE job SET latest_heartbeat = ? WHERE job_type = 'TriggererJob'",
        str(datetime.now(UTC).replace(tzinfo=None) - timedelta(minutes=3)),
    )),
    "pool": ("pools", "there is no pool tidegate_ingest", lambda s, m: s.sql(
        "DELETE FROM slot_pool WHERE pool LIKE '%ingest'")),
    "empty pool": ("pools", "has no slot", lambda s, m: s.sql(
        "UPDATE slot_pool SET slots = 0 WHERE pool LIKE '%ingest'")),
    "dags": ("dags", "Airflow has no DAG readings.maintain", lambda s, m: s.sql(
        "DELETE FROM dag WHERE dag_id LIKE '%.maintain'")),
    "import error": ("imports", "readings.yaml:3: not a size", lambda s, m: s.sql(
        "INSERT INTO import_error VALUES ('/d/tidegate_pipelines.py:readings.yaml', "
        "'Traceback\n  x\nSpecError: readings.yaml:3: not a size\n  what to do: mend it\n')",
    )),
    "no airflow": ("airflow", "no Airflow here", lambda s, m: m.delenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")),
    "airflow's database": ("airflow", "no such table", lambda s, m: s.sql("DROP TABLE slot_pool")),
    "executor": ("executor", "Sequential", lambda s, m: m.setenv("AIRFLOW__CORE__EXECUTOR", "SequentialExecutor")),
    "ledger's revision": ("ledger", "is at revision none", lambda s, m: s.ledger.write_bytes(b"")),
    "no ledger": ("ledger", "no file", lambda s, m: s.ledger.unlink()),
    "no connection": ("connections", "hive is not in this environment", lambda s, m: m.delenv("AIRFLOW_CONN_HIVE")),
    "another type": ("connections", "is of type http", lambda s, m: m.setenv("AIRFLOW_CONN_KAFKA", "http://x")),
    "spark": ("spark", "no executable nowhere", lambda s, m: m.setenv("AIRFLOW__TIDEGATE__SPARK_BINARY", "nowhere")),
    "storage": ("storage", "cannot create directories", lambda s, m: (s.folder / "lake").write_text("a file")),
    "filesystem": ("workdir", "another filesystem", lambda s, m: m.setattr(
        probing, "same_filesystem", lambda a, b: False)),
    "python": ("python", "Python 3.12.1", lambda s, m: m.setattr(installed, "python_version", lambda: "3.12.1")),
    "library": ("versions", "pyarrow is not installed", lambda s, m: _without(m, "pyarrow")),
    "two copies": ("installation", "more than once, differently", lambda s, m: _copy(s)),
}  # fmt: skip


def _without(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    whole = installed.versions
    monkeypatch.setattr(
        installed, "versions", lambda names: dict(whole(names)) | ({name: None} if name in names else {})
    )


def _copy(setup: Setup) -> None:
    folder = setup.folder / "airflow/plugins/tidegate"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("# an older one\n")


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found_and_how_to_mend_it_is_said(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    check, words, breakage = BROKEN[name]
    breakage(setup, monkeypatch)
    found = setup.wrong(check)
    assert words in found["what"]
    assert setup.run().exit_code == 1


def test_executors_of_a_copied_folders_own_version_are_well(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no distribution to ask for a version, so the sources say theirs."""
    _without(monkeypatch, "tidegate")
    monkeypatch.setenv("AIRFLOW__TIDEGATE__SPARK_WORKER_ARCHIVE", f"hdfs:///a/tidegate-worker-{__version__}.tar.gz")
    (found,) = setup.findings(code=0)["archives"]
    assert found["level"] == "ok"
    monkeypatch.setenv("AIRFLOW__TIDEGATE__SPARK_WORKER_ARCHIVE", "hdfs:///a/tidegate-worker-0.0.1.tar.gz")
    assert setup.wrong("archives")["what"] == f"executors import tidegate 0.0.1, Airflow has {__version__}"


def test_warnings_are_not_wrong(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.sql("UPDATE dag SET is_paused = 1 WHERE dag_id = 'readings.archive'")
    setup.add("readings", **{"schedule: null,": "schedule: null, retries: 2,"})
    monkeypatch.setattr(probing, "free_space", lambda location: (1, 100))
    assert setup.wrong("dags", "warning")["mend"] == "airflow dags unpause readings.archive"
    assert setup.wrong("retries", "warning")["mend"] == "ingest.retries: 5 or more"
    assert setup.wrong("disk", "warning")
    assert setup.run().exit_code == 0


def test_a_missing_pool_is_made_when_asked_for(setup: Setup) -> None:
    setup.sql("DELETE FROM slot_pool")
    result = setup.run("--fix")
    assert result.exit_code == 0, result.output
    assert "made pool tidegate_archive with 4 slots" in result.output
    assert len(setup.sql("SELECT * FROM slot_pool")) == 2
    assert "made pool" not in setup.run("--fix").output
    assert len(setup.sql("SELECT * FROM slot_pool")) == 2


def test_a_missing_pool_is_made_where_airflow_has_the_old_name_of_the_setting(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[core] sql_alchemy_conn, which Airflow still reads, and so do the doctor's other questions."""
    setup.sql("DELETE FROM slot_pool")
    monkeypatch.setenv("AIRFLOW__CORE__SQL_ALCHEMY_CONN", os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    monkeypatch.delenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
    assert "made pool tidegate_archive with 4 slots" in setup.run("--fix").output


def test_nothing_at_all_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith(("AIRFLOW", "TIDEGATE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    result = CliRunner().invoke(main, ["doctor"], catch_exceptions=False)
    assert result.exit_code == 1
    for words in ("no Airflow here", "there is no such pipelines folder", "connection tidegate_ledger is not in this"):
        assert words in result.output
    assert list(tmp_path.iterdir()) == [], "no home was made"


def test_a_wrong_yaml_is_told_apart_and_the_others_are_looked_at(setup: Setup) -> None:
    setup.add("broken", **{"size: 1h": "size: 1 apple"})
    found = setup.findings(code=2)
    (yaml,) = found["yaml"]
    assert "broken.yaml:" in yaml["what"]
    assert any(f["about"] == "readings" for f in found["storage"])
    setup.findings("readings", code=0)
    assert setup.run("nobody").exit_code == 2


def test_what_could_not_be_looked_at_is_neither_well_nor_wrong(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN")
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD", "cat secret")
    found = setup.findings(code=3)
    assert found["airflow"][0]["level"] == "unknown"


@pytest.mark.parametrize("address", ["postgresql//airflow:geheim@db/airflow", "postgresql://airflow:1@geheim:x/db"])
def test_an_address_that_is_none_is_said_without_it(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """It holds the password."""
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", address)
    assert "sql_alchemy_conn is not an address" in setup.findings(code=1)["airflow"][0]["what"]
    assert "geheim" not in setup.run("--all").output


def test_a_server_that_never_answers_holds_nobody_up(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination.Examination, "_kafka", lambda self, pipeline: time.sleep(60))
    examination.Examination._kafka.__name__ = "_kafka"
    began = time.monotonic()
    result = CliRunner().invoke(main, ["doctor", "--timeout", "0.5", "--json"], catch_exceptions=False)
    assert time.monotonic() - began < 50
    (found,) = [f for f in json.loads(result.stdout.splitlines()[-1])["findings"] if f["check"] == "kafka"]
    told = (found["level"], found["about"], found["what"])
    assert told == ("wrong", "readings", "kafka: no answer within 0.5 s")


def test_questions_are_asked_at_once_and_one_that_raises_harms_no_other() -> None:
    def fail() -> int:
        raise ValueError("no")

    together = threading.Barrier(8, timeout=60)
    slow = {f"slow {n}": lambda: together.wait() >= 0 and 1 for n in range(8)}
    began = time.monotonic()
    answers = ask(slow | {"fails": fail, "hangs": lambda: time.sleep(30) or 1}, 1.0)
    assert time.monotonic() - began < 20
    assert {answers[n].value for n in slow} == {1}
    assert isinstance(answers["fails"].error, ValueError)
    assert (answers["hangs"].value, answers["hangs"].error) == (None, None)
    hanging = {f"hangs {n}": lambda: time.sleep(30) or 1 for n in range(4)}
    crowded = ask(hanging, 0.5, dict.fromkeys(hanging, "one server"), at_once=2)
    assert [bool(a.since_s) for a in crowded.values()] == [True, True, False, False]


def test_a_spec_that_contradicts_what_has_landed_is_wrong(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(setup.folder, load_file(setup.folder / "pipelines/readings.yaml"))
    world.produce(record("a", 0.1))
    world.ingest("r1")
    world.close()
    ledger = json.dumps({"conn_type": "sqlite", "host": str(world.database)})
    monkeypatch.setenv("AIRFLOW_CONN_TIDEGATE_LEDGER", ledger)
    assert "yaml" not in setup.findings(code=0)
    setup.add("readings", **{"{name: id, type: string}": "{name: id, type: int}"})
    wrong = setup.wrong("yaml")
    assert "column id was string, is int" in wrong["what"]
    assert wrong["mend"].startswith("take the change back")
