"""The database's clock, on SQLite and PostgreSQL: deadlines, and the times of rows, whatever a host's clock says."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import select

from tests.contract.ledgers import NAME, WINDOW, built, url
from tests.contract.test_ledger_swap import HOUR
from tests.world import make_pipeline
from tidegate.core.base.errors import CatalogueUnsure
from tidegate.ledger import SqlLedger, schema, store

__all__ = ["url"]  # fixture

QUARTER_MS = 900_000


def test_deadlines_and_times_are_the_databases(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = SqlLedger(url, "slow"), SqlLedger(url, "fast")
    began_ms = real_ms = time.time_ns() // 1_000_000
    monkeypatch.setattr(store.time, "time_ns", lambda: (began_ms - QUARTER_MS) * 1_000_000)  # this host is slow
    assert slow.store.now_ms() == began_ms - QUARTER_MS
    assert abs(slow.now_ms() - real_ms) < 60_000
    slow.pipelines.register(make_pipeline("file:///lake/t"), "fingerprint")
    first = slow.windows.publish(slow.windows.begin_swap(built(slow), HOUR), HOUR, "cert")
    assert abs(first.published_ms - real_ms) < 60_000
    with slow.store.begin() as c:
        times = list(c.scalars(select(schema.events.c.at_ms)))
        row = c.execute(select(schema.generations)).one()
        closed_ms = c.scalar(select(schema.windows.c.closed_ms))
    for at_ms in (*times, row.began_ms, row.built_ms, row.published_ms, closed_ms):
        assert 0 <= at_ms - began_ms < 60_000
    call_id = slow.windows.declare_intent(first, HOUR, ttl_ms=5_000)
    monkeypatch.setattr(store.time, "time_ns", lambda: (began_ms + QUARTER_MS) * 1_000_000)  # the other one is fast
    number = fast.windows.begin_generation(NAME, WINDOW, 1, "replay")
    taken = fast.windows.take(NAME, WINDOW, number, "n")
    second = fast.windows.begin_swap(fast.windows.built(taken, "file:///assembled/2", first.files), HOUR)
    with pytest.raises(CatalogueUnsure):
        fast.windows.declare_intent(second, HOUR, ttl_ms=5_000)
    (facts,) = fast.cleaning.generations(NAME, [(WINDOW.start_ms, 1)]).values()
    assert facts.doubts
    fast.windows.answer_intent(call_id)
    late = fast.windows.declare_intent(second, HOUR, ttl_ms=1)
    time.sleep(0.05)
    (facts,) = fast.cleaning.generations(NAME, [(WINDOW.start_ms, 1)]).values()
    assert not facts.doubts, "its deadline has passed"
    assert fast.windows.publish(second, HOUR, "cert").number == number
    with fast.store.begin() as c:
        assert c.scalar(select(schema.intents.c.call_id)) is None, f"{late} is forgotten"
    slow.close()
    fast.close()
