"""Of two transactions at once exactly one wins, on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from sqlalchemy.engine import make_url

from tests.contract.ledgers import (
    NAME,
    WINDOW,
    bare_url,
    built,
    closed,
    ledger,
    manifest,
    now,
    open_ledger,
    plan,
    planned,
    url,
)
from tidegate.core.base.errors import LedgerError, LostComparison
from tidegate.core.batch.states import PlannedBatch, WritingBatch
from tidegate.ledger import SqlLedger

__all__ = ["bare_url", "ledger", "now", "open_ledger", "url"]  # fixtures


# ---------------------------------------------------------------- races


@pytest.mark.parametrize("what", ["plan", "take", "seal", "assemble", "swap", "begin"])
def test_of_two_at_once_exactly_one_wins(open_ledger: Callable[[], SqlLedger], ledger: SqlLedger, what: str) -> None:
    """Two connections, one barrier: every transition has one winner and one LostComparison."""
    if what == "plan":
        view = ledger.batches.planning_view(NAME)
        race = [lambda me, r=r: me.batches.insert_plan(plan(), view.version, r) for r in ("a", "b")]
    elif what == "take":
        batch = planned(ledger)
        race = [lambda me, n=n: me.batches.take(batch, n) for n in ("a", "b")]
    elif what == "seal":
        writing = ledger.batches.take(planned(ledger), "n")
        race = [lambda me: me.batches.seal(writing, manifest(writing))] * 2
    elif what == "assemble":
        closed(ledger)
        taken = ledger.windows.take(NAME, WINDOW, 1, "n")
        race = [lambda me: me.windows.built(taken, "file:///x", [])] * 2
    elif what == "swap":
        generation = built(ledger)
        race = [lambda me: me.windows.begin_swap(generation)] * 2
    else:
        ledger.windows.publish(ledger.windows.begin_swap(built(ledger)), "file:///1", "c")
        race = [lambda me: me.windows.begin_generation(NAME, WINDOW, 1, "replay")] * 2
    barrier, outcomes = threading.Barrier(2), []

    def run(step: Callable[[SqlLedger], object]) -> None:
        me = open_ledger()
        me.pipelines.row(NAME)  # connected before the start
        barrier.wait()
        try:
            step(me)
            outcomes.append("won")
        except LostComparison:
            outcomes.append("lost")

    threads = [threading.Thread(target=run, args=(step,)) for step in race]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(outcomes) == ["lost", "won"]


def test_a_client_that_stands_still_in_its_transaction_holds_nobody_up_for_ever(
    url: str, ledger: SqlLedger, open_ledger: Callable[[], SqlLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen host answers no keepalive: its row locks end with the session, and its commit never comes."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite has no sessions: a lock ends with its process")
    monkeypatch.setattr("tidegate.ledger.store.IDLE_MS", 1000)  # less, and a busy machine is idle as long
    ledger.batches.insert_plan(plan(), 1, "run-1")
    frozen = open_ledger()
    patient = make_url(url).update_query_dict({"options": "-c lock_timeout=120s"})
    successor = SqlLedger(patient.render_as_string(hide_password=False), "test")

    def stand_still() -> None:
        with frozen.store.begin() as c:
            c.exec_driver_sql("UPDATE batches SET nonce = 'late' WHERE pipeline = 'readings'")
            successor.batches.take(PlannedBatch(plan()), "n1")  # waits for the row
            c.exec_driver_sql("SELECT 1")

    with pytest.raises(LedgerError):
        stand_still()
    successor.close()
    assert ledger.batches.get(NAME, 1) == WritingBatch(plan(), 1, "n1")
