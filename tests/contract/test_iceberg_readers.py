"""Spark, by Iceberg's own classes, on our tables: it reads what was published, and changes it as strangers do (C9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from tests.copies.worlds import COPYING, CopyWorld
from tests.mirror.avro_events import AvroEvents, decimal
from tests.mirror.test_evolve import EVOLVING as MIRROR
from tests.mirror.worlds import MirrorWorld, event
from tests.mirror.worlds import Tables as MirrorTables
from tests.targets.iceberg.catalogues import Site
from tests.targets.iceberg.lab import Tables
from tests.targets.iceberg.spark import Spark, SparkFailed
from tests.world import T0, World, record
from tidegate.core.spec.pipeline import Column
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.catalogue import Catalogue
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue
from tidegate.workflow.audit.audit import Depth, audit

MORE = (
    Column(name="tiny", type="tinyint", path="$.tiny"),
    Column(name="small", type="smallint", path="$.small"),
    Column(name="noted", type="timestamp", path="$.noted"),
    Column(name="day", type="date", path="$.day"),
    Column(name="price", type="decimal(10,2)", path="$.price"),
    Column(name="stop", type="struct<name:string,lines:array<struct<n:smallint>>>", path="$.stop"),
    Column(name="delays", type="map<string,tinyint>", path="$.delays"),
)
TOLD = {
    "tiny": -7, "small": 300, "noted": "2013-01-05T00:30:00.123456Z", "day": "2013-01-05", "price": 12.3,
    "stop": {"name": "Zoo", "lines": [{"n": 5}, None]}, "delays": {"a": 1, "b": None},
}  # fmt: skip
READ = {
    "tiny": -7, "small": 300, "noted": "2013-01-05 00:30:00.123456", "day": "2013-01-05", "price": "12.30",
    "stop": {"name": "Zoo", "lines": [{"n": 5}, None]}, "delays": {"a": 1, "b": None},
}  # fmt: skip
TYPES = {
    "_window": "timestamp", "site": "string", "id": "string", "value": "int", "tiny": "int", "small": "int",
    "noted": "timestamp", "day": "date", "price": "decimal(10,2)",
    "stop": "struct<name:string,lines:array<struct<n:int>>>", "delays": "map<string,int>", "_topic": "string",
    "_kafka_partition": "int", "_offset": "bigint", "_kafka_ts": "timestamp", "_batch_id": "bigint",
    "_overflow": "map<string,string>",
}  # fmt: skip
ICEBERG_PAGE = Path(__file__).parents[2] / "docs/iceberg.md"
IDS = ["a", "b", "c", "next"]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    session = Spark(tmp_path_factory.mktemp("spark"))
    yield session
    session.close()


@dataclass
class Lake:
    """Three hours, published: three rows in three partitions, an empty one, one row."""

    world: World
    catalogue: Catalogue
    spark: Spark
    catalog: str
    table: str

    def __post_init__(self) -> None:
        w, catalogue = self.world, self.catalogue
        sink = replace(w.pipeline.sink, kind="iceberg", conn_id="lake", table=self.table)
        w.change_spec(sink=sink, columns=(*w.pipeline.columns, *MORE))
        w.tables = lambda world: Tables(catalogue)
        nowhere = record("b", 0.2) | {"site": None}
        w.produce(record("a", 0.1) | TOLD, nowhere, record("c", 0.3, "b"), record("next", 2.1) | TOLD)
        w.produce(record("later", 4.5))
        w.produce(record("later", 4.5), partition=1)
        w.ingest("r1")
        for hour in (0, 1, 2):
            w.archive(hour)

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """`{t}` and `{c}` are the table and its catalogue."""
        return self.spark(statement.format(t=f"{self.catalog}.{self.table}", c=self.catalog))

    def ids(self, where: str = "true", of: str = "") -> list[str]:
        return [str(r["id"]) for r in self.sql(f"SELECT id FROM {{t}}{of} WHERE {where} ORDER BY id")]

    def values(self) -> set[int]:
        return {int(r["value"]) for r in self.sql("SELECT value FROM {t}")}

    def snapshot(self) -> int:
        loaded = self.catalogue.load(self.table)
        assert loaded is not None
        return loaded.metadata.current_snapshot_id or 0

    def problems(self) -> list[str]:
        ctx = self.world.context()
        nobody: Any = SimpleNamespace(close=lambda: None)
        found = audit(ctx, ctx.ledger.reads, nobody, Depth(footers=False, coordinates=False))
        self.world.close()
        return [f"{p.subject}: {p.what}" for p in found.problems]

    def is_whole(self) -> None:
        """All rows as they were published, once; the audit agrees, and Clear changes nothing."""
        assert (self.ids(), self.values()) == (IDS, {1})
        assert self.problems() == []
        before = self.snapshot()
        self.world.archive(0)
        self.world.archive(2)
        assert self.snapshot() == before

    def is_named(self, words: str) -> None:
        """Hour 0 alone; Clear puts it right."""
        found = self.problems()
        assert found
        assert all(p.startswith("window 20130105T00") for p in found), found
        assert any(words in p for p in found), found
        self.world.archive(0)
        assert self.sql("SELECT * FROM {t}.delete_files") == [], "they go with the files that they mean"
        self.is_whole()


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path, spark: Spark) -> Iterator[Lake]:
    kind = request.param
    catalog = f"lake_{tmp_path.name}"
    if kind == "rest":
        site: Site = request.getfixturevalue("on_rest")
        spark.catalog(catalog, type="rest", uri=site.at)
        catalogue = site.opened()
        name = f"{site.namespace}.readings"
    else:
        url = f"sqlite:///{tmp_path}/catalogue.db" if kind == "sqlite" else request.getfixturevalue("on_postgres").at
        catalogue, name = SqlCatalogue(url, catalog, LocalStorage(), 10.0), "transit.readings"
        spark.catalog(catalog, type="jdbc", warehouse=f"file://{tmp_path}/warehouse", **_jdbc(url))
    found = Lake(World(tmp_path), catalogue, spark, catalog, name)
    yield found
    found.world.close()


def _jdbc(url: str) -> dict[str, str]:
    at = make_url(url)
    if at.host is None:
        return {"uri": f"jdbc:sqlite:{at.database}"}
    login = {"jdbc.user": at.username or "", "jdbc.password": at.password or ""}
    return {"uri": f"jdbc:postgresql://{at.host}:{at.port}/{at.database}", **login}


@pytest.mark.parametrize("lake", ["sqlite", "postgres", "rest"], indirect=True)
def test_spark_reads_what_was_published(lake: Lake) -> None:
    described = lake.sql("DESCRIBE TABLE {t}")
    columns = {r["col_name"]: r["data_type"] for r in described[: len(TYPES)]}
    assert columns == TYPES
    first, *_ = lake.sql("SELECT * FROM {t} WHERE id = 'a'")
    assert {name: first[name] for name in READ} == READ
    assert (first["_window"], first["site"], first["_kafka_partition"]) == ("2013-01-05 00:00:00", "a", 0)
    assert lake.ids() == IDS
    assert lake.ids("site IS NULL") == ["b"]
    third = "_window = TIMESTAMP '2013-01-05 02:00:00'"
    assert lake.ids(third) == ["next"]
    files = lake.sql("SELECT DISTINCT _file FROM {t} WHERE " + third)
    assert [str(r["_file"]) for r in files] == [
        str(r["file_path"]) for r in lake.sql("SELECT file_path FROM {t}.files WHERE partition." + third)
    ]
    assert len(lake.sql("SELECT * FROM {t}.files")) == 4
    assert len(lake.sql("SELECT * FROM {t}.files WHERE readable_metrics.`_window`.lower_bound >= "
                        "TIMESTAMP '2013-01-05 02:00:00'")) == 1  # fmt: skip
    assert lake.sql("SELECT count(*) n, max(_window) w FROM {t}") == [{"n": 4, "w": "2013-01-05 02:00:00"}]

    said = lake.sql("SELECT snapshot_id, summary FROM {t}.snapshots ORDER BY committed_at")
    tokens = [(int(s["summary"]["tidegate.unit"]), int(s["summary"]["tidegate.rows"])) for s in said]
    assert tokens == [(T0, 3), (T0 + 3_600_000, 0), (T0 + 7_200_000, 1)], "an empty hour is told, too"
    told = ICEBERG_PAGE.read_text().split("```sql spark\n")[1].split("```")[0].replace("iceberg.lake.readings", "{t}")
    for hour, rows in (("00", "3"), ("01", "0")):
        [ready] = lake.sql(told.replace("2026-01-01 05:00", f"2013-01-05 {hour}:00").strip().rstrip(";"))
        assert list(ready.values()) == ["1", rows]
    assert lake.ids(of=f" VERSION AS OF {said[1]['snapshot_id']}") == ["a", "b", "c"]
    through = [{"key": "tidegate.complete-through", "value": "2013-01-05T03:00Z"}]
    assert lake.sql("SHOW TBLPROPERTIES {t} ('tidegate.complete-through')") == through
    lake.is_whole()


@pytest.mark.parametrize("lake", ["sqlite", "rest"], indirect=True)
def test_compactions_are_welcome(lake: Lake) -> None:
    """Also after rows came anew: what stands is read from the snapshot, whatever its files are called (C3)."""
    assert lake.sql("CALL {c}.system.rewrite_manifests('" + lake.table + "')")[0]["rewritten_manifests_count"] == 2
    lake.is_whole()
    compact(lake)
    lake.is_whole()
    with pytest.raises(SparkFailed, match="GC is disabled"):
        lake.sql("CALL {c}.system.expire_snapshots('" + lake.table + "', TIMESTAMP '2100-01-01 00:00:00', 1)")
    id_, site, value, *more = lake.world.pipeline.columns
    lake.world.change_spec(columns=(id_, site, replace(value, path="$.other"), *more))
    assert lake.world.replay(0).generation == 2
    assert lake.sql("SELECT id, value FROM {t} ORDER BY id") == [
        {"id": i, "value": 1 if i == "next" else None} for i in IDS
    ]
    assert lake.problems() == []


@pytest.mark.parametrize(
    ("lake", "mode"), [("postgres", "copy-on-write"), ("rest", "merge-on-read")], indirect=["lake"]
)
def test_rows_that_others_change_are_named_and_come_back(lake: Lake, mode: str) -> None:
    kinds = ("delete", "update", "merge")
    lake.sql("ALTER TABLE {t} SET TBLPROPERTIES (" + ", ".join(f"'write.{k}.mode'='{mode}'" for k in kinds) + ")")
    lake.is_whole()
    lake.sql("DELETE FROM {t} WHERE id = 'a'")
    assert lake.ids() == IDS[1:]
    lake.is_named("partition _window")
    lake.sql("UPDATE {t} SET value = 5 WHERE id = 'a'")  # as many rows as before
    lake.is_named("changed by spark")
    lake.sql("UPDATE {t} SET value = 5 WHERE id = 'c'")
    compact(lake)  # which says that it changes no rows
    lake.is_named("changed by spark")
    lake.sql(
        "MERGE INTO {t} t USING (SELECT 'b' id, 9 value) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET value = s.value"
    )
    lake.is_named("changed by spark")
    lake.sql("DELETE FROM {t} WHERE id IN ('b', 'c')")
    compact(lake)
    lake.is_named("is not in the catalogue")
    lake.sql("INSERT INTO {t} SELECT * FROM {t} WHERE id = 'c'")
    assert lake.ids() == ["a", "b", "c", "c", "next"]
    lake.is_named("2 rows")


@pytest.mark.parametrize("lake", ["rest"], indirect=True)
def test_what_others_do_to_a_table_in_a_rest_catalogue(lake: Lake) -> None:
    """A branch of theirs means nothing, what cannot go on is named and goes on once it is taken back, and a table that
    was dropped, whose columns the server would number anew, comes back by Clear."""
    name, world = lake.table, lake.world
    id_, *others = world.pipeline.columns
    world.change_spec(columns=(id_, Column(name="between", type="array<string>", path="$.between"), *others))
    world.replay(2)
    lake.sql("ALTER TABLE {t} CREATE BRANCH `tidegate-first-copy`")
    lake.sql("INSERT INTO {t}.`branch_tidegate-first-copy` SELECT * FROM {t} WHERE id = 'a'")
    lake.sql("ALTER TABLE {t} ADD COLUMN theirs struct<a:int> AFTER id")
    lake.sql("ALTER TABLE {t} ALTER COLUMN value TYPE bigint")
    lake.sql("ALTER TABLE {t} WRITE ORDERED BY id")
    world.change_spec(columns=(*world.pipeline.columns, Column(name="again", type="string", path="$.id")))
    assert world.replay(0).generation > 1
    lake.is_whole()
    for wrong, back, words in (
        ("RENAME COLUMN value TO worth", "RENAME COLUMN worth TO value", "has dropped or renamed the column value"),
        ("DROP PARTITION FIELD site", "ADD PARTITION FIELD site", "is partitioned by"),
        ("UNSET TBLPROPERTIES ('tidegate.pipeline')",
         f"SET TBLPROPERTIES ('tidegate.pipeline'='{world.pipeline.name}')", "somebody else's table"),
        (f"RENAME TO {name}_old", "", "does not exist"),
    ):  # fmt: skip
        lake.sql("ALTER TABLE {t} " + wrong)
        assert [words in problem for problem in lake.problems()] == [True]
        lake.sql("ALTER TABLE {t} " + back if back else f"ALTER TABLE {{t}}_old RENAME TO {name}")
        lake.is_whole()
    lake.sql("DROP TABLE {t}")
    for hour in (0, 1, 2):
        world.archive(hour)
    lake.is_whole()


def compact(lake: Lake) -> None:
    done = lake.sql(
        "CALL {c}.system.rewrite_data_files(table => '" + lake.table + "', options => map('rewrite-all', 'true'))"
    )
    assert done[0]["rewritten_data_files_count"] > 0


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "rest"])
def test_a_mirror_is_empty_until_its_first_copy_is_whole(
    kind: str, spark: Spark, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    catalog, namespace = f"copied_{kind}", "transit"
    if kind == "rest":
        site: Site = request.getfixturevalue("on_rest")
        spark.catalog(catalog, type="rest", uri=site.at)
        catalogue, namespace = site.opened(), site.namespace
    else:
        url = f"sqlite:///{tmp_path}/catalogue.db" if kind == "sqlite" else request.getfixturevalue("on_postgres").at
        catalogue = SqlCatalogue(url, catalog, LocalStorage(), 10.0)
        spark.catalog(catalog, type="jdbc", warehouse=f"file://{tmp_path}/warehouse", **_jdbc(url))
    table = f"{namespace}.hidden"
    world = CopyWorld(tmp_path, COPYING.replace("lake.readings", table))
    world.tables = lambda world: MirrorTables(catalogue)

    def seen() -> dict[int, str]:
        spark(f"REFRESH TABLE {catalog}.{table}")
        rows = spark(f"SELECT id, word FROM {catalog}.{table} WHERE _op <> 'd'")
        return {int(row["id"]): row["word"] for row in rows}

    world.source_table.rows = {key: f"old {key}" for key in range(1, 61)}
    world.source_table.set(3, "first event")
    world.deliver()
    world.apply()
    world.read(go_on=lambda: False)
    world.apply()
    assert world.standing().copied.hidden
    assert seen() == {}
    assert len(spark(f"SELECT * FROM {catalog}.{table} VERSION AS OF 'tidegate-first-copy'")) == 24
    world.read()
    world.apply()
    assert seen() == world.source_table.rows
    world.land(event(61, "later", 10_000))
    world.apply()
    assert seen() == world.source_table.rows | {61: "later"}
    world.close()


def test_a_mirrors_column_that_has_grown(spark: Spark, tmp_path: Path) -> None:
    """Files of both types, some of which no later merge has touched, by their rows and by their statistics."""
    catalog, events = "grown", AvroEvents()
    url = f"sqlite:///{tmp_path}/catalogue.db"
    spark.catalog(catalog, type="jdbc", warehouse=f"file://{tmp_path}/warehouse", **_jdbc(url))
    columns = '  - {{name: qty, type: int}}\n  - {{name: total, type: "decimal(6,2)"}}\nsink:'
    world = MirrorWorld(tmp_path, MIRROR.replace("sink:", columns).replace("id, type: bigint", "id, type: int"))
    world.tables = lambda world: MirrorTables(SqlCatalogue(url, catalog, LocalStorage(), 10.0))
    narrow = {"id": "int", "word": "string", "qty": "int", "total": decimal(6)}
    wide = {"id": "long", "word": "string", "qty": "long", "total": decimal(20)}
    first = [events.told(narrow, 10 + n, id=n, word="a", qty=n, total=Decimal(n)) for n in range(9)]
    big = events.told(wide, 30, id=2**40, word="b", qty=2**41, total=Decimal("123456789012345678.25"))
    world.pipeline = replace(world.pipeline, format=events.format())
    world.land(*first)
    world.apply()
    world.land(big)
    world.apply()

    def seen(where: str) -> list[tuple[int, int, str]]:
        rows = spark(f"SELECT id, qty, total FROM {catalog}.lake.readings WHERE {where} ORDER BY id")
        return [(r["id"], r["qty"], r["total"]) for r in rows]

    small = [(n, n, f"{n}.00") for n in range(9)]
    assert seen("true") == [*small, (2**40, 2**41, "123456789012345678.25")]
    assert seen("qty >= 7") == seen("total >= 7") == seen("id >= 7") == [*small[7:], seen("true")[-1]]
    assert seen("qty = 3 AND id = 3 AND total = 3.00") == [small[3]]
    types = {r["col_name"]: r["data_type"] for r in spark(f"DESCRIBE {catalog}.lake.readings")}
    assert (types["id"], types["qty"], types["total"]) == ("bigint", "bigint", "decimal(20,2)")
    spark(f"CALL {catalog}.system.rewrite_data_files(table => 'lake.readings', options => map('rewrite-all', 'true'))")
    world.land(events.told(wide, 40, id=3, word="c", qty=2**42, total=Decimal(0)))
    world.apply()
    assert seen("id = 3") == [(3, 2**42, "0.00")]
    world.close()
