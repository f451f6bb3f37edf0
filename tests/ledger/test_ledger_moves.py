"""Rows of batches, windows and generations change in one function, which compares the state that was read."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from sqlalchemy import Table, create_engine
from sqlalchemy.dialects import sqlite

from tidegate.core.base.errors import LostComparison
from tidegate.core.base.transition import Named, Transition, step
from tidegate.core.batch.transitions import TRANSITIONS as BATCHES
from tidegate.core.copy.transitions import CHUNK_TRANSITIONS, ROUND_TRANSITIONS
from tidegate.core.deliver.transitions import TRANSITIONS as DELIVERIES
from tidegate.core.window.transitions import GENERATIONS, WINDOWS
from tidegate.ledger import moves, schema, schema_copies
from tidegate.ledger.store import Store

LEDGER = Path(moves.__file__).parent
OURS = {"batches", "windows", "generations"}
_WRITES = re.compile(r"\b(UPDATE|INSERT INTO|DELETE FROM)\s+(batches|windows|generations)\b", re.IGNORECASE)
MACHINES = [
    (schema.batches, BATCHES),
    (schema.windows, WINDOWS),
    (schema.generations, GENERATIONS),
    (schema_copies.copies, ROUND_TRANSITIONS),
    (schema_copies.chunks, CHUNK_TRANSITIONS),
    (schema.deliveries, DELIVERIES),
]
STEPS = [pytest.param(table, t, id=f"{table.name}: {t.name}") for table, machine in MACHINES for t in machine]


def table_of(node: ast.expr, names: dict[str, str]) -> str | None:
    """The table that an expression names: `schema.batches`, or a module's short name of it."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    known = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "schema"
    return node.attr if known else None  # type: ignore[attr-defined]


def short_names(tree: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            found |= {n.id: t for n, v in pairs if isinstance(n, ast.Name) and (t := table_of(v, found))}
    return found


def changes(source: str) -> list[str]:
    """Statements that change a row of ours."""
    tree = ast.parse(source)
    names = short_names(tree)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.args]
    found = [
        f"{n.func.id}({table_of(n.args[0], names)})"
        for n in calls
        if isinstance(n.func, ast.Name) and n.func.id in ("insert", "update", "delete", "insert_all", "update_all")
        and any(table_of(a, names) in OURS for a in n.args[:2])
    ]  # fmt: skip
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return found + [t for t in texts if _WRITES.search(t)]


def test_nothing_but_the_executor_changes_a_state() -> None:
    found = {path.name: changes(path.read_text()) for path in LEDGER.glob("*.py") if path.name != "moves.py"}
    assert len(found) > 30
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "source",
    [
        "update(schema.batches)",
        "b, w = schema.batches, schema.windows\nc.execute(delete(w))",
        "text('UPDATE windows SET y')",
    ],
)
def test_that_would_be_seen(source: str) -> None:
    assert changes(source)


@pytest.fixture
def store() -> Store:
    return Store(create_engine("sqlite://"), lambda: 77, lambda: "me")


def worded(table: Table, transition: Transition, store: Store) -> str:
    row = {key.name: "p" if key.name in ("pipeline", "name") else 1 for key in table.primary_key}
    named = Named(row=row, subject="s", words=dict.fromkeys(("id", "at", "number", "name"), 1))
    made = step(transition, named, None, as_read=dict.fromkeys(transition.guards))
    statement = moves._statement(store, table, made, {"epoch": 1} if "epoch" in table.c else {}, None)
    return str(statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))


@pytest.mark.parametrize(("table", "transition"), STEPS)
def test_each_step_is_one_comparison(table: Table, transition: Transition, store: Store) -> None:
    what = worded(table, transition, store)
    if transition.inserts:
        assert what.startswith(f"INSERT INTO {table} ")
        assert f"'{transition.end}'" in what
        return
    change, _, where = what.partition(" WHERE ")
    states = ", ".join(f"'{s}'" for s in transition.start)
    assert f"{table}.state IN ({states})" in where
    assert f"{table}.pipeline = 'p'" in where
    assert all(f"{table}.{guard} IS NULL" in where for guard in transition.guards)
    assert change.startswith("DELETE FROM" if transition.deletes else "UPDATE")
    assert ("state=" in change) == (transition.end is not None and not transition.deletes)
    assert all(f"{stamp}=77" in change for stamp in transition.stamps)


@pytest.mark.parametrize(("table", "transition"), STEPS)
def test_columns_that_a_step_names_exist(table: Table, transition: Transition) -> None:
    assert {*transition.guards, *transition.stamps} <= set(table.c.keys())


def test_done_refused_and_the_event_of_each(store: Store) -> None:
    schema.metadata.create_all(store.engine)
    go = Transition(name="go", start=("OPEN",), end="CLOSED", guards=("closing_batch",), event="gone", doing="going")
    row = {"pipeline": "p", "start_ms": 0}
    with store.engine.begin() as c:
        c.execute(schema.windows.insert().values(**row, end_ms=1, state="OPEN", closing_batch=5))
        made = step(go, Named(row=row, subject="s"), None, as_read={"closing_batch": 5}, detail={"a": 1})
        late = step(go, Named(row=row, subject="s"), None, as_read={"closing_batch": 4})
        assert not moves.moved(store, c, schema.windows, late)
        moves.move(store, c, schema.windows, made, {"blocked": "x"})
        with pytest.raises(LostComparison, match="^going: somebody else has moved on$"):
            moves.move(store, c, schema.windows, made)
        (now,) = c.execute(schema.windows.select()).all()
        assert (now.state, now.blocked) == ("CLOSED", "x")
        (event,) = c.execute(schema.events.select()).all()
        assert (event.what, event.subject, event.detail, event.at_ms) == ("gone", "s", '{"a":1}', 77)


def test_many_rows_along_one_arrow(store: Store) -> None:
    schema.metadata.create_all(store.engine)
    go = Transition(name="go", start=("OPEN", "CLOSING"), end="CLOSED", stamps=("closed_ms",))
    w = schema.windows
    with store.engine.begin() as c:
        for start, state in enumerate(("OPEN", "CLOSING", "CLOSED", "OPEN")):
            c.execute(w.insert().values(pipeline="p", start_ms=start, end_ms=1, state=state, closing_batch=0))
        moves.move_all(store, c, w, go, w.c.start_ms < 3, sets={"blocked": "x"}, now=5)
        found = [tuple(r) for r in c.execute(w.select().order_by(w.c.start_ms))]
    assert [(r[3], r[5], r[6]) for r in found] == [
        ("CLOSED", 5, "x"), ("CLOSED", 5, "x"), ("CLOSED", None, None), ("OPEN", None, None),
    ]  # fmt: skip
