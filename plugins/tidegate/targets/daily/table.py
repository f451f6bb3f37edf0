"""A keyed table by days (`core.target.port.Target`): a day's partition points to the rows within its generation."""

from __future__ import annotations

from functools import cached_property

from tidegate.core.base.errors import PathMissing
from tidegate.core.base.plain import loads
from tidegate.core.daily.day import Day
from tidegate.core.mirror.jobs import Daily, N, TableColumn
from tidegate.core.spec.pipeline import Pipeline, table_columns
from tidegate.core.target.paths import DAY, ROWS, join
from tidegate.targets.hive.table import HiveTable
from tidegate.targets.mirror.rules import buckets_of, key_of, tombstones_of


class DailyTable(HiveTable):
    """Its generations hold events, rows and tombstones: readers are sent to the rows alone."""

    @cached_property
    def daily(self) -> Daily:  # type: ignore[override]
        """By the spec as it is now."""
        pipeline = self.site.pipeline
        return Daily(key_of(pipeline), buckets_of(pipeline), told(pipeline), tombstones_of(pipeline))

    def sent_to(self, location: str) -> str:
        """The rows below the generation's directory."""
        return join(location, ROWS)

    def beside(self, location: str) -> dict[str, int]:
        """Rows and tombstones, and what names them. Raises StorageError."""
        path = join(location, DAY)
        try:
            content = self.site.storage.read(path)
            return {**loads(Day, content).manifest, DAY: len(content)}
        except (PathMissing, ValueError):
            return {DAY: -1}


def told(pipeline: Pipeline) -> tuple[TableColumn, ...]:
    """Columns of the files, as a merge's plan has them; Hive's table has no `_position_n`."""
    return (*(TableColumn(name, kind, name) for name, kind in table_columns(pipeline)), TableColumn(N, "bigint"))
