"""What the ledger's tables are made of: `schema` has the tables."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)

from tidegate.ledger.texts import String

metadata = MetaData()
NAME = String(200)
ROWID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows only for INTEGER."""


def table(name: str, *columns: Column | PrimaryKeyConstraint | UniqueConstraint | Index) -> Table:
    """A table of the ledger."""
    return Table(name, metadata, *columns)


def key(**columns: object) -> list[Column]:
    """The primary key: the pipeline, and these columns with their types."""
    others = [Column(name, kind, primary_key=True, autoincrement=False) for name, kind in columns.items()]
    return [Column("pipeline", NAME, primary_key=True), *others]


def required(name: str, kind: type | object, default: object = None) -> Column:
    """A column that is never null."""
    return Column(name, kind, nullable=False, default=default)


def partial_index(name: str, where: str, *columns: str) -> Index:
    """An index of the rows that meet `where`; a statement uses it only if it says the same."""
    return Index(name, *columns, postgresql_where=text(where), sqlite_where=text(where))
