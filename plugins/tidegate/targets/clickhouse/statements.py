"""The statements that a delivery to ClickHouse is made of. They say nothing about when one may be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.targets.clickhouse.client import Client, quoted, text
from tidegate.targets.clickhouse.types import Column, sql_row_hash

OLD_PARTS_S = 1
"""What made way for a REPLACE leaves the disk so soon: until then older servers show it again when they restart."""
_NULLABLE_KEY = "allow_nullable_key = 1"
EMPTY_SOURCE = "allow_replace_partition_from_empty_source"


@dataclass(frozen=True)
class Names:
    """A table, and the stagings of one delivery beside it, which begin with `prefix`."""

    database: str
    table: str
    prefix: str

    def full(self, table: str) -> str:
        return f"{quoted(self.database)}.{quoted(table)}"

    @property
    def target(self) -> str:
        return self.full(self.table)

    def where(self, table: str, column: str = "table") -> str:
        """Which rows of a system table are about `table`, whose name is in `column`."""
        return f"database = {text(self.database)} AND {column} = {text(table)}"


def sorted_by(order_by: Sequence[str], client: Client) -> str:
    """The key of a new table's order. Its columns may be null; older versions take a default for null there."""
    plain = client.knows("allow_nullable_key")
    return ", ".join(quoted(name) if plain else f"assumeNotNull({quoted(name)})" for name in order_by)


def create_table(names: Names, columns: Sequence[Column], order_by: Sequence[str], owner: str, client: Client) -> str:
    """The target, whose first column says whose it is."""
    declared = [f"{quoted(one.name)} {one.full_type}" for one in columns]
    declared[0] += f" COMMENT {text(owner)}"
    order = sorted_by(order_by, client)
    keys = f", {_NULLABLE_KEY}" if client.knows("allow_nullable_key") and order else ""
    return (
        f"CREATE TABLE {names.target} ({', '.join(declared)}) ENGINE = MergeTree "
        f"PARTITION BY {quoted(columns[0].name)} ORDER BY ({order or 'tuple()'})"
        f" SETTINGS index_granularity = 8192, old_parts_lifetime = {OLD_PARTS_S}{keys}"
    )


@dataclass(frozen=True)
class Replica:
    """A table's place in ZooKeeper or Keeper, and what the replica is called there."""

    path: str
    name: str


def create_replica(names: Names, declared: Sequence[tuple[str, str]], order: str, at: Replica, client: Client) -> str:
    """The target as one of several replicas; `declared`: name and type. Whose it is says its path: 18.16 lets no other
    replica join a table whose columns have comments."""
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in declared)
    engine = f"ReplicatedMergeTree({text(at.path)}, {text(at.name)})"
    return (
        f"CREATE TABLE {names.target} ({columns}) ENGINE = {engine} PARTITION BY {quoted(declared[0][0])} "
        f"ORDER BY ({order or 'tuple()'}) SETTINGS index_granularity = 8192, old_parts_lifetime = {OLD_PARTS_S}"
        f"{', ' + _NULLABLE_KEY if client.knows('allow_nullable_key') and order else ''}"
    )


def create_staging(names: Names, staging: str, window: Column, order: str | None, client: Client) -> str:
    """`order`: the target's, where it is replicated; None: it is not, and the staging is as the target."""
    engine = ""
    if order is not None:
        keys = f" SETTINGS {_NULLABLE_KEY}" if client.knows("allow_nullable_key") and order else ""
        engine = f" ENGINE = MergeTree PARTITION BY {quoted(window.name)} ORDER BY ({order or 'tuple()'}){keys}"
    return f"CREATE TABLE {names.full(staging)} AS {names.target}{engine}"


def insert(names: Names, staging: str, columns: Sequence[Column]) -> str:
    """The data, in the format Native, follows."""
    return f"INSERT INTO {names.full(staging)} ({', '.join(quoted(one.name) for one in columns)}) FORMAT Native"


