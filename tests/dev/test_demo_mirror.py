"""The demo of a mirror: its checker finds each kind of damage, and its changes are what they say they are."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dev.demo.mirror import check, orders
from dev.demo.mirror.check import Mirror, Topic, compare
from dev.demo.mirror.orders import Shop

KEYS = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
TOLD = {"rows": 3, "tombstones": 1, "events": 9, "inserted": 4, "purged": 0}


def right() -> tuple[pa.Table, Mirror, Topic]:
    """Three orders of two shards, a fourth one that was deleted, and nine events, two of them sent again. The mirror's
    types are those that pyiceberg gives."""
    columns = {
        "shard": pa.array([shard for shard, _ in KEYS]),
        "id": pa.array([number for _, number in KEYS]),
        "customer": pa.array([None, "customer 2", "customer 3", None]),
        "total": pa.array([Decimal(n) for n in (1, 2, 3)] + [None], pa.decimal128(12, 2)),
        "pieces": pa.array([1, 2, 3, None], pa.int64()),
    }
    source = pa.table(columns).slice(0, 3)
    long = {name: pa.large_string() for name in ("shard", "customer")} | {"pieces": pa.int32()}
    rows = pa.table({name: values.cast(long.get(name, values.type)) for name, values in columns.items()})
    summary = {f"tidegate.{name}": str(n) for name, n in TOLD.items()}
    mirror = Mirror(rows.append_column("_op", pa.array(["u", "u", "u", "d"], pa.large_string())), summary)
    return source, mirror, Topic(9, 2, frozenset(KEYS), frozenset(KEYS[3:]))


def failures(source: pa.Table, mirror: Mirror, topic: Topic) -> list[str]:
    return [c.name for c in compare(source, mirror, topic) if not c.ok]


def test_a_right_table_passes():
    assert failures(*right()) == []
    assert len(compare(*right())) == 6


def test_the_order_of_rows_says_nothing():
    source, mirror, topic = right()
    assert failures(source, replace(mirror, rows=mirror.rows.take([3, 2, 0, 1])), topic) == []


def rows(change: Callable[[pa.Table], pa.Table]) -> Callable[[Mirror], Mirror]:
    return lambda m: replace(m, rows=change(m.rows))


def edited(row: int, **values: Any) -> Callable[[Mirror], Mirror]:
    def change(table: pa.Table) -> pa.Table:
        changed = [r | values if n == row else r for n, r in enumerate(table.to_pylist())]
        return pa.Table.from_pylist(changed, table.schema)

    return rows(change)


def cast(column: str, to: pa.DataType) -> Callable[[Mirror], Mirror]:
    return rows(lambda t: t.set_column(t.column_names.index(column), column, t[column].cast(to)))


def said(**values: int) -> Callable[[Mirror], Mirror]:
    return lambda m: replace(m, summary=m.summary | {f"tidegate.{name}": str(n) for name, n in values.items()})


SUMS = "the table's own word"
DAMAGES: dict[str, tuple[Callable[[Mirror], Mirror], list[str]]] = {
    "a row is missing": (rows(lambda t: t.slice(1)), ["content", "tombstones", SUMS]),
    "a deleted row is back": (edited(3, _op="u"), ["content", SUMS]),
    "a row is a tombstone": (edited(0, _op="d"), ["content", SUMS]),
    "a row is of another shard": (edited(2, shard="c"), ["content", "tombstones"]),
    "an old value": (edited(1, customer="customer 1"), ["content"]),
    "null instead of a text": (edited(1, customer=None), ["content"]),
    "a text instead of null": (edited(0, customer=""), ["content"]),
    "another type": (cast("total", pa.int64()), ["content"]),
    "a row twice": (rows(lambda t: t.take([0, 1, 2, 3, 0])), ["keys", SUMS]),
    "a tombstone is missing": (rows(lambda t: t.slice(0, 3)), ["tombstones", SUMS]),
    "a column is missing": (rows(lambda t: t.drop_columns("total")), ["columns"]),
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
    assert failures(source, mirror, replace(topic, keys=topic.keys | {("b", 3)})) == ["tombstones"]


def test_only_a_delete_from_before_the_copy_leaves_nothing():
    source, mirror, topic = right()
    told = {**mirror.summary, "tidegate.copied": "all", "tidegate.tombstones": "0", "tidegate.inserted": "3"}
    gone = Mirror(mirror.rows.slice(0, 3), told)
    assert failures(source, gone, topic) == []
    assert failures(source, gone, replace(topic, deleted=frozenset())) == ["tombstones"]
    assert failures(source.slice(1), gone, topic) == ["content"]
    assert failures(source, replace(gone, rows=gone.rows.slice(1)), topic) == ["content", "tombstones", SUMS]


def test_what_differs_is_named():
    source, mirror, topic = right()
    (content,) = [c for c in compare(source, edited(2, pieces=7)(mirror), topic) if not c.ok]
    assert "3 rows in the database (2 of a, 1 of b), 3 in the mirror; 1 different, such as [('b', 1)]" in content.detail


CLIENT = """
import sys
asked = sys.stdin.read()
print({answers!r}["information_schema" in asked, "orders_b" in asked], end="")
"""


def test_a_databases_values_are_what_the_mirror_has_for_them():
    kinds = {
        "id": "bigint(20)", "name": "varchar(40)", "total": "decimal(12,2)", "placed": "date", "changed": "datetime(6)",
    }  # fmt: skip
    stand = (["7", "two\nlines", "1.50", "1970-01-03", "1970-01-02 00:00:00.000001"], ["8", None, None, None, None])

    def lines(answers: Any) -> str:
        return "".join(f"{json.dumps(one)}\n" for one in answers)

    answers = {(True, shard): lines(kinds.items()) for shard in (False, True)}
    answers |= {(False, second): lines([dict(zip(kinds, stand[second], strict=True))]) for second in (False, True)}
    found = check.read_source([sys.executable, "-c", CLIENT.format(answers=answers)], orders.TABLES)
    assert found.column_names == ["shard", *kinds]
    seven, eight = found.to_pylist()
    assert tuple(seven.values()) == ("orders_a", 7, "two\nlines", Decimal("1.50"), 2, 86_400_000_001)
    assert tuple(eight.values()) == ("orders_b", 8, None, None, None, None)
    assert found.schema.field("total").type == pa.decimal128(12, 2)


# ---------------------------------------------------------------- the changes


def test_changes_change_as_many_rows_as_they_say(tmp_path: Path):
    """Held against a database that knows nothing of MariaDB's dialect, but the same SQL."""
    shop, made = Shop(7), sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    made.execute(f"ATTACH '{tmp_path}/orders.db' AS shop")
    made.executescript(orders.CREATE.replace("CREATE DATABASE shop;", "").replace(" DEFAULT CHARSET utf8mb4", ""))

    def run(transactions: list[tuple[str, int]]) -> int:
        for sql, changed in transactions:
            before = made.total_changes
            made.executescript(sql)
            assert changed in (made.total_changes - before, 0), sql
            if not changed:  # it was rolled back
                for table in orders.TABLES:
                    assert made.execute(f"SELECT count(*) FROM {table} WHERE pieces < 0").fetchone() == (0,)
        return sum(changed for _, changed in transactions)

    filled = list(shop.fill(5_000))
    assert run([(sql, size) for sql, size in zip(filled, [1_000, 1_000, 500] * 2, strict=True)]) == 5_000
    assert run(list(shop.changes(6_000))) == 6_000
    for _ in orders.NEW_COLUMNS:
        for statement in shop.alter():
            made.execute(statement)
        assert run([*shop.changes(2_000), (shop.last("it"), 64)]) == 2_000 + 64
    for shard in shop.shards:
        assert {key for (key,) in made.execute(f"SELECT id FROM {shard.table}")} == set(shard.live)
        assert len(shard.gone) > 300
        assert not set(shard.gone) & set(shard.live)
        news = f"SELECT count(channel) > 100, count(gift) > 50 FROM {shard.table}"
        assert made.execute(news).fetchone() == (1, 1)
    assert len(set(shop.shards[0].live) & set(shop.shards[1].live)) > 1_000


def test_a_seed_gives_the_same_changes():
    one, two = ([*shop.fill(2_000), *shop.changes(200)] for shop in (Shop(3), Shop(3)))
    assert one == two
