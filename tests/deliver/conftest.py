"""Where deliveries to ClickHouse go to."""

from tests.clickhouse.fixtures import newest_engine, place  # noqa: F401
