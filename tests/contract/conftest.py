"""Storage adapters, and Iceberg catalogues on real services, with names of the test's own."""

from __future__ import annotations

import os
import random
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from dev.stack.info import StackInfo
from dev.stack.objects import BUCKET
from tests.contract.storage_places import OBJECTS, TREES, opened
from tests.databases.fixtures import mariadb, mysql, postgresql  # noqa: F401
from tests.targets.iceberg.catalogues import Site
from tidegate.core.base.storage import Storage

HERE = Path(__file__).parent
SAMPLES = {"moto": 0.25, "hive_spark": 0.5}
"""Of what runs on moto, the second of two servers, and on Spark's Thrift server, which lives of hours ask too: these
parts, drawn by the run's seed; `make test-nightly` runs all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("TIDEGATE_NIGHTLY") == "all":
        return
    for item in items:
        params = item.callspec.params.values() if item.path.parent == HERE and hasattr(item, "callspec") else ()
        for kind in (p for p in params if isinstance(p, str) and p in SAMPLES):
            if random.Random(f"{os.environ['TIDEGATE_TEST_SEED']}:{item.nodeid}").random() > SAMPLES[kind]:
                item.add_marker(pytest.mark.skip(reason=f"on {kind}: make test-nightly"))


@pytest.fixture(params=TREES + OBJECTS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Storage, str]]:
    """(storage, URI of an empty directory), of every adapter"""
    with opened(request.param, request, tmp_path) as found:
        yield found


@pytest.fixture(params=TREES)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Storage, str]]:
    """`place`, of adapters that rename"""
    with opened(request.param, request, tmp_path) as found:
        yield found


@pytest.fixture(params=OBJECTS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Storage, str]]:
    """`place`, of adapters for object stores"""
    with opened(request.param, request, tmp_path) as found:
        yield found


@pytest.fixture(scope="session")
def moto_objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackInfo]:
    """moto's server as an object store, in a thread. It asks nobody who he is.

    It looks whether an object is there before it takes its content, so it answers one request at a time here: of two
    writers at once both were told that they wrote."""
    from moto.server import ThreadedMotoServer

    server, one = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False), threading.Lock()
    server.start()
    served: Any = server._server
    answer = served.app

    def alone(environ: Any, start_response: Any) -> Any:
        with one:
            return answer(environ, start_response)

    served.app = alone
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    asked = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
    urllib.request.urlopen(asked, timeout=60).close()
    yield StackInfo(
        root=str(tmp_path_factory.getbasetemp()),
        env={},
        objects_uri=f"s3://{BUCKET}",
        objects_endpoint=endpoint,
        objects_key="anybody",
        objects_secret="anything",
    )
    server.stop()


@pytest.fixture
def on_rest(iceberg_rest: StackInfo, tmp_path: Path) -> Site:
    port = urlsplit(iceberg_rest.iceberg_uri).port
    return Site("rest", tmp_path, iceberg_rest.iceberg_uri, port, f"n{uuid4().hex[:12]}")


@pytest.fixture
def on_postgres(postgres: StackInfo, tmp_path: Path) -> Iterator[Site]:
    url, name = make_url(postgres.ledger_url), f"iceberg_{uuid4().hex[:12]}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as c:
        c.exec_driver_sql(f"CREATE DATABASE {name}")
    yield Site("sql", tmp_path, url.set(database=name).render_as_string(hide_password=False), url.port or 5432)
    with engine.connect() as c:
        c.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    engine.dispose()
