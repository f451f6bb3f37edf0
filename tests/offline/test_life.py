"""The life of a table in memory: read when it is due, window by window, each whole."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest

from tests.audit.audits import balanced
from tests.offline.worlds import DAY, START, TableWorld, window
from tidegate.core.base.errors import (
    Alarm,
    BatchRefused,
    NotReady,
    ReplayRefused,
    SourceError,
    SourceUnavailable,
    StepMissing,
)
from tidegate.core.batch.readings import offset_at
from tidegate.core.batch.states import WritingBatch
from tidegate.core.copy.port import KeyRange
from tidegate.core.look.status import PipelineStatus
from tidegate.core.replay.origin import KAFKA
from tidegate.workflow.batch import ingest
from tidegate.workflow.dirty import redrive
from tidegate.workflow.look.status import statuses
from tidegate.workflow.maintain import reconcile
from tidegate.workflow.restore.reset import survey


class _Gone(BaseException):
    """The process that reads is killed."""


def noon(day: int) -> datetime:
    return datetime.fromtimestamp((START + day * DAY) / 1000, UTC) + timedelta(hours=12)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TableWorld]:
    made = TableWorld(tmp_path)
    made.fake.rows = {key: (f"w{key}", noon(0)) for key in range(1, 11)}
    yield made
    made.close()


def ids(world: TableWorld, day: int) -> list[int]:
    return sorted(key for (key,) in world.rows(day, "id"))


# ---------------------------------------------------------------- whole tables


def test_a_day_is_one_reading(world: TableWorld) -> None:
    assert world.ingest("too early") is None
    assert "the window 2024-11-01T00:00Z is read at 2024-11-02T01:00Z" in world.said
    with pytest.raises(NotReady, match="the first ingest run from 2024-11-02T01:00Z on reads it"):
        world.publish(0)
    assert world.read(0) == 1
    assert world.publish(0).rows == 10
    assert world.rows(0, "id", "word") == sorted(((key, f"w{key}") for key in range(1, 11)), key=repr)
    del world.fake.rows[3]
    world.fake.rows[11] = ("new", None)
    assert world.ingest("nothing is due") is None
    assert world.read(1) == 2
    world.publish(1)
    assert ids(world, 1) == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11]
    assert len(world.rows(0)) == 10
    balanced(world)


def reason(world: TableWorld, day: int, read_ms: int) -> str:
    """What the day's certificate says where the worker's clock stood there."""
    with mock.patch("time.time", return_value=read_ms / 1000):
        world.read(day)
    world.publish(day)
    certificate = world.context().ledger.windows.certificate("readings", window(day))
    world.close()
    assert certificate is not None
    return certificate.reason


def test_the_certificate_says_which_reading_it_was(world: TableWorld) -> None:
    said = reason(world, 0, START + DAY + 3_600_000)
    assert "has landed: batch 1, table shop.t of postgresql db:5432/shop, 4 chunks from 2024-11-02T0" in said
    assert said.endswith(" to 2024-11-02T01:00Z, 10 rows")


def test_a_day_that_was_read_long_after_says_that_it_shows_another_time(world: TableWorld) -> None:
    said = reason(world, 0, START + 26 * DAY)
    assert said.endswith(", 10 rows; read 25.0 days after the window's end: it shows the table of that time")


def test_an_empty_table_is_an_empty_window(world: TableWorld) -> None:
    world.fake.rows.clear()
    world.read(0)
    assert world.publish(0).rows == 0
    world.fake.rows[1] = ("w", None)
    world.read(1)
    assert world.publish(1).rows == 1
    balanced(world)


def test_chunks_meet_at_keys_that_come_meanwhile(world: TableWorld) -> None:
    """Each row that is there all the time comes once, whatever is written between two queries."""

    def others_write(number: int) -> None:
        world.fake.rows |= {100 * number: ("late", None), number: ("changed", None)}
        world.fake.rows.pop(10, None)

    world.fake.during = others_write
    world.read(0)
    world.publish(0)
    assert {*world.fake.reads} == {
        KeyRange(None, (3,)), KeyRange((3,), (6,)), KeyRange((6,), (9,)), KeyRange((9,), None),
    }  # fmt: skip
    found = ids(world, 0)
    assert len(found) == len(set(found))
    assert {*range(1, 10)} <= {*found}
    balanced(world)


def test_a_window_that_goes_on_by_the_databases_clock_is_waited_for(world: TableWorld) -> None:
    """Ours may be ahead: what is committed meanwhile would be in no window."""
    world.fake.clock_ms = START + DAY - 1
    with pytest.raises(SourceUnavailable, match="its clock says 2024-11-01T23:59:59.999Z, and the window ends at") as e:
        world.read(0, "run")
    assert e.value.retry
    world.fake.clock_ms = START + DAY
    assert world.ingest("run") == 1
    assert world.publish(0).rows == 10


def test_days_that_were_missed_are_read_one_after_the_other(world: TableWorld) -> None:
    assert world.read(2) == 1
    assert [world.ingest(f"more {n}") for n in range(3)] == [2, 3, None]
    for day in range(3):
        assert world.publish(day).rows == 10
    with pytest.raises(NotReady):
        world.publish(3)
    balanced(world)


# ---------------------------------------------------------------- deaths, and what people do


def test_a_reading_that_was_killed_is_read_again_whole(world: TableWorld) -> None:
    def killed(number: int) -> None:
        if number == 3:
            raise _Gone

    world.fake.during = killed
    with pytest.raises(_Gone):
        world.read(0, "run")
    batch = world.context().ledger.batches.open("readings")
    assert isinstance(batch, WritingBatch)
    world.close()
    world.fake.during = lambda number: None
    del world.fake.rows[2], world.fake.rows[9]
    world.fake.rows[5] = ("newer", None)
    assert world.ingest("run") == 1
    assert len(world.fake.reads) == 3 + 3, "two chunks and a half are no reading: all are read again"
    world.publish(0)
    assert ids(world, 0) == [1, 3, 4, 5, 6, 7, 8, 10]
    assert (5, "newer") in world.rows(0, "id", "word")
    balanced(world)


def test_a_second_complete_reading_is_not_compared_with_the_first(world: TableWorld) -> None:
    """The first attempt's receipt is lost with its seal; the next one reads what is there by then."""
    world.ends(0)
    ingest.plan(world.context(), "run")
    ctx = world.context()
    ctx.ledger.batches.seal = _dies  # type: ignore[method-assign]
    with pytest.raises(_Gone):
        ingest.write(ctx, "run")
    world.close()
    batch = world.context().ledger.batches.get("readings", 1)
    assert isinstance(batch, WritingBatch)
    world.context().ledger.batches.take(batch, "other")
    world.close()
    world.fake.rows = {key: ("w", None) for key in range(1, 30)}
    assert world.ingest("run") == 1
    world.publish(0)
    assert ids(world, 0) == [*range(1, 30)]
    balanced(world)


