"""What the board reads and notes, on SQLite and PostgreSQL: windows and batches in all their states, pages, limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update
from sqlalchemy.engine import Engine

from tests import board_ledger
from tests.contract.ledgers import database, url
from tests.world import HOUR
from tidegate.core.base.offsets import Interval
from tidegate.core.base.plain import dumps
from tidegate.core.look.survey import Block, Head
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.tell.notices import Finding
from tidegate.core.window.cut import window_from, window_id
from tidegate.core.window.states import WindowKey
from tidegate.ledger import SqlLedger, reads_board, schema
from tidegate.ledger.migrate import migrate

__all__ = ["url"]  # a fixture
NOW = 500_000 * HOUR
SIZES = board_ledger.Sizes(windows=45, partitions=2, files=2)
LAST = SIZES.windows
"""The newest batch that has landed; the one above it is open where there is trouble with it."""
MADE = [board_ledger.pipeline_named(n, NOW - (LAST + 1) * HOUR) for n in range(len(board_ledger.TROUBLES))]
BY = {trouble: made for trouble, made in zip(board_ledger.TROUBLES, MADE, strict=True) if trouble}
WELL = MADE[0]
START = WELL.windows.start_ms
EVERYTHING = Interval(0, 2**62)
BUILDING = {3: "BUILDING", 4: "BUILT", 5: "SWAPPING", 6: "DISCARDED"}
"""A second generation of these hours."""
OVER = {"ended": ({"ended_ms": NOW}, False), "closed": ({"closed_ms": NOW}, False), "once": ({}, True)}
"""Notices of WELL that do not stand."""
WINDOWS = 103
"""Of batch 7: three more than are listed."""


def key(hour: int) -> WindowKey:
    return WindowKey(START + hour * HOUR, START + (hour + 1) * HOUR)


@pytest.fixture
def empty(url: str) -> Iterator[SqlLedger]:
    made = SqlLedger(url, "board, nina", lambda: NOW)
    yield made
    made.close()


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlLedger]:
    """For reading only. Every trouble of `board_ledger`, and of WELL: generations on their way and given up, requests
    under way, an answer, losses, dirty rows that were taken up, runs that share a batch."""
    with database(request, tmp_path_factory.mktemp("board")) as address:
        made = filled(address)
        yield made
        made.close()


def filled(address: str) -> SqlLedger:
    made = SqlLedger(address, "board, nina", lambda: NOW)
    board_ledger.write(made.store.engine, board_ledger.rows(MADE, SIZES, NOW))
    more(made.store.engine)
    return made


def more(engine: Engine) -> None:
    of = {"pipeline": WELL.name}
    g, x = schema.generations, schema.generation_batches
    again = {**of, "number": 2, "epoch": 1, "nonce": "n", "kind": "replay"}
    lost = {**of, "partition": 1, "start": 3, "end": 9, "reason": "retention"}
    answer = {"source": "s", "rows": 9, "expected": 8, "asked_ms": NOW, "since_ms": NOW - 5, "accepted": "why"}
    owner = {**of, "batch_id": 7, "kind": "dirty", "owner": LAST, "cleared": True}
    took_up = {**of, "batch_id": LAST, "rows": 1, "min_offset": 1, "max_offset": 1}
    with engine.begin() as c:
        for hour, state in BUILDING.items():
            c.execute(insert(g).values(**again, window_ms=key(hour).start_ms, state=state))
        reopened = {**of, "window_ms": key(8).start_ms, "number": 2}  # by `board_ledger`: batch 10 brought it late rows
        c.execute(insert(x).values(**reopened, batch_id=10, kind="late", cleared=False))
        c.execute(insert(schema.truths).values(**of, window_ms=key(12).start_ms, **answer))
        for call, until in (("z", NOW + 9), ("a", NOW), ("b", NOW + 1)):
            intent = {**of, "call_id": call, "window_ms": key(5).start_ms, "deadline_ms": until}
            c.execute(insert(schema.intents).values(**intent, location=f"file:///{call}"))
        for batch in (7, 8):
            c.execute(insert(schema.losses).values(**lost, batch_id=batch))
        for run in ("x.ingest/b", "x.ingest/a"):
            c.execute(insert(schema.run_bindings).values(**of, run=run, batch_id=7))
        for source, part in ((9, 1), (7, 0), (7, 1)):
            c.execute(insert(schema.batch_sources).values(**took_up, source=source, partition=part))
        for at, (end, once) in OVER.items():
            what = dumps(Finding(kind="alarm", key=at, subject="", what="over", once=once))
            c.execute(insert(schema.notices).values(**of, key=at, content=what, first_ms=NOW, **end))
        c.execute(insert(schema.row_owners).values(**owner))
        c.execute(insert(schema.batch_files), list(files(7)))
        c.execute(update(schema.batches).where(schema.batches.c.batch_id == 9).values(receipt=None))


def files(batch: int) -> Iterator[dict[str, Any]]:
    """Of three windows more than a page lists, with late rows in the first of them, and of none: dirty rows."""
    same = {"pipeline": WELL.name, "batch_id": batch, "partition_values": "[]", "checksum": "1", "partitions": "[]"}
    for hour in reversed(range(WINDOWS)):
        yield {**same, "path": f"d{hour}", "window_ms": key(hour).start_ms, "kind": "data", "rows": 2, "bytes": 10}
    yield {**same, "path": "e0", "window_ms": key(0).start_ms, "kind": "data", "rows": 5, "bytes": 10}
    yield {**same, "path": "l0", "window_ms": key(0).start_ms, "kind": "late", "rows": 3, "bytes": 10}
    yield {**same, "path": "x", "window_ms": None, "kind": "dirty", "rows": 7, "bytes": 2**40}


# ---------------------------------------------------------------- pipelines


def test_an_empty_ledger(empty: SqlLedger) -> None:
    reads = empty.reads
    assert (reads.heads(), reads.spec_versions(["x"]), reads.specs([]), reads.specs([("x", 1)])) == ({}, {}, {}, {})
    assert (reads.spec_versions([]), reads.survey(["x"], NOW)) == ({}, {})
    assert (reads.answers(["x"]), reads.late_windows(["x"]), reads.earlier_each(["x"])) == ({}, {}, {})
    assert (reads.dirty_shares("x", 3), reads.marks("x", EVERYTHING), reads.file_counts("x", key(0))) == ([], [], {})
    view = reads.window_view("x", key(0))
    assert (view.window, view.generations, view.totals, view.batches, view.intents, view.events) == (None, *((),) * 5)
    assert reads.batch("x", 1) == (None, None, 0)
    assert (reads.event_page("x", 9, None, None), reads.bindings("x", 1)) == ([], [])


def test_a_pipeline_that_has_only_been_registered(empty: SqlLedger) -> None:
    empty.pipelines.register(WELL, "f" * 64)
    (head,) = empty.reads.heads().values()
    assert head == Head(WELL.name)
    assert not empty.reads.survey([WELL.name], NOW)[WELL.name].begun
    assert empty.reads.spec_versions([WELL.name, "nobody"]) == {WELL.name: 1}


def test_heads_say_who_waits(ledger: SqlLedger) -> None:
    heads = ledger.reads.heads()
    assert set(heads) == {p.name for p in MADE}
    of = {trouble: heads[p.name] for trouble, p in BY.items()}
    assert {t for t, h in of.items() if h.waits_at(NOW)} == {"refused", "blocked", "alarm", "due"}
    assert {t for t, h in of.items() if h.stuck} == {"refused", "blocked", "alarm"}
    assert of["due"].told == {"late_window"}


def test_a_survey_has_what_waits_and_what_is_under_way(ledger: SqlLedger) -> None:
    surveys = ledger.reads.survey([p.name for p in MADE], NOW)
    of = {trouble: surveys[p.name] for trouble, p in BY.items()}
    assert {t: s.open_batch.state for t, s in of.items() if s.open_batch} == {
        "refused": "WRITING", "blocked": "SEALED", "writing": "WRITING", "closing": "PLANNED",
    }  # fmt: skip
    assert {t: s.held for t, s in of.items() if s.held} == {"refused": 1, "blocked": 1, "alarm": 1}
    refused = of["refused"].open_batch
    assert refused is not None
    assert (refused.batch_id, refused.epoch, refused.records, refused.kind) == (LAST + 1, 2, 2000, "ingest")
    assert "1,204 of 4,000 records are dirty" in (refused.refused or "")
    (block,) = of["blocked"].blocks
    assert block == Block(f"batch {LAST + 1}", "landed/7 has other files than its manifest")
    assert [b.subject for b in of["alarm"].blocks] == [f"window {window_id(key(40).start_ms)}"]
    assert (len(of["closing"].closing), of["alarm"].closing) == (1, {})
    ((start, following),) = of["closing"].closing.items()
    assert ledger.windows.get(BY["closing"].name, window_from(start, BY["closing"].windows)).closing_batch == following
    (told,) = of["due"].told
    assert (told.kind, told.what, told.since_ms) == ("late_window", "an hour is late", NOW - HOUR)
    assert all(list(s.blocks) == ledger.pipelines.blocks(BY[t].name) for t, s in of.items())
    well = surveys[WELL.name]
    assert (well.open_batch, well.told, well.begun) == (None, (), True)
    assert well.busy == {s: 1 for s in BUILDING.values() if s in ("BUILDING", "BUILT", "SWAPPING")}
    assert surveys[MADE[1].name].busy == {}


def test_counts_and_specs(ledger: SqlLedger) -> None:
    counts = {n: o.generations for n, o in ledger.reads.overviews([WELL.name, MADE[1].name, "nobody"]).items()}
    assert counts[MADE[1].name] == {"CURRENT": 44, "RETIRED": 5}
    assert counts[WELL.name] == {"CURRENT": 44, "RETIRED": 5} | dict.fromkeys(BUILDING.values(), 1)
    assert counts["nobody"] == {}
    asked = [(MADE[1].name, 1), (WELL.name, 1), (WELL.name, 2), ("nobody", 1)]
    found = ledger.reads.specs(asked)
    assert found == {(p.name, 1): p for p in (WELL, MADE[1])}
    assert all(isinstance(p, Pipeline) for p in found.values())


def test_dirty_rows_of_the_newest_batches(ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ledger.reads.dirty_shares(WELL.name, 3)
    assert [(s.batch_id, s.rows) for s in found] == [(45, 2), (44, 2), (43, 2)]
    assert all(type(s.rows) is int for s in found), "PostgreSQL sums to Decimal"
    assert found[0].samples[0].reason == "1e999 is no int"
    monkeypatch.setattr(reads_board, "_DIRTY_LOOK", 2)
    assert [s.batch_id for s in ledger.reads.dirty_shares(WELL.name, 3)] == [45, 44], "how far it looks is bounded"
    monkeypatch.setattr(reads_board, "_DIRTY_LOOK", 300)
    kept = {s.batch_id: s.samples for s in ledger.reads.dirty_shares(WELL.name, 99)}
    assert (len(kept), kept[9], 10 in kept) == (41, (), False), "a batch whose receipt is gone has no samples"


# ---------------------------------------------------------------- windows


def test_marks_of_windows_in_every_state(ledger: SqlLedger) -> None:
    marks = {(m.start_ms - START) // HOUR: m for m in ledger.reads.marks(WELL.name, EVERYTHING)}
    assert list(marks) == list(range(44)), "in order; of the last one nothing but rows is known"
    kinds = {h: m.kind for h, m in marks.items() if m.kind != "archive"}
    assert kinds == {8: "reopen", 11: "replay", 20: "rollback", 34: "replay", 39: "reopen"}
    assert {h: m.building for h, m in marks.items() if m.building} == {h: s for h, s in BUILDING.items() if h != 6}
    assert {h: m.late for h, m in marks.items() if m.late} == {18: 2, 28: 2, 38: 2}, "those of 8 are taken up"
    assert all(type(m.late) is int for m in marks.values())
    assert [h for h, m in marks.items() if m.answer] == [12]
    assert (marks[12].answer.expected, marks[12].answer.accepted) == (8, "why")  # type: ignore[union-attr]
    assert (marks[30].state, marks[30].number, marks[30].rows) == ("CLOSED", 1, 0)
    assert (marks[11].number, marks[11].published_ms) == (2, key(11).start_ms + 3 * HOUR + board_ledger.MINUTE)
    alarm = {m.start_ms: m.blocked for m in ledger.reads.marks(BY["alarm"].name, EVERYTHING) if m.blocked}
    assert list(alarm) == [key(40).start_ms]
    closing = ledger.reads.marks(BY["closing"].name, EVERYTHING)[-1]
    assert (closing.state, closing.number) == ("CLOSING", None)


def test_marks_are_cut_at_both_ends(ledger: SqlLedger) -> None:
    within = Interval(key(8).start_ms, key(11).start_ms)
    found = ledger.reads.marks(WELL.name, within)
    assert [m.start_ms for m in found] == [key(h).start_ms for h in (8, 9, 10)]
    assert found == [m for m in ledger.reads.marks(WELL.name, EVERYTHING) if within.start <= m.start_ms < within.end]


def test_a_window_with_its_generations_batches_and_requests_under_way(ledger: SqlLedger) -> None:
    view = ledger.reads.window_view(WELL.name, key(8))
    assert [(g.number, g.state, g.kind, g.batches, g.late) for g in view.generations] == [
        (1, "RETIRED", "archive", (9,), ()),
        (2, "CURRENT", "reopen", (9, 10), (10,)),
    ]
    assert [(t.batch_id, t.kind, t.partition, t.rows) for t in view.totals] == [
        (9, "data", 0, 999), (9, "data", 1, 999), (10, "late", 0, 1), (10, "late", 1, 1),
    ]  # fmt: skip
    assert [(b.batch_id, b.ranges) for b in view.batches] == [(9, ()), (10, ())]
    assert view.window is not None
    assert (view.window.state, view.window.closing_batch) == ("CLOSED", 10)
    assert [e.what for e in view.events] == ["generation published", "window closing"]
    assert len(ledger.reads.window_view(WELL.name, key(8), 1).events) == 1
    swapping = ledger.reads.window_view(WELL.name, key(5))
    assert [(i.call_id, i.deadline_ms) for i in swapping.intents] == [("b", NOW + 1), ("z", NOW + 9)]
    redrive = ledger.reads.window_view(WELL.name, key(44)).batches
    assert [(b.batch_id, b.sources) for b in redrive] == [(LAST, (7, 9))]
    assert ledger.reads.window_view(WELL.name, key(9999)).window is None


def test_files_of_each_generation(ledger: SqlLedger) -> None:
    found = ledger.reads.file_counts(WELL.name, key(8))
    assert found == {n: (SIZES.files, SIZES.files * 1_234_567) for n in (1, 2)}
    assert all(type(size) is int for _, size in found.values())


# ---------------------------------------------------------------- batches, events, runs


def test_a_landed_batch_with_what_it_left(ledger: SqlLedger) -> None:
    row, detail, newest = ledger.reads.batch(WELL.name, 7)
    assert row is not None
    assert detail is not None
    assert (row.batch_id, row.state, newest, row.redriven_by, row.set_aside) == (7, "LANDED", LAST, LAST, True)
    assert [(r.range.partition, r.range.start, r.range.end) for r in row.ranges] == [(0, 6000, 7000), (1, 6000, 7000)]
    assert (detail.files, detail.bytes) == (WINDOWS + 3, (WINDOWS + 2) * 10 + 2**40)
    assert type(detail.bytes) is int
    assert [w.start_ms for w in detail.windows] == [key(h).start_ms for h in range(100)]
    assert (detail.windows[0].rows, detail.windows[0].late, detail.windows[1].rows) == (7, 3, 2)
    assert detail.more_windows == 3
    assert [(x.batch_id, x.partition, x.start, x.end, x.reason) for x in detail.losses] == [(7, 1, 3, 9, "retention")]
    assert (detail.dirty.rows, detail.dirty.samples[0].offset) == (2, 6007)


def test_an_open_batch_and_one_that_is_not_there(ledger: SqlLedger) -> None:
    row, detail, newest = ledger.reads.batch(BY["refused"].name, LAST + 1)
    assert row is not None
    assert detail is not None
    assert (row.state, row.epoch, row.is_open, newest) == ("WRITING", 2, True, LAST + 1)
    assert [r.balance for r in row.ranges] == [None, None]
    assert (detail.files, detail.windows, detail.dirty.rows, detail.dirty.samples) == (0, (), 0, ())
    for batch in (0, LAST + 1, 2**63 - 1):
        assert ledger.reads.batch(WELL.name, batch) == (None, None, LAST)


def test_events_are_paged_without_a_gap(ledger: SqlLedger) -> None:
    reads = ledger.reads
    whole = reads.event_page(WELL.name, 10_000, None, None)
    assert [e.id for e in whole] == sorted((e.id for e in whole), reverse=True)
    assert len(whole) == LAST * 3 + 44 * 2
    paged, before = [], None
    while page := reads.event_page(WELL.name, 50, before, None):
        assert len(page) <= 50
        assert len(paged) < len(whole), "no end of pages"
        paged += page
        before = page[-1].id
    assert paged == whole
    about = reads.event_page(WELL.name, 10, None, "batch 7")
    assert [e.what for e in about] == ["batch landed", "batch sealed", "batch planned"]
    assert about[1].detail == {"epoch": 1}
    assert [e.what for e in reads.event_page(WELL.name, 10, about[1].id, "batch 7")] == ["batch planned"]
    assert reads.event_page(WELL.name, 10, 2**63 - 1, "batch 7") == about
    assert reads.event_page(WELL.name, 10, None, "batch 7'; --") == []
    assert reads.event_page("nobody", 10, None, None) == []


def test_runs_of_a_batch(ledger: SqlLedger) -> None:
    bound = ledger.reads.bindings(WELL.name, 7)
    assert [b.run for b in bound] == [f"{WELL.name}.ingest/scheduled__7", "x.ingest/a", "x.ingest/b"]


def test_both_databases_say_the_same_of_all_of_it(ledger: SqlLedger, tmp_path: Path) -> None:
    """What no example above names: every field of every pipeline, window and batch."""
    if ledger.store.engine.dialect.name == "sqlite":
        pytest.skip("it is what the other is compared with")
    migrate(f"sqlite:///{tmp_path}/other.db")
    other = filled(f"sqlite:///{tmp_path}/other.db")
    for there, here in zip(everything(ledger), everything(other), strict=True):
        assert there == here
    other.close()


def everything(ledger: SqlLedger) -> Iterator[Any]:
    reads, names = ledger.reads, [p.name for p in MADE]
    yield reads.heads()
    yield reads.survey(names, NOW)
    yield reads.overviews(names, 3)
    yield reads.late_windows(names), reads.answers(names), reads.earlier_each(names)
    yield reads.spec_versions(names)
    for name in (WELL.name, *(p.name for p in BY.values())):
        yield reads.marks(name, EVERYTHING)
        yield reads.dirty_shares(name, 5)
        yield reads.event_page(name, 300, None, None)
        for n in (7, LAST, LAST + 1):
            yield reads.batch(name, n), reads.bindings(name, n)
        for hour in (0, 5, 8, 20, 44, 45):
            yield reads.window_view(name, key(hour)), reads.file_counts(name, key(hour))


# ---------------------------------------------------------------- what people ask for


TOKEN, OTHER = "0" * 16, "1" * 16
WHAT, ABOUT = "replay asked", "window 20130105T040000Z"
