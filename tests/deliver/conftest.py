"""Where deliveries to ClickHouse go to."""

import os
import random

import pytest

from tests.clickhouse.fixtures import newest_engine, place  # noqa: F401
from tests.clickhouse.places import ALL

SAMPLES = {"one": 0.3, "two": 0.6}
"""Of what runs on one server of ClickHouse, and on two as shards: these parts, drawn by the run's seed;
`make test-clickhouse`: all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        kind = item.callspec.params.get("place") if hasattr(item, "callspec") else None
        if ALL or kind not in tuple(SAMPLES):
            continue
        if random.Random(f"{os.environ['TIDEGATE_TEST_SEED']}:{item.nodeid}").random() > SAMPLES[kind]:
            item.add_marker(pytest.mark.skip(reason=f"on ClickHouse, {kind}: make test-clickhouse"))