def a_row(names: Names, staging: str, window: Column, window_ms: int) -> str:
    """One that says nothing but whose window it is in."""
    return f"INSERT INTO {names.full(staging)} ({quoted(window.name)}) SELECT toDateTime({window_ms // 1000})"


def without_rows(names: Names, staging: str) -> str:
    """Executed later, by itself: what is left of a part is a part of no rows."""
    return f"ALTER TABLE {names.full(staging)} DELETE WHERE 1"


def replace(names: Names, staging: str, window_ms: int) -> str:
    """The partition's name is the window's start."""
    return f"ALTER TABLE {names.target} REPLACE PARTITION ID '{window_ms // 1000}' FROM {names.full(staging)}"


def content(names: Names, table: str, columns: Sequence[Column], window_ms: int | None) -> str:
    """Count and sum of hashes of a staging, or of a window of the target."""
    only = "" if window_ms is None else f" WHERE {quoted(columns[0].name)} = toDateTime({window_ms // 1000})"
    return f"SELECT count(), sum({sql_row_hash(columns)}) FROM {names.full(table)}{only}"


def content_by(names: Names, columns: Sequence[Column], by: Sequence[str], window_ms: int) -> str:
    """The same of a window of the target, for each group of values of the columns `by`, which come first."""
    keys = [quoted(name) for name in by]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    only = f"WHERE {quoted(columns[0].name)} = toDateTime({window_ms // 1000}){grouped}"
    return f"SELECT {', '.join([*keys, 'count()'])}, sum({sql_row_hash(columns)}) FROM {names.target} {only}"


def parts(names: Names, staging: str) -> str:
    """How many the server reads the staging from."""
    return f"SELECT count() FROM system.parts WHERE {names.where(staging)} AND active"


def rows_by_window(names: Names) -> str:
    """The start of each window of the target, in seconds, and its rows: by its parts, not by their rows."""
    where = f"{names.where(names.table)} AND active"
    return f"SELECT partition_id, sum(rows) FROM system.parts WHERE {where} GROUP BY partition_id"


def parts_of(names: Names, window_ms: int) -> str:
    """First and last block, level, rows, whether it is active: of each of the window's parts on the target's disk."""
    where = f"{names.where(names.table)} AND partition_id = '{window_ms // 1000}'"
    return f"SELECT min_block_number, max_block_number, level, rows, active FROM system.parts WHERE {where}"


def stagings(names: Names, more: str = "") -> str:
    """Names of tables that begin with the prefix, and then `more`."""
    where = f"database = {text(names.database)} AND startsWith(name, {text(names.prefix + more)})"
    return f"SELECT name FROM system.tables WHERE {where} ORDER BY name"


def replaces_under_way(names: Names, more: str) -> str:
    """How many REPLACE statements from such stagings are being executed: each has looked up its source already."""
    where = f"startsWith(query, 'ALTER') AND position(query, {text(names.prefix + more)}) > 0"
    return f"SELECT count() FROM system.processes WHERE {where}"


def described(names: Names) -> str:
    """Engine and partition key of the target; no row where it is missing."""
    return f"SELECT engine, partition_key FROM system.tables WHERE {names.where(names.table, 'name')}"


def sorting_key(names: Names) -> str:
    """The target's."""
    return f"SELECT sorting_key FROM system.tables WHERE {names.where(names.table, 'name')}"


def replica_path(names: Names) -> str:
    """Path of the target's replicas; no row where it is not replicated."""
    return f"SELECT zookeeper_path FROM system.replicas WHERE {names.where(names.table)}"


def described_columns(names: Names) -> str:
    """Name, type and comment of the target's columns."""
    return f"SELECT name, type, comment FROM system.columns WHERE {names.where(names.table)}"


def window_name(window_ms: int) -> str:
    """For people."""
    return datetime.fromtimestamp(window_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
