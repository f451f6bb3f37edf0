"""A world whose tables are Iceberg's in the stack's PostgreSQL, and somebody who reads them by PyHive.

One connection all along: what it has once read of a table, it must not go on showing (`cache-enabled=false`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from pyhive import hive
from sqlalchemy import create_engine

from dev.stack.info import StackInfo
from tests.targets.iceberg.lab import Tables
from tests.world import World
from tidegate.core.base.storage import Storage
from tidegate.storage import for_uri
from tidegate.targets.iceberg.opening import CATALOG
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue


@dataclass
class Reader:
    world: World
    cursor: Any

    @property
    def table(self) -> str:
        """As Spark calls it."""
        return f"{CATALOG}.{self.world.pipeline.sink.table}"

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """`{t}` is the table."""
        self.cursor.execute(statement.format(t=self.table))
        found: list[tuple[Any, ...]] = self.cursor.fetchall()
        return found

    def by_hour(self) -> list[tuple[str, str, int]]:
        """(hour, site, rows)."""
        return self.sql("SELECT date_format(_window, 'HH'), site, count(*) FROM {t} GROUP BY 1, 2 ORDER BY 1, 2")


@contextmanager
def reading(
    world: World, postgres: StackInfo, hive_spark: StackInfo, storage: Storage | None = None
) -> Iterator[Reader]:
    """The world's tables, in a namespace of their own. `storage`: what holds their files, where that takes a login."""
    namespace, sink = f"thrift_{uuid4().hex[:12]}", world.pipeline.sink
    world.change_spec(sink=replace(sink, kind="iceberg", conn_id="lake", table=f"{namespace}.readings"))
    catalogue = SqlCatalogue(postgres.iceberg_sql_url, CATALOG, storage or for_uri(sink.location), 10.0)
    world.tables = lambda world: Tables(catalogue)
    with hive.connect(hive_spark.hive_host, hive_spark.hive_port, "reader", auth="NONE") as connection:
        yield Reader(world, connection.cursor())
    world.close()
    engine = create_engine(postgres.iceberg_sql_url)
    with engine.begin() as c:
        c.exec_driver_sql("DELETE FROM iceberg_tables WHERE table_namespace = %s", (namespace,))
        c.exec_driver_sql("DELETE FROM iceberg_namespace_properties WHERE namespace = %s", (namespace,))
    engine.dispose()
