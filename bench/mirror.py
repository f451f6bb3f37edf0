"""What a merge into a keyed table costs: events into a table of a million rows, in one process, without Spark.

    python -m bench.mirror [--rows 1000000] [--events 10000,100000,1000000] [--buckets 64]

A row has a bigint key, eight columns beside it, and the columns of every mirror. Two thirds of the events change rows
that are there, a third bring new keys, and a tenth are deletes. CPU is that of this process: user and system.
"""

from __future__ import annotations

import argparse
import functools
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs import apply
from spark_jobs.engine.types import TIMESTAMP
from tests.field_paths import field_paths
from tidegate.core.base.plain import loads
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.mirror.counts import add_up
from tidegate.core.mirror.jobs import BUCKET, ApplyReceipt, BaseFile, Bucket, EventFile, N, TableColumn
from tidegate.core.spec.change_events import EVENT_COLUMNS
from tidegate.core.spec.pipeline import KAFKA_COLUMNS
from tidegate.storage.local import LocalStorage

OWN = (
    ("id", "bigint"), ("customer", "string"), ("email", "string"), ("city", "string"), ("total", "decimal(12,2)"),
    ("pieces", "int"), ("at", "timestamp"), ("note", "string"), ("paid", "boolean"),
)  # fmt: skip
EVENT = tuple((name, kind) for name, kind, _ in EVENT_COLUMNS)
LOGICAL = (*OWN, *EVENT, *KAFKA_COLUMNS)


def landed(rng: np.random.Generator, keys: np.ndarray, batch: int, first: int, deletes: float) -> pa.Table:
    """Events of these keys, in the order of their positions."""
    count = len(keys)
    deleted = rng.random(count) < deletes
    city = pa.array([f"city {n}" for n in range(300)])
    words = pa.array([f"some words about order {n}" for n in range(5_000)])
    name = pa.array([f"customer {n}" for n in range(50_000)])
    order = np.arange(count) + first

    def picked(of: pa.Array) -> pa.Array:
        return of.take(pa.array(rng.integers(0, len(of), count)))

    cents = pa.array(rng.integers(100, 10_000_000, count))
    columns: dict[str, Any] = {
        "id": pa.array(keys),
        "customer": picked(name),
        "email": pa.array([f"{k}@example.org" for k in keys.tolist()]),
        "city": picked(city),
        "total": pa.array(cents).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2)),
        "pieces": pa.array(rng.integers(1, 20, count).astype("int32")),
        "at": pa.array(1_700_000_000_000_000 + order * 1_000_000).cast(TIMESTAMP),
        "note": picked(words),
        "paid": pa.array(rng.random(count) < 0.5),
    }
    gone = pa.array(deleted)
    columns = {n: c if n == "id" else pa.compute.if_else(gone, pa.scalar(None, c.type), c) for n, c in columns.items()}
    columns |= {
        "_op": pa.compute.if_else(gone, "d", "u"),
        "_position_commit": pa.array(order + (7 << 40)),
        "_position_row": pa.array(np.zeros(count, "int64")),
        "_source_ms": pa.array(order + 1_700_000_000_000),
        "_topic": pa.repeat("shop.public.orders", count),
        "_partition": pa.array((order % 4).astype("int32")),
        "_offset": pa.array(order),
        "_kafka_ts": pa.array(1_700_000_000_000_000 + order * 1_000).cast(TIMESTAMP),
        "_batch_id": pa.repeat(batch, count),
    }
    return pa.table([columns[n] for n, _ in LOGICAL], [n for n, _ in LOGICAL])


def table_columns() -> tuple[TableColumn, ...]:
    own = [TableColumn("_kafka_partition" if n == "_partition" else n, kind, n) for n, kind in LOGICAL]
    at = len(OWN) + len(EVENT)
    return (TableColumn(BUCKET, "int"), *own[:at], TableColumn(N, "bigint"), *own[at:])


