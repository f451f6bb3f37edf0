"""A comparison by groups where the database holds more texts equal than their bytes are: collations that leave case,
accents or blanks out, ICU's among them; keys of one text, and of several columns.

A part of the tiers `make test-copies` and `make test-mysql`; PostgreSQL is Debian's here, which has ICU."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.stack import debian
from tests.contract.test_compare_real import TEXTS, compared, copied, finds_texts_that_differ, told, with_chunks
from tests.copies.worlds import COPYING, CopyWorld
from tests.databases.fixtures import KINDS
from tests.databases.reading import series
from tests.databases.servers import Server, postgresql_with_icu
from tidegate.core.copy.port import Database
from tidegate.workflow.copy import narrow
from tidegate.workflow.copy.compare import how_much

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.environ.get("TIDEGATE_COPIES") != "all", reason="make test-copies"),
]
ICU = (
    'CREATE COLLATION IF NOT EXISTS shop."Loose" '
    "(provider = icu, locale = 'und-u-ks-level1-ka-shifted', deterministic = false)"
)
COLLATIONS = {
    "mariadb": ("utf8mb4_general_ci", "utf8mb4_unicode_520_ci", "utf8mb4_bin"),
    "mysql": ("utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_0900_bin"),
    "postgresql": ('"sv-x-icu"', 'shop."Loose"', '"C"'),
}
"""The first two of each hold `Oslo` and `OSLO` equal, but Sweden's, whose order alone is its own."""
CASES = [(kind, collation) for kind in KINDS for collation in COLLATIONS[kind]]
CITIES = ("Oslo", "OSLO", "Århus", "århus", "a,1:b")
TEXT_KEY = COPYING.replace("name: id, type: bigint", "name: id, type: string")
TWO_KEYS = COPYING.replace(
    "  - {{name: id, type: bigint, nullable: false}}\n",
    "  - {{name: city, type: string, nullable: false}}\n  - {{name: id, type: bigint, nullable: false}}\n",
).replace("key: [id]", "key: [city, id]")


@pytest.fixture(scope="module")
def icu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A PostgreSQL that has it."""
    if not debian.is_here():
        pytest.skip("no Debian here, whose packages bring a PostgreSQL with ICU")
    with postgresql_with_icu(tmp_path_factory.mktemp("icu")) as server:
        server.run(ICU)
        yield server


@pytest.fixture(params=CASES, ids=[" ".join(case) for case in CASES])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Server, str]:
    """A server, and the collation of its key's texts."""
    monkeypatch.setattr(narrow, "ROWS", 50)
    kind, collation = request.param
    server: Server = request.getfixturevalue("icu" if kind == "postgresql" else kind)
    return server, f"COLLATE {collation}"


def filled(server: Server, columns: str, key: str, texts: str) -> None:
    server.run(
        "DROP TABLE IF EXISTS shop.readings",
        f"CREATE TABLE shop.readings ({columns}, word VARCHAR(40), PRIMARY KEY ({key}))",
        f"INSERT INTO shop.readings SELECT {texts}, CONCAT('w', n) FROM {series(server, 1, 2_000)}",
    )


def test_a_text(case: tuple[Server, str], tmp_path: Path) -> None:
    server, collation = case
    filled(server, f"id VARCHAR(40) {collation}", "id", "CONCAT('Key ', n)")
    with server.session().cursor() as cursor:
        cursor.executemany("INSERT INTO shop.readings VALUES (%s, 'odd')", [(text,) for text in TEXTS])
    world, base = copied(server, CopyWorld(tmp_path, with_chunks(TEXT_KEY, 700)), "Key 1", "w1")
    finds_texts_that_differ(server, world, base)
    mended(world, base)
    assert world.rows()["KEY 20"] == "w20"  # type: ignore[index]


def mended(world: CopyWorld, base: Database) -> None:
    assert compared(world, base, fix="by hand").mended
    last = compared(world, base)
    assert (last.differ, last.read, last.unsummed) == ({}, 0, "")
    base.close()
    world.close()


class TwoKeys(CopyWorld):
    """Its events have a city, too."""

    def land(self, *events: tuple[bytes, bytes]) -> int:
        return super().land(*map(in_oslo, events))


def in_oslo(event: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    key, value = map(json.loads, event)
    value["after"]["city"] = "Oslo"
    return json.dumps(key | {"city": "Oslo"}).encode(), json.dumps(value).encode()


def test_several_columns(case: tuple[Server, str], tmp_path: Path) -> None:
    server, collation = case
    which = " ".join(f"WHEN {n} THEN '{city}'" for n, city in enumerate(CITIES, 1))
    filled(server, f"city VARCHAR(40) {collation}, id BIGINT", "city, id", f"CASE n % 5 + 1 {which} END, n")
    world, base = copied(server, TwoKeys(tmp_path, with_chunks(TWO_KEYS, 700)), 5, "w5")
    equal = compared(world, base)
    assert (equal.differ, equal.rows, equal.read, equal.unsummed) == ({}, 2_000, 0, "")

    server.run(
        "UPDATE shop.readings SET city = 'oslo' WHERE id = 10",
        "UPDATE shop.readings SET word = NULL WHERE id = 7",
        "DELETE FROM shop.readings WHERE id = 1999",
    )
    world.land(told(server, base, 15, "w15"))
    found = compared(world, base)
    print(how_much(found))
    assert found.differ == {"lacking": 1, "surplus": 2, "other": 1}
    assert found.exact
    assert found.read < 500
    mended(world, base)
