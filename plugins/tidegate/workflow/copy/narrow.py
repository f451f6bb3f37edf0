"""Narrows a comparison down to the keys that may differ, by checksums that the source's database computes: of ranges
of keys that are whole numbers, which an index finds; of other keys by groups of a digest, which know no collation.

Nothing is said of a key here. A part whose checksums differ is read, and compared row by row (`compare`), since it may
have moved meanwhile. One whose checksums are equal is left out, whatever moves: both had the same rows, the source when
it was asked and the mirror in the snapshot that was summed; what it has missed before would show as a difference, and
what happens to these rows afterwards has its events. That a group is asked for chunk by chunk changes nothing: each of
its keys is in one chunk, and seen at one moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter

from tidegate.core.base.errors import SourceError, SpecError, StorageError
from tidegate.core.base.wording import many
from tidegate.core.copy.checksums import (
    TableKeys,
    differing,
    fewer,
    group_bits,
    joined,
    not_ended,
    of_groups,
    reached,
    read_all,
    spelled_keys,
)
from tidegate.core.copy.port import Checksum, Checksums, Database, Form, KeyGroups, KeyRange, SourceTable, TableRange
from tidegate.core.copy.rounds import Chunk
from tidegate.core.mirror.applies import Told
from tidegate.core.mirror.jobs import Bucket, TableColumn
from tidegate.core.mirror.parts import KeyPart, server_of
from tidegate.core.spec.change_events import SAYS_HOW, SHARD_PATHS
from tidegate.core.spec.pipeline import Column
from tidegate.workflow.apply.apply import apply
from tidegate.workflow.audit.keyed import TableReader
from tidegate.workflow.base.context import Context
from tidegate.workflow.base.pace import Pace
from tidegate.workflow.copy.held import Held, begun
from tidegate.workflow.copy.tables import Keys, SourceTables, copied_columns, key_of, section

ROWS = 1_000
"""Of the source, in a range or a group that is narrowed down no further."""
_CUTS = 100
"""Bounds that are asked for at once."""


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """`differing`: what is to be read. `rows`: of the source, in all parts; `parts`: number of checksums that it
    computed. `told`: what the mirror said of itself that was summed."""

    differing: tuple[TableRange, ...]
    rows: int
    parts: int
    told: Told


@dataclass(frozen=True)
class _Table:
    """A table of the source. `types`: of the key's columns in the mirror; `keys`: all of its keys there."""

    name: str
    table: SourceTable
    source: Checksums
    types: tuple[str, ...]
    keys: TableKeys
    has_ranges: bool


@dataclass(frozen=True)
class _Sides:
    """Who is asked."""

    ctx: Context
    database: Database
    reader: TableReader
    held: Held


@dataclass(frozen=True)
class _Part:
    """Keys of a table, with their checksums in the source. `chunks`: ranges that hold all of them."""

    of: _Table
    keys: TableKeys
    sums: list[Checksum]
    chunks: list[KeyRange]


def narrow(
    ctx: Context, database: Database, reader: TableReader, columns: Sequence[TableColumn], part: KeyPart | None
) -> Narrowed | str:
    """The keys of the source's tables, or of a `part` of them, that may differ; or why all are to be read. `columns`:
    of the mirror's table, that are compared.

    Raises as `apply` does, SourceUnavailable, StorageError; SourceError where a table cannot be described."""
    server = server_of(part)
    source, tables = SourceTables(ctx, database, server), list[_Table]()
    for name in source.names:
        found = _summed(ctx, database, source, name, columns)
        if isinstance(found, str):
            return found
        tables.append(found)
    if not apply(ctx).told.copied.whole_of(server):
        return "its first copy is not whole"
    sides = _Sides(ctx, database, reader, begun(ctx, reader, tuple(columns), part))
    whole = KeyRange() if part is None else KeyRange(*part.bounds)
    try:
        return _narrowed(sides, tables, whole)
    except SourceError as e:
        if e.retry:
            raise
        return f"the database does not sum it: {e.args[0]}"  # who may read a table may not be able to sum it


def keys_of(ctx: Context, database: Database, chunks: Iterable[Chunk], server: str = "") -> list[TableKeys]:
    """What these chunks have read, in the order of their numbers."""
    source, found = SourceTables(ctx, database, server), list[TableKeys]()
    for name, of_table in groupby(chunks, attrgetter("table")):
        mine = list(of_table)
        table, groups = source.described(name), mine[0].keys.groups
        keys = TableKeys(_names(key_of(ctx, table.key)), said=source.said(name))
        if groups is not None:
            wanted = list(zip(table.key, groups.types, strict=True))
            forms = database.checksums(table, wanted, _has_base64(ctx)).forms
            keys = replace(keys, groups=groups, forms=tuple(form for form in forms if form is not None))
        elif not read_all(mine, None, ()):
            keys = replace(keys, ranges=tuple(c.keys for c in mine))
        found.append(keys)
    return found


