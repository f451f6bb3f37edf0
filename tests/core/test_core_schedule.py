"""Windows that the schedule has, rows that claim another one, and kinds of generations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0

from tidegate.core.base.instants import DAY_MS
from tidegate.core.base.offsets import Interval, OffsetRange
from tidegate.core.files.receipt import DATA, DIRTY, LATE, FileEntry, RangeResult, Receipt
from tidegate.core.restore.ahead import Contradiction, contradicted, contradiction
from tidegate.core.restore.record import GenerationRecord
from tidegate.core.target.port import Token
from tidegate.core.window import transitions as moves
from tidegate.core.window.kinds import command_of
from tidegate.core.window.lateness import Floor
from tidegate.core.window.schedule import (
    errors,
    late_folder,
    nearby,
    strangers,
    time_partitions,
    window_of,
)
from tidegate.core.window.states import ARCHIVE, HEAL, REOPEN, REPLAY, RETIRED, ROLLBACK, BuiltGeneration, WindowKey

# ---------------------------------------------------------------- the schedule


def test_the_windows_of_a_schedule() -> None:
    windows = PIPELINE.windows
    assert window_of(T0 + 5, windows) == window_of(T0, windows) == Interval(T0, T0 + HOUR)
    assert strangers([T0 + HOUR + 1, T0, T0 + 1, T0 + 1], windows) == [T0 + 1, T0 + HOUR + 1]


def test_windows_that_share_a_moment_begin_between_these() -> None:
    """A day is at most two days long, as where a country crosses the date line."""
    assert nearby(T0, T0 + HOUR) == (T0 - 2 * DAY_MS, T0 + HOUR - 1)


def entry(kind: str = DATA, window: int | None = T0, first: int | None = T0, last: int | None = T0, path: str = "f"):
    return FileEntry(
        path=path, kind=kind, window_ms=window, values=(), rows=1, bytes=1, min_event_ms=first, max_event_ms=last,
        checksum=1, partitions=(),
    )  # fmt: skip


LATE_PATH = "late/date=2013-01-05/hour=00/f"


def wrong(*files: FileEntry, floor: Floor = Floor(0), rerouted: int = 0) -> list[str]:
    span = RangeResult(
        range=OffsetRange("t", 0, 0, 1), read=1, data=1, late=0, dirty=0, filtered=0, dropped=0, gaps=(),
        min_event_ms=T0,
        max_event_ms=T0, rerouted=rerouted,
    )  # fmt: skip
    receipt = Receipt(
        attempt="a", batch_id=1, epoch=1, nonce="n", topic="t", topic_id="id", spec_version=1, rules_version=3,
        ranges=(span,), files=files,
    )  # fmt: skip
    return list(errors(PIPELINE, floor, receipt))


def test_rows_lie_within_a_window_of_the_schedule() -> None:
    good = [
        entry(last=T0 + HOUR - 1),
        entry(first=None, last=None),
        entry(last=None, first=0),
        entry(first=None, last=0),
        entry(DIRTY, window=None, first=0, last=9 * T0),
        entry(LATE, path=LATE_PATH),
    ]
    assert wrong(*good) == []
    assert late_folder(good[-1]) == "date=2013-01-05/hour=00"
    assert time_partitions(PIPELINE, T0) == (("date", "2013-01-05"), ("hour", "00"))


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (
            entry(window=T0 + 1),
            "f: data rows of a window 2013-01-05T00:00:00.001Z, which is not one of the schedule: the window there is "
            "[2013-01-05T00:00Z, 2013-01-05T01:00Z)",
        ),
        (
            entry(last=T0 + HOUR),
            "f: rows from 2013-01-05T00:00Z to 2013-01-05T01:00Z in the window [2013-01-05T00:00Z, 2013-01-05T01:00Z)",
        ),
        (entry(first=T0 - 1), "f: rows from 2013-01-04T23:59:59.999Z to "),
        (entry(first=T0 + 2, last=T0 + 1), "f: rows from "),
        (
            entry(LATE, path="late/date=2013-01-04/hour=24/f"),
            "f: window 2013-01-05T00:00Z is spelled date=2013-01-05/hour",
        ),
    ],
)
def test_rows_of_another_schedule_are_told(file: FileEntry, words: str) -> None:
    found = wrong(entry(window=None), entry(), file, entry())
    assert len(found) == 1
    assert words.removeprefix("f:") in found[0]
    assert found[0].startswith(file.path)
    assert len(wrong(file, file)) == 2


def test_sent_rows_lie_in_the_window_that_they_were_sent_to() -> None:
    sent = entry(first=0, last=5)
    floor = replace(Floor(0), reroute_ms=T0)
    assert wrong(sent, floor=floor, rerouted=1) == []
    assert len(wrong(sent, floor=floor)) == 1, "none of them was sent"
    assert len(wrong(replace(sent, kind=LATE), floor=floor, rerouted=1)) == 1
    other = replace(sent, window_ms=T0 + HOUR)
    assert len(wrong(other, floor=floor, rerouted=1)) == 1


# ---------------------------------------------------------------- generations


def test_each_kind_is_begun_by_its_command() -> None:
    assert command_of(ARCHIVE, "p", T0) is command_of(HEAL, "p", T0) is None
    assert command_of(REPLAY, "p", T0) == "tidegate replay p 2013-01-05T00:00Z"
    assert command_of(REOPEN, "p", T0) == "tidegate reopen p 2013-01-05T00:00Z"
    assert command_of(ROLLBACK, "p", T0) == "tidegate rollback p 2013-01-05T00:00Z --why '...'"


def test_a_generation_is_known_by_its_token() -> None:
    made = BuiltGeneration(
        pipeline="p", window=WindowKey(T0, T0 + HOUR), number=2, epoch=3, kind=HEAL, batches=(), directory="d",
        files=(), digest="x",
    )  # fmt: skip
    assert Token.of(made) == Token(pipeline="p", unit=T0, generation=2, epoch=3, digest="x")


def test_its_files_are_cleaned_once_it_is_retired() -> None:
    made = moves.begin_cleaning("p", T0, 2)
    assert (made.states, made.as_read) == ((RETIRED,), {"cleaning_ms": None})
    assert (made.transition, made.row) == (moves.BEGIN_CLEANING, {"pipeline": "p", "window_ms": T0, "number": 2})


# ---------------------------------------------------------------- records that the ledger contradicts


RECORD = GenerationRecord(
    pipeline="p",
    window=WindowKey(T0, T0 + HOUR),
    number=4,
    epoch=1,
    kind=HEAL,
    batches=(1, 2, 9),
    directory="d",
    location="l",
    files=(),
    digest="x",
    late=(9,),
)


def test_r15_a_record_is_taken_back_if_the_ledger_knows_of_the_same_batches() -> None:
    assert contradiction(RECORD, [1, 2], [9]) is None
    assert contradiction(RECORD, [2, 1], []) is None, "late rows that the ledger does not know of"
    assert contradiction(RECORD, [1, 2], [8]) == Contradiction(
        "generation 4 was built of batches [1, 2, 9], the ledger knows of [1, 2, 8]", True
    )
    assert contradiction(RECORD, [1, 2, 3], [9]) == Contradiction(
        "generation 4 was built of batches [1, 2, 9], the ledger knows of [1, 2, 3, 9]", True
    )
    lost = contradiction(RECORD, [1], [])
    assert lost is not None
    assert not lost.set_aside, "what it names is lost with it"
    assert str(contradicted(RECORD, lost)).startswith("2013-01-05T00:00Z: generation 4 was built of")
