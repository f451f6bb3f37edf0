"""Pipelines whose files have Iceberg's stored form, with ids as a table would give them; what such a file holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.engine.sinks.bounds import bounds_of
from spark_jobs.engine.sinks.stored import LABEL
from tests.field_paths import field_paths
from tidegate import kinds
from tidegate.core.base.plain import to_plain
from tidegate.core.spec.pipeline import Pipeline
from tidegate.kinds import TargetKind
from tidegate.spec.sink import SinkSection
from tidegate.targets.iceberg.columns import FORM

ICE = TargetKind(
    name="ice",
    title="Ice",
    needs=lambda p: [],
    section=lambda: SinkSection,
    opened=lambda *_: None,  # type: ignore[arg-type,return-value]
    examined=lambda *_: [],
    stored=lambda: FORM,
)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package brings the kind `ice`."""
    points = EntryPoints([EntryPoint("ice", f"{__name__}:ICE", "tidegate.targets")])
    monkeypatch.setattr(kinds, "_brought", lambda group: points.select(group=group))
    kinds.TARGETS.forget()


def pinned(pipeline: Pipeline, first: int = 1) -> Pipeline:
    """The pipeline on a table of kind `ice` that exists: each field of its three tables has an id of its own."""
    fields: list[tuple[str, str, int]] = []
    for kind in ("data", "late", "dirty"):
        for column in FORM.columns(pipeline, kind):
            fields += [
                (kind, path, first + len(fields) + at) for at, path in enumerate(field_paths(column.name, column.type))
            ]
    return replace(pipeline, sink=replace(pipeline.sink, kind="ice", fields=tuple(fields)))


def ids_in(schema: pa.Schema) -> dict[str, int]:
    """By path, of every node that a file's schema has."""
    return dict(found for field in schema for found in _ids(field, field.name))


def _ids(field: pa.Field, path: str) -> Iterator[tuple[str, int]]:
    yield path, int((field.metadata or {}).get(b"PARQUET:field_id", -1))
    kind = field.type
    children: list[pa.Field] = []
    if pa.types.is_map(kind):
        children = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind):
        children = [kind.value_field]
    elif pa.types.is_struct(kind):
        children = list(kind)
    for child in children:
        yield from _ids(child, f"{path}.{child.name}")


def bounds_in(path: Path) -> dict[str, Any]:
    """What a file's own footer says, by the ids that the file has."""
    file = pq.ParquetFile(path)
    ids = [int(f.metadata[b"PARQUET:field_id"]) for f in file.schema_arrow if not pa.types.is_nested(f.type)]
    found: dict[str, Any] = to_plain(bounds_of(file.metadata, ids))
    assert {str(n) for n in ids} >= found["lower"].keys() > set()
    return found


def proved(path: Path, pipeline: Pipeline) -> dict[str, str]:
    """A file's labels, once it has all that Iceberg wants of it."""
    file = pq.ParquetFile(path)
    labels = {k.decode(): v.decode() for k, v in file.metadata.metadata.items()}
    told, kind = json.loads(labels[LABEL]), labels["tidegate.kind"]
    wanted = {p: n for of, p, n in pipeline.sink.fields if of == kind}
    found = ids_in(file.schema_arrow)
    assert found == {path: wanted[path] for path in found}
    constants = {"data": {"_window", "site"}, "late": {"_batch", "_window"}, "dirty": {"_batch"}}[kind]
    assert told["constants"].keys() == constants
    table = file.read()
    for name, value in told["constants"].items():
        column = table[name].cast(pa.int64()) if pa.types.is_timestamp(table[name].type) else table[name]
        assert column.unique().to_pylist() == [value]
    if kind != "dirty":
        assert told["constants"]["_window"] == int(labels["tidegate.window_ms"]) * 1000
    if kind != "data":
        assert told["constants"]["_batch"] == int(labels["tidegate.batch_id"])
        assert f"/_batch={told['constants']['_batch']}/" in str(path) or kind not in path.parts
    else:
        assert [["site", told["constants"]["site"]]] == json.loads(labels["tidegate.values"])
    return labels
