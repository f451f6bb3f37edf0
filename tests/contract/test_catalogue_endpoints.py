"""What only real endpoints can show: what readers see, and what is known when an answer is lost."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from catalogue_places import DATABASE, HOSTILE, REAL, Place, hasty, of
from fakes.proxy import Fate, LossyProxy
from pyarrow import orc
from pyhive import hive

from spark_jobs.engine.types import schema_of
from tidegate.core.base.errors import CatalogueError, CatalogueMismatch, CatalogueUnsure
from tidegate.core.base.partition_values import HIVE_NULL, partition_path
from tidegate.targets.hive import sql
from tidegate.targets.hive.catalogue import PyHiveCatalogue

# ---------------------------------------------------------------- what readers see


@pytest.fixture(params=REAL)
def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    info = request.getfixturevalue(request.param)
    return Place(PyHiveCatalogue(info.hive_host, info.hive_port, request_timeout_s=120), tmp_path)


def write_rows(folder: Path, ids: list[int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), folder / "part.parquet")


def test_readers_follow_the_location(endpoint: Place) -> None:
    table, catalogue = endpoint.created().name, endpoint.catalogue
    write_rows(endpoint.folder / "old", [1, 2])
    write_rows(endpoint.folder / "new", [3])
    query = f"SELECT `id` FROM {table} WHERE `date` = '2013-01-05'"
    catalogue.add_partitions(table, {of("UA"): endpoint.uri("old")})
    assert sorted(catalogue.execute(query)) == [(1,), (2,)]
    catalogue.set_location(table, of("UA"), endpoint.uri("new"))
    assert catalogue.execute(query) == [(3,)]
    catalogue.drop_partitions(table, [of("UA")])
    assert catalogue.execute(query) == []
    assert (endpoint.folder / "old/part.parquet").exists()
    assert (endpoint.folder / "new/part.parquet").exists()


@pytest.mark.parametrize("server", REAL)
def test_sessions_that_are_opened_and_closed_at_once_stand_in_nobodys_way(
    request: pytest.FixtureRequest, server: str
) -> None:
    """Of the stack's own servers: Hive makes a session's folders when it begins, and deletes them when it ends."""
    info = request.getfixturevalue(server)

    def session(_: int) -> None:
        hive.connect(host=info.hive_host, port=info.hive_port).close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(session, range(160)))


def write_columns(folder: Path, columns: tuple[tuple[str, str], ...], form: str = "parquet", **values: object) -> None:
    """One row, as a worker writes it."""
    folder.mkdir(parents=True)
    rows = pa.Table.from_pylist([values], schema=schema_of(columns))
    if form == "orc":
        orc.write_table(rows, folder / "part.orc")
    else:
        pq.write_table(rows, folder / "part.parquet", store_schema=False)


BEFORE = (("id", "smallint"), ("gone", "string"), ("fare", "decimal(6,2)"), ("legs", "struct<a:int>"), ("_o", "bigint"))
ADDED = (("more", "int"), ("_o", "bigint"), ("order", "struct<x:int>"), ("fare", "decimal(6,2)"), ("id", "smallint"))
WIDER = (
    ("id", "int"),
    ("gone", "string"),
    ("fare", "decimal(20,2)"),
    ("legs", "struct<a:int,b:string>"),
    ("_o", "bigint"),
)


def test_readers_see_old_and_new_files_when_columns_come_go_and_change_places(endpoint: Place) -> None:
    table, catalogue = replace(endpoint.table(), columns=BEFORE), endpoint.catalogue
    old, new = (
        {"id": 1, "gone": "x", "fare": Decimal("1.50"), "_o": 10},
        {"id": 2, "more": 7, "order": {"x": 5}, "_o": 20},
    )
    write_columns(endpoint.folder / "old", BEFORE, **old)
    write_columns(endpoint.folder / "new", ADDED, **new)
    catalogue.ensure_table(table)
    catalogue.add_partitions(table.name, {of("old"): endpoint.uri("old"), of("kept"): endpoint.uri("old")})
    catalogue.evolve_table(replace(table, columns=ADDED))
    catalogue.add_partitions(table.name, {of("new"): endpoint.uri("new")})
    catalogue.set_location(table.name, of("old"), endpoint.uri("new"))  # a replay, with today's columns
    rows = catalogue.execute(f"SELECT `app`, `id`, `gone`, `fare`, `more`, `_o`, `order`.`x` FROM {table.name}")
    was, now = (1, "x", Decimal("1.50"), None, 10, None), (2, None, None, 7, 20, 5)
    assert sorted(rows) == [("kept", *was), ("new", *now), ("old", *now)]
    assert catalogue.execute(f"SELECT `app` FROM {table.name} WHERE `more` IS NULL AND `gone` = 'x'") == [("kept",)]


GROWN = {
    "parquet": (WIDER, {"id": 2**31 - 1, "fare": Decimal("1e17"), "legs": {"a": 2, "b": "y"}}),
    "orc": (
        (("id", "bigint"), ("gone", "string"), ("fare", "decimal(20,4)"), *WIDER[3:]),
        {"id": 2**63 - 1, "fare": Decimal("1e15"), "legs": {"a": 2, "b": "y"}},
    ),
}


@pytest.mark.parametrize("form", GROWN)
def test_readers_see_old_and_new_files_when_types_grow(
    endpoint: Place, request: pytest.FixtureRequest, form: str
) -> None:
    columns, new = GROWN[form]
    table, catalogue = replace(endpoint.table(), columns=BEFORE, format=form), endpoint.catalogue
    write_columns(endpoint.folder / "old", BEFORE, form, id=-32768, fare=Decimal("-9999.99"), legs={"a": 1})
    write_columns(endpoint.folder / "new", columns, form, **new)
    catalogue.ensure_table(table)
    catalogue.add_partitions(table.name, {of("old"): endpoint.uri("old")})
    wider = replace(table, columns=columns)
    if "hive_spark" in request.node.name:
        with pytest.raises(CatalogueMismatch, match="cannot change the type of a column") as refused:
            catalogue.evolve_table(wider)
        assert not refused.value.retry
        catalogue.ensure_table(table)
        # what Spark reads when Hive has changed the table in a metastore that they share
        table = replace(wider, name=f"{wider.name}w", location=endpoint.uri("wider"))
        catalogue.ensure_table(table)
        catalogue.add_partitions(table.name, {of("old"): endpoint.uri("old")})
    else:
        assert len(catalogue.evolve_table(wider)) == 3
        assert catalogue.evolve_table(wider) == []
    catalogue.add_partitions(table.name, {of("new"): endpoint.uri("new")})
    rows = catalogue.execute(f"SELECT `id`, `fare`, `legs`.`a`, `legs`.`b` FROM {table.name}")
    assert sorted(rows) == [(-32768, Decimal("-9999.99"), 1, None), (new["id"], new["fare"], 2, "y")]


def test_readers_see_each_value_as_it_was(endpoint: Place) -> None:
    table, catalogue = endpoint.created(), endpoint.catalogue
    # A Java server started with a C locale cannot open a file whose name is not ASCII: those lie under another name.
    folders = {
        app or "": f"root/{partition_path(of(app))}" if (app or "").isascii() else f"root/app={number}"
        for number, app in enumerate((*HOSTILE, None))
    }
    for number, folder in enumerate(folders.values()):
        write_rows(endpoint.folder / folder, [number])
    catalogue.add_partitions(table.name, {of(app): endpoint.uri(folder) for app, folder in folders.items()})
    seen = catalogue.execute(f"SELECT `id`, `app` FROM {table.name}")
    assert sorted((n, None if app == HIVE_NULL else app) for n, app in seen) == [
        (number, app or None) for number, app in enumerate(folders)
    ]  # of a text column's default partition Hive shows the name, Spark null


def test_a_location_that_is_no_uri(endpoint: Place, request: pytest.FixtureRequest) -> None:
    """Any is good for adding; HiveServer2 moves a partition only to a URI, and then the error must say so."""
    table, catalogue = endpoint.created().name, endpoint.catalogue
    catalogue.add_partitions(table, {of("UA"): endpoint.uri("with blank {x}")})
    moved = {of("UA"): endpoint.uri("another <blank>")}
    if "hive4" in request.node.name:
        with pytest.raises(CatalogueError, match="without blanks") as refused:
            catalogue.set_location(table, *moved.popitem())
        assert not isinstance(refused.value, CatalogueUnsure)
        moved = {of("UA"): endpoint.uri("with blank {x}")}
    else:
        catalogue.set_location(table, *next(iter(moved.items())))
    assert catalogue.partitions(table) == moved


def test_an_operators_statement(endpoint: Place) -> None:
    assert endpoint.catalogue.execute("SELECT 1") == [(1,)]
    assert endpoint.catalogue.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}") == []
    with pytest.raises(CatalogueError) as refused:
        endpoint.catalogue.execute("REFRESH\nNONSENSE !")
    assert not isinstance(refused.value, CatalogueUnsure)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 800


@pytest.mark.parametrize("form", ["text", "parquet", "orc"])
def test_a_partition_that_somebody_altered_is_told(endpoint: Place, form: str) -> None:
    table, catalogue = replace(endpoint.table(), columns=(("id", "string"),), format=form), endpoint.catalogue
    catalogue.ensure_table(table)
    there = {of("UA"): endpoint.uri("a"), of("AA"): endpoint.uri("b")}
    catalogue.add_partitions(table.name, there)
    catalogue.set_location(table.name, of("AA"), endpoint.uri("c"))
    there[of("AA")] = endpoint.uri("c")
    assert catalogue.examine(table.name) == (there, {})
    if form == "orc":  # HiveServer2 changes no SerDe of ORC
        return
    lazy = "SET SERDE 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe'"
    change, words = {
        "text": ("SET SERDEPROPERTIES ('field.delim'=';')", "its field.delim is ';'"),
    }.get(form, (lazy, "its SerDe is org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"))
    by_hand = f"ALTER TABLE {table.name} PARTITION (`date`='2013-01-05',hour='04',app='UA') {change}"
    catalogue.execute(by_hand)
    found, otherwise = catalogue.examine(table.name, of("UA")[:1])
    assert (found, list(otherwise)) == (there, [of("UA")])
    assert otherwise[of("UA")].startswith(words)
    catalogue.check_table(table)
    catalogue.drop_partitions(table.name, [of("UA")])
    catalogue.add_partitions(table.name, {of("UA"): endpoint.uri("a")})
    assert catalogue.examine(table.name) == (there, {})


def test_partitions_of_before_a_column_read_as_the_table(endpoint: Place) -> None:
    """Hive keeps columns for each partition: those that Tidegate adds come to all."""
    table, catalogue = replace(endpoint.table(), columns=(("id", "string"),), format="parquet"), endpoint.catalogue
    catalogue.ensure_table(table)
    catalogue.add_partitions(table.name, {of("UA"): endpoint.uri("a")})
    wider = replace(table, columns=(("id", "string"), ("late", "bigint")))
    assert catalogue.evolve_table(wider)
    catalogue.add_partitions(table.name, {of("AA"): endpoint.uri("b")})
    there = {of("UA"): endpoint.uri("a"), of("AA"): endpoint.uri("b")}
    assert catalogue.examine(table.name) == (there, {})


def test_properties_that_do_harm_are_refused(endpoint: Place) -> None:
    """HiveServer2 does all of it; Spark's readers pass over most, and its tables are read by others too."""
    table, catalogue = endpoint.created(), endpoint.catalogue
    harm = ("external.table.purge", "discover.partitions", "parquet.column.index.access", "skip.header.line.count")
    for name in harm:
        value, harmless = ("1", "0") if "skip" in name else ("true", "false")
        catalogue.execute(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{name}'='{value}')")
        with pytest.raises(CatalogueMismatch, match=f"{name} is {value}: "):
            catalogue.ensure_table(table)
        catalogue.execute(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{name}'='{harmless}')")
        catalogue.ensure_table(table)


def test_a_clustered_table_is_refused(endpoint: Place, request: pytest.FixtureRequest) -> None:
    """Hive opens one file of a partition for a bucket: `TABLESAMPLE`, joins by bucket."""
    table, catalogue = endpoint.table(), endpoint.catalogue
    catalogue.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    column = table.columns[0][0]
    made = sql.create_table(table).replace(" STORED AS", f" CLUSTERED BY (`{column}`) INTO 4 BUCKETS STORED AS")
    catalogue.execute(made)
    with pytest.raises(CatalogueMismatch, match="it is clustered into 4 buckets"):
        catalogue.ensure_table(table)
    if request.node.callspec.params["endpoint"] == "hive4":  # Spark knows no way back
        catalogue.execute(f"ALTER TABLE {table.name} NOT CLUSTERED")
        catalogue.ensure_table(table)


def test_a_managed_table_is_refused(endpoint: Place) -> None:
    table = endpoint.table()
    endpoint.catalogue.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    endpoint.catalogue.execute(f"CREATE TABLE {table.name} (id bigint) STORED AS PARQUET")
    with pytest.raises(CatalogueMismatch, match=r"not an external table|purge is true"):
        endpoint.catalogue.ensure_table(table)


def test_the_connections_database_is_for_the_operators_statements(endpoint: Place) -> None:
    table = endpoint.created()
    there = endpoint.catalogue._endpoint
    named = PyHiveCatalogue(there.host, there.port, database=DATABASE)
    assert named.execute(f"SHOW PARTITIONS {table.name.split('.')[1]}") == []
    missing = PyHiveCatalogue(there.host, there.port, database="not_there_yet")
    missing.ensure_table(table)
    with pytest.raises(CatalogueError, match="not_there_yet"):
        missing.execute("SELECT 1")


# ---------------------------------------------------------------- lost answers


def through(proxy: LossyProxy) -> PyHiveCatalogue:
    return PyHiveCatalogue("127.0.0.1", proxy.port, connect_timeout_s=60, request_timeout_s=240)


@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_REPLY, Fate.HANG])
def test_a_change_without_an_answer_is_unsure(endpoint: Place, fate: Fate, monkeypatch: pytest.MonkeyPatch) -> None:
    table, there = endpoint.created().name, endpoint.catalogue._endpoint
    endpoint.catalogue.add_partitions(table, {of("UA"): endpoint.uri("old")})
    began = time.monotonic()
    with LossyProxy(there.host, there.port, b"SET LOCATION", fate) as proxy:
        if fate is Fate.HANG:
            hasty(monkeypatch, b"SET LOCATION", 1.5)
        with pytest.raises(CatalogueUnsure) as unsure:
            through(proxy).set_location(table, of("UA"), endpoint.uri("new"))
        assert proxy.matched == 1  # never sent twice
    assert unsure.value.retry
    assert time.monotonic() - began < 120
    expected = "new" if fate is Fate.LOSE_REPLY else "old"
    assert endpoint.catalogue.partitions(table) == {of("UA"): endpoint.uri(expected)}


