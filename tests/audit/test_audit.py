"""The audit: balanced on a clean world, and every way in which ledger, files or catalogue can be wrong is found."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.audit.audits import built, in_process, look, world
from tests.world import TOPIC, World, record, window
from tidegate.adapters.footers import FooterProcess
from tidegate.core.audit.scope import Part
from tidegate.core.base.errors import LedgerError, StorageError
from tidegate.core.base.offsets import Interval
from tidegate.workflow.audit.audit import Depth, ahead, audit
from tidegate.workflow.batch import ingest
from tidegate.workflow.generation.assembly import published_path
from tidegate.workflow.publish import archive

__all__ = ["built", "world"]  # fixtures


def test_a_clean_world_is_balanced(world: World) -> None:
    report = look(world)
    assert report.problems == ()
    assert report.balanced
    assert report.totals.balance.text() == "read 8 = data 6 + late 1 + dirty 1 + filtered 0 + dropped 0"
    assert (report.totals.published, report.totals.waiting) == (4, 2)
    assert (report.files, report.rows_in_files, report.coordinates) == (8, 8, 8)
    assert (report.windows_published, report.windows_waiting) == (2, 2)
    assert report.partitions_in_catalogue == 5
    assert report.produced is not None
    assert (report.produced.offsets, report.produced.not_planned) == (8, 0)


def test_the_same_by_the_child_process(world: World) -> None:
    assert look(world, FooterProcess()) == replace(look(world), seconds=pytest.approx(1, abs=60))


def test_an_empty_ledger_is_an_error_that_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    ctx = world.context()
    ctx.pipeline = replace(ctx.pipeline, name="other")
    with pytest.raises(LedgerError, match="other is not in the ledger"):
        audit(ctx, ctx.ledger.reads, in_process)
    world.close()


@pytest.mark.parametrize("state", ["PLANNED", "WRITING", "SEALED"])
def test_an_open_batch_is_under_way_and_no_problem(world: World, state: str) -> None:
    world.produce(record("more", 3.9), partition=1)
    ctx = world.context()
    ingest.plan(ctx, "r3")
    if state == "WRITING":
        ctx.ledger.batches.take(ctx.ledger.batches.open("readings"), "x")
    if state == "SEALED":
        ingest.write(ctx, "r3")
    report = look(world)
    assert report.problems == ()
    assert (report.totals.unfinished, report.batches[state]) == (1, 1)


def test_healed_and_replayed_hours_are_balanced(world: World) -> None:
    min((world.folder / "lake/readings/date=2013-01-05/hour=01/site=a").glob("*.parquet")).unlink()
    world.archive(1)
    world.change_spec(columns=(*world.pipeline.columns[:2], replace(world.pipeline.columns[2], path="$.other")))
    world.replay(0)
    assert look(world).problems == ()


def test_gaps_filtered_offsets_and_a_recreated_topic_are_balanced(world: World) -> None:
    world.change_spec(source=replace(world.pipeline.source, gaps="allow"))
    world.kafka.skip(TOPIC, 0, 3)
    world.produce(record("after the gap", 3.6))
    world.ingest("r3")
    world.kafka.create(TOPIC, 2)
    world.produce(record("new 0", 3.6), record("new 1", 3.7))
    world.context().ledger.pipelines.accept_topic("readings", "id-1", "id-2", "test")
    world.ingest("r4")
    report = look(world)
    assert report.problems == ()
    assert (report.totals.balance.gaps, report.totals.balance.read) == (3, 11)


def test_recorded_losses_are_a_term_of_their_own(world: World) -> None:
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    world.produce(*[record(str(i), 3.6) for i in range(5)])
    world.kafka.trim(TOPIC, 0, 8)
    world.ingest("r3")
    report = look(world)
    assert report.problems == ()
    assert report.totals.lost == 2


def test_a_half_assembled_hour_is_no_problem(world: World) -> None:
    """A publish that died after it had moved one file of two."""
    world.produce(record("x", 9.0), record("y", 2.3), record("z", 2.4, "c"))
    world.ingest("r3")
    ctx = world.context()
    windows, key = ctx.ledger.windows, window(2)
    archive.close(ctx, key)
    windows.take("readings", key, 1, "dead")
    move_one(ctx, key)
    assert look(world).problems == ()
    world.archive(2)
    assert look(world).problems == ()


def move_one(ctx, key) -> None:
    item = ctx.ledger.windows.landed_files("readings", key, (3,))[0]
    source = Path(ctx.layout.landed(3).removeprefix("file://")) / item.entry.path
    target = Path(ctx.layout.assembly(key.start_ms, 1, 1).removeprefix("file://")) / published_path(item.entry, "b3")
    target.parent.mkdir(parents=True)
    source.rename(target)


# ---------------------------------------------------------------- doctored files


def published(world: World, hour: int = 1) -> list[Path]:
    return sorted((world.folder / f"lake/readings/date=2013-01-05/hour={hour:02}").rglob("*.parquet"))


def landed(world: World) -> list[Path]:
    return sorted((world.folder / "lake/readings/_tidegate/landed").rglob("*.parquet"))


def side(world: World, kind: str) -> Path:
    return next((world.folder / f"lake/readings/_tidegate/{kind}").rglob("*.parquet"))


def overwrite(path: Path, content: bytes) -> None:
    """As a new file: a snapshot of the world may share the old one."""
    path.unlink()
    path.write_bytes(content)


def truncate(path: Path) -> None:
    overwrite(path, path.read_bytes()[:-1])


def swap_two(world: World) -> None:
    """Two files of the same length: their listing stays as it was."""
    by_size: dict[int, list[Path]] = {}
    for path in published(world, 0) + published(world, 1) + landed(world):
        by_size.setdefault(path.stat().st_size, []).append(path)
    one, other = next(paths for paths in by_size.values() if len(paths) > 1)[:2]
    first, second = one.read_bytes(), other.read_bytes()
    overwrite(one, second)
    overwrite(other, first)


def shift_offsets(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("_offset")
    return table.set_column(at, "_offset", pa.array([o + 1000 for o in table["_offset"].to_pylist()], pa.int64()))


FILES: dict[str, tuple[Callable[[World], object], str]] = {
    "a published file is gone": (lambda w: published(w)[0].unlink(), "is not there (1 data row)"),
    "a published file is cut": (lambda w: truncate(published(w)[0]), "bytes, the manifest says"),
    "two published files are swapped": (swap_two, "another file than the manifest's"),
    "a published file is there twice": (
        lambda w: shutil.copy(published(w)[0], published(w)[0].with_name("copy.parquet")),
        "copy.parquet is in no manifest",
    ),
    "a foreign file in a new directory": (
        lambda w: shutil.copytree(published(w)[0].parent, published(w)[0].parent.with_name("site=zz")),
        "site=zz",
    ),
    "a published hour is gone": (lambda w: shutil.rmtree(published(w)[0].parents[1]), "hour=01 is not there"),
    "_SUCCESS is gone": (lambda w: (published(w)[0].parents[1] / "_SUCCESS").unlink(), "has no _SUCCESS"),
    "a landed file is gone": (lambda w: landed(w)[0].unlink(), "landed/1/"),
    "a landed file is cut": (lambda w: truncate(landed(w)[0]), "bytes, the manifest says"),
    "the late file is gone": (lambda w: side(w, "late").unlink(), "(1 late row)"),
    "the dirty file is gone": (lambda w: side(w, "dirty").unlink(), "(1 dirty row)"),
    "a late file is there twice": (
        lambda w: shutil.copy(side(w, "late"), side(w, "late").with_name("again.parquet")),
        "again.parquet is in no manifest",
    ),
    "a file is garbage of the right length": (
        lambda w: overwrite(landed(w)[0], b"x" * landed(w)[0].stat().st_size),
        "cannot be read",
    ),
    "storage knows a batch that the ledger lost": (
        lambda w: (w.folder / "lake/readings/_tidegate/hwm/3").touch(),
        "knows batches up to 3, the ledger's next is 3",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_doctored_files_are_found(world: World, name: str) -> None:
    doctor, words = FILES[name]
    doctor(world)
    report = look(world)
    assert not report.balanced
    assert any(words in p.what for p in report.problems), [p.what for p in report.problems]
    assert all(p.advice for p in report.problems)


def test_a_lost_file_is_one_problem_not_many(world: World) -> None:
    published(world)[0].unlink()
    assert [p.subject for p in look(world).problems] == ["window 20130105T010000Z"]


def test_other_rows_under_an_intact_footer_are_found_by_coordinates_alone(world: World) -> None:
    forge(world, published(world)[0], shift_offsets)
    assert look(world, coordinates=False).balanced
    report = look(world)
    assert any("by Kafka partition (rows, first, last offset)" in p.what for p in report.problems)
    assert any("row too many, at offsets [1002, 1003)" in p.what for p in report.problems), report.problems
    assert any("offsets read, but in no file" in p.what for p in report.problems), report.problems


def forge(world: World, path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Other rows under the same footer; the ledger is given the new length, as a forger would."""
    old = pq.ParquetFile(path)
    table, metadata, before = change(old.read()), old.metadata.metadata, path.stat().st_size
    path.unlink()
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({k.decode(): v.decode() for k, v in metadata.items()})
    where = f"bytes = {before} AND path LIKE '%{path.name}'"
    sql(world, f"UPDATE generation_files SET bytes = {path.stat().st_size} WHERE {where}")


