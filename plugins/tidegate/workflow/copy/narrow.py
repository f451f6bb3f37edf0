"""Narrows a comparison down to the key ranges that may differ, by checksums that the source's database computes.

Nothing is said of a key here. A range whose checksums differ is read, and compared row by row (`compare`), since it may
have moved meanwhile. One whose checksums are equal is left out, whatever moves: both had the same rows, the source when
it was asked and the mirror in the snapshot that was summed; what it has missed before would show as a difference, and
what happens to these rows afterwards has its events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tidegate.core.base.errors import SourceError, SpecError, StorageError
from tidegate.core.base.wording import many
from tidegate.core.copy.checksums import KeyRanges, differing, fewer, joined, not_ended, reached, spelled_keys
from tidegate.core.copy.port import Checksum, Checksums, Database, Form, KeyRange, SourceTable
from tidegate.core.mirror.jobs import Bucket, TableColumn
from tidegate.core.mirror.parts import KeyPart
from tidegate.core.spec.change_events import SAYS_HOW
from tidegate.workflow.apply.apply import apply
from tidegate.workflow.audit.keyed import TableReader
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.pace import Pace
from tidegate.workflow.copy.held import Held, begun
from tidegate.workflow.copy.tables import Keys, SourceTables, copied_columns, key_of, section

ROWS = 1_000
"""Of the source, in a range that is narrowed down no further."""
_CUTS = 100
"""Bounds that are asked for at once."""


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """`differing`: the ranges of `table` that are to be read. `rows`: of the source, in all ranges; `ranges`: number of
    checksums that it computed."""

    table: str
    differing: tuple[KeyRange, ...]
    rows: int
    ranges: int


@dataclass(frozen=True)
class _Sides:
    """What is asked, of whom. `wanted`: the table's columns and their forms; `key`: logical columns, in the order of
    the source's primary key."""

    ctx: Context
    database: Database
    reader: TableReader
    table: SourceTable
    source: Checksums
    wanted: tuple[tuple[str, Form], ...]
    key: tuple[str, ...]
    held: Held


def narrow(
    ctx: Context, database: Database, reader: TableReader, columns: Sequence[TableColumn], part: KeyPart | None
) -> Narrowed | str:
    """The ranges of the source's table, or of a `part` of it, that may differ; or why all of it is to be read: nothing
    of it can be summed. `columns`: of the mirror's table, that are compared.

    Raises as `apply` does, SourceUnavailable, StorageError; SourceError where its table cannot be described."""
    tables = SourceTables(ctx, database)
    why = tables.why_no_parts()
    if why is not None:
        return why
    name, spec = tables.names[0], section(ctx)
    table = tables.described(name)
    mine = {c.of: c.name for c in columns if c.of and c.of not in SAYS_HOW}
    copied = [c for c in copied_columns(ctx, table) if c.name in mine]
    others = sorted(mine.keys() - {c.name for c in copied})
    if others:
        return f"column {others[0]} is computed"
    encoding = "json" if ctx.pipeline.format.debezium is None else ctx.pipeline.format.debezium.encoding
    source = database.checksums(table, [(c.of, c.type) for c in copied], encoding != "avro", spec.rate)
    wanted = [(mine[c.name], form) for c, form in zip(copied, source.forms, strict=True) if form is not None]
    if len(wanted) < len(copied):
        column = next(c for c, form in zip(copied, source.forms, strict=True) if form is None)
        return f"the database cannot sum column {column.of} as {column.type}"
    if not apply(ctx).told.copied.whole:
        return "its first copy is not whole"
    key = tuple(column.name for column in key_of(ctx, table.key))
    sides = _Sides(ctx, database, reader, table, source, tuple(wanted), key, begun(ctx, reader, tuple(columns)))
    whole = KeyRange() if part is None else KeyRange(part.lower, part.last)
    try:
        return _narrowed(sides, name, whole, spec.chunk_rows)
    except SourceError as e:
        if e.retry:
            raise
        return f"the database does not sum it: {e.args[0]}"  # who may read a table may not be able to sum it


