"""Running sums in the ledger, on SQLite and PostgreSQL: always what adding up everything would give."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import event, select, update

from tests.contract.ledgers import (  # noqa: F401 (fixtures)
    NAME,
    ledger,
    manifest,
    now,
    open_ledger,
    plan,
    planned,
    url,
)
from tests.contract.test_ledger_redrives import dirty_batch, insert, sealed
from tests.full_sums import full_sums
from tests.world import make_pipeline
from tidegate.core.base.errors import LostComparison
from tidegate.core.base.plain import to_plain
from tidegate.core.batch.states import DirtySource, PlannedBatch
from tidegate.core.files.receipt import RangeResult
from tidegate.core.files.slow_path import Slow
from tidegate.ledger import SqlLedger, schema
from tidegate.ledger import totals as sums


def standing(ledger: SqlLedger) -> tuple[int, str] | None:  # noqa: F811
    with ledger.store.begin() as c:
        row = c.execute(select(schema.totals)).first()
    return None if row is None else (row.through_batch, row.content)


def seen(ledger: SqlLedger) -> dict:  # noqa: F811
    with ledger.store.begin() as c:
        return to_plain(sums.totals(c, [NAME])[NAME])


def advance(ledger: SqlLedger) -> None:  # noqa: F811
    while ledger.totals.advance(NAME):
        pass


def one_more(ledger: SqlLedger, batch_id: int, offset: int, rng: random.Random, now: list[int]) -> int:  # noqa: F811
    """A batch that ends in a random way; the next offset."""
    count = rng.randint(1, 9)
    now[0] += rng.randint(0, 5_000)
    end = rng.choice(("landed", "landed", "landed", "abandoned", "withdrawn"))
    wanted = plan(batch_id, offset, offset + count)
    ledger.batches.insert_plan(wanted, ledger.batches.planning_view(NAME).version, None)
    batch = PlannedBatch(wanted)
    if end == "withdrawn":
        advance(ledger)
        ledger.recovery.withdraw(batch, "a test")
        return offset
    now[0] += rng.randint(-100, 5_000)  # another host's clock may be behind
    for _ in range(rng.randint(1, 2)):
        batch = ledger.batches.take(batch, f"n{rng.random()}")
    if end == "abandoned":
        ledger.batches.abandon(batch, "a test")
        return offset + count
    read = rng.randint(0, count)
    data, late = rng.randint(0, read), 0
    late = rng.randint(0, read - data)
    dirty = read - data - late - rng.choice((0, 0, 0, -1))  # the last: a broken promise
    result = RangeResult(
        range=batch.plan.ranges[0],
        read=read,
        data=data,
        late=late,
        dirty=dirty,
        filtered=0,
        dropped=0,
        gaps=(),
        min_event_ms=None,
        max_event_ms=None,
        bytes=read * 7,
    )
    receipt = replace(manifest(batch), ranges=(result,), files=(), seconds=rng.random() * 9)
    batch = ledger.batches.seal(batch, receipt)
    advance(ledger)
    now[0] += rng.randint(-100, 5_000)
    ledger.batches.land(batch)
    return offset + count


@pytest.mark.parametrize("most", [1, 3, 20_000])
def test_running_sums_are_the_full_sums(ledger, now, rng, monkeypatch, most: int) -> None:  # noqa: F811
    monkeypatch.setattr(sums, "MOST", most)
    offset = 0
    assert seen(ledger) == full_sums(ledger.store.engine, NAME)
    for _ in range(14):
        row = ledger.pipelines.row(NAME)
        assert row is not None
        offset = one_more(ledger, row.next_batch_id, offset, rng, now)
        assert seen(ledger) == full_sums(ledger.store.engine, NAME)
        if rng.random() < 0.5:
            ledger.totals.advance(NAME)
            assert seen(ledger) == full_sums(ledger.store.engine, NAME)
    advance(ledger)
    through = standing(ledger)
    row = ledger.pipelines.row(NAME)
    assert row is not None
    last = row.next_batch_id - 1
    ends = {None, last}
    if last and ledger.batches.get(NAME, last).state == "ABANDONED":
        # storage may say that it has landed, while it is the newest; it was final if a later one was withdrawn since
        ends.add(last - 1)
    assert (through and through[0]) in ends
    assert seen(ledger) == full_sums(ledger.store.engine, NAME)


def test_rows_that_a_redrive_takes_are_counted_once(ledger) -> None:  # noqa: F811
    dirty_batch(ledger)
    advance(ledger)
    batch = sealed(ledger, insert(ledger))
    assert seen(ledger) == full_sums(ledger.store.engine, NAME)
    ledger.batches.land(batch)  # of the two rows it takes, one is dirty again
    assert seen(ledger) == full_sums(ledger.store.engine, NAME)
    assert seen(ledger)["taken"] == 2
    advance(ledger)
    assert seen(ledger) == full_sums(ledger.store.engine, NAME)
    for flag in ("moved", "registered"):
        ledger.batches.mark_side(NAME, 2, flag)
    again = insert(ledger, 3, (DirtySource(2, 0, 1, 4, 4),))
    writing = ledger.batches.take(again, "n3")
    result = RangeResult(
        range=again.plan.ranges[0],
        read=1,
        data=0,
        late=0,
        dirty=1,
        filtered=0,
        dropped=0,
        gaps=(),
        min_event_ms=None,
        max_event_ms=None,
    )
    ledger.batches.land(ledger.batches.seal(writing, replace(manifest(writing), ranges=(result,), files=())))
    advance(ledger)
    found = seen(ledger)
    assert found == full_sums(ledger.store.engine, NAME)
    assert found["taken"] == 3
    assert ledger.reads.survey([NAME], 0)[NAME].totals.dirty_now == 1


def test_a_survey_has_the_slow_messages_of_the_newest_landed_batch(ledger) -> None:  # noqa: F811
    slow = (Slow("dirty", 3), Slow("time format", 1))
    for batch_id, kept in ((1, slow), (2, ())):
        writing = ledger.batches.take(planned(ledger, batch_id, batch_id * 5 - 5, batch_id * 5), "n")
        sealed_one = ledger.batches.seal(writing, replace(manifest(writing), slow=kept, slow_seconds=1.5))
        assert ledger.batches.get(NAME, batch_id).manifest == sealed_one.manifest
        ledger.batches.land(sealed_one)
        assert ledger.reads.survey([NAME], 0)[NAME].slow == kept
        assert ledger.reads.batch(NAME, batch_id)[1].slow == kept


def test_an_open_batch_is_not_final(ledger) -> None:  # noqa: F811
    batch = planned(ledger)
    assert not ledger.totals.advance(NAME)
    assert standing(ledger) is None
    writing = ledger.batches.take(batch, "n1")
    ledger.batches.seal(writing, manifest(writing))
    assert not ledger.totals.advance(NAME)
    assert standing(ledger) is None


@pytest.mark.parametrize("first", [True, False])
def test_of_two_at_once_one_adds(open_ledger: Callable[[], SqlLedger], ledger, first: bool, monkeypatch) -> None:  # noqa: F811
    """Both have read the same row; the second one finds another and changes nothing."""
    dirty_batch(ledger)
    if not first:
        advance(ledger)
        ledger.batches.land(sealed(ledger, insert(ledger)))
    with ledger.store.begin() as c:
        stale = sums.row_of(c, schema.totals, pipeline=NAME)
    advance(ledger)
    before = standing(ledger)
    monkeypatch.setattr(sums, "row_of", lambda *_, **__: stale)
    with pytest.raises(LostComparison):
        open_ledger().totals.advance(NAME)
    monkeypatch.undo()
    assert standing(ledger) == before
    assert seen(ledger) == full_sums(ledger.store.engine, NAME)


@pytest.mark.parametrize(
    "content", ['{"taken":1}', "{}", "no JSON", '{"ingested":{},"redriven":{},"steps":{},"taken":0}']
)
def test_sums_of_another_version_are_made_again(ledger, content: str) -> None:  # noqa: F811
    dirty_batch(ledger)
    advance(ledger)
    with ledger.store.begin() as c:
        c.execute(update(schema.totals).values(content=content))
    assert seen(ledger) == full_sums(ledger.store.engine, NAME)
    advance(ledger)
    assert standing(ledger) != (1, content)
    assert seen(ledger) == full_sums(ledger.store.engine, NAME)


def test_many_pipelines_cost_four_statements(ledger) -> None:  # noqa: F811
    dirty_batch(ledger)
    names = [NAME, *(f"other_{i}" for i in range(300))]
    ledger.pipelines.register(replace(make_pipeline("file:///lake/o"), name=names[1]), "other")
    told: list[str] = []
    event.listen(ledger.store.engine, "before_cursor_execute", lambda *a: told.append(a[2]))
    with ledger.store.begin() as c:
        told.clear()
        found = sums.totals(c, names)
        assert len(told) == 4, told
    assert found.keys() == set(names)
    assert found[NAME].ingested.read == 5
    assert found[names[1]] == sums.Totals()