def next_keys(ctx: Context, database: Database, server: str = "") -> Keys | None:
    """What the next run of the comparison's DAG compares: `compare_rows` rows of the source, or of a `server` of
    several, behind those of the run before; None: all. Raises SpecError where the table has no parts, SourceError."""
    rows = section(ctx).compare_rows
    if rows is None:
        return None
    tables = SourceTables(ctx, database, server)
    why = tables.why_no_parts()
    if why is not None:
        raise SpecError(f"{ctx.name}: {why}", advice="leave copy.compare_rows out: all is compared at once")
    table = tables.described(tables.names[0])
    rounds = [one for one in ctx.ledger.copies.rounds(ctx.name) if one.server == server]
    after = reached(rounds, len(table.key))
    died = not_ended(rounds, after, len(table.key))
    if died is not None:  # its end may have another number of rows before it by now
        return spelled_keys(KeyRange(died.lower, died.last), len(table.key))
    found = database.bounds(table, after, rows, 1)
    return spelled_keys(KeyRange(after, found[0] if found else None), len(table.key))


# ---------------------------------------------------------------- what can be summed


def _summed(
    ctx: Context, database: Database, source: SourceTables, name: str, columns: Sequence[TableColumn]
) -> _Table | str:
    """The table; or why it cannot be summed."""
    table, key = source.described(name), key_of(ctx, source.described(name).key)
    tells = {c.name for c in ctx.pipeline.decoded_columns if c.path in SHARD_PATHS}
    mine = {c.of for c in columns if c.of} - SAYS_HOW - tells
    copied = [c for c in copied_columns(ctx, table) if c.name in mine]
    others = sorted(mine - {c.name for c in copied})
    if others:
        return f"column {others[0]} is computed"
    asked = database.checksums(table, [(c.of, c.type) for c in copied], _has_base64(ctx), section(ctx).rate)
    forms: dict[str, Form] = {}
    for column, form in zip(copied, asked.forms, strict=True):
        if form is None:
            return f"the database cannot sum column {column.of} as {column.type}"
        forms[column.name] = form
    names = _names(key)
    keys = TableKeys(names, forms=tuple(map(forms.__getitem__, names)), said=source.said(name),
                     summed=tuple(forms.items()))  # fmt: skip
    types = tuple(column.type for column in key)
    return _Table(name, table, asked, types, keys, source.why_no_ranges(name) is None)


def _has_base64(ctx: Context) -> bool:
    """Whether a `binary` column holds the text of its bytes' Base64."""
    return ctx.pipeline.format.debezium is None or ctx.pipeline.format.debezium.encoding != "avro"


def _names(key: Iterable[Column]) -> tuple[str, ...]:
    return tuple(column.name for column in key)


# ---------------------------------------------------------------- sums of both sides


