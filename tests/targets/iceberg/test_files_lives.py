"""Whole lives over files in Iceberg's stored form: what ledger, audit and readers of logical rows see is Hive's."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.engine.encodings import choose_encoding
from spark_jobs.engine.sinks import finished, format_at
from spark_jobs.handlers.rows import Rows
from tests.audit.audits import in_process
from tests.audit.test_audit import overwrite
from tests.audit.test_audit_corruptions import OTHER_ROWS
from tests.clean.cleanings import days_later
from tests.dirty.redrives import NEVER, mend, odd, redriven
from tests.late.reopenings import balanced, reopened
from tests.targets.iceberg.stored_files import bounds_in, install, pinned, proved
from tests.world import T0, World, make_pipeline, record
from tidegate.core.spec.pipeline import Column, Merge
from tidegate.workflow.audit.audit import audit

Facts = list[tuple[str, ...]]


def life(folder: Path, *, ice: bool) -> tuple[World, Facts]:
    """Ingest, overflow, merge, late rows, reopening, dirty rows, redrive, replay; audited, and what all files say."""
    folder.mkdir()
    made = make_pipeline(f"file://{folder}/lake/readings")
    made = replace(made, archive=replace(made.archive, merge=Merge(min_files=2)))
    made = replace(made, sink=replace(made.sink, max_partitions=2))
    world = World(folder, pinned(made) if ice else made)
    world.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("a2", 0.5, "beyond"), record("c0", 1.5))
    world.ingest("r1")
    world.produce(record("a3", 0.2), record("a4", 0.2), odd("a5", 0.5), NEVER)
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r2")
    world.archive(0)
    world.produce(record("late 1", 0.2), record("late 2", 0.3, "new"), record("fine", 2.6))
    world.ingest("r3")
    assert len(world.table("__late")) == 2
    reopened(world)
    mend(world)
    assert redriven(world) is not None
    balanced(world)
    world.archive(1)
    world.change_spec(columns=(*world.pipeline.columns[:2], replace(world.pipeline.columns[2], path="$.value")))
    world.replay(1)
    balanced(world)
    labels = [_labels(path) for path in sorted((folder / "lake").rglob("*.parquet"))]
    return world, sorted(tuple(told.get(f"tidegate.{n}", "") for n in _SAID) for told in labels)


_SAID = ("kind", "window_ms", "values", "checksum", "rows", "batch_id", "merged_files")


def _labels(path: Path) -> dict[str, str]:
    return {k.decode(): v.decode() for k, v in pq.read_metadata(path).metadata.items()}


def _where(path: Path, row: tuple[int, int, int]) -> dict[str, Any]:
    """What `tidegate where` is told of a row."""
    asked = {"row": row, "files": [[f"file://{path}"]], "columns": [None], "event": None}
    return Rows().answer(asked)


def test_a_life_is_hives_and_every_file_is_icebergs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    hive, plain = life(tmp_path / "hive", ice=False)
    ice, stored = life(tmp_path / "ice", ice=True)
    assert stored == plain, "checksums, places and counts of all files"
    assert any(told[-1] for told in stored), "something was merged"
    assert {told[0] for told in stored} == {"data", "late", "dirty"}
    assert (ice.by_window(), ice.table("__late"), ice.table("__dirty")) == (
        hive.by_window(),
        hive.table("__late"),
        hive.table("__dirty"),
    )
    files = sorted((tmp_path / "ice/lake").rglob("*.parquet"))
    assert {proved(path, ice.pipeline)["tidegate.kind"] for path in files} == {"data", "late", "dirty"}

    said = [
        one for path in (tmp_path / "ice/lake").rglob("_bounds/*.json") for one in json.loads(path.read_text()).items()
    ]
    assert not list((tmp_path / "hive/lake").rglob("_bounds"))
    for path in files:
        assert bounds_in(path) in [one for name, one in said if path.name.endswith(name.rsplit("/", 1)[1])], path

    (dirty,) = (path for path in files if "/dirty/" in str(path) and "landed" not in str(path))
    assert _where(dirty, (0, 7, 2))["found"]["raw"] == "not json"
    assert any(_where(path, (0, 4, 2))["found"] for path in files)
    assert not any(_where(path, (0, 4, 3))["found"] for path in files), "a row is found by its batch, too"

    cleaned = days_later(ice, 40)
    assert cleaned.kept == (), "bounds are no stranger's files"
    assert any("/landed/" in item.path for item in cleaned.deleted)


def test_a_deep_audit_reads_stored_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that somebody changed, in a file that is otherwise what was written."""
    install(monkeypatch)
    world = World(tmp_path, pinned(make_pipeline(f"file://{tmp_path}/lake/readings")))
    world.produce(record("a0", 0.1), record("a1", 0.5), record("c0", 2.5))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r1")
    world.archive(0)
    balanced(world)
    (path,) = (tmp_path / "lake/readings/date=2013-01-05/hour=00").rglob("*.parquet")
    with path.open("rb") as stream:
        file = finished(path.name, stream)
        (rows,), labels = [pa.Table.from_batches(file.batches(10))], dict(file.labels)
    at = rows.schema.get_field_index("value")
    edited = rows.set_column(at, "value", pa.array([2, 2], pa.int32()))
    out = io.BytesIO()
    writer = format_at(world.pipeline, "data", T0, (("site", "a"),)).open(
        out, edited.schema, choose_encoding(edited), "zstd"
    )
    writer.write(edited)
    writer.close(labels)
    assert len(out.getvalue()) == path.stat().st_size, "the audit has nothing but the rows to go by"
    overwrite(path, out.getvalue())
    ctx = world.context()
    problems = audit(ctx, ctx.ledger.reads, in_process).problems  # type: ignore[attr-defined]
    assert [OTHER_ROWS in p.what for p in problems] == [True]


def test_columns_that_were_dropped_or_widened_go_on_in_rewritten_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the plan has the ids of all that the table has: it keeps what the YAML drops."""
    install(monkeypatch)
    made = make_pipeline(f"file://{tmp_path}/lake/readings")
    more = (Column(name="tiny", type="tinyint", path="$.value"), Column(name="gone", type="array<string>", path="$.x"))
    world = World(tmp_path, pinned(replace(made, columns=(*made.columns, *more))))
    world.produce(record("a0", 0.1), record("c0", 1.5))
    world.ingest("r1")
    world.change_spec(columns=(*made.columns, replace(more[0], type="smallint")))
    world.produce(record("a1", 0.2))
    world.produce(record("d0", 3.5), partition=1)
    world.ingest("r2")
    world.archive(0)
    world.produce(record("late", 0.2))
    world.ingest("r3")
    reopened(world)
    balanced(world)
    copies = sorted((tmp_path / "lake/readings/_tidegate/generations").rglob("*.parquet"))
    assert len(copies) == 3
    assert ["gone" in pq.read_schema(path).names for path in copies].count(True) == 1
    for path in copies:
        proved(path, world.pipeline)