@pytest.mark.parametrize("word", ["CREATE EXTERNAL", "ADD IF NOT EXISTS", "DROP IF EXISTS", "SELECT 77"])
def test_every_change_can_be_unsure(endpoint: Place, word: str) -> None:
    table, there = endpoint.created(), endpoint.catalogue._endpoint
    with LossyProxy(there.host, there.port, word.encode(), Fate.LOSE_REPLY) as proxy:
        catalogue = through(proxy)
        calls = {
            "CREATE EXTERNAL": lambda: catalogue.ensure_table(table),
            "ADD IF NOT EXISTS": lambda: catalogue.add_partitions(table.name, {of(None): endpoint.uri("x")}),
            "DROP IF EXISTS": lambda: catalogue.drop_partitions(table.name, [of("x")]),
            "SELECT 77": lambda: catalogue.execute("SELECT 77"),
        }
        with pytest.raises(CatalogueUnsure):
            calls[word]()
        assert proxy.matched == 1


def test_a_dropped_connection_is_made_again_for_reading(endpoint: Place) -> None:
    table, there = endpoint.created().name, endpoint.catalogue._endpoint
    wanted = {of("UA"): endpoint.uri("a"), of("AA"): endpoint.uri("b")}
    endpoint.catalogue.add_partitions(table, wanted)
    with LossyProxy(there.host, there.port, b"SHOW PARTITIONS", Fate.LOSE_REPLY, once=True) as proxy:
        assert through(proxy).partitions(table) == wanted
        assert proxy.matched == 2


