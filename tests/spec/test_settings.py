"""Settings and wiring: where they are looked for, and what is made of connections."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.engine.secrets import client_secrets, registry_settings
from tests.world import make_pipeline
from tidegate import wiring
from tidegate.adapters.connections import ConnectionMissing
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import LedgerError, TidegateError
from tidegate.core.spec.pipeline import AvroFormat, Format
from tidegate.ledger.migrate import migrate
from tidegate.settings import load
from tidegate.spark.connection import master_of
from tidegate.spark.launcher import secrets_file

CFG = """
[core]
dags_folder = /srv/airflow/dags
[logging]
log_format = [%%(asctime)s] %(message)s
[tidegate]
spark_binary = /opt/spark/bin/spark-submit
ledger_conn_id = from_file
poll_seconds = 5
"""


def test_without_anything_there_are_defaults(tmp_path: Path) -> None:
    found = load({"AIRFLOW_HOME": str(tmp_path)})
    assert found.pipelines_folder == tmp_path / "dags/pipelines"
    assert (found.ledger_conn_id, found.spark_binary, found.poll_s) == ("tidegate_ledger", "spark-submit", 30.0)


def test_airflow_cfg_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "airflow.cfg").write_text(CFG)
    found = load({"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__TIDEGATE__LEDGER_CONN_ID": "from_env"})
    assert found.pipelines_folder == Path("/srv/airflow/dags/pipelines")
    assert found.spark_binary == "/opt/spark/bin/spark-submit"
    assert found.ledger_conn_id == "from_env"
    assert found.poll_s == 5.0


def test_the_pipelines_folder_can_be_anywhere(tmp_path: Path) -> None:
    environ = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__TIDEGATE__PIPELINES_FOLDER": "/etc/pipelines"}
    assert load(environ).pipelines_folder == Path("/etc/pipelines")
    environ = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__DAGS_FOLDER": "/dags"}
    assert load(environ).pipelines_folder == Path("/dags/pipelines")


def test_a_file_that_cannot_be_parsed_is_named(tmp_path: Path) -> None:
    (tmp_path / "airflow.cfg").write_text("no section here")
    with pytest.raises(ValueError, match=r"airflow\.cfg"):
        load({"AIRFLOW_HOME": str(tmp_path)})


def test_settings_and_wiring_import_no_airflow_and_no_workers_library() -> None:
    heavy = "('airflow', 'pyspark', 'pyarrow', 'duckdb', 'pandas', 'confluent_kafka', 'sqlalchemy')"
    program = f"import sys; import tidegate.wiring; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("connection", "url"),
    [
        (
            Connection(
                conn_id="l",
                conn_type="postgres",
                host="db.example",
                port=5433,
                login="tide",
                password="p@ss/word",
                schema="ledger",
            ),
            "postgresql+psycopg2://tide:p%40ss%2Fword@db.example:5433/ledger",
        ),
        (
            Connection(
                conn_id="l",
                conn_type="postgres",
                host="db",
                port=None,
                login="tide",
                password=None,
                schema="ledger",
                extra={"sslmode": "require", "cursor": "x"},
            ),
            "postgresql+psycopg2://tide@db/ledger?sslmode=require",
        ),
        (Connection(conn_id="l", conn_type="sqlite", host="/var/ledger.db"), "sqlite:////var/ledger.db"),
    ],
)
def test_the_ledgers_address(connection: Connection, url: str) -> None:
    assert wiring.ledger_url(connection) == url


def test_a_ledger_on_another_database_is_refused() -> None:
    with pytest.raises(LedgerError, match="mysql") as caught:
        wiring.ledger_url(Connection(conn_id="l", conn_type="mysql", host="db"))
    assert not caught.value.retry


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        (Connection(conn_id="s", conn_type="spark", host="local[2]"), "local[2]"),
        (Connection(conn_id="s", conn_type="spark", host="yarn"), "yarn"),
        (Connection(conn_id="s", conn_type="spark", host="spark://master", port=7077), "spark://master:7077"),
        (Connection(conn_id="s", conn_type="spark", host="master", port=7077), "spark://master:7077"),
        (Connection(conn_id="s", conn_type="k8s", host="https://cluster", port=443), "k8s://https://cluster:443"),
    ],
)
def test_the_spark_master_is_read_as_airflow_reads_it(connection: Connection, master: str) -> None:
    assert master_of(connection) == master


def lookup_of(tmp_path: Path):
    connections = {
        "kafka": Connection(
            conn_id="kafka", conn_type="kafka", extra={"bootstrap.servers": "k:1", "sasl.password": "s3cret"}
        ),
        "hive": Connection(conn_id="hive", conn_type="hiveserver2", host="h", port=10000),
        "tidegate_ledger": Connection(conn_id="tidegate_ledger", conn_type="sqlite", host=str(tmp_path / "ledger.db")),
    }

    def lookup(conn_id: str) -> Connection:
        if conn_id not in connections:
            raise ConnectionMissing(f"no connection {conn_id}")
        return connections[conn_id]

    return lookup


def test_a_context_registers_the_spec_and_contacts_only_the_ledger(tmp_path: Path) -> None:
    pipeline = make_pipeline(f"file://{tmp_path}/lake")
    migrate(f"sqlite:///{tmp_path}/ledger.db")
    said: list[str] = []
    ctx = wiring.context_for(pipeline, said.append, actor="me", lookup=lookup_of(tmp_path))
    assert ctx.spec_version == 1
    assert ctx.ledger.pipelines.spec(pipeline.name, 1) == pipeline
    assert ctx.source.for_workers().settings["client.id"] == f"tidegate-{pipeline.name}"
    assert "sasl.password" not in ctx.source.for_workers().settings
    ctx.ledger.close()
    assert wiring.job_secrets(pipeline, lookup_of(tmp_path)) == {"sasl.password": "s3cret"}


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        (Connection(conn_id="r", conn_type="http", host="registry", port=8081), {"url": "http://registry:8081"}),
        (Connection(conn_id="r", conn_type="http", host="registry", schema="https"), {"url": "https://registry"}),
        (
            Connection(conn_id="r", conn_type="http", host="https://registry/base/", login="u", password="p"),
            {"url": "https://registry/base", "user": "u", "password": "p"},
        ),
        (
            Connection(conn_id="r", conn_type="http", host="registry", login="u"),
            {"url": "http://registry", "user": "u", "password": ""},
        ),
    ],
)
def test_a_registry_travels_with_the_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connection: Connection, expected: dict[str, str]
) -> None:
    """What the control plane writes is what the worker reads, and Kafka's client sees none of it."""
    message_format = Format("avro", avro=AvroFormat("confluent", registry_conn_id="r"))
    pipeline = replace(make_pipeline(f"file://{tmp_path}/lake"), format=message_format)
    others = lookup_of(tmp_path)
    secrets = wiring.job_secrets(pipeline, lambda conn_id: connection if conn_id == "r" else others(conn_id))
    with secrets_file(secrets) as path:
        monkeypatch.setenv("TIDEGATE_SECRETS_FILE", str(path))
        assert registry_settings() == expected
        assert client_secrets() == {"sasl.password": "s3cret"}


def test_a_registry_needs_a_host() -> None:
    with pytest.raises(TidegateError, match="connection r has no host"):
        wiring.registry_secrets(Connection(conn_id="r", conn_type="http"))
