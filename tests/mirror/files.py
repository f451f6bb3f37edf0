"""A mirror in files on the local disk, merged by the whole job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs import apply
from spark_jobs.engine.mirror.shape import Shape
from tests.mirror.histories import Event, Position
from tests.mirror.tables import landed, plan_of, read_back
from tidegate.core.base.plain import loads
from tidegate.core.batch.jobs import ApplyPlan, dumps_plan, loads_plan
from tidegate.core.mirror import recut
from tidegate.core.mirror.balance import Totals, after, imbalance
from tidegate.core.mirror.jobs import START, ApplyReceipt, BaseFile, Bucket, EventFile
from tidegate.core.mirror.purge import marker
from tidegate.core.target.paths import HANDED, RECEIPT
from tidegate.storage.local import LocalStorage


@dataclass
class OnDisk:
    """The control plane's part, in short: what is committed stands in `base`."""

    folder: Path
    kinds: tuple[str, ...] = ("bigint",)
    buckets: int = 3
    base: dict[int, Bucket] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    purged_below: Position = START
    changes: dict[str, Any] = field(default_factory=dict)
    tries: int = 0

    def land(self, batch_id: int, events: Iterable[Event], files: int = 1) -> tuple[EventFile, ...]:
        rows = list(events)
        found = []
        for n in range(files):
            part = landed(self.kinds, rows[n::files])
            if len(part):
                found.append(self.write(f"landed/{batch_id}/part-{n}.parquet", part, batch_id))
        return tuple(found)

    def write(self, path: str, rows: pa.Table, batch_id: int) -> EventFile:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, file)
        return EventFile(batch_id, f"file://{file}", len(rows))

    def plan(self, events: Sequence[EventFile], first: int, last: int, **changes: Any) -> ApplyPlan:
        self.tries += 1
        attempt = f"{first}-{last}.{self.tries}-abc"
        values: dict[str, Any] = {
            "attempt": attempt,
            "attempt_dir": f"file://{self.folder}/apply/{attempt}",
            "first": first,
            "last": last,
            "purged_below": self.purged_below,
            "events": tuple(events),
            "base": tuple(self.base.values()),
        }
        return plan_of(self.kinds, self.buckets, **values | self.changes | changes)

    def run(self, plan: ApplyPlan, run_tasks: Callable[..., Any] | None = None, tasks: int | None = 1) -> ApplyReceipt:
        """By the job; what it leaves is checked for itself. Raises JobError."""
        plan = loads_plan(dumps_plan(plan))  # type: ignore[assignment]
        storage = LocalStorage()
        opened = None if run_tasks is None else lambda uri: LocalStorage()
        said = apply.carry_out(plan, storage, run_tasks, opened, tasks)
        assert said.startswith(f"tidegate: {plan.attempt}: {'purged' if plan.settled else 'merged'} ")
        receipt = loads(ApplyReceipt, storage.read(f"{plan.attempt_dir}/{RECEIPT}"))
        listing = {f.path: f.bytes for f in storage.list_files(plan.attempt_dir) or ()}
        assert recut.errors(plan, receipt, listing) == []
        assert not storage.exists(f"{plan.attempt_dir}/{HANDED}")
        return receipt

    def commit(self, plan: ApplyPlan, receipt: ApplyReceipt) -> None:
        if plan.cut_before:
            self.base, self.buckets = {}, plan.buckets
        self.purged_below = marker(self.purged_below, receipt.purged_below or START)
        for bucket in receipt.buckets:
            if bucket.changed:
                files = tuple(BaseFile(f"{plan.attempt_dir}/{f.path}", f.rows, f.bytes) for f in bucket.files)
                self.base[bucket.number] = Bucket(bucket.number, files)
        self.base = {n: bucket for n, bucket in self.base.items() if bucket.files}
        self.totals = after(self.totals, receipt)
        assert imbalance(self.totals) is None, imbalance(self.totals)

    def merge(self, batches: dict[int, Iterable[Event]], files: int = 1, **how: Any) -> ApplyReceipt:
        found = [file for n, events in batches.items() for file in self.land(n, events, files)]
        plan = self.plan(found, min(batches), max(batches))
        receipt = self.run(plan, **how)
        self.commit(plan, receipt)
        return receipt

    def recut(self, buckets: int, **how: Any) -> None:
        plan = replace(self.plan((), 2, 1), buckets=buckets, cut_before=self.buckets)
        self.commit(plan, self.run(plan, **how))

    def purge(self, settled: Iterable[Event], **how: Any) -> None:
        """Tombstones below the greatest commit of these events, which have landed."""
        plan = replace(self.plan((), 2, 1), settled=self.land(0, settled))
        self.commit(plan, self.run(plan, **how))

    def tables(self) -> dict[int, pa.Table]:
        """By bucket, with the bucket's column."""
        return {
            n: pa.concat_tables(pq.ParquetFile(f.uri.removeprefix("file://")).read() for f in bucket.files)
            for n, bucket in self.base.items()
        }

    def standing(self) -> list[Event]:
        shape = Shape(self.plan((), 1, 1))
        return [e for rows in self.tables().values() for e in read_back(self.kinds, shape, rows)]
