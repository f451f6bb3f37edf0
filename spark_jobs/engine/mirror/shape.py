"""Which column of a mirror's table says what, by the plan of an apply."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.failures import refuse
from spark_jobs.engine.mirror.numbers import Numbers, numbers
from spark_jobs.engine.sinks.stored import field_with_id
from spark_jobs.engine.types import arrow_type
from tidegate.core.base.hivetypes import parse
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.mirror.jobs import BUCKET, START, N
from tidegate.core.mirror.parts import KeyPart, swept_below
from tidegate.core.spec.change_events import EVENT_COLUMNS, SAYS_HOW
from tidegate.core.spec.pipeline import KAFKA_COLUMNS

DELETE = "d"
_OP, _COMMIT, _ROW, _SOURCE_MS = (name for name, _, _ in EVENT_COLUMNS)
_TOPIC, _PARTITION, _OFFSET, _, _BATCH = (name for name, _ in KAFKA_COLUMNS)


class _Texts:
    """A column of texts, which is compared with one text, row by row."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def __eq__(self, other: object) -> Any:
        return numbers(pc.equal(self._column, other))


class Shape:
    """Rows of the table without their bucket (`rows`), in the table's names, types and order.

    Raises JobError for a plan whose table lacks a column that a merge needs."""

    def __init__(self, plan: ApplyPlan) -> None:
        self._plan, self.takes_conflicts, self.newest_ms = plan, plan.take_conflicts, plan.newest_ms
        self.swept_parts, self.servers = plan.swept_parts, plan.servers
        self.by_days = plan.whole
        kept = [c for c in plan.columns if c.name != BUCKET]
        self.rows = pa.schema([pa.field(c.name, arrow_type(parse(c.type))) for c in kept])
        self.source = {c.name: c.of for c in kept}
        """Logical column of event files by the table's; empty for one that the job computes."""
        named = {c.of: c.name for c in kept if c.of} | {N: N if N in self.source else ""}
        needed = (*plan.key, _OP, _COMMIT, _ROW, N, _TOPIC, _PARTITION, _OFFSET, _BATCH)
        missing = [of for of in needed if not named.get(of)]
        if missing or not plan.key or plan.buckets < 1:
            raise refuse(f"the plan's table has no column for {', '.join(missing) or 'a key'}")
        self.key = [named[of] for of in plan.key]
        self._named = named
        self.op, self.commit, self.row, self.n = (named[of] for of in (_OP, _COMMIT, _ROW, N))
        self.topic, self.partition, self.offset, self.batch = (
            named[of] for of in (_TOPIC, _PARTITION, _OFFSET, _BATCH)
        )
        self.source_ms = named.get(_SOURCE_MS)
        """None in a table of before there was such a column."""
        self.content = [name for name, of in self.source.items() if of and of not in SAYS_HOW]
        """The columns of the spec: what a row says."""
        self.never_null = [*self.key, self.op, self.commit, self.row, self.n, self.batch, self.partition, self.offset]

    @functools.cached_property
    def stored(self) -> pa.Schema:
        """Columns of the table's files, with a field id on everything unless they go by name. Raises JobError where one
        is missing."""
        if self._plan.whole:
            return self.rows
        ids = dict(self._plan.fields)
        return pa.schema(
            [
                field_with_id(c.name, c.name, parse(c.type), ids, "mirror's", c.name != BUCKET)
                for c in self._plan.columns
            ]
        )

    def empty(self) -> pa.Table:
        return self.rows.empty_table()

    def deleted(self, rows: pa.Table) -> pa.ChunkedArray:
        """Which of them are deletes: events, or tombstones."""
        return pc.equal(rows[self.op], DELETE)

    def named(self, column: str) -> str:
        """The table's column of a logical one."""
        return self._named[column]

    def key_numbers(self, rows: pa.Table, columns: Sequence[str]) -> dict[str, Numbers]:
        """Values of columns of the key that are whole numbers, by their logical names."""
        return {of: numbers(rows[self._named[of]]).astype(np.int64) for of in columns}

    def key_values(self, rows: pa.Table, part: KeyPart) -> dict[str, Any]:
        """Values of the key's columns that say whether it is of the part, by their logical names."""
        found: dict[str, Any] = self.key_numbers(rows, part.columns)
        if part.server is not None:
            found[part.server.column] = _Texts(rows[self._named[part.server.column]])
        return found

    def places_of_servers(self, rows: pa.Table) -> Numbers:
        """The place of each row's server among the plan's; behind them of one that it does not name."""
        assert self.servers is not None
        names = [log.name for log in self.servers.logs]
        found = pc.index_in(rows[self._named[self.servers.column]], pa.array(names, pa.string()))
        return numbers(pc.fill_null(found.cast(pa.int64()), len(names)))

    def swept_below(self, rows: pa.Table) -> tuple[Any, Any, Any]:
        """S5: below which position nothing is said any more of each row's key; one of all where there are no parts."""
        key: dict[str, Any] = {}
        for one in self.swept_parts:
            if not one.part.of_columns <= key.keys():
                key |= self.key_values(rows, one.part)
        return swept_below(key, self._plan.swept_below, self.swept_parts)

    def by_server(self, rows: pa.Table) -> tuple[tuple[str, int], ...]:
        """How many of the rows each server of several has, of those that have any."""
        if self.servers is None or not len(rows):
            return ()
        counts = np.bincount(self.places_of_servers(rows), minlength=len(self.servers.logs))
        named = zip(self.servers.logs, counts.tolist(), strict=False)
        return tuple((log.name, count) for log, count in named if count)

    def purged_below(self, rows: pa.Table) -> tuple[Any, Any, Any]:
        """M5: below which position tombstones of each row's key have been purged; one of all where there is one log."""
        if self.servers is None:
            return self._plan.purged_below
        known = np.array([*(log.purged_below for log in self.servers.logs), START], np.int64)
        commit, row, n = known[self.places_of_servers(rows)].T
        return commit, row, n

    def with_bucket(self, rows: pa.Table, number: int) -> pa.Table:
        """Rows as the table's files hold them."""
        bucket = pa.repeat(number, len(rows))
        columns = [bucket.cast(f.type) if f.name == BUCKET else rows[f.name] for f in self.stored]
        return pa.Table.from_arrays(columns, schema=self.stored)
