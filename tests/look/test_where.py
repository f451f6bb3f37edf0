"""The fates that a chaotic run seldom meets: each is told in words and by name, whatever does not answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.look.row_readers import InProcessRows
from tests.world import TOPIC, World, record, window
from tidegate.adapters.rows import RowProcess
from tidegate.core.base.errors import LedgerError, SpecError, StorageError
from tidegate.core.batch.refusal import Refusal, RefusalKind
from tidegate.core.look.fate import Fate
from tidegate.core.look.sighting import Lookup, Row
from tidegate.workflow.batch import ingest
from tidegate.workflow.look.where import Answer, where
from tidegate.workflow.publish import archive


class Unreadable:
    """A child that cannot start, as without pyarrow."""

    def find(self, lookup: Lookup) -> tuple[Row | None, str]:
        raise StorageError("No module named pyarrow", advice="install it")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Hour 0 is published, 1 to 3 wait; offsets 0 to 3 of partition 0: two rows of hour 0, one of hour 1, a dirty one;
    4 and 5 come with batch 2: late for hour 0, and hour 1."""
    made = World(tmp_path)
    made.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    made.produce(record("c0", 2.0), record("d0", 3.5), partition=1)
    made.ingest("r1")
    made.archive(0)
    made.produce(record("late", 0.7), record("fine", 1.9))
    made.ingest("r2")
    yield made
    made.close()


def ask(world: World, offset: int, partition: int = 0, rows: Any = None) -> Answer:
    ctx = world.context()
    try:
        return where(ctx, ctx.ledger.reads, rows or InProcessRows(), partition, offset)
    finally:
        world.close()


def fate(world: World, offset: int, partition: int = 0, rows: Any = None) -> Fate:
    (only,) = ask(world, offset, partition, rows).fates
    return only


def sql(world: World, statement: str) -> None:
    world.close()
    with sqlite3.connect(world.database) as connection:
        assert connection.execute(statement).rowcount > 0, statement
    connection.close()


def test_the_words_of_a_published_a_late_a_dirty_and_a_waiting_row(world: World) -> None:
    landed = "landed 2013-01-09T04:00Z"
    published, late, dirty, waiting = (fate(world, o) for o in (0, 4, 3, 5))
    event = "event time 2013-01-05T00:06Z"
    assert published.words == f"batch 1, attempt 1, {event}, {landed}, published in generation 1 of 2013-01-05T00:00Z"
    assert published.file.startswith(f"{world.location}/date=2013-01-05/hour=00/site=a/b1-")
    assert late.words.startswith(
        "late: its window 2013-01-05T00:00Z was closing or closed when batch 2 was planned (2013-01-09T04:00Z); batch 2"
    )
    assert late.table == "lake.readings__late"
    assert dirty.words.startswith("dirty: ")
    assert dirty.raw == "not json"
    assert waiting.words.endswith(
        "waits for its window 2013-01-05T01:00Z: ready: watermark 2013-01-05T02:30Z has passed the window's end "
        "2013-01-05T02:00Z; no run has published it"
    )
    assert [f.settled for f in (published, late, dirty, waiting)] == [True, True, True, False]


def test_the_same_by_the_child_process(world: World) -> None:
    with RowProcess() as rows:
        assert [fate(world, o, rows=rows) for o in range(6)] == [fate(world, o) for o in range(6)]


def test_a_row_that_waits_says_what_blocks_its_window(world: World) -> None:
    waits = fate(world, 1, partition=1)
    assert "waits for its window 2013-01-05T03:00Z: partition 0: last event" in waits.words
    assert waits.next_step == "tidegate explain readings 2013-01-05T03:00Z"
    ctx = world.context()
    certificate = archive.ready(ctx, window(1))
    ctx.ledger.windows.begin_close("readings", window(1), lambda facts: certificate)
    assert "it is CLOSING, and not published yet" in fate(world, 2).words
    ctx = world.context()
    archive.close(ctx, window(1))
    assert "generation 1 is BUILDING" in fate(world, 2).words
    ctx = world.context()
    ctx.ledger.windows.block("readings", window(1), "files and ledger differ")
    assert "blocked by an alarm: files and ledger differ" in fate(world, 2).words


