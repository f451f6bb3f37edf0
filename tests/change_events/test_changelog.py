"""A changelog: change events as hours, exactly once, like the messages of any topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.change_events.recordings import Message, reading, recorded
from tests.targets.iceberg.stored_files import install, pinned
from tests.world import HOUR, T0, TOPIC, World
from tidegate.targets.iceberg.columns import problems

COLUMNS = ("id string", "customer string", "total decimal(12,2) as text", "pieces int")


def moved(message: Message, hour: float) -> Message:
    """The message, as if it had happened `hour` hours after the first window's start."""
    key, value = message
    if value is None:
        return message
    found = json.loads(value)
    found["source"]["ts_ms"] = T0 + int(hour * HOUR)
    return key, json.dumps(found).encode()


def produce(world: World, messages: list[Message], partition: int = 0) -> None:
    for key, value in messages:
        world.kafka.append(TOPIC, partition, value, key=key)


def rows(world: World, table: str = "lake.readings") -> list[dict[str, Any]]:
    found = []
    for _, location in world.partitions(table).items():
        for path in sorted(Path(location.removeprefix("file://")).glob("[!_]*.parquet")):
            found += pq.ParquetFile(path).read().to_pylist()
    return sorted(found, key=lambda row: row["_offset"])


@pytest.mark.parametrize("ice", [False, True], ids=["hive", "iceberg"])
def test_ingest_archive_replay(ice: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = reading(*COLUMNS, location=f"file://{tmp_path}/lake/readings")
    assert problems(made) == []
    if ice:  # files as Iceberg has them
        install(monkeypatch)
        made = pinned(made)
    world = World(tmp_path, made)
    messages = recorded("mariadb-plain")
    produce(world, [moved(m, 0.1 + i / 100) for i, m in enumerate(messages)])
    world.ingest("r1")
    for partition in (0, 1):
        produce(world, [moved(messages[0], 2.5)], partition)
    world.ingest("r2")
    landed = len(messages) - 6 - 2  # tombstones are filtered, TRUNCATE is dirty
    assert world.archive(0).rows == landed
    found = rows(world)
    assert len(found) == landed
    assert found[0]["customer"] == "Ada"
    assert [row["_op"] for row in found[:9]] == [*"rccuuudcd"]
    assert all(row["_position_commit"] > 1 << 40 for row in found)
    dirty = rows(world, "lake.readings__dirty")
    assert [row["reason"] for row in dirty] == ["TRUNCATE (op t): it is no event of one row"] * 2
    assert [json.loads(row["raw_value"])["op"] for row in dirty] == ["t", "t"]
    assert (world.replay(0).new, world.replay(0).generation) == (False, 1)
    assert rows(world) == found
    world.close()
