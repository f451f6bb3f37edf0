"""Fields that become columns by themselves (`unknown_fields: evolve`): which may, and the pipeline with all columns.

The type comes from the schema that the message itself was written with, never from values. What is accepted stands in
the ledger; the YAML has the last word about every column that it names, and every field that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tidegate.core.spec.change_events import EVENT_COLUMNS
from tidegate.core.spec.evolution import changes
from tidegate.core.spec.pipeline import Column, Pipeline, table_columns
from tidegate.core.spec.proposals import Proposal, keys_of, propose

EVOLVE = "evolve"
STOPS = ("fail", EVOLVE)
"""Values of `unknown_fields` under which no batch lands with a field that no column takes."""
BY_POLICY = "format.unknown_fields: evolve"
_WIDEST = dict.fromkeys(("tinyint", "smallint", "int"), "bigint")
_OF_EVENTS = frozenset(name for name, *_ in EVENT_COLUMNS)


@dataclass(frozen=True, kw_only=True)
class SchemaChange:
    """A field that became a column. `batch_id`, `partition`, `offset`: of the first record that was seen with it; None
    where the ledger was restored and storage remembers the column alone."""

    column: str
    type: str
    path: str
    batch_id: int | None = None
    partition: int | None = None
    offset: int | None = None
    why: str = BY_POLICY
    actor: str = ""
    at_ms: int = 0

    @property
    def place(self) -> str:
        """Where it was first seen, in words."""
        if self.offset is None:
            return "a record before the ledger was restored"
        return f"batch {self.batch_id}, partition {self.partition}, offset {self.offset}"


class SchemaLedger(Protocol):
    """Accepted changes of pipelines; none is ever changed or removed."""

    def changes(self, name: str) -> tuple[SchemaChange, ...]:
        """All of the pipeline, oldest first."""
        ...

    def accept(self, name: str, wanted: Sequence[SchemaChange]) -> tuple[SchemaChange, ...]:
        """Insert those whose column the pipeline has not accepted yet, each with an event; all that stand afterwards.
        The first one stays: another task may have accepted the same field."""
        ...


def in_force(pipeline: Pipeline, accepted: Iterable[SchemaChange]) -> Pipeline:
    """The pipeline with the accepted columns whose name and field the YAML does not have, behind its own."""
    names, paths = {c.name for c in pipeline.columns}, {c.path for c in pipeline.columns}
    new = tuple(
        Column(name=each.column, type=each.type, path=each.path, accepted=True)
        for each in accepted
        if each.column not in names and each.path not in paths
    )
    if not new:
        return pipeline
    own = tuple(c for c in pipeline.columns if c.name not in _OF_EVENTS)
    brought = tuple(c for c in pipeline.columns if c.name in _OF_EVENTS)
    # ids of fields are pinned anew: the table gets further ones
    return replace(pipeline, columns=(*own, *new, *brought), sink=replace(pipeline.sink, fields=()))


def proposed(accepted: SchemaChange) -> Proposal:
    """The column as it would stand in the YAML."""
    return Proposal(accepted.path.removeprefix("$."), accepted.column, accepted.type, note="accepted by evolve")


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
        found.append(Column(name=proposal.column, type=proposal.type, path=f"$.{field}"))
    return tuple(found), tuple(left)


def objections(before: Pipeline, after: Pipeline) -> tuple[str, ...]:
    """Why the table cannot have the columns of `after`; empty if it can."""
    return changes(table_columns(before), table_columns(after), after.sink.format).refused
