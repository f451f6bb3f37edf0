"""A lane: a tiny pipeline of its own, on the servers of a rig. `harness.py` says how a case is written."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.engine.job import run_plan
from tests.operators.lines import Line
from tidegate.core.batch.jobs import loads_plan
from tidegate.core.spec.pipeline import Pipeline
from tidegate.core.window.states import WindowKey
from tidegate.storage.local import LocalStorage
from tidegate.wiring import context_for
from tidegate.workflow.base.context import Context
from tidegate.workflow.batch import ingest
from tidegate.workflow.publish import archive

if TYPE_CHECKING:
    from tests.operators.harness import Rig

HOUR = timedelta(hours=1)
START = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 12 * HOUR
"""The first window."""
PER_BATCH = 10
KINDS = ("ingest", "archive", "replay", "maintain")


def template(lane: Lane, location: str) -> str:
    """The YAML of a lane."""
    return f"""
version: 1
name: {lane.name}
owner: operators
source: {{conn_id: kafka_{lane.name}, topic: {lane.topic}}}
format: {{type: json}}
columns:
  - {{name: id, type: string}}
  - {{name: site, type: string}}
event_time: {{from: $.at, format: epoch_ms}}
windows: {{size: 1h, timezone: UTC, start: "{lane.hour(lane.first).isoformat()}", watermark_delay: 1m, idle: follow}}
partition_by: [date, hour, site]
dirty: {{max_count: null, max_ratio: null}}
sink: {{conn_id: hive_{lane.name}, table: lake.{lane.name}, location: "file://{location}"}}
ingest:
  schedule: {json.dumps(lane.schedule)}
  max_records: {PER_BATCH}
  retries: {lane.retries}
  spark: {{session: {lane.session}}}
archive: {{sla: {lane.sla}, max_active_runs: {lane.max_active_runs}, retries: {lane.retries}}}
{lane.more}
"""


@dataclass
class Lane:
    """A pipeline. Times are aware; `first`: the hour of its first window; `more` is YAML that is added at the end."""

    name: str
    topic: str
    retries: int = 0
    sla: str = "30m"
    max_active_runs: int = 4
    schedule: str | None = None
    session: str = "warm"
    first: int = 0
    more: str = ""
    rig: Rig = field(init=False, repr=False)
    spec: Pipeline = field(init=False, repr=False)
    kafka: Line = field(init=False, repr=False)
    hive: Line = field(init=False, repr=False)

    kinds = KINDS
    """Of its DAGs."""

    def connect(self) -> None:
        """Make what it needs beside Kafka and Hive."""

    def disconnect(self) -> None:
        """Close that."""

    @property
    def ingest(self) -> str:
        """DAG id."""
        return f"{self.name}.ingest"

    @property
    def archive(self) -> str:
        """DAG id."""
        return f"{self.name}.archive"

    @property
    def replay(self) -> str:
        """DAG id."""
        return f"{self.name}.replay"

    @property
    def maintain(self) -> str:
        """DAG id."""
        return f"{self.name}.maintain"

    def hour(self, n: int) -> datetime:
        """Start of window `n`, from 0."""
        return START + n * HOUR

    def scheduled(self, n: int) -> str:
        """Run id of window `n` when the schedule makes it."""
        return f"scheduled__{self.hour(n).isoformat()}"

    def backfilled(self, n: int) -> str:
        """Run id of window `n` when a backfill makes it."""
        return f"backfill__{self.hour(n).isoformat()}"

    @property
    def folder(self) -> Path:
        """Where its table lies."""
        return Path(self.spec.sink.location.removeprefix("file://"))

    def land(self, batches: int) -> None:
        """So many batches more, planned, written and landed in this process."""
        for _ in range(batches):
            run = f"by hand {threading.get_ident()} {datetime.now(UTC).isoformat()}"
            with self.context() as ctx:
                assert ingest.plan(ctx, run) is not None, "nothing left to read"
                ingest.write(ctx, run)
                ingest.land(ctx, run)

    def publish(self, n: int) -> None:
        """Window `n`, in this process."""
        with self.context() as ctx:
            archive.announced(ctx, archive.publish(ctx, self.window(n)))

    def window(self, n: int) -> WindowKey:
        """Window `n`."""
        start = int(self.hour(n).timestamp() * 1000)
        return WindowKey(start, start + 3_600_000)

    @contextmanager
    def context(self) -> Iterator[Context]:
        """The workflow's, by the real servers and not over this lane's lines; jobs run in this process."""
        here, lookup = InProcess(LocalStorage()), self.rig.lookup
        ctx = context_for(self.spec, lambda line: None, here, actor="tests", lookup=lookup)
        try:
            yield ctx
        finally:
            ctx.ledger.close()

    def yaml(self) -> str:
        """Its specification as it stands in the folder."""
        return template(self, str(self.rig.lake / self.name))


class InProcess:
    """Implements `core.batch.launcher.Launcher`: the engine in this process."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage

    def run(self, plan_path: str) -> None:
        """Raises JobError."""
        run_plan(loads_plan(self._storage.read(plan_path)), self._storage)
