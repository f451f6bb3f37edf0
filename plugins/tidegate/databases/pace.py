"""Rows no faster than a database is to be asked for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any


def paced(batches: Iterator[Any], rate: float | None) -> Iterator[Any]:
    """The same batches, no more than so many rows a second; None: as they come."""
    started, rows = time.monotonic(), 0
    for batch in batches:
        yield batch
        rows += len(batch)
        if rate:
            ahead = rows / rate - (time.monotonic() - started)
            if ahead > 0:
                time.sleep(ahead)
