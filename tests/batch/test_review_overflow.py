"""Overflow partitions where they meet replays by another spec, and years of windows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.hooks import Hook
from tests.world import HOUR, T0, World, make_pipeline, record
from tidegate.core.base.offsets import Interval
from tidegate.core.window.lateness import Floor
from tidegate.workflow.base.overflow import MOST_SPANS, open_spans


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


def test_only_open_windows_are_asked_for_their_values(tmp_path: Path) -> None:
    """Not all that the pipeline has ever landed, for each batch again."""
    asked: list[tuple[int, int | None]] = []

    def values(name: str, first_ms: int, last_ms: int | None = None) -> None:
        asked.append((first_ms, last_ms))

    world = made(tmp_path, limit=2)
    world.wrap = lambda name, port: Hook(port, before={"values": values}) if name == "batches" else port
    world.produce(*(record(f"{hour}", hour + 0.1) for hour in range(4)))
    world.produce(record("other", 3.2), partition=1)
    world.ingest("r1")
    world.archive(1)
    asked.clear()
    finish(world)
    assert asked == [(T0, T0 + HOUR - 1), (T0 + 2 * HOUR, None)]
    world.archive(0)
    asked.clear()
    world.produce(record("last", 9.1))
    world.ingest("r2")
    assert asked == [(T0 + 2 * HOUR, None)]
    world.close()


def test_spans_of_open_windows_are_few() -> None:
    assert open_spans(Floor(5), 4) == [(4, None)]
    assert open_spans(Floor(5, (Interval(6, 8), Interval(10, 12))), 4) == [(4, 5), (8, 9), (12, None)]
    assert open_spans(Floor(5, (Interval(4, 6),)), 4) == [(6, None)]
    holes = tuple(Interval(10 * n, 10 * n + 5) for n in range(1, MOST_SPANS + 5))
    assert open_spans(Floor(0, holes), 0) == [(0, None)]
