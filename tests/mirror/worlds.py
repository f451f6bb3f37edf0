"""A whole Tidegate in one process whose table is a mirror in Iceberg, in a catalogue on SQLite; files on disk, or
wherever a location and its storage say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable

from tests.fakes.objects import MemoryObjects
from tests.targets.iceberg.lab import sqlite, through
from tests.world import T0, TOPIC, World
from tidegate.core.base.errors import JobFailed
from tidegate.core.base.storage import Storage, can_rename
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.port import PrefixTarget, SideTarget, Site
from tidegate.core.target.prefix import Prefix
from tidegate.spec.loader import load_text
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.catalogue import Catalogue
from tidegate.targets.iceberg.tags import FIRST_COPY
from tidegate.targets.mirror.side import NoSide
from tidegate.targets.mirror.table import MirrorTable
from tidegate.workflow.apply.apply import MOST_EVENTS, Applied, apply

YAML = """\
version: 1
name: readings
owner: shop
source: {{topic: readings}}
format: {{type: debezium}}
columns:
  - {{name: id, type: bigint, nullable: false}}
  - {{name: word, type: string}}
sink: {{kind: mirror, table: lake.readings, location: "{location}", key: [id], buckets: 3}}
"""


class Tables:
    """Implements `core.target.port.Targets`."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def data(self, site: Site) -> PrefixTarget:
        return MirrorTable(site, self.catalogue)

    def side(self, site: Site, kind: str) -> SideTarget:
        return NoSide(site, kind)


def mirror(folder: Path, yaml: str = YAML, location: str = "") -> Pipeline:
    """The pipeline as its YAML says it."""
    location = location or f"file://{folder}/lake/readings"
    return load_text(folder / "readings.yaml", yaml.format(location=location), {})


def event(
    key: int,
    word: str | None,
    commit: int,
    op: str | None = None,
    row: int = 0,
    ms: int | None = None,
    of: tuple[str, str] | None = None,
    more: Mapping[str, str] | None = None,
) -> tuple[bytes, bytes]:
    """(key, value) as MariaDB's connector makes it. A delete has no word. `of`: its database and table; `more`: the
    row's further columns."""
    source = {"connector": "mariadb", "file": "binlog.000001", "pos": commit, "row": row, "snapshot": "false"}
    source |= {} if ms is None else {"ts_ms": ms}
    source |= {} if of is None else {"db": of[0], "table": of[1]}
    whole = {"id": key, "word": word, **(more or {})}
    op = op or ("d" if word is None else "u")
    value = {"op": op, "source": source, "before": None, "after": None if op == "d" else whole, "ts_ms": T0}
    return json.dumps({"id": key}).encode(), json.dumps(value).encode()


def told(
    kinds: dict[str, Any], commit: int, with_schema: bool = True, ms: int | None = None, **row: Any
) -> tuple[bytes, bytes]:
    """(key, value) of an update as MariaDB's connector makes it, with the schema of the row's columns (`kinds`)."""
    source = {"connector": "mariadb", "file": "binlog.000001", "pos": commit, "row": 0, "snapshot": "false"}
    source |= {} if ms is None else {"ts_ms": ms}
    payload = {"op": "u", "source": source, "before": None, "after": row, "ts_ms": T0}
    if not with_schema:
        return json.dumps({"id": row["id"]}).encode(), json.dumps(payload).encode()
    fields = [{"field": n, "optional": True, **(k if isinstance(k, dict) else {"type": k})} for n, k in kinds.items()]
    after = {"type": "struct", "fields": fields, "optional": True, "field": "after"}
    whole = {"schema": {"type": "struct", "fields": [{"field": "op", "type": "string"}, after]}, "payload": payload}
    return json.dumps({"id": row["id"]}).encode(), json.dumps(whole).encode()


