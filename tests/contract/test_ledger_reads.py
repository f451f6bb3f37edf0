"""What the ledger shows is the same on SQLite and PostgreSQL, and of one instant."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert, select
from sqlalchemy.engine import make_url

from tests.world import World, record, window
from tidegate.adapters.ledger import SqlLedger
from tidegate.adapters.ledger.migrate import migrate
from tidegate.adapters.ledger.schema import metadata
from tidegate.core.audit import Ledger, check_ledger
from tidegate.core.errors import LostComparison
from tidegate.spec import fingerprint
from tidegate.workflow import ingest

NAME = "readings"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two landed batches, a planned one, a published hour, a late and a dirty row, a block."""
    made = World(tmp_path)
    made.produce(record("a0", 0.1), record("a1", 0.5, "b"), record("b0", 1.2), b"not json")
    made.produce(record("c0", 2.0), record("d0", 3.5), partition=1)
    made.ingest("r1")
    made.archive(0)
    made.produce(record("late", 0.7), record("fine", 1.9))
    made.ingest("r2")
    made.produce(record("next", 3.6))
    ctx = made.context()
    ingest.plan(ctx, "r3")
    ctx.ledger.windows.block(NAME, window(0), "odd")
    yield made
    made.close()


@pytest.fixture
def sqlite(world: World) -> Iterator[SqlLedger]:
    ledger = SqlLedger(f"sqlite:///{world.database}", "reader", world.clock.now_ms)
    yield ledger
    ledger.close()


@pytest.fixture
def postgres_copy(world: World, postgres) -> Iterator[SqlLedger]:
    """The same rows in PostgreSQL."""
    server, name = make_url(postgres.ledger_url), f"reads_{uuid.uuid4().hex[:10]}"
    admin = create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as c:
        c.exec_driver_sql(f"CREATE DATABASE {name}")
    url = server.set(database=name).render_as_string(hide_password=False)
    migrate(url)
    source, target = create_engine(f"sqlite:///{world.database}"), create_engine(url)
    with source.connect() as old, target.begin() as new:
        for table in metadata.sorted_tables:
            rows = [dict(row) for row in old.execute(select(table)).mappings()]
            if rows:
                new.execute(insert(table), rows)
        new.exec_driver_sql("SELECT setval(pg_get_serial_sequence('events', 'id'), (SELECT max(id) FROM events))")
    source.dispose()
    target.dispose()
    ledger = SqlLedger(url, "reader", world.clock.now_ms)
    yield ledger
    ledger.close()
    with admin.connect() as c:
        c.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    admin.dispose()


def everything(ledger: SqlLedger) -> dict[str, object]:
    reads = ledger.reads
    return {
        "names": reads.names(),
        "overview": reads.overview(NAME),
        "books": reads.books(NAME),
        "window": reads.window(NAME, window(0)),
        "untouched window": reads.window(NAME, window(9)),
        "landed": reads.landed(NAME),
        "facts": [reads.facts_after(NAME, i) for i in (1, 2, 3)],
        "events": reads.events(NAME, 5),
        "about": reads.events(NAME, 5, "batch 1"),
        "newest": reads.newest_event(NAME),
        "nobody": (reads.overview("nobody"), reads.books("nobody"), reads.newest_event("nobody")),
    }


def test_the_same_on_both(sqlite: SqlLedger, postgres_copy: SqlLedger) -> None:
    there = everything(postgres_copy)
    assert there == everything(sqlite)
    overview = there["overview"]
    assert all(type(n) is int for n in overview.totals.terms()), "PostgreSQL sums to Decimal"


def test_what_is_shown(sqlite: SqlLedger, world: World) -> None:
    overview = sqlite.reads.overview(NAME)
    assert overview is not None
    assert overview.totals.text() == "read 8 = data 6 + late 1 + dirty 1 + filtered 0 + dropped 0"
    assert overview.batches == {"LANDED": 2, "PLANNED": 1}
    assert overview.open_batch is not None
    assert (overview.open_batch.batch_id, overview.open_batch.records) == (3, 1)
    assert overview.newest_landed is not None
    assert overview.newest_landed.batch_id == 2
    assert overview.planned_ends == {0: 7, 1: 2}
    assert overview.published_rows == 2
    assert overview.events[0].what == "blocked"
    view = sqlite.reads.window(NAME, window(0))
    assert [(t.batch_id, t.kind, t.rows) for t in view.totals] == [(1, "data", 2), (2, "late", 1)]
    assert [b.batch_id for b in view.batches] == [1, 2]
    assert view.window is not None
    assert view.window.blocked == "odd"
    assert sqlite.reads.spec_version(NAME, fingerprint(world.pipeline)) == 1
    assert sqlite.reads.facts_after(NAME, 2) == sqlite.windows.facts(NAME)


def test_books_are_of_one_instant_on_postgres(postgres_copy: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch 3 is taken while the books are read: they show neither the change nor its event."""
    from tidegate.adapters.ledger import reads

    real, taken = reads._batches, []

    def slow(*arguments):
        found = real(*arguments)
        if not taken:
            taken.append(True)
            other = SqlLedger(create_engine(postgres_copy.store.engine.url), "other")
            other.batches.take(other.batches.open(NAME), "n")
            other.close()
        return found

    before = postgres_copy.reads.newest_event(NAME)
    monkeypatch.setattr(reads, "_batches", slow)
    books = postgres_copy.reads.books(NAME)
    assert books is not None
    assert books.newest_event == before, "the event of the change is not seen by a snapshot that lacks the change"
    assert books.batches[-1].state == "PLANNED"
    assert postgres_copy.reads.newest_event(NAME) > before
    assert [p for p in check_ledger(Ledger(books)) if "blocked" not in p.what] == []


@pytest.mark.parametrize("which", ["sqlite", "postgres_copy"])
def test_a_block_is_cleared_by_the_reason_that_was_seen(which: str, request: pytest.FixtureRequest) -> None:
    ledger: SqlLedger = request.getfixturevalue(which)
    with pytest.raises(LostComparison):
        ledger.repairs.clear_window(NAME, window(0), "another reason", "why")
    ledger.repairs.clear_window(NAME, window(0), "odd", "why")
    with pytest.raises(LostComparison):
        ledger.repairs.clear_window(NAME, window(0), "odd", "why")
    assert ledger.pipelines.blocks(NAME) == []
    with pytest.raises(LostComparison):
        ledger.repairs.clear_batch(NAME, 3, "odd", "why")
    assert [e.what for e in ledger.reads.events(NAME, 2)] == ["block cleared", "blocked"]
