"""Overflow rows beside rows without a value: two kinds of files in one partition, which are merged all the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.engine.sinks import finished
from tests.audit.audits import InProcess
from tests.worker.test_each_format import FORMATS
from tests.worker.test_merge import merging
from tests.world import World, make_pipeline, record
from tidegate.core.base.partition_values import HIVE_NULL
from tidegate.core.spec.pipeline import Column
from tidegate.core.target.tables import told_columns
from tidegate.workflow.audit.audit import audit


@pytest.mark.parametrize("kafka_columns", [True, False])
@pytest.mark.parametrize("name", ["parquet", *FORMATS])
def test_rows_without_a_value_and_overflow_rows_share_a_partition(
    tmp_path: Path, name: str, kafka_columns: bool
) -> None:
    world = World(tmp_path, _by_number(tmp_path, name, kafka_columns))
    for batch in range(3):
        world.produce(*(record(f"{batch}-{n}", 0.1) | {"n": n} for n in (1, None, 2, 3, None)))
        world.ingest(f"r{batch}")
    for partition in (0, 1):
        world.produce(record("wait", 9), partition=partition)
    world.ingest("r9")
    world.archive(0)
    assert not [line for line in world.said if "WARNING" in line]
    (file,) = _files(tmp_path, f"n={HIVE_NULL}")
    wanted = {f"{batch}-{n}": {"n": "3"} if n == 3 else {} for batch in range(3) for n in (None, 3)}
    rows = _rows(world, file)
    assert {r["id"]: dict(r["_overflow"] or {}) for r in rows} == wanted
    assert len(rows) == 9
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, InProcess())
    assert report.problems == ()
    world.close()
    assert world.replay(0).note == "unchanged"


def _by_number(folder: Path, name: str, kafka_columns: bool) -> Any:
    spec = merging(make_pipeline(f"file://{folder}/lake/readings"))
    return replace(
        spec,
        columns=(*spec.columns, Column(name="n", type="bigint", path="$.n")),
        partition_by=("date", "hour", "n"),
        kafka_columns=kafka_columns,
        sink=replace(spec.sink, max_partitions=2, format=name, compression="gzip"),
    )


def _files(folder: Path, partition: str) -> list[Path]:
    root = folder / "lake/readings/date=2013-01-05/hour=00" / partition
    return [p for p in root.iterdir() if not p.name.startswith(("_", "."))]


def _rows(world: World, path: Path) -> list[dict[str, Any]]:
    with path.open("rb") as stream:
        batches = finished(path.name, stream, told_columns(world.pipeline, "data")).batches(100)
        return [row for batch in batches for row in batch.to_pylist()]
