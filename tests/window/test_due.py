"""Which windows are due, and what it costs to know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, insert

from tests.world import HOUR, T0, World, record, window
from tidegate.core.base.instants import MINUTE_MS
from tidegate.core.base.offsets import Interval
from tidegate.core.window.due import ArchiveNote, Due, RunsSeen
from tidegate.ledger import schema
from tidegate.workflow.base.context import Context
from tidegate.workflow.maintain import reconcile


def hours(*numbers: int) -> list[int]:
    return [T0 + n * HOUR for n in numbers]


def part(first: int, end: int) -> Interval:
    return Interval(T0 + first * HOUR, T0 + end * HOUR)


# ---------------------------------------------------------------- the ledger


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


@contextmanager
def statements(ctx: Context) -> Iterator[list[str]]:
    """Every SELECT, in order."""
    asked: list[str] = []

    def executed(connection: object, cursor: object, statement: str, *_: object) -> None:
        if statement.lstrip().startswith("SELECT"):
            asked.append(statement)

    engine = ctx.ledger.unwrapped.store.engine  # type: ignore[attr-defined]
    event.listen(engine, "after_cursor_execute", executed)
    try:
        yield asked
    finally:
        event.remove(engine, "after_cursor_execute", executed)


def passed(world: World, hour: int) -> None:
    """A batch after which the watermark is at the start of `hour`."""
    world.produce(record("x", hour + 1))
    world.ingest(f"to {hour}")


def publish_directly(world: World, starts: list[int]) -> None:
    """Rows of generations in force, as if archive runs had made them."""
    rows = [
        {"pipeline": "readings", "window_ms": s, "number": 1, "state": "CURRENT", "epoch": 1, "nonce": "n",
         "kind": "archive"} for s in starts
    ]  # fmt: skip
    with world.context().ledger.unwrapped.store.begin() as c:  # type: ignore[attr-defined]
        c.execute(insert(schema.generations), rows)


def test_a_published_hour_is_not_due_and_stays_so_when_it_is_published_again(world: World) -> None:
    passed(world, 4)
    world.archive(1)
    world.archive(3)
    assert list(reconcile.due(world.context())) == [window(0), window(2)]
    reconcile.maintain(world.context())
    assert world.context().ledger.due.note("readings").published == (part(1, 2), part(3, 4))
    world.replay(1)
    world.archive(2)
    assert list(reconcile.due(world.context())) == [window(0)]
    reconcile.maintain(world.context())
    assert world.context().ledger.due.note("readings").published == (part(1, 4),)


def test_an_earlier_start_makes_its_windows_due(world: World) -> None:
    passed(world, 2)
    world.archive(0)
    world.archive(1)
    reconcile.maintain(world.context())
    world.change_spec(windows=replace(world.pipeline.windows, start_ms=T0 - 2 * HOUR))
    assert list(reconcile.due(world.context())) == [window(-2), window(-1)]


def test_a_note_remembers_what_the_runs_are_like(world: World) -> None:
    passed(world, 2)
    reconcile.maintain(world.context())
    assert world.context().ledger.due.note("readings") is None
    seen = RunsSeen(paused=False, ended=(T0,))
    reconcile.maintain(world.context(), seen)
    noted = world.context().ledger.due.note("readings")
    assert noted == ArchiveNote((), False, (T0,), world.clock.now_ms())
    world.archive(1)
    world.clock.advance(1000)
    reconcile.maintain(world.context())
    again = world.context().ledger.due.note("readings")
    assert again == replace(noted, published=(part(1, 2),))


def test_of_two_that_note_at_once_one_is_heard(world: World) -> None:
    ledger = world.context().ledger.due
    first, second = ArchiveNote(noted_ms=1), ArchiveNote(noted_ms=2)
    ledger.save("readings", first, None)
    ledger.save("readings", second, first)
    passed(world, 1)
    with pytest.raises(Exception, match="somebody else has looked since"):
        ledger.save("readings", ArchiveNote(noted_ms=3), first)
    assert ledger.note("readings") == second


def test_years_of_quarters_cost_a_few_statements_and_rows(world: World) -> None:
    """All windows are published but for two; the next look reads what is new and the holes."""
    quarter, count = 15 * MINUTE_MS, 5_000
    windows = replace(world.pipeline.windows, size_ms=quarter, start_ms=T0)
    world.change_spec(windows=windows)
    starts = [T0 + n * quarter for n in range(count)]
    holes = [starts[1000], starts[4_000]]
    publish_directly(world, [s for s in starts if s not in holes])
    world.clock.advance(count * quarter)
    world.produce(record("x", (count * quarter + HOUR) / HOUR))
    world.ingest("far")
    reconcile.note_archive(world.context())
    publish_directly(world, [starts[-1] + quarter])
    world.produce(record("y", ((count + 3) * quarter + HOUR) / HOUR))
    world.ingest("further")
    ctx = world.context()
    rows: list[int] = []
    known = ctx.ledger.due.published_within

    def counted(name: str, parts: list[Interval]) -> list[int]:
        rows.append(sum(len(p) for p in parts) // quarter)
        return known(name, parts)

    ctx.ledger.due.published_within = counted  # type: ignore[method-assign]
    with statements(ctx) as selects:
        found = reconcile.due(ctx)
    assert [k.start_ms for k in found] == [*holes, starts[-1] + 2 * quarter, starts[-1] + 3 * quarter]
    assert rows == [5]  # windows that were looked at
    assert len(selects) <= 6


def test_the_windows_of_a_part_are_found_by_their_key(world: World) -> None:
    """Not by the index of states, which has an entry for every published window."""
    publish_directly(world, hours(0, 1, 5))
    ctx = world.context()
    engine = ctx.ledger.unwrapped.store.engine  # type: ignore[attr-defined]
    asked: list[tuple[str, tuple]] = []
    event.listen(engine, "before_cursor_execute", told := lambda c, cur, s, p, *_: asked.append((s, p)))
    assert ctx.ledger.due.published_within("readings", [part(0, 1), part(4, 6)]) == hours(0, 5)
    event.remove(engine, "before_cursor_execute", told)
    statement, parameters = next((s, p) for s, p in asked if "generations" in s)
    with ctx.ledger.unwrapped.store.begin() as c:  # type: ignore[attr-defined]
        plan = " ".join(str(row) for row in c.exec_driver_sql("EXPLAIN QUERY PLAN " + statement, parameters))
    assert "ix_generations_state" not in plan
    assert "window_ms>" in plan


def test_a_plan_of_nothing_asks_nothing(world: World) -> None:
    assert world.context().ledger.due.published_within("readings", []) == []
    assert reconcile.due(world.context()) == Due(world.pipeline.windows, ())
