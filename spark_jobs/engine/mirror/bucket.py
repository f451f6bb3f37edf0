"""The second step of an apply: the buckets of a task, one after another, become their new files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.encodings import choose_encoding, sample_of
from spark_jobs.engine.failures import refuse
from spark_jobs.engine.mirror.base import read_base
from spark_jobs.engine.mirror.events import Handed, taken
from spark_jobs.engine.mirror.merge import merge_bucket
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.rewrite.sources import GROUP_BYTES, GROUP_ROWS
from spark_jobs.engine.sinks import format_of
from spark_jobs.engine.sinks.bounds import bounds_of
from spark_jobs.engine.sinks.stored import leaf_ids
from spark_jobs.engine.write import bounds_uri
from tidegate.core.base.plain import dumps
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.mirror.jobs import Bucket, BucketDone, MirrorFile
from tidegate.core.target.paths import join
from tidegate.core.target.stored import Bounds

FORMAT = "parquet"


@dataclass(frozen=True)
class Group:
    """The work of a task: buckets `low` to `high`, inclusive, and what has been handed over for them."""

    low: int
    high: int
    handed: tuple[Handed, ...]


@dataclass(frozen=True)
class GroupDone:
    buckets: tuple[BucketDone, ...]
    below_purge: tuple[str, ...] = ()


def merge_group(plan: ApplyPlan, open_storage: Callable[[str], Any], group: Group, attempt: int) -> GroupDone:
    """Merge the events of each of the buckets, and write the files of those that they change. Raises JobError."""
    shape, base, bounds = Shape(plan), {b.number: b for b in plan.base}, dict[str, Bounds]()
    done: list[BucketDone] = []
    samples: list[str] = []
    events = taken(open_storage, group.handed, group.low, group.high)
    for number in sorted(events):
        one, kept_out = _merged(
            plan, shape, open_storage, base.get(number), number, events.pop(number), attempt, bounds
        )
        done.append(one)
        samples += kept_out
    if bounds:
        with open_storage(plan.attempt_dir).open_new(
            bounds_uri(plan.attempt_dir, f"{group.low:05d}-{group.high:05d}-{attempt}")
        ) as sink:
            sink.write(dumps(bounds).encode())
    return GroupDone(tuple(done), tuple(samples))


def _merged(
    plan: ApplyPlan,
    shape: Shape,
    open_storage: Callable[[str], Any],
    bucket: Bucket | None,
    number: int,
    events: pa.Table,
    attempt: int,
    bounds: dict[str, Bounds],
) -> tuple[BucketDone, tuple[str, ...]]:
    rows = read_base(shape, dict(plan.fields), open_storage, bucket, plan.buckets)
    before = len(rows)
    merged = merge_bucket(shape, rows, events, plan.purged_below)
    del rows, events
    files: list[MirrorFile] = []
    if merged.rows is not None:
        written = _written(plan, shape, open_storage, number, merged.rows, attempt)
        for file, found in written:
            files.append(file)
            bounds[file.path] = found
    done = BucketDone(number, merged.rows is not None, merged.counts, tuple(files), before, merged.tombstones_before)
    return done, merged.below_purge


def _written(
    plan: ApplyPlan, shape: Shape, open_storage: Callable[[str], Any], number: int, rows: pa.Table, attempt: int
) -> Iterator[tuple[MirrorFile, Bounds]]:
    """The bucket's files: a further one once one has reached the plan's size."""
    stored = shape.with_bucket(rows, number)
    groups = list(_row_groups(stored))
    storage, file_number = open_storage(plan.attempt_dir), 0
    while groups:
        path = f"bucket-{number:05d}/part-{attempt}-{file_number:04d}{_extension(plan)}"
        with storage.open_new(join(plan.attempt_dir, path)) as sink:
            made = _file(plan, shape, number, path, sink, groups)
        yield made
        file_number += 1


def _file(
    plan: ApplyPlan, shape: Shape, number: int, path: str, sink: Any, groups: list[pa.Table]
) -> tuple[MirrorFile, Bounds]:
    """Takes the row groups that it writes from `groups`."""
    encoding = choose_encoding(sample_of(groups[0]))
    writer = format_of(FORMAT).open(sink, shape.stored, encoding, _codec(plan))
    count = tombstones = 0
    while groups and (not count or writer.size() < plan.target_file_size):
        rows = groups.pop(0)
        writer.write(rows)
        count += len(rows)
        tombstones += pc.sum(shape.deleted(rows)).as_py() or 0
    told = writer.close({"tidegate.kind": "mirror", "tidegate.bucket": str(number), "tidegate.attempt": plan.attempt})
    if told != count:
        raise refuse(f"{path}: {told} rows in the file, {count} written", retry=True)
    found = bounds_of(writer.footer, leaf_ids(shape.stored))  # type: ignore[attr-defined]
    return MirrorFile(path, sink.tell(), count, tombstones), found


def _row_groups(rows: pa.Table) -> Iterator[pa.Table]:
    size = max(1, min(GROUP_ROWS, len(rows) * GROUP_BYTES // max(1, rows.nbytes)))
    for at in range(0, len(rows), size):
        yield rows.slice(at, size)


def _codec(plan: ApplyPlan) -> str:
    return str(plan.pipeline["sink"].get("compression", "zstd"))


def _extension(plan: ApplyPlan) -> str:
    return format_of(FORMAT).extension(_codec(plan))


def cut(weights: Sequence[tuple[int, int]], groups: int) -> list[tuple[int, int]]:
    """Neighbouring (bucket, weight) as at most so many stretches of about one weight: (first, last), inclusive."""
    left = sum(weight for _, weight in weights)
    found: list[tuple[int, int]] = []
    low, mine = 0, 0
    for i, (bucket, weight) in enumerate(weights):
        mine += weight
        rest = groups - len(found)
        if mine * rest >= left or i == len(weights) - 1:
            found.append((weights[low][0], bucket))
            low, left, mine = i + 1, left - mine, 0
    return found
