"""The files of a reopened window: small ones, other formats, directories, overflow, columns that came later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.late.reopenings import BOTH, begun, once, reopened
from tests.worker.test_each_format import FORMATS, SAID
from tests.world import World, make_pipeline, record, window
from tidegate.core.files.overflow import OVERFLOW_VALUE
from tidegate.core.spec.pipeline import Column, Merge
from tidegate.spark.local_job import LocalLauncher
from tidegate.workflow.late import reopen


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = begun(World(tmp_path))
    yield made
    made.close()


def test_small_files_are_merged_on_the_way(world: World) -> None:
    world.change_spec(archive=replace(world.pipeline.archive, merge=Merge(min_files=2)))
    reopened(world)
    world.produce(record("later", 0.9))
    world.ingest("r3")
    reopened(world)
    once(world, [*BOTH, (0, 6)])
    places = {dict(v)["site"]: at for v, at in world.partitions("lake.readings").items() if dict(v)["hour"] == "00"}
    assert {site: len(list(Path(at[7:]).glob("*.parquet"))) for site, at in places.items()} == {
        "a": 2,
        "b": 1,
        "new": 1,
    }


def test_a_small_one_runs_in_a_child_process(world: World) -> None:
    ctx = world.context()
    ctx.local_launcher = LocalLauncher(world.said.append)
    ctx.launcher = None  # type: ignore[assignment]
    reopen.reopen(ctx, window(0))
    world.close()
    assert any("copied 2 rows, added 2 late rows, in 4 files" in line for line in world.said)
    once(world, BOTH)


@pytest.mark.parametrize("name", FORMATS)
def test_each_format(name: str, tmp_path: Path) -> None:
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    columns = (
        *spec.columns,
        Column(name="moment", type="timestamp", path="$.at"),
        Column(name="said", type="string", path="$.said"),
    )
    if name != "text":
        columns += (Column(name="m", type="map<string,int>", path="$.m"),)
    spec = replace(spec, columns=columns, sink=replace(spec.sink, format=name, compression=FORMATS[name][0]))
    world = begun(World(tmp_path, spec))
    world.produce(record("late 3", 0.4) | {"m": {"k": 1}, "value": None}, record("late 4", 0.6, "") | {"said": SAID})
    world.ingest("r3")
    reopened(world)
    once(world, [*BOTH, (0, 6), (0, 7)])
    assert world.replay(0).note == "unchanged"
    world.close()


def test_a_table_without_dynamic_partitions(tmp_path: Path) -> None:
    spec = replace(make_pipeline(f"file://{tmp_path}/lake/readings"), partition_by=("date", "hour"))
    world = begun(World(tmp_path, spec))
    reopened(world)
    once(world, BOTH)
    world.close()


def test_swap_by_directory(world: World) -> None:
    world.change_spec(archive=replace(world.pipeline.archive, swap="directory"))
    assert reopened(world).location.endswith("date=2013-01-05/hour=00")
    once(world, BOTH)
    world.produce(record("later", 0.9))
    world.ingest("r3")
    reopened(world)
    once(world, [*BOTH, (0, 6)])


def test_values_beyond_the_limit_go_to_the_overflow_partition(world: World) -> None:
    world.change_spec(sink=replace(world.pipeline.sink, max_partitions=2))
    reopened(world)
    once(world, BOTH)
    sites = {dict(values)["site"] for values in world.partitions("lake.readings") if dict(values)["hour"] == "00"}
    assert sites == {"a", "b", OVERFLOW_VALUE}
    assert any("went to the overflow partition" in line for line in world.said)
    assert world.replay(0).note == "unchanged"


@pytest.mark.parametrize("name", ["parquet", *FORMATS])
def test_the_overflow_partition_is_copied_too(name: str, tmp_path: Path) -> None:
    """Of a column of numbers it is Hive's null partition, which rows without a number have as well."""
    spec = make_pipeline(f"file://{tmp_path}/lake/readings")
    compression = FORMATS[name][0] if name in FORMATS else "zstd"
    spec = replace(
        spec,
        columns=(spec.columns[0], Column(name="site", type="int", path="$.number"), spec.columns[2]),
        sink=replace(spec.sink, format=name, compression=compression, max_partitions=1),
        archive=replace(spec.archive, merge=Merge(min_files=2)),
    )
    world = World(tmp_path, spec)
    numbered = [record(f"a{n}", 0.1) | {"number": n} for n in (1, 2, None)]
    world.produce(*numbered, record("c0", 2.5))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    for run in ("r2", "r3"):
        world.produce(*(record(f"{run} {n}", 0.2) | {"number": n} for n in (1, 3, None)))
        world.ingest(run)
        reopened(world)
        assert len({dict(v)["site"] for v in world.partitions("lake.readings") if dict(v)["hour"] == "00"}) == 2
    once(world, [(0, n) for n in (0, 1, 2, 4, 5, 6, 7, 8, 9)])
    assert world.replay(0).note == "unchanged"
    world.close()


def test_columns_that_came_later(world: World) -> None:
    """The late rows have a column that the published ones do not have."""
    world.change_spec(columns=(*world.pipeline.columns, Column(name="more", type="int", path="$.more")))
    world.produce(record("later", 0.9) | {"more": 5})
    world.ingest("r3")
    world.change_spec(archive=replace(world.pipeline.archive, merge=Merge(min_files=2)))
    reopened(world)
    once(world, [*BOTH, (0, 6)])
    world.produce(record("later still", 0.9) | {"more": 6})
    world.ingest("r4")
    reopened(world)
    once(world, [*BOTH, (0, 6), (0, 7)])
