"""Computed columns and `where`: SQL over a chunk's decoded columns, one query for all of its rows.

A row that its own expression cannot be computed for is dirty; it never fails the batch, nor its neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.expression_rules import Rules, Wrong, connect, quoted, said, strict
from spark_jobs.engine.types import TIMESTAMP, schema_of
from tidegate.core.base.hivetypes import HiveType, parse
from tidegate.core.spec.pipeline import Column, Pipeline

WHERE = "where"
MAX_EXPLAINED = 200
"""Rows of a chunk whose failure is computed once more, alone, to tell its words."""
_NAIVE = pa.timestamp("us")
_OF_A_ROW = (duckdb.DataError, duckdb.ProgrammingError, duckdb.NotSupportedError, duckdb.IntegrityError)
"""Errors that a value can cause; out of memory, interrupted or broken is the whole job's affair."""
_UNEXPLAINED = "the expression cannot be computed for this row"


class Refused(Exception):
    """`problems`: (column, or `where`; what is wrong with its expression), in the spec's order."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class _Step:
    """A computed column: `convert` makes its type of the raw result, which is called `"*raw"`."""

    column: Column
    kind: HiveType
    reads: frozenset[str]
    convert: str


@dataclass(frozen=True)
class Computed:
    """`table` has every column of the spec that is no hidden one, in its order. `kept`: whether `where` keeps the row;
    None: it keeps all. `failed`: row -> (column or `where`, reason)."""

    table: pa.Table
    kept: pa.Array | None
    failed: dict[int, tuple[str, str]]


class Expressions:
    """The expressions of one spec, checked. Raises Refused."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._where = pipeline.where
        self._visible = [c.name for c in pipeline.columns if not c.hidden]
        self._connection = connect()
        self._rules = Rules(self._connection)
        self._kinds = {c.name: parse(c.type) for c in pipeline.columns}
        self._steps = self._ordered(pipeline.columns)
        self._check_where(pipeline)
        computed = {s.column.name for s in self._steps}
        reads = frozenset().union(*(s.reads for s in self._steps), self._where_reads)
        self._inputs = sorted(reads - computed)
        self._schema = schema_of(tuple((s.column.name, s.column.type) for s in self._steps))

    # ------------------------------------------------------------ checking

    def _ordered(self, columns: Sequence[Column]) -> list[_Step]:
        """Each after those that it reads."""
        problems: dict[str, str] = {}
        names = [c.name for c in columns]
        reads: dict[str, frozenset[str]] = {}
        for c in columns:
            if c.expr is not None:
                try:
                    reads[c.name] = self._rules.names(c.expr, names)
                except Wrong as e:
                    problems[c.name] = str(e)
        known = {c.name: self._kinds[c.name] for c in columns if c.name not in reads}
        waiting = [c for c in columns if c.name in reads]
        steps: list[_Step] = []
        while waiting:
            ready = [c for c in waiting if reads[c.name] <= known.keys()]
            for c in ready:
                try:
                    steps.append(self._step(c, reads[c.name], known))
                except Wrong as e:
                    problems[c.name] = str(e)
                known[c.name] = self._kinds[c.name]
            if not ready:
                circle = " and ".join(c.name for c in waiting)
                problems |= {c.name: f"reads itself: {circle} wait for each other" for c in waiting}
                break
            waiting = [c for c in waiting if c.name not in known]
        self._problems = [(name, problems[name]) for name in names if name in problems]
        return steps

    def _step(self, column: Column, reads: frozenset[str], known: dict[str, HiveType]) -> _Step:
        assert column.expr is not None
        kind = self._kinds[column.name]
        found = self._rules.result(column.expr, [(n, known[n]) for n in sorted(reads)])
        return _Step(column, kind, reads, strict('"*raw"', found, kind))

    def _check_where(self, pipeline: Pipeline) -> None:
        self._where_reads: frozenset[str] = frozenset()
        try:
            if self._where is not None:
                self._where_reads = self._rules.names(self._where, [c.name for c in pipeline.columns])
                found = self._rules.result(self._where, [(n, self._kinds[n]) for n in sorted(self._where_reads)])
                if str(found.id) not in ("boolean", "sqlnull", "null"):
                    raise Wrong(f"must be true or false, this gives {found}")
        except Wrong as e:
            self._problems.append((WHERE, str(e)))
        if self._problems:
            raise Refused(self._problems)

    # ------------------------------------------------------------ computing

    def compute(self, table: pa.Table) -> Computed:
        """`table` has a row for each message and the decoded columns. Raises nothing for what a row holds."""
        rows = self._rows(table)
        try:
            found = self._run(rows, careful=False)
        except _OF_A_ROW:
            found = self._careful(rows)
        flags = self._failures(found)
        failed: dict[int, tuple[str, str]] = {}
        for number, (row, name) in enumerate(sorted(flags.items())):
            failed[row] = (name, self._explained(rows.slice(row, 1), name) if number < MAX_EXPLAINED else _UNEXPLAINED)
        return Computed(self._columns(table, found), self._kept(found), failed)

    def _rows(self, table: pa.Table) -> pa.Table:
        inputs = {name: _naive(table[name]) for name in self._inputs}
        return pa.table({"*i": pa.array(range(len(table)), pa.int64()), **inputs})

    def _run(self, rows: pa.Table, *, careful: bool) -> pa.Table:
        self._connection.register("*rows", rows)
        try:
            found = self._connection.sql(self._query(careful)).to_arrow_table().combine_chunks()
        finally:
            self._connection.unregister("*rows")
        # one message is one row: never trust an engine's order without looking
        if not found["*i"].combine_chunks().equals(rows["*i"].combine_chunks()):
            raise AssertionError(f"expressions shifted rows: {len(found)} results for {len(rows)} messages")
        return found

    def _careful(self, rows: pa.Table) -> pa.Table:
        """Compute by halves, to find the one row with an error that even TRY() lets through."""
        try:
            return self._run(rows, careful=True)
        except _OF_A_ROW:
            if len(rows) == 1:
                return self._hopeless(rows)
            half = len(rows) // 2
            return pa.concat_tables([self._careful(rows.slice(0, half)), self._careful(rows.slice(half))])

    def _hopeless(self, row: pa.Table) -> pa.Table:
        """Null in every column, and failed in the first."""
        schema = self._run(row.slice(0, 0), careful=True).schema
        columns = {f.name: pa.nulls(1, f.type) for f in schema} | {"*i": row["*i"]}
        columns |= {f.name: pa.array([False]) for f in schema if f.name.startswith(("*error", "*unfit"))}
        columns["*error0" if self._steps else "*error"] = pa.array([True])
        return pa.table(columns, schema=schema)

    def _query(self, careful: bool, last: str | None = None) -> str:
        """Layers of selects, each of columns that do not read each other: their number costs DuckDB most.

        `careful`: an error becomes a flag. `last`: of this column alone, with what it reads."""
        source, flags = 'select * from "*rows"', []
        for layer in _layers(self._steps if last is None else self._read_by(last)):
            numbers = [(self._steps.index(step), step) for step in layer]
            texts = [(f"*raw{n}", f"*error{n}", step.column.expr) for n, step in numbers]
            source = _evaluated(texts, source, careful)
            made = []
            for number, step in numbers:
                raw, name = quoted(f"*raw{number}"), quoted(step.column.name)
                made.append(f"{step.convert.replace(quoted('*raw'), raw)} as {name}")
                flags += [f"({raw} is not null and {name} is null) as {quoted(f'*unfit{number}')}"]
                flags += [name, quoted(f"*error{number}")]
                if step.column.name == last:
                    return f"select cast({raw} as varchar) as said from ({source})"
            source = f"select *, {', '.join(made)} from ({source})"
        if self._where is not None:
            source = _evaluated([("*kept", "*error", self._where)], source, careful)
            flags += ['"*kept"', '"*error"']
        return f"select {', '.join([quoted('*i'), *flags])} from ({source})"

    def _read_by(self, name: str) -> list[_Step]:
        """The step of that column, after all that it reads."""
        wanted, found = {name}, []
        for step in reversed(self._steps):
            if step.column.name in wanted:
                wanted |= step.reads
                found.append(step)
        return found[::-1]

    def _failures(self, found: pa.Table) -> dict[int, str]:
        """Row -> the first of the columns, in the order of computing, that could not be."""
        failed: dict[int, str] = {}
        for number, step in enumerate(self._steps):
            name = step.column.name
            bad = pc.or_(found[f"*error{number}"], found[f"*unfit{number}"])
            if not step.column.nullable:
                bad = pc.or_(bad, found[name].is_null())
            for row in _true(bad):
                failed.setdefault(row, name)
        if self._where is not None:
            for row in _true(found["*error"]):
                failed.setdefault(row, WHERE)
        return failed

    def _explained(self, row: pa.Table, name: str) -> str:
        """Reason why this row has no value: the engine's words, or the value that does not fit."""
        self._connection.register("*rows", row)
        try:
            if name == WHERE:
                self._connection.sql(self._query(careful=False)).fetchall()
                return _UNEXPLAINED
            ((value,),) = self._connection.sql(self._query(careful=False, last=name)).fetchall()
        except _OF_A_ROW as e:
            return f"cannot be computed: {said(e)[:200]}"
        finally:
            self._connection.unregister("*rows")
        if value is None:
            return "is null, but the column is not nullable"
        return f"{str(value)[:40]} does not fit in {self._kinds[name]}"

    def _columns(self, table: pa.Table, found: pa.Table) -> pa.Table:
        made = found.select([s.column.name for s in self._steps]).cast(self._schema)
        columns = {name: table[name] for name in table.column_names}
        columns |= {name: made[name] for name in made.column_names}
        extra = [n for n in table.column_names if n not in self._kinds]
        return pa.table({name: columns[name] for name in itertools.chain(self._visible, extra)})

    def _kept(self, found: pa.Table) -> pa.Array | None:
        return None if self._where is None else pc.fill_null(found["*kept"].combine_chunks(), False)