class MirrorWorld(World):
    """`location`: of the table, on this disk unless it says more; `store`: what holds it, in memory if nothing moves
    there. Metadata and manifests are written through it too, so that each file is a site of faults."""

    def __init__(
        self,
        folder: Path,
        yaml: str = YAML,
        wrap: Callable[[str, Any], Any] | None = None,
        location: str = "",
        store: Storage | None = None,
    ) -> None:
        super().__init__(folder, mirror(folder, yaml, location), wrap)
        if not can_rename(location):
            self.store = MemoryObjects()
        self.store = store or self.store
        self.iceberg = sqlite(folder, self.store)
        self.tables = lambda world: Tables(
            world.wrap("iceberg", through(self.iceberg, world.wrap("storage", world.store)))
        )
        self.runs = 0

    def send(self, *events: tuple[bytes | None, bytes | None], partition: int = 0) -> None:
        for key, value in events:
            self.kafka.append(TOPIC, partition, value, key=key, timestamp_ms=T0 + len(events))

    def land(self, *events: tuple[bytes | None, bytes | None], partition: int = 0) -> int | None:
        """A batch of these events; an ingest run of its own."""
        self.send(*events, partition=partition)
        self.runs += 1
        return self.ingest(f"run {self.runs}")

    def apply_and_die_once_upkeep_is_committed(self) -> None:
        """The table has the purge or the cut, and the ledger does not know it."""
        ctx = self.context()
        applied = ctx.ledger.applies.applied

        def lost(mine: Any, snapshot: Any) -> None:
            if not mine.merges:
                raise JobFailed("the worker is gone")
            applied(mine, snapshot)

        ctx.ledger.applies.applied = lost  # type: ignore[method-assign]
        with pytest.raises(JobFailed):
            apply(ctx)

    def apply(self, most_events: int = MOST_EVENTS, **options: Any) -> Applied:
        """The task, in a process of its own."""
        try:
            return apply(self.context(), most_events=most_events, **options)
        finally:
            self.close()

    def standing(self) -> Prefix:
        """What the table says of itself."""
        keyed = self.context().keyed
        assert keyed is not None
        return keyed.standing()

    def loaded(self) -> Any:
        return self.iceberg.load(self.pipeline.sink.table)

    def rows(self) -> dict[int, str]:
        """What stands, tombstones left out, read by pyiceberg: also while readers see an empty table."""
        table = self.opened()
        refs = {} if table is None else table.metadata.refs
        return self._rows(table, refs[FIRST_COPY].snapshot_id if FIRST_COPY in refs else None)

    def shown(self) -> dict[int, str]:
        """What readers see, tombstones left out."""
        return self._rows(self.opened(), None)

    def _rows(self, table: StaticTable | None, snapshot: int | None) -> dict[int, str]:
        if table is None:
            return {}
        found: pa.Table = table.scan(row_filter="_op != 'd'", snapshot_id=snapshot).to_arrow()
        rows = found.select(["id", "word"]).to_pylist()
        assert len({r["id"] for r in rows}) == len(rows), "a key has two rows"
        return {r["id"]: r["word"] for r in rows}

    def opened(self) -> StaticTable | None:
        """The table for readers; None if there is none."""
        loaded = self.loaded()
        if loaded is None:
            return None
        io, at = self.reading(), loaded.metadata_location
        return StaticTable(
            ("lake", "readings"), FromInputFile.table_metadata(io.new_input(at)), at, io, NoopCatalog("_")
        )

    def reading(self) -> PyArrowFileIO:
        """pyiceberg's own client of files; where they do not lie on a disk, of a copy of them all."""
        io = PyArrowFileIO()
        if not isinstance(self.store, LocalStorage):
            copied = SubTreeFileSystem(str(self._copied()), LocalFileSystem())
            io.fs_by_scheme = lambda *_: copied  # type: ignore[assignment, misc, return-value]
        return io

    def _copied(self) -> Path:
        """Where all files of the location are, each at the path that pyarrow gives to its URI."""
        location, into = self.pipeline.sink.location, self.folder / "copy"
        shutil.rmtree(into, ignore_errors=True)
        for file in self.store.list_files(location) or []:
            uri = urlsplit(f"{location}/{file.path}")
            to = into / (f"{uri.netloc}{uri.path}" if uri.scheme == "s3" else uri.path.lstrip("/"))
            to.parent.mkdir(parents=True, exist_ok=True)
            with self.store.open_existing(f"{location}/{file.path}") as content:  # type: ignore[attr-defined]
                to.write_bytes(content.read())
        return into
