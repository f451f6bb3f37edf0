"""Reopening, the rules: when it is due, what is over the budget, and what a job must show."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.files.landed import OwedSpan
from tidegate.core.files.merge import add_up
from tidegate.core.files.overflow import Overflow
from tidegate.core.files.receipt import BatchRows, FileEntry, PartitionRows
from tidegate.core.late.reopen import (
    MOST_REFUSED,
    LateBatch,
    LateWindow,
    ReopenReceipt,
    Unfinished,
    errors,
    is_abandoned,
    is_due,
    over_budget,
)
from tidegate.core.spec.pipeline import Reopening
from tidegate.core.window.states import QUIET_MS

HOUR = 3_600_000
NOW = 10 * HOUR
WAITS = LateWindow(
    start_ms=0,
    batches=(LateBatch(4, 3, 5 * HOUR, True), LateBatch(7, 2, 8 * HOUR, True)),
    current=1,
    reopened=0,
    working=False,
)
NO_LIMIT = Reopening(None, None, None, None)

# ---------------------------------------------------------------- when


def test_what_waits() -> None:
    assert (WAITS.rows, WAITS.waiting_since_ms, WAITS.settled) == (5, 5 * HOUR, WAITS.batches)
    half = replace(WAITS, batches=(replace(WAITS.batches[0], settled=False), WAITS.batches[1]))
    assert (half.rows, half.settled) == (5, WAITS.batches[1:])


@pytest.mark.parametrize(
    ("changes", "after_ms", "due"),
    [
        ({}, None, False),
        ({}, 5 * HOUR, True),
        ({}, 5 * HOUR + 1, False),
        ({"current": None}, 0, False),
        ({"working": True}, 0, False),
        ({"blocked": ""}, 0, False),
        ({"blocked": "an alarm"}, 0, False),
        ({"refused": MOST_REFUSED - 1}, 0, True),
        ({"refused": MOST_REFUSED}, 0, False),
        ({"batches": (LateBatch(4, 3, 0, False),)}, 0, False),
        ({"batches": (LateBatch(4, 3, 0, False), LateBatch(5, 1, 9 * HOUR, True))}, HOUR, True),
        ({"batches": (LateBatch(4, 3, 0, False), LateBatch(5, 1, 9 * HOUR, True))}, 2 * HOUR, False),
    ],
)
def test_when_it_is_due(changes: dict[str, object], after_ms: int | None, due: bool) -> None:
    assert is_due(replace(WAITS, **changes), Reopening(after_ms), NOW) is due  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("budget", "changes", "words"),
    [
        ({"generations": 2}, {"reopened": 1}, []),
        ({"generations": 2}, {"reopened": 2}, ["it was reopened 2 times (late.reopen_generations: 2)"]),
        ({"generations": 0}, {}, ["it was reopened 0 times (late.reopen_generations: 0)"]),
        ({"age_ms": 9 * HOUR}, {}, []),
        ({"age_ms": 9 * HOUR - 1}, {}, ["it ended at 1970-01-01T01:00Z (late.reopen_age: 9 h)"]),
        ({"age_ms": 90 * 60_000}, {}, ["it ended at 1970-01-01T01:00Z (late.reopen_age: 1.5 h)"]),
        ({"rows": 5}, {}, []),
        ({"rows": 4}, {}, ["5 late rows wait (late.reopen_rows: 4)"]),
        ({"rows": 4}, {"batches": (LateBatch(4, 3, 0, True), LateBatch(5, 2, 0, False))}, []),
        ({"rows": 0, "generations": 0}, {}, ["it was reopened 0 times (late.reopen_generations: 0)",
                                             "5 late rows wait (late.reopen_rows: 0)"]),
        ({}, {"reopened": 99}, []),
    ],
)  # fmt: skip
def test_the_budget(budget: dict[str, int], changes: dict[str, object], words: list[str]) -> None:
    window = replace(WAITS, **changes)  # type: ignore[arg-type]
    assert over_budget(window, HOUR, replace(NO_LIMIT, **budget), NOW) == words


@pytest.mark.parametrize(
    ("state", "taken_ms", "left"),
    [
        ("BUILDING", NOW - 2 * HOUR, True),
        ("BUILDING", NOW - 2 * HOUR + 1, False),
        ("BUILDING", None, True),
        ("BUILT", NOW, True),
        ("SWAPPING", NOW, True),
    ],
)
def test_when_somebody_else_goes_on_with_it(state: str, taken_ms: int | None, left: bool) -> None:
    assert QUIET_MS == 2 * HOUR
    assert is_abandoned(Unfinished(0, 2, state, taken_ms), NOW) is left


def test_the_budget_of_a_spec_that_says_nothing() -> None:
    assert Reopening() == Reopening(None, 3, 7 * 24 * HOUR, 10_000_000)


# ---------------------------------------------------------------- what the job must show


def entry(path: str, rows: int, checksum: int, low: int, high: int, site: str = "a", kind: str = "data") -> FileEntry:
    values = (("site", site),) if kind == "data" else ()
    return FileEntry(
        path=path,
        kind=kind,
        window_ms=0,
        values=values,
        rows=rows,
        bytes=9,
        min_event_ms=1,
        max_event_ms=2,
        checksum=checksum,
        partitions=(PartitionRows(0, rows, low, high),),
    )


CURRENT = (entry("b1-x", 3, 10, 0, 4), entry("b2-y", 1, 20, 5, 5, "b"))
LATE = (entry("late/x/p", 2, 7, 6, 8, kind="late"),)
OWED = [OwedSpan(1, 0, 3, 0, 4), OwedSpan(2, 0, 1, 5, 5), OwedSpan(3, 0, 2, 6, 8)]
RECEIPT = ReopenReceipt(
    "w.2.1-n",
    (entry("data/c0", 3, 10, 0, 4), entry("data/c1", 1, 20, 5, 5, "b")),
    (entry("data/site=a/l", 1, 3, 6, 6), entry("data/site=c/l", 1, 4, 8, 8, "c")),
    (BatchRows(1, 0, 3, 0, 4), BatchRows(2, 0, 1, 5, 5), BatchRows(3, 0, 2, 6, 8)),
)
LISTING = {f.path: f.bytes for f in RECEIPT.files}


def wrong(receipt: ReopenReceipt = RECEIPT, listing: dict[str, int] = LISTING) -> list[str]:
    return errors(receipt, CURRENT, LATE, OWED, listing)


def test_what_is_right() -> None:
    assert wrong() == []
    assert RECEIPT.files == RECEIPT.copied + RECEIPT.added


def test_merged_files_are_right_too() -> None:
    current = (*CURRENT, entry("b3-z", 2, 5, 1, 2))
    copied = (
        replace(RECEIPT.copied[0], rows=5, checksum=15, partitions=(PartitionRows(0, 5, 0, 4),)),
        RECEIPT.copied[1],
    )
    owed = [replace(OWED[0], rows=5), *OWED[1:]]
    batches = (replace(RECEIPT.batches[0], rows=5), *RECEIPT.batches[1:])
    assert errors(replace(RECEIPT, copied=copied, batches=batches), current, LATE, owed, LISTING) == []


def test_copied_rows_that_are_others() -> None:
    copied = (replace(RECEIPT.copied[0], checksum=11), RECEIPT.copied[1])
    assert wrong(replace(RECEIPT, copied=copied)) == [
        "the rows of the generation in force are not what they were (content digest)"
    ]


def test_late_rows_that_are_lost_or_doubled() -> None:
    found = wrong(replace(RECEIPT, added=RECEIPT.added[:1]))
    assert found == [
        "1 late row written, the late files hold 2",
        "the late rows are not those of the late files (checksum)",
        "partition 0: 5 rows in the files, 6 counted",
    ]


def test_late_rows_that_are_others() -> None:
    added = (replace(RECEIPT.added[0], checksum=9), RECEIPT.added[1])
    assert wrong(replace(RECEIPT, added=added)) == ["the late rows are not those of the late files (checksum)"]
    beyond = replace(RECEIPT, added=added, overflow=(Overflow(0, 1, 1),))
    assert wrong(beyond) == [], "rows of the overflow partition have a column more"


def test_checksums_are_sums_modulo_2_64() -> None:
    late = (replace(LATE[0], checksum=2**64 - 1), entry("late/x/q", 0, 8, 6, 6, kind="late"))
    assert errors(RECEIPT, CURRENT, late, OWED, LISTING) == []


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (BatchRows(3, 0, 1, 6, 8), "1 row at [6, 8] written, 2 rows at [6, 8] owed"),
        (BatchRows(3, 0, 2, 5, 8), "2 rows at [5, 8] written, 2 rows at [6, 8] owed"),
        (BatchRows(3, 0, 2, 6, 9), "2 rows at [6, 9] written, 2 rows at [6, 8] owed"),
    ],
)
def test_a_batch_with_other_rows(batch: BatchRows, words: str) -> None:
    found = wrong(replace(RECEIPT, batches=(*RECEIPT.batches[:2], batch)))
    assert found[0] == f"batch 3, partition 0: {words}"


def test_rows_of_another_batch_or_partition() -> None:
    found = wrong(replace(RECEIPT, batches=(*RECEIPT.batches[:2], BatchRows(4, 1, 2, 6, 8))))
    assert found == [
        "batch 3, partition 0: no rows written, 2 rows at [6, 8] owed",
        "batch 4, partition 1: 2 rows at [6, 8] written, no rows owed",
        "partition 0: 6 rows in the files, 4 counted",
        "partition 1: 0 rows in the files, 2 counted",
    ]


def test_files_that_are_not_what_was_written() -> None:
    assert wrong(listing={**LISTING, "data/c0": 8}) == ["data/c0: 9 bytes written, 8 in the work directory"]
    assert wrong(listing={k: v for k, v in LISTING.items() if k != "data/site=c/l"}) == [
        "data/site=c/l: 9 bytes written, None in the work directory"
    ]


def test_counts_of_tasks_are_added_up() -> None:
    parts = [BatchRows(2, 1, 4, 7, 9), BatchRows(1, 0, 1, 5, 5), BatchRows(2, 1, 2, 3, 8), BatchRows(2, 0, 1, 1, 1)]
    assert add_up(parts) == (BatchRows(1, 0, 1, 5, 5), BatchRows(2, 0, 1, 1, 1), BatchRows(2, 1, 6, 3, 9))
    assert add_up([]) == ()
