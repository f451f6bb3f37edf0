"""An Iceberg table whose files, manifests and metadata lie on a real HDFS: written through the storage port, read by
Spark in its own way."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dev.stack.info import StackInfo
from tests.targets.iceberg.by_pyhive import Reader, reading
from tests.world import World, make_pipeline, record
from tidegate.adapters.footers import FooterProcess
from tidegate.storage import HdfsStorage
from tidegate.workflow.audit.audit import Depth, audit


@pytest.fixture
def root(hdfs: StackInfo) -> Iterator[str]:
    """URI of an empty directory."""
    uri = f"{hdfs.hdfs_uri}/lives/{uuid.uuid4().hex}"
    yield uri
    HdfsStorage().delete(uri)


def test_the_life_of_an_hour(root: str, hive_spark: StackInfo, postgres: StackInfo, tmp_path: Path) -> None:
    storage = HdfsStorage()
    world = World(
        tmp_path, make_pipeline(f"{root}/readings"), lambda name, port: storage if name == "storage" else port
    )
    with reading(world, postgres, hive_spark) as reader:
        world.produce(record("a", 0.1), record("b", 0.2, "città"), b"not json", record("next", 2.1), record("x", 4.5))
        world.produce(record("x", 4.5), partition=1)
        world.ingest("one")
        for hour in (0, 1, 2):
            first = world.archive(hour)
            assert (first.generation, first.new) == (1, True)
        whole = [("00", "a", 1), ("00", "città", 1), ("02", "a", 1)]
        assert reader.by_hour() == whole

        world.produce(record("late", 0.5))
        world.ingest("two")
        assert sides(reader) == [("late", 0, 5), ("dirty", 0, 2)]
        before = metadata(root, storage)
        assert not world.archive(0).new, "an hour that is as it should be is verified"
        assert (reader.by_hour(), metadata(root, storage)) == (whole, before)

        location = world.archive(0).location
        gone = next(f.path for f in storage.list_files(location) or [] if f.path.endswith(".parquet"))
        storage.delete(f"{location}/{gone}")
        rebuilt = world.archive(0)
        assert (rebuilt.generation, rebuilt.rows) == (2, 2)
        assert reader.by_hour() == whole
        balanced(world)

        id_, site, value = world.pipeline.columns
        world.change_spec(columns=(id_, site, replace(value, path="$.other")))
        assert world.replay(0).generation == 3
        assert reader.by_hour() == whole
        shown = reader.sql("SELECT id, value FROM {t} ORDER BY id")
        assert shown == [("a", None), ("b", None), ("next", 1)]
        balanced(world)


def sides(reader: Reader) -> list[tuple[str, int, int]]:
    """Kafka coordinates in the tables of late and of dirty rows."""
    asked = (f"SELECT '{kind}', _kafka_partition, _offset FROM {{t}}__{kind}" for kind in ("late", "dirty"))
    return [row for statement in asked for row in reader.sql(statement)]


def metadata(root: str, storage: HdfsStorage) -> list[str] | None:
    """Every file of Iceberg's own."""
    return storage.list_names(f"{root}/readings/metadata")


def balanced(world: World) -> None:
    """Also by the files' own footers."""
    ctx = world.context()
    assert audit(ctx, ctx.ledger.reads, FooterProcess(), Depth()).problems == ()
    world.close()
