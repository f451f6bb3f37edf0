from __future__ import annotations
from collections import Counter
from dataclasses import replace
from pathlib import Path
import shutil
import pytest
from tests.targets.iceberg.lab import Tables
from tests.targets.iceberg.stored_files import install, pinned
from tests.world import T0, World, make_pipeline, record, window
from tests.clean.cleanings import days_later
from tests.dirty.redrives import NEVER, mend, odd, redriven
from tests.late.reopenings import balanced, reopened
from tests.audit.test_audit import in_process
from tidegate.core.base.errors import StorageError
from tidegate.core.spec.pipeline import Merge
from tidegate.storage.local import LocalStorage
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue
from tidegate.targets.iceberg.live import look
from tidegate.core.target.tables import table_name
from tidegate.workflow.audit.audit import audit
from spark_jobs.engine.sinks import finished

class DiskObjects:
    renames = False
    def __init__(self, folder): self.folder, self.local = folder, LocalStorage()
    def _p(self, uri):
        assert uri.startswith("s3://"), uri
        return f"file://{self.folder}/objects/{uri.removeprefix('s3://')}"
    def _has(self, directory):
        p = Path(self._p(directory).removeprefix("file://"))
        return p.is_file() or any(x.is_file() for x in p.rglob("*"))
    def list_files(self, d): return self.local.list_files(self._p(d)) if self._has(d) else None
    def list_names(self, d):
        if not self._has(d): return None
        return [n for n in self.local.list_names(self._p(d)) if self._has(f"{d}/{n}")]
    def exists(self, p): return self._has(p)
    def make_dirs(self, d): pass
    def rename_no_replace(self, a, b): raise AssertionError(f"rename {a} {b}")
    def delete(self, p): self.local.delete(self._p(p))
    def read(self, p): return self.local.read(self._p(p))
    def open_existing(self, p): return self.local.open_existing(self._p(p))
    def open_new(self, p): return self.local.open_new(self._p(p))
    def write_new(self, p, c): self.local.write_new(self._p(p), c)

class W(World):
    def context(self):
        ctx = super().context()
        return ctx

def bal(world, store):
    ctx = world.context()
    r = audit(ctx, ctx.ledger.reads, in_process, )
    assert r.problems == (), r.problems

def make(tmp_path):
    folder = tmp_path
    store = DiskObjects(folder)
    made = make_pipeline("s3://lake/readings")
    made = replace(made, sink=replace(made.sink, kind="iceberg", conn_id="lake"), archive=replace(made.archive, merge=Merge(min_files=2), on_publish=()))
    world = World(folder, made, wrap=lambda name, port: store if name == "storage" else port)
    cat = SqlCatalogue(f"sqlite:///{folder}/catalogue.db", "tidegate", store, 10.0)
    world.tables = lambda w: Tables(cat)
    return world, store, cat

def rows(world, store, cat, kind="data"):
    loaded = cat.load(table_name(world.pipeline, kind))
    if loaded is None: return Counter()
    found = Counter()
    for f in look(loaded.metadata, loaded.io, None).files:
        with store.open_existing(f.file_path) as file:
            for b in finished(f.file_path, file).batches(1000, ["_kafka_partition" if 0 else "_partition", "_offset"]):
                found.update(zip(*b.to_pydict().values(), strict=True))
    return found

def test_life(tmp_path, monkeypatch):
    world, store, cat = make(tmp_path)
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("a2", 0.5, "beyond"), record("c0", 1.5))
    world.ingest("r1")
    world.produce(record("a3", 0.2), record("a4", 0.2), odd("a5", 0.5), NEVER)
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r2")
    world.archive(0)
    assert sum(rows(world, store, cat).values()) == 5, rows(world, store, cat)
    world.produce(record("late 1", 0.2), record("late 2", 0.3, "new"), record("fine", 2.6))
    world.ingest("r3")
    assert sum(rows(world, store, cat, "late").values()) == 2
    print(rows(world, store, cat, "dirty"))
    reopened(world)
    assert sum(rows(world, store, cat, "late").values()) == 0
    mend(world)
    assert redriven(world) is not None
    bal(world, store)
    world.archive(1)
    world.change_spec(columns=(*world.pipeline.columns[:2], replace(world.pipeline.columns[2], path="$.value")))
    world.replay(0)
    bal(world, store)
    before = rows(world, store, cat)
    for d in (40, 80, 120):
        c = days_later(world, d)
        print(d, c.lines()); 
        for i in c.deleted: print("   ", i)
        assert c.kept == ()
        assert rows(world, store, cat) == before
        bal(world, store)
    print("\n".join(sorted(x.path for x in store.list_files("s3://lake/readings/_tidegate"))))
    print("\n".join(world.said))
