"""docker-compose.yml without a Docker engine: valid by the specification's schema, and true to what the code reads."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tidegate import settings
from tidegate.adapters.connections import resolve
from tidegate.core.base.connection import Connection
from tidegate.core.spec.pipeline import ArchiveRun, IngestRun
from tidegate.sources.kafka.control import connection_settings

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
TEXT = FILE.read_text()
SERVICES: dict[str, dict] = yaml.safe_load(TEXT)["services"]
VOLUMES: set[str] = set(yaml.safe_load(TEXT)["volumes"])
SECRETS = re.findall(r"^(\w+)=$", (ROOT / "docker" / "env.example").read_text(), re.MULTILINE)
AIRFLOW = [name for name in SERVICES if name.startswith("airflow-")]


def environment(service: str) -> dict[str, str]:
    """As the container sees it, every secret being its own name."""
    given = SERVICES[service].get("environment", {})
    return {key: re.sub(r"\$\{(\w+)[^}]*\}", r"\1", str(value)) for key, value in given.items()}


def listening(service: str) -> set[int]:
    """Ports that the service's own settings name."""
    text = json.dumps([environment(service), SERVICES[service].get("command", ""), SERVICES[service]["healthcheck"]])
    known = {"postgres": {5432}}
    return {int(port) for port in re.findall(r"\b\d{4,5}\b", text)} | known.get(service, set())


def reach(host: str, port: int) -> None:
    assert host in SERVICES, f"no service {host}"
    assert port in listening(host), f"{host} does not listen on {port}"


