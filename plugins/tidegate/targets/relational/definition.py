"""The delivered table and the table of tokens beside it: how they are made and follow the spec, and the statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.core.base.errors import DeliveryRefused
from tidegate.core.deliver.port import WINDOW_COLUMN, Attempt, Content, Table, Tries
from tidegate.targets.relational.columns import Column, widens
from tidegate.targets.relational.dialect import Dialect

TOKENS = "tidegate_deliveries"
"""Beside the delivered table: a row for each window, with the token that stands there and what was read back."""
Statement = tuple[str, tuple[Any, ...]]


class Definition:
    """`table`: its name in statements. `delivery`: whose it is, beside the pipeline."""

    def __init__(self, dialect: Dialect, settings: Mapping[str, Any], table: Table, columns: Sequence[Column]) -> None:
        self._dialect, self._columns = dialect, columns
        self._at = dialect.named(settings, table.name)
        if not self._at.schema:
            raise DeliveryRefused(
                f"{table.name} names no database, and neither does the connection",
                advice="name the table as database.table, or give the connection a schema",
                retry=False,
            )
        quoted = dialect.quoted
        self.table = f"{quoted(self._at.schema)}.{quoted(self._at.name)}"
        self._tokens = f"{quoted(self._at.schema)}.{quoted(TOKENS)}"
        self.pipeline, self.delivery = table.pipeline, table.delivery

    # ------------------------------------------------------------ prepare

    def missing(self, cursor: Any) -> bool:
        """Whether the table is not there, or no window was ever sent to it."""
        tokens = replace(self._at, name=TOKENS)
        if not self._dialect.columns(cursor, self._at) or not self._dialect.columns(cursor, tokens):
            return True
        return self._owner(cursor) is None

    def prepare(self, cursor: Any) -> list[str]:
        """What was done, in words. Raises DeliveryRefused."""
        there = self._dialect.columns(cursor, self._at)
        self._make_tokens(cursor)
        if not there:
            cursor.execute(self._create())
            return [f"created {self.table}"]
        self._refuse_other(cursor, there)
        done = []
        for each in self._columns:
            if each.name not in there:
                cursor.execute(f"ALTER TABLE {self.table} ADD COLUMN {self._declared(each)}")
                done.append(f"added {each.name} to {self.table}")
            elif there[each.name] != each.type and not self._holds(there[each.name], each):
                done.append(self._widened(cursor, each, there[each.name]))
        return done

    def _create(self) -> str:
        index = self._dialect.quoted(WINDOW_COLUMN[0])
        columns = ", ".join(self._declared(each) for each in self._columns)
        if self._dialect.kind == "postgresql":
            return f"CREATE TABLE {self.table} ({columns}); CREATE INDEX ON {self.table} ({index})"
        return f"CREATE TABLE {self.table} ({columns}, INDEX ({index})) ENGINE=InnoDB {_UTF8}"

    def _declared(self, each: Column) -> str:
        needed = " NOT NULL" if each.name == WINDOW_COLUMN[0] else " NULL"
        return f"{self._dialect.quoted(each.name)} {each.type}{needed}"

    def _make_tokens(self, cursor: Any) -> None:
        number, short, when = self._dialect.count, self._dialect.short, self._dialect.when
        quoted = self._dialect.quoted
        engine = "" if self._dialect.kind == "postgresql" else f" ENGINE=InnoDB {_UTF8}"
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._tokens} (table_name {short} NOT NULL, window_ms {number} NOT NULL, "
            f"window_start {when} NOT NULL, pipeline {short} NOT NULL, delivery {short} NOT NULL, "
            f"generation {number} NOT NULL, epoch {number} NOT NULL, nonce {short} NOT NULL, digest {short} NOT NULL, "
            f"{quoted('rows')} {number} NOT NULL, checksum {short} NOT NULL, sent_at {when}, "
            f"PRIMARY KEY (table_name, window_ms)){engine}"
        )

    def _refuse_other(self, cursor: Any, there: Mapping[str, str]) -> None:
        if WINDOW_COLUMN[0] not in there:
            raise DeliveryRefused(
                f"{self.table} is there, and has no column {WINDOW_COLUMN[0]}: Tidegate did not make it",
                advice="name another table in the YAML; Tidegate creates it",
                retry=False,
            )
        owner = self._owner(cursor)
        if owner is not None and tuple(owner) != (self.pipeline, self.delivery):
            raise DeliveryRefused(
                f"{self.table} belongs to the delivery {owner[1]} of {owner[0]}",
                advice="give each delivery a table of its own",
                retry=False,
            )
        if why := self._dialect.forgets(cursor, self._at):
            raise DeliveryRefused(f"{self.table} is not taken: {why[0]}", advice=why[1], retry=False)
        if owner is None:
            cursor.execute(f"SELECT 1 FROM {self.table} LIMIT 1")
            if cursor.fetchone() is not None:
                raise DeliveryRefused(
                    f"{self.table} holds rows that no delivery has sent",
                    advice="name an empty table, or one that is missing: Tidegate creates it",
                    retry=False,
                )

    def _owner(self, cursor: Any) -> tuple[str, str] | None:
        """(pipeline, delivery) of what was sent; None: nothing was."""
        mine = "table_name = %s AND generation > 0"
        cursor.execute(f"SELECT pipeline, delivery FROM {self._tokens} WHERE {mine} LIMIT 1", (self._at.name,))
        found: tuple[str, str] | None = cursor.fetchone()
        return found

    def _holds(self, there: str, each: Column) -> bool:
        """Whether the column takes the values as it is, wider than it has to be."""
        return widens(each.type, there)

    def _widened(self, cursor: Any, each: Column, there: str) -> str:
        if not widens(there, each.type):
            raise DeliveryRefused(
                f"{each.name} of {self.table} is {there}, and takes no {each.hive} ({each.type})",
                advice=f"change its type to {each.type}, or name another table",
                retry=False,
            )
        cursor.execute(self._dialect.widen(self.table, each))
        return f"{each.name} of {self.table} is {each.type} now, it was {there}"

    # ------------------------------------------------------------ tokens

    def tries(self, cursor: Any) -> Tries:
        """Of all windows that were sent."""
        mine = "table_name = %s AND generation > 0"
        cursor.execute(f"SELECT window_ms, generation, epoch FROM {self._tokens} WHERE {mine}", (self._at.name,))
        return {window_ms: (generation, epoch) for window_ms, generation, epoch in cursor.fetchall()}

    def first_token(self, window_ms: int) -> Statement:
        """A row that can be locked, of no generation; nothing where there is one."""
        values = (self._at.name, window_ms)
        names = (
            "table_name, window_ms, window_start, pipeline, delivery, generation, epoch, nonce, digest, "
            f"{self._dialect.quoted('rows')}, checksum"
        )
        told = "(%s, %s, " + self._dialect.instant(window_ms) + ", '', '', 0, 0, '', '', 0, '')"
        if self._dialect.kind == "postgresql":
            return f"INSERT INTO {self._tokens} ({names}) VALUES {told} ON CONFLICT DO NOTHING", values
        return f"INSERT IGNORE INTO {self._tokens} ({names}) VALUES {told}", values

    def lock(self, window_ms: int) -> Statement:
        """The window's token, behind a lock."""
        statement, values = self.look(window_ms)
        return f"{statement} FOR UPDATE", values

    def look(self, window_ms: int) -> Statement:
        """The same without a lock: (pipeline, delivery, generation, epoch, nonce, digest, rows, checksum)."""
        columns = f"pipeline, delivery, generation, epoch, nonce, digest, {self._dialect.quoted('rows')}, checksum"
        where = "table_name = %s AND window_ms = %s"
        return f"SELECT {columns} FROM {self._tokens} WHERE {where}", (self._at.name, window_ms)

    def token(self, attempt: Attempt, content: Content) -> Statement:
        """The try's token takes the place of the one before."""
        t = attempt.token
        sets = (
            "pipeline = %s, delivery = %s, generation = %s, epoch = %s, nonce = %s, digest = %s, "
            f"{self._dialect.quoted('rows')} = %s, checksum = %s, sent_at = CURRENT_TIMESTAMP"
        )
        values = (t.pipeline, self.delivery, t.generation, t.epoch, attempt.nonce, t.digest)
        told = (content.rows, str(content.checksum), self._at.name, t.unit)
        return f"UPDATE {self._tokens} SET {sets} WHERE table_name = %s AND window_ms = %s", values + told

    def snapshot(self, cursor: Any) -> None:
        """Begin a transaction in which token and rows are of one moment."""
        if self._dialect.kind == "postgresql":
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        else:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")


_UTF8 = "DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
