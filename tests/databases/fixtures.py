"""Both databases, once a run. Tests share them: a table `shop.t` is whoever's turn it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases import servers
from tests.databases.servers import Server


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.mariadb(tmp_path_factory.mktemp("mariadb")) as found:
        yield found


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.postgresql(tmp_path_factory.mktemp("postgresql")) as found:
        yield found
