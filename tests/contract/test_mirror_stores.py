"""The life of a mirror on a real object store and on a real HDFS; `tests/mirror/test_stores.py` has more on one in
memory."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyhive import hive
from pyiceberg.io.pyarrow import PyArrowFileIO

from dev.stack.info import StackInfo
from tests.contract.storage_places import access_to
from tests.mirror import stores
from tests.mirror.audits import dropped
from tests.mirror.days import YAML as DAYS
from tests.mirror.days import DailyWorld, by_days
from tests.mirror.days import event as on_day
from tests.mirror.worlds import YAML, MirrorWorld, event
from tidegate.adapters.footers import FooterProcess
from tidegate.adapters.mirror_comparison import TableProcess
from tidegate.adapters.rows import RowProcess
from tidegate.core.mirror.key_history import EventState
from tidegate.spark.local_job import LocalLauncher
from tidegate.storage import HdfsStorage, ObjectStorage
from tidegate.storage.access import as_secrets
from tidegate.targets.iceberg.opening import CATALOG
from tidegate.targets.iceberg.sql_catalogue import SqlCatalogue
from tidegate.workflow.apply.apply import apply
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.look.where_key import key_of, where_key


class OnObjects(MirrorWorld):
    """Read by pyiceberg with an S3 client of its own."""

    def __init__(self, folder: Path, objects: StackInfo) -> None:
        self.access = access_to(objects)
        location = f"{objects.objects_uri}/{uuid.uuid4().hex}/readings"
        super().__init__(folder, location=location, store=ObjectStorage(self.access))

    def reading(self) -> PyArrowFileIO:
        names = {"access_key_id": "access-key-id", "secret_access_key": "secret-access-key", "endpoint_url": "endpoint"}
        return PyArrowFileIO({f"s3.{names.get(key, key)}": value for key, value in self.access.items()})


@pytest.fixture
def on_objects(objects: StackInfo, tmp_path: Path) -> Iterator[OnObjects]:
    world = OnObjects(tmp_path, objects)
    yield world
    world.close()
    world.store.delete(world.pipeline.sink.location)


@pytest.fixture
def root(hdfs: StackInfo) -> Iterator[str]:
    """URI of an empty directory."""
    uri = f"{hdfs.hdfs_uri}/mirrors/{uuid.uuid4().hex}"
    yield uri
    HdfsStorage().delete(uri)


def test_a_life_on_an_object_store(on_objects: OnObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    stores.children_read(monkeypatch, on_objects.store)
    stores.lived(on_objects)


def test_processes_of_their_own_reach_the_object_store(on_objects: OnObjects) -> None:
    """The merge beside the control plane, the audit and the question for a key: each is told the access in secret."""
    world, secrets = on_objects, as_secrets(on_objects.access)
    world.land(event(1, "a", 10), event(2, "b", 11))
    world.land(event(1, None, 20))
    ctx = world.context()
    ctx.local_launcher = LocalLauncher(ctx.say, secrets=secrets)
    assert apply(ctx).merges == 1
    assert world.launcher is not None
    assert (world.launcher.runs, world.rows()) == ([], {2: "b"})
    tables, footers = TableProcess(secrets=secrets), FooterProcess(secrets=secrets)
    found = audit(ctx, ctx.ledger.reads, footers, Depth(), tables=tables)  # type: ignore[attr-defined]
    assert (found.problems, found.balanced) == ((), True)
    assert found.recomputed is not None
    assert (found.recomputed.rows, found.recomputed.tombstones, found.recomputed.events) == (1, 1, 3)
    with RowProcess(secrets=secrets) as rows:
        told = where_key(ctx, rows, key_of(ctx, ["id=1"]))
    assert [(e.state, e.batch_id) for e in told.events] == [(EventState.TOMBSTONE, 2), (EventState.OLDER, 1)]


def test_a_life_on_hdfs(
    root: str, hive_spark: StackInfo, postgres: StackInfo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads it too, in its own way."""
    table, storage = f"mirror_{uuid.uuid4().hex[:12]}.readings", HdfsStorage()
    world = MirrorWorld(tmp_path, YAML.replace("lake.readings", table), location=f"{root}/readings", store=storage)
    world.iceberg = SqlCatalogue(postgres.iceberg_sql_url, CATALOG, storage, 10.0)
    stores.children_read(monkeypatch, storage)
    stores.lived(world)
    with hive.connect(hive_spark.hive_host, hive_spark.hive_port, "reader", auth="NONE") as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT id, word FROM {CATALOG}.{table} WHERE _op <> 'd'")
        assert dict(cursor.fetchall()) == stores.END
    world.close()
    dropped(world)


def test_days_on_hdfs(root: str, tmp_path: Path) -> None:
    """Each is renamed into the table's directory; a replay of one lies beside it."""
    yaml, storage = DAYS.replace("{location}", f"{root}/readings"), HdfsStorage()
    world = DailyWorld(tmp_path, yaml)
    world.store = storage

    def shown(date: str) -> dict[int, str]:
        (location,) = (uri for values, uri in world.partitions("lake.readings").items() if values == (("date", date),))
        found: dict[int, str] = {}
        for file in storage.list_files(location) or []:
            with storage.open_existing(f"{location}/{file.path}") as content:
                rows = pq.ParquetFile(content).read(["id", "word"]).to_pylist()
            found |= {row["id"]: row["word"] for row in rows}
        return found

    world.land(on_day(1, "a", 10, 1.1), on_day(2, "b", 11, 1.2), on_day(3, "c", 12, 1.3))
    world.land(on_day(1, "a2", 20, 2.1), on_day(3, None, 21, 2.2), on_day(9, "z", 99, 5.5))
    for n in range(3):
        assert world.publish(n).new
        assert not world.publish(n).new, "a day that is cleared stays as it is"
    first = {1: "a", 2: "b", 3: "c"}
    assert (shown("2013-01-05"), shown("2013-01-06"), shown("2013-01-07")) == ({}, first, {1: "a2", 2: "b"})
    world.pipeline = by_days(tmp_path, yaml.replace("name: word,", "name: word, from: $._source.file,"))
    assert world.replay_day(2).generation == 2
    assert (shown("2013-01-06"), shown("2013-01-07")) == (first, {1: "binlog.000001", 2: "b"})
    ctx = world.context()
    found = audit(ctx, ctx.ledger.reads, FooterProcess(), Depth())  # type: ignore[attr-defined]
    assert (found.problems, found.balanced) == ((), True)
    world.close()
