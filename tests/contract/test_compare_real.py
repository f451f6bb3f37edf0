"""A comparison of a mirror with a real database: of many rows those around a difference leave it.

`TIDEGATE_COMPARED_ROWS=100000` has more of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.copies.test_shards import SHARDED as SHARDS
from tests.copies.test_shards import ShardedWorld
from tests.copies.worlds import COPYING, CopyWorld
from tests.databases.fixtures import KINDS
from tests.databases.reading import series
from tests.databases.servers import Server
from tests.mirror.audits import Here
from tests.mirror.worlds import event
from tidegate.core.copy.port import Database, Place
from tidegate.databases import kinds
from tidegate.workflow.copy import narrow
from tidegate.workflow.copy.compare import Report, compare, how_much
from tidegate.workflow.copy.copy import copy

ROWS = int(os.environ.get("TIDEGATE_COMPARED_ROWS", "12000"))
CHUNK_ROWS = 5_000


SHARDED = SHARDS.replace(r"shop_[0-9]\.r_[0-9]+", r"shop\.compared_[0-9]")
TEXTS = ("Straße", "é", "e\u0301x", "😀", "日本", "a,1:b", "%s", "O'Brien", "trailing")


def compared(world: CopyWorld, base: Database, fix: str = "") -> Report:
    try:
        return compare(world.context(), base, Here(), lambda: False, fix)
    finally:
        world.close()


def told(server: Server, base: Database, key: int | str, word: str, table: str = "readings") -> tuple[bytes, bytes]:
    """An event of the row: of MariaDB before the log's first commit; of PostgreSQL as of now, since what is read there
    is as new as the newest event that was merged."""
    found, value = event(key, word, 4, of=("shop", table))  # type: ignore[arg-type]
    if server.kind == "mariadb":
        return found, value
    commit = base.position()[0]
    source = {"connector": "postgresql", "lsn": commit, "sequence": f'["{commit}", "{commit}"]', "snapshot": "false"}
    source |= {"db": "shop", "schema": "shop", "table": table}
    return found, json.dumps(json.loads(value) | {"source": source}).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_equal_stay_in_the_database(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    server: Server = request.getfixturevalue(kind)
    server.run(
        "DROP TABLE IF EXISTS shop.readings",
        "CREATE TABLE shop.readings (id BIGINT PRIMARY KEY, word VARCHAR(40))",
        f"INSERT INTO shop.readings SELECT n * 10, CONCAT('w', n) FROM {series(server, 1, ROWS)}",
    )
    world, base = copied(server, CopyWorld(tmp_path, with_chunks(COPYING, CHUNK_ROWS)), 10, "w1")
    assert len(world.rows()) == ROWS

    equal = compared(world, base)
    assert (equal.differ, equal.rows, equal.read) == ({}, ROWS, 0)

    server.run(
        "UPDATE shop.readings SET word = 'w1 ' WHERE id = 10",
        f"DELETE FROM shop.readings WHERE id = {ROWS * 5}",
        f"INSERT INTO shop.readings VALUES ({ROWS * 10 - 5}, NULL)",
    )
    world.land(told(server, base, 20, "w2"))  # later than what was changed behind the log's back
    found = compared(world, base)
    print(how_much(found))
    assert found.differ == {"lacking": 1, "surplus": 1, "other": 1}
    assert (found.rows, found.exact) == (ROWS, True)
    assert found.read <= 3_000
    assert compared(world, base, fix="by hand").mended
    last = compared(world, base)
    assert (last.differ, last.read) == ({}, 0)
    base.close()
    world.close()


def with_chunks(yaml: str, rows: int) -> str:
    return yaml.replace("chunk_rows: 3", f"chunk_rows: {rows}")


def copied(
    server: Server, world: CopyWorld, key: int | str, word: str, table: str = "readings"
) -> tuple[CopyWorld, Database]:
    """The world with a whole copy, once this row's event is merged; and the database."""
    world.source_table = kinds.reader(kinds.for_workers(server.connection), "base64")  # type: ignore[assignment]
    base = kinds.opened(server.connection, 60.0)
    world.connector = lambda: Place(base.position(), base.position(), base.log_begin())
    world.land(told(server, base, key, word, table))
    world.apply()
    copy(world.context(), base)
    world.close()
    world.apply()
    return world, base


