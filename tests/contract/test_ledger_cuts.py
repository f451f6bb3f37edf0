"""What the ledger remembers of cut logs, and of how reading goes on, on SQLite and PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.ledgers import NAME, landed, ledger, now, open_ledger, plan, url
from tidegate.core.base.errors import LostComparison
from tidegate.core.base.offsets import Interval
from tidegate.core.source.log_cut import Cut, Resumption, resumption
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

CUT = Cut(0, "id-1", 1, 3, 5, 7)


def version(ledger: SqlLedger) -> int:
    row = ledger.pipelines.row(NAME)
    assert row is not None
    return row.version


def remembered(ledger: SqlLedger, cut: Cut = CUT) -> Cut:
    landed(ledger)
    ledger.cuts.remember(NAME, version(ledger), [cut])
    return cut


@pytest.mark.parametrize("epoch", [7, None])
def test_a_cut_stands_until_it_is_settled_once(ledger: SqlLedger, epoch: int | None) -> None:
    cut = remembered(ledger, replace(CUT, leader_epoch=epoch))
    assert ledger.cuts.open(NAME) == ledger.batches.planning_view(NAME).cuts == (cut,)
    assert [b.subject for b in ledger.pipelines.blocks(NAME)] == ["partition 0"]
    before = version(ledger)
    for other in (replace(cut, start=2), replace(cut, leader_epoch=9), replace(cut, after_batch=2)):
        with pytest.raises(LostComparison):
            ledger.cuts.settle(NAME, other, resumption(other, False, "no"))
    ledger.cuts.settle(NAME, cut, resumption(cut, False, "yes"))
    assert version(ledger) == before + 1
    with pytest.raises(LostComparison):
        ledger.cuts.settle(NAME, cut, resumption(cut, True, "again"))
    view = ledger.batches.planning_view(NAME)
    assert (view.cuts, view.planned_ends, view.skipped, view.rewound) == ((), {0: 3, 1: 0}, {}, 1)
    assert view.epochs == ({} if epoch is None else {0: 7})


def test_a_cut_is_remembered_only_by_whoever_saw_the_newest_plan(ledger: SqlLedger) -> None:
    landed(ledger)
    with pytest.raises(LostComparison):
        ledger.cuts.remember(NAME, version(ledger) - 1, [CUT])
    assert ledger.cuts.open(NAME) == ()


def test_a_skip_is_a_loss_of_the_next_batch(ledger: SqlLedger) -> None:
    cut = remembered(ledger)
    ledger.cuts.settle(NAME, cut, resumption(cut, True, "sent again"))
    view = ledger.batches.planning_view(NAME)
    assert (view.planned_ends, view.skipped, view.rewound) == ({0: 5, 1: 0}, {0: Interval(3, 5)}, 0)


def test_a_decision_holds_for_the_next_batch_alone_and_comes_back_with_it(ledger: SqlLedger) -> None:
    cut = remembered(ledger)
    ledger.cuts.settle(NAME, cut, resumption(cut, False, "x"))
    view = ledger.batches.planning_view(NAME)
    ledger.batches.insert_plan(plan(2, 3, 9), view.version, None)
    assert ledger.batches.planning_view(NAME).planned_ends[0] == 9
    (batch,) = [b for b in (ledger.batches.open(NAME),) if b is not None]
    ledger.recovery.withdraw(batch, "read again")
    assert ledger.batches.planning_view(NAME).planned_ends[0] == 3
    expected = Resumption(
        partition=0, after_batch=1, topic_id="id-1", offset=3, lost_start=None, leader_epoch=7, why="x"
    )
    assert ledger.cuts.resumptions(NAME) == (expected,)
    ledger.cuts.restore(NAME, [expected])
    assert ledger.cuts.resumptions(NAME) == (expected,)


def test_an_accepted_topic_has_none_of_the_old_ones_cuts(ledger: SqlLedger) -> None:
    remembered(ledger)
    ledger.pipelines.accept_topic(NAME, "id-1", "id-2", "recreated")
    view = ledger.batches.planning_view(NAME)
    assert (view.cuts, view.planned_ends, ledger.pipelines.blocks(NAME)) == ((), {}, [])
