"""A partition that reads its files otherwise than its table: a person gave it a format or columns of its own."""

from __future__ import annotations

from tidegate.targets.hive.formats import finds_by_name, text_differences
from tidegate.targets.hive.sql import Description


def otherwise(table: Description, partition: Description) -> str:
    """In words, what a reader of the partition takes otherwise than one of the table; empty if nothing.

    Hive keeps format and columns for each partition, and shows null for a column that only the table has. A partition's
    further columns do no harm where columns are found by name."""
    words = [
        f"its {what} is {there or 'unknown'}, not {due}"
        for what, there, due in (
            ("SerDe", partition.serde, table.serde),
            ("input format", partition.inputs, table.inputs),
        )
        if there != due
    ]
    if not words and "LazySimpleSerDe" in table.serde:
        words += text_differences(partition.properties, table.properties)
    return "; ".join(words + _columns(table, partition))


def _columns(table: Description, partition: Description) -> list[str]:
    there = partition.columns
    words = [
        f"its column {name} is {there.get(name) or 'missing'}, not {kind}"
        for name, kind in table.columns.items()
        if there.get(name) != kind
    ]
    if not words and not finds_by_name(table.serde) and list(there) != list(table.columns):
        words.append(f"its columns are ({', '.join(there)}), in another order than ({', '.join(table.columns)})")
    return words
