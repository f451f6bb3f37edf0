"""The whole protocol with its files on HDFS: the workflow does not know which storage it has."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fakes.proxy import Fate, LossyProxy

from tests.world import World, make_pipeline, record
from tidegate.adapters.footers import FooterProcess
from tidegate.adapters.storage import HdfsStorage
from tidegate.adapters.storage.hdfs import split
from tidegate.core.errors import TidegateError
from tidegate.embedded.info import StackInfo
from tidegate.workflow.audit import audit


@pytest.fixture
def root(hdfs: StackInfo) -> Iterator[str]:
    """URI of an empty directory."""
    uri = f"{hdfs.hdfs_uri}/worlds/{uuid.uuid4().hex}"
    yield uri
    HdfsStorage().delete(uri)


def world_at(folder: Path, location: str, limit_s: float = 120.0) -> World:
    storage = HdfsStorage(limit_s=limit_s)
    return World(folder, make_pipeline(location), lambda name, port: storage if name == "storage" else port)


def rows(world: World, kind: str = "") -> list[tuple[int, int]]:
    """Kafka coordinates that a query of the table returns."""
    storage, found = HdfsStorage(), []
    for location in world.partitions(f"lake.readings{kind}").values():
        for file in storage.list_files(location) or []:
            if not file.path.startswith(("_", ".")):
                with storage.open_existing(f"{location}/{file.path}") as content:
                    read = pq.ParquetFile(content).read(["_partition", "_offset"]).to_pydict()
                found += zip(read["_partition"], read["_offset"], strict=True)
    return sorted(found)


def test_from_kafka_to_an_hour_and_back_after_a_loss(tmp_path, root):
    world, storage = world_at(tmp_path, f"{root}/readings"), HdfsStorage()
    world.produce(record("a", 0.1), record("b", 0.2, site="città"), b"not json", record("c", 3))
    world.produce(record("d", 3), partition=1)
    world.ingest("one")
    first = world.archive(0)
    assert (first.generation, first.rows, first.new) == (1, 2, True)
    assert rows(world) == [(0, 0), (0, 1)]
    world.produce(record("late", 0.5))
    world.ingest("two")
    assert rows(world, "__late") == [(0, 4)]
    assert rows(world, "__dirty") == [(0, 2)]
    assert not world.archive(0).new, "an hour that is as it should be is verified"
    location = next(iter(world.partitions("lake.readings").values()))
    for file in storage.list_files(location):
        storage.delete(f"{location}/{file.path}")
    rebuilt = world.archive(0)
    assert (rebuilt.generation, rebuilt.rows) == (2, 2)
    assert rows(world) == [(0, 0), (0, 1)]
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, FooterProcess())
    assert report.balanced, report.problems
    world.close()


@pytest.mark.parametrize("fate", list(Fate), ids=lambda fate: fate.name.lower())
@pytest.mark.parametrize("call", ["rename2", "mkdirs"])
def test_a_lost_call_heals_by_looking(tmp_path, root, call, fate):
    """The first such call of each step is lost; the task itself, or its next try, goes on."""
    with LossyProxy(*_address(root), b"\x00no such call\x00", Fate.LOSE_REQUEST) as proxy:
        world = world_at(tmp_path, f"hdfs://127.0.0.1:{proxy.port}{split(root)[1]}", 3.0)
        world.produce(record("a", 0.1), record("b", 0.2), record("c", 3))
        world.produce(record("d", 3), partition=1)
        lost = 0
        for step in (lambda: world.ingest("one"), lambda: world.archive(0)):
            proxy.lose_next(call.encode(), fate)
            _until_done(step)
            lost += proxy.matched > 0
        assert lost == 2
        assert rows(world) == [(0, 0), (0, 1)]
        world.close()


def _until_done(step) -> None:
    for last in (False, False, True):
        try:
            step()
            return
        except TidegateError as error:
            if last or not error.retry:
                raise


def _address(root: str) -> tuple[str, int]:
    host, _, port = split(root)[0].partition(":")
    return host, int(port)
