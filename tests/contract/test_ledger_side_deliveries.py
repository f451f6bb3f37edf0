"""Batches of late and dirty tables as units of deliveries: versions, files, what has to leave first (D9, D11)."""

from __future__ import annotations

import pytest

from tests.contract.ledgers import NAME, built, ledger, now, open_ledger, url
from tests.contract.test_ledger_deliveries import PLACE
from tests.contract.test_ledger_redrives import dirty_batch, insert, sealed
from tests.contract.test_ledger_reopenings import begun, late_batch, published
from tidegate.core.base.errors import LostComparison
from tidegate.core.deliver.port import Content
from tidegate.core.deliver.states import Delivered, Due, Version
from tidegate.core.files.receipt import manifest_digest
from tidegate.core.spec.pipeline import Delivery
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures
LATE, DIRTY = "site.late", "site.dirty"
SIDES = ("late", "dirty")


def due(ledger: SqlLedger, delivery: str) -> list[tuple[int, int]]:
    """(batch, version)"""
    return [(one.window_ms, one.generation) for one in ledger.deliveries.due(NAME, delivery, None, 9)]


def one_due(ledger: SqlLedger, delivery: str, batch_id: int) -> Due:
    (found,) = [d for d in ledger.deliveries.due(NAME, delivery, None, 9) if d.window_ms == batch_id]
    return found


def taken(ledger: SqlLedger, delivery: str, one: Due) -> Delivered:
    return ledger.deliveries.take(NAME, delivery, one, "digest", "aa")


def stands(ledger: SqlLedger, delivery: str, batch_id: int) -> None:
    row = taken(ledger, delivery, one_due(ledger, delivery, batch_id))
    ledger.deliveries.stands(row, Content(rows=1, checksum=1), PLACE)


def hour(ledger: SqlLedger) -> Due:
    (one,) = ledger.deliveries.due(NAME, "site", None, 9)
    return one


def test_late_rows_that_are_taken_up_make_a_version(ledger: SqlLedger, now: list[int]) -> None:
    published(ledger, built(ledger))
    now[0] += 5
    late_batch(ledger)
    assert (due(ledger, LATE), due(ledger, DIRTY)) == ([(2, 1)], [])
    one = one_due(ledger, LATE, 2)
    assert (one.published_ms, one.side, one.unit) == (now[0], "late", "batch 2")
    row = taken(ledger, LATE, one)
    assert ledger.deliveries.holds(row)
    version, files = ledger.deliveries.side_files(NAME, "late", 2)
    assert (version, [f.rows for f in files]) == (1, [2])
    assert ledger.deliveries.not_left(NAME, "site", hour(ledger), SIDES) == []

    now[0] += 5
    published(ledger, begun(ledger, 1), 2)
    assert (due(ledger, LATE), ledger.deliveries.side_files(NAME, "late", 2)) == ([(2, 2)], (2, []))
    assert one_due(ledger, LATE, 2).published_ms == now[0]
    assert not ledger.deliveries.holds(row), "a newer version overtakes a try"
    with pytest.raises(LostComparison, match="generation 1 of batch 2 is not in force any more"):
        taken(ledger, LATE, one)
    again = hour(ledger)
    assert again.generation == 2
    assert ledger.deliveries.not_left(NAME, "site", again, SIDES) == [("late", 2)]
    assert ledger.deliveries.not_left(NAME, "site", again, ("dirty",)) == []
    assert ledger.deliveries.not_left(NAME, "other", again, SIDES) == [("late", 2)], "another delivery's table"
    stands(ledger, LATE, 2)
    assert ledger.deliveries.not_left(NAME, "site", again, SIDES) == []
    assert (due(ledger, LATE), due(ledger, "other.late")) == ([], [(2, 2)])


def test_a_batch_that_nobody_has_sent_holds_its_hour_back(ledger: SqlLedger) -> None:
    """A restored ledger has no row of what it has sent."""
    published(ledger, built(ledger))
    late_batch(ledger)
    published(ledger, begun(ledger, 1), 2)
    assert ledger.deliveries.not_left(NAME, "site", hour(ledger), SIDES) == [("late", 2)]
    ledger.deliveries.skip(NAME, LATE, one_due(ledger, LATE, 2), "digest", "not wanted")
    assert ledger.deliveries.not_left(NAME, "site", hour(ledger), SIDES) == []


