"""The demo of a mirror: its checker finds each kind of damage, and its changes are what they say they are."""

from __future__ import annotations

import json
import random
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dev.demo.mirror import check, orders
from dev.demo.mirror.check import Mirror, Source, Topic, compare
from dev.demo.mirror.orders import Shop

COLUMNS = ("id", "customer", "total")
TOLD = {"rows": 3, "tombstones": 1, "events": 9, "inserted": 4, "purged": 0}


def right() -> tuple[Source, Mirror, Topic]:
    """Three orders, a fourth one that was deleted, and nine events, two of them sent again."""
    stand = {n: (n, f"customer {n}" if n > 1 else None, Decimal(n)) for n in (1, 2, 3)}
    rows = [dict(zip(COLUMNS, row, strict=True)) | {"_op": "u"} for row in stand.values()]
    rows.append({"id": 4, "customer": None, "total": None, "_op": "d"})
    summary = {f"tidegate.{name}": str(n) for name, n in TOLD.items()}
    return Source(COLUMNS, stand), Mirror((*COLUMNS, "_op"), rows, summary), Topic(9, 2, frozenset({1, 2, 3, 4}))


def failures(source: Source, mirror: Mirror, topic: Topic) -> list[str]:
    return [c.name for c in compare(source, mirror, topic) if not c.ok]


def test_a_right_table_passes():
    assert failures(*right()) == []
    assert len(compare(*right())) == 6


def edited(row: int, **values: Any) -> Callable[[Mirror], Mirror]:
    return lambda m: replace(m, rows=[r | values if n == row else r for n, r in enumerate(m.rows)])


def said(**values: int) -> Callable[[Mirror], Mirror]:
    return lambda m: replace(m, summary=m.summary | {f"tidegate.{name}": str(n) for name, n in values.items()})


SUMS = "the table's own word"
DAMAGES: dict[str, tuple[Callable[[Mirror], Mirror], list[str]]] = {
    "a row is missing": (lambda m: replace(m, rows=m.rows[1:]), ["content", "tombstones", SUMS]),
    "a deleted row is back": (edited(3, _op="u"), ["content", SUMS]),
    "a row is a tombstone": (edited(0, _op="d"), ["content", SUMS]),
    "an old value": (edited(1, customer="customer 1"), ["content"]),
    "null instead of a text": (edited(1, customer=None), ["content"]),
    "a text instead of null": (edited(0, customer=""), ["content"]),
    "another type": (edited(1, total=2), ["content"]),
    "a row twice": (lambda m: replace(m, rows=[*m.rows, m.rows[0]]), ["keys", SUMS]),
    "a tombstone is missing": (lambda m: replace(m, rows=m.rows[:3]), ["tombstones", SUMS]),
    "a column is missing": (lambda m: replace(m, columns=("id", "customer", "_op")), ["columns"]),
    "an event was not taken": (said(events=8), [SUMS]),
    "an insert was counted twice": (said(inserted=5), ["balance"]),
    "no summary": (lambda m: replace(m, summary={}), [SUMS, "balance"]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_found(name: str):
    damage, wanted = DAMAGES[name]
    source, mirror, topic = right()
    assert failures(source, damage(mirror), topic) == wanted


def test_a_key_that_never_came_is_found():
    source, mirror, topic = right()
    assert failures(source, mirror, replace(topic, keys=topic.keys | {5})) == ["tombstones"]


CLIENT = """
import sys
print({answers!r}["information_schema" in sys.stdin.read()], end="")
"""


def test_a_databases_values_are_what_the_mirror_has_for_them():
    kinds = {"id": "bigint", "name": "varchar", "total": "decimal", "placed": "date", "changed": "datetime"}
    rows = (["7", "two\nlines", "1.50", "2026-01-02", "1970-01-02 00:00:00.000001"], ["8", None, None, None, None])
    answers = ["".join(f"{json.dumps(row)}\n" for row in found) for found in (rows, kinds.items())]
    client = [sys.executable, "-c", CLIENT.format(answers=answers)]
    found = check.read_source(client, "shop.orders")
    assert found.columns == tuple(kinds)
    placed = check.date(2026, 1, 2)
    assert found.rows[7] == (7, "two\nlines", Decimal("1.50"), placed, 86_400_000_001)
    assert found.rows[8] == (8, None, None, None, None)


# ---------------------------------------------------------------- the changes


def test_changes_change_as_many_rows_as_they_say(tmp_path: Path):
    """Held against a database that knows nothing of MariaDB's dialect, but the same SQL."""
    shop, made = Shop(random.Random(7)), sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    made.execute(f"ATTACH '{tmp_path}/orders.db' AS shop")
    made.executescript(orders.CREATE.replace("CREATE DATABASE shop;", "").replace(" DEFAULT CHARSET utf8mb4", ""))

    def run(transactions: list[tuple[str, int]]) -> int:
        for sql, rows in transactions:
            before = made.total_changes
            made.executescript(sql)
            assert rows in (made.total_changes - before, 0), sql
            if not rows:  # it was rolled back
                assert made.execute("SELECT count(*) FROM shop.orders WHERE pieces < 0").fetchone() == (0,)
        return sum(rows for _, rows in transactions)

    assert run(list(shop.changes(500, only_new=True))) == 500
    assert run(list(shop.changes(3_000))) == 3_000
    for statement in orders.ALTER:
        made.execute(statement)
        shop.altered += 1
        assert run([*shop.changes(1_000), shop.last("it")]) == 1_000 + 64
    assert {key for (key,) in made.execute("SELECT id FROM shop.orders")} == set(shop.live)
    assert len(shop.gone) > 300
    assert not set(shop.gone) & set(shop.live)
    assert made.execute("SELECT count(channel) > 100, count(gift) > 50 FROM shop.orders").fetchone() == (1, 1)


def test_a_seed_gives_the_same_changes():
    one, two = (list(Shop(random.Random(3)).changes(200, only_new=True)) for _ in range(2))
    assert one == two
