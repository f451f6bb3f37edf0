"""Orders of a shop that change, as SQL: new ones, changes, deletes, other numbers for the same order, and transactions
that are rolled back. The same seed gives the same statements."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

TABLE = "shop.orders"
CREATE = f"""
CREATE DATABASE shop;
CREATE TABLE {TABLE} (
  id BIGINT PRIMARY KEY, customer VARCHAR(60) NOT NULL, city VARCHAR(40), total DECIMAL(12,2), pieces INT NOT NULL,
  placed DATE, changed DATETIME(6) NOT NULL) DEFAULT CHARSET utf8mb4;
"""
NEW_COLUMNS = ("channel", "gift")
"""In the order in which the table gets them."""
ALTER = tuple(
    f"ALTER TABLE {TABLE} ADD COLUMN {name} {kind} NULL"
    for name, kind in zip(NEW_COLUMNS, ("VARCHAR(20)", "INT"), strict=True)
)
"""Without a default: one would change all rows of the database, and no event would say so."""
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


@dataclass
class Shop:
    """The numbers of the orders that are there, and of those that are gone; `altered`: how many columns are new."""

    random: random.Random
    live: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    altered: int = 0
    _next: int = 1
    _clock: datetime = datetime(2026, 1, 1)

    def changes(self, wanted: int, only_new: bool = False) -> Iterator[tuple[str, int]]:
        """(SQL of a transaction, rows that it changes), until so many rows are changed."""
        while wanted > 0:
            sql, rows = self._transaction(min(wanted, self.random.randint(1, _MOST_ROWS)), only_new)
            wanted -= rows
            yield sql, rows

    def last(self, customer: str) -> tuple[str, int]:
        """The last orders, so many that each Kafka partition gets some; all are of this customer."""
        values = ", ".join(self._new(customer) for _ in range(_LAST_ORDERS))
        return f"INSERT INTO {TABLE} VALUES {values};\n", _LAST_ORDERS

    def _transaction(self, rows: int, only_new: bool) -> tuple[str, int]:
        if not only_new and self.random.random() < 0.02:
            return f"BEGIN;\nUPDATE {TABLE} SET pieces = -1 WHERE id = {self._any()};\nROLLBACK;\n", 0
        statements, left = [], rows
        while left > 0:
            sql, done = self._insert(left) if only_new else self._pick()(min(left, _MOST_OF_STATEMENT))
            statements.append(f"{sql};\n")
            left -= done
        return f"BEGIN;\n{''.join(statements)}COMMIT;\n", rows

    def _pick(self):
        kinds = (self._insert, self._update, self._delete, self._renumber)
        return self.random.choices(kinds, (30, 45, 20, 5))[0]

    def _insert(self, most: int) -> tuple[str, int]:
        count = self.random.randint(1, most)
        return f"INSERT INTO {TABLE} VALUES {', '.join(self._new() for _ in range(count))}", count

    def _update(self, most: int) -> tuple[str, int]:
        keys = {self._any() for _ in range(self.random.randint(1, most))}
        changes = ["pieces = pieces + 1", f"changed = {self._now()}", f"total = {self._total()}"]
        if self.altered and self.random.random() < 0.5:
            changes += (f"{name} = {value}" for name, value in zip(NEW_COLUMNS, self._newer(), strict=False))
        return f"UPDATE {TABLE} SET {', '.join(changes)} WHERE id IN ({', '.join(map(str, sorted(keys)))})", len(keys)

    def _delete(self, most: int) -> tuple[str, int]:
        keys = [self._take() for _ in range(self.random.randint(1, most))]
        self.gone += keys
        return f"DELETE FROM {TABLE} WHERE id IN ({', '.join(map(str, keys))})", len(keys)

    def _renumber(self, _most: int) -> tuple[str, int]:
        """Give an order another key: readers of the log see a delete and a new row."""
        old, new = self._take(), self._number()
        self.live.append(new)
        self.gone.append(old)
        return f"UPDATE {TABLE} SET id = {new} WHERE id = {old}", 1

    def _new(self, customer: str = "") -> str:
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


def _text(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