def next_keys(ctx: Context, database: Database) -> Keys | None:
    """What the next run of the comparison's DAG compares: `compare_rows` rows of the source behind those of the run
    before; None: all. Raises SpecError where the table has no parts, SourceError."""
    rows = section(ctx).compare_rows
    if rows is None:
        return None
    tables = SourceTables(ctx, database)
    why = tables.why_no_parts()
    if why is not None:
        raise SpecError(f"{ctx.name}: {why}", advice="leave copy.compare_rows out: all is compared at once")
    table = tables.described(tables.names[0])
    rounds = ctx.ledger.copies.rounds(ctx.name)
    after = reached(rounds, len(table.key))
    died = not_ended(rounds, after, len(table.key))
    if died is not None:  # its end may have another number of rows before it by now
        return spelled_keys(KeyRange(died.lower, died.last), len(table.key))
    found = database.bounds(table, after, rows, 1)
    return spelled_keys(KeyRange(after, found[0] if found else None), len(table.key))


def _narrowed(sides: _Sides, name: str, whole: KeyRange, chunk_rows: int) -> Narrowed:
    """First by chunks, then each chunk that differs by small ranges: the mirror is summed once for each."""
    chunks = list(_cut(sides, whole, chunk_rows))
    summed = _of_source(sides, chunks, "")
    found = differing(chunks, summed, _of_mirror(sides, chunks))
    count = len(chunks)
    if found and chunk_rows > ROWS:
        small = [list(_cut(sides, keys, ROWS)) for keys in found]
        flat = [keys for some in small for keys in some]
        wrong = set(differing(flat, _of_source(sides, flat, " once more"), _of_mirror(sides, flat)))
        found = [keys for some in small for keys in fewer(joined([one for one in some if one in wrong]))]
        count += len(flat)
    return Narrowed(table=name, differing=tuple(found), rows=sum(one.rows for one in summed), ranges=count)


def _cut(sides: _Sides, keys: KeyRange, rows: int) -> Iterator[KeyRange]:
    """Ranges of so many rows of the source, which hold every key of this one."""
    after = keys.lower
    while True:
        found = sides.database.bounds(sides.table, after, rows, _CUTS)
        inside = [bound for bound in found if keys.upper is None or bound < keys.upper]
        for bound in inside:
            yield KeyRange(after, bound)
            after = bound
        if len(inside) < _CUTS:
            break
    yield KeyRange(after, keys.upper)


def _of_source(sides: _Sides, ranges: Sequence[KeyRange], words: str) -> list[Checksum]:
    pace, found, rows = Pace(sides.ctx.say), list[Checksum](), 0
    for keys in ranges:
        found.append(sides.source.of(keys))
        rows += found[-1].rows
        pace.say(partial("summed {} of the source{} in {:,} of {:,} ranges".format, many(rows, "row"), words,
                         len(found), len(ranges)))  # fmt: skip
    return found


def _of_mirror(sides: _Sides, ranges: Sequence[KeyRange]) -> list[Checksum]:
    sides.reader.within(KeyRanges(sides.key, tuple(ranges)))
    rows, totals = [0] * len(ranges), [0] * len(ranges)
    for bucket in _buckets(sides):
        found = sides.reader.sums(bucket, sides.wanted)
        if found.unread:
            raise StorageError(f"{sides.ctx.name}: rows of the mirror cannot be summed: {found.unread}")
        rows = [one + other for one, other in zip(rows, found.rows, strict=True)]
        totals = [one + other for one, other in zip(totals, found.totals, strict=True)]
    return [Checksum(one, total % 2**64) for one, total in zip(rows, totals, strict=True)]


def _buckets(sides: _Sides) -> Iterable[Bucket]:
    pace, there = Pace(sides.ctx.say), sides.held.there
    for done, bucket in enumerate(there, 1):
        yield bucket
        pace.say(partial("summed {:,} of {}".format, done, many(len(there), "bucket")))
