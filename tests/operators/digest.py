"""What must be equal whatever was cleared, killed or filled on the way: a pipeline's ledger without its attempts."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

_PARTS = {
    "batches": "SELECT batch_id, state, kind, records, refused IS NULL, blocked FROM batches"
    " WHERE pipeline = :p ORDER BY 1",
    "ranges": 'SELECT batch_id, partition, start, "end", read, data, late, dirty, filtered, dropped, gaps'
    " FROM batch_ranges WHERE pipeline = :p ORDER BY 1, 2",
    "totals": "SELECT window_ms, batch_id, kind, partition, rows, min_offset, max_offset FROM batch_window_totals"
    " WHERE pipeline = :p ORDER BY 1, 2, 3, 4",
    "windows": "SELECT start_ms, end_ms, state, blocked FROM windows WHERE pipeline = :p ORDER BY 1",
    "published": "SELECT window_ms, number, rows, digest FROM generations WHERE pipeline = :p AND state = 'CURRENT'"
    " ORDER BY 1",
    "unfinished": "SELECT window_ms, number, state FROM generations WHERE pipeline = :p"
    " AND state NOT IN ('CURRENT', 'RETIRED', 'DISCARDED') ORDER BY 1, 2",
    "owners": "SELECT batch_id, kind, owner FROM row_owners WHERE pipeline = :p ORDER BY 1, 2",
    "losses": 'SELECT partition, start, "end", batch_id FROM losses WHERE pipeline = :p ORDER BY 1, 2',
}


def rows(ledger_url: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    """Of the ledger (or of any other database)."""
    engine = create_engine(ledger_url, poolclass=NullPool)
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement), values)]
    finally:
        engine.dispose()


def change(url: str, statement: str, **values: Any) -> None:
    """One statement, committed."""
    engine = create_engine(url, poolclass=NullPool)
    try:
        with engine.begin() as connection:
            connection.execute(text(statement), values)
    finally:
        engine.dispose()


def content(ledger_url: str, pipeline: str) -> dict[str, list[tuple[Any, ...]]]:
    """By part, no name, time, epoch or run in it: pipelines that read the same offsets have the same content."""
    return {part: rows(ledger_url, statement, p=pipeline) for part, statement in _PARTS.items()}


def digest(ledger_url: str, pipeline: str) -> str:
    """Of `content`."""
    return hashlib.sha256(json.dumps(content(ledger_url, pipeline)).encode()).hexdigest()[:16]
