"""Iceberg catalogues for tests: small tables, commits on them, and what each kind of catalogue needs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.manifest import write_manifest_list
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, TableUpdate
from pyiceberg.transforms import HourTransform, IdentityTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType, TimestamptzType

from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.catalogue import Catalogue, Loaded
from tidegate.targets.iceberg.rest_catalogue import RestCatalogue
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue

SCHEMA = Schema(
    NestedField(7, "line", StringType(), required=False),
    NestedField(3, "_window", TimestamptzType(), required=True),
    NestedField(20, "stops", ListType(31, LongType(), element_required=False), required=False),
    NestedField(9, "delay", LongType(), required=False),
)
SPEC = PartitionSpec(
    PartitionField(3, 1001, HourTransform(), "_window_hour"), PartitionField(7, 1000, IdentityTransform(), "line")
)
SECONDS = 5.0
_NUMBERS = itertools.count(1)


@dataclass
class Site:
    """A catalogue's server, and a folder for tables. `port`: None for a file."""

    kind: str
    folder: Path
    at: str
    port: int | None = None
    namespace: str = "transit"

    def opened(self, port: int | None = None) -> Catalogue:
        """A new client; `port`: of a proxy in front of the server."""
        storage: Any = LocalStorage()
        if self.kind == "rest":
            return RestCatalogue(f"http://127.0.0.1:{port or self.port}", storage, SECONDS)
        url = self.at if port is None else self.at.replace(f":{self.port}/", f":{port}/")
        return SqlCatalogue(url, "iceberg", storage, SECONDS)

    def made(self, catalogue: Catalogue, **properties: str) -> Loaded:
        """A new table."""
        name = f"t{next(_NUMBERS)}"
        return catalogue.create(f"{self.namespace}.{name}", SCHEMA, SPEC, f"file://{self.folder}/{name}", properties)


def same(a: Loaded | None, b: Loaded) -> bool:
    return a is not None and (a.metadata_location, a.metadata) == (b.metadata_location, b.metadata)


def snapshot(loaded: Loaded, number: int, ms: int | None = None, **told: str) -> tuple[TableUpdate, ...]:
    """A commit of an empty snapshot, with its list of manifests in storage."""
    before = loaded.metadata
    path = f"{before.location}/metadata/snap-{number}.avro"
    parent = before.current_snapshot_id
    with write_manifest_list(2, loaded.io.new_output(path), number, parent, before.last_sequence_number + 1, "null"):
        pass
    made = Snapshot(
        snapshot_id=number,
        parent_snapshot_id=parent,
        sequence_number=before.last_sequence_number + 1,
        timestamp_ms=ms if ms is not None else before.last_updated_ms + 1,
        manifest_list=path,
        summary=Summary(Operation.APPEND, **told),
        schema_id=before.current_schema_id,
    )
    to_main = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=number)
    return AddSnapshotUpdate(snapshot=made), to_main
