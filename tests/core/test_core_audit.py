"""Each rule of the audit that needs nothing but the ledger: a sound book has no problem, one changed fact has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from core_values import HOUR, T0

from tidegate.core.audit.problems import RESTORE, Books, Problem, Totals, republish
from tidegate.core.base.offsets import OffsetRange
from tidegate.core.files.balance import Balance
from tidegate.core.files.receipt import FileEntry, PartitionRows, content_digest, manifest_digest
from tidegate.core.look.views import (
    BatchRow,
    GenerationRow,
    LossRow,
    RangeRow,
    Spine,
    WindowPage,
    WindowRow,
    WindowTotal,
)
from tidegate.core.window.states import WindowKey

ID, START = "20130105T000000Z", "2013-01-05T00:00Z"


def file(name: str, kind: str, *parts: PartitionRows) -> FileEntry:
    rows = sum(p.rows for p in parts)
    window = None if kind == "dirty" else T0
    return FileEntry(
        path=f"{kind}/{name}",
        kind=kind,
        window_ms=window,
        values=(),
        rows=rows,
        bytes=100,
        min_event_ms=T0,
        max_event_ms=T0,
        checksum=7 * rows,
        partitions=parts,
    )


# batch 1: partition 0 [0, 10), 1 [5, 8); batch 2: partition 0 [10, 14), 1 stands still
DATA_1 = file("a", "data", PartitionRows(0, 6, 0, 5), PartitionRows(1, 3, 5, 7))
LATE_1 = file("b", "late", PartitionRows(0, 1, 6, 6))
DIRTY_1 = file("c", "dirty", PartitionRows(0, 1, 7, 7))
DATA_2 = file("d", "data", PartitionRows(0, 4, 10, 13))
FILES = {1: (DATA_1, LATE_1, DIRTY_1), 2: (DATA_2,)}


def batch(number: int, ranges: tuple[RangeRow, ...], ends: dict[int, int], **more: object) -> BatchRow:
    row = BatchRow(
        batch_id=number,
        state="LANDED",
        epoch=1,
        nonce="n",
        revision=1,
        spec_version=1,
        topic="t",
        topic_id="id",
        clock_ms=T0,
        records=0,
        manifest_digest=manifest_digest(FILES.get(number, ())),
        side_moved=True,
        side_registered=True,
        refused=None,
        blocked=None,
        planned_ms=T0,
        sealed_ms=T0,
        landed_ms=T0,
        ranges=ranges,
        ends=ends,
        log_starts={0: 0, 1: 5, 2: 40},
    )
    return replace(row, **more)


def span(partition: int, start: int, end: int, **counts: int) -> RangeRow:
    return RangeRow(OffsetRange("t", partition, start, end), Balance(offsets=end - start, **counts))


ONE = batch(
    1,
    (span(0, 0, 10, read=9, gaps=1, data=6, late=1, dirty=1, filtered=1), span(1, 5, 8, read=3, data=3)),
    {0: 10, 1: 8},
)
TWO = batch(2, (span(0, 10, 14, read=4, data=4),), {0: 14, 1: 8})
SPINE = Spine(
    name="flights",
    next_batch_id=3,
    topic_id="id",
    states={"LANDED": 2},
    unlanded={},
    unmoved=0,
    losses=(),
    windows={},
    generations=(),
    newest_event=9,
)
TOTALS = (
    WindowTotal(window_ms=T0, batch_id=1, kind="data", partition=0, rows=6, min_offset=0, max_offset=5),
    WindowTotal(window_ms=T0, batch_id=1, kind="data", partition=1, rows=3, min_offset=5, max_offset=7),
    WindowTotal(window_ms=T0, batch_id=1, kind="late", partition=0, rows=1, min_offset=6, max_offset=6),
    WindowTotal(window_ms=T0, batch_id=2, kind="data", partition=0, rows=4, min_offset=10, max_offset=13),
)
WINDOW = WindowRow(WindowKey(T0, T0 + HOUR), "CLOSED", 3, T0, None)
GENERATION = GenerationRow(
    window_ms=T0,
    number=1,
    state="CURRENT",
    epoch=1,
    nonce="n",
    kind="archive",
    directory="d",
    location="l",
    rows=13,
    digest=content_digest((DATA_1, DATA_2)),
    built_ms=T0,
    published_ms=T0,
    retired_ms=None,
    cleaned_ms=None,
    batches=(1, 2),
    files=(DATA_1, DATA_2),
)
PAGE = WindowPage(T0, WINDOW, TOTALS, tuple((i, f) for i, fs in FILES.items() for f in fs), (GENERATION,))


def look(
    batches: tuple[BatchRow, ...] = (ONE, TWO),
    page: WindowPage = PAGE,
    generation: GenerationRow | None = GENERATION,
    spine: Spine = SPINE,
    files: dict[int, tuple[FileEntry, ...]] = FILES,
) -> tuple[list[Problem], Totals]:
    books = Books(spine)
    found = [p for b in batches for p in books.batch(books.as_of_then(b), files.get(b.batch_id, ()))]
    found += [*books.window(page, generation), *books.sums()]
    return found, books.totals()


def words(**changes: object) -> list[str]:
    found, _ = look(**changes)
    assert all(p.advice for p in found)
    return [f"{p.subject}: {p.what}" for p in found]


def test_sound_books() -> None:
    found, totals = look()
    assert found == []
    balance = Balance(offsets=17, read=16, gaps=1, data=13, late=1, dirty=1, filtered=1)
    assert totals == Totals(balance=balance, published=13, waiting=0, abandoned=0, lost=0, unfinished=0)


def test_a_window_that_waits() -> None:
    found, totals = look(generation=None, page=replace(PAGE, generations=(), window=None))
    assert found == []
    assert (totals.published, totals.waiting) == (0, 13)
    books = Books(SPINE)
    list(books.window(PAGE, None))
    list(books.window(replace(PAGE, totals=(TOTALS[2],), batch_files=((1, LATE_1),)), None))
    assert (books.published_windows, books.waiting_windows) == (0, 1), "late rows wait for nothing"
    list(books.window(PAGE, GENERATION))
    assert (books.published_windows, books.waiting_windows) == (1, 1)


def test_rerouted_rows_are_the_same_by_ranges_and_by_windows() -> None:
    one = replace(
        ONE, ranges=(replace(ONE.ranges[0], balance=replace(ONE.ranges[0].balance, rerouted=2)), ONE.ranges[1])
    )
    page = replace(PAGE, totals=(replace(TOTALS[0], rerouted=2), *TOTALS[1:]))
    assert look(batches=(one, TWO), page=page)[0] == []
    assert words(batches=(one, TWO)) == ["balance: 2 rows were rerouted, 0 by the windows they went to"]
    assert words(page=page) == ["balance: 0 rows were rerouted, 2 by the windows they went to"]
    spine = replace(SPINE, states={"LANDED": 1, "SEALED": 1}, unlanded={2: "SEALED"})
    later = replace(page, totals=(*page.totals[:3], replace(TOTALS[3], rerouted=1)))
    assert look(batches=(one, TWO), page=later, spine=spine)[0] == [], "it landed while the audit looked"


def test_what_lands_while_the_audit_looks_counts_as_it_was() -> None:
    spine = replace(SPINE, states={"LANDED": 1, "SEALED": 1}, unlanded={2: "SEALED"})
    found, totals = look(spine=spine)
    assert found == []
    assert (totals.published, totals.waiting, totals.unfinished) == (9, 0, 4)
    found, totals = look(spine=spine, generation=None, page=replace(PAGE, generations=(), window=None))
    assert (found, totals.waiting) == ([], 9)
    wrong = replace(PAGE, totals=(*TOTALS[:3], replace(TOTALS[3], rows=5)), generations=(), window=None)
    assert look(spine=spine, generation=None, page=wrong)[0] == [], "not landed then: not looked at"


def test_abandoned_and_open_batches_and_losses() -> None:
    spine = replace(
        SPINE, states={"LANDED": 1, "ABANDONED": 1}, losses=(LossRow(9, 1, 3, 8, "r"), LossRow(9, 0, 0, 2, "r"))
    )
    only_one = replace(
        PAGE,
        totals=TOTALS[:3],
        batch_files=PAGE.batch_files[:3],
        generations=(),
        window=None,
    )
    found, totals = look((ONE, replace(TWO, state="ABANDONED")), only_one, None, spine)
    assert found == []
    assert (totals.abandoned, totals.unfinished, totals.lost) == (4, 0, 7)
    for state in ("PLANNED", "WRITING", "SEALED"):
        found, totals = look((ONE, replace(TWO, state=state)), only_one, None, spine)
        assert (found, totals.abandoned, totals.unfinished) == ([], 0, 4)
    found, _ = look((ONE, replace(TWO, state="WRITING", blocked="why")), only_one, None, spine)
    assert [f"{p.subject}: {p.what}" for p in found] == ["batch 2: blocked: why"]
    assert "tidegate repair" in found[0].advice


def test_the_sums_grow_with_everything_that_is_seen() -> None:
    books = Books(SPINE)
    for state in ("ABANDONED", "WRITING", "ABANDONED", "WRITING"):
        list(books.batch(replace(TWO, state=state), ()))
    for generation in (GENERATION, None) * 2:
        list(books.window(PAGE, generation))
    found = books.totals()
    assert (found.abandoned, found.unfinished, found.published, found.waiting) == (8, 8, 26, 26)
    assert (books.published_windows, books.waiting_windows) == (2, 2)


@pytest.mark.parametrize(
    ("batches", "spine", "says"),
    [
        ((TWO,), SPINE, "batches [1] do not fit next batch id 3"),
        ((ONE,), SPINE, "batches [2] do not fit next batch id 3"),
        ((ONE, TWO), replace(SPINE, next_batch_id=4), "batches [3] do not fit next batch id 4"),
        ((ONE, TWO), replace(SPINE, states={"LANDED": 3}), "batches [3] do not fit next batch id 3"),
        ((ONE, TWO), replace(SPINE, next_batch_id=99), "batches [3, 4, 5, 6, 7] do not fit next batch id 99"),
        ((ONE, replace(TWO, batch_id=99)), replace(SPINE, next_batch_id=100), "batches [2, 3, 4, 5, 6] do not fit"),
        (
            (ONE, replace(TWO, batch_id=4), replace(TWO, batch_id=6)),
            replace(SPINE, next_batch_id=7),
            "batches [2, 3, 5] do not fit",
        ),
        ((ONE, replace(TWO, batch_id=9)), replace(SPINE, next_batch_id=12), "batches [2, 3, 4, 5, 6] do not fit"),
    ],
)
def test_batch_ids_have_no_hole(batches: tuple[BatchRow, ...], spine: Spine, says: str) -> None:
    assert [w for w in words(batches=batches, spine=spine) if w.startswith(f"ledger: {says}")]


# ---------------------------------------------------------------- batches


def changed(entry: FileEntry, **values: object) -> Callable[[], dict[str, object]]:
    files = tuple(replace(f, **values) if f is entry else f for f in FILES[1])
    return lambda: {
        "files": {**FILES, 1: files},
        "batches": (replace(ONE, manifest_digest=manifest_digest(files)), TWO),
    }


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (DATA_1, "batch 1: partition 0: 6 data rows read, 7 in its files"),
        (LATE_1, "batch 1: partition 0: 1 late row read, 2 in its files"),
        (DIRTY_1, "batch 1: partition 0: 1 dirty row read, 2 in its files"),
    ],
)
def test_one_row_more_of_any_kind(entry: FileEntry, says: str) -> None:
    first, *rest = entry.partitions
    more = changed(entry, rows=entry.rows + 1, partitions=(replace(first, rows=first.rows + 1), *rest))
    assert words(**more()) == [says]


def test_a_file_is_the_sum_of_its_parts() -> None:
    (says,) = words(**changed(DATA_1, rows=10)())
    assert says == "batch 1: data/a: 10 rows, its Kafka partitions add up differently"


def test_the_manifest_is_the_one_that_was_sealed() -> None:
    (says,) = words(batches=(replace(ONE, manifest_digest="other"), TWO))
    assert says.startswith("batch 1: ")
    assert says.endswith("(manifest digest)")


def test_ranges_and_files_of_one_partition_are_added_up() -> None:
    """A batch that was cut in two: ranges [0, 4) and [4, 10) of partition 0, with a file for each."""
    halves = (span(0, 0, 4, read=4, data=4), span(0, 4, 10, read=6, data=6))
    files = tuple(file(n, "data", PartitionRows(0, 5, a, a + 4)) for n, a in (("a", 0), ("b", 5)))
    one = batch(1, halves, {0: 10}, manifest_digest=manifest_digest(files))
    assert list(Books(SPINE).batch(one, files)) == []
    bare = replace(one, ranges=(replace(halves[0], balance=None), halves[1]))
    found = [p.what for p in Books(SPINE).batch(bare, files)]
    assert found == ["partition 0 [0, 4): landed without counts", "partition 0: 6 data rows read, 10 in its files"]


def test_rows_that_are_counted_but_nowhere_and_files_that_nobody_counted() -> None:
    nowhere = [p.what for p in Books(SPINE).batch(replace(TWO, manifest_digest=manifest_digest(())), ())]
    assert "partition 0: 4 data rows read, 0 in its files" in nowhere
    stray = (DATA_2, file("z", "late", PartitionRows(5, 1, 0, 0)))
    found = [p.what for p in Books(SPINE).batch(replace(TWO, manifest_digest=manifest_digest(stray)), stray)]
    assert found == ["partition 5: 0 late rows read, 1 in its files"]


def test_a_landed_range_without_counts_or_with_wrong_ones() -> None:
    bare = replace(TWO, ranges=(replace(TWO.ranges[0], balance=None),))
    found = words(batches=(ONE, bare))
    assert "batch 2: partition 0 [10, 14): landed without counts" in found
    assert "balance: data 9 is not published 13 + waiting 0" in found
    assert any(w.startswith("balance: read 12 = data 9") for w in found), found
    wrong = replace(TWO, ranges=(span(0, 10, 14, read=5, data=4),))
    assert (
        "batch 2: partition 0 [10, 14): read 5 ≠ data 4 + late 0 + dirty 0 + filtered 0 + dropped 0, "
        "5 + 0 gaps of 4 offsets" in words(batches=(ONE, wrong))
    )


# ---------------------------------------------------------------- windows


@pytest.mark.parametrize(
    ("generation", "says"),
    [
        ({"rows": 14}, "generation 1: its files hold 13 rows, the ledger says 14"),
        ({"digest": "other"}, "generation 1: its files are not what it was built of (content digest)"),
        ({"batches": (1,)}, "generation 1 is of batches [1], rows came from [1, 2]"),
        ({"files": (DATA_1,)}, "partition 0: 10 rows landed, 6 in generation 1"),
        ({"files": (DATA_1, DATA_2, replace(DATA_2, path="e"))}, "partition 0: 10 rows landed, 14 in generation 1"),
        ({"files": (DATA_1, replace(DATA_2, rows=3)), "rows": 12}, "its files hold 12 rows, the ledger says 12"),
    ],
)
def test_a_generation_in_force(generation: dict[str, object], says: str) -> None:
    wrong = replace(GENERATION, **generation)
    assert [w for w in words(generation=wrong) if w.startswith(f"window {ID}: ") and says in w]


def test_an_archived_window_is_what_its_batches_wrote_a_rebuilt_one_what_it_says() -> None:
    other = replace(DATA_2, checksum=99)
    swapped = replace(GENERATION, files=(DATA_1, other), digest=content_digest((DATA_1, other)))
    assert words(generation=swapped) == [f"window {ID}: generation 1: its content is not that of batches [1, 2]"]
    assert words(generation=replace(swapped, kind="replay")) == []
    late = replace(PAGE, batch_files=(*PAGE.batch_files, (3, replace(DATA_2, path="z"))))
    assert not [w for w in words(page=late) if "content" in w], "of another batch"


@pytest.mark.parametrize("state", ["CLOSING", None])
def test_only_a_closed_window_is_published(state: str | None) -> None:
    window = None if state is None else replace(WINDOW, state=state)
    assert words(page=replace(PAGE, window=window)) == [f"window {ID}: published, but {state or 'OPEN'}"]
    assert words(page=replace(PAGE, window=window, generations=()), generation=None) == []


def test_one_generation_is_in_force() -> None:
    old = replace(GENERATION, number=0, state="RETIRED")
    assert words(page=replace(PAGE, generations=(old, GENERATION))) == []
    two = replace(PAGE, generations=(GENERATION, replace(GENERATION, number=2)))
    assert words(page=two) == [f"window {ID}: 2 generations are in force at once"]


def test_a_blocked_window() -> None:
    found, _ = look(page=replace(PAGE, window=replace(WINDOW, blocked="why")))
    assert [(p.subject, p.what) for p in found] == [(f"window {ID}", "blocked: why")]
    assert "tidegate repair" in found[0].advice


@pytest.mark.parametrize(
    ("total", "says"),
    [
        ({"rows": 5}, "data in the ledger 5 rows at [10, 13], in its files 4 rows at [10, 13]"),
        ({"min_offset": 9}, "data in the ledger 4 rows at [9, 13], in its files 4 rows at [10, 13]"),
        ({"max_offset": 14}, "data in the ledger 4 rows at [10, 14], in its files 4 rows at [10, 13]"),
    ],
)
def test_window_totals_are_counted_again(total: dict[str, int], says: str) -> None:
    page = replace(PAGE, totals=(*TOTALS[:3], replace(TOTALS[3], **total)))
    assert f"batch 2: partition 0, window {START}: {says}" in words(page=page)
    gone = replace(PAGE, totals=TOTALS[:3])
    assert (
        f"batch 2: partition 0, window {START}: data in the ledger no rows, in its files 4 rows at [10, 13]"
        in words(page=gone)
    )
    assert any("in its files no rows" in w for w in words(page=replace(PAGE, batch_files=PAGE.batch_files[:3])))


def test_a_batch_may_have_several_files_for_a_window() -> None:
    halves = tuple(file(n, "data", PartitionRows(0, 2, a, b)) for n, a, b in (("y", 12, 13), ("x", 10, 11)))
    page = replace(PAGE, batch_files=(*PAGE.batch_files[:3], *((2, h) for h in halves)))
    assert words(page=page) == []


def test_advice_names_the_window_and_its_dag() -> None:
    assert "-s 2013-01-05T00:00Z -e 2013-01-05T00:00Z" in republish("flights", T0)
    assert "flights.archive" in republish("flights", T0)
    assert "backup" in RESTORE