def test_a_row_of_a_healed_hour_is_in_the_generation_in_force(world: World) -> None:
    next((world.folder / "lake/readings/date=2013-01-05/hour=00/site=a").glob("*.parquet")).unlink()
    world.archive(0)
    healed = fate(world, 0)
    assert "published in generation 2 (heal) of" in healed.words
    assert "/generations/" in healed.file


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("PLANNED", "PLANNED, no task has begun to write it"),
        ("WRITING", "WRITING, attempt 1 is at work or has died"),
        ("SEALED", "SEALED, attempt 1 is complete and lands next"),
        ("refused", "attempt 1 was refused: too dirty"),
        ("blocked", "blocked by an alarm: odd"),
    ],
)
def test_an_open_batch_says_what_comes_next(world: World, state: str, words: str) -> None:
    world.produce(record("x", 3.8))
    ctx = world.context()
    ingest.plan(ctx, "r3")
    if state in ("WRITING", "refused", "blocked"):
        batch = ctx.ledger.batches.take(ctx.ledger.batches.open("readings"), "x")
        if state == "refused":
            ctx.ledger.batches.refuse(batch, Refusal(kind=RefusalKind.DIRTY_LIMIT, said="too dirty"))
        if state == "blocked":
            ctx.ledger.batches.block(batch, "odd")
    if state == "SEALED":
        ingest.write(ctx, "r3")
    found = fate(world, 6)
    assert (found.kind, found.batch_id) == ("open batch", 3)
    assert words in found.words
    assert found.next_step


def test_beyond_what_is_planned(world: World) -> None:
    world.produce(record("x", 3.8), record("y", 3.9))
    behind, none = fate(world, 7), fate(world, 8)
    assert (behind.kind, behind.behind) == ("not read yet", 1)
    assert (none.kind, none.words) == ("no such record", "no such record yet: partition 0 ends at 8")
    assert fate(world, 0, partition=9).words == "topic readings has no partition 9"
    world.kafka.add_partitions(TOPIC, 3)
    world.produce(record("z", 3.9), partition=2)
    assert fate(world, 0, partition=2).kind == "not read yet"


def test_an_open_transaction_holds_what_comes_after(world: World) -> None:
    world.kafka.begin(TOPIC, 0)
    world.produce(record("x", 3.8))
    assert "an open transaction holds everything from 6 on" in fate(world, 6).words


def test_retention_that_nobody_has_recorded_yet(world: World) -> None:
    world.produce(record("x", 3.8), record("y", 3.9))
    world.kafka.trim(TOPIC, 0, 7)
    gone = fate(world, 6)
    assert (gone.kind, gone.next_step) == ("lost", "see source.on_data_loss: the next plan stops")
    world.change_spec(source=replace(world.pipeline.source, on_data_loss="record"))
    assert fate(world, 6).next_step == "nothing: the next plan records the loss"


def test_a_recreated_topic_has_a_fate_for_each_id(world: World) -> None:
    world.kafka.create(TOPIC, 2)
    never = fate(world, 6)
    assert never.kind == "never read"
    assert never.next_step == "tidegate source reset readings --why '...'"
    world.produce(record("new", 3.9))
    world.context().ledger.pipelines.accept_topic("readings", "id-1", "id-2", "test")
    assert [f.kind for f in ask(world, 0).fates] == ["not read yet", "published"]
    world.ingest("r3")
    new, old = ask(world, 0).fates
    assert [(f.topic_id, f.kind, f.batch_id) for f in (new, old)] == [("id-2", "waiting", 3), ("id-1", "published", 1)]


