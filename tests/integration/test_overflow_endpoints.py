"""Overflow rows through PyHive, Spark 3.5 and Hive 4: files with `_overflow` beside files without, in each format."""

from __future__ import annotations

import json
import os
import random
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.engine.job import run_plan
from tests.engine_fixtures import DAY_ONE, FakeReader, event, job_plan, pipeline, records
from tidegate.core.base.errors import CatalogueError
from tidegate.core.base.partition_values import PartitionValues, metastore_name_length
from tidegate.core.files.overflow import OVERFLOW_COLUMN
from tidegate.core.files.receipt import DATA
from tidegate.core.spec.pipeline import Column
from tidegate.core.window.cut import time_values
from tidegate.storage.local import LocalStorage
from tidegate.targets.hive.catalogue import PyHiveCatalogue
from tidegate.targets.hive.table import bring_up
from tidegate.targets.hive.tables import data_table

COUNTS = (1, 2, None, 3, 4, None)


class _Site:
    """What `bring_up` needs of a site."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)


@pytest.fixture(params=["hive_spark", "hive4"])
def catalogue(request: pytest.FixtureRequest) -> PyHiveCatalogue:
    info = request.getfixturevalue(request.param)
    return PyHiveCatalogue(info.hive_host, info.hive_port, request_timeout_s=300)


@pytest.mark.parametrize("name", ["parquet", "older parquet", "orc", "text"])
def test_readers_see_what_overflow_rows_said(catalogue: PyHiveCatalogue, name: str, tmp_path: Path) -> None:
    """Partitions 1 and 2 have no overflow rows; Hive's null partition has both kinds of files."""
    spec = pipeline(tmp_path / "t", partition_by=("date", "hour", "count"))
    sink = replace(
        spec.sink,
        table=f"overflow_{uuid.uuid4().hex[:8]}.readings",
        format=name.split()[-1],
        compression="gzip",
        max_partitions=2,
    )
    spec = replace(spec, sink=sink)
    table, ctx = data_table(spec), _Site()
    if name.startswith("older"):  # made before there was such a column, its partitions too
        catalogue.ensure_table(replace(table, columns=table.columns[:-1]))
    else:
        catalogue.ensure_table(table)
    topic = records([event(count=count, site="line\n\x01\\") for count in COUNTS])
    receipt = run_plan(
        job_plan(spec, [(0, 0, len(COUNTS))]), LocalStorage(), open_reader=lambda _: FakeReader({0: topic})
    )
    time = time_values(DAY_ONE, spec.time_partitions, "UTC")
    places = {
        (*time, *f.values): f"{spec.sink.workdir}/tmp/7.1-abc/{f.path.rpartition('/')[0]}"
        for f in receipt.files
        if f.kind == DATA
    }
    assert len(receipt.files) == 4
    assert len(places) == 3
    catalogue.add_partitions(table.name, places)
    bring_up(catalogue, table, ctx)
    bring_up(catalogue, table, ctx)
    assert len(ctx.said) == name.startswith("older")
    column = OVERFLOW_COLUMN[0]
    what = f"`{column}`" if sink.format == "text" else f"`{column}`['count']"
    found = catalogue.execute(f"SELECT `_offset`, `count`, `site`, `value`, {what} FROM {table.name}")
    spelled = {3: "3", 4: "4"}
    if sink.format == "text":
        spelled = {at: json.dumps({"count": text}) for at, text in spelled.items()}
    wanted = [
        (at, count if at < 2 else None, "line\n\x01\\", value, spelled.get(at))
        for at, (count, value) in enumerate(zip(COUNTS, (row[3] for row in sorted(found)), strict=True))
    ]
    assert sorted(found) == wanted
    rows = catalogue.execute(f"SELECT `_offset` FROM {table.name} WHERE `{column}` IS NOT NULL")
    assert sorted(rows) == [(3,), (4,)]


def test_the_longest_name_that_the_metastore_stores(
    catalogue: PyHiveCatalogue, tmp_path: Path, request: pytest.FixtureRequest, rng: random.Random
) -> None:
    """767 characters in all, escaped as Hive does it. One more is refused by the metastore of Spark's Hive, after 20
    seconds each (`make test` draws one), and taken by that of Hive 4 on Derby."""
    names = ("a", "b", "c", "d")
    spec = pipeline(tmp_path / "t", partition_by=("date", "hour", *names))
    spec = replace(
        spec, columns=(*spec.columns, *(Column(name=name, type="string", path=f"$.{name}") for name in names))
    )
    spec = replace(spec, sink=replace(spec.sink, table=f"overflow_{uuid.uuid4().hex[:8]}.readings"))
    table = data_table(spec)
    catalogue.ensure_table(table)
    time = time_values(DAY_ONE, spec.time_partitions, "UTC")

    def partition(last: str, length: int) -> PartitionValues:
        texts = ("v" * 240, "v" * 240, "v" * 200, last)
        found = (*time, *zip(names, texts, strict=True))
        texts = (*texts[:3], "v" * (length - metastore_name_length(found)) + last)
        return (*time, *zip(names, texts, strict=True))

    lasts = ("w", "/", ":%", " ")
    longest = {partition(last, 767): f"{spec.sink.location}/p{i}" for i, last in enumerate(lasts)}
    assert {metastore_name_length(v) for v in longest} == {767}
    catalogue.add_partitions(table.name, longest)
    assert catalogue.partitions(table.name) == longest
    if request.node.callspec.params["catalogue"] == "hive4":
        return
    for last in lasts if os.environ.get("TIDEGATE_NIGHTLY") == "all" else rng.sample(lasts, 1):
        with pytest.raises(CatalogueError):
            catalogue.add_partitions(table.name, {partition(last, 768): f"{spec.sink.location}/q"})
    assert catalogue.partitions(table.name) == longest
