"""Fields that become columns, and columns that grow, by themselves (`unknown_fields: evolve`): which may, and the
pipeline with all columns.

The type comes from the schema that the message itself was written with, never from values. What is accepted stands in
the ledger; the YAML has the last word about every column that it names, and every field that it reads, but that a type
which has grown stays so: no table takes it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tidegate.core.spec.change_events import EVENT_COLUMNS
from tidegate.core.spec.evolution import can_grow, changes, grows
from tidegate.core.spec.paths import path_of
from tidegate.core.spec.pipeline import Column, Pipeline, table_columns
from tidegate.core.spec.proposals import Proposal, keys_of, propose

EVOLVE = "evolve"
STOPS = ("fail", EVOLVE)
"""Values of `unknown_fields` under which no batch lands with a field that no column takes."""
BY_POLICY = "format.unknown_fields: evolve"
_GROWING = ("tinyint", "smallint", "int", "decimal", "float")
_WORD = re.compile(r"\w+")
_WIDEST = dict.fromkeys(("tinyint", "smallint", "int"), "bigint")
_OF_EVENTS = frozenset(name for name, *_ in EVENT_COLUMNS)


@dataclass(frozen=True, kw_only=True)
class SchemaChange:
    """A field that became a column, or a column that has grown. `batch_id`, `partition`, `offset`: of the first record
    that was seen with it, or with the type; None where the ledger was restored and storage remembers the column alone.
    `before`: the type that the column had; empty for a new one."""

    column: str
    type: str
    path: str
    batch_id: int | None = None
    partition: int | None = None
    offset: int | None = None
    why: str = BY_POLICY
    actor: str = ""
    at_ms: int = 0
    before: str = ""

    @property
    def place(self) -> str:
        """Where it was first seen, in words."""
        if self.offset is None:
            return "a record before the ledger was restored"
        return f"batch {self.batch_id}, partition {self.partition}, offset {self.offset}"


class SchemaLedger(Protocol):
    """Accepted changes of pipelines, one of a column; none is ever removed, and only its type grows."""

    def changes(self, name: str) -> tuple[SchemaChange, ...]:
        """All of the pipeline, oldest first."""
        ...

    def accept(self, name: str, wanted: Sequence[SchemaChange]) -> tuple[SchemaChange, ...]:
        """Insert those whose column the pipeline has not accepted yet, and give the others their type where it is a
        wider one, each with an event; all that stand afterwards. Else the first one stays: another task may have
        accepted the same field."""
        ...


def in_force(pipeline: Pipeline, accepted: Iterable[SchemaChange]) -> Pipeline:
    """The pipeline with the accepted columns whose name and field the YAML does not have, behind its own, and with the
    accepted type of its own columns that have grown to it."""
    accepted = tuple(accepted)
    names, paths = {c.name for c in pipeline.columns}, {c.path for c in pipeline.columns}
    new = tuple(
        Column(name=each.column, type=each.type, path=each.path, accepted=True)
        for each in accepted
        if each.column not in names and each.path not in paths
    )
    there = tuple(_as_grown(c, accepted) for c in pipeline.columns)
    if not new and there == pipeline.columns:
        return pipeline
    own = tuple(c for c in there if c.name not in _OF_EVENTS)
    brought = tuple(c for c in there if c.name in _OF_EVENTS)
    # ids of fields are pinned anew: the table gets further ones
    return replace(pipeline, columns=(*own, *new, *brought), sink=replace(pipeline.sink, fields=()))


def outgrown(pipeline: Pipeline, accepted: Iterable[SchemaChange]) -> dict[str, str]:
    """Types that columns of the YAML have by now, which are wider than it says."""
    said = {c.name: c.type for c in pipeline.columns}
    return {c.name: c.type for c in in_force(pipeline, accepted).columns if said.get(c.name, c.type) != c.type}


def _as_grown(column: Column, accepted: Iterable[SchemaChange]) -> Column:
    """One that computes, or hides, has the type that its author wrote."""
    if column.expr is not None or column.hidden:
        return column
    for each in accepted:
        if (each.column, each.path) == (column.name, column.path) and grows(column.type, each.type):
            return replace(column, type=each.type, accepted=True)
    return column


def proposed(accepted: SchemaChange) -> Proposal:
    """The column as it would stand in the YAML."""
    (field,) = keys_of(accepted.path)
    return Proposal(field, accepted.column, accepted.type, note="accepted by evolve")


def new_columns(
    fields: Iterable[str], declared: Mapping[str, str], taken: Iterable[str]
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """Columns for fields, and the fields that can have none: inside of another, without a name that a path takes, or of
    no type by the message's schema (`declared`). `taken`: names that columns have.

    Whole numbers become bigint: a column that has files cannot grow to it later."""
    names, found, left = list(taken), [], []
    for field in fields:
        kind = declared.get(field)
        proposal = propose(field, (), names, declared=_WIDEST.get(kind or "", kind))
        if kind is None or keys_of(field) != (field,) or not proposal.usable:
            left.append(field)
            continue
        names.append(proposal.column)
        found.append(Column(name=proposal.column, type=proposal.type, path=path_of((field,))))
    return tuple(found), tuple(left)


def may_grow(pipeline: Pipeline) -> tuple[Column, ...]:
    """Columns that are compared with each message's schema: numbers with room to grow, of a field at the top of the
    row, that rows are not partitioned by. What `read_by_expressions` names stays as it is, too."""
    if pipeline.format.unknown_fields != EVOLVE:
        return ()
    return tuple(
        c
        for c in pipeline.columns
        if c.name not in pipeline.dynamic_partitions and c.expr is None and not c.hidden
        if c.type.partition("(")[0] in _GROWING and len(keys_of(c.path)) == 1
    )  # fmt: skip


def read_by_expressions(pipeline: Pipeline) -> frozenset[str]:
    """Words of the expressions, columns among them, in lower case, for SQL knows them in any: the type of an expression
    may hang on theirs."""
    texts = [pipeline.where or "", *(c.expr or "" for c in pipeline.columns)]
    return frozenset(word for text in texts for word in _WORD.findall(text.lower()))


def grown(
    pipeline: Pipeline, columns: Iterable[Column], declared: Mapping[str, str], promotes: bool
) -> tuple[Column, ...]:
    """Those of the columns whose field has a wider type by the message's schema, which the table can have, or which
    `rounds`; with that type. A narrower one, as messages of before have, changes nothing."""
    found = []
    for c in columns:
        kind = declared.get(keys_of(c.path)[0])
        if kind is not None and (rounds(c, kind) or can_grow(c.type, kind, pipeline.sink.format, promotes)):
            found.append(replace(c, type=kind))
    return tuple(found)


def rounds(column: Column, kind: str) -> bool:
    """Whether a column whose type nobody has written would lose digits of values of this type. It cannot grow: an event
    of before, sent again, would say 0.1 where its row has the float next to it (M7)."""
    return column.accepted and (column.type, kind) == ("float", "double")


def objections(before: Pipeline, after: Pipeline, promotes: bool) -> tuple[str, ...]:
    """Why the table cannot have the columns of `after`; empty if it can."""
    return changes(table_columns(before), table_columns(after), after.sink.format, promotes).refused
