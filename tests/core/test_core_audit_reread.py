"""What an audit counts of a window that was read again: its second reading is owed, and nothing of the first one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_values import HOUR, T0
from test_core_audit import GENERATION, PAGE, SPINE, WINDOW, batch, file, span

from tidegate.core.audit.problems import Books, Totals
from tidegate.core.files.receipt import FileEntry, PartitionRows, content_digest, manifest_digest
from tidegate.core.look.views import GenerationRow, WindowPage
from tidegate.core.window.states import REPLAY, REREAD, RETIRED, WindowKey

FIRST = file("a", "data", PartitionRows(0, 6, 0, 5))
AGAIN = file("b", "data", PartitionRows(0, 8, 0, 7))
ONE = batch(1, (span(0, 0, 6, read=6, data=6),), {0: 6}, manifest_digest=manifest_digest([FIRST]))


def generation(number: int, *files: FileEntry, **more: object) -> GenerationRow:
    made = replace(
        GENERATION, number=number, kind=REREAD, batches=(1,), files=files, rows=sum(f.rows for f in files),
        digest=content_digest(files),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


BEFORE = generation(1, FIRST, kind="archive", state=RETIRED)


def seen(*generations: GenerationRow) -> tuple[list[str], Totals]:
    """By an audit of the one batch and its window, of which the last generation is in force."""
    books = Books(replace(SPINE, next_batch_id=2, states={"LANDED": 1}))
    page = WindowPage(T0, WINDOW, PAGE.totals[:1], ((1, FIRST),), (BEFORE, *generations))
    found = [*books.batch(ONE, (FIRST,)), *books.window(page, generations[-1]), *books.sums()]
    return [f"{p.subject}: {p.what}" for p in found], books.totals()


@pytest.mark.parametrize("files", [(AGAIN,), (FIRST,), ()])
def test_a_second_reading_may_have_other_rows(files: tuple[FileEntry, ...]) -> None:
    problems, totals = seen(generation(2, *files))
    rows = sum(f.rows for f in files)
    assert (problems, totals.published, totals.reread) == ([], rows, rows - 6)


def test_what_is_rebuilt_of_it_owes_the_same() -> None:
    again = generation(2, AGAIN, state=RETIRED)
    assert seen(again, generation(3, AGAIN, kind=REPLAY))[0] == []
    problems, totals = seen(again, generation(3, FIRST, kind=REPLAY))
    assert problems == [
        "window 20130105T000000Z: partition 0: 8 rows landed, 6 in generation 3",
        "balance: data 6 +2 by second readings is not published 6 + waiting 0",
    ]
    assert totals.reread == 2


def test_second_readings_of_several_windows_are_added_up() -> None:
    books = Books(SPINE)
    for hour, files in enumerate(((AGAIN,), ())):
        start = T0 + hour * HOUR
        totals = tuple(replace(t, window_ms=start) for t in PAGE.totals[:1])
        made = generation(2, *files, window_ms=start)
        page = WindowPage(start, replace(WINDOW, key=WindowKey(start, start + HOUR)), totals, (), (made,))
        list(books.window(page, made))
    assert books.totals().reread == 2 - 6
