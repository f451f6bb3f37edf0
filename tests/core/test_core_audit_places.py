"""The audit's rules about where rows belong: windows that were open at the plan (R1), windows closed without a batch,
late rows that were taken up, and offsets that are read again or never."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, PIPELINE, T0
from test_core_audit import (
    DATA_1,
    DATA_2,
    DIRTY_1,
    GENERATION,
    ID,
    LATE_1,
    ONE,
    PAGE,
    SPINE,
    TOTALS,
    TWO,
    WINDOW,
    file,
    look,
    span,
    words,
)  # fmt: skip
from test_core_audit_chain import links
from test_core_audit_redrives import redrive_of

from tidegate.core.audit.problems import RESTORE, Books, Redrives
from tidegate.core.base.instants import DAY_MS
from tidegate.core.base.offsets import Interval
from tidegate.core.files.receipt import FileEntry, PartitionRows, content_digest, manifest_digest
from tidegate.core.look.views import BatchRow, GenerationRow, LossRow, WindowPage
from tidegate.core.source.log_cut import Resumption
from tidegate.core.window.lateness import Floor

WINDOWS = PIPELINE.windows
OPEN_FROM = Floor(T0, (Interval(T0 + 3 * HOUR, T0 + 5 * HOUR),))
"""Hours before T0, and 3 and 4, were not open."""


def places(*hours: tuple[str, int, int], floor: Floor | None = OPEN_FROM, size_ms: int = HOUR) -> list[str]:
    """What the audit says of a batch with files of (kind, hour, rows)."""
    files = tuple(
        replace(file(f"{n}", kind, PartitionRows(0, rows, 0, 9)), window_ms=T0 + hour * HOUR)
        for n, (kind, hour, rows) in enumerate(hours)
    )
    batch = replace(TWO, floor=floor, ranges=(), ends={}, manifest_digest=manifest_digest(files))
    found = list(Books(SPINE, replace(WINDOWS, size_ms=size_ms)).batch(batch, files))
    assert {(p.subject, p.advice) for p in found} <= {("batch 2", RESTORE)}
    return [p.what for p in found if "in its files" not in p.what]


NOT_OPEN = "which was not open when it was planned: no window takes them up"
WAS_OPEN = "which was open when it was planned: they are in the late table all the same"


@pytest.mark.parametrize(
    ("hours", "says"),
    [
        ([("data", 0, 1), ("data", 2, 1), ("data", 5, 1), ("late", -1, 1), ("late", 3, 1), ("late", 4, 1)], []),
        ([("data", -1, 2)], [f"2 data rows of window 2013-01-04T23:00Z, {NOT_OPEN}"]),
        ([("data", 3, 2), ("data", 3, 3)], [f"5 data rows of window 2013-01-05T03:00Z, {NOT_OPEN}"]),
        ([("late", 0, 1)], [f"1 late row of window 2013-01-05T00:00Z, {WAS_OPEN}"]),
        (
            [("data", 4, 1), ("data", 3, 7), ("data", 0, 1)],
            [f"7 data rows of window 2013-01-05T03:00Z, {NOT_OPEN}, and so 1 window more"],
        ),
        (
            [("late", 5, 1), ("late", 2, 1), ("late", 1, 4), ("data", -9, 1)],
            [
                f"1 data row of window 2013-01-04T15:00Z, {NOT_OPEN}",
                f"4 late rows of window 2013-01-05T01:00Z, {WAS_OPEN}, and so 2 windows more",
            ],
        ),
        ([("dirty", -1, 1), ("dirty", 0, 1)], []),
    ],
)
def test_rows_are_data_exactly_where_their_window_was_open_at_the_plan(hours: list, says: list[str]) -> None:
    assert places(*hours) == says


def test_what_a_batch_pinned_must_be_known() -> None:
    assert places(("data", 0, 1), floor=None) == ["the ledger's text of its floor cannot be read"]
    assert places(("data", -1, 1), floor=None, size_ms=DAY_MS) == [], "days are as long as a host says"
    assert places(("data", -1, 1), size_ms=DAY_MS) == []
    assert len(places(("data", -12, 1), size_ms=DAY_MS // 2)) == 1
    none = replace(TWO, floor=None)
    assert list(Books(SPINE).batch(none, (DATA_2,))) == [], "nobody says how windows are cut"


# ---------------------------------------------------------------- windows that are closed and not published


def closed(*generations: GenerationRow, page: WindowPage = PAGE, unlanded: dict | None = None) -> list[str]:
    spine = replace(SPINE, unlanded=unlanded or {})
    found = list(Books(spine).window(replace(page, generations=generations), None))
    assert {(p.subject, p.advice) for p in found} <= {(f"window {ID}", RESTORE)}
    return [p.what for p in found]


def generation(state: str, *batches: int) -> GenerationRow:
    return replace(GENERATION, state=state, batches=batches)


NONE_COMES = ["closed with 13 landed rows, but no generation of it is on its way"]
WITHOUT_TWO = ["closed without batch 2: no generation will hold its 4 landed rows"]


@pytest.mark.parametrize(
    ("generations", "says"),
    [
        ((), NONE_COMES),
        ((generation("DISCARDED", 1, 2), generation("RETIRED", 1, 2)), NONE_COMES),
        ((generation("CURRENT", 1),), []),
        *(((generation(state, 1, 2),), []) for state in ("BUILDING", "BUILT", "SWAPPING")),
        *(((generation(state, 1),), WITHOUT_TWO) for state in ("BUILDING", "BUILT", "SWAPPING")),
        ((generation("BUILDING"),), ["closed without batch 1: no generation will hold its 13 landed rows"]),
        ((generation("DISCARDED", 1, 2), generation("BUILDING", 1)), WITHOUT_TWO),
        ((generation("BUILDING", 1), generation("BUILDING", 2, 1)), []),
    ],
)
def test_what_landed_for_a_closed_window_will_be_published(generations: tuple, says: list[str]) -> None:
    assert closed(*generations) == says


def test_windows_of_which_nothing_is_missing_yet() -> None:
    assert closed(page=replace(PAGE, window=None)) == []
    assert closed(page=replace(PAGE, window=replace(WINDOW, state="CLOSING"))) == []
    assert closed(page=replace(PAGE, totals=(TOTALS[2],), batch_files=((1, LATE_1),))) == [], "late rows alone"
    assert closed(generation("BUILDING", 1), unlanded={2: "SEALED"}) == [], "it has not landed"
    assert closed(unlanded={1: "SEALED", 2: "SEALED"}) == []


# ---------------------------------------------------------------- late rows that were taken up


def reopened(files: tuple[FileEntry, ...] = (DATA_1, DATA_2, replace(LATE_1, kind="data"))) -> GenerationRow:
    return replace(
        GENERATION, kind="reopen", late=(1,), files=files, rows=sum(f.rows for f in files), digest=content_digest(files)
    )


def test_a_generation_holds_the_late_rows_that_it_took_up() -> None:
    one = reopened()
    found, totals = look(generation=one, page=replace(PAGE, generations=(one,)))
    assert found == []
    assert (totals.published, totals.reopened) == (14, 1)
    lost = reopened((DATA_1, DATA_2))
    assert words(generation=lost) == [
        f"window {ID}: partition 0: 11 rows landed, 10 in generation 1",
        "balance: data 13 + 1 late ones taken up is not published 13 + waiting 0",
    ]
    gone = replace(reopened(), late=())
    assert f"window {ID}: partition 0: 10 rows landed, 11 in generation 1" in words(generation=gone)


def test_sums_are_of_all_windows_and_all_ranges() -> None:
    books, one = Books(SPINE), reopened()
    for page in (PAGE, replace(PAGE, window_ms=T0 + HOUR)):
        page = replace(page, totals=(replace(TOTALS[0], rerouted=2), *TOTALS[1:]))
        list(books.window(replace(page, generations=(one,)), one))
    assert books.totals().reopened == 2
    assert "balance: 0 rows were rerouted, 4 by the windows they went to" in [
        f"{p.subject}: {p.what}" for p in books.sums()
    ]
    redrive = redrive_of(ONE)
    halves = tuple(span(0, at, at + 1, read=1, filtered=1) for at in (7, 8))
    two = replace(DIRTY_1, rows=2, partitions=(PartitionRows(0, 2, 7, 8),))
    found = Redrives(lambda batch: True)
    found.batch(replace(ONE, redriven_by=3), (two,))
    found.batch(replace(redrive, ranges=halves), ())
    assert list(found.problems()) == []


def test_late_rows_that_landed_while_the_audit_looked_are_not_counted() -> None:
    spine = replace(SPINE, states={"LANDED": 1, "SEALED": 1}, unlanded={2: "SEALED"})
    late = replace(LATE_1, path="late/z", partitions=(PartitionRows(0, 1, 14, 14),))
    one = replace(reopened((DATA_1, DATA_2, replace(late, kind="data"))), late=(2,))
    more = replace(TOTALS[2], batch_id=2, min_offset=14, max_offset=14)
    page = replace(PAGE, totals=(*TOTALS, more), batch_files=(*PAGE.batch_files, (2, late)), generations=(one,))
    found, totals = look(page=page, generation=one, spine=spine)
    assert found == []
    assert (totals.published, totals.reopened, totals.balance.data) == (9, 0, 9)


# ---------------------------------------------------------------- offsets that are read again, or never


def chain(
    *batches: BatchRow,
    stretches: tuple[Interval, ...] = (),
    resumed: tuple[Resumption, ...] = (),
    losses: tuple[LossRow, ...] = (),
) -> list[str]:
    books = Books(replace(SPINE, stretches={"id": {0: stretches}}, resumptions=resumed, losses=losses))
    return [p.what for b in batches for p in books.batch(replace(b, state="ABANDONED"), ())]


@pytest.mark.parametrize(
    ("steps", "stretches", "losses", "says"),
    [
        (({0: (0, 4)}, {0: (7, 9)}), ((4, 7),), (), []),
        (({0: (0, 4)}, {0: (7, 9)}), ((4, 6),), (), ["partition 0: offsets [4, 7) are in no batch"]),
        (({0: (0, 4)}, {0: (7, 9)}), ((5, 7),), (), ["partition 0: offsets [4, 7) are in no batch"]),
        (({0: (0, 4)}, {0: (3, 9)}), ((3, 7),), (), ["partition 0: offsets [3, 4) are in an earlier batch too"]),
        (({0: (7, 9)},), ((0, 7),), (), []),
        (({0: (8, 9)},), ((0, 7),), (), ["partition 0: offsets [0, 8) are in no batch"]),
        (({0: (8, 9)},), ((1, 7),), (), []),  # reading began there, at no failover
        (({0: (0, 4)}, {0: (9, 12)}), ((4, 7),), ((7, 9),), []),
        (({0: (0, 4)}, {0: (9, 12)}), ((4, 7),), ((8, 9),), ["partition 0: offsets [4, 9) are in no batch"]),
        (({0: (0, 4)}, {0: (9, 12)}), ((4, 7),), ((7, 8),), ["partition 0: offsets [7, 9) are in no batch"]),
    ],
)
def test_stretches_of_copies_are_read_by_no_batch(steps, stretches, losses, says: list[str]) -> None:
    lost = tuple(LossRow(2, 0, a, b, "r") for a, b in losses)
    assert chain(*links(*steps), stretches=tuple(Interval(*one) for one in stretches), losses=lost) == says


@pytest.mark.parametrize(
    ("steps", "resumed", "says"),
    [
        (({0: (0, 9)}, {0: (6, 12)}), (1, 6, "id", 0), []),
        (({0: (0, 9)}, {0: (6, 12)}), (2, 6, "id", 0), ["partition 0: offsets [6, 9) are in an earlier batch too"]),
        (({0: (0, 9)}, {0: (6, 12)}), (1, 6, "new", 0), ["partition 0: offsets [6, 9) are in an earlier batch too"]),
        (({0: (0, 9)}, {0: (6, 12)}), (1, 6, "id", 1), ["partition 0: offsets [6, 9) are in an earlier batch too"]),
        (({0: (0, 9)}, {0: (9, 12)}), (1, 6, "id", 0), ["partition 0: offsets [6, 9) are in no batch"]),
        (({0: (0, 9)}, {0: (9, 12)}, {0: (6, 7)}), (2, 6, "id", 0), []),
    ],
)
def test_after_a_cut_of_the_log_reading_goes_on_where_it_was_said(steps, resumed, says: list[str]) -> None:
    after, offset, topic_id, partition = resumed
    one = Resumption(partition=partition, after_batch=after, topic_id=topic_id, offset=offset)
    assert chain(*links(*steps), resumed=(one,)) == says
