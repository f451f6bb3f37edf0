"""Rows no faster than a database is to be asked for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any


class Rate:
    """No more than so many rows a second; None: as they come."""

    def __init__(self, rate: float | None) -> None:
        self._rate, self._started, self._rows = rate, time.monotonic(), 0

    def took(self, rows: int) -> None:
        """Wait until so many further rows were to be had. Time in which nobody has asked for any is not made up for:
        the database would meet all of it at once."""
        self._rows += rows
        if self._rate:
            ahead = self._rows / self._rate - (time.monotonic() - self._started)
            if ahead > 0:
                time.sleep(ahead)
            else:
                self._started -= ahead


def paced(batches: Iterator[Any], rate: float | None) -> Iterator[Any]:
    """The same batches, no more than so many rows a second; None: as they come."""
    mine = Rate(rate)
    for batch in batches:
        yield batch
        mine.took(len(batch))
