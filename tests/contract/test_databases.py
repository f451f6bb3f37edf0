"""What a copy needs of a source database (`core.copy.port`), on a real MariaDB and a real PostgreSQL."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pymysql
import pytest

from tests.databases.fixtures import KINDS
from tests.databases.reading import known, numbers, read, refused, series
from tests.databases.servers import Server
from tidegate.core.base.errors import SourceError, SourceUnavailable
from tidegate.core.copy.port import Bound, Database, KeyRange, LogPosition, ReadAfter, SourceTable
from tidegate.databases import kinds

Opened = Callable[[], Database]
Places = dict[int, LogPosition]
UNIT = 1 << 40
_WRITTEN = re.compile(r"INSERT INTO shop\.t VALUES \(([0-9]+), 'x'\)")


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    found.run("DROP TABLE IF EXISTS shop.t")
    return found


@pytest.fixture
def database(server: Server) -> Iterator[Database]:
    found = kinds.opened(server.connection, 10.0)
    yield found
    found.close()


def ranges(bounds: Sequence[Bound]) -> list[KeyRange]:
    return [KeyRange(a, b) for a, b in zip([None, *bounds], [*bounds, None], strict=True)]


# ---------------------------------------------------------------- tables


def test_a_table_is_described_by_its_database(server: Server, database: Database) -> None:
    server.run(
        "CREATE TABLE shop.t (b INT NOT NULL, a VARCHAR(9) NOT NULL, total DECIMAL(12,2), at TIMESTAMP NULL, "
        "made INT GENERATED ALWAYS AS (b + 1) STORED, PRIMARY KEY (a, b))"
    )
    found = database.describe("shop.t")
    assert (found.schema, found.name, found.key) == ("shop", "t", ("a", "b"))
    text, time = {
        "mariadb": ("varchar", "timestamp"),
        "postgresql": ("character varying", "timestamp without time zone"),
    }[server.kind]
    integer = "int" if server.kind == "mariadb" else "integer"
    decimal = "decimal" if server.kind == "mariadb" else "numeric"
    assert [(c.name, c.type, c.nullable) for c in found.columns] == [
        ("b", integer, False), ("a", f"{text}(9)", False), ("total", f"{decimal}(12,2)", True), ("at", time, True),
        *([("made", integer, True)] if server.kind == "mariadb" else []),
    ]  # fmt: skip


def test_generated_columns_are_read_where_events_have_them(server: Server, database: Database) -> None:
    """Debezium 3.1 was seen to send those of MariaDB, stored and virtual; PostgreSQL's log does not have any. A copy
    without them would have null where events have a value, and be newer."""
    virtual = ", twice INT GENERATED ALWAYS AS (n * 2) VIRTUAL" if server.kind == "mariadb" else ""
    server.run(
        f"CREATE TABLE shop.t (id INT PRIMARY KEY, n INT, more INT GENERATED ALWAYS AS (n + 1) STORED{virtual})",
        "INSERT INTO shop.t (id, n) VALUES (1, 5), (2, NULL)",
    )
    table = database.describe("shop.t")
    names = ["id", "n", "more", "twice"] if server.kind == "mariadb" else ["id", "n"]
    assert [c.name for c in table.columns] == names
    wanted = [(name, "int") for name in names]
    first, second = read(server, table, wanted, after=known(server, database))[0]
    assert list(first.values()) == [1, 5, 6, 10][: len(names)]
    assert list(second.values()) == [2, None, None, None][: len(names)]
    assert database.checksums(table, wanted, True).of(KeyRange()).rows == 2


def test_a_key_with_a_generated_column_is_read_by_it(server: Server, database: Database) -> None:
    if server.product != "mysql":
        pytest.skip("MariaDB has no such keys, PostgreSQL's log no such columns")
    server.run(
        "CREATE TABLE shop.t (n INT NOT NULL, id INT GENERATED ALWAYS AS (n * 10) STORED NOT NULL, PRIMARY KEY (id))",
        "INSERT INTO shop.t (n) VALUES (1), (2), (3)",
    )
    table = database.describe("shop.t")
    assert (table.key, database.bounds(table, None, 2, 5)) == (("id",), [(20,)])
    found = [read(server, table, [("id", "int")], keys, known(server, database))[0] for keys in ranges([(20,)])]
    assert found == [[{"id": 10}, {"id": 20}], [{"id": 30}]]


def test_tables_are_listed_as_events_call_them(server: Server, database: Database) -> None:
    server.run("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    server.run("DROP VIEW IF EXISTS shop.v", "CREATE VIEW shop.v AS SELECT id FROM shop.t")
    found = database.tables()
    assert "shop.t" in found
    assert "shop.v" not in found
    assert len(set(found)) == len(found)
    said = database.event_names(database.describe("shop.t"))
    mine = {"mariadb": {"db": "shop"}, "postgresql": {"db": server.connection.schema, "schema": "shop"}}
    assert said == {**mine[server.kind], "table": "t"}
    server.run("DROP VIEW shop.v")


def test_tables_that_cannot_be_copied_are_refused(server: Server, database: Database) -> None:
    with pytest.raises(SourceError, match=r"there is no table shop\.nowhere"):
        database.describe("shop.nowhere")
    server.run("CREATE TABLE shop.t (id INT)")
    with pytest.raises(SourceError, match="no primary key") as caught:
        database.describe("shop.t")
    assert not caught.value.retry
    server.run("DROP VIEW IF EXISTS shop.v", "CREATE VIEW shop.v AS SELECT id FROM shop.t")
    with pytest.raises(SourceError, match="there is no table"):
        database.describe("shop.v")
    server.run("DROP VIEW shop.v")


def test_the_number_of_rows_is_about_right(server: Server, database: Database) -> None:
    numbers(server, 1000)
    server.run("ANALYZE TABLE shop.t" if server.kind == "mariadb" else "ANALYZE shop.t")
    assert 900 <= database.rows_about(database.describe("shop.t")) <= 1100


def test_a_server_that_is_away_is_tried_again(server: Server) -> None:
    from dataclasses import replace

    from dev.stack.ports import choose_ports

    away = replace(server.connection, port=choose_ports(("away",), {})["away"])
    with pytest.raises(SourceUnavailable):
        kinds.opened(away, 5.0).describe("shop.t")
    table = SourceTable(schema="shop", name="t", key=("id",), columns=())
    refused(lambda: read(replace_connection(server, away), table, []), retry=True)


def replace_connection(server: Server, connection: Any) -> Server:
    return Server(server.kind, connection)


# ---------------------------------------------------------------- bounds


def test_bounds_cut_a_table_into_chunks(server: Server, database: Database) -> None:
    numbers(server, 95)
    table = database.describe("shop.t")
    assert database.bounds(table, None, 10, 3) == [(100,), (200,), (300,)]
    assert database.bounds(table, (300,), 10, 100) == [(400,), (500,), (600,), (700,), (800,), (900,)]
    assert database.bounds(table, (900,), 10, 100) == []
    assert database.bounds(table, (855,), 10, 1) == [(950,)]  # a key that is not there; exactly as many rows
    assert database.bounds(table, (860,), 10, 1) == []
    assert database.bounds(table, None, 1000, 5) == []
    server.run("DELETE FROM shop.t")
    assert database.bounds(table, None, 10, 3) == []


def test_ranges_read_each_row_once(server: Server, database: Database) -> None:
    numbers(server, 95)
    table = database.describe("shop.t")
    for rows in (7, 95, 96):
        cut = ranges(database.bounds(table, None, rows, 1000))
        found = [row for keys in cut for row in read(server, table, [("id", "bigint"), ("word", "string")], keys)[0]]
        assert sorted(row["id"] for row in found) == [10 * n for n in range(1, 96)]
        assert found[0] == {"id": 10, "word": "w1"}


KEYS = [
    ("a INT, b INT", "n / 7, n", ("int", "int")),
    ("a VARCHAR(20), b BIGINT", "CONCAT(CHAR(65 + MOD(n, 2) * 32), FLOOR(n / 9), 'é''\\\\'), n", ("string", "bigint")),
    ("a DECIMAL(30,10), b DATE", "n / 3, '2026-01-02'", ("decimal(30,10)", "date")),
    ("a BLOB4, b CHAR(3)", "HEXES, 'x'", ("binary", "string")),
    ("a TIMES, b SMALLINT, c INT", "'2026-01-02 03:04:05.000001', MOD(n, 3), n", ("timestamp", "smallint", "int")),
]


@pytest.mark.parametrize(("columns", "values", "types"), KEYS)
def test_composite_keys_of_every_type(
    server: Server, database: Database, columns: str, values: str, types: tuple[str, ...]
) -> None:
    maria = server.kind == "mariadb"
    columns = columns.replace("BLOB4", "VARBINARY(9)" if maria else "BYTEA")
    columns = columns.replace("TIMES", "DATETIME(6)" if maria else "TIMESTAMP")
    values = values.replace("HEXES", "UNHEX(HEX(n * 7919))" if maria else "int4send((n * 7919)::int)")
    if not maria:
        values = values.replace("CHAR(65", "CHR(65").replace("\\\\", "\\").replace("'2026-01-02'", "date '2026-01-02'")
        values = values.replace("n / 3", "n / 3.0").replace("'2026-01-02 03", "timestamp '2026-01-02 03")
    names = [part.split()[0] for part in columns.split(", ")]
    key = ", ".join(reversed(names)) if len(names) == 3 else ", ".join(names)
    create = ", ".join(f"{part} NOT NULL" for part in columns.split(", ")).replace("DECIMAL(30 NOT NULL, 10)", "")
    create = columns if "DECIMAL" in columns else create
    server.run(f"CREATE TABLE shop.t ({create}, PRIMARY KEY ({key}))")
    server.run(f"INSERT INTO shop.t SELECT {values} FROM {series(server, 1, 60)}")
    table = database.describe("shop.t")
    bounds = database.bounds(table, None, 8, 100)
    assert len(bounds) == 60 // 8
    wanted = list(zip(sorted(names), types, strict=True))
    found = [read(server, table, wanted, keys)[0] for keys in ranges(bounds)]
    assert [len(rows) for rows in found[:-1]] == [8] * 7
    assert len({tuple(row.values()) for rows in found for row in rows}) == 60 == sum(map(len, found))


def test_keys_in_an_order_that_only_the_database_knows(server: Server, database: Database) -> None:
    """MariaDB: a collation that ignores case; PostgreSQL: an enum (its test build has no such collation)."""
    words = ["apple", "Banana", "cherry", "DATE", "egg", "Zebra", "ähre", "10", "9", "-"]
    if server.kind == "mariadb":
        server.run("CREATE TABLE shop.t (w VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY)")
    else:
        listed = ", ".join(f"'{word}'" for word in words)
        server.run(
            "DROP TYPE IF EXISTS shop.word", f"CREATE TYPE shop.word AS ENUM ({listed})",
            "CREATE TABLE shop.t (w shop.word PRIMARY KEY)",
        )  # fmt: skip
    server.run(*[f"INSERT INTO shop.t VALUES ('{word}')" for word in sorted(words)])
    table = database.describe("shop.t")
    bounds = database.bounds(table, None, 3, 100)
    found = [[row["w"] for row in read(server, table, [("w", "string")], keys)[0]] for keys in ranges(bounds)]
    assert [len(part) for part in found] == [3, 3, 3, 1]
    if server.kind == "postgresql":
        assert [word for part in found for word in sorted(part, key=words.index)] == words
    else:
        assert [{*part} for part in found] == [
            {"-", "10", "9"}, {"apple", "ähre", "Banana"}, {"cherry", "DATE", "egg"}, {"Zebra"},
        ]  # fmt: skip


def test_names_that_need_quotes(server: Server, database: Database) -> None:
    q = "`" if server.kind == "mariadb" else '"'
    name = f"odd {q}{q}name%s '"
    server.run(f"DROP TABLE IF EXISTS shop.{q}t %%{q}".replace("%%", "%"))
    server.run(
        f"CREATE TABLE shop.{q}t %{q} ({q}{name}{q} INT PRIMARY KEY)", f"INSERT INTO shop.{q}t %{q} VALUES (1), (2)"
    )
    table = database.describe("shop.t %")
    bare = name.replace(q * 2, q)
    assert table.key == (bare,)
    assert database.rows_about(table) >= 0
    bounds = database.bounds(table, None, 1, 9)
    assert bounds == [(1,), (2,)]
    found = [read(server, table, [(bare, "int")], keys)[0] for keys in ranges(bounds)]
    assert found == [[{bare: 1}], [{bare: 2}], []]


def test_bounds_while_rows_are_inserted(server: Server, database: Database) -> None:
    """Bounds that were made once hold every row that was there, whatever comes meanwhile."""
    numbers(server, 50)
    table = database.describe("shop.t")
    bounds: list[Bound] = []
    while more := database.bounds(table, bounds[-1] if bounds else None, 10, 1):
        bounds += more
        server.run(f"INSERT INTO shop.t VALUES ({bounds[-1][0] + 1}, 'new'), ({bounds[-1][0] - 1}, 'new')")
        if len(bounds) > 50:
            break
    found = [row["id"] for keys in ranges(bounds) for row in read(server, table, [("id", "bigint")], keys)[0]]
    assert len(found) == len({*found})
    assert {10 * n for n in range(1, 51)} <= {*found}


# ---------------------------------------------------------------- places in the log


def insert(server: Server, key: int) -> None:
    server.run(f"INSERT INTO shop.t VALUES ({key}, 'later')")


def test_low_is_below_what_commits_later_and_high_above_what_was_seen(server: Server, database: Database) -> None:
    numbers(server, 3)
    table = database.describe("shop.t")
    before = known(server, database)
    insert(server, 1)
    rows, low, high = read(server, table, [("id", "bigint")], after=before)
    assert {row["id"] for row in rows} == {1, 10, 20, 30}
    assert before.position is not None
    assert before.position <= low <= high
    if server.kind == "mariadb":
        assert low > before.position  # asked with the snapshot, not what was known
    insert(server, 2)
    after = database.position()
    assert high < after


def test_a_row_that_is_committed_meanwhile_is_not_seen_and_high_is_above_it(server: Server, database: Database) -> None:
    numbers(server, 3)
    table = database.describe("shop.t")
    reader = kinds.reader(kinds.for_workers(server.connection))
    with reader.read(table, [("id", "bigint")], KeyRange(), known(server, database)) as rows:
        insert(server, 1)
        meanwhile = database.position()
        found = [row["id"] for batch in rows.batches() for row in batch.to_pylist()]
        assert sorted(found) == [10, 20, 30]
        assert rows.low < meanwhile <= rows.high


def test_low_of_mariadb_is_the_place_of_the_snapshot_itself(mariadb: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction commits right before the snapshot begins, one right after."""
    mariadb.run("DROP TABLE IF EXISTS shop.t")
    numbers(mariadb, 3)
    database = kinds.opened(mariadb.connection, 10.0)
    table, execute, place = database.describe("shop.t"), pymysql.cursors.Cursor.execute, [database.position()]

    def interrupted(cursor: Any, sql: str, args: Any = None) -> Any:
        if not sql.startswith("START TRANSACTION"):
            return execute(cursor, sql, args)
        insert(mariadb, 1)
        place.append(database.position())
        done = execute(cursor, sql, args)
        insert(mariadb, 2)
        place.append(database.position())
        return done

    monkeypatch.setattr(pymysql.cursors.Cursor, "execute", interrupted)
    rows, low, high = read(mariadb, table, [("id", "bigint")])
    assert sorted(row["id"] for row in rows) == [1, 10, 20, 30]
    assert place[0] < low == place[1] < place[2] == high
    database.close()


