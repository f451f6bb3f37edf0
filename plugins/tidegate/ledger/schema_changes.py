"""Fields that became columns by themselves, in the order in which they were accepted, and how far each has grown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.engine import Connection

from tidegate.core.spec.evolution import grows
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.spec.schema_changes import SchemaChange
from tidegate.ledger import schema
from tidegate.ledger.store import Part, Store, columns, read_as, rows_of

s = schema.schema_changes
EVENT, GREW = "column accepted", "column widened"
RESTORED = "the ledger was restored: a registered spec remembers it"
_SAID = ("type", "path", "batch_id", "partition", "offset", "why")


class SqlSchemaChanges(Part):
    """core.spec.schema_changes.SchemaLedger."""

    def changes(self, name: str) -> tuple[SchemaChange, ...]:
        with self._store.begin() as c:
            return _all(c, name)

    def accept(self, name: str, wanted: Sequence[SchemaChange]) -> tuple[SchemaChange, ...]:
        with self._store.begin() as c:
            _take_up(self._store, c, name, wanted)
            return _all(c, name)


def remember(store: Store, c: Connection, pipeline: Pipeline) -> None:
    """Take up the accepted columns and types of a spec that the ledger does not know as such, in the caller's
    transaction."""
    accepted = [
        SchemaChange(column=each.name, type=each.type, path=each.path, why=RESTORED)
        for each in pipeline.columns
        if each.accepted
    ]
    if accepted:
        _take_up(store, c, pipeline.name, accepted)


def _take_up(store: Store, c: Connection, name: str, wanted: Sequence[SchemaChange]) -> None:
    """Two tasks that read the same take the same numbers, or the same types for those that stand: the second one's
    transaction is a lost comparison."""
    known = {each.column: each for each in _all(c, name)}
    number = len(known)
    for each in wanted:
        stands, subject = known.get(each.column), f"column {each.column}"
        said: dict[str, Any] = columns(each, *_SAID)
        values = {**said, "actor": store.actor, "at_ms": store.instant}
        before = each.before if stands is None else stands.type
        if stands is None:
            number += 1
            c.execute(insert(s).values(pipeline=name, number=number, column_name=each.column, **values))
        elif stands.path == each.path and grows(stands.type, each.type):
            still = (s.c.pipeline == name, s.c.column_name == each.column, s.c.type == stands.type)
            store.compare_and_set(c, update(s).where(*still).values(**values), f"{subject} of {name}")
        else:
            continue
        store.note(c, name, GREW if before else EVENT, subject, {**said, "before": before} if before else said)


def _all(c: Connection, name: str) -> tuple[SchemaChange, ...]:
    return tuple(read_as(SchemaChange, row, column=row.column_name, before="") for row in rows_of(c, s, pipeline=name))
