"""Second readings of a table without a log: when there may be one, what it must be, whose rows a generation has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import PIPELINE

from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.files.landed import OwedSpan
from tidegate.core.files.receipt import (
    DATA,
    DIRTY,
    DirtySample,
    FileEntry,
    PartitionRows,
    RangeResult,
    ReadingNote,
    Receipt,
)
from tidegate.core.look.concerns import left_behind
from tidegate.core.replay.abandoned import Unfinished
from tidegate.core.replay.origin import KEPT
from tidegate.core.replay.reread import mixed, owed, reading_of, unreadable, words, wrong
from tidegate.core.replay.rollback import Known
from tidegate.core.source.port import ALL
from tidegate.core.window.kinds import same_rows
from tidegate.core.window.states import (
    ARCHIVE,
    BUILDING,
    CURRENT,
    DISCARDED,
    HEAL,
    QUIET_MS,
    REOPEN,
    REPLAY,
    REREAD,
    RETIRED,
    ROLLBACK,
    WindowKey,
)

KEY = WindowKey(1000, 2000)
WHOLE = OffsetRange("shop.t", 0, 100, 200)
TABLE = replace(ALL, rereadable=False, windowed=True)


def line(number: int, kind: str, origin: int | None = None, state: str = RETIRED) -> Known:
    return Known(number, state, None, None, (1,), kind=kind, origin=origin)


LINES = (
    line(1, ARCHIVE), line(2, REREAD), line(3, REPLAY), line(4, ROLLBACK, 1), line(5, HEAL),
    line(6, REREAD, None, DISCARDED), line(7, REPLAY), line(8, ROLLBACK, 3), line(9, REREAD),
    line(10, ROLLBACK, 8, CURRENT),
)  # fmt: skip


@pytest.mark.parametrize(
    ("number", "reading"),
    [(1, None), (2, 2), (3, 2), (4, None), (5, None), (7, None), (8, 2), (9, 9), (10, 2), (11, None)],
)
def test_whose_reading_a_generations_rows_are_of(number: int, reading: int | None) -> None:
    """Of what it was rebuilt from: the generation in force before it, or the one that a rollback names."""
    assert reading_of(LINES, number) == reading
    assert reading_of(reversed(LINES), number) == reading


@pytest.mark.parametrize("lines", [[line(0, ARCHIVE), line(1, ARCHIVE)], [line(2, ROLLBACK, 3), line(3, ROLLBACK, 2)]])
def test_an_audit_of_a_ledger_that_contradicts_itself_has_an_end(lines: list[Known]) -> None:
    assert [reading_of(lines, one.number) for one in lines] == [None, None]


def entry(*rows: PartitionRows, kind: str = DATA, window_ms: int | None = KEY.start_ms) -> FileEntry:
    return FileEntry(
        path=f"{kind}/a", kind=kind, window_ms=window_ms, values=(), rows=sum(r.rows for r in rows), bytes=1,
        min_event_ms=None, max_event_ms=None, checksum=0, partitions=rows,
    )  # fmt: skip


def test_the_manifest_in_force_is_what_is_owed() -> None:
    files = [entry(PartitionRows(0, 3, 10, 20)), entry(PartitionRows(0, 2, 5, 12), PartitionRows(1, 1, 7, 7))]
    assert owed(26, files) == (OwedSpan(26, 0, 5, 5, 20), OwedSpan(26, 1, 1, 7, 7))
    assert owed(26, []) == ()


def test_which_pipelines_are_read_again() -> None:
    assert unreadable(PIPELINE, TABLE) is None
    log = unreadable(PIPELINE, ALL)
    assert log is not None
    assert log.advice == "leave --from out, or say --from kafka"
    assert log.reason == "topic flights has a log: its records can be read again as they were"
    by = replace(PIPELINE, source=replace(PIPELINE.source, options=(("column", "changed"), ("overlap", "0"))))
    column = unreadable(by, TABLE)
    assert column is not None
    assert "rows that have changed since are in a later window by now" in column.reason
    assert column.advice == OWN


OWN = "make a pipeline of its own, which reads its windows as the table is now"


def receipt(files: tuple[FileEntry, ...], samples: tuple[DirtySample, ...] = (), **counts: int) -> Receipt:
    told = {"read": 0, "data": 0, "late": 0, "dirty": 0, "filtered": 0, "dropped": 0} | counts
    one = RangeResult(
        range=WHOLE, gaps=(Interval(100 + told["read"], 200),), min_event_ms=None, max_event_ms=None, **told
    )
    return Receipt(
        attempt="a", batch_id=26, epoch=1, nonce="n", topic="shop.t", topic_id="shop.t", spec_version=1,
        rules_version=1, ranges=(one,), files=files, samples=samples,
    )  # fmt: skip


ROWS = PartitionRows(0, 2, 100, 101)


def test_a_first_reading_without_dirty_rows_can_be_replaced() -> None:
    whole = receipt((entry(ROWS),), read=2, data=2)
    assert mixed(KEY, 26, whole, (26,)) is None
    assert mixed(KEY, 26, receipt(()), ()) is None, "an empty one has brought no rows"


@pytest.mark.parametrize(
    ("first", "batches", "why", "advice"),
    [
        (receipt((), read=3, dirty=3), (26,), "3 rows of the first reading were dirty", f"redrive them; or {OWN}"),
        (receipt((), read=2, data=2), (26, 27), "a redrive may bring them to this window", f"redrive them; or {OWN}"),
        (None, (26,), "storage has no record of batch 26", KEPT),
    ],
)
def test_rows_that_might_lie_beside_another_snapshot_refuse_it(
    first: Receipt | None, batches: tuple[int, ...], why: str, advice: str
) -> None:
    found = mixed(KEY, 26, first, batches)
    assert found is not None
    assert why in found.reason
    assert found.reason.startswith("1970-01-01T00:00:01Z: ")
    assert found.advice == advice


def test_a_whole_second_reading() -> None:
    assert wrong(receipt((entry(ROWS),), read=2, data=2), KEY, [WHOLE]) is None
    assert wrong(receipt((entry(ROWS),), read=5, data=2, filtered=3), KEY, [WHOLE]) is None
    assert wrong(receipt(()), KEY, [WHOLE]) is None


SAMPLE = DirtySample(0, 102, "null", "word", "{}")
RAW = DirtySample(0, 102, "odd", "", "[")
DIRTY_FILE = entry(PartitionRows(0, 1, 102, 102), kind=DIRTY, window_ms=None)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (receipt((entry(ROWS),), read=3, data=3), "does not add up: partition 0: 3 data rows counted, 2 written"),
        (receipt((entry(ROWS),), read=2, data=2), "the receipt's ranges are not the planned ones"),
        (
            receipt((entry(ROWS), DIRTY_FILE), (SAMPLE,), read=3, data=2, dirty=1),
            "fit the columns: word: null: {}",
        ),
        (receipt((entry(ROWS), DIRTY_FILE), (RAW,), read=3, data=2, dirty=1), "the columns: record: odd: ["),
        (receipt((entry(ROWS, window_ms=7),), read=2, data=2), "has rows of other windows: data/a"),
        (receipt((entry(ROWS),), read=3, data=2, dropped=1), "has rows of other windows"),
    ],
)
def test_what_is_no_second_reading(found: Receipt, why: str) -> None:
    ranges = [replace(WHOLE, end=300)] if "planned" in why else [WHOLE]
    said = wrong(found, KEY, ranges)
    assert said is not None
    assert why in said


def test_the_words_say_when_and_that_it_is_another_snapshot() -> None:
    note = ReadingNote(server="db/shop", table="shop.t", columns=(), chunks=3, began_ms=1_000, ended_ms=60_000)
    assert words(note, 6, 1) == (
        "second reading of table shop.t of db/shop, 3 chunks from 1970-01-01T00:00:01Z to 1970-01-01T00:01Z, 6 rows: "
        "another snapshot; the first had 1 row"
    )


def test_who_goes_on_with_what() -> None:
    assert same_rows(REPLAY, REPLAY)
    assert same_rows(HEAL, REPLAY)
    assert same_rows(REREAD, REREAD)
    for a, b in ((REREAD, REPLAY), (REPLAY, REREAD), (HEAL, REREAD), (ROLLBACK, REPLAY), (REOPEN, REREAD)):
        assert not same_rows(a, b)


def test_one_that_has_stopped_is_named_with_its_command() -> None:
    stopped = [Unfinished(KEY.start_ms, 2, REREAD, BUILDING, 0), Unfinished(KEY.end_ms, 2, ROLLBACK, BUILDING, 0)]
    again, back = left_behind(PIPELINE, stopped, QUIET_MS)
    assert again.what.startswith("a second reading of 1970-01-01T00:00:01Z has stopped on its way")
    assert again.advice.endswith(f"tidegate replay {PIPELINE.name} 1970-01-01T00:00:01Z --from source")
    assert back.what.startswith("a rollback of ")
