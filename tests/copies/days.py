"""A mirror by days whose source's table is there too, in memory: it is copied, and its events are landed by days."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_jobs.engine.mirror.positions import greatest
from tests.fakes.source_table import FakeSource
from tests.mirror.days import YAML, DailyWorld, event
from tidegate.core.mirror.jobs import EventFile, Position
from tidegate.workflow.copy import copy as reading

COPYING = YAML + "copy: {{conn_id: shop, table: shop.readings, chunk_rows: 3, tasks: 1}}\n"
LAST = 99
"""A key of the last word of a day, which no copy knows."""


class DatedSource(FakeSource):
    """`at_day`: when its transactions commit, in days since the first one began."""

    at_day = 0.1

    def set(self, key: int, word: str | None) -> None:
        self.end += 10
        if word is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = word
        self.log.append(event(key, word, self.end, self.at_day))


class CopiedDays(DailyWorld):
    """`source_table`: the database; `sent`: how many of its events are in the topic."""

    def __init__(self, folder: Path, yaml: str = COPYING, **options: Any) -> None:
        super().__init__(folder, yaml, **options)
        self.source_table = DatedSource()
        self.sent = 0

    def deliver(self, most: int | None = None) -> int | None:
        """The connector sends events, and a batch lands them."""
        found = self.source_table.log[self.sent :][:most]
        self.sent += len(found)
        return self.land(*found) if found else None

    def until(self, day: float) -> None:
        """Time goes on to that day, and a further row says so."""
        self.source_table.at_day = day
        self.source_table.set(LAST, f"day {day}")
        self.deliver()

    def greatest(self, files: Sequence[EventFile]) -> Position | None:
        return greatest(lambda _: self.store, [f.uri for f in files])

    def read(self, **options: Any) -> reading.Read:
        """The task that reads chunks, in a process of its own."""
        try:
            return reading.copy(self.context(), self.source_table, greatest=self.greatest, **options)
        finally:
            self.close()

    def again(self, why: str = "test", keys: tuple[str, str] | None = None) -> Any:
        """A new round, of some keys or all."""
        try:
            return reading.again(self.context(), self.source_table, why, keys, self.greatest)
        finally:
            self.close()

    def told(self, n: int) -> dict[int, str | None] | None:
        """What readers of the day see, but for its last word."""
        found = self.rows(n)
        return None if found is None else {key: word for key, word in found.items() if key != LAST}
