"""One life of a real table in MariaDB, in PostgreSQL, and in H2 by JDBC: values, chunks, times, refusals."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dev.stack.ports import choose_ports
from tests.databases.fixtures import KINDS
from tests.databases.reading import series
from tests.databases.servers import Server
from tests.offline.test_life import balanced, ids
from tests.offline.worlds import TableWorld
from tidegate.core.base.errors import (
    AttemptSpoilt,
    BatchRefused,
    JobFailed,
    ReplayRefused,
    SourceError,
    SourceUnavailable,
)
from tidegate.sources.database.doctor import examined
from tidegate.sources.database.records import records_of

ALL = """  - {name: id, type: bigint, nullable: false}
  - {name: small, type: smallint}
  - {name: total, type: "decimal(20,4)"}
  - {name: tiny, type: "decimal(38,20)"}
  - {name: ratio, type: double}
  - {name: part, type: float}
  - {name: flag, type: boolean}
  - {name: word, type: string}
  - {name: bytes, type: string}
  - {name: day, type: date}
  - {name: local, type: timestamp}
  - {name: changed, type: timestamp}"""
_MARIADB = """CREATE TABLE shop.t (id BIGINT PRIMARY KEY, small SMALLINT, total DECIMAL(20,4), tiny DECIMAL(30,20),
  ratio DOUBLE, part FLOAT, flag BOOLEAN, word VARCHAR(200), bytes VARBINARY(20), day DATE, local DATETIME(6),
  changed TIMESTAMP(6) NULL)"""
_POSTGRESQL = """CREATE TABLE shop.t (id BIGINT PRIMARY KEY, small SMALLINT, total NUMERIC(20,4), tiny NUMERIC(30,20),
  ratio DOUBLE PRECISION, part REAL, flag BOOLEAN, word VARCHAR(200), bytes BYTEA, day DATE, local TIMESTAMP(6),
  changed TIMESTAMPTZ)"""
_JDBC = """CREATE TABLE shop.t (id BIGINT PRIMARY KEY, small SMALLINT, total NUMERIC(20,4), tiny DECIMAL(30,20),
  ratio DOUBLE PRECISION, part REAL, flag BOOLEAN, word VARCHAR(200), bytes VARBINARY(20), day DATE, local TIMESTAMP(6),
  changed TIMESTAMP(6) WITH TIME ZONE)"""
ODD = 'a "quoted" back\\slash,\ttab\nline\x07 ünï 😀 \x7f'
VALUES: list[tuple[Any, ...]] = [
    (1, -32768, "-1234567890123456.7891", "0.00000000000000000001", 0.1, 1.1, True, ODD, b"\x00\xff\x10", "2026-02-28",
     "2026-03-29 02:30:00.123456", "2024-11-01 12:00:00.000001"),
    (2, None, None, None, None, None, None, None, None, None, None, None),
    (3, 32767, "0", "-9999999999.99999999999999999999", 1e300, -0.0, False, "", b"", "1970-01-01",
     "9999-12-31 23:59:59.999999", "2024-11-01 00:00:00"),
    (4, 0, "1.5", "1", -2.5e-300, 16777216.0, True, "null", b"{}", "2100-12-31", "1970-01-01 00:00:00",
     "2024-10-31 23:59:59.999999"),
]  # fmt: skip


@pytest.fixture(params=[*KINDS, "jdbc"])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    found.run("DROP VIEW IF EXISTS shop.v", "DROP TABLE IF EXISTS shop.t")
    return found


@pytest.fixture
def world(tmp_path: Path, server: Server) -> Iterator[TableWorld]:
    made = TableWorld(tmp_path, server=server)
    yield made
    made.close()


def kinds(server: Server) -> None:
    server.run({"mariadb": _MARIADB, "postgresql": _POSTGRESQL, "jdbc": _JDBC}[server.kind])
    session = server.session()
    with session.cursor() as cursor:
        cursor.executemany(f"INSERT INTO shop.t VALUES ({', '.join(['%s'] * 12)})", VALUES)
    session.close()


def numbers(server: Server, count: int, columns: str = "id BIGINT PRIMARY KEY, word VARCHAR(20)") -> None:
    server.run(
        f"CREATE TABLE shop.t ({columns}, changed TIMESTAMP NULL)",
        f"INSERT INTO shop.t SELECT n, CONCAT('w', n), NULL FROM {series(server, 1, count)}",
    )


def test_values_arrive_as_they_are(tmp_path: Path, server: Server) -> None:
    kinds(server)
    world = TableWorld(tmp_path, "chunk_rows: 2", ALL, server)
    world.read(0)
    assert world.publish(0).rows == 4
    found = {row[0]: row for row in world.rows(0)}
    assert len(found) == 4
    for given in VALUES:
        assert found[given[0]] == tuple(map(_wanted, given, found[given[0]])), given[0]
    balanced(world)
    world.close()


def _wanted(given: Any, found: Any) -> Any:
    """What the table shows for a value: times are in UTC there, decimals have all their digits, bytes are Base64."""
    if given is None or isinstance(given, bool | int):
        return given
    if isinstance(given, bytes):
        return base64.b64encode(given).decode()
    if isinstance(found, Decimal):
        return Decimal(given)
    if isinstance(found, datetime):
        return datetime.fromisoformat(given).replace(tzinfo=UTC)
    if isinstance(found, date):
        return date.fromisoformat(given)
    if isinstance(given, float) and found != given:
        return struct.unpack("f", struct.pack("f", given))[0]
    return given


def test_a_window_by_a_column_with_times(tmp_path: Path, server: Server) -> None:
    kinds(server)
    world = TableWorld(tmp_path, "column: changed", ALL, server)
    world.read(0)
    world.publish(0)
    assert ids(world, 0) == [1, 3], "4 is a microsecond too early, 2 has no time"
    world.close()


def test_a_window_by_a_column_with_dates(tmp_path: Path, server: Server) -> None:
    numbers(server, 3)
    server.run("ALTER TABLE shop.t ADD day DATE", "UPDATE shop.t SET day = '2024-11-01' WHERE id <> 2")
    server.run("UPDATE shop.t SET day = '2024-11-02' WHERE id = 2")
    world = TableWorld(tmp_path, "column: day, overlap: 1d", server=server)
    world.read(0)
    world.publish(0)
    world.read(1)
    world.publish(1)
    assert (ids(world, 0), ids(world, 1)) == ([1, 3], [1, 2, 3])
    world.close()


def test_a_column_that_is_no_time_is_refused(tmp_path: Path, server: Server) -> None:
    numbers(server, 3)
    world = TableWorld(tmp_path, "column: word", server=server)
    with pytest.raises(SourceError, match=r"column word: .* is no time or date"):
        world.read(0)
    world.alter("column: word", "column: nope")
    with pytest.raises(SourceError, match=r"table shop\.t has no column nope"):
        world.read(0, "another")
    world.close()


def test_a_column_without_a_zone_is_read_in_the_zone_that_the_yaml_names(tmp_path: Path, server: Server) -> None:
    numbers(server, 1)
    server.run("DELETE FROM shop.t")
    server.run("ALTER TABLE shop.t ADD local " + ("DATETIME" if server.kind == "mariadb" else "TIMESTAMP"))
    for key, at in ((1, "2024-11-01 00:59:59"), (2, "2024-11-01 01:00:00"), (3, "2024-11-02 00:59:59")):
        server.run(f"INSERT INTO shop.t VALUES ({key}, 'w', NULL, '{at}')")
    world = TableWorld(tmp_path, "column: local, column_timezone: Europe/Berlin", server=server)
    world.read(0)
    world.publish(0)
    assert ids(world, 0) == [2, 3]
    world.close()


def test_chunks_of_a_whole_table(world: TableWorld, server: Server) -> None:
    numbers(server, 10)
    world.read(0)
    assert any("in 4 chunks" in line for line in world.said)
    world.publish(0)
    assert ids(world, 0) == [*range(1, 11)]
    server.run("DELETE FROM shop.t")
    world.read(1)
    assert world.publish(1).rows == 0
    balanced(world)


def test_composite_keys_of_texts(tmp_path: Path, server: Server) -> None:
    server.run("CREATE TABLE shop.t (word VARCHAR(20), id BIGINT, PRIMARY KEY (word, id))")
    server.run(f"INSERT INTO shop.t SELECT CONCAT('W', n / 3), n FROM {series(server, 1, 20)}")
    world = TableWorld(tmp_path, columns="  - {name: id, type: bigint}\n  - {name: word, type: string}", server=server)
    world.read(0)
    world.publish(0)
    assert ids(world, 0) == [*range(1, 21)]
    world.close()


@pytest.mark.parametrize("of", ["a table without a key", "a view"])
def test_what_has_no_key_is_read_by_one_query(tmp_path: Path, server: Server, of: str) -> None:
    numbers(server, 10, "id BIGINT, word VARCHAR(20)")
    world = TableWorld(tmp_path, server=server)
    if of == "a view":
        server.run("CREATE VIEW shop.v AS SELECT * FROM shop.t")
        world.alter("table: shop.t", "table: shop.v")
    world.read(0)
    assert any("in 1 chunk" in line for line in world.said)
    world.publish(0)
    assert ids(world, 0) == [*range(1, 11)]
    world.close()
    server.run("DROP VIEW IF EXISTS shop.v")


def test_a_table_that_vanishes_and_comes_back_otherwise(world: TableWorld, server: Server) -> None:
    """It is dropped, loaded again with another column and without one: as those do it who own it."""
    numbers(server, 5)
    world.read(0)
    server.run("DROP TABLE shop.t")
    with pytest.raises(SourceError, match=r"there is no table shop\.t") as gone:
        world.read(1)
    assert not gone.value.retry
    server.run("CREATE TABLE shop.t (id BIGINT PRIMARY KEY, more INT, changed TIMESTAMP NULL)")
    server.run("INSERT INTO shop.t VALUES (7, 1, NULL)")
    with pytest.raises(BatchRefused, match=r"shop\.t has no column word"):
        world.read(1, "run")
    world.alter("  - {name: word, type: string}\n", "  - {name: more, type: int}\n")
    assert world.ingest("run") == 2
    for day in (0, 1):
        world.publish(day)
    assert (ids(world, 0), world.rows(1, "id", "more")) == ([*range(1, 6)], [(7, 1)])
    balanced(world)


def test_a_table_that_is_altered_while_it_is_read_is_read_again(world: TableWorld, server: Server) -> None:
    """Rows of before and after are never in one window."""
    numbers(server, 5)
    reader = world.kafka.reader

    def altering(plan: Any) -> Any:
        if not server.run("SELECT 1 FROM information_schema.columns WHERE table_name = 't' AND column_name = 'more'"):
            server.run("ALTER TABLE shop.t ADD more INT")
        return reader(plan)

    world.kafka.reader = altering
    with pytest.raises(AttemptSpoilt, match=r"shop\.t was altered since it was read"):
        world.read(0, "run")
    assert world.ingest("run") == 1
    assert world.publish(0).rows == 5
    balanced(world)


def test_a_value_that_does_not_fit_refuses_the_reading_by_its_key(world: TableWorld, server: Server) -> None:
    numbers(server, 5)
    world.alter("name: id, type: bigint", "name: id, type: tinyint")
    server.run("INSERT INTO shop.t VALUES (1000, 'big', NULL)")
    with pytest.raises(BatchRefused, match="the row with the key id 1000: the value of id"):
        world.read(0, "run")
    server.run("DELETE FROM shop.t WHERE id = 1000")
    assert world.ingest("run") == 1
    assert world.publish(0).rows == 5


def test_a_published_day_is_read_again(world: TableWorld, server: Server) -> None:
    """As the table is by then; the first reading stays, and can be brought back."""
    numbers(server, 10)
    world.read(0)
    assert world.publish(0).rows == 10
    server.run("DELETE FROM shop.t WHERE id < 4", "UPDATE shop.t SET word = 'newer' WHERE id = 5")
    found = world.reread(0)
    assert (found.generation, found.rows, ids(world, 0)) == (2, 7, [*range(4, 11)])
    assert (5, "newer") in world.rows(0, "id", "word")
    assert any("another snapshot; the first had 10 rows" in line for line in world.said)
    balanced(world)
    assert world.back(0, 1).rows == 10
    server.run("DROP TABLE shop.t")
    with pytest.raises(ReplayRefused, match=r"there is no table shop\.t"):
        world.reread(0)
    assert (5, "w5") in world.rows(0, "id", "word")
    balanced(world)


def test_a_server_that_is_away_or_refuses_loses_nothing(world: TableWorld, server: Server) -> None:
    numbers(server, 5)
    world.ends(0)
    if server.kind != "mariadb":  # the test's asks for no password
        world.reach(replace(server.connection, login="nobody", password="sesame"))
        with pytest.raises(SourceError, match=r"refused: .*(authentication failed|Wrong user name)") as refused:
            world.ingest("run")
        assert "sesame" not in str(refused.value)
        assert not refused.value.retry
    at, port = server.connection, choose_ports(("away",), {})["away"]
    world.reach(replace(at, port=port, host=re.sub(r":[0-9]+/", f":{port}/", at.host or "")))
    with pytest.raises(SourceUnavailable):
        world.ingest("run")
    world.reach()
    assert world.ingest("run") == 1
    assert world.publish(0).rows == 5


def test_a_server_that_ends_in_the_middle_is_tried_again(world: TableWorld, server: Server) -> None:
    """The session of the third query is ended by an operator; the next try reads all."""
    numbers(server, 10)
    reader = world.kafka.reader
    ended: list[int] = []

    def dying(plan: Any) -> Any:
        found = reader(plan)
        read = found.read

        def once(wanted: Any) -> Any:
            ended.append(1)
            if len(ended) == 3:
                known = found._settings
                away = {"port": "1"} if "port" in known else {"url": re.sub(r":[0-9]+/", ":1/", known["url"])}
                found._settings = {**known, **away}
            return read(wanted)

        found.read = once
        return found

    world.kafka.reader = dying
    with pytest.raises(JobFailed):
        world.read(0, "run")
    world.reach()
    assert world.ingest("run") == 1
    world.publish(0)
    assert ids(world, 0) == [*range(1, 11)]
    balanced(world)


def test_the_doctor_says_how_it_is_read_and_what_is_wrong(world: TableWorld, server: Server) -> None:
    def findings() -> list[tuple[str, str]]:
        at = server.connection
        return [(f.level, f.what) for f in examined(world.pipeline, at, 10.0, lambda asked: asked())]

    (missing,) = findings()
    assert missing[0] == "wrong"
    assert "there is no table shop.t" in missing[1]
    numbers(server, 5)
    (well,) = findings()
    assert well[0] == "ok"
    assert "each window is read in chunks by id" in well[1]
    world.alter("chunk_rows: 3", "column: changed")
    assert findings() == [("warning", "column changed of shop.t may be null")]
    world.alter("name: word, type: string", "name: word, type: int")
    assert [level for level, _ in findings()] == ["wrong", "warning"]


def test_records_say_what_json_says() -> None:
    texts = ["", '"', "\\", "\\u0041", "\x00\x1f\t", "é😀\u2028", None, "a" * 1000]
    batch = pa.record_batch([pa.array(texts), pa.array(range(8), pa.int32())], names=["a", "b"])
    assert [json.loads(r) for r in records_of(batch, ['x"y', "n"])] == [
        {'x"y': text, "n": n} for n, text in enumerate(texts)
    ]
    assert records_of(batch.slice(0, 0), ["a", "b"]) == []
    sliced = [json.loads(r)["a"] for r in records_of(batch.slice(2, 3), ["a", "b"])]
    assert sliced == texts[2:5]
