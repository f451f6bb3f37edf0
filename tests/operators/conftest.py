"""The stack of this folder's tests: started by the first that asks, ended after the last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operators.harness import Rig

_STARTED: list[Rig] = []


@pytest.fixture(scope="package")
def rig(stack_roots: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Kafka, PostgreSQL, Hive and Airflow with LocalExecutor; no pipelines yet."""
    made = Rig(stack_roots / "operators", tmp_path_factory.mktemp("operators"))
    try:
        _STARTED.append(made.up())
        yield made
    finally:
        _STARTED.clear()
        made.down()


@pytest.fixture(scope="module", autouse=True)
def only_own_lanes() -> Iterator[None]:
    """A file's lanes go with it: every parse and every task reads all that are there."""
    yield
    for rig in _STARTED:
        rig.remove(*list(rig.lanes))
