"""A whole Tidegate in one process whose table is a mirror by days in Hive; and what a reader of each day sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.mirror.audits import Change
from tests.world import T0, TOPIC, World
from tidegate.core.base.plain import dumps, loads
from tidegate.core.daily.day import Day
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.target.paths import DAY as DAY_FILE
from tidegate.core.target.port import Targets
from tidegate.core.window.states import WindowKey
from tidegate.spec.loader import load_text
from tidegate.targets.daily.kind import Daily
from tidegate.workflow.publish import archive
from tidegate.workflow.replay import replay, rollback

DAY = 86_400_000
YAML = """\
version: 1
name: readings
owner: shop
source: {{topic: readings}}
format: {{type: debezium}}
columns:
  - {{name: id, type: bigint, nullable: false}}
  - {{name: word, type: string}}
windows: {{start: "2013-01-05T00:00:00", timezone: UTC, watermark_delay: 1h, idle: follow}}
sink: {{kind: mirror, store: hive_daily, table: lake.readings, location: "{location}", key: [id], buckets: 3}}
"""
Rows = dict[int, str | None]


def day(n: int) -> WindowKey:
    return WindowKey(T0 + n * DAY, T0 + (n + 1) * DAY)


def by_days(folder: Path, yaml: str = YAML) -> Pipeline:
    """The pipeline as its YAML says it."""
    return load_text(folder / "readings.yaml", yaml.format(location=f"file://{folder}/lake/readings"), {})


def event(key: int, word: str | None, commit: int, at_day: float, op: str | None = None) -> tuple[bytes, bytes]:
    """(key, value) as MariaDB's connector makes it, committed on that day. A delete has no word."""
    at_ms = T0 + int(at_day * DAY)
    source = {"connector": "mariadb", "file": "binlog.000001", "pos": commit, "row": 0, "snapshot": "false"}
    op = op or ("d" if word is None else "u")
    after = None if op == "d" else {"id": key, "word": word}
    value = {"op": op, "source": source | {"ts_ms": at_ms}, "before": None, "after": after, "ts_ms": at_ms + 500}
    return json.dumps({"id": key}).encode(), json.dumps(value).encode()


def _tables(world: World) -> Targets:
    return Daily(world.wrap("catalogue", world.catalogue))


class DailyWorld(World):
    def __init__(self, folder: Path, yaml: str = YAML, wrap: Callable[[str, Any], Any] | None = None) -> None:
        super().__init__(folder, by_days(folder, yaml), wrap)
        self.tables = _tables
        self.runs = 0
        self.clock.advance(40 * DAY)

    def land(self, *events: tuple[bytes | None, bytes | None], partition: int = 0) -> int | None:
        """A batch of these events; an ingest run of its own."""
        for key, value in events:
            self.kafka.append(TOPIC, partition, value, key=key, timestamp_ms=T0)
        self.runs += 1
        return self.ingest(f"run {self.runs}")

    def _done(self, step: Callable[[Any], archive.Published]) -> archive.Published:
        """The task, in a process of its own."""
        ctx = self.context()
        try:
            published = step(ctx)
            archive.announced(ctx, published)
            return published
        finally:
            self.close()

    def publish(self, n: int) -> archive.Published:
        return self._done(lambda ctx: archive.publish(ctx, day(n)))

    def replay_day(self, n: int) -> archive.Published:
        return self._done(lambda ctx: replay.replay(ctx, day(n)))

    def roll_back(self, n: int, to: int | None = None) -> archive.Published:
        return self._done(lambda ctx: rollback.rollback(ctx, day(n), to, "a test"))

    def place(self, n: int) -> Path | None:
        """The directory that readers of the day are sent to."""
        date = f"2013-01-{5 + n:02d}"
        found = self.partitions("lake.readings").get((("date", date),))
        return None if found is None else Path(found.removeprefix("file://"))

    def rows(self, n: int) -> Rows | None:
        """As Hive reads the day's partition: every file right in its directory. None: no partition."""
        place = self.place(n)
        return None if place is None else _read(place)

    def gone(self, n: int) -> Rows:
        """The day's tombstones."""
        place = self.place(n)
        assert place is not None
        return _read(place.parent / "tombstones")


def harm(place: Path, change: Change, quietly: bool = True) -> None:
    """Rows and tombstones of a day, which readers are sent to at `place`, are changed in place; `quietly`: what is told
    of its files and sums fits them."""
    told = loads(Day, (place.parent / DAY_FILE).read_text())
    files = []
    for f in told.files:
        path = place.parent / f.path
        rows = pq.ParquetFile(path).read()
        after = change(rows.to_pylist())
        if after != rows.to_pylist():
            pq.write_table(pa.Table.from_pylist(after, schema=rows.schema), path)
        files.append(replace(f, rows=len(after), bytes=path.stat().st_size))
    standing = [sum(f.rows for f in files if f.deleted is deleted) for deleted in (False, True)]
    rows_, tombstones = standing
    day = replace(told, files=tuple(files), rows=rows_, tombstones=tombstones, inserted=sum(standing) + told.purged)
    if quietly:
        (place.parent / DAY_FILE).write_text(dumps(day))


def _read(folder: Path) -> Rows:
    found: Rows = {}
    for path in sorted(p for p in folder.iterdir() if not p.name.startswith(("_", "."))):
        for row in pq.read_table(path, columns=["id", "word"], partitioning=None).to_pylist():
            assert row["id"] not in found, f"{row['id']} has two rows"
            found[row["id"]] = row["word"]
    return found
