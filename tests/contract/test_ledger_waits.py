"""What a look for all waits says equals what each question alone says, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event, insert

from tests.contract.ledgers import url
from tests.world import make_pipeline
from tidegate.core.base.errors import LedgerError
from tidegate.core.window.states import WindowKey
from tidegate.core.window.waits import NOTHING_LANDED, Standing
from tidegate.ledger import SqlLedger, schema
from tidegate.ledger.waits import SqlWaits, waits_engine

__all__ = ["url"]  # fixture
HOUR = 3_600_000


@pytest.fixture
def waits(url: str) -> Iterator[SqlWaits]:
    made = SqlWaits(url)
    yield made
    made.close()


def batch(pipeline: str, number: int, state: str = "LANDED", kind: str = "ingest", nonce: str = "n") -> dict:
    made = dict.fromkeys((c.name for c in schema.batches.columns if not c.nullable), 1)
    words = {"topic": "t", "topic_id": "i", "floor": "", "side_moved": True, "side_registered": True}
    return made | words | {
        "pipeline": pipeline, "batch_id": number, "state": state, "kind": kind, "nonce": nonce, "clock_ms": number * 10,
    }  # fmt: skip


def parts(pipeline: str, number: int, count: int) -> list[dict]:
    made = dict.fromkeys((c.name for c in schema.batch_partitions.columns), number)
    return [
        made | {"pipeline": pipeline, "partition": p, "drained": p % 2 == 0, "max_event_ms": None if p == 1 else p}
        for p in range(count)
    ]


def write(url: str, **rows: list[dict]) -> None:
    engine = create_engine(url)
    with engine.begin() as c:
        for table, values in rows.items():
            c.execute(insert(schema.metadata.tables[table]), values)
    engine.dispose()


def window(pipeline: str, start: int, state: str) -> dict:
    return {"pipeline": pipeline, "start_ms": start, "end_ms": start + HOUR, "state": state, "closing_batch": 1}


def generation(pipeline: str, start: int, number: int, state: str) -> dict:
    return {
        "pipeline": pipeline, "window_ms": start, "number": number, "state": state, "epoch": 1, "nonce": "",
        "kind": "archive",
    }  # fmt: skip


def test_a_look_says_what_each_question_says(url: str, waits: SqlWaits) -> None:
    write(
        url,
        batches=[
            batch("a", 7),
            batch("a", 8),
            batch("a", 9, kind="redrive"),
            batch("a", 10, state="WRITING"),
            batch("a", 11, state="ABANDONED"),
            batch("b", 3),
            batch("only-open", 1, state="SEALED"),
            batch("no-partitions", 1),
            batch('it\'s "odd" 100%s ?', 5),
        ],
        batch_partitions=[
            *parts("a", 7, 2),
            *parts("a", 8, 3),
            *parts("a", 10, 4),
            *parts("b", 3, 1),
            *parts("only-open", 1, 2),
            *parts('it\'s "odd" 100%s ?', 5, 2),
        ],
        windows=[window("a", 0, "CLOSED"), window("a", HOUR, "CLOSING"), window("b", -HOUR, "CLOSED")],
        generations=[
            generation("a", 0, 1, "RETIRED"),
            generation("a", 0, 2, "CURRENT"),
            generation("a", 0, 3, "BUILDING"),
            generation("b", -HOUR, 1, "BUILT"),
        ],
    )
    names = ["a", "b", "only-open", "no-partitions", "never-seen", 'it\'s "odd" 100%s ?']
    refs = [(name, start) for name in names for start in (-HOUR, 0, HOUR, 2 * HOUR)]
    ledger = SqlLedger(url)
    for _ in range(2):  # the second look knows the batches already
        look = waits.look(names, refs)
        assert {name: look.facts.get(name, NOTHING_LANDED) for name in names} == {
            name: ledger.windows.facts(name) for name in names
        }
        for name, start in refs:
            known = ledger.windows.get(name, WindowKey(start, start + HOUR))
            found = look.standings.get((name, start), Standing("OPEN", None))
            assert found == Standing(known.state, known.current), (name, start)
    ledger.close()


def test_a_closing_window_owes_the_first_batch_below_its_id_that_has_not_landed(url: str, waits: SqlWaits) -> None:
    closing = window("a", HOUR, "CLOSING") | {"closing_batch": 5}
    write(
        url,
        batches=[
            batch("a", 1),
            batch("a", 2, state="ABANDONED"),
            batch("a", 3, state="SEALED"),
            batch("a", 4, state="PLANNED"),
            batch("b", 1, state="WRITING"),
        ],
        windows=[
            window("a", 0, "CLOSED") | {"closing_batch": 5},
            closing,
            closing | {"pipeline": "b"},
            closing | {"start_ms": 2 * HOUR, "closing_batch": 3},
        ],
    )
    owes = {
        ref: s.owes
        for ref, s in waits.look({"a"}, {("a", 0), ("a", HOUR), ("a", 2 * HOUR), ("b", HOUR)}).standings.items()
    }
    assert owes == {("a", 0): None, ("a", HOUR): 3, ("a", 2 * HOUR): None, ("b", HOUR): 1}


def test_what_has_landed_since_is_seen_and_the_rest_is_the_same_object(url: str, waits: SqlWaits) -> None:
    write(url, batches=[batch("a", 1), batch("b", 1)], batch_partitions=[*parts("a", 1, 2), *parts("b", 1, 2)])
    first = waits.look({"a", "b"}, set())
    write(url, batches=[batch("b", 2)], batch_partitions=parts("b", 2, 3))
    second = waits.look({"a", "b"}, set())
    assert second.facts["a"] is first.facts["a"]
    assert second.facts["b"].batch_id == 2
    assert len(second.facts["b"].partitions) == 3


def test_a_batch_that_came_twice_is_another_one(url: str, waits: SqlWaits) -> None:
    """A failover lost batch 1; its number was given again."""
    write(url, batches=[batch("a", 1)], batch_partitions=parts("a", 1, 2))
    waits.look({"a"}, set())
    engine = create_engine(url)
    with engine.begin() as c:
        c.execute(schema.batches.update().values(nonce="m"))
        c.execute(schema.batch_partitions.update().values(max_event_ms=99))
    engine.dispose()
    assert {p.max_event_ms for p in waits.look({"a"}, set()).facts["a"].partitions} == {99}


def test_a_look_is_two_statements_at_most(url: str) -> None:
    engine = waits_engine(url)
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda c, cursor, statement, *_: statements.append(statement))
    waits = SqlWaits(engine)
    write(url, batches=[batch("a", 1)])
    waits.look({"a"}, {("a", 0)})
    statements.clear()
    waits.look({"a"}, {("a", 0), ("b", 0)})
    assert len(statements) == 2
    waits.look(set(), set())
    assert len(statements) == 2
    waits.close()


def test_a_spec_is_registered_and_nothing_has_landed(url: str, waits: SqlWaits) -> None:
    ledger = SqlLedger(url)
    ledger.pipelines.register(make_pipeline("file:///lake/t"), "f")
    ledger.close()
    assert waits.look({"readings"}, {("readings", 0)}).facts == {}


def test_a_database_that_has_no_ledger_is_an_error_in_our_words(tmp_path: Path) -> None:
    waits = SqlWaits(f"sqlite:///{tmp_path}/empty.db")
    with pytest.raises(LedgerError, match="no such table"):
        waits.look({"a"}, set())
