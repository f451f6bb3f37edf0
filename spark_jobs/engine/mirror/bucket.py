"""The second step of an apply: the buckets of a task, one after another, become their new files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.engine.encodings import choose_encoding, sample_of
from spark_jobs.engine.failures import refuse
from spark_jobs.engine.mirror.base import read_base
from spark_jobs.engine.mirror.events import Handed, taken
from spark_jobs.engine.mirror.hashing import buckets_of
from spark_jobs.engine.mirror.merge import Merged, merge_bucket, unmerged
from spark_jobs.engine.mirror.numbers import mask_of
from spark_jobs.engine.mirror.purge import has_any, purged, swept
from spark_jobs.engine.mirror.shape import Shape
from spark_jobs.engine.rewrite.sources import GROUP_BYTES, GROUP_ROWS
from spark_jobs.engine.sinks import format_of
from spark_jobs.engine.sinks.bounds import bounds_of
from spark_jobs.engine.sinks.stored import leaf_ids
from spark_jobs.engine.write import bounds_uri
from tidegate.core.base.plain import dumps
from tidegate.core.batch.jobs import ApplyPlan
from tidegate.core.mirror.counts import Counts
from tidegate.core.mirror.jobs import Bucket, BucketDone, MirrorFile
from tidegate.core.mirror.recut import lumps
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
    also = {n for n in base if plan.visits_all and group.low <= n <= group.high}
    for number in sorted(events.keys() | also):
        one, kept_out = _merged(
            plan, shape, open_storage, base.get(number), number, events.pop(number, None), attempt, bounds
        )
        done.append(one)
        samples += kept_out
    _write_bounds(plan, open_storage, group, attempt, bounds)
    return GroupDone(tuple(done), tuple(samples))


def _write_bounds(
    plan: ApplyPlan, open_storage: Callable[[str], Any], group: Group, attempt: int, bounds: dict[str, Bounds]
) -> None:
    if not bounds:
        return
    uri = bounds_uri(plan.attempt_dir, f"{group.low:05d}-{group.high:05d}-{attempt}")
    with open_storage(plan.attempt_dir).open_new(uri) as sink:
        sink.write(dumps(bounds).encode())


def recut_group(plan: ApplyPlan, open_storage: Callable[[str], Any], group: Group, attempt: int) -> GroupDone:
    """Cut the lumps of a task into the plan's buckets (`core.mirror.recut`): in memory is one lump. Raises JobError."""
    shape, ids, bounds = Shape(plan), dict(plan.fields), dict[str, Bounds]()
    count, done = lumps(plan), list[BucketDone]()
    for lump in range(group.low, group.high + 1):
        base = [b for b in plan.base if b.number % count == lump]
        if not base:
            continue
        rows = pa.concat_tables([read_base(shape, ids, open_storage, b, plan.cut_before) for b in base])
        numbers = buckets_of([rows[name] for name in shape.key], plan.buckets)
        for number in range(lump, plan.buckets, count):
            mine = rows.filter(mask_of(numbers == number))
            files, found = _files(plan, shape, open_storage, number, mine, attempt)
            bounds |= found
            if files:
                tombstones = sum(f.tombstones for f in files)
                done.append(BucketDone(number, True, Counts(), files, len(mine), tombstones))
    _write_bounds(plan, open_storage, group, attempt, bounds)
    return GroupDone(tuple(done))


def _merged(
    plan: ApplyPlan,
    shape: Shape,
    open_storage: Callable[[str], Any],
    bucket: Bucket | None,
    number: int,
    events: pa.Table | None,
    attempt: int,
    bounds: dict[str, Bounds],
) -> tuple[BucketDone, tuple[str, ...]]:
    ids = dict(plan.fields)
    if plan.drops and bucket is not None and not has_any(shape, ids, open_storage, bucket, plan):
        return _untouched(bucket), ()
    rows = read_base(shape, ids, open_storage, bucket, plan.buckets)
    before = len(rows)
    if plan.sweep and not plan.whole:
        merged = swept(shape, rows, plan.swept_below, plan.part)
    elif plan.settled:
        merged = purged(shape, rows, plan.purged_below)
    else:
        merged = unmerged(shape, rows) if events is None else merge_bucket(shape, rows, events, plan.purged_below)
    if plan.whole:
        merged = _as_a_whole(plan, shape, rows, merged)
    now = merged.rows
    del rows, events
    files, found = _files(plan, shape, open_storage, number, now, attempt)
    bounds |= found
    changed, counts = now is not None, merged.counts
    done = BucketDone(number, changed, counts, files, before, merged.tombstones_before, merged.purged, merged.swept)
    return done, merged.below_purge


def _as_a_whole(plan: ApplyPlan, shape: Shape, rows: pa.Table, merged: Merged) -> Merged:
    """What a day writes of a bucket: all of it, changed or not; without what a copy of the source has not found, or
    without old tombstones."""
    now = rows if merged.rows is None else merged.rows
    left = swept(shape, now, plan.swept_below, plan.part) if plan.sweep else purged(shape, now, plan.purge_to)
    return replace(merged, rows=now if left.rows is None else left.rows, purged=left.purged, swept=left.swept)


def _files(
    plan: ApplyPlan,
    shape: Shape,
    open_storage: Callable[[str], Any],
    number: int,
    rows: pa.Table | None,
    attempt: int,
) -> tuple[tuple[MirrorFile, ...], dict[str, Bounds]]:
    """What is written of a bucket, with the bounds of each file by its path."""
    made = [
        one
        for part, some in _parts(plan, shape, rows)
        for one in _written(plan, shape, open_storage, number, part, some, attempt)
    ]
    return tuple(file for file, _ in made), {file.path: found for file, found in made if found is not None}


def _untouched(bucket: Bucket) -> BucketDone:
    """A bucket in which a purge has found nothing: how many other tombstones it has, nobody has counted."""
    return BucketDone(bucket.number, False, Counts(), (), sum(f.rows for f in bucket.files))


def _parts(plan: ApplyPlan, shape: Shape, rows: pa.Table | None) -> Iterator[tuple[str, pa.Table]]:
    """What goes into files of its own, and how those are called."""
    if rows is None:
        return
    if not plan.whole:
        yield "part", rows
        return
    deleted = shape.deleted(rows)
    yield "part", rows.filter(pc.invert(deleted))
    yield "gone", rows.filter(deleted)


def _written(
    plan: ApplyPlan,
    shape: Shape,
    open_storage: Callable[[str], Any],
    number: int,
    part: str,
    rows: pa.Table,
    attempt: int,
) -> Iterator[tuple[MirrorFile, Bounds | None]]:
    """The bucket's files: a further one once one has reached the plan's size."""
    stored = shape.with_bucket(rows, number)
    groups = list(_row_groups(stored))
    storage, file_number = open_storage(plan.attempt_dir), 0
    while groups:
        path = f"bucket-{number:05d}/{part}-{attempt}-{file_number:04d}{_extension(plan)}"
        with storage.open_new(join(plan.attempt_dir, path)) as sink:
            made = _file(plan, shape, number, path, sink, groups)
        yield made
        file_number += 1


def _file(
    plan: ApplyPlan, shape: Shape, number: int, path: str, sink: Any, groups: list[pa.Table]
) -> tuple[MirrorFile, Bounds | None]:
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
    known = not plan.whole  # bounds go by field ids
    found = bounds_of(writer.footer, leaf_ids(shape.stored)) if known else None  # type: ignore[attr-defined]
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
