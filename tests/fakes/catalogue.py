"""A metastore in memory, as strict as the real ones."""

from __future__ import annotations

import contextlib
import copy
import threading
from dataclasses import dataclass, field, replace

from tidegate.core.base.errors import CatalogueError
from tidegate.core.base.hivetypes import canonical_type
from tidegate.core.base.partition_values import (
    MAX_PARTITION_NAME,
    PartitionValues,
    metastore_name_length,
    partition_path,
)
from tidegate.targets.hive import formats, sql
from tidegate.targets.hive.ports import TableDef


@dataclass
class _Table:
    definition: TableDef
    partitions: dict[PartitionValues, str] = field(default_factory=dict)
    otherwise: dict[PartitionValues, str] = field(default_factory=dict)  # what a person did to a partition


class FakeCatalogue:
    """Implements `targets.hive.ports.Catalogue` and `PartitionSwitch`; `statements`: what `execute` was given."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._lock = threading.RLock()
        self.statements: list[str] = []

    def __deepcopy__(self, memo: dict) -> FakeCatalogue:
        """A catalogue of its own, for tests that go back to an earlier state."""
        copied = FakeCatalogue()
        copied._tables, copied.statements = copy.deepcopy((self._tables, self.statements), memo)
        return copied

    def keeping_sessions(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def ensure_table(self, table: TableDef) -> None:
        sql.create_table(table)  # refuses what the real ones would
        with self._lock:
            there = self._tables.setdefault(table.name, _Table(table)).definition
        sql.check_same(table, _description(there))

    def check_table(self, table: TableDef) -> None:
        with self._lock:
            there = self._table(table.name, (), whole=False).definition
        sql.check_publishable(table, _description(there))

    def evolve_table(self, table: TableDef) -> list[str]:
        with self._lock:
            if table.name not in self._tables:
                raise CatalogueError(f"there is no table {table.name}")
            kept = self._tables[table.name]
            there = kept.definition
            wanted = sql.evolution(table, _description(there))
            if not wanted.alter_table:
                return []
            sql.alterations(table, wanted)  # refuses what the real ones would
            types = {name: kind for name, _, kind in wanted.widened}
            columns = [(name, types.get(name.lower(), kind)) for name, kind in there.columns]
            kept.definition = replace(there, columns=(*columns, *wanted.added))
            return wanted.words()

    def examine(
        self, table: str, prefix: PartitionValues = ()
    ) -> tuple[dict[PartitionValues, str], dict[PartitionValues, str]]:
        found = self.partitions(table, prefix)
        with self._lock:
            return found, {v: how for v, how in self._tables[table].otherwise.items() if v in found}

    def read_otherwise(self, table: str, values: PartitionValues, how: str) -> None:
        """What ALTER TABLE ... PARTITION ... SET SERDE does, by hand."""
        with self._lock:
            self._table(table, values).otherwise[sql.canonical(values)] = how

    def alter(self, table: str, **changes: object) -> None:
        """What ALTER TABLE does, by hand."""
        with self._lock:
            kept = self._tables[table]
            kept.definition = replace(kept.definition, **changes)

    def partitions(self, table: str, prefix: PartitionValues = ()) -> dict[PartitionValues, str]:
        prefix = sql.canonical(prefix)
        with self._lock:
            there = self._table(table, prefix, whole=False).partitions
            found = {v: location for v, location in there.items() if sql.starts_with(v, prefix)}
        return dict(sorted(found.items(), key=lambda item: partition_path(item[0])))

    def add_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        added = {sql.canonical(v): sql.location_uri(location) for v, location in locations.items()}
        with self._lock:
            for values in added:
                self._table(table, values)
                sql.partition(values)
                if metastore_name_length(values) > MAX_PARTITION_NAME:
                    raise CatalogueError(f"value too long for type character varying(767): {partition_path(values)}")
            there = self._tables[table].partitions if added else {}
            there.update({v: location for v, location in added.items() if v not in there})

    def set_location(self, table: str, values: PartitionValues, location: str) -> None:
        values = sql.canonical(values)
        with self._lock:
            there = self._table(table, values).partitions
            if values not in there:
                raise CatalogueError(f"{table} has no partition {partition_path(values)}")
            there[values] = sql.location_uri(location)

    def switch_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        wanted = {sql.canonical(v): sql.location_uri(location) for v, location in locations.items()}
        with self._lock:
            for values in wanted:
                if values not in self._table(table, values).partitions:
                    raise CatalogueError(f"{table} has no partition {partition_path(values)}; nothing was switched")
            if wanted:
                self._tables[table].partitions.update(wanted)

    def drop_partitions(self, table: str, values: list[PartitionValues]) -> None:
        with self._lock:
            for each in map(sql.canonical, values):
                self._table(table, each).partitions.pop(each, None)
                self._tables[table].otherwise.pop(each, None)

    def execute(self, statement: str) -> list[tuple]:
        with self._lock:
            self.statements.append(statement)
        return []

    def _table(self, table: str, values: PartitionValues, *, whole: bool = True) -> _Table:
        sql.qualified(table)
        if table not in self._tables:
            raise CatalogueError(f"there is no table {table}")
        columns = [name.lower() for name, _ in self._tables[table].definition.partitions]
        names = [name for name, _ in values]
        if names != (columns if whole else columns[: len(names)]):
            raise CatalogueError(f"{table} is partitioned by {columns}, not by {names}")
        return self._tables[table]


def _description(table: TableDef) -> sql.Description:
    def kept(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
        return {name.lower(): canonical_type(kind) for name, kind in pairs}

    serde, properties = formats.SERDES[table.format], dict(formats.row_format(table.format)[1])
    location = sql.location_uri(table.location)
    columns, partitions = kept(table.columns), kept(table.partitions)
    return sql.Description(
        columns=columns,
        partitions=partitions,
        location=location,
        kind="EXTERNAL_TABLE",
        serde=serde,
        properties=properties,
    )
