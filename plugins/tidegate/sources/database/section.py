"""The YAML section `source` of kind `database`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tidegate.spec.section import key
from tidegate.spec.source import SourceSection
from tidegate.spec.values import ConnectionId, Count, Duration, SourceTableName, Text, Timezone

MOST_TASKS = 64


class DatabaseSection(SourceSection):
    """Where records come from."""

    gaps: ClassVar[str] = "allow"
    """A window has more offsets than rows."""

    conn_id: ConnectionId = key("Airflow connection of the source's servers.")
    topic: SourceTableName = key(
        "The table (or view), `schema.name`; the schema is MariaDB's database. It is read window by window "
        "([tables without a log](offline.md)).",
        alias="table",
    )
    column: Text | None = key(
        "Column with the time of a row's last change. A window then has the rows whose time lies in it, as they are "
        "when they are read; null: each window has all rows of the table.",
        None,
    )
    column_timezone: Timezone = key(
        "Zone of the times in `column`, where their type has none (`datetime`, `timestamp without time zone`, `date`).",
        "UTC",
    )
    overlap: Duration = key(
        "With `column`: how much before the window's beginning the rows may be that it has too, for changes that were "
        "not visible when the window before was read.",
        "0s",
    )
    chunk_rows: Count | None = key(
        "Without `column`: rows that one query reads, by ranges of the primary key; a table without a key is read by "
        "one query. null: one query reads all of it, and so sees one snapshot.",
        100_000,
        unit="rows",
    )
    tasks: Annotated[int, Field(gt=0, le=MOST_TASKS)] = key(
        "Queries that run at once, each by a connection of its own.", 2, unit="chunks"
    )
    rate: Count | None = key(
        "Rows a second that are read at most, by all tasks together; null: as fast as the database gives them.",
        None,
        unit="rows a second",
    )