def test_many_writers_never_commit_between_low_and_what_was_seen(mariadb: Server) -> None:
    """MariaDB: exactly the transactions up to LOW are seen, by the places of the log itself."""
    reads, places = read_while_many_write(mariadb)
    for seen, low, _ in reads:
        assert {key for key, place in places.items() if place < low} == seen


def read_while_many_write(server: Server) -> tuple[list[tuple[set[int], LogPosition, LogPosition]], Places]:
    """The keys that each read has seen, with its LOW and HIGH, and where the log has each key."""
    server.run("DROP TABLE IF EXISTS shop.t", "CREATE TABLE shop.t (id BIGINT PRIMARY KEY, word VARCHAR(20))")
    database = kinds.opened(server.connection, 10.0)
    table, stop = database.describe("shop.t"), threading.Event()

    def write(first: int) -> None:
        session = server.session()
        for n in range(first, first + 100_000):
            if stop.is_set():
                return
            session.cursor().execute(f"INSERT INTO shop.t VALUES ({n}, 'x')")

    threads = [threading.Thread(target=write, args=(n * 1_000_000,)) for n in range(3)]
    for thread in threads:
        thread.start()
    reads = []
    try:
        while len(reads) < 12:
            rows, low, high = read(server, table, [("id", "bigint")])
            reads.append(({row["id"] for row in rows}, low, high))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    database.close()
    places = _committed(server)
    assert len(places) > 100
    for seen, low, high in reads:
        assert low <= high
        assert {key for key, place in places.items() if place < low} <= seen
        assert all(places[key] <= high for key in seen)
    assert any(seen for seen, _, _ in reads)
    return reads, places


