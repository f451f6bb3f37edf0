"""Every row's coordinates: the audit in several slabs, and rows that are missing, doubled, of no batch or elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.audit.audits import built, look, world
from tests.audit.test_audit import forge, published, sql
from tests.world import TOPIC, World, record
from tidegate.core.base.slabs import UNBOUNDED, Slab, slabs
from tidegate.ledger import reads_audit

__all__ = ["built", "world"]  # fixtures


@pytest.fixture
def small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slab for each batch: windows of several batches are looked into several times."""
    monkeypatch.setattr(reads_audit, "slabs", lambda sizes, limit: slabs(sizes, 1))


def column(table: pa.Table, name: str, change: Callable[[int], int]) -> pa.Table:
    at = table.schema.get_field_index(name)
    values = pa.array([change(v) for v in table[name].to_pylist()], table.schema.field(at).type)
    return table.set_column(at, name, values)


def test_slabs_cover_every_batch_once() -> None:
    assert slabs([], 10) == [Slab(0, UNBOUNDED, 0)]
    assert slabs([(1, 4), (2, 6), (3, 1)], 10) == [Slab(0, 2, 10), Slab(3, UNBOUNDED, 1)]
    assert slabs([(1, 40), (3, 6)], 10) == [Slab(0, 1, 40), Slab(2, UNBOUNDED, 6)]
    assert slabs([(1, 0), (2, 40)], 10) == [Slab(0, UNBOUNDED, 40)]


def test_several_slabs_see_the_same(world: World, small_slabs: None) -> None:
    """Hour 1 has rows of both batches: its files are read twice, and counted once."""
    world.replay(1)
    report = look(world)
    assert report.problems == ()
    assert (report.files, report.rows_in_files, report.coordinates) == (8, 8, 8)
    assert report.totals.balance.text() == "read 8 = data 6 + late 1 + dirty 1 + filtered 0 + dropped 0"


def test_several_slabs_of_a_replayed_hour_in_one_file(world: World, small_slabs: None) -> None:
    """A rebuild puts rows of both batches into one file."""
    next((world.folder / "lake/readings/date=2013-01-05/hour=01/site=a").glob("*.parquet")).unlink()
    world.archive(1)
    report = look(world)
    assert report.problems == ()
    assert report.coordinates == 8


def test_a_recreated_topic_has_the_same_offsets_rightly(world: World, small_slabs: None) -> None:
    world.kafka.create(TOPIC, 2)
    world.produce(*[record(f"new {i}", 3.6) for i in range(4)])
    world.context().ledger.pipelines.accept_topic("readings", "id-1", "id-2", "test")
    world.ingest("r3")
    report = look(world)
    assert report.problems == ()
    assert report.coordinates == 12


@pytest.mark.parametrize("cut", [False, True])
def test_rows_that_claim_another_batch_are_found(world: World, cut: bool, request: pytest.FixtureRequest) -> None:
    """Batch 2 never read offset 0; batch 99 never landed."""
    if cut:
        request.getfixturevalue("small_slabs")
    forge(world, published(world, 0)[0], lambda t: column(t, "_batch_id", lambda _: 2))
    words = [p.what for p in look(world).problems]
    assert any("has rows of batches [2, 2], its generation is of [1, 1]" in w for w in words), words
    assert cut or any("1 row too many, at offsets [0, 1)" in w for w in words), words
    assert any("offsets read, but in no file: 1, where 0 may be: [0, 1) of batch 1" in w for w in words), words
    forge(world, published(world, 0)[0], lambda t: column(t, "_batch_id", lambda _: 99))
    problems = look(world).problems
    assert any("has rows of batches [99, 99]" in p.what for p in problems)
    if cut:
        return  # the slab of batch 99 does not look into the files of an hour of batch 1
    (problem,) = [p for p in problems if p.subject == "batch 99"]
    assert "never landed, but 1 row is of it, the first one at partition 0 offset 0 in " in problem.what
    assert problem.what.endswith(published(world, 0)[0].name)


def test_clear_warns_of_a_file_that_readers_see_besides(world: World) -> None:
    stray = published(world, 1)[0].with_name("stray.parquet")
    stray.write_bytes(b"whatever")
    assert not world.archive(1).new
    assert any(f"readers see file://{stray}, which is in no manifest" in line for line in world.said)
    assert any("stray.parquet is in no manifest" in p.what for p in look(world).problems)


def test_a_row_that_is_in_two_files_is_found(world: World) -> None:
    """Offset 1 stands in for offset 0: what one file lacks another has twice."""
    forge(world, published(world, 0)[0], lambda t: column(t, "_offset", lambda _: 1))
    words = [p.what for p in look(world).problems]
    assert any("1 row too many, at offsets [1, 2)" in w for w in words), words
    assert any("in no file: 1, where 0 may be: [0, 1) of batch 1" in w for w in words), words


def test_filtered_rows_may_be_missing_and_no_more(world: World) -> None:
    """As if offset 5 had been filtered; then as if one more had."""
    path = next(p for p in published(world, 1) if p.name.startswith("b2-"))
    path.unlink()
    sql(
        world,
        "UPDATE batch_ranges SET data = data - 1, filtered = 1 WHERE batch_id = 2",
        "DELETE FROM batch_files WHERE batch_id = 2 AND kind = 'data'",
        "DELETE FROM batch_window_totals WHERE batch_id = 2 AND kind = 'data'",
        "DELETE FROM generation_files WHERE path LIKE '%b2-%'",
    )
    assert not [p for p in look(world).problems if "no file" in p.what]
    sql(world, "UPDATE batch_ranges SET filtered = 2 WHERE batch_id = 2")
    words = "offsets read, but in no file: 1, where 2 may be: [5, 6) of batch 2"
    assert any(words in p.what for p in look(world).problems)


def test_a_row_at_a_gap_is_one_too_many(world: World) -> None:
    sql(world, """UPDATE batch_ranges SET gaps = '[{"end":1,"start":0}]' WHERE batch_id = 1 AND partition = 0""")
    assert any("1 row too many, at offsets [0, 1)" in p.what for p in look(world).problems)


def test_files_from_before_the_kafka_columns_are_a_note(tmp_path: Path) -> None:
    made = World(tmp_path)
    made.change_spec(kafka_columns=False)
    made.produce(record("a", 0.1), record("b", 2.5))
    made.produce(record("c", 2.5), partition=1)
    made.ingest("r1")
    made.archive(0)
    made.change_spec(kafka_columns=True)
    report = look(made)
    assert report.problems == ()
    assert any("2 files have no Kafka columns" in note for note in report.notes), report.notes
