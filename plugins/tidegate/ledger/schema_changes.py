"""Fields that became columns by themselves, in the order in which they were accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert
from sqlalchemy.engine import Connection

from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.spec.schema_changes import SchemaChange
from tidegate.ledger import schema
from tidegate.ledger.store import Part, Store, columns, read_as, rows_of

s = schema.schema_changes
EVENT = "column accepted"
RESTORED = "the ledger was restored: a registered spec remembers it"
_SAID = ("type", "path", "batch_id", "partition", "offset", "why")


class SqlSchemaChanges(Part):
    """core.spec.schema_changes.SchemaLedger."""

    def changes(self, name: str) -> tuple[SchemaChange, ...]:
        with self._store.begin() as c:
            return _all(c, name)

    def accept(self, name: str, wanted: Sequence[SchemaChange]) -> tuple[SchemaChange, ...]:
        with self._store.begin() as c:
            _insert_absent(self._store, c, name, wanted)
            return _all(c, name)


def remember(store: Store, c: Connection, pipeline: Pipeline) -> None:
    """Insert the accepted columns of a spec that the ledger does not know as such, in the caller's transaction."""
    accepted = [
        SchemaChange(column=each.name, type=each.type, path=each.path, why=RESTORED)
        for each in pipeline.columns
        if each.accepted
    ]
    if accepted:
        _insert_absent(store, c, pipeline.name, accepted)


def _insert_absent(store: Store, c: Connection, name: str, wanted: Sequence[SchemaChange]) -> None:
    """Two tasks that read the same take the same numbers: the second one's transaction is a lost comparison."""
    there = _all(c, name)
    known = {each.column for each in there}
    for number, each in enumerate((w for w in wanted if w.column not in known), len(there) + 1):
        said: dict[str, Any] = columns(each, *_SAID)
        who = {"actor": store.actor, "at_ms": store.instant}
        c.execute(insert(s).values(pipeline=name, number=number, column_name=each.column, **said, **who))
        store.note(c, name, EVENT, f"column {each.column}", said)


def _all(c: Connection, name: str) -> tuple[SchemaChange, ...]:
    return tuple(read_as(SchemaChange, row, column=row.column_name) for row in rows_of(c, s, pipeline=name))
