"""Twenty ways to spoil files, ledger, records or catalogue without a trace in names and lengths: all are found."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.engine.encodings import choose_encoding
from spark_jobs.engine.sinks import format_of
from tests.audit.audits import look
from tests.audit.test_audit import forge, overwrite, side, sql
from tests.crash.faults import Faults
from tests.crash.scenario import Snapshot
from tests.world import HOUR, T0, World, make_pipeline, record, window
from tidegate.core.spec.pipeline import Column, Reopening
from tidegate.workflow.dirty import redrive
from tidegate.workflow.late import reopen
from tidegate.workflow.publish import archive

WORK = "lake/readings/_tidegate"
OTHER_ROWS = "its rows are not those that were written"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Snapshot]:
    """Hour 0 has taken late rows up, another late row waits; one dirty row was redriven, one was redriven in vain."""
    folder = tmp_path_factory.mktemp("corruptions")
    (folder / "world").mkdir()
    spec = make_pipeline(f"file://{folder}/world/lake/readings")
    made = World(folder / "world", replace(spec, reopening=Reopening(age_ms=None)))
    made.produce(*[record(f"a{i}", 0.1 + i / 100, value=i) for i in range(8)], record("a1", 0.5, "b"))
    made.produce(record("b0", 1.2), b"not json")
    made.produce(record("c0", 2.0), record("d0", 3.5), partition=1)
    made.ingest("r1")
    made.archive(0)
    made.produce(record("late", 0.7), record("late2", 0.8), record("fine", 1.9))
    made.ingest("r2")
    made.archive(1)
    ctx = made.context()
    archive.announced(ctx, reopen.reopen(ctx, window(0), "late rows", over_budget=True))
    made.produce({"id": "odd", "site": "a", "at": T0 + int(3.6 * HOUR), "value": "7", "other": 5}, record("late3", 0.9))
    made.ingest("r3")
    id_, site, value = made.pipeline.columns
    made.change_spec(columns=(id_, site, Column(name="value", type="int", path="$.other")))
    assert redrive.plan(made.context(), "rd") is not None
    assert redrive.carry_out(made.context(), "rd").data == 1
    made.change_spec(columns=(id_, site, value))
    return made.folder, Snapshot.of(made, folder / "snapshot")


@pytest.fixture
def world(built: tuple[Path, Snapshot]) -> Iterator[World]:
    folder, snapshot = built
    made = snapshot.restore(folder, Faults())
    yield made
    made.close()


def in_force(world: World) -> list[Path]:
    """Data files of hour 0, the one with most rows first."""
    return sorted((world.folder / WORK / "generations").rglob("*.parquet"), key=lambda f: -pq.read_metadata(f).num_rows)


def values(table: pa.Table, changed: list[int]) -> pa.Table:
    at = table.schema.get_field_index("value")
    return table.set_column(at, table.schema.field(at), pa.array(changed, table.schema.field(at).type))


def edit_a_value(world: World) -> None:
    """By our own writer, with the footer as it was and, by chance, the same length."""
    path = in_force(world)[0]
    old = pq.ParquetFile(path)
    table, size = old.read(), path.stat().st_size
    labels = {k.decode(): v.decode() for k, v in old.metadata.metadata.items() if k.startswith(b"tidegate.")}
    mine = table["value"].to_pylist()
    for before, after in ((b, a) for b in mine for a in mine if a != b):
        edited, out = values(table, [after if v == before else v for v in mine]), io.BytesIO()
        writer = format_of("parquet").open(out, edited.schema, choose_encoding(edited), "zstd")
        writer.write(edited)
        writer.close(labels)
        if len(out.getvalue()) == size:
            overwrite(path, out.getvalue())
            return
    raise AssertionError("no edit keeps the length")


def flip_a_bit(path: Path) -> None:
    """In a data page of the column `id`."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    column = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "id")
    data = bytearray(path.read_bytes())
    data[(column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 4] ^= 1
    overwrite(path, bytes(data))


def exchange_offsets(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("_offset")
    first, second, *rest = table["_offset"].to_pylist()
    return table.set_column(at, "_offset", pa.array([second, first, *rest], pa.int64()))


def swap_files(world: World) -> None:
    one, other = in_force(world)[:2]
    first, second = one.read_bytes(), other.read_bytes()
    overwrite(one, second)
    overwrite(other, first)


def point_back(world: World) -> None:
    values_ = min(world.catalogue.partitions("lake.readings"), key=str)
    world.catalogue.set_location("lake.readings", values_, f"{world.pipeline.sink.location}/date=2013-01-05/hour=00")


FLOOR = '{"low_ms":0,"closed":[],"reroute_ms":null}'
FIRST_PLACE = "SELECT location FROM generations g WHERE g.window_ms = generations.window_ms AND g.number = 1"

CORRUPTIONS: dict[str, tuple[Callable[[World], object], str]] = {
    "a value is edited": (edit_a_value, OTHER_ROWS),
    "values are edited, and the ledger's length with them": (
        lambda w: forge(w, in_force(w)[0], lambda t: values(t, [v + 1000 for v in t["value"].to_pylist()])),
        OTHER_ROWS,
    ),
    "a bit flips in a published file": (lambda w: flip_a_bit(in_force(w)[0]), "g2.1-"),
    "two rows exchange their offsets": (lambda w: forge(w, in_force(w)[0], exchange_offsets), OTHER_ROWS),
    "two files are swapped": (swap_files, "bytes, the manifest says"),
    "a file is there twice": (
        lambda w: shutil.copy(in_force(w)[0], in_force(w)[0].with_name("copy.parquet")),
        "copy.parquet is in no manifest",
    ),
    "a late file is lost": (lambda w: side(w, "late").unlink(), "is not there (1 late row)"),
    "a bit flips in a late file": (lambda w: flip_a_bit(side(w, "late")), "late/_batch=3/"),
    "a redriven dirty file is lost": (
        lambda w: next((w.folder / WORK / "redriven").rglob("*.parquet")).unlink(),
        "is not there (1 dirty row)",
    ),
    "a redrive's ownership is forgotten": (lambda w: sql(w, "DELETE FROM row_owners"), "which are not its own"),
    "a range has more rows": (
        lambda w: sql(w, "UPDATE batch_ranges SET read = read + 1, dirty = dirty + 1 WHERE batch_id = 2"),
        "4 + 0 gaps of 3 offsets",
    ),
    "a floor is altered": (
        lambda w: sql(w, f"UPDATE batches SET floor = '{FLOOR}' WHERE batch_id = 2"),
        "hwm/2 differ in: floor",
    ),
    "a batch's record is lost": (lambda w: (w.folder / WORK / "hwm/2").unlink(), "hwm/2 is missing"),
    "a batch's record is garbage": (
        lambda w: overwrite(w.folder / WORK / "hwm/2", b"garbage"),
        "hwm/2 cannot be read",
    ),
    "a publication's record is lost": (
        lambda w: shutil.rmtree(w.folder / WORK / "hwm/published"),
        "the record of generation 2 below",
    ),
    "the mark of rows taken up is lost": (
        lambda w: shutil.rmtree(next((w.folder / WORK / "reopened").glob("*/*"))),
        "/reopened/2/20130105T000000Z/part-00000-0-0000.parquet is not there (2 late rows)",
    ),
    "a generation's place is another": (
        lambda w: sql(w, f"UPDATE generations SET location = ({FIRST_PLACE}) WHERE number = 2"),
        "is in no manifest",
    ),
    "a landed batch is given up": (
        lambda w: sql(w, "UPDATE batches SET state = 'ABANDONED' WHERE batch_id = 2"),
        "hwm/2 it has landed",
    ),
    "a window is forgotten": (
        lambda w: sql(w, f"DELETE FROM windows WHERE start_ms = {T0 + HOUR}"),
        "published, but OPEN",
    ),
    "a partition points to the retired generation": (point_back, "should be at"),
}


def test_the_world_is_sound(world: World) -> None:
    report = look(world)
    assert report.problems == ()
    assert report.files == report.files_read == 13


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_each_corruption_is_found(world: World, name: str) -> None:
    spoil, words = CORRUPTIONS[name]
    spoil(world)
    report = look(world)
    assert not report.balanced
    assert any(words in p.what for p in report.problems), [p.what for p in report.problems]
    assert all(p.advice for p in report.problems)
