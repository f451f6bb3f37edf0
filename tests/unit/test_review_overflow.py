"""Overflow partitions where they meet replays by another spec."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.world import World, make_pipeline, record


def made(tmp_path: Path, limit: int) -> World:
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    sink = replace(spec.sink, max_partitions=limit)
    return World(tmp_path, replace(spec, sink=sink))


def finish(world: World) -> None:
    for p in (0, 1):
        world.produce(record(f"end{p}", 9, "a"), partition=p)
    world.ingest("end")


def sites(world: World) -> dict:
    found: dict = {}
    for v, at in world.partitions("lake.readings").items():
        if dict(v)["hour"] == "00":
            found[dict(v)["site"]] = len(world.rows_at(at))
    return found


def test_replay_with_other_partition_values_has_room_for_them(tmp_path: Path) -> None:
    world = made(tmp_path, limit=2)
    world.produce(*(record(f"{s}{i}", 0.1, s) | {"land": s * 2} for i in range(3) for s in "ab"))
    world.ingest("r1")
    finish(world)
    world.archive(0)
    id_, site, value = world.pipeline.columns
    world.change_spec(columns=(id_, replace(site, path="$.land"), value))
    world.replay(0)
    assert sites(world) == {"aa": 3, "bb": 3}
