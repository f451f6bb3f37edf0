"""Orders of a shop that change, as SQL: new ones, changes, deletes, other numbers for the same order, and transactions
that are rolled back. They lie in two tables, its shards. The same seed gives the same statements."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

DATABASE = "shop"
TABLES = (f"{DATABASE}.orders_a", f"{DATABASE}.orders_b")
"""Each counts its orders from 1 on, so that most numbers are in both."""
_COLUMNS = """
  id BIGINT PRIMARY KEY, customer VARCHAR(60) NOT NULL, city VARCHAR(40), total DECIMAL(12,2), pieces INT NOT NULL,
  placed DATE, changed DATETIME(6) NOT NULL"""
CREATE = f"CREATE DATABASE {DATABASE};\n" + "".join(
    f"CREATE TABLE {table} ({_COLUMNS}) DEFAULT CHARSET utf8mb4;\n" for table in TABLES
)
NEW_COLUMNS = ("channel", "gift")
"""In the order in which the tables get them."""
_KINDS = ("VARCHAR(20)", "INT")
_LAST_ORDERS = 64
_CUSTOMERS = (
    "Ada",
    "Bo O'Neill",
    "Çelik",
    "Düşünür",
    "Ελένη",
    "李雷",
    "back\\slash",
    "two\nlines",
    '"quoted"',
    "😀 Inc",
)
_CITIES = ("Oslo", "Wien", "São Paulo", "东京", "", None)
_CHANNELS = ("web", "shop", "phone", None)
_MOST_ROWS, _MOST_OF_STATEMENT = 40, 4  # of one transaction, of a statement in it
_FILLED_AT_ONCE = 1_000  # rows of a statement that fills a table


class Shop:
    """Both tables; each transaction changes one of them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.shards = tuple(Shard(table, self._random) for table in TABLES)

    def fill(self, orders: int) -> Iterator[str]:
        """SQL of new orders, of many rows a statement: so many in all, and as many in each table."""
        each = orders // len(TABLES)
        for shard in self.shards:
            for done in range(0, each, _FILLED_AT_ONCE):
                yield shard.insert(min(_FILLED_AT_ONCE, each - done))

    def changes(self, wanted: int) -> Iterator[tuple[str, int]]:
        """(SQL of a transaction, rows that it changes), until so many rows are changed."""
        while wanted > 0:
            sql, rows = self._random.choice(self.shards).transaction(wanted)
            wanted -= rows
            yield sql, rows

    def last(self, customer: str) -> str:
        """The last orders, so many that each Kafka partition gets some; all are of this customer."""
        return self.shards[-1].insert(_LAST_ORDERS, customer)

    def alter(self) -> list[str]:
        """The statements that give each table its next column. None has a default: that would change all rows of the
        database, and no event would say so."""
        return [shard.alter() for shard in self.shards]


@dataclass
class Shard:
    """A table, with the numbers of the orders that are there, and of those that are gone; `altered`: how many columns
    are new."""

    table: str
    random: random.Random
    live: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    altered: int = 0
    _next: int = 1
    _clock: datetime = datetime(2026, 1, 1)

    def alter(self) -> str:
        self.altered += 1
        name, kind = NEW_COLUMNS[self.altered - 1], _KINDS[self.altered - 1]
        return f"ALTER TABLE {self.table} ADD COLUMN {name} {kind} NULL;\n"

    def insert(self, count: int, customer: str = "") -> str:
        """A statement that makes so many new orders."""
        return f"INSERT INTO {self.table} VALUES {', '.join(self._new(customer) for _ in range(count))};\n"

    def transaction(self, most: int) -> tuple[str, int]:
        """SQL, and how many rows it changes: none where it is rolled back."""
        if self.random.random() < 0.02:
            return f"BEGIN;\nUPDATE {self.table} SET pieces = -1 WHERE id = {self._any()};\nROLLBACK;\n", 0
        rows = left = min(most, self.random.randint(1, _MOST_ROWS))
        statements = []
        while left > 0:
            sql, done = self._pick()(min(left, _MOST_OF_STATEMENT))
            statements.append(sql)
            left -= done
        return f"BEGIN;\n{''.join(statements)}COMMIT;\n", rows

    def _pick(self):
        kinds = (self._insert, self._update, self._delete, self._renumber)
        return self.random.choices(kinds, (30, 45, 20, 5))[0]

    def _insert(self, most: int) -> tuple[str, int]:
        count = self.random.randint(1, most)
        return self.insert(count), count

    def _update(self, most: int) -> tuple[str, int]:
        keys = {self._any() for _ in range(self.random.randint(1, most))}
        changes = ["pieces = pieces + 1", f"changed = {self._now()}", f"total = {self._total()}"]
        if self.altered and self.random.random() < 0.5:
            changes += (f"{name} = {value}" for name, value in zip(NEW_COLUMNS, self._newer(), strict=False))
        return f"UPDATE {self.table} SET {', '.join(changes)} WHERE {_in(sorted(keys))};\n", len(keys)

    def _delete(self, most: int) -> tuple[str, int]:
        keys = [self._take() for _ in range(self.random.randint(1, most))]
        self.gone += keys
        return f"DELETE FROM {self.table} WHERE {_in(keys)};\n", len(keys)

    def _renumber(self, _most: int) -> tuple[str, int]:
        """Give an order another key: readers of the log see a delete and a new row."""
        old, new = self._take(), self._number()
        self.live.append(new)
        self.gone.append(old)
        return f"UPDATE {self.table} SET id = {new} WHERE id = {old};\n", 1

    def _new(self, customer: str) -> str:
        number = self._number()
        self.live.append(number)
        values = [
            str(number), _text(customer or self.random.choice(_CUSTOMERS)), _text(self.random.choice(_CITIES)),
            self._total(), str(self.random.randint(0, 9)), f"'{self._clock:%Y-%m-%d}'", self._now(),
        ]  # fmt: skip
        return f"({', '.join(values + self._newer())})"

    def _newer(self) -> list[str]:
        """Values of the new columns that are there."""
        values = [_text(self.random.choice(_CHANNELS)), self.random.choice(("NULL", "0", "-7", "2147483647"))]
        return values[: self.altered]

    def _number(self) -> int:
        """One that is free: sometimes one that was used before."""
        if self.gone and self.random.random() < 0.1:
            return self.gone.pop(self.random.randrange(len(self.gone)))
        self._next += 1
        return self._next - 1

    def _any(self) -> int:
        return self.random.choice(self.live)

    def _take(self) -> int:
        at = self.random.randrange(len(self.live))
        self.live[at], self.live[-1] = self.live[-1], self.live[at]
        return self.live.pop()

    def _total(self) -> str:
        return "NULL" if self.random.random() < 0.05 else f"{self.random.randint(-(10**6), 10**10) / 100:.2f}"

    def _now(self) -> str:
        self._clock += timedelta(microseconds=self.random.randint(1, 10**8))
        return f"'{self._clock:%Y-%m-%d %H:%M:%S.%f}'"


def _in(keys: list[int]) -> str:
    return f"id IN ({', '.join(map(str, keys))})"


def _text(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