def test_side_tables_go_where_their_delivery_goes(ledger: SqlLedger) -> None:
    """By the same commit: else the hour could be sent there while its late rows stand in a table there (D11)."""
    published(ledger, built(ledger))
    late_batch(ledger)
    stands(ledger, LATE, 2)
    ledger.deliveries.move(NAME, LATE, None, PLACE, "")
    assert due(ledger, LATE) == []
    assert ledger.deliveries.move(NAME, "site", ledger.deliveries.goes_to(NAME, "site"), "elsewhere", "") == 1
    assert due(ledger, LATE) == [(2, 1)]
    assert ledger.deliveries.goes_to(NAME, LATE) == ledger.deliveries.goes_to(NAME, "site")


def test_what_an_hour_waits_for_is_in_its_backlog(ledger: SqlLedger) -> None:
    published(ledger, built(ledger))
    late_batch(ledger)
    published(ledger, begun(ledger, 1), 2)
    wanted = [Delivery(kind="cluster", name=name, conn_id="c", table="t") for name in ("site", LATE, DIRTY)]
    hours, late, dirty = ledger.reads.backlogs({NAME: wanted})[NAME]
    assert (hours.held_by, late.held_by, dirty.held_by) == ((("late", 2),), (), ())
    assert ledger.reads.backlogs({NAME: wanted[:1]})[NAME][0].held_by == (), "nobody sends the late table"
    stands(ledger, LATE, 2)
    assert ledger.reads.backlogs({NAME: wanted})[NAME][0].held_by == ()


def test_an_audit_reads_versions_as_they_are_sent(ledger: SqlLedger) -> None:
    def versions() -> dict[str, dict[int, tuple[int, int]]]:
        spine = ledger.reads.spine(NAME)
        assert spine is not None
        for side, found in spine.versions.items():
            for batch_id, one in found.items():
                number, files = ledger.deliveries.side_files(NAME, side, batch_id)
                expected = Version(number, sum(f.rows for f in files), manifest_digest(files))
                assert one == expected, "as a delivery sends it"
        return {side: {n: (v.number, v.rows) for n, v in found.items()} for side, found in spine.versions.items()}

    published(ledger, built(ledger))
    late_batch(ledger)
    assert versions() == {}, "nothing was sent"
    stands(ledger, LATE, 2)
    assert versions() == {"late": {2: (1, 2)}}
    published(ledger, begun(ledger, 1), 2)
    assert versions() == {"late": {2: (2, 0)}}


def test_dirty_rows_that_are_redriven_make_a_version(ledger: SqlLedger) -> None:
    dirty_batch(ledger)
    assert (due(ledger, DIRTY), due(ledger, LATE)) == ([(1, 1)], [])
    stands(ledger, DIRTY, 1)
    version, files = ledger.deliveries.side_files(NAME, "dirty", 1)
    assert (version, sum(f.rows for f in files)) == (1, 2)
    ledger.batches.land(sealed(ledger, insert(ledger)))
    assert due(ledger, DIRTY) == [(1, 2), (2, 1)]
    assert ledger.deliveries.side_files(NAME, "dirty", 1) == (2, [])
    spine = ledger.reads.spine(NAME)
    assert spine is not None
    assert {n: (v.number, v.rows) for n, v in spine.versions["dirty"].items()} == {1: (2, 0), 2: (1, 1)}
    mine = one_due(ledger, DIRTY, 2)
    assert ledger.deliveries.not_left(NAME, DIRTY, mine, SIDES) == [("dirty", 1)]
    stands(ledger, DIRTY, 1)
    assert ledger.deliveries.not_left(NAME, DIRTY, mine, SIDES) == []


def test_how_far_a_side_table_is(ledger: SqlLedger) -> None:
    dirty_batch(ledger)
    side = Delivery(name=DIRTY, kind="cluster", conn_id="b", table="t", side="dirty")
    (found,) = ledger.reads.backlogs({NAME: [side]})[NAME]
    assert (found.standing, found.due, found.oldest and found.oldest.unit) == (0, 1, "batch 1")
    stands(ledger, DIRTY, 1)
    (found,) = ledger.reads.backlogs({NAME: [side]})[NAME]
    assert (found.standing, found.due, found.newest_ms) == (1, 0, 1)
    assert ledger.deliveries.side_files(NAME, "dirty", 7) == (0, [])