def finds_texts_that_differ(server: Server, world: CopyWorld, base: Database) -> None:
    """Of 2,000 keys `Key n` and TEXTS, which are equal at first; then four are changed by hand."""
    equal = compared(world, base)
    assert (equal.differ, equal.rows, equal.read, equal.unsummed) == ({}, 2_009, 0, "")

    server.run(
        "UPDATE shop.readings SET id = 'KEY 20' WHERE id = 'Key 20'",
        "UPDATE shop.readings SET id = 'trailing ' WHERE id = 'trailing'",
        "DELETE FROM shop.readings WHERE id = 'Straße'",
        "UPDATE shop.readings SET word = 'other' WHERE id = '日本'",
    )
    world.land(told(server, base, "Key 2", "w2"))
    found = compared(world, base)
    print(how_much(found))
    assert found.differ == {"lacking": 2, "surplus": 3, "other": 1}
    assert (found.rows, found.exact) == (2_008, True)
    assert found.read < 600


@pytest.mark.parametrize("kind", KINDS)
def test_keys_that_are_texts(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the database's own collation: to MariaDB case and blanks at the end count for nothing."""
    monkeypatch.setattr(narrow, "ROWS", 50)
    server: Server = request.getfixturevalue(kind)
    server.run(
        "DROP TABLE IF EXISTS shop.readings",
        "CREATE TABLE shop.readings (id VARCHAR(40) PRIMARY KEY, word VARCHAR(40))",
        f"INSERT INTO shop.readings SELECT CONCAT('Key ', n), CONCAT('w', n) FROM {series(server, 1, 2_000)}",
    )
    with server.session().cursor() as cursor:
        cursor.executemany("INSERT INTO shop.readings VALUES (%s, 'odd')", [(text,) for text in TEXTS])
    yaml = with_chunks(COPYING.replace("name: id, type: bigint", "name: id, type: string"), 700)
    world, base = copied(server, CopyWorld(tmp_path, yaml), "Key 1", "w1")
    finds_texts_that_differ(server, world, base)
    assert compared(world, base, fix="by hand").mended
    assert (compared(world, base).differ, world.rows()["KEY 20"]) == ({}, "w20")  # type: ignore[index]
    base.close()
    world.close()


@pytest.mark.parametrize("kind", KINDS)
def test_shards(request: pytest.FixtureRequest, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has a row that differs; all keys are in both."""
    monkeypatch.setattr(narrow, "ROWS", 50)
    server: Server = request.getfixturevalue(kind)
    names = ["compared_0", "compared_1"]
    for name in names:
        server.run(
            f"DROP TABLE IF EXISTS shop.{name}",
            f"CREATE TABLE shop.{name} (id BIGINT PRIMARY KEY, word VARCHAR(40))",
            f"INSERT INTO shop.{name} SELECT n, CONCAT('w', n) FROM {series(server, 1, 1_000)}",
        )
    made = ShardedWorld(tmp_path, "chunk_rows: 400", yaml=SHARDED)
    world, base = copied(server, made, 1, "w1", names[0])
    equal = compared(world, base)
    assert (equal.differ, equal.rows, equal.read, equal.unsummed) == ({}, 2_000, 0, "")
    server.run("DELETE FROM shop.compared_1 WHERE id = 777")
    world.land(told(server, base, 2, "w2", names[0]))
    found = compared(world, base)
    assert (found.differ, [s.key for s in found.samples]) == ({"surplus": 1}, ["shard=compared_1, id=777"])
    assert found.read <= 50
    assert compared(world, base, fix="by hand").mended
    assert len(made.found()) == 1_999
    server.run(*(f"DROP TABLE shop.{name}" for name in names))
    base.close()
    world.close()
