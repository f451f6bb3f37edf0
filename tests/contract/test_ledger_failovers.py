"""Switches of the source's site, on SQLite and PostgreSQL: one comparison, or nothing (F4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contract.ledgers import NAME, landed, ledger, now, open_ledger, plan, url
from tidegate.core.base.errors import LostComparison
from tidegate.core.base.offsets import Interval
from tidegate.core.failover.crossing import Crossing
from tidegate.core.failover.states import Certificate, Switch
from tidegate.ledger import SqlLedger

__all__ = ["ledger", "now", "open_ledger", "url"]  # fixtures

STRETCHES = {"id-b": {0: (Interval(0, 4), Interval(6, 8))}, "id-1": {0: (Interval(5, 7),)}}


def switch(ledger: SqlLedger) -> Switch:
    """From the first site, where batch 1 has landed and batch 2 is planned."""
    landed(ledger)
    ledger.batches.insert_plan(plan(2, 5, 9), ledger.batches.planning_view(NAME).version, "r2")
    view = ledger.batches.planning_view(NAME)
    crossing = Crossing(partition=0, landed=5, crossed=7, base=0, mark=8, stretches=STRETCHES["id-b"][0])
    certificate = Certificate(topic="t", before_topic_id="id-1", topic_id="id-b", stopped="told", crossings=(crossing,))
    return Switch(
        pipeline=NAME,
        version=view.version,
        number=1,
        site="b",
        before="a",
        certificate=certificate,
        withdrawn=view.open_batch,
        stretches=STRETCHES,
    )


def test_a_switch_changes_all_at_once(ledger: SqlLedger) -> None:
    wanted = switch(ledger)
    assert ledger.failovers.newest(NAME) is None
    assert ledger.batches.planning_view(NAME).site is None
    ledger.failovers.switch(wanted, "away")
    newest = ledger.failovers.newest(NAME)
    assert newest is not None
    assert (newest.number, newest.site, newest.before, newest.why) == (1, "b", "a", "away")
    assert newest.certificate == wanted.certificate
    assert ledger.failovers.history(NAME) == [newest]
    view = ledger.batches.planning_view(NAME)
    assert (view.site, view.accepted_topic_id, view.open_batch, view.next_batch_id) == ("b", "id-b", None, 2)
    assert (view.planned_ends, view.begun, view.stretches) == ({}, True, STRETCHES["id-b"])
    assert view.version > wanted.version
    assert ledger.failovers.stretches(NAME, "id-1") == STRETCHES["id-1"]
    spine = ledger.reads.spine(NAME)
    assert spine is not None
    assert spine.stretches == STRETCHES


def test_a_switch_loses_to_whatever_came_between(ledger: SqlLedger) -> None:
    wanted = switch(ledger)
    ledger.batches.take(wanted.withdrawn, "n")  # type: ignore[arg-type]
    for other in (
        wanted,  # the batch is another one by now
        replace(wanted, version=wanted.version - 1, withdrawn=ledger.batches.open(NAME)),
        replace(wanted, number=2, withdrawn=ledger.batches.open(NAME)),
    ):
        with pytest.raises(LostComparison):
            ledger.failovers.switch(other, "too late")
    assert ledger.failovers.newest(NAME) is None
    assert ledger.failovers.stretches(NAME, "id-b") == {}
    ledger.failovers.switch(replace(wanted, withdrawn=ledger.batches.open(NAME)), "now")
    with pytest.raises(LostComparison):
        ledger.failovers.switch(replace(wanted, withdrawn=None), "twice")


def test_ends_are_noted_once_and_for_the_newest_switch(ledger: SqlLedger) -> None:
    ledger.failovers.switch(switch(ledger), "away")
    with pytest.raises(LostComparison):
        ledger.failovers.note_ends(NAME, 2, "a", {0: 9})
    ledger.failovers.note_ends(NAME, 1, "a", {0: 9, 1: 0})
    assert ledger.failovers.noted(NAME, 1, "a") == {0: 9, 1: 0}
    assert ledger.failovers.noted(NAME, 1, "c") == ledger.failovers.noted(NAME, 2, "a") == {}
    with pytest.raises(LostComparison):
        ledger.failovers.note_ends(NAME, 1, "a", {0: 10, 1: 0})


def test_a_switch_that_was_lost_comes_back_as_it_was(ledger: SqlLedger) -> None:
    wanted = switch(ledger)
    ledger.failovers.switch(wanted, "away")
    record = ledger.failovers.record(NAME, 1)
    with pytest.raises(LostComparison):
        ledger.failovers.restore(record, None, "it is there")
    with ledger.store.begin() as c:
        for table in ("failovers", "stretches"):
            c.exec_driver_sql(f"DELETE FROM {table}")
        c.exec_driver_sql("UPDATE pipelines SET topic_id = 'id-1'")
    ledger.failovers.restore(record, None, "a replica was promoted")
    assert ledger.failovers.record(NAME, 1) == record
    assert ledger.batches.planning_view(NAME).stretches == STRETCHES["id-b"]