def _dies(*given: object) -> None:
    raise _Gone


def test_clear_verifies_what_stands_and_reads_nothing(world: TableWorld) -> None:
    world.read(0, "run")
    assert world.publish(0).new
    reads = len(world.fake.reads)
    world.fake.rows.clear()
    assert world.ingest("run") == 1
    assert not world.publish(0).new
    assert (len(world.fake.reads), len(world.rows(0))) == (reads, 10)


def test_a_replay_takes_rows_from_files(world: TableWorld) -> None:
    world.read(0)
    world.publish(0)
    world.fake.rows.clear()
    world.alter("word, type: string", "word, type: string, hidden: true")
    assert world.again(0).new
    assert ids(world, 0) == [*range(1, 11)]
    with pytest.raises(ReplayRefused, match="a second reading of shop.t may give other records"):
        world.again(0, wanted=KAFKA)
    balanced(world)


def test_an_open_reading_is_read_again_and_never_given_up(world: TableWorld) -> None:
    """A window without a reading could never be published."""
    world.ends(0)
    ingest.plan(world.context(), "run")
    with pytest.raises(StepMissing, match="batch 1 is the only reading of its window"):
        reconcile.abandon(world.context(), 1, "why", force=True)
    reconcile.reread(world.context(), 1, "why")
    world.close()
    assert world.ingest("another run") == 1
    assert world.publish(0).rows == 10
    balanced(world)


def test_a_window_that_the_ledger_knows_no_reading_of_is_not_published(world: TableWorld) -> None:
    """However far the watermark is."""
    world.ends(0)
    ingest.plan(world.context(), "run")
    batch = world.context().ledger.batches.open("readings")
    assert batch is not None
    world.context().ledger.batches.abandon(batch, "somebody has changed the ledger")
    world.close()
    assert world.read(1) == 2
    with pytest.raises(NotReady, match="the ledger knows no reading of the source for this window"):
        world.publish(0)
    assert world.publish(1).rows == 10


def test_files_of_a_landed_reading_that_are_lost_are_not_read_again(world: TableWorld) -> None:
    """They would be of another snapshot: a person restores them."""
    world.read(0)
    lost = next(p for p in (world.folder / "lake/readings/_tidegate/landed").rglob("*.parquet"))
    kept = lost.rename(world.folder / "kept")
    with pytest.raises(Alarm, match="a second reading of shop.t may give other records"):
        world.publish(0)
    kept.rename(lost)
    blocks = world.context().ledger.pipelines.blocks("readings")
    if blocks:
        world.context().ledger.repairs.clear_window("readings", window(0), blocks[0].reason, "restored")
    world.close()
    assert world.publish(0).rows == 10


