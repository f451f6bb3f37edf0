"""Real parts for tests, one of each per test run, started when the first test asks and ended with the run.

Every fixture gives a `dev.stack.info.StackInfo` (kafka_bootstrap, ledger_url, hive_host, hive_port, ...).
Tests share the part: use topic, table and schema names of your own.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.stack import debian
from dev.stack.errors import StackError
from dev.stack.info import StackInfo
from dev.stack.places import Places
from dev.stack.processes import Identity
from dev.stack.stack import Stack


@pytest.fixture(scope="session")
def kafka(stack_roots: Path) -> Iterator[StackInfo]:
    """A broker: `kafka.kafka_bootstrap`. Topics are not created by themselves."""
    yield from _running(stack_roots / "kafka", "kafka")


@pytest.fixture(scope="session")
def rocketmq(stack_roots: Path) -> Iterator[StackInfo]:
    """A name server and one broker: `rocketmq.rocketmq_namesrv`. Topics are not created by themselves."""
    yield from _running(stack_roots / "rocketmq", "rocketmq")


@pytest.fixture(scope="session")
def iceberg_rest(stack_roots: Path) -> Iterator[StackInfo]:
    """Iceberg's REST catalogue, without passwords: `iceberg_rest.iceberg_uri`. Use namespaces of your own."""
    yield from _running(stack_roots / "iceberg", "iceberg")


@pytest.fixture(scope="session")
def objects(stack_roots: Path) -> Iterator[StackInfo]:
    """An object store: `objects.objects_uri` (a bucket), `objects_endpoint`, `objects_key`, `objects_secret`. Use
    prefixes of your own."""
    yield from _running(stack_roots / "objects", "objects")


@pytest.fixture(scope="session")
def clickhouse(stack_roots: Path) -> Iterator[StackInfo]:
    """Two servers of ClickHouse 18.16: `clickhouse_hosts`, `clickhouse_user`, `clickhouse_password`. Use tables of your
    own."""
    if not debian.is_here():
        pytest.skip("no Debian here, whose packages bring ClickHouse")
    yield from _running(stack_roots / "clickhouse", "clickhouse")


@pytest.fixture(scope="session")
def postgres(stack_roots: Path) -> Iterator[StackInfo]:
    """PostgreSQL with an empty ledger database: `postgres.ledger_url` (the role may create more databases)."""
    yield from _running(stack_roots / "postgres", "postgres")


@pytest.fixture(scope="session")
def hdfs(stack_roots: Path) -> Iterator[StackInfo]:
    """A NameNode and a DataNode: `hdfs.hdfs_uri`. Whoever runs the tests is the superuser; use folders of your own."""
    yield from _running(stack_roots / "hdfs", "hdfs")


@pytest.fixture(scope="session")
def hive_spark(stack_roots: Path, postgres: StackInfo) -> Iterator[StackInfo]:
    """Spark's Thrift server: `hive_host`, `hive_port`, authentication NONE.

    `iceberg` is the catalogue at `postgres.iceberg_sql_url`; use namespaces of your own."""
    env = {"AIRFLOW_CONN_ICEBERG_SQL": postgres.iceberg_sql_url}
    yield from _running(stack_roots / "hive-spark", "hive", hive="spark-iceberg", env=env)


@pytest.fixture(scope="session")
def hive_on_objects(stack_roots: Path, postgres: StackInfo, objects: StackInfo) -> Iterator[StackInfo]:
    """The same as `hive_spark`, and it reads tables in `objects` too."""
    env = {"AIRFLOW_CONN_ICEBERG_SQL": postgres.iceberg_sql_url} | _access(objects)
    yield from _running(stack_roots / "hive-on-objects", "hive", hive="spark-iceberg", env=env)


@pytest.fixture(scope="session")
def hive_tables_on_objects(stack_roots: Path, objects: StackInfo) -> Iterator[StackInfo]:
    """Spark's Thrift server with Hive tables in `objects`."""
    yield from _running(stack_roots / "hive-objects", "hive", hive="spark-objects", env=_access(objects))


@pytest.fixture(scope="session")
def hive4_on_objects(stack_roots: Path, objects: StackInfo) -> Iterator[StackInfo]:
    """HiveServer2 and its metastore with Hive tables in `objects`."""
    yield from _running(stack_roots / "hive4-objects", "hive", hive="hive4-objects", env=_access(objects))


def _access(objects: StackInfo) -> dict[str, str]:
    extra = {"endpoint_url": objects.objects_endpoint, "region_name": "us-east-1"}
    access = {"conn_type": "aws", "login": objects.objects_key, "password": objects.objects_secret, "extra": extra}
    return {"AIRFLOW_CONN_AWS_DEFAULT": json.dumps(access)}


@pytest.fixture(scope="session")
def hive4(stack_roots: Path) -> Iterator[StackInfo]:
    """A real HiveServer2 4.0.1: `hive_host`, `hive_port`, authentication NONE."""
    yield from _running(stack_roots / "hive4", "hive", hive="hive4")


@pytest.fixture(scope="session")
def stack_roots() -> Iterator[Path]:
    """A folder for the stacks of this test run; leftovers of runs that were killed are removed."""
    base = Places.of_checkout().own / "test-stacks"
    base.mkdir(parents=True, exist_ok=True)
    for old in base.iterdir():
        if not Identity.parse(old.name.replace("-", ":")).alive:
            shutil.rmtree(old, ignore_errors=True)
    own = base / str(Identity.of(os.getpid())).replace(":", "-")
    own.mkdir(exist_ok=True)
    yield own
    shutil.rmtree(own, ignore_errors=True)


def _running(root: Path, part: str, **options: Any) -> Iterator[StackInfo]:
    try:
        stack = Stack(root, parts=(part,), **options, progress=lambda line: print(f"[stack] {line}"))
        info = stack.up()
    except StackError as error:
        pytest.fail(str(error), pytrace=False)
    yield info
    stack.down()
