"""The port to an Iceberg catalogue: which metadata file is the table now, changed by compare-and-set.

A call ends in one of three ways: it returns (done), it raises a CatalogueError that is no CatalogueUnsure (refused:
nothing was changed, and nothing will be), or it raises CatalogueUnsure: it may have been executed, or still be. Nobody
tries again by itself, here or below (C2): the caller loads, looks and decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Properties

from tidegate.core.base.errors import CatalogueError


class Conflict(CatalogueError):
    """The table is no longer what was loaded, or it is there already. Begin again at load (C2), and look for our
    token first (C4): where a proxy repeats requests, the second one is refused because the first was executed."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """A table as the catalogue showed it. `name` is `namespace.table`; `io` reads and writes its files."""

    name: str
    metadata: TableMetadata
    metadata_location: str
    io: FileIO


class Catalogue(Protocol):
    """Tables by `namespace.table`, where a namespace may have dots. Bounded in time. Also raises StorageError, where
    a metadata file cannot be read or written: refused, too."""

    @property
    def address(self) -> str:
        """For messages: where it is, without secrets."""
        ...

    def load(self, name: str) -> Loaded | None:
        """None: there is no such table. Changes nothing. Raises CatalogueError; CatalogueMismatch for a view of that
        name, or metadata that cannot be read."""
        ...

    def create(self, name: str, schema: Schema, spec: PartitionSpec, location: str, properties: Properties) -> Loaded:
        """Make a table of format version 2, and its namespace. Raises Conflict if it is there, CatalogueError,
        CatalogueUnsure.

        A REST server may number fields anew: the result says which ids the table has."""
        ...

    def commit(
        self, loaded: Loaded, requirements: Iterable[TableRequirement], updates: Iterable[TableUpdate]
    ) -> Loaded:
        """Apply `updates` to what was loaded, if that is what the table still is (C1): the same snapshot, schema and
        partitions. Raises Conflict, CatalogueError, CatalogueUnsure."""
        ...

    def answers(self) -> bool:
        """Whether it answers at all."""
        ...


def as_loaded(loaded: Loaded) -> tuple[TableRequirement, ...]:
    """What holds as long as nobody has changed the rows, the columns or the partitions of the table that was loaded."""
    metadata = loaded.metadata
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=metadata.current_snapshot_id),  # type: ignore[call-arg]
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),  # type: ignore[call-arg]
        AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),  # type: ignore[call-arg]
    )


def split_name(name: str) -> tuple[str, str]:
    """Namespace (its levels joined by dots) and table. Raises CatalogueError."""
    namespace, _, table = name.rpartition(".")
    if not table or not all(namespace.split(".")):
        advice = "set sink.table to `namespace.table`"
        raise CatalogueError(f"{name!r} is not the name of an Iceberg table", advice=advice, retry=False)
    return namespace, table
