"""The ports to Hive itself: tables, partitions, and the switch of a whole window."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tidegate.core.base.partition_values import PartitionValues


@dataclass(frozen=True, kw_only=True)
class TableDef:
    """An external table. Columns are (name, Hive type) in order; partition columns likewise."""

    name: str  # database.table
    columns: tuple[tuple[str, str], ...]
    partitions: tuple[tuple[str, str], ...]
    location: str
    format: str = "parquet"
    comment: str = ""
    properties: tuple[tuple[str, str], ...] = ()


class Catalogue(Protocol):
    """Raises CatalogueError (definite) or CatalogueUnsure (may still be executed)."""

    def keeping_sessions(self) -> AbstractContextManager[None]:
        """Inside, a call may use the connection of the one before; each means what it means outside."""
        ...

    def ensure_table(self, table: TableDef) -> None:
        """Create database and table if absent. Raises CatalogueMismatch when the table is another one.

        Columns that are no longer asked for may be there."""
        ...

    def evolve_table(self, table: TableDef) -> list[str]:
        """Give the table that is there the columns of `table`, its partitions too; what was changed, in words.

        It looks first, so that it can be made again. Raises CatalogueMismatch, with nothing changed, when readers could
        not read the table's old files so (core.evolution), when it differs in more, or the endpoint cannot change it.
        """
        ...

    def check_table(self, table: TableDef) -> None:
        """Look whether a publication would take the table as it is, or with columns added.

        Raises CatalogueMismatch; CatalogueError if the table is missing."""
        ...

    def partitions(self, table: str, prefix: PartitionValues = ()) -> dict[PartitionValues, str]:
        """Location (URI) of every partition whose first values are `prefix`."""
        ...

    def examine(
        self, table: str, prefix: PartitionValues = ()
    ) -> tuple[dict[PartitionValues, str], dict[PartitionValues, str]]:
        """What `partitions` tells; and of those that read their files otherwise than the table, in words, how."""
        ...

    def add_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        """ADD IF NOT EXISTS, several in one statement; one that exists keeps its location."""
        ...

    def set_location(self, table: str, values: PartitionValues, location: str) -> None: ...

    def drop_partitions(self, table: str, values: list[PartitionValues]) -> None:
        """Metadata only; done if absent."""
        ...

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """An operator's own statement (`archive.on_publish`)."""
        ...


class PartitionSwitch(Protocol):
    """A whole window at once; there if the spec names a connection to Hive's metastore."""

    def switch_partitions(self, table: str, locations: dict[PartitionValues, str]) -> None:
        """Point partitions at other locations, in one transaction: all of them, or none.

        Raises CatalogueError (refused, nothing changed; also when one of them is not there), CatalogueUnsure."""
        ...
