"""Connections are read as Airflow itself reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

from tidegate.adapters.connections import ConnectionMissing, resolve
from tidegate.core.base.connection import Connection

CASES = {
    "empty_uri": "kafka://",
    "kafka_uri": "kafka://?__extra__=%7B%22bootstrap.servers%22%3A%20%22h%3A9092%2Ci%3A9092%22%2C%20%22n%22%3A%201%7D",
    "kafka_query": "kafka:///?bootstrap.servers=h%3A9092&security.protocol=SSL&empty=",
    "kafka_json": '{"conn_type": "kafka", "extra": {"bootstrap.servers": "h:9092", "deep": {"a": [1, true]}}}',
    "kafka_text_extra": '{"conn_type": "kafka", "extra": "{\\"bootstrap.servers\\": \\"h:9092\\"}"}',
    "hive": "hiveserver2://tide%40gate:p%40ss%2Fw%3Ard@Hive.Example:10000/lake?auth_mechanism=NONE",
    "hive_json": '{"conn_type": "hiveserver2", "host": "Hive", "port": "10000", "login": "t", "password": "p:/@#%41"}',
    "hive_port_number": '  {"conn_type": "hive-cli", "host": "h", "port": 10000, "schema": "default", "extra": ""}  ',
    "postgres": "postgresql://u:p@127.0.0.1:5432/ledger",
    "postgres_socket": "postgresql://u@%2Ftmp%2FSock/ledger",
    "postgres_driver": "postgresql+psycopg2://u:p@h/ledger",
    "dashes": "google-cloud-platform://h",
    "spark_local": "spark://local%5B2%5D",
    "spark_yarn": "spark://yarn?deploy-mode=cluster",
    "spark_master": "spark://spark%3A%2F%2Fmaster:7077",
    "protocol": "spark://k8s://master:7077",
    "protocol_login": "http://https://u:p@h:8443/s",
    "k8s": "spark://k8s%3A%2F%2Fhttps%3A%2F%2Fh:443",
    "ipv6": "kafka://u@[::1]:9092/",
    "only_port": "kafka://@:9092",
    "only_login": "kafka://me@",
    "only_password": "kafka://:secret@h",
    "sqlite": "sqlite:////var/lib/ledger.db",
    "unicode": "hiveserver2://us%C3%A9r:%E6%97%A5@h/%D0%B1",
    "upper": "HTTP://Host/S",
    "fragment": "http://h/s#frag?x=1",
}

AIRFLOW = """
import json, sys, warnings
warnings.simplefilter("ignore")
from airflow.secrets.environment_variables import EnvironmentVariablesBackend
found = {}
for name in json.load(sys.stdin):
    c = EnvironmentVariablesBackend().get_connection(name)
    found[name] = [c.conn_type, c.host, c.port, c.login, c.password, c.schema, c.extra_dejson]
print("\\n" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def as_airflow_reads_them(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list]:
    env = os.environ | {f"AIRFLOW_CONN_{name.upper()}": value for name, value in CASES.items()}
    env |= {"AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")), "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}
    env |= {"AIRFLOW__CORE__UNIT_TEST_MODE": "False", "AIRFLOW__CORE__LAZY_LOAD_PLUGINS": "True"}
    command = [sys.executable, "-c", textwrap.dedent(AIRFLOW)]
    done = subprocess.run(command, env=env, input=json.dumps(list(CASES)), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CASES)
def test_as_airflow(name, as_airflow_reads_them, monkeypatch):
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", CASES[name])
    found = resolve(name)
    ours = [found.conn_type, found.host, found.port, found.login, found.password, found.schema]
    *theirs, extra = as_airflow_reads_them[name]
    assert ours == [value or None for value in theirs]
    assert found.extra == (extra or {})


def test_a_lookup_replaces_the_environment(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_X", "kafka://env")
    assert resolve("x", lambda conn_id: Connection(conn_id=conn_id, host="looked-up")).host == "looked-up"


@pytest.mark.parametrize("value", [None, "", "  "])
def test_unknown_says_what_to_set(monkeypatch, value):
    if value is not None:
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", value)
    else:
        monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT", raising=False)
    with pytest.raises(ConnectionMissing, match="kafka_default is not in this environment") as missing:
        resolve("kafka_default")
    assert "AIRFLOW_CONN_KAFKA_DEFAULT" in missing.value.advice


@pytest.mark.parametrize(
    "value",
    [
        '{"host": hunter2}',
        '{"extra": "hunter2"}',
        '{"port": "hunter2"}',
        "kafka://u:hunter2@h:port",
        "x://u:hunter2@a://b",
        "hunter2",
    ],
)
def test_what_cannot_be_read_is_not_shown(monkeypatch, value):
    monkeypatch.setenv("AIRFLOW_CONN_X", value)
    with pytest.raises(ConnectionMissing, match="AIRFLOW_CONN_X is neither") as wrong:
        resolve("x")
    assert "hunter2" not in str(wrong.value)
    assert wrong.value.__suppress_context__


def test_secrets_are_not_in_the_repr():
    shown = repr(Connection(conn_id="x", login="me", password="hunter2", extra={"sasl.password": "hunter2"}))
    assert "me" in shown
    assert "hunter2" not in shown