# ---------------------------------------------------------------- doctored ledger


def sql(world: World, *statements: str) -> None:
    world.close()
    with sqlite3.connect(world.database) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement
    connection.close()


LEDGER: dict[str, tuple[str, str]] = {
    "a range counts more": ("UPDATE batch_ranges SET read = read + 1 WHERE batch_id = 1 AND partition = 0", "≠"),
    "data moved to filtered": (
        "UPDATE batch_ranges SET data = data - 1, filtered = filtered + 1 WHERE batch_id = 2",
        "0 data rows read, 1 in its files",
    ),
    "late counted as data": (
        "UPDATE batch_ranges SET data = data + 1, late = late - 1 WHERE batch_id = 2",
        "late rows read",
    ),
    "a range begins later": (
        "UPDATE batch_ranges SET start = start + 1, read = read - 1, data = data - 1 WHERE batch_id = 2",
        "offsets [4, 5) are in no batch",
    ),
    "a range begins earlier": (
        "UPDATE batch_ranges SET start = start - 1 WHERE batch_id = 2",
        "are in an earlier batch too",
    ),
    "a range is gone": ("DELETE FROM batch_ranges WHERE batch_id = 1 AND partition = 1", "rows too many"),
    "a planned end moved": (
        "UPDATE batch_partitions SET planned_end = planned_end + 5 WHERE batch_id = 2 AND partition = 1",
        "are in no batch",
    ),
    "a batch is gone": ("DELETE FROM batches WHERE batch_id = 1", "batches [1] do not fit"),
    "a gap was invented": (
        """UPDATE batch_ranges SET gaps = '[{"start":4,"end":5}]', read = 1, late = 0 WHERE batch_id = 2""",
        "late rows read",
    ),
    "a file's rows": ("UPDATE batch_files SET rows = rows + 1 WHERE batch_id = 1 AND kind = 'data'", "manifest digest"),
    "a file is forgotten": ("DELETE FROM batch_files WHERE batch_id = 2 AND kind = 'data'", "manifest digest"),
    "a file's checksum": ("UPDATE batch_files SET checksum = '7' WHERE kind = 'late'", "checksum"),
    "an hour is owed more": (
        "UPDATE batch_window_totals SET rows = rows + 1 WHERE batch_id = 1 AND kind = 'data'",
        "in its files",
    ),
    "an hour's rows were moved": (
        "UPDATE batch_window_totals SET window_ms = window_ms + 3600000 WHERE batch_id = 2 AND kind = 'data'",
        "no rows",
    ),
    "a published file is forgotten": (
        "DELETE FROM generation_files WHERE path IN (SELECT min(path) FROM generation_files)",
        "rows landed",
    ),
    "a generation's digest": ("UPDATE generations SET digest = 'x' WHERE number = 1", "content digest"),
    "a generation's rows": ("UPDATE generations SET rows = 7 WHERE number = 1", "the ledger says 7"),
    "a generation's batches": (
        "DELETE FROM generation_batches WHERE batch_id = 2",
        "is of batches [1], rows came from [1, 2]",
    ),
    "published and open": ("UPDATE windows SET state = 'OPEN'", "published, but OPEN"),
    "an hour is not published any more": ("UPDATE generations SET state = 'RETIRED'", "is not there"),
    "a block": ("UPDATE windows SET blocked = 'files and ledger differ'", "blocked: files and ledger differ"),
}


