"""Where each test delivers to, with a table of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dev.stack.info import StackInfo
from tests.clickhouse.places import ALL, Place, gone, newest, real

ENGINES = ["one", "two"]


@pytest.fixture(scope="session")
def newest_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with newest(tmp_path_factory.mktemp("newest")) as found:
        yield found


@pytest.fixture(params=[*ENGINES, "newest"] if ALL else ENGINES)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """One server of 18.16, two of them as shards, the newest engine."""
    if request.param == "newest":
        shared: Place = request.getfixturevalue("newest_engine")
        found = Place(shared.addresses, shared.user, shared.password)
    else:
        info: StackInfo = request.getfixturevalue("clickhouse")
        found = real(info, ENGINES.index(request.param) + 1)
    yield found
    gone(found)
