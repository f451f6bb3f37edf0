"""What the maintenance DAG remembers of a pipeline's windows, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import event, insert, update

from tests.contract.ledgers import HOUR, NAME, ledger, now, open_ledger, url
from tidegate.core.base.errors import LostComparison
from tidegate.core.base.offsets import Interval
from tidegate.core.window.due import ArchiveNote
from tidegate.ledger import SqlLedger, schema

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

NOTE = ArchiveNote((Interval(0, 3 * HOUR), Interval(5 * HOUR, 6 * HOUR)), True, (4 * HOUR,), 17)


def generations(ledger: SqlLedger, *rows: tuple[int, int, str]) -> None:
    """(window, number, state), as if archive runs had made them; another pipeline has all of these windows."""
    common = {"epoch": 1, "nonce": "n", "kind": "archive"}
    values = [{"pipeline": NAME, "window_ms": w * HOUR, "number": n, "state": s, **common} for w, n, s in rows]
    others = [value | {"pipeline": "other", "state": "CURRENT"} for value in values]
    with ledger.store.begin() as c:
        c.execute(insert(schema.generations), values + others)


def test_a_note_comes_back_as_it_was(ledger: SqlLedger) -> None:
    assert ledger.due.note(NAME) is None
    ledger.due.save(NAME, NOTE, None)
    assert ledger.due.note(NAME) == NOTE
    assert ledger.due.note("other") is None


def test_of_two_that_looked_at_once_one_is_heard(ledger: SqlLedger, open_ledger: Callable[[], SqlLedger]) -> None:
    other = open_ledger()
    ledger.due.save(NAME, NOTE, None)
    with pytest.raises(LostComparison):
        other.due.save(NAME, ArchiveNote(), None)
    ledger.due.save(NAME, ArchiveNote(noted_ms=18), NOTE)
    with pytest.raises(LostComparison):
        other.due.save(NAME, ArchiveNote(noted_ms=19), NOTE)
    assert other.due.note(NAME) == ArchiveNote(noted_ms=18)


def test_a_note_with_a_field_that_this_version_does_not_write_can_be_replaced(ledger: SqlLedger) -> None:
    with ledger.store.begin() as c:
        content = '{"published": [{"start": 0, "end": 3600000}]}'
        c.execute(insert(schema.archive_notes).values(pipeline=NAME, content=content))
    found = ledger.due.note(NAME)
    assert found == ArchiveNote((Interval(0, HOUR),))
    ledger.due.save(NAME, NOTE, found)
    assert ledger.due.note(NAME) == NOTE


def test_only_what_is_in_force_is_published(ledger: SqlLedger) -> None:
    generations(
        ledger, (0, 1, "CURRENT"), (1, 1, "BUILDING"), (2, 1, "RETIRED"), (2, 2, "CURRENT"), (3, 1, "DISCARDED"),
        (4, 1, "CURRENT"), (7, 1, "CURRENT"),
    )  # fmt: skip
    parts = [Interval(0, 4 * HOUR), Interval(4 * HOUR + 1, 9 * HOUR)]
    assert ledger.due.published_within(NAME, parts) == [0, 2 * HOUR, 7 * HOUR]


def test_however_many_parts_it_is_one_statement(ledger: SqlLedger) -> None:
    generations(ledger, *((w, 1, "CURRENT") for w in range(0, 130, 2)))
    asked: list[str] = []
    event.listen(ledger.store.engine, "before_cursor_execute", lambda c, cur, s, *_: asked.append(s))
    parts = [Interval(w * HOUR, (w + 1) * HOUR) for w in range(0, 130, 2)]
    assert ledger.due.published_within(NAME, parts) == [part.start for part in parts]
    assert len([s for s in asked if s.startswith("SELECT generations")]) == 1


def test_windows_with_landed_data_and_no_generation_in_force(ledger: SqlLedger) -> None:
    """Late rows make no window due; another pipeline has landed data in every window."""
    common = {"batch_id": 1, "partition": 0, "rows": 1, "min_offset": 0, "max_offset": 0}
    kinds = {0: "data", 1: "data", 2: "late", 3: "data", 5: "data", 9: "data"}
    mine = [{"pipeline": NAME, "window_ms": w * HOUR, "kind": k, **common} for w, k in kinds.items()]
    more = [row | {"batch_id": i} for row in mine for i in (2, 3)]
    others = [{"pipeline": p, "window_ms": w * HOUR, "kind": "data", **common} for p in ("a", "z") for w in range(12)]
    with ledger.store.begin() as c:
        c.execute(insert(schema.batch_window_totals), mine + more + others)
        window = {"pipeline": NAME, "state": "CLOSED", "closing_batch": 1}
        c.execute(insert(schema.windows), [window | {"start_ms": w * HOUR, "end_ms": (w + 1) * HOUR} for w in (4, 5)])
    generations(ledger, (0, 1, "CURRENT"), (3, 1, "BUILDING"), (5, 1, "RETIRED"), (5, 2, "CURRENT"))
    assert ledger.due.unpublished(NAME) == [HOUR, 3 * HOUR, 9 * HOUR]
    assert ledger.due.unpublished("nobody") == []
    assert ledger.due.starts_within(NAME, HOUR, 5 * HOUR) == [HOUR, 3 * HOUR, 4 * HOUR, 5 * HOUR]
    assert ledger.due.starts_within(NAME, HOUR + 1, 3 * HOUR - 1) == []


def test_which_windows_have_had_a_place(ledger: SqlLedger) -> None:
    generations(ledger, (0, 1, "CURRENT"), (1, 1, "RETIRED"), (1, 2, "CURRENT"), (2, 1, "CURRENT"))
    with ledger.store.begin() as c:
        where = (schema.generations.c.window_ms < 2 * HOUR) & (schema.generations.c.number == 1)
        c.execute(update(schema.generations).where(where).values(location="file:///t/hour=00"))
    assert ledger.due.located(NAME, Interval(0, 9 * HOUR), "file:///t/hour=00") == [0, HOUR]
    assert ledger.due.located(NAME, Interval(1, HOUR), "file:///t/hour=00") == []
    assert ledger.due.located(NAME, Interval(0, HOUR), "file:///t/hour=00") == [0]
    assert ledger.due.located(NAME, Interval(0, 9 * HOUR), "file:///t/hour=01") == []
