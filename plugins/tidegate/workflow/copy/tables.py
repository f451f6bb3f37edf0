"""The tables of the source whose rows a mirror has: one, or its shards (S11), as their database describes them now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from tidegate.core.base.errors import NotReady, SpecError, StepMissing
from tidegate.core.copy.jobs import CopiedColumn, CopiedTable
from tidegate.core.copy.port import Database, SourceTable
from tidegate.core.mirror.parts import WHOLE_NUMBERS, KeyPart, key_part
from tidegate.core.spec.change_events import EVENT_COLUMNS, SERVER, SHARD_PATHS
from tidegate.core.spec.paths import parse
from tidegate.core.spec.pipeline import Column, Copy
from tidegate.workflow.base import servers
from tidegate.workflow.base.context import Context
from tidegate.workflow.copy.standing import table_key

_EVENT = frozenset(name for name, *_ in EVENT_COLUMNS)
_INTEGERS = re.compile(r"(tinyint|smallint|mediumint|integer|int|bigint)\b")
"""Types of databases whose values are whole numbers, in the order of numbers."""
Keys = tuple[str, str]
"""The first and the last key of a part, both included, as people write them: values of the key's columns by commas."""


def section(ctx: Context) -> Copy:
    """The section copy. Raises StepMissing."""
    if ctx.pipeline.copy is None:
        raise StepMissing(f"{ctx.name} has no section copy: there is no source table to read")
    return ctx.pipeline.copy


