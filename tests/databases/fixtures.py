"""The databases, once a run. Tests share them: each test makes the table `shop.t` anew."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from dev.stack import debian
from tests.databases import h2, servers
from tests.databases.servers import Server

KINDS = ("mariadb", "postgresql", *(("mysql",) if "TIDEGATE_MYSQL" in os.environ else ()))
"""What tests run on. MySQL comes from Debian's sid, which is 60 MB and not there every day: `make test-mysql`."""


@pytest.fixture(scope="session")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not debian.is_here():
        pytest.skip("no Debian here, whose packages bring MySQL")
    with servers.mysql(tmp_path_factory.mktemp("mysql")) as found:
        yield found


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not debian.is_here():
        pytest.skip("no Debian here, whose packages bring MariaDB")
    with servers.mariadb(tmp_path_factory.mktemp("mariadb")) as found:
        yield found


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.postgresql(tmp_path_factory.mktemp("postgresql")) as found:
        yield found


@pytest.fixture(scope="session")
def jdbc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with h2.h2(tmp_path_factory.mktemp("h2")) as found:
        yield found
