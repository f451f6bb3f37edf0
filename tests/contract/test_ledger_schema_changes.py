"""Accepted columns in the ledger, on SQLite and PostgreSQL: inserted if absent, in one order, by one of two tasks."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from tests.contract.ledgers import NAME, ledger, now, open_ledger, url  # noqa: F401 (fixtures)
from tests.world import make_pipeline
from tidegate.core.base.errors import LostComparison
from tidegate.core.spec.pipeline import Column
from tidegate.core.spec.schema_changes import SchemaChange


def change(column: str, kind: str = "bigint", offset: int | None = 7) -> SchemaChange:
    return SchemaChange(column=column, type=kind, path=f"$.{column}", batch_id=3, partition=0, offset=offset)


def told(found: tuple[SchemaChange, ...]) -> list[tuple[Any, ...]]:
    return [(c.column, c.type, c.path, c.batch_id, c.partition, c.offset) for c in found]


def test_the_first_one_stays(ledger, open_ledger, now) -> None:  # noqa: F811
    changes = ledger.schema_changes
    assert changes.changes(NAME) == ()
    first = changes.accept(NAME, [change("b"), change("a")])
    wanted = [("b", "bigint", "$.b", 3, 0, 7), ("a", "bigint", "$.a", 3, 0, 7)]
    assert told(first) == wanted
    assert {c.at_ms for c in first} == {now[0]}
    again = open_ledger().schema_changes.accept(NAME, [change("a", "string", 9), change("c")])
    assert told(again) == [*wanted, ("c", "bigint", "$.c", 3, 0, 7)]
    assert changes.changes(NAME) == again
    assert changes.changes("another") == ()


def test_a_registered_spec_remembers_what_was_accepted(ledger) -> None:  # noqa: F811
    """Also one that the ledger knows already; a column of the YAML is none of them."""
    made = make_pipeline("file:///lake/readings")
    made = replace(made, columns=(*made.columns, Column(name="qty", type="int", path="$.qty", accepted=True)))
    version = ledger.pipelines.register(made, "f" * 64)
    assert ledger.pipelines.register(made, "f" * 64) == version
    (found,) = ledger.schema_changes.changes(NAME)
    assert (found.column, found.type, found.offset) == ("qty", "int", None)
    assert found.place == "a record before the ledger was restored"
    assert ledger.pipelines.spec(NAME, version).columns[-1].accepted


def test_two_at_once(ledger, open_ledger) -> None:  # noqa: F811
    """Each column once, whoever comes second looks again."""
    ready, wrong = threading.Barrier(4), list[Exception]()

    def accept(number: int) -> None:
        mine = open_ledger().schema_changes
        ready.wait()
        for each in range(5):
            while True:
                try:
                    mine.accept(NAME, [change(f"c{each}", offset=number)])
                    break
                except LostComparison:
                    continue
                except Exception as e:
                    wrong.append(e)
                    return

    threads = [threading.Thread(target=accept, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [c.column for c in ledger.schema_changes.changes(NAME)] == [f"c{n}" for n in range(5)]
