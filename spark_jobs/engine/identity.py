"""The row identity: what of a row counts, its 64-bit hash, and the order-free sum that is a file's checksum.

A row is its partition values as text and all columns of its file but the batch, in their order. A file's checksum is
the sum of its rows' hashes modulo 2**64: it depends neither on the order of rows nor on how they are cut into files.
docs/row-identity.md states the hash. Manifests keep it for ever, so it never changes: a better one gets a number of its
own (`core.files.receipt.ROW_IDENTITY`). It is computed in C (native/rows.c), or by numpy where there is no library.
"""

from __future__ import annotations

import array
import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine import native
from spark_jobs.engine.failures import refuse
from spark_jobs.engine.types import schema_of
from tidegate.core.base.partition_values import PartitionValues
from tidegate.core.files.overflow import OVERFLOW_COLUMN
from tidegate.core.files.receipt import CHECKSUM_MODULUS, DATA, LATE, ROW_IDENTITY, FileEntry, identity_of
from tidegate.core.spec.pipeline import KAFKA_COLUMNS

OVERFLOW = schema_of((OVERFLOW_COLUMN,)).field(0)
_BATCH = KAFKA_COLUMNS[-1][0]
# native/rows.c has the same numbers
_BITS, _I8, _I16, _I32, _I64, _F32, _F64, _D32, _D64, _D128, _BYTES, _LARGE_BYTES, _ITEMS, _LARGE_ITEMS, _FIELDS = (
    range(15)
)
_PRIMITIVES = {
    pa.bool_(): _BITS,
    pa.int8(): _I8,
    pa.int16(): _I16,
    pa.int32(): _I32,
    pa.date32(): _I32,
    pa.int64(): _I64,
    pa.float32(): _F32,
    pa.float64(): _F64,
    pa.string(): _BYTES,
    pa.binary(): _BYTES,
    pa.large_string(): _LARGE_BYTES,
    pa.large_binary(): _LARGE_BYTES,
}


def file_checksum(rows: pa.Table, kind: str, values: PartitionValues, dynamic: Sequence[str] = ()) -> int:
    """The checksum that the manifest has of a file with these rows; those of its parts add up modulo 2**64.

    `rows`: as the file holds them; `kind` and `values` as in its manifest entry; `dynamic`: the names of the dynamic
    partition columns that a late file holds as columns."""
    if kind == DATA:
        return sum(checksum(part, dict(values)) for part in by_kind(rows)) % CHECKSUM_MODULUS
    return checksum(*without_values(rows, dynamic)) if kind == LATE else checksum(rows, {})


def checksum(rows: pa.Table, texts: Mapping[str, pa.Array | str | None]) -> int:
    """Checksum of rows that all have the same columns; `texts` as for `row_hashes`."""
    return total(row_hashes(rows, texts))


def row_hashes(rows: pa.Table, texts: Mapping[str, pa.Array | str | None]) -> pa.Array:
    """uint64 for each row. Depends on the row alone, not on its neighbours.

    `texts`: the dynamic partition values, of each row or one for all of them."""
    columns = [text if isinstance(text, pa.Array) else _repeated(text, len(rows)) for text in texts.values()]
    return _hashes([*columns, *(rows[n] for n in rows.column_names if n != _BATCH)])


def total(hashes: pa.Array) -> int:
    """The checksum of rows with these hashes."""
    return (pc.sum(hashes).as_py() or 0) % CHECKSUM_MODULUS


def by_kind(rows: pa.Table) -> list[pa.Table]:
    """Rows of the overflow partition, and those that were written without its column."""
    if OVERFLOW.name not in rows.column_names or not rows[OVERFLOW.name].null_count:
        return [rows]
    own = rows[OVERFLOW.name].is_null()
    return [rows.filter(pc.invert(own)), rows.filter(own).drop_columns([OVERFLOW.name])]


def without_values(rows: pa.Table, dynamic: Sequence[str]) -> tuple[pa.Table, dict[str, pa.Array]]:
    """Late rows as a data file would hold them, and their dynamic partition values as text."""
    from spark_jobs.engine.route import partition_text  # not in a process that has no late rows

    texts = {name: partition_text(rows[name]) for name in dynamic}
    return rows.drop_columns(list(dynamic)) if dynamic else rows, texts


def refuse_unknown(entry: FileEntry, uri: str) -> None:
    """Raises JobError for a file whose checksum this release cannot compute."""
    if identity_of(entry.checksum) != ROW_IDENTITY:
        raise refuse(
            f"{uri}: its checksum is by row identity {identity_of(entry.checksum)}, this release knows {ROW_IDENTITY}",
            advice="a newer release wrote it: install that wherever jobs run",
        )


def _repeated(text: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _hashes(columns: Sequence[pa.ChunkedArray | pa.Array]) -> pa.Array:
    content = pa.table([_plain(c) for c in columns], [str(i) for i in range(len(columns))])
    function = native.row_hashes()
    if function is None:
        return _in_python(content)
    found = pa.allocate_buffer(8 * len(content))
    at = found.address
    for batch in content.to_batches():
        _in_c(function, batch, at)
        at += 8 * len(batch)
    return pa.Array.from_buffers(pa.uint64(), len(content), [None, found])


def _in_c(function: Callable[..., int], batch: pa.RecordBatch, into: int) -> None:
    program = array.array("i", [_FIELDS, batch.num_columns])
    for kind in batch.schema.types:
        program.extend(_program(kind))
    made = (ctypes.c_int64 * 10)()  # struct ArrowArray
    batch._export_to_c(ctypes.addressof(made))
    answer = function(program.buffer_info()[0], len(program) // 2, ctypes.addressof(made), into)
    if answer == -1:
        raise MemoryError(f"no memory for the hashes of {len(batch)} rows")
    if answer:
        raise AssertionError(f"rows that the library does not take: {batch.schema}")


def _in_python(content: pa.Table) -> pa.Array:
    from spark_jobs.engine import identity_in_python  # numpy is not needed otherwise

    parts = [pa.array(identity_in_python.row_hashes(batch.columns), pa.uint64()) for batch in content.to_batches()]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.uint64())


@functools.lru_cache(1024)
def _program(kind: pa.DataType) -> tuple[int, ...]:
    """Kind and number of children of each node, parents first; empty for a type that has to be cast before."""
    if kind in _PRIMITIVES or kind == pa.timestamp("us", getattr(kind, "tz", None)):
        return (_PRIMITIVES.get(kind, _I64), 0)
    if pa.types.is_decimal128(kind):
        return (_D32 if kind.precision <= 9 else _D64 if kind.precision <= 18 else _D128, 0)
    if pa.types.is_map(kind):
        children, head = [kind.key_type, kind.item_type], [_ITEMS, 1, _FIELDS, 2]
    elif pa.types.is_struct(kind):
        children, head = [f.type for f in kind], [_FIELDS, kind.num_fields]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        children, head = [kind.value_type], [_ITEMS if pa.types.is_list(kind) else _LARGE_ITEMS, 1]
    else:
        return ()
    programs = [_program(child) for child in children]
    return (*head, *(number for program in programs for number in program)) if programs and all(programs) else ()


def _plain(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Of a type that is hashed as it is: dictionaries and times of other units are not."""
    return column if _program(column.type) else column.cast(_plain_type(column.type))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if _program(kind):
        return kind
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if pa.types.is_struct(kind) and kind.num_fields:
        return pa.struct([pa.field(f.name, _plain_type(f.type)) for f in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        value = _plain_type(kind.value_type)
        return pa.list_(value) if pa.types.is_list(kind) else pa.large_list(value)
    raise TypeError(f"values of the type {kind} have no row identity")
