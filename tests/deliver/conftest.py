"""Where deliveries to ClickHouse go to."""

import os
import random

import pytest

from tests.clickhouse.fixtures import newest_engine, place  # noqa: F401
from tests.clickhouse.places import ALL

SAMPLE = 0.3
"""Of what runs on one server, beside two as shards: this part, drawn by the run's seed; `make test-clickhouse`: all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        of_one = hasattr(item, "callspec") and item.callspec.params.get("place") == "one"
        if of_one and not ALL and random.Random(f"{os.environ['TIDEGATE_TEST_SEED']}:{item.nodeid}").random() > SAMPLE:
            item.add_marker(pytest.mark.skip(reason="on one server: make test-clickhouse"))
