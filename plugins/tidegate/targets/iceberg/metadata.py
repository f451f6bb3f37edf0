"""Metadata of a table in our own kind of catalogue: made, changed, named, written and read.

A catalogue server does this by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV2
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import Properties

from tidegate.core.base.errors import CatalogueMismatch, PathMissing, StorageError
from tidegate.core.base.wording import first_line
from tidegate.targets.iceberg import names
from tidegate.targets.iceberg.catalogue import Conflict, Loaded
from tidegate.targets.iceberg.properties import LOGGED, MOST_LOGGED, number

VERSION = 2
FORMAT_VERSION = "format-version"
METADATA_PATH = "write.metadata.path"
COMPRESSION = "write.metadata.compression-codec"


def new(schema: Schema, spec: PartitionSpec, location: str, properties: Properties) -> TableMetadata:
    """Metadata of an empty table of format version 2, with the ids of `schema` and `spec`: the library would assign
    new ones."""
    if str(properties.get(FORMAT_VERSION, "2")) != "2":
        raise ValueError(f"tables are of format version 2, not {properties[FORMAT_VERSION]}")
    fields = {
        "location": location.rstrip("/"),
        "schemas": [schema],
        "last_column_id": schema.highest_field_id,
        "current_schema_id": schema.schema_id,
        "partition_specs": [spec],
        "default_spec_id": spec.spec_id,
        "last_partition_id": spec.last_assigned_field_id,
        "sort_orders": [UNSORTED_SORT_ORDER],
        "properties": {name: value for name, value in properties.items() if name != FORMAT_VERSION},
    }
    return TableMetadataV2.model_validate(fields)


def changed(loaded: Loaded, requirements: Iterable[TableRequirement], updates: Iterable[TableUpdate]) -> TableMetadata:
    """Apply `updates` to what was loaded; the result's log names the metadata before. Raises
    Conflict, CatalogueMismatch."""
    before = loaded.metadata
    refuse_other_version(loaded.name, before)
    number(before, LOGGED, MOST_LOGGED)  # the library would raise an error of its own
    try:
        for requirement in requirements:
            requirement.validate(before)
    except CommitFailedException as error:
        raise Conflict(f"{loaded.name}: {error}") from error
    after = update_table_metadata(before, tuple(updates), metadata_location=loaded.metadata_location)
    if after.last_updated_ms < before.last_updated_ms:
        # another host's clock is ahead; Java refuses to read a table whose time goes back by more than a minute
        after = after.model_copy(update={"last_updated_ms": before.last_updated_ms})
    return after


def place(metadata: TableMetadata, before: str | None = None) -> str:
    """Return a new name for a metadata file; its version is one above the file before."""
    found = None if before is None else names.version_of(before)
    version = 0 if found is None else found + 1
    folder = (metadata.properties.get(METADATA_PATH) or f"{metadata.location.rstrip('/')}/metadata").rstrip("/")
    gzip = ".gz" if metadata.properties.get(COMPRESSION, "").lower() == "gzip" else ""
    return f"{folder}/{names.metadata(metadata.table_uuid, version, gzip)}"


def write(metadata: TableMetadata, io: FileIO, location: str) -> None:
    """Raises StorageError: then no catalogue has heard of the file."""
    ToOutputFile.table_metadata(metadata, io.new_output(location))


def read(name: str, io: FileIO, location: str) -> Loaded:
    """Raises CatalogueMismatch, StorageError."""
    try:
        with (
            io.new_input(location).open() as file,
            Compressor.get_compressor(location).stream_decompressor(file) as told,
        ):
            return Loaded(name, _parsed(told.read()), location, io)
    except PathMissing as error:
        raise CatalogueMismatch(
            f"{name}: its metadata file {location} is missing",
            advice="restore it from a backup of the filesystem; if the whole table is meant to be gone, drop it from "
            "its catalogue too",
        ) from error
    except StorageError:
        raise
    except Exception as error:  # of a library that reads what somebody else has written
        raise CatalogueMismatch(
            f"{name}: its metadata file {location} cannot be read: {first_line(error) or type(error).__name__}",
            advice="restore it from a backup of the filesystem",
        ) from error


@functools.lru_cache(maxsize=4)
def _parsed(content: bytes) -> TableMetadata:
    """A task looks at a table many times, and most looks find what the one before has found. Nobody changes it: what
    is changed is a copy."""
    return TableMetadataUtil.parse_raw(content.decode())


def refuse_other_version(name: str, metadata: TableMetadata) -> None:
    """Raises CatalogueMismatch for a table that somebody has made one of another format version."""
    if metadata.format_version != VERSION:
        raise CatalogueMismatch(
            f"{name} has format version {metadata.format_version}; Tidegate writes version {VERSION}",
            advice="no version can be taken back: give the pipeline another sink.table and sink.location",
        )
