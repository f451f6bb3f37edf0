"""What a chunk's columns are read as: the wanted columns, each found in the table, with its conversion."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.copy.port import SourceTable
from tidegate.core.files.failure import refuse
from tidegate.databases.types import Bytes, Conversion, conversion


def planned(
    kind: str, table: SourceTable, columns: Sequence[tuple[str, str]], binary: Bytes
) -> list[tuple[str, Conversion]]:
    """By name, in the wanted order. Raises JobError, refused."""
    by_name = {column.name: column for column in table.columns}
    made = []
    for name, wanted in columns:
        if name not in by_name:
            raise refuse(
                f"the source's table {table.schema}.{table.name} has no column {name}",
                advice="names are compared exactly; generated columns of PostgreSQL are in no log and count as missing",
                field=name,
            )
        made.append((name, conversion(kind, by_name[name], wanted, binary)))
    return made
