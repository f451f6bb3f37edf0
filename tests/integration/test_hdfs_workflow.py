"""The whole protocol with its files on HDFS: the workflow does not know which storage it has."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fakes.proxy import Fate, LossyProxy

from dev.stack.info import StackInfo
from tests.world import TOPIC, World, make_pipeline, record, window
from tidegate.adapters.footers import FooterProcess
from tidegate.core.base.errors import ReplayRefused, TidegateError
from tidegate.storage import HdfsStorage
from tidegate.storage.hdfs import split
from tidegate.workflow.audit.audit import Depth, audit
from tidegate.workflow.base.context import Published
from tidegate.workflow.replay import replay, rollback


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


def test_replays_and_rollbacks(tmp_path, root):
    """From Kafka, from our own files when it has forgotten, back to what was in force, and once more after a loss."""
    world, storage = world_at(tmp_path, f"{root}/readings"), HdfsStorage()
    for batch in range(2):
        for partition in (0, 1):
            sites = [record(f"{batch}{site}", 0.1, site) | {"other": 7} for site in ("a", "città")]
            world.produce(*sites, record("next", 1.1), b"dirty", record("far", 9), partition=partition)
        world.ingest(f"r{batch}")
    for hour in (0, 1):
        world.archive(hour)
    shown = rows(world)
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, site, replace(value, path="$.other")))
    ctx = world.context()
    assert [o.what for o in replay.replay_range(ctx, [window(0), window(1)])] == ["replayed"] * 2
    balanced(world)
    for partition in (0, 1):
        world.kafka.trim(TOPIC, partition, 10)
    world.change_spec(columns=(id_, site))
    assert replayed(world, "auto").generation == 3
    assert any("rows came from the files in force" in line for line in world.said)
    balanced(world)
    brought = rollback.rollback(world.context(), window(0), None, "the numbers are wanted")
    assert (brought.generation, brought.rows) == (4, 8)
    first = world.context().ledger.windows.generation("readings", window(0), 2)
    assert brought.digest == first.digest
    assert rows(world) == shown
    balanced(world)
    gone = next(f.path for f in storage.list_files(brought.location) if f.path.endswith(".parquet"))
    storage.delete(f"{brought.location}/{gone}")
    assert world.archive(0).digest == first.digest, "it is copied again"
    assert rows(world) == shown
    balanced(world)
    world.change_spec(columns=(id_, site, replace(value, path="$.value")))
    with pytest.raises(ReplayRefused, match="column value needs the records to be decoded again"):
        replayed(world, "auto")
    assert rows(world) == shown
    balanced(world)
    world.close()


def replayed(world: World, wanted: str) -> Published:
    return replay.replay(world.context(), window(0), wanted)


def balanced(world: World) -> None:
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, FooterProcess(), Depth())
    assert report.problems == ()
    world.close()


@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_REPLY, Fate.HANG], ids=lambda fate: fate.name.lower())
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
    for last in (*[False] * 9, True):  # on a busy machine calls that nobody loses take as long as well
        try:
            step()
            return
        except TidegateError as error:
            if last or not error.retry:
                raise


def _address(root: str) -> tuple[str, int]:
    host, _, port = split(root)[0].partition(":")
    return host, int(port)