def plan_of(
    folder: str, batch: int, file: EventFile, base: Sequence[Bucket], buckets: int, newest_ms: int = 0
) -> ApplyPlan:
    columns = table_columns()
    paths = [path for c in columns for path in field_paths(c.name, c.type)]
    return ApplyPlan(
        attempt=f"{batch}-{batch}.1-bench", attempt_dir=f"file://{folder}/apply/{batch}", nonce="bench", topic="orders",
        pipeline={"sink": {"compression": "zstd"}}, first=batch, last=batch, key=("id",), buckets=buckets,
        events=(file,), base=tuple(base), columns=columns, fields=tuple((p, n) for n, p in enumerate(paths, 1)),
        newest_ms=newest_ms,
    )  # fmt: skip


def cpu() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def run(plan: ApplyPlan, how: Callable[[ApplyPlan], str]) -> tuple[ApplyReceipt, float, float]:
    started, before = time.monotonic(), cpu()
    how(plan)
    spent, wall = cpu() - before, time.monotonic() - started
    return loads(ApplyReceipt, LocalStorage().read(f"{plan.attempt_dir}/_receipt.json")), spent, wall


def committed(plan: ApplyPlan, receipt: ApplyReceipt) -> list[Bucket]:
    found = {b.number: b for b in plan.base}
    for b in receipt.buckets:
        if b.changed:
            files = tuple(BaseFile(f"{plan.attempt_dir}/{f.path}", f.rows, f.bytes) for f in b.files)
            found[b.number] = Bucket(b.number, files)
    return list(found.values())


def land(folder: str, batch: int, events: pa.Table) -> EventFile:
    path = f"{folder}/landed/{batch}.parquet"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pq.write_table(events, path, compression="zstd")
    return EventFile(batch, f"file://{path}", len(events))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--events", default="10000,100000,1000000")
    parser.add_argument("--buckets", type=int, default=64)
    wanted = parser.parse_args(arguments)
    folder = tempfile.mkdtemp(prefix="tidegate-mirror-")
    here = functools.partial(apply.carry_out, storage=LocalStorage())
    try:
        rng = np.random.default_rng(7)
        first = land(folder, 1, landed(rng, rng.permutation(wanted.rows), 1, 0, 0))
        plan = plan_of(folder, 1, first, (), wanted.buckets)
        receipt, spent, wall = run(plan, here)
        base, newest_ms = committed(plan, receipt), receipt.newest_ms
        size = sum(f.bytes for b in base for f in b.files)
        print(f"base: {wanted.rows:,} rows inserted, {spent:.2f} s CPU ({spent / wanted.rows * 1e6:.1f} us each), "
              f"{wall:.2f} s; {len(base)} buckets, {size / 1e6:,.0f} MB")  # fmt: skip
        for batch, count in enumerate(map(int, wanted.events.split(",")), 2):
            known = rng.integers(0, wanted.rows, count - count // 3)
            keys = rng.permutation(np.concatenate([known, wanted.rows + np.arange(count // 3)]))
            file = land(folder, batch, landed(rng, keys, batch, wanted.rows, 0.1))
            plan = plan_of(folder, batch, file, base, wanted.buckets, newest_ms)
            receipt, spent, wall = run(plan, here)
            counts = add_up(b.counts for b in receipt.buckets)
            rows = sum(f.rows for b in receipt.buckets for f in b.files)
            print(f"{count:>9,} events: {spent:6.2f} s CPU, {spent / count * 1e6:8.1f} us an event, "
                  f"{spent / rows * 1e6:5.2f} us a row written, {wall:6.2f} s; {counts}")  # fmt: skip
            stands = {"base": tuple(committed(plan, receipt)), "newest_ms": receipt.newest_ms}
            again = replace(plan, attempt_dir=f"{plan.attempt_dir}-again", **stands)
            receipt, spent, wall = run(again, here)
            print(f"          once more: {spent:6.2f} s CPU, {spent / count * 1e6:8.1f} us an event, {wall:6.2f} s; "
                  f"{sum(b.changed for b in receipt.buckets)} buckets changed")  # fmt: skip
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory of this process, which has also made the events: {peak:,.0f} MB")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
