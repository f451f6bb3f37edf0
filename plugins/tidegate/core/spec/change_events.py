"""What a change event says beside the columns of its row, by the names that paths and columns have for it."""

from __future__ import annotations

OPERATION, POSITION, KEY, BEFORE, SOURCE, TS_MS = "_op", "_position", "_key", "_before", "_source", "_ts_ms"
RESERVED = (OPERATION, POSITION, KEY, BEFORE, SOURCE, TS_MS)
"""At the top of an event, beside the columns of the row."""
OPERATIONS = ("c", "u", "d", "r")
"""Created, updated, deleted, read by a snapshot."""
FULL, FLAT = "full", "flat"
"""Forms of an envelope: as the connector makes it, or as Debezium's ExtractNewRecordState leaves it."""
EVENT_COLUMNS: tuple[tuple[str, str, str], ...] = (
    ("_op", "string", f"$.{OPERATION}"),
    ("_position_commit", "bigint", f"$.{POSITION}.commit"),
    ("_position_row", "bigint", f"$.{POSITION}.row"),
)
"""(name, Hive type, path) of the columns that every table of change events has, behind the pipeline's own."""