def test_the_specifications_schema():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_docker_composes_own_reading(tmp_path):
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "compose", "version"], capture_output=True, timeout=30).returncode:
        pytest.skip("no docker compose here")
    secrets = tmp_path / "env"
    secrets.write_text("".join(f"{name}=x\n" for name in SECRETS))
    command = [docker, "compose", "--env-file", str(secrets), "--file", str(FILE), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_parts_of_the_production_shape():
    images = " ".join(str(service.get("image")) for service in SERVICES.values())
    for part in ("tidegate:local", "postgres:", "apache/kafka:", "apache/hadoop:", "tidegate-hive:local"):
        assert part in images
    assert {"airflow-webserver", "airflow-scheduler", "airflow-triggerer", "spark-master", "spark-worker"} <= set(
        SERVICES
    )


@pytest.mark.parametrize("service", SERVICES)
class TestEveryService:
    def test_images_are_pinned(self, service):
        image = SERVICES[service]["image"]
        assert ":" in image
        assert not image.endswith(":latest")
        assert image.endswith(":local") == ("build" in SERVICES[service])

    def test_what_it_waits_for_can_come(self, service):
        for name, wait in SERVICES[service].get("depends_on", {}).items():
            assert name in SERVICES
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[name], f"{name} is never healthy"
            else:
                assert SERVICES[name]["restart"] == "no", f"{name} never completes"

    def test_ports_are_published_on_loopback_only(self, service):
        for port in SERVICES[service].get("ports", []):
            address, outside, inside = port.split(":")
            assert address == "127.0.0.1"
            assert outside == inside
            assert int(inside) in listening(service)

    def test_mounts_exist(self, service):
        for mount in SERVICES[service].get("volumes", []):
            source = mount.split(":")[0]
            assert (ROOT / source).is_dir() if source.startswith(".") else source in VOLUMES

    def test_secrets_come_from_outside(self, service):
        for key, value in SERVICES[service].get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|FERNET", key) or re.search(r"[pP]assword=|://\w+:[^/]+@", str(value)):
                (name,) = set(re.findall(r"\$\{(\w+)", value))
                assert name in SECRETS, f"{name} is not in docker/env.example"
            assert set(re.findall(r"\$\{(\w+)", str(value))) <= set(SECRETS)


def test_every_secret_is_asked_for_once_at_least():
    for name in SECRETS:
        assert re.search(rf"\$\{{{name}:\?", TEXT), f"without {name} the stack would start with an empty one"


def test_tidegates_settings_are_settings_that_it_reads():
    class Asked(Mapping):
        def __init__(self, values: dict[str, str]) -> None:
            self.values_, self.names = values, set()

        def __getitem__(self, key):
            self.names.add(key)
            return self.values_[key]

        def __iter__(self):
            return iter(self.values_)

        def __len__(self):
            return len(self.values_)

    for service in AIRFLOW:
        env = Asked(environment(service))
        read = settings.load(env)
        given = {name for name in env if name.startswith("AIRFLOW__TIDEGATE__")}
        assert given <= env.names
        assert f"AIRFLOW_CONN_{read.ledger_conn_id.upper()}" in env
        (dags,) = [m.split(":")[1] for m in SERVICES[service]["volumes"] if m.startswith("./dags:")]
        assert str(read.pipelines_folder) == f"{dags}/pipelines"
        assert env["AIRFLOW__CORE__DAGS_FOLDER"] == dags


def test_airflows_settings_are_settings_of_airflow():
    known = yaml.safe_load(resources.files("airflow").joinpath("config_templates/config.yml").read_text())
    for service in AIRFLOW:
        for name in environment(service):
            parts = name.split("__")
            if parts[0] == "AIRFLOW" and len(parts) == 3 and parts[1] != "TIDEGATE":
                assert parts[2].lower() in known[parts[1].lower()]["options"], name


class TestConnections:
    @pytest.fixture(autouse=True)
    def container(self, monkeypatch):
        for name, value in environment("airflow-scheduler").items():
            monkeypatch.setenv(name, value)

    def test_kafka(self):
        connection = resolve("kafka_default")
        assert connection.conn_type == "kafka"
        host, port = connection_settings(connection.extra)["bootstrap.servers"].split(":")
        reach(host, int(port))
        kafka = environment("kafka")
        assert f"INSIDE://{host}:{port}" in kafka["KAFKA_ADVERTISED_LISTENERS"].split(",")
        bound = {part.split(":")[0] for part in kafka["KAFKA_LISTENERS"].split(",")}
        assert bound == {part.split(":")[0] for part in kafka["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")}
        assert kafka["KAFKA_INTER_BROKER_LISTENER_NAME"] in bound
        assert kafka["KAFKA_CONTROLLER_LISTENER_NAMES"] in bound
        assert "kafka-data:" + kafka["KAFKA_LOG_DIRS"] in SERVICES["kafka"]["volumes"]

    def test_hive(self):
        connection = resolve("hiveserver2_default")
        assert connection.conn_type == "hiveserver2"
        reach(connection.host, connection.port)
        from tidegate.targets.hive.catalogue import PyHiveCatalogue

        c = connection
        PyHiveCatalogue.from_connection_fields(c.host, c.port, c.login, c.password, c.schema, c.extra)
        metastore = re.search(r"hive\.metastore\.uris=thrift://(\w+):(\d+)", environment(c.host)["SERVICE_OPTS"])
        reach(metastore[1], int(metastore[2]))

    def test_spark(self):
        connection = resolve("spark_default")
        master = f"{connection.host}:{connection.port}"
        assert urlsplit(master).scheme == "spark"
        reach(urlsplit(master).hostname, connection.port)
        assert SERVICES["spark-worker"]["command"][-1] == master

    def test_databases(self):
        script = (ROOT / "docker" / "postgres" / "10-databases.sh").read_text()
        made = dict(re.findall(r'^database (\w+) "\$(\w+)"$', script, re.MULTILINE))
        ledger = resolve("tidegate_ledger")
        assert ledger.conn_type == "postgres"
        airflow = urlsplit(environment("airflow-scheduler")["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
        found = Connection(conn_id="", host=airflow.hostname, port=airflow.port, login=airflow.username,
                           password=airflow.password, schema=airflow.path[1:])  # fmt: skip
        for connection in (ledger, found):
            reach(connection.host, connection.port)
            assert connection.login == connection.schema
            assert made[connection.schema] == connection.password
        assert ledger.schema != found.schema
        options = environment("metastore")["SERVICE_OPTS"]
        assert "jdbc:postgresql://postgres:5432/metastore " in options
        assert f"ConnectionPassword={made['metastore']}" in options
        assert set(made.values()) <= set(SERVICES["postgres"]["environment"])


def test_the_pools_that_the_dags_use_are_made():
    pools = set(re.findall(r"airflow pools set (\w+) ", SERVICES["airflow-init"]["command"][0]))
    assert pools == {IngestRun.pool, ArchiveRun.pool}


def test_whoever_touches_the_tables_sees_the_same_lake():
    lake = environment("airflow-scheduler")["TIDEGATE_LAKE"]
    for service in [*AIRFLOW, "spark-worker", "metastore", "hiveserver2"]:
        assert f"lake:{lake}" in SERVICES[service]["volumes"], service
    for dockerfile in ("docker/Dockerfile", "docker/hive/Dockerfile"):
        assert re.search(rf"--owner=50000 .* {lake}$", (ROOT / dockerfile).read_text(), re.MULTILINE)


def test_the_images_are_built_from_what_the_tests_run_with():
    pins = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE))
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    assert f"FROM apache/airflow:slim-{pins['apache-airflow']}-{python}\n" in dockerfile
    assert "--require-hashes -r /opt/tidegate/requirements.lock" in dockerfile


@pytest.mark.parametrize("service", [name for name in SERVICES if "build" in SERVICES[name]])
def test_builds_find_their_files(service):
    build = SERVICES[service]["build"]
    context = ROOT / build["context"]
    text = (context / build.get("dockerfile", "Dockerfile")).read_text()
    for sources in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", text, re.MULTILINE):
        for source in set(sources.split()) - {"README.md"}:  # pyproject names it: no wheel is built without it
            assert (context / source).exists(), f"{source} is not there"


def test_scripts_parse():
    for script in (ROOT / "docker").rglob("*.sh"):
        assert subprocess.run(["bash", "-n", str(script)], timeout=10).returncode == 0
    init = SERVICES["airflow-init"]["command"][0].replace("$$", "$")
    assert subprocess.run(["bash", "-n"], input=init, text=True, timeout=10).returncode == 0
