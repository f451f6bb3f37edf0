"""Deep audits of a mirror in this process, and ways in which others change its table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile

from spark_jobs.handlers.mirror import handler
from tests.audit.audits import in_process
from tests.mirror.worlds import MirrorWorld
from tests.world import World
from tidegate.adapters.mirror_comparison import TableProcess
from tidegate.targets.iceberg import snapshot
from tidegate.targets.iceberg.files import data_file
from tidegate.targets.iceberg.live import look
from tidegate.workflow.audit.audit import Depth, Report, audit
from tidegate.workflow.audit.keyed import TableReader

Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


class Here(TableProcess):
    """The child's answers without a child."""

    def __init__(self) -> None:
        super().__init__()
        self._answer = handler()

    def _ask(self, request: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(json.dumps(self._answer(json.loads(json.dumps(request)))))
        return answer


def deep(world: World, tables: TableReader | None = None, **depth: Any) -> Report:
    ctx = world.context()
    try:
        return audit(ctx, ctx.ledger.reads, in_process, Depth(**depth), tables=tables or Here())
    finally:
        world.close()


def overwritten(world: MirrorWorld, change: Change) -> None:
    """Another writer's commit: new files, for the buckets in which it changes rows."""
    changed: dict[int, DataFile] = {}
    now = world.loaded()
    for number, path in _files(world):
        rows = pq.ParquetFile(path).read()
        after = change(rows.to_pylist())
        if after != rows.to_pylist():
            new = path.with_name("another.parquet")
            pq.write_table(pa.Table.from_pylist(after, schema=rows.schema), new)
            size = len(after), new.stat().st_size
            changed[number] = data_file(now.metadata, f"file://{new}", (number,), size, None)
    seen = look(now.metadata, now.io, set(changed))
    world.iceberg.commit(now, (), snapshot.replaced(now.metadata, now.io, seen, list(changed.values()), {}, None))


def spoilt(world: MirrorWorld, change: Change) -> None:
    """Rows of the table's files are changed in place: no snapshot says so."""
    for _, path in _files(world):
        rows = pq.ParquetFile(path).read()
        pq.write_table(pa.Table.from_pylist(change(rows.to_pylist()), schema=rows.schema), path)


def dropped(world: MirrorWorld) -> None:
    """The catalogue forgets the table."""
    tables, namespace = world.iceberg._tables, world.pipeline.sink.table.partition(".")[0]
    with world.iceberg._engine.begin() as c:
        c.execute(tables.delete().where(tables.c.table_namespace == namespace))


def _files(world: MirrorWorld) -> list[tuple[int, Path]]:
    """By bucket."""
    keyed = world.context().keyed
    assert keyed is not None
    found = [(b.number, Path(f.uri.removeprefix("file://"))) for b in keyed.held()[1] for f in b.files]
    world.close()
    return found