def test_filtered_dropped_and_missing_by_the_counts(world: World) -> None:
    """A row that no file has, with the counts as they would be."""
    sql(world, "DELETE FROM batch_files WHERE batch_id = 2 AND kind = 'data'")
    assert fate(world, 5).kind == "missing"
    assert fate(world, 5).next_step == "tidegate audit readings --deep"
    sql(world, "UPDATE batch_ranges SET data = 0, filtered = 1 WHERE batch_id = 2")
    assert fate(world, 5).words == "filtered: it does not meet the pipeline's `where` (batch 2, attempt 1)"
    sql(world, "UPDATE batch_ranges SET dropped = 1 WHERE batch_id = 2")
    assert fate(world, 5).words == "in no file: it was filtered or dropped (batch 2, attempt 1)"
    sql(world, "UPDATE batch_ranges SET filtered = 0 WHERE batch_id = 2")
    assert fate(world, 5).kind == "dropped"


def test_a_hole_in_the_ledger_is_named(world: World) -> None:
    sql(world, "DELETE FROM batch_ranges WHERE batch_id = 2 AND partition = 0")
    assert fate(world, 5).words == "in no batch, and not recorded as lost: the ledger has a hole here"


def test_late_by_age_and_by_the_first_window(world: World) -> None:
    found = fate(world, 4)
    assert found.kind == "late"
    low = f'UPDATE batches SET floor = \'{{"closed":[],"low_ms":{world.pipeline.windows.start_ms + 7_200_000}}}\''
    sql(world, f"{low} WHERE batch_id = 2")
    assert "was older than windows.max_age when batch 2 was planned" in fate(world, 4).words


# ---------------------------------------------------------------- what does not answer


def test_without_kafka_what_the_ledger_knows_is_told(world: World) -> None:
    world.kafka.unavailable = True
    world.catalogue = None  # nobody asks it
    assert [fate(world, o).kind for o in range(6)] == ["published", "published", "waiting", "dirty", "late", "waiting"]
    silent = ask(world, 6)
    assert silent.fates[0].kind == "undecided"
    assert silent.notes == ("Kafka could not be asked: Kafka at fake:9092 has no answer for topic readings: "
                            "Connection refused",)  # fmt: skip


def test_without_the_files_what_is_certain_is_told(world: World) -> None:
    """Offset 4 is in the late file of batch 2, whose span is that offset alone; so is 5, in its data file."""
    for offset, kind in ((4, "late"), (5, "waiting")):
        found = fate(world, offset, rows=Unreadable())
        assert found.kind == kind
        assert "its file was not read: No module named pyarrow" in found.words
    sql(world, "UPDATE batch_ranges SET data = 0, filtered = 1 WHERE batch_id = 2 AND partition = 0")
    unsure = fate(world, 5, rows=Unreadable())
    assert unsure.kind == "undecided"
    assert "one of: data of 2013-01-05T01:00Z, filtered." in unsure.words


def test_a_lost_file_is_said(world: World) -> None:
    next((world.folder / "lake/readings/date=2013-01-05/hour=00/site=a").glob("*.parquet")).unlink()
    answer = ask(world, 0)
    assert "by the ledger; its file was not read: " in answer.fates[0].words
    assert any("PathMissing" in note for note in answer.notes)


def test_rows_without_offsets_are_refused_by_name(world: World) -> None:
    world.change_spec(kafka_columns=False)
    with pytest.raises(SpecError, match="kafka_columns: false"):
        ask(world, 0)


def test_a_pipeline_that_never_ran(tmp_path: Path) -> None:
    world = World(tmp_path)
    ctx = world.context()
    assert where(ctx, ctx.ledger.reads, InProcessRows(), 0, 0).fates[0].kind == "no such record"
    ctx.pipeline = replace(ctx.pipeline, name="other")
    with pytest.raises(LedgerError, match="other is not in the ledger"):
        where(ctx, ctx.ledger.reads, InProcessRows(), 0, 0)
    world.close()