def _committed(server: Server) -> Places:
    """Keys of shop.t by the place in the log at which their transaction's rows were written."""
    found: Places = {}
    for name, *_ in server.run("SHOW BINARY LOGS"):
        number = int(name.rsplit(".", 1)[1])
        for _, offset, kind, _, _, info in server.run(f"SHOW BINLOG EVENTS IN '{name}'"):
            written = _WRITTEN.search(info) if kind in ("Annotate_rows", "Rows_query") else None
            if written:
                found[int(written[1])] = (number * UNIT + int(offset), 0)
    return found


def test_another_log_is_refused(server: Server, database: Database) -> None:
    numbers(server, 3)
    table = database.describe("shop.t")
    ahead = ReadAfter((database.position()[0] + UNIT, 0))
    assert "it is another log" in refused(lambda: read(server, table, [("id", "bigint")], after=ahead))


def test_a_read_that_is_left_ends_its_query(server: Server, database: Database) -> None:
    server.run(
        "CREATE TABLE shop.t (id BIGINT PRIMARY KEY, word VARCHAR(200))",
        f"INSERT INTO shop.t SELECT n, REPEAT('x', 150) FROM {series(server, 1, 160_000)}",
    )
    table = database.describe("shop.t")
    reader = kinds.reader(kinds.for_workers(server.connection))
    with reader.read(table, [("id", "bigint"), ("word", "string")], KeyRange(), known(server, database)) as rows:
        first = next(iter(rows.batches()))
        assert len(first) == 50_000
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidegate' AND query LIKE 'COPY%'"
    if server.kind == "mariadb":
        query = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT CONCAT%'"
    for _ in range(200):
        if server.run(query) == [(0,)]:
            break
        threading.Event().wait(0.05)
    assert server.run(query) == [(0,)]