@pytest.mark.parametrize("name", LEDGER)
def test_a_doctored_ledger_is_found(world: World, name: str) -> None:
    statement, words = LEDGER[name]
    sql(world, statement)
    report = look(world)
    assert not report.balanced
    assert any(words in p.what for p in report.problems), [p.what for p in report.problems]


# ---------------------------------------------------------------- at work, and when nothing can be read


def test_files_that_move_while_we_look_are_looked_at_again(world: World) -> None:
    """Hour 2 is published between the ledger's snapshot and the look at the files."""
    world.produce(record("x", 9.0))
    world.ingest("r3")
    ctx = world.context()
    real, moved = ctx.storage, []

    class Moving:
        def __getattr__(self, name: str):
            if not moved:
                moved.append(True)
                world.archive(2)
            return getattr(real, name)

    ctx.storage = Moving()  # type: ignore[assignment]
    report = audit(ctx, ctx.ledger.reads, in_process)
    assert report.problems == ()
    assert report.windows_published == 3
    assert any("looking again" in line for line in world.said)


def test_a_reader_that_cannot_start_says_what_is_missing(world: World, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'ModuleNotFoundError: No module named pyarrow' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(StorageError, match=r"No module named pyarrow(.|\n)*tidegate\[worker\]"):
        look(world, FooterProcess(str(broken)))


def test_a_range_looks_at_its_windows_alone_and_a_sample_at_some_files(world: World) -> None:
    """Of the ledger everything is looked at all the same, and neither says that all is balanced."""
    only = Part(Interval(window(0).start_ms, window(0).end_ms))
    ctx = world.context()
    report = audit(ctx, ctx.ledger.reads, in_process, Depth(part=only))
    assert (report.problems, report.files, report.files_read, report.coordinates) == ((), 3, 3, 3)
    assert report.part == only
    assert any("was not checked" in note for note in report.notes)
    published(world, 1)[0].unlink()
    landed(world)[0].unlink()
    assert audit(ctx, ctx.ledger.reads, in_process, Depth(part=only)).balanced
    weights = [ahead(ctx, ctx.ledger.reads, Depth(part=p))[0].files for p in (Part(), only, Part(share=0.25))]
    assert weights == [8, 3, 2]
    read = [audit(ctx, ctx.ledger.reads, in_process, Depth(part=Part(share=0.5, seed=n))).files_read for n in range(8)]
    assert 0 < sum(read) < 8 * 6
    sql(world, "UPDATE batch_ranges SET read = read + 1 WHERE batch_id = 2")
    assert not look(world, part=only).balanced
    world.close()


def test_without_kafka_columns_coordinates_are_refused_by_name(world: World) -> None:
    world.change_spec(kafka_columns=False)
    report = look(world)
    assert report.coordinates is None
    assert any("kafka_columns: false" in note for note in report.notes)
