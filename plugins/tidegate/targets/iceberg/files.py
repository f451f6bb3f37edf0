"""Files of a manifest as the table's manifests name them, built from our own values: no footer is read."""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from tidegate.core.base.wording import many
from tidegate.core.files.receipt import FileEntry
from tidegate.core.target.paths import join
from tidegate.core.target.port import Shown
from tidegate.core.target.stored import Bounds, Value
from tidegate.core.window.cut import window_id
from tidegate.targets.iceberg.columns import WINDOW
from tidegate.targets.iceberg.definition import Definition
from tidegate.targets.iceberg.live import Look, Part, part_in
from tidegate.targets.iceberg.rules import Held

Placed = tuple[str, FileEntry]
"""A file's URI, and what its manifest says of it."""


def part_of(definition: Definition, file: FileEntry, batch_id: int = 0) -> Part:
    """The partition that a file belongs to."""
    return tuple(c.value(file.window_ms, batch_id, file.values) for c in definition.parts)


def data_files(
    definition: Definition,
    metadata: TableMetadata,
    files: Iterable[Placed],
    known: Mapping[str, Bounds],
    batch_id: int = 0,
) -> list[DataFile]:
    """`known`: bounds by URI, where jobs have written them. Those of the columns by which the table is partitioned are
    known of each file."""
    return [
        data_file(metadata, uri, part_of(definition, file, batch_id), (file.rows, file.bytes), known.get(uri))
        for uri, file in files
    ]


def data_file(metadata: TableMetadata, uri: str, part: Part, size: tuple[int, int], known: Bounds | None) -> DataFile:
    """A file of the table. `size`: rows and bytes."""
    schema, spec, (rows, length) = metadata.schema(), metadata.spec(), size
    bounds = known or Bounds({}, {}, {})
    lower, upper = _decoded(bounds.lower), _decoded(bounds.upper)
    for at, value in zip(spec.fields, part, strict=True):
        kind = schema.find_type(at.source_id)
        assert isinstance(kind, PrimitiveType)
        if value is not None:
            lower[at.source_id] = upper[at.source_id] = to_bytes(kind, value)
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=Record(*part),
        record_count=rows,
        file_size_in_bytes=length,
        value_counts=dict.fromkeys(bounds.nulls, rows),
        null_value_counts=dict(bounds.nulls),
        lower_bounds=lower,
        upper_bounds=upper,
    )
    made.spec_id = spec.spec_id
    return made


def _decoded(bounds: Mapping[int, str]) -> dict[int, bytes]:
    return {number: base64.b64decode(value) for number, value in bounds.items()}


def below(location: str, files: Iterable[FileEntry]) -> Iterator[Placed]:
    """Each with its URI."""
    return ((join(location, f.path), f) for f in files)


def held(definition: Definition, seen: Look, wanted: Iterable[Placed], batch_id: int = 0) -> Held:
    """What stands against the files of a manifest (URI, entry)."""
    want, have = Counter[Part](), Counter[Part]()
    paths = set()
    for uri, file in wanted:
        want[part_of(definition, file, batch_id)] += file.rows
        paths.add(uri)
    for one in seen.files:
        have[part_in(one)] += one.record_count
    if seen.altered or want != have:
        return Held.OTHER
    if not paths and not seen.files:
        return Held.EMPTY
    return Held.AS_WRITTEN if paths == {f.file_path for f in seen.files} else Held.REWRITTEN


def _spelled(name: str, value: Value) -> str | None:
    """A partition's value for people; a window's start as windows are named."""
    if name == WINDOW and isinstance(value, int):
        return window_id(value // 1000)
    return None if value is None else str(value)


def shown(definition: Definition, parts: Iterable[tuple[Part, str, int]]) -> Shown:
    """In words, how many rows of what each part has; `parts`: (part, what, rows)."""
    rows: dict[Part, Counter[str]] = defaultdict(Counter)
    for part, what, count in parts:
        rows[part][what] += count
    names = [c.name for c in definition.parts]
    found: Shown = {}
    for part, counts in rows.items():
        values = tuple((n, _spelled(n, v)) for n, v in zip(names, part, strict=False))  # others may have had fewer
        found[values] = ", ".join(f"{what} ({many(n, 'row')})" for what, n in sorted(counts.items()))
    return found