def _narrowed(sides: _Sides, tables: Sequence[_Table], whole: KeyRange) -> Narrowed | str:
    """Ranges first by chunks, then each chunk that differs by small ones: the mirror is summed once for each."""
    chunk_rows, pace = section(sides.ctx).chunk_rows, _Progress(sides.ctx)
    rows = sum(file.rows for bucket in sides.held.there for file in bucket.files)
    bits = group_bits(rows // len(tables), ROWS)
    parts = [_of_source(sides, one, list(_cut(sides, one, whole, chunk_rows)), bits, pace) for one in tables]
    mirror, outside = _of_mirror(sides, [part.keys for part in parts])
    if outside:
        return f"the mirror has {many(outside, 'row')} of tables that the source does not have"
    found = [_differing(part, theirs) for part, theirs in zip(parts, mirror, strict=True)]
    count = sum(part.keys.parts for part in parts)
    if chunk_rows > ROWS:
        found, more = _once_more(sides, parts, found)
        count += more
    ranges = tuple(TableRange(part.of.name, keys) for part, some in zip(parts, found, strict=True) for keys in some)
    summed = sum(one.rows for part in parts for one in part.sums)
    return Narrowed(differing=ranges, rows=summed, parts=count, told=sides.held.told)


def _once_more(
    sides: _Sides, parts: Sequence[_Part], found: Sequence[list[KeyRange]]
) -> tuple[list[list[KeyRange]], int]:
    """The same by ranges of few rows, where a table has ranges, and how many those are."""
    pace = _Progress(sides.ctx, " once more")
    small: dict[int, tuple[list[list[KeyRange]], _Part]] = {}
    for n, (part, chunks) in enumerate(zip(parts, found, strict=True)):
        if part.of.has_ranges and chunks:
            cuts = [list(_cut(sides, part.of, keys, ROWS)) for keys in chunks]
            small[n] = cuts, _of_source(sides, part.of, [keys for some in cuts for keys in some], 0, pace)
    if not small:
        return list(found), 0
    mirror, _ = _of_mirror(sides, [part.keys for _, part in small.values()])
    after = list(found)
    for (n, (cuts, part)), theirs in zip(small.items(), mirror, strict=True):
        wrong = set(_differing(part, theirs))
        after[n] = [keys for some in cuts for keys in fewer(joined([one for one in some if one in wrong]))]
    return after, sum(part.keys.parts for _, part in small.values())


def _differing(part: _Part, mirror: Sequence[Checksum]) -> list[KeyRange]:
    groups = part.keys.groups
    if groups is None:
        return differing(part.keys.ranges, part.sums, mirror)
    return of_groups(part.chunks, replace(groups, numbers=tuple(differing(groups.numbers, part.sums, mirror))))


def _cut(sides: _Sides, of: _Table, keys: KeyRange, rows: int) -> Iterator[KeyRange]:
    """Ranges of so many rows of the source, which hold every key of this one."""
    after = keys.lower
    while True:
        found = sides.database.bounds(of.table, after, rows, _CUTS)
        inside = [bound for bound in found if keys.upper is None or bound < keys.upper]
        for bound in inside:
            yield KeyRange(after, bound)
            after = bound
        if len(inside) < _CUTS:
            break
    yield KeyRange(after, keys.upper)


def _of_source(sides: _Sides, of: _Table, ranges: list[KeyRange], bits: int, pace: _Progress) -> _Part:
    """Of each range; or of each of the groups, all ranges together."""
    pace.due += len(ranges)
    if of.has_ranges:
        sums = []
        for keys in ranges:
            sums.append(of.source.of(keys))
            pace.summed(sums[-1].rows)
        return _Part(of, replace(of.keys, ranges=tuple(ranges)), sums, ranges)
    groups = KeyGroups(bits, tuple(range(2**bits)), of.types)
    sums = [Checksum(0, 0)] * len(groups.numbers)
    for keys in ranges:
        found = of.source.of_groups(keys, groups)
        sums = [_added(one, other) for one, other in zip(sums, found, strict=True)]
        pace.summed(sum(one.rows for one in found))
    return _Part(of, replace(of.keys, groups=groups), sums, ranges)


def _added(one: Checksum, other: Checksum) -> Checksum:
    return Checksum(one.rows + other.rows, (one.total + other.total) % 2**64)


def _of_mirror(sides: _Sides, keys: Sequence[TableKeys]) -> tuple[list[list[Checksum]], int]:
    """Of the parts of each table; and how many rows are in none."""
    sides.reader.within(keys)
    count, outside = sum(one.parts for one in keys), 0
    sums = [Checksum(0, 0)] * count
    for bucket in _buckets(sides):
        found = sides.reader.sums(bucket)
        if found.unread:
            raise StorageError(f"{sides.ctx.name}: rows of the mirror cannot be summed: {found.unread}")
        here = map(Checksum, found.rows, found.totals)
        sums = [_added(one, other) for one, other in zip(sums, here, strict=True)]
        outside += found.outside
    ends = iter(sums)
    return [[next(ends) for _ in range(one.parts)] for one in keys], outside


def _buckets(sides: _Sides) -> Iterable[Bucket]:
    pace, there = Pace(sides.ctx.say), sides.held.there
    for done, bucket in enumerate(there, 1):
        yield bucket
        pace.say(partial("summed {:,} of {}".format, done, many(len(there), "bucket")))


class _Progress:
    """Says how many rows of the source are summed. `due`: ranges that are known so far."""

    def __init__(self, ctx: Context, words: str = "") -> None:
        self._pace, self._words, self._rows, self._done, self.due = Pace(ctx.say), words, 0, 0, 0

    def summed(self, rows: int) -> None:
        """A further range."""
        self._rows, self._done = self._rows + rows, self._done + 1
        self._pace.say(partial("summed {} of the source{} in {:,} of {:,} ranges".format, many(self._rows, "row"),
                               self._words, self._done, self.due))  # fmt: skip
