"""Storage adapters, and Iceberg catalogues on real services, with names of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from dev.stack.info import StackInfo
from tests.contract.storage_places import OBJECTS, TREES, opened
from tests.targets.iceberg.catalogues import Site
from tidegate.core.base.storage import Storage


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
