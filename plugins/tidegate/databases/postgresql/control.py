"""PostgreSQL as the control plane sees it: a table's shape, bounds of chunks, and places in its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.core.copy.port import NOWHERE, LogPosition, SourceColumn, SourceTable, Value
from tidegate.databases.driver import LoggedDatabase, refused
from tidegate.databases.postgresql import session
from tidegate.databases.postgresql.checksums import PostgreSQLChecksums
from tidegate.databases.sql import key_columns

_TABLE = """
SELECT c.oid, c.relkind, c.relpersistence, EXISTS (SELECT 1 FROM pg_inherits i WHERE i.inhparent = c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s"""
_COLUMNS = """
WITH RECURSIVE base(attnum, typ, typmod) AS (
  SELECT attnum, atttypid, atttypmod FROM pg_attribute
  WHERE attrelid = %(oid)s AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
  UNION ALL
  SELECT b.attnum, t.typbasetype, t.typtypmod FROM base b JOIN pg_type t ON t.oid = b.typ WHERE t.typtype = 'd')
SELECT a.attname, CASE t.typtype WHEN 'e' THEN 'enum' ELSE lower(format_type(b.typ, b.typmod)) END, NOT a.attnotnull
FROM base b JOIN pg_type t ON t.oid = b.typ AND t.typtype <> 'd'
JOIN pg_attribute a ON a.attrelid = %(oid)s AND a.attnum = b.attnum ORDER BY a.attnum"""
_TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'"""
"""A partitioned table is listed once, without its partitions."""
_KEY = """
SELECT a.attname FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = %s AND i.indisprimary AND k.n <= i.indnkeyatts ORDER BY k.n"""
_ROWS = """
SELECT COALESCE(sum(GREATEST(c.reltuples, 0)), 0)::bigint FROM pg_class c
WHERE c.oid = %(table)s::regclass OR c.oid IN (SELECT relid FROM pg_partition_tree(%(table)s::regclass))"""
_SLOT = """
SELECT (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint FROM pg_replication_slots
WHERE slot_name = %s AND slot_type = 'logical' AND database = current_database()
  AND wal_status IS DISTINCT FROM 'lost'"""
_UNPUBLISHED = """
WITH published AS (
  SELECT DISTINCT c.oid FROM pg_publication_tables t JOIN pg_publication p ON p.pubname = t.pubname
  JOIN pg_namespace n ON n.nspname = t.schemaname JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
  WHERE p.pubinsert AND p.pubupdate AND p.pubdelete AND to_jsonb(t) ->> 'rowfilter' IS NULL)
SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname || '.' || c.relname = ANY(%s)
  AND EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND plugin = 'pgoutput')
  AND NOT EXISTS (SELECT 1 FROM published p WHERE p.oid = c.oid)
  AND (SELECT coalesce(bool_or(NOT EXISTS (
      SELECT 1 FROM pg_partition_ancestors(leaf.relid) a JOIN published p ON p.oid = a.relid)), true)
    FROM pg_partition_tree(c.oid) leaf WHERE leaf.isleaf)
ORDER BY 1"""
"""A publication with a row filter (a column since PostgreSQL 15) passes other rows by. A partitioned table is published
by itself, or by each of its partitions."""
_IN_PROGRESS = """
WITH top AS (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::numeric AS n)
SELECT DISTINCT (top.n - 2147483648 + mod(l.transactionid::text::numeric - mod(top.n, 4294967296) + 6442450944,
  4294967296))::bigint
FROM top, pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_prepared_xacts p ON p.transaction = l.transactionid
WHERE l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock'
  AND COALESCE(a.datname, p.database, current_database()) = current_database()
ORDER BY 1"""
"""Not pg_snapshot_xip(): a snapshot does not list those behind the newest that has ended, and so the only one that is
open on a quiet server. But each holds a lock on its own number until all see its end. That number has 32 bits, and
lies within 2^31 of the snapshot's."""


class PostgreSQL(LoggedDatabase):
    driver, summed, listing = session.DRIVER, PostgreSQLChecksums, _TABLES
    clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"

    def describe(self, table: str) -> SourceTable:
        """Generated columns are left out: the log does not have them. Without a log a table may have no key, and be a
        view."""
        schema, _, name = table.partition(".")
        with self._asking() as cursor:
            cursor.execute(_TABLE, (schema, name))
            found = cursor.fetchone()
            if found is None or found[1] not in (("r", "p") if self._logged else ("r", "p", "v")):
                raise refused(f"there is no table {table}", "name it as schema.table, in the case it has there")
            oid, kind, persistence, has_children = found
            if self._logged and persistence != "p":
                raise refused(f"table {table} is unlogged or temporary: the log has none of its changes")
            if self._logged and kind == "r" and has_children:
                raise refused(
                    f"other tables inherit from {table}: the log calls their rows theirs", "mirror each of them"
                )
            cursor.execute(_KEY, (oid,))
            key = tuple(row[0] for row in cursor.fetchall())
            if self._logged and not key:
                raise refused(f"table {table} has no primary key", "a mirror needs one: add it")
            cursor.execute(_COLUMNS, {"oid": oid})
            columns = tuple(SourceColumn(*row) for row in cursor.fetchall())
        if not self._logged and ((kind == "r" and has_children) or {*key} - {c.name for c in columns}):
            key = ()  # one query alone sees rows of a table and of those that inherit from it by one key
        return SourceTable(schema=schema, name=name, key=key, columns=columns)

    def event_names(self, table: SourceTable) -> Mapping[str, str]:
        return {"db": self._settings["database"], "schema": table.schema, "table": table.name}

    def rows_about(self, table: SourceTable) -> int:
        with self._asking() as cursor:
            cursor.execute(_ROWS, {"table": session.table_name(table).replace("%%", "%")})
            return int(cursor.fetchone()[0])

    def position(self) -> LogPosition:
        with self._asking() as cursor:
            cursor.execute(session.END)
            return int(cursor.fetchone()[0]), 0

    def log_begin(self) -> LogPosition:
        """A slot keeps what its reader has not confirmed, or is lost."""
        return NOWHERE

    def in_progress(self) -> tuple[int, ...]:
        with self._asking() as cursor:
            cursor.execute(_IN_PROGRESS)
            return tuple(int(row[0]) for row in cursor.fetchall())

    def confirmed(self, slot: str) -> int | None:
        """Up to where the reader of a logical slot of this database has confirmed the log; None for a slot that is
        missing, has confirmed nothing, or has lost a part of the log."""
        with self._asking() as cursor:
            cursor.execute(_SLOT, (slot,))
            found = cursor.fetchone()
            return None if found is None or found[0] is None else int(found[0])

    def unpublished(self, slot: str, tables: Sequence[str]) -> Sequence[str]:
        """Those of `tables` (`schema.name`) that no publication has with all changes of all rows, where the slot's
        reader goes by publications."""
        if not tables:
            return ()
        with self._asking() as cursor:
            cursor.execute(_UNPUBLISHED, (list(tables), slot))
            return [name for (name,) in cursor.fetchall()]

    def _comparison(self, table: SourceTable, bound: Sequence[Value], operator: str) -> tuple[str, list[Any]]:
        return session.comparison(table, bound, operator)

    def _keys(self, table: SourceTable, where: str) -> str:
        columns = key_columns(table)
        wanted = ", ".join(session.key_expression(c) for c in columns)
        # with the table's name: without it the order would be that of the texts which are selected
        order = ", ".join(f"t.{session.column_name(c.name)}" for c in columns)
        return f"SELECT {wanted} FROM {session.table_name(table)} t WHERE {where} ORDER BY {order}"

    def _connect(self) -> Any:
        return session.connect(self._settings)

    def _begin(self, cursor: Any) -> None:
        cursor.execute("SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET row_security = off")
        limit = max(1, int(self._timeout_s * 1000))
        cursor.execute("SET default_transaction_read_only = on; SET statement_timeout = %s", (limit,))
        if self._logged:
            session.check_server(cursor)

    def _ping(self, found: Any) -> None:
        with found.cursor() as cursor:
            cursor.execute("SELECT 1")


opened = PostgreSQL