def test_a_dirty_row_becomes_data_by_a_redrive(tmp_path: Path) -> None:
    """Its record is in the dirty table: the source is not asked."""
    columns = "  - {name: id, type: bigint}\n  - {name: word, type: string, nullable: false}"
    world = TableWorld(tmp_path, columns=columns)
    world.alter("partition_by", "dirty: {max_count: null, max_ratio: null}\npartition_by")
    world.fake.rows = {1: ("w", None), 2: (None, None)}
    world.read(0)
    world.alter("type: string, nullable: false", "type: string")
    world.fake.rows.clear()
    redrive.plan(world.context(), "redrive")
    found = redrive.carry_out(world.context(), "redrive")
    assert found is not None
    assert (found.rows, found.data) == (1, 1)
    assert world.publish(0).rows == 2
    assert world.rows(0) == [(1, "w"), (2, None)]
    balanced(world)
    world.close()


# ---------------------------------------------------------------- tables that are not what they were


def test_a_column_that_was_dropped_refuses_the_reading_and_loses_nothing(world: TableWorld) -> None:
    """It is named; once the YAML does without, the same run goes on."""
    world.fake.gone = "word"
    with pytest.raises(BatchRefused, match="has no column word"):
        world.read(0, "run")
    with pytest.raises(NotReady):
        world.publish(0)
    world.alter("  - {name: word, type: string}\n", "")
    assert world.ingest("run") == 1
    world.publish(0)
    assert ids(world, 0) == [*range(1, 11)]
    balanced(world)


def test_a_table_that_vanished_is_named_and_waited_for(world: TableWorld) -> None:
    world.read(0)
    world.fake.missing = True
    with pytest.raises(SourceError, match=r"there is no table shop\.t"):
        world.read(1)
    world.fake.missing = False
    assert world.read(1) == 2


def test_a_row_that_is_null_where_it_may_not_be_is_dirty(tmp_path: Path) -> None:
    columns = "  - {name: id, type: bigint}\n  - {name: word, type: string, nullable: false}"
    world = TableWorld(tmp_path, columns=columns)
    world.alter("partition_by", "dirty: {max_count: null, max_ratio: null}\npartition_by")
    world.fake.rows = {1: ("w", None), 2: (None, None)}
    world.read(0)
    assert world.publish(0).rows == 1
    assert world.table("__dirty") == [(0, offset_at(START) + 1)]
    balanced(world)
    world.close()


def test_too_many_chunks_for_a_window_are_refused(world: TableWorld) -> None:
    world.yaml = world.yaml.replace("size: 1d", "size: 1m").replace("chunk_rows: 3", "chunk_rows: 1")
    world.alter("partition_by: [date]", "partition_by: [date, hour, minute]")
    world.fake.rows = {key: ("w", None) for key in range(20)}
    with pytest.raises(SourceError, match="21 chunks, such a window takes 14"):
        world.read(0)


def test_a_day_before_the_first_one_is_never_published(world: TableWorld) -> None:
    """An empty day would say that the table was empty."""
    world.read(0)
    with pytest.raises(NotReady, match="it begins before windows.start: the source is never read for it"):
        world.publish(-1)
    assert world.partitions("lake.readings") == {}


# ---------------------------------------------------------------- what people see


def test_what_is_said_of_a_reading_that_is_overdue(world: TableWorld) -> None:
    world.read(0)
    world.publish(0)
    world.ends(1)
    assert standing(world).concerns == ()
    world.clock.advance(7 * 3_600_000)
    found = standing(world)
    (concern,) = found.concerns
    assert concern.kind == "unready_window"
    assert "no reading of the source for this window has landed" in concern.what
    assert "is readings.ingest paused, or failing? look at the runs of readings.ingest" in concern.advice
    assert (found.lag, found.plan_lag, found.expected, found.loss) == (None,) * 4, "a table does not say what waits"


def standing(world: TableWorld) -> PipelineStatus:
    ctx = world.context()
    topics = {"readings": (ctx.log(), world.clock.now_ms())}
    found = statuses([world.pipeline], topics, ctx.ledger.reads, world.clock.now_ms())  # type: ignore[attr-defined]
    world.close()
    return found["readings"]


def test_a_table_is_never_another_one(world: TableWorld) -> None:
    """Nothing is accepted, so that nothing is read from the beginning again."""
    world.read(0)
    ctx = world.context()
    assert survey(ctx, told=True) == ctx.log()
    world.close()


def test_maintenance_cleans_and_finds_nothing_wrong(world: TableWorld) -> None:
    for day in range(3):
        world.read(day)
        world.publish(day)
    world.clock.advance(40 * DAY)
    reconcile.maintain(world.context())
    world.close()
    assert [world.publish(day).rows for day in range(3)] == [10, 10, 10]
    assert world.again(1).note == "unchanged"
    balanced(world)
