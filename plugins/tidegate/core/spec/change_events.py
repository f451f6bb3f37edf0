"""What a change event says beside the columns of its row, by the names that paths and columns have for it."""

from __future__ import annotations

from tidegate.core.spec.pipeline import KAFKA_COLUMNS

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
    ("_source_ms", "bigint", f"$.{SOURCE}.ts_ms"),
)
"""(name, Hive type, path) of the columns that every table of change events has, behind the pipeline's own."""
SERVER = "name"
"""What `source` calls the connector's `topic.prefix`, which tells the server that an event is of."""
SERVER_PATH = f"$.{SOURCE}.{SERVER}"
SHARD_PATHS = {f"$.{SOURCE}.{name}": name for name in ("db", "schema", "table", SERVER)}
"""Paths of columns that tell which table of the source a row is of (S11), and what `source` calls that."""
NULLABLE = ("_source_ms",)
"""Those that an event need not say."""
SAYS_HOW = frozenset({*(name for name, *_ in EVENT_COLUMNS), *(name for name, _ in KAFKA_COLUMNS)})
"""Columns of change events that say how a row came there, and not what it is."""
