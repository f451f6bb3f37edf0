"""Tables of ours in Iceberg, read through PyHive: a Thrift server of Spark's with Iceberg's own classes.

One connection all along: what it has once read of the table, it must not go on showing (`cache-enabled=false`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyhive import hive
from sqlalchemy import create_engine

from dev.stack.info import StackInfo
from tests.targets.iceberg.lab import Tables
from tests.world import World, record
from tidegate.core.spec.pipeline import Column
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.opening import CATALOG
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue

PAGE = (Path(__file__).parents[2] / "docs/iceberg.md").read_text()
TABLE, HOUR_5 = "iceberg.lake.readings", "2026-01-01 05:00"
BY_HOUR = "SELECT date_format(_window, 'HH'), site, count(*) FROM {t} GROUP BY 1, 2 ORDER BY 1, 2"


@dataclass
class Reader:
    """Somebody with PyHive."""

    world: World
    cursor: Any

    @property
    def table(self) -> str:
        return f"{CATALOG}.{self.world.pipeline.sink.table}"

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """`{t}` is the table."""
        self.cursor.execute(statement.format(t=self.table))
        found: list[tuple[Any, ...]] = self.cursor.fetchall()
        return found

    def told(self, hour: int) -> list[tuple[Any, ...]]:
        """Generation and rows, by the page's own statement."""
        asked = PAGE.split("```sql spark\n")[1].split("```")[0].strip().rstrip(";")
        return self.sql(asked.replace(TABLE, "{t}").replace(HOUR_5, f"2013-01-05 0{hour}:00"))

    def page(self, at: StackInfo, hour: int, capsys: pytest.CaptureFixture[str]) -> str:
        """What the page's program prints."""
        program = PAGE.split("```python pyhive\n")[1].split("```")[0]
        for said, meant in (("10000", str(at.hive_port)), (TABLE, self.table), (HOUR_5, f"2013-01-05 0{hour}:00")):
            assert said in program
            program = program.replace(said, meant)
        capsys.readouterr()
        exec(program, {})
        return capsys.readouterr().out.strip()


@pytest.fixture
def reader(hive_spark: StackInfo, postgres: StackInfo, tmp_path: Path) -> Iterator[Reader]:
    namespace = f"thrift_{uuid4().hex[:12]}"
    world = World(tmp_path)
    world.change_spec(sink=replace(world.pipeline.sink, kind="iceberg", conn_id="lake", table=f"{namespace}.readings"))
    catalogue = SqlCatalogue(postgres.iceberg_sql_url, CATALOG, LocalStorage(), 10.0)
    world.tables = lambda world: Tables(catalogue)
    with hive.connect(hive_spark.hive_host, hive_spark.hive_port, "reader", auth="NONE") as connection:
        yield Reader(world, connection.cursor())
    world.close()
    engine = create_engine(postgres.iceberg_sql_url)
    with engine.begin() as c:
        c.exec_driver_sql("DELETE FROM iceberg_tables WHERE table_namespace = %s", (namespace,))
        c.exec_driver_sql("DELETE FROM iceberg_namespace_properties WHERE namespace = %s", (namespace,))
    engine.dispose()


def test_pyhive_reads_each_generation_of_an_hour(
    reader: Reader, hive_spark: StackInfo, capsys: pytest.CaptureFixture[str]
) -> None:
    world = reader.world
    world.produce(record("a", 0.1), record("b", 0.2, "città"), record("next", 2.1), record("later", 4.5))
    world.produce(record("later", 4.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    assert reader.sql(BY_HOUR) == [("00", "a", 1), ("00", "città", 1)]
    assert (reader.told(0), reader.told(1)) == ([("1", "2")], [])

    world.archive(1)
    world.archive(2)
    assert reader.sql(BY_HOUR) == [("00", "a", 1), ("00", "città", 1), ("02", "a", 1)]
    assert reader.told(1) == [("1", "0")], "an empty hour is told, too"
    assert [reader.page(hive_spark, hour, capsys) for hour in (0, 1)] == ["[(2,)]", "[(0,)]"]
    assert reader.sql("SELECT id FROM {t} WHERE _window = TIMESTAMP '2013-01-05 02:00:00'") == [("next",)]

    id_, site, value = world.pipeline.columns
    more = Column(name="tiny", type="tinyint", path="$.value")
    world.change_spec(columns=(id_, site, replace(value, path="$.other"), more))
    assert world.replay(0).generation == 2
    assert reader.told(0) == [("2", "2")]
    assert reader.sql("SELECT id, value, tiny FROM {t} ORDER BY id") == [
        ("a", None, 1), ("b", None, 1), ("next", 1, None),
    ], "the other hours have no values in a column that came later"  # fmt: skip
    assert reader.sql("SELECT _topic, _kafka_partition, _offset FROM {t} WHERE id = 'b'") == [("readings", 0, 1)]