def test_reading_gives_up_with_a_definite_error(endpoint: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    table, there = endpoint.created().name, endpoint.catalogue._endpoint
    hasty(monkeypatch, b"SHOW PARTITIONS", 1.5)
    for fate, tries in ((Fate.LOSE_REQUEST, 2), (Fate.HANG, 1)):
        with LossyProxy(there.host, there.port, b"SHOW PARTITIONS", fate) as proxy:
            with pytest.raises(CatalogueError) as lost:
                through(proxy).partitions(table)
            assert not isinstance(lost.value, CatalogueUnsure)
            assert lost.value.retry
            assert proxy.matched == tries


def test_what_goes_wrong_before_the_statement_is_definite(endpoint: Place) -> None:
    there, name = endpoint.catalogue._endpoint, f"{DATABASE}.t"
    with LossyProxy(there.host, there.port, b"USE `default`", Fate.LOSE_REPLY) as proxy:
        with pytest.raises(CatalogueError) as lost:
            through(proxy).execute("SELECT 1")
        assert not isinstance(lost.value, CatalogueUnsure)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for auth in ("NONE", "NOSASL"):
            catalogue = PyHiveCatalogue("127.0.0.1", silent.getsockname()[1], auth=auth, request_timeout_s=0.5)
            with pytest.raises(CatalogueError, match="cannot be reached"):
                catalogue.drop_partitions(name, [of("x")])


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        catalogue = PyHiveCatalogue("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(CatalogueError, match=r"cannot be reached: .*refused") as refused:
            catalogue.ensure_table(Place(catalogue, tmp_path).table())
    assert not isinstance(refused.value, CatalogueUnsure)
    assert refused.value.retry
