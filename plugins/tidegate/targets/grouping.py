"""Rows of a record batch by the partition that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidegate.core.base.partition_values import PartitionValues

_AT = "at"


def by_partition(
    names: Sequence[str], columns: Sequence[pa.Array], rows: int
) -> Iterator[tuple[PartitionValues, pa.Array]]:
    """Each partition's values, and the places of its rows. `columns`: those that partition the table."""
    at = pa.array(range(rows), pa.int64())
    if not names:
        yield (), at
        return
    keys = [str(number) for number in range(len(names))]
    texts = [values.cast(pa.string()) for values in columns]
    table = pa.Table.from_arrays([*texts, at], [*keys, _AT]).group_by(keys, use_threads=False)
    found = table.aggregate([(_AT, "list")])
    for row in range(len(found)):
        values = tuple((name, found[key][row].as_py()) for name, key in zip(names, keys, strict=True))
        yield values, found[f"{_AT}_list"][row].values
