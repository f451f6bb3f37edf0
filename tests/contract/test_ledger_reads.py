"""What the ledger shows is the same on SQLite and PostgreSQL, and of one instant."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert, select
from sqlalchemy.engine import make_url

from tests.world import HOUR, T0, World, record, window
from tidegate.core.audit.problems import Books
from tidegate.core.base.errors import LostComparison
from tidegate.core.base.offsets import Interval
from tidegate.ledger import SqlLedger, reads_audit
from tidegate.ledger.migrate import migrate
from tidegate.ledger.schema import metadata
from tidegate.spec import fingerprint
from tidegate.workflow.batch import ingest

NAME, NOW = "readings", T0 + 101 * HOUR


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
        "overviews": [reads.overviews([NAME, "nobody"], events) for events in (1, 5)],
        "spine": reads.spine(NAME),
        "slabs": (reads.slabs(NAME), reads.slabs(NAME, 3)),
        "batch pages": list(reads.batch_pages(NAME, 1, 3)),
        "window pages": list(reads.window_pages(NAME)),
        "offsets": reads.offsets(NAME, [(0, 0), (0, 3), (0, 4), (0, 6), (0, 7), (1, 1), (7, 0)]),
        "window": reads.window(NAME, window(0)),
        "untouched window": reads.window(NAME, window(9)),
        "landed": reads.landed(NAME),
        "landed upto": [reads.landed_upto_each({NAME: i, "nobody": i}) for i in (None, 0, 1, 2, 3, 9)],
        "earlier facts": reads.earlier_each([NAME, "nobody"]),
        "late windows": reads.late_windows([NAME, "nobody"]),
        "answers": reads.answers([NAME, "nobody"]),
        "grounds": [ledger.windows.grounds(NAME, window(h), (1, 2), late) for h in range(3) for late in ((), (2,))],
        "events": reads.events(NAME, 5),
        "about": reads.events(NAME, 5, "batch 1"),
        "newest": reads.newest_event(NAME),
        "survey": reads.survey([NAME, "nobody"], NOW),
        "progress": [reads.progress([NAME], NOW + later) for later in (0, 3_600_000)],
        "published": reads.published_within_each(
            {NAME: [Interval(0, 2**62), Interval(5, 9)], "nobody": [Interval(0, 9)]}
        ),
        "nobody": (reads.survey(["nobody"], NOW), reads.spine("nobody"), reads.newest_event("nobody")),
    }


def test_the_same_on_both(sqlite: SqlLedger, postgres_copy: SqlLedger) -> None:
    there = everything(postgres_copy)
    assert there == everything(sqlite)
    survey = there["survey"][NAME]  # type: ignore[index]
    assert all(type(n) is int for n in survey.totals.balance.terms()), "PostgreSQL sums to Decimal"


def test_what_is_shown(sqlite: SqlLedger, world: World) -> None:
    overview, survey = sqlite.reads.overviews([NAME])[NAME], sqlite.reads.survey([NAME], NOW)[NAME]
    assert survey.totals.balance.text() == "read 8 = data 6 + late 1 + dirty 1 + filtered 0 + dropped 0"
    assert overview.batches == {"LANDED": 2, "PLANNED": 1}
    for open_batch in (overview.open_batch, survey.open_batch):
        assert open_batch is not None
        assert (open_batch.batch_id, open_batch.records) == (3, 1)
    assert overview.newest_landed is not None
    assert overview.newest_landed.batch_id == 2
    assert survey.progress.ends == {0: 7, 1: 2}
    assert (survey.published.rows, survey.begun) == (2, True)
    assert list(survey.blocks) == sqlite.pipelines.blocks(NAME)
    assert sqlite.windows.earlier_facts(NAME) == sqlite.reads.earlier_each([NAME, "nobody"])[NAME]
    assert overview.events[0].what == "blocked"
    view = sqlite.reads.window(NAME, window(0))
    assert [(t.batch_id, t.kind, t.rows) for t in view.totals] == [(1, "data", 2), (2, "late", 1)]
    assert [b.batch_id for b in view.batches] == [1, 2]
    assert view.window is not None
    assert view.window.blocked == "odd"
    assert sqlite.reads.spec_version(NAME, fingerprint(world.pipeline)) == 1
    assert sqlite.reads.landed_upto_each({NAME: 2})[NAME].facts == sqlite.windows.facts(NAME)
    assert sqlite.windows.earlier_facts(NAME) == sqlite.reads.landed_upto_each({NAME: 1})[NAME].facts
    assert sqlite.windows.earlier_facts("nobody").batch_id is None
    grounds = sqlite.windows.grounds(NAME, window(0), (1, 2), (2,))
    assert [(b.batch_id, b.rows, b.late) for b in grounds.batches] == [(1, 2, False), (2, 1, True)]
    assert grounds.rows == 3
    assert sqlite.windows.grounds(NAME, window(0), (1,)).rows == 2


def test_pages_are_cut_and_miss_nothing(sqlite: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = (list(sqlite.reads.batch_pages(NAME, 1, 3)), list(sqlite.reads.window_pages(NAME)))
    assert [b.batch_id for b in whole[0][0].batches] == [1, 2, 3]
    assert [w.window_ms for w in whole[1]] == [window(h).start_ms for h in range(4)]
    monkeypatch.setattr(reads_audit, "PAGE_FILES", 1)
    monkeypatch.setattr(reads_audit, "PAGE_BATCHES", 1)
    pages = list(sqlite.reads.batch_pages(NAME, 1, 3))
    assert [[b.batch_id for b in page.batches] for page in pages] == [[1], [2], [3]]
    assert [b for page in pages for b in page.batches] == list(whole[0][0].batches)
    assert {i: f for page in pages for i, f in page.files.items()} == whole[0][0].files
    assert list(sqlite.reads.window_pages(NAME)) == whole[1]
    assert list(sqlite.reads.batch_pages(NAME, 1, 0)) == []


def test_what_lands_after_the_spine_counts_as_it_was(sqlite: SqlLedger, world: World) -> None:
    """Batch 3 lands between the audit's snapshot and the pages: it is under way, and nothing is wrong."""
    spine = sqlite.reads.spine(NAME)
    assert spine is not None
    world.ingest("r3")
    books, problems = Books(spine), []
    for page in sqlite.reads.batch_pages(NAME, 1, spine.next_batch_id - 1):
        for batch in map(books.as_of_then, page.batches):
            problems += books.batch(batch, page.files.get(batch.batch_id, ()))
    for page in sqlite.reads.window_pages(NAME):
        current = next((g for g in page.generations if g.state == "CURRENT"), None)
        problems += books.window(page, current)
    assert [p for p in [*problems, *books.sums()] if "blocked" not in p.what] == []
    assert books.totals().unfinished == 1
    assert (books.totals().published, books.totals().waiting) == (2, 4)


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
