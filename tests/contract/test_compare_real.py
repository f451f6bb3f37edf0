"""A comparison of a mirror with a real database: of many rows those around a difference leave it.

`TIDEGATE_COMPARED_ROWS=100000` has more of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.copies.worlds import COPYING, CopyWorld
from tests.databases.fixtures import KINDS
from tests.databases.reading import series
from tests.databases.servers import Server
from tests.mirror.audits import Here
from tests.mirror.worlds import event
from tidegate.core.copy.port import Database
from tidegate.databases import kinds
from tidegate.workflow.copy.compare import Report, compare, how_much
from tidegate.workflow.copy.copy import copy

ROWS = int(os.environ.get("TIDEGATE_COMPARED_ROWS", "12000"))
CHUNK_ROWS = 5_000


def compared(world: CopyWorld, base: Database, fix: str = "") -> Report:
    try:
        return compare(world.context(), base, Here(), lambda: False, fix)
    finally:
        world.close()


def told(server: Server, base: Database, key: int, word: str) -> tuple[bytes, bytes]:
    """An event of the row: of MariaDB before the log's first commit; of PostgreSQL as of now, since what is read there
    is as new as the newest event that was merged."""
    found, value = event(key, word, 4)
    if server.kind == "mariadb":
        return found, value
    commit = base.position()[0]
    source = {"connector": "postgresql", "lsn": commit, "sequence": f'["{commit}", "{commit}"]', "snapshot": "false"}
    return found, json.dumps(json.loads(value) | {"source": source}).encode()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_equal_stay_in_the_database(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> None:
    server: Server = request.getfixturevalue(kind)
    server.run(
        "DROP TABLE IF EXISTS shop.readings",
        "CREATE TABLE shop.readings (id BIGINT PRIMARY KEY, word VARCHAR(40))",
        f"INSERT INTO shop.readings SELECT n * 10, CONCAT('w', n) FROM {series(server, 1, ROWS)}",
    )
    world = CopyWorld(tmp_path, COPYING.replace("chunk_rows: 3", f"chunk_rows: {CHUNK_ROWS}"))
    world.source_table = kinds.reader(kinds.for_workers(server.connection), "base64")  # type: ignore[assignment]
    base = kinds.opened(server.connection, 60.0)
    world.connector = lambda: (base.position(), base.position())
    world.land(told(server, base, 10, "w1"))
    world.apply()
    copy(world.context(), base)
    world.close()
    world.apply()
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
