"""A pipeline whose source is a table: in memory, or of a real database; everything else as in `tests.world`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.engine.sinks import finished
from spark_jobs.engine.types import schema_of
from tests.databases.servers import Server
from tests.world import World
from tidegate.core.base.connection import Connection
from tidegate.core.base.errors import SourceError
from tidegate.core.batch.jobs import ReadPlan
from tidegate.core.copy.port import Bound, KeyRange, ReadAfter, SourceColumn, SourceTable, Times
from tidegate.core.files.receipt import DATA
from tidegate.core.source.records import Reader
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.tables import told_columns
from tidegate.core.window.states import WindowKey
from tidegate.databases.conversions import planned
from tidegate.sources.database.control import TableOfDatabase
from tidegate.sources.database.worker import TableReader
from tidegate.spec.loader import load_text
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay, reread, rollback

DAY = 86_400_000
START = 1_730_419_200_000  # 2024-11-01T00:00:00Z
YAML = """
version: 1
name: readings
owner: tests
source: {{kind: database, conn_id: shop, table: shop.t, {source}}}
columns:
{columns}
windows: {{size: 1d, timezone: UTC, start: "2024-11-01T00:00:00Z", watermark_delay: 1h}}
partition_by: [date]
sink: {{conn_id: hive, table: lake.readings, location: "{location}"}}
"""
COLUMNS = """  - {name: id, type: bigint, nullable: false}
  - {name: word, type: string}
  - {name: changed, type: timestamp}"""
Row = tuple[Any, ...]


class FakeTable:
    """A table in memory: both sides of `core.copy.port`, without a log.

    `during`: called before each query, with its number; `reads`: of all queries. `gone`: a column that was dropped;
    `missing`: the table was; `clock_ms`: the server's clock."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str | None, datetime | None]] = {}
        self.during: Callable[[int], None] = lambda number: None
        self.reads: list[KeyRange] = []
        self.gone, self.missing, self.clock_ms = "", False, 1 << 62
        self.table = SourceTable(
            schema="shop",
            name="t",
            key=("id",),
            columns=(
                SourceColumn("id", "bigint", nullable=False),
                SourceColumn("word", "text"),
                SourceColumn("changed", "timestamp with time zone"),
            ),
        )

    def describe(self, table: str) -> SourceTable:
        if self.missing:
            raise SourceError(f"there is no table {table}", retry=False)
        return replace(self.table, columns=tuple(c for c in self.table.columns if c.name != self.gone))

    def bounds(self, table: SourceTable, after: Bound | None, rows: int, most: int) -> Sequence[Bound]:
        keys = [key for key in sorted(self.rows) if after is None or key > after[0]]  # type: ignore[operator]
        return [(key,) for key in keys[rows - 1 :: rows][:most]]

    def now_ms(self) -> int:
        return self.clock_ms

    def close(self) -> None:
        pass

    @contextmanager
    def read(
        self,
        table: SourceTable,
        columns: Sequence[tuple[str, str]],
        keys: KeyRange,
        after: ReadAfter | None,
        times: Times | None = None,
    ) -> Iterator[Any]:
        self.reads.append(keys)
        self.during(len(self.reads))
        planned("postgresql", table, columns, "base64")
        found = [(key, *self.rows[key]) for key in sorted(self.rows) if within(key, keys)]
        if times is not None:
            low, high = (
                datetime.strptime(t, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC) for t in (times.lower, times.upper)
            )
            found = [row for row in found if row[2] is not None and low <= row[2] < high]
        yield _Rows(found, schema_of(tuple(columns)))


def within(key: int, keys: KeyRange) -> bool:
    low, high = keys.lower, keys.upper
    return (low is None or key > low[0]) and (high is None or key <= high[0])  # type: ignore[operator]