class SourceTables:
    """One look at them: each is described at most once. Methods raise SourceError too."""

    def __init__(self, ctx: Context, database: Database, server: str = "") -> None:
        """`server`: whose database it is, where there are several (S11). Raises SpecError for an unknown one."""
        self._ctx, self._database, self._spec, self.server = ctx, database, section(ctx), server
        self._known: dict[str, SourceTable] = {}
        if server not in [one.name for one in self._spec.each]:
            what = f"{ctx.name}: copy.servers names no server {server or 'without a name'}"
            raise SpecError(what, advice="its tables are read server by server: name one of them")

    @property
    def spelled(self) -> str:
        """As the YAML names them."""
        return self._spec.tables or self._spec.table

    @cached_property
    def names(self) -> tuple[str, ...]:
        """`schema.name` of each, in order. Raises SpecError if no table matches."""
        found = self._spec.names(self._database.tables)
        if not found:
            raise SpecError(
                f"{self._ctx.name}: no table of the source is called as copy.tables says, {self._spec.tables}",
                advice="it is a regular expression of schema.name, from its beginning to its end",
            )
        return found

    @property
    def key(self) -> tuple[str, ...]:
        """The primary key's columns, in the order that the first table has."""
        return self.described(self.names[0]).key

    def described(self, name: str) -> SourceTable:
        """Raises SpecError where its primary key is not the mirror's."""
        if name not in self._known:
            self._known[name] = self._described(name)
        return self._known[name]

    def _described(self, name: str) -> SourceTable:
        table = self._database.describe(name)
        columns = [self._ctx.pipeline.column(column) for column in table_key(self._ctx)]
        wanted = {of_source(column) for column in columns if column.path not in SHARD_PATHS}
        if set(table.key) != wanted:
            raise SpecError(
                f"{self._ctx.name}: the primary key of {name} is {', '.join(table.key)}, sink.key is "
                f"{', '.join(sorted(wanted))}",
                advice="name the primary key in sink.key: rows would be taken for one another. A mirror with landed "
                "batches keeps its key: then make another one (name, table, location), whose source.start is behind "
                "the change",
            )
        return table

    def to_read(self, name: str) -> CopiedTable:
        """What a job is told of the table. Raises SpecError for a column that no column takes, where no field may be
        unknown: an older event with its value would lose to a row without it; NotReady where its first event takes it
        up."""
        table = self.described(name)
        self._refuse_unknown(table)
        return CopiedTable(table, copied_columns(self._ctx, table), self.said(name))

    def said(self, name: str) -> tuple[tuple[str, str], ...]:
        """(column, value) of those that tell that a row is of this table. Raises SpecError where its events do not."""
        told = dict(self._database.event_names(self.described(name)))
        told |= {SERVER: self.server} if self.server else {}
        columns = [(c.name, SHARD_PATHS[c.path]) for c in self._ctx.pipeline.decoded_columns if c.path in SHARD_PATHS]
        missing = next((column for column, of in columns if of not in told), None)
        if missing is not None:
            raise SpecError(
                f"{self._ctx.name}: events of {name} do not say what column {missing} is taken from",
                advice=f"they say {', '.join(f'$._source.{one}' for one in sorted(told))}",
            )
        return tuple((column, told[of]) for column, of in columns)

    def part(self, keys: Keys) -> KeyPart | None:
        """The part of the table that two keys name. Raises SpecError where it has no parts, or they name none."""
        name, words = self._ctx.name, "the whole table can be read again"
        why = self.why_no_parts()
        if why is not None:
            advice = f"parts are of keys that are whole numbers, which everybody puts in one order; {words}"
            raise SpecError(f"{name}: {why}", advice=words if self._spec.tables else advice)
        table = self.described(self.names[0])
        try:
            found = key_part([column.name for column in key_of(self._ctx, table.key)], *keys)
        except ValueError as e:
            raise SpecError(f"{name}: {e}") from None
        return servers.part(self._ctx, self.server, found)

    def why_no_parts(self) -> str | None:
        """Why nobody but the source knows which keys lie between two others; None: everybody does."""
        if self._spec.tables:
            return "a mirror of several tables has no parts"
        return self.why_no_ranges(self.names[0])

    def why_no_ranges(self, name: str) -> str | None:
        """The same of the keys of one table."""
        table = self.described(name)
        types = {c.name: c.type for c in table.columns}
        for of, mine in zip(table.key, key_of(self._ctx, table.key), strict=True):
            if mine.type not in WHOLE_NUMBERS or not _INTEGERS.match(types[of]):
                return f"column {of} of the key is {types[of]} in the source and {mine.type} in the mirror"
        return None

    def lacking(self) -> list[str]:
        """The source's columns that the spec has, and none of the tables. A copy reads null there: if one of them comes
        later with a default, rows that have not changed since stay so, and nothing says it."""
        there = {c.name for name in self.names for c in self.described(name).columns}
        return [of_source(c) for c in _wanted(self._ctx) if of_source(c) not in there]

    def unchanged(self, name: str) -> bool:
        """Whether the table has the columns that it had when it was looked at."""
        return self._database.describe(name).columns == self.described(name).columns

    def _refuse_unknown(self, table: SourceTable) -> None:
        if self._ctx.pipeline.format.unknown_fields == "ignore":
            return
        taken = {of_source(c) for c in self._ctx.pipeline.decoded_columns}
        unknown = [c.name for c in table.columns if c.name not in taken]
        if unknown:
            what = f"{self._ctx.name}: no column takes {', '.join(unknown)} of {table.schema}.{table.name}"
            if self._ctx.pipeline.format.unknown_fields == "evolve":
                raise NotReady(what, advice="the first event that has it takes it up, and the copy goes on by itself")
            advice = f"tidegate schema propose {self._ctx.name} --write adds it; then clear the task"
            raise SpecError(what, advice=advice)


def copied_columns(ctx: Context, table: SourceTable) -> tuple[CopiedColumn, ...]:
    """Those of the spec that the source has, too: one that it has dropped is null."""
    known = {c.name for c in table.columns}
    return tuple(CopiedColumn(c.name, of_source(c), c.type) for c in _wanted(ctx) if of_source(c) in known)


def _wanted(ctx: Context) -> list[Column]:
    return [c for c in ctx.pipeline.decoded_columns if c.name not in _EVENT and c.path not in SHARD_PATHS]


def key_of(ctx: Context, key: Sequence[str]) -> tuple[Column, ...]:
    """Columns of the keyed table's key, in the order of the source's `key`: other columns may be taken from the same
    ones."""
    by_source = {of_source(column): column for column in map(ctx.pipeline.column, table_key(ctx))}
    return tuple(by_source[of] for of in key)


def of_source(column: Column) -> str:
    """The source's column; of a computed one, its own name."""
    return parse(column.path)[0] if column.path else column.name