def _layers(steps: Sequence[_Step]) -> list[list[_Step]]:
    """In their order; none reads another one of its layer."""
    layers: list[list[_Step]] = []
    names: set[str] = set()
    for step in steps:
        if not layers or step.reads & names:
            layers.append([])
            names = set()
        layers[-1].append(step)
        names.add(step.column.name)
    return layers


def _evaluated(texts: Sequence[tuple[str, str, str | None]], source: str, careful: bool) -> str:
    """`source` with expressions: (name of the value, name of the flag that says whether it failed, SQL) of each.

    An error inside of TRY() gives null; the struct around the value tells it from a null that was computed."""
    if not careful:
        values = (f"({text}\n) as {quoted(value)}, false as {quoted(flag)}" for value, flag, text in texts)
        return f"select *, {', '.join(values)} from ({source})"
    tries = [quoted(f"*tried{number}") for number in range(len(texts))]
    tried = (f"TRY({{'v': ({text}\n)}}) as {name}" for name, (_, _, text) in zip(tries, texts, strict=True))
    told = (
        f"{name}.v as {quoted(value)}, {name} is null as {quoted(flag)}"
        for name, (value, flag, _) in zip(tries, texts, strict=True)
    )
    return (
        f"select * exclude ({', '.join(tries)}), {', '.join(told)} from (select *, {', '.join(tried)} from ({source}))"
    )


def _true(flags: pa.ChunkedArray) -> Iterator[int]:
    if pc.any(flags).as_py():
        yield from pc.indices_nonzero(flags).to_pylist()


def _naive(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Instants as UTC without a mark, wherever they are in the type: no function then asks for a zone."""
    kind = _without_zone(column.type)
    return column if kind == column.type else column.cast(kind)


def _without_zone(kind: pa.DataType) -> pa.DataType:
    if kind == TIMESTAMP:
        return _NAIVE
    if pa.types.is_list(kind):
        return pa.list_(_without_zone(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_without_zone(kind.key_type), _without_zone(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _without_zone(f.type)) for f in kind])
    return kind
