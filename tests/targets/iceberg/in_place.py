"""A world on an object store whose tables are Iceberg's, in a catalogue on SQLite: no file ever moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine.sinks import finished
from tests.audit.test_audit import in_process
from tests.fakes.objects import MemoryObjects
from tests.targets.iceberg.lab import Tables
from tests.world import World, make_pipeline
from tidegate.core.files.receipt import DATA
from tidegate.core.spec.pipeline import Merge
from tidegate.core.target.tables import table_name
from tidegate.targets.iceberg.live import look
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue
from tidegate.workflow.audit.audit import audit

Rows = Counter[tuple[int, int]]
Wrap = Callable[[str, Any], Any]


@dataclass
class Lake:
    """A world, its object store, and the catalogue of its tables."""

    world: World
    objects: Any
    catalogue: SqlCatalogue

    def rows(self, kind: str = DATA) -> Rows:
        """Kafka coordinates of the rows that readers of a table meet."""
        loaded = self.catalogue.load(table_name(self.world.pipeline, kind))
        found: Rows = Counter()
        for f in () if loaded is None else look(loaded.metadata, loaded.io, None).files:
            with self.objects.open_existing(f.file_path) as file:
                for batch in finished(f.file_path, file).batches(100_000, ["_partition", "_offset"]):
                    found.update(zip(*batch.to_pydict().values(), strict=True))
        return found

    def balanced(self) -> None:
        """The audit, which looks into every file, finds nothing."""
        ctx = self.world.context()
        report = audit(ctx, ctx.ledger.reads, in_process)  # type: ignore[attr-defined]
        self.world.close()
        assert report.balanced, "\n".join(f"{p.subject}: {p.what}" for p in report.problems)


def make(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrap: Wrap = lambda name, port: port,
    objects: Any = None,
    bucket: str = "s3://lake",
) -> Lake:
    """Small files are merged; the children that read files by themselves read this store, one in memory unless another
    is given."""
    objects = objects or MemoryObjects()
    monkeypatch.setattr("spark_jobs.handlers.places.open_storage", lambda uri: objects)
    made = make_pipeline(f"{bucket}/readings")
    sink = replace(made.sink, kind="iceberg", conn_id="lake")
    made = replace(made, sink=sink, archive=replace(made.archive, merge=Merge(min_files=2), on_publish=()))
    catalogue = SqlCatalogue(f"sqlite:///{folder}/catalogue.db", "tidegate", objects, 10.0)
    world = World(folder, made, wrap)
    world.store = objects
    world.tables = lambda world: Tables(catalogue)
    return Lake(world, objects, catalogue)
