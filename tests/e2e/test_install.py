"""docs/install.md, followed literally: its blocks, in their order, in an Airflow that has never seen Tidegate.

`make test-install` does it with a registry, under Airflow's constraints, for the wheel and for the copied folder. With
TIDEGATE_INSTALL=local packages come from this environment, and pip installs nothing but the wheel.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import site
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dev import dist
from dev.stack.info import StackInfo
from dev.stack.java import find_java
from dev.stack.topics import create_topic
from spark_jobs.engine import native

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs/install.md"
INSTALL = os.environ.get("TIDEGATE_INSTALL")
NETWORK = INSTALL == "network"
pytestmark = pytest.mark.skipif(INSTALL is None, reason="make test-install")
OURS = ("tidegate", "spark_jobs", "__editable__", "_virtualenv", "distutils-precedence")


@dataclass
class Host:
    """A machine with an Airflow of its own; `way` is how Tidegate comes to it."""

    root: Path
    way: str
    env: dict[str, str]
    output: str = field(default="", init=False)

    def follow(self, *kinds: str) -> None:
        """Run the page's blocks of these kinds in one shell, and stop at the first command that fails."""
        script = "set -e\nset -x\nshopt -s expand_aliases\n" + "\n".join(blocks(*kinds))
        done = subprocess.run(
            ["bash", "-c", script],
            env=self.env,
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        self.output = done.stdout
        assert done.returncode == 0, done.stdout[-6000:]


def blocks(*kinds: str) -> list[str]:
    found = re.findall(r"^```sh(?: (\w+))?\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [text for kind, text in found if kind in kinds]


def packages(folder: Path) -> Path:
    """All that is installed here but Tidegate itself."""
    folder.mkdir()
    for found in Path(next(p for p in site.getsitepackages() if "site-packages" in p)).iterdir():
        if not found.name.startswith(OURS):
            (folder / found.name).symlink_to(found)
    return folder


@pytest.fixture(params=["wheel", *(["copied"] if NETWORK else [])])
def host(
    request: pytest.FixtureRequest, tmp_path: Path, kafka: StackInfo, postgres: StackInfo, hive_spark: StackInfo
) -> Host:
    binaries = tmp_path / "venv/bin"
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("plugins", "spark_jobs", "dags", "docs"):
        (checkout / name).symlink_to(CHECKOUT / name)
    (checkout / "dist").mkdir()
    env = {
        "HOME": str(tmp_path),
        "PATH": f"{binaries}:/usr/bin:/bin",
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "CHECKOUT": str(checkout),
        "KAFKA": kafka.kafka_bootstrap,
        "LEDGER": database(postgres, "install"),
        "HIVE_HOST": hive_spark.hive_host,
        "HIVE_PORT": str(hive_spark.hive_port),
        "SPARK_MASTER": "local[1]",
        "LAKE": f"file://{tmp_path}/lake",
    }
    if NETWORK:
        constraints = max((CHECKOUT / "tests/fixtures/airflow").glob("constraints-*.txt"))
        env["CONSTRAINTS"] = str(constraints)
    else:
        shared = packages(tmp_path / "packages")
        purelib = next((tmp_path / "venv/lib").glob("python*/site-packages"))
        (purelib / "packages.pth").write_text(f"{shared}\n")
        env |= {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "CONSTRAINTS": str(tmp_path / "none.txt")}
        (tmp_path / "none.txt").touch()
        for name in ("airflow", "spark-submit"):
            script(binaries / name, name, shared)
    if NETWORK:
        words = ["pip", "install", "-q", "apache-airflow==2.11.2", "pyspark==3.5.9", "--constraint", env["CONSTRAINTS"]]
        subprocess.run([str(binaries / words[0]), *words[1:]], env=env, check=True)
    (tmp_path / "airflow").mkdir()
    subprocess.run([str(binaries / "airflow"), "db", "migrate"], env=env, check=True, capture_output=True)
    return Host(tmp_path, request.param, env)


def script(path: Path, name: str, shared: Path) -> None:
    """The program `name` of this environment, run by the other one's Python."""
    if name == "airflow":
        path.write_text(f"#!{path.with_name('python')}\nfrom airflow.__main__ import main\nmain()\n")
    else:
        home = shlex.quote(str(shared / "pyspark"))
        python = shlex.quote(str(path.with_name("python")))
        path.write_text(
            f'#!/bin/bash\nexport SPARK_HOME={home} PYSPARK_PYTHON={python}\nexec {home}/bin/spark-submit "$@"\n'
        )
    path.chmod(0o755)


def database(postgres: StackInfo, name: str) -> str:
    """A database of its own on the server."""
    import psycopg2

    connection = psycopg2.connect(postgres.ledger_url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {name}")
        cursor.execute(f"CREATE DATABASE {name}")
    connection.close()
    return postgres.ledger_url.rpartition("/")[0] + f"/{name}"


def produce(kafka: StackInfo) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.kafka_bootstrap})
    if "clicks" not in admin.list_topics().topics:
        create_topic({"bootstrap.servers": kafka.kafka_bootstrap}, NewTopic("clicks", 1, 1))
    producer = Producer({"bootstrap.servers": kafka.kafka_bootstrap})
    for minute in range(80):
        at = f"2026-11-01T{minute // 60:02}:{minute % 60:02}:00Z"
        producer.produce("clicks", json.dumps({"page": "/", "took": minute, "at": at}).encode())
    assert producer.flush(30) == 0


def test_install_as_the_page_says(host: Host, kafka: StackInfo) -> None:
    produce(kafka)
    (wheel,) = dist.wheel_files(host.root / "wheel", "here").values()  # all of them: tests/e2e/test_dist.py
    wheel.rename(host.root / "checkout/dist" / wheel.name.replace("-linux_", "-manylinux_2_17_"))
    host.follow(host.way, "")
    assert "No data found" in host.output, host.output[-3000:]  # of import errors
    assert re.search(r"data\W+80|80 records|records\W+80", host.output), host.output[-6000:]
    if host.way == "wheel":
        log = [line for line in host.output.splitlines() if "tidegate: " in line]  # the job's
        assert any(f"messages were decoded by {native.named()}" in line for line in log), log or host.output[-9000:]
    assert sys.version_info[:2] == (3, 11)