class _Rows:
    low = high = (0, 0)

    def __init__(self, rows: list[Row], schema: pa.Schema) -> None:
        self._rows, self._schema = rows, schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(self._rows), 2):
            values = dict(zip(("id", "word", "changed"), zip(*self._rows[at : at + 2], strict=True), strict=True))
            arrays = [pa.array(values[f.name], f.type) for f in self._schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class TableInReach(TableOfDatabase):
    """The source, beside the reader that workers would have. `fake`: instead of a real database."""

    def __init__(self, pipeline: Pipeline, connection: Connection, fake: FakeTable | None) -> None:
        super().__init__(connection, pipeline.source, 10.0)
        self.fake = fake

    @contextmanager
    def database(self, timeout_s: float) -> Iterator[Any]:
        if self.fake is not None:
            yield self.fake
            return
        with super().database(timeout_s) as found:
            yield found

    def reader(self, plan: ReadPlan) -> Reader:
        told = self.for_workers()
        return TableReader(plan, {**told.settings, **told.secrets}, self.fake)


SHOP = Connection(conn_id="shop", conn_type="postgres", host="db", login="reader", password="sesame", schema="shop")


class TableWorld(World):
    """`day(n)` is the window of the n-th day; the clock stands at the end of day 0, when nothing is due yet."""

    def __init__(
        self,
        folder: Path,
        source: str = "chunk_rows: 3",
        columns: str = COLUMNS,
        server: Server | None = None,
        **options: Any,
    ) -> None:
        self.yaml = YAML.format(source=source, columns=columns, location=f"file://{folder}/lake/readings")
        super().__init__(folder, load_text(folder / "readings.yaml", self.yaml), **options)
        self.stands_at(START + DAY)
        self.server, self.fake = server, FakeTable() if server is None else None
        self.reach()

    def reach(self, connection: Connection | None = None) -> None:
        """The source is reached anew, by what the pipeline's spec says now."""
        at = connection or (SHOP if self.server is None else self.server.connection)
        self.kafka: Any = TableInReach(self.pipeline, at, self.fake)

    def alter(self, old: str, new: str) -> None:
        """Another text in the YAML."""
        assert old in self.yaml
        self.yaml = self.yaml.replace(old, new)
        self.pipeline = load_text(self.folder / "readings.yaml", self.yaml)
        self.reach()

    def stands_at(self, ms: int) -> None:
        self.clock.advance(ms - self.clock.now_ms())

    def ends(self, day: int) -> None:
        """The reading of this day is due from now on."""
        self.stands_at(START + (day + 1) * DAY + 3_600_000)

    def read(self, day: int, run: str = "") -> int | None:
        """An ingest run, when that day's reading is due."""
        self.ends(day)
        return self.ingest(run or f"run {day}")

    def publish(self, day: int) -> archive.Published:
        ctx = self.context()
        try:
            published = archive.publish(ctx, window(day))
            archive.announced(ctx, published)
            return published
        finally:
            self.close()

    def again(self, day: int, **options: Any) -> archive.Published:
        ctx = self.context()
        try:
            return replay.replay(ctx, window(day), **options)
        finally:
            self.close()

    def reread(self, day: int) -> archive.Published:
        """The day's table is read once more."""
        ctx = self.context()
        try:
            return reread.read_again(ctx, window(day))
        finally:
            self.close()

    def back(self, day: int, to: int | None = None) -> archive.Published:
        """A rollback of the day."""
        ctx = self.context()
        try:
            return rollback.rollback(ctx, window(day), to, "the first one was right")
        finally:
            self.close()

    def rows(self, day: int, *names: str) -> list[Row]:
        """What a query of the day's partition returns, sorted: values of `names`, of all columns without any."""
        date = datetime.fromtimestamp(window(day).start_ms / 1000, UTC).strftime("%Y-%m-%d")
        found: list[Row] = []
        for values, location in self.partitions("lake.readings").items():
            if dict(values)["date"] == date:
                found += self._rows(location, names or tuple(c.name for c in self.pipeline.data_columns))
        return sorted(found, key=repr)

    def _rows(self, location: str, names: Sequence[str]) -> Iterator[Row]:
        for path in sorted(Path(location.removeprefix("file://")).rglob("*")):
            if path.is_file() and not path.name.startswith(("_", ".")):
                with path.open("rb") as file:
                    for batch in finished(path.name, file, told_columns(self.pipeline, DATA)).batches(10_000, [*names]):
                        yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def window(day: int) -> WindowKey:
    return WindowKey(START + day * DAY, START + (day + 1) * DAY)
