"""Positions of landed events, in files that no merge has taken yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.parquet as pq

from spark_jobs.engine.mirror.numbers import numbers
from tidegate.core.base.errors import PathMissing
from tidegate.core.mirror.jobs import Position
from tidegate.core.spec.change_events import EVENT_COLUMNS

_, _COMMIT, _ROW, _ = (name for name, *_ in EVENT_COLUMNS)


def greatest(open_storage: Callable[[str], Any], uris: Sequence[str]) -> Position | None:
    """Of the events of those of these files that are still there; None without any. Others have moved to their days."""
    found: Position | None = None
    for uri in uris:
        try:
            stream = open_storage(uri).open_existing(uri)
        except PathMissing:
            continue
        with stream:
            rows = pq.ParquetFile(stream).read(columns=[_COMMIT, _ROW], use_threads=False)
        if not len(rows):
            continue
        commits, places = numbers(rows[_COMMIT]), numbers(rows[_ROW])
        commit = int(commits.max())
        mine = (commit, int(places[commits == commit].max()), 0)
        found = mine if found is None else max(found, mine)
    return found
